import os

from escape import Attack, Control


def run(t):
    seen = []
    for directory in ("/dev/shm", "/tmp", "/var/tmp"):
        if not os.path.isdir(directory):
            continue
        path = f"{directory}/sbx-marker-{os.getpid()}-{t.user}-{t.dir.name}"
        open(path, "w").close()
        t.at_end(lambda p=path: os.unlink(p))
        t.expect(t.probed("open", "r", path), out="ENOENT\n")
        flags = ["--mount", path + ":/mnt/marker"] + (["--allow-sensitive-mount"] if directory == "/dev/shm" else [])
        t.expect(t.probed("open", "r", "/mnt/marker", flags=flags), out="ok\n")
        seen.append(directory)
    return "a marker of the host's in " + ", ".join(seen) + ": ENOENT", "--mount of the marker: ok"


CASE = Attack("find what other sandboxes and the host leave in /tmp, /var/tmp and /dev/shm", "49, 50", "private directories", run=run, control=Control("--mount of the file"))
