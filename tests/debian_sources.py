"""Debian's source packages, for tests: apt fetches them with lists of its own and checks them against the archive's signed index. Nothing
is installed, and the machine's package lists stay as they are. The mirror is the host's own Debian mirror, or $SBX_GUEST_MIRROR (tests/guest).
"""

import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "guest"))
import build_image  # noqa: E402

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
FRESH = 24 * 3600  # seconds after which the lists are fetched anew: the mirror may have newer packages


class Unavailable(Exception):
    """The archive cannot be reached: says why."""


def run(*command, seconds=300, **more):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=seconds, **more)
    if done.returncode != 0:
        raise Unavailable(f"{command[0]} failed: " + (done.stderr or done.stdout).strip()[-600:])
    return done.stdout


def _apt(cache, release):
    """apt-get with lists of its own below `cache`."""
    home = cache / f"apt-{release}"
    options = ["apt-get", "-q", "-o", f"Dir::Etc::SourceList={home}/sources.list", "-o", "Dir::Etc::SourceParts=/dev/null", "-o", f"Dir::State::Lists={home}/lists",
               "-o", f"Dir::State::Status={home}/status", "-o", f"Dir::Cache={home}/cache", "-o", "APT::Sandbox::User=", "-o", "Debug::NoLocking=1",
               "-o", "Acquire::Languages=none", "-o", "Acquire::Retries=3"]
    ready = home / "ready"
    if not ready.exists() or time.time() - ready.stat().st_mtime > FRESH:
        mirror = build_image.host_mirror()
        if not mirror or not os.path.exists(KEYRING):
            raise Unavailable("needs a Debian mirror, and the package debian-archive-keyring")
        for name in ("lists/partial", "cache/archives/partial"):
            (home / name).mkdir(parents=True, exist_ok=True)
        (home / "status").write_text("")
        (home / "sources.list").write_text(f"deb-src [signed-by={KEYRING}] {mirror} {release} main\n")
        run(*options, "update")
        ready.write_text("")
    return options


def fetch(cache, release, package, tree, paths=(), patched=False):
    """Unpacks the upstream part of a source package, or `paths` of it, into `tree`; `patched`: with Debian's changes. The .dsc is
    not needed: apt knows the files' digests from the index that the release's signature covers."""
    apt = _apt(cache, release)
    with tempfile.TemporaryDirectory(prefix=f".{package}-", dir=cache) as got:
        tree.mkdir()

        def unpack(part, kind, *more):
            run(*apt, "source", part, package, cwd=got)
            archive = min((path for path in pathlib.Path(got).iterdir() if kind in path.name and not path.name.endswith(".asc")), key=lambda path: len(path.name))
            run("tar", "-xf", archive, "-C", tree, "--no-same-owner", *more)
        unpack("--tar-only", ".orig.tar.", "--strip-components=1", *(["--wildcards"] if paths else []), *(f"*/{path}" for path in paths))
        if patched:
            unpack("--diff-only", ".debian.tar.")
            for line in (tree / "debian" / "patches" / "series").read_text().split():
                run("patch", "-p1", "--batch", "-i", tree / "debian" / "patches" / line, cwd=tree)
    run("chmod", "-R", "u+rwX,go+rX,go-w", tree)


def kept(cache, name, make):
    """The folder `name` of the cache; where it is not there yet, make(folder) fills it."""
    cache = pathlib.Path(cache)
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / name
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            partial = pathlib.Path(tempfile.mkdtemp(prefix=f".{name}-", dir=cache))
            try:
                make(partial)
                os.chmod(partial, 0o755)
                os.rename(partial, folder)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    return folder
