import os

import trying

for name in ("null", "zero", "full", "random", "urandom", "tty"):
    trying.attempt(f"times of {name}", os.utime, "/dev/" + name)
    trying.attempt(f"mode of {name}", os.chmod, "/dev/" + name, 0o600)
    trying.attempt(f"removing {name}", os.unlink, "/dev/" + name)
trying.attempt("an attribute of null", os.setxattr, "/dev/null", "user.x", b"x")
trying.attempt("writing to null", lambda: open("/dev/null", "w").write("x"))
