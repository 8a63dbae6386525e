from escape import Attack, Control

def run(t):
    nest = t.file("nest.toml", "[hardening]\nnested_userns = true\n")
    wide = t.file("wide.toml", '[hardening]\ncapabilities = ["cap_sys_admin"]\nlandlock = false\n[seccomp]\nallow = ["@keyring", "@mount", "@debug", "@kernel-code"]\n')
    inner = ["/opt/sbx", "exec", "--mount", "/opt/probe", "--mount", "/opt/wide.toml"]
    outer = ["exec", "--policy", nest, "--mount", f"{t.binary}:/opt/sbx", "--mount", f"{t.probe}:/opt/probe", "--mount", f"{wide}:/opt/wide.toml", "--"]
    plain = t.sbx(*outer, *inner, "--", "/opt/probe", "each", "keyctl", "io_uring_setup", "open r /proc/1/environ")
    t.expect(plain, out="keyctl: EPERM\nio_uring_setup: ENOSYS\nopen r /proc/1/environ: EACCES\n")
    widened = t.sbx(*outer, *inner, "--policy", "/opt/wide.toml", "--", "/opt/probe", "each", "keyctl", "bpf")
    t.true(widened.status != 0 or widened.text == "keyctl: EPERM\nbpf: EPERM\n", widened.describe())
    closed = t.sbx("exec", "--mount", f"{t.binary}:/opt/sbx", "--", "/opt/sbx", "exec", "--", "true")
    t.expect(closed, status=125)
    alone = t.sbx("exec", "--policy", wide, "--mount", f"{t.probe}:/opt/probe", "--", "/opt/probe", "each", "keyctl")
    t.expect(alone, out="keyctl: ok\n")
    return "an inner sandbox that allows everything still meets the outer filter; without nested_userns it does not start", "the same policy without an outer sandbox: ok"


CASE = Attack("run a sandbox in a sandbox with a policy that allows more than the outer one", "82", "filters add up; no user namespaces unless the policy says so", run=run,
              control=Control("the inner policy alone"))
