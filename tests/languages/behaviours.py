#!/usr/bin/env python3
"""Every behaviour of every language of the fifteen, as root and as an ordinary user.

    tests/languages/behaviours.py --binary build/sbx [--as root,user] [-j2] [-k pattern] [--table FILE]

BEHAVIOURS says what is asked of all of them; tests/languages/core/LANG.cases holds the programs. Lines that begin with
"@@ " are the table there:

    @@ without NAME REASON   the language cannot have what the behaviour NAME shows
    @@ case NAME             begins a program; NAME is a behaviour
    @@ program               its source, up to the next such line
    @@ file NAME             a further file of it
    @@ line N                traceback: the line that the complaint names
    @@ status N, @@ verdict NAME, @@ hint TEXT   where they differ from what BEHAVIOURS says; N may be "failure"

A toolchain that is missing fails its cases: `make test-languages` installs them all. --table writes what passed, for
docs/languages.md.
"""

import argparse
import hashlib
import os
import pathlib
import re
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "integration")]
import harness  # noqa: E402
import remembered  # noqa: E402
import run  # noqa: E402
from harness import Case, Failure  # noqa: E402

SECONDS = 240  # a compiler on a busy machine; Go compiles its standard library once
FIFTEEN = ("python", "javascript", "typescript", "bash", "sh", "c", "cpp", "java", "go", "rust", "ruby", "perl", "php",
           "lua", "r")
EXTENSION = {"python": "py", "javascript": "js", "typescript": "ts", "bash": "sh", "sh": "sh", "c": "c", "cpp": "cpp",
             "java": "java", "go": "go", "rust": "rs", "ruby": "rb", "perl": "pl", "php": "php", "lua": "lua", "r": "R"}
COMPILED = ("typescript", "c", "cpp", "java", "go", "rust")
WORDS = ["a b", "ünï", "-x", ""]


class Program:
    def __init__(self, name):
        self.name, self.source, self.files, self.line = name, "", {}, 0
        self.status, self.verdict, self.hint = None, None, ""


def read_programs(language):
    """{behaviour: Program}, {behaviour: reason why it has none}."""
    programs, without = {}, {}
    text = (HERE / "core" / f"{language}.cases").read_text(encoding="utf-8")
    pieces = re.split(r"(?m)^@@ (.*)\n", text)
    if pieces[0].strip():
        raise ValueError(f"{language}.cases: text before the first @@ line")
    current = None
    for head, body in zip(pieces[1::2], pieces[2::2]):
        word, _, rest = head.strip().partition(" ")
        if word == "without":
            name, _, without[name] = rest.partition(" ")
        elif word == "case":
            current = programs[rest] = Program(rest)
        elif word == "program":
            current.source = body
        elif word == "file":
            current.files[rest] = body
        elif word == "line":
            current.line = int(rest)
        elif word in ("status", "verdict", "hint"):
            setattr(current, word, rest)
        else:
            raise ValueError(f"{language}.cases: unknown line '@@ {head}'")
    if language in COMPILED:
        programs["compiled-once"] = programs["hello"]
    return programs, without


# ---- behaviours: name → (what is shown, check) ----------------------------------------------------------------

class Trial:
    """One program of one language, about to run."""

    def __init__(self, t, language, program):
        self.t, self.language, self.program = t, language, program
        self.name = ("Main." if language == "java" else "main.") + EXTENSION[language]

    def place(self, folder="source"):
        for name, text in self.program.files.items():
            self.t.file(f"{folder}/{name}", text)
        return self.t.file(f"{folder}/{self.name}", self.program.source)

    def run(self, *flags, args=(), stdin=b"", share=True, result=True, **more):
        path = self.place()
        if share:
            for name in self.program.files:
                flags = (*flags, "--file", str(pathlib.Path(path).parent / name))
        return self.t.sbx("run", "--lang", self.language, *flags, path, *args, stdin=stdin, result=result, **more)

    def expect(self, done, status=0, verdict="exited", out=None, err=None):
        wanted = self.program.status or status
        if wanted == "failure":
            if done.status == 0:
                raise Failure("status 0, wanted a failure\n" + done.describe())
            wanted = None
        else:
            wanted = int(wanted)
        self.t.expect(done, status=wanted, verdict=self.program.verdict or verdict, out=out, err=err)
        if self.program.hint and self.program.hint not in done.errors:
            raise Failure(f"no hint '{self.program.hint}'\n{done.describe()}")
        return done


def hello(trial):
    done = trial.t.sbx("run", "--lang", trial.language, "-c", trial.program.source, result=True)
    trial.expect(done, out="Hello, world\n")
    # What a start leaves behind is the program's own work only.
    trial.t.equal(done.result["artifacts"], [], "artifacts")
    trial.t.equal(done.errors, "", "stderr")


def stdin(trial):
    trial.expect(trial.run(stdin=b"".join(b"%d\n" % n for n in range(1000))), out="499500\n")


def arguments(trial):
    trial.expect(trial.run(args=WORDS), out=f"{len(WORDS)}\n" + "".join(f"[{word}]\n" for word in WORDS))


def status(trial):
    trial.expect(trial.run(), status=7)


def traceback(trial):
    done = trial.run()
    if done.status == 0:
        raise Failure("an uncaught error is no failure\n" + done.describe())
    name = trial.name.replace(".", r"\.")
    trial.t.match(done.errors, name + rf"\D{{1,20}}{trial.program.line}\b", "the complaint")


def compile_error(trial):
    done = trial.run()
    trial.t.expect(done, status=(1, 2), verdict="compile_failed", out="")
    step = done.result["compile"]
    said = step["stdout"]["data"] + step["stderr"]["data"]
    trial.t.match(said, trial.name.replace(".", r"\."), "the compiler's own output")
    trial.t.equal(done.result["stdout"]["total_bytes"] + done.result["stderr"]["total_bytes"], 0, "output of the program")


def compiled_once(trial):
    remembered.check(trial.t, trial.language, trial.program.source)


def syntax_error(trial):
    done = trial.run()
    if done.status == 0:
        raise Failure("a syntax error is no failure\n" + done.describe())
    trial.t.match(done.errors, trial.name.replace(".", r"\."), "the complaint")


def utf8(trial):
    trial.expect(trial.run(args=["ünï→"]), out="grüße 世界 🌍 ünï→\n")


def files(trial):
    trial.expect(trial.run(), out="42\n")


def workspace(trial):
    path = trial.place("project")
    folder = pathlib.Path(path).parent
    trial.t.file("project/data/numbers.txt", "1 2 3\n4\n")
    done = trial.t.sbx("run", "--lang", trial.language, "--workspace", folder, path, result=True, cwd=folder)
    trial.expect(done, out="1 2 3\n")


def artifact(trial):
    out = trial.t.dir / "artifacts"
    done = trial.expect(trial.run("--artifacts", str(out)), out="")
    wanted = hashlib.sha256(b"made\n").hexdigest()
    found = [(entry["path"]["data"] if isinstance(entry["path"], dict) else entry["path"], entry["sha256"])
             for entry in done.result["artifacts"]]
    trial.t.equal(found, [("out.txt", wanted)], "artifacts")
    trial.t.equal((out / "out.txt").read_bytes(), b"made\n", "the artifact")


def time(trial):
    done = trial.run("--time", "2s")
    trial.expect(done, status=124, verdict="timed_out")


def memory(trial):
    # Without a compile step's own limit in the way; what the runtimes take for themselves fits in.
    trial.expect(trial.run("--memory", "200M"), status=137)


def pool(trial):
    trial.expect(trial.run(), out="285\n")


def out_of_memory_hint(trial):
    done = trial.run("--memory", "300M")
    if done.status == 0:
        raise Failure("no failure\n" + done.describe())
    trial.t.equal(done.verdict, "signaled" if done.result["signal"] else "exited", "verdict")
    trial.t.match(done.errors, r"^sbx: judging by the program's own message, .* "
                  r"(ran out of memory|heap is full); raise it: .*sbx run .*--memory 600M ", "stderr")


BEHAVIOURS = {
    "hello": ("says hello by -c, and leaves nothing else behind", hello),
    "stdin": ("reads its input to the end", stdin),
    "arguments": ("gets its arguments as they are, empty ones too", arguments),
    "status": ("ends with the status that it chooses", status),
    "traceback": ("an uncaught error names the user's own file and line", traceback),
    "compile-error": ("what does not compile is compile_failed, the compiler's output kept apart", compile_error),
    "compiled-once": ("is not compiled again, until a file that the compiler reads is another", compiled_once),
    "syntax-error": ("what cannot be parsed fails and names the file", syntax_error),
    "utf8": ("UTF-8 in source, output and arguments", utf8),
    "files": ("a program of several files", files),
    "workspace": ("runs in a workspace and reads a file there", workspace),
    "artifact": ("a file that it wrote comes out, and nothing else", artifact),
    "time": ("a wall time limit ends it", time),
    "memory": ("a memory limit ends it", memory),
    "pool": ("a pool of threads or processes, as its users write it", pool),
    "out-of-memory-hint": ("its own out-of-memory message becomes a hint", out_of_memory_hint),
}


def reason_against(language, behaviour, without):
    if behaviour in ("compile-error", "compiled-once") and language not in COMPILED:
        return "not compiled"
    if behaviour == "syntax-error" and language in COMPILED:
        return "compiled"
    return without.get(behaviour)


# ---- what runtimes see of their limits -------------------------------------------------------------------------

SEES = {
    # The CPUs that it would start a pool with, and the memory that it would fill, in MiB.
    "java": """class Main { public static void main(String[] a) {
        System.out.println(Runtime.getRuntime().availableProcessors() + " " + Runtime.getRuntime().maxMemory() / 1048576); } }""",
    "javascript": """console.log((require("os").availableParallelism?.() ?? require("os").cpus().length) + " " +
        Math.round(require("v8").getHeapStatistics().heap_size_limit / 1048576));""",
    "go": """package main
import ("fmt"; "runtime"; "runtime/debug")
func main() { fmt.Println(runtime.GOMAXPROCS(0), debug.SetMemoryLimit(-1) / 1048576) }""",
    "python": """import os, resource
assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
assert len(os.sched_getaffinity(0)) == 1
print(os.cpu_count(), 512)""",
    "cpp": """#include <iostream>
#include <thread>
int main() { std::cout << std::thread::hardware_concurrency() << " 512\\n"; }""",
    "ruby": """require "etc"
puts "#{Etc.nprocessors} 512" """,
    "rust": """fn main() { println!("{} 512", std::thread::available_parallelism().unwrap()); }""",
}


def sees(language):
    def function(t):
        done = t.sbx("run", "--lang", language, "--memory", "512M", "--cpus", "1", "-c", SEES[language], result=True)
        t.expect(done, verdict="exited", out_match=r"^1 \d+\n$")
        memory = int(done.text.split()[1])
        t.true(256 <= memory <= 512, f"it would fill {memory} MiB of 512")
    return Case(f"limits/{language}", "sees and respects the memory and the CPU that it was given", function, ("root", "user"),
                (), SECONDS, False)


def no_address_limit(language, source):
    def function(t):
        t.expect(t.sbx("run", "--lang", language, "--memory", "512M", "-c", source, result=True), out="inf\n")
    return Case(f"limits/address-space-{language}", "address space is not limited", function, ("root", "user"), (), SECONDS,
                False)


def case_of(language, behaviour, program):
    sentence, check = BEHAVIOURS[behaviour]

    def function(t):
        check(Trial(t, language, program))
    return Case(f"{language}/{behaviour}", f"{language}: {sentence}", function, ("root", "user"), (), SECONDS, False)


def all_cases():
    cases = []
    for language in FIFTEEN:
        programs, without = read_programs(language)
        for name in programs.keys() | without.keys():
            if name not in BEHAVIOURS:
                raise ValueError(f"{language}.cases: no behaviour is called '{name}'")
        for behaviour in BEHAVIOURS:
            if behaviour in programs:
                cases.append(case_of(language, behaviour, programs[behaviour]))
            elif not reason_against(language, behaviour, without):
                raise ValueError(f"{language}.cases: no case '{behaviour}', and no reason for that")
    cases += [sees(language) for language in SEES]
    cases.append(no_address_limit("perl", "my $limit = `/bin/bash -c 'ulimit -v'`; print $limit eq \"unlimited\\n\" ? \"inf\\n\" : $limit;"))
    return cases


def main():
    parser = argparse.ArgumentParser(description="Runs every behaviour in every language of the fifteen.")
    run.add_options(parser)
    parser.add_argument("--cache", default="", metavar="DIR", help="keep what is prepared once in DIR/root and DIR/user")
    options = parser.parse_args()
    # What a toolchain needs once is made once for all cases: each has a cache of its own otherwise.
    shared = options.cache or None
    if shared is None:
        import tempfile
        shared = tempfile.mkdtemp(prefix="sbx-cache-")
    os.makedirs(shared, exist_ok=True)
    os.chmod(shared, 0o755)
    harness.shared_cache = str(pathlib.Path(shared).resolve())
    try:
        return run.drive(all_cases(), options)
    finally:
        if not options.cache:
            run.remove_tree(shared)


if __name__ == "__main__":
    sys.exit(main())
