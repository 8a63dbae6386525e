#!/bin/sh
# Primes by a chain of filters, the numbers of a sum by a co-process through two fifos.
set -eu
sieve() {
  if read -r prime; then
    echo "$prime"
    [ "$prime" -gt 12 ] && { cat; return; }
    awk -v p="$prime" '$1 % p' | sieve
  fi
}
i=2
primes=$(while [ $i -lt 150 ]; do echo $i; i=$((i + 1)); done | sieve)
echo $primes
echo "$primes" | wc -l | tr -d ' '
mkfifo ask answer
while read -r a b; do echo $((a * b)); done < ask > answer &
exec 3> ask 4< answer
for pair in '6 7' '12 12' '99 101'; do
  echo "$pair" >&3
  read -r product <&4
  echo "$pair -> $product"
done
exec 3>&- 4<&-
wait
