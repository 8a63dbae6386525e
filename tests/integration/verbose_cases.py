"""-v and -vv tell what is done; a run that takes long says so at a terminal, on a line that is gone before anything
of the program appears."""

import collections
import re

from harness import case
from stream_cases import Terminal

# A language whose compiler is slow and says something, and one whose "interpreter" is found behind a slow shim.
SLOW = """name = "slowc"
title = "Slow C"
extensions = [".slowc"]
source_name = "main.slowc"
commands = ["sh"]
version_argv = ["{tool}", "-c", "echo 1"]
run_argv = ["{tool}", "{out}"]
[compile]
argv = ["{tool}", "-c", "sleep DURATION; echo a warning >&2; cp {src} {out}"]
"""


def slow_language(t, seconds):
    t.file("config/sbx/policies/lang/slowc.toml", SLOW.replace("DURATION", seconds))
    return t.file("prog.slowc", "echo the program\n")


SHOWN = rb"\r\x1b\[Ksbx: compiling prog\.slowc \.\.\."
TAKEN_AWAY = rb"\r\x1b\[K"


@case("at a terminal a slow compile is said on one line, which is gone before the compiler's or the program's first byte")
def slow_compile(t):
    slow_language(t, "0.8")
    term = Terminal(t, "run", "prog.slowc")
    t.equal(term.wait(), 0)
    t.true(re.fullmatch(SHOWN + TAKEN_AWAY + rb"a warning\r\nthe program\r\n", term.seen), repr(term.seen))


@case("a quick compile says nothing, -q nothing either, and without a terminal to erase on there is no line")
def quick_compile(t):
    slow_language(t, "0")
    term = Terminal(t, "run", "prog.slowc")
    t.equal(term.wait(), 0)
    t.equal(term.seen, b"a warning\r\nthe program\r\n", "the terminal")
    slow_language(t, "0.8")
    for words, env in ((["-q"], {}), ([], {"TERM": "dumb"})):
        term = Terminal(t, "run", *words, "prog.slowc", env=env)
        t.equal(term.wait(), 0)
        t.equal(term.seen, b"a warning\r\nthe program\r\n", f"the terminal with {words} {env}")
    done = t.expect(t.sbx("run", "prog.slowc", env={"TERM": "xterm"}), out="the program\n")
    t.equal(done.errors, "a warning\n", "stderr")


@case("the line is gone as well when the compile step fails or is ended at its limit")
def failing_compile(t):
    slow_language(t, "0.8; exit 3")
    term = Terminal(t, "run", "prog.slowc")
    t.equal(term.wait(), 3)
    t.true(re.fullmatch(SHOWN + TAKEN_AWAY, term.seen), repr(term.seen))
    slow_language(t, "60")
    term = Terminal(t, "run", "--compile-time", "900ms", "prog.slowc")
    t.equal(term.wait(), 124)
    t.true(re.match(SHOWN + TAKEN_AWAY + rb"sbx: ", term.seen), repr(term.seen))


@case("-v tells the plan with origins, times by stage, each protection and what holds each limit")
def verbose(t):
    done = t.expect(t.sbx("exec", "-v", "--memory", "256M", "--", "echo", "out"), out="out\n")
    for line in (r"^sbx: plan: limits\.memory 268435456  \(flag --memory\)$", r"^sbx: before the sandbox: policies \d+ us, ", r"^sbx: set-up: .*mounts \d+ us",
                 r"^sbx: protection: namespaces of its own: user, mount, pid, ", r"^sbx: protection: no network", r"^sbx: protection: system call filter default, sha256 ",
                 r"^sbx: protection: (Landlock|no Landlock)", r"^sbx: limit memory held by "):
        t.match(done.errors, line, "-v")
    t.no_match(done.errors, r"^sbx: call: ", "-v")
    t.match(t.expect(t.sbx("exec", "-v", "--net", "host", "--", "true")).errors, "^sbx: protection: none for the network", "with the host's network")


# Calls whose number is that of the plan; others (openat, close, write, chdir …) sbx and the payload make as well.
PLANNED = ("open_tree", "move_mount", "mount_setattr", "mkdirat", "symlinkat", "mknodat", "mount", "pivot_root", "umount2", "sethostname", "setresuid",
           "setresgid", "capset", "landlock_add_rule", "landlock_restrict_self", "dup3", "setgroups", "ppoll")


@case("-vv lists the calls that the child makes: as many of each kind as a trace sees", needs=("strace", "plain-build"), seconds=60)
def calls(t):
    t.mkdir("w/.git/hooks")
    t.file("w/.git/HEAD")
    for flags in ((), ("--workspace", "w:rw", "--mount", "/usr/share:/data/share"), ("--workspace", "w:overlay", "--disk", "64M")):
        said = collections.Counter()
        for line in t.expect(t.sbx("exec", "-vv", *flags, "--", "true")).errors.splitlines():
            match = re.match(r"sbx: call: (?:init|payload): (\w+)\(.*?(?: \[(\d+) times\])?$", line)
            if match:
                said[match.group(1)] += int(match.group(2) or 1)
        log = str(t.dir / "trace")
        t.expect(t.run(["strace", "-f", "-qq", "-o", log, t.binary, "exec", *flags, "--", "true"]))
        made, supervisor, ended = collections.Counter(), None, set()
        for line in open(log, errors="replace"):
            match = re.match(r"(\d+) +(\w+)\(", line)
            if not match:
                continue
            pid, name = match.groups()
            supervisor = supervisor or pid
            if pid == supervisor or pid in ended:
                continue
            made[name] += 1
            if name == "open_tree" and "ENOENT" in line:  # a place of /proc that this kernel lacks is not covered
                made["mount_setattr"] += 1
                made["move_mount"] += 1
            if name == "faccessat" and "ENOENT" in line:
                made["open_tree"] += 1
                made["move_mount"] += 1
            if name == "execve" and " = 0" in line:
                ended.add(pid)
        t.equal({n: said[n] for n in PLANNED}, {n: made[n] for n in PLANNED}, f"calls with {flags}")
        t.true(said["move_mount"] > 10 and said["landlock_restrict_self"] <= 1, "something was counted")
