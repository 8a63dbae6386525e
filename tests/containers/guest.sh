# In a guest of tests/guest, which has every cgroup v2 controller: the cases of a container that owns its cgroup.
set -eu
SBX_TEST_TIME_FACTOR=${SBX_TEST_TIME_FACTOR:-12} exec python3 /guest/tree/tests/containers/run.py \
  --binary "$SBX" --busybox /guest/files/busybox --as root -k 'cgroup' -v --table
