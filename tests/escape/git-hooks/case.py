import os

from escape import Attack, Control

PLACES = (".git/hooks/pre-commit", ".git/config", ".envrc", ".vscode/tasks.json", ".helix/config.toml", "AGENTS.md", "CLAUDE.md", ".claude/settings.json",
          ".github/copilot-instructions.md", ".cursor/rules/x.mdc", ".Rprofile", ".pdbrc", ".sbx/policy.toml")


def plant(t, where, flags):
    code = "".join(f"mkdir -p {where}/{os.path.dirname(p) or '.'} && echo planted > {where}/{p};" for p in PLACES)
    return t.sbx("exec", *flags, "--", "/bin/sh", "-c", code + " true")


def planted(t, tree):
    return [p for p in PLACES if os.path.exists(t.dir / tree / p) and "planted" in open(t.dir / tree / p).read()]


def repository(t, tree):
    for name in ("HEAD", "config", "objects/x", "refs/x", "hooks/x.sample"):
        t.file(f"{tree}/.git/{name}", "ref: refs/heads/x\n" if name == "HEAD" else "")


def run(t):
    for tree, where, flags in (("w", "/box", ["--workspace", "w:rw"]), ("m", "/data", ["--mount", "m:/data:rw"]),
                               ("d", "/data", ["--workspace", "d", "--mount", "d:/data:rw"])):
        repository(t, tree)
        plant(t, where, flags)
        t.equal(planted(t, tree), [], f"planted by {flags}")
    policy = t.file("p.toml", f'[[fs.mount]]\nsource = "{t.dir}/p"\ntarget = "/data"\nmode = "rw"\n')
    repository(t, "p")
    done = plant(t, "/data", ["--policy", policy])
    t.expect(done)
    t.equal(planted(t, "p"), [], "planted by a policy's mount")
    repository(t, "a")
    plant(t, "/data", ["--mount", "a:/data:rw", "--allow-sensitive-write"])
    t.equal(planted(t, "a"), list(PLACES), "the control")
    return f"{len(PLACES)} places, by --workspace :rw, --mount :rw and a policy's mount: none planted", "--allow-sensitive-write: all of them"


CASE = Attack("plant what the host later runs or obeys: Git hooks, editors' tasks, agents' instructions, sbx's policies", "37",
              "read-only where it exists, put aside after the run where it did not", run=run, seconds=40, control=Control("--allow-sensitive-write"))
