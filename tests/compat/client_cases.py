"""Programs that start bwrap for a living, with our binary in its place: Flatpak as Debian packages it, and the npm package
@anthropic-ai/sandbox-runtime. Both run with upstream's binary too where a case says so, as its control."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import place
from harness import Skip, case

HERE = pathlib.Path(__file__).resolve().parent
SRT_VERSION = "0.0.78"


def recorder(t):
    """A program that runs our bwrap and leaves a line about it: proof that the client took this one."""
    if place.trouble:
        raise Skip(place.trouble)
    log = t.dir / "calls"
    path = t.file("bin/bwrap", f'#!/bin/sh\necho "$*" | cut -c1-300 >> {log}\nexec {place.ours} "$@"\n', 0o755)
    return path, lambda: log.read_text().splitlines() if log.exists() else []


FLATPAK = r"""
set -e
step() { "$@" > step.log 2>&1 || { cat step.log; echo "failed: $*"; exit 1; }; }
# There is no message bus here; Flatpak asks one about parental controls.
export DBUS_SYSTEM_BUS_ADDRESS=$DBUS_SESSION_BUS_ADDRESS
mkdir -p rt/files rt/usr/bin
cp "$(command -v busybox)" rt/usr/bin/busybox
for name in sh ls cat echo id touch mkdir chmod grep wget head; do ln -sf busybox rt/usr/bin/$name; done
arch=$(flatpak --default-arch)
printf '[Runtime]\nname=org.example.Platform\nruntime=org.example.Platform/%s/1\nsdk=org.example.Platform/%s/1\n' $arch $arch > rt/metadata
step flatpak build-export --disable-sandbox --runtime repo rt 1
step flatpak --user remote-add --no-gpg-verify local repo
step flatpak --user install -y --noninteractive local runtime/org.example.Platform/$arch/1
step flatpak build-init app org.example.Hello org.example.Platform org.example.Platform 1
cp hello.sh app/files/hello.sh
echo "== build"
flatpak build app sh -c 'mkdir -p /app/bin && cat /app/hello.sh > /app/bin/hello && chmod +x /app/bin/hello && echo built as $(id -u)'
step flatpak build-finish --command=hello --filesystem="$PWD/shared" app
step flatpak build-export repo app
step flatpak --user install -y --noninteractive local org.example.Hello
echo "== run"
flatpak run org.example.Hello one "two words"
"""
HELLO = r"""#!/bin/sh
echo "hello $# $2"
echo "uid $(id -u)"
touch /app/x 2>/dev/null || echo "app sealed"
touch /usr/x 2>/dev/null || echo "runtime sealed"
[ -e "$SECRET" ] || echo "no home"
grep -q . /run/flatpak/../host/etc/passwd 2>/dev/null || echo "no host"
echo "interfaces" $(grep -c : /proc/net/dev)
echo from inside > "$SHARED/file" && echo "shared written"
grep -h NoNewPrivs /proc/self/status
grep -h '^Seccomp:' /proc/self/status
ls /proc | grep -c '^[0-9]' | grep -q '^[1-9]$' && echo "own processes"
"""


@case("Flatpak builds a runtime and an app, installs both from a local repository, and runs the app through our bwrap", as_=("user",), seconds=60)
def flatpak(t):
    for name in ("flatpak", "dbus-run-session", "busybox"):
        if not shutil.which(name, path="/usr/bin:/bin"):
            raise Skip(f"needs {name}")
    bwrap, calls = recorder(t)
    shared = t.mkdir("work/shared")
    secret = t.file("home/secret", "s")
    t.file("work/hello.sh", HELLO.replace("$SECRET", secret).replace("$SHARED", shared), 0o755)
    t.mkdir("run", 0o700)
    env = {"FLATPAK_BWRAP": bwrap, "XDG_DATA_HOME": t.home + "/.local/share", "XDG_RUNTIME_DIR": str(t.dir / "run"), "GIO_USE_VFS": "local", "GSETTINGS_BACKEND": "memory"}
    done = t.run(["/usr/bin/python3", place.guard, "55", "dbus-run-session", "--", "bash", "-c", FLATPAK], env=env, cwd=t.dir / "work", stdin=b"")
    t.expect(done, status=0)
    uid = t.identity.uid
    build, run = done.text.split("== run\n")
    t.match(build, f"^built as {uid}$")
    t.equal(run.splitlines(), ["hello 2 two words", f"uid {uid}", "app sealed", "runtime sealed", "no home", "no host", "interfaces 1", "shared written", "NoNewPrivs:\t1",
                               "Seccomp:\t2", "own processes"])
    t.equal((t.dir / "work/shared/file").read_text(), "from inside\n")
    t.true(len(calls()) >= 2, f"Flatpak called our bwrap {len(calls())} times: {calls()}")


def sandbox_runtime(t):
    """The installed package's command; installs it once, into the cache of run.py."""
    cache = pathlib.Path(os.environ.get("SBX_COMPAT_CACHE") or HERE.parent.parent / "build" / "compat") / f"srt-{SRT_VERSION}"
    if not (cache / "complete").exists():
        if not shutil.which("npm"):
            raise Skip("needs npm")
        cache.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["npm", "install", "--prefix", str(cache), "--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1", "--fetch-timeout=20000",
                               f"@anthropic-ai/sandbox-runtime@{SRT_VERSION}"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90)
        if done.returncode != 0:
            print(done.stderr[-500:], file=sys.stderr)
            raise Skip("the npm registry cannot be reached")
        (cache / "complete").touch()
    copy = place.ours.parent.parent / "srt"
    if not copy.exists():
        shutil.copytree(cache, copy, symlinks=True)
        for path in [copy, *copy.rglob("*")]:
            if not path.is_symlink():
                os.chmod(path, 0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    return copy / "node_modules/@anthropic-ai/sandbox-runtime/dist/cli.js"


@case("the sandbox runtime runs commands through our bwrap: writes where allowed, nowhere else, reads no denied place, has no network", as_=("user",), seconds=90)
def npm_sandbox_runtime(t):
    bwrap, calls = recorder(t)
    if not shutil.which("node", path="/usr/bin:/bin"):
        raise Skip("needs node")
    program = sandbox_runtime(t)
    if t.run(["node", str(program), "--version"]).status != 0:
        raise Skip("needs a newer node")
    for folder in ("project/out", "secrets", "elsewhere"):
        t.mkdir(folder)
    t.file("secrets/key", "top secret\n")
    settings = {"network": {"allowedDomains": [], "deniedDomains": []}, "bwrapPath": bwrap,
                "filesystem": {"denyRead": [str(t.dir / "secrets")], "allowWrite": [str(t.dir / "project")], "denyWrite": [str(t.dir / "project/out/kept")]}}
    t.file("project/out/kept", "kept\n")
    path = t.file("settings.json", json.dumps(settings))

    def inside(script, **more):
        return t.run(["/usr/bin/python3", place.guard, "40", "node", str(program), "--settings", path, "-c", script], cwd=t.dir / "project", stdin=b"", **more)
    t.expect(inside("echo text > out/file && cat out/file"), out=b"text\n")
    t.equal((t.dir / "project/out/file").read_text(), "text\n")
    for target in ("../elsewhere/file", "/var/tmp/sbx-srt", "out/kept"):
        done = inside(f"echo text > {target} || echo denied")
        t.expect(done, out=b"denied\n")
    t.equal((os.listdir(t.dir / "elsewhere"), (t.dir / "project/out/kept").read_text()), ([], "kept\n"))
    t.expect(inside("cat ../secrets/key || echo denied"), out=b"denied\n")
    t.expect(inside("grep -c : /proc/net/dev"), out=b"1\n")
    t.expect(inside("exit 7"), status=7)
    t.equal(len(calls()) >= 7, True, "calls of our bwrap")


