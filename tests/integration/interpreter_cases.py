"""Interpreters where users have them: the system's, pyenv's behind a shim, virtual environments, node."""

import os
import re
import shutil

import harness
from harness import Skip, case

WHERE = "import sys; print(sys.executable, sys.prefix, '%d.%d.%d' % sys.version_info[:3])"


@case("the system's python runs, and the standard library is whole", needs="python")
def system_python(t):
    t.expect(t.python("import json, ssl, sqlite3, ctypes, multiprocessing, zlib, lzma, bz2, hashlib, decimal, subprocess, asyncio, threading\n"
                      "print(ssl.create_default_context() and sqlite3.connect(':memory:').execute('select 6*7').fetchone()[0])"), out="42\n")


@case("programs that use threads, processes, pools, asyncio and pipes run as outside", needs="python", seconds=30)
def concurrency(t):
    t.file("conc.py", """
import asyncio, concurrent.futures, multiprocessing, os, subprocess, tempfile, threading
def square(x): return x * x
async def main():
    p = await asyncio.create_subprocess_exec('echo', 'sub', stdout=asyncio.subprocess.PIPE)
    return (await p.communicate())[0]
if __name__ == '__main__':
    with multiprocessing.Pool(4) as pool: print(pool.map(square, range(5)))
    with concurrent.futures.ThreadPoolExecutor(4) as pool: print(list(pool.map(square, range(5))))
    with concurrent.futures.ProcessPoolExecutor(2) as pool: print(list(pool.map(square, range(5))))
    print(asyncio.run(main()), subprocess.check_output(['sh', '-c', 'echo hi | tr h H']))
    with tempfile.TemporaryDirectory() as d: print(os.path.isdir(d))
    q = multiprocessing.Queue(); multiprocessing.Process(target=q.put, args=(1,)).start(); print(q.get())
""")
    t.expect(t.sbx("run", "conc.py"), out="[0, 1, 4, 9, 16]\n[0, 1, 4, 9, 16]\n[0, 1, 4, 9, 16]\nb'sub\\n' b'Hi\\n'\nTrue\n1\n")


def pyenv_of(t):
    """A pyenv tree that the identity under test can use, below its own (stand-in) home of mode 0700: the driver's own
    for root; for the user one of real files, made of links' targets would not do."""
    found = harness.find_pyenv()
    if not found:
        raise Skip("needs pyenv")
    root, version = found
    if t.is_root or os.geteuid() != 0:
        return root, version, os.environ.get("HOME", "/root")
    # A user of its own gets a pyenv of its own: the interpreter's prefix is a virtual copy of the system's python.
    raise Skip("the pyenv belongs to another user")


def pyenv_env(t, root, home):
    return {"PATH": f"{root}/shims:{root}/bin:{harness.SYSTEM_PATH}", "HOME": home, "PYENV_ROOT": root}


@case("a pyenv interpreter behind a shim under a 0700 home runs", needs=("pyenv", "root"), as_=("root",), seconds=60)
def pyenv_shim(t):
    root, _version, home = pyenv_of(t)
    env = pyenv_env(t, root, home)
    prefix_and_version = t.run(["python3", "-c", WHERE], env=env).text.split(" ", 1)[1].strip()
    done = t.expect(t.python(WHERE, env=env), out_match=rf"^{re.escape(root)}/versions/\S+/bin/python\S* {re.escape(prefix_and_version)}$")
    again = t.expect(t.python(WHERE, env=env), out=done.out)
    t.true(again.seconds < done.seconds + t.slow(0.5), "the second run is not slower: the answer is cached")


@case("the answer about a shim is not reused when the steering changes: PYENV_VERSION, .python-version", needs=("pyenv", "root"), as_=("root",), seconds=90)
def pyenv_steering(t):
    root, _version, home = pyenv_of(t)
    versions = [v for v in sorted(os.listdir(f"{root}/versions")) if os.access(f"{root}/versions/{v}/bin/python3", os.X_OK)
                and v.startswith("3.") and int(v.split(".")[1]) >= 9]
    if len(versions) < 2:
        raise Skip("needs two pyenv versions")
    env = pyenv_env(t, root, home)
    for version in versions[:2]:
        t.expect(t.python(WHERE, env={**env, "PYENV_VERSION": version}), out_match=rf" {version}$")
    for version in versions[:2]:
        t.file(f"p{version}/.python-version", version + "\n")
        t.expect(t.python(WHERE, env=env, cwd=t.dir / f"p{version}"), out_match=rf" {version}$")


@case("a user's pyenv, made of a shim script and a prefix below a 0700 home, runs", as_=("user",), needs=("python",), seconds=60)
def pyenv_made(t):
    # A stand-in with the shape of the real thing: shims/python3 asks libexec/pyenv, which prints paths.
    root = f"{t.home}/.pyenv"
    version = "3.11.99"
    prefix = f"{root}/versions/{version}"
    made = t.run(["/usr/bin/python3", "-m", "venv", "--copies", "--without-pip", prefix])
    if made.status:
        raise Skip("needs venv")
    t.file("home/.pyenv/bin/pyenv", f"""#!/usr/bin/env bash
set -e
root="$(cd "$(dirname "${{BASH_SOURCE[0]}}")/.." && pwd)"
case "$1" in
  which) echo "$root/versions/{version}/bin/$2";;
  prefix) echo "$root/versions/{version}";;
  root) echo "$root";;
  version-name) echo {version};;
  exec) shift; n="$1"; shift; exec "$root/versions/{version}/bin/$n" "$@";;
esac
""", 0o755)
    t.file("home/.pyenv/shims/python3", f"""#!/usr/bin/env bash
set -e
export PYENV_ROOT="{root}"
exec "{root}/bin/pyenv" exec "${{0##*/}}" "$@"
""", 0o755)
    env = {"PATH": f"{root}/shims:{root}/bin:{harness.SYSTEM_PATH}", "PYENV_ROOT": root}
    t.expect(t.python(WHERE, env=env), out_match=rf"^{prefix}/bin/python3? {prefix} ")


@case("a version file in an untrusted checkout cannot make sbx run its code outside the sandbox", needs=("pyenv", "root"), as_=("root",), seconds=60)
def pyenv_hostile(t):
    root, _version, home = pyenv_of(t)
    canary = t.dir / "canary"
    os.chmod(t.dir, 0o777)
    evil = f"$(touch {canary})"
    for text in (evil, "../../../../" + str(t.dir) + "/proj", "`touch %s`" % canary, "x; touch %s" % canary):
        t.file("proj/.python-version", text + "\n")
        t.file("proj/bin/python3", f"#!/bin/sh\ntouch {canary}\n", 0o755)
        t.python("print(1)", env=pyenv_env(t, root, home), cwd=t.dir / "proj")
        t.true(not canary.exists(), f"code ran outside for {text!r}")


@case("an active virtual environment is used: its packages are importable, its prefix is read-only", needs=("python", "venv"), seconds=60)
def active_venv(t):
    t.run(["/usr/bin/python3", "-m", "venv", "--without-pip", str(t.dir / "ve")], timeout=30)
    site = next((t.dir / "ve/lib").glob("python3*")) / "site-packages"
    t.file((site / "only_here.py").relative_to(t.dir), "answer = 42")
    env = {"VIRTUAL_ENV": str(t.dir / "ve"), "PATH": f"{t.dir}/ve/bin:{harness.SYSTEM_PATH}"}
    code = "import only_here, sys; print(only_here.answer, sys.prefix)"
    t.expect(t.python(code, env=env), out=f"42 {t.dir}/ve\n")
    t.expect(t.python("import sys\ntry: open(sys.prefix + '/x', 'w')\nexcept OSError as e: print('refused')", env=env), out="refused\n")


@case("exec, too, takes the active virtual environment's python, by every name it has there", needs=("python", "venv"), seconds=60)
def active_venv_exec(t):
    t.run(["/usr/bin/python3", "-m", "venv", "--without-pip", str(t.dir / "ve")], timeout=30)
    env = {"VIRTUAL_ENV": str(t.dir / "ve"), "PATH": f"{t.dir}/ve/bin:/usr/bin:/bin"}
    for name in ("python3", "python"):
        t.expect(t.sbx("exec", "--", name, "-c", "import sys; print(sys.prefix)", env=env), out=f"{t.dir}/ve\n")


@case("--venv DIR uses that environment without activating it", needs=("python", "venv"), seconds=60)
def venv_flag(t):
    t.run(["/usr/bin/python3", "-m", "venv", "--without-pip", str(t.dir / "ve")], timeout=30)
    site = next((t.dir / "ve/lib").glob("python3*")) / "site-packages"
    t.file((site / "only_here.py").relative_to(t.dir), "answer = 42")
    t.expect(t.python("import only_here; print(only_here.answer)", "--venv", "ve"), out="42\n")


@case("--venv of something that is no virtual environment is wrong usage that names it", needs="python")
def venv_bad(t):
    t.mkdir("empty")
    for value in ("empty", "nowhere"):
        t.expect(t.python("print('ran')", "--venv", value), status=2, out="", err=rf"^sbx: .*{value}")


@case("--toolchain PATH chooses the interpreter", needs="python")
def toolchain_path(t):
    t.expect(t.python("import sys; print(sys.executable)", "--toolchain", "/usr/bin/python3"), out_match=r"^/usr/bin/python3")


@case("--toolchain VERSION chooses a pyenv interpreter", needs=("pyenv", "root"), as_=("root",), seconds=60)
def toolchain_version(t):
    root, version, home = pyenv_of(t)
    t.expect(t.python(WHERE, "--toolchain", version, env=pyenv_env(t, root, home)), out_match=rf" {version}$")


@case("a --toolchain that does not exist is an error that names it", needs="python")
def toolchain_missing(t):
    t.expect(t.python("print('ran')", "--toolchain", "/no/such/python"), status=(2, 127), out="", err=r"^sbx: .*/no/such/python")


@case("a missing toolchain is 127 and names the package that brings it")
def toolchain_absent(t):
    done = t.sbx("run", "--lang", "javascript", "-c", "1", env={"PATH": str(t.mkdir("emptypath"))})
    if done.status == 0:
        raise Skip("sbx looks beyond PATH for node")
    t.expect(done, status=127, out="", err=r"^sbx: ")
    t.match(done.errors, "nodejs", "the package's name")


@case("node runs with modules of its standard library, workers and child processes", needs="node", seconds=40)
def node(t):
    t.file("n.js", """
const { Worker, isMainThread, parentPort } = require('worker_threads');
const { execFileSync } = require('child_process');
const crypto = require('crypto'), fs = require('fs');
if (isMainThread) {
  fs.writeFileSync('f', 'x');
  console.log(crypto.createHash('sha256').update('a').digest('hex').slice(0, 8), execFileSync('echo', ['hi']).toString().trim());
  const w = new Worker(__filename); w.on('message', m => { console.log(m); });
} else parentPort.postMessage(6 * 7);
""")
    t.expect(t.sbx("run", "n.js"), out="ca978112 hi\n42\n")


@case("node from a version manager below a 0700 home runs", needs="node", seconds=40)
def node_manager(t):
    real = os.path.realpath(shutil.which("node", path=harness.SYSTEM_PATH))
    root = f"{t.home}/.nvm/versions/node/v99.0.0"
    os.makedirs(f"{root}/bin")
    shutil.copy(real, f"{root}/bin/node")
    for directory, _names, _files in os.walk(f"{t.home}/.nvm"):
        t.own(directory)
    t.own(f"{root}/bin/node")
    t.expect(t.sbx("run", "--lang", "javascript", "-c", "console.log(process.execPath)",
                   env={"PATH": f"{root}/bin:{harness.SYSTEM_PATH}"}), out=f"{root}/bin/node\n")


@case("a link on PATH to an interpreter elsewhere is followed to its real prefix", needs=("python", "venv"), seconds=40)
def linked(t):
    t.run(["/usr/bin/python3", "-m", "venv", "--without-pip", str(t.dir / "opt/py")], timeout=30)
    t.mkdir("bin")
    (t.dir / "bin/python3").symlink_to(t.dir / "opt/py/bin/python3")
    t.expect(t.python("print(6*7)", env={"PATH": f"{t.dir}/bin:{harness.SYSTEM_PATH}"}), out="42\n")


@case("the compile step is boxed like the run: it sees no home, no network, and cannot read /etc/shadow", needs="g++", seconds=60)
def compile_boxed(t):
    secret = t.file("home/secret.h", '#define SECRET "LEAKED-SECRET"\n', 0o600)
    for include in ("/etc/shadow", "/proc/1/environ", secret, "/etc/machine-id"):
        t.file("a.cpp", f'#include "{include}"\nint main() {{}}\n')
        done = t.sbx("run", "a.cpp", result=True)
        t.true(done.status != 0 and done.verdict == "compile_failed", done.describe())
        t.true(b"LEAKED" not in done.out + done.err and b"root:" not in done.err, done.describe())


@case("an endless compilation ends at --compile-time", needs="g++", seconds=60)
def compile_time(t):
    t.file("a.cpp", "template<int N> struct F { static const long v = F<N-1>::v + F<N-2>::v; };\n"
                    "constexpr long f(long n) { long s = 0; for (long i = 0; i < n; ++i) s += i % 7; return s; }\n"
                    "constexpr long a = f(40000000000L);\nint main() { return a; }\n")
    done = t.sbx("run", "--compile-time", "2s", "--compile-flag", "-fconstexpr-ops-limit=9000000000000",
                 "--compile-flag", "-fconstexpr-loop-limit=2000000000", "a.cpp", result=True)
    t.true(done.seconds < t.slow(20), f"took {done.seconds} s")
    t.expect(done, status=124, verdict="compile_failed", out="")
    step = done.result["compile"]
    t.equal([step["verdict"], step["exit_code"], done.result["exit_code"]], ["timed_out", None, None], "the compile step's end")


@case("--compile-flag reaches the compiler", needs="g++", seconds=60)
def compile_flag(t):
    t.file("a.cpp", "#include <cstdio>\nint main() { std::puts(WORD); }\n")
    t.expect(t.sbx("run", "--compile-flag", '-DWORD="hello"', "a.cpp"), out="hello\n")


@case("a compile error gives the compiler's message and status, verdict compile_failed, and nothing runs", needs="g++", seconds=60)
def compile_error(t):
    t.file("bad.cpp", "int main() { return oops; }\n")
    done = t.expect(t.sbx("run", "bad.cpp", result=True), status=1, out="", err=r"bad\.cpp:1:\d+: error", verdict="compile_failed")
    t.true(done.result.get("compile"), "the result has no compile step")
