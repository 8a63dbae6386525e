# CPU time in processes that nobody waits for: with SIGCHLD ignored the kernel hands their time to nobody.
import os, signal, time
print("started", flush=True)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
end = time.time() + 600
while time.time() < end:
    for _ in range(8):
        if os.fork() == 0:
            x = 0
            for i in range(200000):
                x += i
            os._exit(0)
    try:
        os.wait()
    except ChildProcessError:
        pass
print("not stopped", flush=True)
