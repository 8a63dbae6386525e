#!/usr/bin/env python3
"""Measures sbx against its goals (docs/performance.md): starts, what runs inside, streams, rates, memory, mounts.

    tests/bench/bench.py --binary build/sbx [--quick] [--as root,user] [--rounds 200] [--only start,calls,…]
                         [--json FILE] [--svg FILE] [--markdown docs/performance.md] [--from-json FILE] [--seed 1]

Rows of a start, interleaved in random order so that whatever disturbs the machine meets all of them alike:

    bare        posix_spawn of the command, nothing else
    floor       tests/bench/floor.c: the least C that puts up the same namespaces, view of files, identity and filter
    sbx         sbx exec -- true; sbx run --lang python -c 'print("hello")'
    no cgroup   the same with --cgroup-parent none: the difference is what a cgroup costs
    bwrap, nsjail, firejail, unshare    what is installed; bwrap with the same view, the others as they come
    sbx bwrap   bwrap's command line, carried out by sbx

Times of different machines, or of different minutes of a busy one, do not compare: only ratios within one run do. Each
ratio of medians has a 95 % confidence interval (bootstrap over the rounds), and the ratio of the best of each beside it,
which a busy machine disturbs least; CPU time is steadier still. The verdict of a goal is "met" or "missed" when the whole interval says so, else
"unclear".
"""

import argparse
import ctypes
import importlib
import json
import os
import pathlib
import random
import re
importlib.import_module("resource")  # os.wait4 needs it, and who is measured may not read where it lies
import shutil
import stat
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402
import plot  # noqa: E402

PARTS = ("start", "calls", "streams", "rate", "memory", "mounts", "warm")
KIB = 1024


# ---- statistics -------------------------------------------------------------------------------------------------

def percentile(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def interval(statistic, rounds, seed, draws=1000):
    """95 % of what `statistic` says of rounds drawn with replacement; a round holds one sample of each row."""
    chance = random.Random(seed)
    told = sorted(statistic([chance.choice(rounds) for _ in rounds]) for _ in range(draws))
    return told[int(0.025 * draws)], told[int(0.975 * draws) - 1]


def medians(rounds):
    return {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}


# ---- in the identity of who is measured -------------------------------------------------------------------------

def as_identity(identity, work):
    """What `work` returns, done by a child of that identity: posix_spawn cannot change it, and this process may have to."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() != identity.uid:
                os.setgroups([])
                os.setresgid(identity.gid, identity.gid, identity.gid)
                os.setresuid(identity.uid, identity.uid, identity.uid)
            os.close(read_end)
            with os.fdopen(write_end, "w") as out:
                json.dump(work(), out)
            os._exit(0)
        except BaseException as problem:  # noqa: BLE001: a child must not return into the parent's code
            print(f"note: measuring as {identity.label}: {problem!r}", file=sys.stderr)
            os._exit(1)
    os.close(write_end)
    with os.fdopen(read_end) as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if status == 0 and text else None


class Spawner:
    def __init__(self, env):
        self.env = env
        self.null = os.open("/dev/null", os.O_RDWR)
        self.quiet = [(os.POSIX_SPAWN_DUP2, self.null, fd) for fd in (0, 1, 2)]

    def run(self, argv):
        """Milliseconds from spawn to end, of CPU time (with that of all that was waited for), and its status."""
        began = time.perf_counter_ns()
        pid = os.posix_spawn(argv[0], argv, self.env, file_actions=self.quiet)
        _, status, used = os.wait4(pid, 0)
        return (time.perf_counter_ns() - began) / 1e6, (used.ru_utime + used.ru_stime) * 1e3, status


def interleaved(rows, env, rounds, seed):
    spawner = Spawner(env)
    chance = random.Random(seed)
    samples = []
    for number in range(rounds + 2):
        names = list(rows)
        chance.shuffle(names)
        one = {}
        for name in names:
            one[name], one[f"{name} cpu"], status = spawner.run(rows[name])
            if status:
                raise RuntimeError(f"{name} ended with status {status}")
        if number >= 2:  # the first ones warm the caches up
            samples.append(one)
    return samples


# ---- what is compared -------------------------------------------------------------------------------------------

def bwrap_argv(program, command):
    """The view that sbx gives, in bwrap's words; no filter and no limits."""
    words = [program, "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin",
             "--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib64"):
        if os.path.islink(f"/{name}"):
            words += ["--symlink", os.readlink(f"/{name}"), f"/{name}"]
        elif os.path.isdir(f"/{name}"):
            words += ["--ro-bind", f"/{name}", f"/{name}"]
    return words, ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/box", "--tmpfs", "/home/sandbox", "--hostname", "sandbox",
                   "--chdir", "/box", "--"] + command


def sbx_view(binary, env, identity):
    """[(kind, source or text or size, place)] of the default view, from `sbx exec -v`, without /dev, /proc and private places."""
    done = subprocess.run([binary, "exec", "-v", "--", "true"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          env=env, cwd="/", **identity.popen_arguments())
    view = []
    for line in done.stderr.decode(errors="replace").splitlines():
        found = re.match(r"sbx: plan: fs (bind-ro|link|file) (\S+)(?: to (\S+))?", line)
        if not found:
            continue
        kind, place, text = found.groups()
        if kind == "link":
            view.append(("l", text, place))
        elif kind == "bind-ro":
            view.append(("b", place, place))
        else:
            try:
                view.append(("f", str(os.stat(place).st_size), place))
            except OSError:
                view.append(("f", "100", place))
    return view


def floor_view(view):
    """The lines that floor.c reads: every directory before what lies in it."""
    made, lines = {""}, []

    def folder(place):
        if place in made:
            return
        folder(place.rpartition("/")[0])
        made.add(place)
        lines.append(f"d {place}")

    for kind, source, place in view:
        place = place.lstrip("/")
        folder(place.rpartition("/")[0])
        if kind == "b":
            try:
                if stat.S_ISDIR(os.stat(source).st_mode):
                    folder(place)
                else:
                    lines.append(f"e {place}")
            except OSError:
                continue
        lines.append(f"{kind} {source} {place}")
    for place in ("proc", "dev/pts", "dev/shm", "tmp", "box", "home/sandbox", "run/sbx", ".private"):
        folder(place)
    for name, text in (("ptmx", "pts/ptmx"), ("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0"), ("stdout", "/proc/self/fd/1"), ("stderr", "/proc/self/fd/2")):
        lines.append(f"l {text} dev/{name}")
    return "\n".join(lines) + "\n"


class Bench:
    def __init__(self, identity, options, base):
        self.identity, self.options, self.base = identity, options, base
        self.work = tempfile.mkdtemp(prefix="b-", dir=base)
        if os.geteuid() == 0:
            os.chown(self.work, identity.uid, identity.gid)
        self.env = {"PATH": harness.SYSTEM_PATH, "HOME": self.work, "LANG": "C.UTF-8"}
        self.sbx = os.path.join(base, "sbx")
        self.true = shutil.which("true", path=harness.SYSTEM_PATH)
        self.goals, self.rows = [], {}
        self.floor = self.prepare_floor()

    def path(self, name):
        return os.path.join(self.base, name)

    def prepare_floor(self):
        filter_file, view_file = os.path.join(self.work, "filter.bpf"), os.path.join(self.work, "view")
        subprocess.run([self.sbx, "policy", "show", "default", "--bpf", filter_file], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=self.env,
                       cwd=self.work, check=True, **self.identity.popen_arguments())
        pathlib.Path(view_file).write_text(floor_view(sbx_view(self.sbx, self.env, self.identity)))
        return [self.path("floor"), filter_file, view_file]

    def measure(self, rows, rounds=None):
        rounds = rounds or self.options.rounds
        return as_identity(self.identity, lambda: interleaved(rows, self.env, rounds, self.options.seed))

    def usable(self, rows):
        """Rows whose command works here, each tried once."""
        good = {}
        for name, argv in rows.items():
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=self.env, cwd="/",
                                  timeout=60, **self.identity.popen_arguments())
            if done.returncode == 0:
                good[name] = argv
            else:
                print(f"note: {name} left out: status {done.returncode}: {done.stderr.decode(errors='replace').strip()[:160]}")
        return good

    # One line of the table of goals. `ratio` and `least` are of this run; goal: what it may be.
    def goal(self, what, ratio, low, high, goal, at_most=True, least=None, note=""):
        good, bad = (high <= goal, low > goal) if at_most else (low >= goal, high < goal)
        verdict = "met" if good else "missed" if bad else "unclear"
        self.goals.append({"what": what, "as": self.identity.label, "ratio": round(ratio, 3), "low": round(low, 3), "high": round(high, 3),
                           "goal": goal, "at_most": at_most, "least": None if least is None else round(least, 3), "verdict": verdict, "note": note})

    def absent(self, what, reason):
        self.goals.append({"what": what, "as": self.identity.label, "ratio": None, "goal": None, "verdict": "not measured", "note": reason})

    def ratio_goal(self, what, rounds, statistic, goal, at_most=True, note=""):
        low, high = interval(lambda drawn: statistic(medians(drawn)), rounds, self.options.seed)
        best = min if at_most else max
        least = statistic({name: best(one[name] for one in rounds) for name in rounds[0]})
        self.goal(what, statistic(medians(rounds)), low, high, goal, at_most, least, note)

    # ---- starts ---------------------------------------------------------------------------------------------

    def start(self):
        hello = ["/usr/bin/python3", "-c", 'print("hello")']
        rows = {"bare true": [self.true], "floor": self.floor + [self.true], "sbx": [self.sbx, "exec", "--", "true"],
                "sbx, no cgroup": [self.sbx, "exec", "--cgroup-parent", "none", "--", "true"]}
        if os.path.exists(hello[0]):
            rows.update({"bare python": hello, "floor python": self.floor + hello, "sbx python": [self.sbx, "run", "--lang", "python", "-c", 'print("hello")']})
        find = {name: shutil.which(name, path=harness.SYSTEM_PATH + ":/usr/sbin") for name in ("bwrap", "nsjail", "firejail", "unshare")}
        if find["bwrap"]:
            words, rest = bwrap_argv(find["bwrap"], ["true"])
            rows["bwrap"] = words + rest
            rows["sbx bwrap"] = [self.sbx, "bwrap"] + words[1:] + rest
        if find["nsjail"]:
            rows["nsjail"] = [find["nsjail"], "-Mo", "-Q", "-R", "/usr", "-R", "/lib", "-R", "/lib64", "-T", "/tmp", "--", self.true]
        if find["firejail"]:
            rows["firejail"] = [find["firejail"], "--quiet", "--noprofile", "--net=none", "true"]
        if find["unshare"]:
            rows["unshare"] = [find["unshare"], "--user", "--map-root-user", "--mount", "--pid", "--fork", "--net", "--ipc", "--uts", self.true]
        rows = self.usable(rows)
        if "firejail" in rows and self.options.quick:
            del rows["firejail"]
        rounds = self.measure(rows)
        if rounds is None:
            return
        for name in rows:
            values = [one[name] for one in rounds]
            self.rows[name] = {"median_ms": statistics.median(values), "p95_ms": percentile(values, 0.95), "least_ms": min(values), "cpu_ms": statistics.median(one[f"{name} cpu"] for one in rounds),
                               "median_interval_ms": interval(lambda drawn, n=name: statistics.median(one[n] for one in drawn), rounds, 1, 300),
                               "samples_ms": [round(value, 3) for value in values]}
        if "sbx" in rows and "floor" in rows:
            self.ratio_goal("start: sbx / floor", rounds, lambda m: m["sbx"] / m["floor"], 1.25)
            self.ratio_goal("start, no cgroup: sbx / floor", rounds, lambda m: m["sbx, no cgroup"] / m["floor"], 1.25, note="the floor has no cgroup either")
            self.ratio_goal("start, CPU time: sbx / floor", rounds, lambda m: m["sbx cpu"] / m["floor cpu"], 1.25, note="what bounds the rate of many at once")
        if "sbx" in rows and "bwrap" in rows:
            self.ratio_goal("start: sbx / bwrap", rounds, lambda m: m["sbx"] / m["bwrap"], 0.5, note="bwrap has no filter and no limits")
            if "sbx bwrap" in rows:
                self.ratio_goal("start: sbx bwrap / bwrap", rounds, lambda m: m["sbx bwrap"] / m["bwrap"], 0.5, note="the same words, the same sandbox")
            self.ratio_goal("start: floor / bwrap", rounds, lambda m: m["floor"] / m["bwrap"], 0.4, note="what the kernel leaves of the goal above")
        if "sbx python" in rows and "floor" in rows:
            self.ratio_goal("Python hello: what sbx adds / what the floor adds to true", rounds,
                            lambda m: (m["sbx python"] - m["bare python"]) / (m["floor"] - m["bare true"]), 1.3)
            self.ratio_goal("Python hello: what the floor adds / what it adds to true", rounds,
                            lambda m: (m["floor python"] - m["bare python"]) / (m["floor"] - m["bare true"]), 1.04, note="what the kernel leaves of the goal above: a start may take 1.25 of the floor")
        self.shim()

    def shim(self):
        what = "pyenv's shim on PATH: sbx / bare shim"
        shims = os.path.expanduser("~/.pyenv/shims")
        if self.identity.uid != os.geteuid() or not os.path.exists(os.path.join(shims, "python3")):
            return self.absent(what, "needs pyenv in the home of who is measured")
        env = dict(self.env, PATH=f"{shims}:{os.path.dirname(shims)}/bin:{harness.SYSTEM_PATH}", HOME=os.path.expanduser("~"))
        rows = {"shim": [os.path.join(shims, "python3"), "-c", 'print("hello")'], "sbx": [self.sbx, "run", "--lang", "python", "-c", 'print("hello")']}
        rounds = as_identity(self.identity, lambda: interleaved(rows, env, max(8, self.options.rounds // 8), self.options.seed))
        if rounds is None:
            return self.absent(what, "the shim does not run here")
        self.ratio_goal(what, rounds, lambda m: m["sbx"] / m["shim"], 1.0)

    # ---- what runs inside -----------------------------------------------------------------------------------

    def calls(self):
        calls = self.path("calls")
        shared = os.path.join(self.work, "shared")
        os.mkdir(shared)
        if os.geteuid() == 0:
            os.chown(shared, self.identity.uid, self.identity.gid)
        pathlib.Path(self.work, "source").write_bytes(os.urandom(8 << 20))
        inside = [self.sbx, "exec", "--disk", "64M", "--mount", f"{calls}:/opt/calls", "--mount", f"{self.work}/source:/opt/source",
                  "--mount", f"{shared}:/opt/shared:rw", "--", "/opt/calls"]
        kinds = {"allowed": ([200000], [200000], 1.03, "a system call"), "stat": ([100000, "/usr/bin/env"], [100000, "/usr/bin/env"], 1.03, "stat of a file"),
                 "copy": ([8, f"{self.work}/source", f"{shared}/copy"], [8, "/opt/source", "/opt/shared/copy"], 1.03, "copy of 8 MiB"),
                 "tested": ([200000], [200000], None, "an ioctl, whose number the filter compares"), "errno": ([200000], [200000], None, "io_uring_setup, refused by the filter"),
                 "reported": ([200], [200], None, "acct, refused and reported")}
        rounds = {kind: [] for kind in kinds}

        def one(argv):
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/", env=self.env,
                                  **self.identity.popen_arguments())
            return float(done.stdout) if done.returncode == 0 else None

        chance = random.Random(self.options.seed)
        for _ in range(3 if self.options.quick else 16):
            for kind, (out_words, in_words, _goal, _what) in kinds.items():
                words = {"outside": [calls, kind, *map(str, out_words)], "inside": [*inside, kind, *map(str, in_words)]}
                if kind in ("allowed", "stat"):
                    words["any_filter"] = [calls, "-f", kind, *map(str, out_words)]
                order = list(words)
                chance.shuffle(order)
                times = {side: one(words[side]) for side in order}
                if None not in times.values():
                    rounds[kind].append(times)
        for kind, (_out, _in, goal, what) in kinds.items():
            if len(rounds[kind]) < 3:
                self.absent(f"{what}: inside / outside", "the program does not run here")
                continue
            self.rows[f"call {kind}"] = {f"{side}_ns": min(one[side] for one in rounds[kind]) for side in rounds[kind][0]}
            if goal is not None:
                self.ratio_goal(f"{what}: inside / outside", rounds[kind], lambda m: m["inside"] / m["outside"], goal)
            if "any_filter" in rounds[kind][0]:
                self.ratio_goal(f"{what}: inside / under a filter of one instruction", rounds[kind], lambda m: m["inside"] / m["any_filter"], goal,
                                note="what is ours of the row above")

    # ---- streams --------------------------------------------------------------------------------------------

    def streams(self):
        calls, size = self.path("calls"), (256 << 20) if self.options.quick else (1 << 30)
        blocks = size // 65536
        inside = [self.sbx, "exec", "--output", "8G", "--mount", f"{calls}:/opt/calls", "--", "/opt/calls"]

        def pour(argv):
            began = time.perf_counter()
            with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self.env, cwd="/",
                                  bufsize=0, **self.identity.popen_arguments()) as child:
                buffer, got = bytearray(1 << 20), 0
                while count := child.stdout.readinto(buffer):
                    got += count
            return got / (time.perf_counter() - began)

        def drain(argv):
            block, began = bytes(1 << 20), time.perf_counter()
            with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.env, cwd="/",
                                  bufsize=0, **self.identity.popen_arguments()) as child:
                for _ in range(size >> 20):
                    left = memoryview(block)
                    while left:
                        left = left[child.stdin.write(left):]
                child.stdin.close()
                child.wait()
            return size / (time.perf_counter() - began)

        for what, way, words in (("stdout", pour, ["pour", str(blocks)]), ("stdin", drain, ["drain", "0"])):
            rounds, chance = [], random.Random(self.options.seed)
            for _ in range(3 if self.options.quick else 12):
                sides = {"plain": [calls, *words], "sbx": [*inside, *words]}
                order = list(sides)
                chance.shuffle(order)
                rounds.append({side: way(sides[side]) / 1e6 for side in order})
            self.rows[f"bulk {what}"] = {"plain_mb_s": medians(rounds)["plain"], "sbx_mb_s": medians(rounds)["sbx"]}
            self.ratio_goal(f"bulk {what}: sbx / plain pipe", rounds, lambda m: m["sbx"] / m["plain"], 0.8, at_most=False)

    # ---- how many a second ----------------------------------------------------------------------------------

    def rate(self):
        seconds, bare = 0.5 if self.options.quick else 2.0, "sbx, no cgroup"
        rows = {"floor": self.floor + [self.true], "sbx": [self.sbx, "exec", "--", "true"]}
        if self.identity.uid == 0:
            rows[bare] = [self.sbx, "exec", "--cgroup-parent", "none", "--", "true"]

        def in_parallel(argv, width):
            spawner = Spawner(self.env)
            began = time.perf_counter()
            deadline = began + seconds
            ends = []
            for _ in range(width):
                read_end, write_end = os.pipe()
                if os.fork() == 0:
                    count = 0
                    while time.perf_counter() < deadline:
                        count += spawner.run(argv)[2] == 0
                    os.write(write_end, str(count).encode())
                    os._exit(0)
                os.close(write_end)
                ends.append(read_end)
            total = 0
            for end in ends:
                total += int(os.read(end, 32) or 0)
                os.close(end)
                os.wait()
            return total / (time.perf_counter() - began)

        for width in (1, 2, 8) if self.options.quick else (1, 2, 8, 64):
            def work(width=width):
                rounds = []
                for number in range(3 if self.options.quick else 5):
                    order = list(rows)
                    random.Random(number).shuffle(order)
                    rounds.append({name: in_parallel(rows[name], width) for name in order})
                return rounds

            rounds = as_identity(self.identity, work)
            if rounds is None:
                continue
            self.rows[f"{width} at once"] = {f"{name}_per_second": round(value, 1) for name, value in medians(rounds).items()}
            self.ratio_goal(f"sandboxes a second, {width} at once: sbx / floor", rounds, lambda m: m["sbx"] / m["floor"], 0.8, at_most=False)
            if bare in rows:
                self.ratio_goal(f"sandboxes a second, {width} at once, no cgroup: sbx / floor", rounds, lambda m: m[bare] / m["floor"], 0.8, at_most=False, note="the floor has no cgroup either")

    # ---- memory ---------------------------------------------------------------------------------------------

    def memory(self):
        """Private memory of supervisor and init while two sandboxes wait, so that the program's own pages are shared."""
        def private(pid):
            text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
            return sum(int(kib) for kib in re.findall(r"^Private_(?:Clean|Dirty): +(\d+) kB", text, re.M))

        waiting = [subprocess.Popen([self.sbx, "exec", "--", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.env, cwd="/", bufsize=0,
                                    **self.identity.popen_arguments()) for _ in range(2)]
        try:
            for child in waiting:
                child.stdin.write(b"x\n")
                child.stdout.read(2)  # the payload runs
            supervisor = waiting[0].pid
            init = int(pathlib.Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()[0])
            outer, inner = private(supervisor), private(init)
        except (OSError, IndexError) as problem:
            return self.absent("private memory of supervisor and init", f"cannot be read: {problem}")
        finally:
            for child in waiting:
                child.stdin.close()
                child.wait()
                child.stdout.close()
        self.rows["memory"] = {"supervisor_kib": outer, "init_kib": inner}
        self.goal("private memory of supervisor and init, KiB", outer + inner, outer + inner, outer + inner, 512)

    # ---- the host's mounts ----------------------------------------------------------------------------------

    def mounts(self):
        what = "what 400 more mounts add: sbx / floor"
        if os.geteuid() != 0:
            return self.absent(what, "needs root, for mounts in a namespace of their own")
        libc = ctypes.CDLL(None, use_errno=True)
        rows = {"floor": self.floor + [self.true], "sbx": [self.sbx, "exec", "--", "true"]}
        place = os.path.join(self.work, "mounts")
        os.mkdir(place)

        def crowded():
            """A child of root's in a mount namespace of its own, which becomes the identity only then."""
            samples = {}
            libc.unshare(0x00020000)
            libc.mount(b"none", b"/", None, 0x44000, None)
            made = 0
            for count in (0, 100, 400):
                while made < count:
                    target = f"{place}/{made}"
                    os.mkdir(target)
                    if libc.mount(b"/usr/share", target.encode(), None, 0x1000, None) != 0:
                        raise OSError(ctypes.get_errno(), "mount")
                    made += 1
                samples[str(count)] = as_identity(self.identity, lambda: interleaved(rows, self.env, max(15, self.options.rounds // 2), self.options.seed))
            return samples

        samples = as_identity(harness.current_identity("root"), crowded)
        if samples is None or None in samples.values():
            return self.absent(what, "mounts cannot be made here")
        for count, rounds in samples.items():
            self.rows[f"{count} more mounts"] = {f"{name}_median_ms": round(value, 3) for name, value in medians(rounds).items()}
        pairs = [{f"{name}{count}": one[name] for count in ("0", "400") for name, one in ((n, samples[count][i]) for n in rows)}
                 for i in range(len(samples["0"]))]
        # A mount costs the kernel microseconds: where the floor grew by less than can be told, so did the ratio.
        self.ratio_goal(what, pairs, lambda m: min(99.0, max(0.0, m["sbx400"] - m["sbx0"]) / max(0.02, m["floor400"] - m["floor0"])), 1.25)

    # ---- sessions -------------------------------------------------------------------------------------------

    def warm(self):
        """From `sbx session start` to its id, where one waits that has imported modules."""
        env = {**self.env, "XDG_RUNTIME_DIR": self.work}
        run = {"stdin": subprocess.DEVNULL, "env": env, "cwd": "/", "timeout": 60}
        found = subprocess.run(["python3", "-c", "import numpy, pandas"], stderr=subprocess.DEVNULL, **run).returncode == 0
        preload = ["--preload", "numpy,pandas" if found else "decimal,sqlite3,asyncio"]

        def look():
            return json.loads(subprocess.run([self.sbx, "session", "ls", "--json"], stdout=subprocess.PIPE, check=True, **run).stdout)

        def work():
            spawner, rounds = Spawner(env), []
            for _ in range(min(self.options.rounds, 60)):
                end = time.monotonic() + 30
                while not any(one["state"] == "warm" for one in look()):
                    if time.monotonic() > end:
                        raise RuntimeError("no warm session came")
                    time.sleep(0.02)
                rounds.append({"floor": spawner.run(self.floor + [self.true])[0], "warm": spawner.run([self.sbx, "session", "start", *preload])[0]})
                if used := [one["id"] for one in look() if one["state"] == "idle"]:
                    subprocess.run([self.sbx, "session", "stop", *used], **run)
            return rounds

        try:
            subprocess.run([self.sbx, "session", "warm", *preload], stdout=subprocess.DEVNULL, check=True, **{**run, **self.identity.popen_arguments()})
            rounds = as_identity(self.identity, work)
        finally:
            subprocess.run([self.sbx, "session", "stop", "--all"], stderr=subprocess.DEVNULL, **{**run, **self.identity.popen_arguments()})
        self.ratio_goal("warm session: sbx session start / floor", rounds, lambda m: m["warm"] / m["floor"], 5, note=f"{preload[1]}; {medians(rounds)['warm']:.1f} ms, floor {medians(rounds)['floor']:.1f} ms")


# ---- what is shown ----------------------------------------------------------------------------------------------

def machine():
    facts = {"kernel": os.uname().release, "machine": os.uname().machine, "cpus": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]}
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
        found = re.search(r"^model name\s*: (.*)$", text, re.M)
        facts["cpu"] = found.group(1) if found else "unknown"
        facts["virtual"] = " hypervisor" in text
    except OSError:
        facts["cpu"] = "unknown"
    return facts


def show_starts(rows):
    starts = {name: row for name, row in rows.items() if "median_ms" in row}
    if not starts:
        return
    print(f"\n{'':16} {'median ms':>10} {'95 % of it':>15} {'p95 ms':>8} {'least ms':>9} {'CPU ms':>8} {'/ floor':>8} {'/ bwrap':>8}")
    for name, row in sorted(starts.items(), key=lambda item: item[1]["median_ms"]):
        low, high = row["median_interval_ms"]
        ratios = [f"{row['median_ms'] / starts[other]['median_ms']:8.2f}" if other in starts else f"{'-':>8}" for other in ("floor", "bwrap")]
        print(f"{name:16} {row['median_ms']:10.2f} {f'{low:.2f}-{high:.2f}':>15} {row['p95_ms']:8.2f} {row['least_ms']:9.2f} {row['cpu_ms']:8.2f} {' '.join(ratios)}")


def show_other(rows):
    for name, row in rows.items():
        if "median_ms" not in row:
            print(f"{name:16} " + ", ".join(f"{key} {value:.1f}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()))


def show_goals(goals):
    print(f"\n{'goal':72} {'as':5} {'here':>7} {'95 %':>13} {'of best':>8} {'goal':>8}  verdict")
    for goal in goals:
        if goal["ratio"] is None:
            print(f"{goal['what']:72} {goal['as']:5} {'-':>7} {'':>13} {'':>8} {'':>8}  {goal['verdict']}: {goal['note']}")
            continue
        span = f"{goal['low']:.2f}-{goal['high']:.2f}"
        least = "" if goal["least"] is None else f"{goal['least']:.2f}"
        wanted = ("<= " if goal["at_most"] else ">= ") + f"{goal['goal']:g}"
        print(f"{goal['what']:72} {goal['as']:5} {goal['ratio']:7.2f} {span:>13} {least:>8} {wanted:>8}  {goal['verdict']}{': ' + goal['note'] if goal['note'] else ''}")


def goals_markdown(goals):
    """The table of docs/performance.md."""
    lines = ["| goal | as | here | 95 % | of best | goal | verdict |", "|---|---|---|---|---|---|---|"]
    for goal in goals:
        if goal["ratio"] is None:
            lines.append(f"| {goal['what']} | {goal['as']} | {goal['note']} | | | | {goal['verdict']} |")
            continue
        least = "" if goal["least"] is None else f"{goal['least']:.2f}"
        lines.append(f"| {goal['what']} | {goal['as']} | {goal['ratio']:.2f} | {goal['low']:.2f} to {goal['high']:.2f} | {least} | "
                     f"{'at most' if goal['at_most'] else 'at least'} {goal['goal']:g} | {goal['verdict']} |")
    return "\n".join(lines) + "\n"


def starts_markdown(identities):
    lines = ["| start of | as | median, ms | 95 % of it | least | CPU time | / floor |", "|---|---|---|---|---|---|---|"]
    for label, rows in identities.items():
        starts = {name: row for name, row in rows.items() if "median_ms" in row}
        for name, row in sorted(starts.items(), key=lambda item: item[1]["median_ms"]):
            low, high = row["median_interval_ms"]
            ratio = f"{row['median_ms'] / starts['floor']['median_ms']:.2f}" if "floor" in starts else ""
            lines.append(f"| {name} | {label} | {row['median_ms']:.2f} | {low:.2f} to {high:.2f} | {row['least_ms']:.2f} | {row['cpu_ms']:.2f} | {ratio} |")
    return "\n".join(lines) + "\n"


def machine_markdown(record):
    host = record["host"]
    return (f"Measured on Linux {host['kernel']} ({host['machine']}), {host['cpus']} CPUs ({host['cpu']}{', a virtual machine' if host.get('virtual') else ''}), "
            f"at a load of {host['load']:.1f} when it began; {record['rounds']} rounds.\n")


def write_markdown(path, record):
    """Between the marks of a page that has them, else a file of its own."""
    parts = {"goals": goals_markdown(record["goals"]), "starts": starts_markdown(record["identities"]), "machine": machine_markdown(record)}
    page = path.read_text() if path.exists() else ""
    if not all(f"<!-- bench: {name} -->" in page for name in parts):
        page = "".join(f"<!-- bench: {name} -->\n<!-- bench: end -->\n\n" for name in parts)
    for name, text in parts.items():
        page = re.sub(rf"(<!-- bench: {name} -->\n).*?(<!-- bench: end -->)", lambda found, text=text: found.group(1) + text + found.group(2), page, flags=re.S)
    path.write_text(page)


def write_record(options, record):
    if options.svg:
        pathlib.Path(options.svg).write_text(plot.starts_svg(record))
    if options.markdown:
        write_markdown(pathlib.Path(options.markdown), record)
    return 0


def main():
    parser = argparse.ArgumentParser(description="Measures sbx against its goals; only ratios mean anything.")
    parser.add_argument("--binary", default=str(harness.ROOT / "build" / "sbx"))
    parser.add_argument("--programs", default="", help="folder of floor and calls; default: tests/ beside the binary")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: under a minute")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--as", dest="identities", default="root,user")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", default="")
    parser.add_argument("--svg", default="")
    parser.add_argument("--markdown", default="", help="a page with the marks <!-- bench: goals -->, starts and machine: its tables anew")
    parser.add_argument("--from-json", default="", help="measures nothing: --svg and --markdown of what --json wrote")
    options = parser.parse_args()
    options.rounds = options.rounds or (25 if options.quick else 300)
    if options.from_json:
        return write_record(options, json.loads(pathlib.Path(options.from_json).read_text()))
    parts = options.only.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"--only takes {', '.join(PARTS)}, not {unknown[0]}")
    programs = pathlib.Path(options.programs) if options.programs else pathlib.Path(options.binary).resolve().parent / "tests"
    base = tempfile.mkdtemp(prefix="sbx-bench-")
    os.chmod(base, 0o755)
    record = {"schema": "sbx-bench", "version": 2, "host": machine(), "rounds": options.rounds, "identities": {}, "goals": []}
    print("machine: " + ", ".join(f"{key} {value}" for key, value in record["host"].items()))
    try:
        for source, name in ((pathlib.Path(options.binary), "sbx"), (programs / "floor", "floor"), (programs / "calls", "calls")):
            shutil.copy2(source, os.path.join(base, name))
            os.chmod(os.path.join(base, name), 0o755)
        for identity in harness.make_identities(options.identities.split(",")):
            bench = Bench(identity, options, base)
            for part in parts:
                getattr(bench, part)()
            print(f"\nas {identity.label}")
            show_starts(bench.rows)
            show_other(bench.rows)
            record["identities"][identity.label] = bench.rows
            record["goals"] += bench.goals
    finally:
        shutil.rmtree(base, ignore_errors=True)
    show_goals(record["goals"])
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(record, indent=1) + "\n")
    return write_record(options, record)


if __name__ == "__main__":
    sys.exit(main())
