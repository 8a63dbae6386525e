from escape import Attack, Control


def run(t):
    key = t.file("home/.ssh/id_rsa", "KEY", 0o600)
    t.expect(t.shell(f"cat {key} 2>/dev/null || echo none"), out="none\n")
    t.file("home/work/id_rsa", "KEY", 0o600)
    t.expect(t.shell(f"cat {t.home}/work/id_rsa", "--mount", f"{t.home}/work"), out="KEY")
    t.expect(t.shell("true", "--mount", f"{t.home}/.ssh"), status=2, err="credentials|not shared")
    t.expect(t.shell(f"cat {key}", "--mount", f"{t.home}/.ssh", "--allow-sensitive-mount"), out="KEY")
    return "not there; sharing .ssh is refused", "--mount of a project, --allow-sensitive-mount: there"


CASE = Attack("read the caller's keys and home", "16", "the view of files; refusal of credential directories", run=run,
              control=Control("--mount, and --allow-sensitive-mount"))
