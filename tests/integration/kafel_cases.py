"""Kafel, nsjail's language of system call policies, in native policies."""

from harness import case

PROGRAM = "import os\ntry: os.mkdir('/tmp/x', 0o700)\nexcept OSError as error: print(error.errno)\nelse: print('made')\n"


def kafel(t, text):
    return t.file("kafel.toml", f"[seccomp]\nkafel = '''\n{text}\n'''\n")


@case("seccomp.kafel decides: an errno for certain arguments only, and without the rule the call works", needs="python")
def errno(t):
    kafel(t, "ERRNO(77) { mkdir { mode & 0700 == 0700 }, mkdirat { mode & 0700 == 0700 } }\nDEFAULT ALLOW")
    t.expect(t.python(PROGRAM, "--policy", "./kafel.toml"), out="77\n")
    t.expect(t.python(PROGRAM.replace("0o700", "0o600"), "--policy", "./kafel.toml"), out="made\n")
    t.expect(t.python(PROGRAM), out="made\n")


@case("a Kafel KILL_PROCESS ends the run as denied; a TRAP is a signal that a program may handle", needs="python")
def kill(t):
    kafel(t, "KILL_PROCESS { mkdir, mkdirat }\nDEFAULT ALLOW")
    t.expect(t.python(PROGRAM, "--policy", "./kafel.toml", result=True), status=159, out="", verdict="denied")
    kafel(t, "TRAP(5) { mkdir, mkdirat }\nDEFAULT ALLOW")
    handled = "import signal, sys\nsignal.signal(signal.SIGSYS, lambda *_: (print('trapped', flush=True), __import__('os')._exit(3)))\n" + PROGRAM
    t.expect(t.python(handled, "--policy", "./kafel.toml"), status=3, out="trapped\n")


@case("seccomp.kafel_file is read from beside the policy; --seccomp and --deny-syscall on the command line win over it", needs="python")
def from_a_file(t):
    t.mkdir("sub")
    t.file("sub/rules.kafel", "#define FAILS 88\nERRNO(88) { mkdir, mkdirat } DEFAULT ALLOW\n")
    t.file("sub/p.toml", '[seccomp]\nkafel_file = "rules.kafel"\n')
    t.expect(t.python(PROGRAM, "--policy", "sub/p.toml"), out="88\n")
    t.expect(t.python(PROGRAM, "--policy", "sub/p.toml", "--seccomp", "default"), out="made\n")
    t.expect(t.python(PROGRAM, "--policy", "sub/p.toml", "--deny-syscall", "mkdir", "--deny-syscall", "mkdirat"), out="1\n")


@case("policy check names mistakes in Kafel where they are, in the policy and in the file beside it")
def mistakes(t):
    kafel(t, "ALLOW { read,\n  wrte }\nDEFAULT KILL")
    t.expect(t.sbx("policy", "check", "kafel.toml"), status=2,
             out='kafel.toml:4:3: error: there is no system call "wrte"; did you mean "write"?\n')
    t.file("rules.kafel", "ALLOW { read { fb == 1 } }\n")
    t.file("p.toml", '[seccomp]\nkafel_file = "rules.kafel"\n')
    t.expect(t.sbx("policy", "check", "p.toml"), status=2, out_match=r'rules\.kafel:1:16: error: "read" has no argument "fb"; did you mean "fd"\?$')
    kafel(t, "ALLOW { read, write }")
    t.expect(t.sbx("policy", "check", "kafel.toml"), status=2, out_match="the filter denies execve, which starting the program needs")


@case("policy explain shows Kafel with its origin, counts the calls that it allows, and reviews them")
def explained(t):
    kafel(t, "ALLOW { execve, exit_group, read, write, ptrace }\nDEFAULT ERRNO(1)")
    done = t.expect(t.sbx("policy", "explain", "./kafel.toml"), out_match=r"^# 5 system call rules in Kafel from \./kafel\.toml, otherwise EPERM$")
    t.match(done.out.decode(), r"5 of \d+ known system calls \(the rules of seccomp\.kafel\)", "the calls")
    t.match(done.out.decode(), r"the system call ptrace is allowed[^()]*\(\./kafel\.toml:3:42\)", "a risk")
