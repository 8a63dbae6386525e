import re

from escape import Attack, Control


def run(t):
    answers = t.probed("each", "setuid0", "setgroups", "chown /tmp 0 0").text
    t.match(answers, "^setuid0: (EPERM|EINVAL)$")
    t.match(answers, "^setgroups: (EPERM|EINVAL)$")
    maps = t.shell("cat /proc/self/uid_map /proc/self/gid_map").text.splitlines()
    t.true(len(maps) == 2 and all(line.split()[2] == "1" for line in maps), f"one extent of one id each: {maps}")
    host = maps[0].split()[1]
    if t.is_root:
        t.true(int(host) >= 100000, f"root or a low uid is mapped: {maps}")
        t.equal(re.search(r"groups (\d+)", t.probed("ids").text).group(1), "0", "supplementary groups")
        runs = [t.spawn([t.binary, "exec", "--", "/bin/sh", "-c", "cat /proc/self/uid_map; read x"]) for _ in range(3)]
        try:
            t.equal(len({r.stdout.readline().split()[1] for r in runs}), 3, "distinct host uids")
        finally:
            for r in runs:
                r.communicate(b"\n", timeout=10)
        return "one id is mapped, a host uid of the sandbox's own", "three sandboxes at once: three uids"
    return "one id is mapped, the caller's", "as root every sandbox has a uid of its own"


CASE = Attack("become another user, the host's root, or another sandbox's", "14, 65", "user namespace with one id; no capability", run=run,
              control=Control("root's sandboxes beside each other"))
