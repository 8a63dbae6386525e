#!/usr/bin/env python3
"""build_image.py NAME…: makes the root file system, kernel and initrd of a guest, unless the cache has them already.

    tests/guest/build_image.py debian12 debian13

Prints the directory of each image. An image is named by the digest of everything that went into it (`build` below, the files
in `image/`, the suite, the packages), so a change makes a new one and an unchanged one is found at once. No loop device, no mount on the host: mmdebstrap
unpacks, and `mke2fs -d` packs the tree from within mmdebstrap's last hook, which sees the right owners both as root and
in the user namespace of an ordinary user.

The mirror is the host's own Debian mirror (as apt knows it), or $SBX_GUEST_MIRROR, or mmdebstrap's own choice.
"""

import argparse
import fcntl
import hashlib
import inspect
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

PACKAGES = ("systemd systemd-sysv dbus dbus-user-session libpam-systemd udev kmod initramfs-tools zstd "
            "linux-image-cloud-amd64 python3 procps iproute2 util-linux bash perl-base tar login passwd mount").split()
PODMAN = "podman crun uidmap fuse-overlayfs slirp4netns netavark aardvark-dns catatonit".split()
PEERS = "bubblewrap firejail".split()

UNUSED_SECONDS = 14 * 24 * 3600

# NAME: (suite, more packages)
GUESTS = {
    "debian12": ("bookworm", []),
    "debian13": ("trixie", []),
    "debian12-podman": ("bookworm", PODMAN),
    "debian13-podman": ("trixie", PODMAN),
    "debian12-peers": ("bookworm", PEERS),
    "debian13-peers": ("trixie", PEERS),
}


def cache_folder():
    """build/guest-cache, where `make clean` does not reach the user's own cache; $SBX_GUEST_CACHE puts it elsewhere
    (a directory that a CI service keeps between runs)."""
    chosen = os.environ.get("SBX_GUEST_CACHE")
    return pathlib.Path(chosen).resolve() if chosen else ROOT / "build" / "guest-cache"


def digest(name):
    suite, more = GUESTS[name]
    sha = hashlib.sha256()
    for part in [suite, *PACKAGES, *more]:
        sha.update(part.encode() + b"\0")
    sha.update(inspect.getsource(build).encode())  # not all of this file: a further guest leaves the others as they are
    for path in sorted((HERE / "image").iterdir()):
        sha.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return sha.hexdigest()[:16]


def host_mirror():
    """The first mirror of Debian proper that this host's apt is configured for; None: it has none."""
    if os.environ.get("SBX_GUEST_MIRROR"):
        return os.environ["SBX_GUEST_MIRROR"]
    try:
        text = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)|$(ORIGIN)|$(LABEL)|$(COMPONENT)",
                               "Created-By: Packages"], check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    for line in text.splitlines():
        uri, _, rest = line.partition("|")
        if rest == "Debian|Debian|main":
            return uri
    return None


def build(name, folder):
    suite, more = GUESTS[name]
    image = HERE / "image"
    partial = pathlib.Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        os.chmod(partial, 0o777)  # in the user namespace of an ordinary user the hook is another uid
        log = folder.parent / f"{name}.log"
        mirror = host_mirror()
        command = [
            "mmdebstrap", "--variant=apt", "--format=null", "--skip=output/dev,check/qemu",
            "--components=main", "--include=" + ",".join(PACKAGES + more),
            "--aptopt=Acquire::Languages \"none\"", "--aptopt=APT::Install-Recommends \"false\"",
            "--dpkgopt=force-unsafe-io", "--dpkgopt=path-exclude=/usr/share/doc/*",
            "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
            # The initrd is unpacked under emulation: the format that unpacks quickest, and no more modules than a
            # virtio disk needs.
            "--essential-hook=mkdir -p \"$1/etc/initramfs-tools/conf.d\" && "
            "printf 'COMPRESS=lz4\\nMODULES=list\\nFSTYPE=ext4\\nRESUME=none\\n' > \"$1/etc/initramfs-tools/conf.d/guest\" && "
            "printf 'virtio_pci\\nvirtio_blk\\next4\\n' > \"$1/etc/initramfs-tools/modules\"",
            f"--customize-hook=sh '{image}/customize.sh' \"$1\" '{image}' '{partial}'",
            suite, "/dev/null", *([mirror] if mirror else []),
        ]
        with open(log, "wb") as out:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                  timeout=1500)
        if done.returncode != 0:
            tail = log.read_text(errors="replace").splitlines()[-40:]
            raise SystemExit("\n".join(tail) + f"\nbuild_image.py: mmdebstrap failed ({done.returncode}); all of it: {log}")
        os.chmod(partial, 0o755)
        os.rename(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def ensure(name, quiet=False):
    """The image's directory: root.img, vmlinuz, initrd.img."""
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"{name}-{digest(name)}"
    with open(cache / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / "root.img").exists():
            os.utime(folder)  # it is in use: see below
            return folder
        subprocess.run([str(ROOT / "tools" / "install-deps.sh"), "guest"], check=True)
        began = time.monotonic()
        if not quiet:
            print(f"building the image of {name} (once; {folder})", file=sys.stderr, flush=True)
        build(name, folder)
        # Trees with other recipes may share the cache: only what nobody has booted for long is of no use to anyone.
        for old in cache.glob(f"{name}-*"):
            if old.is_dir() and len(old.name) == len(folder.name) and time.time() - old.stat().st_mtime > UNUSED_SECONDS:
                shutil.rmtree(old, ignore_errors=True)
        if not quiet:
            print(f"built in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return folder


def main():
    parser = argparse.ArgumentParser(description="Makes guest images.")
    parser.add_argument("names", nargs="+", choices=sorted(GUESTS), metavar="NAME", help=", ".join(sorted(GUESTS)))
    for name in parser.parse_args().names:
        print(ensure(name))


if __name__ == "__main__":
    main()
