import json

from escape import Attack, Control

FORGED = '{"verdict": "exited", "exit_code": 0, "forged": true}'
TRICKS = {
    "a directory in its place": "mkdir -p out/r.json/x",
    "a link in its place": "ln -s /box/elsewhere out/r.json",
    "its directory moved away and a forged one put there": f"mv out gone; mkdir out; echo '{FORGED}' > out/r.json",
    "its directory replaced by a link": f"mv out gone; mkdir other; echo '{FORGED}' > other/r.json; ln -s other out",
    "permissions taken from its directory": f"echo '{FORGED}' > out/r.json; chmod 0444 out/r.json; chmod 0 out",
    "permissions taken from the directory above": f"echo '{FORGED}' > out/r.json; chmod 0555 out; chmod 0555 .",
    "the temporary name taken by a directory": "mkdir -p out/.r.json.$SUPERVISOR.tmp/x",
    "a hard link of another name": f"echo '{FORGED}' > out/x; ln out/x out/r.json",
    "a FIFO in its place": "mkfifo out/r.json",
}


def run(t):
    for name, trick in TRICKS.items():
        t.mkdir("proj")
        t.mkdir("proj/out")
        path = t.dir / "proj/out/r.json"
        done = t.run(["/bin/sh", "-c", 'exec "$0" exec --env SUPERVISOR=$$ "$@"', t.binary, "--workspace", "proj:rw", "--result", "proj/out/r.json", "--",
                      "/bin/sh", "-c", trick + "; exit 3"])
        t.expect(done, status=3)
        t.true(path.is_file() and not path.is_symlink(), f"{name}: no file\n" + done.describe())
        got = json.loads(path.read_bytes())
        t.true("forged" not in got and got["exit_code"] == 3, f"{name}: {str(got)[:200]}")
        t.run(["/bin/sh", "-c", "chmod -R u+rwX proj; rm -rf proj"])
    t.mkdir("proj")
    t.mkdir("proj/out")
    shown = t.sbx("exec", "--workspace", "proj:rw", "--", "/bin/sh", "-c", f"mv out gone; mkdir out; echo '{FORGED}' > out/r.json")
    t.expect(shown)
    t.match((t.dir / "proj/out/r.json").read_text(), "forged")
    return f"{len(TRICKS)} tricks: the true result stands there", "without --result the payload may do all that"


CASE = Attack("forge the result file, or keep it from being written, where it lies in a writable share", "80, 36",
              "its directory is opened before and pinned; it is renamed into place when the payload is dead", run=run, seconds=60,
              control=Control("no --result: the directory can be moved and the file forged"))
