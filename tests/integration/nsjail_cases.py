"""`sbx nsjail` and the name `nsjail`: every field and mode that does something, each with what happens without it."""

import json
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import sys

import harness
from harness import Failure, Skip, case

# A view that holds what a shell needs and nothing else.
VIEW = """
mount: [ { src: "/usr" dst: "/usr" is_bind: true },
         { src: "usr/bin" dst: "/bin" is_symlink: true },
         { src: "usr/lib" dst: "/lib" is_symlink: true },
         { src: "usr/lib64" dst: "/lib64" is_symlink: true } ]
envar: "PATH=/usr/bin:/bin"
log_level: WARNING
"""


def nsjail(t, *words, **more):
    return t.sbx("nsjail", *words, **more)


def jailed(t, config, code, *flags, **more):
    """The shell's words in a jail of VIEW and `config`."""
    path = t.file("jail.cfg", VIEW + config)
    return nsjail(t, "-C", path, *flags, "--", "/bin/sh", "-c", code, **more)


def host(t, code, *flags, **more):
    """In a jail that sees the host's files."""
    return nsjail(t, "-q", "-c", "/", *flags, "--", "/bin/sh", "-c", code, **more)


def own_id(t):
    return t.identity.uid


# ---- the command line

@case("the link named nsjail is the same program, -h prints the options and ends with 0")
def name(t):
    link = t.dir / "nsjail"
    link.symlink_to(t.binary)
    done = t.run([str(link), "--help"])
    t.expect(done, out_match=r"^ --config\|-C file$")
    t.match(done.text, r"^Usage: .*/nsjail \[options\] -- path_to_command \[args\]$")
    t.expect(t.run([str(link), "-Q", "-c", "/", "--", "/bin/sh", "-c", "exit 7"]), status=7)


@case("what cannot be executed ends with 255 and says why: a bad option, a bad file, no command, no such program, no PATH search")
def failures(t):
    bad = t.file("bad.cfg", 'hostname: "x"\nmounts { }\n')
    for words, why in ((["--chrot", "/"], "did you mean --chroot"), (["-t", "abc", "--", "/bin/true"], "flag --time_limit: no number"),
                       (["-C", bad], r'bad.cfg:2:1: unknown field "mounts" in NsJailConfig'), (["-C", "/nonexistent"], "/nonexistent"),
                       (["-c", "/"], "No command-line provided"), (["-c", "/", "--", "/nonexistent"], "cannot execute '/nonexistent': No such file"),
                       (["-c", "/", "--", "true"], "no PATH is searched"), (["-c", "/", "-D", "/nonexistent", "--", "/bin/true"], "working directory '/nonexistent'"),
                       (["-c", "/", "--cap", "CAP_NOPE", "--", "/bin/true"], "unknown capability"), (["-c", "/", "--pass_fd", "77", "--", "/bin/true"], "descriptor 77 is not open"),
                       (["-c", "/", "-Q", "--pass_fd", "3", "--", "/bin/true"], "descriptor 3 is not open"),  # but the log's copy is
                       (["-c", "/", "-H", "h" * 65, "--", "/bin/true"], "'hostname' is longer than the kernel's 64 bytes"),
                       (["-c", "/", "--disable_clone_newpid", "--", "/bin/true"], "cannot mount proc .*\n.*to no jail by a mount of its own"),
                       (["-c", "/", "--seccomp_string", "ERRNO(0) { execve } DEFAULT ALLOW", "--", "/bin/true"], "answers 0 instead of executing"),
                       (["-c", "/", "-u", "nobody-at-all", "--", "/bin/true"], "unknown user"), (["-c", "/nonexistent", "--", "/bin/true"], "cannot show '/nonexistent'")):
        done = nsjail(t, *words)
        t.expect(done, status=255, err=why)
        t.match(done.errors, r"^\[F\]\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}\]\[\d+\] \w+\(\):\d+ ", "log")


@case("the program's status is ours: exits, signals with 128, limits, abort as pid 1")
def statuses(t):
    for code, status in (("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("python3 -c 'import os; os.abort()'; kill -6 $$; exit 9", 9)):
        t.expect(jailed(t, "", code), status=status)
    t.expect(jailed(t, "rlimit_cpu: 1", "while :; do :; done"), status=137)
    t.expect(jailed(t, 'mount { dst: "/tmp" fstype: "tmpfs" rw: true } rlimit_fsize: 0', "dd if=/usr/bin/env of=/tmp/x; exit $?"), status=153)
    t.expect(jailed(t, 'mount { dst: "/tmp" fstype: "tmpfs" rw: true }', "dd if=/usr/bin/env of=/tmp/x; exit $?"), status=0)


# ---- configurations

@case("a configuration may come from a pipe, as JSON, and be changed by flags behind it; those before it are forgotten")
def sources(t):
    script = f"{t.binary} nsjail -C <(cat jail.cfg) -- /bin/sh -c 'echo piped'"
    t.file("jail.cfg", VIEW)
    t.expect(t.run(["/bin/bash", "-c", script]), out="piped\n")
    path = t.file("jail.json", json.dumps({"hostname": "json", "logLevel": "FATAL", "mount": [{"src": "/", "dst": "/", "isBind": True}],
                                           "execBin": {"path": "/bin/sh", "arg": ["-c", "hostname; echo $0"], "arg0": "zero"}}))
    t.expect(nsjail(t, "-C", path), out="json\nzero\n")
    t.expect(nsjail(t, "-H", "before", "-C", path), out="json\nzero\n")
    t.expect(nsjail(t, "-C", path, "-H", "after"), out="after\nzero\n")


@case("words after -- replace the arguments of the file, not its program; -x does")
def arguments(t):
    path = t.file("jail.cfg", VIEW + 'exec_bin { path: "/bin/echo" arg: "file" }')
    t.expect(nsjail(t, "-C", path), out="file\n")
    done = nsjail(t, "-C", path, "-v", "--", "/bin/false", "words")
    t.expect(done, out="words\n", err="what is executed is still '/bin/echo'")
    t.expect(nsjail(t, "-C", path, "-x", "/bin/false", "--", "a"), status=1, out="")


@case("what this version does not do is read, and then refused by its line: network devices, user networks, traffic rules")
def refused(t):
    for text, field in (('user_net { backend: PASTA }', "user_net"), ("user_net { enable: true }", "user_net"), ('macvlan_iface: "eth0"', "macvlan_iface"),
                        ('iface_own: "eth0"', "iface_own"), ("traffic_rule { action: DROP }", "traffic_rule"), ("seccomp_unotify: true", "seccomp_unotify"),
                        ("cgroup_net_cls_classid: 1", "cgroup_net_cls_classid"), ('cgroup_pids_max: 5 cgroup_pids_parent: "X"', "cgroup_pids_parent")):
        t.expect(jailed(t, "\n" + text, "echo no"), status=255, out="", err=rf"jail.cfg:9:\d+: '{field}' ")
    # Said, but without a meaning.
    t.expect(jailed(t, 'user_net { enable: false } macvlan_vs_ip: "1.2.3.4" cgroup_pids_parent: "X" seccomp_unotify: false', "echo yes"), out="yes\n")
    t.expect(nsjail(t, "--user_net", "-c", "/", "--", "/bin/true"), status=255, err="flag --user_net: 'user_net'")


# ---- the log

@case("the log has nsjail's lines and levels, in a file, on a descriptor or on stderr, and nothing but it")
def log(t):
    done = nsjail(t, "-c", "/", "--", "/bin/sh", "-c", "exit 3")
    lines = done.errors.splitlines()
    stamp = r"\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}\]"
    for pattern in (rf"^\[I\]{stamp} Mode: STANDALONE_ONCE$", rf"^\[I\]{stamp} Jail parameters: hostname:'NSJAIL', chroot:'/', process:'/bin/sh', ",
                    rf"^\[I\]{stamp} Mount: '/' -> '/' type:'' options:''", rf"^\[I\]{stamp} Uid map: inside_uid:{own_id(t)} outside_uid:{own_id(t)} count:1 newuidmap:false$",
                    rf"^\[I\]{stamp} Executing '/bin/sh' for '\[STANDALONE MODE\]'$", rf"^\[I\]{stamp} pid=\d+ \(\[STANDALONE MODE\]\) exited with status: 3, \(PIDs left: 0\)$"):
        t.match(done.errors, pattern, "log")
    t.true(all(re.match(r"\[[IW]\]", line) for line in lines), done.errors)
    warnings = 2 if t.is_root else 0  # that uid and gid are the host's root
    t.equal(len(host(t, "exit 3").errors.splitlines()), warnings, "lines with -q")
    t.equal(nsjail(t, "-Q", "-c", "/", "--", "/bin/true").errors, "", "with -Q")
    t.true(len(nsjail(t, "-v", "-c", "/", "--", "/bin/true").errors.splitlines()) > len(lines) - 1, "more with -v")
    to_file = nsjail(t, "-l", "log.txt", "-c", "/", "--", "/bin/sh", "-c", "echo own >&2")
    t.equal(to_file.errors, "own\n", "stderr")
    logged = (t.dir / "log.txt").read_text()
    t.match(logged, r"exited with status: 0", "log file")
    t.equal(stat.S_IMODE(os.stat(t.dir / "log.txt").st_mode) & 0o137, 0, "mode of the log file")
    nsjail(t, "-l", "log.txt", "-c", "/", "--", "/bin/true")
    t.true((t.dir / "log.txt").read_text().startswith(logged), "appended")
    killed = nsjail(t, "-c", "/", "-t", "1", "--", "/bin/sleep", "20")
    t.expect(killed, status=137, err=r"^\[I\].* pid=\d+ run time >= time limit \(1 >= 1\) \(\[STANDALONE MODE\]\)\. Killing it$")
    t.match(killed.errors, r"terminated with signal: SIGKILL \(9\), \(PIDs left: 0\)$", "log")


@case("a name with control characters cannot forge a line of the log")
def log_is_one_line(t):
    done = nsjail(t, "-c", "/", "--", "/bin/no\n[I] forged")
    t.expect(done, status=255)
    t.no_match(done.errors, r"^\[I\] forged", "log")


# ---- mounts

@case("without --chroot and mounts the root is an empty tmpfs, read-only without --rw")
def empty_root(t):
    t.expect(nsjail(t, "-q", "--", "/bin/true"), status=255, err="not in the jail")
    done = jailed(t, "", "ls /; touch /x || echo no")
    t.expect(done, out="bin\nlib\nlib64\nusr\nno\n")
    t.expect(jailed(t, "", "touch /x && echo yes", "--rw"), out="yes\n")
    t.expect(jailed(t, 'mount { src: "/usr/bin/env" dst: "/deep/er/env" is_bind: true }', "stat -c %a / /deep /deep/er; stat -c %F /deep/er/env"),
             out="1777\n755\n755\nregular file\n")


@case("a bind is read-only with everything mounted below it; rw: true makes it writable")
def binds(t):
    t.mkdir("share")
    t.file("share/file", "text\n")
    bind = 'mount { src: "share" dst: "/share" is_bind: true %s }'
    t.expect(jailed(t, bind % "", "cat /share/file; touch /share/new || echo no"), out="text\nno\n")
    t.true(not (t.dir / "share/new").exists(), "a file on the host")
    t.expect(jailed(t, bind % "rw: true", "touch /share/new && echo yes"), out="yes\n")
    t.true((t.dir / "share/new").exists(), "no file on the host")
    # /dev/shm, /proc and the like lie on mounts of their own below "/".
    t.expect(host(t, "touch /dev/shm/sbx-nsjail-test && echo written || echo no"), out="no\n")


@case("the old root is not there any more: one mount at /, and nothing of what the view leaves out")
def old_root_is_gone(t):
    for flags in (["-c", "/"], ["-c", "/", "--rw"], ["-R", "/", "-T", "/tmp"]):
        done = nsjail(t, "-Q", *flags, "--", "/bin/sh", "-c", "grep -c ' / / ' /proc/self/mountinfo; umount -l / 2>/dev/null; grep -c ' / / ' /proc/self/mountinfo")
        t.expect(done, out="1\n1\n")
    secret = t.file("secret", "x", 0o644)
    t.expect(jailed(t, "mount_proc: true", f"cat {secret} /proc/1/root{secret} /../..{secret} 2>/dev/null || echo no"), out="no\n")
    t.expect(host(t, f"cat {secret}"), out="x")


@case("mount targets below a bind of / are never made on the host: they must be there, and the error says what to do")
def no_stray_files(t):
    t.mkdir("root/usr")
    config = 'mount { src: "root" dst: "/" is_bind: true rw: true } mount { dst: "/made/here" fstype: "tmpfs" }'
    path = t.file("jail.cfg", config)
    t.expect(nsjail(t, "-q", "-C", path, "--", "/bin/true"), status=255, err=r"jail.cfg:1:\d+: the mount on '/made/here' finds no such place in '.*/root'")
    t.equal(sorted(os.listdir(t.dir / "root")), ["usr"], "the host's directory")
    t.mkdir("root/made/here")
    config = 'mount { src: "root" dst: "/" is_bind: true } mount { src: "/usr" dst: "/usr" is_bind: true } mount { dst: "/made/here" fstype: "tmpfs" rw: true }'
    path = t.file("jail.cfg", config)
    t.expect(nsjail(t, "-q", "-C", path, "--", "/usr/bin/env"), status=255, err="its loader is not in the jail")
    symlink = t.file("link.cfg", 'mount { src: "root" dst: "/" is_bind: true rw: true } mount { src: "x" dst: "/link" is_symlink: true }')
    t.expect(nsjail(t, "-q", "-C", symlink, "--", "/bin/true"), status=255, err="would be made on the host")
    t.true(not os.path.lexists(t.dir / "root/link"), "a link on the host")


@case("a later mount lies over a bind of /: the jail sees its own /tmp and /proc, not the host's")
def over_a_root_bind(t):
    t.file("marker", "x")
    done = host(t, "ls /tmp | wc -l; echo $$; ls /proc | grep -c '^[0-9]'", "-T", "/tmp")
    t.match(done.text, r"^0\n1\n[2-5]\n$", "stdout")
    t.expect(host(t, "touch /tmp/x && echo yes", "-T", "/tmp"), out="yes\n")


@case("files with content, links, tmpfs with options, optional mounts, prefixes from the environment, relative paths")
def kinds(t):
    t.mkdir("from/inner")
    t.file("from/inner/file", "relative\n")
    config = """
mount { dst: "/data/file" src_content: "one\\n\\x00two" }
mount { dst: "/data/writable" src_content: "one\\n" rw: true }
mount { dst: "/data/bound" src_content: "both\\n" is_bind: true }
mount { dst: "/empty" src_content: "" }
mount { src: "file" dst: "/data/link" is_symlink: true }
mount { dst: "/tmp" fstype: "tmpfs" options: "size=64k,nr_inodes=9" rw: true }
mount { dst: "/tmp/ro" fstype: "tmpfs" }
mount { dst: "/tmp/ro/inner" src_content: "x" }
mount { src: "nonexistent" dst: "/opt1" is_bind: true mandatory: false }
mount { src: "/inner" prefix_src_env: "FROM" dst: "/d" prefix_dst_env: "TO" is_bind: true }
mount { src: "x" prefix_src_env: "NOT_SET" dst: "/opt2" is_bind: true mandatory: false }
mount { src: "from/inner" dst: "home" is_bind: true }
mount_proc: true
"""
    code = """
od -c /data/file | head -1; cat /data/writable /data/bound; wc -c < /empty; readlink /data/link
echo more >> /data/writable && echo wrote; echo more >> /data/file || echo no
head -c 100000 /usr/bin/python3 > /tmp/big || echo full
touch /tmp/ro/x || echo ro; cat /tmp/ro/inner; echo
ls -d /opt? || echo none; cat /to/d/file /home/file
stat -c %a /data/file
"""
    done = jailed(t, config, code, env={"FROM": str(t.dir / "from"), "TO": "/to"})
    t.expect(done, out="0000000   o   n   e  \\n  \\0   t   w   o\none\nboth\n0\nfile\nwrote\nno\nfull\nro\nx\nnone\nrelative\nrelative\n644\n", err=None)
    for text, why in (('mount { src: "nonexistent" dst: "/x" is_bind: true }', "cannot show '.*/nonexistent' on '/x': No such file"),
                      ('mount { src: "x" prefix_src_env: "NOT_SET" dst: "/x" is_bind: true }', 'the variable "NOT_SET" is not set'),
                      ('mount { dst: "/x" }', "is no bind, has no fstype"), ('mount { dst: "/x" fstype: "nofs" }', "mount nofs on '/x': No such device"),
                      ('mount { src: "y" dst: "/bin" is_symlink: true }', "File exists"), ('mount { src: "/usr/bin/env" dst: "/x" is_bind: true is_dir: true }', "is_dir says true")):
        t.expect(jailed(t, text, "echo no"), status=255, out="", err=why)
    t.expect(jailed(t, 'mount { src: "y" dst: "/bin" is_symlink: true mandatory: false }', "echo yes"), out="yes\n")


@case("nosuid, nodev and noexec hold for everything below a bind")
def mount_attributes(t):
    t.file("dir/script", "#!/bin/sh\necho ran\n", 0o755)
    bind = 'mount { src: "dir" dst: "/dir" is_bind: true %s } mount { src: "/dev/null" dst: "/dir2/null" is_bind: true %s } mount_proc: true'
    t.expect(jailed(t, bind % ("", "rw: true"), "/dir/script; echo x > /dir2/null && echo device; grep -c ' /dir .*nosuid' /proc/self/mountinfo"), status=1, out="ran\ndevice\n0\n")
    t.expect(jailed(t, bind % ("noexec: true nosuid: true", "nodev: true rw: true"),
                    "/dir/script 2>/dev/null || echo noexec; echo x 2>/dev/null > /dir2/null || echo nodev; grep -c ' /dir .*nosuid' /proc/self/mountinfo"), out="noexec\nnodev\n1\n")


@case("/proc is there without a configuration, with one only when it says so, read-only, hardened, and of the jail's processes")
def proc(t):
    t.expect(host(t, "grep ' /proc .* - proc' /proc/self/mountinfo | tail -1"), out_match=r" ro,nosuid,nodev,noexec")
    t.expect(host(t, "grep ' /proc .* - proc' /proc/self/mountinfo | tail -1", "--proc_rw"), out_match=r" rw,nosuid,nodev,noexec")
    t.expect(jailed(t, "", "ls -d /proc || echo none"), out="none\n")
    t.expect(jailed(t, "mount_proc: true", "ls -d /proc/[0-9]*"), out="/proc/1\n")
    t.expect(jailed(t, "", "ls -d /p/1", "--proc_path", "/p"), out="/p/1\n")
    t.expect(jailed(t, 'mount { dst: "/proc" fstype: "proc" rw: true }', "ls -d /proc/1; grep -c ' /proc rw,nosuid' /proc/self/mountinfo"), out="/proc/1\n1\n")
    t.expect(nsjail(t, "-q", "-c", "/", "--disable_proc", "-T", "/proc", "--", "/bin/sh", "-c", "ls /proc | wc -l"), out="0\n")


@case("no_pivotroot and the absence of a mount namespace work, the latter with --chroot as root")
def other_roots(t):
    t.expect(host(t, "echo here; ls -d /usr", "--no_pivotroot"), out="here\n/usr\n", err="chroot instead of pivot_root")
    t.expect(nsjail(t, "-q", "--disable_clone_newns", "--disable_proc", "--", "/bin/sh", "-c", f"ls -d {t.dir}"), out=f"{t.dir}\n")
    t.mkdir("root/usr")
    t.expect(nsjail(t, "-q", "--disable_clone_newns", "-c", "root", "--disable_proc", "--", "/bin/true"), status=255, err="cannot execute '/bin/true': No such file")


# ---- identity

@case("uids and gids are mapped as asked; the first is the program's; names are looked up")
def maps(t):
    me, group = own_id(t), t.identity.gid
    done = jailed(t, 'mount_proc: true uidmap { inside_id: "12345" } gidmap { inside_id: "0x10" }', "id -u; id -g; cat /proc/self/uid_map")
    t.equal(done.text.split(), ["12345", "16", "12345", str(me), "1"], "ids")
    t.equal(jailed(t, "mount_proc: true", "id -u; id -g; cat /proc/self/gid_map").text.split(), [str(me), str(group), str(group), str(group), "1"])
    t.expect(host(t, "id -u; id -g", "-u", "nobody", "-g", "7"), out="65534\n7\n")
    if t.is_root:
        done = host(t, "id -u; cat /proc/self/uid_map | wc -l; touch /tmp/x 2>/dev/null || echo no", "-u", "1000:100000:1", "-u", "0:200000:5", "-g", "1:100000")
        t.expect(done, out="1000\n2\nno\n")
        t.no_match(done.errors, "root-level access", "log")
        t.match(host(t, "true").errors, "user root-level access to files", "log")
    else:
        t.expect(host(t, "id", "-u", "0:0"), status=255, err="who is not root maps one id")


@case("new uid maps come from newuidmap for ids that are not the caller's own", as_=("user",))
def newidmap(t):
    if not os.path.exists("/usr/bin/newuidmap"):
        raise Skip("needs newuidmap")
    subids = pathlib.Path("/etc/subuid").read_text()
    found = re.search(rf"^{t.identity.name}:(\d+):(\d+)$", subids, re.MULTILINE)
    if not found:
        raise Skip("needs an entry in /etc/subuid")
    start = found.group(1)
    done = host(t, "id -u; cat /proc/self/uid_map; cat /proc/self/gid_map", "-U", f"5:{start}:10", "-G", f"6:{start}:10")
    t.equal(done.text.split(), ["5", "5", start, "10", "6", start, "10"], "maps")
    t.expect(host(t, "id", "-U", "0:0:1", "-G", f"6:{start}:10"), status=255, err="'newuidmap' refused the map")


@case("without a user namespace root becomes the outer ids, with the further groups, and nothing is left of its rights", as_=("root",))
def no_user_namespace(t):
    done = host(t, "id -u; id -g; id -G; grep CapEff /proc/self/status; cat /proc/self/uid_map", "--disable_clone_newuser", "-u", "1234", "-g", "1235", "-g", "1236", "-g", "1237")
    t.match(done.text, r"^1234\n1235\n1235 1236 1237\nCapEff:\t0{16}\n +0 +0 +4294967295$", "stdout")
    t.expect(host(t, "id -u", "--disable_clone_newuser"), out="0\n")


@case("without root a user namespace is needed, and the error says so", as_=("user",))
def needs_user_namespace(t):
    t.expect(host(t, "id", "--disable_clone_newuser"), status=255, err="create the jail's namespaces: Operation not permitted")


@case("each namespace is the jail's own, and the caller's when switched off")
def namespaces(t):
    kinds = {"user": "user", "mnt": "ns", "pid": "pid", "ipc": "ipc", "uts": "uts", "net": "net", "cgroup": "cgroup"}
    outside = {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in kinds}
    code = "for n in user mnt pid ipc uts net cgroup time; do readlink /proc/self/ns/$n; done"
    inside = dict(zip(list(kinds) + ["time"], host(t, code).text.split()))
    for kind in kinds:
        t.true(inside[kind] != outside[kind], f"{kind} is the caller's")
    t.equal(inside["time"], os.readlink("/proc/self/ns/time"), "time")
    for kind in ("ipc", "uts", "net", "cgroup"):
        t.equal(host(t, f"readlink /proc/self/ns/{kind}", f"--disable_clone_new{kinds[kind]}").text.strip(), outside[kind], kind)
    t.true(host(t, "readlink /proc/self/ns/time", "--enable_clone_newtime").text.strip() != inside["time"], "the time namespace is the caller's")
    t.true(host(t, "readlink /proc/1/ns/pid 2>/dev/null; echo $$", "--disable_clone_newpid", "--disable_proc").text.split()[-1] != "1", "pid 1")


@case("capabilities are gone, kept by name or all kept; set-uid programs gain nothing unless no_new_privs is off")
def capabilities(t):
    read = "grep -E 'Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs' /proc/self/status | tr -d '\\n'"
    none = "CapPrm:\t{0}CapEff:\t{0}CapBnd:\t{0}CapAmb:\t{0}NoNewPrivs:\t{1}"
    t.expect(host(t, read), out=none.format("0" * 16, 1))
    t.expect(host(t, read, "--cap", "CAP_NET_RAW", "--cap", "CAP_CHOWN"), out=none.format(f"{1 << 13 | 1:016x}", 1))
    t.expect(host(t, read, "--disable_no_new_privs"), out=none.format("0" * 16, 0))
    t.expect(host(t, read, "--keep_caps"), out_match=r"CapEff:\t0000[0-9a-f]{4}ffffffff")
    done = jailed(t, 'cap: "CAP_NOPE" cap: "cap_chown"', "echo runs")
    t.expect(done, out="runs\n", err='jail.cfg:8:\\d+: unknown capability "CAP_NOPE"')
    t.match(done.errors, "unknown capability .*cap_chown", "log")


# ---- limits and manners

@case("rlimits are the documented defaults, the numbers given, the caller's own, or none; disable_rl leaves all alone")
def rlimits(t):
    code = "cat /proc/self/limits"
    def limits(*flags, **more):
        table = host(t, code, *flags, **more).text
        return {name: re.search(rf"^{re.escape(name)} +(\S+) +(\S+)", table, re.MULTILINE).groups() for name in
                ("Max address space", "Max core file size", "Max cpu time", "Max file size", "Max open files", "Max stack size", "Max processes", "Max locked memory")}
    default = limits()
    for name, value in (("Max address space", 4 << 30), ("Max core file size", 0), ("Max cpu time", 600), ("Max file size", 1 << 20), ("Max open files", 32)):
        t.equal(default[name], (str(value), str(value)), name)
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    text = "unlimited" if soft == resource.RLIM_INFINITY else str(soft)
    t.equal(default["Max stack size"], (text, text), "SOFT")
    given = limits("--rlimit_as", "512", "--rlimit_stack", "4", "--rlimit_nofile", "0x20", "--rlimit_fsize", "hard", "--rlimit_memlock", "1", "--rlimit_cpu", "soft")
    t.equal(given["Max address space"], (str(512 << 20),) * 2)
    t.equal(given["Max stack size"], (str(4 << 20),) * 2)
    t.equal(given["Max locked memory"], ("1024",) * 2)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    t.equal(given["Max file size"][0], "unlimited" if hard == resource.RLIM_INFINITY else str(hard), "hard")
    own = limits("--disable_rlimits")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    t.equal(own["Max open files"], (str(soft), str(hard)), "disable_rl")
    nofile = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 512))
    effective = int(re.search(r"CapEff:\t(\w+)", open("/proc/self/status").read()).group(1), 16)
    if t.is_root and effective >> 24 & 1:  # CAP_SYS_RESOURCE
        t.equal(limits("--rlimit_nofile", "1000", preexec_fn=nofile)["Max open files"], ("1000", "1000"), "root raises its own")
    else:
        t.expect(host(t, "true", "--rlimit_nofile", "1000", preexec_fn=nofile), status=255, err="flag --rlimit_nofile: 'rlimit_nofile' is above the caller's own hard limit of 512")
        t.expect(host(t, "true", "--rlimit_nofile", "hard", preexec_fn=nofile))


@case("the time limit ends the program within a second, also one that stopped itself; 0 is none; nothing of it is left")
def time_limit(t):
    done = jailed(t, "time_limit: 1", "sleep 60 & kill -STOP $$; sleep 60")
    t.expect(done, status=137)
    t.true(done.seconds < t.slow(4), f"it took {done.seconds} s")
    marker = f"{90000 + os.getpid() % 9999}.25"
    jailed(t, "time_limit: 1", f"sleep {marker} & sleep {marker}")
    t.wait_until(lambda: not harness.processes_with(marker), 3, "its processes end")
    t.expect(jailed(t, "time_limit: 0", "echo yes"), out="yes\n")


@case("environment, working directory, host name, priority, personality, CPUs, umask are what the configuration says")
def manners(t):
    code = "pwd; hostname 2>/dev/null || cat /proc/sys/kernel/hostname; nice; cat /proc/self/personality; nproc; umask; echo ${A-none} ${HOME-none} ${C-none}"
    default = jailed(t, "mount_proc: true", code)
    cpus = len(os.sched_getaffinity(0))
    t.equal(default.text.split(), ["/", "NSJAIL", "19", "00000000", str(cpus), "0022", "none", "none", "none"], "defaults")
    config = 'mount_proc: true cwd: "/usr/lib" hostname: "other" nice_level: 7 persona_addr_no_randomize: true max_cpus: 1 envar: "A=1" envar: "A=2" envar: "C" envar: "NOT_SET"'
    done = jailed(t, config, code, env={"C": "c d"})
    t.equal(done.text.split(), ["/usr/lib", "other", "7", "00040000", "1", "0022", "2", "none", "c", "d"], "given")
    t.match(done.errors, "'NOT_SET' envar, but it's not set", "log")
    t.expect(jailed(t, "keep_env: true envar: \"B=x\"", "echo $B $C $HOME"), out=f"x {t.home}\n")
    t.expect(host(t, "cat /proc/self/oom_score_adj", "--oom_score_adj", "700"), out="700\n")


@case("streams are the caller's own; silent and stderr_to_null make them /dev/null; a directory is refused")
def streams(t):
    t.expect(jailed(t, "", "cat; echo err >&2", stdin=b"through"), out="through", err="^err$")
    t.expect(jailed(t, "stderr_to_null: true", "echo out; echo err >&2"), out="out\n", err="^$")
    t.expect(jailed(t, "silent: true", "cat; echo out; echo err >&2", stdin=b"x"), out="", err="^$")
    with open(t.dir / "out.txt", "wb") as file:
        t.run([t.binary, "nsjail", "-Q", "-c", "/", "--", "/bin/echo", "file"], stdout=file)
    t.equal((t.dir / "out.txt").read_text(), "file\n", "a file as stdout")
    directory = os.open(t.dir, os.O_RDONLY)
    t.expect(nsjail(t, "-q", "-c", "/", "--", "/bin/true", stdin=directory), status=255, err="descriptor 0 is a directory")
    t.expect(nsjail(t, "-q", "-c", "/", "--pass_fd", "0", "--", "/bin/true", stdin=directory))
    os.close(directory)


@case("descriptors are closed but for those of pass_fd")
def pass_fd(t):
    read, write = os.pipe()
    os.set_inheritable(write, True)
    code = "ls /proc/self/fd | tr '\\n' ' '"
    t.expect(host(t, code, pass_fds=(write,)), out="0 1 2 3 ")
    passed = lambda *flags: nsjail(t, "-q", "-c", "/", *flags, "--", "/bin/bash", "-c", f"echo hello >&{write}", pass_fds=(write,))
    t.expect(passed("--pass_fd", str(write)))
    t.equal(os.read(read, 100), b"hello\n", "through the descriptor")
    t.expect(passed(), status=1, err="Bad file descriptor")
    os.close(read), os.close(write)


@case("a session of its own, unless skip_setsid; exec_fd executes what is not inside; the name is arg0's", needs="python")
def sessions(t):
    code = "import os; print(os.getsid(0) == os.getpid())"
    run = lambda *flags: nsjail(t, "-Q", "-c", "/", *flags, "--", "/usr/bin/python3", "-c", code)
    t.expect(run(), out="True\n")
    t.expect(run("--skip_setsid"), out="False\n")
    t.expect(nsjail(t, "-Q", "-R", "/usr/lib", "-R", "/lib", "-R", "/lib64", "-x", "/bin/echo", "--execute_fd", "--", "name", "word"), out="word\n")


# ---- system calls

@case("seccomp_string and seccomp_policy_file filter; a killed program is 159; errors name line and column")
def seccomp(t):
    deny = "ERRNO(13) { mkdir, mkdirat } DEFAULT ALLOW"
    tmp = 'mount { dst: "/tmp" fstype: "tmpfs" rw: true } '
    t.expect(jailed(t, tmp + 'seccomp_string: "ERRNO(13) { mkdir, mkdirat }" seccomp_string: "DEFAULT ALLOW"', "mkdir /tmp/x"), status=1, err="Permission denied")
    t.expect(jailed(t, tmp, "mkdir /tmp/x"), status=0)
    t.file("policy.kafel", deny)
    t.expect(jailed(t, tmp + 'seccomp_policy_file: "policy.kafel"', "mkdir /tmp/x"), status=1, err="Permission denied")
    t.expect(jailed(t, tmp + 'seccomp_log: true seccomp_string: "KILL_PROCESS { mkdir, mkdirat } DEFAULT ALLOW"', "exec mkdir /tmp/x"), status=159, err="committed a syscall/seccomp violation")
    t.expect(jailed(t, "seccomp_string: \"ALLOW { read }\"", "true"), status=159)
    t.expect(jailed(t, '\nseccomp_string: "ALLOW { reed }"', "true"), status=255, err=r"jail.cfg:9:\d+: policy line 1, column 9: .*reed")
    t.file("policy.kafel", "ALLOW {\n  reed }")
    t.expect(jailed(t, 'seccomp_policy_file: "policy.kafel"', "true"), status=255, err=r"policy.kafel:2:3: .*reed")
    t.expect(jailed(t, 'seccomp_policy_file: "policy.kafel" seccomp_string: "DEFAULT ALLOW"', "true"), status=255, err="exclude each other")
    # A filter takes the road back to privileges away, whatever is said.
    t.expect(host(t, "grep NoNewPrivs /proc/self/status", "--disable_no_new_privs", "--seccomp_string", "DEFAULT ALLOW"), out="NoNewPrivs:\t1\n")


@case("the time stamp counter is closed by disable_tsc", needs=("x86_64", "python"))
def disable_tsc(t):
    code = "import ctypes; L = ctypes.CDLL(None); v = ctypes.c_int(); L.prctl(25, ctypes.byref(v)); print(v.value)"
    run = lambda *flags: nsjail(t, "-Q", "-c", "/", *flags, "--", "/usr/bin/python3", "-c", code)
    t.expect(run(), out="1\n")
    done = run("--disable_tsc")  # the loader itself reads it where it was built to
    t.true(done.out == b"2\n" or done.status == 139, done.describe())


# ---- network

@case("the network is empty but for lo, which is up unless iface_no_lo; clone_newnet: false is the host's")
def network(t):
    t.expect(host(t, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"), out="lo\n")
    up = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); socket.create_connection(s.getsockname(), 2); print('up')"
    run = lambda *flags: nsjail(t, "-Q", "-c", "/", *flags, "--", "/usr/bin/python3", "-c", up)
    t.expect(run(), out="up\n")
    t.expect(run("--iface_no_lo"), status=1, err="unreachable")
    host_devices = sorted(line.split(":")[0].strip() for line in open("/proc/net/dev").read().splitlines()[2:])
    t.equal(sorted(host(t, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '", "-N").text.split()), host_devices, "the host's devices")


# ---- cgroups

@case("limits by cgroup hold where a controller is to be had, else the start is refused with the reason")
def cgroups(t):
    fork = "for i in 1 2 3 4 5 6 7 8; do sleep 5 & done; echo all"
    free = jailed(t, "time_limit: 2", fork + "; kill $!")
    t.match(free.text, "all", "stdout")
    done = jailed(t, "\ncgroup_pids_max: 4", fork)
    if harness.cgroup_holder(t) is None:
        t.expect(done, status=255, err=r"jail.cfg:9:\d+: no cgroup can hold this limit")
        return
    t.match(done.errors, "[Cc]annot fork|Resource temporarily unavailable", "stderr")
    memory = jailed(t, "cgroup_mem_max: 33554432 cgroup_mem_swap_max: 0 rlimit_as_type: INF", "exec /usr/bin/python3 -c 'x = b\"x\" * (100 << 20)'")
    t.expect(memory, status=137)
    t.expect(jailed(t, "cgroup_mem_max: 333554432 rlimit_as_type: INF", "exec /usr/bin/python3 -c 'x = b\"x\" * (100 << 20)'"))


@case("cgroup_mem_max is cgroup v2's memory.max: who goes beyond ends with 137, all its processes with it; below nothing happens",
      needs=("python", "cgroup-v2"), seconds=40)
def cgroup_memory(t):
    # Two processes that each stay below the limit and together do not: an rlimit would let them pass.
    # Each waits until the other has its memory, and the first one for the other's end.
    code = ("import os; a, b = os.pipe(); c, d = os.pipe(); child = os.fork(); x = b'x' * (40 << 20); "
            "os.write(d if child else b, b'.'); os.read(a if child else c, 1); print('held', flush=True); child and os.wait()")
    run = lambda limit: jailed(t, f"cgroup_mem_max: {limit} cgroup_mem_swap_max: 0 rlimit_as_type: INF", f'exec /usr/bin/python3 -c "{code}"')
    t.expect(run(64 << 20), status=137, out="")
    t.expect(run(256 << 20), out="held\nheld\n")


@case("cgroup_pids_max is cgroup v2's pids.max: threads count, and a jail of its own does not share it", needs=("python", "cgroup-v2"), seconds=40)
def cgroup_pids(t):
    code = ("import threading, sys\ne = threading.Event(); n = 0\n"
            "try:\n  for _ in range(12): threading.Thread(target=e.wait, daemon=True).start(); n += 1\n"
            "except RuntimeError: pass\nprint(n); sys.stdout.flush(); e.set()")
    run = lambda limit: jailed(t, f"cgroup_pids_max: {limit}", f'exec /usr/bin/python3 -c "{code}"')
    t.expect(run(8), out="7\n")
    t.expect(run(8), out="7\n")
    t.expect(run(40), out="12\n")


@case("cgroup_cpu_ms_per_sec is cgroup v2's cpu.max: what is computed in a second of wall time is that much less", needs=("python", "cgroup-v2"), seconds=60)
def cgroup_cpu(t):
    code = "import time; w, c = time.monotonic(), time.process_time()\nwhile time.monotonic() - w < 3: pass\nprint((time.process_time() - c) / (time.monotonic() - w))"
    used = lambda limit: float(jailed(t, f"cgroup_cpu_ms_per_sec: {limit}", f'exec /usr/bin/python3 -c "{code}"').text)
    slow, free = used(200), used(4000)
    t.true(slow < 0.5 * free, f"{slow} of a CPU under the limit, {free} without")


@case("the jail's cgroup is gone with it, also after SIGKILL of the supervisor: the next jail that has one takes it away", needs="cgroup", seconds=60)
def cgroup_left(t):
    path = t.file("jail.cfg", VIEW + "cgroup_pids_max: 20")
    folders = lambda pid: [f for _, names, _ in os.walk("/sys/fs/cgroup") for f in names if re.fullmatch(rf"sbx-\d+-{pid}-.*", f)]
    process = t.spawn([t.binary, "nsjail", "-C", path, "--", "/bin/sh", "-c", "echo ready; exec sleep 60"])
    t.equal(process.stdout.readline(), b"ready\n")
    t.true(folders(process.pid), "a cgroup while it runs")
    process.kill()
    process.communicate(timeout=10)
    t.expect(nsjail(t, "-C", path, "--", "/bin/sh", "-c", "echo next"), out="next\n")
    t.wait_until(lambda: not folders(process.pid), t.slow(5), "its cgroups are gone")
    orderly = t.spawn([t.binary, "nsjail", "-C", path, "--", "/bin/true"])
    orderly.communicate(timeout=t.slow(10))
    t.equal(folders(orderly.pid), [], "after an orderly end")


@case("both swap limits at once, and a cgroup tree of version 1, are refused")
def cgroup_fields(t):
    t.expect(jailed(t, "cgroup_mem_max: 1000000 cgroup_mem_memsw_max: 2000000 cgroup_mem_swap_max: 5", "true"), status=255, err="cannot set both")
    t.expect(jailed(t, 'cgroup_mem_max: 1000000 cgroup_mem_mount: "/x"', "true"), status=255, err="'cgroup_mem_mount' places a cgroup of version 1")


# ---- modes

@case("RERUN runs again and again until a signal; SIGINT and SIGTERM end it with 128 + n and kill the program")
def rerun(t):
    t.file("count", b"")
    for number, status in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        path = t.file("jail.cfg", VIEW + f'mode: RERUN log_level: FATAL mount {{ src: "{t.dir}" dst: "/d" is_bind: true rw: true }}')
        path = t.file("jail.cfg", pathlib.Path(path).read_text().replace("log_level: WARNING\n", ""))
        process = t.spawn([t.binary, "nsjail", "-C", path, "--", "/bin/sh", "-c", "echo x >> /d/count"])
        t.wait_until(lambda: os.path.getsize(t.dir / "count") >= 6, 10, "three runs")
        process.send_signal(number)
        process.communicate(timeout=10)
        t.equal(harness.shell_status(process.returncode), status, "status")


@case("a signal kills the program, or is forwarded with forward_signals and waited for")
def signals(t):
    def one(number, *flags):
        code = "trap 'echo caught; exit 5' TERM INT; echo ready; while :; do sleep 0.05; done"
        process = t.spawn([t.binary, "nsjail", "-Q", "-c", "/", *flags, "--", "/bin/sh", "-c", code])
        t.equal(process.stdout.readline(), b"ready\n", "the program's first line")
        process.send_signal(number)
        rest, _ = process.communicate(timeout=10)
        return harness.shell_status(process.returncode), rest
    t.equal(one(signal.SIGTERM), (143, b""))
    t.equal(one(signal.SIGINT), (130, b""))
    t.equal(one(signal.SIGTERM, "--forward_signals"), (143, b"caught\n"))


@case("when the supervisor is killed, or hung up, the program dies with it")
def death(t):
    for number in (signal.SIGKILL, signal.SIGHUP):
        marker = f"{80000 + os.getpid() % 9999}.{number}"
        process = t.spawn([t.binary, "nsjail", "-Q", "-c", "/", "--", "/bin/sleep", marker])
        t.wait_until(lambda: any(f"{marker}" in " ".join(open(f"/proc/{p}/cmdline").read().split("\0")[:2]) for p in harness.children_of(process.pid)), 10, "the program runs")
        process.send_signal(number)
        process.communicate(timeout=10)
        t.wait_until(lambda: not harness.processes_with(marker), 5, "the program is gone")


@case("SIGUSR1 lists what runs")
def listing(t):
    process = t.spawn([t.binary, "nsjail", "-c", "/", "--", "/bin/sh", "-c", "echo ready; exec sleep 20"])
    t.equal(process.stdout.readline(), b"ready\n")
    process.send_signal(signal.SIGUSR1)
    seen = b""
    while b"Run time" not in seen:
        line = process.stderr.readline()
        t.true(line, "the log ended")
        seen += line
    t.match(seen.decode(), r"Total number of spawned namespaces: 1$", "log")
    t.match(seen.decode(), r"pid=\d+, Remote host: \[STANDALONE MODE\], Run time: \d+ sec\. \(time left: \d+ s\.\)", "log")
    process.terminate()
    process.communicate(timeout=10)


@case("EXECVE becomes the program: our own pid, its status and signals, no supervisor; failures are 255 with the reason")
def execve(t):
    process = t.spawn([t.binary, "nsjail", "-Me", "-Q", "-c", "/", "--disable_proc", "--", "/bin/sh", "-c", "echo $$; hostname; id -u; exit 4"])
    out, err = process.communicate(timeout=10)
    t.equal((out.decode().split(), process.returncode), ([str(process.pid), "NSJAIL", str(own_id(t))], 4), err)
    killed = t.spawn([t.binary, "nsjail", "-Me", "-Q", "-c", "/", "--disable_proc", "--", "/bin/sh", "-c", "kill -9 $$"])
    killed.communicate(timeout=10)
    t.equal(killed.returncode, -signal.SIGKILL, "a real signal")
    t.expect(nsjail(t, "-Me", "-c", "/", "--disable_proc", "--", "/nonexistent"), status=255, err=r"^\[F\].*cannot execute '/nonexistent'")
    t.expect(nsjail(t, "-Me", "-c", "/", "--disable_proc", "--cgroup_pids_max", "4", "--", "/bin/true"), status=255, err="mode EXECVE has no supervisor")


@case("EXECVE that fails at once leaves no process: the one that holds the pid namespace ends with it, however soon", seconds=80)
def execve_leaves_nothing(t):
    missing = f"/nonexistent-{os.getpid()}-{own_id(t)}"
    # Eight at once: some are dead before their child has run at all.
    script = f'seq 300 | xargs -P 8 -I+ sh -c "$1 nsjail -Me -c / --disable_proc -- {missing}; true"'
    t.run(["/bin/sh", "-c", script, "sh", t.binary], timeout=60)
    t.wait_until(lambda: not [pid for pid in harness.processes_with(f"nsjail\0-Me\0-c\0/\0--disable_proc\0--\0{missing}")], 10, "none of them is left")


class Server:
    """A jail that listens on a port that the kernel chose."""

    def __init__(self, t, *words, config=None):
        arguments = ["-C", config] if config else ["-Ml", "-c", "/"]
        self.process = t.spawn([t.binary, "nsjail", *arguments, "--port", "0", "--bindhost", "127.0.0.1", *words])
        self.t = t
        self.lines = []
        while True:
            line = self.process.stderr.readline().decode()
            if not line:
                raise Failure("no listener:\n" + "".join(self.lines))
            self.lines.append(line)
            found = re.search(r"Listening on \[.*\]:(\d+)$", line.strip())
            if found:
                self.port = int(found.group(1))
                return

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=self.t.slow(10))
        self.t.at_end(connection.close)
        return connection

    def log_until(self, pattern):
        while True:
            line = self.process.stderr.readline().decode()
            if not line:
                raise Failure(f"the log ended without /{pattern}/:\n" + "".join(self.lines))
            self.lines.append(line)
            if re.search(pattern, line):
                return line

    def stop(self):
        self.process.terminate()
        self.process.communicate(timeout=10)
        return self.process.returncode


def read_all(connection):
    data = b""
    while True:
        piece = connection.recv(65536)
        if not piece:
            return data
        data += piece


@case("LISTEN starts a program for each connection, byte for byte, also after a half close; a signal ends it with 0")
def listen(t):
    server = Server(t, "--", "/bin/sh", "-c", "echo hello; exec cat")
    first, second = server.connect(), server.connect()
    t.equal(first.recv(6), b"hello\n")
    t.equal(second.recv(6), b"hello\n")
    first.sendall(b"one")
    t.equal(first.recv(10), b"one")
    data = os.urandom(1 << 20)
    sender = subprocess.Popen([sys.executable, "-c", "pass"])  # a child of ours must not disturb the test's own sockets
    sender.wait()
    import threading
    writer = threading.Thread(target=lambda: (second.sendall(data), second.shutdown(socket.SHUT_WR)))
    writer.start()
    t.true(read_all(second) == data, "the bytes differ")
    writer.join()
    server.log_until(r"exited with status: 0, \(PIDs left: 1\)")
    t.equal(server.stop(), 0, "status")


@case("LISTEN bounds connections, in all and for an address; a slot is free again when its program ends")
def connection_limits(t):
    for flags, why in ((["--max_conns", "1"], "max_conns limit"), (["--max_conns_per_ip", "1"], "max_conns_per_ip limit")):
        server = Server(t, *flags, "--", "/bin/cat")
        first = server.connect()
        first.sendall(b"x")
        t.equal(first.recv(1), b"x")
        t.equal(read_all(server.connect()), b"", "a connection too many")
        server.log_until(f"Rejecting connection from '.*', {why} reached: 1")
        first.close()
        server.log_until("exited with status: 0")
        third = server.connect()
        third.sendall(b"y")
        t.equal(third.recv(1), b"y")
        t.equal(server.stop(), 0)


@case("LISTEN kills a program whose peer is gone or whose time is up, and the program never holds the socket")
def connection_ends(t):
    server = Server(t, "-t", "1", "--", "/bin/sleep", "60")
    t.equal(read_all(server.connect()), b"", "closed by the time limit")
    server.log_until(r"run time >= time limit \(1 >= 1\)")
    t.equal(server.stop(), 0)
    server = Server(t, "--", "/bin/sh", "-c", "ls -l /proc/self/fd | grep -c socket; while :; do echo y; sleep 0.01; done")
    connection = server.connect()
    t.equal(connection.recv(2), b"0\n", "sockets of the program")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # a reset
    connection.close()
    server.log_until("terminated with signal: SIGKILL")
    t.equal(server.stop(), 0)


@case("LISTEN refuses what it cannot listen on, with status 1")
def cannot_listen(t):
    t.expect(nsjail(t, "-c", "/", "--port", "0", "--bindhost", "nonsense", "--", "/bin/true"), status=1, err="no address to listen on")
    t.expect(nsjail(t, "-c", "/", "--port", "70000", "--", "/bin/true"), status=1, err="above 65535")
    t.expect(nsjail(t, "-c", "/", "--port", "x", "--", "/bin/true"), status=255, err="flag --port: no number")


@case("daemon goes to the background with its log in the file")
def daemon(t):
    t.expect(nsjail(t, "-d", "-l", "log.txt", "-c", "/", "--", "/bin/sh", "-c", "echo nobody hears"), out="")
    t.wait_until(lambda: (t.dir / "log.txt").exists() and "exited with status: 0" in (t.dir / "log.txt").read_text(), 10, "the log of the daemon")


# ---- the examples

EXAMPLES = harness.ROOT / "policies" / "examples" / "nsjail"


def example(t, name):
    """A copy that the identity under test can read."""
    return t.file(name, (EXAMPLES / name).read_text())


@case("the example for Python runs snippets from stdin and the command line, here and as a policy, and holds its limits", needs="python")
def python_example(t):
    path = example(t, "python.cfg")
    t.expect(nsjail(t, "-C", path, stdin=b"print(6 * 7)"), out="42\n")
    run = lambda code: nsjail(t, "-C", path, "--", "python3", "-I", "-c", code)
    t.expect(run("import os; print(os.getuid(), os.listdir('/tmp'), os.environ.get('HOME'))"), out="65534 [] None\n")
    t.expect(run("open('/tmp/x', 'w').write('x' * (5 << 20))"), status=(1, 153))
    t.expect(run("x = b'x' * (2 << 30)"), status=1, err="MemoryError")
    if not t.is_root:  # whom RLIMIT_NPROC does not hold
        t.expect(run("import os; [os.fork() for _ in range(6)]"), err="Resource temporarily unavailable", status=None)
    t.expect(run("import socket; socket.create_connection(('192.0.2.1', 80), 1)"), status=1, err="unreachable")
    t.expect(run("import ctypes; L = ctypes.CDLL(None, use_errno=True); print(L.unshare(0x10000000), ctypes.get_errno())"), out="-1 1\n")
    t.expect(run("while True: pass"), status=137)
    as_policy = t.sbx("exec", "--policy", path, "--", "/usr/bin/python3", "-I", "-c", "print(6 * 7); print(open('/etc/hostname').read())")
    t.expect(as_policy, out="42\npython\n\n")
    t.expect(t.sbx("policy", "check", path), out_match=": ok$")


@case("the example for a challenge answers each connection with a program of its own, a few for one address")
def ctf_example(t):
    path = example(t, "ctf.cfg")
    t.file("challenge/run", "#!/bin/sh\necho name?\nread name\necho hello $name, $(id -u), $(hostname 2>/dev/null || cat /etc/hostname 2>/dev/null)\n", 0o755)
    server = Server(t, "--bindmount_ro", f"{t.dir}/challenge:/srv", "--", "/srv/run", config=path)
    connections = [server.connect() for _ in range(4)]
    for number, connection in enumerate(connections):
        t.equal(connection.recv(6), b"name?\n")
    t.equal(read_all(server.connect()), b"", "the fifth connection of one address")
    for number, connection in enumerate(connections):
        connection.sendall(b"%d\n" % number)
        t.match(read_all(connection).decode(), rf"^hello {number}, 1000, ", "answer")
    t.equal(server.stop(), 0)


@case("the example for a compile service compiles with what the command line adds, and hides what it says", needs="g++")
def compiler_example(t):
    path = example(t, "compiler.cfg")
    t.file("build/example.c", "#include <stdio.h>\nint main(void) { puts(\"built\"); return 3; }\n")
    os.chmod(t.dir / "build", 0o777)
    common = ["-C", path, "--time_limit=20", "--env=HOME=/app", "--cwd", "/app", "--bindmount", f"{t.dir}/build:/app"]
    t.expect(nsjail(t, *common, "--", "/usr/bin/gcc", "-O2", "-o", "out", "example.c"), out="", err="^$")
    t.expect(nsjail(t, *common, "--", "/app/out"), status=3, out="built\n")
    t.expect(nsjail(t, *common, "--", "/bin/sh", "-c", "ls /usr/share | wc -l; id -un; touch /usr/x"), status=1, out="0\ncompiler\n")
    t.expect(t.sbx("exec", "--policy", path, "--", "/usr/bin/gcc", "--version"), out_match=r"^gcc")


@case("the example for a judge tells right, slow, crashed and forbidden programs apart", needs="g++")
def judge_example(t):
    path = example(t, "judge.cfg")
    t.file("s.c", r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/socket.h>
int main(void) {
  int n = 0;
  if (scanf("%d", &n) != 1) return 2;
  if (n == 1) for (;;) {}
  if (n == 2) *(volatile int*)0 = 1;
  if (n == 3) return socket(AF_INET, SOCK_STREAM, 0) < 0;
  if (n == 4) return fork() < 0;
  printf("%d\n", 2 * n);
  return 0;
}
""")
    t.expect(t.run(["gcc", "-O1", "-o", "solution", "s.c"]))
    judge = lambda word: nsjail(t, "-C", path, "--bindmount_ro", f"{t.dir}/solution:/solution", stdin=word)
    t.expect(judge(b"21"), out="42\n", err="^$")
    t.expect(judge(b"x"), status=2)
    for word, status in ((b"1", 137), (b"2", 139), (b"3", 159), (b"4", 159)):
        t.expect(judge(word), status=status, out="", err="^$")
    done = t.sbx("exec", "--policy", path, "--mount", f"{t.dir}/solution:/solution", "--", "/solution", stdin=b"21")
    t.expect(done, out="42\n")


# ---- as policies of sbx

@case("a configuration is a policy of run and exec: its mounts, limits and filter, nothing else of the host, sbx's places on top")
def as_policy(t):
    path = t.file("jail.cfg", VIEW + 'hostname: "named" time_limit: 1 mount { dst: "/etc/motd" src_content: "hello\\n" } envar: "A=b" envar: "C" mount_proc: true')
    done = t.sbx("exec", "--policy", path, "--", "/bin/sh", "-c", "cat /etc/hostname /etc/motd; echo $A $C $HOME; ulimit -n; ls -d /opt /root 2>/dev/null; ls /usr >/dev/null && echo usr", env={"C": "c"})
    t.expect(done, status=0, out="named\nhello\nb c /home/sandbox\n32\nusr\n")
    t.expect(t.sbx("exec", "--policy", path, "--", "/bin/sleep", "20"), status=124)
    t.expect(t.sbx("exec", "--policy", path, "--time", "5s", "--open-files", "64", "--", "/bin/sh", "-c", "ulimit -n"), out="64\n")
    filtered = t.file("filtered.cfg", VIEW + 'seccomp_string: "ERRNO(13) { mkdir, mkdirat } DEFAULT ALLOW"')
    t.expect(t.sbx("exec", "--policy", filtered, "--", "/bin/mkdir", "/tmp/x"), status=1, err="Permission denied")
    t.expect(t.sbx("exec", "--policy", path, "--", "/bin/mkdir", "/tmp/x"))


@case("what no sandbox of sbx can be is refused by line as a policy, and told by policy check, which names risks in nsjail's words")
def checked(t):
    path = t.file("jail.cfg", VIEW + 'clone_newpid: false\nmount { src: "/" dst: "/host" is_bind: true rw: true }\nkeep_env: true\n')
    t.expect(t.sbx("exec", "--policy", path, "--", "/bin/true"), status=2, err=r"jail.cfg:8:15: 'clone_newpid'")
    done = t.sbx("policy", "check", path)
    t.expect(done, status=1, out_match=r"jail.cfg:8:15: warning: as a policy of run and exec it is refused: 'clone_newpid'")
    t.match(done.text, r"jail.cfg:9:7: high: whole-host: .* reads and changes .*; fix: mount what it needs", "risks")
    t.match(done.text, r"jail.cfg:10:11: medium: secret-variable: .*; fix: name those that it needs: envar:", "risks")
    t.expect(t.sbx("policy", "check", "--fail-on", "never", path))
    bad = t.file("bad.cfg", 'hostname: "x"\nbogus: 1\n')
    t.expect(t.sbx("policy", "check", bad), status=2, out_match=r'bad.cfg:2:1: error: unknown field "bogus"')
    t.expect(t.sbx("exec", "--policy", bad, "--", "/bin/true"), status=2, err=r'bad.cfg:2:1: unknown field "bogus"')
    odd = t.file("odd.txt", VIEW)
    t.expect(t.sbx("policy", "check", "--dialect", "nsjail", odd), out_match="odd.txt: ok$")
    t.expect(t.sbx("policy", "check", odd), status=2)


LINTED = (("whole-host", "high", 'mount { src: "/" dst: "/host" is_bind: true rw: true }', "mount what it needs: /usr"),
          ("control-socket", "high", 'mount { src: "/run/docker.sock" dst: "/run/docker.sock" is_bind: true }', "take the mount away"),
          ("no-filter", "medium", "", "seccomp_string: "),
          ("terminal-injection", "high", "skip_setsid: true", "skip_setsid: false"),
          ("terminal-injection", "high", 'skip_setsid: true seccomp_string: "DEFAULT ALLOW"', "skip_setsid: false"),
          ("nested-namespaces", "medium", 'seccomp_string: "DEFAULT ALLOW"', r"ERRNO\(1\) \{ unshare \}"),
          ("set-uid-programs", "high", "disable_no_new_privs: true", "disable_no_new_privs: false, or nosuid: true"),
          ("set-uid-programs", "low", 'mount { src: "/srv" dst: "/srv" is_bind: true rw: true }', "nosuid: true"))
CLOSED = ('uidmap { inside_id: "1000" outside_id: "99999" } mount { src: "/usr" dst: "/usr" is_bind: true nosuid: true }\n'
          'seccomp_string: "ERRNO(1) { ptrace, mount, bpf, perf_event_open, keyctl, io_uring_setup, unshare, ioctl { cmd == 0x5412 } } DEFAULT ALLOW"\n'
          "cgroup_mem_max: 100000000 cgroup_pids_max: 9\n")


@case("policy explain and check name what a configuration opens, each with severity and the fix in nsjail's words; a closed one has nothing")
def linted(t):
    for name, severity, text, fix in LINTED:
        path = t.file("jail.cfg", text or 'hostname: "x"')
        done = t.expect(t.sbx("policy", "explain", "--allow-sensitive-mount", path), out_match="What is risky where sbx nsjail -C runs ")
        told = re.sub(r"\s+", " ", done.text[done.text.index("where sbx nsjail -C runs"):])
        t.match(told, rf"{severity} {name}: .*fix: {fix}", text)
        t.match(t.sbx("policy", "check", path).text, rf"{severity}: {name}: .*; fix: .*{fix}", text)
    path = t.file("closed.cfg", CLOSED)
    t.expect(t.sbx("policy", "check", "--fail-on", "low", path), out_match=r"closed.cfg: ok$")
    t.expect(t.sbx("policy", "explain", path), out_match=r"What is risky where sbx nsjail -C runs .*closed.cfg\n\n  nothing that sbx knows of")


@case("policy explain tells of a configuration that no sandbox of sbx can be why, and what is risky about it")
def explained_elsewhere(t):
    path = t.file("jail.cfg", 'mount { src: "/" dst: "/" is_bind: true }\n')
    done = t.expect(t.sbx("policy", "explain", path), out_match=r"As a policy of run and exec it is refused\n\n  no +\S*jail.cfg:1:7: a sandbox of sbx puts its root together\s+itself")
    t.match(done.text, r"high +whole-host: ", "risks")
