"""One attempt per class of attack that the defaults must stop (numbers: docs/testing.md lists the classes), each with
a control that shows that the attempt would work if the protection were not there: the same sandbox with only that
protection taken away where a flag does it, else the same probe in namespaces that the test makes with unshare(1).
A control that this host cannot make succeed is said in the case. Destructive ones have no control here.
"""

import os
import re
import socket
import subprocess

import harness
from harness import Failure, Skip, case

REFUSED = r"^(EPERM|EACCES|ENOSYS|ENOENT|EROFS|ENOSPC|EINVAL|ESRCH|ENOTTY|EAFNOSUPPORT|ENXIO|EUSERS)$"
FILTERED = r"^(EPERM|ENOSYS)$"
KILLED = 159


def attempt(t, *words, flags=()):
    """What the probe says inside; "killed" when the filter ended it."""
    done = t.probed(*words, flags=flags, result=True)
    if done.status == KILLED and done.verdict == "denied":
        return "killed"
    if done.status != 0:
        raise Failure("the attempt could not be made\n" + done.describe())
    return done.text.strip()


def in_namespaces(t, *words, options=("-U", "-r", "-m", "-p", "-f", "-n", "-i", "-u")):
    """The control: the probe with all capabilities in bare namespaces, no filter."""
    done = t.run(["unshare", *options, t.probe, *words])
    return done.text.strip() if done.status == 0 else f"status {done.status}"


def refused(t, words, pattern=REFUSED, flags=()):
    words = [words] if isinstance(words, str) else list(words)
    got = attempt(t, *words, flags=flags)
    if got != "killed" and not re.match(pattern, got):
        raise Failure(f"{' '.join(words)}: {got!r}, wanted /{pattern}/")
    return got


def control(t, words, wanted="^ok$"):
    """Shows that the attempt works without the protection; a host that cannot show it does not fail the case, since
    what the case is about is the refusal."""
    if not harness.have("unshare"):
        return
    got = in_namespaces(t, *([words] if isinstance(words, str) else words))
    if got.startswith("status"):
        return  # this host makes no namespaces for the identity
    if not re.match(wanted, got):
        raise Failure(f"the control of {words} gives {got!r}, wanted /{wanted}/: the probe proves nothing")


# ---- descriptors, places, other processes (5 to 16, 38)

@case("5: a descriptor of a host directory that the caller left open does not reach the payload; the bare probe gets it (control)")
def inherited_fd(t):
    fd = os.open("/", os.O_RDONLY)
    os.set_inheritable(fd, True)
    try:
        done = t.run([t.binary, "exec", "--mount", f"{t.probe}:/opt/probe", "--", "/opt/probe", "fds"], pass_fds=(fd,))
        t.expect(done, out="0\n1\n2\n")
        t.true(str(fd) in t.run([t.probe, "fds"], pass_fds=(fd,)).text.split(), "the control does not see it")
    finally:
        os.close(fd)


@case("6: neither the working directory nor any descriptor leads above the sandbox's root")
def above_root(t):
    t.expect(t.shell('a=$(ls -a / | sort); b=$(ls -a /proc/self/cwd/../../../../../../.. | sort); [ "$a" = "$b" ] && echo same; '
                     "for f in /proc/self/fd/* /proc/1/cwd /proc/1/root /proc/self/root; do [ -d $f ] && ls $f/../../../../.. 2>/dev/null | grep lost+found; done; true"),
             out="same\n")


@case("7: sbx's own program file cannot be reached for writing through /proc/1/exe or /proc/self/exe")
def own_binary(t):
    for path in ("/proc/1/exe", "/proc/self/exe"):
        for mode in ("rw", "w", "trunc", "append"):
            got = attempt(t, "open", mode, path)
            t.match(got, r"^(EACCES|EPERM|ETXTBSY|EROFS|ENOENT)$", f"{mode} {path}")
    t.no_match(attempt(t, "open", "r", "/proc/1/exe"), r"^ok$", "reading init's program")


@case("8: init's memory can neither be read nor written")
def init_memory(t):
    for mode in ("rw", "r"):
        t.match(attempt(t, "open", mode, "/proc/1/mem"), r"^(EACCES|EPERM|ENOENT)$", f"/proc/1/mem {mode}")


@case("9: init's environment and command line hold nothing of the caller's")
def init_environ(t):
    done = t.shell("cat /proc/1/environ /proc/1/cmdline 2>/dev/null | tr '\\0' '\\n'; true", env={"SECRET_OF_CALLER": "XYZZY"})
    t.no_match(done.text, "XYZZY|SECRET_OF_CALLER|--mount", "init's environment")
    t.match(attempt(t, "open", "r", "/proc/1/maps"), r"^(EACCES|EPERM|ENOENT|ok)$")


@case("11: process_vm_readv on init is refused; outside, on itself, the same call is not (control)")
def vm_read(t):
    t.match(attempt(t, "vmread", "1"), r"^(EPERM|ENOSYS|EACCES|ESRCH)$", "process_vm_readv")
    t.match(t.run([t.probe, "vmread", "0"]).text.strip(), r"^(ok|EFAULT)$", "the control, on the probe itself outside")


@case("12: init can be neither attached to nor robbed of descriptors")
def attach(t):
    t.match(attempt(t, "attach", "1"), r"^(EPERM|ENOSYS|EACCES|ESRCH)$", "PTRACE_ATTACH")
    t.match(attempt(t, "pidfd-getfd", "1", "0"), r"^(EPERM|ENOSYS|EACCES|ESRCH|EBADF)$", "pidfd_getfd")


@case("14: a signal cannot harm init, and processes outside do not exist")
def signal_out(t):
    for number in (9, 15, 19, 6):
        attempt(t, "kill", "1", str(number))
    t.expect(t.shell("kill -9 1 2>/dev/null; kill -6 1 2>/dev/null; sleep 0.1; echo alive"), out="alive\n")
    t.equal(attempt(t, "kill", str(os.getpid()), "0") if os.getpid() > 100 else "ESRCH", "ESRCH", "a process of the host")


@case("15: secrets in the caller's environment do not get in; with --env they do (control)")
def secrets(t):
    names = ("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "LD_PRELOAD_X", "NODE_OPTIONS", "ACTIONS_RUNTIME_TOKEN")
    env = {name: "XYZZY" for name in names}
    t.no_match(t.sbx("exec", "--", "env", env=env).text, "XYZZY", "the environment")
    t.match(t.sbx("exec", "--env", "GITHUB_TOKEN", "--", "env", env=env).text, "^GITHUB_TOKEN=XYZZY$", "the control")


@case("16: credential files of the caller are not there; a shared project is (control)")
def credentials(t):
    key = t.file("home/.ssh/id_rsa", "KEY", 0o600)
    t.expect(t.shell(f"cat {key} 2>/dev/null || echo none"), out="none\n")
    t.file("home/work/id_rsa", "KEY", 0o600)
    t.expect(t.shell(f"cat {t.home}/work/id_rsa", "--mount", f"{t.home}/work"), out="KEY")


@case("38: the host's processes are not seen")
def processes(t):
    done = t.shell("ls -d /proc/[0-9]* | wc -l")
    t.true(int(done.text) < 10, done.describe())
    t.true(len([n for n in os.listdir("/proc") if n.isdigit()]) >= 10, "the control: this host has too few processes")


# ---- filter (17 to 24, 53 to 55)

@case("17: io_uring, which goes round the filter, is ENOSYS; the bare kernel has it (control)")
def io_uring(t):
    t.equal(attempt(t, "io_uring_setup"), "ENOSYS")
    control(t, "io_uring_setup", "^(ok|ENOSYS|EPERM)$")


@case("18: the x32 table of calls is killed", needs="x86_64")
def x32(t):
    t.equal(attempt(t, "x32"), "killed")


@case("19: int 0x80 from a 64-bit program is killed; without the filter it answers (control)", needs="x86_64")
def int80(t):
    t.equal(attempt(t, "int80"), "killed")
    control(t, "int80", "^(ok|EFAULT)$|status")


@case("20: key rings are closed; without the filter they are open (control)")
def keys(t):
    for name in ("add_key", "keyctl", "request_key"):
        refused(t, name, FILTERED)
    control(t, "keyctl")


@case("21: no new user namespace by unshare, clone or clone3; a policy that allows nesting lets it (control)")
def user_namespace(t):
    for words in (("unshare", "0x10000000"), ("clone", "0x10000000"), ("clone3", "0x10000000"), ("unshare", "0x50000000")):
        refused(t, words, r"^(EPERM|ENOSYS|ENOSPC|EUSERS)$")
    t.file("nest.toml", "[hardening]\nnested_userns = true\n")
    done = t.probed("unshare", "0x10000000", flags=("--policy", "./nest.toml"))
    t.expect(done, out="ok\n")


@case("22: the road to netfilter, a user namespace with a network of its own, is closed; unconfined it is open (control)")
def nft(t):
    refused(t, "nft", r"^(EPERM|ENOSYS|ENOSPC|EUSERS|EPROTONOSUPPORT|EAFNOSUPPORT)$")
    control(t, "nft", "^(ok|EPROTONOSUPPORT|EPERM)$")


@case("24: clone3 never answers EPERM for plain threads, which would break libraries: they start", needs="python")
def clone3(t):
    t.match(attempt(t, "clone3", "0"), r"^(ok|ENOSYS)$", "clone3")
    for flag in ("0x10000000", "0x20000", "0x20000000", "0x40000000", "0x08000000", "0x04000000", "0x02000000", "0x80"):
        refused(t, ("clone3", flag), r"^(EPERM|ENOSYS|ENOSPC|EINVAL)$")
    t.expect(t.python("import threading; t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()"), out="thread\n")


@case("namespaces of every kind are closed to unshare and clone")
def namespaces(t):
    for flag in (0x20000, 0x20000000, 0x40000000, 0x08000000, 0x04000000, 0x02000000, 0x80):
        refused(t, ("unshare", hex(flag)), r"^(EPERM|ENOSYS|ENOSPC)$")
        if flag != 0x80:
            refused(t, ("clone", hex(flag)), r"^(EPERM|ENOSYS|ENOSPC)$")


@case("53: userfaultfd is refused; the bare kernel gives it (control)")
def userfaultfd(t):
    refused(t, "userfaultfd", FILTERED)
    control(t, "userfaultfd", "^(ok|EPERM|ENOSYS)$")


ADMIN = ("bpf", "perf_event_open", "kexec_load", "init_module", "finit_module", "delete_module", "quotactl", "acct", "swapon", "swapoff",
         "reboot", "lookup_dcookie", "syslog", "vhangup", "fanotify_init")


@case("54: calls that administer the machine are refused by the filter, whatever the kernel would say")
def administration(t):
    for name in ADMIN:
        refused(t, name, FILTERED)


@case("54: iopl, ioperm and modify_ldt are refused; modify_ldt works bare (control)", needs="x86_64")
def ports(t):
    for name in ("iopl", "ioperm", "modify_ldt"):
        refused(t, name, FILTERED)
    control(t, "modify_ldt", "^(ok|ENOSYS)$")


@case("55: personality cannot switch address randomisation off; bare it can (control)")
def personality(t):
    refused(t, "personality", FILTERED)
    control(t, "personality")


# ---- mounts, namespaces, devices, privileges (25 to 29, 32, 33, 65)

@case("25: no call of the mount family works; with capabilities in bare namespaces it does (control)")
def mounts(t):
    refused(t, ("mount", "tmpfs", "/tmp"), r"^(EPERM|ENOSYS)$")
    for name in ("fsopen", "open_tree", "mount_setattr", "umount"):
        refused(t, name, r"^(EPERM|ENOSYS|EINVAL)$")
    refused(t, ("remount-rw", "/"), r"^(EPERM|ENOSYS)$")
    control(t, ("mount", "tmpfs", "/mnt"))
    control(t, "fsopen")


@case("26: setns, pivot_root and chroot are refused; chroot works with capabilities (control)")
def roots(t):
    for name in ("setns", "pivot_root", "chroot"):
        refused(t, name, r"^(EPERM|ENOSYS|EACCES|EINVAL)$")
    control(t, "chroot")


@case("27: open_by_handle_at is refused by the filter")
def handles(t):
    refused(t, "open_by_handle_at", FILTERED)


@case("28: no device node can be made, in a private place or a writable workspace")
def device_nodes(t):
    refused(t, ("mknod-device", "/tmp/n"), r"^(EPERM|ENOSYS)$")
    t.mkdir("proj")
    os.chmod(t.dir / "proj", 0o777)
    refused(t, ("mknod-device", "/box/n"), r"^(EPERM|ENOSYS|EACCES)$", flags=("--workspace", "proj:rw"))


@case("29: a set-uid root program in a mount gives nothing: ids unchanged, no_new_privs set; outside it works (control)", needs="root")
def set_uid_program(t):
    import shutil
    t.mkdir("share")
    os.chmod(t.dir / "share", 0o755)
    shutil.copy(t.probe, t.dir / "share/suid")
    os.chown(t.dir / "share/suid", 0, 0)
    os.chmod(t.dir / "share/suid", 0o4755)
    if not t.is_root:
        outside = t.run([str(t.dir / "share/suid"), "ids"]).text
        t.match(outside, rf"^uid {t.identity.uid} 0 0$", "the control")
    t.expect(t.sbx("exec", "--mount", "share:/data", "--", "/data/suid", "ids"), out_match=r"^uid 1000 1000 1000$")
    t.expect(t.shell("grep -E '^(NoNewPrivs|CapPrm|CapEff|CapBnd|CapAmb|CapInh|Seccomp):' /proc/self/status"),
             out="CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\n"
                 "CapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n")


@case("29: a capability that a policy keeps is all that the payload has, and init keeps none of them")
def kept_capability(t):
    policy = t.file("net-raw.toml", '[hardening]\ncapabilities = ["cap_net_raw"]\n')
    # Init takes them off after it forked: the payload may be there first, and looks again.
    code = ("for n in {1..1000}; do grep -qE '^Cap...:.*[1-9a-f]' /proc/1/status || break; done\n"
            "grep -h '^Cap' /proc/self/status /proc/1/status")
    names = ("Inh", "Prm", "Eff", "Bnd", "Amb")
    t.expect(t.shell(code, "--policy", policy), out="".join(f"Cap{name}:\t{'0' * 12}2000\n" for name in names) +
             "".join(f"Cap{name}:\t{'0' * 16}\n" for name in names))


@case("32: core_pattern, modprobe and their like cannot be opened for writing")
def kernel_settings(t):
    for name in ("kernel/core_pattern", "kernel/modprobe", "kernel/hotplug", "vm/overcommit_memory", "user/max_user_namespaces", "fs/suid_dumpable"):
        refused(t, ("open", "w", f"/proc/sys/{name}"), r"^(EROFS|EACCES|EPERM|ENOENT)$")
    for name in ("/sys/kernel/uevent_helper", "/sys/power/state"):
        refused(t, ("open", "w", name), r"^(EROFS|EACCES|EPERM|ENOENT)$")


@case("33: sysrq-trigger, kcore, kmsg, kallsyms and their like give nothing")
def kernel_windows(t):
    done = t.shell("for f in /proc/kcore /proc/kmsg /dev/kmsg /proc/timer_list /proc/keys /proc/sched_debug /proc/cmdline /proc/locks /proc/interrupts /dev/mem /dev/port; do "
                   "n=$(timeout 2 head -c 100 $f 2>/dev/null | wc -c); [ $n -gt 0 ] && echo \"$f $n\"; done; "
                   "head -1 /proc/kallsyms 2>/dev/null | grep -v '^0000000000000000'; echo b > /proc/sysrq-trigger; true")
    t.equal(done.out, b"", "what could be read")


@case("65: the uid and gid maps have exactly one extent of length one; supplementary groups are dropped where the kernel lets it")
def maps(t):
    for name in ("uid_map", "gid_map"):
        done = t.shell(f"cat /proc/self/{name}")
        lines = done.text.splitlines()
        t.true(len(lines) == 1 and lines[0].split()[2] == "1", done.describe())
        if t.is_root and name == "uid_map":
            t.true(int(lines[0].split()[1]) >= 100000, f"root or a low uid is mapped: {lines}")
    groups = re.search(r"groups (\d+)", t.probed("ids").text).group(1)
    if t.is_root:
        t.equal(groups, "0", "supplementary groups")
    for name in ("setuid0", "setgroups"):
        refused(t, name, r"^(EPERM|EINVAL|ENOSYS)$")


@case("two sandboxes of root at once have different host uids, and cannot signal each other", as_=("root",))
def different_uids(t):
    runs = [t.spawn([t.binary, "exec", "--", "/bin/sh", "-c", "cat /proc/self/uid_map; read x"]) for _ in range(3)]
    try:
        uids = {r.stdout.readline().split()[1] for r in runs}
        t.equal(len(uids), 3, "distinct host uids")
    finally:
        for r in runs:
            r.communicate(b"\n", timeout=10)


# ---- sockets, IPC, shared places (41 to 50)

@case("41: an abstract socket of the host is not reachable; in the host's network it is (control)")
def abstract_socket(t):
    name = f"sbx-test-{os.getpid()}-{t.user}-{t.dir.name}"
    server = socket.socket(socket.AF_UNIX)
    server.bind("\0" + name)
    server.listen(2)
    t.at_end(server.close)
    t.equal(attempt(t, "unix", "@" + name), "ECONNREFUSED")
    t.equal(t.run([t.probe, "unix", "@" + name]).text, "ok\n", "the control")


@case("42: a path socket of the host is not there")
def path_socket(t):
    path = str(t.dir / "sock")
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    os.chmod(path, 0o777)
    server.listen(2)
    t.at_end(server.close)
    t.equal(attempt(t, "unix", path), "ENOENT")
    t.equal(t.run([t.probe, "unix", path]).text, "ok\n", "the control")


@case("44: services on the host's loopback and the metadata address are not reachable; with --net host they are (control)")
def loopback(t):
    server = socket.create_server(("127.0.0.1", 0))
    t.at_end(server.close)
    port = str(server.getsockname()[1])
    for address in ("127.0.0.1", "127.1.2.3", "0.0.0.0"):
        t.no_match(attempt(t, "connect", address, port), "^ok$", address)
    t.match(attempt(t, "connect", "169.254.169.254", "80"), "^(ENETUNREACH|EHOSTUNREACH)$")
    t.equal(attempt(t, "connect", "127.0.0.1", port, flags=("--net", "host")), "ok", "the control")


@case("47: socket families that programs do not need are refused: vsock, alg, packet, raw, bluetooth, netlink's rare ones")
def families(t):
    for words in ((40, 1, 0), (38, 5, 0), (17, 3, 0), (2, 3, 1), (31, 3, 0), (44, 3, 0), (29, 3, 1), (30, 1, 0), (16, 3, 12)):
        refused(t, ("socket", *map(str, words)), r"^(EPERM|EACCES|ENOSYS|EAFNOSUPPORT|EPROTONOSUPPORT)$")
    for words in ((1, 1, 0), (2, 1, 0), (2, 2, 0), (10, 1, 0)):
        t.match(attempt(t, "socket", *map(str, words)), "^(ok|EAFNOSUPPORT)$", f"an ordinary socket {words}")


@case("48: SysV shared memory and message queues of the host are not there; outside they are (control)")
def sysv(t):
    key = str(0x5b000000 + os.getpid() % 100000 * 4 + (0 if t.is_root else 1))
    made = t.run([t.probe, "shm-create", key])
    t.at_end(lambda: subprocess.run(["ipcrm", "-M", key], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    t.no_match(attempt(t, "shmget", key), "^ok$", "shmget")
    t.no_match(attempt(t, "mq", "/nothing"), "^ok$", "mq_open")
    t.equal(made.text + t.run([t.probe, "shmget", key]).text, "ok\nok\n", "the control")


@case("49 and 50: markers in the host's /dev/shm and /tmp are not there")
def shared_places(t):
    for directory in ("/dev/shm", "/tmp"):
        if not os.path.isdir(directory):
            continue
        path = f"{directory}/sbx-marker-{os.getpid()}-{t.user}-{t.dir.name}"
        open(path, "w").close()
        t.at_end(lambda p=path: os.unlink(p))
        t.equal(attempt(t, "open", "r", path), "ENOENT")
        t.equal(t.run([t.probe, "open", "r", path]).text, "ok\n", "the control")


# ---- time, priority, core dumps (75, 76, 78)

@case("75: clocks cannot be set")
def clocks(t):
    for name in ("clock_settime", "settimeofday", "adjtimex"):
        refused(t, name, FILTERED)


@case("76: priority cannot be raised, real-time scheduling not be had, oom_score_adj not be lowered")
def priority(t):
    refused(t, "setpriority", r"^(EPERM|EACCES|ENOSYS)$")
    refused(t, "sched_fifo", r"^(EPERM|EACCES|ENOSYS)$")
    done = t.shell("a=$(cat /proc/self/oom_score_adj); echo -900 > /proc/self/oom_score_adj; echo $(( $(cat /proc/self/oom_score_adj) < a ))")
    t.equal(done.text.strip().splitlines()[-1], "0", "oom_score_adj was lowered")
    refused(t, "raise-rlimit", r"^(EPERM|ENOSYS)$")
    control(t, "sethostname")
    refused(t, "sethostname", r"^(EPERM|ENOSYS)$")


@case("78: an abort makes no core: both limits are 1, which holds for a piped core_pattern too")
def core(t):
    t.expect(t.shell("ulimit -Sc; ulimit -Hc; grep 'Max core' /proc/self/limits | tr -s ' '"), out_match=r"^Max core file size 1 1 bytes")
    t.expect(t.probed("raise", "6", result=True), status=134, verdict="signaled")
    t.equal([p.name for p in t.dir.glob("core*")], [], "core files")


@case("1: TIOCSTI on a terminal is refused; without sbx, where the kernel still allows it, it works (control)")
def tiocsti(t):
    from stream_cases import Terminal
    term = Terminal(t, "exec", "--mount", f"{t.probe}:/opt/probe", "--", "/opt/probe", "tiocsti")
    term.read_until(rb"(?m)^\S+\r?\n")
    t.match(term.seen.decode(), r"^(EPERM|EIO|ENOTTY|EACCES|ENOSYS)", "TIOCSTI")
    term.wait()
    legacy = "/proc/sys/dev/tty/legacy_tiocsti"
    if not os.path.exists(legacy) or open(legacy).read().strip() == "1":
        term = Terminal(t, argv=[t.probe, "tiocsti"])
        term.read_until(rb"ok")
        term.wait()


@case("the same refusals hold with --workspace :rw, --net host and a policy: no flag loosens another protection")
def combined(t):
    t.mkdir("proj")
    for flags in (("--workspace", "proj:rw"), ("--net", "host"), ("--policy", "network")):
        for words in (("unshare", "0x10000000"), ("mount", "tmpfs", "/tmp"), ("io_uring_setup",), ("bpf",), ("attach", "1")):
            refused(t, words, r"^(EPERM|ENOSYS|ENOSPC|EUSERS|EACCES)$", flags=flags)


@case("Landlock, where the kernel has it, is in force: the result says so")
def landlock(t):
    r = t.shell("true", result=True).result
    landlock_of = r["isolation"]["landlock"]
    t.true(landlock_of["abi"] or landlock_of["note"], f"{landlock_of}")
