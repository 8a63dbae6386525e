"""The mix of tests/soak/soak.py: what a run may be, and which ends it may have.

A kind is a function of a Place (an identity, a directory of its own, a source of chance). It returns a Run, which soak.py
starts, may signal, and compares; or it makes several steps by itself and returns the problems that it saw. Every hostile
program has limits that hold it, and says how much memory those let it take.
"""

import hashlib
import os
import pathlib
import re
import signal
import socket
import struct
import time

from counting import harness
import escape

HOSTILE_MIB = 48   # --memory of what eats memory
SMALL = ["--memory", "256M", "--disk", "32M"]
USR = ["--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
       "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
HELLO_C = r"""
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char** argv) { printf("%d\n", argc > 1 ? atoi(argv[1]) * 2 : -1); return 0; }
"""


class Run:
    """One command. `statuses`: the ends that it may have. `verdict`: what the result must say, a regular expression.
    `mib`: memory that it may take. `check(out, run)` says what is wrong with stdout, "" when nothing is."""

    def __init__(self, argv, statuses, verdict="", stdin=b"", mib=24, check=None, checked_always=False, tty=False):
        self.argv, self.statuses, self.verdict, self.stdin, self.mib, self.tty = argv, set(statuses), verdict, stdin, mib, tty
        self.check, self.checked_always = check, checked_always  # always: also of a run that was killed
        self.may_signal = True


def wants(text):
    """stdout is exactly this."""
    text = text.encode() if isinstance(text, str) else text
    return lambda out, _run: "" if out == text else f"stdout is {out[:80]!r} ({len(out)} bytes), wanted {text[:80]!r} ({len(text)} bytes)"


def shell(place, code, *flags):
    return ["exec", *flags, "--", "/bin/sh", "-c", code]


KINDS = []  # (group, name, weight, function, what the host must have)


def kind(group, name, weight, needs=()):
    def register(function):
        KINDS.append((group, name, weight, function, (needs,) if isinstance(needs, str) else needs))
        return function
    return register


def simple(group, name, weight, argv, statuses, verdict="", needs=(), **more):
    """`argv` may hold {probe}, {hostile}, {dir}; the first word is run or exec."""
    def build(place):
        return Run([word.format(probe=place.probe, hostile=place.hostile, dir=place.dir) for word in argv], statuses, verdict, **more)
    KINDS.append((group, name, weight, build, (needs,) if isinstance(needs, str) else needs))


# ---- every kind of end

@kind("ends", "exit", 6)
def _exit(place):
    status = place.random.choice([0, 1, 7, 42, 200, 255])
    return Run(shell(place, f"exit {status}"), {status}, "exited")


@kind("ends", "signal", 4)
def _signal(place):
    number = place.random.choice([signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL, signal.SIGFPE])
    return Run(shell(place, f"kill -{int(number)} $$"), {128 + number}, "signaled")


simple("ends", "time limit", 4, ["exec", "--time", "100ms", "--", "/bin/sh", "-c", "sleep 60 & sleep 60"], {124}, "timed_out")
simple("ends", "CPU time limit", 2, ["exec", "--cpu-time", "100ms", "--", "/bin/sh", "-c", "while :; do :; done"], {124}, "cpu_time")
simple("ends", "memory limit", 3, ["exec", "--memory", "48M", "--disk", "16M", "--mount", "{probe}", "--", "{probe}", "touch-memory", "512"], {137},
       "out_of_memory", mib=4 * HOSTILE_MIB)
simple("ends", "output limit", 3, ["exec", "--output", "64K", "--", "yes"], {137}, "output_limit")
simple("ends", "set-up failure", 3, ["exec", "--mount", "{probe}:/usr/bin/env/below", "--", "true"], {125}, "setup_failed")
simple("ends", "wrong usage", 2, ["exec", "--no-such-flag", "--", "true"], {2})
simple("ends", "no such file", 2, ["run", "no-such-file.py"], {2}, "setup_failed")
simple("ends", "command not found", 3, ["exec", "--", "no-such-command"], {127}, "setup_failed")
simple("ends", "not executable", 2, ["exec", "--", "/usr/lib"], {126}, "setup_failed")
simple("ends", "killed by the filter", 4, ["exec", "--mount", "{probe}", "--", "{probe}", "x32"], {159}, "denied", needs="x86_64")
simple("ends", "daemon left", 4, ["exec", "--", "/bin/sh", "-c", "(trap '' TERM HUP INT; setsid sleep 60 &) ; exit 0"], {0}, "exited")

@kind("ends", "few descriptors", 3)
def _few(place):
    """Starved while it sets up, or while it looks for what others have left: it fails closed, and harms none of them."""
    few = place.random.randrange(4, 40)
    return Run(["/bin/sh", "-c", f'ulimit -n {few} && exec "$@"', "sh", place.binary, "exec", "--env", f"LEAK_MARKER={place.marker}", "--", "/bin/sh", "-c", "exit 6"], {6, 125})


# ---- languages

simple("languages", "python", 4, ["run", *SMALL, "--lang", "python", "-c", "print(sum(range(1000)))"], {0}, "exited", needs="python", check=wants("499500\n"))
simple("languages", "python, an exception", 2, ["run", *SMALL, "--lang", "python", "-c", "print('x'); 1 / 0"], {1}, "exited", needs="python", check=wants("x\n"))
simple("languages", "bash", 4, ["run", *SMALL, "--lang", "bash", "-c", "x=$((6 * 7)); echo $x"], {0}, "exited", needs="bash", check=wants("42\n"))
simple("languages", "perl", 2, ["run", *SMALL, "--lang", "perl", "-c", "print 6 * 7"], {0}, "exited", needs="perl", check=wants("42"))


@kind("languages", "C, compiled once", 3, "gcc")
def _compiled(place):
    source = place.file("hello.c", HELLO_C)
    number = place.random.randrange(1000)
    return Run(["run", *SMALL, source, str(number)], {0}, "exited", check=wants(f"{number * 2}\n"))


# ---- streams

@kind("streams", "bulk, both ways", 4)
def _bulk(place):
    data = hashlib.shake_128(str(place.random.random()).encode()).digest(place.random.choice([1, 65536, 300000, 1 << 20]))
    return Run(["exec", "--", "cat"], {0}, "exited", stdin=data, check=wants(data))


@kind("streams", "both streams", 2)
def _both(place):
    return Run(shell(place, "for i in 1 2 3 4 5 6 7 8; do echo out$i; echo err$i >&2; done"), {0}, "exited", check=wants("".join(f"out{i}\n" for i in range(1, 9))))


@kind("streams", "terminal inside", 2)
def _terminal(place):
    return Run(shell(place, "test -t 0 && test -t 1 && echo yes", "--tty", "always"), {0}, "exited", check=lambda out, _run: "" if out.split() == [b"yes"] else f"stdout is {out[:80]!r}")


@kind("streams", "terminal outside", 2)
def _terminal_outside(place):
    return Run(shell(place, "test -t 1 && stty size >/dev/null && echo yes"), {0}, "exited", tty=True)


# ---- files

simple("files", "files left", 3, ["exec", "--", "/bin/sh", "-c", "for i in 1 2 3 4; do mkdir d$i; head -c 100000 /dev/zero > d$i/f; done; mkfifo p; ln -s / l"], {0}, "exited")


@kind("files", "overlay", 3)
def _overlay(place):
    place.file("share/keep", "kept\n")

    def check(_out, _run):
        return "" if (place.dir / "share/keep").read_text() == "kept\n" and os.listdir(place.dir / "share") == ["keep"] else "the workspace below an overlay was changed"
    return Run(shell(place, "echo x > f; rm -f keep; mkdir d", "--workspace", f"{place.dir}/share:overlay"), {0}, "exited", check=check)


@kind("files", "writable share", 2)
def _writable(place):
    place.file("share/keep", "kept\n")

    def check(_out, run):
        made = place.dir / "share/made"
        return "" if run.signalled or made.exists() and made.stat().st_uid == place.identity.uid else "what was written to the share is not there"
    return Run(shell(place, "echo x > made", "--workspace", f"{place.dir}/share:rw"), {0}, "exited", check=check)


@kind("files", "artifacts", 3)
def _artifacts(place):
    def check(_out, run):
        return "" if run.signalled or (place.dir / "out/made").read_text() == "x\n" else "the artifact is not there"
    return Run(shell(place, "echo x > made", "--artifacts", f"{place.dir}/out"), {0}, "exited", check=check)


@kind("files", "hostile tree", 2, "python")
def _tree(place):
    def check(_out, _run):
        for directory, names, files in os.walk(place.dir / "out"):
            for name in names + files:
                mode = os.lstat(os.path.join(directory, name)).st_mode
                if mode & 0o170000 not in (0o100000, 0o040000) or mode & 0o6000:
                    return f"{name!r} came out with mode {mode:o}"
        return ""
    return Run(["run", *SMALL, "--artifacts", f"{place.dir}/out", f"{place.hostile}/tree.py", "4"], {0}, "exited", check=check)


# ---- programs that attack the limits

MEMORY = ["--memory", f"{HOSTILE_MIB}M", "--disk", "24M"]
for _name in ("heap", "many", "memfd", "shared"):
    # Without a cgroup there are no memfds (status 3).
    simple("hostile", f"memory: {_name}", 1, ["run", *MEMORY, f"{{hostile}}/{_name}.py"], {137, 3} if _name == "memfd" else {137}, "out_of_memory|exited", needs="python",
           mib=6 * HOSTILE_MIB)
# Which of the two limits it meets first depends on what Python itself takes.
simple("hostile", "memory: files", 1, ["run", *MEMORY, "{hostile}/tmpfs.py"], {0, 137}, "exited|out_of_memory", needs="python", mib=4 * HOSTILE_MIB)
simple("hostile", "memory: pipes", 1, ["run", *SMALL, "--open-files", "128", "{hostile}/pipes.py"], {0}, "exited", needs="python", mib=64)
simple("hostile", "fork bomb", 1, ["run", *SMALL, "--pids", "48", "--time", "3s", "{hostile}/forkbomb.py"], {9, 124}, "exited|timed_out", needs="python", mib=256)
simple("hostile", "threads", 1, ["run", *SMALL, "--pids", "64", "{hostile}/threads.py"], {0}, "exited", needs="python")
simple("hostile", "disk", 1, ["run", "--memory", "96M", "--disk", "16M", "{hostile}/disk.py", "/box"], {4}, "exited", needs="python", mib=64)
simple("hostile", "inodes", 1, ["run", *SMALL, "--inodes", "1500", "{hostile}/inodes.py"], {5}, "exited", needs="python", mib=64)
simple("hostile", "file size", 1, ["run", *SMALL, "--file-size", "1M", "{hostile}/filesize.py"], {0}, "exited", needs="python")
simple("hostile", "open files", 1, ["run", *SMALL, "--open-files", "64", "{hostile}/openfiles.py"], {0}, "exited", needs="python")
for _stream in ("1", "2"):
    simple("hostile", f"flood of stream {_stream}", 1, ["run", *SMALL, "--output", "512K", "{hostile}/flood.py", _stream], {137}, "output_limit", needs="python")
simple("hostile", "CPU time in children", 1, ["run", *SMALL, "--cpu-time", "300ms", "{hostile}/spinners.py"], {124}, "cpu_time", needs="python", mib=96)
simple("hostile", "daemon that ignores signals", 2, ["run", *SMALL, "{hostile}/daemon.py"], {0}, "exited", needs="python")
simple("hostile", "grandchild that holds the streams", 2, ["run", *SMALL, "{hostile}/holder.py"], {3}, "exited", needs="python")
simple("hostile", "forged result", 2, ["run", *SMALL, "{hostile}/forge.py"], {7}, "exited", needs="python")


# ---- escape attempts: of tests/escape, what the probe or a program of the case's own tries; each must still be refused

ATTACKS = {name: pair for name, pair in escape.load_attacks().items() if pair[1].run is None}


@kind("escapes", "attempt", 14)
def _attempt(place):
    chosen = [name for name, (_folder, attack) in ATTACKS.items()
              if place.identity.label in attack.registration.get("as_", ("root", "user")) and (not attack.program or place.has("python"))
              and ("x86_64" not in attack.registration.get("needs", ()) or place.has("x86_64"))]
    name = place.random.choice(chosen)
    attack = ATTACKS[name][1]
    folder = pathlib.Path(place.escapes) / name
    policy = place.random.choice(attack.policies)
    place.file("share/file", "shared\n")
    place.file("share/file2", "shared\n")
    flags = [flag.replace("{case}", str(folder)).replace("share:", f"{place.dir}/share:") for flag in attack.flags]
    flags += [] if policy == "default" else ["--policy", policy, "--cpu-time", "none"]  # judge's 10 s are too few in an emulated guest
    if attack.program:
        argv = ["exec", *flags, "--mount", f"{folder}:/opt/attack", "--mount", f"{folder.parent / 'inside'}:/opt/inside", "--env", "PYTHONPATH=/opt/inside",
                "--env", "PYTHONDONTWRITEBYTECODE=1", "--", "/usr/bin/python3", "/opt/attack/attempt.py", *[word for word in attack.program if word]]
    else:
        argv = ["exec", *flags, "--mount", f"{place.probe}:/opt/probe", "--", "/opt/probe", "each", *attack.tries]

    def check(out, run):
        answers = dict(re.findall(r"(?m)^(.+): (.+)$", out.decode("utf-8", "backslashreplace")))
        if not answers and run.status != 159 and not run.signalled:
            return f"{name}: the attempt says nothing"
        for what, answer in answers.items():
            wanted = attack.special.get(what, attack.answers)
            if not re.fullmatch(wanted, answer) and not (run.signalled and answer != "ok"):
                return f"ESCAPE {name}, policy {policy}: {what}: {answer!r}, wanted /{wanted}/"
        return ""
    return Run(argv, {0, 159}, "exited|denied", mib=32, check=check, checked_always=True)


# ---- the other command lines

def bwrap(place, *words):
    return [place.link("bwrap"), *words] if place.random.random() < 0.5 else [place.binary, "bwrap", *words]


@kind("bwrap", "command line", 6)
def _bwrap(place):
    words, statuses = place.random.choice([
        (["--unshare-all", "--", "/bin/sh", "-c", "exit 9"], {9}),
        (["--unshare-all", "--die-with-parent", "--new-session", "--", "/bin/sh", "-c", "(setsid sleep 60 &); exit 0"], {0}),
        (["--unshare-pid", "--", "/bin/sh", "-c", "kill -SEGV $$"], {139}),
        (["--unshare-user", "--uid", "7", "--", "/bin/sh", "-c", "test $(id -u) = 7"], {0}),
        (["--unshare-all", "--", "/no/such/command"], {1}),
        (["--bind", "/no/such/source", "/x", "--", "/bin/true"], {1}),
        (["--no-such-option"], {1}),
        (["--unshare-all", "--dir", "/a/b/c", "--tmpfs", "/a", "--", "/bin/sh", "-c", "test ! -e /a/b"], {0})])
    return Run(bwrap(place, *USR, *words), statuses)


def nsjail(place, *words):
    start = [place.link("nsjail")] if place.random.random() < 0.5 else [place.binary, "nsjail"]
    return [*start, "-Q", "-E", f"LEAK_MARKER={place.marker}", *words]


@kind("nsjail", "one program", 5)
def _nsjail(place):
    words, statuses = place.random.choice([
        (["-c", "/", "--", "/bin/sh", "-c", "exit 3"], {3}),
        (["-c", "/", "-t", "1", "--", "/bin/sleep", "60"], {137}),
        (["-c", "/", "--", "/bin/sh", "-c", "kill -SEGV $$; sleep 60"], {0, 139}),
        (["-R", "/usr", "-s", "usr/bin:/bin", "-s", "usr/lib:/lib", "-s", "usr/lib64:/lib64", "-T", "/tmp", "--", "/bin/sh", "-c", "echo x > /tmp/f && exit 5"], {5}),
        (["-c", "/", "--rlimit_fsize", "0", "--", "/bin/sh", "-c", "(setsid sleep 60 &); exit 0"], {0}),
        (["-c", "/", "--seccomp_string", "POLICY a { ERRNO(1) { sysinfo } } USE a DEFAULT ALLOW", "--", "/bin/true"], {0}),
        (["-c", "/", "--", "/no/such/command"], {255}),
        (["--no-such-flag"], {255})])
    if "kill -SEGV $$; sleep 60" in words:  # process 1 does not die of it: the shell goes on
        words[-1] = "kill -SEGV $$; exit 0"
    return Run(nsjail(place, *words), statuses)


@kind("nsjail", "a connection to a listener", 6)
def _connection(place):
    data = os.urandom(place.random.choice([1, 1000, 60000]))
    end = place.random.choice(["read", "read", "read", "reset", "leave"])
    with socket.create_connection(("127.0.0.1", place.listener), timeout=60 * harness.TIME_FACTOR) as connection:
        connection.sendall(data)
        if end == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return []
        if end == "leave":
            return []
        connection.shutdown(socket.SHUT_WR)
        got = b""
        while True:
            piece = connection.recv(65536)
            if not piece:
                break
            got += piece
    return [] if got == data else [f"{len(got)} bytes came back of {len(data)}"]


# ---- sessions

CELLS = [  # code, statuses, flags
    ("x = 6 * 7\nprint(x)", {0}, ()), ("1 / 0", {1}, ()), ("print('y' * 100000)", {0}, ()), ("raise SystemExit(2)", {2}, ()),
    ("import subprocess; p = subprocess.Popen(['sleep', '0.1'])", {0}, ()), ("while True: pass", {124}, ("--timeout", "{300}ms")),
    ("import os; os._exit(3)", {3}, ()), ("open('made', 'w').write('z' * 5000)", {0}, ()), ("b = bytearray(20 << 20); b", {0}, ()),
    ("import threading; t = [threading.Thread(target=print) for _ in range(4)]; [x.start() for x in t]", {0}, ()),
    ("def f(n): return n if n < 2 else f(n - 1) + f(n - 2)\nf(12)", {0}, ()), ("print('a' * 3_000_000)", {137}, ()),  # --output of the session
]


def stretched(flags):
    return [re.sub(r"\{(\d+)\}", lambda found: str(int(int(found.group(1)) * harness.TIME_FACTOR)), flag) for flag in flags]


@kind("sessions", "cell", 12, "python")
def _cell(place):
    code, statuses, flags = place.random.choice(CELLS)
    # 137: the cell before it met the memory limit, and the session noticed that only in this one.
    return Run([place.binary, "session", "run", *stretched(flags), place.session(), "-c", code], statuses | {137})


@kind("sessions", "a cell that eats memory", 1, "python")
def _hungry_cell(place):
    return Run([place.binary, "session", "run", place.session(), "-c", "b = b'x' * (400 << 20)"], {137, 1}, mib=128)


@kind("sessions", "a further program", 3, "python")
def _further(place):
    # 137: a cell beside it met the memory limit, which ends everything in the sandbox; 125: it is just being started anew ("try again").
    return Run([place.binary, "session", "exec", place.session(), "--", "/bin/sh", "-c", "echo x; (sleep 0.2 &); exit 4"], {4, 137, 125})


@kind("sessions", "files in and out", 2, "python")
def _copies(place):
    name = f"f{place.number}"
    source, session = place.file("copied", os.urandom(3000)), place.session()
    problems = []
    for words in ([place.binary, "cp", source, f"{session}:/box/{name}"], [place.binary, "cp", f"{session}:/box/{name}", f"{place.dir}/back"],
                  [place.binary, "session", "exec", session, "--", "rm", f"/box/{name}"]):
        status, _out, err = place.finish(words)
        if status != 0 and not (words[1] == "session" and status in (137, 125)):
            problems.append(f"{' '.join(words[1:3])}: status {status}: {err[-200:]!r}")
    if not problems and pathlib.Path(place.dir, "back").read_bytes() != pathlib.Path(source).read_bytes():
        problems.append("what came back differs")
    return problems


@kind("sessions", "a whole life", 2, "python")
def _life(place):
    """Started, used, and stopped; or its supervisor is killed, and nothing of it is left."""
    name = f"life-{place.number}"
    pid, problem = place.owner.start_session(place.binary, name, "--ttl", "30m")
    if problem:
        return [f"start: {problem}"]
    status, out, err = place.finish([place.binary, "session", "run", name, "-c", "print(6 * 7)"])
    problems = [] if out == b"42\n" else [f"cell: status {status}: {out[:80]!r} {err[-300:]!r}"]
    processes = harness.process_tree(pid)
    if place.random.random() < 0.5:
        status, _out, err = place.finish([place.binary, "session", "stop", name])
        problems += [] if status == 0 else [f"stop: status {status}: {err[-300:]!r}"]
    else:
        os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + 20 * harness.TIME_FACTOR
    while any(map(harness.alive, processes)) and time.monotonic() < end:
        time.sleep(0.02)
    left = [pid for pid in processes if harness.alive(pid)]
    return problems + ([f"processes left: {left}"] if left else [])


@kind("sessions", "a supervisor stopped for a while", 1, "python")
def _stopped(place):
    pid = place.random.choice(place.lasting)
    try:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(place.random.random() * 0.1)  # how long is what varies
    finally:
        os.kill(pid, signal.SIGCONT)
    return []
