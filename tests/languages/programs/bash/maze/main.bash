#!/usr/bin/env bash
# Finds the shortest way through a maze from stdin, breadth first, and draws it.
mapfile -t maze
declare -A from=()
for y in "${!maze[@]}"; do
  for ((x = 0; x < ${#maze[y]}; x++)); do
    case ${maze[y]:x:1} in
      S) start=$x,$y ;;
      E) end=$x,$y ;;
    esac
  done
done
queue=("$start")
from[$start]=start
for ((head = 0; head < ${#queue[@]}; head++)); do
  place=${queue[head]}
  [[ $place == "$end" ]] && break
  IFS=, read -r x y <<< "$place"
  for step in 1,0 0,1 -1,0 0,-1; do
    IFS=, read -r dx dy <<< "$step"
    nx=$((x + dx)) ny=$((y + dy)) next=$((x + dx)),$((y + dy))
    ((ny >= 0 && ny < ${#maze[@]} && nx >= 0)) || continue
    cell=${maze[ny]:nx:1}
    [[ -n $cell && $cell != '#' && ! -v from[$next] ]] || continue
    from[$next]=$place
    queue+=("$next")
  done
done
[[ -v from[$end] ]] || { echo "no way"; exit 1; }
steps=0 place=${from[$end]}
while [[ $place != "$start" ]]; do
  IFS=, read -r x y <<< "$place"
  maze[y]=${maze[y]:0:x}.${maze[y]:x+1}
  place=${from[$place]} steps=$((steps + 1))
done
printf '%s\n' "${maze[@]}"
echo "$((steps + 1)) steps, ${#from[@]} places seen"
