"""Each limit with a program that attacks it (tests/hostile), and what is then reported."""

from harness import case

# A payload writes such text; it never decides about the verdict.


def hostile(t, name, *flags, args=(), **more):
    return t.sbx("run", *flags, f"{t.hostile}/{name}.py", *args, result=True, **more)


def quick(t, done, seconds):
    t.true(done.seconds < t.slow(seconds), f"took {done.seconds:.1f} s\n{done.describe()}")


@case("--time ends a sleep: 124, timed_out, output so far kept")
def wall(t):
    done = t.shell("echo so far; exec sleep 600", "--time", t.slow("500ms"), result=True)
    t.expect(done, status=124, out="so far\n", verdict="timed_out", hit="time|wall")
    quick(t, done, 5)
    t.match(done.errors, r"^sbx: .*--time", "the hint that names the flag")


@case("--time holds for the whole tree, whatever the processes ignore", needs="python")
def wall_tree(t):
    done = hostile(t, "daemon", "--time", t.slow("1s"), args=("stay",))
    t.expect(done, status=124, out="main done\n", verdict="timed_out")
    quick(t, done, 6)


@case("--cpu-time counts eight processes and their dead children together", needs="python")
def cpu(t):
    done = hostile(t, "spinners", "--cpu-time", t.slow("1s"), "--time", t.slow("20s"))
    t.expect(done, status=124, out="started\n", verdict="cpu_time", hit="cpu_time|cpu")
    quick(t, done, 10)


@case("--cpu-time does not fire for a sleeper", needs="python")
def cpu_sleep(t):
    t.expect(t.python("import time; time.sleep(1.2); print('slept')", "--cpu-time", t.slow("1s")), out="slept\n")


@case("memory by heap: 137, out_of_memory, output so far kept", needs="python", seconds=40)
def heap(t):
    done = hostile(t, "heap", "--memory", "256M", "--disk", "64M")
    t.expect(done, status=137, out="started\n", verdict="out_of_memory", hit="memory")
    t.match(done.errors, r"^sbx: .*--memory", "the hint that names the flag")


@case("memory by shared mappings counts, though no process keeps them", needs="python", seconds=40)
def shared(t):
    t.expect(hostile(t, "shared", "--memory", "256M", "--disk", "64M"), status=137, out="started\n", verdict="out_of_memory", hit="memory")


@case("memory by a shared mapping that a living process has touched counts", needs="python", seconds=40)
def shared_plain(t):
    code = ("import mmap\nprint('started', flush=True)\nm = mmap.mmap(-1, 512 << 20)\nfor i in range(0, len(m), 4096): m[i] = 1\nprint('not stopped')\n")
    t.expect(t.python(code, "--memory", "256M", "--disk", "64M", result=True), status=137, out="started\n", verdict="out_of_memory", hit="memory")


@case("memory by many processes counts together", needs="python", seconds=40)
def many(t):
    t.expect(hostile(t, "many", "--memory", "512M", "--disk", "64M"), status=137, out="started\n", verdict="out_of_memory", hit="memory")


@case("memory by memfds that nobody maps does not get past the limit", needs="python", seconds=40)
def memfd(t):
    done = hostile(t, "memfd", "--memory", "256M", "--disk", "64M")
    if done.status == 137:
        t.expect(done, status=137, verdict="out_of_memory")
    else:
        t.match(done.text, r"^refused \d+ (\d|[0-9]{2}|1\d\d|2[0-4]\d)$", "what was refused")


@case("memory by SysV segments does not get past the limit", needs="python")
def sysv(t):
    code = ("import ctypes\nL = ctypes.CDLL(None, use_errno=True)\nn = 0\n"
            "while n < 64:\n    i = L.shmget(0, 16 << 20, 0o1600)\n    if i < 0: print('refused', ctypes.get_errno(), n); break\n"
            "    L.shmat.restype = ctypes.c_void_p\n    p = L.shmat(i, None, 0)\n    ctypes.memset(p, 1, 16 << 20); L.shmdt(ctypes.c_void_p(p)); n += 1\n"
            "else: print('not stopped')\n")
    done = t.python(code, "--memory", "256M", "--disk", "64M", result=True)
    t.true(b"not stopped" not in done.out, done.describe())


@case("files in the private places are memory: all of them together stay within --disk", needs="python", seconds=40)
def tmpfs(t):
    done = hostile(t, "tmpfs", "--disk", "64M", "--memory", "512M")
    t.expect(done, status=0)
    total = int(done.text.rsplit("total", 1)[1])
    t.true(40 <= total <= 66, f"{total} MiB went in with --disk 64M\n{done.describe()}")


@case("heap and files together count against --memory", needs="python", seconds=40)
def memory_both(t):
    code = ("import os, time\nprint('started', flush=True)\nf = open('/tmp/f', 'wb')\nf.write(b'x' * (150 << 20)); f.flush()\n"
            "b = bytearray(150 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\ntime.sleep(3)\nprint('not stopped')\n")
    t.expect(t.python(code, "--memory", "256M", "--disk", "200M", result=True), status=137, out="started\n", verdict="out_of_memory")


@case("a program below its memory limit is left alone", needs="python", seconds=40)
def memory_below(t):
    t.expect(t.python("b = bytearray(120 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\nprint('fine')", "--memory", "256M", "--disk", "64M", result=True),
             out="fine\n", verdict="exited")


@case("pages shared by forked processes are counted once", needs="python", seconds=40)
def memory_shared_once(t):
    code = ("import os, time\nb = bytearray(100 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\n"
            "pids = []\nfor _ in range(8):\n    p = os.fork()\n    if p == 0: time.sleep(1); os._exit(0)\n    pids.append(p)\n"
            "for p in pids: os.waitpid(p, 0)\nprint('fine')\n")
    t.expect(t.python(code, "--memory", "400M", "--disk", "64M", result=True), out="fine\n", verdict="exited")


@case("a fork bomb meets EAGAIN at --pids, the host goes on, and nothing is left", needs="python", seconds=40)
def fork_bomb(t):
    done = hostile(t, "forkbomb", "--pids", "64", "--time", t.slow("10s"))
    t.expect(done, status=9, out="refused 11\n", verdict="exited", hit="pids")
    quick(t, done, 15)


@case("--pids N gives the payload exactly N processes", needs="python", seconds=30)
def pids_exact(t):
    t.expect(hostile(t, "count", "--pids", "20"), out="errno 11 processes 20\n")


@case("two sandboxes at once do not share the process limit", needs="python", seconds=40)
def pids_private(t):
    import subprocess
    one = t.spawn([t.binary, "exec", "--pids", "30", "--", "/bin/bash", "-c",
                   "for i in $(seq 25); do sleep 200 & done; echo ready; wait"], stdin=subprocess.DEVNULL)
    t.equal(one.stdout.readline(), b"ready\n")
    t.expect(hostile(t, "count", "--pids", "30"), out="errno 11 processes 30\n")
    one.kill()


@case("threads count as processes", needs="python", seconds=30)
def threads(t):
    done = hostile(t, "threads", "--pids", "50")
    t.match(done.text, r"^refused after (4[5-9]|50)$", "stdout")


@case("the default of 256 processes lets ordinary programs be", needs="python", seconds=30)
def threads_default(t):
    t.expect(t.python("import threading,time\nts=[threading.Thread(target=time.sleep,args=(0.1,)) for _ in range(200)]\n"
                      "[x.start() for x in ts]; [x.join() for x in ts]; print('fine')"), out="fine\n")


@case("disk by data: ENOSPC at --disk, recorded, and a hint", needs="python", seconds=30)
def disk(t):
    done = hostile(t, "disk", "--disk", "100M", args=("/box",))
    t.expect(done, status=4, verdict="exited", hit="disk")
    t.match(done.text, r"^errno 28 MiB (9\d|100)$", "stdout")
    t.match(done.errors, r"^sbx: .*--disk", "the hint")


@case("the disk limit is shared by /box, /tmp, HOME and /dev/shm", needs="python", seconds=30)
def disk_shared(t):
    done = t.python("import errno\nn = 0\nfor d in ('/box','/tmp','/home/sandbox','/dev/shm'):\n    try:\n        f = open(d + '/f', 'wb', buffering=0)\n"
                    "        for _ in range(40): n += f.write(b'x' * (1 << 20))\n    except OSError as e: print(errno.errorcode[e.errno])\nprint(n >> 20)", "--disk", "64M")
    t.match(done.text, r"ENOSPC", "stdout")
    t.true(50 <= int(done.text.split()[-1]) <= 64, done.describe())


@case("disk by 100,000 empty files: ENOSPC at --inodes, recorded", needs="python", seconds=40)
def inodes(t):
    done = hostile(t, "inodes")
    t.expect(done, status=5, verdict="exited", hit="inodes")
    t.match(done.text, r"^errno 28 files (9\d{4}|100000|10[0-2]\d{3})$", "stdout")


@case("--inodes N bounds the number of files", needs="python")
def inodes_flag(t):
    done = hostile(t, "inodes", "--inodes", "1000")
    # Exactly: one directory and 999 files; what sbx itself made there does not count.
    t.expect(done, status=5, out="errno 28 files 999\n", hit="inodes")


@case("output without a newline: ended at --output, 137, exactly the limit is kept", needs="python", seconds=40)
def output(t):
    for stream in ("1", "2"):
        done = hostile(t, "flood", "--output", "1M", args=(stream,))
        t.expect(done, status=137, verdict="output_limit", hit="output")
        data = done.out if stream == "1" else done.err
        t.true(len(data) >= 1 << 20 and len(done.out) <= 1 << 20, f"{len(data)} bytes kept")
        t.true(data[:8] == b"\0\xff\x1b[31mx", "the beginning is not kept")


@case("the limit of output holds for each stream by itself", needs="python")
def output_each(t):
    t.expect(t.python("import os\nfor fd in (1, 2): os.write(fd, b'x' * 50000); os.write(fd, b'x' * 50000)", "--output", "128K", result=True), status=0, verdict="exited")


@case("--file-size: EFBIG, recorded", needs="python")
def file_size(t):
    done = hostile(t, "filesize", "--file-size", "10M")
    t.expect(done, out="errno 27 MiB 10\n", verdict="exited")


@case("--open-files: EMFILE at the limit", needs="python")
def open_files(t):
    t.expect(hostile(t, "openfiles", "--open-files", "64"), out="errno 24 highest 63\n")
    t.expect(hostile(t, "openfiles"), out="errno 24 highest 1023\n")
    # As few as can be asked for: what sbx itself holds open while it sets up does not count.
    t.expect(t.shell("ulimit -n", "--open-files", "8"), out="8\n")


@case("core dumps are off, even for a piped core_pattern: both limits are 1", needs="python")
def core(t):
    t.expect(t.shell("grep -i core /proc/self/limits | tr -s ' '"), out_match=r"^Max core file size 1 1 bytes")
    t.expect(t.python("import os; os.abort()", result=True), status=134, verdict="signaled")


@case("--cpus 1 confines the tree to one CPU; a fraction that cannot be held is refused with the reason", needs="python")
def cpus(t):
    t.expect(t.python("import os; print(len(os.sched_getaffinity(0)))", "--cpus", "1"), out="1\n")
    done = t.python("print('ran')", "--cpus", "0.5")
    if done.status:
        t.expect(done, status=(2, 125), out="", err=r"^sbx: .*cpu")


@case("a disk limit at or above the memory limit is refused with the reason")
def disk_memory(t):
    done = t.expect(t.shell("echo ran", "--memory", "256M", "--disk", "256M"), status=2, out="", err=r"^sbx: .*disk")
    t.match(done.errors, "memory", "the reason")


@case("K, M and G are powers of 1024, a bare number is bytes or seconds, fractions are fine", needs="python")
def units(t):
    for text, mib in (("67108864", 64), ("64M", 64), ("65536K", 64), ("0.0625G", 64), ("64MiB", 64)):
        done = hostile(t, "disk", "--disk", text, args=("/tmp",))
        t.match(done.text, r"^errno 28 MiB (6[0-4])$", f"--disk {text}")
    for text in ("1", "1s", "1000ms", "1.0s", "0.5s"):
        done = t.python("import time; time.sleep(9)", "--time", text)
        t.expect(done, status=124)
        quick(t, done, 4)


@case("bad sizes, times and numbers are wrong usage that names the flag and the value")
def bad_values(t):
    for flag, values in {"--memory": ("abc", "", "-1", "1X", "1.5", "99999999999G", "0x10", "1 G"), "--time": ("abc", "-1s", "0", "1d2", "1e3"),
                         "--pids": ("abc", "-1", "1.5", "0"), "--output": ("1Q",), "--open-files": ("many",), "--cpus": ("0", "-1", "x")}.items():
        for value in values:
            done = t.sbx("exec", f"{flag}={value}", "--", "echo", "ran")
            t.expect(done, status=2, out="", err=rf"^sbx: .*{flag}")


@case("limits in a policy file work as those by flag, and a flag wins over them", needs="python")
def by_policy(t):
    t.file("p.toml", '[limits]\ntime = "500ms"\n')
    done = t.python("import time; time.sleep(2); print('slept')", "--policy", "./p.toml", result=True)
    t.expect(done, status=124, verdict="timed_out")
    hit = [h for h in done.result["limits_hit"]][0]
    t.match(str(hit.get("origin")), r"p\.toml:2", "the limit's origin")
    t.expect(t.python("import time; time.sleep(1); print('slept')", "--policy", "./p.toml", "--time", t.slow("9s")), out="slept\n")


@case("a policy's unknown key and wrong type are errors with line and column")
def policy_errors(t):
    t.file("k.toml", '[limits]\nmemroy = "1G"\n')
    done = t.expect(t.shell("echo ran", "--policy", "./k.toml"), status=2, out="", err=r"k\.toml:2:1")
    t.match(done.errors, "memory", "the suggestion")
    t.file("t.toml", '[limits]\nmemory = true\n')
    t.expect(t.shell("echo ran", "--policy", "./t.toml"), status=2, out="", err=r"t\.toml:2:\d+")


@case("a policy inside the workspace may only tighten", needs="python")
def policy_workspace(t):
    t.file("proj/loose.toml", '[limits]\nmemory = "64G"\n')
    t.file("proj/tight.toml", '[limits]\npids = 32\n')
    t.expect(t.shell("echo ran", "--workspace", "proj", "--policy", "proj/loose.toml"), status=2, out="", err=r"loose\.toml")
    t.expect(t.shell("echo ran", "--workspace", "proj", "--policy", "proj/tight.toml"), out="ran\n")


@case("each shipped policy runs a program", needs="python")
def shipped(t):
    for name in ("default", "strict", "judge", "network"):
        t.expect(t.python("print(6*7)", "--policy", name), out="42\n")


@case("an unknown policy gets a did-you-mean")
def policy_unknown(t):
    done = t.expect(t.shell("echo ran", "--policy", "defualt"), status=2, out="", err=r"^sbx: .*defualt")
    t.match(done.errors, "default", "the suggestion")
