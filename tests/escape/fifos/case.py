import os

from escape import Attack, Control


def run(t):
    t.mkdir("share")
    os.mkfifo(t.dir / "share/fifo")
    os.chmod(t.dir / "share/fifo", 0o666)
    reader = os.open(t.dir / "share/fifo", os.O_RDONLY | os.O_NONBLOCK)
    t.at_end(lambda: os.close(reader))
    write = "printf forged > /box/fifo && echo written || echo refused"
    done = t.shell(write, "--workspace", "share")
    t.match(done.text, "^refused$")
    t.equal(os.read(reader, 100), b"", "what came through the FIFO")
    t.expect(t.sbx("exec", "--mount", "share/fifo", "--", "true"), status=2, err="pipe of the host")
    off = t.file("off.toml", "[hardening]\nlandlock = false\n")
    # Read-only mounts do not stop it: a FIFO is no part of the file system's content.
    shown = t.shell(write, "--workspace", "share", "--policy", off)
    t.match(shown.text, "^written$")
    t.equal(os.read(reader, 100), b"forged", "the control")
    return "EACCES; a FIFO itself is not shared", "[hardening] landlock = false: written"


CASE = Attack("write into a FIFO of the host that lies in a read-only share", "42, 36", "Landlock: reading only", run=run, control=Control("[hardening] landlock = false"))
