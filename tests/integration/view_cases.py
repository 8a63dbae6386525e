"""What the payload sees and what it does not: files, /proc, /dev, /etc, environment, network."""

import os
import socket

from harness import Skip, case


# ---- files

@case("the host's toolchains are there, read-only")
def toolchains(t):
    t.expect(t.shell("test -x /usr/bin/env && ls /usr/lib >/dev/null && echo seen; "
                     "touch /usr/x 2>&1 | grep -qi 'read-only' && echo read-only"), out="seen\nread-only\n")


@case("nothing outside the listed places can be written")
def nothing_writable(t):
    done = t.expect(t.shell(
        "for d in / /usr /etc /proc /sys /dev /run /var /opt /home /root /lib /bin /run/sbx /run/sbx/src /mnt /srv; do "
        "[ -d $d ] && (: > $d/probe-file) 2>/dev/null && echo \"wrote $d\"; done; true"))
    t.equal(done.out, b"", "writable places")


@case("HOME is /home/sandbox, private, empty and writable; so are /tmp and /dev/shm")
def home(t):
    t.expect(t.shell('echo $HOME ~; ls -A ~ /tmp /dev/shm | grep -v : | grep .; for d in ~ /tmp /dev/shm /box; do '
                     'echo x > $d/f && cat $d/f; done'), out="/home/sandbox /home/sandbox\nx\nx\nx\nx\n")


@case("/dev is minimal: null zero full random urandom tty ptmx, fd links, pts and shm")
def dev(t):
    done = t.expect(t.shell("ls /dev"))
    allowed = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "fd", "stdin", "stdout", "stderr", "pts",
               "shm", "console", "mqueue"}
    t.true(set(done.text.split()) <= allowed, f"more in /dev: {sorted(set(done.text.split()) - allowed)}")
    t.true({"null", "zero", "full", "random", "urandom", "fd", "shm", "ptmx"} <= set(done.text.split()), done.text)


@case("the devices work")
def devices_work(t):
    t.expect(t.shell("echo gone > /dev/null; head -c 4 /dev/zero | od -An -tx1; head -c 8 /dev/urandom | wc -c; "
                     "(echo x > /dev/full) 2>/dev/null || echo full"), out=" 00 00 00 00\n8\nfull\n")


@case("/proc is that of its own pid namespace and shows only the sandbox")
def proc(t):
    done = t.expect(t.shell("ls -d /proc/[0-9]* | wc -l; cat /proc/1/comm; cat /proc/uptime >/dev/null && echo up"))
    t.true(int(done.text.split()[0]) < 10, f"processes seen: {done.text}")


@case("cpuinfo, meminfo and stat stay readable in /proc, runtimes need them")
def proc_needed(t):
    t.expect(t.shell("for f in cpuinfo meminfo stat loadavg version filesystems self/status self/maps sys/kernel/osrelease; do "
                     "head -c 1 /proc/$f > /dev/null || echo missing $f; done"), out="")


@case("dangerous entries of /proc are masked or read-only")
def proc_masked(t):
    done = t.expect(t.shell(
        "for f in kcore keys timer_list sysrq-trigger kmsg; do [ -e /proc/$f ] && "
        "[ -n \"$(timeout 2 head -c 64 /proc/$f 2>/dev/null | tr -d '\\0')\" ] && echo \"readable $f\"; done; "
        "for f in sysrq-trigger sys/kernel/core_pattern sys/kernel/modprobe sys/vm/drop_caches irq/default_smp_affinity; do "
        "( : < /proc/$f ) 2>/dev/null; ( exec 3>/proc/$f && echo 0 >&3 ) 2>/dev/null && [ ! -c /proc/$f ] && echo \"writable $f\"; done; true"))
    t.equal(done.out, b"", "reachable entries")


@case("/etc has what programs need and is synthetic where it would tell")
def etc(t):
    t.expect(t.shell("cat /etc/hostname; hostname; getent passwd 1000 | cut -d: -f1,3,6; getent hosts localhost >/dev/null && echo hosts; "
                     "test -r /etc/ld.so.cache && echo cache"),
             out="sandbox\nsandbox\nsandbox:1000:/home/sandbox\nhosts\ncache\n")


@case("/etc never shows shadow, machine-id, ssh, sudoers or the host's users")
def etc_secret(t):
    done = t.expect(t.shell("ls -d /etc/shadow* /etc/gshadow* /etc/machine-id /etc/ssh /etc/sudoers* /etc/ssl/private /etc/NetworkManager "
                            "/var/lib/dbus/machine-id 2>/dev/null; wc -l < /etc/passwd"))
    lines = done.text.split()
    t.true(len(lines) == 1 and int(lines[0]) <= 6, f"seen: {done.text}")


@case("certificates and the time zone are there when the host has them")
def etc_needed(t):
    for path in ("/etc/ssl/certs/ca-certificates.crt", "/etc/localtime", "/etc/alternatives"):
        if os.path.exists(path):
            t.expect(t.shell(f"head -c 1 {path} >/dev/null 2>&1 || ls {path} | head -1 >/dev/null; test -e {path} && echo there"), out="there\n")


@case("nothing of the caller's home is seen")
def no_home(t):
    t.file("home/.ssh/id_rsa", "SECRET", 0o600)
    t.file("home/notes.txt", "SECRET")
    done = t.shell(f"cat {t.home}/.ssh/id_rsa {t.home}/notes.txt; ls -A {t.identity.home} {t.home} /root /home", env={"HOME": t.home})
    t.true(b"SECRET" not in done.out, done.describe())
    t.true(t.identity.name == "sandbox" or f"{t.identity.home}\n" not in done.text, done.describe())


@case("of the host's /tmp, /run, /var, /sys and /boot nothing of weight is seen")
def no_state(t):
    path = f"/tmp/sbx-marker-{os.getpid()}-{t.user}"
    open(path, "w").write("x")
    t.at_end(lambda: os.unlink(path))
    done = t.expect(t.shell(f"ls {path} /boot/* /var/log/* /run/systemd /run/dbus /run/docker.sock /sys/kernel /sys/class/net/* "
                            "/sys/firmware /lost+found 2>/dev/null; true"))
    t.equal(done.out, b"", "seen")


@case("no socket and no device but the minimal ones is anywhere in the view")
def no_sockets(t):
    done = t.expect(t.shell("find / -xdev -type s 2>/dev/null; find /run /var /tmp /etc /opt /srv /mnt /dev/shm -type s 2>/dev/null; "
                            "find / -path /proc -prune -o -path /dev -prune -o \\( -type b -o -type c \\) -print 2>/dev/null | head; true",
                            timeout=25))
    t.equal(done.out, b"", "sockets and devices")


@case("the host's hostname is not the sandbox's")
def hostname(t):
    t.expect(t.sbx("exec", "--", "uname", "-n"), out="sandbox\n")


@case("the payload is uid and gid 1000, named sandbox, and not pid 1")
def identity(t):
    t.expect(t.shell("id -u; id -g; id -un; whoami; [ $$ -gt 1 ] && echo not-init; umask"), out="1000\n1000\nsandbox\nsandbox\nnot-init\n0022\n")


@case("--uid and --gid change the identity inside")
def other_uid(t):
    t.expect(t.shell("id -u; id -g", "--uid", "1234", "--gid", "2345"), out="1234\n2345\n")


# ---- environment

SECRETS = {"AWS_SECRET_ACCESS_KEY": "s", "GITHUB_TOKEN": "s", "SSH_AUTH_SOCK": "/tmp/s", "DOCKER_HOST": "s",
           "GIT_ASKPASS": "s", "GITHUB_ENV": "s", "ACTIONS_RUNTIME_TOKEN": "s", "LD_PRELOAD": "/tmp/none.so",
           "NODE_OPTIONS": "--no-warnings", "BASH_ENV": "/tmp/none", "PYTHONSTARTUP": "/tmp/none", "PYTHONPATH": "/tmp/none",
           "ENV": "/tmp/none", "LD_LIBRARY_PATH": "/tmp/none", "XDG_RUNTIME_DIR": "/run/user/1", "DBUS_SESSION_BUS_ADDRESS": "s",
           "http_proxy": "http://user:s@proxy", "MY_OWN": "s", "BASH_FUNC_x%%": "() { :; }", "LC_ALL": "xx_XX", "TERM": "xterm"}


@case("the environment is clean: PATH, HOME, USER, LANG and nothing of the caller's")
def environment(t):
    done = t.expect(t.sbx("exec", "--", "env", "-0", env={k: v for k, v in SECRETS.items() if k != "LD_PRELOAD"}))
    got = dict(item.split("=", 1) for item in done.text.split("\0") if item)
    extra = set(got) - {"PATH", "HOME", "USER", "LOGNAME", "LANG", "SHELL", "TERM", "PWD", "TMPDIR", "SHLVL", "_"}
    t.true(not extra, f"unexpected variables: {sorted(extra)}")
    t.equal(got.get("LANG"), "C.UTF-8", "LANG")
    t.equal(got.get("HOME"), "/home/sandbox", "HOME")
    t.equal(got.get("USER"), "sandbox", "USER")
    t.true("/usr/bin" in got.get("PATH", "").split(":"), f"PATH={got.get('PATH')}")
    t.true("TERM" not in got, "TERM is set although no stream is a terminal")


@case("variables that steer interpreters do not reach them", needs="python")
def environment_steering(t):
    t.file("evil/sitecustomize.py", "print('EVIL')")
    t.expect(t.python("print('clean')", env={"PYTHONPATH": str(t.dir / "evil"), "PYTHONSTARTUP": str(t.dir / "evil/sitecustomize.py")}), out="clean\n")


@case("--env K=V sets a variable, --env K takes the caller's, and one that the caller has not is an error that names it")
def env_flag(t):
    t.expect(t.shell('echo "[$A][$B][${C-unset}][$D]"', "--env", "A=1 2=3", "--env", "B", "--env", "D=",
                     env={"B": "from caller", "C": "not asked for"}), out="[1 2=3][from caller][unset][]\n")
    t.expect(t.sbx("exec", "--env", "NOT_THERE", "--", "true"), status=2, err=r"^sbx: .*NOT_THERE")


@case("--env overrides what sbx sets")
def env_override(t):
    t.expect(t.shell('echo $LANG $PATH', "--env", "LANG=C", "--env", "PATH=/usr/bin:/bin"), out="C /usr/bin:/bin\n")


@case("--env refuses names that are no names")
def env_bad(t):
    for text in ("", "=x"):
        t.expect(t.sbx("exec", "--env", text, "--", "true"), status=2, err="^sbx: ")


@case("nothing of the caller's environment is in any process of the sandbox, init among them")
def environ_of_init(t):
    done = t.expect(t.shell("cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; tr '\\0' '\\n' < /proc/1/cmdline 2>/dev/null; true",
                            env={"MY_SECRET_VALUE": "XYZZY-SECRET"}))
    t.true(b"XYZZY" not in done.out, done.describe())


# ---- network

def listener(t, family=socket.AF_INET, address="127.0.0.1"):
    server = socket.socket(family, socket.SOCK_STREAM)
    server.bind((address, 0))
    server.listen(5)
    t.at_end(server.close)
    return server.getsockname()[1]


@case("--net none: a listener on the host's loopback is not reachable; with --net host it is")
def loopback(t):
    port = listener(t)
    t.expect(t.probed("connect", "127.0.0.1", str(port)), out="ECONNREFUSED\n")
    t.expect(t.probed("connect", "127.0.0.1", str(port), flags=("--net", "none")), out="ECONNREFUSED\n")
    t.expect(t.probed("connect", "127.0.0.1", str(port), flags=("--net", "host")), out="ok\n")


@case("--net none: the host's ::1 is not reachable either; with --net host it is", needs="ipv6")
def loopback_six(t):
    try:
        port = listener(t, socket.AF_INET6, "::1")
    except OSError:
        raise Skip("no IPv6 loopback on this host")
    t.true(t.probed("connect", "::1", str(port)).out != b"ok\n", "reached ::1")
    t.expect(t.probed("connect", "::1", str(port), flags=("--net", "host")), out="ok\n")


@case("--net none: the metadata address and the internet are unreachable")
def outside(t):
    for address in ("169.254.169.254", "1.1.1.1", "10.0.0.1"):
        t.expect(t.probed("connect", address, "80"), out_match=r"^(ENETUNREACH|EHOSTUNREACH)$")


@case("--net none: names do not resolve, at once", needs="python")
def names(t):
    done = t.python("import socket\ntry:\n socket.getaddrinfo('x.y.example', 80); print('resolved')\nexcept OSError as e: print('no')")
    t.expect(done, out="no\n")
    t.true(done.seconds < t.slow(8), f"took {done.seconds} s")


@case("--net none: the sandbox's own loopback is up, programs can talk to themselves", needs="python")
def own_loopback(t):
    t.expect(t.python("import socket\ns=socket.create_server(('127.0.0.1',0))\nc=socket.create_connection(s.getsockname())\n"
                      "p,_=s.accept(); c.sendall(b'hi'); print(p.recv(9))\n"
                      "s=socket.create_server(('localhost',0)); print('localhost')"), out="b'hi'\nlocalhost\n")


@case("--net none: with one CPU init makes the network itself; where another is free a helper does, and both are the same")
def network_helper(t):
    script = "cut -d: -f1 /proc/net/dev | tail -n +3 | tr -d ' '; readlink /proc/self/ns/net; echo $$"
    cpu = str(min(os.sched_getaffinity(0)))
    for words, helper in ((["taskset", "-c", cpu], False), ([], None)):
        for _ in range(10):
            done = t.expect(t.run([*words, t.binary, "exec", "-vv", "--", "sh", "-c", script]), out_match=r"^lo\nnet:\[\d+\]\n2\n$", err=None)
            t.true(os.readlink("/proc/self/ns/net") not in done.text, "the host's own network")
            seen = "a helper" in done.errors
            t.true("init's helper: unshare(CLONE_NEWNET)" in done.errors if seen else "init: unshare(CLONE_NEWNET)" in done.errors, "who makes it")
            t.true(helper is None or seen == helper, "a helper with one CPU")


@case("--net host is written in the result, and so is none")
def net_in_result(t):
    for mode in ("none", "host"):
        done = t.sbx("exec", "--net", mode, "--", "true", result=True)
        t.equal(done.result["isolation"]["network"], mode, "isolation.network")


@case("--net host brings resolv.conf")
def net_host_files(t):
    host = open("/etc/resolv.conf").read() if os.path.exists("/etc/resolv.conf") else ""
    if not host:
        raise Skip("no resolv.conf on this host")
    t.equal(t.expect(t.sbx("exec", "--net", "host", "--", "cat", "/etc/resolv.conf")).text, host, "resolv.conf")


@case("another --net value is wrong usage that lists the choices")
def net_bad(t):
    t.expect(t.sbx("exec", "--net", "bridge", "--", "true"), status=2, err=r"^sbx: .*bridge")
