"""podman for the container tests: an image made on the spot, containers of three kinds, nothing left behind.

Everything lies below one folder: the image's tree, one store and one run folder for each identity. Every podman runs in
a mount namespace of its own (unshare(1)), where
  - a host that mounts cgroup v1 (a hybrid one too) shows cgroup v2 alone at /sys/fs/cgroup: crun refuses a hybrid host;
  - /etc/subuid and /etc/subgid are files of ours: the same user is one with a range of uids, and one without.
Nothing of the host's is changed by that, and its cgroups stay as they are (--cgroups=disabled).
"""

import os
import pathlib
import pwd
import resource
import shutil
import signal
import subprocess
import tarfile
import time

import harness

NEEDED = ("podman", "crun", "busybox", "newuidmap", "unshare", "setpriv")
IMAGE = "localhost/sbx-test"
TIMEOUT = 60 * float(os.environ.get("SBX_TEST_TIME_FACTOR", "1"))
# What the programs of the cases and `sbx doctor` call; more would only make the image larger.
APPLETS = ("sh cat cp chmod chown chroot echo env false grep head id ls mkdir mount pwd rm sleep stat tail test touch "
           "true umount uname wc").split()
PYTHON_LEFT_OUT = {"test", "tests", "idlelib", "lib2to3", "ensurepip", "tkinter", "turtledemo", "distutils", "pydoc_data",
                   "dist-packages", "site-packages", "__pycache__", "config-3", "unittest", "sqlite3", "curses"}

ENTER = r"""
set -e
if [ "$(stat -f -c %T /sys/fs/cgroup)" != cgroup2fs ]; then
  umount -R /sys/fs/cgroup
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
fi
if [ -n "$1" ]; then mount --bind "$1" /etc/subuid; mount --bind "$1" /etc/subgid; fi
shift
exec "$@"
"""


class Unusable(Exception):
    """podman cannot run here at all; the text says why."""


class Done(harness.Completed):
    """What a container printed, and its status."""

    def describe(self):
        return f"  stdout:\n{harness.show(self.text)}\n  stderr:\n{harness.show(self.errors, 2000)}\n  status: {self.status}"


def libraries_of(program):
    """Paths of the dynamic libraries and the loader that a program names."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return [word for line in said.splitlines() for word in line.split() if word.startswith("/")]


class Image:
    """A root file system of busybox, Python and sbx; merged /usr, as every distribution has it."""

    def __init__(self, folder, binary, busybox=""):
        self.tree = pathlib.Path(folder) / "tree"
        self.archive = pathlib.Path(folder) / "tree.tar"
        for name in ("usr/bin", "usr/lib", "usr/lib64", "etc", "proc", "sys", "dev", "tmp", "run", "root", "work", "var/tmp"):
            (self.tree / name).mkdir(parents=True, mode=0o755)
        for name, target in (("bin", "usr/bin"), ("sbin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")):
            (self.tree / name).symlink_to(target)
        for name in ("tmp", "var/tmp"):
            os.chmod(self.tree / name, 0o1777)
        os.chmod(self.tree / "root", 0o700)
        self.put_program(busybox or shutil.which("busybox"), "usr/bin/busybox")
        for name in APPLETS:
            (self.tree / "usr/bin" / name).symlink_to("busybox")
        self.put(binary, "usr/bin/sbx")
        self.python()
        self.write("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
        self.write("etc/group", "root:x:0:\nnogroup:x:65534:\n")
        self.write("work/hello.py", "print('hello from', __file__)\n")
        self.write("work/write.py", "open('made.txt', 'w').write('made')\nprint('written')\n")
        with tarfile.open(self.archive, "w") as tar:
            tar.add(self.tree, arcname=".", filter=self.as_root)

    @staticmethod
    def as_root(info):
        info.uid = info.gid = 0
        info.uname = info.gname = "root"
        return info

    def put(self, source, name):
        target = self.tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(os.path.realpath(source), target)
        os.chmod(target, 0o755)

    def put_program(self, source, name):
        self.put(source, name)
        for library in libraries_of(source):
            self.put(library, ("" if library.startswith("/usr/") else "usr") + library)

    def write(self, name, text):
        (self.tree / name).write_text(text)

    def python(self):
        interpreter = os.path.realpath("/usr/bin/python3")
        version = os.path.basename(interpreter)
        self.put_program(interpreter, f"usr/bin/{version}")
        (self.tree / "usr/bin/python3").symlink_to(version)
        shutil.copytree(f"/usr/lib/{version}", self.tree / "usr/lib" / version, symlinks=False, dirs_exist_ok=True,
                        ignore_dangling_symlinks=True,
                        ignore=lambda _folder, names: [n for n in names if n in PYTHON_LEFT_OUT or n.startswith("config-3")])


class Podman:
    """podman as one identity: root, or a user with or without a range of uids."""

    def __init__(self, folder, image, name, user=None, subuids=None, cgroups=False):
        self.name, self.image, self.user = name, image, user
        self.cgroups = cgroups
        self.folder = pathlib.Path(folder) / name
        self.folder.mkdir(mode=0o755)
        self.made = False
        self.subuid_file = ""
        if user:
            entry = pwd.getpwnam(user)
            self.uid, self.gid = entry.pw_uid, entry.pw_gid
            path = self.folder / "subids"
            path.write_text(f"{user}:{subuids[0]}:{subuids[1]}\n" if subuids else "")
            self.subuid_file = str(path)
            for part in ("home", "run", "store", "runroot"):
                (self.folder / part).mkdir(mode=0o700)
                os.chown(self.folder / part, self.uid, self.gid)
        self.environment = {"PATH": harness.SYSTEM_PATH, "LANG": "C.UTF-8",
                            "HOME": str(self.folder / "home") if user else "/root"}
        if user:
            self.environment["XDG_RUNTIME_DIR"] = str(self.folder / "run")

    def enter(self, argv):
        """argv as it must be called: in the mount namespace, as the identity."""
        if self.user:
            argv = ["setpriv", "--reuid", str(self.uid), "--regid", str(self.gid), "--clear-groups"] + argv
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, "enter", self.subuid_file] + argv

    def podman(self, *words):
        manager = "systemd" if self.cgroups and os.path.isdir("/run/systemd/system") else "cgroupfs"
        return self.enter(["podman", "--root", str(self.folder / "store"), "--runroot", str(self.folder / "runroot"),
                           "--storage-driver", "overlay", "--cgroup-manager", manager, "--events-backend", "none",
                           "--runtime", "crun", *words])

    def call(self, argv, timeout=TIMEOUT):
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=self.environment, cwd="/", start_new_session=True)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            raise harness.Failure("did not end in time\n" + Done(argv, 137, out, err, timeout).describe())
        return Done(argv, harness.shell_status(process.returncode), out, err, 0)

    def ensure_image(self):
        if self.made:
            return
        done = self.call(self.podman("import", "--quiet", str(self.image.archive), IMAGE))
        if done.status != 0:
            raise Unusable(f"podman import fails: {last_line(done.errors)}")
        self.made = True

    def build(self, context, name):
        """`podman build` of the folder's Dockerfile, without network."""
        done = self.call(self.podman("build", "--quiet", "--network", "none", "--tag", name, "--file", f"{context}/Dockerfile", str(context)))
        if done.status != 0:
            raise harness.Failure("podman build\n" + done.describe())

    def run(self, options, script, rootfs=None, name=IMAGE):
        """`podman run` of a shell script in a new container of the image that the cases share."""
        if not rootfs:
            self.ensure_image()
        return self.start(options, ["--rootfs", str(rootfs)] if rootfs else [name], ["/bin/sh", "-c", script])

    def start(self, options, image, command):
        """`podman run` of a command in a new container of any image."""
        words = ["run", "--rm", "--network", "none", "--log-driver", "none", "--ulimit", "nofile=4096:4096",
                 "--ulimit", f"nproc={process_limit()}"]
        if not self.cgroups:
            words.append("--cgroups=disabled")
        return self.call(self.podman(*words, *options, *image, *command))

    def close(self):
        """Waits for podman's own cleaning up; a rootless one leaves a process that holds its user namespace."""
        deadline = time.monotonic() + 10
        while harness.processes_with(str(self.folder)) and time.monotonic() < deadline:
            time.sleep(0.05)
        if not self.user:
            return
        try:
            pid = int((self.folder / "run/libpod/tmp/pause.pid").read_text())
            if os.stat(f"/proc/{pid}").st_uid == self.uid:
                os.kill(pid, signal.SIGKILL)
        except (OSError, ValueError):
            pass


def process_limit():
    """podman's own default is higher than what a process without CAP_SYS_RESOURCE may ask for."""
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    return "4096:4096" if hard == resource.RLIM_INFINITY or hard >= 4096 else f"{hard}:{hard}"


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it says nothing"


def missing(busybox=""):
    return [name for name in NEEDED if not shutil.which(name, path=harness.SYSTEM_PATH) and not (name == "busybox" and busybox)]
