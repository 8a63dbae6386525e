# Memory by many processes, each of them modest.
import os, time
print("started", flush=True)
for _ in range(64):
    if os.fork() == 0:
        block = bytearray(64 << 20)
        for i in range(0, len(block), 4096):
            block[i] = 1
        time.sleep(600)
        os._exit(0)
    time.sleep(0.02)
time.sleep(600)
print("not stopped", flush=True)
