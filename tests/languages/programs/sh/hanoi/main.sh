#!/bin/sh
# Towers of Hanoi by recursion with positional parameters; checks every move against the rules.
moves=0
a= b= c=
top() { eval "set -- \$$1"; echo "${1:-99}"; }
move() {
  disk=$(top "$1")
  [ "$disk" -lt "$(top "$2")" ] || { echo "illegal move $1 $2"; exit 1; }
  eval "$1=\"\${$1#* }\""
  eval "$2=\"$disk \$$2\""
  moves=$((moves + 1))
}
hanoi() {
  [ "$1" -eq 0 ] && return
  hanoi $(($1 - 1)) "$2" "$4" "$3"
  move "$2" "$3"
  hanoi $(($1 - 1)) "$4" "$3" "$2"
}
n=${1:-5}
i=$n
while [ "$i" -gt 0 ]; do a="$i $a"; i=$((i - 1)); done
hanoi "$n" a c b
echo "$moves moves; a: ${a:-empty} b: ${b:-empty} c: $c"
