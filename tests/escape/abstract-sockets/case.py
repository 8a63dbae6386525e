import os
import socket

from escape import Attack, Control


def run(t):
    name = f"sbx-test-{os.getpid()}-{t.user}-{t.dir.name}"
    servers = []
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        server = socket.socket(socket.AF_UNIX, kind)
        server.bind(f"\0{name}-{int(kind)}")
        server.listen(4)
        servers.append(server)
    t.at_end(lambda: [s.close() for s in servers])
    stream = f"@{name}-{int(socket.SOCK_STREAM)}"
    t.expect(t.probed("unix", stream), out="ECONNREFUSED\n")
    layered = t.probed("unix", stream, flags=["--net", "host"], result=True)
    if layered.result["isolation"]["landlock"]["abi"] >= 6:
        t.expect(layered, out="EPERM\n")
    off = t.file("off.toml", "[hardening]\nlandlock = false\n")
    shown = t.probed("unix", stream, flags=["--net", "host", "--policy", off])
    t.expect(shown, out="ok\n")
    return "ECONNREFUSED; with --net host, where Landlock is in force: " + layered.text.strip(), "--net host and landlock = false: ok"


CASE = Attack("connect to an abstract socket of the host", "41", "network namespace; with --net host Landlock's scope (ABI 6)", run=run,
              control=Control("--net host, [hardening] landlock = false"))
