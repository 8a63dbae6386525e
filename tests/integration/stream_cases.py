"""Streams, terminal, death: live and byte-exact, no harm by reopening, nothing left."""

import errno
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import harness
from harness import Failure, Skip, case


# ---- bytes

@case("all bytes pass unchanged in both directions, 8 MiB of them")
def byte_exact(t):
    data = os.urandom(1 << 20) * 8
    done = t.sbx("exec", "--", "cat", stdin=data)
    t.true(done.status == 0 and done.out == data, f"status {done.status}, {len(done.out)} of {len(data)} bytes")


@case("stdout and stderr are two streams, and neither blocks the other", needs="python")
def two_streams(t):
    code = "import os\nfor i in range(64):\n    os.write(2, b'e' * 65536)\nos.write(1, b'o')\n"
    p = t.spawn([t.binary, "run", "--lang", "python", "-c", code], stdin=subprocess.DEVNULL)
    # stderr is not read at all until stdout has been: with a full pipe behind stderr, stdout alone must not be held
    # back by sbx, only by the payload itself, which is blocked on stderr by rights; so read both, stderr last.
    out, err = p.communicate(timeout=15)
    t.equal((out, len(err)), (b"o", 64 * 65536))
    code = "import os, sys, threading\nthreading.Thread(target=lambda: os.write(2, b'e' * (1 << 22)), daemon=True).start()\nos.write(1, b'out\\n')\nimport time; time.sleep(1); os._exit(0)\n"
    p = t.spawn([t.binary, "run", "--lang", "python", "-c", code], stdin=subprocess.DEVNULL)
    ready, _, _ = select.select([p.stdout], [], [], t.slow(5))
    t.true(ready and os.read(p.stdout.fileno(), 4) == b"out\n", "stdout is held back by an unread stderr")
    p.communicate(timeout=15)


@case("stdout and stderr to one pipe, file or device keep the order in which they were written")
def one_target(t):
    code = "i=0; while [ $i -lt 300 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done"
    lines = [f"{stream}{i}" for i in range(300) for stream in "oe"]
    for target in ('2>&1 | cat', '>"$OUT" 2>&1; cat "$OUT"', '>>"$OUT" 2>&1; cat "$OUT"'):
        done = t.run(["/bin/bash", "-c", f'rm -f "$OUT"; "$0" exec -- sh -c "$1" {target}', t.binary, code],
                     env={"OUT": os.path.join(t.dir, "both.txt")})
        t.equal(done.text.split(), lines, target)
    t.equal(t.sbx("exec", "--", "sh", "-c", code).text.split(), lines[::2])
    result = os.path.join(t.dir, "result.json")
    script = '"$0" exec --result "$2" -- sh -c "echo o; echo e >&2" 2>&1'
    t.equal(t.run(["/bin/bash", "-c", script, t.binary, "", result]).out, b"o\ne\n")
    with open(result, encoding="utf-8") as file:
        streams = json.load(file)
    t.equal((streams["stdout"]["total_bytes"], streams["stderr"]["total_bytes"]), (4, 0))
    t.true("counted there" in streams["stderr"]["data_note"], streams["stderr"])


@case("output is live: what was printed is there before the program ends", needs="python")
def live(t):
    p = t.spawn([t.binary, "exec", "--", "/bin/sh", "-c", "echo one; read x; echo $x"])
    ready, _, _ = select.select([p.stdout], [], [], t.slow(5))
    t.true(ready, "nothing before the end")
    t.equal(p.stdout.readline(), b"one\n")
    out, _ = p.communicate(b"two\n", timeout=10)
    t.equal(out, b"two\n")


@case("stdin closed by the caller is an empty stdin; closed stdout and stderr do no harm")
def closed(t):
    t.expect(t.run(["/bin/bash", "-c", '"$0" exec -- cat <&-', t.binary]), out="")
    done = t.run(["/bin/bash", "-c", '"$0" exec -- sh -c "echo x; echo y >&2; exit 3" >&- 2>&-; echo $?', t.binary])
    t.true(done.out in (b"3\n", b"1\n", b"2\n"), done.describe())
    done = t.run(["/bin/bash", "-c", '"$0" exec -- sh -c "ls -l /proc/self/fd | wc -l" 0<&- 2>&-', t.binary])
    t.equal(done.status, 0)


@case("the payload does not read stdin: sbx ends with it, whatever the writer does")
def unread_stdin(t):
    p = t.spawn([t.binary, "exec", "--", "true"])
    t.equal(p.wait(10), 0)


@case("a reader that goes away ends the payload as without sbx")
def broken_pipe(t):
    done = t.run(["/bin/bash", "-c", '"$0" exec -- yes | head -1; echo ${PIPESTATUS[0]}', t.binary], timeout=15)
    t.match(done.text, r"^y\n141$", "stdout")


@case("a shell loop around sbx reads on where the payload stopped: read-ahead is given back")
def while_read(t):
    t.file("in.txt", "".join(f"line {i}\n" for i in range(5)))
    t.expect(t.run(["/bin/bash", "-c", 'while read -r l; do echo "got $l"; "$0" exec -- true; done < in.txt', t.binary]),
             out="".join(f"got line {i}\n" for i in range(5)))


@case("input that the payload did read is gone from the loop's stdin")
def partly_read(t):
    t.file("in.txt", "".join(f"line {i}\n" for i in range(5)))
    t.expect(t.run(["/bin/bash", "-c", '"$0" exec -- sh -c "read a; echo in \\$a" < in.txt', t.binary]), out="in line 0\n")
    done = t.run(["/bin/bash", "-c", '{ "$0" exec -- head -c 7; echo; cat; } < in.txt', t.binary])
    t.true(done.out.startswith(b"line 0\n\n") and done.out.count(b"line") <= 5, done.describe())


@case("a program on stdin that a loop feeds does not swallow the loop's input when --stdin or -c is used", needs="python")
def loop_text(t):
    t.file("in.txt", "a\nb\nc\n")
    t.expect(t.run(["/bin/bash", "-c", 'while read -r l; do "$0" run --lang python -c "print(1)"; done < in.txt', t.binary]), out="1\n1\n1\n")


# ---- reopening

@case("a payload cannot write to the caller's input file by reopening stdin", needs="python")
def reopen_stdin(t):
    path = t.file("in.txt", "precious\n")
    code = ("import os\nfor name in ('/proc/self/fd/0', '/dev/stdin', '/dev/fd/0'):\n    for flags in (os.O_RDWR, os.O_WRONLY, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND):\n"
            "        try:\n            fd = os.open(name, flags | os.O_NONBLOCK)\n            os.write(fd, b'EVIL'); os.ftruncate(fd, 0)\n        except OSError: pass\n"
            "try: os.ftruncate(0, 0)\nexcept OSError: pass\ntry: os.write(0, b'EVIL')\nexcept OSError: pass\n")
    with open(path, "r+b") as file:  # opened for reading and writing by the caller, the worst case
        t.expect(t.python(code, stdin=file))
    t.equal(open(path).read(), "precious\n", "the caller's file")
    with open(path, "rb") as file:
        t.expect(t.python(code, stdin=file))
    t.equal(open(path).read(), "precious\n", "the caller's file")


@case("a payload cannot truncate, overwrite or read the caller's output file by reopening stdout", needs="python")
def reopen_stdout(t):
    path = t.file("out.txt", "earlier content\n")
    code = ("import os\nfor name in ('/proc/self/fd/1', '/dev/stdout', '/proc/self/fd/2'):\n    for flags in (os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY, os.O_RDONLY):\n"
            "        try:\n            fd = os.open(name, flags | os.O_NONBLOCK)\n            try: os.ftruncate(fd, 0)\n            except OSError: pass\n            try: os.lseek(fd, 0, 0); os.write(fd, b'EVIL')\n            except OSError: pass\n"
            "            try:\n                if b'earlier' in os.read(fd, 100): open('/dev/stderr', 'w').write('READ')\n            except OSError: pass\n        except OSError: pass\n"
            "for fd in (1, 2):\n    try: os.ftruncate(fd, 0)\n    except OSError: pass\n    try: os.lseek(fd, 0, 0); os.pwrite(fd, b'EVIL', 0)\n    except OSError: pass\n")
    with open(path, "r+b") as file:
        file.seek(0, 2)
        t.run([t.binary, "run", "--lang", "python", "-c", code], stdout=file, stderr=file)
    content = open(path).read()
    t.true(content.startswith("earlier content\n") and "READ" not in content, f"the caller's file is now {content!r}")


@case("output to a regular file, appended or not, arrives whole")
def to_file(t):
    t.run(["/bin/bash", "-c", '"$0" exec -- seq 100000 > a; echo first > b; "$0" exec -- seq 3 >> b', t.binary])
    t.equal(len((t.dir / "a").read_bytes()), 588895)
    t.equal((t.dir / "b").read_text(), "first\n1\n2\n3\n")


@case("output that cannot be passed on is said, and a good status becomes 1; a reader that goes away is no such failure")
def full(t):
    done = t.run(["/bin/bash", "-c", '"$0" exec --result r.json -- echo lost > /dev/full', t.binary])
    t.equal(done.status, 1)
    t.match(done.errors, r"^sbx: .*No space left on device", "stderr")
    t.match((t.dir / "r.json").read_text(), "No space left on device", "the result")
    t.equal(t.run(["/bin/bash", "-c", '"$0" exec -- sh -c "echo lost; exit 7" > /dev/full', t.binary]).status, 7)
    t.equal(t.run(["/bin/bash", "-c", '"$0" exec -- echo kept > /dev/null', t.binary]).status, 0)


@case("/dev/stdout, /dev/stderr and /proc/self/fd/1 can be written inside")
def dev_stdout(t):
    done = t.expect(t.shell("echo a > /dev/stdout; echo b > /proc/self/fd/1; echo c > /dev/stderr; echo d | tee /dev/stderr > /dev/null; echo e | cat /dev/stdin"))
    t.equal(sorted(done.text.split()), ["a", "b", "e"])
    t.equal(done.err, b"c\nd\n")
    t.run(["/bin/bash", "-c", '"$0" exec -- sh -c "echo a > /dev/stdout" > f', t.binary])
    t.equal((t.dir / "f").read_bytes(), b"a\n")


@case("only 0, 1 and 2 are open in the payload, whatever the caller had open")
def fds(t):
    read_end, write_end = os.pipe()
    directory = os.open("/", os.O_RDONLY)
    for fd in (read_end, write_end, directory):
        os.set_inheritable(fd, True)
    try:
        t.expect(t.probed("fds"), out="0\n1\n2\n")
        done = t.run([t.binary, "exec", "--mount", f"{t.probe}:/opt/probe", "--", "/opt/probe", "fds"], pass_fds=(read_end, write_end, directory))
        t.expect(done, out="0\n1\n2\n")
    finally:
        for fd in (read_end, write_end, directory):
            os.close(fd)


# ---- ends

def leftovers(t, marker):
    t.wait_until(lambda: not harness.processes_with(marker), 1.0, f"processes with {marker} are gone")


@case("a grandchild that keeps stdout open does not hold sbx, and is gone", needs="python")
def holder(t):
    done = t.sbx("run", f"{t.hostile}/holder.py", f"marker-{t.dir.name}", result=True)
    t.expect(done, status=3, out="before\n", verdict="exited")
    t.true(done.seconds < t.slow(5), f"held for {done.seconds:.1f} s")
    leftovers(t, f"marker-{t.dir.name}")


@case("a double-forked daemon that ignores every signal is gone when sbx returns", needs="python")
def daemon(t):
    script = t.file(f"daemon-{t.dir.name}.py", open(f"{t.hostile}/daemon.py").read())
    done = t.sbx("run", script, result=True)
    t.expect(done, status=0, out="main done\n")
    t.true(done.seconds < t.slow(6), f"held for {done.seconds:.1f} s")
    t.equal(harness.processes_with(f"daemon-{t.dir.name}"), [], "survivors")
    marker = f"mark-{t.dir.name}"
    done = t.sbx("exec", "--", "/bin/sh", "-c", f"setsid sh -c 'trap \"\" TERM HUP INT; sleep 300; : {marker}' & sleep 0.1; echo done")
    t.expect(done, out="done\n")
    t.equal(harness.processes_with(marker), [], "survivors")


@case("SIGKILL of sbx leaves no process of the sandbox, one second later at the latest", seconds=40)
def kill(t):
    for n in range(6):
        marker = f"kill-{t.dir.name}-{n}"
        p = t.spawn([t.binary, "exec", "--", "/bin/sh", "-c", f"trap '' TERM HUP INT; echo up; (setsid sleep 301 &) ; while :; do sleep 1; done; : {marker}"],
                    stdin=subprocess.DEVNULL)
        t.equal(p.stdout.readline(), b"up\n")
        before = harness.process_tree(p.pid)[1:]
        t.true(len(before) >= 2, f"too few processes below sbx: {before}")
        os.kill(p.pid, signal.SIGKILL)
        p.wait(5)
        t.wait_until(lambda: not harness.processes_with(marker) and not any(harness.alive(q) for q in before), 1.0, "the sandbox's processes are gone")


@case("SIGKILL of sbx at a random instant of its start leaves nothing", seconds=40)
def kill_early(t):
    import random
    chance = random.Random(7)
    for n in range(40):
        marker = f"early-{t.dir.name}-{n}"
        p = t.spawn([t.binary, "exec", "--", "/bin/sh", "-c", f"sleep 302; : {marker}"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.random() * 0.015)  # the instant is what is varied
        os.kill(p.pid, signal.SIGKILL)
        p.wait(5)
    t.wait_until(lambda: not harness.processes_with(f"early-{t.dir.name}-"), 1.0, "the sandboxes' processes are gone")


@case("killing the sandbox's init from inside is not possible; the payload's end ends all")
def init(t):
    t.expect(t.shell("kill -9 1; kill -TERM 1; kill -STOP 1; echo alive"), out="alive\n")


@case("sbx stopped and continued goes on", needs="python")
def stopped(t):
    p = t.spawn([t.binary, "exec", "--", "/bin/sh", "-c", "echo a; sleep 0.3; echo b"], stdin=subprocess.DEVNULL)
    t.equal(p.stdout.readline(), b"a\n")
    os.kill(p.pid, signal.SIGSTOP)
    time.sleep(0.1)
    os.kill(p.pid, signal.SIGCONT)
    out, _ = p.communicate(timeout=10)
    t.equal((out, p.returncode), (b"b\n", 0))


# ---- terminal

class Terminal:
    """sbx at a terminal of the test's own: a new session, its controlling terminal."""

    def __init__(self, t, *words, size=(33, 101), stdin=None, stdout=None, env=None, argv=None):
        self.t = t
        self.master, self.slave = pty.openpty()
        if os.geteuid() == 0 and not t.is_root:
            os.fchown(self.slave, t.identity.uid, -1)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        t.at_end(self.close)
        # setsid --ctty makes the terminal the controlling one and hands over all three streams.
        self.process = t.spawn(["setsid", "--ctty", "--wait"] + (argv or [t.binary, *words]), stdin=stdin if stdin is not None else self.slave,
                               stdout=stdout if stdout is not None else self.slave, stderr=self.slave,
                               env={"TERM": "xterm-256color", **(env or {})}, session=False)
        self.seen = b""

    def read_until(self, pattern, seconds=8):
        end = time.monotonic() + self.t.slow(seconds)
        while not re.search(pattern, self.seen):
            ready, _, _ = select.select([self.master], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise Failure(f"the terminal did not show {pattern!r}; it showed {self.seen!r}")
            try:
                data = os.read(self.master, 65536)
            except OSError as error:
                if error.errno == errno.EIO:
                    raise Failure(f"terminal closed before {pattern!r}; it showed {self.seen!r}")
                raise
            self.seen += data
        return self.seen

    def write(self, data):
        os.write(self.master, data)

    def wait(self, seconds=8):
        end = time.monotonic() + self.t.slow(seconds)
        while self.process.poll() is None and time.monotonic() < end:
            ready, _, _ = select.select([self.master], [], [], 0.02)
            if ready:
                try:
                    self.seen += os.read(self.master, 65536)
                except OSError:
                    break
        try:
            status = harness.shell_status(subprocess.Popen.wait(self.process, max(0.1, end - time.monotonic())))
        except subprocess.TimeoutExpired:
            raise Failure(f"sbx did not end at its terminal; it showed {self.seen!r}")
        while select.select([self.master], [], [], 0)[0]:  # what it wrote last
            try:
                self.seen += os.read(self.master, 65536)
            except OSError:
                break
        return status

    def attributes_now(self):
        return termios.tcgetattr(self.slave)

    def close(self):
        for name in ("master", "slave"):
            fd = getattr(self, name)
            setattr(self, name, -1)  # a number closed twice may by then be another thread's descriptor
            if fd >= 0:
                os.close(fd)


@case("at a terminal all three streams of the payload are a terminal of its own, and TERM is set", needs="python")
def tty(t):
    term = Terminal(t, "run", "--lang", "python", "-c", "import os,sys; print([os.isatty(i) for i in (0,1,2)], os.environ.get('TERM'), os.ttyname(0))")
    term.read_until(rb"\[True, True, True\] xterm-256color /dev/pts/\d+")
    t.equal(term.wait(), 0)


@case("--tty=never gives pipes at a terminal, --tty=always a terminal behind pipes", needs="python")
def tty_modes(t):
    code = "import os; print([os.isatty(i) for i in (0,1,2)])"
    term = Terminal(t, "run", "--tty=never", "--lang", "python", "-c", code)
    term.read_until(rb"\[False, False, False\]")
    term.wait()
    t.expect(t.python(code, "--tty=always"), out_match=r"\[True, True, True\]|\[True, True")
    t.expect(t.python(code, "--tty=auto"), out="[False, False, False]\n")
    t.expect(t.python(code, "--tty=sometimes"), status=2, err=r"^sbx: .*sometimes")


@case("with only stdout redirected, stdout is no terminal and the rest is", needs="python")
def tty_partly(t):
    with open(t.dir / "o", "wb") as out:
        term = Terminal(t, "run", "--lang", "python", "-c", "import os; print([os.isatty(i) for i in (0,1,2)])", stdout=out)
        t.equal(term.wait(), 0)
    t.match((t.dir / "o").read_text(), r"^\[True, False, True\]$", "the file")


@case("what is typed reaches the payload, with the echo of a terminal", needs="python")
def tty_input(t):
    term = Terminal(t, "run", "--lang", "python", "-c", "x = input('name? '); print('hello', x)")
    term.read_until(rb"name\? ")
    term.write(b"ann\n")
    term.read_until(rb"hello ann")
    t.equal(term.wait(), 0)


@case("end of file by ^D reaches the payload")
def tty_eof(t):
    term = Terminal(t, "exec", "--", "/bin/sh", "-c", "echo up; cat; echo end")
    term.read_until(rb"up")
    term.write(b"x\n\x04")
    term.read_until(rb"x\r\nx\r\nend")
    t.equal(term.wait(), 0)


@case("^C reaches the payload as SIGINT; a program that does not handle it ends with 130", needs="python")
def tty_interrupt(t):
    term = Terminal(t, "run", "--lang", "python", "-c", "import time\ntry:\n print('up', flush=True)\n time.sleep(30)\nexcept KeyboardInterrupt: print('caught'); raise SystemExit(4)")
    term.read_until(rb"up")
    term.write(b"\x03")
    term.read_until(rb"caught")
    t.equal(term.wait(), 4)
    term = Terminal(t, "exec", "--", "sleep", "30")
    t.wait_until(lambda: harness.children_of(term.process.pid), 5, "the sandbox is up")
    time.sleep(0.3)
    term.write(b"\x03")
    t.equal(term.wait(), 130)


@case("the window size is the caller's and follows its changes")
def tty_size(t):
    term = Terminal(t, "exec", "--", "/bin/bash", "-c", "stty size; trap 'stty size' WINCH; echo set; while :; do sleep 0.05; done", size=(33, 101))
    term.read_until(rb"33 101")
    term.read_until(rb"set")
    fcntl.ioctl(term.master, termios.TIOCSWINSZ, struct.pack("HHHH", 44, 120, 0, 0))
    # The kernel signals the foreground group of the terminal, sbx, which copies the size.
    term.read_until(rb"44 120")


@case("the terminal's attributes come back after the end, whatever the payload set, and after SIGTERM")
def tty_restored(t):
    term = Terminal(t, "exec", "--", "/bin/sh", "-c", "stty raw -echo; echo done")
    term.read_until(rb"done")
    term.wait()
    t.equal(term.attributes_now(), term.before, "terminal attributes")
    term = Terminal(t, "exec", "--", "/bin/sh", "-c", "stty raw -echo; echo up; sleep 30")
    term.read_until(rb"up")
    term.process.send_signal(signal.SIGTERM)
    term.wait(12)
    t.equal(term.attributes_now(), term.before, "terminal attributes after SIGTERM")


@case("TIOCSTI and TIOCLINUX are refused at a terminal, whatever the upper half of the request says")
def tty_injection(t):
    for attempt in ("tiocsti", "tiocsti-high", "tioclinux"):
        term = Terminal(t, "exec", "--mount", f"{t.probe}:/opt/probe", "--", "/opt/probe", attempt)
        term.read_until(rb"(?m)^\S+\r?\n")
        t.match(term.seen.decode(), r"^(EPERM|ENOTTY|EIO|ENOSYS|EACCES)", attempt)
        term.wait()


@case("a payload at a terminal has job control: ^Z stops a job of its shell")
def tty_job_control(t):
    term = Terminal(t, "exec", "--", "/bin/bash", "--norc", "-i")
    term.read_until(rb"[$#] ")
    t.no_match(term.seen.decode("utf-8", "replace"), "no job control", "bash's start")
    term.write(b"sleep 30\n")
    time.sleep(0.4)
    term.write(b"\x1a")
    term.read_until(rb"Stopped")
    term.write(b"kill -9 %1\nexit 6\nexit 6\n")  # twice: a shell may still take the job for stopped
    t.equal(term.wait(), 6)


@case("closing the terminal ends the run, and nothing is left", seconds=30)
def tty_closed(t):
    marker = f"hup-{t.dir.name}"
    term = Terminal(t, "exec", "--", "/bin/sh", "-c", f"echo up; sleep 303; : {marker}")
    term.read_until(rb"up")
    term.close()
    t.wait_until(lambda: not harness.processes_with(marker), 10, "everything is gone after the hang-up")


# ---- a terminal without one of the caller's

@case("--tty=always behind pipes: a terminal of 24x80 whose output goes to stdout and whose input ends with stdin")
def tty_always(t):
    code = "for i in 0 1 2; do test -t $i && echo $i; done; stty size; cat; echo err >&2"
    for data in (b"", b"one\ntwo\n", b"one\nno end"):
        done = t.sbx("exec", "--tty=always", "--", "/bin/sh", "-c", code, stdin=data, timeout=10)
        t.expect(done, out=b"0\n1\n2\n24 80\n" + data + b"err\n")
        t.equal(done.err, b"", "stderr")
    t.file("in.txt", "from a file\n")
    t.expect(t.run(["/bin/bash", "-c", '"$0" exec --tty=always -- cat < in.txt', t.binary]), out="from a file\n")
    t.expect(t.run(["/bin/bash", "-c", '"$0" exec --tty=always -- cat < /dev/null', t.binary]), out="")
    t.expect(t.run(["/bin/bash", "-c", '"$0" exec --tty=always -- cat <&-', t.binary]), out="")
    # --stdin is no terminal, whatever --tty says; control characters in it are bytes.
    t.file("raw.txt", b"a\x04b\x03\n")
    t.expect(t.sbx("exec", "--tty=always", "--stdin", "raw.txt", "--", "/bin/sh", "-c", "test -t 0 || cat"), out=b"a\x04b\x03\n")


@case("--tty=always with --json: the terminal's output is the captured stdout")
def tty_always_json(t):
    import json
    done = t.sbx("exec", "--json", "--tty=always", "--", "/bin/sh", "-c", "test -t 1 && test -t 2 && echo out && echo err >&2")
    t.expect(done, status=0)
    result = json.loads(done.out)
    t.match(json.dumps(result["stdout"]), r"out\\nerr\\n", "stdout in the result")


@case("a payload that stops itself under --tty=always without a caller's terminal is continued: nobody else could")
def tty_always_stop(t):
    done = t.sbx("exec", "--tty=always", "--", "/bin/sh", "-c", "kill -STOP $$; kill -TSTP $$; echo on", timeout=10)
    t.expect(done, out="on\n")


@case("one stream a terminal and the others not: --tty=auto gives that one, --tty=always all three, to where stdout goes")
def tty_mixed(t):
    code = "for i in 0 1 2; do test -t $i && echo $i; done; echo err >&2; true"
    shell = '"$0" exec --tty={} -- /bin/sh -c "$1" {}'
    for streams, automatic, to_file in (("< /dev/null > out 2> err", "", "out"), ("> out 2> err", "0", "out"),
                                        ("< /dev/null > out", "2", "out"), ("< /dev/null 2> err", "1", "terminal")):
        for mode in ("auto", "always"):
            wanted = automatic if mode == "auto" else "012"
            for name in ("out", "err"):
                t.file(name)
            term = Terminal(t, argv=["/bin/bash", "-c", shell.format(mode, streams), t.binary, code])
            t.equal(term.wait(), 0, f"{mode} {streams}")
            shown = term.seen.replace(b"\r", b"") if to_file == "terminal" else (t.dir / "out").read_bytes()
            t.equal(shown.replace(b"err\n", b""), b"".join(c.encode() + b"\n" for c in wanted), f"{mode} {streams}: stdout")
            err = b"err\n" in (t.dir / "err").read_bytes() if "2>" in streams else b"err" in term.seen
            t.equal(err, mode == "auto", f"{mode} {streams}: stderr apart from stdout")
            t.equal(term.attributes_now(), term.before, "terminal attributes")


@case("the window size and the modes are on the terminal before the payload starts, every time", seconds=60)
def tty_size_at_once(t):
    for _ in range(15):
        term = Terminal(t, "exec", "--", "/bin/sh", "-c", "stty size; stty raw -echo; echo set; read x; stty -a", size=(33, 101))
        term.read_until(rb"set")
        t.match(term.seen.decode(), r"^33 101\r$", "the size")
        term.write(b"x\n")
        term.read_until(rb"-icanon")  # nothing has put the modes back behind the payload's back
        term.wait()
        term.close()


# ---- job control of the caller's shell

class Shell(Terminal):
    """An interactive bash at a terminal of the test's own: the caller of sbx."""

    def __init__(self, t, **more):
        super().__init__(t, argv=["/bin/bash", "--norc", "--noprofile", "-i"],
                         env={"PS1": "PROMPT> ", "SBX": t.binary, "HISTFILE": "", "INPUTRC": "/dev/null"}, **more)
        self.read_until(rb"PROMPT> ")

    def typed(self, line, pattern, seconds=8):
        self.seen = b""
        self.write(line)
        return self.read_until(pattern, seconds)

    def raw(self):
        return not self.attributes_now()[3] & termios.ISIG  # a shell that edits its line keeps that

    def wait_raw(self):
        self.t.wait_until(self.raw, 5, "the caller's terminal is raw")

    def sane_at_command(self):
        """Line mode with echo is what a command that the shell starts finds."""
        shown = self.typed(b"stty -a; echo do''ne\n", rb"done\r\n(?s:.*)PROMPT> ").decode()
        for word in (r"(?<!-)\bicanon\b", r"(?<!-)\becho\b", r"(?<!-)\bisig\b", r"(?<!-)\bopost\b"):
            self.t.match(shown, word, "stty -a after the stop")

    def inside(self, marker):
        """States of the processes whose command line holds `marker`, sbx and the shell excluded."""
        states = []
        for pid in harness.processes_with(marker):
            try:
                with open(f"/proc/{pid}/stat") as file:
                    text = file.read()
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if b"exec\0--" in file.read():
                        continue
                states.append(text.rsplit(")", 1)[1].split()[0])
            except OSError:
                pass
        return states

    def expect_states(self, marker, wanted):
        self.t.wait_until(lambda: self.inside(marker) and set(self.inside(marker)) <= set(wanted), 5,
                          f"processes with {marker} are all in {wanted}; they are in {self.inside(marker)}")


def unique_sleep(t):
    """An argument of sleep that no other process has."""
    return f"1{os.getpid() % 100000:05}.{abs(hash(str(t.dir))) % 10**9:09}"


@case("^Z at sbx exec stops the payload and sbx: the shell has its prompt and its terminal; fg and bg go on; ^C ends it", seconds=60)
def job_exec(t):
    shell, mark = Shell(t), unique_sleep(t)
    shell.write(f"$SBX exec -- sleep {mark}\n".encode())
    shell.wait_raw()
    shell.expect_states(mark, "S")
    shell.typed(b"\x1a", rb"Stopped(?s:.*)PROMPT> ")
    shell.expect_states(mark, "T")
    shell.sane_at_command()
    shell.write(b"fg\n")
    shell.wait_raw()
    shell.expect_states(mark, "S")
    shell.typed(b"\x1a", rb"Stopped(?s:.*)PROMPT> ")
    shell.typed(b"bg\n", rb"PROMPT> ")
    shell.expect_states(mark, "S")
    shell.sane_at_command()
    shell.write(b"fg\n")
    shell.wait_raw()
    shell.typed(b"\x03", rb"PROMPT> ")
    shell.typed(b"echo status $?\n", rb"status 130\r\n")
    shell.sane_at_command()
    t.equal(shell.inside(mark), [], "survivors")


@case("^Z at a Python program: everything inside is stopped, other sessions too; after fg input and output go on", needs="python", seconds=60)
def job_python(t):
    shell, mark = Shell(t), unique_sleep(t)
    t.file("p.py", f"import subprocess, sys\nsubprocess.Popen(['sleep', '{mark}'], start_new_session=True)\nprint('asks', flush=True)\nprint('got', input())\n")
    shell.typed(b"$SBX run p.py\n", rb"asks")
    shell.expect_states(mark, "S")
    shell.typed(b"\x1a", rb"Stopped(?s:.*)PROMPT> ")
    shell.expect_states(mark, "T")
    shell.sane_at_command()
    shell.write(b"fg\n")
    shell.wait_raw()
    shell.typed(b"hello\n", rb"got hello(?s:.*)PROMPT> ")
    shell.sane_at_command()


@case("^\\ ends the payload by SIGQUIT, status 131, and the terminal is sane")
def job_quit(t):
    shell = Shell(t)
    shell.write(b"$SBX exec -- sleep 100\n")
    shell.wait_raw()
    shell.typed(b"\x1c", rb"PROMPT> ")
    shell.typed(b"echo status $?\n", rb"status 131\r\n")
    shell.sane_at_command()


@case("in line mode (stdout in a pipe) ^Z stops the payload too, and ^C reaches it once", seconds=60)
def job_pipeline(t):
    shell, mark = Shell(t), unique_sleep(t)
    shell.write(f"$SBX exec -- sleep {mark} | cat\n".encode())
    shell.expect_states(mark, "S")
    shell.typed(b"\x1a", rb"Stopped(?s:.*)PROMPT> ")
    shell.expect_states(mark, "T")
    shell.typed(b"fg\n", rb"sleep")
    shell.expect_states(mark, "S")
    shell.typed(b"\x03", rb"PROMPT> ")
    t.wait_until(lambda: not shell.inside(mark), 5, "the payload is gone")
    shell.typed(b"""$SBX exec -- /bin/bash -c 'n=0; trap "n=\\$((n+1))" INT; echo up; for i in 1 2 3 4 5 6 7 8; do sleep 0.1; done; echo count $n' | (trap '' INT; cat)\n""", rb"up\r\n")
    shell.typed(b"\x03", rb"count 1\r\n")


@case("^Z at a script around sbx stops the script as well", seconds=40)
def job_script(t):
    shell, mark = Shell(t), unique_sleep(t)
    t.file("around.sh", f"$SBX exec -- sleep {mark}\necho after $?\n")
    shell.write(b"bash around.sh\n")
    shell.wait_raw()
    shell.expect_states(mark, "S")
    shell.typed(b"\x1a", rb"Stopped(?s:.*)PROMPT> ")
    shell.expect_states(mark, "T")
    shell.write(b"fg\n")
    shell.wait_raw()
    shell.typed(b"\x1c", rb"after 131(?s:.*)PROMPT> ")


@case("started in the background, sbx neither takes the terminal nor is stopped; fg gives it the keyboard", seconds=40)
def job_background(t):
    shell = Shell(t)
    shell.typed(b"$SBX exec -- cat &\n", rb"PROMPT> ")
    shell.sane_at_command()
    shell.typed(b"jobs\n", rb"Running(?s:.*)PROMPT> ")
    shell.write(b"fg\n")
    shell.wait_raw()
    shell.typed(b"hello\n", rb"hello\r\nhello\r\n")
    shell.typed(b"\x04", rb"PROMPT> ")
    shell.sane_at_command()


@case("SIGSTOP of sbx behind its back: after fg the terminal is raw again, at the end as it was", seconds=40)
def job_sigstop(t):
    shell, mark = Shell(t), unique_sleep(t)
    shell.write(f"$SBX exec -- sleep {mark}\n".encode())
    shell.wait_raw()
    shell.expect_states(mark, "S")
    sbx = [p for p in harness.processes_with(mark) if b"exec\0--" in open(f"/proc/{p}/cmdline", "rb").read()]
    t.equal(len(sbx), 1, "processes of sbx")
    shell.seen = b""
    os.kill(sbx[0], signal.SIGSTOP)
    shell.read_until(rb"Stopped(?s:.*)PROMPT> ")
    shell.sane_at_command()
    shell.write(b"fg\n")
    shell.wait_raw()
    shell.typed(b"\x03", rb"PROMPT> ")
    shell.sane_at_command()


@case("a payload that is killed while the terminal is raw leaves it as it was")
def job_killed(t):
    shell = Shell(t)
    shell.typed(b"$SBX exec -- /bin/sh -c 'stty raw -echo; kill -9 $$'; echo status $?\n", rb"status 137\r\n")
    shell.sane_at_command()
    shell.typed(b"$SBX exec --time 500ms -- /bin/sh -c 'stty raw -echo; sleep 100'; echo status $?\n", rb"status 124\r\n")
    shell.sane_at_command()


@case("the time for which a job is stopped does not count as running time", seconds=40)
def job_time(t):
    shell, mark = Shell(t), unique_sleep(t)
    shell.write(f"$SBX exec --time 3s -- /bin/sh -c 'sleep 0.{mark[1:6]}; : {mark}; echo be''gun; read x; echo read $x'; echo status $?\n".encode())
    shell.read_until(rb"begun")
    shell.typed(b"\x1a", rb"Stopped(?s:.*)PROMPT> ")
    time.sleep(3.2)  # longer than the limit: what is tested is the clock
    shell.write(b"fg\n")
    shell.wait_raw()
    shell.typed(b"x\n", rb"read x\r\n")


@case("closing the terminal of a shell whose job is running or stopped ends everything", seconds=60)
def job_hangup(t):
    for stopped in (False, True):
        shell, mark = Shell(t), unique_sleep(t) + str(int(stopped))
        shell.write(f"$SBX exec -- sleep {mark}\n".encode())
        shell.wait_raw()
        shell.expect_states(mark, "S")
        if stopped:
            shell.typed(b"\x1a", rb"Stopped(?s:.*)PROMPT> ")
            shell.expect_states(mark, "T")
        shell.close()
        t.wait_until(lambda: not harness.processes_with(mark), 10, f"everything is gone after the hang-up (stopped: {stopped})")


@case("a program at a terminal of its own can type into it by TIOCSTI, inside the sandbox the same program cannot", needs="python")
def tty_injection_control(t):
    code = ("import fcntl, os, termios, tty\ntty.setraw(0)\ntry:\n fcntl.ioctl(0, termios.TIOCSTI, b'J')\n print('typed', os.read(0, 1), end='\\r\\n')\n"
            "except OSError as e: print('refused', e.errno, end='\\r\\n')\n"
            "try: fcntl.ioctl(0, 0x541C, b'\\x03'); print('ioctl done')\nexcept OSError as e: print('linux', e.errno, end='\\r\\n')\n")
    term = Terminal(t, "run", "--lang", "python", "-c", code)
    term.read_until(rb"refused 1\r\nlinux 1\r\n")
    term.wait()
    try:
        if open("/proc/sys/dev/tty/legacy_tiocsti").read().strip() != "1":
            raise Skip("the kernel refuses TIOCSTI to everybody (legacy_tiocsti is 0): no control")
    except FileNotFoundError:
        pass  # before 6.2 it is always allowed
    term = Terminal(t, argv=["/usr/bin/python3", "-c", code])
    term.read_until(rb"typed b'J'\r\nlinux 25\r\n")
    term.wait()
