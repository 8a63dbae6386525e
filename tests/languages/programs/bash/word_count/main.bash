#!/usr/bin/env bash
# Counts words of stdin with an associative array; the most frequent ones first.
set -euo pipefail
shopt -s lastpipe
declare -A count=()
declare -i lines=0
while IFS= read -r line; do
  lines+=1
  line=${line,,}
  for word in ${line//[^a-zäöü]/ }; do
    count[$word]=$((${count[$word]:-0} + 1))
  done
done
echo "$lines lines, ${#count[@]} words"
for word in "${!count[@]}"; do
  printf '%d %s\n' "${count[$word]}" "$word"
done | sort -k1,1nr -k2 | head -n "${1:-3}" | while read -r n word; do
  printf '%-8s %s\n' "$word" "$(printf '%*s' "$n" '' | tr ' ' '#')"
done
