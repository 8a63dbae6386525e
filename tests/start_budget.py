#!/usr/bin/env python3
"""What one start of `sbx exec` costs, in system calls and in instructions, against a budget that stands in a file.

    tests/start_budget.py --binary build/sbx [--as root,user] [--update] [--self-test]

Times say nothing on a busy machine; counts do. They are taken in a root that is made for it (a tmpfs with an /etc of its
own and one program, without a cgroup), so that what the host has installed does not count. A start that is 4 % dearer
than the budget fails: either it is a mistake, or the reason goes into the commit that regenerates the file with
--update. A cheaper one is reported, and does not fail.

system calls     strace, of sbx and its children until the payload's program begins; waits and what scheduling decides left
                 out. Kernels differ by a few: entries of /proc that there are to be covered.
instructions     valgrind (callgrind), of the supervisor from main() until clone3 or open_tree, which valgrind does not know;
                 the start ends there. They depend on the compiler and its library: the budget holds the one that it
                 was made with, and with another this part is skipped.

Needs root, for mounts in a namespace of its own.
"""

import argparse
import collections
import ctypes
import json
import os
import pathlib
import platform
import re
import shutil
import stat
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "integration"))
import harness  # noqa: E402

FILE = harness.TESTS / "start-budget.json"
TOLERANCE = 1.04
# How often these happen depends on scheduling, or on the memory allocator's moods.
UNSTABLE = {"epoll_wait", "epoll_ctl", "epoll_pwait", "restart_syscall", "futex", "sched_yield", "rt_sigreturn", "poll", "ppoll", "brk", "mmap", "munmap",
            "timerfd_settime"}
COMMAND = ["/sbx", "exec", "--cgroup-parent", "none", "--", "/usr/bin/calls", "drain", "0"]
TOOL = pathlib.Path("/usr/libexec/valgrind")
LINE = re.compile(r"^(\d+)\s+(?:(\w+)\(|<\.\.\. (\w+) resumed|(\+\+\+|---))")
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 0x00020000, 0x1000, 0x4000, 1 << 18, 2
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

# What the default view takes of a small host: binds, copies, links.
FOLDERS = ("usr/bin", "usr/lib", "usr/lib64", "usr/sbin", "etc/ssl/certs", "etc/alternatives", "etc/ld.so.conf.d", "etc/fonts", "etc/perl",
           "var/cache/fontconfig", "proc", "dev", "sys", "tmp", "run", "home/user", "root", "valgrind")
FILES = {"etc/ld.so.cache": 20000, "etc/ld.so.conf": 34, "etc/timezone": 8, "etc/protocols": 3000, "etc/services": 12000, "etc/mime.types": 70000,
         "etc/inputrc": 1900, "etc/shadow": 100, "etc/motd": 100}
LINKS = {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64", "sbin": "usr/sbin", "etc/localtime": "/usr/share/zoneinfo/Etc/UTC"}
PASSWD = "root:x:0:0:root:/root:/bin/sh\n" + "".join(f"system{n}:x:{n}:{n}::/nonexistent:/bin/false\n" for n in range(1, 20))


def check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def enter_made_root(root, binary, calls, uid, gid):
    """This process's root becomes one that is the same on every host. Mounts are those of a namespace of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    check(libc.unshare(CLONE_NEWNS), "unshare")
    check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "mount --make-rprivate")
    check(libc.mount(b"none", root.encode(), b"tmpfs", 0, b"mode=0755"), "mount tmpfs")
    os.umask(0o022)
    for folder in FOLDERS:
        os.makedirs(os.path.join(root, folder))
    for name, size in FILES.items():
        pathlib.Path(root, name).write_bytes(b"#" * (size - 1) + b"\n")
    os.chmod(os.path.join(root, "etc/shadow"), 0o600)
    for name, text in LINKS.items():
        os.symlink(text, os.path.join(root, name))
    pathlib.Path(root, "etc/passwd").write_text(PASSWD + f"user:x:{uid or 1234}:{gid or 1234}::/home/user:/bin/sh\n")
    for source, name in ((binary, "sbx"), (calls, "usr/bin/calls")):
        shutil.copy2(source, os.path.join(root, name))
        os.chmod(os.path.join(root, name), 0o755)
    os.chown(os.path.join(root, "home/user"), uid, gid)
    os.chmod(os.path.join(root, "tmp"), 0o1777)
    places = ["/proc", "/sys"] + [f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx")]
    for place in places:
        target = root + place
        if stat.S_ISCHR(os.stat(place).st_mode):
            pathlib.Path(target).touch()
        check(libc.mount(place.encode(), target.encode(), None, MS_BIND | (MS_REC if place in ("/proc", "/sys") else 0), None), f"bind {place}")
    if TOOL.is_dir():
        check(libc.mount(str(TOOL).encode(), f"{root}/valgrind".encode(), None, MS_BIND, None), "bind valgrind")
    os.chdir(root)
    check(libc.syscall(PIVOT_ROOT[platform.machine()], b".", b"."), "pivot_root")
    check(libc.umount2(b".", MNT_DETACH), "umount the old root")
    os.chdir("/")


def inside(words):
    """`start_budget.py --inside ROOT BINARY CALLS UID GID COMMAND…`: enters the made root, then is the command."""
    root, binary, calls, uid, gid, *command = words
    uid, gid = int(uid), int(gid)
    log = os.open(os.environ["SBX_BUDGET_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666) if "SBX_BUDGET_LOG" in os.environ else -1
    enter_made_root(root, binary, calls, uid, gid)
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if log >= 0:
        os.dup2(log, 2)
    home = "/root" if uid == 0 else "/home/user"
    env = {"PATH": "/usr/bin:/bin", "HOME": home, "LANG": "C.UTF-8", "VALGRIND_LIB": "/valgrind", "VALGRIND_LAUNCHER": "/valgrind/valgrind"}
    os.execve(command[0], command, env)


class Counter:
    def __init__(self, identity, options, directory):
        self.identity, self.directory = identity, directory
        os.mkdir(os.path.join(directory, "root"))
        calls = pathlib.Path(options.binary).resolve().parent / "tests" / "calls"
        self.enter = [sys.executable, os.path.abspath(__file__), "--inside", os.path.join(directory, "root"), os.path.abspath(options.binary), str(calls), str(identity.uid), str(identity.gid)]

    def run(self, argv, env=None):
        return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/", env=dict(os.environ, **(env or {})), timeout=120)

    def calls(self):
        """Counts of the run with the fewest calls out of six: what scheduling adds is not sbx's doing."""
        best = None
        log = os.path.join(self.directory, "trace")
        for _ in range(6):
            done = self.run(["strace", "-f", "-qq", "-o", log, *self.enter, *COMMAND])
            if done.returncode:
                return None, f"the start failed under strace: {(done.stderr.decode('utf-8', 'replace').strip().splitlines() or ['no message'])[-1]}"
            counts = self.count(pathlib.Path(log).read_text(errors="replace"))
            if best is None or sum(counts.values()) < sum(best.values()):
                best = counts
        return best, ""

    @staticmethod
    def count(text):
        counts = collections.Counter()
        begun, payload = False, set()
        for line in text.splitlines():
            match = LINE.match(line)
            if not match:
                continue
            pid, name = match.group(1), match.group(2) or match.group(3)
            if not name or pid in payload:
                continue
            succeeded = line.rstrip().endswith(" = 0")
            if name == "execve" and not begun:
                begun = 'execve("/sbx"' in line and succeeded
                continue
            if not begun:
                continue
            if match.group(2):
                counts[name] += 1
            # The end of an execve may stand in a later "resumed" line.
            if name in ("execve", "execveat") and succeeded:
                payload.add(pid)
        return counts

    def instructions(self):
        machine = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
        log = os.path.join(self.directory, f"log-{self.identity.label}")
        self.run([*self.enter, f"/valgrind/callgrind-{machine}-linux", "--toggle-collect=main", "--callgrind-out-file=/dev/null", *COMMAND],
                 env={"SBX_BUDGET_LOG": log})
        text = pathlib.Path(log).read_text(errors="replace") if os.path.exists(log) else ""
        found = re.search(r"Collected\s*:\s*(\d+)", text)
        if found is None or int(found.group(1)) == 0:
            return None, f"valgrind says: {(text.strip().splitlines() or ['nothing'])[-1]}"
        return int(found.group(1)), ""


def compiler_of(binary):
    """The newest compiler that the binary's comment names: its library's code and its own is what is counted."""
    done = subprocess.run(["readelf", "-p", ".comment", str(binary)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    found = re.findall(r"(GCC|clang version)[^\d]*(\d+)\.", done.stdout.decode(errors="replace"))
    return " ".join(sorted({f"{name.split()[0]} {major}" for name, major in found})) + f" {platform.machine()}"


def above(count, budget):
    return count > budget * TOLERANCE


def judge(label, what, count, budget, details):
    """True: within the budget."""
    print(f"start budget [{label}]: {count} {what}, budget {budget} ({(count / budget - 1) * 100:+.1f} %)")
    if not above(count, budget):
        if count < budget / TOLERANCE:
            print("  fewer than budgeted: lower it with --update")
        return True
    print(f"FAIL start budget [{label}]: more {what} than {(TOLERANCE - 1) * 100:.0f} % above the budget")
    for line in details:
        print(f"  {line}")
    return False


def self_test():
    text = '1  execve("/x", []) = 0\n1  read(3) = 1\n1  execve("/sbx", []) = 0\n1  read(3) = 1\n2  openat(1) = 2\n2  execve("/y", []) = 0\n2  read(0) = 0\n'
    counts = Counter.count(text)
    if counts != {"read": 1, "openat": 1, "execve": 1}:
        print(f"FAIL start budget: counts {dict(counts)}")
        return 1
    if above(1000, 1000) or above(1040, 1000) or not above(1050, 1000):
        print("FAIL start budget: a start that is 5 % dearer is not noticed")
        return 1
    return 0


def main():
    if sys.argv[1:2] == ["--inside"]:
        return inside(sys.argv[2:])
    parser = argparse.ArgumentParser(description="Compares what one start costs with its budget.")
    parser.add_argument("--binary", default=str(harness.ROOT / "build" / "sbx"))
    parser.add_argument("--as", dest="identities", default="root,user")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    if os.geteuid() != 0:
        print("start budget: skipped: needs root, for mounts of its own")
        return 0
    budgets = json.loads(FILE.read_text()) if FILE.exists() and not options.update else {}
    compiler = compiler_of(options.binary)
    can_trace = harness.have("strace") and subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    can_count = TOOL.is_dir() and (options.update or budgets.get("compiler") == compiler)
    if not can_trace:
        print("start budget: system calls skipped: needs strace, and ptrace")
    if not can_count:
        print("start budget: instructions skipped: " + ("needs valgrind" if not TOOL.is_dir() else f"the budget was made with {budgets.get('compiler')}, this is {compiler}"))
    passed = failed = 0
    new = {"compiler": compiler}
    for identity in harness.make_identities(options.identities.split(",")):
        directory = tempfile.mkdtemp(prefix="sbx-budget-")
        os.chmod(directory, 0o777)
        budget, mine = budgets.get(identity.label, {}), {}
        try:
            counter = Counter(identity, options, directory)
            parts = ([("system calls", counter.calls)] if can_trace else []) + ([("instructions", counter.instructions)] if can_count else [])
            for what, work in parts:
                counted, problem = work()
                if counted is None:
                    print(f"FAIL start budget [{identity.label}]: {what}: {problem}")
                    failed += 1
                    continue
                mine[what] = dict(sorted(counted.items())) if what == "system calls" else counted
                if options.update:
                    continue
                if what not in budget:
                    print(f"FAIL start budget [{identity.label}]: no budget of {what} in {FILE.name}; make one with --update")
                    failed += 1
                    continue
                details = []
                total, allowed = counted, budget[what]
                if what == "system calls":
                    total, allowed = (sum(n for name, n in each.items() if name not in UNSTABLE) for each in (counted, budget[what]))
                    details = [f"{name}: {counted[name]}, budget {budget[what].get(name, 0)}" for name in sorted(counted)
                               if name not in UNSTABLE and counted[name] > budget[what].get(name, 0)]
                good = judge(identity.label, what, total, allowed, details)
                passed, failed = passed + good, failed + (not good)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        new[identity.label] = mine
    if options.update:
        if not (can_trace and can_count):
            print("start budget: not written: both parts are needed for it")
            return 1
        FILE.write_text(json.dumps(new, indent=1, sort_keys=True) + "\n")
        print(f"wrote {FILE}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
