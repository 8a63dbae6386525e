"""Sessions as who asks sees them: the terminal, names, words."""
import fcntl
import json
import os
import pty
import signal
import socket
import struct
import subprocess
import termios

from harness import case, children_of
from session_cases import SPIN, Person, Session


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
    person = Person(t, "session", "ls")  # for its terminal's sake
    person.rest()
    terminal, child = pty.openpty()
    t.at_end(lambda: os.close(terminal))
    person.terminal = terminal
    # A shell that stays in front when its job has stopped: bash with job control, waiting for a line.
    script = 'set -m; "$0" session attach s; echo "shell: $?"; read -r; fg >/dev/null; echo "ended: $?"'
    person.process = t.spawn(["setsid", "--ctty", "--wait", "bash", "-c", script, t.binary], stdin=child, stdout=child, stderr=child)
    os.close(child)
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
