"""Sessions as a hostile cell, a hostile archive and a crowd of clients see them."""
import errno
import io
import json
import os
import pty
import select
import signal
import socket
import stat
import struct
import subprocess
import tarfile
import threading

from harness import alive, case, process_tree
from session_cases import Session

ESCAPE = "\x1b]0;title\x07\x1b[31m\x9b1m"


@case("an interrupt that was not seen comes again: the cell ends, the state is kept", needs="python")
def interrupt_again(t):
    s = Session(t)
    deaf = ("import signal, time\nseen = []\ndef handler(*_):\n    seen.append(1)\n    if len(seen) == 3: raise KeyboardInterrupt\n"
            "signal.signal(signal.SIGINT, handler)\nwhile True: time.sleep(0.01)")
    t.expect(s.run(deaf, "--timeout", "300ms"), status=124, err="state is kept")
    t.expect(s.run("len(seen)"), out="3\n")


@case("a dead interpreter ends its cell although a process behind it holds the socket open", needs="bash")
def socket_held(t):
    s = Session(t, lang="bash")
    done = s.run("(exec -a holder sleep 1000 >/dev/null 2>&1) & kill -9 $$", "--timeout", "20s")
    t.expect(done, status=137, err="state was lost")
    t.expect(s.run("echo on"), out="on\n")
    s = Session(t, name="p")
    code = "import os\nfor n in os.listdir('/proc/self/fd'):\n    try: os.set_inheritable(int(n), True)\n    except OSError: pass\nos.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '1000')\nos._exit(9)"
    t.expect(s.run(code, "--timeout", "20s"), status=9, err="state was lost")
    t.expect(s.run("1"), out="1\n")


@case("a cell of bash that names another process as the one that goes on harms its own session's state, and nothing else", needs="bash", seconds=90)
def heir_forged(t):
    s = Session(t, lang="bash")
    supervisor = s.show()["supervisor_pid"]
    program = t.spawn([t.binary, "session", "exec", "s", "--", "sh", "-c", "echo $$; read x; echo got $x"], stdin=subprocess.PIPE)
    other = int(program.stdout.readline())
    say = ('body="{\\"type\\":\\"done\\",\\"cell\\":$__sbx_cell,\\"token\\":\\"$__sbx_token\\",\\"seq\\":1,\\"status\\":\\"ok\\",\\"exit_code\\":0,\\"execution_count\\":1,\\"dropped\\":0,\\"pid\\":%s}"\n'
           'printf %%08x%%s ${#body} "$body" >&$__sbx_0; sleep 1000')
    for pid in ("1", "$BASHPID", str(other), "2000000000", "$(sleep 0 & echo $!)"):
        t.expect(s.run("x=kept"))
        t.expect(s.run(say % pid), out=None, err=None)
        t.expect(s.run("echo $x."), out=".\n", err="state was lost")
    for pid in ("-5", "4294967297"):
        t.expect(s.run(say % pid), status=137, err="a pid that is none")
    # One that does not read the next cell: that is deaf, as every such driver.
    t.expect(s.run("(sleep 1000; :) & " + say % "$!"), out=None, err=None)
    t.expect(s.run("echo unheard", "--timeout", "300ms"), out="", status=124, err="state was lost")
    t.expect(s.run("echo on"), out="on\n")
    t.equal(s.show()["supervisor_pid"], supervisor)


@case("a fork bomb, and one that ignores every signal, end with the cell; the session goes on", needs="python", seconds=60)
def fork_bomb(t):
    s = Session(t, "--pids", "40", "--time", "3s")
    bomb = "import os, signal\nfor n in range(1, 32):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    done = s.run(bomb)
    t.expect(done, status=124)
    t.wait_until(lambda: s.show()["state"] == "idle", 20, "a new interpreter")
    t.expect(s.run("6 * 7", "--timeout", "20s"), out="42\n")


@case("a cell that attacks what is above it reaches nobody: init, its own supervisor, the group", needs="python")
def kills_all(t):
    s = Session(t)
    supervisor = s.show()["supervisor_pid"]
    t.expect(s.run("import os, signal\nfor p in range(1, 40):\n    if p != os.getpid():\n        try: os.kill(p, 9)\n        except OSError: pass\nos.getppid()"), out=None)
    t.expect(s.run("import os; os.killpg(0, 9)"), status=137)
    t.expect(s.run("import os; os.kill(-1, 9)"), out=None, status=None)
    t.expect(s.run("'here'"), out="'here'\n")
    t.true(alive(supervisor) and s.show()["supervisor_pid"] == supervisor, "the supervisor lives")


@case("values of JSON cost the supervisor their text, not a hundred times that", needs=("python", "plain-build"), seconds=300)
def json_amplified(t):
    s = Session(t, "--time", "4m")

    def resident():
        with open(f"/proc/{s.show()['supervisor_pid']}/statm") as file:
            return int(file.read().split()[1]) * 4096
    before = resident()
    code = "for i in range(60):\n    display({'application/json': [[]] * 99000}, raw=True)"
    done = s.run(code, result=True)
    t.expect(done)
    t.true(len([o for o in done.result["outputs"] if o["type"] == "display_data"]) == 60, "all are there")
    t.true(resident() - before < 400 << 20, f"{(resident() - before) >> 20}M")


@case("a payload that puts links, files, sockets and pipes in place of a cell's stdin gains nothing, and nobody waits for it", needs=("python", "bash"), seconds=120)
def stdin_replaced(t):
    s = Session(t, lang="bash")
    spoil = ("import os, socket, itertools, time\nos.chdir('/run/sbx/input')\n"
             "kinds = [lambda n: os.symlink('/box/target', n), lambda n: open(n, 'x').close(), lambda n: socket.socket(socket.AF_UNIX).bind(n), lambda n: None, os.mkfifo]\n"
             "for kind in itertools.cycle(kinds):\n  names = []\n  while not names: names = os.listdir('.')\n"
             "  for n in names:\n    try: os.unlink(n); kind(n)\n    except OSError: pass\n  time.sleep(0.05)")
    spoiler = t.file("spoil.py", spoil)
    t.expect(t.sbx("cp", spoiler, "s:spoil.py"))
    t.expect(s.run("printf 'as it was' > target; python3 spoil.py & p=$!"))
    for _ in range(20):
        done = s.run("cat > /dev/null", "--stdin", "-", "--timeout", "60s", stdin=b"typed" * 1000, timeout=50)
        # 0: it came too late, or the name was a file. 1: nothing could be opened. 130: another pipe stood there.
        t.true(done.status in (0, 1, 130) and "lost" not in done.errors, done.describe())
    t.expect(s.run("kill -9 $p; wait $p; cat target", timeout=30), out="as it was", err=None)
    t.expect(s.run("read x; echo $x", "--stdin", "-", stdin=b"again\n"), out="again\n")


REACHED = """
import os, sys, time
while not os.path.exists('go'): time.sleep(0.01)
reached = os.listdir('/run/sbx/input')
for number in ('0', '1'):
    try: os.open('/proc/%s/fd/%s' % (sys.argv[1], number), (os.O_RDONLY if number == '0' else os.O_WRONLY) | os.O_NONBLOCK)
    except OSError as e: reached.append(e.errno)
    else: reached.append('opened')
print(*reached, file=open('reached.', 'w'))
os.rename('reached.', 'reached')
"""


@case("no other process of a Python session comes to the stdin of a cell: by no name, and not through /proc as to its stdout", needs="python")
def stdin_out_of_reach(t):
    s = Session(t)
    t.expect(t.sbx("cp", t.file("reach.py", REACHED), "s:"))
    t.expect(s.run("import os, subprocess, sys; p = subprocess.Popen([sys.executable, 'reach.py', str(os.getpid())])"))
    cell = t.spawn([t.binary, "session", "run", "s", "--stdin", "-", "-c", "import getpass; getpass.getpass('? ')"], stdin=subprocess.PIPE)
    t.equal(os.read(cell.stderr.fileno(), 10), b"? ")
    t.expect(t.sbx("cp", t.file("go", ""), "s:"))
    t.wait_until(lambda: t.sbx("cp", "s:reached", str(t.dir / "reached")).status == 0, 20, "it has tried")
    t.equal(open(str(t.dir / "reached")).read(), f"{errno.ENXIO} opened\n")
    t.equal(cell.communicate(b"secret\n", timeout=20), (b"'secret'\n", b"\n"))


@case("a cell without --stdin cannot turn the echo of its user's terminal off; one with it does", needs="python", as_=("root",))
def echo_forged(t):
    s = Session(t)
    path = next(path for path in (os.path.join(s.place, name) for name in s.entries()) if stat.S_ISSOCK(os.stat(path).st_mode))
    code = "import gc; s = [o for o in gc.get_objects() if type(o).__name__ == 'Session' and hasattr(o, 'getpass_before')][0]; s.send('echo', on=False); 'said'"
    for stdin, echoes in ((False, 0), (True, 1)):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(20)
        client.connect(path)
        for kind, body in ((b"R", json.dumps({"op": "run", "stdin": stdin}).encode()), (b"C", code.encode())):
            client.sendall(kind + struct.pack("<I", len(body)) + body)
        kinds, stream = [], client.makefile("rb")
        while b"J" not in kinds:
            kinds.append(stream.read(1))
            stream.read(struct.unpack("<I", stream.read(4))[0])
        t.equal((kinds.count(b"h"), kinds.count(b"s")), (echoes, 1), f"echo and value with stdin={stdin}")
        client.close()


@case("an interrupt that init is late with is no later cell's: that one begins when it has been sent", needs=("python", "bash"))
def late_interrupt(t):
    for lang, waits, whole in (("python", "import os, time\nprint('on', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)",
                                "print('on', flush=True); time.sleep(0.5); print('whole')"),
                               ("bash", "echo on; until [ -e go ]; do sleep 0.01; done", "echo on; sleep 0.5; echo whole")):
        s = Session(t, name=lang, lang=lang)
        init = process_tree(s.show()["supervisor_pid"])[1]
        first = s.spawn(waits)
        t.equal(first.stdout.readline(), b"on\n")
        os.kill(init, signal.SIGSTOP)
        t.at_end(lambda: alive(init) and os.kill(init, signal.SIGCONT))
        t.expect(s.do("interrupt"))
        t.expect(t.sbx("cp", t.file("go", ""), lang + ":"))
        t.equal((first.wait(20), first.stdout.read()), (0, b""), "the cell that was to be interrupted")
        second = s.spawn(whole)
        t.wait_until(lambda: s.show()["waiting"] == 1 or select.select([second.stdout], [], [], 0)[0], 20, "the next cell waits, or runs")
        os.kill(init, signal.SIGCONT)
        out, err = second.communicate(timeout=20)
        t.equal((second.returncode, out), (0, b"on\nwhole\n"), err)


@case("a bash that init is late to let go on in its child begins no later cell: the next exit finds its heir as well", needs="bash")
def late_heir(t):
    s = Session(t, lang="bash")
    init = process_tree(s.show()["supervisor_pid"])[1]
    t.at_end(lambda: alive(init) and os.kill(init, signal.SIGCONT))
    for number in range(10):
        os.kill(init, signal.SIGSTOP)
        t.expect(s.run("n=$((n + 1)); exit 3"), status=3)
        second = s.spawn("n=$((n + 1)); exit 4")
        t.wait_until(lambda: s.show()["waiting"] == 1 or second.poll() is not None, 20, "the next cell waits, or has run")
        os.kill(init, signal.SIGCONT)
        t.equal(second.wait(20), 4)
        t.expect(s.run("echo $n"), out=f"{2 * number + 2}\n", err="^$")


@case("forks of a cell that is interrupted say so in it, and not in the next one; what it started in the background goes on", needs="python")
def forks_interrupted(t):
    s = Session(t)
    cell = s.spawn("import os, subprocess, time\nlater = subprocess.Popen(['sleep', '60'], start_new_session=True)\nfor _ in range(5):\n    if os.fork() == 0: break\n"
                   "try:\n    print('on', flush=True); time.sleep(60)\nfinally:\n    time.sleep(0.1); print('end', flush=True)")
    for _ in range(6):
        t.equal(cell.stdout.readline(), b"on\n")
    cell.send_signal(signal.SIGINT)
    out, err = cell.communicate(timeout=20)
    t.equal((cell.returncode, out, err.count(b"KeyboardInterrupt")), (130, b"end\n" * 6, 1), err)
    t.expect(s.run("time.sleep(0.3); later.poll() is None"), out="True\n", err="^$")


@case("what ends are told of a cell, its names and its log do not reach a terminal raw", needs="python")
def terminal_escapes(t):
    s = Session(t)
    t.expect(s.run(f"import os, subprocess\nprint({ESCAPE!r})\nopen({('a' + ESCAPE + chr(10) + 'b')!r}, 'w').close()\n"
                   f"subprocess.run(['sh', '-c', 'exec -a \"$0\" sleep 0', {ESCAPE!r}]);"))
    plain = t.sbx("session", "logs", "s")
    t.true(ESCAPE.encode() in plain.out, "a pipe gets the bytes")
    for words in (("logs", "s"), ("show", "s"), ("ls",)):
        parent, child = pty.openpty()
        process = t.spawn([t.binary, "session", *words], stdin=subprocess.DEVNULL, stdout=child, stderr=child)
        os.close(child)
        seen = b""
        while True:
            try:
                part = os.read(parent, 65536)
            except OSError:
                break
            if not part:
                break
            seen += part
        os.close(parent)
        process.wait(20)
        t.true(seen and b"\x1b" not in seen and b"\x07" not in seen, f"{words}: {seen!r}")
    done = t.sbx("cp", "s:/box", t.mkdir("back", 0o755))
    t.true(b"\x1b" not in done.err, done.err)
    for word in (ESCAPE, "a\nb", "../x", "a/b", "-x", ""):
        done = t.sbx("session", "start", "--name", word)
        t.true(done.status == 2 and b"\x1b" not in done.err, done.describe())
        done = t.sbx("session", "show", "--", word) if word.startswith("-") else t.sbx("session", "show", word)
        t.true(done.status == 2 and b"\x1b" not in done.err, done.describe())


@case("cp leaves out FIFOs, sockets and links to devices, copes with a sparse file and a tree too deep, and ends", needs="python", seconds=60)
def cp_hostile(t):
    s = Session(t)
    t.expect(s.run("import os, socket\nos.mkdir('t'); os.chdir('t')\nos.mkfifo('fifo')\nsocket.socket(socket.AF_UNIX).bind('sock')\n"
                   "os.symlink('/dev/zero', 'zero'); os.symlink('/proc/self/mem', 'mem'); os.symlink('..', 'up')\n"
                   "f = open('sparse', 'wb'); f.truncate(200 << 20); f.close()\nopen('empty', 'w').close()\n"
                   "top = os.getcwd()\nfor i in range(300): os.mkdir('d'); os.chdir('d')\nos.chdir(top)"))
    back = t.mkdir("back", 0o755)
    done = t.expect(t.sbx("cp", "s:/box/t", back, timeout=50), status=1)
    for word in ("fifo", "sock", "zero", "mem", "up"):
        t.match(done.errors, f"/{word}' is left out")
    t.match(done.errors, "nested too deeply")
    copied = os.path.join(back, "t")
    t.equal(sorted(os.listdir(copied)), ["d", "empty", "sparse"])
    t.equal(os.stat(os.path.join(copied, "sparse")).st_size, 200 << 20)
    for name in ("fifo", "sock", "zero", "mem"):
        t.expect(t.sbx("cp", f"s:t/{name}", os.path.join(back, name), timeout=10), err=None, status=None)
        t.true(not os.path.lexists(os.path.join(back, name)), f"{name} was copied")
    t.expect(t.sbx("cp", "s:/dev/zero", os.path.join(back, "z"), timeout=10), err=None, status=None)
    t.expect(t.sbx("cp", "s:/proc/self/environ", os.path.join(back, "e"), timeout=10), err=None, status=None)
    t.true(not os.path.lexists(os.path.join(back, "z")) and not os.path.lexists(os.path.join(back, "e")), "devices and /proc")


def archive(t, name, *members, tail=b""):
    path = os.path.join(t.mkdir("archives", 0o755), name)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content) if content is not None else None)
    with open(path, "wb") as file:
        file.write(buffer.getvalue() + tail)
    return path


def member(name, content=b"x", kind=tarfile.REGTYPE, target="", mode=0o644):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, mode
    info.size = len(content) if kind == tarfile.REGTYPE else 0
    return info, content if kind == tarfile.REGTYPE else None


@case("restore takes no place outside, no link, no device, no set-id bit; of a name twice the last counts", needs="python")
def hostile_archives(t):
    s = Session(t)
    for name in ("../out", "/tmp/out", "a/../../out"):
        t.expect(t.sbx("session", "restore", "s", archive(t, "bad.tar", member(name))), status=2, err="leads out of it|absolute")
    t.expect(s.run("import os; [p for p in ('/out', '/tmp/out') if os.path.lexists(p)]"), out="[]\n")
    mixed = archive(t, "mixed.tar", member("link", kind=tarfile.SYMTYPE, target="/etc"), member("hard", kind=tarfile.LNKTYPE, target="link"),
                    member("dev", kind=tarfile.CHRTYPE), member("fifo", kind=tarfile.FIFOTYPE), member("suid", mode=0o6755),
                    member("twice", b"1"), member("twice", b"2"), member("dir/x"), member("n\n\x1b[1m"))
    done = t.expect(t.sbx("session", "restore", "s", mixed), status=1, err="'link' is left out")
    t.true("\x1b" not in done.errors, done.errors)
    t.expect(s.run("import os\n(sorted(os.listdir('.')), open('twice').read(), oct(os.stat('suid').st_mode))"),
             out="(['dir', 'n\\n\\x1b[1m', 'suid', 'twice'], '2', '0o100755')\n")
    # A link that the session itself put in the way is not followed.
    t.expect(s.run("import os, shutil; shutil.rmtree('dir'); os.mkdir('/tmp/elsewhere'); os.symlink('/tmp/elsewhere', 'dir')"))
    t.expect(t.sbx("session", "restore", "s", archive(t, "one.tar", member("dir/y"))), status=1, err="dir")
    t.expect(s.run("os.listdir('/tmp/elsewhere')"), out="[]\n")


@case("restore of a bomb ends at the session's disk; of a truncated or scribbled archive, with a message", needs="python", seconds=60)
def archive_bombs(t):
    s = Session(t, "--disk", "8M")
    info, _ = member("big")
    info.size = 1 << 30
    path = os.path.join(t.mkdir("archives", 0o755), "bomb.tar")
    with open(path, "wb") as file:
        file.write(info.tobuf(tarfile.GNU_FORMAT))
        file.truncate(1 << 30)
    t.expect(t.sbx("session", "restore", "s", path, timeout=40), status=1, err="No space left")
    t.expect(s.run("import os; os.listdir('.')"), out="[]\n")
    good = archive(t, "good.tar", member("f", b"y" * 3000))
    with open(good, "rb") as file:
        data = file.read()
    for cut in (1, 511, 513, 2000):
        with open(good, "wb") as file:
            file.write(data[:cut])
        t.expect(t.sbx("session", "restore", "s", good), status=2, err="this is no archive")
    with open(good, "wb") as file:
        file.write(data[:124] + b"777777777777" + data[136:])
    t.expect(t.sbx("session", "restore", "s", good), status=2, err="a header is wrong")
    t.expect(t.sbx("session", "restore", "s", "/dev/zero"), status=0, err="0 files restored")


@case("a cell that opens all the descriptors it may leaves room for the stdin of the next one", needs=("python", "bash"))
def descriptors_used_up(t):
    for lang, code, read in (("python", "import os\nheld = []\ntry:\n  while True: held.append(os.open('/dev/null', os.O_RDONLY))\nexcept OSError: pass", "input()"),
                             ("bash", "while exec {fd}</dev/null; do held+=($fd); done 2>/dev/null", "read x; echo \"'$x'\"")):
        s = Session(t, name=lang, lang=lang)
        for _ in range(3):
            t.expect(s.run(code), err="^$")
            t.expect(s.run(read, "--stdin", "-", stdin=b"typed\n"), out="'typed'\n", err="^$")
    s.name = "python"
    t.expect(s.run("for fd in held: os.close(fd)\nos.system('cat')", "--stdin", "-", stdin=b"to a child\n"), out="to a child\n0\n")


@case("where not one more process may be had a cell of bash runs all the same, and its state is kept", needs=("bash", "python"), seconds=60)
def no_process_left(t):
    s = Session(t, "--pids", "16", lang="bash")
    t.expect(s.run("x=kept"))
    fill = "import subprocess\ntry:\n  while True: subprocess.Popen(['sleep', '1000'])\nexcept BlockingIOError: print('full', flush=True)\ninput()"
    filler = t.spawn([t.binary, "session", "exec", "s", "--", "python3", "-c", fill], stdin=subprocess.PIPE)
    t.equal(filler.stdout.readline(), b"full\n")
    for _ in range(3):
        t.expect(s.run("echo $x", timeout=10), out="kept\n", err=None)
        t.expect(s.run("[[ $x = lost ]]", timeout=10), status=1, err=None)
    filler.communicate(b"\n", timeout=20)
    t.expect(s.run("echo $x"), out="kept\n", err=None)


@case("a session whose working directory was closed goes on when its interpreter dies, and its files are there", needs="bash")
def directory_closed(t):
    s = Session(t, lang="bash")
    t.expect(s.run("echo kept > file; chmod 0 /box"))
    t.expect(s.exec("true"), status=125, err="working directory.*EACCES")
    t.expect(s.run("kill -9 $BASHPID"), status=137, err="state was lost")
    t.expect(s.run("pwd; chmod 755 /box; cat /box/file"), out="/\nkept\n")
    t.expect(s.do("restart"))
    t.expect(s.run("pwd"), out="/box\n")


@case("fifty clients at once: each gets its own answer", needs="python", seconds=90)
def crowd(t):
    s = Session(t)
    t.expect(s.run("n = 0"))
    answers = {}

    def one(number):
        if number % 5 == 0:
            answers[number] = s.exec("echo", str(number), timeout=80)
        elif number % 5 == 1:
            answers[number] = t.sbx("session", "ls", timeout=80)
        else:
            answers[number] = s.run(f"n += 1; print({number})", timeout=80)
    threads = [threading.Thread(target=one, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, done in answers.items():
        if number % 5 == 1:
            t.expect(done, out=None)
        elif number % 5 == 0 and done.status == 125:
            t.match(done.errors, "too many programs")  # twelve at a time
        else:
            t.expect(done, out=f"{number}\n", err=None)
    t.expect(s.run("n"), out="30\n")


@case("requests that make no sense end their connection and nothing else", needs="python", as_=("root",))
def nonsense(t):
    s = Session(t)
    path = next(path for path in (os.path.join(s.place, name) for name in s.entries()) if stat.S_ISSOCK(os.stat(path).st_mode))
    for data in (b"\0" * 100, b"R" + struct.pack("<I", 0xFFFFFFFF), b"R" + struct.pack("<I", 4) + b"null", b"I" * 1000, os.urandom(4096)):
        client = socket.socket(socket.AF_UNIX)
        client.connect(path)
        client.sendall(data)
        client.close()
    t.expect(s.run("6 * 7"), out="42\n")
