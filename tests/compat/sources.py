"""bubblewrap's source packages of Debian, for comparison: fetched by apt into a folder of their own, checked against the
archive's signed index, unpacked with Debian's patches, and the newer one built. Nothing is installed, and the machine's package lists
stay as they are.

    tests/compat/sources.py FOLDER      fetches and builds into FOLDER, unless all is there

The mirror is the host's own Debian mirror, or $SBX_GUEST_MIRROR (tests/guest).
"""

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "guest"))
import build_image  # noqa: E402

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# version of the suite: where it is from. The archive says which package that is today.
SUITES = {"0.12": "trixie", "0.8": "bookworm"}
BASELINE = "0.12"  # what we equal and report; built, so that both run on the same host


class Unavailable(Exception):
    """The archive cannot be reached: says why."""


def run(*command, seconds=180, **more):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, **more)
    if done.returncode != 0:
        raise Unavailable(f"{command[0]} failed: " + (done.stderr or done.stdout).strip()[-600:])
    return done.stdout


def fetch(suite, mirror, folder):
    """The two archives of the source package: upstream's text and Debian's changes. The .dsc is not needed: apt knows
    the files' digests from the index that the release's signature covers."""
    apt = folder / "apt"
    for name in ("lists/partial", "cache/archives/partial", "got"):
        (apt / name).mkdir(parents=True, exist_ok=True)
    (apt / "status").write_text("")
    (apt / "sources.list").write_text(f"deb-src [signed-by={KEYRING}] {mirror} {suite} main\n")
    options = ["-q", "-o", f"Dir::Etc::SourceList={apt}/sources.list", "-o", "Dir::Etc::SourceParts=/dev/null", "-o", f"Dir::State::Lists={apt}/lists",
               "-o", f"Dir::State::Status={apt}/status", "-o", f"Dir::Cache={apt}/cache", "-o", "APT::Sandbox::User=", "-o", "Debug::NoLocking=1",
               "-o", "Acquire::Languages=none"]
    run("apt-get", *options, "update")
    for part in ("--tar-only", "--diff-only"):
        run("apt-get", *options, "source", part, "bubblewrap", cwd=apt / "got")
    upstream = next((apt / "got").glob("*.orig.tar.*"))
    changes = next((apt / "got").glob("*.debian.tar.*"))
    tree = folder / "tree"
    tree.mkdir()
    run("tar", "-xf", upstream, "-C", tree, "--strip-components=1")
    run("tar", "-xf", changes, "-C", tree)
    for line in (tree / "debian" / "patches" / "series").read_text().split():
        run("patch", "-p1", "--batch", "-i", tree / "debian" / "patches" / line, cwd=tree)
    shutil.rmtree(apt)


def build(folder):
    """folder/build/bwrap and the helper of the suite, folder/build/tests/try-syscall."""
    off = [f"-D{feature}=disabled" for feature in ("man", "selinux", "bash_completion", "zsh_completion")]
    run("meson", "setup", *off, folder / "build", folder / "tree")
    run("ninja", "-C", folder / "build", "-j2", "bwrap", "tests/try-syscall")


def ensure(cache):
    """{version: folder with tree/, and for the baseline build/}."""
    cache = pathlib.Path(cache)
    cache.mkdir(parents=True, exist_ok=True)
    mirror = build_image.host_mirror()
    if not mirror or not os.path.exists(KEYRING):
        raise Unavailable("needs a Debian mirror, and the package debian-archive-keyring")
    recipe = hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()[:12]
    found = {}
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for version, suite in SUITES.items():
            folder = found[version] = cache / f"bubblewrap-{version}-{recipe}"
            if folder.exists():
                continue
            partial = pathlib.Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=cache))
            try:
                fetch(suite, mirror, partial)
                if version == BASELINE:
                    build(partial)
                os.chmod(partial, 0o755)
                os.rename(partial, folder)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    return found


if __name__ == "__main__":
    try:
        for name, where in ensure(sys.argv[1]).items():
            print(name, where)
    except Unavailable as problem:
        sys.exit(f"sources.py: {problem}")
