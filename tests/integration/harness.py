"""What every test of the real binary stands on: running sbx as root or as an ordinary user, bounded in time, in a
fresh directory of that user's own, and saying precisely what differs.

Only the standard library of Python 3.9. The driver itself may run as root; sbx is started with the identity under
test, never the driver's own by accident.
"""

import difflib
import functools
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time

TESTS = pathlib.Path(__file__).resolve().parent.parent
# What a shell without job control runs in the background ignores these two, and so would all that is started from here.
for _number in (signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)

ROOT = TESTS.parent
HOSTILE = TESTS / "hostile"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TEST_USER = "sbxtest"
shared_cache = None  # a directory: cases of one identity share a cache below it instead of having one each
# How much slower than a real machine this one is (tests/guest: plain emulation). It stretches what bounds a wait; limits
# given to sbx only where a case asks for that, with Context.slow.
TIME_FACTOR = float(os.environ.get("SBX_TEST_TIME_FACTOR", "1"))


class Failure(AssertionError):
    """The behaviour under test is not there."""


class Skip(Exception):
    """The case cannot be tried on this host; the text says why and is compared with the expected skips."""


def show(value, limit=6000):
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    value = str(value)
    return value if len(value) <= limit else value[:limit] + f"\n… ({len(value)} characters)"


# ---- identities ---------------------------------------------------------------------------------------------

class Identity:
    """Who runs sbx in a case."""

    def __init__(self, label, uid, gid, home, name):
        self.label, self.uid, self.gid, self.home, self.name = label, uid, gid, home, name

    def popen_arguments(self):
        if os.geteuid() == self.uid:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def current_identity(label):
    entry = pwd.getpwuid(os.geteuid())
    return Identity(label, entry.pw_uid, entry.pw_gid, entry.pw_dir, entry.pw_name)


def make_identities(wanted):
    """{"root", "user"} as far as this process may take them on; REQUIRES root for both."""
    found = []
    if os.geteuid() != 0:
        return [current_identity("user")] if "user" in wanted else []
    if "root" in wanted:
        found.append(current_identity("root"))
    if "user" in wanted:
        try:
            entry = pwd.getpwnam(TEST_USER)
        except KeyError:
            subprocess.run(["useradd", "--create-home", "--shell", "/bin/bash", TEST_USER], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            entry = pwd.getpwnam(TEST_USER)
        os.chmod(entry.pw_dir, 0o700)
        found.append(Identity("user", entry.pw_uid, entry.pw_gid, entry.pw_dir, TEST_USER))
    return found


# ---- cases --------------------------------------------------------------------------------------------------

class Case:
    def __init__(self, name, sentence, function, as_, needs, seconds, alone):
        self.name, self.sentence, self.function = name, sentence, function
        self.as_, self.needs, self.seconds, self.alone = as_, needs, seconds, alone


REGISTRY = []


def case(sentence, as_=("root", "user"), needs=(), seconds=25, alone=False):
    """Registers a function of one argument, the Context. `sentence` says the behaviour that is shown. `seconds`
    bounds the case. `alone`: nothing else runs meanwhile (it watches the whole machine)."""
    def register(function):
        module = pathlib.Path(function.__code__.co_filename).stem.replace("_cases", "")
        REGISTRY.append(Case(f"{module}/{function.__name__.strip('_')}", sentence, function, tuple(as_),
                             (needs,) if isinstance(needs, str) else tuple(needs), seconds, alone))
        return function
    return register


class Completed:
    """A finished command. `out` and `err` are bytes; `status` is what a shell would show ($?)."""

    def __init__(self, argv, status, out, err, seconds, result_path=None):
        self.argv, self.status, self.out, self.err, self.seconds = argv, status, out, err, seconds
        self._result_path = result_path
        self._result = None

    @property
    def text(self):
        return self.out.decode("utf-8", "backslashreplace")

    @property
    def errors(self):
        return self.err.decode("utf-8", "backslashreplace")

    @property
    def result(self):
        """The object that --result wrote."""
        if self._result is None:
            try:
                self._result = json.loads(pathlib.Path(self._result_path).read_bytes())
            except (OSError, ValueError, TypeError) as error:
                raise Failure(f"no readable result: {error}\n{self.describe()}")
        return self._result

    @property
    def verdict(self):
        return self.result.get("verdict")

    def limits_hit(self):
        return [hit.get("name") for hit in self.result.get("limits_hit", [])]

    def describe(self):
        words = " ".join(_word(w) for w in self.argv)
        return (f"  command: {show(words, 1500)}\n  status:  {self.status}   ({self.seconds:.2f} s)\n"
                f"  stdout:  {show(self.out, 2500)!r}\n  stderr:  {show(self.err, 2500)}")


def _word(word):
    import shlex
    return shlex.quote(os.fsdecode(word) if isinstance(word, bytes) else str(word))


class Process(subprocess.Popen):
    """A Popen whose time-outs are stretched."""

    def wait(self, timeout=None):
        return super().wait(timeout if timeout is None else timeout * TIME_FACTOR)

    def communicate(self, input=None, timeout=None):
        return super().communicate(input, timeout if timeout is None else timeout * TIME_FACTOR)


def shell_status(returncode):
    return returncode if returncode >= 0 else 128 - returncode


class Context:
    """What a case gets: an identity, a directory of its own (the working directory of everything that it starts),
    the binary and the probe."""

    def __init__(self, identity, directory, binary, probe, seconds):
        self.identity = identity
        self.user = identity.label
        self.is_root = identity.uid == 0
        self.dir = pathlib.Path(directory)
        self.binary, self.probe = str(binary), str(probe)
        self.deadline = time.monotonic() + seconds * TIME_FACTOR
        self._started = []
        self._cleanups = []
        self._results = 0
        self.hostile = str(pathlib.Path(self.binary).parent / "hostile")
        self.home = str(self.dir / "home")  # a stand-in: a case never touches the real home
        os.mkdir(self.home, 0o700)
        self.own(self.home)
        self.base_env = {"PATH": SYSTEM_PATH, "HOME": self.home, "USER": identity.name, "LOGNAME": identity.name,
                         "LANG": "C.UTF-8", "XDG_CACHE_HOME": str(self.dir / "cache"),
                         "XDG_CONFIG_HOME": str(self.dir / "config")}
        for name in ("cache", "config"):
            os.mkdir(self.dir / name, 0o700)
            self.own(self.dir / name)
        if shared_cache:
            folder = pathlib.Path(shared_cache) / identity.label
            if not folder.exists():
                folder.mkdir(mode=0o700, exist_ok=True)
                self.own(folder)
            self.base_env["XDG_CACHE_HOME"] = str(folder)

    # -- files of the identity's own

    def own(self, path):
        if os.geteuid() == 0 and self.identity.uid != 0:
            os.lchown(path, self.identity.uid, self.identity.gid)

    def mkdir(self, name, mode=0o755):
        path = self.dir / name
        missing = []
        probe = path
        while not probe.exists():
            missing.append(probe)
            probe = probe.parent
        for directory in reversed(missing):
            os.mkdir(directory, 0o755)
            self.own(directory)
        os.chmod(path, mode)
        return str(path)

    def file(self, name, content=b"", mode=0o644):
        path = self.dir / name
        self.mkdir(path.parent.relative_to(self.dir))
        if isinstance(content, str):
            content = content.encode()
        path.write_bytes(content)
        os.chmod(path, mode)
        self.own(path)
        return str(path)

    # -- running

    def slow(self, value):
        """A number of seconds, or a duration as sbx takes it ("500ms"), made longer on a machine that is slow: for what
        would otherwise depend on how quickly a program starts."""
        if not isinstance(value, str):
            return value * TIME_FACTOR
        number, unit = re.fullmatch(r"([0-9.]+)([a-z]*)", value).groups()
        return value if TIME_FACTOR == 1 else f"{float(number) * TIME_FACTOR:g}{unit}"

    def remaining(self):
        """Seconds until the case has to be over."""
        return max(0.5, self.deadline - time.monotonic())

    def environment(self, env=None):
        merged = dict(self.base_env)
        merged.update(env or {})
        return {k: v for k, v in merged.items() if v is not None}

    def spawn(self, argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=None, cwd=None,
              pass_fds=(), **more):
        process = Process([os.fspath(a) if not isinstance(a, (str, bytes)) else a for a in argv],
                          stdin=stdin, stdout=stdout, stderr=stderr, env=self.environment(env),
                          cwd=str(cwd or self.dir), pass_fds=pass_fds, start_new_session=more.pop("session", True),
                          **self.identity.popen_arguments(), **more)
        self._started.append(process)
        return process

    def run(self, argv, stdin=b"", env=None, cwd=None, timeout=None, result_path=None, **more):
        """Runs to the end. stdin: bytes, or an open file, or None for "closed by the caller" (see stdin_closed)."""
        began = time.monotonic()
        feed = stdin if isinstance(stdin, (bytes, str)) else None
        if isinstance(feed, str):
            feed = feed.encode()
        process = self.spawn(argv, stdin=subprocess.PIPE if feed is not None else stdin, env=env, cwd=cwd, **more)
        try:
            bound = min((timeout or 1e6) * TIME_FACTOR, self.remaining())
            out, err = subprocess.Popen.communicate(process, feed, timeout=bound)
        except subprocess.TimeoutExpired:
            self._kill(process)
            out, err = process.communicate()
            raise Failure("did not end in time\n" + Completed(argv, shell_status(process.returncode), out, err,
                                                              time.monotonic() - began).describe())
        return Completed(argv, shell_status(process.returncode), out or b"", err or b"", time.monotonic() - began,
                         result_path)

    def sbx(self, *arguments, result=False, **more):
        """`sbx ARGUMENTS…`. With result=True `--result FILE` is put behind the command's name; on a slow machine --time as
        well, where the case gives none: the default of a minute is for others."""
        words = [str(a) if isinstance(a, pathlib.Path) else a for a in arguments]
        if TIME_FACTOR != 1 and words[0] in ("run", "exec") and not any(str(word).startswith("--time") for word in words):
            words[1:1] = ["--time", self.slow("60s")]
        path = None
        if result:
            path = self.result_path()
            words[1:1] = ["--result", path]
        return self.run([self.binary] + words, result_path=path, **more)

    def result_path(self):
        self._results += 1
        return str(self.dir / f"result-{self._results}.json")

    def python(self, code, *flags, result=False, args=(), **more):
        """A Python program inside, by -c."""
        return self.sbx("run", *flags, "--lang", "python", "-c", code, *(["--", *args] if args else []),
                        result=result, **more)

    def shell(self, code, *flags, result=False, **more):
        return self.sbx("exec", *flags, "--", "/bin/bash", "-c", code, result=result, **more)

    def probed(self, *words, flags=(), result=False, **more):
        """The probe inside, mounted under /probe."""
        return self.sbx("exec", "--mount", f"{self.probe}:/opt/probe", *flags, "--", "/opt/probe", *words,
                        result=result, **more)

    def at_end(self, function):
        self._cleanups.append(function)

    # -- checks

    def equal(self, got, want, what="value"):
        if got == want:
            return
        if isinstance(got, (bytes, str)) and isinstance(want, (bytes, str)):
            lines = difflib.unified_diff(show(want).splitlines(), show(got).splitlines(), "wanted", "got", lineterm="")
            raise Failure(f"{what} differs\n" + "\n".join("  " + line for line in lines) +
                          f"\n  wanted {show(want, 400)!r}\n  got    {show(got, 400)!r}")
        raise Failure(f"{what}: wanted {want!r}, got {got!r}")

    def true(self, condition, what):
        if not condition:
            raise Failure(what)

    def match(self, text, pattern, what="text"):
        if not re.search(pattern, text, re.MULTILINE):
            raise Failure(f"{what} lacks /{pattern}/:\n  {show(text)}")

    def no_match(self, text, pattern, what="text"):
        if re.search(pattern, text, re.MULTILINE):
            raise Failure(f"{what} has /{pattern}/:\n  {show(text)}")

    def expect(self, done, status=0, out=None, err=None, verdict=None, hit=None, out_match=None):
        """The usual checks of one run, with everything about the run in the message."""
        problems = []
        if status is not None:
            wanted = status if isinstance(status, (tuple, list, set)) else (status,)
            if done.status not in wanted:
                problems.append(f"status {done.status}, wanted {'/'.join(map(str, wanted))}")
        if out is not None:
            want = out.encode() if isinstance(out, str) else out
            if done.out != want:
                problems.append(f"stdout differs: wanted {show(want, 600)!r}")
        if out_match is not None and not re.search(out_match, done.text, re.MULTILINE):
            problems.append(f"stdout lacks /{out_match}/")
        if err is not None and not re.search(err, done.errors, re.MULTILINE):
            problems.append(f"stderr lacks /{err}/")
        if verdict is not None and done.verdict != verdict:
            problems.append(f"verdict {done.verdict!r}, wanted {verdict!r}")
        if hit is not None:
            names = done.limits_hit()
            if not any(re.fullmatch(hit, str(n)) for n in names):
                problems.append(f"limits_hit {names!r}, wanted /{hit}/")
        if problems:
            raise Failure("; ".join(problems) + "\n" + done.describe())
        return done

    def wait_until(self, predicate, seconds, what):
        """Polls every 10 ms; the one way to wait here. `seconds` is for a machine that is not slow."""
        end = time.monotonic() + self.slow(seconds)
        while True:
            value = predicate()
            if value:
                return value
            if time.monotonic() > end:
                raise Failure(f"not within {seconds} s: {what}")
            time.sleep(0.01)

    # -- end of a case

    def _kill(self, process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        try:
            process.kill()
        except (ProcessLookupError, PermissionError):
            pass

    def close(self):
        for function in reversed(self._cleanups):
            try:
                function()
            except Exception:  # a cleanup never hides the case's own outcome
                pass
        for process in self._started:
            if process.poll() is None:
                self._kill(process)
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    pass
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    try:
                        stream.close()
                    except OSError:
                        pass


# ---- looking at the machine ---------------------------------------------------------------------------------

def processes_with(marker):
    """pids of all processes whose command line holds `marker`, zombies excluded."""
    found = []
    marker = marker.encode() if isinstance(marker, str) else marker
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                line = file.read()
        except OSError:
            continue
        if marker in line and int(name) != os.getpid():
            found.append(int(name))
    return found


def children_of(pid):
    found = []
    for task in _listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/children") as file:
                found += [int(word) for word in file.read().split()]
        except OSError:
            pass
    return found


def process_tree(pid):
    """`pid` and all that descend from it, the nearer first."""
    found, queue = [], [pid]
    while queue:
        one = queue.pop(0)
        found.append(one)
        queue += children_of(one)
    return found


def alive(pid):
    """It exists and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
    except OSError:
        return False
    return bool(words) and words[0] not in (b"Z", b"X")


def _listdir(path):
    try:
        return os.listdir(path)
    except OSError:
        return []


# ---- hosts --------------------------------------------------------------------------------------------------

def have(name, identity=None):
    """Can the identity under test run `name` from the system's PATH?"""
    return shutil.which(name, path=SYSTEM_PATH) is not None


@functools.lru_cache(maxsize=None)
def has_sanitizers(binary):
    with open(binary, "rb") as file:
        return b"__asan_init" in file.read()


_SYSTEM_NEEDS = {
    # What AddressSanitizer takes away from sbx itself: a static binary, a quick start, a small one.
    "plain-build": lambda ctx: not has_sanitizers(ctx.binary),
    "python": lambda ctx: have("python3"),
    "node": lambda ctx: have("node"),
    "g++": lambda ctx: have("g++"),
    "perl": lambda ctx: have("perl"),
    "java": lambda ctx: have("javac"),
    "bash": lambda ctx: have("bash"),
    "zsh": lambda ctx: have("zsh"),
    "fish": lambda ctx: have("fish"),
    "strace": lambda ctx: have("strace") and ctx.run(["strace", "-qq", "-o", "/dev/null", "true"]).status == 0,
    "mandoc": lambda ctx: have("mandoc"),
    "man": lambda ctx: have("man") and have("groff"),
    "awk": lambda ctx: have("awk"),
    "unshare": lambda ctx: have("unshare"),
    "venv": lambda ctx: have("python3") and subprocess.run(
        ["/usr/bin/python3", "-c", "import venv, ensurepip"], stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL).returncode == 0,
    "root": lambda ctx: os.geteuid() == 0,
    "x86_64": lambda ctx: os.uname().machine == "x86_64",
    "ipv6": lambda ctx: os.path.exists("/proc/net/if_inet6"),
    "userns": lambda ctx: ctx.run(["unshare", "-U", "-r", "true"]).status == 0,
    "pyenv": lambda ctx: find_pyenv() is not None,
    # The cases' directories lie on a file system that tells its disk.
    "disk": lambda ctx: os.major(os.stat(ctx.dir).st_dev) != 0,
    "systemd": lambda ctx: os.path.isdir("/run/systemd/system"),
    "user-manager": lambda ctx: os.path.exists(f"/run/user/{ctx.identity.uid}/systemd/private"),
    # Marks of the overlay's upper side, which is on tmpfs: since kernel 6.6.
    "tmpfs-xattr": lambda ctx: tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups())) >= (6, 6),
    "cgroup": lambda ctx: cgroup_holder(ctx) is not None,
    "cgroup-v2": lambda ctx: "v2" in (cgroup_holder(ctx) or ""),
}


_CGROUP_HOLDERS = {}


def cgroup_holder(ctx):
    """What holds the memory limit for this identity ("cgroup v2 memory.max"); None: no controller is to be had."""
    if ctx.user not in _CGROUP_HOLDERS:
        done = ctx.sbx("exec", "--require", "cgroup", "--", "true", result=True)
        _CGROUP_HOLDERS[ctx.user] = done.result["isolation"]["limits_held_by"]["memory"] if done.status == 0 else None
    return _CGROUP_HOLDERS[ctx.user]


def find_pyenv():
    """(root, version) of a pyenv with an interpreter of its own, of the user who runs the driver; None: there is none."""
    for root in (os.environ.get("PYENV_ROOT"), os.path.expanduser("~/.pyenv")):
        if root and os.path.isdir(f"{root}/versions"):
            for version in sorted(os.listdir(f"{root}/versions")):
                if os.access(f"{root}/versions/{version}/bin/python3", os.X_OK):
                    return root, version
    return None


def unmet_need(context, needs):
    for need in needs:
        test = _SYSTEM_NEEDS.get(need)
        if test is None:
            return f"unknown need {need!r}"
        if not test(context):
            return f"needs {need}"
    return None


def load_python_cases(folder, pattern="*_cases.py"):
    import importlib.util
    sys.path.insert(0, str(folder))
    for path in sorted(folder.glob(pattern)):
        if path.stem in sys.modules:  # another one has imported it, and its cases are there
            continue
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
    return list(REGISTRY)


def partial_difference(want, got, where="result"):
    """"" when every key of `want` stands in `got` with an equal value (objects compared partially; a string of the
    form "/…/" is a regular expression; a list: each wanted element matches some element), else what differs."""
    if isinstance(want, dict):
        if not isinstance(got, dict):
            return f"{where}: wanted an object, got {got!r}"
        for key, value in want.items():
            if key not in got:
                return f"{where}: no key {key!r}"
            problem = partial_difference(value, got[key], f"{where}.{key}")
            if problem:
                return problem
        return ""
    if isinstance(want, list):
        if not isinstance(got, list):
            return f"{where}: wanted a list, got {got!r}"
        for element in want:
            if all(partial_difference(element, other) for other in got):
                return f"{where}: no element like {element!r} in {got!r}"
        return ""
    if isinstance(want, str) and len(want) > 2 and want.startswith("/") and want.endswith("/"):
        return "" if re.search(want[1:-1], str(got)) else f"{where}: {got!r} lacks {want}"
    return "" if want == got else f"{where}: wanted {want!r}, got {got!r}"
