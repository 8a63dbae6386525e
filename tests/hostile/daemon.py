# A double-forked daemon in a session of its own that ignores what can be ignored, stops a child, and stays.
import os, signal, sys, time
for number in range(1, 32):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in (0, 1, 2):
            os.close(fd)
        if os.fork() == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(600)
    os._exit(0)
time.sleep(0.2)
print("main done", flush=True)
if len(sys.argv) > 1:
    time.sleep(600)
