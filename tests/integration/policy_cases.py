"""sbx policy: shown, explained, checked, started; what a policy file can get wrong is named with its place."""

import importlib.util
import json
import re

import harness
from harness import case


def fits_schema(t, name, document):
    spec = importlib.util.spec_from_file_location("schema_check", harness.TESTS / "schema_check.py")
    checker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(checker)
    published = checker.load(harness.ROOT / f"docs/schema/{name}-v1.json")
    t.equal(checker.check(published, document), [], "faults")
    t.true(checker.check(published, {**document, "version": "x"}), "the check can fail")


@case("policy new writes a file that check accepts, as it is and with every key uncommented, and never replaces one")
def new(t):
    t.expect(t.sbx("policy", "new", "./start.toml"), out_match=r"^wrote \./start\.toml; use it with: --policy \./start\.toml$")
    t.expect(t.sbx("policy", "check", "start.toml"), out="start.toml: ok\n")
    text = (t.dir / "start.toml").read_text()
    every = re.sub(r"^#(\[|[a-z_]+ = )", r"\1", text, flags=re.M)
    t.true(text.count("\n#") - every.count("\n#") > 35, "keys were uncommented")
    t.file("every.toml", every)
    done = t.expect(t.sbx("policy", "check", "--json", "--fail-on", "never", "every.toml"))
    t.equal(json.loads(done.out)["files"][0]["mistakes"], [], "mistakes")
    t.expect(t.sbx("policy", "new", "./start.toml"), status=2, out="", err=r"'\./start\.toml' exists already")
    t.equal((t.dir / "start.toml").read_text(), text, "the file")


@case("policy new NAME makes a policy of one's own, which --policy NAME takes")
def new_name(t):
    t.expect(t.sbx("policy", "new", "mine"), out_match="--policy mine$")
    t.expect(t.sbx("exec", "--policy", "mine", "--", "echo", "fine"), out="fine\n")
    t.expect(t.sbx("policy", "new", "mine"), status=2, err="exists already")
    t.expect(t.sbx("policy", "new", "strict"), status=2, err="is shipped with sbx")
    t.expect(t.sbx("policy", "new", "x y"), status=2, err="is no name of a policy")


@case("policy check names every mistake with line, column and a did-you-mean: status 2")
def mistakes(t):
    t.file("bad.toml", '[limits]\nmemroy = "1G"\ntime = "5 parsecs"\n[sandbox]\nuid = -1\n')
    t.expect(t.sbx("policy", "check", "bad.toml"), status=2, err="^$",
             out='bad.toml:2:1: error: unknown key "limits.memroy"; did you mean "limits.memory"?\n'
                 "bad.toml:3:8: error: '5 parsecs' is not a duration; write time = \"60s\"\n"
                 "bad.toml:5:7: error: sandbox.uid cannot be negative\n")
    t.file("syntax.toml", "[limits\n")
    t.expect(t.sbx("policy", "check", "syntax.toml"), status=2, out_match=r"^syntax\.toml:1:\d+: error: ")
    t.file("conflict.toml", '[limits]\nmemory = "64M"\ndisk = "128M"\n')
    t.expect(t.sbx("policy", "check", "conflict.toml"), status=2, out_match=r"^conflict\.toml:3:1: error: limits\.disk 128M is not below")
    t.file("call.toml", '[seccomp]\nallow = ["ptrce"]\n')
    t.expect(t.sbx("policy", "check", "call.toml"), status=2, out_match=r'^call\.toml:2:1: error: there is no system call "ptrce"; did you mean "ptrace"\?')
    t.file("home.toml", '[[fs.mount]]\nsource = "/etc"\n')
    t.expect(t.sbx("policy", "check", "home.toml"), status=2, out_match=r'^home\.toml:1:1: error: "/etc" is not shared')
    t.expect(t.sbx("policy", "check", "--allow-sensitive-mount", "home.toml"), status=1, out_match=r"^home\.toml:1:1: high: system-settings: ")
    t.expect(t.sbx("policy", "check", "nowhere.toml"), status=2, out_match=r"error: no policy file")


@case("policy check: a risk that counts is status 1; --fail-on and --accept say which do; -q prints nothing")
def risks(t):
    t.file("open.toml", '[net]\nmode = "host"\n[limits]\npids = "none"\n')
    t.expect(t.sbx("policy", "check", "open.toml"), status=1, out_match=r"^open\.toml:2:1: high: host-network: .*; fix: net\.mode = \"none\"$")
    t.expect(t.sbx("policy", "check", "--accept", "host-network", "open.toml"), out_match="^open.toml:2:1: accepted: host-network")
    t.expect(t.sbx("policy", "check", "--accept", "host-network", "--fail-on", "medium", "open.toml"), status=1)
    t.expect(t.sbx("policy", "check", "--fail-on", "never", "open.toml"))
    t.expect(t.sbx("policy", "check", "-q", "open.toml"), status=1, out="", err="^$")
    t.expect(t.sbx("policy", "check", "--accept", "host-netwrk", "open.toml"), status=2, out="", err="did you mean 'host-network'")
    t.expect(t.sbx("policy", "check", "--fail-on", "hihg", "open.toml"), status=2, out="", err="did you mean 'high'")
    t.expect(t.sbx("policy", "check", "--dialect", "nativ", "open.toml"), status=2, out="", err="did you mean 'native'")
    t.expect(t.sbx("policy", "check"), status=2, out="", err="no policy given")


@case("the shipped policies are in order, but that network is the host's network")
def shipped(t):
    t.expect(t.sbx("policy", "check", "--accept", "host-network", "default", "strict", "judge", "build", "network"), err="^$")


@case("policy explain says in words what the flags of run come to, each value with its origin")
def explain(t):
    t.mkdir("w")
    t.file("small.toml", '[limits]\nmemory = "256M"\n')
    done = t.expect(t.sbx("policy", "explain", "small.toml", "--time", "5s", "--net", "host", "-w", "w:rw"), err="^$").text
    for line in (r'^memory = "256M" +# small\.toml:2:1$', r'^time = "5s" +# flag --time$', r"^  see +/usr, ", r" at /box, and change it on the host  \(flag --workspace\)$",
                 r"^  write +/tmp, ", r"^  reach +the host's network", r"^  call +\d+ of \d+ known system calls \(filter default\)$",
                 r"^  for how long +5s$", r"^  how much +256M of memory, 256 processes", r"^  high +host-network: ", r"^ +fix: --net none$"):
        t.match(done, line, "the explanation")
    t.match(t.expect(t.sbx("policy", "explain")).text, "nothing that sbx knows of", "the default")
    t.expect(t.sbx("policy", "explain", "strct"), status=2, out="", err="did you mean --policy strict")
    t.expect(t.sbx("policy", "explain", "--memry", "1G"), status=2, out="", err="did you mean '--memory'")


@case("policy explain --json and check --json match their published schemas")
def schemas(t):
    t.file("open.toml", '[net]\nmode = "host"\n[limits]\npids = "none"\n[[fs.mount]]\nsource = "/nowhere"\n')
    t.file("bad.toml", "x = 1\n")
    explained = json.loads(t.expect(t.sbx("policy", "explain", "--json", "./open.toml", "--mount", "/usr/share:/s")).out)
    fits_schema(t, "policy-explain", explained)
    t.equal([r["name"] for r in explained["risks"]], ["host-network", "no-process-limit"], "risks")
    t.equal(explained["payload"]["limits"]["pids"], None, "pids")
    checked = json.loads(t.expect(t.sbx("policy", "check", "--json", "open.toml", "bad.toml"), status=2).out)
    fits_schema(t, "policy-check", checked)
    t.equal([len(f["mistakes"]) for f in checked["files"]], [0, 1], "mistakes")
    t.equal(len(checked["files"][0]["warnings"]), 1, "warnings")


@case("langs --json matches its published schema", seconds=60)
def langs_schema(t):
    fits_schema(t, "langs", json.loads(t.expect(t.sbx("langs", "--json")).out))


@case("what explain says of the workspace and of limits holds in a run with the same flags", needs="python")
def holds(t):
    t.mkdir("w")
    flags = ("--open-files", "99", "-w", "w:rw")
    t.match(t.expect(t.sbx("policy", "explain", *flags)).text, "99 descriptors a process", "the explanation")
    t.expect(t.python("import resource; open('made', 'w'); print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])", *flags), out="99\n")
    t.true((t.dir / "w/made").exists(), "the host's file")
