"""Sessions: what cells keep, how each kind of end is told, and that nothing is left of them."""
import json
import os
import pathlib
import pty
import select
import signal
import socket
import struct
import subprocess
import tarfile

from harness import TIME_FACTOR, alive, case, process_tree

GONE = "the session has no process left"


class Session:
    """A session named `s` in a runtime directory of the case's own."""

    def __init__(self, t, *flags, name="s", lang="python"):
        self.t, self.name = t, name
        runtime = t.mkdir("run", 0o700)
        t.base_env["XDG_RUNTIME_DIR"] = runtime
        self.place = os.path.join(runtime, "sbx", "sessions")
        t.at_end(lambda: t.sbx("session", "stop", "--all", timeout=20))
        if TIME_FACTOR != 1 and "--time" not in flags:
            flags += ("--time", t.slow("60s"))
        self.started = t.sbx("session", "start", "--lang", lang, "--name", name, *flags)
        t.expect(self.started)
        self.id = self.started.text.strip()

    def run(self, code, *flags, result=False, **more):
        words = ["session", "run", self.name]
        path = None
        if result:
            path = self.t.result_path()
            words += ["--result", path]
        return self.t.run([self.t.binary, *words, *flags, "-c", code], result_path=path, **more)

    def json(self, code, *flags, **more):
        done = self.run(code, "--json", *flags, **more)
        try:
            return json.loads(done.out)
        except ValueError:
            raise AssertionError(f"no JSON\n{done.describe()}")

    def exec(self, *words, flags=(), **more):
        return self.t.sbx("session", "exec", *flags, self.name, "--", *words, **more)

    def spawn(self, code, *flags):
        return self.t.spawn([self.t.binary, "session", "run", self.name, *flags, "-c", code], stdin=subprocess.DEVNULL)

    def do(self, verb, *words):
        return self.t.sbx("session", verb, self.name, *words)

    def show(self):
        return json.loads(self.t.expect(self.do("show")).out)

    def entries(self):
        return sorted(name for name in os.listdir(self.place) if name != "lock")


# ---- state ---------------------------------------------------------------------------------------------------------

@case("variables, imports, functions, the working directory and files stay from cell to cell", needs="python")
def state(t):
    s = Session(t)
    t.expect(s.run("import math\nx = 41\ndef f(a): return a + x\nimport os; os.mkdir('d'); os.chdir('d'); open('file', 'w').write('kept')"), out="4\n")
    t.expect(s.run("f(1), math.floor(2.5), os.getcwd(), open('file').read()"), out="(42, 2, '/box/d', 'kept')\n")


@case("a session survives what started it: it has no terminal, no process group and no descriptor of its caller", needs="python")
def detached(t):
    s = Session(t)
    pid = s.show()["supervisor_pid"]
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    t.equal(fields[4], "0", "its terminal")
    t.true(int(fields[3]) != os.getsid(0), "it is in the caller's session")
    if os.geteuid() == 0:
        links = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
        t.true("/dev/null" in links, "stdio is /dev/null")
        t.true(not any(str(t.dir) in link and "/run" not in link for link in links), f"descriptors of the caller: {links}")


@case("an exception has the cell's own lines and status 1, and what was there before stays", needs="python")
def exception(t):
    s = Session(t)
    s.run("x = 1")
    done = t.expect(s.run("def f():\n    return 1 / 0\nf()"), status=1, out="", err="ZeroDivisionError: division by zero")
    t.match(done.errors, r"return 1 / 0")
    t.no_match(done.errors, r"python_driver|python_cells")
    t.expect(s.run("x"), out="1\n")


@case("stdout and stderr come apart and byte-exact, with what children and C code write", needs="python")
def bytes_exact(t):
    s = Session(t)
    code = ("import os, sys\nsys.stdout.buffer.write(bytes(range(256))); sys.stdout.flush()\nos.write(2, b'\\xff\\x00e')\n"
            "os.system('printf child; printf childerr >&2')\nimport ctypes; ctypes.CDLL(None).puts(b'C')\n_ = ctypes.CDLL(None).fflush(None)\n")
    done = t.expect(s.run(code))
    t.equal(done.out, bytes(range(256)) + b"childC\n", "stdout")
    t.equal(done.err, b"\xff\x00echilderr", "stderr")


@case("output comes while the cell runs", needs="python")
def live(t):
    s = Session(t)
    cell = s.spawn("import os, time\nprint('first', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('second')")
    t.equal(cell.stdout.readline(), b"first\n", "what came before the cell ended")
    t.expect(s.exec("touch", "/box/go"))
    out, _ = cell.communicate(timeout=15)
    t.equal((out, cell.returncode), (b"second\n", 0))


@case("text and outputs stand in their order in the result", needs="python")
def order(t):
    s = Session(t)
    got = s.json("import sys\nprint('a')\nclass R:\n  def _repr_html_(self): return '<b>r</b>'\n  def __repr__(self): return 'R'\n"
                 "display(R())\nprint('b'); print('c', file=sys.stderr)\n6 * 7")
    kinds = [(o["type"], o.get("name"), o.get("text"), (o.get("data") or {}).get("text/plain")) for o in got["outputs"]]
    t.equal(kinds[0], ("stream", "stdout", "a\n", None), "the first output")
    t.equal(kinds[1], ("display_data", None, None, "R"), "the second")
    t.equal(got["outputs"][1]["data"]["text/html"], "<b>r</b>")
    t.equal(sorted(k[1] for k in kinds[2:4]), ["stderr", "stdout"])
    t.equal(kinds[4], ("execute_result", None, None, "42"), "the last")
    t.equal((got["execution_count"], got["state_kept"], got["verdict"], got["session"]["id"]), (1, True, "exited", s.id))


@case("the result of cells and programs matches the published schema", needs="python")
def schema(t):
    from result_cases import validate
    s = Session(t)
    for code in ("6 * 7", "import os; os._exit(1)", "1 / 0", "print('x'); display({'a': 1})"):
        validate(s.run(code, result=True).result)
        validate(s.json(code))
    done = t.run([t.binary, "session", "exec", "--json", "s", "true"])
    validate(json.loads(done.out))


@case("files that a cell made or changed are told, and no others", needs="python")
def changes(t):
    s = Session(t)
    s.run("open('old', 'w').write('o'); open('changed', 'w').write('1')")
    got = s.json("open('new', 'w').write('hello'); open('changed', 'w').write('22')")
    t.equal(sorted((a["path"], a["size"]) for a in got["artifacts"]), [("changed", 2), ("new", 5)])


@case("input() without input fails at once; --stdin feeds it: a file, a pipe, more than a pipe holds; what is left over is lost", needs="python")
def cell_input(t):
    s = Session(t)
    t.expect(s.run("input()"), status=1, err="EOFError: input\\(\\) has nothing to read: this cell was run without stdin")
    t.expect(s.run("input() + input()", "--stdin", t.file("in", "a\nb\n")), out="'ab'\n")
    t.expect(s.run("input()", "--stdin", "-", stdin=b"from the pipe\nunread\n"), out="'from the pipe'\n")
    t.expect(s.run("input()"), status=1, err="nothing to read")
    t.expect(s.run("import sys; len(sys.stdin.read())", "--stdin", "-", stdin=b"x" * 20_000_000), out="20000000\n")
    t.expect(s.run("import subprocess; subprocess.run(['cat']);", "--stdin", "-", stdin=b"to a child"), out="to a child")
    t.expect(s.run("1", "--stdin", "nowhere"), status=2, err="no such file")
    t.expect(s.run("1", "--stdin", "."), status=2, err="is a directory")
    t.expect(t.sbx("session", "run", "--stdin", "-", "s", stdin=b"1"), status=2, err="cannot be the cell and its input")
    t.expect(s.exec("ls", "-A", "/run/sbx/input"), out="")


CONVERSATIONS = (("python", "a = input('one? ')\nprint('got', a, flush=True)\nb = input('two? ')\nprint('got', b)"),
                 ("bash", "printf 'one? '; read a; echo got $a; printf 'two? '; read b || exit 9; echo got $b"))


def read_until(read, end):
    seen = b""
    while end not in seen:
        part = read()
        if not part:
            raise AssertionError(f"wanted {end!r}, got {seen!r}")
        seen += part
    return seen


@case("--stdin is live: a prompt is there before its answer, which need not have been written yet; its end; Ctrl-C", needs=("python", "bash"))
def conversation(t):
    for lang, code in CONVERSATIONS:
        s = Session(t, lang=lang, name=lang)
        for answers, status in ((b"AB", 0), (b"A", 1 if lang == "python" else 9)):
            cell = t.spawn([t.binary, "session", "run", lang, "--stdin", "-", "-c", code], stdin=subprocess.PIPE)
            read_until(lambda: os.read(cell.stdout.fileno(), 4096), b"one? ")
            for at in range(len(answers)):
                cell.stdin.write(answers[at:at + 1] + b"\n")
                cell.stdin.flush()
                read_until(lambda: os.read(cell.stdout.fileno(), 4096), b"got " + answers[at:at + 1])
            cell.stdin.close()
            t.equal(cell.wait(15), status, "its status")
        # Ctrl-C while it waits, and behind input that it never reads.
        for source, ask in (("-", code), ("/dev/zero", {"python": "print('one? ', flush=True); import time; time.sleep(60)", "bash": "echo 'one? '; sleep 60"}[lang])):
            cell = t.spawn([t.binary, "session", "run", lang, "--stdin", source, "-c", ask], stdin=subprocess.PIPE)
            read_until(lambda: os.read(cell.stdout.fileno(), 4096), b"one? ")
            cell.send_signal(signal.SIGINT)
            t.equal(cell.wait(15), 130, "status when interrupted")
        t.expect(s.run({"python": "a", "bash": "echo $a"}[lang]), out={"python": "'A'\n", "bash": "A\n"}[lang])


@case("a compiled cell reads its stdin, too, live", needs="g++")
def compiled_input(t):
    Session(t, lang="c")
    cell = t.spawn([t.binary, "session", "run", "s", "--stdin", "-", "-c",
                    "#include <stdio.h>\nint main(void) { int n; puts(\"n?\"); fflush(stdout); if (scanf(\"%d\", &n) != 1) return 9; printf(\"%d\\n\", n + 1); }"],
                   stdin=subprocess.PIPE)
    read_until(lambda: os.read(cell.stdout.fileno(), 4096), b"n?\n")
    out, _ = cell.communicate(b"41\n", timeout=15)
    t.equal((out, cell.returncode), (b"42\n", 0))


class Person:
    """At a terminal. `before`: a command that runs sbx with these words."""

    def __init__(self, t, *words, before=()):
        self.t = t
        self.terminal, child = pty.openpty()
        t.at_end(lambda: os.close(self.terminal))
        # A session of its own, so that the terminal is its controlling one.
        self.process = t.spawn(["setsid", "--ctty", "--wait", *before, t.binary, *words], stdin=child, stdout=child, stderr=child)
        os.close(child)

    def read(self):
        if not select.select([self.terminal], [], [], self.t.slow(20))[0]:
            raise AssertionError("nothing more comes")
        try:
            return os.read(self.terminal, 4096)
        except OSError:
            return b""

    def until(self, end):
        return read_until(self.read, end)

    def types(self, text):
        os.write(self.terminal, text)

    def rest(self):
        return b"".join(iter(self.read, b""))


@case("at a terminal a person answers a cell: run --stdin -, Ctrl-D, Ctrl-C", needs="python")
def typed(t):
    s = Session(t)
    for key, status, said in ((b"B\n", 0, b"got B"), (b"\x04", 1, b"EOFError"), (b"\x03", 130, b"KeyboardInterrupt")):
        person = Person(t, "session", "run", "s", "--stdin", "-", "-c", CONVERSATIONS[0][1])
        person.until(b"one? ")
        person.types(b"A\n")
        person.until(b"two? ")
        person.types(key)
        t.true(said in person.rest(), f"what {key!r} led to")
        t.equal(person.process.wait(15), status, "its status")
    t.expect(s.run("a"), out="'A'\n")


@case("attach: a person answers input(), getpass (unseen) and bash's read; what is typed ahead is the next cell", needs=("python", "bash"))
def attach_answers(t):
    s = Session(t)
    person = Person(t, "session", "attach", "s")
    person.until(b"s> ")
    person.types(b"x = input('na' 'me? ')\n")
    person.until(b"name? ")
    person.types(b"bob\n")
    person.until(b"s> ")
    person.types(b"import getpass; p = getpass.getpass()\n")
    asked = person.until(b"Password: ")
    person.types(b"geheim\n")
    asked += person.until(b"s> ")
    t.true(b"geheim" not in asked and b"Warning" not in asked, f"a secret was shown: {asked!r}")
    person.types(b"x, p\n")  # seen again
    t.true(b"x, p" in person.until(b"('bob', 'geheim')\r\ns> "), "the echo is back")
    person.types(b"print('run' 'ning'); __import__('time').sleep(0.5)\n")
    person.until(b"running")
    person.types(b"6 * 7\n")
    person.until(b"42\r\ns> ")
    person.types(b"\x04")
    person.rest()
    t.equal(person.process.wait(15), 0, "status of attach")
    t.expect(s.run("p"), out="'geheim'\n")
    Session(t, lang="bash", name="b")
    person = Person(t, "session", "attach", "b")
    person.until(b"b> ")
    person.types(b"printf 'na''me? '; read x; echo \"<$x>\"\n")
    person.until(b"name? ")
    person.types(b"bob\n")
    person.until(b"<bob>\r\nb> ")


@case("a cell comes from a file or from stdin as well", needs="python")
def sources(t):
    s = Session(t)
    t.expect(t.sbx("session", "run", "s", t.file("x.py", "print('file')")), out="file\n")
    t.expect(t.sbx("session", "run", s.id[:6], stdin=b"print('stdin')"), out="stdin\n")


@case("bash keeps variables, functions and the working directory", needs="bash")
def bash(t):
    s = Session(t, lang="bash")
    t.expect(s.run("x=41; f() { echo $((x + 1)); }; mkdir d; cd d"))
    t.expect(s.run("f; pwd"), out="42\n/box/d\n")
    t.expect(s.run("exit 3"), status=3)
    t.expect(s.run("echo $x"), out="41\n")


@case("cells of bash that exit or are interrupted leave no process, however many; what the last one has is the next one's", needs="bash", seconds=180)
def bash_leaves_nothing(t):
    s = Session(t, "--pids", "12", lang="bash")
    t.expect(s.run("f() { echo f$n; }; declare -A m; trap 'echo usr' USR1; set -f; cd /tmp; n=0; sleep 1000 >/dev/null 2>&1 & job=$!"))
    before = s.show()["processes"]
    for number in range(1, 41):
        t.expect(s.run("n=$((n + 1)); m[$n]=$n; exit 3"), status=3)
        t.expect(s.run("n=$((n + 1)); m[$n]=$n; kill -INT $BASHPID"), status=130)
        t.expect(s.run("set -e; n=$((n + 1)); m[$n]=$n; false"), status=1)
        t.expect(s.run("set +e; f; kill -USR1 $BASHPID"), out=f"f{3 * number}\nusr\n")
    t.wait_until(lambda: s.show()["processes"] == before, 5, "no more processes than before")
    t.expect(s.run("echo $n ${#m[@]} $PWD ${-//[^f]}; kill -0 $job && kill $job"), out="120 120 /tmp f\n")
    waiting = s.spawn("echo on; sleep 60")
    t.equal(waiting.stdout.readline(), b"on\n")
    t.expect(t.sbx("session", "interrupt", "s"))
    t.equal(waiting.wait(30), 130)
    t.expect(s.run("kill -9 $BASHPID"), status=137, err="state was lost")
    t.expect(s.run("echo $n."), out=".\n")


@case("a language without a driver says that it keeps files only, and does", needs="perl")
def files_only(t):
    s = Session(t, lang="perl")
    t.match(s.started.errors, "perl keeps files only")
    t.expect(s.run("open(my $f, '>', 'kept') or die; print $f 'text'; print 'ok'"), out="ok")
    t.expect(s.run("open(my $f, '<', 'kept') or die; print <$f>; print defined $main::x ? 'x' : 'no x'"), out="textno x")
    t.expect(s.run("exit 5"), status=5)
    t.expect(t.run([t.binary, "session", "run", "s", "-c", "print \"@ARGV\"", "--", "a", "b"]), out="a b")
    t.equal(s.json("1")["state_kept"], None)


@case("a language without cells says so at the start and with each cell, early; exec works", needs="java")
def no_cells(t):
    s = Session(t, lang="java")
    t.equal(s.started.errors, "sbx: java keeps files only and has no cells: sbx session exec runs programs in it (python and bash keep their state)\n")
    t.expect(s.run("class A {}"), status=2, out="", err="Java has no cells\n.*sbx session exec")
    t.expect(s.exec("java", "-version"), err="openjdk|java")


@case("a compiled language is compiled and run in each cell; a program that does not compile runs no older one", needs="g++")
def compiled(t):
    s = Session(t, lang="c")
    t.expect(s.run("#include <stdio.h>\nint main(void) { puts(\"compiled\"); return 3; }"), status=3, out="compiled\n")
    t.expect(s.run("int main(void) { return x; }"), status=1, err="not compiled")


# ---- how cells end -----------------------------------------------------------------------------------------------------

SPIN = "print('on', flush=True)\nwhile True: pass"


@case("interrupt ends the cell that runs and keeps the state", needs="python")
def interrupt(t):
    s = Session(t)
    s.run("x = 5")
    cell = s.spawn(SPIN)
    t.equal(cell.stdout.readline(), b"on\n")
    t.expect(s.do("interrupt"))
    _, err = cell.communicate(timeout=15)
    t.equal(cell.returncode, 130, "status")
    t.match(err.decode(), "KeyboardInterrupt")
    t.expect(s.run("x"), out="5\n")
    t.match(t.expect(s.do("interrupt")).errors, "nothing runs there")


@case("Ctrl-C at the client interrupts its cell", needs="python")
def control_c(t):
    s = Session(t)
    s.run("x = 5")
    cell = s.spawn(SPIN)
    t.equal(cell.stdout.readline(), b"on\n")
    cell.send_signal(signal.SIGINT)
    cell.communicate(timeout=15)
    t.equal(cell.returncode, 130, "status")
    t.expect(s.run("x"), out="5\n")


@case("a cell whose time is over is interrupted, and its state kept: 124, timed_out", needs="python")
def timed_out(t):
    s = Session(t)
    s.run("x = 5")
    done = t.expect(s.run("x = 6\nwhile True: pass", "--timeout", t.slow("500ms"), result=True), status=124, verdict="timed_out", hit="wall")
    t.equal(done.result["state_kept"], True)
    t.expect(s.run("x"), out="6\n")


@case("the session's --time is the time of a cell that names none", needs="python")
def default_time(t):
    s = Session(t, "--time", t.slow("500ms"))
    t.expect(s.run("while True: pass", result=True), status=124, verdict="timed_out")
    t.expect(s.run("1"), out="1\n")


# Says "on" once it is deaf: an interrupt that comes before would end it as any other cell.
DEAF = ("import signal\nx = 1\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nopen('f', 'w').write('kept')\nprint('on', flush=True)\n"
        "while True:\n  try:\n    while True: pass\n  except BaseException: pass")


@case("a cell that is deaf to the interrupt is killed: the state is lost and sbx says so, files stay", needs="python")
def deaf(t):
    s = Session(t)
    done = t.expect(s.run(DEAF, "--timeout", t.slow("300ms"), result=True), status=124, verdict="timed_out", err="state was lost")
    t.equal(done.result["state_kept"], False)
    t.expect(s.run("open('f').read()"), out="'kept'\n")
    t.expect(s.run("signal"), status=1, err="NameError")


@case("out of memory: 137, out_of_memory, the state is lost, files stay, and the next cell runs", needs="python")
def out_of_memory(t):
    s = Session(t, "--memory", "192M", "--disk", "32M", "--time", t.slow("60s"))
    done = t.expect(s.run("x = 1; open('f', 'w').write('kept')\nb = bytearray(1 << 30)\nfor i in range(0, 1 << 30, 4096): b[i] = 1", result=True),
                    status=(137, 1))
    # Where sampling holds the limit, its backstop may be first: an error that Python handles.
    if done.status == 137:
        t.equal((done.verdict, done.result["state_kept"], done.limits_hit()), ("out_of_memory", False, ["memory"]))
        t.match(done.errors, "state was lost")
    t.expect(s.run("open('f').read()"), out="'kept'\n")
    t.true("before this cell" not in s.run("1").errors, "a loss that was told is told again")


@case("out of memory in a grandchild ends everything, as in a run", needs="python")
def out_of_memory_child(t):
    s = Session(t, "--memory", "192M", "--disk", "32M", "--time", t.slow("60s"))
    hog = "import time; b = []\nwhile True: b.append(bytearray(b'x' * (1 << 20))); time.sleep(0.001)"
    done = t.expect(s.run(f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {hog!r}]); import time; time.sleep(60)", result=True),
                    status=137, verdict="out_of_memory", hit="memory")
    t.equal(done.result["state_kept"], False)
    t.expect(s.run("1"), out="1\n")


@case("too much output ends the cell: 137, output_limit, what came before the limit is there, state kept", needs="python")
def output_limit(t):
    s = Session(t, "--output", "1M")
    s.run("x = 5")
    done = t.expect(s.run("while True: print('y' * 9999)", result=True), status=137, verdict="output_limit", hit="output")
    t.equal((len(done.out), done.result["state_kept"], done.result["stdout"]["truncated"]), (1 << 20, True, True))
    t.expect(s.run("x"), out="5\n")


@case("processes beyond the limit are refused and told, and the state is kept", needs="python")
def pids(t):
    s = Session(t, "--pids", "12")
    code = ("import os, time\nx = 1\nn = 0\ntry:\n  while n < 100:\n    if os.fork() == 0: time.sleep(60); os._exit(0)\n    n += 1\n"
            "except BlockingIOError: print('refused', flush=True); time.sleep(0.2)")
    done = t.expect(s.run(code, result=True), out="refused\n", hit="pids")
    t.equal(done.result["state_kept"], True)
    t.equal(len(done.result["hints"]), 1, done.result["hints"])
    t.expect(s.run("x"), out="1\n")


@case("what a limit refused is told of the cell that was refused and of no later one, a program of exec beside it or not", needs="python")
def refused_once(t):
    s = Session(t, "--pids", "14")
    server = t.spawn([t.binary, "session", "exec", "s", "--", "sh", "-c", "echo on; read x"], stdin=subprocess.PIPE)
    t.equal(server.stdout.readline(), b"on\n")
    t.expect(s.run("import subprocess\nstarted = []\ntry:\n  for _ in range(20): started.append(subprocess.Popen(['sleep', '60']))\n"
                   "except BlockingIOError: import time; time.sleep(0.2)\nfor p in started: p.kill(); p.wait()", result=True), hit="pids")
    for _ in range(2):
        t.equal(t.expect(s.run("1", result=True)).limits_hit(), [])
    server.communicate(b"end\n", timeout=20)


@case("the CPU time of a cell is its own: that of cells before it does not count, a program of exec beside it or not", needs="python")
def cpu_time_own(t):
    s = Session(t, "--cpu-time", "2s", "--time", t.slow("60s"))
    server = t.spawn([t.binary, "session", "exec", "s", "--", "sh", "-c", "echo on; read x"], stdin=subprocess.PIPE)
    t.equal(server.stdout.readline(), b"on\n")
    for _ in range(3):
        done = t.expect(s.run("import time; end = time.process_time() + 0.9\nwhile time.process_time() < end: pass", result=True))
        usage = done.result["usage"]
        t.true(usage["user_ms"] is None or 700 < usage["user_ms"] + usage["system_ms"] < 1700, usage)
    t.expect(s.run("while True: pass", result=True), verdict="cpu_time", status=None)
    server.communicate(b"end\n", timeout=20)


@case("a limit that is reached with the help of earlier cells' processes: its hint names them", needs="python")
def earlier_processes(t):
    s = Session(t, "--memory", "192M", "--disk", "32M", "--time", t.slow("60s"))
    hog = "import sys; b = bytearray(b'x') * (110 << 20); print('on', flush=True); sys.stdin.read()"
    first = s.run(f"import subprocess, sys\np = subprocess.Popen([sys.executable, '-c', {hog!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\np.stdout.readline()")
    t.expect(first)
    done = s.run("b = bytearray(b'y') * (110 << 20); import time; time.sleep(5)", result=True)
    t.expect(done, status=137, verdict="out_of_memory", err="limit of memory .* what earlier cells left running counts as well")


@case("a dead interpreter is told with its status or signal, and replaced", needs="python")
def driver_dies(t):
    s = Session(t)
    for code, status, verdict in (("import os; os._exit(3)", 3, "exited"), ("import os; os.kill(os.getpid(), 9)", 137, "signaled"),
                                  ("import ctypes; ctypes.string_at(0)", 139, "signaled")):
        done = t.expect(s.run("print('said', flush=True)\n" + code, result=True), status=status, verdict=verdict, out="said\n", err="state was lost")
        t.equal(done.result["state_kept"], False)
    t.expect(s.run("1"), out="1\n")


@case("exit() ends the cell with its status and not the session", needs="python")
def system_exit(t):
    s = Session(t)
    t.expect(s.run("x = 9; import sys; sys.exit(4)"), status=4)
    t.expect(s.run("x"), out="9\n")


@case("a refused system call is named, with the rule and the flag", needs="python")
def denied(t):
    s = Session(t)
    done = t.expect(s.run("import ctypes; ctypes.CDLL(None).ptrace(0, 0, 0, 0); 1 / 0", result=True), status=1, err="denied: ptrace")
    t.equal(done.result["denied"][0]["call"], "ptrace")
    t.expect(s.run("1", result=True), out="1\n")


@case("restart: files stay, variables go, whatever runs ends", needs="python")
def restart(t):
    s = Session(t)
    s.run("x = 1; open('f', 'w').write('kept')")
    cell = s.spawn(SPIN)
    t.equal(cell.stdout.readline(), b"on\n")
    t.expect(s.do("restart"))
    cell.communicate(timeout=15)
    t.equal(cell.returncode, 137, "status of the cell that ran")
    t.expect(s.run("open('f').read()"), out="'kept'\n")
    t.expect(s.run("x"), status=1, err="NameError")


# ---- several at once -----------------------------------------------------------------------------------------------------

@case("a second cell waits for its turn, or is refused where that is asked", needs="python")
def busy(t):
    s = Session(t)
    first = s.spawn("import os, time\nprint('on', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\norder = ['first']")
    t.equal(first.stdout.readline(), b"on\n")
    t.expect(s.run("1", "--no-wait"), status=125, err="the session is busy")
    second = s.spawn("order.append('second'); print(order)")
    t.wait_until(lambda: s.show()["waiting"] == 1, 10, "the second cell waits")
    t.expect(s.exec("touch", "/box/go"))
    out, _ = second.communicate(timeout=15)
    t.equal(out, b"['first', 'second']\n")
    first.communicate(timeout=15)


@case("a client that is killed has its cell interrupted; the state is kept", needs="python")
def client_killed(t):
    s = Session(t)
    cell = s.spawn("x = 7\n" + SPIN)
    t.equal(cell.stdout.readline(), b"on\n")
    cell.kill()
    cell.wait(10)
    t.wait_until(lambda: s.show()["state"] == "idle", 15, "the cell has ended")
    t.expect(s.run("x"), out="7\n")


@case("a client that interrupts its cell and is then killed has interrupted it once: the state is kept", needs="python")
def client_gives_up(t):
    s = Session(t)
    code = "x = 1\nimport time\ntry:\n  print('on', flush=True)\n  time.sleep(60)\nexcept KeyboardInterrupt:\n  print('caught', flush=True)\n  time.sleep(0.5)"
    cell = s.spawn(code)
    t.equal(cell.stdout.readline(), b"on\n")
    cell.send_signal(signal.SIGINT)
    t.equal(cell.stdout.readline(), b"caught\n")
    cell.kill()
    cell.wait()
    t.expect(s.run("x"), out="1\n", err="^$")


@case("a loss of state that nobody was left to hear of is told with the next cell", needs="python")
def loss_unheard(t):
    s = Session(t)
    cell = s.spawn(DEAF)
    t.equal(cell.stdout.readline(), b"on\n")
    cell.kill()
    cell.wait()
    t.expect(s.run("'x' in globals()", timeout=30), out="False\n", err="state was lost.*before this cell")
    t.true("before this cell" not in s.run("1").errors, "a loss that was told is told again")


@case("a client that does not read stops what prints, at no cost of memory, and gets all of it later", needs=("python", "plain-build"))
def slow_client(t):
    s = Session(t)
    cell = s.spawn("import os\nfor i in range(400): os.write(1, b'y' * 65536)")
    t.wait_until(lambda: s.show()["state"] == "busy", 10, "the cell runs")
    pid = s.show()["supervisor_pid"]
    seen = [0]

    def steady():
        with open(f"/proc/{pid}/io") as file:
            now = int(file.read().split("rchar: ")[1].split()[0])
        with open(f"/proc/{pid}/status") as file:
            resident = int(file.read().split("VmRSS:")[1].split()[0])
        t.true(resident < 64 * 1024, f"the supervisor has {resident} KiB")
        seen.append(now)
        return len(seen) > 20 and seen[-1] - seen[-20] < 1 << 20

    if os.geteuid() == 0 or t.is_root:
        t.wait_until(steady, 10, "nothing is read any more")
    t.expect(s.exec("true"))  # others are served meanwhile
    out, _ = cell.communicate(timeout=20)
    t.equal((len(out), cell.returncode), (400 * 65536, 0))


@case("a reader that goes away does not end the cell, nor the session", needs="python")
def reader_gone(t):
    s = Session(t)
    done = t.run(["/bin/bash", "-c", f"{t.binary} session run s -c 'for i in range(100000): print(i)' | head -2; echo ${{PIPESTATUS[0]}}"])
    t.equal(done.text, "0\n1\n0\n")
    t.expect(s.run("i"), out="99999\n")


# ---- programs beside the cells ---------------------------------------------------------------------------------------------

@case("exec runs in the same sandbox: its files, its identity, its processes; stdin, streams and status go through", needs="python")
def exec_(t):
    s = Session(t)
    s.run("open('f', 'w').write('cell')")
    t.expect(s.exec("sh", "-c", "cat f; cat; echo err >&2; exit 7", stdin=b"in"), status=7, out="cellin", err="^err$")
    t.expect(s.exec("id", "-u"), out="1000\n")
    t.match(s.exec("sh", "-c", "cat /proc/[2-9]/cmdline | tr '\\0' ' '").text, "python_driver")
    t.expect(s.exec("no-such-command"), status=127)
    t.expect(s.exec("sh", "-c", "kill -SEGV $$"), status=139)
    t.expect(s.exec("sleep", "60", flags=("--timeout", "300ms")), status=124)


@case("exec passes megabytes in both directions at once", needs="python")
def exec_streams(t):
    s = Session(t)
    data = os.urandom(1 << 16) * 64
    done = t.expect(s.exec("sh", "-c", "tee /dev/stderr", stdin=data))
    t.true(done.out == data and done.err == data, f"{len(done.out)} and {len(done.err)} bytes of {len(data)}")


@case("exec's programs have the filter, the rlimits and no descriptor but three", needs="python")
def exec_confined(t):
    s = Session(t)
    t.match(s.exec("sh", "-c", "grep -E 'Seccomp:|NoNewPrivs:|CapEff:|CapBnd:' /proc/self/status").text,
            r"CapEff:\s0+\nCapBnd:\s0+\nNoNewPrivs:\s1\nSeccomp:\s2")
    t.expect(s.exec("sh", "-c", "echo /proc/self/fd/*"), out_match=r"^/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2( /proc/self/fd/3)?$")
    t.expect(s.exec("sh", "-c", "ulimit -n"), out="1024\n")


@case("capabilities that a policy keeps are its programs', which use them; init cannot", needs="python")
def capabilities(t):
    policy = t.file("cap.toml", '[hardening]\ncapabilities = ["cap_net_bind_service"]\n')
    Session(t, "--policy", policy)
    bind = "import socket; socket.socket().bind(('127.0.0.1', 80))"
    t.expect(t.sbx("session", "run", "s", "-c", bind))
    of = lambda pid: dict(line.split(":\t") for line in t.sbx("session", "exec", "s", "--", "grep", "^Cap", f"/proc/{pid}/status").text.splitlines())
    t.equal(of("self")["CapEff"], "0000000000000400", "what a program may")
    t.equal([of(1)[name] for name in ("CapInh", "CapEff", "CapAmb")], ["0" * 16] * 3, "what init may")
    # The control: without the key the kernel refuses it.
    t.expect(Session(t, name="plain").run(bind), status=1, err="PermissionError")


@case("exec under the strict policy: each program has its one execve, and no other", needs=("python", "plain-build"))
def strict(t):
    s = Session(t, "--policy", "strict")
    t.expect(s.run("6 * 7"), out="42\n")
    t.expect(s.run("import os\ntry: os.execv('/bin/true', ['true'])\nexcept PermissionError: print('refused')"), out="refused\n")
    t.expect(s.exec("echo", "one"), out="one\n")
    t.expect(s.exec("sh", "-c", "exec /bin/echo two"), status=126)
    t.expect(s.exec("sh", "-c", "/bin/echo two"), status=2, err="denied: vfork")


@case("what background processes print when no cell runs stands in the log", needs="python")
def logs(t):
    s = Session(t)
    t.expect(s.run("import subprocess\np = subprocess.Popen(['sh', '-c', 'while [ ! -e go ]; do sleep 0.02; done; echo from behind'])"))
    t.expect(s.exec("touch", "/box/go"))
    t.wait_until(lambda: "from behind" in s.do("logs").text, 10, "the text stands in the log")


@case("a warm session is taken by a start with the same options, once, and replaced; another start takes none", needs="python", seconds=60)
def warm(t):
    runtime = t.mkdir("run", 0o700)
    t.base_env["XDG_RUNTIME_DIR"] = runtime
    t.at_end(lambda: t.sbx("session", "stop", "--all", timeout=20))

    def waiting():
        return {one["id"] for one in json.loads(t.sbx("session", "ls", "--json").out) if one["state"] == "warm"}

    t.expect(t.sbx("session", "warm", "--count", "2"), out="")
    first = waiting()
    t.equal(len(first), 2, "sessions that wait")
    t.expect(t.sbx("session", "run", min(first), "-c", "1"), status=2, err="not in use")
    t.true(t.expect(t.sbx("session", "start", "--memory", "512M")).text.strip() not in first, "one with another limit was taken")
    t.true(t.expect(t.sbx("session", "start", "--workspace", t.mkdir("work"))).text.strip() not in first, "one was taken for a workspace")
    taken = t.expect(t.sbx("session", "start", "--name", "w")).text.strip()
    t.true(taken in first, "none was taken")
    t.expect(t.sbx("session", "run", "w", "-c", "6 * 7"), out="42\n")
    t.wait_until(lambda: len(waiting()) == 2, 20, "another takes its place")
    t.true(taken not in waiting(), "it is used once")
    t.expect(t.sbx("session", "start", "--name", "w"), status=2, err="already")
    t.expect(t.sbx("session", "warm", "--count", "0"))
    t.equal(waiting(), set())


def supervisors_of(runtime):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"XDG_RUNTIME_DIR={runtime}".encode() in environment:
            found.append(int(pid))
    return found


@case("whoever ends all sessions ends the one as well that is just being started ahead", needs="python", seconds=60)
def warm_and_gone(t):
    runtime = t.mkdir("run", 0o700)
    t.base_env["XDG_RUNTIME_DIR"] = runtime
    t.at_end(lambda: t.sbx("session", "stop", "--all", timeout=20))
    for ending in (("stop", "--all"), ("warm", "--count", "0"), ("rm", "--all")):
        t.expect(t.sbx("session", "warm"))
        name = t.expect(t.sbx("session", "start")).text.strip()
        t.expect(t.sbx("session", *ending))
        if ending[0] == "warm":
            t.expect(t.sbx("session", "stop", name))
        t.wait_until(lambda: not supervisors_of(runtime), 10, f"nothing is left after {' '.join(ending)}")


@case("--preload imports beforehand; what cannot be imported is no obstacle", needs="python")
def preload(t):
    s = Session(t, "--preload", "json,no_such_module")
    t.expect(s.run("import sys\n'json' in sys.modules"), out="True\n")
    t.expect(t.sbx("session", "start", "--lang", "bash", "--preload", "x"), status=2, err="only Python")


# ---- ends of sessions ------------------------------------------------------------------------------------------------------

@case("stop ends everything and leaves nothing: no process, no file, no mount", needs="python")
def stop(t):
    s = Session(t)
    s.run("import subprocess; p = subprocess.Popen(['sleep', '1000'])")
    pids_ = process_tree(s.show()["supervisor_pid"])
    t.true(len(pids_) >= 4, f"supervisor, init, interpreter, sleep: {pids_}")
    t.expect(s.do("stop"))
    t.wait_until(lambda: not any(alive(pid) for pid in pids_), 5, GONE)
    t.equal(s.entries(), [], "what stands in the directory")
    t.expect(s.run("1"), status=2, err='no session is called "s"')
    t.expect(t.sbx("session", "ls"), out="no sessions; sbx session start makes one\n")


@case("whoever waits for a cell or a program of a session that is removed is told that its files are gone, too", needs="python")
def removed_meanwhile(t):
    for exec_ in (False, True):
        s = Session(t)
        cell = t.spawn([t.binary, "session", "exec", "s", "--", "sh", "-c", "echo on; sleep 60"]) if exec_ else s.spawn(SPIN)
        t.equal(cell.stdout.readline(), b"on\n")
        t.expect(s.do("rm"))
        err = cell.communicate(timeout=15)[1].decode()
        t.equal((cell.returncode, err), (137, "sbx: the session has ended, and the files of its own with it: it was stopped\n"))


@case("SIGKILL of the supervisor ends the sandbox, and the next command takes away what is left", needs="python", seconds=40)
def supervisor_killed(t):
    s = Session(t)
    s.run("import subprocess; p = subprocess.Popen(['setsid', 'sleep', '1000'])")
    cell = s.spawn(SPIN)
    t.equal(cell.stdout.readline(), b"on\n")
    pids_ = process_tree(s.show()["supervisor_pid"])
    os.kill(pids_[0], signal.SIGKILL)
    _, err = cell.communicate(timeout=15)
    t.equal(cell.returncode, 125, "status of the client")
    t.match(err.decode(), "the session ended meanwhile")
    t.wait_until(lambda: not any(alive(pid) for pid in pids_), 5, GONE)
    t.equal(len(s.entries()), 3, "remains")
    t.expect(t.sbx("session", "gc"), out="1 dead, 0 alive\n")
    t.equal(s.entries(), [], "what stands in the directory")


@case("SIGKILL of init ends the session: whoever waits is told", needs="python")
def init_killed(t):
    s = Session(t)
    cell = s.spawn(SPIN)
    t.equal(cell.stdout.readline(), b"on\n")
    pids_ = process_tree(s.show()["supervisor_pid"])
    os.kill(pids_[1], signal.SIGKILL)
    _, err = cell.communicate(timeout=15)
    t.equal(cell.returncode, 137, "status of the client")
    t.match(err.decode(), "the sandbox was ended from outside")
    t.wait_until(lambda: not any(alive(pid) for pid in pids_), 5, GONE)
    t.equal(s.entries(), [], "what stands in the directory")


@case("SIGTERM to the supervisor stops the session", needs="python")
def supervisor_terminated(t):
    s = Session(t)
    pids_ = process_tree(s.show()["supervisor_pid"])
    os.kill(pids_[0], signal.SIGTERM)
    t.wait_until(lambda: not any(alive(pid) for pid in pids_), 5, GONE)
    t.equal(s.entries(), [], "what stands in the directory")


@case("its time to live ends a session, in use or not; its time without use ends one that nobody uses", needs="python")
def deadlines(t):
    s = Session(t, "--ttl", t.slow("1s"), "--idle", "none")
    cell = s.spawn("import time; time.sleep(100)")
    _, err = cell.communicate(timeout=t.slow(15))
    t.equal(cell.returncode, 137, "status of the cell")
    t.match(err.decode(), "its time to live is over")
    t.wait_until(lambda: s.entries() == [], t.slow(5), "the session is gone")
    idle = Session(t, "--idle", t.slow("1s"), name="i")
    t.wait_until(lambda: idle.entries() == [], t.slow(10), "the session is gone")


@case("a session that cannot be started says why and leaves nothing", needs="python")
def not_started(t):
    s = Session(t)
    t.expect(t.sbx("session", "start", "--lang", "pyton"), status=2, err="did you mean")
    t.expect(t.sbx("session", "start", "--memory", "1M"), status=(2, 125), out="")
    t.expect(t.sbx("session", "start", "--name", "s"), status=2, err='a session is called "s" already')
    t.expect(t.sbx("session", "start", "--name", "-x"), status=2)
    t.expect(t.sbx("session", "start", "--workspace", "/"), status=2)
    t.equal(len(s.entries()), 3, "entries")


# ---- hostile ------------------------------------------------------------------------------------------------------------------

FORGE = """
import os
for fd in os.listdir('/proc/self/fd'):
    try:
        if os.readlink('/proc/self/fd/' + fd).startswith('socket:'): os.write(int(fd), {frame!r})
    except OSError: pass
import time; time.sleep(30)
"""


def frame(text):
    body = text if isinstance(text, bytes) else text.encode()
    return b"%08x" % len(body) + body


@case("a frame that a cell forges is no answer: the interpreter is killed, and the session goes on", needs="python", seconds=60)
def forged(t):
    s = Session(t)
    done = '{"type":"done","cell":%s,"token":"%s","seq":1,"status":"ok","exit_code":0,"execution_count":1,"dropped":0}'
    for text in (b"zzzzzzzz", b"01000001", frame("no json"), frame(b'{"type":"display","x":"\xff"}'), frame("[" * 100 + "]" * 100),
                 frame(done % (1, "0" * 32)), frame(done % ('"1"', "0" * 32)), frame('{"type":"ready","protocol":1}'), frame("[]"),
                 frame('{"a":1,"a":2}')):
        got = s.run("x = 1\n" + FORGE.format(frame=text), result=True)
        t.expect(got, status=137, verdict="killed", err="state was lost")
        t.match(got.errors, "broke its protocol")
        t.equal(got.result["state_kept"], False)
    # All is right but the token. (A cell's number is the host's: ten came before.)
    shown = '{"type":"display","cell":12,"token":"%s","seq":1,"data":{"text/plain":"forged"}}' % ("0" * 32)
    for text in (frame(done % (11, "0" * 32)), frame(shown)):
        got = s.run(FORGE.format(frame=text), result=True)
        t.expect(got, status=137, verdict="killed", out="", err="belongs to another cell")
    t.expect(s.run("2"), out="2\n")


@case("children of a cell hold none of the session's descriptors", needs="python")
def children(t):
    s = Session(t)
    done = t.expect(s.run("import subprocess, os\nprint(subprocess.run(['sh', '-c', 'ls -l /proc/self/fd'], close_fds=False, capture_output=True, text=True).stdout)"))
    t.no_match(done.text, "socket:")


@case("other users reach no session: neither by its directory nor by its socket, root among them", needs=("python", "root"), as_=("user",))
def two_users(t):
    s = Session(t)
    path = os.path.join(s.place, s.id + ".sock")

    def ask():
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(10)
            link.connect(path)
            body = b'{"op":"show"}'
            try:
                link.sendall(b"R" + struct.pack("<I", len(body)) + body)
                return link.recv(5)
            except ConnectionError:
                return b""

    # This test runs as root, which every path is open to.
    t.equal(ask(), b"", "what root is told")
    own = t.run(["/usr/bin/python3", "-c", "import os, sys; print(os.stat(sys.argv[1]).st_uid)", path])
    t.equal(own.text.strip(), str(t.identity.uid), "whose socket it is")
    t.expect(t.sbx("session", "ls"), out_match=s.id)  # the control: its owner is answered
    other = subprocess.run(["/usr/bin/python3", "-c", "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])", path],
                           user=65534, group=65534, extra_groups=[], stderr=subprocess.PIPE)
    t.match(other.stderr.decode(), "PermissionError")
    listed = subprocess.run([t.binary, "session", "ls"], user=65534, group=65534, extra_groups=[], stdout=subprocess.PIPE,
                            env={"XDG_RUNTIME_DIR": t.base_env["XDG_RUNTIME_DIR"], "PATH": "/usr/bin:/bin"})
    t.equal(listed.stdout, b"no sessions; sbx session start makes one\n")


@case("a payload that reaches the socket through a shared directory is not answered", needs="python", as_=("user",))
def payload_at_socket(t):
    s = Session(t)
    code = (f"import socket, struct\nl = socket.socket(socket.AF_UNIX); l.connect('/mnt/{s.id}.sock')\nb = b'{{\"op\":\"show\"}}'\n"
            "try: l.sendall(b'R' + struct.pack('<I', len(b)) + b); print('answer', l.recv(5))\nexcept ConnectionError: print('answer', b'')")
    t.expect(t.python(code, "--allow-sensitive-mount", "--mount", f"{s.place}:/mnt:rw"), out="answer b''\n")
    # The control: the same words from outside.
    outside = t.run(["/usr/bin/python3", "-c", code.replace("/mnt/", s.place + "/")])
    t.match(outside.text, "answer b'J")


@case("cp copies files and trees both ways, and what it made belongs to whoever has it then", needs="python")
def copies(t):
    s = Session(t)
    t.file("tree/a", "A")
    t.file("tree/sub/b", b"\x00B" * 70000)
    t.file("tree/run.sh", "#!/bin/sh\n", 0o755)
    t.expect(t.sbx("cp", "tree", "s:"))
    t.expect(s.run("import os\nprint(open('tree/a').read(), os.path.getsize('tree/sub/b'), os.stat('tree/a').st_uid, os.access('tree/run.sh', os.X_OK))"),
             out="A 140000 1000 True\n")
    t.expect(s.run("with open('tree/a', 'a') as f: f.write('+')\nopen('empty', 'w').close()"))
    t.expect(t.sbx("cp", "s:tree", "back"))
    t.equal((t.dir / "back/a").read_text(), "A+")
    t.equal((t.dir / "back/sub/b").read_bytes(), b"\x00B" * 70000)
    t.equal((os.stat(t.dir / "back/a").st_uid, os.stat(t.dir / "back/run.sh").st_mode & 0o777), (t.identity.uid, 0o755))
    t.mkdir("into")
    t.expect(t.sbx("cp", "s:/box/empty", "into"))
    t.equal((t.dir / "into/empty").read_bytes(), b"")
    t.expect(t.sbx("cp", "tree/a", "s:tree/renamed"))
    t.expect(s.exec("cat", "tree/renamed"), out="A")
    t.expect(t.sbx("cp", "s:missing", "."), status=2, err="no such file")
    t.expect(t.sbx("cp", "missing", "s:"), status=2, err="no such file")
    t.expect(t.sbx("cp", "a", "b"), status=2, err="neither place is in a session")


@case("cp follows no link of a payload and makes none, reads no FIFO, and passes no set-id bit", needs="python")
def hostile_copies(t):
    s = Session(t)
    code = ("import os\nos.makedirs('d/real')\nopen('d/real/f', 'w').write('x')\nos.symlink('/etc/passwd', 'd/link')\nos.symlink('/', 'd/root')\n"
            "os.mkfifo('d/fifo')\nos.mkdir('d/-rf')\nopen('d/-rf/\\x1b[31m\\n', 'w').write('odd')\nopen('d/..x', 'w').write('dots')\n"
            "os.symlink('d', 'dir')\nopen('d/suid', 'w').write('s')\ntry: os.chmod('d/suid', 0o6755)\nexcept OSError: pass")
    t.expect(s.run(code))
    done = t.expect(t.sbx("cp", "s:d", "out"), status=1)
    t.match(done.errors, r"'d/link' is left out: a link")
    t.match(done.errors, r"'d/fifo' is left out: no regular file")
    t.no_match(done.errors, "\x1b")
    found = sorted(os.path.relpath(os.path.join(base, name), t.dir / "out") for base, _, names in os.walk(t.dir / "out") for name in names)
    t.equal(found, ["-rf/\x1b[31m\n", "..x", "real/f", "suid"])
    t.true(not any(os.path.islink(os.path.join(base, name)) for base, dirs, names in os.walk(t.dir / "out") for name in dirs + names), "a link came out")
    t.equal(os.stat(t.dir / "out/suid").st_mode & 0o6000, 0, "set-id bits")
    for path in ("s:d/link", "s:dir/real/f", "s:d/root/etc/hostname", "s:/proc/self/environ"):
        t.expect(t.sbx("cp", path, "no"), status=2)
    # ".." ends at the sandbox's own root.
    t.expect(t.sbx("cp", "s:../../etc/passwd", "inside"))
    t.match((t.dir / "inside").read_text(), "^sandbox:x:1000:")
    # Into a place where the payload put a link, and over one.
    secret = t.file("secret", "secret")
    t.expect(t.sbx("cp", "secret", "s:dir/x"), status=2, err="links inside a sandbox are not followed")
    t.expect(t.sbx("cp", "secret", "s:d/link"))
    t.expect(s.exec("sh", "-c", "test ! -L d/link && cat d/link"), out="secret")
    t.true(os.path.exists(secret), "the source is there")


@case("save writes an archive of the files that tar reads, restore brings them into another session", needs="python")
def archives(t):
    s = Session(t)
    long_name = "n" * 90 + "/" + "m" * 90
    t.expect(s.run(f"import os\nx = 1\nos.makedirs('a/b'); open('a/b/c', 'w').write('text'); os.mkdir('{long_name[:90]}'); open('{long_name}', 'w').write('long')\n"
                   "os.symlink('/etc/passwd', 'link')"))
    t.expect(s.do("save", "s.tar"), status=1, err="'box/link' is left out: a link\n.*variables are not among them")
    with tarfile.open(t.dir / "s.tar") as archive:
        t.equal(sorted(m.name for m in archive if m.isfile()), sorted(["./a/b/c", "./" + long_name]))
        t.equal(archive.extractfile("./a/b/c").read(), b"text")
    other = Session(t, name="o")
    t.expect(other.do("restore", "s.tar"), err="2 files restored")
    t.expect(other.run(f"open('a/b/c').read() + open('{long_name}').read()"), out="'textlong'\n")
    t.expect(other.run("x"), status=1, err="NameError")
    with tarfile.open(t.dir / "bad.tar", "w", format=tarfile.GNU_FORMAT) as archive:
        entry = tarfile.TarInfo("../../tmp/escaped")
        archive.addfile(entry)
    t.expect(other.do("restore", "bad.tar"), status=2, err="leads out of it")
    t.expect(other.do("restore", t.file("junk", b"x" * 2000)), status=2, err="no archive")


@case("a :rw workspace is shared, and what the host would trust in it is swept when the session ends", needs="python")
def workspace(t):
    work = t.mkdir("work")
    t.file("work/in.txt", "in")
    s = Session(t, "--workspace", f"{work}:rw")
    t.expect(s.run("import os\nopen('out.txt', 'w').write(open('in.txt').read() + 'out'); os.makedirs('.vscode'); open('.envrc', 'w').write('evil')"), status=0)
    t.equal((t.dir / "work/out.txt").read_text(), "inout")
    t.equal(os.stat(t.dir / "work/out.txt").st_uid, t.identity.uid)
    done = t.expect(s.do("stop"))
    t.match(done.errors, "envrc")
    t.true(not os.path.exists(t.dir / "work/.envrc"), "it is still there")


@case("names of sessions are completed", needs="python")
def completion(t):
    Session(t, name="workbench")
    t.match(t.sbx("__complete", "session", "run", "wo").text, "^workbench")
    t.match(t.sbx("__complete", "cp", "wo").text, "^workbench:")


@case("attach reads cells and shows what they give", needs="python")
def attach(t):
    Session(t)
    t.expect(t.sbx("session", "attach", "s", stdin=b"x = 20\nfor i in range(2):\n  print(i)\n\nx + 22\n"), out="0\n1\n42\n")


# ---- one program's value ---------------------------------------------------------------------------------------------------

@case("--eval tells the value of the last expression behind the output; None and a semicolon are none", needs="python")
def eval_value(t):
    run = lambda code, *more: t.sbx("run", "--lang", "python", *more, "-c", code)
    t.expect(run("print('out'); 6 * 7", "--eval"), out="out\n42\n", err="")
    t.expect(run("print('out'); 6 * 7"), out="out\n")
    t.expect(run("None", "--eval"), out="")
    t.expect(run("x = 5\nx;", "--eval"), out="")
    t.expect(run("display('shown'); await __import__('asyncio').sleep(0, 'v')", "--eval"), out="'shown'\n'v'\n")
    t.expect(t.sbx("run", "--eval", t.file("a.py", "import sys\nprint(sys.argv[1:], __name__)\nsys.stdin.read()"), "1", "2", stdin=b"in"),
             out="['1', '2'] __main__\n'in'\n")
    t.expect(t.sbx("run", "--eval", "--lang", "python", stdin=b"[1,\n2]"), out="[1, 2]\n")


ORDER = ("import os, sys\nprint('a')\ndisplay('one')\nos.system('echo child'); print('e', file=sys.stderr)\ndisplay('two')\n"
         "print('b', end='')\n'value'")


@case("--eval: displays and value stand in order with what is printed, as in a session", needs="python")
def eval_order(t):
    t.expect(t.sbx("run", "--eval", "--lang", "python", "-c", ORDER), out="a\n'one'\nchild\n'two'\nb'value'\n", err="^e\n$")
    s = Session(t)
    both = [json.loads(t.expect(t.sbx("run", "--eval", "--json", "--lang", "python", "-c", ORDER)).out), s.json(ORDER)]
    for got in both:
        t.equal((got["stdout"]["data"], got["stderr"]["data"]), ("a\nchild\nb", "e\n"), "the streams")
        t.equal(got["stdout"]["total_bytes"], len("a\nchild\nb"), "their bytes")
        t.equal([o.get("text") or o["data"]["text/plain"] for o in got["outputs"] if o.get("name") != "stderr"],
                ["a\n", "'one'", "child\n", "'two'", "b", "'value'"])
    done = t.sbx("run", "--eval", "--json", "--output", "64K", "--lang", "python", "-c", "while True: display(1); print('y' * 999)")
    got = json.loads(t.expect(done, status=137).out)
    t.true(set(got["stdout"]["data"]) <= set("y\n"), "the marks are gone")
    # Output that is redirected, or a stdout that is closed, is the program's.
    t.expect(t.sbx("run", "--eval", "--lang", "python", "-c", "import sys, io; sys.stdout = io.StringIO(); print('hidden'); display(1)\n2"), out="1\n2\n")


@case("--eval: the result has all forms of what was displayed, the error too", needs="python")
def eval_result(t):
    code = "print('o')\nclass R:\n    def _repr_html_(self): return '<b>r</b>'\n    def __repr__(self): return 'R'\ndisplay(R(), display_id='d')\nR()"
    got = json.loads(t.expect(t.sbx("run", "--eval", "--json", "--lang", "python", "-c", code)).out)
    t.equal([(o["type"], o["data"]) for o in got["outputs"] if o["type"] != "stream"], [(kind, {"text/html": "<b>r</b>", "text/plain": "R"}) for kind in ("display_data", "execute_result")])
    t.equal((got["stdout"]["data"], got["verdict"], got["exit_code"], got["outputs_dropped"]), ("o\n", "exited", 0, 0))
    done = t.sbx("run", "--eval", "--json", "--lang", "python", "-c", "def f():\n    1/0\nf()")
    got = json.loads(t.expect(done, status=1).out)
    t.equal([(o["type"], o["name"]) for o in got["outputs"]], [("stream", "stderr"), ("error", "ZeroDivisionError")])
    t.match(got["stderr"]["data"], r'Traceback.*\n  File "/box/main.py", line 3, in <module>\n    f\(\)\n  File "/box/main.py", line 2, in f')
    t.true("/run/sbx" not in got["stderr"]["data"], "the user's own lines only")


@case("--eval: ends are those of a run: status, time, memory, a signal", needs="python")
def eval_ends(t):
    run = lambda code, *more: t.sbx("run", "--eval", *more, "--lang", "python", "-c", code)
    t.expect(run("import sys; sys.exit(3)"), status=3)
    t.expect(run("import os; os._exit(4)"), status=4)
    t.expect(run("print('so far', flush=True)\nwhile True: pass", "--time", "500ms"), status=124, out="so far\n")
    t.expect(run("import os; os.kill(os.getpid(), 9)"), status=137)
    t.expect(run("1/0"), status=1, err=r"\nZeroDivisionError: division by zero\n")


@case("--eval: other languages are refused, with those that have values", needs="bash")
def eval_other_languages(t):
    t.expect(t.sbx("run", "--eval", "--lang", "bash", "-c", "echo ran"), status=2, out="",
             err='flag --eval: programs in "bash" have no last expression.*\n.*languages that have one: python')


@case("--eval: frames that a program forges are not believed, and cost nobody but itself", needs="python")
def eval_forged(t):
    def forge(*frames):
        code = ("import os\n"
                "links = {n: os.readlink('/proc/self/fd/' + n) for n in os.listdir('/proc/self/fd') if os.path.lexists('/proc/self/fd/' + n)}\n"
                "fd = next(int(n) for n, to in links.items() if to.startswith('socket:'))\n")
        code += "".join(f"os.write(fd, b'%08x' % len({frame!r}) + {frame!r})\n" for frame in frames) + "'mine'"
        done = t.sbx("run", "--eval", "--json", "--lang", "python", "-c", code)
        t.equal(json.loads(t.expect(done, err="is not believed: the driver broke its protocol").out)["outputs"], [])
    one = b'{"type":"result","cell":1,"token":"%s","seq":1,"data":{"text/plain":"forged"}}'
    forge(one % (b"0" * 32))
    forge(b"[" * 5000)
