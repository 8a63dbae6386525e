import fcntl
import os
import struct
import tempfile

import trying

F_SETLEASE, F_SET_RW_HINT = 1024, 1036
path = "/share/file" if os.path.exists("/share/file") else tempfile.NamedTemporaryFile(delete=False).name
with open(path) as file:
    trying.attempt("F_SETLEASE", lambda: str(fcntl.fcntl(file, F_SETLEASE, fcntl.F_RDLCK)).replace("0", "ok"))
    trying.attempt("F_SET_RW_HINT", lambda: "ok" if fcntl.fcntl(file, F_SET_RW_HINT, struct.pack("Q", 3)) else "")
if path != "/share/file":
    os.unlink(path)
