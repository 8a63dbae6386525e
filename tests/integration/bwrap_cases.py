"""`sbx bwrap` and the link bwrap: bubblewrap's command line carried out. What the parser refuses is in tests/unit/bwrap_parse_test.cc;
comparisons with bubblewrap itself are in tests/compat."""

import fcntl
import json
import os
import pathlib
import select
import signal

import harness
from harness import Failure, Skip, case

HOST = ("--ro-bind", "/", "/")
USR = ("--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64")


def link(t):
    path = t.dir / "bwrap"
    if not path.is_symlink():
        os.symlink(t.binary, path)
    return str(path)


def bwrap(t, *words, **more):
    return t.run([link(t), *[str(word) for word in words]], **more)


def fds_with(*contents):
    """Descriptors from which these bytes can be read, with numbers that a shell does not take for itself."""
    made = []
    for content in contents:
        low = os.memfd_create("content")
        fd = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 60)
        os.close(low)
        os.write(fd, content)
        os.lseek(fd, 0, os.SEEK_SET)
        made.append(fd)
    return made


# ---- the way in

@case("the link, `sbx bwrap` and /proc/self/exe with bwrap's options are the same command line; sbx keeps its own")
def ways_in(t):
    t.expect(bwrap(t, "--version"), out="bubblewrap 0.12.0\n")
    t.expect(t.sbx("bwrap", "--version"), out="bubblewrap 0.12.0\n")
    t.match(t.expect(t.sbx("--version")).text, "^sbx ", "sbx --version")
    t.match(t.expect(bwrap(t, "--help")).text, rf"^usage: {link(t)} \[OPTIONS...\] \[--\] COMMAND \[ARGS...\]\n", "help")
    t.match(t.expect(t.sbx("bwrap", "--help")).text, r"^usage: sbx bwrap \[OPTIONS...\]", "help")
    t.expect(t.sbx("bwrap", *HOST, "echo", "--bind"), out="--bind\n")
    nested = bwrap(t, "--unshare-user", "--uid", 0, "--gid", 0, "--cap-add", "ALL", "--bind", "/", "/", "--bind", "/proc", "/proc",
                   "--", "/proc/self/exe", "--unshare-all", "--bind", "/", "/", "--bind", "/proc", "/proc", "echo", "inner")
    t.expect(nested, out="inner\n")


@case("without COMMAND: usage on stderr, 1; options that are wrong: one line, 1")
def wrong(t):
    t.match(t.expect(bwrap(t), status=1, out="").errors, "^usage: ", "stderr")
    t.match(t.expect(bwrap(t, *HOST), status=1, out="").errors, "^usage: ", "stderr")
    t.expect(bwrap(t, "--bogus"), status=1, err="^bwrap: Unknown option --bogus\n$")
    t.expect(bwrap(t, "--level-prefix", "--bogus"), status=1, err="^<3>bwrap: Unknown option --bogus\n$")
    t.expect(bwrap(t, "--level-prefix", "--chdir", "/usr", "--chdir", "/", *HOST, "pwd"), out="/\n",
             err="^<4>bwrap: Only the last --chdir option will take effect\n$")
    t.expect(bwrap(t, "--disable-userns", *HOST, "true"), status=1, err="^bwrap: --disable-userns requires --unshare-user\n$")


@case("status is COMMAND's, 128+N for a signal; what cannot be executed is 1, with the line that clients know")
def status(t):
    for words in (HOST, (*HOST, "--unshare-pid"), (*HOST, "--unshare-all", "--proc", "/proc", "--dev", "/dev")):
        t.expect(bwrap(t, *words, "sh", "-c", "exit 42"), status=42)
        t.expect(bwrap(t, *words, "sh", "-c", "kill -TERM $$"), status=143)
        t.expect(bwrap(t, *words, "/nonexistent"), status=1, err="^bwrap: execvp /nonexistent: No such file or directory\n$")
        t.expect(bwrap(t, *words, "/"), status=1, err="^bwrap: execvp /: Permission denied\n$")


# ---- the view

@case("nothing is there but what was asked for; the root is an empty, writable tmpfs until it is sealed")
def empty_root(t):
    listed = t.expect(bwrap(t, *USR, "ls", "/"))
    t.equal(listed.text, "bin\nlib\nlib64\nusr\n")
    t.expect(bwrap(t, *USR, "sh", "-c", "echo x > /new && cat /new"), out="x\n")
    t.expect(bwrap(t, *USR, "--remount-ro", "/", "sh", "-c", "echo x > /new"), status=2, err="Read-only file system")


@case("binds: read-only to the last submount, without devices unless asked, -try passes over what is missing")
def binds(t):
    t.mkdir("dir")
    here = str(t.dir)
    t.expect(bwrap(t, *USR, "--bind", here, "/d", "sh", "-c", "echo x > /d/dir/a"))
    t.equal((t.dir / "dir/a").read_text(), "x\n")
    t.expect(bwrap(t, *USR, "--ro-bind", here, "/d", "sh", "-c", "echo y > /d/dir/a"), status=2, err="Read-only file system")
    t.expect(bwrap(t, *USR, "--bind-try", "/nonexistent", "/d", "echo", "fine"), out="fine\n")
    t.expect(bwrap(t, *USR, "--bind", "/nonexistent", "/d", "true"), status=1, err="^bwrap: Can't find source path /nonexistent: No such file or directory\n$")
    t.expect(bwrap(t, *USR, "--bind", "/dev", "/dev", "sh", "-c", "echo x > /dev/null"), status=2, err="Permission denied")
    t.expect(bwrap(t, *USR, "--dev-bind", "/dev", "/dev", "sh", "-c", "echo x > /dev/null"))
    flags = t.expect(bwrap(t, *HOST, "--unshare-pid", "--proc", "/proc", "cat", "/proc/self/mountinfo")).text
    own = flags[:flags.index(" - proc proc")].splitlines()[:-1]
    t.true(own, "mounts of the host's")
    for line in own:
        t.true(line.split()[5].startswith("ro,nosuid"), f"read-only, no set-id: {line}")


@case("the host's root can be shown anywhere, also when something else was mounted first")
def root_below(t):
    there = t.expect(bwrap(t, "--tmpfs", "/x", "--ro-bind", "/", "/host", "--chdir", "/host", *USR, "ls", "/host")).text
    t.equal(there, "".join(name + "\n" for name in sorted(os.listdir("/")) if not name.startswith(".")))
    t.expect(bwrap(t, *HOST, *HOST, "--unshare-user", "--disable-userns", "ls", "-d", "/usr"), out="/usr\n")


@case("parents are made; --perms, --size, --chmod, contents and links are as asked for")
def made(t):
    one, two, three = fds_with(b"one", b"two", b"three")
    done = bwrap(t, *USR, "--perms", "0750", "--dir", "/a/b", "--file", one, "/c/file", "--ro-bind-data", two, "/d/data",
                 "--perms", "0644", "--bind-data", three, "/e/data", "--perms", "1777", "--size", "1048576", "--tmpfs", "/t",
                 "--symlink", "/c/file", "/l", "--symlink", "/c/file", "/l", "--dir", "/ch", "--chmod", "0711", "/ch", "--proc", "/proc",
                 "sh", "-c", "stat -c '%a %n' /a /a/b /c /c/file /d /d/data /e /e/data /t /ch; readlink /l; cat /l /d/data /e/data; "
                 "stat -f -c ' %b %S' /t; stat -c %h /d/data; echo z > /e/data && cat /e/data; echo z > /d/data",
                 pass_fds=(one, two, three))
    for fd in (one, two, three):
        os.close(fd)
    t.expect(done, status=2, err="/d/data: Read-only file system",
             out="750 /a\n750 /a/b\n755 /c\n666 /c/file\n700 /d\n600 /d/data\n755 /e\n644 /e/data\n1777 /t\n711 /ch\n"
                 "/c/file\nonetwothree 256 4096\n0\nz\n")
    t.expect(bwrap(t, *USR, "--symlink", "a", "/l", "--symlink", "b", "/l", "true"), status=1,
             err="^bwrap: Can't make symlink at /l: existing destination is a\n$")
    t.expect(bwrap(t, *USR, "--dir", "/l", "--symlink", "b", "/l", "true"), status=1,
             err="^bwrap: Can't make symlink at /l: destination exists and is not a symlink\n$")
    t.expect(bwrap(t, *USR, "--file", 77, "/l", "true"), status=1, err="^bwrap: Can't write data to file /l: Bad file descriptor\n$")
    t.expect(bwrap(t, *USR, "--chmod", "700", "/none", "true"), status=1, err="^bwrap: Can't open /none: No such file or directory\n$")
    t.expect(bwrap(t, *USR, "--remount-ro", "/usr/bin", "true"), status=1,
             err="^bwrap: Can't remount readonly on /usr/bin: Unable to find \"/newroot/usr/bin\" in mount table\n$")


@case("/dev holds what upstream's holds, and works; /proc is that of the sandbox; message queues can be mounted")
def special(t):
    done = t.expect(bwrap(t, *USR, "--unshare-all", "--dev", "/dev", "--proc", "/proc", "--mqueue", "/q", "sh", "-c",
                          "ls /dev; echo x > /dev/null; head -c 3 /dev/zero | wc -c; cat /proc/1/comm; echo $$; "
                          "grep -E ' /(q|dev/pts|proc) ' /proc/self/mounts | cut -d' ' -f2-4"))
    t.equal(done.text, "core\nfd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\n3\nbwrap\n2\n"
                       "/dev/pts devpts rw,nosuid,noexec,relatime,mode=620,ptmxmode=666\n/proc proc rw,nosuid,nodev,noexec,relatime\n"
                       "/q mqueue rw,nosuid,nodev,noexec,relatime\n")
    t.expect(bwrap(t, *USR, "--unshare-pid", "--as-pid-1", "sh", "-c", "echo $$"), out="1\n")


@case("overlays: the last --overlay-src is uppermost; writes go to the directory, to memory, or nowhere")
def overlays(t):
    for name in ("low/a", "low/b", "high/b"):
        t.file(name, name)
    for name in ("rw", "work"):
        t.mkdir(name)
    layers = ("--overlay-src", t.dir / "low", "--overlay-src", t.dir / "high")
    # The new layer lies in the case's own directory, which an overlay must be able to be made of.
    done = bwrap(t, *USR, *layers, "--overlay", t.dir / "rw", t.dir / "work", "/o", "sh", "-c", "cat /o/a /o/b; echo n > /o/n")
    if done.status == 1 and "Invalid argument" in done.errors:
        raise Skip("no overlay can be made of this directory")
    t.expect(done, out="low/ahigh/b")
    t.equal((t.dir / "rw/n").read_text(), "n\n")
    t.expect(bwrap(t, *USR, *layers, "--tmp-overlay", "/o", *layers, "--tmp-overlay", "/p", "sh", "-c", "echo n > /o/n; ls /o /p; ls /"),
             out="/o:\na\nb\nn\n\n/p:\na\nb\nbin\nlib\nlib64\no\np\nusr\n")
    t.equal(sorted(os.listdir(t.dir / "low")), ["a", "b"])
    t.expect(bwrap(t, *USR, *layers, "--ro-overlay", "/o", "sh", "-c", "echo n > /o/n"), status=2, err="Read-only file system")
    t.expect(bwrap(t, *USR, "--overlay-src", t.dir / "low", "--overlay", t.dir / "rw", t.dir / "rw", "/o", "true"), status=1,
             err="^bwrap: Can't make overlay mount on /o with options upperdir=")


# ---- orders that try to reach the host

@case("no order of options makes, changes or covers a file of the host: links lead nowhere but inside", seconds=60)
def hostile_orders(t):
    outside = t.mkdir("outside")
    t.file("outside/file", "mine\n", mode=0o644)
    before = sorted(os.listdir(outside))
    state = os.stat(t.dir / "outside/file")
    content, = fds_with(b"evil")
    directory = os.open(outside, os.O_RDONLY)
    source = t.file("source", "evil")
    proc = ("--ro-bind", "/proc", "/proc")
    for made_by in (("--symlink", f"/oldroot{outside}", "/x"), ("--symlink", outside, "/x"), ("--symlink", f"../../..{outside}", "/x"),
                    (*proc, "--symlink", f"/proc/1/root{outside}", "/x"), (*proc, "--symlink", f"/proc/{os.getpid()}/root{outside}", "/x"),
                    (*proc, "--symlink", f"/proc/self/cwd/..{outside}", "/x"), (*proc, "--symlink", f"/proc/self/fd/{directory}", "/x")):
        for use in (("--dir", "/x/new"), ("--dir", "/x/new/deep"), ("--file", content, "/x/new"), ("--file", content, "/x/file"),
                    ("--symlink", "t", "/x/new"), ("--bind", source, "/x/file"), ("--bind", source, "/x/new"), ("--tmpfs", "/x/new"),
                    ("--bind-data", content, "/x/file"), ("--chmod", "0666", "/x/file"), ("--chmod", "0777", "/x"),
                    ("--remount-ro", "/x/file"), ("--tmpfs", "/x"), ("--bind", source, "/x"), ("--file", content, "/x"),
                    ("--dir", "/x/../x/new"), ("--dir", f"/..{outside}/new")):
            os.lseek(content, 0, os.SEEK_SET)
            done = bwrap(t, *USR, *made_by, *use, "true", pass_fds=(directory, content))
            what = f"{made_by} {use}: {done.errors}"
            t.true(done.status in (0, 1), what)
            t.equal(sorted(os.listdir(outside)), before, "names after " + what)
            now = os.stat(t.dir / "outside/file")
            t.equal((now.st_mode, now.st_size, now.st_mtime_ns), (state.st_mode, state.st_size, state.st_mtime_ns), "the file after " + what)
    os.close(content)
    os.close(directory)
    # The control: where the directory was shared on purpose, the same words do make the file.
    t.expect(bwrap(t, *USR, "--bind", outside, outside, "--symlink", outside, "/x", "--dir", "/x/new", "true"))
    t.equal(sorted(os.listdir(outside)), sorted([*before, "new"]), "names with the directory shared")


@case("a link as the last component is no destination for a mount; parents that are links are followed, inside")
def link_destinations(t):
    t.expect(bwrap(t, *USR, "--dir", "/d", "--symlink", "d", "/l", "--tmpfs", "/l", "true"), status=1,
             err="^bwrap: Can't mount on symlink destination /l\n$")
    t.expect(bwrap(t, *USR, "--dir", "/d", "--symlink", "/d", "/l", "--tmpfs", "/l/t", "--dir", "/l/e", "ls", "/d"), out="e\nt\n")
    t.expect(bwrap(t, *USR, "--dir", "/d", "--symlink", "d", "/l", "--dir", "/l", "true"), status=1,
             err="^bwrap: Destination is not a directory /l\n$")
    t.expect(bwrap(t, *USR, "--bind", "/etc/passwd", "/usr", "true"), status=1, err="^bwrap: Destination is not a file /usr\n$")


@case("root's own kernel settings cannot be written inside; with the host's /proc shown as it is they could", as_=("root",))
def kernel_settings(t):
    # To the value that it has, so that nothing happens where it works.
    write = "v=$(cat /proc/sys/vm/swappiness); echo $v > /proc/sys/vm/swappiness"
    for more in ((), ("--unshare-all",), ("--unshare-pid", "--unshare-user")):
        t.expect(bwrap(t, *HOST, *more, "--proc", "/proc", "sh", "-c", write), status=2, err="Read-only file system")
    if open("/proc/sys/vm/swappiness").read() and not os.access("/proc/sys/vm/swappiness", os.W_OK):
        raise Skip("the host's own cannot be written either")
    t.expect(bwrap(t, *HOST, "--bind", "/proc", "/proc", "sh", "-c", write))


# ---- identity and capabilities

CAPS = ("sh", "-c", "grep ^Cap /proc/self/status | cut -f2 | tr '\\n' ' '")


@case("root without capabilities cannot take back what is read-only, nor mount its own proc or sysfs; with them it can", as_=("root",))
def root_that_mounts(t):
    t.file("tree/kept")
    view = (*HOST, "--unshare-all", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/mnt", "--ro-bind", t.dir / "tree", "/mnt/tree")
    script = ("mount -o remount,rw,bind /mnt/tree && : > /mnt/tree/new; mkdir /mnt/p /mnt/s; mount -t proc p /mnt/p && test -w /mnt/p/sys/vm/swappiness && echo settings; "
              "mount -t sysfs s /mnt/s && echo sysfs; umount /proc/sys && echo uncovered")
    for ways in (("--cap-drop", "ALL"), ("--uid", 1000, "--gid", 1000)):
        for inner in ((), ("unshare", "-U", "-r", "-m", "-p", "-n", "-f")):
            done = bwrap(t, *view, *ways, *inner, "sh", "-c", script)
            t.equal(done.text, "", f"{ways} {inner}")
            t.equal(os.listdir(t.dir / "tree"), ["kept"], f"{ways} {inner}")
    t.equal(bwrap(t, *view, "sh", "-c", script).text, "settings\nsysfs\nuncovered\n")
    t.equal(sorted(os.listdir(t.dir / "tree")), ["kept", "new"])


@case("an ordinary user has no capability inside, but those that were added; ids are as asked for, in one or two namespaces")
def identity(t):
    if t.is_root:
        t.expect(bwrap(t, *HOST, "--cap-drop", "ALL", "--proc", "/proc", "sh", "-c", "grep CapEff /proc/self/status"), out="CapEff:\t0000000000000000\n")
    none, raw = "0" * 16 + " ", f"{1 << 13:016x} "
    t.expect(bwrap(t, *HOST, "--unshare-user", "--uid", 5, *(["--cap-drop", "ALL"] if t.is_root else []), *CAPS), out=none * 5)
    t.expect(bwrap(t, *HOST, "--unshare-user", "--uid", 5, "--cap-drop", "ALL", "--cap-add", "CAP_NET_RAW", *CAPS), out=raw * 5)
    outer, group = t.identity.uid, t.identity.gid
    show = ("sh", "-c", "cat /proc/self/uid_map /proc/self/gid_map /proc/self/setgroups; id -u; id -g")
    done = t.expect(bwrap(t, *HOST, "--unshare-user", "--uid", 5, "--gid", 6, *show))
    t.equal(done.text.split(), ["5", str(outer), "1", "6", str(group), "1", "deny", "5", "6"])
    done = t.expect(bwrap(t, *HOST, "--unshare-user", "--uid", 5, "--gid", 6, "--dev", "/dev", *show))
    t.equal(done.text.split(), ["5", "0", "1", "6", "0", "1", "deny", "5", "6"])
    t.expect(bwrap(t, *HOST, "sh", "-c", "grep NoNewPrivs /proc/self/status"), out="NoNewPrivs:\t1\n")


@case("capabilities that root asks for and has not are not given, and what it drops is gone", as_=("root",))
def lacking(t):
    drop = t.expect(bwrap(t, *HOST, "--cap-add", "ALL", "--cap-drop", "CAP_SYS_ADMIN", "sh", "-c", "grep CapEff /proc/self/status"))
    got = int(drop.text.split()[1], 16)
    own = int(open("/proc/self/status").read().split("CapEff:")[1].split()[0], 16)
    t.equal(got, own & ~(1 << 21), "CapEff")


@case("user namespaces can be disabled inside, and asserted to be")
def no_user_namespaces(t):
    nested = ("unshare", "-U", "true")
    t.expect(bwrap(t, *HOST, "--unshare-user", *nested))
    t.expect(bwrap(t, *HOST, "--unshare-user", "--disable-userns", *nested), status=1, err="No space left on device")
    t.expect(bwrap(t, *HOST, "--assert-userns-disabled", "true"), status=1,
             err="^bwrap: creation of new user namespaces was not disabled as requested\n$")
    t.expect(bwrap(t, *HOST, "--unshare-user", "--disable-userns", "--assert-userns-disabled", "echo", "ok"), out="ok\n")


@case("a set-uid or set-gid sbx refuses to be bwrap", as_=("root",))
def set_uid(t):
    for mode in (0o4755, 0o2755):
        folder = t.mkdir(f"set{mode:o}")
        os.chmod(t.dir, 0o755)
        path = f"{folder}/bwrap"
        # By another program: a descriptor that is open for writing here may be inherited by whatever else is being started.
        t.expect(t.run(["cp", t.binary, path]))
        os.chown(path, 65534, 65534)
        os.chmod(path, mode)
        done = t.run([path, *HOST, "true"])
        t.expect(done, status=1, err="^bwrap: setuid use of bubblewrap is not supported\n$")


# ---- environment and working directory

@case("the working directory is kept where it exists, else HOME, else the root; PWD says which")
def working_directory(t):
    show = ("sh", "-c", "/bin/pwd; echo $PWD")
    t.expect(bwrap(t, *HOST, *show), out=f"{t.dir}\n" * 2)
    t.expect(bwrap(t, *USR, *show, env={"HOME": "/usr"}), out="/usr\n" * 2)
    t.expect(bwrap(t, *USR, *show, env={"HOME": "/nonexistent"}), out="/\n" * 2)
    t.expect(bwrap(t, *USR, "--chdir", "/usr/lib", *show), out="/usr/lib\n" * 2)
    t.expect(bwrap(t, *USR, "--chdir", "/none", *show), status=1, err="^bwrap: Can't chdir to /none: No such file or directory\n$")
    t.expect(bwrap(t, *HOST, "--setenv", "A", "1", "--clearenv", "--setenv", "B", "2", "/usr/bin/env"), out=f"B=2\nPWD={t.dir}\n")
    t.expect(bwrap(t, *HOST, "--setenv", "PATH", "/nonexistent", "ls"), status=1, err="^bwrap: execvp ls: No such file or directory\n$")
    t.expect(bwrap(t, *HOST, "--argv0", "other", "sh", "-c", "echo $0"), out="other\n")


# ---- documents and descriptors

@case("info-fd and json-status-fd say who the child is, in which namespaces, and how it ended")
def documents(t):
    read, write = os.pipe()
    status_read, status_write = os.pipe()
    process = t.spawn([link(t), *HOST, "--unshare-all", "--proc", "/proc", "--info-fd", str(write), "--json-status-fd", str(status_write), "sh", "-c",
                       "for n in cgroup ipc mnt net pid uts; do stat -L -c %i /proc/self/ns/$n; done; exit 7"], pass_fds=(write, status_write))
    os.close(write)
    os.close(status_write)
    out, _ = process.communicate()
    t.equal(process.returncode, 7, "status")
    info, lines = os.read(read, 65536).decode(), os.read(status_read, 65536).decode()
    os.close(read)
    os.close(status_read)
    numbers = [int(number) for number in out.split()]
    document = json.loads(info)
    names = [f"{name}-namespace" for name in ("cgroup", "ipc", "mnt", "net", "pid", "uts")]
    t.equal(list(document), ["child-pid", *names], "keys")
    t.equal([document[name] for name in names], numbers, "inode numbers")
    t.equal(info, "{\n" + ",\n".join(f'    "{key}": {value}' for key, value in document.items()) + "\n}\n", "info-fd")
    first = "{ " + ", ".join(f'"{key}": {value}' for key, value in document.items()) + " }\n"
    t.equal(lines, first + '{ "exit-code": 7 }\n', "json-status-fd")


@case("a set-up or an exec that failed has no exit code in its status")
def no_exit_code(t):
    for words in (("--bind", "/nonexistent", "/x", "true"), ("/nonexistent",), ("/",)):
        read, write = os.pipe()
        t.expect(bwrap(t, *HOST, "--json-status-fd", write, *words, pass_fds=(write,)), status=1)
        os.close(write)
        text = os.read(read, 65536).decode()
        os.close(read)
        t.match(text, r'^\{ "child-pid": \d+, "mnt-namespace": \d+ \}\n$', "status")


@case("options can come from descriptors; what was used is closed, everything else reaches COMMAND")
def descriptors(t):
    first, second, other = fds_with(b"--dir\0/a\0", b"--setenv\0X\0y", b"")
    done = bwrap(t, *USR, "--args", first, "--args", second, "--proc", "/proc", "sh", "-c", "ls -d /a; echo $X; cd /proc/self/fd && echo *",
                 pass_fds=(first, second, other))
    t.expect(done)
    t.equal(done.text.splitlines()[:2], ["/a", "y"])
    shown = set(done.text.splitlines()[2].split())
    t.true(str(other) in shown and not {str(first), str(second)} & shown, f"{shown}, {other} among them, {first} and {second} not")
    for fd in (first, second, other):
        os.close(fd)


def reader(fifo):
    """Whether somebody has opened the FIFO to read it."""
    try:
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
        return True
    except OSError:
        return False


@case("a descriptor that is not open is an error of its own: it never comes to name a pipe of bwrap's or the host's /proc")
def closed_descriptors(t):
    for number in range(3, 12):
        for option, line in ((("--bind-fd", number, "/x"), f"Can't find source path /proc/self/fd/{number}: No such file or directory"),
                             (("--ro-bind-data", number, "/x"), "Can't write data to file /x: Bad file descriptor"),
                             (("--file", number, "/x"), "Can't write data to file /x: Bad file descriptor"),
                             (("--json-status-fd", number), "Write to info_fd: Bad file descriptor"),
                             (("--info-fd", number), "Write to info_fd: Bad file descriptor"),
                             (("--sync-fd", number), f"Invalid fd: {number}: Bad file descriptor"),
                             (("--block-fd", number), f"Invalid fd: {number}: Bad file descriptor")):
            done = bwrap(t, *USR, "--unshare-pid", *option, "true", timeout=10)
            t.expect(done, status=1, err=f"^bwrap: {line}\n$")
    # Used up by the first, its number is nobody's.
    fd, = fds_with(b"--clearenv")
    done = bwrap(t, "--args", fd, "--bind-fd", fd, "/x", *USR, "true", pass_fds=(fd,))
    t.expect(done, status=1, err=f"^bwrap: Can't find source path /proc/self/fd/{fd}: No such file or directory\n$")
    os.close(fd)


@case("readers of the documents that go away: an error before COMMAND runs, nothing afterwards; its status counts")
def readers_that_leave(t):
    for option in ("--info-fd", "--json-status-fd"):
        read, write = os.pipe()
        os.close(read)
        t.expect(bwrap(t, *HOST, option, write, "true", pass_fds=(write,)), status=1, err="^bwrap: Write to info_fd: Broken pipe\n$")
        os.close(write)
    read, write = os.pipe()
    process = t.spawn([link(t), *HOST, "--json-status-fd", str(write), "sh", "-c", "read line; exit 7"], pass_fds=(write,), bufsize=0)
    os.close(write)
    t.true(os.read(read, 4096), "the first document")
    os.close(read)
    process.stdin.write(b"\n")
    t.equal(process.wait(timeout=10), 7, "status")


@case("what never ends or never begins is an error: --args without an end, a FIFO as --lock-file")
def endless(t):
    with open("/dev/zero", "rb") as zero:
        t.expect(bwrap(t, "--args", zero.fileno(), "true", pass_fds=(zero.fileno(),)), status=1, err="^bwrap: Can't read --args data: File too large\n$")
    os.mkfifo(t.dir / "fifo")
    t.expect(bwrap(t, *HOST, "--lock-file", t.dir / "fifo", "true", timeout=10), status=0)


@case("COMMAND waits for --block-fd; --sync-fd is open until the last process has ended, after bwrap itself has")
def waiting(t):
    read, write = os.pipe()
    sync_read, sync_write = os.pipe()
    os.mkfifo(t.dir / "go")
    t.own(t.dir / "go")
    process = t.spawn([link(t), "--dev-bind", "/", "/", "--unshare-pid", "--block-fd", str(read), "--sync-fd", str(sync_write), "sh", "-c",
                       "echo started; (read x < go) >/dev/null 2>&1 & exit 3"], pass_fds=(read, sync_write), bufsize=0)
    os.close(read)
    os.close(sync_write)
    os.set_blocking(process.stdout.fileno(), False)
    t.equal(process.stdout.read(8), None, "output before the descriptor can be read")
    os.set_blocking(process.stdout.fileno(), True)
    os.write(write, b"x")
    t.equal(process.stdout.read(8), b"started\n")
    t.equal(process.wait(timeout=10), 3, "status, while a process goes on")
    os.set_blocking(sync_read, False)
    try:
        os.read(sync_read, 1)
        raise Failure("--sync-fd was closed while a process went on")
    except BlockingIOError:
        pass
    # Whoever reads the FIFO goes on when it has been opened for writing.
    t.wait_until(lambda: reader(t.dir / "go"), 10, "the process that goes on waits")
    os.set_blocking(sync_read, True)
    t.equal(os.read(sync_read, 1), b"", "--sync-fd at the end")
    os.close(write)
    os.close(sync_read)


@case("namespaces of another sandbox are joined by descriptor")
def joining(t):
    read, write = os.pipe()
    process = t.spawn([link(t), *HOST, "--unshare-user", "--unshare-pid", "--uid", "7", "--proc", "/proc", "--info-fd", str(write), "sh", "-c",
                       "readlink /proc/self/ns/user /proc/self/ns/pid; read x"], pass_fds=(write,), bufsize=0)
    os.close(write)
    pid = json.loads(os.read(read, 65536))["child-pid"]
    os.close(read)
    wanted = process.stdout.readline() + process.stdout.readline()
    joined = bwrap_joining(t, pid)
    process.stdin.write(b"\n")
    process.wait(timeout=10)
    t.equal(joined.text.encode(), wanted, "user and pid namespace")


def bwrap_joining(t, pid):
    """readlink of both namespaces in a second sandbox that joins those of `pid`."""
    script = f"exec {link(t)} --ro-bind / / --userns 11 --pidns 12 --uid 7 --proc /proc readlink /proc/self/ns/user /proc/self/ns/pid"
    return t.expect(t.run(["bash", "-c", f"{script} 11</proc/{pid}/ns/user 12</proc/{pid}/ns/pid"]))


# ---- life and death

@case("seccomp programs are loaded, the last that was added decides; bad ones are refused")
def filters(t):
    allow = (0x06).to_bytes(2, "little") + b"\0\0" + (0x7fff0000).to_bytes(4, "little")
    fd, = fds_with(allow)
    t.expect(bwrap(t, *HOST, "--seccomp", fd, "sh", "-c", "grep ^Seccomp: /proc/self/status", pass_fds=(fd,)), out="Seccomp:\t2\n")
    os.close(fd)
    # uname answers EPERM.
    number = 63 if os.uname().machine == "x86_64" else 160
    deny = b"".join(code.to_bytes(2, "little") + bytes([yes, no]) + value.to_bytes(4, "little")
                    for code, yes, no, value in ((0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)))
    one, two = fds_with(allow, deny)
    t.expect(bwrap(t, *HOST, "--add-seccomp-fd", one, "--add-seccomp-fd", two, "uname", pass_fds=(one, two)), status=1)
    os.close(one)
    os.close(two)
    bad, = fds_with(b"short")
    t.expect(bwrap(t, *HOST, "--seccomp", bad, "true", pass_fds=(bad,)), status=1, err="^bwrap: Invalid seccomp data, must be multiple of 8\n$")
    os.close(bad)


@case("killed by SIGKILL bwrap leaves its sandbox alone; with --die-with-parent nothing is left")
def death(t):
    for more in (("--die-with-parent",), ("--die-with-parent", "--unshare-pid"), ("--die-with-parent", "--unshare-pid", "--as-pid-1"), ()):
        read, write = os.pipe()
        process = t.spawn([link(t), *HOST, *more, "sh", "-c", "echo $$; exec sleep 1000"], pass_fds=(write,), bufsize=0)
        os.close(write)
        process.stdout.readline()
        inside = [pid for pid in harness.children_of(process.pid)]
        t.true(inside, "a child of bwrap")
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=10)
        if more:
            # Every process inside has the pipe: at its end they are all gone.
            t.equal(os.read(read, 1), b"", "the pipe of the sandbox")
        else:
            for pid in inside:
                os.kill(pid, 0)
                os.kill(pid, signal.SIGKILL)
        os.close(read)


@case("--die-with-parent holds while bwrap still waits, and where somebody has stopped the process inside")
def death_of_the_waiting(t):
    for signal_first in (False, True):
        block, go = os.pipe()
        read, write = os.pipe()
        words = () if signal_first else ("--block-fd", str(block))
        process = t.spawn([link(t), *HOST, "--die-with-parent", "--unshare-pid", *words, "sh", "-c", "echo; exec sleep 1000"], pass_fds=(write, block), bufsize=0)
        os.close(write)
        if signal_first:
            process.stdout.readline()
        else:
            # The child is asleep in read(2) of the pipe once it waits.
            t.wait_until(lambda: any(pathlib.Path(f"/proc/{pid}/syscall").read_text().startswith(f"0 {block:#x} ")
                                           for pid in harness.children_of(process.pid)), 10, "a child that waits")
        for pid in harness.children_of(process.pid):
            os.kill(pid, signal.SIGSTOP)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=10)
        readable, _, _ = select.select([read], [], [], 10)
        t.true(readable, "the pipe of the sandbox has its end")
        for fd in (block, go, read):
            os.close(fd)


@case("a caller that ignores SIGCHLD gets its answer")
def ignored_child_signal(t):
    t.expect(t.run(["sh", "-c", f"trap '' CHLD; exec {link(t)} --ro-bind / / --unshare-pid sh -c 'exit 5'"]), status=5)


@case("two thousand binds take time in proportion: no mount table is read", seconds=60)
def many_binds(t):
    sources = [t.file(f"s/{i}", str(i)) for i in range(2000)]
    words = [word for i, source in enumerate(sources) for word in ("--ro-bind", source, f"/b/{i}")]
    fd, = fds_with(b"\0".join(word.encode() for word in words))
    done = bwrap(t, *USR, "--args", fd, "sh", "-c", "cat /b/0 /b/1999; ls /b | wc -l", pass_fds=(fd,))
    os.close(fd)
    t.expect(done, out="019992000\n")


@case("a namespace that cannot be had: upstream's line, then what helps, where somebody reads it")
def denied(t):
    words = ("--ro-bind", "/", "/", "--unshare-user", "--disable-userns", link(t), "--ro-bind", "/", "/", "--unshare-user", "true")
    line = "^bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_\\*_namespaces exceeded \\(ENOSPC\\)\n"
    t.expect(bwrap(t, *words), status=1, err=line + "$")
    t.expect(bwrap(t, *words, env={"SBX_HINTS": "1"}), status=1, err=line + "bwrap: hint: .+\n$")
