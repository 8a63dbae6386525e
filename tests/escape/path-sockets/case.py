import os
import socket

from escape import Attack, Control


def run(t):
    t.mkdir("services")
    path = str(t.dir / "services/sock")
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    os.chmod(path, 0o777)
    os.chmod(t.dir / "services", 0o755)
    server.listen(8)
    t.at_end(server.close)
    t.expect(t.probed("unix", path), out="ENOENT\n")
    t.expect(t.sbx("exec", "--mount", path, "--", "true"), status=2, err="socket")
    for place in ("/tmp", "/var/tmp", "/run", "/var", "/var/lib"):
        t.expect(t.sbx("exec", "--mount", place, "--", "true"), status=2, err="not shared")
    t.expect(t.sbx("exec", "--workspace", "/tmp", "--", "true"), status=2, err="not shared")
    overlay = t.probed("unix", "/box/sock", flags=["--workspace", "services:overlay"])
    t.expect(overlay, out="ECONNREFUSED\n")
    for policy in ("strict", "judge"):
        t.no_match(t.probed("unix", "/box/sock", flags=["--policy", policy, "--workspace", "services"]).text, "^ok$", policy)
    shown = t.probed("unix", "/box/sock", flags=["--workspace", "services"], result=True)
    if shown.result["isolation"]["landlock"]["abi"] >= 9:
        t.match(shown.text, "^EACCES$")
    else:
        t.match(shown.text, "^ok$", "the control")
    meant = t.probed("unix", path, flags=["--mount", path, "--allow-sensitive-mount"])
    t.expect(meant, out="ok\n")
    return "not there; a socket, /tmp, /run, /var are not shared; with :overlay ECONNREFUSED; with strict and judge refused", \
           "the directory shared with the default policy: " + shown.text.strip()


CASE = Attack("connect to a socket of the host by its path: engines, agents, buses", "42, 53", "the view of files; refusal of sockets and of directories that hold them; Landlock ABI 9", run=run,
              control=Control("the directory that holds it is shared (known, before Landlock ABI 9)"))
