"""bubblewrap's own suites, unchanged, against our link: as many checks as upstream's own binary passes here, none that fails,
and skips only where upstream skips. run.py fetches the sources first."""

import collections
import pathlib
import re

import place
from harness import Failure, Skip, case

HERE = pathlib.Path(__file__).resolve().parent
# Seconds for a file of the suite: those about joining namespaces wait for ever when the info document is broken.
LIMIT = 80
SHORT_LIMIT = 20


def checks_of(text):
    """[(verdict, description)] of a TAP text; verdicts: ok, not ok, skip."""
    found = []
    for line in text.splitlines():
        match = re.match(r"(ok|not ok)\b\s*(?:\d+\s*)?(?:-\s*)?(.*)", line)
        if match:
            verdict, description = match.groups()
            skipped = re.search(r"#\s*SKIP\b", description, re.IGNORECASE)
            # The object that unittest prints there has an address of its own in every run.
            description = re.sub(r"<unittest.*>", "unittest", description)
            found.append(("skip" if skipped and verdict == "ok" else verdict, description.strip()))
    # test-seccomp.py is one check for TAP; unittest's own summary tells how many methods ran.
    for summary in re.findall(r"^Ran (\d+ tests?) in .*\n+(OK|FAILED)(.*)$", text, re.MULTILINE):
        found.append(("ok" if summary[1] == "OK" else "not ok", f"{summary[0]}{summary[2]}"))
    return found


def differences(kind, version, name):
    """The texts of this kind's lines in differences.txt."""
    found = []
    for line in (HERE / "differences.txt").read_text().splitlines():
        head, _, text = line.partition(" | ")
        if head.split() == [kind, version, name]:
            found.append(text)
    return found


def prepare(trees):
    """Puts the listed refusals into the copies of the suites, before any is run."""
    for version, tree in trees.items():
        for path in sorted((tree / "tests").glob("test-*.sh")):
            lines = path.read_text().splitlines(keepends=True)
            for text in differences("refused", version, path.name):
                if not any(text in line for line in lines):
                    raise SystemExit(f"differences.txt: {path.name} of {version} has no such command: {text}")
                lines = [f"if {line.strip()}; then false; fi\n" if text in line else line for line in lines]
            path.write_text("".join(lines))


def run_file(t, version, name, binary):
    """One file of a suite, in a working directory of its own."""
    tree = place.trees[version]
    build = place.trees["0.12"].parent / "build"
    script = tree / "tests" / name
    work = t.mkdir(f"work-{version}-{name}-{pathlib.Path(binary).parent.name}")
    interpreter = ["/usr/bin/python3"] if name.endswith(".py") else ["/usr/bin/perl"] if name.startswith("debian/") else ["/bin/bash"]
    if name.startswith("debian/"):
        script = tree / name
    env = {"BWRAP": str(binary), "G_TEST_SRCDIR": str(tree), "G_TEST_BUILDDIR": str(build), "BWRAP_MUST_WORK": "1",
           "PATH": f"{pathlib.Path(binary).parent}:/usr/bin:/bin:/usr/sbin:/sbin", "PYTHONDONTWRITEBYTECODE": "1"}
    done = t.run(["/usr/bin/python3", place.guard, str(int(t.slow(SHORT_LIMIT if "specifying" in name else LIMIT))), *interpreter, str(script)], env=env, cwd=work, stdin=b"")
    return done, checks_of(done.text + "\n" + (done.errors if name == "test-seccomp.py" else ""))


def compare(t, version, name):
    if place.trouble:
        raise Skip(place.trouble)
    reference, theirs = run_file(t, version, name, place.baseline)
    done, ours = run_file(t, version, name, place.ours)
    told = differences("baseline", version, name)
    unfair = [text for verdict, text in theirs if verdict == "not ok" and text not in told]
    if unfair or not theirs or (reference.status != 0 and not told):
        raise Failure(f"upstream's own binary fails here: {unfair}\n{reference.describe()}")
    theirs, ours = ([(verdict, text) for verdict, text in checks if text not in told] for checks in (theirs, ours))
    count = collections.Counter
    missing = count(theirs) - count(ours)  # not passed, or skipped where upstream's is not
    print(f"     {name} of {version} [{t.user}]: ours {tally(ours)}; upstream's {tally(theirs)}", flush=True)
    problems = [f"upstream's binary: {verdict}, ours not so: {text}" for verdict, text in missing]
    problems += [f"not ok: {text}" for verdict, text in ours if verdict == "not ok"]
    if done.status != 0 and not told:
        problems.append(f"status {done.status}")
    if problems:
        raise Failure("\n".join(problems) + f"\nlast lines of {name}:\n" + "\n".join((done.errors + done.text).splitlines()[-25:]))


def tally(checks):
    count = collections.Counter(verdict for verdict, _text in checks)
    return f"{count['ok']} ok, {count['not ok']} not ok, {count['skip']} skipped"


def register():
    files = {
        "0.12": ("test-run.sh", "test-sandbox.py", "test-seccomp.py", "test-specifying-userns.sh", "test-specifying-pidns.sh",
                 "debian/tests/basic", "debian/tests/dev", "debian/tests/net", "debian/tests/userns"),
        "0.8": ("test-run.sh", "test-seccomp.py", "test-specifying-userns.sh", "test-specifying-pidns.sh"),
    }
    for version, names in files.items():
        for name in names:
            def function(t, version=version, name=name):
                compare(t, version, name)
            function.__name__ = re.sub(r"[^a-z0-9]+", "_", f"{name}_of_{version}".replace("debian/tests/", "debian_")).removeprefix("test_")
            function.__code__ = function.__code__.replace(co_filename=__file__)
            # Debian's own tests ask what an ordinary user sees.
            case(f"{name} of bubblewrap {version}: as upstream's own binary", as_=("user",) if name.startswith("debian/") else ("root", "user"), seconds=2 * LIMIT + 20)(function)


register()
