"""Speaks with a driver over its protocol (docs/session-protocol.md), without sbx: what the host side would do."""
import json
import os
import pathlib
import select
import signal
import socket
import struct
import subprocess
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
DRIVERS = ROOT / "policies/lang/drivers"
MOST_FRAME = 16 << 20


class Gone(Exception):
    """The driver has ended."""


class Driver:
    receives = False  # its stdin as a descriptor

    def __init__(self, argv, environment=None, cwd=None, files=None, timeout=30):
        ours, theirs = socket.socketpair()
        self.socket, self.cell, self.out, self.err = ours, 0, b"", b""
        ours.settimeout(timeout)
        self.process = subprocess.Popen(
            [str(word).replace("{fd}", str(theirs.fileno())) for word in argv], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=cwd, start_new_session=True)
        theirs.close()
        self.readers = [threading.Thread(target=self._drain, args=(stream, name), daemon=True)
                        for stream, name in ((self.process.stdout, "out"), (self.process.stderr, "err"))]
        for reader in self.readers:
            reader.start()

    def _drain(self, stream, name):
        while True:
            data = os.read(stream.fileno(), 65536)
            if not data:
                return
            setattr(self, name, getattr(self, name) + data)

    def read_exactly(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(min(count - len(data), 1 << 20))
            if not part:
                raise Gone
            data += part
        return data

    def frame(self):
        head = self.read_exactly(8)
        assert set(head) <= set(b"0123456789abcdef"), head
        size = int(head, 16)
        assert size <= MOST_FRAME, size
        def refuse(word):
            raise AssertionError("not JSON: " + word)
        return json.loads(self.read_exactly(size).decode("utf-8"), parse_constant=refuse)

    def send(self, body):
        if isinstance(body, dict):
            body = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        self.socket.sendall(b"%08x" % len(body) + body)

    def start(self, code, stdin=None, **keys):
        self.cell += 1
        self.token = os.urandom(16).hex()
        if stdin is not None:
            keys["stdin"] = True if self.receives else stdin
        self.send({"type": "execute", "cell": self.cell, "token": self.token, **keys})
        self.send(code if isinstance(code, bytes) else code.encode("utf-8"))
        if keys.get("stdin") is True:
            descriptor = os.open(stdin, os.O_RDONLY) if isinstance(stdin, str) else stdin
            self.socket.sendmsg([b"\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", descriptor))])
            os.close(descriptor)

    def finish(self, acknowledge=False):
        """The frames of the cell that runs, checked as a host would."""
        frames = []
        while True:
            frame = self.frame()
            assert frame["cell"] == self.cell and frame["token"] == self.token, frame
            assert frame["seq"] == len(frames) + 1, frame
            frames.append(frame)
            if frame["type"] == "done":
                return frames
            if acknowledge:
                self.send({"type": "ack", "seq": frame["seq"]})

    def run(self, code, **keys):
        self.start(code, **keys)
        return self.finish(keys.get("ack", False))

    def interrupt(self):
        os.killpg(self.process.pid, signal.SIGINT)

    def interrupt_until_done(self):
        """As a host does: a signal in the instant before a call blocks is seen only when that returns."""
        self.interrupt()
        while not select.select([self.socket], [], [], 0.2)[0]:
            self.interrupt()
        return self.finish()

    def wait_for(self, stream, text):
        """Until the stream has that: for what has no frame."""
        import time
        end = time.monotonic() + 20
        while text not in getattr(self, stream):
            assert time.monotonic() < end, (text, self.out[-300:], self.err[-300:])
            time.sleep(0.005)

    def close(self):
        """stdout and stderr of all that is left."""
        try:
            self.send({"type": "shutdown"})
        except OSError:
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        for reader in self.readers:
            reader.join(10)
        self.process.stdout.close()
        self.process.stderr.close()
        self.socket.close()
        return self.out, self.err

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def python_driver(python="python3", *options, **keywords):
    driver = Driver([python, DRIVERS / "python_driver.py", "--fd", "{fd}", *options], **keywords)
    driver.receives = True
    return driver


def bash_driver(bash="bash", **keywords):
    return Driver([bash, "--norc", "--noprofile", DRIVERS / "bash_driver.sh", "{fd}"], **keywords)
