"""sbx doctor: tries, tells, and a script can rely on its names, its JSON and its status."""

import importlib.util
import json
import os

import harness
from harness import case


def diagnosis(t, *flags, status=0, **more):
    done = t.expect(t.sbx("doctor", "--json", *flags, **more), status=status)
    return done, json.loads(done.out)


def finding(document, name):
    return next(f for f in document["findings"] + document["languages"] if f["name"] == name)


@case("doctor's JSON matches the published schema", seconds=60)
def schema(t):
    spec = importlib.util.spec_from_file_location("schema_check", harness.TESTS / "schema_check.py")
    checker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(checker)
    _, document = diagnosis(t)
    published = checker.load(harness.ROOT / "docs/schema/doctor-v1.json")
    t.equal(checker.check(published, document), [], "faults")
    t.true(checker.check(published, {**document, "works": "yes"}), "the check can fail")
    t.true(document["works"] and document["host"]["run_us"] > 0, "a sandbox ran")


@case("doctor lists every name that it judges, and prints each once with -v", seconds=60)
def names(t):
    listed = t.expect(t.sbx("doctor", "--list")).text.split()
    _, document = diagnosis(t)
    t.equal([f["name"] for f in document["findings"]] + ["all"], listed, "names")
    shown = t.expect(t.sbx("doctor", "-v"), err="^$").text
    for name in listed[:-1]:
        t.match(shown, rf"^(ok|degraded|missing|unknown) +{name} ", "the table")
    t.equal(shown.splitlines()[-1], document["verdict"], "the last line")


@case("--require of what is there succeeds, of what is absent is status 1 and names it", seconds=60)
def require(t):
    t.expect(t.sbx("doctor", "--require", "sandbox,user-namespaces", "--require", "seccomp"), err="^$")
    _, document = diagnosis(t)
    absent = [f for f in document["findings"] if f["state"] != "ok"]
    if not absent:
        raise harness.Skip("this host lacks nothing")
    done = t.expect(t.sbx("doctor", "--json", "--require", f"sandbox,{absent[0]['name']}"), status=1,
                    err=f"^sbx: required, but {absent[0]['state']}: {absent[0]['name']}: ")
    again = json.loads(done.out)
    t.equal(len(again["unmet"]), 1, "unmet")
    t.equal(again["required"], ["sandbox", absent[0]["name"]], "required")


@case("an unknown requirement, option or argument is wrong usage with a did-you-mean", seconds=60)
def usage(t):
    t.expect(t.sbx("doctor", "--require", "landlok"), status=2, out="", err="did you mean 'landlock'")
    t.expect(t.sbx("doctor", "--jsn"), status=2, out="", err="did you mean '--json'")
    t.expect(t.sbx("doctor", "now"), status=2, out="", err="takes no argument 'now'")
    t.expect(t.sbx("doctor", "--require", ""), status=2, out="", err="names nothing")


@case("a language is required by its name", needs="python", seconds=60)
def language(t):
    t.expect(t.sbx("doctor", "--require", "lang:python"), err="^$")
    _, document = diagnosis(t, "--require", "lang:python", status=1, env={"PATH": "/nonexistent"})
    t.equal(finding(document, "lang:python")["state"], "missing", "python without a PATH")


@case("with max_user_namespaces at 0 doctor names the setting, as the engine's own hint does", needs=("unshare", "userns"), seconds=60)
def no_namespaces(t):
    # The value is that of a user namespace of this case's own.
    within = ["unshare", "--user", "--map-root-user", "/bin/sh", "-c",
              'echo 0 > /proc/sys/user/max_user_namespaces && exec "$0" "$@"', t.binary]
    done = t.expect(t.run(within + ["doctor", "--json"]), status=1)
    document = json.loads(done.out)
    t.equal(document["works"], False, "works")
    found = finding(document, "user-namespaces")
    t.equal(found["state"], "missing", "the state")
    t.match(document["verdict"], r"user\.max_user_namespaces is 0.*sudo sysctl -w user\.max_user_namespaces=", "the verdict")
    t.equal(finding(document, "mount-namespace")["state"], "unknown", "what could not be tried")
    t.equal(finding(document, "seccomp")["state"], "ok", "what needs no namespace")
    t.expect(t.run(within + ["doctor", "--require", "user-namespaces"]), status=1, err="^sbx: required, but missing: user-namespaces: ")
    hint = t.expect(t.run(within + ["exec", "--", "true"]), status=125).errors
    t.match(hint, r"^sbx: hint: .*sudo sysctl -w user\.max_user_namespaces=", "the engine's hint")


@case("a covered /proc is named, with the option of the container that lifts it", needs=("unshare", "userns"), seconds=60)
def masked_proc(t):
    # What container engines do: a file of /proc covered, in a namespace where the cover cannot be taken away.
    within = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "/bin/sh", "-c",
              'mount -t proc proc /proc && mount --bind /dev/null /proc/timer_list 2>/dev/null || mount -t tmpfs none /proc/sys; '
              'exec unshare --user --map-root-user --mount "$0" "$@"', t.binary]
    done = t.run(within + ["doctor", "--json"])
    document = json.loads(done.out)
    if finding(document, "proc")["state"] == "ok":
        raise harness.Skip("this kernel mounts /proc all the same")
    t.equal(done.status, 1, "status")
    t.match(finding(document, "proc")["mend"], "systempaths=unconfined|unmask=ALL|procMount", "the mending")


# What Docker's default filter does to sbx: clone3 (435) answers ENOSYS, unshare and clone with namespaces would be EPERM.
LIKE_DOCKER = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
code = [(0x20, 0, 0, 0), (0x15, 0, 1, 435), (0x06, 0, 0, 0x00050000 | 38), (0x06, 0, 0, 0x7fff0000)]
program = b"".join(struct.pack("HBBI", *line) for line in code)
buffer = ctypes.create_string_buffer(program)
class Fprog(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(Fprog(len(code), ctypes.addressof(buffer))), 0, 0):
    sys.exit(99)
os.execv(sys.argv[1], sys.argv[1:])
"""


@case("under a filter like Docker's, what hides clone3 is named with the option that lifts it; the rest is tried", needs="python", seconds=60)
def hidden_clone3(t):
    within = ["/usr/bin/python3", "-c", LIKE_DOCKER, t.binary]
    document = json.loads(t.expect(t.run(within + ["doctor", "--json"]), status=1).out)
    t.match(document["verdict"], "user-namespaces: clone3 is blocked", "the verdict")
    t.equal(finding(document, "seccomp")["state"], "ok", "a filter on top of the outer one")
    t.match(finding(document, "surroundings")["found"], "a seccomp filter lies on sbx already", "the surroundings")
    t.match(t.expect(t.run(within + ["exec", "--", "true"]), status=125).errors, "^sbx: hint: clone3 is blocked", "the engine's hint")


@case("inside a sandbox doctor refuses with one line", needs="plain-build", seconds=60)
def inside(t):
    done = t.sbx("exec", "--mount", f"{t.binary}:/opt/sbx", "--", "/opt/sbx", "doctor")
    t.expect(done, status=125, out="", err="^sbx: this is the inside of an sbx sandbox")
    t.equal(len(done.errors.splitlines()), 1, "lines")


@case("doctor leaves nothing behind: no process, no cgroup, no file", alone=True, seconds=60)
def leaves_nothing(t):
    def cgroups():
        return sorted(os.path.join(top, name) for top, names, _ in os.walk("/sys/fs/cgroup") for name in names if "sbx-doctor" in name)
    before = set(os.listdir("/tmp"))
    t.expect(t.sbx("doctor"))
    t.equal(cgroups(), [], "cgroups")
    t.equal([n for n in set(os.listdir("/tmp")) - before if "sbx-doctor" in n], [], "temporary files")


@case("--fix prints an AppArmor profile for this very binary and changes nothing")
def fix(t):
    done = t.expect(t.sbx("doctor", "--fix"))
    t.match(done.text, rf'^profile sbx "{os.path.realpath(t.binary)}" flags=\(unconfined\) \{{$', "the profile")
    t.match(done.text, "^  userns,$", "the profile")


@case("--fix=install is root's", as_=("user",))
def fix_user(t):
    t.expect(t.sbx("doctor", "--fix=install"), status=125, out="", err="needs root")


@case("--fix=install refuses a binary that others can replace", as_=("root",))
def fix_replaceable(t):
    import shutil
    t.mkdir("open", 0o777)
    shutil.copy(t.binary, t.dir / "open/sbx")
    done = t.expect(t.run([str(t.dir / "open/sbx"), "doctor", "--fix=install"]), status=125, out="", err="not only root can replace")
    t.match(done.errors, "sudo make install", "the way out")
