#!/usr/bin/env python3
"""How far beyond its memory limit a program gets before it is stopped, by what holds the limit.

    tests/bench/overshoot.py --binary build/sbx [--rounds 5] [--memory 256M]

Each attack runs with `--cgroup-parent none` (sampling), and, where one is to be had, with a cgroup. Printed: the most
that was in use when the run was ended (shared pages counted once), as the program itself last told, beyond the limit.
The programs extend a sparse file that is shared with them to as many bytes as they have touched; what sbx reports as the peak
is not what is measured. Bounded: no attack takes more than three times the limit (more would meet RLIMIT_DATA, the backstop of sampling, first).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

MIB = 1 << 20
HEAD = """import os, mmap, sys, time
LIMIT = %d
def told(n): os.ftruncate(1, n)
"""
ATTACKS = {
    "heap, one process": """
b = mmap.mmap(-1, LIMIT * 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, LIMIT * 3, 4096):
    b[at] = 1
    if at & 0xfffff == 0: told(at)
""",
    "heap, in blocks": """
kept = []
for n in range(LIMIT * 3 >> 20):
    kept.append(b"x" * (1 << 20)); told(n << 20)
""",
    "shared, touched by children that die": """
kept = []
for n in range(LIMIT * 3 >> 24):
    m = mmap.mmap(-1, 1 << 24); kept.append(m)
    pid = os.fork()
    if pid == 0:
        for at in range(0, 1 << 24, 4096):
            m[at] = 1
            if at & 0xfffff == 0: told((n << 24) + at)
        os._exit(0)
    os.waitpid(pid, 0)
""",
    "files on the private disk, then heap": """
f = open("/tmp/f", "wb", buffering=0); n = 0
while n < LIMIT // 2: n += f.write(b"x" * (1 << 20)); told(n)
b = mmap.mmap(-1, LIMIT * 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, LIMIT * 3, 4096):
    b[at] = 1
    if at & 0xfffff == 0: told(n + at)
""",
    "200 processes at once": """
r, w = os.pipe()
m = mmap.mmap(-1, 200 * 8)
for i in range(200):
    if os.fork() == 0:
        os.read(r, 1)
        b = mmap.mmap(-1, LIMIT * 3 // 200, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for at in range(0, len(b), 4096):
            b[at] = 1
            if at & 0xffff == 0: m[i * 8:i * 8 + 8] = at.to_bytes(8, "little")
        time.sleep(60)
os.write(w, b"x" * 200)
while True:
    told(sum(int.from_bytes(m[i * 8:i * 8 + 8], "little") for i in range(200)))
    time.sleep(0.001)
""",
}


def attack(binary, code, flags, limit, memory):
    with tempfile.NamedTemporaryFile() as result:
        directory = tempfile.mkdtemp(prefix="sbx-overshoot-")
        tally = os.path.join(directory, "tally")
        open(tally, "w").close()
        program = (HEAD % limit).replace("os.ftruncate(1, n)", "os.ftruncate(TALLY, n)").replace(
            "def told", "TALLY = os.open('/tally', os.O_WRONLY)\ndef told") + code
        try:
            subprocess.run([binary, "run", "--memory", memory, "--disk", str(limit * 3 // 4), "--time", "60s", "--pids", "256", "--file-size", "none",
                            "--result", result.name, "--mount", f"{tally}:/tally:rw", *flags, "--lang", "python", "-c", program],
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
            with open(result.name) as file:
                outcome = json.load(file)
            return os.stat(tally).st_size, outcome
        finally:
            os.unlink(tally)
            os.rmdir(directory)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default="build/sbx")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", type=int, default=256, help="MiB")
    options = parser.parse_args()
    limit = options.memory * MIB
    done = subprocess.run([options.binary, "exec", "--require", "cgroup", "--", "true"], stderr=subprocess.DEVNULL)
    ways = {"sampling": ["--cgroup-parent", "none"]}
    if done.returncode == 0:
        ways["cgroup"] = []
    failed = False
    print(f"| attack on --memory {options.memory}M | held by | beyond the limit, median (most), MiB | verdicts |")
    print("|---|---|---|---|")
    for name, code in ATTACKS.items():
        for way, flags in ways.items():
            beyond, verdicts = [], set()
            for _ in range(options.rounds):
                used, outcome = attack(options.binary, code, flags, limit, f"{options.memory}M")
                beyond.append((used - limit) / MIB)
                verdicts.add(outcome["verdict"])
            failed = failed or verdicts != {"out_of_memory"}
            print(f"| {name} | {way} | {statistics.median(beyond):.0f} ({max(beyond):.0f}) | {', '.join(sorted(verdicts))} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
