"""One program, run once bare and once in a sandbox, and what differs.

Both sides get the same files in a fresh working directory, the same environment and input. Inside that directory is the
workspace, /box; outside it lies below the driver's own folder, so its path in what the outside run printed is read as /box,
and HOME, and what else has a name of its own inside, likewise. A driver that is root also gives the outside run a /tmp of its own
(a bind mount in a mount namespace) and System V objects of its own: two programs that run at the same time must not meet there, and
nothing stays behind.
"""

import ctypes
import difflib
import os
import pathlib
import re
import selectors
import signal
import subprocess
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "integration"), str(pathlib.Path(__file__).resolve().parent.parent)]
import harness  # noqa: E402
import run  # noqa: E402  (tests/run.py)

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin", "USER": "sandbox", "LOGNAME": "sandbox", "LANG": "C.UTF-8"}
# What no two runs have in common: addresses, times in a listing, what dd measured.
EVERYWHERE = [(re.compile(rb"\b0x[0-9a-fA-F]{8,16}\b|(?<=[${])[0-9A-F]{8,16}\b"), b"0x"), (re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}"), b"TIME"),
              (re.compile(rb"copied, [0-9.e+-]+ s, .*/s"), b"copied")]
MOST = 8 << 20  # bytes of one stream that are compared


class Program:
    """`argv` may hold {work}, the working directory. `prepare(work)` fills it, as the driver. `mounts` are shown read-only at their own
    paths. `difference` names what differs between two Ends, as lines that the next run would print again. `scrub` are pairs of
    a regular expression (of bytes) and what stands for its matches on both sides."""

    def __init__(self, suite, name, argv, prepare=None, stdin=b"", env=None, mounts=(), flags=(), seconds=55, difference=None, scrub=()):
        self.suite, self.name, self.argv, self.prepare, self.stdin = suite, f"{suite}/{name}", argv, prepare, stdin
        self.env, self.mounts, self.flags, self.seconds = env or {}, tuple(mounts), tuple(flags), seconds
        self.difference, self.scrub = difference or by_lines, scrub

    def inside(self, binary, end):
        """The command line of sbx."""
        words = [binary, "exec", "-q", "--workspace", f"{end.work}:rw"]
        for path in self.mounts:
            words += ["--mount", path]
        for name, value in self.env.items():
            words += ["--env", f"{name}={value.replace('{work}', '/box')}"]
        return [*words, *self.flags, "--", *(word.replace("{work}", "/box") for word in self.argv)]

    def ended(self, end):
        """After the inside run, while its folder is there."""

    def outside(self, end, _inside_end):
        """[(argv, environment)]: each runs when the one before succeeded."""
        env = {**ENVIRONMENT, "HOME": str(end.home), **{name: value.replace("{work}", str(end.work)) for name, value in self.env.items()}}
        return [([word.replace("{work}", str(end.work)) for word in self.argv], env)]


class End:
    """How one side of a program ended."""

    def __init__(self, place):
        self.place, self.work, self.home, self.tmp, self.build = place, place / "work", place / "home", place / "tmp", place / "build"
        self.status, self.out, self.err, self.raw_err, self.seconds = None, b"", b"", b"", 0.0
        self.compilers = 0  # how many of the commands are, whose words sbx prints on stderr

    def names(self):
        """What has another name inside."""
        return ((self.work, "/box"), (self.home, "/home/sandbox"), (self.build, "/run/sbx/build"), (self.tmp, "/tmp"))


def make_place(place, program, identity):
    """A fresh folder with the program's files, the identity's own."""
    end = End(place)
    place.mkdir(mode=0o755)
    for path in (end.work, end.home, end.tmp, end.build):
        path.mkdir(mode=0o755)
    if program.prepare:
        program.prepare(end.work)
    if os.geteuid() == 0 and identity.uid != 0:
        for folder, folders, files in os.walk(place):
            for name in folders + files:
                os.lchown(os.path.join(folder, name), identity.uid, identity.gid)
        os.chown(place, identity.uid, identity.gid)
    return end


def finish(process, stdin, seconds):
    """(status, stdout, stderr) of a process and its session; what it leaves behind is not waited for."""
    end = time.monotonic() + seconds * harness.TIME_FACTOR
    out = {process.stdout: bytearray(), process.stderr: bytearray()}
    pidfd = os.pidfd_open(process.pid)
    late = None
    with selectors.DefaultSelector() as selector:
        for stream in out:
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ)
        selector.register(pidfd, selectors.EVENT_READ)
        if process.stdin:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        timed_out = False
        while selector.get_map():
            left = (late or end) - time.monotonic()
            if left <= 0:
                if late:
                    break
                timed_out, late = True, time.monotonic() + 2
                kill_session(process)
                continue
            for key, _ in selector.select(left):
                if key.fileobj is pidfd or key.fileobj == pidfd:
                    selector.unregister(pidfd)
                    kill_session(process)
                    late = late or time.monotonic() + 1
                elif key.fileobj is process.stdin:
                    try:
                        stdin = stdin[os.write(process.stdin.fileno(), stdin[:65536]):]
                    except BlockingIOError:
                        continue
                    except BrokenPipeError:
                        stdin = b""
                    if not stdin:
                        selector.unregister(process.stdin)
                        process.stdin.close()
                else:
                    try:
                        data = os.read(key.fileobj.fileno(), 1 << 16)
                    except BlockingIOError:
                        continue
                    if not data:
                        selector.unregister(key.fileobj)
                    elif len(out[key.fileobj]) < MOST:
                        out[key.fileobj] += data
    os.close(pidfd)
    kill_session(process)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            stream.close()
    return ("timeout" if timed_out else harness.shell_status(process.returncode)), *(bytes(data) for data in out.values())


def kill_session(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def become_reaper():
    """What programs leave behind comes to the driver, which ends it when all is done."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def end_strays():
    for task in os.listdir("/proc/self/task"):
        for pid in pathlib.Path(f"/proc/self/task/{task}/children").read_text().split():
            try:
                os.kill(int(pid), signal.SIGKILL)
                os.waitpid(int(pid), 0)
            except OSError:
                pass


class Sides:
    """Runs programs in folders below `base`, one for each thread."""

    def __init__(self, base, binary, outside, caller):
        self.base, self.binary, self.outside_identity, self.caller = pathlib.Path(base), binary, outside, caller
        # Who one is has names of its own inside too; a number only where it stands beside a name.
        user = re.escape(outside.name).encode()
        self.identity_names = [(re.compile(rb"\b%d(?=\(%s\))" % (number, user)), b"1000") for number in {outside.uid, outside.gid}] + [(re.compile(rb"\b%s\b" % user), b"sandbox")]

    def start(self, argv, env, cwd, identity, program, last):
        """With pipes of the program's own user: who opens /dev/stdin needs the right to."""
        owner = self.caller if identity is self.caller else self.outside_identity
        ends = []
        for _ in range(3):
            read, write = os.pipe()
            if os.geteuid() == 0:
                os.fchown(read, owner.uid, owner.gid)
            ends += [read, write]
        stdin_read, stdin_write, out_read, out_write, err_read, err_write = ends
        feeds = last and program.stdin
        try:
            process = subprocess.Popen(argv, stdin=stdin_read if feeds else subprocess.DEVNULL, stdout=out_write, stderr=err_write, env=env, cwd=cwd,
                                       start_new_session=True, **identity.popen_arguments())
        finally:
            for end in (stdin_read, out_write, err_write):
                os.close(end)
        process.stdout, process.stderr = os.fdopen(out_read, "rb", 0), os.fdopen(err_read, "rb", 0)
        if feeds:
            process.stdin = os.fdopen(stdin_write, "wb", 0)
        else:
            os.close(stdin_write)
        return process

    def outside(self, program, slot, inside_end=None):
        identity = self.outside_identity
        end = make_place(self.base / slot, program, identity)
        began = time.monotonic()
        try:
            steps = program.outside(end, inside_end)
            out, err = b"", b""
            for number, (argv, env) in enumerate(steps):
                last = number == len(steps) - 1
                if os.geteuid() == 0:
                    argv = ["/usr/bin/unshare", "-m", "-i", "--propagation", "private", "/bin/sh", "-c",
                            'mount --bind "$1" /tmp && shift && exec "$@"', "sh", str(end.tmp), "/usr/bin/setpriv", "--reuid", str(identity.uid), "--regid",
                            str(identity.gid), "--clear-groups", "--", *argv]
                    process = self.start(argv, env, end.work, harness.current_identity("root"), program, last)
                else:
                    process = self.start(argv, env, end.work, identity, program, last)
                status, more_out, more_err = finish(process, program.stdin, program.seconds)
                end.status = status
                if inside_end and number < inside_end.compilers:
                    err += more_err + more_out
                else:
                    out, err = out + more_out, err + more_err
                if status != 0:
                    break
            end.out, end.err = (self.scrubbed(text, program, end) for text in (out, err))
            end.raw_err = err
        finally:
            end.seconds = time.monotonic() - began
            run.remove_tree(str(end.place))
        return end

    def inside(self, program, slot):
        end = make_place(self.base / slot, program, self.caller)
        began = time.monotonic()
        try:
            env = {"PATH": harness.SYSTEM_PATH, "HOME": str(end.home), "LANG": "C.UTF-8", "XDG_CACHE_HOME": str(self.base / f"cache-{self.caller.label}")}
            process = self.start(program.inside(self.binary, end), env, end.place, self.caller, program, True)
            end.status, out, end.raw_err = finish(process, program.stdin, program.seconds + 10)
            err = re.sub(rb"sbx: .*\n?", b"", end.raw_err)  # not only at the beginning of a line: a program may leave one open
            program.ended(end)
            end.out, end.err = (self.scrubbed(text, program, None) for text in (out, err))
        finally:
            end.seconds = time.monotonic() - began
            run.remove_tree(str(end.place))
        return end

    def scrubbed(self, text, program, end):
        if end:
            for path, name in end.names():
                text = text.replace(os.fsencode(path), name.encode())
            for word, name in self.identity_names:
                text = word.sub(name, text)
        text = text.replace(os.fsencode(self.base / "trees"), b"/trees")
        for pattern, stand_in in (*EVERYWHERE, *program.scrub):
            text = pattern.sub(stand_in, text)
        return text


# ---- what differs ---------------------------------------------------------------------------------------------

def shown(line):
    text = line.decode("utf-8", "backslashreplace").rstrip("\n")
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= 300 else text[:300] + "…"


def status_difference(outside, inside):
    return [f"status: {outside.status} -> {inside.status}"] if outside.status != inside.status else []


def stream_difference(word, a, b):
    if a == b:
        return []
    a, b = a.splitlines(), b.splitlines()
    found = []
    if max(len(a), len(b)) > 4000:
        a, b = [[line for line in side if line not in set(other)] for side, other in ((a, b), (b, a))]
    for what, a1, a2, b1, b2 in difflib.SequenceMatcher(None, a, b, False).get_opcodes():
        if what == "equal":
            continue
        for n in range(max(a2 - a1, b2 - b1)):
            left = shown(a[a1 + n]) if a1 + n < a2 else "absent"
            right = shown(b[b1 + n]) if b1 + n < b2 else "absent"
            found.append(f"{word}: {left} -> {right}")
    return list(dict.fromkeys(found)) or [f"{word}: ends of lines"]


def by_lines(outside, inside):
    return status_difference(outside, inside) + stream_difference("out", outside.out, inside.out) + stream_difference("err", outside.err, inside.err)


def by_outcomes(outside, inside):
    """Of lines `TEST OUTCOME` in any order."""
    found = status_difference(outside, inside)
    sides = []
    for end in (outside, inside):
        told = {}
        for line in end.out.decode("utf-8", "backslashreplace").splitlines():
            if line.endswith(" in a part"):
                line = line[:-len(" in a part")]
            name, _, outcome = line.rpartition(" ")
            if name:
                told[name] = outcome
        sides.append(told)
    a, b = sides
    return found + [f"{name}: {a.get(name, 'absent')} -> {b.get(name, 'absent')}" for name in sorted(set(a) | set(b)) if a.get(name) != b.get(name)]
