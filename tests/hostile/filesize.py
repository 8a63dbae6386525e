# One file beyond the file size limit; SIGXFSZ is ignored by Python, so the errno is seen.
total = 0
try:
    with open("/tmp/big", "wb", buffering=0) as file:
        while total < 1 << 31:
            total += file.write(b"x" * (1 << 20))
except OSError as error:
    print("errno", error.errno, "MiB", total >> 20)
