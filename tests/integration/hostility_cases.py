"""What a payload can do to its supervisor and to what the host shares with it: each case was an attack that worked."""

import os
import re
import resource
import signal
import subprocess
import time

import harness
from harness import case


@case("--artifacts below a :rw workspace: a link that the payload puts in its place is not followed; the files come to where DIR was (control)")
def artifacts_redirected(t):
    t.mkdir("proj/out")
    t.mkdir("canary")
    done = t.sbx("exec", "--workspace", "proj:rw", "--artifacts", "proj/out", "--", "/bin/sh", "-c",
                 f"mv out moved; ln -s {t.dir}/canary out; echo x > made")
    t.equal(os.listdir(t.dir / "canary"), [], "what came into the canary\n" + done.describe())
    t.true("made" in os.listdir(t.dir / "proj/moved"), "the control: nothing was copied\n" + done.describe())


@case("a link that takes a mount's place while sbx starts is never followed: what is refused stays out", needs="python", seconds=40)
def swapped_source(t):
    t.file("home/.ssh/f", "CANARY")
    t.file("race/x/f", "fine")
    os.symlink(f"{t.home}/.ssh", t.dir / "race/y")
    # RENAME_EXCHANGE in a loop, until we end it.
    swap = t.spawn(["/usr/bin/env", "python3", "-c",
                    "import ctypes,sys; c = ctypes.CDLL(None).renameat2\n"
                    "while True: c(-100, b'race/x', -100, b'race/y', 2)"])
    seen = set()
    end = time.monotonic() + t.slow(8)
    while time.monotonic() < end:
        seen.add(t.sbx("exec", "--mount", "race/x:/mnt", "--", "cat", "/mnt/f").text)
    swap.kill()
    t.true("CANARY" not in seen, "the credential was shown")
    t.true("fine" in seen, "the control: the mount never worked")


@case("a payload that enlarges its stdin pipe does not make sbx spin", needs="python", alone=True)
def stdin_spin(t):
    code = "import fcntl,sys,time; fcntl.fcntl(0, 1031, 1 << 20) if sys.argv[1:] else 0; time.sleep(3)"
    spent = {}
    for name, words in (("control", []), ("enlarged", ["x"])):
        read, write = os.pipe()
        os.write(write, b"hello")  # stays open: neither an end of input nor more of it
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        p = t.spawn([t.binary, "run", "--lang", "python", "-c", code, "--", *words], stdin=read)
        os.close(read)
        p.communicate(timeout=15)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        os.close(write)
        spent[name] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # Loaded machines differ from run to run: compare, do not measure.
    t.true(spent["enlarged"] < spent["control"] + 0.6, f"CPU seconds: {spent}")



TABLES = """
import ctypes, time
L = ctypes.CDLL(None, use_errno=True)
L.mmap.restype = ctypes.c_void_p
L.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
size = 150 * 512 << 20
at = L.mmap(None, size, 1, 2 | 0x20 | 0x4000, -1, 0)
L.madvise(ctypes.c_void_p(at), ctypes.c_size_t(size), 15)
for offset in range(0, size, 2 << 20): ctypes.c_char.from_address(at + offset).value
time.sleep(1)
print("done")
"""


@case("page tables are memory: 150 MiB of them pass no limit of 64 MiB; below 512 MiB they are let be (control)", needs="python", seconds=40)
def page_tables(t):
    t.expect(t.python(TABLES, "--memory", "64M", "--disk", "16M", result=True), status=137, verdict="out_of_memory")
    t.expect(t.python(TABLES, "--memory", "512M", "--disk", "16M", result=True), out="done\n", verdict="exited")


@case("a payload that is slow to measure does not hold up the wall time limit", needs="python", seconds=60, alone=True)
def slow_to_measure(t):
    code = """
import ctypes, mmap, os, time
L = ctypes.CDLL(None, use_errno=True)
L.mmap.restype = ctypes.c_void_p
L.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
L.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
N = 15000
at = L.mmap(None, 2 * N * 4096, 1, 2 | 0x20 | 0x4000, -1, 0)
for i in range(N): L.mprotect(at + 2 * i * 4096, 4096, 0)
shared = mmap.mmap(os.open("/usr/bin/python3", os.O_RDONLY), 0, prot=mmap.PROT_READ)
len(shared[:])
for _ in range(100):
    if os.fork() == 0:
        len(shared[:])
        time.sleep(100)
time.sleep(100)
"""
    begin = time.monotonic()
    t.expect(t.python(code, "--time", "4s", "--memory", "700M", "--disk", "16M", "--cgroup-parent", "none", result=True), status=124, verdict="timed_out")
    hostile = time.monotonic() - begin
    # A ratio to the same without the mappings: a loaded machine slows both. Without the bound on a look it is above 3.
    begin = time.monotonic()
    t.expect(t.python(code.replace("N = 15000", "N = 1"), "--time", "4s", "--memory", "700M", "--disk", "16M", "--cgroup-parent", "none", result=True), status=124)
    plain = time.monotonic() - begin
    t.true(hostile < 2.5 * plain, f"it took {hostile:.1f} s, {plain:.1f} s without the mappings")


@case("inotify: a sandbox has a bound of its own and leaves the caller's instances alone", needs="python")
def inotify_share(t):
    code = """
import ctypes, sys
n = 0
while ctypes.CDLL(None).inotify_init() >= 0: n += 1
print(n, flush=True)
sys.stdin.read()
"""
    p = t.spawn([t.binary, "run", "--lang", "python", "-c", code])
    inside = int(p.stdout.readline())
    mine = subprocess.run([*([] if t.is_root == (os.geteuid() == 0) else ["setpriv", "--reuid", str(t.identity.uid), "--clear-groups"]),
                           "python3", "-c", "import ctypes; print(ctypes.CDLL(None).inotify_init())"],
                          capture_output=True, text=True, timeout=t.slow(10))
    p.communicate(b"")
    t.true(0 < inside <= 32, f"{inside} instances inside")
    t.true(int(mine.stdout) >= 0, f"outside: {mine.stdout} {mine.stderr}")


@case("pseudo terminals: at most 64 inside, so the host's are not used up", needs="python")
def pty_share(t):
    code = """
import os
n = 0
try:
    while True: os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY); n += 1
except OSError as error: print(n, error.errno)
"""
    t.expect(t.python(code), out="64 28\n")


@case("a payload that stops itself at a terminal where nobody would continue it escapes no limit", needs="python", seconds=30)
def stop_itself(t):
    import stream_cases
    marker = f"stop-itself-{os.getpid()}-{time.monotonic_ns()}"
    term = stream_cases.Terminal(t, "exec", "--time", t.slow("1500ms"), "--", "/bin/sh", "-c",
                                 f"setsid sh -c 'while :; do :; done # {marker}' & while :; do kill -STOP $$; done")
    t.equal(term.wait(10), 124, "status")
    t.wait_until(lambda: not harness.processes_with(marker), 2, "the sandbox's processes to be gone")


@case("while sbx is stopped, nothing of its sandbox runs, whoever stopped it; fg continues all of it", seconds=30)
def stopped_tree(t):
    import stream_cases
    # A shell with job control: sbx is a job of its own that is stopped when the payload stops itself.
    inner = "setsid sh -c 'while :; do echo >> /box/ticks; sleep 0.02; done' & while [ ! -s ticks ]; do sleep 0.02; done; kill -STOP $$; echo resumed"
    t.mkdir("proj")
    script = (f"set -m; {t.binary} exec --workspace {t.dir}/proj:rw -- /bin/sh -c \"{inner.replace('$', chr(92) + '$')}\"; echo state $?; sleep {t.slow(0.3)}; "
              f"wc -c < {t.dir}/proj/ticks; sleep 0.6; wc -c < {t.dir}/proj/ticks; fg; echo end")
    term = stream_cases.Terminal(t, argv=["/bin/bash", "-c", script])
    seen = term.read_until(rb"end\r\n", 15).decode(errors="replace")
    found = re.search(r"state (\d+)\s+(\d+)\s+(\d+)", seen)
    t.true(found is not None, seen)
    t.equal(int(found.group(1)), 128 + signal.SIGTSTP, "the status of a stopped job\n" + seen)
    t.equal(found.group(2), found.group(3), "ticks while stopped\n" + seen)
    t.true("resumed" in seen.split("state")[1], "it went on\n" + seen)
