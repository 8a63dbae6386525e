import os
import shutil

from escape import Attack, Control


def run(t):
    t.mkdir("suid")
    shutil.copy(t.probe, t.dir / "suid/program")
    os.chown(t.dir / "suid/program", 0, 0)
    os.chmod(t.dir / "suid/program", 0o6755)
    control = "root is root"
    if not t.is_root:
        outside = t.run([str(t.dir / "suid/program"), "ids"]).text
        t.match(outside, rf"^uid {t.identity.uid} 0 0$", "the control")
        control = "outside: " + outside.splitlines()[0]
    inside = t.sbx("exec", "--mount", "suid:/data", "--", "/data/program", "ids")
    t.expect(inside, out_match=r"^uid 1000 1000 1000$")
    kept = t.sbx("exec", "--policy", t.file("caps.toml", '[hardening]\ncapabilities = ["cap_setuid"]\n'), "--mount", "suid:/data", "--",
                 "/data/program", "ids")
    t.expect(kept, out_match=r"^uid 1000 1000 1000$")
    return inside.text.splitlines()[0], control


CASE = Attack("run a set-uid root program that lies in the view", "29", "nosuid on every mount; no_new_privs; only one id is mapped", run=run, needs="root",
              control=Control("outside of a sandbox", how="outside"))
