# Memory by files in the private places.
import os
print("started", flush=True)
total = 0
for place in ("/box", "/tmp", "/dev/shm", os.environ["HOME"]):
    try:
        with open(place + "/fill", "wb", buffering=0) as file:
            for _ in range(4096):
                total += file.write(b"x" * (1 << 20))
    except OSError as error:
        print(place, error.errno, total >> 20, flush=True)
print("total", total >> 20, flush=True)
