"""The test-suites that interpreters come with, out of Debian's source packages: apt fetches them into a folder of their own and checks them
against the archive's signed index. Nothing is installed, and the machine's package lists stay as they are.

    tests/differential/sources.py FOLDER PACKAGE PATH…     unpacks these paths of a package into FOLDER, unless it is there

The mirror is the host's own Debian mirror, or $SBX_GUEST_MIRROR (tests/guest).
"""

import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "guest"))
import build_image  # noqa: E402

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SUITE = "bookworm"  # whose interpreters `tools/install-deps.sh differential` installs on Debian 12


class Unavailable(Exception):
    """The archive cannot be reached: says why."""


def run(*command, seconds=300, **more):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=seconds, **more)
    if done.returncode != 0:
        raise Unavailable(f"{command[0]} failed: " + (done.stderr or done.stdout).strip()[-600:])
    return done.stdout


def apt(cache):
    """apt-get with lists of its own below `cache`, made once."""
    home = cache / "apt"
    options = ["apt-get", "-q", "-o", f"Dir::Etc::SourceList={home}/sources.list", "-o", "Dir::Etc::SourceParts=/dev/null", "-o", f"Dir::State::Lists={home}/lists",
               "-o", f"Dir::State::Status={home}/status", "-o", f"Dir::Cache={home}/cache", "-o", "APT::Sandbox::User=", "-o", "Debug::NoLocking=1",
               "-o", "Acquire::Languages=none", "-o", "Acquire::Retries=3"]
    if not (home / "ready").exists():
        mirror = build_image.host_mirror()
        if not mirror or not os.path.exists(KEYRING):
            raise Unavailable("needs a Debian mirror, and the package debian-archive-keyring")
        for name in ("lists/partial", "cache/archives/partial"):
            (home / name).mkdir(parents=True, exist_ok=True)
        (home / "status").write_text("")
        (home / "sources.list").write_text(f"deb-src [signed-by={KEYRING}] {mirror} {SUITE} main\n")
        run(*options, "update")
        (home / "ready").write_text("")
    return options


def ensure(cache, package, paths):
    """The folder that holds `paths` of the upstream part of a source package."""
    cache = pathlib.Path(cache)
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / package
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder
        partial = pathlib.Path(tempfile.mkdtemp(prefix=f".{package}-", dir=cache))
        try:
            got = partial / "got"
            tree = partial / "tree"
            got.mkdir()
            tree.mkdir()
            run(*apt(cache), "source", "--tar-only", package, cwd=got)
            archive = min((path for path in got.iterdir() if ".orig.tar." in path.name and not path.name.endswith(".asc")), key=lambda path: len(path.name))
            run("tar", "-xf", archive, "-C", tree, "--strip-components=1", "--no-same-owner", "--wildcards", *(f"*/{path}" for path in paths))
            run("chmod", "-R", "u+rwX,go+rX,go-w", tree)
            os.rename(tree, folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder


if __name__ == "__main__":
    try:
        print(ensure(sys.argv[1], sys.argv[2], sys.argv[3:]))
    except Unavailable as problem:
        sys.exit(f"sources.py: {problem}")
