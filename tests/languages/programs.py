#!/usr/bin/env python3
"""Programs in every language, as root and as an ordinary user, wherever the toolchain is found.

    tests/languages/programs.py --binary build/sbx [--as root,user] [-j2] [-k pattern] [--require LANG,…]

Two kinds of cases. tests/languages/more/LANG.cases holds the small programs of one language: hello, stdin, arguments,
status and, where it is compiled, compile-error. Lines that begin with "@@ " are the table:

    @@ without NAME REASON   the language cannot do what the case NAME shows
    @@ case NAME             begins a case
    @@ program [FILE]        the source, up to the next such line; FILE where the name matters
    @@ in                    standard input (default: empty)
    @@ args                  arguments, one a line
    @@ flags                 options of `sbx run`, one a line
    @@ policy                a policy that is used as well
    @@ out                   what stdout is, exactly (default: empty)
    @@ match                 instead of out: regular expressions, each must match somewhere in stdout
    @@ err                   regular expressions, each must match somewhere in stderr
    @@ status N              exit status, default 0; "failure": any but 0
    @@ verdict NAME          of the result, default exited

tests/languages/programs/LANG/NAME/ holds one larger program: main.* (the source), want (its stdout) and, where needed,
stdin, args (one a line), status.

A language whose toolchain is missing is skipped by name; one that --require names must be there.
"""

import argparse
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "integration")]
import harness  # noqa: E402
import remembered  # noqa: E402
import run  # noqa: E402
from harness import Case, Failure, Skip  # noqa: E402

EVERY_LANGUAGE = ("hello", "stdin", "arguments", "status")
SECTIONS = ("program", "in", "args", "flags", "policy", "out", "match", "err", "status", "verdict")
SECONDS = 120  # JVMs on a busy machine


class Trial:
    """One program and what is wanted of it."""

    def __init__(self, name):
        self.name, self.file, self.program = name, "", b""
        self.input, self.args, self.flags, self.policy = b"", [], [], b""
        self.out, self.match, self.err, self.status, self.verdict = b"", [], [], "0", "exited"


def parse_cases(text, name):
    """The trials of a .cases file, and {case: reason} of what the language is excused from."""
    trials, without = [], {}
    sections = re.split(r"(?m)^@@ (.*)\n", text)
    if re.search(r"(?m)^(?!#|$)", sections[0].rstrip("\n")):
        raise ValueError(f"{name}: text before the first @@ line")
    for head, body in zip(sections[1::2], sections[2::2]):
        word, _, rest = head.strip().partition(" ")
        lines = body.splitlines()
        if word == "without":
            case_name, _, reason = rest.partition(" ")
            without[case_name] = reason
        elif word == "case":
            trials.append(Trial(rest))
        elif not trials or word not in SECTIONS:
            raise ValueError(f"{name}: unknown or misplaced line '@@ {head}'")
        elif word == "program":
            trials[-1].file, trials[-1].program = rest, body.encode()
        elif word == "in":
            trials[-1].input = body.encode()
        elif word in ("out", "policy"):
            setattr(trials[-1], word, body.encode())
        elif word in ("status", "verdict"):
            setattr(trials[-1], word, rest)
        else:
            setattr(trials[-1], word, lines)
    names = [trial.name for trial in trials]
    for wanted in EVERY_LANGUAGE:
        if wanted not in names and not without.get(wanted):
            raise ValueError(f"{name}: no case '{wanted}', and no reason for that (@@ without {wanted} …)")
    return trials, without


@functools.lru_cache(maxsize=None)
def languages(binary):
    """{name: entry} of `sbx langs --json`."""
    listed = subprocess.run([binary, "langs", "--json"], stdout=subprocess.PIPE, check=True, timeout=300)
    return {entry["name"]: entry for entry in json.loads(listed.stdout)["languages"]}


def check_trial(t, language, trial, result, by_text):
    """Runs one trial as a file; with `by_text` the source comes from -c instead, so that sbx names it."""
    entry = languages(t.binary)[language]
    if by_text:
        source, behind = ["-c", trial.program.decode()], ["--", *trial.args]
    else:
        name = trial.file or "main" + (entry["extensions"] or [""])[0]
        t.file("source/" + name, trial.program)
        source, behind = [str(t.dir / "source" / name)], trial.args
    flags = trial.flags + (["--policy", t.file("policy.toml", trial.policy)] if trial.policy else [])
    done = t.sbx("run", *flags, "--lang", language, *source, *behind, stdin=trial.input, result=result)
    problems = []
    if trial.status == "failure":
        if done.status == 0:
            problems.append("status 0, wanted a failure")
    elif done.status != int(trial.status):
        problems.append(f"status {done.status}, wanted {trial.status}")
    if result and done.verdict != trial.verdict:
        problems.append(f"verdict {done.verdict}, wanted {trial.verdict}")
    if trial.match:
        problems += [f"stdout lacks /{line}/" for line in trial.match if line and not re.search(line, done.text, re.MULTILINE)]
    elif done.out != trial.out:
        try:
            t.equal(done.out, trial.out, "stdout")
        except Failure as failure:
            problems.append(str(failure))
    problems += [f"stderr lacks /{line}/" for line in trial.err if line and not re.search(line, done.errors, re.MULTILINE)]
    if problems:
        raise Failure("; ".join(problems) + "\n" + done.describe())


def make_case(name, sentence, language, trial, by_text=False):
    def function(t):
        if language not in languages(t.binary):
            raise Failure(f"sbx knows no language '{language}'")
        if not languages(t.binary)[language]["found"]:
            raise Skip(f"{language} is not installed")
        check_trial(t, language, trial, trial.verdict != "exited", by_text)
    return Case(name, sentence, function, ("root", "user"), (), SECONDS, False)


def small_programs():
    for path in sorted((HERE / "more").glob("*.cases")):
        trials, _without = parse_cases(path.read_text(encoding="utf-8"), path.name)
        for trial in trials:
            sentence = f"a small program in {path.stem}"
            # hello comes from -c: the file's name is then the language's own.
            by_text = trial.name == "hello" and not trial.file
            yield make_case(f"more/{path.stem}/{trial.name}", sentence, path.stem, trial, by_text)


def remembered_programs():
    """What has a compile step worth remembering is not compiled again."""
    for path in sorted((HERE / "more").glob("*.cases")):
        language = path.stem
        trials, _without = parse_cases(path.read_text(encoding="utf-8"), path.name)
        hello = next((trial for trial in trials if trial.name == "hello" and not trial.file), None)
        if hello is None or not remembered.remembers(language):
            continue

        def function(t, language=language, hello=hello):
            if not languages(t.binary)[language]["found"]:
                raise Skip(f"{language} is not installed")
            remembered.check(t, language, hello.program.decode())
        yield Case(f"remembered/{language}", f"{language} is not compiled again, until a file that the compiler reads is another",
                   function, ("root", "user"), (), SECONDS, False)


def larger_programs():
    for folder in sorted((HERE / "programs").glob("*/*/")):
        sources = [path for path in folder.iterdir() if path.stem.lower() == "main"]
        if len(sources) != 1:
            raise ValueError(f"{folder}: wants exactly one main.*")
        trial = Trial(folder.name)
        trial.file, trial.program = sources[0].name, sources[0].read_bytes()
        trial.out = (folder / "want").read_bytes()
        trial.input = run.read(folder / "stdin") or b""
        trial.args = (run.read(folder / "args") or b"").decode().splitlines()
        trial.status = (run.read(folder / "status") or b"0").decode().strip()
        language = folder.parent.name
        yield make_case(f"programs/{language}/{folder.name}", f"a larger program in {language}", language, trial)


def main():
    parser = argparse.ArgumentParser(description="Runs programs in every language that is installed.")
    run.add_options(parser)
    parser.add_argument("--require", default="", metavar="LANG,…", help="fail when one of these is not installed")
    options = parser.parse_args()
    cases = list(small_programs()) + list(remembered_programs()) + list(larger_programs())
    required = [name for name in options.require.split(",") if name]
    if required:
        known = languages(str(pathlib.Path(options.binary).resolve()))
        missing = [name for name in required if not known.get(name, {}).get("found")]
        if missing:
            print(f"FAIL not installed: {', '.join(missing)} (tools/install-deps.sh languages more-languages)")
            return 1
    # What a toolchain needs once (Go's standard library, compiled) is made once for all cases.
    cache = tempfile.mkdtemp(prefix="sbx-cache-")
    os.chmod(cache, 0o755)
    harness.shared_cache = cache
    try:
        return run.drive(cases, options)
    finally:
        run.remove_tree(cache)


if __name__ == "__main__":
    sys.exit(main())
