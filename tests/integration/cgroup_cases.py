"""Limits where a cgroup holds them: each with its hostile program, what the kernel counted, and nothing left behind.
Where no controller can be had these cases are skipped; sampling's are limit_cases.py."""

import json
import os
import pathlib
import signal
import subprocess

import harness
from harness import Failure, case

MIB = 1 << 20


def hostile(t, name, *flags, args=(), **more):
    return t.sbx("run", *flags, f"{t.hostile}/{name}.py", *args, result=True, **more)


def hit(done, name):
    for entry in done.result["limits_hit"]:
        if entry["name"] == name:
            return entry
    return {}


def cgroups_of(pid):
    """The leaves and scopes of one supervisor, by path."""
    found = []
    for directory, names, _files in os.walk("/sys/fs/cgroup"):
        found += [os.path.join(directory, name) for name in names if name.startswith("sbx-") and f"-{pid}-" in name]
    return found


def leaves_of(pid):
    return [path for path in cgroups_of(pid) if not path.endswith(".scope")]


def expect_out_of_memory(t, done, limit):
    t.expect(done, status=137, out="started\n", verdict="out_of_memory", hit="memory")
    t.equal(hit(done, "memory")["enforced_by"], "cgroup")
    peak = done.result["usage"]["peak_memory_bytes"]
    t.true(peak <= limit, f"peak {peak} beyond the limit {limit}\n{done.describe()}")
    t.true(peak > limit * 0.7, f"peak {peak} far below the limit {limit}\n{done.describe()}")


@case("memory, processes and CPUs are held by a cgroup, and the result says by which", needs="cgroup")
def holders(t):
    done = t.shell("ulimit -d; echo ran", "--cpus", "1.5", result=True)
    t.expect(done, out="unlimited\nran\n", verdict="exited")
    held = done.result["isolation"]["limits_held_by"]
    for name in ("memory", "pids", "cpus"):
        t.match(held[name], r"^cgroup v[12] ", f"what holds {name}")
    t.true("sampling" not in json.dumps(held), f"sampling is in use: {held}")
    t.match(done.result["usage"]["peak_memory_note"], "cgroup")
    t.match(done.result["usage"]["peak_pids_note"], "pids controller|counted by the cgroup")
    t.true(done.result["usage"]["peak_pids"] in (1, 2, None), f"{done.result['usage']}")
    stages = [stage["stage"] for stage in done.result["setup"]["stages"]]
    t.true("cgroup" in stages, f"no row for the cgroup in {stages}")


@case("the payload's cgroup namespace begins at its own cgroup", needs="cgroup")
def namespace(t):
    done = t.sbx("exec", "--", "cat", "/proc/self/cgroup")
    for line in done.text.splitlines():
        controllers, path = line.split(":", 2)[1:]
        if controllers in ("", "memory", "pids"):
            t.equal(path, "/", f"the path of {controllers or 'v2'}")


@case("memory by heap: the kernel ends it at the limit, not beyond", needs=("python", "cgroup"), seconds=40)
def heap(t):
    expect_out_of_memory(t, hostile(t, "heap", "--memory", "256M", "--disk", "64M"), 256 * MIB)


@case("memory by shared mappings of dead children ends at the limit", needs=("python", "cgroup"), seconds=40)
def shared(t):
    expect_out_of_memory(t, hostile(t, "shared", "--memory", "256M", "--disk", "64M"), 256 * MIB)


@case("memory by many processes ends at the limit", needs=("python", "cgroup"), seconds=40)
def many(t):
    expect_out_of_memory(t, hostile(t, "many", "--memory", "256M", "--disk", "64M"), 256 * MIB)


@case("memfds are allowed and counted", needs=("python", "cgroup"), seconds=40)
def memfd(t):
    expect_out_of_memory(t, hostile(t, "memfd", "--memory", "256M", "--disk", "64M"), 256 * MIB)
    t.expect(t.python("import os; print(os.write(os.memfd_create('m'), b'12345'))"), out="5\n")


SYSV = ("import ctypes\nL = ctypes.CDLL(None, use_errno=True)\nL.shmat.restype = ctypes.c_void_p\nprint('started', flush=True)\n"
        "for n in range(%d):\n    i = L.shmget(0, 16 << 20, 0o1600)\n    if i < 0: print('refused', ctypes.get_errno()); break\n"
        "    p = L.shmat(i, None, 0)\n    ctypes.memset(ctypes.c_void_p(p), 1, 16 << 20); L.shmdt(ctypes.c_void_p(p))\n"
        "else: print('all')\n")


@case("SysV segments are allowed and counted, attached or not", needs=("python", "cgroup"), seconds=40)
def sysv(t):
    t.expect(t.python(SYSV % 4, "--memory", "256M", "--disk", "64M"), out="started\nall\n")
    expect_out_of_memory(t, t.python(SYSV % 64, "--memory", "256M", "--disk", "64M", result=True), 256 * MIB)


@case("files in the private places count with the heap", needs=("python", "cgroup"), seconds=40)
def files_and_heap(t):
    code = ("print('started', flush=True)\nf = open('/tmp/f', 'wb')\nf.write(b'x' * (150 << 20)); f.flush()\n"
            "b = bytearray(150 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\nprint('not stopped')\n")
    expect_out_of_memory(t, t.python(code, "--memory", "256M", "--disk", "200M", result=True), 256 * MIB)


@case("the kernel's memory on the payload's behalf counts: full pipes", needs=("python", "cgroup"), seconds=40)
def pipes(t):
    control = hostile(t, "pipes", "--memory", "256M", "--disk", "8M")
    t.match(control.text, r"errno 24 MiB (2\d|3\d)$", "the same with memory enough")
    expect_out_of_memory(t, hostile(t, "pipes", "--memory", "32M", "--disk", "8M"), 32 * MIB)


@case("a child's death by memory ends the whole run, whatever the parent makes of it", needs=("python", "cgroup"), seconds=40)
def child_killed(t):
    code = ("import os, time\nprint('started', flush=True)\nif os.fork() == 0:\n    b = bytearray(512 << 20)\n    for i in range(0, len(b), 4096): b[i] = 1\n"
            "    os._exit(0)\nos.wait()\ntime.sleep(300)\nprint('survived')\n")
    expect_out_of_memory(t, t.python(code, "--memory", "128M", "--disk", "32M", result=True), 128 * MIB)


@case("a death by SIGKILL that no limit caused is not taken for memory", needs=("python", "cgroup"))
def self_kill(t):
    done = t.python("import os; os.kill(os.getpid(), 9)", "--memory", "128M", "--disk", "32M", result=True)
    t.expect(done, status=137, verdict="signaled")
    t.equal(done.limits_hit(), [])


@case("a program below its limit is left alone, page cache or not", needs=("python", "cgroup"), seconds=40)
def below(t):
    t.file("big", b"x" * (96 * MIB))
    code = "b = bytearray(40 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\nprint(len(open('/data', 'rb').read(1 << 20)))\nf = open('/data', 'rb')\nwhile f.read(1 << 20): pass\nprint('fine')"
    t.expect(t.python(code, "--memory", "80M", "--disk", "16M", "--mount", "big:/data", result=True), out="1048576\nfine\n", verdict="exited")


@case("refused forks are counted exactly", needs=("python", "cgroup"), seconds=40)
def forks_counted(t):
    code = ("import os, time\nrefused = made = 0\nwhile refused < 17:\n    try:\n        if os.fork() == 0: time.sleep(200); os._exit(0)\n        made += 1\n"
            "    except BlockingIOError: refused += 1\nprint(made, refused)\n")
    done = t.python(code, "--pids", "20", result=True)
    t.expect(done, out="19 17\n", verdict="exited", hit="pids")
    entry = hit(done, "pids")
    t.equal((entry["count"], entry["enforced_by"], entry["value"]), (17, "cgroup", "20"))
    t.true(done.result["usage"]["peak_pids"] in (20, None), f"{done.result['usage']}")


@case("a fork bomb is refused again and again, and counted", needs=("python", "cgroup"), seconds=40)
def fork_bomb(t):
    done = hostile(t, "forkbomb", "--pids", "64", "--time", t.slow("20s"))
    t.expect(done, status=9, out="refused 11\n", verdict="exited", hit="pids")
    t.true(hit(done, "pids")["count"] >= 10, done.describe())


@case("no process limit is hit where none was", needs="cgroup")
def forks_fine(t):
    t.equal(t.shell("for i in 1 2 3; do /bin/true & done; wait", "--pids", "20", result=True).limits_hit(), [])


SPIN = ("import time\nw, c = time.monotonic(), time.process_time()\nwhile time.monotonic() - w < 2.5: pass\n"
        "print((time.process_time() - c) / (time.monotonic() - w))\n")


@case("--cpus 0.5 gives half a CPU, measured", needs=("python", "cgroup"), alone=True)
def half_cpu(t):
    whole = float(t.python(SPIN, "--cpus", "1").text)
    half = float(t.python(SPIN, "--cpus", "0.5").text)
    fifth = float(t.python(SPIN, "--cpus", "0.2").text)
    t.true(half < 0.56, f"{half:.2f} of a CPU with --cpus 0.5")
    t.true(fifth < 0.25, f"{fifth:.2f} of a CPU with --cpus 0.2")
    t.true(half > 0.3 or whole < 0.7, f"{half:.2f} of a CPU with --cpus 0.5, though {whole:.2f} were to be had")


@case("--io bounds bytes a second from the workspace's disk; without it the same is quicker (control)", as_=("root",), needs=("python", "cgroup-v2", "disk"), seconds=40)
def io_limit(t):
    t.file("proj/big", os.urandom(4 * MIB))
    code = ("import mmap, os, time\nfd = os.open('big', os.O_RDONLY | os.O_DIRECT)\nm = mmap.mmap(-1, 1 << 20)\nbegan = time.monotonic()\n"
            "for n in range(4): os.preadv(fd, [m], n << 20)\nprint(time.monotonic() - began)\n")
    done = t.python(code, "--workspace", "proj", "--io", "1M", result=True)
    t.match(done.result["isolation"]["limits_held_by"]["io"], "^cgroup v2 io.max")
    slow, plain = float(done.text), float(t.python(code, "--workspace", "proj").text)
    t.true(slow > 2.5 and slow > 2 * plain, f"4 MiB took {slow:.1f} s with --io 1M, {plain:.1f} s without")


@case("--io is refused where no controller holds it, with the reason")
def io_refused(t):
    done = t.shell("echo ran", "--io", "1M", "--cgroup-parent", "none", result=True)
    t.expect(done, status=125, out="", err=r"^sbx: .*limits.io", verdict="setup_failed")


@case("the CPU time of processes that nobody waits for counts", needs=("python", "cgroup"), seconds=60)
def cpu_autoreap(t):
    limit = t.slow("1s")
    done = hostile(t, "autoreap", "--cpu-time", limit, "--time", "none")
    t.expect(done, status=124, out="started\n", verdict="cpu_time", hit="cpu_time")
    t.equal(hit(done, "cpu_time")["enforced_by"], "cgroup")
    used = done.result["usage"]["user_ms"] + done.result["usage"]["system_ms"]
    t.true(1 <= used / 1000 / t.slow(1) < 2, f"{used} ms of CPU time were used\n{done.describe()}")


@case("eight processes and their dead children count together against the CPU time", needs=("python", "cgroup"), seconds=60)
def cpu_spinners(t):
    done = hostile(t, "spinners", "--cpu-time", t.slow("1s"), "--time", "none")
    t.expect(done, status=124, out="started\n", verdict="cpu_time", hit="cpu_time")


@case("no cgroup is left behind, however a run ends", needs=("python", "cgroup"), seconds=60)
def nothing_left(t):
    for arguments in (["exec", "--", "true"], ["exec", "--time", "200ms", "--", "sleep", "60"], ["exec", "--", "/no/such/command"],
                      ["exec", "--", "/bin/sh", "-c", "setsid sleep 600 & exit 3"],
                      ["run", "--memory", "64M", "--disk", "16M", f"{t.hostile}/heap.py"]):
        process = t.spawn([t.binary, *arguments], stdin=subprocess.DEVNULL)
        process.communicate(timeout=30)
        t.equal(leaves_of(process.pid), [], f"left behind by {arguments}")
        # A user's scope is the manager's to remove, once it has seen that it is empty.
        t.wait_until(lambda: not cgroups_of(process.pid), 8, f"the scope of {arguments} removed")


@case("what a killed supervisor leaves is removed by the next run", needs="cgroup", seconds=40)
def killed(t):
    marker = f"killed-{t.dir.name}"
    process = t.spawn([t.binary, "exec", "--", "/bin/sh", "-c", f"echo up; sleep 600; : {marker}"], stdin=subprocess.DEVNULL)
    t.equal(process.stdout.readline(), b"up\n")
    before = leaves_of(process.pid)
    t.true(before, "the run has no cgroup that shows")
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    t.wait_until(lambda: not harness.processes_with(marker), 5, "the sandbox dead")
    t.sbx("exec", "--", "true")
    t.wait_until(lambda: not leaves_of(process.pid), 5, f"{before} removed")


@case("two runs at once have cgroups of their own", needs="cgroup", seconds=40)
def two(t):
    runs = [t.spawn([t.binary, "exec", "--", "/bin/sh", "-c", "echo up; exec sleep 600"], stdin=subprocess.DEVNULL) for _ in range(2)]
    for process in runs:
        t.equal(process.stdout.readline(), b"up\n")
    t.true(leaves_of(runs[0].pid) and leaves_of(runs[1].pid), "both have one")
    t.sbx("exec", "--", "true")  # cleans up after the dead, not the living
    t.true(leaves_of(runs[0].pid) and leaves_of(runs[1].pid), "both still have one")


@case("compile step and run have cgroups of their own, in one parent", needs=("g++", "cgroup"), seconds=90)
def compiled(t):
    path = t.file("a.cpp", "#include <cstdio>\nint main() { std::puts(\"42\"); }\n")
    done = t.sbx("run", path, result=True)
    t.expect(done, out="42\n", verdict="exited")
    t.match(done.result["isolation"]["limits_held_by"]["memory"], "cgroup")


@case("--cgroup-parent none leaves the limits to sampling, and says so")
def none(t):
    done = t.shell("echo ran", "--cgroup-parent", "none", result=True)
    t.expect(done, out="ran\n")
    t.match(done.result["isolation"]["limits_held_by"]["memory"], "sampling")
    t.match(" ".join(done.result["isolation"]["not_held"]), "--cgroup-parent none")


@case("--require cgroup is an error that names what is missing, where there is none")
def required(t):
    done = t.shell("echo ran", "--cgroup-parent", "none", "--require", "cgroup", result=True)
    t.expect(done, status=125, out="", err=r"^sbx: .*memory, pids, cpu")


@case("--require cgroup runs where there is one", needs="cgroup")
def required_there(t):
    t.expect(t.shell("echo ran", "--require", "cgroup"), out="ran\n")


@case("--cgroup-parent outside of the cgroup tree is wrong usage")
def wrong_parent(t):
    for path in ("/tmp", "/no/such"):
        t.expect(t.shell("echo ran", "--cgroup-parent", path), status=2, out="", err=r"^sbx: .*--cgroup-parent")


@case("--cgroup-parent makes the sandbox's cgroup there", as_=("root",), needs="cgroup-v2", seconds=40)
def named_parent(t):
    parent = pathlib.Path(f"/sys/fs/cgroup/sbx-named-{os.getpid()}")
    parent.mkdir()
    t.at_end(parent.rmdir)
    process = t.spawn([t.binary, "exec", "--cgroup-parent", str(parent), "--", "/bin/sh", "-c", "echo up; read x"])
    t.equal(process.stdout.readline(), b"up\n")
    inside = leaves_of(process.pid)
    t.true(len(inside) == 1 and inside[0].startswith(str(parent) + "/"), f"the leaf is {inside}")
    process.communicate(b"\n", timeout=20)
    t.equal([p.name for p in parent.iterdir() if p.is_dir()], [])


@case("--cgroup-parent with processes in it moves them aside", as_=("root",), needs="cgroup-v2", seconds=40)
def populated_parent(t):
    parent = pathlib.Path(f"/sys/fs/cgroup/sbx-full-{os.getpid()}")
    parent.mkdir()
    sleeper = subprocess.Popen(["sleep", "600"])

    def clean():
        sleeper.kill()
        sleeper.wait()
        (parent / "sbx-sup").rmdir()
        parent.rmdir()
    t.at_end(clean)
    (parent / "cgroup.procs").write_text(str(sleeper.pid))
    done = t.shell("echo ran", "--cgroup-parent", str(parent), result=True)
    t.expect(done, out="ran\n")
    t.match(done.result["isolation"]["limits_held_by"]["memory"], "cgroup v2")
    t.equal((parent / "sbx-sup/cgroup.procs").read_text(), f"{sleeper.pid}\n")


# ---- delegated subtrees

HELD = "cgroup v2 memory.max, cgroup v2 pids.max, cgroup v2 cpu.max"


def held_by(done):
    """What held the three limits of `sbx exec --json`, and that its payload ran."""
    try:
        held = json.loads(done.out)["isolation"]["limits_held_by"]
        return ", ".join(held[name].split(",")[0] for name in ("memory", "pids", "cpus"))
    except (ValueError, KeyError) as error:
        raise Failure(f"{error!r}\n{done.describe()}")


def own_cgroup(t, kind):
    """A cgroup below the root of the v2 tree, made by the driver as root."""
    path = pathlib.Path(f"/sys/fs/cgroup/sbx-{kind}-{os.getpid()}")
    path.mkdir()

    def clean():
        for directory in sorted((p for p in path.rglob("*") if p.is_dir()), reverse=True):
            directory.rmdir()
        path.rmdir()
    t.at_end(clean)
    return path


def in_container(t, cgroup, script):
    """Runs a script as a container's first process: a cgroup of its own that is all it sees of the tree. $0 is sbx."""
    enter = ("echo $$ > \"$2/cgroup.procs\" && exec unshare --cgroup --mount --propagation private /bin/bash -c "
             "'umount /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup && eval \"$1\"' \"$0\" \"$1\"")
    return t.run(["/bin/bash", "-c", enter, t.binary, script, str(cgroup)])


@case("alone in a container's cgroup that it may write, sbx makes room in it, again and again; only the place to stand aside stays",
      as_=("root",), needs=("cgroup-v2", "unshare"), seconds=40)
def container(t):
    cgroup = own_cgroup(t, "container")
    for _ in range(2):
        done = in_container(t, cgroup, 'exec "$0" exec --cpus 1.5 --json -- true')
        t.equal(held_by(done), HELD)
    t.equal([p.name for p in cgroup.iterdir() if p.is_dir()], ["sbx-sup"], "left in the container's cgroup")


@case("where a container has other processes, they move aside and stay there; the control: a cgroup without a namespace of its own",
      as_=("root",), needs=("cgroup-v2", "unshare"), seconds=40)
def container_shared(t):
    cgroup = own_cgroup(t, "shared")
    script = '"$0" exec --cpus 1.5 --json -- true; cat /proc/self/cgroup >&2'
    done = in_container(t, cgroup, script)
    t.equal(held_by(done), HELD)
    t.equal(done.err, b"0::/sbx-sup\n", "the shell's own cgroup")
    other = own_cgroup(t, "host")
    done = t.run(["/bin/bash", "-c", 'echo $$ > "$1/cgroup.procs" && eval "$2"', t.binary, str(other), script])
    t.equal(done.errors, f"0::/{other.name}\n", "the shell's own cgroup")


@case("--cgroup-parent below a subtree that was delegated to a user", as_=("root",), needs="cgroup-v2", seconds=40)
def delegated_parent(t):
    user = harness.make_identities(["user"])[0]
    top = own_cgroup(t, "delegated")
    boxes, stand = top / "boxes", top / "stand"
    for path in (top, boxes, stand):
        path.mkdir(exist_ok=True)
        for file in (path, path / "cgroup.procs", path / "cgroup.subtree_control", path / "cgroup.threads"):
            os.chown(file, user.uid, user.gid)
    for name in ("memory", "pids", "cpu"):
        (top / "cgroup.subtree_control").write_text(f"+{name}")
    def run(where):
        script = f'echo $$ > "{where}/cgroup.procs" && exec setpriv --reuid {user.uid} --regid {user.gid} --clear-groups "$0" exec --cpus 1.5 --cgroup-parent {boxes} --json -- true'
        return t.run(["/bin/bash", "-c", script, t.binary])
    t.equal(held_by(run(stand)), HELD)
    t.equal([p.name for p in boxes.iterdir() if p.is_dir()], [])
    # From elsewhere nobody but root may move a process in: said, and nothing runs.
    outside = own_cgroup(t, "outside")
    t.expect(run(outside), status=2, out_match='"setup_failed"', err=r"^sbx: .*cannot be entered")


@case("a service with Delegate=yes: its own cgroup holds the limits, for root and for an account without a manager", as_=("root",),
      needs=("cgroup-v2", "systemd"), seconds=60)
def delegated_service(t):
    user = harness.make_identities(["user"])[0]
    for properties in (["-p", "Delegate=yes"], ["-p", "Delegate=yes", "-p", f"User={user.name}"]):
        done = t.run(["systemd-run", "--quiet", "--pipe", "--wait", "--collect", *properties, "--", t.binary, "exec", "--memory", "64M", "--disk", "16M",
                      "--cpus", "1.5", "--json", "--mount", f"{t.probe}:/opt/probe", "--", "/opt/probe", "touch-memory", "512"])
        t.equal(held_by(done), HELD, " ".join(properties))
        t.equal(json.loads(done.out)["verdict"], "out_of_memory", done.describe())
    # The control: the same account without Delegate has nothing that could be divided.
    run = ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", "-p", f"User={user.name}", "--", t.binary, "exec", "--cpus", "1", "--json", "--", "true"]
    t.match(held_by(t.run(run)), "^sampling", "without Delegate")


@case("a service of the user manager with Delegate=yes: its own cgroup holds the limits", as_=("user",), needs=("cgroup-v2", "user-manager"), seconds=40)
def delegated_user_service(t):
    env = {"XDG_RUNTIME_DIR": f"/run/user/{t.identity.uid}"}
    done = t.run(["systemd-run", "--user", "--quiet", "--pipe", "--wait", "--collect", "-p", "Delegate=yes", "--", t.binary, "exec",
                  "--cpus", "1.5", "--json", "--", "true"], env=env)
    t.equal(held_by(done), HELD)


@case("of the cgroup tree the payload sees its own cgroup only, to read and not to write", needs="cgroup-v2", seconds=40)
def tree(t):
    code = ("cd /sys/fs/cgroup && cat memory.max && ls -d */ 2>/dev/null; for f in memory.max cgroup.kill cgroup.procs; do "
            "{ echo 1 > $f; } 2>&1 | grep -o 'Read-only.*'; done; mkdir x 2>&1 | grep -o 'Read-only.*'; stat -c %u memory.max")
    done = t.shell(code, "--memory", "300M", "--disk", "16M")
    # A user's payload owns the files: it is the read-only mount that keeps it from writing.
    t.expect(done, status=0, out=f"{300 * MIB}\n" + "Read-only file system\n" * 4 + ("65534\n" if t.is_root else "1000\n"))
    t.expect(t.shell("true", "--mount", "/sys/fs/cgroup"), status=2, err="^sbx: .*/sys/fs/cgroup")


@case("a payload that may make user namespaces does not get at its own limits", needs=("python", "cgroup-v2"), seconds=40)
def nested(t):
    t.file("n.toml", "[hardening]\nnested_userns = true\n[seccomp]\nallow = [\"@mount\", \"unshare\"]\n")
    code = ("mkdir /tmp/c && unshare -rmC sh -c 'mount -t cgroup2 none /tmp/c && ls /tmp/c && echo max > /tmp/c/memory.max && cat /tmp/c/memory.max'; echo done")
    done = t.shell(code, "--policy", "./n.toml")
    t.true("memory.max" not in done.text.split(), done.describe())
    t.match(done.text, "^done$", "stdout")
