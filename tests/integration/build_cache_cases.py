"""The build cache: a compile step is run again only when something that it depends on is another."""

import json
import os
import pathlib
import signal
import time

from harness import case

LANGUAGE = """
name = "copied"
source_name = "main.copied"
extensions = [".copied"]
commands = ["sh"]
version_argv = ["{tool}", "-c", "echo 1"]
run_argv = ["/bin/sh", "{out}", "{args}"]

[compile]
argv = ["{tool}", "-c", 'cat "$0" > "$1"; echo warned >&2; if grep -q FAIL "$0"; then exit 3; fi', "{src}", "{out}", "{flags}"]
watch = ["WATCHED"]
uncached_words = ["__TIME__"]
"""


class Compiled:
    """A language of its own whose compiler copies; what it watches is a folder of the case's."""

    def __init__(self, t):
        self.t = t
        self.watched = pathlib.Path(t.mkdir("headers"))
        t.file("headers/deep/a.h", "one")
        t.file("config/sbx/policies/lang/copied.toml", LANGUAGE.replace("WATCHED", str(self.watched)))
        self.env = {"XDG_CONFIG_HOME": str(t.dir / "config"), "XDG_CACHE_HOME": t.mkdir("cache")}
        self.settle()

    def settle(self):
        """What has just changed is not vouched for: until the last change is two seconds old."""
        newest = max(os.lstat(path).st_ctime for path in [self.watched, *self.watched.rglob("*")])
        self.t.wait_until(lambda: time.time() > newest + 2.1, 4, "the clock goes on")

    def run(self, *flags, source="echo ran $1", args=("x",), cached=None, **more):
        done = self.t.sbx("run", *flags, "--lang", "copied", "-c", source, "--", *args, env=self.env, result=True, **more)
        self.t.expect(done, out=None if "FAIL" in source else "ran x\n", err="^warned$",
                      status=3 if "FAIL" in source else 0)
        if cached is not None:
            self.t.equal(done.result["compile"]["cached"], cached, f"cached with {flags} {source!r}")
        return done


@case("a program compiled before is not compiled again; its result, warnings and result object are the same", seconds=40)
def hit(t):
    language = Compiled(t)
    first = language.run(cached=False).result
    second = language.run(cached=True).result
    t.equal(second["compile"]["stderr"]["data"], "warned\n")
    for field in ("verdict", "exit_code", "argv", "policy"):
        t.equal(second[field], first[field], field)
    t.equal(second["compile"]["argv"], first["compile"]["argv"])
    language.run("--no-build-cache", cached=False)
    # The arguments and limits of the run are no part of the compile step.
    language.run("--time", "30", cached=True)


@case("another source, flag, extra file or compile limit is compiled", seconds=40)
def miss(t):
    language = Compiled(t)
    language.run(cached=False)
    language.run(source="echo ran $1 # other", cached=False)
    language.run("--compile-flag", "-x", cached=False)
    language.run("--compile-memory", "1G", cached=False)
    extra = t.file("extra", "one")
    language.run("--file", extra, cached=False)
    language.run("--file", extra, cached=True)
    t.file("extra", "two")
    language.run("--file", extra, cached=False)
    language.run(cached=True)


@case("a watched file that is changed in place, added, removed or replaced by one of the same size and time is noticed",
      seconds=60)
def watched(t):
    language = Compiled(t)
    header = language.watched / "deep/a.h"

    def change(what, function):
        language.settle()
        language.run(cached=False)
        language.run(cached=True)
        function()
        language.run(cached=False)

    def write():
        before = os.stat(header)
        header.write_text("two")
        os.utime(header, ns=(before.st_atime_ns, before.st_mtime_ns))

    def replace():
        before = os.stat(header)
        new = language.watched / "deep/new"
        new.write_text("six")
        os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
        os.rename(new, header)

    change("written", write)
    change("added", lambda: (language.watched / "b.h").write_text("x"))
    change("replaced", replace)
    change("removed", header.unlink)


@case("a file in a shared directory counts as well", seconds=60)
def shared(t):
    language = Compiled(t)
    workspace = t.mkdir("project")
    t.file("project/part", "one")
    flags = ("--workspace", workspace)
    t.wait_until(lambda: time.time() > os.lstat(workspace + "/part").st_ctime + 2.1, 4, "the clock goes on")
    language.run(*flags, cached=False)
    language.run(*flags, cached=True)
    t.file("project/part", "two")
    language.run(*flags, cached=False)
    language.run(cached=False)


@case("a failed compile step, a source with __TIME__ in it, and what changed a moment ago are not remembered", seconds=40)
def unfit(t):
    language = Compiled(t)
    for _ in range(2):
        done = language.run(source="FAIL")
        t.equal((done.verdict, done.result["compile"]["cached"]), ("compile_failed", False))
        language.run(source="echo ran $1 # __TIME__", cached=False)
    (language.watched / "new.h").write_text("x")
    language.run(cached=False)
    language.run(cached=False)


@case("an entry that was cut, and a cache folder that others can write to, are not used", seconds=40)
def damaged(t):
    language = Compiled(t)
    language.run(cached=False)
    builds = t.dir / "cache/sbx/builds"
    [entry] = builds.iterdir()
    t.equal((os.stat(builds).st_mode & 0o777, os.stat(entry).st_mode & 0o777), (0o700, 0o700))
    language.run(cached=True)
    with open(entry / "0", "r+b") as product:
        product.truncate(3)
    language.run(cached=False)
    (entry / "0").unlink()
    os.symlink("/bin/sh", entry / "0")
    language.run(cached=False)
    for file in entry.iterdir():
        file.unlink()
    entry.rmdir()
    language.run(cached=False)
    language.run(cached=True)
    os.chmod(builds, 0o777)
    language.run(cached=False)
    t.equal(os.stat(builds).st_mode & 0o777, 0o777)


@case("C++ is remembered, too", needs="g++", seconds=60)
def cpp(t):
    env = {"XDG_CACHE_HOME": t.mkdir("cache")}
    source = t.file("main.cpp", "#include <iostream>\nint main() { int idle; std::cout << 6 * 7 << std::endl; }\n")

    def run():
        done = t.sbx("run", "--compile-flag", "-Wall", source, env=env, result=True)
        t.expect(done, out="42\n", err="unused variable")
        return done.result["compile"]["cached"]

    run()
    # Packages may have been installed a moment ago.
    t.true(any(run() for _ in range(4)), "compiled again and again")


PREPARING = """
name = "ready"
source_name = "main.ready"
extensions = []
commands = ["sh"]
version_argv = ["{tool}", "-c", "echo 1"]
run_argv = ["{tool}", "-c", 'cat "$0"', "{prepared}/made"]

[prepare]
argv = ["{tool}", "-c", 'echo made > "$0/made"; exec LONG', "{prepared}"]
"""


@case("^C while a toolchain is prepared ends the run and is no failure to remember", seconds=40)
def interrupted(t):
    mark = f"sleep {1_000_000_000 + 2 * os.getpid() + t.is_root}"  # the other identity's case runs beside it
    t.file("config/sbx/policies/lang/ready.toml", PREPARING.replace("LONG", mark))
    env = {"XDG_CONFIG_HOME": str(t.dir / "config"), "XDG_CACHE_HOME": t.mkdir("cache")}

    def is_there():
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if path.read_bytes() == mark.replace(" ", "\0").encode() + b"\0":
                    return True
            except OSError:
                pass
        return False

    result = t.result_path()
    process = t.spawn([t.binary, "run", "--result", result, "--lang", "ready", "-c", "x"], env=env)
    t.wait_until(is_there, 10, "the toolchain is being prepared")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)
    t.equal(process.returncode, 130, "status")
    with open(result, encoding="utf-8") as file:
        t.equal(json.load(file)["verdict"], "killed", "verdict")
    t.true(not is_there(), "what prepared it is gone")
    folder = t.dir / "cache/sbx/prepared"
    t.equal([name for name in os.listdir(folder) if not name.endswith(".lock")], [], "what is kept of it")


@case("a compile step may hand over hundreds of files; more than are taken is compile_failed, not a failed set-up", seconds=40)
def products(t):
    language = Compiled(t)
    place = t.dir / "config/sbx/policies/lang/copied.toml"
    for count, verdict in ((600, "exited"), (2000, "compile_failed")):
        more = f'i=0; while [ $i -lt {count} ]; do : > "$1.$i"; i=$((i+1)); done; echo warned >&2;'
        t.file("config/sbx/policies/lang/copied.toml",
               LANGUAGE.replace("WATCHED", str(language.watched)).replace("echo warned >&2;", more))
        t.true(more in place.read_text(), "the language makes many files")
        done = t.sbx("run", "--lang", "copied", "-c", "echo ran", env=language.env, result=True)
        t.expect(done, verdict=verdict, status=0 if verdict == "exited" else 1,
                 err="warned" if verdict == "exited" else "the compiler made more than can be taken over")
