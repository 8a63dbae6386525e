from escape import Attack, Control


def run(t):
    t.expect(t.shell("grep 'Max core' /proc/self/limits | tr -s ' '"), out_match=r"^Max core file size 1 1 bytes")
    t.mkdir("share", 0o777)
    done = t.probed("raise", "6", flags=["--workspace", "share:rw"], result=True)
    t.expect(done, status=134, verdict="signaled")
    left = [p.name for p in t.dir.glob("**/core*")]
    t.equal(left, [], "core files")
    pattern = open("/proc/sys/kernel/core_pattern").read().strip()
    if pattern.startswith("|"):
        return "no core, both limits are 1, which keeps a piped helper from starting", "core_pattern is piped here: the control runs in a guest (tests/escape/guest.sh)"
    if pattern.startswith("/"):
        return "no core, both limits are 1", f"core_pattern is {pattern} here: no control"
    bare = t.run(["/bin/sh", "-c", f"ulimit -c unlimited; exec {t.probe} raise 6"], cwd=t.dir / "share")
    cores = [p.name for p in (t.dir / "share").glob("core*")]
    t.true(bare.status == 134 and cores, "the control: no core file outside either")
    return "no core, both limits are 1", "outside, with ulimit -c unlimited: a core file"


CASE = Attack("have the kernel write a core file, or start the host's core helper as root", "78, 32", "RLIMIT_CORE of 1, soft and hard", run=run,
              control=Control("outside with ulimit -c unlimited", how="outside"))
