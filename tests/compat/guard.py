#!/usr/bin/env python3
"""guard.py SECONDS COMMAND…: runs COMMAND, bounded in time, and ends whatever it left running, wherever that went. The exit
status is COMMAND's; 124 when its time was over."""

import ctypes
import os
import signal
import subprocess
import sys

PR_SET_CHILD_SUBREAPER = 36


def children():
    found = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children") as file:
            found += [int(pid) for pid in file.read().split()]
    return found


def main():
    # Orphans become our children instead of init's, so none is missed.
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    process = subprocess.Popen(sys.argv[2:], start_new_session=True)
    try:
        status = process.wait(float(sys.argv[1]))
    except subprocess.TimeoutExpired:
        print(f"guard.py: not over after {sys.argv[1]} seconds", file=sys.stderr)
        status = 124
    while children():
        for pid in children():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
