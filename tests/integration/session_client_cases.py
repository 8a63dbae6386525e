"""Sessions as who asks sees them: the terminal, what cp, save and restore leave out, break off and leave behind, names, words."""
import fcntl
import io
import json
import os
import signal
import socket
import struct
import subprocess
import tarfile
import termios

from harness import case, children_of
from session_cases import SPIN, Person, Session

TERABYTE = 1 << 40


class Host:
    """A session `s` whose supervisor is this test."""

    def __init__(self, t):
        runtime = t.mkdir("run", 0o700)
        t.base_env["XDG_RUNTIME_DIR"] = runtime
        stem = "run/sbx/sessions/" + "0" * 16
        t.file(stem + ".json", json.dumps({"name": "s", "language": "python", "pid": os.getpid(), "created": 1, "warm": ""}), 0o600)
        self.lock = open(t.file(stem + ".lock", b"", 0o600), "rb")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        t.at_end(self.lock.close)
        self.listener = socket.socket(socket.AF_UNIX)
        t.at_end(self.listener.close)
        for name in ("run/sbx", "run/sbx/sessions"):
            t.mkdir(name, 0o700)
        path = str(t.dir / stem) + ".sock"
        self.listener.bind(path)
        self.listener.listen()
        self.listener.settimeout(t.slow(20))
        t.own(path)

    def accept(self, t):
        """The connection of a cell, when its code has come."""
        while True:
            link, _ = self.listener.accept()
            link.settimeout(t.slow(20))
            t.at_end(link.close)
            if self.take(link) is not None and self.take(link) is not None:  # not one that only looks
                return link

    def take(self, link):
        head = link.recv(5, socket.MSG_WAITALL)
        return (head[:1], link.recv(struct.unpack("<I", head[1:])[0], socket.MSG_WAITALL)) if len(head) == 5 else None

    def tell(self, link, kind, body=b""):
        link.sendall(kind + struct.pack("<I", len(body)) + body)


def echoes(person):
    return bool(termios.tcgetattr(person.terminal)[3] & termios.ECHO)


def client_of(t, person):
    """The pid of sbx, which setsid has started."""
    return t.wait_until(lambda: children_of(person.process.pid), 10, "sbx runs")[0]


# ---- the terminal ------------------------------------------------------------------------------------------------------

@case("a session that hides what is typed is heard by a client that sends input, and by no other")
def echo_unasked(t):
    host = Host(t)
    for words, hears in ((("--stdin", "-"), True), ((), False)):
        person = Person(t, "session", "run", "s", *words, "-c", "x")
        link = host.accept(t)
        host.tell(link, b"h", b"0")
        host.tell(link, b"o", b"told\n")
        person.until(b"told")
        t.equal(echoes(person), not hears, f"the terminal's echo with {words}")
        host.tell(link, b"J", b'{"exit_status":0}')
        t.equal(person.process.wait(15), 0, "its status")
        t.true(echoes(person), "the echo is back")


@case("a session that does not answer: the third SIGTERM ends the client, and the terminal has its echo")
def unanswered(t):
    host = Host(t)
    person = Person(t, "session", "attach", "s")
    person.until(b"s> ")
    person.types(b"x\n")
    link = host.accept(t)
    host.tell(link, b"h", b"0")
    t.wait_until(lambda: not echoes(person), 10, "the echo is off")
    for _ in range(2):
        os.kill(client_of(t, person), signal.SIGTERM)
        t.equal(host.take(link), (b"I", b""), "what the session is told")
        t.true(not echoes(person), "the client is gone")
    os.kill(client_of(t, person), signal.SIGTERM)
    t.true(b"did not answer" in person.rest(), "what is said")
    t.equal(person.process.wait(15), 128 + signal.SIGTERM, "its status")
    t.true(echoes(person), "the echo is back")


def ask_secret(t):
    person = Person(t, "session", "attach", "s")
    person.until(b"s> ")
    t.true(echoes(person), "the control: at the prompt it echoes")
    person.types(b"import getpass; p = getpass.getpass()\n")
    person.until(b"Password: ")
    t.wait_until(lambda: not echoes(person), 10, "the echo is off")
    return person


@case("SIGTERM, SIGHUP and SIGQUIT while a secret is typed: the cell is interrupted, attach ends with 128+N, the echo is back", needs="python")
def ended_unseen(t):
    s = Session(t)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        person = ask_secret(t)
        os.kill(client_of(t, person), number)
        person.rest()
        t.equal(person.process.wait(15), 128 + number, "its status")
        t.true(echoes(person), f"no echo after {number.name}")
    t.expect(s.run("'p' in globals()"), out="False\n")


@case("Ctrl-Z while a secret is typed gives the shell its echo back, fg takes it again, and the cell goes on", needs=("python", "bash"))
def stopped_unseen(t):
    s = Session(t)
    # A shell that stays in front when its job has stopped: bash with job control, waiting for a line.
    script = 'set -m; "$0" "$@"; echo "shell: $?"; read -r; fg >/dev/null; echo "ended: $?"'
    person = Person(t, "session", "attach", "s", before=("bash", "-c", script))
    person.until(b"s> ")
    person.types(b"import getpass; p = getpass.getpass()\n")
    person.until(b"Password: ")
    t.wait_until(lambda: not echoes(person), 10, "the echo is off")
    person.types(b"\x1a")
    person.until(b"shell: ")
    t.true(echoes(person), "the shell has no echo")
    person.types(b"\n")
    t.wait_until(lambda: not echoes(person), 10, "the echo is off again")
    person.types(b"geheim\n")
    t.true(b"geheim" not in person.until(b"s> "), "the secret was shown")
    t.true(echoes(person), "the echo is back")
    person.types(b"\x04")
    t.true(b"ended: 0" in person.rest(), "how it ended")
    t.expect(s.run("p"), out="'geheim'\n")


@case("Ctrl-C at attach's prompt forgets the line, or the lines, and nothing else: another's cell runs on", needs="python")
def prompt_interrupted(t):
    s = Session(t)
    cell = s.spawn("import os, time\nprint('on', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)")
    t.equal(cell.stdout.readline(), b"on\n")
    person = Person(t, "session", "attach", "s")
    person.until(b"s> ")
    person.types(b"print('half")
    person.until(b"half")
    person.types(b"\x03")
    person.until(b"\r\ns> ")
    person.types(b"for i in 'ab':\n")
    person.until(b"\r\n.  ")
    person.types(b"  print(i)\n")
    person.until(b"\r\n.  ")
    person.types(b"\x03")
    person.until(b"\r\ns> ")
    t.true(cell.poll() is None, "the other's cell has ended")
    t.expect(s.exec("touch", "/box/go"))
    t.equal(cell.wait(15), 0, "status of the other's cell")
    person.types(b"6 * 7\n")
    t.true(b"\r\n42\r\ns> " in person.until(b"42\r\ns> "), "the next cell")
    person.types(b"\x04")
    person.rest()
    t.equal(person.process.wait(15), 0, "status of attach")


@case("attach from a pipe ends at SIGINT with 130: the cell that runs is interrupted, the next ones are not begun", needs="python")
def piped_interrupted(t):
    s = Session(t)
    client = t.spawn([t.binary, "session", "attach", "s"], stdin=subprocess.PIPE)
    client.stdin.write(SPIN.encode() + b"\n\nx = 1\n")
    client.stdin.flush()
    t.equal(client.stdout.readline(), b"on\n")
    client.send_signal(signal.SIGINT)
    t.equal(client.wait(15), 130, "its status")
    t.expect(s.run("'x' in globals()"), out="False\n")
    # At the prompt, too.
    client = t.spawn([t.binary, "session", "attach", "s"], stdin=subprocess.PIPE)
    client.stdin.write(b"print('there', flush=True)\n")
    client.stdin.flush()
    t.equal(client.stdout.readline(), b"there\n")
    client.send_signal(signal.SIGTERM)
    t.equal(client.wait(15), 143, "its status")
    # In the middle of a cell, which is not run then.
    person = Person(t, "session", "attach", "s")
    person.until(b"s> ")
    person.types(b"if True:\n")
    person.until(b"\r\n.  ")
    person.types(b"  x = 1\n")
    person.until(b"\r\n.  ")
    os.kill(client_of(t, person), signal.SIGTERM)
    person.rest()
    t.equal(person.process.wait(15), 143, "its status at a terminal")
    t.expect(s.run("'x' in globals()"), out="False\n")


# ---- what was left out -------------------------------------------------------------------------------------------------

ODD = ("import os, socket\nos.mkdir('t')\nfor d in ('.', 't'):\n  os.mkfifo(d + '/fifo'); os.symlink('plain', d + '/link')\n"
       "  open(d + '/plain', 'w').write('p'); open(d + '/locked', 'w').close(); os.chmod(d + '/locked', 0)\n"
       "  socket.socket(socket.AF_UNIX).bind(d + '/sock')\nos.mkdir('closed'); os.chmod('closed', 0)")


@case("what was named itself and cannot be copied is an error: a FIFO, a socket, a link, a device, a file or directory without rights", needs="python")
def named_left_out(t):
    s = Session(t)
    t.expect(s.run(ODD))
    for path in ("fifo", "sock", "link", "locked", "closed", "/dev/null"):
        done = t.expect(t.sbx("cp", f"s:{path}", "out", timeout=10), status=2, out="")
        t.match(done.errors, f"^sbx: (cannot (copy|use) |)'.*{os.path.basename(path)}'")
        t.true(not os.path.lexists(t.dir / "out"), f"{path} made something")
    fifo = t.dir / "fifo"
    os.mkfifo(fifo)
    t.own(fifo)
    t.expect(t.sbx("cp", "fifo", "s:new", timeout=10), status=2, err="cannot copy 'fifo': no regular file")
    t.expect(t.sbx("cp", "/dev/null", "s:new", timeout=10), status=2, err="no regular file")
    t.expect(s.run("import os; os.path.lexists('new')"), out="False\n")


@case("what is left out of a tree is named and counted, and the status is 1: cp both ways, save, restore; -q is silent", needs="python")
def tree_left_out(t):
    s = Session(t)
    t.expect(s.run(ODD))
    done = t.expect(t.sbx("cp", "s:t", "back"), status=1, out="")
    for name in ("fifo", "link", "locked", "sock"):
        t.match(done.errors, f"^sbx: 't/{name}' is left out: ")
    t.equal(os.listdir(t.dir / "back"), ["plain"])
    t.expect(t.sbx("cp", "-q", "s:t", "quiet"), status=1, err="^$")
    t.expect(s.run("import os\nos.mkdir('many')\nfor i in range(30): os.mkfifo(f'many/{i}')"))
    t.expect(t.sbx("cp", "s:many", "many"), status=1, err="^sbx: and 10 more$")
    t.mkdir("host")
    os.mkfifo(t.dir / "host/fifo")
    t.file("host/file", "f")
    t.own(t.dir / "host/fifo")
    t.expect(t.sbx("cp", "host", "s:"), status=1, err="'host/fifo' is left out")
    t.expect(s.exec("ls", "host"), out="file\n")
    t.expect(s.do("save", "s.tar"), status=1, err="3 files saved, 39 left out")
    with tarfile.open(t.dir / "s.tar") as archive:
        t.equal(sorted(m.name for m in archive if m.isfile()), ["./host/file", "./plain", "./t/plain"])
    other = Session(t, name="o")
    t.expect(other.do("restore", "s.tar"), status=0, err="3 files restored;")
    with tarfile.open(t.dir / "links.tar", "w", format=tarfile.GNU_FORMAT) as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        archive.addfile(link)
    t.own(t.dir / "links.tar")
    t.expect(other.do("restore", "links.tar"), status=1, err="'link' is left out")


# ---- restore: all or nothing -------------------------------------------------------------------------------------------

def tar_of(t, name, *files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path, content in files:
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    t.file(name, buffer.getvalue())
    return buffer.getvalue()


KEPT = "import os\nsorted(os.listdir('.')), open('f').read(), sorted(os.listdir('d')), open('d/g').read()"
KEPT_IS = "(['d', 'f'], 'old', ['g', 'h'], 'old')\n"


@case("a restore that fails changes nothing and leaves nothing: cut anywhere, empty, too large, a name in the way", needs="python", seconds=60)
def restore_fails(t):
    s = Session(t, "--disk", "8M")
    t.expect(s.run("import os\nos.mkdir('d')\nfor n in ('f', 'd/g', 'd/h'): open(n, 'w').write('old')"))
    whole = tar_of(t, "a.tar", ("f", b"new" * 300), ("d/g", b"new"), ("e/i", b"new"))
    blocks = 512 * (1 + 2 + 1 + 1 + 1 + 1)  # up to the zeros that end it
    for size in (0, 1, 511, 512, 600, 2048, blocks - 512, blocks):
        t.file("a.tar", whole[:size])
        t.expect(s.do("restore", "a.tar"), status=2, err="it is empty" if size == 0 else "it ends early")
        t.expect(t.sbx("session", "restore", "s", "-", stdin=whole[:size]), status=2, err="this is no archive")
    t.file("a.tar", b"")
    tar_of(t, "large.tar", ("f", b"new"), ("large", b"x" * (9 << 20)))
    t.expect(s.do("restore", "large.tar"), status=1, err="No space left.*\n.*it needs room beside what is there")
    tar_of(t, "way.tar", ("d/g", b"new"), ("f/x", b"new"))
    t.expect(s.do("restore", "way.tar"), status=1, err="'f' is a directory in the archive, and in the session it is none")
    tar_of(t, "way.tar", ("d/g", b"new"), ("d/h", b"new"), ("d", b"new"))
    t.expect(s.do("restore", "way.tar"), status=1)
    t.expect(s.do("restore", "--max-size", "1K", "large.tar"), status=1, err="more than 1K altogether")
    t.expect(s.run(KEPT), out=KEPT_IS)
    # The control: whole, it replaces what it has and leaves the rest.
    t.file("a.tar", whole)
    t.expect(s.do("restore", "a.tar"), err="3 files restored")
    t.expect(s.run("open('f').read()[:3], open('d/g').read(), open('d/h').read(), os.listdir('e'), sorted(os.listdir('.'))"),
             out="('new', 'new', 'old', ['i'], ['d', 'e', 'f'])\n")


@case("a restore that a signal ends takes back what it has unpacked; what SIGKILL left is gone after the next", needs="python")
def restore_ended(t):
    s = Session(t)
    whole = tar_of(t, "a.tar", ("f", b"new" * 100000), ("g", b"new"))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        client = t.spawn([t.binary, "session", "restore", "s", "-"])
        client.stdin.write(whole[:100000])
        client.stdin.flush()
        t.wait_until(lambda: s.exec("sh", "-c", "ls -d .sbx-restore-*/f").text, 10, "it unpacks")
        client.send_signal(number)
        t.equal(client.wait(15), -number, "how it ended")
        t.equal(bool(s.exec("ls", "-A").text), number == signal.SIGKILL, "something is left")
    t.expect(s.do("restore", "a.tar"), err="2 files restored")
    t.expect(s.exec("ls", "-A"), out="f\ng\n")


@case("save to stdout and restore from stdin, one into the other; neither at a terminal; no file is called '-'", needs="python")
def piped_archive(t):
    s = Session(t)
    t.expect(s.run("open('f', 'w').write('text')"))
    Session(t, name="o")
    done = t.run(["/bin/bash", "-c", f"set -o pipefail; {t.binary} session save s - | {t.binary} session restore o -"])
    t.expect(done, out="", err="1 file restored")
    t.expect(t.sbx("session", "run", "o", "-c", "open('f').read()"), out="'text'\n")
    t.true(not os.path.exists(t.dir / "-"), "a file '-'")
    for verb in ("save", "restore"):
        person = Person(t, "session", verb, "s", "-")
        t.true(b"an archive is not" in person.rest(), f"{verb} at a terminal")
        t.equal(person.process.wait(15), 2, "its status")


# ---- holes -------------------------------------------------------------------------------------------------------------

HOLES = (f"f = open('s/holes', 'wb'); f.truncate({TERABYTE})\n"
         f"for at in (8192, 1 << 33, {TERABYTE} - 4096): f.seek(at); f.write(b'data' * 1024)\nf.close()\n"
         "f = open('s/pieces', 'wb')\nfor i in range(100): f.seek(i * 65536 + 4096); f.write(b'%04d' % i)\nf.truncate(100 * 65536); f.close()\n"
         f"open('s/empty', 'w').truncate({TERABYTE})")
LOOK = ("import os\nprint([(n, os.stat('s/' + n).st_size, os.stat('s/' + n).st_blocks < 2000) for n in sorted(os.listdir('s'))])")


def check_holes(t, folder):
    for name, size in (("holes", TERABYTE), ("pieces", 100 * 65536), ("empty", TERABYTE)):
        info = os.stat(f"{folder}/{name}")
        t.equal(info.st_size, size, f"size of {name}")
        t.true(info.st_blocks < 4000, f"{name} takes {info.st_blocks} blocks")
    with open(f"{folder}/holes", "rb") as file:
        for at, want in ((0, b"\0" * 4), (8192, b"data"), (1 << 33, b"data"), ((1 << 33) + 4096, b"\0" * 4), (TERABYTE - 4, b"data")):
            file.seek(at)
            t.equal(file.read(4), want, f"at {at}")
    with open(f"{folder}/pieces", "rb") as file:
        content = file.read()
    t.equal([content[i * 65536 + 4096:][:4] for i in range(100)], [b"%04d" % i for i in range(100)])
    t.equal(content.count(0), 100 * 65536 - 400 - sum(str(i).zfill(4).encode().count(0) for i in range(100)))


@case("files with holes, a terabyte long, cost what they hold: cp out and in, save, restore; GNU tar reads and writes them alike", needs="python")
def holes(t):
    s = Session(t, "--file-size", "none")
    t.expect(s.run("import os; os.mkdir('s')\n" + HOLES))
    t.expect(t.sbx("cp", "s:s", "out"))
    check_holes(t, t.dir / "out")
    t.expect(s.do("save", "s.tar"))
    t.true(os.stat(t.dir / "s.tar").st_size < 2 << 20, f"{os.stat(t.dir / 's.tar').st_size} bytes of archive")
    t.mkdir("tar")
    t.expect(t.run(["tar", "-xf", "s.tar", "-C", "tar"]))
    check_holes(t, t.dir / "tar/s")
    with tarfile.open(t.dir / "s.tar") as archive:
        t.equal(archive.getmember("./s/holes").size, TERABYTE, "its size for another reader")
    t.expect(t.run(["tar", "--format=gnu", "-S", "-cf", "gnu.tar", "-C", "tar", "."]))
    for name, source in (("o", "s.tar"), ("p", "gnu.tar")):
        other = Session(t, "--file-size", "none", name=name)
        t.expect(other.do("restore", source), err="3 files restored")
        t.expect(other.run(LOOK), out=f"[('empty', {TERABYTE}, True), ('holes', {TERABYTE}, True), ('pieces', {100 * 65536}, True)]\n")
        t.expect(t.sbx("cp", f"{name}:s", name + "-back"))
        check_holes(t, t.dir / (name + "-back"))
    t.expect(s.exec("rm", "-r", "s"))
    t.expect(t.sbx("cp", "out", "s:s"))
    t.expect(s.run(LOOK), out=f"[('empty', {TERABYTE}, True), ('holes', {TERABYTE}, True), ('pieces', {100 * 65536}, True)]\n")


@case("more than --max-size is an error that names it, and no part of the file is left", needs="python")
def too_much(t):
    s = Session(t)
    t.expect(s.run("open('f', 'wb').write(b'x' * (3 << 20));"))
    done = t.expect(t.sbx("cp", "--max-size", "2M", "s:f", "out"), status=1, err="more than 2M altogether")
    t.match(done.errors, "hint: --max-size allows more")
    t.true(not os.path.exists(t.dir / "out"), "a part is there")
    t.expect(s.do("save", "--max-size", "2M", "s.tar"), status=1, err="more than 2M altogether")
    t.equal([name for name in os.listdir(t.dir) if name.startswith("s.tar")], [])
    t.expect(t.sbx("cp", "--max-size", "lots", "s:f", "out"), status=2, err="flag --max-size")
    t.expect(t.sbx("cp", "--max-size", "3M", "s:f", "out"))
    t.expect(t.sbx("cp", "--max-size", "2M", "out", "s:g"), status=1, err="more than 2M")
    t.expect(s.exec("ls"), out="f\n")


@case("save that a signal ends leaves no part of an archive", needs="python")
def save_ended(t):
    s = Session(t)
    t.expect(s.run("open('f', 'wb').write(b'x' * (200 << 20));"))
    client = t.spawn([t.binary, "session", "save", "s", "s.tar"])
    t.wait_until(lambda: os.path.exists(t.dir / "s.tar.part") or client.poll() is not None, 10, "it writes")
    client.send_signal(signal.SIGTERM)
    t.true(client.wait(15) in (-signal.SIGTERM, 0), "how it ended")
    t.true(not os.path.exists(t.dir / "s.tar.part"), "a part is left")


# ---- names and words ---------------------------------------------------------------------------------------------------

@case("a name that could be the beginning of an id is refused; an id's first digits and a name find the same session", needs="python")
def names(t):
    s = Session(t, name="cafes")
    for name in ("cafe", "deadbeef", "abcdefabcdefabcd"):
        t.expect(t.sbx("session", "start", "--name", name), status=2, err="could be the beginning of another session's id")
    for word in ("cafes", s.id, s.id[:4]):
        t.equal(json.loads(t.expect(t.sbx("session", "show", word)).out)["id"], s.id)
    t.expect(t.sbx("session", "show", s.id[:3]), status=2, err="no session is called")


@case("exec takes its options before and behind the session; behind -- or the command all is the program's", needs="python")
def exec_words(t):
    s = Session(t)
    t.expect(t.sbx("session", "exec", "s", "--timeout", "300ms", "--", "sleep", "60"), status=124)
    t.expect(t.sbx("session", "exec", "s", "--timeout", "300ms", "sleep", "60"), status=124)
    t.expect(t.sbx("session", "exec", "s", "echo", "--timeout", "--", "x"), out="--timeout -- x\n")
    t.expect(t.sbx("session", "exec", "s", "--", "--timeout", "3"), status=127)
    t.expect(t.sbx("session", "exec", "s", "--timout", "3", "--", "true"), status=2, err="did you mean '?--timeout")
    t.expect(t.sbx("session", "exec", "s", "--timeout", "3"), status=2, err="no command given")
    t.expect(s.exec("true"))


@case("cp says how to name what was meant: the root, the working directory, a place without a name", needs="python")
def cp_words(t):
    s = Session(t)
    t.expect(s.run("open('f', 'w').write('text')"))
    t.expect(t.sbx("cp", "s:/", "out"), status=2, err="hint: name a directory in it, as in ID:/box")
    t.expect(t.sbx("cp", "s:.", "out"), status=2, err="hint: name the directory itself, as in ID:/box")
    done = t.expect(t.sbx("cp", "s:", "out"), status=2, err="which file of the session")
    hint = done.errors.rpartition("sbx cp ")[2].split()
    t.expect(t.sbx("cp", *hint))
    t.equal((t.dir / "out/f").read_text(), "text")
