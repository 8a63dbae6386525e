import os

from escape import Attack, Control


def run(t):
    done = t.shell("ls -d /proc/[0-9]* | wc -l; for s in 9 15 19 6 2; do kill -$s 1 2>/dev/null; done; echo alive")
    count, alive = done.text.split()
    t.true(int(count) < 10 and alive == "alive", done.describe())
    if os.getpid() > 300:
        t.expect(t.probed("kill", str(os.getpid()), "0"), out="ESRCH\n")
    if not t.is_root:
        return "fewer than ten processes, init unharmed by any signal", "not as this identity"
    shown = t.shell("ls -d /hostproc/[0-9]* | wc -l", "--allow-sensitive-mount", "--mount", "/proc:/hostproc")
    t.true(int(shown.text or 0) >= 10, shown.describe())
    return "fewer than ten processes, init unharmed by any signal", "--allow-sensitive-mount --mount /proc:/hostproc: more than ten"


CASE = Attack("see, signal or count the host's processes; kill init", "14, 38", "a pid namespace; /proc is its own; init ignores its own", run=run,
              control=Control("--allow-sensitive-mount --mount /proc"))
