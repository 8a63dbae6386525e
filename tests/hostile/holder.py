# A grandchild keeps stdout and stderr open long after the program has ended.
import os, sys, time
print("before", flush=True)
if os.fork() == 0:
    os.setsid()
    time.sleep(600)
    os._exit(0)
sys.exit(3)
