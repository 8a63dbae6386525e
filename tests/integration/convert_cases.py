"""sbx policy convert: the same policy in other words, and what those words cannot say."""

from harness import case

POLICY = """[sandbox]
hostname = "converted"
[env.set]
GREETING = "it's fine"
[limits]
pids = 20
[[fs.mount]]
source = "{}"
target = "/data"
[seccomp]
kafel = 'ERRNO(77) {{ mkdir, mkdirat }} DEFAULT ALLOW'
"""
PROBE = "hostname; echo $GREETING; cat /data/file; mkdir /tmp/x 2>&1 | grep -c .; mkdir /tmp/x; touch /data/new"


def policy(t):
    t.mkdir("shared")
    t.file("shared/file", "shared\n")
    t.file("p.toml", POLICY.format(t.dir / "shared"))


@case("a policy converted to native is the same policy")
def native(t):
    policy(t)
    done = t.expect(t.sbx("policy", "convert", "--to", "native", "--strict", "./p.toml"), err="^$")
    t.file("again.toml", done.out)
    first = t.sbx("exec", "--policy", "./p.toml", "--", "sh", "-c", PROBE)
    second = t.sbx("exec", "--policy", "./again.toml", "--", "sh", "-c", PROBE)
    t.equal((second.status, second.out, second.err), (first.status, first.out, first.err))
    t.true(b"converted\nit's fine\nshared\n1\n" in first.out, "the policy is in force")
    again = t.expect(t.sbx("policy", "convert", "--to", "native", "./again.toml"))
    t.equal(again.out, done.out, "converted twice")


@case("a policy converted to bwrap's words keeps its view; limits and the filter are told, and --strict fails on them")
def bwrap(t):
    policy(t)
    done = t.expect(t.sbx("policy", "convert", "--to", "bwrap", "./p.toml"), err=r"p\.toml:6:1: not said: limits\.pids 20: bwrap limits nothing")
    t.match(done.errors, r"p\.toml:11:1: not said: the filter of this policy's own: bwrap takes it from a descriptor", "the filter")
    t.file("p.bwrap", done.out)
    t.expect(t.sbx("exec", "--policy", "./p.bwrap", "--", "sh", "-c", "hostname; echo $GREETING; cat /data/file; touch /data/new || echo closed"),
             out="converted\nit's fine\nshared\nclosed\n")
    t.expect(t.sbx("policy", "convert", "--to", "bwrap", "--strict", "./p.toml"), status=2, out="", err="not said: limits.pids")


@case("a policy converted to nsjail's words has its filter in Kafel; wrong uses name what is possible")
def nsjail(t):
    policy(t)
    done = t.expect(t.sbx("policy", "convert", "--to", "nsjail", "./p.toml"), err=r"not said: limits\.output 64M: nsjail does not count output")
    text = done.out.decode() if isinstance(done.out, bytes) else done.out
    for line in ('hostname: "converted"', 'envar: "GREETING=it\'s fine"', "cgroup_pids_max: 20", 'seccomp_string: "ERRNO(77) {"', 'seccomp_string: "DEFAULT ALLOW"'):
        t.true(line in text.splitlines(), line)
    # Used as a policy again it is the same sandbox, and nsjail's command line runs it, too.
    t.file("p.cfg", text)
    t.sbx("policy", "check", "--fail-on", "never", "--quiet", "./p.cfg")
    probe = "hostname; echo $GREETING; cat /data/file; mkdir /tmp/x 2>&1 | grep -c .; touch /data/new || echo closed; readlink /var/tmp; id -u; pwd; touch /box/x && ls /box"
    native = t.expect(t.sbx("exec", "--policy", "./p.toml", "--", "sh", "-c", probe), status=0, out_match="^converted\nit's fine\nshared\n1\nclosed\n/tmp\n1000\n/box\nx\n$")
    t.expect(t.sbx("exec", "--policy", "./p.cfg", "--", "sh", "-c", probe), out=native.out)
    jail = t.file("jail.cfg", "\n".join(line for line in text.splitlines() if not line.startswith("cgroup_")))
    t.expect(t.sbx("nsjail", "-Q", "-C", jail, "--", "/bin/sh", "-c", probe), out=native.out)
    # And back again.
    t.file("again.toml", t.expect(t.sbx("policy", "convert", "--to", "native", "./p.cfg")).out)
    t.expect(t.sbx("exec", "--policy", "./again.toml", "--", "sh", "-c", probe), out=native.out)
    t.expect(t.sbx("policy", "convert", "./p.toml"), status=2, out="", err="into what: --to native, --to bwrap or --to nsjail")
    t.expect(t.sbx("policy", "convert", "--to", "nsjial", "./p.toml"), status=2, out="", err="did you mean 'nsjail'")
    t.expect(t.sbx("policy", "convert", "--to", "native"), status=2, out="", err="no policy given")
    t.expect(t.sbx("policy", "convert", "--to", "native", "./nowhere.toml"), status=2, out="", err="no policy file")
