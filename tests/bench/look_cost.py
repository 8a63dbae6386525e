#!/usr/bin/env python3
"""What one look of the supervisor costs, by what holds the limits and how many processes there are.

    tests/bench/look_cost.py --binary build/sbx [--seconds 4]

The payload is N processes that sleep; the supervisor then does nothing but look, every 20 ms. Printed: its CPU time for each
look, in microseconds (/proc/PID/schedstat), and the share of one CPU that this is. Within the memory limit: no closer look.
"""
import argparse
import subprocess
import sys
import time

LOOK_SECONDS = 0.020
PAYLOAD = """
import os, signal, time
kept = bytearray(%d << 20)
for _ in range(%d - 1):
    if os.fork() == 0: signal.pause()
print("up", flush=True)
signal.pause()
"""


def cpu_ns(pid):
    with open(f"/proc/{pid}/schedstat") as file:
        return int(file.read().split()[0])


def measure(binary, flags, processes, mib, seconds):
    process = subprocess.Popen([binary, "run", "--memory", "1G", *flags, "--lang", "python", "-c", PAYLOAD % (mib, processes)],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        if process.stdout.readline() != b"up\n":
            raise SystemExit("look_cost.py: the payload did not start")
        began, before = time.monotonic(), cpu_ns(process.pid)
        time.sleep(seconds)  # what is measured is what happens meanwhile
        return (cpu_ns(process.pid) - before) / 1000 / ((time.monotonic() - began) / LOOK_SECONDS)
    finally:
        process.terminate()
        process.terminate()
        process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default="build/sbx")
    parser.add_argument("--seconds", type=float, default=4)
    options = parser.parse_args()
    there = subprocess.run([options.binary, "exec", "--require", "cgroup", "--", "true"], stderr=subprocess.DEVNULL).returncode == 0
    ways = {"sampling": ["--cgroup-parent", "none"], **({"cgroup": []} if there else {})}
    print("| processes | held by | one look, µs | share of a CPU |")
    print("|---|---|---|---|")
    for processes in (1, 10, 200):
        for way, flags in ways.items():
            spent = measure(options.binary, flags, processes, 64, options.seconds)
            print(f"| {processes} | {way} | {spent:.0f} | {spent / 1e6 / LOOK_SECONDS:.1%} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
