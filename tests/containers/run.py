#!/usr/bin/env python3
"""Real containers, and what sbx does in each: every case of cases.py.

    tests/containers/run.py --binary build/sbx [-k pattern] [--as root,full,one] [--list] [--table] [--check-table FILE]

Needs root and podman with crun. The last line says `N passed, N failed, N skipped`. README.md describes the rest.
"""

import argparse
import importlib
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
sys.modules.setdefault("run", sys.modules[__name__])
import harness  # noqa: E402
import podman  # noqa: E402
from harness import Failure, Skip  # noqa: E402

WHO = {
    "root": "podman of root",
    "full": "rootless podman with a range of uids",
    "one": "rootless podman with one uid",
}
SUBUIDS = (700000, 65536)

# What runs in each container: a sandbox with its result, one whose lines a person reads, and doctor. `tell` is for
# what a case adds.
SCRIPT = r"""
tell() { name=$1; shift; echo "@@ $name"; "$@"; echo "@@status $?"; }
tell result sbx exec --json -- sh -c 'id -u; grep -E "^(Seccomp|NoNewPrivs|CapEff|CapBnd):" /proc/self/status; ls /; wc -l < /proc/net/dev; touch /bin/made'
tell doctor sbx doctor --json
exec 2>&1
tell plain sbx exec -- true
"""

REGISTRY = []


class Case:
    def __init__(self, function, sentence, who, needs):
        self.function, self.sentence, self.who, self.needs = function, sentence, who, needs
        self.name = function.__name__


def case(sentence, who=("root",), needs=""):
    def register(function):
        REGISTRY.append(Case(function, sentence, who, needs))
        return function
    return register


class Told:  # by one command of the script
    def __init__(self, status, text):
        self.status, self.text = status, text


class Inside:
    """What the script printed in one container."""

    def __init__(self, told, done):
        self.told, self.done = told, done
        try:
            self.result = json.loads(told["result"].text)
            self.doctor = json.loads(told["doctor"].text)
        except (KeyError, ValueError):
            raise Failure("the container printed no result\n" + done.describe())
        self.isolation = self.result["isolation"] or {}
        self.held = self.isolation.get("limits_held_by", {})
        lines = told["plain"].text.splitlines()
        self.errors = [line[5:] for line in lines if line.startswith("sbx: ") and not line.startswith("sbx: hint: ")]
        self.hints = [line[11:] for line in lines if line.startswith("sbx: hint: ")]
        self.hint = self.hints[0] if self.hints else ""

    def finding(self, name):
        return next(f for f in self.doctor["findings"] if f["name"] == name)


class Trial:
    """What a case gets: podman as one identity, checks, and rows for the table."""

    def __init__(self, who, engine, image, folder, tarball=""):
        self.who, self.podman, self.image, self.tarball = who, engine, image, tarball
        self.folder = pathlib.Path(folder)
        os.chmod(folder, 0o755)
        self.rows = []
        self.count = 0

    # -- containers

    def script(self, extra):
        return SCRIPT + extra

    def container(self, options, extra="", rootfs=None):
        return self.podman.run(options, self.script(extra), rootfs)

    def read(self, done, setting):
        told, name, lines = {}, None, []
        for line in done.text.splitlines():
            if line.startswith("@@status "):
                told[name] = Told(int(line[9:]), "\n".join(lines))
                lines = []
            elif line.startswith("@@ "):
                if name and lines and name in told:
                    told[name].text += "\n" + "\n".join(lines)
                name, lines = line[3:], []
            else:
                lines.append(line)
        if name and lines and name in told:
            told[name].text += "\n" + "\n".join(lines)
        if "result" not in told:
            raise Failure(f"{setting}: the container did not run\n" + done.describe())
        return Inside(told, done)

    def works(self, options, identity=None, extra="", rootfs=None, record=True):
        inside = self.read(self.container(options, extra, rootfs), " ".join(options))
        self.check_works(inside, identity)
        if not record:
            return inside
        by_cgroup = all("cgroup" in inside.held[limit] for limit in ("memory", "pids"))
        uid = "a uid of its own" if inside.isolation["identity"].startswith("a host uid") else "the caller's uid"
        self.record(setting_text(options), f"works, {uid}" + ("; a cgroup holds memory and processes" if by_cgroup else ""))
        return inside

    def refused(self, options, hint, error=""):
        inside = self.read(self.container(options), " ".join(options))
        self.check_refused(inside, hint, error)
        # From the first option or verb on: the cause stands before it.
        self.record(setting_text(options), "125: " + short(re.split(r"start the container with: ", inside.hint)[-1]))
        return inside

    def check_works(self, inside, identity):
        """A whole sandbox, with all that isolates it, and a doctor that says the same."""
        result, isolation = inside.result, inside.isolation
        self.equal(result["verdict"], "exited", f"verdict ({inside.told['plain'].text})")
        self.equal(inside.told["plain"].status, 0, "status")
        self.equal(inside.told["plain"].text, "", "lines of a run that works")
        said = result["stdout"]["data"].splitlines()
        self.equal(said[0], "1000", "uid inside")
        for line in ("Seccomp:\t2", "NoNewPrivs:\t1", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000"):
            self.true(line in said, f"{line!r} inside, of {said}")
        self.true("work" not in said and "volume" not in said, "nothing of the container's own folders is seen")
        self.equal(said[-1], "3", "lines of /proc/net/dev: two of heading, one interface")
        self.match(result["stderr"]["data"], "Read-only file system")
        for name in ("user", "mount", "pid", "ipc", "uts", "network"):
            self.true(name in isolation["namespaces"], f"{name} namespace")
        if identity:
            self.equal(isolation["identity"], identity, "identity")
        doctor = inside.doctor
        self.true(doctor["works"], f"doctor: {doctor['verdict']}")
        self.equal(inside.told["doctor"].status, 0, "status of doctor")
        self.equal(inside.finding("sandbox")["state"], "ok", "doctor's own sandbox")
        by_cgroup = all("cgroup" in inside.held[name] for name in ("memory", "pids"))
        self.equal(inside.finding("cgroup")["state"] == "ok", by_cgroup, "doctor and the run agree on the cgroup")
        self.equal(inside.finding("landlock")["state"] == "ok", isolation["landlock"]["abi"] > 0, "doctor and the run agree on Landlock")
        if inside.finding("surroundings")["found"].find("root") >= 0:
            own = isolation["identity"].startswith("a host uid")
            self.equal(inside.finding("uid-range")["state"] == "ok", own, "doctor and the run agree on the uid")
        for finding in doctor["findings"]:
            if finding["severity"] == "need":
                self.true(finding["state"] in ("ok", "degraded"), f"a need of doctor's: {finding}")

    def check_refused(self, inside, hint, error=""):
        """Nothing ran; one line says why and what to do, and doctor says the same."""
        plain = inside.told["plain"]
        self.equal(inside.result["verdict"], "setup_failed", "verdict")
        self.equal(plain.status, 125, "status")
        self.equal(len(inside.errors), 1, f"lines of the error ({plain.text})")
        self.equal(len(inside.hints), 1, f"lines of the hint ({plain.text})")
        self.equal(len(plain.text.splitlines()), 2, f"lines altogether ({plain.text})")
        self.match(inside.hint, hint)
        if error:
            self.match(inside.errors[0], error)
        doctor = inside.doctor
        self.true(not doctor["works"], f"doctor: {doctor['verdict']}")
        self.equal(inside.told["doctor"].status, 1, "status of doctor")
        self.match(doctor["verdict"], "^no sandbox can be had here: ")
        self.true(inside.finding("sandbox")["state"] != "ok", "doctor's own sandbox failed too")
        # The run and doctor may stop at different things, but tell people to do the same.
        remedies = [f["mend"] for f in doctor["findings"] if f["mend"] and f["severity"] == "need" and f["state"] == "missing"]
        self.true(any(inside.hint.endswith(mend) for mend in remedies), f"doctor's remedies {remedies} have the run's: {inside.hint}")
        self.true(doctor["verdict"].endswith(remedies[0]), f"the verdict names the first: {doctor['verdict']}")

    # -- places

    def volume(self):
        """A folder of the container's root on the host's own file system."""
        self.count += 1
        path = self.folder / f"volume-{self.count}"
        path.mkdir(mode=0o755)
        for name in ("hello.py", "write.py"):
            shutil.copy(self.image.tree / "work" / name, path / name)
        if self.podman.user:
            for entry in (path, *path.iterdir()):
                os.chown(entry, self.podman.uid, self.podman.gid)
        return path

    def small_tree(self):
        """No /usr at all: /bin alone."""
        tree = self.folder / "small"
        for name in ("bin", "etc", "proc", "sys", "dev", "tmp", "run"):
            (tree / name).mkdir(parents=True)
        for name in ("busybox", "sbx"):
            shutil.copy(self.image.tree / "usr/bin" / name, tree / "bin" / name)
        for name in podman.APPLETS:
            (tree / "bin" / name).symlink_to("busybox")
        shutil.copy(self.image.tree / "etc/passwd", tree / "etc/passwd")
        return tree

    def needs_tarball(self):
        if not self.tarball:
            raise Skip("needs --tarball")

    # -- checks

    def record(self, setting, outcome):
        self.rows.append((self.who, setting, outcome))

    @staticmethod
    def equal(got, want, what):
        if got != want:
            raise Failure(f"{what}: {harness.show(got)}\nwanted: {harness.show(want)}")

    @staticmethod
    def true(condition, what):
        if not condition:
            raise Failure(what)

    @staticmethod
    def match(text, pattern, what="text"):
        if not re.search(pattern, text, re.MULTILINE):
            raise Failure(f"{what} lacks /{pattern}/:\n{harness.show(text)}")


def setting_text(options):
    words, at = [], 0
    while at < len(options):
        if options[at] == "-v":  # a place of the tests' own
            at += 2
            continue
        words.append(options[at])
        at += 1
    return short(" ".join(words)) if words else "as it comes"


def short(text):
    """As docs/ci.md has it."""
    return text.replace("podman run ", "").replace("--security-opt ", "")


def table(rows):
    """One line for each setting, a column for each podman."""
    settings = {}
    for who, setting, outcome in rows:
        settings.setdefault(setting, {}).setdefault(who, outcome)
    lines = ["| options | root's podman | rootless, a range of uids | rootless, one uid |", "|---|---|---|---|"]
    for setting, outcomes in settings.items():
        words = setting if setting == "as it comes" else f"`{setting}`"
        lines.append(f"| {words} | " + " | ".join(outcomes.get(who, "") for who in WHO) + " |")
    return lines


def has_v2():
    try:
        return "memory" in pathlib.Path("/sys/fs/cgroup/cgroup.controllers").read_text().split()
    except OSError:
        return False


def main():
    parser = argparse.ArgumentParser(description="Runs sbx in real containers.")
    parser.add_argument("--binary", default=str(harness.ROOT / "build" / "sbx"))
    parser.add_argument("--busybox", default="", help="a static busybox; default: that of the PATH")
    parser.add_argument("--tarball", default="", help="of packaging/package.sh; without it the case that needs one is skipped")
    parser.add_argument("--as", dest="who", default=",".join(WHO), help="of " + ", ".join(WHO))
    parser.add_argument("-k", dest="pattern", default="", help="regular expression over case names and sentences")
    parser.add_argument("-v", dest="verbose", action="store_true", help="passed cases too")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--table", action="store_true", help="print each container with what sbx did in it, as a table")
    parser.add_argument("--check-table", default="", metavar="FILE", help="fail unless FILE has every line of that table")
    parser.add_argument("--check-skips", default="", metavar="FILE", help="fail unless exactly these cases are skipped")
    options = parser.parse_args()
    importlib.import_module("cases")  # registers them

    wanted = re.compile(options.pattern)
    work = [(c, who) for who in options.who.split(",") for c in REGISTRY
            if who in c.who and (wanted.search(c.name) or wanted.search(c.sentence))]
    if options.list:
        for c, who in work:
            print(f"{c.name} [{who}]: {c.sentence}")
        return 0

    began = time.monotonic()
    passed, failed, skipped, rows = [], [], [], []
    base = tempfile.mkdtemp(prefix="sbx-containers-")
    os.chmod(base, 0o755)
    engines = {}
    try:
        reason = unusable(options, base, engines, [who for _c, who in work])
        if reason:
            skipped.append(f"containers: {reason}")
            print(f"skip containers: {reason}", flush=True)
            work = []
        for c, who in work:
            name = f"{c.name} [{who}]"
            at = time.monotonic()
            trial = Trial(who, engines[who], engines["image"], tempfile.mkdtemp(dir=base), options.tarball)
            try:
                if c.needs == "v2" and not has_v2():
                    raise Skip("needs cgroup v2 with its memory controller")
                c.function(trial)
            except Skip as skip:
                skipped.append(f"{name}: {skip}")
                print(f"skip {name}: {skip}", flush=True)
            except Failure as failure:
                failed.append(name)
                print(f"FAIL {name}: {c.sentence}\n{failure}", flush=True)
            except Exception:
                failed.append(name)
                print(f"FAIL {name}: {c.sentence}\n{traceback.format_exc()}", flush=True)
            else:
                passed.append(name)
                if options.verbose:
                    print(f"ok   {name}  ({time.monotonic() - at:.1f} s)", flush=True)
            rows += trial.rows
    finally:
        for who, engine in engines.items():
            if who != "image":
                engine.close()
        shutil.rmtree(base, ignore_errors=True)

    if options.table:
        print("\n".join(table(rows)))
    status = 1 if failed else 0
    if options.check_table and passed and not has_v2():  # with it the cgroups say more
        page = pathlib.Path(options.check_table).read_text().splitlines()
        for line in table(rows):
            if line not in page:
                print(f"FAIL {options.check_table} lacks the line that --table prints: {line}")
                status = 1
    if options.check_skips:
        want = {line.split("#", 1)[0].strip() for line in pathlib.Path(options.check_skips).read_text().splitlines()} - {""}
        for line in sorted(set(skipped) ^ want):
            print(f"FAIL {'skipped, but not expected to be' if line in skipped else 'expected to be skipped, but was not'}: {line}")
            status = 1
    print(f"({time.monotonic() - began:.0f} s)")
    print(f"{len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped")
    return status


def unusable(options, base, engines, who):
    """Fills engines; else the reason why no container can run here."""
    if os.geteuid() != 0:
        return "needs root, who can also become the users of the cases"
    missing = podman.missing(options.busybox)
    if missing:
        return f"needs {', '.join(missing)}: tools/install-deps.sh containers"
    engines["image"] = podman.Image(base, options.binary, options.busybox)
    user = harness.make_identities(["user"])[0].name if set(who) - {"root"} else ""
    for name in dict.fromkeys(who):
        ids = {"root": {}, "full": {"user": user, "subuids": SUBUIDS}, "one": {"user": user}}[name]
        engines[name] = podman.Podman(base, engines["image"], name, cgroups=has_v2(), **ids)
        try:
            engines[name].ensure_image()
            done = engines[name].run([], "echo runs")
        except (podman.Unusable, Failure) as problem:
            return f"{WHO[name]}: {problem}"
        if done.text != "runs\n":
            return f"{WHO[name]} starts no container: {podman.last_line(done.errors)}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
