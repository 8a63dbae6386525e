# Eight processes burn CPU time, none of them much; children that end hand their time to nobody who looks.
import os, time
print("started", flush=True)
for _ in range(8):
    if os.fork() == 0:
        end = time.time() + 600
        while time.time() < end:
            if os.fork() == 0:
                x = 0
                for i in range(300000):
                    x += i
                os._exit(0)
            os.wait()
        os._exit(0)
time.sleep(600)
print("not stopped", flush=True)
