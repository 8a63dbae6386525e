import fcntl
import os
import tempfile

import trying

F_SETLEASE = 1024
path = "/share/file" if os.path.exists("/share/file") else tempfile.NamedTemporaryFile(delete=False).name
with open(path) as file:
    trying.attempt("F_SETLEASE", lambda: str(fcntl.fcntl(file, F_SETLEASE, fcntl.F_RDLCK)).replace("0", "ok"))
if path != "/share/file":
    os.unlink(path)
