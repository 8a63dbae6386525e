import os
import signal

from escape import Attack, Control

CODE = r"""
import ctypes, os
L = ctypes.CDLL(None, use_errno=True)
number = 272 if os.uname().machine == "x86_64" else 97
log = open("/box/log", "w", buffering=1)
for i in range(400):
    answer = L.unshare(0x10000000)
    print("ok" if answer == 0 else ctypes.get_errno(), file=log, flush=True)
    if answer == 0: break
print("end", file=log, flush=True)
import time; time.sleep(30)
"""


def lines(t):
    try:
        return open(t.dir / "proj/log").read().split()
    except OSError:
        return []


def start(t, *flags):
    t.mkdir("proj", 0o777)
    if os.path.exists(t.dir / "proj/log"):
        os.unlink(t.dir / "proj/log")
    return t.spawn([t.binary, "run", "--lang", "python", "--workspace", "proj:rw", *flags, "-c", CODE])


def run(t):
    p = start(t)
    t.wait_until(lambda: lines(t), 10, "the first denied call")
    os.kill(p.pid, signal.SIGSTOP)
    t.wait_until(lambda: open(f"/proc/{p.pid}/stat").read().rsplit(")", 1)[1].split()[0] == "T", 5, "sbx to be stopped")
    os.kill(p.pid, signal.SIGCONT)
    t.wait_until(lambda: "end" in lines(t), 15, "the calls to be answered")
    t.equal(set(lines(t)) - {"1", "end"}, set(), "what the call answered")
    p.kill()
    p.wait()
    # Dead in the middle: nothing may pass, and nothing may live on.
    p = start(t)
    t.wait_until(lambda: lines(t), 10, "the first denied call")
    os.kill(p.pid, signal.SIGSTOP)
    os.kill(p.pid, signal.SIGKILL)
    p.wait()
    t.equal(set(lines(t)) - {"1", "38", "end"}, set(), "what the call answered when sbx was dead")
    p = start(t, "--policy", t.file("nest.toml", "[hardening]\nnested_userns = true\n"))
    t.wait_until(lambda: "end" in lines(t), 10, "the control")
    t.equal(lines(t)[0], "ok", "the control")
    p.kill()
    p.wait()
    return "stopped, continued, killed: only EPERM", "nested_userns = true: ok"


CASE = Attack("make a denied call while the supervisor, who reports it, is stopped or killed", "57, 58", "the answer does not depend on the supervisor: a filter that fails closed", run=run,
              needs="python", seconds=60, control=Control("[hardening] nested_userns = true"))
