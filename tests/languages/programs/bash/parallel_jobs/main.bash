#!/usr/bin/env bash
# Jobs in the background, a fifo between them, wait -n and traps.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"; echo "cleaned up"' EXIT
mkfifo "$work/results"

square() {
  local n=$1
  echo "$n $((n * n))" > "$work/results"
  [ "$n" -ne 7 ] # one of them fails on purpose
}

sort -n < "$work/results" > "$work/sorted" &
reader=$!
exec 9> "$work/results" # keeps the fifo open until all have written
for n in {1..10}; do square "$n" & jobs_[n]=$!; done
failed=0
for n in "${!jobs_[@]}"; do
  wait "${jobs_[n]}" || { failed=$((failed + 1)); echo "job $n failed"; }
done
exec 9>&-
wait "$reader"
total=0
while read -r n square; do total=$((total + square)); done < "$work/sorted"
echo "$(wc -l < "$work/sorted") results, sum $total, $failed failed"
exec 3< <(echo "from a process substitution")
read -r -u 3 text && echo "$text"
trap 'echo "got a signal"' USR1
kill -USR1 $$
exit 5
