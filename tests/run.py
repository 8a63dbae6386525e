#!/usr/bin/env python3
"""Drives the real binary: every case under tests/integration and tests/escape, as root and as an ordinary user.

    tests/run.py --binary build/sbx [--cases FOLDER] [--as root,user] [-j2] [-k pattern] [--list] [--check-skips FILE]

A directory case holds `cmd` (shell text that calls "$SBX") and what is wanted of it; a Python case is a function in a
*_cases.py file. docs/testing.md describes both. The last line says `N passed, N failed, N skipped`.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import threading
import time
import traceback
import zlib

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "integration"))
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parent / "escape"))
import escape  # noqa: E402
import harness  # noqa: E402
from harness import Case, Context, Failure, Skip  # noqa: E402


# ---- directory cases ----------------------------------------------------------------------------------------

def read(path):
    return path.read_bytes() if path.exists() else None


def directory_case(folder):
    """Files: cmd, and optionally stdin, want.stdout, want.stderr (a regular expression a line, each must match some
    line), want.status (default 0), want.result.json (partial match), needs (words), as (words), files/ (copied)."""
    needs = tuple((read(folder / "needs") or b"").decode().split())
    as_ = tuple((read(folder / "as") or b"root user").decode().split())
    text = (folder / "cmd").read_text()
    sentence = text.splitlines()[0].lstrip("# ") if text.startswith("#") else folder.name

    def run(t):
        if (folder / "files").is_dir():
            for source in sorted((folder / "files").rglob("*")):
                name = source.relative_to(folder / "files")
                if source.is_dir():
                    t.mkdir(name)
                else:
                    t.file(name, source.read_bytes(), source.stat().st_mode & 0o777)
        result = t.result_path()
        env = {"SBX": t.binary, "PROBE": t.probe, "HOSTILE": t.hostile, "RESULT": result, "AS": t.user,
               "WORK": str(t.dir)}
        feed = read(folder / "stdin")
        done = t.run(["/bin/bash", "--norc", "--noprofile", "-c", text], stdin=feed if feed is not None else b"",
                     env=env, result_path=result)
        problems = []
        want_status = int((read(folder / "want.status") or b"0").split()[0])
        if done.status != want_status:
            problems.append(f"status {done.status}, wanted {want_status}")
        want_out = read(folder / "want.stdout")
        if want_out is not None and want_out != done.out:
            try:
                t.equal(done.out, want_out, "stdout")
            except Failure as failure:
                problems.append(str(failure))
        for line in (read(folder / "want.stderr") or b"").decode().splitlines():
            if line and not re.search(line, done.errors, re.MULTILINE):
                problems.append(f"stderr lacks /{line}/")
        want_result = read(folder / "want.result.json")
        if want_result is not None:
            try:
                problem = harness.partial_difference(json.loads(want_result), done.result)
            except Failure as failure:
                problem = str(failure)
            if problem:
                problems.append(problem)
        if problems:
            raise Failure("; ".join(problems) + "\n" + done.describe())

    return Case(folder.name, sentence, run, as_, needs, 25, False)


# ---- running ------------------------------------------------------------------------------------------------

class Report:
    def __init__(self, verbose):
        self.lock = threading.Lock()
        self.passed, self.failed, self.skipped = [], [], []
        self.verbose = verbose
        self.evidence = {}

    def add(self, kind, name, text, seconds):
        with self.lock:
            getattr(self, kind).append((name, text, seconds))
            if kind == "failed":
                print(f"FAIL {name}: {text.rstrip()}", flush=True)
            elif kind == "skipped":
                print(f"skip {name}: {text}", flush=True)
            elif self.verbose:
                print(f"ok   {name}  ({seconds:.2f} s)", flush=True)


def run_one(item, identity, options, report, base):
    name = f"{item.name} [{identity.label}]"
    began = time.monotonic()
    directory = tempfile.mkdtemp(prefix="case-", dir=base)
    os.chmod(directory, 0o755)
    if os.geteuid() == 0:
        os.chown(directory, identity.uid, identity.gid)
    context = None
    try:
        context = Context(identity, directory, options.staged_binary, options.staged_probe, item.seconds)
        reason = harness.unmet_need(context, item.needs)
        if reason:
            raise Skip(reason)
        item.function(context)
        if hasattr(context, "evidence"):
            report.evidence.setdefault(item.name, {})[identity.label] = list(context.evidence)
    except Skip as skip:
        report.add("skipped", name, str(skip), time.monotonic() - began)
    except Failure as failure:
        report.add("failed", name, f"{item.sentence}\n{failure}", time.monotonic() - began)
    except Exception:
        report.add("failed", name, f"{item.sentence}\n{traceback.format_exc()}", time.monotonic() - began)
    else:
        report.add("passed", name, "", time.monotonic() - began)
    finally:
        if context:
            context.close()
        if not options.keep:
            remove_tree(directory)


FEW = 6  # more failures than this are no matter of a busy machine


def try_again(work, options, report, base):
    """A few failed cases are run once more, alone. What passes then is named as unsteady, and counts as passed: cases
    wait for processes and terminals, and the machine may be busy with others. What fails twice has failed."""
    first = report.failed
    if not first or len(first) > FEW:
        return
    report.failed = []
    names = {name for name, _text, _seconds in first}
    for item, identity in work:
        name = f"{item.name} [{identity.label}]"
        if name in names:
            run_one(item, identity, options, report, base)
            if name not in {failed for failed, _text, _seconds in report.failed}:
                print(f"unsteady {name}: failed above, passed alone", flush=True)


def remove_tree(path):
    """Cases may leave directories without permissions."""
    def mend(function, name, _error):
        try:
            if name != path:  # never above the tree itself: other cases live there
                os.chmod(os.path.dirname(name), 0o700)
            if not os.path.islink(name):
                os.chmod(name, 0o700)
            function(name)
        except OSError:
            pass
    shutil.rmtree(path, onerror=mend)


def expected_skips(path):
    found = set()
    for line in pathlib.Path(path).read_text().splitlines():
        line = line.split("#", 1)[0].strip()
        if line:
            found.add(line)
    return found


def add_options(parser):
    """The options of every driver of cases."""
    parser.add_argument("--binary", default=str(harness.ROOT / "build" / "sbx"))
    parser.add_argument("--probe", default="", help="default: tests/probe beside the binary")
    parser.add_argument("--cases", default=str(harness.TESTS / "integration"), metavar="FOLDER", help="where the cases are; default: tests/integration")
    parser.add_argument("--as", dest="identities", default="root,user")
    parser.add_argument("--spread", action="store_true", help="each case as one of the identities, by its name: half the time")
    parser.add_argument("--part", default="1/1", metavar="K/N", help="of the cases, by their names, the Kth of N parts")
    parser.add_argument("-j", dest="jobs", type=int, default=2)
    parser.add_argument("-k", dest="pattern", default="", help="regular expression over case names and sentences")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("-v", dest="verbose", action="store_true", help="passed cases too")
    parser.add_argument("--keep", action="store_true", help="keep the cases' directories")
    parser.add_argument("--skips", default="", help="write `case: reason` of skipped cases to this file")
    parser.add_argument("--check-skips", action="append", default=[], metavar="FILE", help="fail unless exactly these cases are skipped, and perhaps those after a `?`; repeatable")
    parser.add_argument("--evidence", default="", metavar="FILE", help="write what the escape cases saw, for tests/escape/table.py")
    parser.add_argument("--slowest", type=int, default=0, help="print the N slowest cases")



def main():
    parser = argparse.ArgumentParser(description="Runs the integration cases against the real binary.")
    add_options(parser)
    options = parser.parse_args()
    folder = pathlib.Path(options.cases).resolve()
    cases = [directory_case(p.parent) for p in sorted(folder.glob("*/cmd"))]
    cases += harness.load_python_cases(folder)
    if folder == harness.TESTS / "integration":
        cases += escape.cases(lambda: options.staged_binary.parent / "escape")
    return drive(cases, options)


def spread(case, identities, one):
    """Those of the identities that the case runs as; one of them only, ever the same, where one is asked for."""
    able = [i for i in identities if i.label in case.as_]
    return [able[zlib.crc32(case.name.encode()) % len(able)]] if one and able else able


def drive(cases, options):
    """Runs what the options ask for of these cases; the exit status."""
    if options.pattern:
        wanted = re.compile(options.pattern)
        cases = [c for c in cases if wanted.search(c.name) or wanted.search(c.sentence)]
    part, parts = map(int, options.part.split("/"))
    cases = [c for c in cases if (zlib.crc32(c.name.encode()) >> 8) % parts == part - 1]
    if options.list:
        for c in cases:
            print(f"{c.name}: {c.sentence}  [{' '.join(c.as_)}{'; needs ' + ' '.join(c.needs) if c.needs else ''}]")
        print(f"{len(cases)} cases")
        return 0

    binary = pathlib.Path(options.binary).resolve()
    if not os.access(binary, os.X_OK):
        print(f"tests/run.py: no such binary: {binary}", file=sys.stderr)
        return 2
    probe = pathlib.Path(options.probe).resolve() if options.probe else binary.parent / "tests" / "probe"
    identities = harness.make_identities(options.identities.split(","))
    if not identities:
        print("tests/run.py: none of the wanted identities can be taken on", file=sys.stderr)
        return 2

    # What the test user runs must be reachable for it wherever the tree lies.
    base = tempfile.mkdtemp(prefix="sbx-tests-")
    os.chmod(base, 0o755)
    try:
        staged = pathlib.Path(base) / "bin"
        staged.mkdir(mode=0o755)
        shutil.copy2(binary, staged / "sbx")
        options.staged_binary = staged / "sbx"
        options.staged_probe = staged / "probe"
        if probe.exists():
            shutil.copy2(probe, options.staged_probe)
        shutil.copytree(harness.HOSTILE, staged / "hostile")
        shutil.copytree(harness.TESTS / "escape", staged / "escape", ignore=shutil.ignore_patterns("__pycache__"))
        for path in staged.rglob("*"):
            os.chmod(path, 0o755)

        report = Report(options.verbose)
        began = time.monotonic()
        work = [(c, i) for c in cases for i in spread(c, identities, options.spread)]
        together = [w for w in work if not w[0].alone]
        together.sort(key=lambda w: -w[0].seconds)  # long ones first: they do not hold up the end
        with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
            for future in [pool.submit(run_one, c, i, options, report, base) for c, i in together]:
                future.result()
        for c, i in work:
            if c.alone:
                run_one(c, i, options, report, base)
        try_again(work, options, report, base)
    finally:
        if not options.keep:
            remove_tree(base)

    if options.slowest:
        everything = sorted(report.passed + report.failed, key=lambda r: -r[2])[:options.slowest]
        for name, _text, seconds in everything:
            print(f"{seconds:7.2f} s  {name}")
    if options.evidence:
        seen = {"host": f"Linux {re.match(r'[0-9]+[.][0-9]+', os.uname().release).group()}, {os.uname().machine}", "cases": report.evidence}
        pathlib.Path(options.evidence).write_text(json.dumps(seen, indent=1, sort_keys=True) + "\n")
    if options.skips:
        lines = [f"{name}: {text}\n" for name, text, _seconds in sorted(report.skipped)]
        pathlib.Path(options.skips).write_text("".join(lines))
    status = 1 if report.failed else 0
    if options.check_skips:
        got = {f"{name}: {text}" for name, text, _seconds in report.skipped}
        listed = set().union(*map(expected_skips, options.check_skips))
        perhaps = {line[1:].strip() for line in listed if line.startswith("?")}
        want, got = {line for line in listed if not line.startswith("?")}, got - perhaps
        if options.spread or parts > 1:
            want = {line for line in want if line.split(": ", 1)[0] in {f"{c.name} [{i.label}]" for c, i in work}}
        for line in sorted(got - want):
            print(f"FAIL skipped, but not expected to be: {line}")
            status = 1
        for line in sorted(want - got):
            print(f"FAIL expected to be skipped, but was not: {line}")
            status = 1
    print(f"({time.monotonic() - began:.0f} s)")
    print(f"{len(report.passed)} passed, {len(report.failed)} failed, {len(report.skipped)} skipped")
    return status


if __name__ == "__main__":
    sys.exit(main())
