"""CPython's own test modules, each a program that prints the outcome of every test."""

import ctypes
import os
import pathlib
import subprocess

import sides

VERSION = "3.11"  # expected.json is about this one
QUICK = """test_bool test_re test_hashlib test_zlib test_struct test_tempfile test_glob test_pipes test_fcntl test_poll test_select
test_operator test_sqlite3 test_mmap test_pty test_stat test_shlex test_textwrap test_csv test_random""".split()

# One line a test, sorted, and nothing that depends on time; the resources that need the outside are off.
RUNNER = r"""
import os, sys, unittest
name = sys.argv[1]
real = os.fdopen(os.dup(1), 'w')
null = os.open(os.devnull, os.O_WRONLY); os.dup2(null, 1); os.dup2(null, 2)
import test.support
test.support.use_resources = []
test.support.verbose = 0
lines = []
class R(unittest.TestResult):
    def say(self, t, what): lines.append('%s %s' % (t.id().replace('test.' + name + '.', '', 1) if hasattr(t, 'id') else t, what))
    def addSuccess(self, t): self.say(t, 'ok')
    def addFailure(self, t, e): super().addFailure(t, e); self.say(t, 'FAIL')
    def addError(self, t, e): super().addError(t, e); self.say(t, 'ERROR')
    def addSkip(self, t, r): super().addSkip(t, r); self.say(t, 'skipped')
    def addExpectedFailure(self, t, e): self.say(t, 'xfail')
    def addUnexpectedSuccess(self, t): self.say(t, 'XPASS')
    def addSubTest(self, t, s, e):
        if e: self.failures.append((s, '')); self.say(t, 'FAIL in a part')
status = 0
try:
    suite = unittest.defaultTestLoader.loadTestsFromName('test.' + name)
    r = R(); suite.run(r)
    status = 0 if r.wasSuccessful() else 1
except unittest.SkipTest as e:
    lines.append('whole module skipped')
except BaseException as e:
    lines.append('module: %s' % type(e).__name__); status = 3
for line in sorted(set(lines)): real.write(line + '\n')
real.flush()
os._exit(status)
"""


def find_python(wanted=VERSION):
    """(executable, prefix) of an interpreter `wanted` ("3.11") that has its own test package."""
    candidates = []
    for root in (os.environ.get("PYENV_ROOT"), os.path.expanduser("~/.pyenv")):
        if root:
            candidates += sorted(pathlib.Path(root).glob(f"versions/{wanted}*/bin/python3"))
    candidates += [pathlib.Path(p) for p in (f"/usr/local/bin/python{wanted}", f"/usr/bin/python{wanted}", "/usr/bin/python3")]
    for path in candidates:
        if not path.exists():
            continue
        code = "import sys, os, test.test_json, test.support; print('%d.%d' % sys.version_info[:2], sys.prefix)"
        done = subprocess.run([str(path), "-I", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/", text=True)
        if done.returncode == 0 and done.stdout.split()[0] == wanted:
            return str(path), done.stdout.split()[1]
    return None


def show_prefix(prefix, identity):
    """Makes `prefix` reachable for `identity` at its own path, in a mount namespace of this process alone."""
    if identity.uid == os.geteuid() or prefix == "/usr":
        return
    done = subprocess.run(["test", "-x", f"{prefix}/bin/python3"], **identity.popen_arguments())
    if done.returncode == 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)

    def check(answer, what):
        if answer:
            raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
    check(libc.unshare(0x20000), "unshare")
    check(libc.mount(None, b"/", None, 0x44000, None), "mount --make-rprivate")
    handle = os.open(prefix, os.O_PATH)
    top = "/" + prefix.split("/")[1]
    check(libc.mount(b"tmpfs", top.encode(), b"tmpfs", 0, b"mode=755"), f"tmpfs on {top}")
    os.makedirs(prefix)
    check(libc.mount(f"/proc/self/fd/{handle}".encode(), prefix.encode(), None, 0x5000, None), f"bind {prefix}")
    os.close(handle)


def modules(names, identity):
    """Programs, or why there are none."""
    found = find_python()
    if not found:
        return f"needs python {VERSION} with its test package (Debian: libpython3-testsuite)"
    python, prefix = found
    show_prefix(prefix, identity)
    return [sides.Program("cpython", name, [python, "-c", RUNNER, name], mounts=[prefix] if prefix != "/usr" else [], seconds=110,
                          flags=["--time", "110s", "--memory", "2G", "--disk", "1G"], difference=sides.by_outcomes) for name in names]
