"""Errors: each names the thing, the cause in words and the way out, and the payload did not run."""

import os

from harness import case


@case("a missing FILE is wrong usage: 2, named, with the cause in words", needs="python")
def missing_file(t):
    done = t.expect(t.sbx("run", "nowhere.py"), status=2, out="", err=r"^sbx: .*nowhere\.py")
    t.match(done.errors, "[Nn]o such file", "the cause")


@case("a directory as FILE is wrong usage", needs="python")
def directory(t):
    t.mkdir("dir.py")
    done = t.expect(t.sbx("run", "dir.py"), status=2, out="", err=r"^sbx: .*dir\.py")
    t.match(done.errors, "directory", "the cause")


@case("a FILE that may not be read says so", as_=("user",), needs="python")
def unreadable(t):
    t.file("secret.py", "print(1)", 0)
    done = t.expect(t.sbx("run", "secret.py"), status=(2, 125), out="", err=r"^sbx: .*secret\.py")
    t.match(done.errors, "[Pp]ermission", "the cause")


@case("no FILE at a terminal is wrong usage, not a wait for input", needs="python")
def no_file_tty(t):
    from stream_cases import Terminal
    term = Terminal(t, "run", "--lang", "python")
    t.equal(term.wait(5), 2)
    t.match(term.seen.decode(), r"sbx: ", "the terminal")


@case("a FILE and -c together are wrong usage or arguments, never a silent choice", needs="python")
def file_and_text(t):
    t.file("a.py", "print('file')")
    done = t.sbx("run", "--lang", "python", "-c", "print('text')", "a.py")
    t.true(done.status == 2 or b"file" not in done.out, done.describe())


@case("an option without its value is wrong usage")
def no_value(t):
    t.expect(t.sbx("run", "--memory"), status=2, out="", err=r"^sbx: .*--memory")


@case("an option given twice: the last one holds, or it is refused; never a crash")
def twice(t):
    done = t.sbx("exec", "--time", "1s", "--time", "20s", "--", "true")
    t.true(done.status in (0, 2), done.describe())


@case("--require of something unknown is wrong usage")
def require_unknown(t):
    t.expect(t.sbx("exec", "--require", "nonsense", "--", "echo", "ran"), status=(2, 125), out="", err=r"^sbx: .*nonsense")


@case("a relative command with a slash is looked up inside", needs="bash")
def relative(t):
    t.file("proj/x.sh", "#!/bin/sh\necho x\n", 0o755)
    t.expect(t.sbx("exec", "--workspace", "proj", "--", "./x.sh"), out="x\n")


@case("the working directory of the caller may be gone", needs="bash")
def cwd_gone(t):
    t.expect(t.run(["/bin/bash", "-c", 'mkdir gone; cd gone; rmdir ../gone; "$0" exec -- echo fine', t.binary]), out="fine\n")


@case("an empty environment, HOME and PATH missing, does no harm")
def empty_env(t):
    t.expect(t.run([t.binary, "exec", "--", "echo", "fine"], env={k: None for k in t.base_env}), out="fine\n")


@case("an unwritable HOME and cache do no harm", needs="python")
def no_cache(t):
    t.expect(t.python("print('fine')", env={"HOME": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent/cache", "XDG_CONFIG_HOME": "/nonexistent/c"}), out="fine\n")


@case("arguments longer than the kernel takes are an error, not a crash")
def too_long(t):
    done = t.sbx("exec", "--", "/bin/true", *["x" * 100000] * 15)
    t.true(done.status in (0, 125, 126), done.describe())


@case("a strange umask of the caller does not change what the payload makes")
def umask(t):
    t.expect(t.run(["/bin/bash", "-c", 'umask 077; "$0" exec -- sh -c "ls /usr/bin/env; cat /etc/passwd > /dev/null && touch f && stat -c %a f"', t.binary]),
             out="/usr/bin/env\n644\n")


@case("ignored and blocked signals of the caller are not inherited")
def signals(t):
    t.expect(t.run(["/bin/bash", "-c", 'trap "" PIPE INT TERM HUP CHLD; "$0" exec -- grep -E "Sig(Blk|Ign)" /proc/self/status', t.binary]),
             # SIGXFSZ alone is ignored, on purpose: a file beyond --file-size is the errno that programs handle.
             out="SigBlk:\t0000000000000000\nSigIgn:\t0000000001000000\n")


@case("tiny limits of the caller (files, processes) give an error in words, never a hang or a half-built sandbox", as_=("user",))
def caller_limits(t):
    done = t.run(["/bin/bash", "-c", 'ulimit -n 5; "$0" exec -- echo ran', t.binary])
    t.true(done.status in (0, 125, 126, 127), done.describe())
    if done.status:
        t.match(done.errors, r"^sbx: hint: .*ulimit -n", "stderr")


@case("-v shows plan, origins and times on stderr; stdout is the payload's alone")
def verbose(t):
    done = t.expect(t.shell("echo out", "-v"), out="out\n")
    t.match(done.errors, r"^sbx: ", "stderr")


@case("NO_COLOR and pipes: no escape sequence in messages")
def no_color(t):
    done = t.sbx("run", "nowhere.py", env={"NO_COLOR": "1"})
    t.true(b"\x1b" not in done.err, done.describe())


@case("the binary needs no file beside it and no shared library", needs="plain-build")
def static(t):
    import shutil
    alone = t.dir / "alone"
    shutil.copy(t.binary, alone)
    t.own(alone)
    os.chmod(alone, 0o755)
    t.expect(t.run([str(alone), "exec", "--", "echo", "fine"]), out="fine\n")
    done = t.run(["/usr/bin/ldd", str(alone)])
    t.match(done.text + done.errors, "not a dynamic executable|statically linked", "ldd")


@case("twenty sandboxes at once all give their own answer", seconds=40)
def together(t):
    import subprocess
    runs = [t.spawn([t.binary, "exec", "--", "/bin/sh", "-c", f"echo {n} > f; sleep 0.1; cat f"], stdin=subprocess.DEVNULL) for n in range(20)]
    for n, process in enumerate(runs):
        out, err = process.communicate(timeout=30)
        t.equal((process.returncode, out), (0, f"{n}\n".encode()), f"run {n} ({err!r})")


@case("sbx inside sbx works or is refused in words; it is never silently weaker", needs="plain-build")
def nested(t):
    done = t.sbx("exec", "--mount", f"{t.binary}:/opt/sbx", "--", "/opt/sbx", "exec", "--", "echo", "inner")
    t.true((done.status == 0 and done.out == b"inner\n") or (done.status == 125 and b"sbx: " in done.err), done.describe())
