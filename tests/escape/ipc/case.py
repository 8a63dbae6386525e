import os
import subprocess

from escape import Attack, Control


def run(t):
    key = str(0x5b000000 + os.getpid() % 100000 * 8 + (0 if t.is_root else 1))
    made = t.run([t.probe, "each", f"msg-create {key}", f"shm-create {key}"])
    t.at_end(lambda: [subprocess.run(["ipcrm", o, key], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for o in ("-Q", "-M")])
    t.no_match(made.text, ": E", "the host's own")
    done = t.probed("each", f"msgget {key}", f"shmget {key}", "mq /nothing")
    t.expect(done)
    t.no_match(done.text, ": ok$")
    shared = t.file("ipc.toml", "[sandbox]\nipc_namespace = false\n")
    shown = t.probed("each", f"msgget {key}", flags=["--policy", shared])
    t.expect(shown, out=f"msgget {key}: ok\n")
    return "ENOENT", "[sandbox] ipc_namespace = false: ok"


CASE = Attack("open System V queues and segments, POSIX queues of the host", "48", "IPC namespace", run=run, control=Control("[sandbox] ipc_namespace = false"))
