# Memory that no process maps: memfds, written and never mapped.
import os, sys
print("started", flush=True)
kept, total = [], 0
try:
    for n in range(2048):
        fd = os.memfd_create(f"m{n}")
        kept.append(fd)
        for _ in range(16):
            total += os.write(fd, b"x" * (1 << 20))
except OSError as error:
    print("refused", error.errno, total >> 20, flush=True)
    sys.exit(3)
print("not stopped", total >> 20, flush=True)
