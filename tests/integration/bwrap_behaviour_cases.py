"""What a bwrap must do, option by option and error by error, seen from outside: exit status, lines on stderr, and what
a program finds inside. Every case runs against any bwrap: here against our link, in `make test-compat` against
upstream's own binary too, which must pass the same (`differs` names where it may not, and why). So a case that upstream's binary fails
is a listed difference, or wrong.
"""

import json
import os
import pathlib
import re
import shlex
import socket
import struct
import subprocess

from harness import Failure, case

# Nothing of the host but its programs; `/` itself is the sandbox's own tmpfs.
USR = ["--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
       "--symlink", "usr/sbin", "/sbin"]
HOST = ["--ro-bind", "/", "/"]
# What a shell puts into the background reads /dev/null; a read-only bind alone lets nobody open a device.
DEVICES = ["--dev-bind", "/dev", "/dev"]
DIFFERS = {}  # case's function name: why upstream's binary behaves otherwise


def differs(reason):
    """What we do otherwise on purpose: upstream's binary must FAIL this case."""
    def mark(function):
        DIFFERS[function.__name__.strip("_")] = reason
        return function
    return mark


class Data:
    """An argument that becomes the number of a descriptor from which these bytes can be read."""

    def __init__(self, content=b""):
        self.content = content.encode() if isinstance(content, str) else content


class Open:
    """An argument that becomes the number of a descriptor on this path."""

    def __init__(self, path, flags=os.O_PATH):
        self.path, self.flags = path, flags


class Out:
    """An argument that becomes the number of a descriptor that can be written; `text` holds what came, afterwards."""

    text = None


def link(t):
    """The bwrap under test: upstream's when test-compat says so, else a link to our binary."""
    chosen = getattr(t, "bwrap_path", None)
    if chosen:
        return chosen
    path = t.dir / "bwrap"
    if not path.is_symlink():
        os.symlink(t.binary, path)
    return str(path)


def bwrap(t, *words, **more):
    """Runs it to the end; words may be Data, Open, Out."""
    opened, outs, argv = [], [], [link(t)]
    for word in words:
        if isinstance(word, Data):
            read, write = os.pipe()
            os.write(write, word.content)
            os.close(write)
            opened.append(read)
            argv.append(str(read))
        elif isinstance(word, Open):
            opened.append(os.open(word.path, word.flags))
            argv.append(str(opened[-1]))
        elif isinstance(word, Out):
            read, write = os.pipe()
            outs.append((word, read))
            opened.append(write)
            argv.append(str(write))
        else:
            argv.append(str(word))
    try:
        done = t.run(argv, pass_fds=tuple(opened) + tuple(more.pop("pass_fds", ())), **more)
    finally:
        for fd in opened:
            os.close(fd)
        for _word, fd in outs:
            os.set_blocking(fd, False)
    for word, fd in outs:
        with os.fdopen(fd, "rb") as stream:
            word.text = (stream.read() or b"").decode()
    return done


def inside(t, *words, script="", base=USR, **more):
    """The output of a shell script inside; it must end well."""
    return t.expect(bwrap(t, *base, *words, "--", "/bin/sh", "-c", script, **more)).text


def mounts_of(text):
    """{mount point: (options, file system, root)} of a mountinfo text; the last mount on a place wins."""
    found = {}
    for line in text.splitlines():
        left, right = line.split(" - ", 1)
        words = left.split()
        found[words[4]] = (set(words[5].split(",")), right.split()[0], words[3])
    return found


def mount(t, target, *words, base=USR, **more):
    # /proc is the host's own here, so that it stands in the way of nothing.
    text = inside(t, *words, "--ro-bind", "/proc", "/proc", script="cat /proc/self/mountinfo", base=base, **more)
    found = mounts_of(text)
    t.true(target in found, f"no mount at {target}:\n{text}")
    return found[target]


def flags(t, got, want=(), without=()):
    options = got[0]
    t.true(set(want) <= options and not set(without) & options, f"mount has {sorted(options)}, wanted {list(want)} and not {list(without)}")


def refused(t, pattern, *words, **more):
    """Fails before anything runs: status 1, a line on stderr, nothing on stdout."""
    return t.expect(bwrap(t, *words, **more), status=1, out=b"", err=pattern)


# ---- the command line (errors) ------------------------------------------------------------------------------

def words_refused(name, pattern, *words):
    """A case of its own for each wrong command line."""
    def function(t):
        refused(t, f"^bwrap: {pattern}$", *words)
    function.__name__ = "wrong_" + name
    case(f"{' '.join(str(w) if isinstance(w, str) else 'FD' for w in words)[:70]} is refused: {pattern}")(function)


ONE = ["--args", "--exec-label", "--file-label", "--hostname", "--proc", "--dev", "--tmpfs", "--mqueue", "--dir", "--lock-file", "--sync-fd",
       "--block-fd", "--userns-block-fd", "--info-fd", "--json-status-fd", "--seccomp", "--add-seccomp-fd", "--userns", "--userns2", "--pidns",
       "--unsetenv", "--uid", "--gid", "--cap-add", "--cap-drop", "--perms", "--size"]
for _option in ONE:
    words_refused(f"alone_{_option[2:].replace('-', '_')}", f"{_option} takes an argument", _option)
for _option in ["--argv0", "--chdir", "--remount-ro"]:
    words_refused(f"alone_{_option[2:].replace('-', '_')}", f"{_option} takes one argument", _option)
for _option in ["--bind", "--ro-bind", "--dev-bind", "--bind-try", "--ro-bind-try", "--dev-bind-try", "--bind-fd", "--file", "--bind-data",
                "--ro-bind-data", "--symlink", "--setenv", "--chmod"]:
    words_refused(f"one_of_two_{_option[2:].replace('-', '_')}", f"{_option} takes two arguments", _option, "1")
words_refused("two_of_three_overlay", "--overlay takes three arguments", "--overlay-src", "/", "--overlay", "/a", "/b")
for _option in ["--args", "--sync-fd", "--block-fd", "--userns-block-fd", "--info-fd", "--json-status-fd", "--seccomp", "--add-seccomp-fd",
                "--userns", "--userns2", "--pidns"]:
    words_refused(f"fd_{_option[2:].replace('-', '_')}", "Invalid fd: x1", _option, "x1", "true")
for _option in ["--file", "--bind-data", "--ro-bind-data", "--bind-fd", "--ro-bind-fd"]:
    words_refused(f"fd_{_option[2:].replace('-', '_')}", "Invalid fd: -2", _option, "-2", "/x", "true")
words_refused("fd_empty", "Invalid fd: ", "--sync-fd", "", "true")
words_refused("fd_trailing", "Invalid fd: 3a", "--sync-fd", "3a", "true")
words_refused("unknown", "Unknown option --binds", *USR, "--binds", "true")
words_refused("dash", "Unknown option -", *USR, "-", "true")
words_refused("equals", "Unknown option --chdir=/", *USR, "--chdir=/", "true")
words_refused("short", "Unknown option -h", "-h")
words_refused("abbreviated", "Unknown option --unshare", "--unshare", "true")
words_refused("uid", "Invalid uid: me", "--unshare-user", "--uid", "me", "true")
words_refused("uid_negative", "Invalid uid: -1", "--unshare-user", "--uid", "-1", "true")
words_refused("gid", "Invalid gid: x", "--unshare-user", "--gid", "x", "true")
words_refused("cap", "unknown cap: CAP_NONE", "--cap-add", "CAP_NONE", "true")
words_refused("cap_without_prefix", "unknown cap: NET_RAW", "--cap-drop", "NET_RAW", "true")
words_refused("cap_prefix_and_number", "unknown cap: cap_13", "--cap-drop", "cap_13", "true")
words_refused("perms_text", "--perms takes an octal argument <= 07777", "--perms", "rw", "--dir", "/x", "true")
words_refused("perms_empty", "--perms takes an octal argument <= 07777", "--perms", "", "--dir", "/x", "true")
words_refused("perms_decimal", "--perms takes an octal argument <= 07777", "--perms", "0888", "--dir", "/x", "true")
words_refused("perms_large", "--perms takes an octal argument <= 07777", "--perms", "10000", "--dir", "/x", "true")
words_refused("perms_twice", "--perms given twice for the same action", "--perms", "0700", "--perms", "0700", "--dir", "/x", "true")
words_refused("perms_for_symlink", "--perms must be followed by an option that creates a file", "--perms", "0700", "--symlink", "a", "/b", "true")
words_refused("perms_for_bind", "--perms must be followed by an option that creates a file", "--perms", "0700", "--bind", "/", "/", "true")
words_refused("perms_for_setenv", "--perms must be followed by an option that creates a file", "--perms", "0700", "--setenv", "A", "b", "true")
words_refused("size_for_dir", "--size must be followed by --tmpfs", "--size", "4096", "--dir", "/x", "true")
words_refused("size_twice", "--size given twice for the same action", "--size", "4096", "--size", "4096", "--tmpfs", "/x", "true")
words_refused("size_large", "--size \\(for tmpfs\\) is limited to 9223372036854775807", "--size", "9223372036854775808", "--tmpfs", "/x", "true")
for _number, _text in enumerate(["0", "4k", "", "-1", " 1", "18446744073709551616", "0x"]):
    words_refused(f"size_{_number}", "--size takes a non-zero number of bytes", "--size", _text, "--tmpfs", "/x", "true")
words_refused("chmod", "--chmod takes an octal argument <= 07777", "--chmod", "u+x", "/x", "true")
_DANGLING = "--overlay-src must be followed by another --overlay-src or one of --overlay, --tmp-overlay, or --ro-overlay"
words_refused("overlay_none", "--overlay requires at least one --overlay-src", "--overlay", "/a", "/b", "/c", "true")
words_refused("tmp_overlay_none", "--tmp-overlay requires at least one --overlay-src", "--tmp-overlay", "/c", "true")
words_refused("ro_overlay_one", "--ro-overlay requires at least two --overlay-src", "--overlay-src", "/", "--ro-overlay", "/c", "true")
words_refused("overlay_src_then_bind", _DANGLING, "--overlay-src", "/", "--bind", "/", "/", "true")
words_refused("overlay_src_last", _DANGLING, "--overlay-src", "/usr", "true")
words_refused("argv0_twice", "--argv0 used multiple times", "--argv0", "a", "--argv0", "b", "true")
words_refused("block_without_user", "--userns-block-fd requires --unshare-user", "--userns-block-fd", "9", "--info-fd", "1", "true")
words_refused("block_without_info", "--userns-block-fd requires --info-fd", "--unshare-user", "--userns-block-fd", "9", "true")
words_refused("userns_and_unshare", "--userns is not compatible with --unshare-user", "--userns", "9", "--unshare-user", "true")
words_refused("userns_and_unshare_try", "--userns is not compatible with --unshare-user-try", "--userns", "9", "--unshare-all", "true")
words_refused("disable_without_user", "--disable-userns requires --unshare-user", "--disable-userns", "true")
words_refused("disable_and_block", "--disable-userns is not compatible with --userns-block-fd", "--unshare-user", "--disable-userns", "--info-fd", "1",
              "--userns-block-fd", "9", "true")
words_refused("hostname_without_uts", "Specifying --hostname requires --unshare-uts", "--hostname", "x", "true")
words_refused("pid_1_without_pid", "Specifying --as-pid-1 requires --unshare-pid", "--as-pid-1", "true")
words_refused("pid_1_and_lock", "Specifying --as-pid-1 and --lock-file is not permitted", "--unshare-pid", "--as-pid-1", "--lock-file", "/x", "true")
words_refused("seccomp_both", "--seccomp cannot be combined with --add-seccomp-fd", "--add-seccomp-fd", Data(), "--seccomp", "9", "true")
words_refused("seccomp_both_other_order", "--add-seccomp-fd cannot be combined with --seccomp", "--seccomp", "9", "--add-seccomp-fd", Data(), "true")
words_refused("seccomp_seven_bytes", "Invalid seccomp data, must be multiple of 8", *HOST, "--add-seccomp-fd", Data(b"1234567"), "true")
words_refused("seccomp_late_seven_bytes", "Invalid seccomp data, must be multiple of 8", *HOST, "--seccomp", Data(b"1234567"), "true")
words_refused("seccomp_closed", "Can't read seccomp data: Bad file descriptor", *HOST, "--add-seccomp-fd", "99", "true")
words_refused("seccomp_late_closed", "Can't read seccomp data: Bad file descriptor", *HOST, "--seccomp", "99", "true")
words_refused("args_closed", "Can't read --args data: Bad file descriptor", "--args", "99", "true")
words_refused("args_in_args", "--args not supported in arguments file", *HOST, "--args", Data(b"--args\0003\0"), "true")
words_refused("label", "labeling not supported on this system", "--exec-label", "x", "true")


@case("--uid and --gid without a user namespace: root is told what is missing", as_=("root",))
def wrong_uid_without_userns(t):
    refused(t, "^bwrap: Specifying --uid requires --unshare-user or --userns$", *HOST, "--uid", "5", "true")
    refused(t, "^bwrap: Specifying --gid requires --unshare-user or --userns$", *HOST, "--gid", "5", "true")
    t.expect(bwrap(t, *HOST, "--uid", "0", "--gid", "0", "true"))  # what is so anyway may be said


@case("without COMMAND: usage on stderr, status 1; --help: on stdout, status 0; --version names bubblewrap 0.12")
def usage(t):
    for words in ([], ["--bind", "/", "/"], ["--"]):
        done = t.expect(bwrap(t, *words), status=1, out=b"")
        t.match(done.errors, r"^usage: \S*bwrap \[OPTIONS\.\.\.\] \[--\] COMMAND \[ARGS\.\.\.\]$")
    done = t.expect(bwrap(t, "--help"))
    t.match(done.text, r"\Ausage: \S*bwrap \[OPTIONS\.\.\.\] \[--\] COMMAND \[ARGS\.\.\.\]$")
    for option in ONE + ["--argv0", "--bind", "--ro-bind-fd", "--overlay-src", "--level-prefix", "--not-a-security-boundary"]:
        t.match(done.text, rf"^ +{option} ")
    t.equal(t.expect(bwrap(t, "--version")).out, b"bubblewrap 0.12.0\n")
    t.expect(bwrap(t, "--bind", "/", "/", "--help", "--nonsense"), out_match="^usage: ")


@case("options end at the first word that is none, at an empty word, or at --; what follows is COMMAND's")
def end_of_options(t):
    t.expect(bwrap(t, *HOST, "echo", "--bind", "-x", "--"), out=b"--bind -x --\n")
    t.expect(bwrap(t, *HOST, "--", "echo", "a"), out=b"a\n")
    refused(t, "^bwrap: execvp --bind: No such file or directory$", *HOST, "--", "--bind", "/", "/", "true")
    refused(t, "^bwrap: execvp : No such file or directory$", *HOST, "", "--nonsense")


@case("--args: words end at NUL, the last NUL may be missing, files add up; behind a word that is no option the rest is dropped")
def args(t):
    t.expect(bwrap(t, "--args", Data(b"--ro-bind\0/\0/\0--setenv\0A\0first"), "--args", Data(b"--setenv\0B\0 two words\nand a line\0"),
                   "sh", "-c", 'printf "%s|%s" "$A" "$B"'), out=b"first| two words\nand a line")
    t.expect(bwrap(t, *HOST, "--args", Data(b"echo\0--nonsense\0"), "echo", "mine"), out=b"mine\n")
    t.expect(bwrap(t, *HOST, "--args", Data(b""), "echo", "empty"), out=b"empty\n")
    t.expect(bwrap(t, *HOST, "--args", Data(b"--\0--nonsense\0"), "echo", "dashes"), out=b"dashes\n")
    refused(t, "^bwrap: --bind takes two arguments$", *HOST, "--args", Data(b"--bind\0/usr\0"), "/usr", "true")


@case("9000 words at most, COMMAND's and those behind --args counted")
def words_limit(t):
    file = Data(b"--setenv\0A\0b\0" * 2900)
    t.expect(bwrap(t, *HOST, "--args", file, *["true"] * (9000 - 8700 - 5)))
    refused(t, "^bwrap: Exceeded maximum number of arguments 9000$", *HOST, "--args", Data(b"--setenv\0A\0b\0" * 3001), "true")
    refused(t, "^bwrap: Exceeded maximum number of arguments 9000$", *HOST, *["true"] * 8998)


@case("an option given again: the last one counts, with a warning; --level-prefix puts <4> and <3> before lines")
def given_again(t):
    done = t.expect(bwrap(t, *HOST, "--chdir", "/etc", "--chdir", "/usr", "pwd"), out=b"/usr\n")
    t.equal(done.errors, "bwrap: Only the last --chdir option will take effect\n")
    done = t.expect(bwrap(t, *HOST, "--unshare-user", "--uid", "5", "--uid", "6", "--gid", "7", "--gid", "8", "sh", "-c", "id -u; id -g"), out=b"6\n8\n")
    t.equal(done.errors, "bwrap: Only the last --uid option will take effect\nbwrap: Only the last --gid option will take effect\n")
    done = t.expect(bwrap(t, "--level-prefix", *HOST, "--chdir", "/", "--chdir", "/usr", "true"))
    t.equal(done.errors, "<4>bwrap: Only the last --chdir option will take effect\n")
    done = t.expect(bwrap(t, "--level-prefix", "--nonsense"), status=1)
    t.equal(done.errors, "<3>bwrap: Unknown option --nonsense\n")
    done = t.expect(bwrap(t, "--level-prefix", *HOST, "--ro-bind", "/no/such", "/x", "true"), status=1)
    t.match(done.errors, "^<3>bwrap: Can't find source path /no/such: No such file or directory$")


# ---- namespaces and identity ---------------------------------------------------------------------------------

KINDS = {"ipc": "--unshare-ipc", "net": "--unshare-net", "pid": "--unshare-pid", "uts": "--unshare-uts", "cgroup": "--unshare-cgroup", "user": "--unshare-user"}
READ_NS = "for n in cgroup ipc mnt net pid user uts; do echo $n $(readlink /proc/self/ns/$n); done"


def namespaces(t, *words):
    text = inside(t, *words, "--ro-bind", "/proc", "/proc", script=READ_NS)
    return dict(line.split() for line in text.splitlines())


def own_namespaces():
    return {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")}


@case("each --unshare-… makes that namespace and no other; the mount namespace is always new, the user namespace for all but root")
def unshare_each(t):
    mine = own_namespaces()
    always = {"mnt"} | (set() if t.is_root else {"user"})
    # A process that was never forked into the new pid namespace does not exist: the host's /proc shows the child's.
    for kind, option in [("", None)] + list(KINDS.items()):
        got = namespaces(t, *([option] if option else []))
        changed = {name for name in mine if got[name] != mine[name]} if kind != "pid" else {name for name in mine if name != "pid" and got[name] != mine[name]} | {"pid"}
        t.equal(changed, always | ({kind} if kind else set()), f"what {option} changes")


@case("--unshare-all is user, ipc, pid, net, uts and cgroup; --share-net takes the network back, when it comes after")
def unshare_all(t):
    mine = own_namespaces()
    read = ["--proc", "/proc"]
    got = dict(line.split() for line in inside(t, "--unshare-all", *read, script=READ_NS).splitlines())
    t.equal({name for name in mine if got[name] == mine[name]}, set())
    got = dict(line.split() for line in inside(t, "--unshare-all", "--share-net", *read, script=READ_NS).splitlines())
    t.equal({name for name in mine if got[name] == mine[name]}, {"net"})
    got = dict(line.split() for line in inside(t, "--share-net", "--unshare-all", *read, script=READ_NS).splitlines())
    t.equal({name for name in mine if got[name] == mine[name]}, set())


@case("--unshare-user-try and --unshare-cgroup-try do what the plain ones do here")
def unshare_try(t):
    mine = own_namespaces()
    got = namespaces(t, "--unshare-user-try", "--unshare-cgroup-try")
    t.equal({name for name in mine if got[name] != mine[name]}, {"mnt", "user", "cgroup"})


@case("--unshare-net: loopback is up and has its address; nothing else is there")
def loopback(t):
    text = inside(t, "--unshare-net", "--proc", "/proc", "--unshare-pid",
                  script="cat /proc/net/dev | tail -n +3 | cut -d: -f1; cat /proc/net/route | wc -l; "
                         "python3 -c 'import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 0)); s.listen(); c = socket.create_connection(s.getsockname()); print(c.getpeername()[0])'")
    t.equal(text.split(), ["lo", "1", "127.0.0.1"])


def id_maps(t, *words):
    text = inside(t, *words, "--ro-bind", "/proc", "/proc", script="cat /proc/self/uid_map /proc/self/gid_map /proc/self/setgroups; id -u; id -g; id -G")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return lines


@case("an ordinary user: one line of map, own ids, setgroups denied, no other group", as_=("user",))
def map_user(t):
    uid, gid = t.identity.uid, t.identity.gid
    t.equal(id_maps(t), [f"{uid} {uid} 1", f"{gid} {gid} 1", "deny", str(uid), str(gid), str(gid)])
    t.equal(id_maps(t, "--uid", "1234", "--gid", "77"), [f"1234 {uid} 1", f"77 {gid} 1", "deny", "1234", "77", "77"])
    t.equal(id_maps(t, "--uid", "0", "--gid", "0"), [f"0 {uid} 1", f"0 {gid} 1", "deny", "0", "0", "0"])


@case("an ordinary user with --dev: a second user namespace maps root back, since devpts wants root", as_=("user",))
def map_user_dev(t):
    uid, gid = t.identity.uid, t.identity.gid
    t.equal(id_maps(t, "--dev", "/dev"), [f"{uid} 0 1", f"{gid} 0 1", "deny", str(uid), str(gid), str(gid)])
    t.equal(id_maps(t, "--dev", "/dev", "--uid", "1234", "--gid", "77"), ["1234 0 1", "77 0 1", "deny", "1234", "77", "77"])


@case("root: no user namespace unless asked for; then one line", as_=("root",))
def map_root(t):
    with open("/proc/self/uid_map") as file:
        whole = " ".join(file.read().split())
    t.equal(id_maps(t)[0], whole)
    t.equal(id_maps(t, "--unshare-user")[:5], ["0 0 1", "0 0 1", "deny", "0", "0"])
    t.equal(id_maps(t, "--unshare-user", "--uid", "5", "--gid", "6")[:5], ["5 0 1", "6 0 1", "deny", "5", "6"])


@case("--hostname sets the name inside and not outside")
def hostname(t):
    before = os.uname().nodename
    t.equal(inside(t, "--unshare-uts", "--hostname", "a-box", script="uname -n"), "a-box\n")
    t.equal(inside(t, "--unshare-uts", script="uname -n"), before + "\n")
    t.equal(os.uname().nodename, before)


@case("--disable-userns: nobody inside makes a user namespace, whatever is written to the limit; --assert-userns-disabled fails without it")
def disable_userns(t):
    make = "unshare -U true 2>&- && echo made || echo refused"
    t.equal(inside(t, "--unshare-user", "--proc", "/proc", "--unshare-pid", script=make, base=HOST), "made\n")
    off = ["--unshare-user", "--disable-userns", "--unshare-pid", "--proc", "/proc"]
    t.equal(inside(t, *off, script=make, base=HOST), "refused\n")
    t.equal(inside(t, *off, script="echo 100 2>&- > /proc/sys/user/max_user_namespaces; " + make, base=HOST), "refused\n")
    t.equal(inside(t, *off, "--assert-userns-disabled", script="echo fine", base=HOST), "fine\n")
    refused(t, "^bwrap: creation of new user namespaces was not disabled as requested$", *HOST, "--unshare-user", "--assert-userns-disabled", "true")


@case("--userns and --pidns enter the namespaces of a running sandbox; ids are given by --uid")
def join(t):
    read, write = os.pipe()
    first = t.spawn([link(t), *USR, "--unshare-user", "--unshare-pid", "--proc", "/proc", "--info-fd", str(write), "sh", "-c", "readlink /proc/self/ns/user /proc/self/ns/pid; read x"],
                    pass_fds=(write,))
    os.close(write)
    names = [first.stdout.readline().decode().strip() for _ in range(2)]
    with os.fdopen(read) as stream:
        child = json.loads(stream.read())["child-pid"]
    text = t.expect(bwrap(t, *HOST, "--userns", Open(f"/proc/{child}/ns/user", os.O_RDONLY), "--pidns", Open(f"/proc/{child}/ns/pid", os.O_RDONLY),
                          "readlink", "/proc/self/ns/user")).text
    t.equal(text.strip(), names[0])
    # The pid namespace is entered by a child: what it sees of itself in a proc of that namespace.
    text = t.expect(bwrap(t, *HOST, "--userns", Open(f"/proc/{child}/ns/user", os.O_RDONLY), "--pidns", Open(f"/proc/{child}/ns/pid", os.O_RDONLY),
                          "--proc", "/proc", "sh", "-c", "readlink /proc/self/ns/pid; tr '\\0' ' ' < /proc/1/cmdline")).text.splitlines()
    t.equal(text[0], names[1])
    t.match(text[1], "bwrap .*--info-fd")
    first.communicate(b"\n")


@case("--userns-block-fd: the caller writes the maps, bwrap writes none", as_=("root",))
def userns_block(t):
    info_read, info_write = os.pipe()
    block_read, block_write = os.pipe()
    process = t.spawn([link(t), *HOST, "--unshare-user", "--userns-block-fd", str(block_read), "--info-fd", str(info_write), "sh", "-c", "cat /proc/self/uid_map"],
                      pass_fds=(block_read, info_write))
    os.close(info_write)
    with os.fdopen(info_read) as stream:
        child = json.loads(stream.read())["child-pid"]
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/{child}/{name}", "w") as file:
            file.write("0 0 10\n")
    os.write(block_write, b"1")
    os.close(block_write)
    os.close(block_read)
    out, err = process.communicate(timeout=10)
    t.equal((process.returncode, out.split(), err), (0, [b"0", b"0", b"10"], b""))


# ---- files ----------------------------------------------------------------------------------------------------

@case("without any operation the root is an empty tmpfs, and nothing can be run in it")
def empty_root(t):
    refused(t, "^bwrap: execvp true: No such file or directory$", "true")
    done = t.expect(bwrap(t, *USR, "ls", "-A", "/"))
    t.equal(done.text.split(), ["bin", "lib", "lib64", "sbin", "usr"])


@case("the root is the sandbox's own tmpfs, writable until --remount-ro /; nosuid and nodev")
def root_tmpfs(t):
    t.equal(inside(t, script="mkdir /x && echo y > /x/y && cat /x/y"), "y\n")
    got = mount(t, "/")
    flags(t, got, ["rw", "nosuid", "nodev"])
    t.equal(got[1], "tmpfs")
    sealed = ["--remount-ro", "/"]
    flags(t, mount(t, "/", "--dir", "/proc", *sealed), ["ro", "nosuid", "nodev"])
    t.equal(inside(t, *sealed, script="mkdir /x 2>&- || echo sealed"), "sealed\n")


@case("--bind, --ro-bind, --dev-bind: flags of the mount, of directories and of files")
def bind_flags(t):
    folder, file = t.mkdir("folder"), t.file("file", "text")
    for source, target in ((folder, "/d"), (file, "/f")):
        flags(t, mount(t, target, "--bind", source, target), ["rw", "nosuid", "nodev"])
        flags(t, mount(t, target, "--ro-bind", source, target), ["ro", "nosuid", "nodev"])
        flags(t, mount(t, target, "--dev-bind", source, target), ["rw", "nosuid"], ["nodev"])
        flags(t, mount(t, target, "--bind-fd", Open(source), target), ["rw", "nosuid", "nodev"])
        flags(t, mount(t, target, "--ro-bind-fd", Open(source), target), ["ro", "nosuid", "nodev"])


@case("what is bound writable comes out on the host, what is bound read-only cannot be written")
def bind_writes(t):
    folder = t.mkdir("folder")
    inside(t, "--bind", folder, "/d", script="echo written > /d/file")
    t.equal((t.dir / "folder" / "file").read_text(), "written\n")
    t.equal(inside(t, "--ro-bind", folder, "/d", script="(echo x > /d/file) 2>&- || cat /d/file"), "written\n")
    t.equal((t.dir / "folder" / "file").read_text(), "written\n")


@case("a bind takes the mounts below its source along, each with the same flags")
def bind_recursive(t):
    text = t.expect(bwrap(t, "--ro-bind", "/", "/", "cat", "/proc/self/mountinfo")).text
    found = mounts_of(text)
    t.true(len(found) > 3, f"no mounts came along:\n{text}")
    wrong = [target for target, got in found.items() if "ro" not in got[0] or "nosuid" not in got[0]]
    # What cannot be changed (EACCES) is passed over, and what is covered by another mount is not looked at.
    covered = [target for target in wrong if not os.access(target, os.F_OK) or any(text.count(f" {other} ") > 1 for other in [target])]
    t.equal(sorted(set(wrong) - set(covered)), [])


@case("sources may be relative and links; they are followed outside, before anything is set up")
def bind_sources(t):
    t.mkdir("folder")
    t.file("folder/file", "text")
    os.symlink("folder", t.dir / "link")
    for source in ("folder", "link", "./link/../link", str(t.dir / "link")):
        t.equal(inside(t, "--ro-bind", source, "/d", script="cat /d/file"), "text")
    refused(t, "^bwrap: Can't find source path /no/such: No such file or directory$", *USR, "--bind", "/no/such", "/x", "true")
    refused(t, "^bwrap: Can't find source path no-such: No such file or directory$", *USR, "--ro-bind", "no-such", "/x", "true")


@case("the -try forms pass over a source that does not exist, and nothing else")
def bind_try(t):
    t.equal(inside(t, "--bind-try", "/no/such", "/a", "--ro-bind-try", "/no/such", "/b", "--dev-bind-try", "/no/such", "/c", script="ls -d /a /b /c 2>&-; echo end"), "end\n")
    t.file("file")
    refused(t, "^bwrap: Can't find source path .*/file/below: Not a directory$", *USR, "--bind-try", f"{t.dir}/file/below", "/x", "true")
    flags(t, mount(t, "/d", "--ro-bind-try", "/etc", "/d"), ["ro"])


@case("a missing mount point is made: a directory 0755 for directories, an empty file 0444 for anything else")
def mount_points(t):
    folder = t.mkdir("host")
    t.file("file", "text")
    inside(t, "--bind", folder, "/h", "--ro-bind", "/etc", "/h/dir/below", "--ro-bind", str(t.dir / "file"), "/h/file", script="true")
    # Only --dir, --tmpfs and the files ask for a mode; parents made for anything else are the owner's alone.
    for name, mode in (("dir", 0o700), ("dir/below", 0o755), ("file", 0o444)):
        t.equal(oct(os.lstat(f"{folder}/{name}").st_mode & 0o7777), oct(mode), name)
    t.equal(os.stat(f"{folder}/file").st_size, 0)


@case("destinations: a link is never mounted upon, links among the parents are followed inside the new root")
def destination_links(t):
    refused(t, "^bwrap: Can't mount on symlink destination /link$", *USR, "--dir", "/dir", "--symlink", "dir", "/link", "--ro-bind", "/etc", "/link", "true")
    refused(t, "^bwrap: Can't mount on symlink destination /link$", *USR, "--symlink", "/etc", "/link", "--bind-data", Data(b"x"), "/link", "true")
    refused(t, "^bwrap: Can't mount on symlink destination /link$", *USR, "--symlink", "/nowhere", "/link", "--tmpfs", "/link", "true")
    for text in ("dir", "/dir", "./dir/../../../dir"):
        t.equal(inside(t, "--dir", "/dir", "--symlink", text, "/link", "--ro-bind-data", Data(b"data"), "/link/file", script="cat /dir/file"), "data")


@case("destinations: a directory does not go on a file, nor a file on a directory, nor below a file")
def destination_kinds(t):
    refused(t, "^bwrap: Destination is not a directory /f$", *USR, "--file", Data(), "/f", "--ro-bind", "/etc", "/f", "true")
    refused(t, "^bwrap: Destination is not a file /d$", *USR, "--dir", "/d", "--ro-bind", "/etc/passwd", "/d", "true")
    refused(t, "^bwrap: Can't mkdir parents for /f/x: Not a directory$", *USR, "--file", Data(), "/f", "--ro-bind", "/etc", "/f/x", "true")
    refused(t, "^bwrap: Can't mkdir parents for /f/x/y: Not a directory$", *USR, "--file", Data(), "/f", "--dir", "/f/x/y", "true")


@case("no order of options makes anything on the host through a link to the old root or to a descriptor")
def no_way_out(t):
    folder = t.mkdir("host", 0o777)
    for text in (f"/oldroot{folder}", f"../oldroot{folder}", f"../../oldroot{folder}", f"/proc/self/cwd/../..{folder}", "/proc/self/fd/9"):
        descriptor = os.open(folder, os.O_PATH)
        try:
            for make in (["--dir", "/a/link/made"], ["--file", Data(b"x"), "/a/link/made"], ["--ro-bind", "/etc", "/a/link/made/deep"], ["--symlink", "x", "/a/link/made"],
                         ["--tmpfs", "/a/link/made"]):
                for proc in ([], ["--proc", "/proc"]):
                    bwrap(t, *USR, *proc, "--dir", "/a", "--symlink", text.replace("/9", f"/{descriptor}"), "/a/link", *make, "true", pass_fds=(descriptor,))
                    t.equal(os.listdir(folder), [], f"{text} and {make[0]} made")
        finally:
            os.close(descriptor)


@case("--tmpfs: empty, own flags, mode 0755 or --perms, size by --size; it hides what was there")
def tmpfs(t):
    got = mount(t, "/t", "--tmpfs", "/t")
    flags(t, got, ["rw", "nosuid", "nodev"])
    t.equal(got[1], "tmpfs")
    t.equal(inside(t, "--tmpfs", "/t", "--perms", "1770", "--tmpfs", "/u", script="stat -c %a /t /u"), "755\n1770\n")
    t.equal(inside(t, "--size", "65536", "--tmpfs", "/t", script="df --output=size -B1 /t | tail -1").strip(), "65536")
    t.equal(inside(t, "--size", "0x10000", "--perms", "0700", "--tmpfs", "/t", script="df --output=size -B1 /t | tail -1; stat -c %a /t").split(), ["65536", "700"])
    t.equal(inside(t, "--dir", "/d/in", "--tmpfs", "/d", script="ls -A /d"), "")


@case("--dir: 0755 or --perms, parents made, an existing directory is left as it is")
def directories(t):
    t.equal(inside(t, "--dir", "/a/b", "--perms", "0710", "--dir", "/c", "--perms", "0700", "--dir", "/a", script="stat -c %a /a /a/b /c"), "755\n755\n710\n")


@case("parents that are made lose what the mode of the thing itself lacks")
def parent_modes(t):
    for perms, parent in (("1777", "755"), ("0755", "755"), ("0644", "755"), ("0750", "750"), ("0710", "750"), ("0640", "750"), ("0705", "705"), ("0604", "705"), ("0700", "700"), ("0000", "700")):
        t.equal(inside(t, "--perms", perms, "--dir", "/p/d", script="stat -c %a /p").strip(), parent, f"parent of {perms}")
    t.equal(inside(t, "--ro-bind-data", Data(b"x"), "/q/f", script="stat -c %a /q").strip(), "700")
    t.equal(inside(t, "--perms", "0644", "--ro-bind-data", Data(b"x"), "/q/f", script="stat -c %a /q").strip(), "755")


@case("--file, --bind-data, --ro-bind-data: content, mode, and what can be written")
def data_files(t):
    t.equal(inside(t, "--file", Data(b"a\0b"), "/f", script="stat -c '%a %s' /f; echo more >> /f && wc -c < /f").split(), ["666", "3", "8"])
    t.equal(inside(t, "--perms", "0640", "--file", Data(), "/x/f", script="stat -c %a /x/f /x").split(), ["640", "750"])
    t.equal(inside(t, "--bind-data", Data(b"data"), "/f", script="stat -c '%a %h' /f; echo more >> /f && cat /f").split(), ["600", "0", "datamore"])
    t.equal(inside(t, "--perms", "0444", "--ro-bind-data", Data(b"data"), "/f", script="stat -c %a /f; (echo x >> /f) 2>&- || cat /f").split(), ["444", "data"])
    flags(t, mount(t, "/f", "--bind-data", Data(), "/f"), ["rw", "nosuid", "nodev"])
    flags(t, mount(t, "/f", "--ro-bind-data", Data(), "/f"), ["ro", "nosuid", "nodev"])
    t.equal(inside(t, "--file", Data(b"long text"), "/f", "--file", Data(b"short"), "/f", script="cat /f"), "short")
    big = os.urandom(1 << 20)
    source = t.file("big", big)
    t.equal(bwrap(t, *USR, "--ro-bind-data", Open(source, os.O_RDONLY), "/f", "cat", "/f").out, big)
    refused(t, "^bwrap: Can't write data to file /f: Bad file descriptor$", *USR, "--file", "99", "/f", "true")


@case("a descriptor is used up by the operation that names it")
def descriptors_used_up(t):
    read, write = os.pipe()
    os.write(write, b"once")
    os.close(write)
    try:
        refused(t, "^bwrap: Can't write data to file /g: Bad file descriptor$", *USR, "--file", str(read), "/f", "--file", str(read), "/g", "true", pass_fds=(read,))
    finally:
        os.close(read)


@case("--symlink: the same again is fine, another one or something else in its place is not")
def symlinks(t):
    t.equal(inside(t, "--symlink", "/to here", "/p/l", "--symlink", "/to here", "/p/l", script="readlink /p/l; stat -c %a /p"), "/to here\n700\n")
    refused(t, "^bwrap: Can't make symlink at /l: existing destination is a$", *USR, "--symlink", "a", "/l", "--symlink", "b", "/l", "true")
    refused(t, "^bwrap: Can't make symlink at /l: destination exists and is not a symlink$", *USR, "--dir", "/l", "--symlink", "b", "/l", "true")
    refused(t, "^bwrap: Can't make symlink at /usr/l: Read-only file system$", *USR, "--symlink", "b", "/usr/l", "true")


@case("--chmod changes what is there, and makes nothing")
def chmod(t):
    t.equal(inside(t, "--dir", "/d", "--chmod", "1711", "/d", "--file", Data(), "/f", "--chmod", "400", "/f", script="stat -c %a /d /f"), "1711\n400\n")
    refused(t, "^bwrap: Can't open /x/y: No such file or directory$|^bwrap: Can't chmod 0700 /x/y: No such file or directory$", *USR, "--chmod", "0700", "/x/y", "true")


@case("--remount-ro makes one mount read-only, not those below it; what is no mount point is an error")
def remount_ro(t):
    folder = t.mkdir("folder")
    words = ["--tmpfs", "/t", "--dir", "/t/below", "--bind", folder, "/t/below", "--remount-ro", "/t"]
    t.equal(inside(t, *words, script="(echo > /t/f) 2>&- || echo sealed; echo x > /t/below/f && echo open"), "sealed\nopen\n")
    refused(t, r"""^bwrap: Can't remount readonly on /d: Unable to find "(/newroot)?/d" in mount table$""", *USR, "--dir", "/d", "--remount-ro", "/d", "true")


@case("--proc with a pid namespace is a proc of its own, nosuid, nodev, noexec; without one it is the host's")
def proc(t):
    text = inside(t, "--unshare-pid", "--proc", "/proc", script="cat /proc/self/mountinfo; ls /proc | grep -c '^[0-9]'")
    flags(t, mounts_of("\n".join(text.splitlines()[:-1]))["/proc"], ["nosuid", "nodev", "noexec"])
    t.true(int(text.splitlines()[-1]) <= 5, f"more processes than the sandbox's own: {text}")
    t.equal(inside(t, "--proc", "/proc", script=f"test -d /proc/{os.getpid()} && echo host"), "host\n")


@case("nothing that matters in /proc can be written from inside")
def proc_covered(t):
    for own in ([], ["--unshare-pid"]):
        text = inside(t, *own, "--proc", "/proc", script="for n in sys sysrq-trigger irq bus; do test ! -e /proc/$n || test ! -w /proc/$n || echo $n; done")
        t.equal(text, "")


@differs("upstream leaves /proc/sys writable for root when access(2) cannot tell")
@case("root inside cannot change the kernel's settings", as_=("root",))
def proc_sys_of_root(t):
    t.equal(inside(t, "--unshare-all", "--proc", "/proc", script="cat /proc/sys/kernel/core_pattern > /tmp.v; (cat /tmp.v > /proc/sys/kernel/core_pattern) 2>&- && echo written || echo refused",
                   base=USR), "refused\n")


@case("--dev: six nodes, the links, shm and an own pts; nothing of the host's devices")
def dev(t):
    text = inside(t, "--dev", "/dev", script="cd /dev; ls -A | grep -v console | tr '\\n' ' '; stat -c '%F %t:%T %n' null zero full random urandom tty; "
                                           "for l in stdin stdout stderr fd core ptmx; do echo $l $(readlink $l); done; stat -c %a . shm pts; echo x > null; head -c1 zero | od -An -tx1")
    want = """core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero character special file 1:3 null
character special file 1:5 zero
character special file 1:7 full
character special file 1:8 random
character special file 1:9 urandom
character special file 5:0 tty
stdin /proc/self/fd/0
stdout /proc/self/fd/1
stderr /proc/self/fd/2
fd /proc/self/fd
core /proc/kcore
ptmx pts/ptmx
755
755
755
 00
"""
    t.equal(text, want)
    found = mounts_of(inside(t, "--dev", "/dev", "--ro-bind", "/proc", "/proc", script="cat /proc/self/mountinfo"))
    flags(t, found["/dev"], ["nosuid", "nodev"])
    flags(t, found["/dev/null"], ["nosuid"], ["nodev"])
    flags(t, found["/dev/pts"], ["nosuid", "noexec"])
    t.equal((found["/dev/pts"][1], "/dev/shm" in found), ("devpts", False))


@case("--dev: a program inside opens a terminal of its own")
def dev_pts(t):
    t.equal(inside(t, "--dev", "/dev", "--proc", "/proc", script="python3 -c 'import os, pty; a, b = pty.openpty(); os.write(a, b\"x\\n\"); print(os.read(b, 9), os.ttyname(b))'"), "b'x\\n' /dev/pts/0\n")


@case("--mqueue: message queues of the new ipc namespace")
def mqueue(t):
    got = mount(t, "/mq", "--unshare-ipc", "--mqueue", "/mq")
    t.equal(got[1], "mqueue")


@case("overlays: --tmp-overlay forgets, --overlay keeps in the upper directory, --ro-overlay cannot be written; the last source is on top")
def overlays(t):
    for name, content in (("low/a", "low"), ("low/b", "low"), ("high/b", "high")):
        t.file(name, content)
    t.mkdir("upper")
    t.mkdir("work")
    low, high = str(t.dir / "low"), str(t.dir / "high")
    sources = ["--overlay-src", low, "--overlay-src", high]
    t.equal(inside(t, *sources, "--tmp-overlay", "/o", script="cat /o/a /o/b; echo new > /o/c; echo more >> /o/a; cat /o/a /o/c"), "lowhighlowmore\nnew\n")
    t.equal(sorted(os.listdir(low)) + sorted(os.listdir(high)), ["a", "b", "b"])
    t.equal(inside(t, *sources, "--ro-overlay", "/o", script="cat /o/b; (echo x > /o/c) 2>&- || echo sealed"), "highsealed\n")
    t.equal(inside(t, "--overlay-src", low, "--overlay", str(t.dir / "upper"), str(t.dir / "work"), "/o", script="echo changed > /o/a; rm /o/b; ls /o"), "a\n")
    t.equal((t.dir / "upper" / "a").read_text(), "changed\n")
    t.equal((t.dir / "low" / "a").read_text(), "low")


@case("overlays: directories that overlap, and a source that is missing, are errors")
def overlay_errors(t):
    for name in ("low", "upper", "work"):
        t.mkdir(name)
    refused(t, "^bwrap: Can't find source path .*/no-such: No such file or directory$", *USR, "--overlay-src", str(t.dir / "no-such"), "--tmp-overlay", "/o", "true")
    refused(t, "^bwrap: Can't make overlay mount on .* with options .*: ", *USR, "--overlay-src", str(t.dir / "low"), "--overlay", str(t.dir / "upper"), str(t.dir / "upper"),
            "/o", "true")


@case("operations are carried out in the order given: the later one covers the earlier")
def in_order(t):
    t.file("folder/file", "mine")
    folder = str(t.dir / "folder")
    t.equal(inside(t, "--tmpfs", "/d", "--ro-bind", folder, "/d", script="ls /d"), "file\n")
    t.equal(inside(t, "--ro-bind", folder, "/d", "--tmpfs", "/d", script="ls /d"), "")


# ---- environment, working directory, exec ---------------------------------------------------------------------

@case("--setenv, --unsetenv, --clearenv work in the order given; PWD is always set")
def environment(t):
    env = {"A": "outer", "B": "outer"}
    t.equal(inside(t, "--setenv", "A", "inner", "--unsetenv", "B", "--setenv", "C", "", script='echo "$A|${B-unset}|${C-unset}"', env=env), "inner|unset|\n")
    t.equal(bwrap(t, *HOST, "--setenv", "X", "1", "--clearenv", "--setenv", "A", "b", "--chdir", "/usr", "/usr/bin/env", env=env).text.split(), ["A=b", "PWD=/usr"])
    t.equal(bwrap(t, *HOST, "--unsetenv", "PWD", "--chdir", "/usr", "/usr/bin/printenv", "PWD").text, "/usr\n")
    refused(t, "^bwrap: setenv failed", *HOST, "--setenv", "A=B", "c", "true")


@case("the working directory: --chdir, else the caller's if it is there inside, else HOME, else /")
def working_directory(t):
    t.mkdir("here")
    t.equal(bwrap(t, *HOST, "pwd", cwd=t.dir / "here").text, f"{t.dir}/here\n")
    t.equal(bwrap(t, *USR, "--dir", "/h", "pwd", env={"HOME": "/h"}).text, "/h\n")
    t.equal(bwrap(t, *USR, "--dir", "/h", "--setenv", "HOME", "/h", "pwd").text, "/h\n")
    t.equal(bwrap(t, *USR, "pwd", env={"HOME": "/no/such"}).text, "/\n")
    refused(t, "^bwrap: Can't chdir to /no/such: No such file or directory$", *HOST, "--chdir", "/no/such", "true")
    t.equal(bwrap(t, *HOST, "--chdir", "usr", "pwd", cwd="/").text, "/usr\n")


@case("COMMAND is looked up in the PATH of the new environment, inside the new root; --argv0 changes what it sees of itself")
def command_lookup(t):
    program = t.file("bin/tool", "#!/bin/sh\necho tool $0\n", 0o755)
    t.equal(inside(t, "--ro-bind", program, "/opt/tool", "--setenv", "PATH", "/opt:/usr/bin", script="tool"), "tool /opt/tool\n")
    t.expect(bwrap(t, *USR, "--ro-bind", program, "/opt/tool", "--setenv", "PATH", "/opt", "tool"), out=b"tool /opt/tool\n")
    refused(t, "^bwrap: execvp tool: No such file or directory$", *USR, "tool", env={"PATH": f"{t.dir}/bin:/usr/bin"})
    t.expect(bwrap(t, *HOST, "--argv0", "renamed", "sh", "-c", "echo $0"), out=b"renamed\n")


@case("what cannot be executed is status 1 with the errno's words")
def exec_errors(t):
    refused(t, "^bwrap: execvp /usr: Permission denied$", *HOST, "/usr")
    refused(t, "^bwrap: execvp no-such-program: No such file or directory$", *HOST, "no-such-program")
    program = t.file("plain", "#!/bin/sh\n", 0o644)
    refused(t, "^bwrap: execvp .*/plain: Permission denied$", *HOST, program)


@case("the caller's umask is COMMAND's, and has no part in the set-up")
def umask(t):
    done = t.run(["/bin/sh", "-c", 'umask 0077; exec "$@"', "sh", link(t), *USR, "--dir", "/d", "--tmpfs", "/t", "sh", "-c", "umask; stat -c %a /d /t"])
    t.expect(done, out=b"0077\n755\n755\n")


@case("descriptors that the caller opened reach COMMAND, those that bwrap used do not")
def descriptors(t):
    kept = os.open("/usr", os.O_RDONLY)
    try:
        out = Out()
        text = bwrap(t, *HOST, "--info-fd", out, "--args", Data(b""), "--bind-fd", Open("/usr"), "/usr", "sh", "-c", "ls /proc/self/fd", pass_fds=(kept,)).text.split()
        t.true({"0", "1", "2", str(kept)} <= set(text) and len(text) <= 5, f"descriptors inside: {text}, the caller's is {kept}")
    finally:
        os.close(kept)


@case("no_new_privs is on")
def no_new_privileges(t):
    t.equal(bwrap(t, *HOST, "grep", "NoNewPrivs", "/proc/self/status").text.split(), ["NoNewPrivs:", "1"])


# ---- processes -------------------------------------------------------------------------------------------------

@case("the status is COMMAND's own, 128 and the number for a signal")
def status(t):
    for number in (0, 1, 42, 255):
        t.expect(bwrap(t, *HOST, "sh", "-c", f"exit {number}"), status=number)
        t.expect(bwrap(t, *HOST, "--unshare-pid", "sh", "-c", f"exit {number}"), status=number)
    for signal_number in (15, 9, 6):
        t.expect(bwrap(t, *HOST, "--unshare-pid", "sh", "-c", f"kill -{signal_number} $$"), status=128 + signal_number)
        t.expect(bwrap(t, *HOST, "sh", "-c", f"kill -{signal_number} $$"), status=128 + signal_number)


@case("with a pid namespace bwrap itself is process 1 and COMMAND is 2; --as-pid-1 makes it process 1")
def pids(t):
    t.equal(inside(t, "--unshare-pid", "--proc", "/proc", script="echo $$; tr '\\0' '\\n' < /proc/1/cmdline | tail -n +2 | head -1"), "2\n--ro-bind\n")
    t.equal(inside(t, "--unshare-pid", "--as-pid-1", script="echo $$"), "1\n")


@case("orphans are reaped by process 1; bwrap ends when COMMAND does, and does not wait for what was left running")
def left_behind(t):
    t.equal(inside(t, "--unshare-pid", "--proc", "/proc", "--dev-bind", "/dev", "/dev", script="(true & ) ; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.05; done; grep -l 'State:.Z' /proc/[0-9]*/status 2>&-; echo end"), "end\n")
    # Process 1 keeps the streams, so they go where nobody waits for their end; bash, since dash knows descriptors up to 9 only.
    read, write = os.pipe()
    process = t.spawn([link(t), *USR, *DEVICES, "--unshare-pid", "bash", "-c", f"cat <&{read} >/dev/null 2>&1 & exit 3"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                      pass_fds=(read,))
    os.close(read)
    t.equal(process.wait(10), 3)
    os.close(write)


def sandbox_alive(t, *words):
    """(bwrap's process, a descriptor that is at its end when no process of the sandbox is left)."""
    read, write = os.pipe()
    process = t.spawn([link(t), *USR, *DEVICES, *words, "sh", "-c", "echo ready; sleep 60 & wait"], pass_fds=(write,))
    os.close(write)
    t.equal(process.stdout.readline(), b"ready\n")
    return process, read


def ended(descriptor, seconds):
    import select
    ready, _, _ = select.select([descriptor], [], [], seconds)
    return bool(ready) and os.read(descriptor, 1) == b""


@case("--die-with-parent: the sandbox ends with bwrap, whichever way bwrap is killed")
def die_with_parent(t):
    for number in (9, 15, 2):
        process, descriptor = sandbox_alive(t, "--unshare-pid", "--die-with-parent")
        process.send_signal(number)
        t.equal(process.wait(10), -number)
        t.true(ended(descriptor, t.slow(10)), f"the sandbox outlives bwrap killed by {number}")
        os.close(descriptor)


@case("without --die-with-parent the sandbox lives on when bwrap is killed")
def lives_on(t):
    info = t.dir / "info"
    read, write = os.pipe()
    with open(info, "wb") as out:
        process = t.spawn([link(t), *USR, *DEVICES, "--unshare-pid", "--info-fd", str(out.fileno()), "sh", "-c", "echo ready; sleep 60 & wait"], pass_fds=(write, out.fileno()))
    os.close(write)
    t.equal(process.stdout.readline(), b"ready\n")
    child = json.loads(info.read_text())["child-pid"]
    t.at_end(lambda: os.kill(child, 9))
    process.kill()
    process.wait(10)
    t.true(not ended(read, 0.3), "the sandbox ended with bwrap")
    os.kill(child, 9)
    t.true(ended(read, t.slow(10)), "SIGKILL of process 1 left something")
    os.close(read)


@case("--new-session: COMMAND leads a session of its own; without it, it stays in the caller's")
def new_session(t):
    t.equal(bwrap(t, *HOST, "--new-session", "python3", "-c", "import os; print(os.getsid(0) == os.getpid())").text, "True\n")
    t.equal(bwrap(t, *HOST, "python3", "-c", "import os; print(os.getsid(0) == os.getpid())").text, "False\n")


@case("--lock-file: a POSIX read lock while the sandbox lives")
def lock_file(t):
    import fcntl
    path = t.file("lock", "")
    process, descriptor = sandbox_alive(t, "--unshare-pid", "--die-with-parent", "--bind", str(t.dir), str(t.dir), "--lock-file", path)
    whole = struct.pack("hhqqhh", fcntl.F_WRLCK, 0, 0, 0, 0, 0)

    def locked():
        with open(path, "r+") as file:
            return struct.unpack("hhqqhh", fcntl.fcntl(file, fcntl.F_GETLK, whole))[0] == fcntl.F_RDLCK
    t.wait_until(locked, 5, "a read lock")
    process.kill()
    t.true(ended(descriptor, t.slow(10)), "the sandbox outlives bwrap")
    t.wait_until(lambda: not locked(), 5, "no lock")
    os.close(descriptor)
    refused(t, "^bwrap: Unable to open lock file /no/such: No such file or directory$", *USR, "--lock-file", "/no/such", "true")


@case("--sync-fd is open until the last process inside has ended, and is not COMMAND's")
def sync_fd(t):
    read, write = os.pipe()
    go_read, go_write = os.pipe()
    with open(t.dir / "seen", "wb") as seen:
        process = t.spawn([link(t), *HOST, *DEVICES, "--unshare-pid", "--proc", "/proc", "--sync-fd", str(write), "bash", "-c",
                           f"ls /proc/self/fd; cat <&{go_read} >/dev/null 2>&1 & exit 4"], stdout=seen, pass_fds=(write, go_read))
    t.equal(process.wait(10), 4)
    os.close(write)
    os.close(go_read)
    text = (t.dir / "seen").read_text()
    t.true(str(write) not in text.split(), f"COMMAND has the sync descriptor {write}: {text}")
    t.true(not ended(read, 0.3), "closed while a process is left")
    os.close(go_write)
    t.true(ended(read, t.slow(10)), "not closed at the end")
    os.close(read)


@case("--block-fd: COMMAND waits until the descriptor can be read; its end counts")
def block_fd(t):
    for content in (b"x", b""):
        read, write = os.pipe()
        process = t.spawn([link(t), *HOST, "--block-fd", str(read), "echo", "ran"], pass_fds=(read,))
        os.close(read)
        try:
            process.communicate(timeout=0.3)
            raise Failure("did not wait")
        except subprocess.TimeoutExpired:
            pass
        if content:
            os.write(write, content)
        os.close(write)
        t.equal(process.communicate(timeout=10)[0], b"ran\n")


# ---- capabilities ------------------------------------------------------------------------------------------------

def capabilities(t, *words):
    text = bwrap(t, *HOST, *words, "grep", "^Cap", "/proc/self/status").text
    return {line.split()[0][3:6]: int(line.split()[1], 16) for line in text.splitlines()}


LAST = int(open("/proc/sys/kernel/cap_last_cap").read())
ALL = (1 << (LAST + 1)) - 1
NET_RAW, SYS_ADMIN, KILL = 1 << 13, 1 << 21, 1 << 5


@case("an ordinary user has no capability, whatever namespaces and ids are asked for", as_=("user",))
def caps_none(t):
    for words in ([], ["--unshare-all"], ["--uid", "0", "--gid", "0"], ["--dev", "/dev"], ["--unshare-user", "--disable-userns"], ["--unshare-pid", "--as-pid-1"]):
        t.equal(capabilities(t, *words), {"Inh": 0, "Prm": 0, "Eff": 0, "Bnd": 0, "Amb": 0}, f"{words}")


@case("an ordinary user with --cap-add has exactly those, in every set, in its own user namespace", as_=("user",))
def caps_added(t):
    t.equal(capabilities(t, "--cap-add", "CAP_NET_RAW"), dict.fromkeys(("Inh", "Prm", "Eff", "Bnd", "Amb"), NET_RAW))
    t.equal(capabilities(t, "--cap-add", "cap_net_raw", "--cap-add", "5"), dict.fromkeys(("Inh", "Prm", "Eff", "Bnd", "Amb"), NET_RAW | KILL))
    t.equal(capabilities(t, "--cap-add", "ALL"), dict.fromkeys(("Inh", "Prm", "Eff", "Bnd", "Amb"), ALL))
    t.equal(capabilities(t, "--cap-add", "ALL", "--cap-drop", "CAP_KILL"), dict.fromkeys(("Inh", "Prm", "Eff", "Bnd", "Amb"), ALL & ~KILL))
    t.equal(capabilities(t, "--cap-add", "CAP_KILL", "--cap-drop", "ALL"), dict.fromkeys(("Inh", "Prm", "Eff", "Bnd", "Amb"), 0))


@case("root keeps what it has; --cap-drop takes away, --cap-drop ALL leaves nothing", as_=("root",))
def caps_root(t):
    with open("/proc/self/status") as file:
        mine, bounding = (int(re.search(rf"^{name}:\s*(\w+)", text, re.MULTILINE).group(1), 16) for text in [file.read()] for name in ("CapEff", "CapBnd"))
    t.equal(capabilities(t)["Eff"], mine)
    t.equal(capabilities(t, "--cap-drop", "CAP_KILL")["Eff"], mine & ~KILL)
    got = capabilities(t, "--cap-drop", "ALL")
    t.equal((got["Eff"], got["Prm"], got["Inh"], got["Amb"]), (0, 0, 0, 0))
    t.equal(capabilities(t, "--cap-drop", "ALL", "--cap-add", "CAP_KILL")["Eff"], KILL)
    t.equal(capabilities(t, "--unshare-user")["Eff"], bounding)


# ---- what is told by descriptor ---------------------------------------------------------------------------------

def inodes(text):
    return {line.split()[0] + "-namespace": int(re.search(r"\[(\d+)\]", line).group(1)) for line in text.splitlines()}


@case("--info-fd: one object, keys and spacing as clients read them, closed afterwards")
def info_fd(t):
    info = Out()
    text = inside(t, "--unshare-all", "--proc", "/proc", "--info-fd", info, script=READ_NS)
    got = json.loads(info.text)
    t.equal(list(got), ["child-pid", "cgroup-namespace", "ipc-namespace", "mnt-namespace", "net-namespace", "pid-namespace", "uts-namespace"])
    seen = inodes(text)
    t.equal({name: value for name, value in got.items() if name != "child-pid"}, {name: seen[name] for name in got if name != "child-pid"})
    t.match(info.text, r'\A\{\n    "child-pid": \d+,\n    "cgroup-namespace": \d+,\n    "ipc-namespace": \d+,\n    "mnt-namespace": \d+,\n    "net-namespace": \d+,\n    "pid-namespace": \d+,\n'
                       r'    "uts-namespace": \d+\n\}\n\Z')
    inside(t, "--info-fd", info, script="true")
    t.equal(list(json.loads(info.text)), ["child-pid", "mnt-namespace"])


@case("--json-status-fd: an object a line, the exit code in the second; it is missing when nothing ran")
def json_status(t):
    out = Out()
    bwrap(t, *HOST, "--unshare-pid", "--json-status-fd", out, "sh", "-c", "exit 7")
    t.match(out.text, r'\A\{ "child-pid": \d+, "mnt-namespace": \d+, "pid-namespace": \d+ \}\n\{ "exit-code": 7 \}\n\Z')
    bwrap(t, *HOST, "--unshare-pid", "--json-status-fd", out, "sh", "-c", "kill -9 $$")
    t.match(out.text, r'\n\{ "exit-code": 137 \}\n\Z')
    bwrap(t, *HOST, "--json-status-fd", out, "/no/such")
    t.no_match(out.text, "exit-code")
    bwrap(t, "--ro-bind", "/usr", "/usr", "--ro-bind", "/no/such", "/x", "--json-status-fd", out, "true")
    t.no_match(out.text, "exit-code")


# ---- seccomp ------------------------------------------------------------------------------------------------------

def program(*refused_numbers, errno=1):
    """A classic BPF program that lets everything pass but these calls; x86-64 and aarch64 numbers are looked up by the caller."""
    code = [(0x20, 0, 0, 0)]  # the call's number
    for index, number in enumerate(refused_numbers):
        code.append((0x15, len(refused_numbers) - index, 0, number))
    code += [(0x06, 0, 0, 0x7fff0000), (0x06, 0, 0, 0x00050000 | errno)]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


MKDIR = {"x86_64": (83, 258), "aarch64": (34,)}


@case("--seccomp and --add-seccomp-fd load the caller's filter; of several the one added last answers first")
def seccomp(t):
    numbers = MKDIR[os.uname().machine]
    make = ["--tmpfs", "/tmp", "python3", "-c", "import os\ntry: os.mkdir('/tmp/x'); print('made')\nexcept OSError as e: print(e.errno)"]
    t.expect(bwrap(t, *HOST, *make), out=b"made\n")
    t.expect(bwrap(t, *HOST, "--seccomp", Data(program(*numbers, errno=71)), *make), out=b"71\n")
    t.expect(bwrap(t, *HOST, "--add-seccomp-fd", Data(program(*numbers, errno=71)), *make), out=b"71\n")
    t.expect(bwrap(t, *HOST, "--add-seccomp-fd", Data(program(*numbers, errno=71)), "--add-seccomp-fd", Data(program(*numbers, errno=72)), *make), out=b"72\n")
    t.expect(bwrap(t, *HOST, "grep", "^Seccomp:", "/proc/self/status"), out=b"Seccomp:\t0\n")


# ---- nested, and from scripts ---------------------------------------------------------------------------------------

@case("bwrap inside bwrap: by its own path, and by /proc/self/exe where the link's name is lost")
def nested(t):
    text = bwrap(t, "--unshare-user", "--uid", "0", "--gid", "0", "--cap-add", "ALL", "--bind", "/", "/", "--bind", "/proc", "/proc", "--",
                 "/proc/self/exe", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
                 "--proc", "/proc", "--dev", "/dev", "sh", "-c", "echo nested; ls /")
    t.expect(text, out=b"nested\nbin\ndev\nlib\nlib64\nproc\nusr\n")
    if not t.is_root:
        t.expect(bwrap(t, "--bind", "/", "/", "--", link(t), *USR, "echo", "again"), out=b"again\n")


@case("stdin, stdout and stderr are the caller's own")
def streams(t):
    t.expect(bwrap(t, *HOST, "--unshare-all", "sh", "-c", "cat; echo problem >&2", stdin=b"line\n"), out=b"line\n", err="^problem$")
    left, right = socket.socketpair()
    process = t.spawn([link(t), *HOST, "cat"], stdin=right, stdout=right)
    right.close()
    left.sendall(b"both ways")
    left.shutdown(socket.SHUT_WR)
    t.equal(left.recv(100), b"both ways")
    process.wait(10)
    left.close()


# ---- what callers do to it --------------------------------------------------------------------------------------------

@case("a caller that ignores SIGCHLD gets the status all the same, and COMMAND has the signal's default")
def sigchld_ignored(t):
    done = t.run(["python3", "-c", "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])", link(t), *HOST, "--unshare-pid",
                  "python3", "-c", "import subprocess, sys; sys.exit(subprocess.call(['sh', '-c', 'exit 5']))"])
    t.expect(done, status=5)


@case("TERM, INT and HUP end bwrap by that signal, and are not passed on")
def signals_not_forwarded(t):
    for number in (15, 2, 1):
        process, descriptor = sandbox_alive(t, "--unshare-pid", "--info-fd", "2")
        process.send_signal(number)
        t.equal(process.wait(10), -number)
        child = int(re.search(r'"child-pid": (\d+)', process.stderr.read1().decode()).group(1))
        t.true(not ended(descriptor, 0.2), "the sandbox ended with bwrap")
        os.kill(child, 9)
        t.true(ended(descriptor, t.slow(10)), "SIGKILL of process 1 left something")
        os.close(descriptor)


@case("what the caller cannot read stays unread, bound or not", as_=("user",))
def unreadable(t):
    for words in ([], ["--unshare-all"], ["--unshare-user", "--uid", "0"], ["--cap-add", "ALL"]):
        t.expect(bwrap(t, "--bind", "/", "/", *words, "cat", "/etc/shadow"), status=1, out=b"", err="Permission denied")
        t.expect(bwrap(t, "--bind", "/", "/", "--tmpfs", "/tmp", "--bind", "/etc/shadow", "/tmp/x", *words, "cat", "/tmp/x"), status=1, out=b"", err="Permission denied")


@case("set-uid programs have no effect inside", as_=("user",))
def set_uid(t):
    t.expect(bwrap(t, "--bind", "/", "/", "sh", "-c", "su -c id root <&- 2>&1; id -u"), status=0, out_match=rf"^{t.identity.uid}$")
    flags(t, mount(t, "/usr"), ["nosuid"])


@case("nothing of the set-up is left to be seen: no oldroot, no newroot, no mount of the host")
def no_traces(t):
    text = inside(t, "--tmpfs", "/tmp", script="ls -A /tmp /; cat /proc/self/mountinfo", base=[*USR, "--proc", "/proc", "--unshare-pid"])
    t.no_match("\n".join(line for line in text.splitlines() if " - " not in line), "oldroot|newroot")
    found = mounts_of("\n".join(line for line in text.splitlines() if " - " in line))
    t.equal({target for target in found if not target.startswith("/proc")} - {target for target in found if target.startswith("/usr/")}, {"/", "/usr", "/tmp"})


@case("closed standard streams do no harm")
def closed_streams(t):
    done = t.run(["/bin/sh", "-c", '"$@" <&- && echo fine', "sh", link(t), *HOST, "--unshare-all", "--dev", "/dev", "--proc", "/proc", "true"])
    t.expect(done, out=b"fine\n")


# ---- policies/examples/bwrap, run by bwrap: bwrap_policy_cases.py runs the same by sbx's own engine ------------------

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "policies" / "examples" / "bwrap"


def nul_separated(text):
    """A policy text as --args wants it: the words as a shell reads them, without comments."""
    return "".join(word + "\0" for word in shlex.split(text, comments=True)).encode()


class Example:
    """What one of them is for: a directory to stand in, further mounts ((source, place inside, writable)), a script for
    inside, its output, and what must be there outside afterwards."""

    def __init__(self, name, script, output, mounts=(), outside=None, setup=None):
        self.name, self.script, self.output, self.mounts, self.outside, self.setup = name, script, output, mounts, outside or {}, setup

    def prepare(self, t):
        t.mkdir("project")
        if self.setup:
            self.setup(t)

    def check(self, t, done):
        t.expect(done, out=self.output)
        for path, content in self.outside.items():
            place = t.dir / path
            t.equal(place.read_text() if place.exists() else None, content, path)


def picture(t):
    t.file("pictures/file", b"\x89PNG" + bytes(64))
    t.mkdir("thumbs")


def project(t):
    t.file("project/hello.c", '#include <stdio.h>\nint main(void) { puts("built"); }\n')
    t.file("project/Makefile", "hello: hello.c\n\tcc -o hello hello.c\n")
    t.file("project/.git/config", "[core]\n")
    t.file("project/.git/hooks/pre-commit", "#!/bin/sh\n", 0o755)
    t.file("project/.envrc", "export A=1\n")
    t.mkdir("project/.vscode")


SEALED = 'for p in / /usr /etc; do (: > $p/x) 2>/dev/null && echo "wrote $p"; done; '
ALONE = 'echo interfaces $(grep -c : /proc/net/dev); '
EXAMPLE_CASES = [
    Example("thumbnailer", SEALED + ALONE + 'head -c 4 /in/file | tail -c 3 > /out/thumb; (: > /in/file) 2>/dev/null || echo source kept; '
            'head -c 80000000 /dev/zero > /tmp/big 2>/dev/null || echo full; env | grep -c .; uname -n', b"interfaces 1\nsource kept\nfull\n4\nthumbnailer\n",
            mounts=(("pictures", "/in", False), ("thumbs", "/out", True)), outside={"thumbs/thumb": "PNG"}, setup=picture),
    Example("build-sandbox", SEALED + ALONE + 'make -s && ./hello; (: > .git/hooks/post-merge) 2>/dev/null || echo git kept; pwd; echo $SOURCE_DATE_EPOCH',
            b"interfaces 1\nbuilt\ngit kept\n/build\n0\n", outside={"project/.git/hooks/post-merge": None, "project/.git/config": "[core]\n"}, setup=project),
    Example("model-shell", SEALED + ALONE + 'for p in .git/hooks/x .git/config .envrc .vscode/x; do (echo x > $p) 2>/dev/null && echo "wrote $p"; done; echo note > notes; '
            'mv .git elsewhere 2>/dev/null && echo moved; id -u; ls -A ~ | tr "\\n" " "; unshare -U true 2>/dev/null || echo no namespaces; echo "$PS1"', b"interfaces 1\n1000\nproject no namespaces\nagent$ \n",
            outside={"project/notes": "note\n", "project/.git/config": "[core]\n", "project/.envrc": "export A=1\n"}, setup=project),
    Example("browser-like", SEALED + 'test $(grep -c : /proc/net/dev) -gt 0 && echo network; ls -A / | tr "\\n" " "; echo x > ~/.cache/x && stat -c %a ~ $XDG_RUNTIME_DIR; ls /home',
            b"network\nbin dev etc home lib lib64 proc run tmp usr 700\n700\napp\n"),
]


def run_by_bwrap(example):
    def function(t):
        example.prepare(t)
        mounts = [word for source, place, writable in example.mounts for word in ("--bind" if writable else "--ro-bind", str(t.dir / source), place)]
        stored = (EXAMPLES / f"{example.name}.bwrap").read_text()
        text = nul_separated(stored)
        example.check(t, bwrap(t, "--args", Data(text), *mounts, "sh", "-c", example.script, cwd=t.dir / "project", env={"SECRET": "x"}))
    function.__name__ = "example_" + example.name.replace("-", "_")
    case(f"policies/examples/bwrap/{example.name}.bwrap, run by bwrap: it does its work, and what it may not do fails")(function)


for _example in EXAMPLE_CASES:
    run_by_bwrap(_example)
