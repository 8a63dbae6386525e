from escape import Attack, Control

TRIES = ["unshare 0x10000000", "mount tmpfs /tmp", "io_uring_setup", "bpf", "attach 1", "keyctl", "socket 17 3 0", "open r /proc/1/environ",
         "open w /proc/sys/kernel/core_pattern", "mknod-device /tmp/n", "open create /etc/new"]


def run(t):
    t.mkdir("proj")
    raw = t.file("raw.toml", '[hardening]\ncapabilities = ["cap_net_raw"]\n')
    ipc = t.file("ipc.toml", "[sandbox]\nipc_namespace = false\nuts_namespace = false\ncgroup_namespace = false\nnew_session = false\n")
    relaxed = (["--workspace", "proj:rw"], ["--net", "host"], ["--policy", "network"], ["--allow-sensitive-mount"], ["--allow-sensitive-write"], ["--policy", raw],
               ["--policy", ipc], ["--allow-syscall", "swapon"], ["--tty=always"], ["--uid", "0", "--gid", "0"])
    for flags in relaxed:
        done = t.probed("each", *TRIES, flags=flags)
        t.expect(done)
        lines = done.text.replace("\r", "").splitlines()
        t.equal(len(lines), len(TRIES), f"answers with {flags}")
        for line in lines:
            t.match(line, ": (EPERM|ENOSYS|ENOSPC|EACCES|EROFS|EAFNOSUPPORT)$", f"with {flags}")
    shown = t.probed("each", "keyctl", flags=["--allow-syscall", "keyctl"])
    t.expect(shown, out="keyctl: ok\n")
    return f"{len(TRIES)} tries under {len(relaxed)} flags and policies: refused", "--allow-syscall keyctl lifts that one"


CASE = Attack("use a flag that relaxes one protection to get past another", "all", "each protection stands by itself", run=run,
              control=Control("a flag that relaxes the very thing"))
