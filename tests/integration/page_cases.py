"""What is written from the tables: help, man pages, completion in the shells themselves."""

import os
import pty
import re
import select
import time

import harness
from harness import case

COMMANDS = ("run", "exec", "langs", "doctor", "policy", "policy list", "policy show", "policy explain", "policy check", "policy new")


@case("sbx alone fits on 24 lines, has three examples and names every command")
def overview(t):
    text = t.expect(t.sbx(), err="^$").text
    t.true(len(text.splitlines()) <= 24, text)
    t.equal(len(re.findall(r"^  (?:echo .* \| )?sbx run ", text, re.M)), 3, "examples")
    for name in COMMANDS[:5]:
        t.match(text, rf"^  {name} ", "the overview")
    t.equal(t.expect(t.sbx("--help")).text, text, "--help")


@case("--help of each command stays within 100 columns; help COMMAND is the same; a wrong one gets a did-you-mean")
def helps(t):
    for name in COMMANDS:
        text = t.expect(t.sbx(*name.split(), "--help"), err="^$").text
        t.match(text, r"^usage: sbx ", name)
        t.equal([line for line in text.splitlines() if len(line) > 100], [], name)
        t.equal(t.expect(t.sbx("help", *name.split())).text, text, name)
    t.expect(t.sbx("help", "rum"), status=2, err="did you mean 'run'")
    t.expect(t.sbx("policy", "chek"), status=2, err="did you mean 'policy check'")
    t.expect(t.sbx("policy", "./x.toml"), status=2, err=r"for a file: sbx policy explain \./x\.toml")
    t.expect(t.sbx("help", "--format", "mann"), status=2, err="did you mean 'man'")


def pages(t):
    names = t.expect(t.sbx("help", "--format", "man")).text.split()
    t.true({"sbx.1", "sbx-run.1", "sbx-policy.1", "sbx-policy.5"} <= set(names), names)
    return [(name, t.file(name, t.expect(t.sbx("help", "--format", "man", name)).out)) for name in names]


@case("man pages have nothing that mandoc finds wrong", needs="mandoc")
def mandoc(t):
    for name, path in pages(t):
        # No date: a page of the same source is the same on every day.
        found = [line for line in t.run(["mandoc", "-T", "lint", "-W", "warning", path]).text.splitlines() if "missing date" not in line]
        t.equal(found, [], name)
    bad = t.file("bad.1", '.TH X 1 "" x\n.SH NAME\nx \\- y\n.nosuch\n')
    t.match(t.run(["mandoc", "-T", "lint", "-W", "warning", bad]).text, "unknown macro", "mandoc can find something")


@case("man pages have nothing that man warns of, and every option of --help stands in them", needs="man")
def man(t):
    for name, path in pages(t):
        t.equal(t.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", path]).errors, "", name)
        if name == "sbx-run.1":
            shown = t.run(["man", "-l", path], env={"MANWIDTH": "200", "MAN_KEEP_FORMATTING": None}).text
            for option in re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", t.expect(t.sbx("run", "--help")).text, re.M):
                t.match(shown, rf"{option}\b", name)


# ---- completion -------------------------------------------------------------------------------------------------

def path_with_sbx(t):
    return f"{os.path.dirname(t.binary)}:{harness.SYSTEM_PATH}"


def in_bash(t, line, *words):
    """What bash's own completion of `line` offers; `words` are COMP_WORDS as bash splits them."""
    script = ('source <(sbx help --format bash) && COMP_LINE=$1 COMP_POINT=${#1} && shift && COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) && '
              '_sbx && ((${#COMPREPLY[@]} == 0)) || printf "%s\\n" "${COMPREPLY[@]}"')
    done = t.expect(t.run(["/bin/bash", "--norc", "-c", script, "bash", line, *words], env={"PATH": path_with_sbx(t)}), err="^$")
    return sorted(done.text.split())


@case("bash completes commands, options, values after a space and after =, policies, languages, files and modes", needs="bash")
def bash(t):
    t.file("main.py")
    t.mkdir("maps")
    t.file("config/sbx/policies/mine.toml")
    t.equal(in_bash(t, "sbx ru", "sbx", "ru"), ["run"], "commands")
    t.equal(in_bash(t, "sbx run --mem", "sbx", "run", "--mem"), ["--memory"], "options")
    t.true("python" in in_bash(t, "sbx run --lang ", "sbx", "run", "--lang", ""), "languages")
    t.equal(in_bash(t, "sbx run --lang=pyth", "sbx", "run", "--lang", "=", "pyth"), ["python", "python3"], "after =")
    t.equal(in_bash(t, "sbx run --net=", "sbx", "run", "--net", "="), ["host", "none"], "right after =")
    t.equal(in_bash(t, "sbx exec -p m", "sbx", "exec", "-p", "m"), ["main.py", "maps", "mine"], "policies and files")
    t.equal(in_bash(t, "sbx run ma", "sbx", "run", "ma"), ["main.py", "maps"], "files")
    t.equal(in_bash(t, "sbx run -w ma", "sbx", "run", "-w", "ma"), ["maps"], "directories")
    t.equal(in_bash(t, "sbx run -w maps:o", "sbx", "run", "-w", "maps", ":", "o"), ["overlay"], "modes")
    t.equal(in_bash(t, "sbx policy ch", "sbx", "policy", "ch"), ["check"], "verbs")
    t.equal(in_bash(t, "sbx policy explain --net h", "sbx", "policy", "explain", "--net", "h"), ["host"], "flags of run")
    t.true("sort" in in_bash(t, "sbx exec -- sor", "sbx", "exec", "--", "sor"), "commands of the host")
    t.equal(in_bash(t, "sbx run main.py --mem", "sbx", "run", "main.py", "--mem"), [], "the program's own options")
    t.equal(in_bash(t, "sbx nosuch x", "sbx", "nosuch", "x"), [], "an unknown command")


@case("bash completes at a prompt as well", needs="bash")
def bash_prompt(t):
    t.equal(at_prompt(t, ["/bin/bash", "--norc", "--noprofile", "-i"], "source <(sbx help --format bash)", "sbx run --lang=javas"), "sbx run --lang=javascript", "the line")


@case("what is being typed is never run by completion: only the sbx of PATH is asked", needs="bash")
def bash_stranger(t):
    t.file("sbx", "#!/bin/sh\ntouch ran\n", 0o755)
    script = ('source <(sbx help --format bash) && COMP_LINE="./sbx ru" COMP_POINT=8 COMP_WORDS=(./sbx ru) COMP_CWORD=1 && _sbx && echo "${COMPREPLY[@]}"')
    t.expect(t.run(["/bin/bash", "--norc", "-c", script], env={"PATH": path_with_sbx(t)}), out="run\n")
    t.true(not (t.dir / "ran").exists(), "the stranger's program did not run")


@case("fish completes commands, options, languages and files", needs="fish")
def fish(t):
    t.file("main.py")

    def offers(line):
        done = t.expect(t.run(["fish", "--no-config", "-c", f"sbx help --format fish | source; complete -C '{line}'"], env={"PATH": path_with_sbx(t)}))
        return [entry.split("\t")[0] for entry in done.text.splitlines()]
    t.equal(offers("sbx ru"), ["run"], "commands")
    t.equal(offers("sbx run --mem"), ["--memory"], "options")
    t.true("python" in offers("sbx run --lang "), "languages")
    t.equal(offers("sbx run --lang=pyth"), ["--lang=python", "--lang=python3"], "after =")
    t.equal(offers("sbx run ma"), ["main.py"], "files")
    t.equal(offers("sbx policy ch"), ["check"], "verbs")


def at_prompt(t, argv, prepare, typed):
    """Types into a shell at a terminal, a tab, and reads what became of the line."""
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.chdir(t.dir)
            if os.geteuid() == 0 and t.identity.uid != 0:
                os.setgroups([])
                os.setgid(t.identity.gid)
                os.setuid(t.identity.uid)
            os.execve(argv[0], argv, t.environment({"PATH": path_with_sbx(t), "TERM": "dumb", "PS1": "> ", "INPUTRC": "/dev/null"}))
        finally:
            os._exit(127)
    seen = b""

    def read_until(pattern):
        nonlocal seen
        end = time.monotonic() + 15
        while not re.search(pattern, seen):
            if time.monotonic() > end:
                raise harness.Failure(f"the terminal lacks /{pattern}/: {seen!r}")
            if select.select([terminal], [], [], 0.1)[0]:
                seen += os.read(terminal, 4096)
    try:
        os.write(terminal, prepare.encode() + b"; echo rea''dy\n")
        read_until(rb"ready\r")
        # Then to the beginning of the line (^A): the completed line is printed, not run.
        os.write(terminal, typed.encode() + b"\t\x01echo '[' \r")
        read_until(rb"\n\[ .*\r")
        return re.search(rb"\n\[ (.*?) *\r", seen).group(1).decode()
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)


@case("zsh completes at a prompt: an option, a language, a verb", needs="zsh")
def zsh(t):
    prepare = "autoload -Uz compinit; compinit -u -D; source <(sbx help --format zsh)"
    t.file("main.py")
    for typed, more in (("sbx run --memo", "ry"), ("sbx run --lang javas", "cript"), ("sbx run --lang=javas", "cript"), ("sbx policy exp", "lain"), ("sbx run ma", "in.py")):
        t.equal(at_prompt(t, ["/usr/bin/zsh", "-f", "-i"], prepare, typed), typed + more, typed)
