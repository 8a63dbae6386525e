#!/bin/sh
# A ledger on stdin: deposits and withdrawals by account; POSIX shell only.
set -eu
total=0 bad=0
accounts=
while IFS=' ' read -r verb account amount rest; do
  case $verb in
    '' | '#'*) continue ;;
    deposit) sign=1 ;;
    withdraw) sign=-1 ;;
    *) echo "unknown verb: $verb" >&2; bad=$((bad + 1)); continue ;;
  esac
  case $amount in
    '' | *[!0-9]*) echo "not an amount: '$amount'" >&2; bad=$((bad + 1)); continue ;;
  esac
  eval "old=\${account_$account:-}"
  [ -n "$old" ] || accounts="$accounts $account"
  new=$((${old:-0} + sign * amount))
  if [ "$new" -lt 0 ]; then
    echo "$account would be overdrawn by $((-new))"
    new=$old
  fi
  eval "account_$account=\$new"
done
for account in $accounts; do
  eval "value=\$account_$account"
  printf '%-8s%6d\n' "$account" "$value"
  total=$((total + value))
done
echo "total $total, $bad bad lines"
[ "$bad" -eq 0 ] || exit 4
