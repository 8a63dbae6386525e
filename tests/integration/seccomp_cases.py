"""The filter's policies, each by what it takes away; denials that explain themselves, also in a flood and with a supervisor
that is slow, stopped or dead; sandboxes in sandboxes."""

import json
import os
import signal
import sys
import time

import harness
from harness import Failure, Skip, case

CALL = """
import ctypes, os
L = ctypes.CDLL(None, use_errno=True)
def call(number, *words):
    result = L.syscall(ctypes.c_long(number), *[ctypes.c_long(w) if isinstance(w, int) else w for w in words])
    return result if result >= 0 else -ctypes.get_errno()
"""
X86 = os.uname().machine == "x86_64"
NUMBER = {"ptrace": 101 if X86 else 117, "acct": 163 if X86 else 89, "shmget": 29 if X86 else 194}


# ---- denials that explain themselves

@case("a failed run says of each refused call what, who, by which rule and the flag that allows it; with the flag it works", needs="python")
def explained(t):
    code = CALL + f"import sys; sys.exit(call({NUMBER['ptrace']}, 0, 0, 0, 0) != 0)"
    done = t.expect(t.python(code, result=True), status=1, out="", verdict="exited")
    t.match(done.errors, r'^sbx: denied: ptrace\(PTRACE_TRACEME\) by python3\S* \(pid \d+\), rule "debug" of policy default; '
                         r'allow it with --allow-syscall ptrace$', "stderr")
    entry = done.result["denied"][0]
    t.equal((entry["call"], entry["group"], entry["text"], entry["rule"], entry["allow_with"], entry["count"]),
            ("ptrace", "debug", "ptrace(PTRACE_TRACEME)", 'rule "debug" of policy default', "--allow-syscall ptrace", 1))
    t.equal(t.expect(t.python(code, "--allow-syscall", "ptrace", result=True), err="^$").result["denied"], [])
    t.file("debug.toml", '[seccomp]\nallow = ["ptrace"]\n')
    t.equal(t.expect(t.python(code, "--policy", "./debug.toml", result=True), err="^$").result["denied"], [])


@case("a run that went well says nothing of refused calls but in its result; with -v it does; -q keeps a failed one quiet", needs="python")
def only_when_asked(t):
    code = CALL + f"call({NUMBER['ptrace']}, 0, 0, 0, 0)"
    done = t.expect(t.python(code, result=True), err="^$")
    t.equal(done.result["denied"][0]["text"], "ptrace(PTRACE_TRACEME)")
    t.match(t.expect(t.python(code, "-v")).errors, r"^sbx: denied: ptrace\(PTRACE_TRACEME\) by ", "stderr with -v")
    t.expect(t.python(code + "\nraise SystemExit(1)", "-q"), status=1, err="^$")
    failed = t.expect(t.python(code + "\nraise SystemExit(1)", "-v"), status=1)
    t.equal(failed.errors.count("denied: ptrace"), 1, "lines about it with -v")


@case("a refusal that no flag of that name lifts says what does", needs="python")
def other_remedies(t):
    unshare = t.python("import ctypes; ctypes.CDLL(None).unshare(0x10000000); raise SystemExit(1)")
    t.match(unshare.errors, r"^sbx: denied: unshare\(CLONE_NEWUSER\) by .*; a policy with hardening.nested_userns = true allows it$", "unshare")
    raw = t.python("import socket\ntry: socket.socket(2, 3, 1)\nexcept PermissionError: raise SystemExit(1)")
    t.match(raw.errors, r"^sbx: denied: socket\(AF_INET, SOCK_RAW, 1\) by .*; --allow-syscall keeps the tests of its arguments", "a raw socket")
    own = t.python("import os\ntry: os.getpgid(0)\nexcept PermissionError: raise SystemExit(1)", "--deny-syscall", "getpgid")
    t.match(own.errors, r"^sbx: denied: getpgid\(\) by .*, flag --deny-syscall; it is allowed without --deny-syscall getpgid$", "its own flag")
    t.mkdir("proj")
    chmod = t.python("import os\nopen('x', 'w')\ntry: os.chmod('x', 0o4755)\nexcept PermissionError: raise SystemExit(1)", "--workspace", "proj:rw")
    t.match(chmod.errors, r"^sbx: denied: f?chmod\w*\(04755\) by .*, because set-id bits would stay in a writable directory", "set-id bits")


@case("a process name with escapes and line breaks cannot forge a line", needs="python")
def hostile_name(t):
    code = CALL + f"""
open('/proc/self/comm', 'w').write('a\\nsbx: ok\\x1b[2J')
call({NUMBER['ptrace']}, 0, 0, 0, 0)
raise SystemExit(1)
"""
    done = t.expect(t.python(code, result=True), status=1)
    lines = [line for line in done.errors.splitlines() if line]
    t.equal(len(lines), 1, f"lines of {done.errors!r}")
    t.no_match(done.errors, "\x1b", "stderr")


@case("a flood of refused calls is one line and one entry; different ones are bounded, and the note says so", needs="python", seconds=60)
def flood(t):
    code = CALL + f"for i in range(14000): call({NUMBER['acct']}, 0)\nraise SystemExit(1)"
    done = t.expect(t.python(code, "--time", "50s", result=True), status=1, verdict="exited")
    t.equal([(entry["call"], entry["count"]) for entry in done.result["denied"]], [("acct", 14000)])
    t.equal(done.errors.count("denied:"), 1, "lines")
    t.match(done.errors, r", 14000 times, rule ", "stderr")
    denied = ["@xattr", "@posix-mq", "@sysv-ipc", "@file-locks", "@sched"]
    code = CALL + "for n in range(0, 470):\n  if n not in (0, 1, 3, 9, 10, 11, 12, 13, 15, 34, 56, 57, 58, 59, 60, 93, 94, 221, 231, 435): call(n, -1, -1, -1, -1, -1, -1)\nraise SystemExit(1)"
    done = t.expect(t.python(code, *[word for name in denied for word in ("--deny-syscall", name)], "--time", "20s", result=True), status=None)
    t.true(len(done.result["denied"]) <= 64, f"{len(done.result['denied'])} entries")
    t.true(len(done.errors.splitlines()) < 12, f"{len(done.errors.splitlines())} lines")


@case("a flood is answered at a pace that costs sbx little: its CPU time stays far below the run's wall time", needs="python", seconds=60, alone=True)
def flood_pays(t):
    began = os.times()
    # Beyond the answers that are free.
    done = t.expect(t.python(CALL + f"for i in range(16000): call({NUMBER['acct']}, 0)", "--time", "50s", result=True), verdict="exited")
    ended = os.times()
    # Of all children: the supervisor and what it waited for.
    wall = done.result["usage"]["wall_ms"] / 1000
    ours = ended.children_user + ended.children_system - began.children_user - began.children_system
    t.true(wall > 0.5, f"16000 refused calls took {wall:.2f} s: nobody waited")
    t.true(ours < wall * 0.7, f"{ours:.2f} s of CPU time in {wall:.2f} s")


# ---- the supervisor stopped, or dead

WAITS = CALL + f"""
import sys
import time
open('ready', 'w').close()
while not os.path.exists('go'): time.sleep(0.005)
open('trying', 'w').close()
answer = call({NUMBER['acct']}, 0)
open('after', 'w').write(str(answer))
"""


def stopped_supervisor(t):
    """A run whose payload makes a refused call while sbx is stopped; the process of sbx and the shared directory."""
    box = t.mkdir("proj")
    os.chmod(box, 0o777)
    process = t.spawn([t.binary, "run", "--workspace", "proj:rw", "--lang", "python", "-c", WAITS])
    t.wait_until(lambda: os.path.exists(f"{box}/ready"), 10, "the payload runs")
    os.kill(process.pid, signal.SIGSTOP)
    t.wait_until(lambda: open(f"/proc/{process.pid}/stat").read().split(") ")[1].startswith("T"), 5, "sbx is stopped")
    open(f"{box}/go", "w").close()
    t.wait_until(lambda: os.path.exists(f"{box}/trying"), 10, "the payload tries")
    return process, box


@case("a call that is reported while sbx is stopped waits, does not pass, and is refused when sbx goes on", needs="python")
def stopped(t):
    process, box = stopped_supervisor(t)
    # Nothing can be waited for: that the call does not come back is what is to be seen. Fifty looks.
    for _ in range(50):
        t.true(not os.path.exists(f"{box}/after"), "the call came back while nobody could answer")
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGCONT)
    t.equal(process.wait(timeout=15), 0, "status")
    t.equal(open(f"{box}/after").read(), "-1", "the call's answer, -EPERM")


@case("a call that is reported while sbx is stopped does not pass when sbx is killed: ENOSYS from the kernel, and the sandbox ends", needs="python")
def dead(t):
    process, box = stopped_supervisor(t)
    inside = t.wait_until(lambda: harness.children_of(process.pid), 5, "the sandbox's init")
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=10)
    t.wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in inside), 5, "the sandbox is gone")
    # The listener is gone before the sandbox is, so the payload may live for the instant that writing this takes.
    answer = open(f"{box}/after").read() if os.path.exists(f"{box}/after") else ""
    t.true(answer in ("", "-38"), f"the call answered {answer!r}")


# ---- sandboxes in sandboxes

NEST = """
[hardening]
nested_userns = true
landlock = false
proc = "unmasked"
[seccomp]
allow = ["@mount", "sethostname"]
"""


@case("sbx runs in sbx where the policy allows it: its own filter holds though no listener is left, and the result says so", needs=("python", "plain-build"))
def nested(t):
    t.file("nest.toml", NEST)
    inner = CALL + f"print(call({NUMBER['ptrace']}, 0, 0, 0, 0))"
    t.file("inner.py", inner)
    done = t.sbx("exec", "--policy", "./nest.toml", "--mount", f"{t.binary}:/opt/sbx", "--mount", f"{t.dir}/inner.py:/opt/inner.py", "--",
                 "/bin/bash", "-c", "/opt/sbx exec --result r.json --mount /opt/inner.py -- python3 /opt/inner.py && cat r.json")
    t.expect(done)
    answer, text = done.text.split("\n", 1)
    t.equal(answer, "-1", "ptrace in the inner sandbox, which the outer filter refuses as well")
    result = json.loads(text)
    t.equal(result["denied"], None, "denied")
    t.match(result["denied_note"], "no listener could be had", "denied_note")
    # The control: what only the inner filter refuses.
    done = t.sbx("exec", "--policy", "./nest.toml", "--mount", f"{t.binary}:/opt/sbx", "--mount", f"{t.dir}/inner.py:/opt/inner.py", "--",
                 "/bin/bash", "-c", "/opt/sbx exec --policy strict -- bash -c 'exec /bin/true'; echo $?; /opt/sbx exec -- bash -c 'exec /bin/true'; echo $?")
    t.equal(done.text.split(), ["126", "0"], "exec under the inner strict, and under the inner default")
    # Where no cgroup counts memory the outer filter has no memory files.
    done = t.sbx("exec", "--policy", "./nest.toml", "--mount", f"{t.binary}:/opt/sbx", "--", "/opt/sbx", "run", "--lang", "python", "-c", "print(6 * 7)")
    t.expect(done, out="42\n")


@case("sbx in sbx under the default policy is refused with the reason, before anything runs", needs="plain-build")
def not_nested(t):
    done = t.sbx("exec", "--mount", f"{t.binary}:/opt/sbx", "--", "/opt/sbx", "exec", "--", "echo", "ran")
    t.expect(done, status=125, out="")
    t.match(done.errors, "^sbx: cannot create the sandbox's namespaces: ", "stderr")


# ---- strict, judge, build, network: what each takes away, and that the default does not (the control)

def both(t, policy, code, away, there, **more):
    t.equal(t.expect(t.python(code, "--policy", policy, **more)).text.strip(), away, f"under {policy}")
    t.equal(t.expect(t.python(code, "--memory", "512M", **more)).text.strip(), there, "under the default (control)")


def tried(expression, setup=""):
    return f"import errno\n{setup}\ntry:\n  {expression}\n  print('ok')\nexcept OSError as e:\n  print(errno.errorcode[e.errno])\n"


@case("strict: no process is started, threads are", needs="python")
def strict_processes(t):
    both(t, "strict", tried("os._exit(0) if os.fork() == 0 else os.wait()", "import os"), "EPERM", "ok")
    t.expect(t.python("import threading as t; x = t.Thread(target=print, args=('thread',)); x.start(); x.join()", "--policy", "strict"), out="thread\n")


@case("strict: the program cannot be replaced by another, by execve, execveat, or a guess; the default replaces it", needs="python")
def strict_exec(t):
    code = "import os\ntry: os.execv('/bin/echo', ['echo', 'replaced'])\nexcept PermissionError: print('EPERM')\n"
    both(t, "strict", code, "EPERM", "replaced")
    code = "import os\nfd = os.open('/bin/echo', os.O_RDONLY)\ntry: os.execve(fd, ['echo', 'replaced'], {})\nexcept PermissionError: print('EPERM')\n"
    both(t, "strict", code, "EPERM", "replaced")
    # The addresses of the start are no longer mapped, and stand nowhere that can be read.
    code = """
import re
low = [line for line in open('/proc/self/maps') if 1 << 36 <= int(line.split('-')[0], 16) < 1 << 38]
print(low)
"""
    t.expect(t.python(code, "--policy", "strict"), out="[]\n")


@case("strict: scripts with an interpreter line start, and a program that is not there is 127 as ever")
def strict_start(t):
    t.mkdir("proj")
    t.file("proj/s.sh", "#!/bin/bash\necho \"$1 $HOME\"\n", 0o755)
    t.expect(t.sbx("exec", "--policy", "strict", "--workspace", "proj", "--", "./s.sh", "argument"), out="argument /home/sandbox\n")
    t.expect(t.sbx("exec", "--policy", "strict", "--", "no-such-program"), status=127)
    t.expect(t.sbx("exec", "--policy", "strict", "--", "/etc/passwd"), status=126)


@case("strict: memory is never written and executed, neither at once, nor later, nor through a file or memfd; the default allows it", needs="python")
def strict_wx(t):
    both(t, "strict", tried("mmap.mmap(-1, 4096, prot=7)", "import mmap"), "EPERM", "ok")
    later = CALL + f"import mmap\nm = mmap.mmap(-1, 4096, prot=3)\na = ctypes.addressof(ctypes.c_char.from_buffer(m))\nprint(call({10 if X86 else 226}, a, 4096, 5))\n"
    both(t, "strict", later, "-1", "0")
    by_file = tried("mmap.mmap(fd, 4096, flags=mmap.MAP_PRIVATE, prot=5)",
                    "import mmap, os\nfd = os.open(place + '/x', os.O_RDWR | os.O_CREAT, 0o700); os.write(fd, b'x' * 4096)")
    for place in ("/box", "/tmp", "/dev/shm", "/home/sandbox"):
        both(t, "strict", f"place = {place!r}\n" + by_file, "EPERM", "ok")
    t.equal(t.expect(t.python(tried("os.memfd_create('x')", "import os"), "--policy", "strict")).text.strip(), "ENOSYS", "memfd_create")
    # The kernel writes through /proc/self/mem into what is mapped read-only, code among it.
    code = CALL + ("a = ctypes.cast(L.getppid, ctypes.c_void_p).value\ntry:\n  f = open('/proc/%s/mem' % name, 'r+b', buffering=0)\n"
                   "  f.seek(a); word = f.read(4); f.seek(a); print(f.write(word))\nexcept OSError as e:\n  print(e.errno == 30)\n")
    t.file("writable.toml", "[hardening]\nwritable_noexec = false\n")
    for name in ("self", "thread-self", "self/task/2"):
        t.equal(t.expect(t.python(f"name = {name!r}\n" + code, "--policy", "strict")).text.strip(), "True", f"/proc/{name}/mem: EROFS")
        done = t.python(f"name = {name!r}\n" + code, "--policy", "strict", "--policy", "./writable.toml")
        t.equal(t.expect(done).text.strip(), "4", f"/proc/{name}/mem without writable_noexec (control)")


@case("strict: a workspace that is shared writable or as an overlay holds nothing executable either; the default runs it", needs="python")
def strict_workspace(t):
    t.mkdir("proj", 0o755)
    for mode in ("rw", "overlay"):
        code = tried("mmap.mmap(os.open('x', os.O_RDWR), 4096, flags=mmap.MAP_PRIVATE, prot=5)", "import mmap, os\nopen('x', 'wb').write(b'x' * 4096)")
        both_flags = ("--workspace", f"proj:{mode}")
        t.equal(t.expect(t.python(code, "--policy", "strict", *both_flags)).text.strip(), "EPERM", mode)
        t.equal(t.expect(t.python(code, *both_flags)).text.strip(), "ok", f"{mode} under the default (control)")


@case("strict: /proc shows processes and nothing of the machine; user namespaces stay closed by their count", needs="python")
def strict_proc(t):
    code = "import os\nprint(sorted(n for n in os.listdir('/proc') if not n.isdigit()), os.path.exists('/proc/cpuinfo'), os.path.exists('/proc/sys'))"
    both(t, "strict", code, "['self', 'thread-self'] False False", t.python(code).text.strip())
    t.true("cpuinfo" in t.python(code).text, "the default shows cpuinfo (control)")
    t.expect(t.probed("unshare", "0x10000000", flags=("--policy", "strict", "--allow-syscall", "unshare")), out_match="^(EPERM|ENOSPC)$")


@case("judge: no lock on a shared file, of any kind; the default takes it (control)", needs="python")
def judge_locks(t):
    for expression in ("fcntl.flock(f, fcntl.LOCK_SH)", "fcntl.lockf(f, fcntl.LOCK_SH)",
                       "fcntl.fcntl(f, fcntl.F_OFD_SETLK, struct.pack('hhqqi', fcntl.F_RDLCK, 0, 0, 0, 0))"):
        both(t, "judge", tried(expression, "import fcntl, struct\nf = open('/usr/bin/env', 'rb')"), "EPERM", "ok")
    # A lease on a file of a read-only share would hold up writers of the host: refused by the default, too.
    lease = tried("fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_RDLCK)", "import fcntl\nf = open('/tmp/own', 'w'); f.close(); f = open('/tmp/own')")
    both(t, "judge", lease, "EPERM", "EPERM")


@case("judge: no sockets, queues or keys that another box could see; pairs and pipes stay; the default has sockets (control)", needs="python")
def judge_channels(t):
    both(t, "judge", tried("socket.socket(socket.AF_UNIX)", "import socket"), "EPERM", "ok")
    both(t, "judge", tried("socket.socket(socket.AF_INET)", "import socket"), "EPERM", "ok")
    t.expect(t.python("import socket; a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))", "--policy", "judge"), out="b'x'\n")
    t.equal(t.expect(t.probed("mq", "/q", flags=("--policy", "judge"))).text.strip(), "EPERM", "message queue")
    t.equal(t.expect(t.probed("mq", "/q")).text.strip(), "ENOENT", "message queue under the default (control)")
    t.equal(t.expect(t.probed("keyctl", flags=("--policy", "judge"))).text.strip(), "EPERM", "keys")


@case("judge: what one box locks, another would see under the default, and does not get as far under judge", needs="python")
def judge_between(t):
    held = t.spawn([t.binary, "run", "--lang", "python", "-c",
                    "import fcntl, time; f = open('/usr/bin/env', 'rb'); fcntl.flock(f, fcntl.LOCK_SH); print('held', flush=True); time.sleep(60)"])
    t.equal(held.stdout.readline(), b"held\n", "the first box")
    look = tried("fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)", "import fcntl\nf = open('/usr/bin/env', 'rb')")
    t.equal(t.expect(t.python(look)).text.strip(), "EAGAIN", "the second box sees the first one's lock (the channel)")
    t.equal(t.expect(t.python(look, "--policy", "judge")).text.strip(), "EPERM", "under judge")


@case("build and network load the default's filter: nothing is taken away and nothing added")
def same_filter(t):
    digests = {}
    for policy in ("default", "build", "network"):
        done = t.sbx("exec", "--seccomp", policy, "--", "/bin/true", result=True)
        digests[policy] = t.expect(done).result["isolation"]["seccomp"]["sha256"]
    t.equal(len(set(digests.values())), 1, f"different filters of {digests}")


# ---- which languages run under which policy: docs/seccomp.md has the table

HELLO = {
    "python": ("python3", "main.py", "print('hello')\n"),
    "bash": ("bash", "main.sh", "echo hello\n"),
    "javascript": ("node", "main.js", "console.log('hello')\n"),
    "cpp": ("g++", "main.cpp", "#include <cstdio>\nint main() { std::puts(\"hello\"); }\n"),
}
# Started by hand: no runner of their own is needed to try a policy.
COMMANDS = {
    "perl": ["perl", "-e", "print qq(hello\\n)"],
    "ruby": ["ruby", "-e", "puts 'hello'"],
    "php": ["php", "-r", "echo \"hello\\n\";"],
    "lua": ["lua5.4", "-e", "print('hello')"],
    "java": ["java", "-Xint", "-XX:TieredStopAtLevel=0", "--version"],
    "awk": ["awk", "BEGIN { print \"hello\" }"],
}


def documented():
    """{policy: {language: True or False}} of the table in docs/seccomp.md."""
    text = (harness.ROOT / "docs" / "seccomp.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:-1] for line in text.split("## Languages")[1].split("\n## ")[0].splitlines() if line.startswith("| ")]
    names = [cell.strip() for cell in rows[0][1:]]
    return {names[column]: {row[0].strip(): row[column + 1].strip().startswith("yes") for row in rows[1:] if set(row[0]) - set("- ")}
            for column in range(len(names))}


def language_case(policy):
    def function(t):
        table = documented()[policy]
        tried_any = False
        for language, runs in table.items():
            if language in HELLO:
                tool, name, source = HELLO[language]
                t.file(name, source)
                words = ["run", "--policy", policy, "--time", "20s", name]
            else:
                tool = COMMANDS[language][0]
                words = ["exec", "--policy", policy, "--time", "20s", "--", *COMMANDS[language]]
            if not harness.have(tool, t.identity):
                continue
            tried_any = True
            done = t.sbx(*words)
            if (done.status == 0) != runs:
                raise Failure(f"{language} under {policy}: wanted {'it to run' if runs else 'a failure'}\n" + done.describe())
        if not tried_any:
            raise Skip("needs any language")
    function.__name__ = f"languages_{policy}"
    case(f"languages under {policy}: what the table of docs/seccomp.md says runs does, and the rest does not", seconds=90)(function)


for _policy in ("strict", "judge", "build", "network"):
    language_case(_policy)


# ---- the programs of the recorded corpus, inside

def _record():
    sys.path.insert(0, str(harness.ROOT / "tests" / "seccomp"))
    import record
    return record


def corpus_case(language):
    def function(t):
        record = _record()
        tools, _files, commands, _version = record.PROGRAMS[language]
        missing = [tool for tool in tools if not harness.have(tool, t.identity)]
        if missing:
            raise Skip(f"needs {missing[0]}")
        t.mkdir("w")
        for name, text in record.PROGRAMS[language][1].items():
            t.file(f"w/{name}", text)
        done = t.sbx("exec", "--policy", "build", "--workspace", "w:overlay", "--time", "80s", "--", "/bin/sh", "-c", " && ".join(commands), result=True)
        if done.status == 127:
            raise Skip(f"needs {tools[0]}, which lies where only the caller's shell finds it")
        t.expect(done)
        t.equal([entry["text"] for entry in done.result["denied"]], [], "refused calls")
    function.__name__ = "corpus_" + language.replace("-", "_")
    case(f"the recorded program of {language} runs inside, and the filter refuses nothing of it", seconds=100)(function)


# The others are left to the languages' own tests.
for _language in ("python", "bash", "javascript", "c", "c-musl", "perl", "git"):
    corpus_case(_language)
