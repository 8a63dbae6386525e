#!/usr/bin/env python3
"""Every system call of a start fails once, with each plausible errno: the run fails closed and says at what, or its sandbox is whole.

    tests/faults/run.py --binary build/sbx [--quick|--every] [--as root,user] [-k COMMAND,…] [--only CALL] [-j 4] [--json FILE]

A run without a fault, under tests/faults/inject.c, lists the calls of supervisor, init and payload (until its exec). Then each
call is made to fail in runs of their own, in which that one call answers an errno of errnos.txt. Calls of one place (the same process, call
and path but for numbers) take its errnos in turn, after the first of them, over all commands, had each: hundreds are alike. --every: each call has each.
The payload, tests/probe/whole.c, says of each protection whether it is there; the tracer says what it looks like from outside. Wanted is
  failed   the status of a failed set-up, an error in words with the errno's, the payload never ran, nothing is left;
  whole    the payload ran, and its report is the one of a run without a fault;
anything else is a defect, unless allowed.txt lists the call with its reason. --quick: one command, each call once.
"""

import argparse
import collections
import concurrent.futures
import difflib
import errno
import json
import os
import pathlib
import platform
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "integration")]
import counting  # noqa: E402
import harness  # noqa: E402

SECONDS = 20 * harness.TIME_FACTOR  # after which a run hangs, if it does so again alone, in
ALONE = 3  # times as long
GRACE = 30 * harness.TIME_FACTOR  # for the tracer to end what hangs
FAILED = {125, 126, 127}
SLOTS_AT_ONCE = 16

# The commands of calls that take many: which of them can fail for want of something. The label ends with them.
COMMANDS_OF = {
    "fcntl": {"EMFILE": {0, 1030}, "ENOLCK": {37}, "EAGAIN": set()},  # F_DUPFD, F_DUPFD_CLOEXEC; F_OFD_SETLK
    "ioctl": {"EIO": None, "ENOMEM": None, "ENOTTY": {21505}},  # TCGETS
    "epoll_ctl": {"ENOMEM": {1}, "ENOSPC": {1}},  # EPOLL_CTL_ADD
    "prlimit64": {"EPERM": None},
}


def lines_of(path):
    for line in path.read_text().splitlines():
        line = line.strip()
        if line and not line.startswith("#"):
            yield line


def read_errnos():
    table = {}
    for line in lines_of(HERE / "errnos.txt"):
        call, *errnos = line.split()
        table[call] = [] if errnos[0] == "-" else errnos
    return table


class Allowed:
    """A line of allowed.txt: COMMANDS ROLES CALL ERRNOS WHAT /LABEL/ reason."""

    def __init__(self, line):
        match = re.fullmatch(r"(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+/(.*?)/\s+(.*)", line)
        if not match:
            sys.exit(f"faults: allowed.txt: not understood: {line}")
        self.commands, self.roles, self.call, self.errnos, self.what, label, self.reason = match.groups()
        self.label = re.compile(label)
        self.used = 0

    def fits(self, what, command, hit, error):
        def among(word, words):
            return words == "*" or word in words.split(",")
        return (among(what, self.what) and among(command, self.commands) and among(hit.role, self.roles) and among(hit.call, self.call)
                and among(error, self.errnos) and self.label.search(f"#{hit.n} {hit.label}"))


class Call:
    def __init__(self, role, call, n, result, label):
        self.role, self.call, self.n, self.result, self.label = role, call, int(n), result, label

    def __str__(self):
        return f"{self.role} {self.call} #{self.n} {self.label}".rstrip()


class Log:
    """What the tracer wrote."""

    def __init__(self, path):
        self.calls, self.hits, self.made, self.facts, self.killed, self.left, self.stuck = [], [], [], [], [], [], []
        self.execs, self.hang, self.after, self.status = 0, False, False, None
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                kind, _, rest = line.rstrip("\n").partition(" ")
                if kind == "c":
                    role, call, n, result, label = (rest.split(" ", 4) + [""])[:5]
                    self.calls.append(Call(role, call, n, int(result), label))
                elif kind == "h":
                    role, call, n, label = (rest.split(" ", 3) + [""])[:4]
                    self.hits.append(Call(role, call, n, None, label))
                    self.after = self.execs > 0
                elif kind == "m":
                    self.made.append(rest)
                elif kind == "x":
                    self.execs += 1
                    self.facts.append([])
                elif kind == "g":
                    self.facts[-1].append(rest)  # of the program that began last
                elif kind == "k":
                    self.killed.append(rest)
                elif kind == "l":
                    self.left.append(rest)
                elif kind == "s":
                    self.stuck.append(rest)
                elif kind == "t":
                    self.hang = True
                elif kind == "e":
                    self.status = int(rest)


class Command:
    """One command line. `words` gets the slot; `report`: the payload's report is compared; `wanted`: its status without a fault."""

    def __init__(self, name, words, wanted=0, failed=FAILED, report=True, result=False, voice="sbx: ", only=None, setup=None, seconds=SECONDS, script=None, roles=""):
        self.name, self.words, self.wanted, self.failed, self.report, self.result = name, words, wanted, failed, report, result
        self.voice, self.only, self.setup, self.seconds = voice, only, setup, seconds
        self.script, self.roles = script, roles  # a shell's text with "$0" for sbx; where faults belong


def overlay(slot):
    (slot.dir / "work").mkdir()
    (slot.dir / "work" / "kept").write_text("kept\n")
    for path in (slot.dir / "work", slot.dir / "work" / "kept"):
        slot.own(path)


WHOLE = "/opt/whole"
# What holds limits while a payload runs; a fault there must not let it run on for ever.
HOLDING = {"timerfd_create", "timerfd_settime", "epoll_create1", "epoll_ctl", "epoll_wait", "signalfd4", "read", "poll", "pipe2", "socketpair", "recvmsg",
           "splice", "pread64", "getdents64", "pidfd_send_signal"}
SESSION = (f'"$0" session start --name s --lang bash --mount "$1":{WHOLE} > /dev/null || exit $?; "$0" session exec s -- {WHOLE}; status=$?; '
           '"$0" session rm s > /dev/null 2>&1; exit $status')
COMMANDS = [
    Command("exec", lambda s: ["exec", "--mount", f"{s.whole}:{WHOLE}", "--", WHOLE]),
    Command("full", lambda s: ["exec", "--workspace", f"{s.dir}/work:overlay", "--artifacts", f"{s.dir}/made", "--result", f"{s.dir}/result.json", "--net", "none",
                               "--cpus", "1", "--memory", "300M", "--disk", "64M", "--pids", "50", "--env", "COLOUR=red", "--mount", f"{s.whole}:{WHOLE}", "--", WHOLE],
            result=True, setup=overlay),
    Command("python", lambda s: ["run", "--lang", "python", "--artifacts", f"{s.dir}/made", "--result", f"{s.dir}/result.json", "--mount", f"{s.whole}:{WHOLE}",
                                 "-c", f"import os; open('made.txt', 'w').write('x'); os.execv('{WHOLE}', ['whole'])"], result=True),
    Command("strict", lambda s: ["exec", "--policy", "strict", "--net", "host", "--mount", f"{s.whole}:{WHOLE}", "--", WHOLE]),
    Command("bwrap", lambda s: ["bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--ro-bind", str(s.whole), WHOLE, "--proc", "/proc",
                                "--dev", "/dev", "--tmpfs", "/tmp", "--dir", "/box", "--chdir", "/box", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
                                "--", WHOLE], failed={1}, voice="bwrap: "),
    Command("nsjail", lambda s: ["nsjail", "-Mo", "-q", "--user", "1000", "--group", "1000", "--hostname", "jail", "-R", "/usr", "-R", f"{s.whole}:{WHOLE}", "-T", "/tmp",
                                 "--time_limit", "60", "--rlimit_as", "512", "--", WHOLE], failed={255}, voice="["),
    Command("session", lambda s: [str(s.whole)], script=SESSION, roles="0.1."),
    Command("time", lambda s: ["exec", "--time", "500ms", "--mount", f"{s.whole}:{WHOLE}", "--", WHOLE, "sleep"], wanted=124, report=False, only=HOLDING),
    Command("memory", lambda s: ["exec", "--memory", "64M", "--disk", "16M", "--time", "8s", "--mount", f"{s.whole}:{WHOLE}", "--", WHOLE, "touch", "400"], wanted=137,
            report=False, only=HOLDING | {"openat", "openat2", "write", "mkdirat", "newfstatat"}),
    Command("output", lambda s: ["exec", "--output", "64K", "--time", "8s", "--mount", f"{s.whole}:{WHOLE}", "--", WHOLE, "flood"], wanted=137, report=False,
            only=HOLDING | {"write"}),
]


class Slot:
    """A directory for one run at a time."""

    def __init__(self, base, number, identity, tools):
        self.identity, self.tools = identity, tools
        self.dir = pathlib.Path(base) / f"slot{number:02d}"
        self.whole = tools["whole"]
        self.dir.mkdir()
        self.own(self.dir)
        for name in ("home", "cache", "config", "tmp", "run"):
            (self.dir / name).mkdir(mode=0o700)
            self.own(self.dir / name)
        self.log = pathlib.Path(base) / f"log{number:02d}"
        self.log.touch()
        self.own(self.log)

    def own(self, path):
        if os.geteuid() == 0:
            os.lchown(path, self.identity.uid, self.identity.gid)

    def environment(self):
        return {"PATH": harness.SYSTEM_PATH, "HOME": str(self.dir / "home"), "XDG_CACHE_HOME": str(self.dir / "cache"), "XDG_CONFIG_HOME": str(self.dir / "config"),
                "TMPDIR": str(self.dir / "tmp"), "XDG_RUNTIME_DIR": str(self.dir / "run"), "LANG": "C.UTF-8", "USER": self.identity.name}

    def clean(self):
        for name in ("made", "work", "result.json"):
            path = self.dir / name
            if path.is_dir():
                shutil.rmtree(path)
            elif path.exists():
                path.unlink()
        for path in (self.dir / "run").iterdir():  # of a session that was killed
            shutil.rmtree(path)


class Run:
    """A command with or without a fault."""

    def __init__(self, slot, command, injected=(), record=False, patience=1):
        slot.clean()
        if command.setup:
            command.setup(slot)
        argv = [slot.tools["inject"], "--log", str(slot.log), "--seconds", str(command.seconds * patience)]
        if record:
            argv.append("--record")
        for call, error in injected:
            argv += ["--fail", f"{call.role}:{call.call}:{call.n}:{getattr(errno, error)}"]
        sbx = [slot.tools["sbx"]]
        if command.script:
            argv += ["--follow", slot.tools["sbx"]]
            sbx = ["/bin/sh", "-c", command.script, slot.tools["sbx"]]
        tracer = subprocess.Popen([*argv, "--", *sbx, *command.words(slot)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env=slot.environment(), cwd=slot.dir, **slot.identity.popen_arguments())
        try:
            out, err = tracer.communicate(timeout=command.seconds * patience + GRACE)
            late = False
        except subprocess.TimeoutExpired:  # the tracer itself, or one whom it does not know holds its output; all that it traces dies with it
            tracer.kill()
            tracer.wait()
            out, err, late = b"", b"", True
            tracer.stdout.close()
            tracer.stderr.close()
        self.log = Log(slot.log)
        self.log.hang |= late
        self.status = self.log.status
        out = out.decode("utf-8", "replace")
        self.ran = "payload runs" in out
        self.err = err.decode("utf-8", "replace")
        self.report = normal(out, slot) if command.report else []
        self.facts = [sorted(normal("\n".join(program), slot)) for program in self.log.facts] if command.report else []
        self.result = None
        if command.result:
            try:
                self.result = json.loads((slot.dir / "result.json").read_text())
            except (OSError, ValueError) as error:
                self.result = str(error)
        self.left = [path for path in self.log.made if os.path.lexists(path) and not kept(path, slot)]
        self.left += [str(path) for path in (slot.dir / "tmp").iterdir()]
        if command.script:
            self.left += [str(path) for path in (slot.dir / "run").rglob("*") if path.name != "lock" and not path.is_dir()]


HOST = {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")}
HOST_LINKS = {link: kind for kind, link in HOST.items()}


def normal(text, slot):
    """Lines without what differs from run to run."""
    def namespace(match):
        return f"{match[1]}:" + ("HOST" if match[0] in HOST_LINKS else "new")
    text = text.replace(str(slot.dir), "SLOT")
    text = re.sub(r"\b(user|mnt|pid|net|ipc|uts|cgroup):\[\d+\]", namespace, text)
    text = re.sub(r"(pipe|socket):\[\d+\]", r"\1", text)
    text = re.sub(r"sbx-\d+-\d+-\d+-\d+", "LEAF", text)
    text = re.sub(r"\b19\d{8}\b", "LEASE", text)
    text = re.sub(r"(/prepared/)[0-9a-f]{64}", r"\1KEY", text)  # of what was found out about an interpreter
    text = re.sub(r"NSPID\S*|NSJAIL\.\d+", "JAIL", text)
    text = re.sub(r"^(network +\S+:).*$", r"\1", text, flags=re.M)
    return text.splitlines()


def kept(path, slot):
    """What stays by design: what was asked for, caches, and the files whose locks are the leases."""
    if path.startswith(("/run/sbx", "/run/user", "/dev/")):
        return True
    return any(path.startswith(str(slot.dir / name)) for name in ("cache", "made", "work", "result.json", "home", "config", "run"))


def differences(baselines, run):
    """The lines that a run has more or less than each run without a fault; [] when it is like one of them. Of what ran, the last
    counts: before it, a sandbox may have been made to find a toolchain whose remembered place could not be read."""
    best = None
    for other in baselines:
        facts = [sum(each.facts[-len(other.facts):], []) for each in (other, run)]
        found = [line for line in difflib.unified_diff(other.report + facts[0], run.report + facts[1], lineterm="", n=0)
                 if line[:3] not in ("---", "+++") and not line.startswith("@@")]
        if best is None or len(found) < len(best):
            best = found
        if not found:
            break
    return best


def is_fewer_files(line):
    """Nothing but a read-only place of the host that is not shown, and the view's own size with it."""
    if re.match(r"[-+]mount / ro,nosuid,nodev,relatime tmpfs root=/ ", line):
        return True
    if re.match(r"[-+]open for writing \S+ (EROFS|ENOENT)$", line):
        return True
    return bool(re.match(r"-mount /(?!proc|sys|dev)\S+ ro,nosuid,nodev\S* |-list /(etc|/\S+|opt)\b", line))


def judge(command, run, baselines, error, hit):
    """The kind of outcome, and what is wrong with it: a list of (what, text)."""
    wrong = []
    words = os.strerror(getattr(errno, error))
    log = run.log
    if log.hang:
        return "hung", [("hang", "did not end: " + "; ".join(log.stuck))]
    wrong += [("crash", f"killed by signal {k.split()[1]}") for k in log.killed if k.split()[0] == "0"]
    wrong += [("left", f"a process lived on: {text}") for text in log.left]
    wrong += [("left", f"was left: {path}") for path in run.left]
    complete = not command.report or (run.report and run.report[-1] == "report ends")
    if run.status == command.wanted and (run.ran or not command.report) and complete:
        more = differences(baselines, run)
        what = "fewer" if all(is_fewer_files(line) for line in more) else "weaker"
        wrong += [(what, line) for line in more[:8]]
        if command.result and what == "weaker" and not isinstance(run.result, str):
            said = [isolation(r) for r in baselines]
            if isolation(run) in said and not all(re.search("oom_score_adj|/proc/key-users|^[-+]cgroup: ", line) for line in more):
                wrong.append(("silent", "and the result says nothing of it"))
        if command.result and isinstance(run.result, str):
            wrong.append(("result", run.result))
        return "whole", wrong
    said = [line for line in run.err.splitlines() if line.startswith(command.voice)]
    if not log.after:
        if run.ran:
            wrong.append(("ran", f"status {run.status}, and yet the payload ran"))
        if run.status not in command.failed:
            wrong.append(("status", f"status {run.status}"))
    elif run.status in (0, command.wanted) and command.wanted == 0 and not complete:
        wrong.append(("status", f"status {run.status}, and the payload's report came in part only"))
    if not said:
        wrong.append(("words", f"no error in words (status {run.status}): {run.err[-200:]!r}"))
    elif words not in run.err:
        wrong.append(("words", f"'{words}' is not in: {said[0][:300]}"))
    if command.result:
        if isinstance(run.result, str):
            wrong.append(("result", run.result))
        elif not log.after and run.result.get("verdict") != "setup_failed":
            wrong.append(("result", f"verdict {run.result.get('verdict')}"))
    return "failed" if not log.after else "ended", wrong


def isolation(run):
    return re.sub(r"\d+", "N", json.dumps(run.result.get("isolation"), sort_keys=True))


def plan_of(calls, command, table, options, places):
    """Which calls of a recorded run fail with what. `places`: how often a place was planned before."""
    plan, unknown = [], set()
    for call in calls:
        if command.only and call.call not in command.only:
            continue
        if not (call.role + ".").startswith(command.roles):
            continue
        if call.call not in table:
            unknown.add(call.call)
            continue
        errors = []
        for error in table[call.call]:
            commands = COMMANDS_OF.get(call.call)
            if commands and commands[error] is not None:
                word = call.label.split()[-1:] or [""]
                if not word[0].isdigit() or int(word[0]) not in commands[error]:
                    continue
            if call.result == -getattr(errno, error):
                continue  # so it is anyway
            errors.append(error)
        place = (call.role, call.call, re.sub(r"\d+", "N", call.label))
        turn = places[place]
        places[place] += 1
        if errors and options.quick:
            errors = errors[:1]
        elif errors and turn and not options.every:
            errors = [errors[turn % len(errors)]]
        plan += [(call, error) for error in errors]
    return plan, unknown


class Driver:
    def __init__(self, options, tools):
        self.options, self.tools = options, tools
        self.table = read_errnos()
        self.allowed = [Allowed(line) for line in lines_of(HERE / "allowed.txt")]
        self.counts = collections.Counter()
        self.by_command = collections.OrderedDict()
        self.defects = collections.OrderedDict()
        self.lock = threading.Lock()
        self.errnos, self.calls = set(), set()

    def one(self, slots, command, identity, call, error, baselines, alone=False):
        """False: it did not end, which may be the machine's load: it is to be tried again, alone."""
        slot = slots.get()
        try:
            run = Run(slot, command, [(call, error)], patience=ALONE if alone else 1)
            if not run.log.hits and not run.log.hang:  # the calls before it differed, as beside another run's lock
                run = Run(slot, command, [(call, error)])
        finally:
            slots.put(slot)
        if run.log.hang and not alone:
            return False
        label = f"{command.name} [{identity.label}]"
        if not run.log.hits and not run.log.hang:
            with self.lock:
                self.counts["not reached"] += 1
                self.by_command[label]["not reached"] += 1
            return True
        hit = run.log.hits[0] if run.log.hits else call
        kind, wrong = judge(command, run, baselines, error, hit)
        bad = []
        listed = False
        for what, text in wrong:
            excuse = next((a for a in self.allowed if a.fits(what, command.name, hit, error)), None)
            if excuse:
                excuse.used += 1
                listed = True
            else:
                bad.append((what, text))
        with self.lock:
            if bad:
                kind = "DEFECT"
            elif listed:
                kind += ", listed"
            self.counts[kind] += 1
            self.by_command[label][kind] += 1
            self.errnos.add(error)
            self.calls.add((label, call.role, call.call, call.n))
            if self.options.verbose:
                print(f"{label} {hit} {error}: {kind} {run.status} {run.err.strip()[:200]!r}", flush=True)
            if bad:
                key = (command.name, identity.label, hit.call, re.sub(r"\d+", "N", hit.label), bad[0][0])
                found = self.defects.setdefault(key, [])
                found.append((f"{hit} {error}", bad, run.err.strip()[:400]))
                if len(found) == 1:
                    print(f"FAIL {label} {hit} {error}: " + "; ".join(f"{w}: {t}" for w, t in bad[:4]), flush=True)
        return True

    def command(self, base, identity, command, places):
        slots = queue.Queue()
        made = [Slot(base, i, identity, self.tools) for i in range(self.options.jobs)]
        for slot in made:
            run = Run(slot, command)  # caches are made
            if run.status != command.wanted:
                raise harness.Failure(f"{command.name} [{identity.label}] without a fault: status {run.status}: {run.err}")
            slots.put(slot)
        baselines = [Run(made[0], command) for _ in range(3)]
        recorded = Run(made[0], command, record=True)
        if recorded.status != command.wanted:
            raise harness.Failure(f"{command.name} [{identity.label}], recorded: status {recorded.status}: {recorded.err}")
        strange = differences(baselines, recorded)
        if strange:
            raise harness.Failure(f"{command.name} [{identity.label}]: two runs without a fault differ: {strange[:5]}")
        # The start of the program: from main() on it is sbx, before it libc.
        calls = recorded.log.calls
        begin = next((i for i, c in enumerate(calls) if c.call == "prctl"), 0)
        plan, unknown = plan_of(calls[begin:], command, self.table, self.options, places)
        for name in sorted(unknown):
            print(f"FAIL errnos.txt does not know '{name}'")
            self.counts["DEFECT"] += 1
        if self.options.only:
            plan = [(c, e) for c, e in plan if re.search(self.options.only, f"{c} {e}")]
        label = f"{command.name} [{identity.label}]"
        self.by_command[label] = collections.Counter()
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            futures = [(pool.submit(self.one, slots, command, identity, call, error, baselines), call, error) for call, error in plan]
            again = [(call, error) for future, call, error in futures if not future.result()]
        for call, error in again:
            self.one(slots, command, identity, call, error, baselines, alone=True)
        if again:
            print(f"note: {label}: {len(again)} runs did not end in {command.seconds:.0f} s, and were tried again alone", flush=True)
        print(f"{label}: {len(plan)} runs, {len(set(map(str, (c for c, _ in plan))))} calls in {time.monotonic() - began:.0f} s: "
              + ", ".join(f"{v} {k}" for k, v in sorted(self.by_command[label].items())), flush=True)
        for slot in made:
            shutil.rmtree(slot.dir)


def copy_tools(binary, base):
    """sbx, the tracer and the payload, where every identity can run them: their paths by name."""
    tools = {}
    for source, name in ((binary, "sbx"), (binary.parent / "tests" / "inject", "inject"), (binary.parent / "tests" / "whole", "whole")):
        tools[name] = os.path.join(base, name)
        shutil.copy2(source, tools[name])
        os.chmod(tools[name], 0o755)
    return tools


def own_groups(counted):
    """Those of the counted cgroups that commands of ours sweep: below our own, and their maker is gone, not only dead."""
    paths = "|".join(re.escape(line.split(":", 2)[2].rstrip("/")) for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines())
    ours = re.compile(rf"/sys/fs/cgroup(?:/[\w,]+)?(?:{paths})(?:/sbx)?/sbx-\d+-(\d+)-")
    made = {group: ours.match(group) for group in counted.values["cgroup directories"]}
    return frozenset(group for group, match in made.items() if match and not os.path.exists(f"/proc/{match[1]}"))


def count(tools, base):
    """What stands, once a command of each user has taken away what a fault kept from being taken away."""
    groups = own_groups(counting.Count(os.fsencode(base), tools["sbx"]))
    for identity in harness.make_identities(["root", "user"]):
        subprocess.run([tools["sbx"], "exec", "--", "true"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env={"PATH": harness.SYSTEM_PATH, "HOME": identity.home}, **identity.popen_arguments())
    counted = counting.Count(os.fsencode(base), tools["sbx"])
    # Every run has a TMPDIR and a runtime directory of its own; others' tests make files beside this one, and their sandboxes die meanwhile.
    counted.values = {what: value for what, value in counted.values.items() if not what.startswith("files in ")}
    counted.values["cgroup directories"] = own_groups(counted) & groups
    return counted


def left_since(before, tools, base):
    """Lines about what stands since, and does not go away."""
    return counting.settled(before, lambda: count(tools, base), 2 * harness.TIME_FACTOR, 30 * harness.TIME_FACTOR,
                            lambda: counting.foreign_sandboxes(tools["sbx"]))


def main():
    parser = argparse.ArgumentParser(description="Makes every system call of a start fail, one in each run.")
    parser.add_argument("--binary", default=str(harness.ROOT / "build" / "sbx"))
    parser.add_argument("--as", dest="identities", default="root,user")
    parser.add_argument("--quick", action="store_true", help="each call once, with its first errno; without -k of one command only")
    parser.add_argument("--every", action="store_true", help="every call with every errno")
    parser.add_argument("-k", dest="pattern", default="", help="only commands with one of these in their names")
    parser.add_argument("--only", default="", help="only calls whose 'ROLE CALL #N LABEL ERRNO' this expression finds")
    parser.add_argument("-j", dest="jobs", type=int, default=4)
    parser.add_argument("--json", default="")
    parser.add_argument("-v", dest="verbose", action="store_true")
    options = parser.parse_args()
    options.jobs = min(options.jobs, SLOTS_AT_ONCE)
    if platform.machine() != "x86_64":
        print("faults: skipped: the tracer knows x86-64 only")
        return 0
    binary = pathlib.Path(options.binary).resolve()
    base = tempfile.mkdtemp(prefix="sbx-tests-faults-")
    os.chmod(base, 0o755)
    began = time.monotonic()
    try:
        tools = copy_tools(binary, base)
        driver = Driver(options, tools)
        before = count(tools, base)
        for identity in harness.make_identities(options.identities.split(",")):
            places = collections.Counter()
            for command in COMMANDS:
                if not any(word in command.name for word in options.pattern.split(",")) or (options.quick and not options.pattern and command.name != "exec"):
                    continue
                driver.command(base, identity, command, places)
        for text in left_since(before, tools, base):
            print(f"FAIL left: {text}")
            driver.counts["DEFECT"] += 1
    finally:
        shutil.rmtree(base, ignore_errors=True)
    runs = sum(driver.counts.values())
    if options.verbose or not options.quick:
        for allowed in driver.allowed:
            if not allowed.used and not options.pattern and not options.only and not options.quick:
                print(f"note: allowed.txt: not used: {allowed.call} /{allowed.label.pattern}/ {allowed.reason}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({
            "kernel": platform.release(), "runs": runs, "calls": len(driver.calls), "errnos": sorted(driver.errnos), "outcomes": driver.counts,
            "by command": driver.by_command, "seconds": round(time.monotonic() - began),
            "defects": [{"where": key, "runs": [{"call": c, "wrong": w, "stderr": e} for c, w, e in found]} for key, found in driver.defects.items()]}, indent=1))
    print(f"faults: {runs} runs, {len(driver.calls)} calls, {len(driver.errnos)} errnos in {time.monotonic() - began:.0f} s: "
          + ", ".join(f"{v} {k}" for k, v in sorted(driver.counts.items())))
    failed = driver.counts["DEFECT"]
    print(f"{runs - failed} passed, {failed} failed")
    return 1 if failed or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
