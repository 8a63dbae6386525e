from escape import Attack, Control

NEST = """
[hardening]
nested_userns = true
landlock = false
[seccomp]
allow = ["clone3", "@mount", "sethostname"]
"""
WIDE = """
[hardening]
nested_userns = true
capabilities = ["cap_sys_admin"]
landlock = false
[seccomp]
allow = ["@keyring", "@mount", "@debug"]
"""


def run(t):
    nest, wide = t.file("nest.toml", NEST), t.file("wide.toml", WIDE)
    shared = ["--mount", f"{t.binary}:/opt/sbx", "--mount", f"{t.probe}:/opt/probe", "--mount", f"{wide}:/opt/wide.toml"]
    # As a whole or not at all: an inner sandbox that cannot have its own /proc is none.
    for outer in ([], ["--policy", nest]):
        for inner in ([], ["--policy", "/opt/wide.toml"]):
            done = t.sbx("exec", *outer, *shared, "--", "/opt/sbx", "exec", *inner, "--mount", "/opt/probe", "--", "/opt/probe", "each", "keyctl")
            t.true(done.status == 125 and not done.text or done.text == "keyctl: EPERM\n", done.describe())
    # The outer filter holds below whatever namespaces and filters are put into it.
    inside = t.sbx("exec", "--policy", nest, *shared, "--", "unshare", "-r", "-m", "/opt/probe", "each", "keyctl", "bpf", "open r /proc/1/environ")
    t.expect(inside, out="keyctl: EPERM\nbpf: EPERM\nopen r /proc/1/environ: EACCES\n")
    alone = t.sbx("exec", "--policy", wide, "--mount", f"{t.probe}:/opt/probe", "--", "/opt/probe", "each", "keyctl")
    t.expect(alone, out="keyctl: ok\n")
    return "no inner sandbox, or one that the outer filter still holds; capabilities of a nested namespace change nothing", \
           "the inner policy without an outer sandbox: keyctl: ok"


CASE = Attack("get more by a sandbox in a sandbox, or a nested user namespace, than the outer policy allows", "82",
              "filters add up; an inner sandbox that cannot be whole is refused", run=run, needs=("unshare", "plain-build"), control=Control("the inner policy alone"))
