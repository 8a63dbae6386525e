#!/usr/bin/env python3
"""Real programs give the same output and the same status inside and outside of the sandbox.

    tests/differential/compare.py --binary build/sbx [--quick] [--suites small,php,…] [--as user,root] [-k pattern] [-j2] [--learn] [--record FILE]

"Outside" is an ordinary user's bare process; inside is `sbx exec` or `sbx run` with the default policy and the working
directory shared. The programs are those of tests/languages, small ones written for this, and the interpreters' own test-suites, from
Debian's source packages (fetched once into build/differential, or $SBX_DIFFERENTIAL_CACHE); suites/NAME.txt says which, and which not
and why. What differs must stand in expected.json with its reason: a difference that is not there fails, and so does one that is there and
no longer happens. Where the sides differ the outside run is repeated: a program that differs from itself is dropped, and
named. --learn prints entries for what differs now (the reasons are for a person to write); --as root: sbx is started by root, and the
other side stays an ordinary user. --record keeps what differed, program by program: a run that was ended goes on from there with the same binary, and is
judged anew by expected.json; what fails by it, or is picked with -k, is run again.
"""

import argparse
import collections
import concurrent.futures
import fnmatch
import hashlib
import json
import os
import pathlib
import queue
import re
import shutil
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "integration")]
import cpython  # noqa: E402
import harness  # noqa: E402
import languages  # noqa: E402
import run  # noqa: E402  (tests/run.py)
import sides  # noqa: E402
import small  # noqa: E402
import suites  # noqa: E402

EXPECTED = HERE / "expected.json"
AS_ROOT = re.compile(r"small/|cpython/test_[a-m]|languages/\w+/(hello|files|pool|processes|processes_and_pipes|worker_pools)$|coreutils/")


class Expected:
    """expected.json: causes, and for each the programs and the lines of difference that it explains (with * and ?)."""

    def __init__(self, path, as_):
        self.entries = collections.defaultdict(list)  # program: [(pattern, cause, always)]
        for cause in json.loads(path.read_text(encoding="utf-8"))["causes"]:
            if as_ not in cause.get("as", as_):
                continue
            for program, patterns in cause["differences"].items():
                self.entries[program] += [(pattern, cause["cause"], not cause.get("sometimes")) for pattern in patterns]

    def judge(self, program, lines):
        """(what nobody has explained, what was explained and is no more, the causes)"""
        unexplained, used, causes = [], set(), []
        for line in lines:
            for number, (pattern, cause, _always) in enumerate(self.entries[program]):
                if fnmatch.fnmatchcase(line, pattern.replace("[", "[[]")):
                    used.add(number)
                    causes.append(cause)
                    break
            else:
                unexplained.append(line)
        vanished = [pattern for number, (pattern, _cause, always) in enumerate(self.entries[program]) if always and number not in used]
        return unexplained, vanished, list(dict.fromkeys(causes))


def unknown_programs(programs):
    """Names in expected.json that no suite of this run has; a language may not be installed."""
    known, suites_here = {program.name for program in programs}, {program.suite for program in programs} - {"languages"}
    named = {name for cause in json.loads(EXPECTED.read_text(encoding="utf-8"))["causes"] for name in cause["differences"]}
    return sorted(name for name in named - known if name.split("/")[0] in suites_here)


class Verdict:
    """What became of one program: same, explained, unsteady (the same when tried again), dropped, failed. `differed`: all lines
    of difference, explained or not."""

    def __init__(self, word, program, outside, inside, lines=(), vanished=(), causes=(), differed=()):
        self.word, self.program, self.outside, self.inside = word, program, outside, inside
        self.lines, self.vanished, self.causes, self.differed = lines, vanished, causes, differed or lines


class Record:
    """Verdicts in a file, one JSON object a line, the last of a program counts; of one binary, else they begin anew."""

    def __init__(self, path, binary):
        self.path, self.known, self.lock = path, {}, threading.Lock()
        if not path:
            return
        head = json.dumps({"binary": hashlib.sha256(pathlib.Path(binary).read_bytes()).hexdigest()})
        lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines() if os.path.exists(path) else []
        if lines[:1] != [head]:
            pathlib.Path(path).write_text(head + "\n", encoding="utf-8")
            return
        for line in lines[1:]:
            if line.endswith("}"):  # not one that was cut off
                entry = json.loads(line)
                self.known[entry["as"], entry["program"]] = entry

    def add(self, as_, verdict):
        if self.path:
            entry = {"as": as_, "program": verdict.program.name, "word": verdict.word, "outside": verdict.outside.status, "differed": verdict.differed}
            with self.lock, open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")

    def verdict(self, as_, program, expected):
        """What an earlier run found, by today's expected.json; None where it is to be run."""
        entry = self.known.get((as_, program.name))
        if entry is None:
            return None
        end = sides.End(pathlib.Path("/"))
        end.status = entry["outside"]
        if entry["word"] == "dropped":
            return Verdict("dropped", program, end, end, entry["differed"])
        unexplained, vanished, causes = expected.judge(program.name, entry["differed"])
        if unexplained or vanished:
            return None
        word = "unsteady" if entry["word"] == "unsteady" else "explained" if entry["differed"] else "same"
        return Verdict(word, program, end, end, entry["differed"], causes=causes)


def compare(program, both, slots, expected):
    slot = slots.get()
    try:
        inside = both.inside(program, slot)
        outside = both.outside(program, slot, inside)
        if outside.status == "timeout":
            return Verdict("dropped", program, outside, inside, ["no end in time, on a machine as busy as this"])
        lines = program.difference(outside, inside)
        unexplained, vanished, causes = expected.judge(program.name, lines)
        if not unexplained and not vanished:
            return Verdict("explained" if lines else "same", program, outside, inside, lines, causes=causes)
        # The programs' own tests wait for threads and clocks: first the bare side against itself, then both once more.
        for _ in range(2):
            again = both.outside(program, slot, inside)
            if program.difference(outside, again):
                return Verdict("dropped", program, outside, again, program.difference(outside, again))
        inside = both.inside(program, slot)
        lines = program.difference(outside, inside)
        unexplained, vanished, causes = expected.judge(program.name, lines)
        if not unexplained and not vanished:
            return Verdict("unsteady", program, outside, inside, lines, causes=causes)
        return Verdict("failed", program, outside, inside, unexplained, vanished, differed=lines)
    except Exception as error:  # a program that the driver cannot run is a failure of this program
        end = sides.End(pathlib.Path("/"))
        return Verdict("failed", program, end, end, [f"{type(error).__name__}: {error}"])
    finally:
        slots.put(slot)


def tell(verdict, options):
    if verdict.word == "failed":
        print(f"FAIL differential: {verdict.program.name} (outside {verdict.outside.seconds:.1f} s, inside {verdict.inside.seconds:.1f} s)")
        for line in verdict.lines[:options.lines]:
            print(f"    {line}")
        if len(verdict.lines) > options.lines:
            print(f"    … {len(verdict.lines)} lines")
        for line in verdict.vanished:
            print(f"    expected difference that vanished: {line}")
        said = [line for line in verdict.inside.raw_err.decode("utf-8", "replace").splitlines() if re.match("sbx: (denied|hint|error|the )", line)]
        for line in said[-5:]:
            print(f"    {line}")
    elif verdict.word == "unsteady":
        print(f"unsteady differential: {verdict.program.name}, the same when tried again")
    elif verdict.word == "dropped":
        print(f"dropped differential: {verdict.program.name}, outside: {'; '.join(verdict.lines[:2])[:200]}")
    sys.stdout.flush()


WORDS = ("same", "explained", "unsteady", "dropped", "failed")


def table(verdicts):
    """By suite, as a table of Markdown."""
    counts = collections.defaultdict(collections.Counter)
    for verdict in verdicts:
        for suite in (verdict.program.suite, "all"):
            counts[suite][verdict.word] += 1
            counts[suite]["well"] += verdict.outside.status == 0
    print("\n| suite | ran on both sides | status 0 outside | same | explained | dropped | failed |\n|---|---|---|---|---|---|---|")
    for suite, count in sorted(counts.items(), key=lambda item: (item[0] == "all", item[0])):
        ran = count["same"] + count["explained"] + count["unsteady"] + count["failed"]
        print(f"| {suite} | {ran} | {count['well']} | {count['same'] + count['unsteady']} | {count['explained']} | {count['dropped']} | {count['failed']} |")


def idle_suites(verdicts):
    """Suites of which most programs fail outside too: something is wrong with how they are run, and they prove nothing."""
    well = collections.defaultdict(list)
    for verdict in verdicts:
        well[verdict.program.suite].append(verdict.outside.status == 0)
    return [suite for suite, each in sorted(well.items()) if len(each) > 10 and sum(each) * 2 < len(each)]


def by_cause(verdicts):
    programs = collections.defaultdict(list)
    for verdict in verdicts:
        for cause in verdict.causes:
            programs[cause].append(verdict.program.name)
    for cause, names in sorted(programs.items(), key=lambda item: -len(item[1])):
        print(f"- {len(names)}: {cause}")


def collect(options, identity, base, binary):
    """The programs, and the suites that this host cannot run, with the reason."""
    wanted = options.suites.split(",") if options.suites else (["small", "cpython"] if options.quick else [*suites.NAMES, "small", "cpython", "languages"])
    found, skipped = [], []
    for suite in wanted:
        if suite == "small":
            new = small.every_program()
        elif suite == "cpython":
            new = cpython.modules(cpython.QUICK if options.quick else suites.names("cpython"), identity)
        elif suite == "languages":
            new = languages.every_program(binary)
        else:
            new = suites.programs(suite, base, os.environ.get("SBX_DIFFERENTIAL_CACHE") or harness.ROOT / "build" / "differential")
        if isinstance(new, str):
            skipped.append(f"{suite}: {new}")
        else:
            found += new
    return found, skipped


def main():
    parser = argparse.ArgumentParser(description="Compares programs inside and outside of the sandbox.")
    parser.add_argument("--binary", default=str(harness.ROOT / "build" / "sbx"))
    parser.add_argument("--quick", action="store_true", help="the subset of the default suite, for which nothing is fetched")
    parser.add_argument("--suites", default="", metavar="NAME,…", help="of: small cpython languages " + " ".join(suites.NAMES))
    parser.add_argument("--as", dest="identities", default="user", help="who starts sbx; root: for a selection (default user)")
    parser.add_argument("--require-all", action="store_true", help="a suite that cannot be run fails")
    parser.add_argument("-k", dest="pattern", default="")
    parser.add_argument("-j", dest="jobs", type=int, default=2)
    parser.add_argument("--lines", type=int, default=20, help="of a program's differences that are shown")
    parser.add_argument("--learn", action="store_true")
    parser.add_argument("--record", default="", metavar="FILE", help="keep what differed, and go on from there")
    parser.add_argument("--slowest", type=int, default=0)
    options = parser.parse_args()
    callers = harness.make_identities(options.identities.split(","))
    identity = harness.make_identities(["user"])[0]
    sides.become_reaper()
    # Not below /tmp, in whose place each program has one of its own.
    base = tempfile.mkdtemp(prefix="sbx-differential-", dir=next(folder for folder in ("/srv", "/opt", "/tmp") if os.access(folder, os.W_OK)))
    os.chmod(base, 0o755)
    try:
        binary = os.path.join(base, "sbx")
        shutil.copy2(options.binary, binary)
        os.chmod(binary, 0o755)
        programs, skipped = collect(options, identity, pathlib.Path(base), binary)
        for line in skipped:
            print(f"differential: skipped {line}")
        lost = [] if options.quick else unknown_programs(programs)
        for name in lost:
            print(f"FAIL differential: expected.json names {name}, which is no program")
        programs = [program for program in programs if re.search(options.pattern, program.name)]
        began, verdicts, learnt = time.monotonic(), [], {}
        record = Record(options.record, binary)
        for caller in callers:
            both = sides.Sides(base, binary, identity, caller)
            cache = os.path.join(base, f"cache-{caller.label}")
            os.mkdir(cache, 0o700)
            if os.geteuid() == 0:
                os.chown(cache, caller.uid, caller.gid)
            expected = Expected(EXPECTED, caller.label)
            slots = queue.SimpleQueue()
            for number in range(options.jobs):
                slots.put(f"{caller.label}{number}")
            work = [p for p in programs if caller.label == "user" or options.pattern or AS_ROOT.match(p.name)]
            work.sort(key=lambda p: -p.seconds)
            if not options.pattern:
                known = {p.name: record.verdict(caller.label, p, expected) for p in work}
                verdicts += [verdict for verdict in known.values() if verdict]
                work = [p for p in work if not known[p.name]]
            with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
                for future in concurrent.futures.as_completed([pool.submit(compare, p, both, slots, expected) for p in work]):
                    verdict = future.result()
                    verdicts.append(verdict)
                    record.add(caller.label, verdict)
                    tell(verdict, options)
                    if verdict.word == "failed":
                        learnt[verdict.program.name] = verdict.lines
        sides.end_strays()
        if options.learn:
            print(json.dumps(learnt, indent=1, ensure_ascii=False))
        for verdict in sorted(verdicts, key=lambda v: -v.outside.seconds - v.inside.seconds)[:options.slowest]:
            print(f"{verdict.outside.seconds:6.2f} s outside {verdict.inside.seconds:6.2f} s inside  {verdict.program.name}")
        count = collections.Counter(verdict.word for verdict in verdicts)
        if not options.quick:
            table(verdicts)
            print()
            by_cause(verdicts)
        print(f"\ndifferential: {len(verdicts)} programs in {time.monotonic() - began:.0f} s: " + ", ".join(f"{count[word]} {word}" for word in WORDS))
        idle = idle_suites(verdicts) if not options.pattern else []
        for suite in idle:
            print(f"FAIL differential: most programs of {suite} fail outside as well")
        failed = count["failed"] + len(lost) + len(idle) + (len(skipped) if options.require_all else 0)
        print(f"{count['same'] + count['explained'] + count['unsteady']} passed, {failed} failed")
        return 1 if failed else 0
    finally:
        run.remove_tree(base)


if __name__ == "__main__":
    sys.exit(main())
