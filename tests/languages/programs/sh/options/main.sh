#!/bin/sh
# Options by getopts, parameter expansion, functions with results, traps.
usage() { echo "usage: options [-v] [-n COUNT] [-o NAME] WORD..." >&2; exit 64; }
verbose=0 count=1 name=default
while getopts :vn:o: option; do
  case $option in
    v) verbose=$((verbose + 1)) ;;
    n) count=$OPTARG ;;
    o) name=$OPTARG ;;
    :) echo "-$OPTARG wants a value"; usage ;;
    ?) echo "no option -$OPTARG"; usage ;;
  esac
done
shift $((OPTIND - 1))
echo "verbose $verbose, count $count, name '$name', $# words"
for word do
  i=0
  while [ $i -lt "$count" ]; do printf '%s ' "$word"; i=$((i + 1)); done
done
echo
path=/usr/share/doc/file.tar.gz
echo "${path##*/} ${path%/*} ${path%%.*} ${path#*.} ${#path} ${unset_value:-none} ${path:+set}"
trap 'echo "leaving with $?"' EXIT
(exit 3) || echo "a subshell ended with $?"
set -- -x
OPTIND=1
getopts :vn:o: option
case $option in ?) usage ;; esac
