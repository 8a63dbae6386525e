"""sbx selftest: what it says of this host is true, and a sandbox that lacks a protection is noticed."""

import importlib.util
import json
import os
import pathlib
import shutil
import signal

import harness
from harness import case

# Every case that makes attacks runs sbx inside, which a build with sanitizers cannot.
PLAIN = "plain-build"


def selftest(t, *flags, status=0, **more):
    done = t.expect(t.sbx("selftest", "--json", *flags, **more), status=status)
    return json.loads(done.out)


def attack(document, name):
    return next(a for a in document["attacks"] if a["name"] == name)


def left_behind():
    named = [str(path) for folder in ("/tmp", "/dev/shm", "/usr", "/etc") for path in pathlib.Path(folder).glob("sbx-selftest-*")]
    segments = pathlib.Path("/proc/sysvipc/shm").read_text(encoding="ascii").splitlines()[1:]
    return named, len(segments)


@case("every attack is blocked by something with a name, or says why it proves nothing here", needs=PLAIN, seconds=90)
def all_blocked(t):
    document = selftest(t)
    spec = importlib.util.spec_from_file_location("schema_check", harness.TESTS / "schema_check.py")
    checker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(checker)
    published = checker.load(harness.ROOT / "docs/schema/selftest-v1.json")
    t.equal(checker.check(published, document), [], "faults")
    t.true(checker.check(published, {**document, "open": "0"}), "the check can fail")
    t.equal(document["open"], 0, "open")
    t.true(document["blocked"] >= 40, f"only {document['blocked']} blocked")
    for one in document["attacks"]:
        t.true(one["by"] if one["verdict"] == "blocked" else one["why"], f"{one['name']} says nothing: {one}")
        t.true(one["tries"] and all(each["answer"] for each in one["tries"]), f"{one['name']} tried nothing")


# What must open on every kernel that sbx runs on, once the protection is gone.
OPENS = ["keyrings", "debugging", "personality", "terminal", "host-counters", "leases", "user-namespaces", "other-namespaces", "netfilter", "mounts",
         "roots", "host-name", "privileges", "init", "host-facts", "host-processes", "environment", "shared-places", "abstract-socket",
         "path-socket", "loopback", "ipc", "processes", "memory", "disk", "time"]


@case("each control opens what the protection had blocked", needs=PLAIN, seconds=90)
def controls(t):
    document = selftest(t, "--controls")
    for one in document["attacks"]:
        state = one["control"]["state"]
        if one["name"] == "host-processes" and t.user != "root":
            continue  # a user's /proc cannot be shown inside
        if one["name"] in OPENS:
            t.equal((one["name"], state), (one["name"], "opens"), "control")
        t.true(state in ("none", "opens", "refused", "failed"), f"{one['name']}: {state}")
    none = selftest(t, "--no-controls", "-k", "keyrings")
    t.equal(attack(none, "keyrings")["control"]["state"], "not run", "without controls")


WEAKER = {
    "keyrings": '[seccomp]\nallow = ["@keyring"]\n',
    "user-namespaces": "[hardening]\nnested_userns = true\n",
    "loopback": '[net]\nmode = "host"\n',
    "host-facts": '[hardening]\nproc = "unmasked"\n',
    "privileges": '[hardening]\ncapabilities = ["cap_net_raw"]\n',
    "processes": "[limits]\npids = 2000\n",
    "environment": '[env]\npass = ["SBX_SELFTEST_TOKEN"]\n',
}


@case("a policy that takes a protection away turns that verdict to open and the status to 1, and no other verdict", needs=PLAIN, seconds=90)
def broken(t):
    for name, text in WEAKER.items():
        policy = t.file(f"{name}.toml", text)
        document = selftest(t, "--policy", policy, "-k", name, status=1)
        t.equal(attack(document, name)["verdict"], "open", name)
        t.true(attack(document, name)["by"], f"{name}: which try is not said")
    document = selftest(t, "--policy", t.file("all.toml", WEAKER["keyrings"]), "--no-controls", status=1)
    t.equal([a["name"] for a in document["attacks"] if a["verdict"] == "open"], ["keyrings"], "open")


@case("a payload that cannot answer is a failure, never a block", needs=PLAIN, seconds=60)
def silent(t):
    # write(2) is refused: the program inside says nothing at all.
    policy = t.file("mute.toml", '[seccomp]\ndeny = ["write"]\n')
    t.expect(t.sbx("selftest", "--policy", policy, "-k", "keyrings"), status=125, out="", err="^sbx: no sandbox can be had: the program inside failed")


@case("-k chooses by name and category, --list names all and tries nothing", seconds=60)
def choice(t):
    listed = t.expect(t.sbx("selftest", "--list"), err="^$").text
    t.match(listed, r"^  keyrings: store and read keys", "the list")
    t.match(listed, r"^      harmless: ", "the list")
    few = t.expect(t.sbx("selftest", "--list", "-k", "Limits", "-k", "keyrings"), err="^$").text
    t.match(few, r"^  memory: ", "by category")
    t.match(few, r"^  keyrings: ", "by name")
    t.no_match(few, r"^  mounts: ", "what was not asked for")


@case("wrong uses of selftest: status 2, one line of cause and one of remedy", seconds=60)
def usage(t):
    t.expect(t.sbx("selftest", "-k", "no-such"), status=2, out="", err="no attack is named 'no-such'")
    t.expect(t.sbx("selftest", "keyrings"), status=2, out="", err="sbx selftest -k keyrings")
    t.expect(t.sbx("selftest", "--compare", "bwarp"), status=2, out="", err="did you mean 'bwrap'")
    t.expect(t.sbx("selftest", "--jsn"), status=2, out="", err="did you mean '--json'")
    t.expect(t.sbx("selftest", "--controls", "--no-controls"), status=2, out="", err="exclude each other")
    t.expect(t.sbx("selftest", "--as", "nobody"), status=2, out="", err="add --compare")
    t.expect(t.sbx("selftest", "-p", "no-such", "-k", "keyrings"), status=2, out="", err="no-such")


@case("the table at a pipe has no colours, and a line for the sum", needs=PLAIN, seconds=60)
def table(t):
    done = t.expect(t.sbx("selftest", "-k", "System calls", env={"TERM": "xterm"}), err="^$")
    t.no_match(done.text, "\033", "the table")
    t.match(done.text, r"^System calls$", "the category")
    t.match(done.text, r"^  keyrings +blocked +by filter, EPERM$", "a row")
    t.match(done.text, r"^\d+ blocked, 0 open, \d+ not applicable here$", "the sum")


@case("the word for the inside does nothing as root, nor for words of somebody else", seconds=30)
def inside_word(t):
    t.expect(t.sbx("__probe"), status=2, out="", err="for sbx selftest alone")
    t.expect(t.sbx("__probe", "keyrings", "x"), status=2, out="", err="not a word of sbx selftest")
    word = "\t".join(["0" * 12, "0", "0", "1", "1", "/proc", "/nowhere", "/", ""])
    if t.user == "root":
        t.expect(t.sbx("__probe", "keyrings", word), status=125, out="", err="an attack is not tried as root")


@case("inside a sandbox selftest refuses with one line", needs=PLAIN, seconds=60)
def nested(t):
    done = t.sbx("exec", "--mount", f"{t.binary}:/opt/sbx", "--", "/opt/sbx", "selftest")
    t.expect(done, status=125, out="", err="^sbx: this is the inside of an sbx sandbox")


@case("a tool that is not installed is a clear line, and no failure", needs=PLAIN, seconds=60)
def absent(t):
    missing = [name for name in ("nsjail", "firejail", "bwrap") if not shutil.which(name, path="/usr/local/bin:/usr/bin:/bin")]
    if not missing:
        raise harness.Skip("all tools are installed here")
    done = t.expect(t.sbx("selftest", "-k", "keyrings", "--compare", missing[0]), err="^$")
    t.match(done.text, rf"^{missing[0]}: not tried, {missing[0]} is not installed$", "the line")
    t.match(done.text, r"^  keyrings +blocked +not tried$", "the row")


@case("without a sandbox only an ordinary user tries, and only what harms nobody", needs=PLAIN, seconds=60)
def none(t):
    document = selftest(t, "--compare", "none", "--no-controls")
    t.equal(document["tool_user"], "nobody" if t.user == "root" else None, "the user")
    other = {a["name"]: a["others"][0]["verdict"] for a in document["attacks"]}
    for a in document["attacks"]:
        t.equal(other[a["name"]] == "not tried", a["sandbox_only"], f"{a['name']} without a sandbox")
    # The bait is real: what is reached without a sandbox is what the sandbox keeps back.
    for name in ("descriptors", "environment", "shared-places", "host-files", "loopback", "abstract-socket", "path-socket", "host-processes"):
        t.equal((name, other[name]), (name, "open"), "without a sandbox")
    # An ordinary user it was.
    for name in ("identities", "device-nodes", "kernel-settings", "host-name"):
        t.equal((name, other[name]), (name, "blocked"), "without a sandbox")
    if t.user == "root":
        t.expect(t.sbx("selftest", "--compare", "none", "--as", "root", "-k", "keyrings"), status=2, out="", err="never tried as root")
        t.expect(t.sbx("selftest", "--compare", "none", "--as", "no-such-user", "-k", "keyrings"), status=2, out="", err="no user 'no-such-user'")
    else:
        t.expect(t.sbx("selftest", "--compare", "none", "--as", "nobody", "-k", "keyrings"), status=2, out="", err="only root")


@case("bwrap side by side: its command line is printed, and what it leaves open is seen", needs=(PLAIN, "userns"), seconds=60)
def bwrap(t):
    if not os.path.exists("/usr/bin/bwrap"):
        raise harness.Skip("needs bubblewrap")
    done = t.expect(t.sbx("selftest", "-k", "keyrings", "-k", "mounts", "-k", "descriptors", "--compare", "bwrap"), err="^$")
    t.match(done.text, r"^bwrap: .*; as: \S*/bwrap --unshare-all ", "the command line")
    t.match(done.text, r"^  keyrings +blocked +open$", "no filter")
    t.match(done.text, r"^  mounts +blocked +blocked$", "no capability")
    t.match(done.text, r"^  descriptors +blocked +open$", "a descriptor of the caller")


@case("a signal ends selftest with the status of that signal, and no verdict", needs=PLAIN, seconds=60)
def interrupted(t):
    before = left_behind()[0]
    process = t.spawn([t.binary, "selftest", "--controls", "-k", "time"])
    t.wait_until(lambda: left_behind()[0] != before and len(harness.children_of(process.pid)) > 1, 20, "a sandbox beside the bait")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate()
    # 125: it came while the sandbox was being set up, and nothing ran; the signal itself: between two sandboxes.
    t.true(process.wait() in (130, 125, -signal.SIGINT), f"status {process.returncode}")
    t.equal(out, b"", "verdicts")


@case("selftest leaves nothing behind, killed or not", needs=PLAIN, alone=True, seconds=60)
def leaves_nothing(t):
    before = left_behind()
    t.expect(t.sbx("selftest", "-k", "Limits", "-k", "host-files", "--compare", "none"))
    t.equal(left_behind(), before, "after a run")
    process = t.spawn([t.binary, "selftest", "--controls"])
    t.wait_until(lambda: left_behind()[0] != before[0], 20, "the bait")
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=20)
    t.wait_until(lambda: left_behind() == before, 20, "nothing left")
