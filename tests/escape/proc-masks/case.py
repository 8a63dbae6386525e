import os

from escape import Attack, Control


def run(t):
    code = r"""
import os
mounts = {}
for line in open("/proc/self/mountinfo"):
    left, right = line.split(" - ")
    mounts[left.split()[4]] = (left.split()[5].split(","), right.split()[0], left.split()[3])
for place in ("sys", "bus", "irq", "fs"):
    path = "/proc/" + place
    if os.path.isdir(path):
        print(path, mounts[path][1], "ro" if "ro" in mounts[path][0] else "RW")
for place in ("kcore", "keys", "kmsg", "timer_list", "sysrq-trigger", "cmdline", "locks", "interrupts"):
    path = "/proc/" + place
    if os.path.exists(path):
        info = os.stat(path)
        print(path, "null" if (os.major(info.st_rdev), os.minor(info.st_rdev)) == (1, 3) else "NOT MASKED")
for path, (options, kind, root) in sorted(mounts.items()):
    if kind not in ("proc", "devpts") and "nosuid" not in options: print(path, "SUID")
    if kind in ("sysfs", "debugfs", "tracefs", "securityfs", "cgroup", "bpf", "configfs", "fusectl", "binfmt_misc", "mqueue", "pstore", "efivarfs"): print(path, kind.upper())
print("/sys", sorted(os.listdir("/sys")) if os.path.isdir("/sys") else "absent")
print("/dev", sorted(os.listdir("/dev")))
"""
    done = t.python(code)
    t.expect(done)
    t.no_match(done.text, "[A-Z]{2,}", "a mask that is not one")
    t.match(done.text, "^/proc/sys proc ro$")
    t.match(done.text, "^/proc/keys null$" if os.path.exists("/proc/keys") else "")
    t.match(done.text, r"^/sys (absent|\['fs'\])$")
    t.match(done.text, r"^/dev \['fd', 'full', 'null', 'ptmx', 'pts', 'random', 'shm', 'stderr', 'stdin', 'stdout', 'urandom', 'zero'\]$")
    seen = "every mask is /dev/null or a read-only proc, nothing without nosuid, /sys holds at most the own cgroup, /dev twelve names"
    if not t.is_root:
        return seen, "not as this identity"
    shown = t.shell("stat -c %t:%T /hostproc/interrupts", "--allow-sensitive-mount", "--mount", "/proc:/hostproc")
    t.expect(shown, out="0:0\n")
    return seen, "--allow-sensitive-mount --mount /proc:/hostproc: interrupts is a file"


CASE = Attack("find a mask over /proc that is none, a mount without nosuid, or a kernel file system", "33, 79", "the mount table, read back from inside", run=run, needs="python",
              control=Control("--allow-sensitive-mount --mount /proc"))
