# 100,000 and more empty files.
import os, sys
n = 0
try:
    while n < 300000:
        if n % 1000 == 0:
            os.mkdir(f"d{n // 1000}")
        os.close(os.open(f"d{n // 1000}/{n}", os.O_CREAT | os.O_WRONLY))
        n += 1
except OSError as error:
    print("errno", error.errno, "files", n)
    sys.exit(5)
print("not stopped", n)
