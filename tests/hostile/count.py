# How many processes there can be at once, the program itself among them; they sleep and are ended.
import os
import signal
import time
pids = []
try:
    while len(pids) < 5000:
        pid = os.fork()
        if pid == 0:
            time.sleep(600)
            os._exit(0)
        pids.append(pid)
except OSError as error:
    print("errno", error.errno, "processes", len(pids) + 1, flush=True)
for pid in pids:
    os.kill(pid, signal.SIGKILL)
