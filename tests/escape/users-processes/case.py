import os

from escape import Attack, Control


def run(t):
    bystander = t.spawn(["sleep", "60"])
    code = ("import ctypes, os, signal, subprocess\n"
            "p = subprocess.Popen(['sleep', '60'])\n"
            "signal.signal(15, signal.SIG_IGN)\n"
            "L = ctypes.CDLL(None)\n"
            "print(L.setpriority(2, 0, 15), L.syscall(251 if os.uname().machine == 'x86_64' else 30, 3, os.getuid(), 3 << 13))\n"
            "print(os.getpriority(os.PRIO_PROCESS, p.pid))\n"
            "os.kill(-1, 15)\n"
            "print(-p.wait())\n")
    before = os.getpriority(os.PRIO_PROCESS, bystander.pid)
    done = t.python(code)
    t.expect(done)
    t.equal(os.getpriority(os.PRIO_PROCESS, bystander.pid), before, "the priority of the same user's process outside")
    t.true(bystander.poll() is None, "the same user's process outside is gone")
    t.equal(done.text.split()[-2:], ["15", "15"], "the payload's own child: lower priority, ended by the signal")
    bystander.kill()
    return "a process of the same user outside is as before", "the payload's own child is slower, and ended"


CASE = Attack("slow down or end all processes of the user: PRIO_USER, kill(-1)", "14, 76", "pid namespace", run=run, needs="python", control=Control("the payload's own child"))
