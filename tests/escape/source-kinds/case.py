import os

from escape import Attack, Control


def run(t):
    key = t.file("home/.ssh/id_rsa", "KEY CANARY\n", 0o600)
    t.mkdir("proj")
    os.symlink(key, t.dir / "proj/main.py")
    done = t.sbx("run", "--workspace", "proj", "proj/main.py")
    t.no_match(done.text + done.errors, "CANARY", "the key")
    t.true(done.status == 2, done.describe())
    t.true(t.sbx("run", "--lang", "python", "/dev/zero", timeout=20).status in (2, 125), "a device without an end")
    t.true(t.sbx("run", "--lang", "python", str(t.dir)).status in (2, 125), "a directory")
    t.true(t.sbx("run", "--lang", "python", "--file", "/dev/zero", "-c", "1", timeout=20).status in (2, 125), "a device as an extra file")
    t.file("proj/real.py", "print('fine')\n")
    os.symlink("real.py", t.dir / "proj/inside.py")
    shown = t.sbx("run", "--workspace", "proj", "proj/inside.py")
    t.expect(shown, out="fine\n")
    return "a link out of the workspace, a device, a directory: status 2", "a link within the workspace: runs"


CASE = Attack("show a file of the caller's as the program: a source in an untrusted checkout that is a link to a key, a device, a directory", "35, 36",
              "a source inside the workspace that leads out of it is refused; only bounded files are read", run=run, needs="python",
              control=Control("a link that stays inside"))
