
from escape import Attack, Control

# Queues signals to itself until the kernel has enough of them, then says how many, and waits.
CODE = r"""
import ctypes, signal, os, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
L = ctypes.CDLL(None, use_errno=True)
n = 0
while n < 400000 and L.sigqueue(os.getpid(), 40, None) == 0: n += 1
print(n, flush=True)
sys.stdin.read()
"""
TIMER = "import ctypes; t = ctypes.c_void_p(); print(ctypes.CDLL('librt.so.1', use_errno=True).timer_create(1, None, ctypes.byref(t)))"


def run(t):
    p = t.spawn([t.binary, "run", "--lang", "python", "-c", CODE])
    inside = int(p.stdout.readline())
    during = t.run(["/usr/bin/python3", "-c", TIMER]).text.strip()
    p.communicate(b"")
    t.equal(during, "0", f"the caller's timer_create while {inside} signals are queued inside")
    p = t.spawn(["/usr/bin/python3", "-c", CODE])
    outside = int(p.stdout.readline())
    after = t.run(["/usr/bin/python3", "-c", TIMER]).text.strip()
    p.communicate(b"")
    t.true(inside <= outside * 0.51, f"{inside} inside, {outside} outside")
    return "half of the signals that the caller may have; the caller's timers work", f"outside, all of them: timer_create gives {after}"


CASE = Attack("use up what the kernel counts for the caller's user: queued signals and timers, message queue bytes, locked memory", "67, 76",
              "rlimits at half of the caller's", run=run, needs="python", alone=True, control=Control("the same program outside", how="outside"))
