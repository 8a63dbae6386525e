# Memory by shared anonymous mappings, touched by children that exit: 1 GiB that no living process has touched.
import mmap, os
print("started", flush=True)
maps = []
for _ in range(16):
    block = mmap.mmap(-1, 64 << 20, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
    maps.append(block)
    pid = os.fork()
    if pid == 0:
        for i in range(0, len(block), 4096):
            block[i] = 1
        os._exit(0)
    os.waitpid(pid, 0)
print("not stopped", flush=True)
