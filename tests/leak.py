#!/usr/bin/env python3
"""Nothing is left behind: many runs with every kind of end, and counts of everything that could leak, before and after.

    tests/leak.py --binary build/sbx [--runs 200] [--kills 30] [--as root,user] [--seed N]

The full proof is --runs 2000 --kills 300. Counted: processes, mounts, this driver's own descriptors, temporary files,
uid leases, network and other namespaces, cgroup directories. After the last run one more `sbx exec -- true` is made:
what a killed supervisor left on disk is gone after the next command at the latest.
"""

import argparse
import collections
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "integration"))
import harness  # noqa: E402

# The kinds of end: name, arguments, wanted exit statuses.
KINDS = [
    ("exit", ["--", "/bin/sh", "-c", "exit 7"], {7}),
    ("signal", ["--", "/bin/sh", "-c", "kill -SEGV $$"], {139}),
    ("time limit", ["--time", "100ms", "--", "/bin/sh", "-c", "sleep 60 & sleep 60"], {124}),
    ("CPU time limit", ["--cpu-time", "100ms", "--", "/bin/sh", "-c", "while :; do :; done"], {124}),
    ("memory limit", ["--memory", "64M", "--disk", "16M", "--", "PROBE", "touch-memory", "512"], {137}),
    ("output limit", ["--output", "64K", "--", "yes"], {137}),
    ("set-up failure", ["--mount", "PROBE:/usr/bin/env/below", "--", "true"], {125}),
    ("command not found", ["--", "no-such-command"], {127}),
    ("filter", ["--", "PROBE", "x32"], {159}),
    ("daemon left", ["--", "/bin/sh", "-c", "(trap '' TERM HUP INT; setsid sleep 60 &) ; exit 0"], {0}),
    ("files left", ["--", "/bin/sh", "-c", "for i in 1 2 3 4; do mkdir d$i; head -c 100000 /dev/zero > d$i/f; done; mkfifo p; ln -s / l"], {0}),
    ("overlay", ["--workspace", "WORK:overlay", "--", "/bin/sh", "-c", "echo x > f; rm -f keep"], {0}),
    ("artifacts", ["--artifacts", "WORK/out", "--", "/bin/sh", "-c", "echo x > made"], {0}),
]


# Directories of sbx's own tests, which may run beside this one.
TEST_FILES = re.compile(r"^sbx-(tests|leak|differential|bench|budget)-|-test-")


def text_of(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def namespace_of(pid, kind):
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    except OSError:
        return ""


def foreign_sandboxes(binary):
    ours = os.fsencode(str(binary))
    return any(os.path.basename(line.split(b"\0")[0]) == b"sbx" and ours not in line
               for line in (text_of(f"/proc/{p}/cmdline") for p in os.listdir("/proc") if p.isdigit()))


def is_orphan(pid):
    """The first process of a pid namespace below ours whose parent is no program that makes sandboxes."""
    mine = namespace_of("self", "pid")
    words = text_of(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if len(words) < 2 or namespace_of(pid, "pid") in ("", mine):
        return False
    parent = words[1].decode()
    if parent == "0" or namespace_of(parent, "pid") != mine:
        return False
    return not re.search(rb"sbx|bwrap|unshare|floor", text_of(f"/proc/{parent}/cmdline"))


def units():
    """sbx's units that a systemd manager of ours still knows, dead ones too; empty where there is none."""
    if not os.path.isdir("/run/systemd/system"):
        return frozenset()
    found = set()
    for manager in ([], ["--user"]):
        done = subprocess.run(["systemctl", *manager, "list-units", "--all", "--plain", "--no-legend", "sbx-*"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, env={"PATH": harness.SYSTEM_PATH, "XDG_RUNTIME_DIR": f"/run/user/{os.getuid()}"}, text=True)
        found.update(line.split()[0] for line in done.stdout.splitlines() if line.strip())
    return frozenset(found)


class Count:
    """Everything that is counted, as comparable sets and numbers."""

    def __init__(self, marker, binary):
        self.values = {}
        binary = os.fsencode(str(binary))
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
        self.values["processes of the runs"] = frozenset(
            p for p in pids if binary in text_of(f"/proc/{p}/cmdline") or marker in text_of(f"/proc/{p}/environ"))
        # Zombies have no command line; ours would be children of this driver.
        self.values["children of the driver"] = len(harness.children_of(os.getpid()))
        self.values["mounts"] = tuple(sorted(line.split(b" ", 1)[1].split(b" ", 1)[1] for line in text_of("/proc/self/mountinfo").splitlines()))
        self.values["descriptors of the driver"] = len(os.listdir("/proc/self/fd"))
        for directory in ("/tmp", "/run", "/dev/shm", "/var/tmp", "/run/lock") + tuple(map(str, pathlib.Path("/run/user").glob("*"))):
            try:
                names = os.listdir(directory)
            except OSError:
                names = []
            self.values[f"files in {directory}"] = frozenset(n for n in names if "sbx" in n and not TEST_FILES.search(n))
        # Lease files may stay (a lock is what counts), leases held may not.
        held = set()
        for line in text_of("/proc/locks").decode().splitlines():
            words = line.split()
            if len(words) >= 6:
                held.add(words[-3])
        leases = []
        for path in pathlib.Path("/run/sbx").rglob("*") if os.path.isdir("/run/sbx") else []:
            try:
                state = path.stat()
            except OSError:
                continue
            if f"{os.major(state.st_dev):02x}:{os.minor(state.st_dev):02x}:{state.st_ino}" in held:
                leases.append(str(path))
        self.values["uid leases held"] = frozenset(leases)
        # Other sandboxes may live on this machine meanwhile: those have a parent outside. What is left behind has lost it.
        orphans = [pid for pid in pids if is_orphan(pid)]
        for kind in ("net", "mnt", "pid", "user"):
            self.values[f"{kind} namespaces without a supervisor"] = frozenset(filter(None, (namespace_of(pid, kind) for pid in orphans)))
        groups = set()
        for root in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup"):
            for directory, names, _files in os.walk(root):
                groups.update(os.path.join(directory, n) for n in names if "sbx" in n)
        self.values["cgroup directories"] = frozenset(groups)
        self.values["units of systemd"] = units()

    def differences(self, other):
        lines = []
        for key, before in self.values.items():
            after = other.values.get(key)
            if before == after:
                continue
            if isinstance(before, (frozenset, tuple)):
                more = collections.Counter(after) - collections.Counter(before)
                if more:  # what is gone is no leak: somebody's earlier remains, swept by a command of ours
                    lines.append(f"{key}: {len(before)} before, {len(after)} after; new: {list(more)[:5]}")
            else:
                lines.append(f"{key}: {before} before, {after} after")
        return lines


def run(identity, binary, probe, runs, kills, jobs, seed, base):
    marker = f"leak-{os.getpid()}-{identity.label}".encode()
    work = tempfile.mkdtemp(prefix="work-", dir=base)
    home = tempfile.mkdtemp(prefix="home-", dir=base)
    for path in (work, home, os.path.join(work, "keep")):
        if path.endswith("keep"):
            open(path, "w").close()
        if os.geteuid() == 0:
            os.chown(path, identity.uid, identity.gid)
    env = {"PATH": harness.SYSTEM_PATH, "HOME": home, "LEAK_MARKER": marker.decode(), "LANG": "C.UTF-8"}
    chance = random.Random(seed)
    lock = threading.Lock()
    failures, ends = [], collections.Counter()

    def start(arguments):
        words = [str(probe) if w == "PROBE" else w.replace("PROBE:", f"{probe}:").replace("WORK", work) for w in arguments]
        if "PROBE" in arguments:
            words[0:0] = ["--mount", str(probe)]
        return harness.Process([str(binary), "exec", "--env", f"LEAK_MARKER={marker.decode()}", *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, env=env, cwd=work, **identity.popen_arguments())

    # A long time for the kills' payloads, so that the instant decides where in its life sbx is hit.
    start_takes = 0.030 * harness.TIME_FACTOR
    plans = [("kind", KINDS[i % len(KINDS)], None) for i in range(runs - kills)]
    plans += [("kill", None, chance.random() * start_takes) for _ in range(kills)]
    plans += [("term", None, chance.random() * start_takes) for _ in range(max(4, kills // 4))]
    chance.shuffle(plans)

    def worker():
        while True:
            with lock:
                if not plans:
                    return
                what, kind, delay = plans.pop()
            if what == "kind":
                name, arguments, wanted = kind
                process = start(arguments)
                try:
                    _out, err = process.communicate(timeout=30)
                except subprocess.TimeoutExpired:
                    process.kill()
                    _out, err = process.communicate()
                    with lock:
                        failures.append(f"{name}: did not end")
                    continue
                status = harness.shell_status(process.returncode)
                with lock:
                    ends[name] += 1
                    if status not in wanted:
                        failures.append(f"{name}: status {status}, wanted {sorted(wanted)}: {err[-300:].decode('utf-8', 'replace').strip()}")
            else:
                process = start(["--", "/bin/sh", "-c", "(setsid sleep 60 &) ; sleep 60"])
                time.sleep(delay)  # the instant is what is varied
                process.send_signal(signal.SIGKILL if what == "kill" else signal.SIGTERM)
                try:
                    process.communicate(timeout=15)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
                    with lock:
                        failures.append(f"{what} after {delay * 1000:.1f} ms: sbx did not end")
                with lock:
                    ends[what] += 1

    # Whatever is made once and kept (caches, lease directories) is made before the first count.
    for arguments in (["--", "true"], KINDS[11][1]):
        start(arguments).communicate(timeout=30)
    before = Count(marker, binary)
    began = time.monotonic()
    threads = [threading.Thread(target=worker) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - began
    start(["--", "true"]).communicate(timeout=30)

    # Other people's sandboxes (a build machine is shared) hold leases and orphan nothing: they get time to end.
    end = time.monotonic() + 2 * harness.TIME_FACTOR
    patience = time.monotonic() + 30 * harness.TIME_FACTOR
    while True:
        differences = before.differences(Count(marker, binary))
        if not differences or (time.monotonic() > end and not foreign_sandboxes(binary)) or time.monotonic() > patience:
            break
        time.sleep(0.05)
    print(f"leak [{identity.label}]: {sum(ends.values())} runs in {seconds:.1f} s: " + ", ".join(f"{v} {k}" for k, v in sorted(ends.items())))
    for text, count in collections.Counter(failures).most_common(12):
        print(f"FAIL leak [{identity.label}]: {count} times: {text}")
    for text in differences:
        print(f"FAIL leak [{identity.label}]: {text}")
    return sum(ends.values()) - len(failures), len(failures) + len(differences)


def main():
    parser = argparse.ArgumentParser(description="Counts what runs with every kind of end leave behind.")
    parser.add_argument("--binary", default=str(harness.ROOT / "build" / "sbx"))
    parser.add_argument("--probe", default="")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--kills", type=int, default=-1, help="of the runs, ended by SIGKILL of sbx; default 15 %%")
    parser.add_argument("--as", dest="identities", default="root,user")
    parser.add_argument("-j", dest="jobs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    binary = pathlib.Path(options.binary).resolve()
    probe = pathlib.Path(options.probe).resolve() if options.probe else binary.parent / "tests" / "probe"
    kills = options.kills if options.kills >= 0 else options.runs * 15 // 100
    print(f"seed {options.seed}")
    passed = failed = 0
    base = tempfile.mkdtemp(prefix="sbx-leak-")
    os.chmod(base, 0o755)
    try:
        for source, name in ((binary, "sbx"), (probe, "probe")):
            shutil.copy2(source, os.path.join(base, name))
            os.chmod(os.path.join(base, name), 0o755)
        identities = harness.make_identities(options.identities.split(","))
        for identity in identities:
            ended, wrong = run(identity, pathlib.Path(base) / "sbx", pathlib.Path(base) / "probe", options.runs // len(identities), kills // len(identities),
                               options.jobs, options.seed, base)
            passed, failed = passed + ended, failed + wrong
    finally:
        shutil.rmtree(base, ignore_errors=True)
    print(f"leak: {'FAILED' if failed else 'nothing left'}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
