#!/usr/bin/env python3
"""Thousands of mixed runs and attacks, many at once, with random kills; and nothing is left, nothing grows.

    tests/soak/soak.py --binary build/sbx [--runs 10000] [--at-once 64] [--seconds N] [--seed N] [--as root,user] [--json FILE]

kinds.py has the mix: every kind of end, languages, streams, artifacts, hostile programs, escape attempts, the bwrap and
nsjail command lines, sessions. About one run in eight is hit by SIGKILL, SIGTERM or SIGSTOP with SIGCONT at a random instant of
its life. Some supervisors last from the beginning to the end: sessions that are sent cells, an nsjail that listens, one that runs
a program again and again.

After each window of runs everything has ended, and is counted: processes, mounts, cgroups, namespaces, uid leases, temporary
files, session entries, the driver's descriptors must be what they were before the first run. The lasting supervisors are
weighed at the same instants: descriptors, children and threads must be no more than in the first third, and their private
memory in the other two thirds must rise neither again and again by more than TOLERANCE nor by more than STEP in all. The same seed
makes the same plan. --seconds ends it early, after a whole window.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
for folder in (HERE, HERE.parent / "escape", HERE.parent):
    sys.path.insert(0, str(folder))
import counting  # noqa: E402
from counting import Count, Held, harness  # noqa: E402
import kinds  # noqa: E402

SIGNALLED = 0.125           # the part of the runs that is hit
SESSIONS = 3                # lasting ones, for each identity
LOOKS = 5                   # at one that may be starting or reaping a program just then: the usual state is wanted
# KiB of private memory, over the last two thirds: what it rises by besides the largest step from one window to the next, and
# that step. A buffer that met its largest content late is one step, malloc's to and fro is 64 KiB, a leak rises every time.
TOLERANCE, STEP = 64, 512


class Host:
    """What this machine has."""

    def __init__(self):
        self.words = {name for name, program in (("python", "python3"), ("bash", "bash"), ("perl", "perl"), ("gcc", "gcc")) if harness.have(program)}
        self.words.add(os.uname().machine)

    def lacks(self, needs):
        return [word for word in needs if word not in self.words]


def available_mib():
    return int(re.search(rb"MemAvailable:\s+(\d+)", counting.text_of("/proc/meminfo")).group(1)) >> 10


class Room:
    """Memory that the runs at one time may take together."""

    def __init__(self, mib):
        self.free, self.all, self.condition = mib, mib, threading.Condition()

    def take(self, mib):
        mib = min(mib, self.all)
        with self.condition:
            self.condition.wait_for(lambda: self.free >= mib)
            self.free -= mib
        return mib

    def give(self, mib):
        with self.condition:
            self.free += mib
            self.condition.notify_all()


class Owner:
    """One identity's part: its files, environment and lasting supervisors."""

    def __init__(self, identity, base, marker):
        self.identity, self.marker = identity, marker
        self.base = base / identity.label
        self.home, runtime = self.base / "home", self.base / "runtime"
        for path in (self.base, self.home, runtime):
            path.mkdir(mode=0o700)
            self.own(path)
        # A systemd session has its own, with the bus in it.
        mine = pathlib.Path(f"/run/user/{identity.uid}")
        if os.geteuid() == identity.uid and identity.uid != 0 and (mine / "systemd").exists():
            runtime = mine
        self.entries = runtime / "sbx" / "sessions"
        self.env = {"PATH": harness.SYSTEM_PATH, "HOME": str(self.home), "USER": identity.name, "LOGNAME": identity.name, "LANG": "C.UTF-8",
                    "XDG_CACHE_HOME": str(self.base / "cache"), "XDG_RUNTIME_DIR": str(runtime), "LEAK_MARKER": marker}
        self.sessions, self.lasting, self.servers = [], {}, []  # lasting: {pid: what it is}
        self.started = set()  # the birth of every command, and of each session's supervisor
        self.listener = 0

    def own(self, path):
        if os.geteuid() == 0:
            os.chown(path, self.identity.uid, self.identity.gid)

    def start(self, argv, cwd=None, **streams):
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        process = harness.Process([str(word) for word in argv], env=self.env, cwd=str(cwd or self.base), start_new_session=True, **self.identity.popen_arguments(), **streams)
        self.started.add(counting.birth(process.pid))
        return process

    def finish(self, argv, stdin=None, cwd=None):
        process = self.start(argv, cwd, stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE)
        try:
            out, err = process.communicate(stdin, timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise SystemExit(f"soak: {' '.join(map(str, argv))}: did not end")
        return harness.shell_status(process.returncode), out, err

    def start_session(self, binary, name, *flags):
        """(its supervisor's pid, ""), or why there is none. The time in which an interpreter must start is for machines that are not
        emulated: there it may be tried again."""
        for _try in range(1 if harness.TIME_FACTOR == 1 else 4):
            status, out, err = self.finish([binary, "session", "start", "--name", name, "--json", *kinds.SMALL, *flags])
            if status == 0:
                pid = json.loads(out)["supervisor_pid"]
                self.started.add(counting.birth(pid))
                return pid, ""
            if b"does not start" not in err:
                break
        return 0, f"status {status}: {err[-300:].decode('utf-8', 'replace').strip()}"

    def begin_lasting(self, binary, has_python):
        if has_python:
            for number in range(SESSIONS):
                name = f"soak-{os.getpid()}-{number}"
                pid, problem = self.start_session(binary, name, "--ttl", "none", "--idle", "none", "--output", "1M", "--time", f"{int(60 * harness.TIME_FACTOR)}s")
                if problem:
                    raise SystemExit(f"soak: no session as {self.identity.label}: {problem}")
                self.sessions.append(name)
                self.lasting[pid] = "session"
        log = self.base / "listener.log"
        server = self.start([binary, "nsjail", "-Ml", "--port", "0", "--bindhost", "127.0.0.1", "-t", "600", "--log", log, "-E", f"LEAK_MARKER={self.marker}", "-c", "/", "--",
                             "/bin/cat"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.servers.append(server)
        end = time.monotonic() + 20 * harness.TIME_FACTOR
        while not self.listener:
            found = re.search(rb"Listening on \[.*\]:(\d+)", counting.text_of(log))
            self.listener = int(found.group(1)) if found else 0
            if time.monotonic() > end:
                raise SystemExit(f"soak: no listener: {counting.text_of(log).decode('utf-8', 'replace')}")
            time.sleep(0.02)
        again = self.start([binary, "nsjail", "-Mr", "-Q", "-E", f"LEAK_MARKER={self.marker}", "-c", "/", "--", "/bin/sleep", f"{0.5 * harness.TIME_FACTOR:g}"],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.servers.append(again)
        self.lasting[server.pid], self.lasting[again.pid] = "nsjail, listening", "nsjail, again and again"

    def session_entries(self):
        try:
            return frozenset(name for name in os.listdir(self.entries) if name != "lock")
        except OSError:
            return frozenset()

    def end_lasting(self, binary):
        for name in self.sessions:
            self.finish([binary, "session", "stop", name])
        for server in self.servers:
            server.terminate()
            server.communicate()


class Place:
    """What one run gets."""

    def __init__(self, soak, owner, number, chance):
        self.soak, self.owner, self.number, self.random = soak, owner, number, chance
        self.identity, self.marker = owner.identity, owner.marker
        self.binary, self.probe, self.hostile, self.escapes = map(str, (soak.binary, soak.probe, soak.base / "hostile", soak.base / "escape"))
        self.listener, self.lasting = owner.listener, sorted(owner.lasting)
        self.dir = owner.base / f"run-{number}"
        self.dir.mkdir()
        owner.own(self.dir)

    def has(self, word):
        return word in self.soak.host.words

    def link(self, name):
        return str(self.soak.base / name)

    def session(self):
        return self.random.choice(self.owner.sessions)

    def file(self, name, content):
        path = self.dir / name
        if path.parent != self.dir and not path.parent.exists():
            path.parent.mkdir()
            self.owner.own(path.parent)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        self.owner.own(path)
        return str(path)

    def finish(self, argv):
        return self.owner.finish(argv, cwd=self.dir)

    def close(self):
        def unlock(function, path, _why):  # what came out of a hostile tree may be closed to its owner
            os.chmod(os.path.dirname(path), 0o700)
            if os.path.isdir(path):
                os.chmod(path, 0o700)
            function(path)
        shutil.rmtree(self.dir, onerror=unlock)


class Soak:
    def __init__(self, options, base):
        self.options, self.base, self.host = options, base, Host()
        self.binary, self.probe = base / "sbx", base / "probe"
        self.marker = f"soak-{os.getpid()}"
        self.room = Room(available_mib() // 2)
        self.lock = threading.Lock()
        self.ran, self.signals, self.wrong = collections.Counter(), collections.Counter(), collections.Counter()
        self.slowest = collections.defaultdict(float)
        self.escapes = self.attempts = 0
        self.windows, self.weights = [], collections.defaultdict(list)  # {pid: [(runs so far, Held)]}
        self.kinds = [entry for entry in kinds.KINDS if not self.host.lacks(entry[4])]
        self.absent = sorted(f"{entry[1]} (no {', '.join(self.host.lacks(entry[4]))})" for entry in kinds.KINDS if self.host.lacks(entry[4]))
        self.owners = [Owner(identity, base, self.marker) for identity in harness.make_identities(options.identities.split(","))]

    # ---- one run

    def one(self, number):
        chance = random.Random(f"{self.options.seed}/{number}")
        owner = chance.choice(self.owners)
        group, name, _weight, build, _needs = chance.choices(self.kinds, [entry[2] for entry in self.kinds])[0]
        place = Place(self, owner, number, chance)
        problems, began = [], time.monotonic()
        try:
            planned = build(place)
            if isinstance(planned, list):
                problems = planned
            else:
                mib = self.room.take(planned.mib)
                try:
                    problems = self.perform(planned, place)
                finally:
                    self.room.give(mib)
        except Exception as error:  # of the driver itself: named like any other problem, and the others go on
            problems = [f"{type(error).__name__}: {error}"]
        finally:
            place.close()
        with self.lock:
            self.ran[group, name, owner.identity.label] += 1
            self.slowest[name] = max(self.slowest[name], time.monotonic() - began)
            self.attempts += group == "escapes"
            for text in problems:
                self.escapes += text.startswith("ESCAPE")
                self.wrong[f"{name} [{owner.identity.label}]: {text}"] += 1
        if problems and self.options.verbose:
            print(f"run {number}: {name} [{owner.identity.label}]: {problems}", flush=True)

    def plan_signal(self, chance):
        """(name, seconds until then, seconds until SIGCONT) or None. Half of them fall into the start."""
        if chance.random() >= SIGNALLED:
            return None
        instant = chance.random() * (0.03 if chance.random() < 0.5 else 0.4) * harness.TIME_FACTOR
        return chance.choice(["KILL", "KILL", "TERM", "STOP"]), instant, chance.random() * 0.2

    def perform(self, run, place):
        chance = place.random
        argv = list(run.argv)
        result = None
        if argv[0] in ("run", "exec"):
            more = ["--env", f"LEAK_MARKER={self.marker}"]
            if not any(word == "--time" for word in argv):
                more += ["--time", f"{int(60 * harness.TIME_FACTOR)}s"]
            if run.verdict and chance.random() < 0.5:
                result = place.dir / "result.json"
                more += ["--result", str(result)]
            argv = [self.binary, argv[0], *more, *argv[1:]]
        signal_plan = self.plan_signal(chance) if run.may_signal else None
        run.signalled = signal_plan is not None and signal_plan[0] != "STOP"
        if run.tty:
            outer, inner = os.openpty()
            process = place.owner.start(argv, place.dir, stdin=inner, stdout=inner)
            os.close(inner)
        else:
            process = place.owner.start(argv, place.dir, stdin=subprocess.PIPE)
        try:
            if signal_plan:
                self.send(process, signal_plan)
            out, err = process.communicate(None if run.tty else run.stdin, timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return ["did not end" + (f" after SIG{signal_plan[0]}" if signal_plan else "")]
        finally:
            if run.tty:
                os.close(outer)
        run.status = harness.shell_status(process.returncode)
        allowed = set(run.statuses)
        if signal_plan:
            with self.lock:
                self.signals["SIG" + signal_plan[0]] += 1
            # A client of a session that is told to end interrupts its cell: 130.
            allowed |= {"KILL": {137}, "TERM": {143, 130}, "STOP": set()}[signal_plan[0]]
        after = f" after SIG{signal_plan[0]}" if signal_plan else ""
        problems = []
        if run.status not in allowed:
            said = (out or b"")[-200:] + b" | " + (err or b"")[-300:]
            problems.append(f"status {run.status}{after}, wanted {sorted(allowed)}: {said.decode('utf-8', 'replace').strip()}")
        elif result and not run.signalled:
            try:
                verdict = json.loads(result.read_bytes())["verdict"]
            except (OSError, ValueError, KeyError) as error:
                verdict = f"none ({error})"
            if not re.fullmatch(run.verdict, verdict):
                problems.append(f"verdict {verdict}{after}, wanted {run.verdict}")
        if run.check and not problems:
            # Of a run that was killed only what can never be may be said.
            wrong = run.check(out or b"", run) if not run.signalled or run.checked_always else ""
            if wrong:
                problems.append(wrong + after)
        return problems

    @staticmethod
    def send(process, plan):
        name, instant, pause = plan
        time.sleep(instant)  # the instant is what varies
        process.send_signal(getattr(signal, "SIG" + name))
        if name == "STOP":
            time.sleep(pause)
            process.send_signal(signal.SIGCONT)

    # ---- counting

    def count(self):
        count = Count(self.marker.encode(), self.binary, [pid for owner in self.owners for pid in owner.lasting], set().union(*[owner.started for owner in self.owners]))
        for owner in self.owners:
            count.values[f"session entries of {owner.identity.label}"] = owner.session_entries()
            count.values[f"files in the home of {owner.identity.label}"] = frozenset(os.listdir(owner.home))
        count.values["lasting supervisors that live"] = sum(harness.alive(pid) for owner in self.owners for pid in owner.lasting)
        return count

    def weigh(self, runs):
        for owner in self.owners:
            for pid in owner.lasting:
                # What a session's programs left behind may still be ending, and holds a descriptor of the supervisor's until it has.
                end = time.monotonic() + 5 * harness.TIME_FACTOR
                while self.weights[pid] and Held(pid).descriptors > self.weights[pid][0][1].descriptors and time.monotonic() < end:
                    time.sleep(0.05)
                looks = []
                for look in range(LOOKS if "nsjail" in owner.lasting[pid] else 1):
                    time.sleep(0.03 if look else 0)
                    looks.append(Held(pid))
                least = looks[0]
                for field in ("threads", "descriptors", "children"):
                    setattr(least, field, min(getattr(held, field) for held in looks))
                least.private = max(held.private for held in looks)  # a child that has not executed yet shares what it has
                self.weights[pid].append((runs, least))

    # ---- the whole

    def warm_session(self, owner, session):
        for code, statuses, flags in kinds.CELLS:
            status, out, err = owner.finish([self.binary, "session", "run", *kinds.stretched(flags), session, "-c", code])
            if status not in statuses:
                raise SystemExit(f"soak: the cell {code!r} as {owner.identity.label} before the first run: status {status}: {out[-200:]!r} {err[-300:]!r}")

    def warm_up(self, pool):
        """Whatever is made once and kept is made before the first count: caches, places, the compiled program; and the buffers
        of a session, which grow with the first cell of each kind."""
        for _done in pool.map(lambda pair: self.warm_session(*pair), [(owner, session) for owner in self.owners for session in owner.sessions]):
            pass
        for owner in self.owners:
            for _group, name, _weight, build, _needs in self.kinds:
                if name not in ("exit", "overlay", "C, compiled once", "artifacts", "a whole life"):
                    continue
                place = Place(self, owner, -len(name), random.Random(1))
                planned = build(place)
                if not isinstance(planned, list):
                    planned.may_signal = False
                    planned = self.perform(planned, place)
                place.close()
                if planned:
                    raise SystemExit(f"soak: {name} as {owner.identity.label} before the first run: {planned}")

    def run(self):
        options = self.options
        pool = concurrent.futures.ThreadPoolExecutor(options.at_once)
        done, leaks, began = 0, [], time.monotonic()
        try:
            for owner in self.owners:
                owner.begin_lasting(str(self.binary), self.host.words >= {"python"})
            list(pool.map(time.sleep, [0.05] * options.at_once))  # its threads are there before the first count
            self.warm_up(pool)
            before = self.count()
            window = options.window or max(25, min(500, options.runs // 12))
            began = time.monotonic()
            while done < options.runs and not (options.seconds and time.monotonic() - began > options.seconds):
                size = min(window, options.runs - done)
                from_ = time.monotonic()
                list(pool.map(self.one, range(done, done + size)))
                took = time.monotonic() - from_
                done += size
                # What killed ones left on disk is gone after the next command at the latest, once their processes are; the second
                # round finds those that were still ending.
                for _round in range(2):
                    for owner in self.owners:
                        owner.finish([self.binary, "exec", "--", "true"])
                        owner.finish([self.binary, "session", "gc"])
                    differences = counting.settled(before, self.count, 2 * harness.TIME_FACTOR, 30 * harness.TIME_FACTOR, lambda: counting.foreign_sandboxes(self.binary))
                    if not differences:
                        break
                leaks += [f"after {done} runs: {text}" for text in differences]
                self.weigh(done)
                self.windows.append({"runs": done, "seconds": round(took, 1), "differences": differences, "memory_available_mib": available_mib(),
                                     "files_open": int(counting.text_of("/proc/sys/fs/file-nr").split()[0])})
                private = [held[-1][1].private for held in self.weights.values()]
                print(f"soak: {done} runs, {size / took:.1f} a second; {sum(self.signals.values())} signalled, {self.attempts} escape attempts, {sum(self.wrong.values())} wrong; "
                      f"{'left: ' + '; '.join(differences) if differences else 'nothing left'}; lasting supervisors: {len(private)}, {min(private)} to {max(private)} KiB", flush=True)
        finally:
            pool.shutdown()
            for owner in self.owners:
                owner.end_lasting(str(self.binary))
        return done, time.monotonic() - began, leaks

    def report(self, done, seconds, leaks):
        grown = []
        lasting = []
        names = {pid: (owner.identity.label, what) for owner in self.owners for pid, what in owner.lasting.items()}
        for pid, samples in self.weights.items():
            label, what = names[pid]
            rise, more = growth(samples)
            first, last = samples[0][1], samples[-1][1]
            lasting.append({"as": label, "what": what, "private_kib": [first.private, last.private], "rise_kib": rise,
                            "descriptors": [first.descriptors, last.descriptors], "children": [first.children, last.children], "threads": [first.threads, last.threads]})
            if rise > TOLERANCE:
                grown.append(f"{what} [{label}]: private memory rises, besides one step, by {rise} KiB over the last two thirds, {', '.join(str(held.private) for _runs, held in samples)}")
            grown += [f"{what} [{label}]: {text}" for text in more]
        problems = [f"{count} times: {text}" if count > 1 else text for text, count in self.wrong.most_common()] + leaks + grown
        labels = [owner.identity.label for owner in self.owners]
        print(f"\n{'':34}" + "".join(f"{label:>8}" for label in labels))
        for group in dict.fromkeys(entry[0] for entry in kinds.KINDS):
            print(f"{group:34}" + "".join(f"{sum(n for (g, _k, who), n in self.ran.items() if (g, who) == (group, label)):8}" for label in labels))
        print(f"{'all':34}" + "".join(f"{sum(n for (_g, _k, who), n in self.ran.items() if who == label):8}" for label in labels))
        print("signals: " + ", ".join(f"{count} {name}" for name, count in sorted(self.signals.items())))
        print("slowest: " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in sorted(self.slowest.items(), key=lambda item: -item[1])[:6]))
        print(f"escape attempts: {self.attempts}, of {len(kinds.ATTACKS)} kinds; {self.escapes} succeeded")
        if self.absent:
            print("not in the mix here: " + ", ".join(self.absent))
        print(f"\n{'lasting supervisor':42}{'private KiB':>14}{'rise':>7}{'fds':>10}{'children':>10}")
        for row in lasting:
            print(f"{row['what'] + ' [' + row['as'] + ']':42}" + f"{row['private_kib'][0]:>7}{row['private_kib'][1]:>7}{row['rise_kib']:>7}"
                  + f"{row['descriptors'][0]:>6}{row['descriptors'][1]:>4}" + f"{row['children'][0]:>6}{row['children'][1]:>4}")
        for text in problems[:40]:
            print(f"FAIL soak: {text}")
        if len(problems) > 40:
            print(f"FAIL soak: … and {len(problems) - 40} more")
        print(f"soak: {done} runs in {seconds:.0f} s, {self.options.at_once} at once, seed {self.options.seed}, Linux {os.uname().release}: {'FAILED' if problems else 'all as it should be'}")
        if self.options.json:
            document = {"runs": done, "seconds": round(seconds), "at_once": self.options.at_once, "seed": self.options.seed, "kernel": os.uname().release, "identities": labels,
                        "kinds": [{"group": group, "kind": name, "as": who, "runs": count} for (group, name, who), count in sorted(self.ran.items())],
                        "signals": dict(self.signals), "escape_attempts": self.attempts, "escapes": self.escapes, "windows": self.windows, "lasting": lasting,
                        "absent": self.absent, "problems": problems}
            pathlib.Path(self.options.json).write_text(json.dumps(document, indent=1) + "\n")
        return 1 if problems else 0


def growth(samples):
    """(KiB by which private memory rises over the last two thirds besides its largest step, what else is more than in the first)."""
    start = len(samples) // 3
    first, rest = samples[:max(1, start)], samples[start:]
    more = []
    for field, spare in (("descriptors", 0), ("children", 0), ("threads", 0), ("private", STEP)):
        most = max([field == "children"] + [getattr(held, field) for _runs, held in first])  # one may have been between two children
        if getattr(rest[-1][1], field) > most + spare:
            more.append(f"{field}: at most {most} in the first third, then {', '.join(str(getattr(held, field)) for _runs, held in rest)}")
    private = [held.private for _runs, held in rest]
    step = max([0, *(after - before for before, after in zip(private, private[1:]))])
    return private[-1] - private[0] - step, more


def self_test():
    """Each count can fail: something of each kind is left on purpose."""
    class Weight:
        def __init__(self, private, descriptors=9):
            self.private, self.descriptors, self.children, self.threads = private, descriptors, 1, 1
    noisy = [(n * 100, Weight(1000 + (n * 37) % 23)) for n in range(12)]
    assert growth(noisy)[0] < TOLERANCE and not growth(noisy)[1], growth(noisy)
    early = [(n * 100, Weight(1000 + 300 * min(n, 4))) for n in range(12)]
    assert growth(early)[0] < TOLERANCE, "what is taken once, while warming up, is no leak"
    assert growth([(n * 100, Weight(1000 + 130 * (n > 8))) for n in range(12)]) == (0, []), "one step"
    assert growth([(n * 100, Weight(1000 + 999 * (n > 8))) for n in range(12)])[1], "a large one"
    assert growth([(n * 100, Weight(1000 + 16 * n)) for n in range(12)])[0] > TOLERANCE
    assert growth([(n * 100, Weight(1000, 9 + n // 6)) for n in range(12)])[1]
    assert all(entry[0] for entry in kinds.KINDS) and len({entry[1] for entry in kinds.KINDS}) == len(kinds.KINDS), "two kinds of one name"
    assert len(kinds.ATTACKS) > 20, kinds.ATTACKS.keys()

    # Other tests run meanwhile: what is compared is only what this one leaves.
    marker, binary = f"soak-test-{os.getpid()}", "/no/such/sbx"
    own = {"processes of the runs", "children of the driver", "descriptors of the driver"}

    def seen(before):
        return {text.split(":")[0] for text in before.differences(Count(marker.encode(), binary))}
    before = Count(marker.encode(), binary)
    assert not seen(before) & own, seen(before)
    with open("/dev/null", "rb"):
        assert seen(before) & own == {"descriptors of the driver"}, seen(before)
    left = tempfile.mkdtemp(prefix="sbx-left-", dir="/tmp")
    assert "files in /tmp" in seen(before), seen(before)
    os.rmdir(left)
    process = subprocess.Popen(["sleep", "60"], env={"PATH": harness.SYSTEM_PATH, "LEAK_MARKER": marker})
    try:
        assert seen(before) & own == {"processes of the runs", "children of the driver"}, seen(before)
        assert not Count(marker.encode(), binary, [process.pid]).values["processes of the runs"], "what lasts is no leak"
    finally:
        process.kill()
        process.wait()
    assert not seen(before) & own, seen(before)
    held = counting.lock_ranges(b"1: OFDLCK  ADVISORY  WRITE -1 00:19:77 5 5\n2: OFDLCK  ADVISORY  WRITE -1 00:19:78 5 5\nlock:\t3: OFDLCK  ADVISORY  WRITE -1 00:19:77 9 9\n", "00:19:77")
    assert set(held) == {("5", "5"), ("9", "9")}, held
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(harness.ROOT / "build" / "sbx"))
    parser.add_argument("--probe", default="", help="default: tests/probe beside the binary")
    parser.add_argument("--runs", type=int, default=10000)
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=0, help="no further window after that time")
    parser.add_argument("--window", type=int, default=0, help="runs between two counts; default: a twelfth, at most 500")
    parser.add_argument("--as", dest="identities", default="root,user")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--json", default="", help="write the figures there")
    parser.add_argument("-v", dest="verbose", action="store_true", help="name each wrong run when it ends")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    binary = pathlib.Path(options.binary).resolve()
    probe = pathlib.Path(options.probe).resolve() if options.probe else binary.parent / "tests" / "probe"
    print(f"soak: seed {options.seed}", flush=True)
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit("soak: told to end"))  # so that the lasting supervisors end as well
    base = pathlib.Path(tempfile.mkdtemp(prefix="sbx-soak-"))
    os.chmod(base, 0o755)
    try:
        for source, name in ((binary, "sbx"), (probe, "probe")):
            shutil.copy2(source, base / name)
            os.chmod(base / name, 0o755)
        for name in ("hostile", "escape"):
            shutil.copytree(HERE.parent / name, base / name, ignore=shutil.ignore_patterns("__pycache__"))
        subprocess.run(["chmod", "-R", "a+rX", str(base)], check=True)
        for name in ("bwrap", "nsjail"):
            os.symlink(base / "sbx", base / name)
        soak = Soak(options, base)
        return soak.report(*soak.run())
    finally:
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
