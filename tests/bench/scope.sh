#!/bin/bash
# What a cgroup costs a start under systemd, for which a guest is needed:
#   tests/guest/run_guest.py debian12 --as root,session-user --script tests/bench/scope.sh
exec python3 - "$SBX" <<'END'
import os
import random
import statistics
import sys
import time

rows = {"cgroup": ["--require", "cgroup"], "none": ["--cgroup-parent", "none"]}
times = {name: [] for name in rows}
for number in range(62):
    for name in random.sample(list(rows), len(rows)):
        argv = [sys.argv[1], "exec", *rows[name], "--", "true"]
        began = time.perf_counter()
        _, status = os.waitpid(os.posix_spawn(argv[0], argv, os.environ), 0)
        took = time.perf_counter() - began
        if status != 0:
            sys.exit(f"{name}: wait status {status}")
        if number >= 2:  # the first ones warm up
            times[name].append(took * 1e3)
for name, values in times.items():
    print(f"{name}: median {statistics.median(values):.1f} ms, least {min(values):.1f} ms")
for what, of in (("medians", statistics.median), ("least", min)):
    print(f"with a cgroup / without, {what}: {of(times['cgroup']) / of(times['none']):.2f}")
END
