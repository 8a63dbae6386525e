#!/usr/bin/env bash
# lint.sh BUILD JOBS [CHECKS]: clang-tidy over our own sources, JOBS at a time, then pyflakes over all Python. C++ tests are left out: their
# framework's macros trip checks that were not made for them. The commands are those of the compiler in BUILD, so clang may not know a warning.
set -euo pipefail
build=$1 jobs=$2 checks=${3:-}  # e.g. -clang-analyzer-*: without the analyzer, a quarter of the time
tidy=$(command -v clang-tidy-14 || command -v clang-tidy)
find src tools -name '*.cc' | sort | xargs -P "$jobs" -n 1 "$tidy" -p "$build" --quiet ${checks:+"--checks=$checks"} \
  --extra-arg=-Wno-unknown-warning-option 2>&1 |
  { grep -vE '^[0-9]+ warnings? (generated|and)' || true; }
# A name that nothing defines shows only when that line runs, which in a long suite may be days later.
find . \( -path './build*' -o -path ./tests/languages/programs \) -prune -o -name '*.py' -print | sort | xargs pyflakes3
echo "lint: clean"
