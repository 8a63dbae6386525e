"""What could be left behind on a machine, counted before and after: shared by tests/leak.py, tests/session_stress.py, tests/faults and
tests/soak/soak.py. And what one long-lived process holds: memory, descriptors, children."""

import collections
import os
import pathlib
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "integration"))
import harness  # noqa: E402

# Directories of sbx's own tests, which may run beside this one.
TEST_FILES = re.compile(r"^sbx-(tests|leak|soak|stress|differential|bench|budget|fuzz|faults|compat|guest)-|-test-")


def text_of(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


def namespace_of(pid, kind):
    return _link(f"/proc/{pid}/ns/{kind}")


def foreign_sandboxes(binary):
    ours = os.fsencode(str(binary))
    return any(os.path.basename(line.split(b"\0")[0]) == b"sbx" and ours not in line
               for line in (text_of(f"/proc/{p}/cmdline") for p in os.listdir("/proc") if p.isdigit()))


def is_foreign(pid, binary):
    """A living sbx of somebody else's, whatever name it was called by; a build machine is shared."""
    line = text_of(f"/proc/{pid}/cmdline")
    return os.path.basename(line.split(b"\0")[0]).startswith((b"sbx", b"bwrap", b"nsjail")) and os.fsencode(str(binary)) not in line


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


LEASES = "/run/sbx/uids"


def lock_ranges(text, file):
    """(first, last) of each lock on the file of that device and inode in lines of /proc/locks or of a descriptor's fdinfo."""
    found = collections.Counter()
    for line in text.decode().splitlines():
        words = line.removeprefix("lock:").split()
        if len(words) >= 8 and words[0].endswith(":") and words[-3] == file:
            found[tuple(words[-2:])] += 1
    return found


def leases_held(known, binary):
    """The uids that are leased, one byte of the file each, but for those of the processes `known` and of other people's. The
    kernel does not say in /proc/locks whose such a lock is."""
    try:
        state = os.stat(LEASES)
    except OSError:
        return frozenset()
    file = f"{os.major(state.st_dev):02x}:{os.minor(state.st_dev):02x}:{state.st_ino}"
    held = set(lock_ranges(text_of("/proc/locks"), file))
    for pid in (name for name in os.listdir("/proc") if name.isdigit()):
        if pid in known or os.fsencode(str(binary)) not in text_of(f"/proc/{pid}/cmdline"):
            for descriptor in _listed(f"/proc/{pid}/fd"):
                if _link(f"/proc/{pid}/fd/{descriptor}") == LEASES:
                    held -= set(lock_ranges(text_of(f"/proc/{pid}/fdinfo/{descriptor}"), file))
    return frozenset(held & set(lock_ranges(text_of("/proc/locks"), file)))  # some have ended meanwhile


def _listed(path):
    try:
        return os.listdir(path)
    except OSError:
        return []


def belongs_elsewhere(group, known, binary, started):
    """A sandbox's cgroup bears the pid of its supervisor: sbx-NAMESPACE-PID-START-N."""
    words = group.split("-")
    return len(words) == 5 and words[2].isdigit() and (words[2] in known or is_foreign(words[2], binary) or started is not None and f"{words[2]}-{words[3]}" not in started)


def birth(pid):
    """PID-START, as in the name of a cgroup; pids come round again."""
    words = text_of(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return f"{pid}-{words[19].decode() if len(words) > 19 else ''}"


class Held:
    """What a long-lived process holds now."""

    def __init__(self, pid):
        text = text_of(f"/proc/{pid}/smaps_rollup").decode()
        self.private = sum(int(kib) for kib in re.findall(r"^Private_(?:Clean|Dirty):\s+(\d+) kB", text, re.MULTILINE))  # KiB
        status = text_of(f"/proc/{pid}/status").decode()
        self.resident = sum(int(kib) for kib in re.findall(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE))
        self.threads = sum(int(n) for n in re.findall(r"^Threads:\s+(\d+)", status, re.MULTILINE))
        self.descriptors = len(_listed(f"/proc/{pid}/fd"))
        self.children = len(harness.children_of(pid))


class Count:
    """Everything that is counted, as comparable sets and numbers. `lasting`: supervisors that are meant to be there all the
    time; what they start is no leak. `started`: the births of all processes that were started here, where they are known; then what a supervisor
    of somebody else's that is dead has left is not counted either."""

    def __init__(self, marker, binary, lasting=(), started=None):
        self.values = {}
        named, binary = binary, os.fsencode(str(binary))
        known = {str(pid) for supervisor in lasting for pid in harness.process_tree(supervisor)}
        pids = [name for name in os.listdir("/proc") if name.isdigit() and name not in known]
        self.values["processes of the runs"] = frozenset(
            p for p in pids if binary in text_of(f"/proc/{p}/cmdline") or marker in text_of(f"/proc/{p}/environ"))
        # Zombies have no command line; ours would be children of this driver.
        self.values["children of the driver"] = len(harness.children_of(os.getpid()))
        self.values["mounts"] = tuple(sorted(line.split(b" ", 1)[1].split(b" ", 1)[1] for line in text_of("/proc/self/mountinfo").splitlines()))
        self.values["descriptors of the driver"] = len(os.listdir("/proc/self/fd"))
        for directory in ("/tmp", "/run", "/dev/shm", "/var/tmp", "/run/lock") + tuple(map(str, pathlib.Path("/run/user").glob("*"))):
            self.values[f"files in {directory}"] = frozenset(n for n in _listed(directory) if "sbx" in n and not TEST_FILES.search(n))
        self.values["uid leases held"] = leases_held(known, named)
        # Other sandboxes may live on this machine meanwhile: those have a parent outside. What is left behind has lost it.
        orphans = [pid for pid in pids if is_orphan(pid)]
        for kind in ("net", "mnt", "pid", "user"):
            self.values[f"{kind} namespaces without a supervisor"] = frozenset(filter(None, (namespace_of(pid, kind) for pid in orphans)))
        groups = set()
        for root in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup"):
            for directory, names, _files in os.walk(root):
                groups.update(os.path.join(directory, n) for n in names if "sbx" in n and not belongs_elsewhere(n, known, named, started))
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


def settled(before, count, seconds, patient_seconds, foreigners):
    """What differs from `before` once there was time to end: other people's sandboxes may live on this machine meanwhile, so
    that while there are any the longer time holds. `count()` counts anew."""
    began = time.monotonic()
    while True:
        differences = before.differences(count())
        passed = time.monotonic() - began
        if not differences or (passed > seconds and not foreigners()) or passed > patient_seconds:
            return differences
        time.sleep(0.05)
