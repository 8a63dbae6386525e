# Writes until the disk is full, in one file of 32 MiB after another; says the errno and how much went in.
import sys
place, total, n = sys.argv[1], 0, 0
try:
    while total < 4 << 30:
        n += 1
        with open(f"{place}/f{n}", "wb", buffering=0) as file:
            for _ in range(32):
                total += file.write(b"x" * (1 << 20))
except OSError as error:
    print("errno", error.errno, "MiB", total >> 20)
    sys.exit(4)
print("not stopped")
