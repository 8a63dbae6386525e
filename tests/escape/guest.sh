#!/bin/bash
# For a guest, whose kernel may be harmed: tests/guest/run_guest.py debian12 --script tests/escape/guest.sh
# A piped core_pattern starts a helper as root of the host for each core. The helper here leaves a mark.
set -u
fail() { echo "FAIL $*"; exit 1; }
work=$(mktemp -d)
chmod 755 "$work"
printf '#!/bin/sh\ncat > /dev/null\ntouch %s/started-for-$1\n' "$work" > "$work/helper"
chmod 755 "$work/helper"
before=$(cat /proc/sys/kernel/core_pattern)
trap 'echo "$before" > /proc/sys/kernel/core_pattern' EXIT
echo "|$work/helper %P" > /proc/sys/kernel/core_pattern

# The control first: without a sandbox the helper is started, whatever the soft limit of 0 says.
(ulimit -c unlimited; "$PROBE" raise 6) &
wait $!
for _ in $(seq 100); do [ -e "$work"/started-for-* ] && break; sleep 0.1; done
ls "$work"/started-for-* > /dev/null 2>&1 || fail "the control: the helper was not started for a bare abort"
rm -f "$work"/started-for-*

for policy in default strict judge build network; do
  "$SBX" exec $([ "$policy" = default ] || echo --policy "$policy") --mount "$PROBE:/opt/probe" -- /opt/probe raise 6
  [ $? = 134 ] || fail "policy $policy: the payload did not end by SIGABRT"
done
# A second control is the mark that all earlier ones had time to appear before.
(ulimit -c unlimited; "$PROBE" raise 6) &
wait $!
for _ in $(seq 100); do [ -e "$work"/started-for-* ] && break; sleep 0.1; done
count=$(ls "$work" | grep -c started-for)
[ "$count" = 1 ] || fail "the helper was started $count times; once for the control is right"
echo "core_pattern: no helper for five aborts inside, one for each abort outside"
