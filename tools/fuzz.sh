#!/bin/sh
# fuzz.sh BUILD SECONDS: runs every fuzzer of BUILD/fuzz for SECONDS, from tests/fuzz/corpus/NAME where that exists.
set -eu
build=$1 seconds=$2
found=0
for fuzzer in "$build"/fuzz/*_fuzz; do
  [ -x "$fuzzer" ] || continue
  found=1
  name=$(basename "$fuzzer" _fuzz)
  mkdir -p "$build/corpus/$name" "$build/findings"
  seeds="tests/fuzz/corpus/$name"
  [ -d "$seeds" ] || seeds=""
  echo "== $name"
  # shellcheck disable=SC2086 # no seeds: no argument
  "$fuzzer" -max_total_time="$seconds" -artifact_prefix="$build/findings/$name-" -print_final_stats=1 \
    "$build/corpus/$name" $seeds
done
[ "$found" -eq 1 ] || { echo "there are no fuzzers in tests/fuzz" >&2; exit 1; }
