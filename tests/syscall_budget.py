#!/usr/bin/env python3
"""The system calls of one whole start, `sbx exec -- true`, against a budget that stands in a file.

    tests/syscall_budget.py --binary build/sbx [--as root,user] [--update]

strace counts sbx and its children until the payload's own program begins. A count above the budget fails: either it
is a mistake, or the reason goes into the commit that regenerates the file with --update. Fewer calls than budgeted are
reported, and do not fail. Skipped, with the reason, where ptrace cannot be had, and on hosts of which a payload sees
other files (rootfs/host.toml) than on the one that the budget was made on: each costs a few calls.
"""

import argparse
import collections
import glob
import hashlib
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "integration"))
import harness  # noqa: E402

FILE = harness.TESTS / "syscall-budget.json"
# How often these happen depends on scheduling, not on what sbx does.
UNSTABLE = {"epoll_wait", "epoll_ctl", "epoll_pwait", "restart_syscall", "futex", "sched_yield", "rt_sigreturn", "poll", "ppoll", "brk", "mmap", "munmap",
            "timerfd_settime"}
SLACK = 3  # for the unstable ones, on top of the budget
LINE = re.compile(r"^(\d+)\s+(?:(\w+)\(|<\.\.\. (\w+) resumed|(\+\+\+|---))")


def host_files():
    """A digest of which paths of the manifest this host has, and as what: they decide how many mounts there are."""
    lines = []
    patterns = re.findall(r'"(/[^"]+)"', (harness.ROOT / "rootfs" / "host.toml").read_text())
    for path in sorted({path for pattern in patterns for path in glob.glob(pattern)}):
        try:
            state = os.lstat(path)
        except OSError:
            continue
        small = stat.S_ISREG(state.st_mode) and state.st_size <= 16384  # those are copied
        lines.append(f"{path} {stat.S_IFMT(state.st_mode):o} {small} {state.st_mode & 0o004:o}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def count(identity, binary, directory):
    """Counts of the run with the fewest calls out of five: what scheduling adds is not sbx's doing."""
    best = None
    for _ in range(5):
        log = os.path.join(directory, "trace")
        open(log, "w").close()
        os.chmod(log, 0o666)
        done = subprocess.run(["strace", "-f", "-qq", "-o", log, str(binary), "exec", "--", "true"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=directory,
                              env={"PATH": harness.SYSTEM_PATH, "HOME": directory, "LANG": "C.UTF-8"}, timeout=60, **identity.popen_arguments())
        if done.returncode:
            return None, (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"])[-1]
        counts = collections.Counter()
        first_exec, payload = True, set()
        for line in open(log, errors="replace"):
            match = LINE.match(line)
            if not match:
                continue
            pid, name = match.group(1), match.group(2) or match.group(3)
            if not name or pid in payload:
                continue
            if match.group(2):
                counts[name] += 1
            # The end of an execve may stand in a later "resumed" line.
            if name in ("execve", "execveat") and line.rstrip().endswith(" = 0"):
                if first_exec:
                    first_exec = False  # strace's own start of sbx
                else:
                    payload.add(pid)
        if best is None or sum(counts.values()) < sum(best.values()):
            best = counts
    return best, ""


def main():
    parser = argparse.ArgumentParser(description="Compares the system calls of one start with their budget.")
    parser.add_argument("--binary", default=str(harness.ROOT / "build" / "sbx"))
    parser.add_argument("--as", dest="identities", default="root,user")
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    if not harness.have("strace"):
        print("syscall budget: skipped: needs strace")
        return 0
    if subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        print("syscall budget: skipped: ptrace is not available here")
        return 0
    budgets = json.loads(FILE.read_text()) if FILE.exists() else {}
    if options.update:
        budgets = {"host": host_files()}
    elif budgets.get("host") != host_files():
        print("syscall budget: skipped: the budget was made on a host with other files in /etc; --update makes one for this")
        return 0
    passed = failed = 0
    for identity in harness.make_identities(options.identities.split(",")):
        directory = tempfile.mkdtemp(prefix="sbx-budget-")
        try:
            os.chmod(directory, 0o755)
            if os.geteuid() == 0:
                os.chown(directory, identity.uid, identity.gid)
            binary = os.path.join(directory, "sbx")
            shutil.copy2(options.binary, binary)
            os.chmod(binary, 0o755)
            counts, problem = count(identity, binary, directory)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        if counts is None:
            print(f"FAIL syscall budget [{identity.label}]: the start failed under strace: {problem}")
            failed += 1
            continue
        total = sum(v for k, v in counts.items() if k not in UNSTABLE)
        print(f"syscall budget [{identity.label}]: {total} calls of {len(counts)} kinds (waits not counted)")
        if options.update:
            budgets[identity.label] = dict(sorted(counts.items()))
            continue
        budget = budgets.get(identity.label)
        if budget is None:
            print(f"FAIL syscall budget [{identity.label}]: no budget in {FILE.name}; make one with --update")
            failed += 1
            continue
        above = False
        for name in sorted(set(counts) | set(budget)):
            allowed = budget.get(name, 0) + (SLACK if name in UNSTABLE else 0)
            if counts[name] > allowed:
                print(f"FAIL syscall budget [{identity.label}]: {name}: {counts[name]}, budget {budget.get(name, 0)}")
                above = True
            elif counts[name] < budget.get(name, 0) and name not in UNSTABLE:
                print(f"  {name}: {counts[name]}, fewer than the budget of {budget[name]}: lower it with --update")
        passed, failed = passed + (not above), failed + above
    if options.update:
        FILE.write_text(json.dumps(budgets, indent=1, sort_keys=True) + "\n")
        print(f"wrote {FILE}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
