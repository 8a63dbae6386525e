import os

from escape import Attack, Control


def run(t):
    fd = os.open("/", os.O_RDONLY)
    os.set_inheritable(fd, True)
    try:
        done = t.run([t.binary, "exec", "--mount", f"{t.probe}:/opt/probe", "--", "/opt/probe", "fds"], pass_fds=(fd,))
        t.expect(done, out="0\n1\n2\n")
        compiled = t.run([t.binary, "run", "--lang", "python", "-c", "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"], pass_fds=(fd,))
        t.expect(compiled, out="[0, 1, 2]\n")
        outside = t.run([t.probe, "fds"], pass_fds=(fd,)).text.split()
        t.true(str(fd) in outside, "the control does not see it")
    finally:
        os.close(fd)
    return "0, 1, 2", "the directory as well"


CASE = Attack("use a descriptor of a host directory that the caller, or sbx, left open", "5", "every descriptor but 0, 1, 2 is closed", run=run, needs="python",
              control=Control("the same program, started without sbx", how="outside"))
