#!/usr/bin/env python3
"""The packages of `make deb` and `make tarball`: made twice with the same bytes, and what they do to a system.

    tests/packages/run.py [--build build] [-k pattern] [-v] [--list]

Needs root, dpkg and a static busybox: the package is installed into throw-away roots (dpkg --root), whose shell is busybox,
where its scripts run after chroot(2). Nothing of the host's is changed. docs/install.md says what is promised.
"""

import argparse
import hashlib
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
APPLETS = "sh cat chmod cp echo env grep id ls mkdir mount mv pivot_root rm rmdir stat touch true umount".split()
PROFILE = "etc/apparmor.d/sbx"
CASES = []


class Failure(Exception):
    pass


def case(function):
    CASES.append(function)
    return function


def call(argv, status=0, **more):
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120,
                          check=False, **more)
    if done.returncode != status:
        raise Failure(f"{argv}: status {done.returncode}, wanted {status}\n{done.stdout}{done.stderr}")
    return done.stdout


def equal(got, want, what):
    if got != want:
        raise Failure(f"{what}:\n  got    {got}\n  wanted {want}")


def true(condition, what):
    if not condition:
        raise Failure(what)


def same_tree(got, want, what):
    differs = [f"{name}: {got.get(name)} instead of {want.get(name)}" for name in sorted(got.keys() | want.keys()) if got.get(name) != want.get(name)]
    true(not differs, what + ":\n  " + "\n  ".join(differs))


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Packages:
    """dist/ of one build, and a folder for what the cases make."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.deb, self.tarball = self.pack("deb"), self.pack("tarball")
        self.count = 0

    def pack(self, kind, **environment):
        said = call([ROOT / "packaging/package.sh", kind, self.build], env={**os.environ, **environment})
        return ROOT / said.split()[-1]

    def system(self, apparmor=False):
        self.count += 1
        return System(self.folder / f"root-{self.count}", apparmor)


class System:
    """A root with a shell and an empty dpkg database; with AppArmor 4 if asked for, whose tools note how they are called."""

    def __init__(self, root, apparmor):
        self.root = root
        for name in ("usr/bin", "etc", "proc", "dev", "tmp", "run", "var/lib/dpkg/updates", "var/lib/dpkg/info", "var/lib/dpkg/triggers"):
            (root / name).mkdir(parents=True, exist_ok=True)
        for name in ("bin", "sbin"):
            (root / name).symlink_to("usr/bin")
        shutil.copy(shutil.which("busybox"), root / "usr/bin/busybox")
        for name in APPLETS:
            (root / "usr/bin" / name).symlink_to("busybox")
        (root / "var/lib/dpkg/status").touch()
        os.mknod(root / "dev/null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        (root / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
        if apparmor:
            (root / "etc/apparmor.d/abi").mkdir(parents=True)
            (root / "etc/apparmor.d/abi/4.0").touch()
            self.tool("aa-enabled", "exit 0")
            self.tool("apparmor_parser", 'echo "$@" >> /tmp/parser')

    def tool(self, name, text):
        path = self.root / "usr/bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def parser_calls(self):
        notes = self.root / "tmp/parser"
        said = notes.read_text().splitlines() if notes.exists() else []
        notes.unlink(missing_ok=True)
        return said

    def dpkg(self, *words, status=0):
        # Of the host dpkg wants ldconfig and start-stop-daemon on its PATH; in the root they would never be called.
        return call(["dpkg", f"--root={self.root}", "--log=/dev/null", "--force-bad-path", "--force-unsafe-io", *words], status)

    def tree(self):
        """Every path with its kind, mode, owner and content, dpkg's own database left out."""
        found = {}
        for path in sorted(self.root.rglob("*")):
            name = str(path.relative_to(self.root))
            if name.startswith("var/lib/dpkg/"):
                continue
            info = path.lstat()
            content = os.readlink(path) if path.is_symlink() else digest(path) if path.is_file() else ""
            found[name] = (stat.filemode(info.st_mode), info.st_uid, info.st_gid, content)
        return found


@case
def made_twice(p):
    """made again, by another umask, at another time of the files, in another time zone: the same bytes"""
    first = digest(p.deb), digest(p.tarball)
    os.utime(ROOT / "README.md")
    os.utime(ROOT / "SECURITY.md", (1e9, 1e9))
    before = os.umask(0o077)
    try:
        zone = {"TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8", "TMPDIR": str(p.folder)}
        equal((digest(p.pack("deb", **zone)), digest(p.pack("tarball", **zone))), first, "digests")
    finally:
        os.umask(before)
    true(digest(p.pack("tarball", SOURCE_DATE_EPOCH="1000000000")) != first[1], "the control: another date gives other bytes")
    equal(digest(p.pack("tarball")), first[1], "digest")


@case
def checksums(p):
    """SHA256SUMS names both packages, and sha256sum agrees"""
    said = call(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=p.deb.parent)
    for package in (p.deb, p.tarball):
        true(f"{package.name}: OK" in said.splitlines(), f"{package.name} is checked:\n{said}")


@case
def tarball(p):
    """the tarball has one folder, unpacks to a prefix, belongs to root, and its program runs from there"""
    with tarfile.open(p.tarball) as tar:
        members = tar.getmembers()
    name = p.tarball.name.removesuffix(".tar.gz")
    for member in members:
        true(member.name == name or member.name.startswith(name + "/"), f"{member.name} lies in {name}/")
        equal((member.uid, member.gid, member.mode & 0o7022), (0, 0, 0), f"owner and special or writable bits of {member.name}")
    prefix = p.folder / "prefix"
    prefix.mkdir()
    call(["tar", "-xzf", p.tarball, "-C", prefix, "--strip-components=1"])
    equal(call([prefix / "bin/sbx", "exec", "--", "echo", "runs"]), "runs\n", "the program")
    for file in ("share/man/man1/sbx.1", "share/doc/sbx/LICENSE", "share/doc/sbx/THIRD_PARTY_NOTICES.md", "share/doc/sbx/docs/licenses/LGPL-2.1.txt"):
        true((prefix / file).stat().st_size > 0, file)


@case
def comes_and_goes(p):
    """installed: what belongs to a package, nothing else; removed and purged: the root is what it was"""
    system = p.system()
    before = system.tree()
    system.dpkg("--install", p.deb)
    after = system.tree()
    for name in before:
        equal(after[name], before[name], f"{name} is as it was")
    new = {name: of for name, of in after.items() if name not in before}
    for name, (mode, uid, gid, _content) in new.items():
        true(name == "usr/share" or name.startswith("usr/"), f"{name} lies below usr")
        want = "drwxr-xr-x" if mode[0] == "d" else "-rwxr-xr-x" if name == "usr/bin/sbx" or "/examples/" in name and mode[3] == "x" else "-rw-r--r--"
        equal((mode, uid, gid), (want, 0, 0), f"mode and owner of {name}")
    for name in ("bin/sbx", "share/man/man1/sbx.1.gz", "share/man/man1/sbx-run.1.gz", "share/man/man5/sbx-policy.5.gz",
                 "share/bash-completion/completions/sbx", "share/zsh/vendor-completions/_sbx", "share/fish/vendor_completions.d/sbx.fish",
                 "share/sbx/apparmor-profile", "share/doc/sbx/copyright", "share/doc/sbx/changelog.gz", "share/doc/sbx/changelog.Debian.gz",
                 "share/doc/sbx/README.md", "share/doc/sbx/docs/install.md", "share/doc/sbx/docs/licenses/LGPL-2.1.txt"):
        true(f"usr/{name}" in new, f"/usr/{name} is installed")
    copyright_text = (system.root / "usr/share/doc/sbx/copyright").read_text()
    true("Apache License" in copyright_text and "Paul Moore" in copyright_text, "the licence and the notices of the libraries")
    equal(call(["dpkg", f"--root={system.root}", "--verify", "sbx"]), "", "dpkg --verify")
    equal(re.findall(r"^Depends:.*", system.dpkg("--status", "sbx"), re.MULTILINE), [], "what it depends on")
    system.dpkg("--install", p.deb)  # an upgrade to itself
    same_tree(system.tree(), after, "the tree after installing again")
    system.dpkg("--remove", "sbx")
    system.dpkg("--purge", "sbx")
    same_tree(system.tree(), before, "the tree after purge")
    left = [path.name for path in (system.root / "var/lib/dpkg/info").iterdir() if path.name.startswith("sbx.")]
    equal(left, [], "what dpkg still knows")


ENTER = """
set -e
mount --bind "$1" "$1"
mount -t tmpfs none "$1/dev"
for device in null zero full random urandom tty; do touch "$1/dev/$device"; mount --bind "/dev/$device" "$1/dev/$device"; done
mount --rbind /proc "$1/proc"
cd "$1"
mkdir old
pivot_root . old
exec /usr/bin/env -i PATH=/usr/bin:/bin HOME=/ /bin/sh -c '/bin/umount -l /old && exec "$@"' sh $2
"""


@case
def runs_where_installed(p):
    """in a root of its own, entered by pivot_root, `sbx run` works from /usr/bin; purge takes the locks of uids along"""
    system = p.system()
    (system.root / "tmp/hello.sh").write_text("echo hello from $(id -u)\n")
    before = set(system.tree())
    system.dpkg("--install", p.deb)
    said = call(["unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, "enter", system.root, "sbx run --lang sh /tmp/hello.sh"])
    equal(said, "hello from 1000\n", "what the program printed")
    true((system.root / "run/sbx/uids").exists(), "the control: a run of root's leaves the file of its locks")
    (system.root / "proc/locks").write_text("")  # the chroot of dpkg has no /proc
    system.dpkg("--purge", "sbx")
    (system.root / "proc/locks").unlink()
    equal(set(system.tree()) - before - {"old"}, set(), "what is left")


@case
def locks_in_use_stay(p):
    """purge leaves the file of the uids' locks while one of them is held"""
    system = p.system()
    system.dpkg("--install", p.deb)
    uids = system.root / "run/sbx/uids"
    uids.parent.mkdir()
    uids.touch()
    (system.root / "proc/locks").write_text(f"1: OFDLCK ADVISORY  WRITE -1 00:19:{uids.stat().st_ino} 7 7\n")
    system.dpkg("--purge", "sbx")
    true(uids.exists(), "the file is there")


@case
def apparmor(p):
    """where AppArmor 4 is: a profile for /usr/bin/sbx, loaded; unloaded and gone with the program"""
    system = p.system(apparmor=True)
    before = system.tree()
    system.dpkg("--install", p.deb)
    text = (system.root / PROFILE).read_text()
    true('profile sbx "/usr/bin/sbx" flags=(unconfined) {\n  userns,\n' in text, f"the profile:\n{text}")
    equal(stat.filemode((system.root / PROFILE).stat().st_mode), "-rw-r--r--", "its mode")
    equal(system.parser_calls(), ["--replace --write-cache /etc/apparmor.d/sbx"], "calls of apparmor_parser")
    system.dpkg("--remove", "sbx")
    equal(system.parser_calls(), ["--remove /etc/apparmor.d/sbx"], "calls of apparmor_parser")
    system.dpkg("--purge", "sbx")
    same_tree(system.tree(), before, "the tree after purge")


@case
def apparmor_of_the_administrator(p):
    """a profile for another path is not touched, neither when sbx comes nor when it goes"""
    system = p.system(apparmor=True)
    own = 'abi <abi/4.0>,\nprofile sbx "/usr/local/bin/sbx" flags=(unconfined) {\n  userns,\n}\n'
    (system.root / PROFILE).write_text(own)
    for step in (["--install", p.deb], ["--purge", "sbx"]):
        system.dpkg(*step)
        equal((system.root / PROFILE).read_text(), own, "the profile")
        equal(system.parser_calls(), [], "calls of apparmor_parser")


@case
def apparmor_fails(p):
    """a parser that refuses the profile does not stop the installation, nor the removal"""
    system = p.system(apparmor=True)
    system.tool("apparmor_parser", "exit 1")
    system.dpkg("--install", p.deb)
    true("install ok installed" in system.dpkg("--status", "sbx"), "sbx is installed")
    system.dpkg("--purge", "sbx")
    true(not (system.root / PROFILE).exists(), "the profile is gone")


@case
def apparmor_later(p):
    """AppArmor 4 that is installed after sbx brings the profile, by a trigger"""
    system = p.system()
    system.dpkg("--install", p.deb)
    true(not (system.root / PROFILE).exists(), "the control: no profile without AppArmor")
    other = p.folder / "apparmor"
    (other / "DEBIAN").mkdir(parents=True)
    (other / "etc/apparmor.d/abi").mkdir(parents=True)
    (other / "etc/apparmor.d/abi/4.0").touch()
    (other / "DEBIAN/control").write_text("Package: apparmor\nVersion: 4.0\nArchitecture: all\nMaintainer: tests <tests@sbx.invalid>\nDescription: stands for it\n")
    call(["dpkg-deb", "--root-owner-group", "-b", other, p.folder / "apparmor.deb"])
    system.dpkg("--install", p.folder / "apparmor.deb")
    true((system.root / PROFILE).exists(), "the profile is there")


@case
def lintian(p):
    """lintian, where it is installed, has nothing to say"""
    if shutil.which("lintian"):
        equal(call(["lintian", "--allow-root", "--fail-on", "none", "--tag-display-limit", "0", p.deb]), "", "lintian")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("-k", dest="pattern", default="", help="regular expression over case names and sentences")
    parser.add_argument("-v", dest="verbose", action="store_true", help="passed cases too, with their time")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    wanted = [c for c in CASES if re.search(options.pattern, f"{c.__name__}: {c.__doc__}")]
    if options.list:
        print("\n".join(f"{c.__name__}: {c.__doc__}" for c in wanted))
        return 0
    reason = "needs root, for dpkg --root" if os.geteuid() else ""
    missing = [name for name in ("dpkg", "dpkg-deb", "busybox", "unshare") if not shutil.which(name)]
    if missing:
        reason = f"needs {', '.join(missing)}: tools/install-deps.sh packages"
    if reason:
        print(f"skip packages: {reason}\n0 passed, 0 failed, {len(wanted)} skipped")
        return 1  # continuous integration has all of them; by hand one wants to know
    failed = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sbx-packages-") as folder:
        os.chmod(folder, 0o755)
        packages = Packages(os.path.relpath(options.build, ROOT), pathlib.Path(folder))
        for function in wanted:
            at = time.monotonic()
            try:
                function(packages)
            except (Failure, OSError, subprocess.TimeoutExpired) as failure:
                failed += 1
                print(f"FAIL {function.__name__}: {function.__doc__}\n{failure}", flush=True)
            else:
                if options.verbose:
                    print(f"ok   {function.__name__}  ({time.monotonic() - at:.1f} s)", flush=True)
    print(f"({time.monotonic() - began:.0f} s)\n{len(wanted) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
