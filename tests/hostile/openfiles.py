# Opens as many files as it can.
import os
fds = []
try:
    while len(fds) < 100000:
        fds.append(os.open("/dev/null", os.O_RDONLY))
except OSError as error:
    print("errno", error.errno, "highest", max(fds))
