"""The result object, --json, artifacts."""

import base64
import hashlib
import importlib.util
import json
import os
import stat

import harness
from harness import Failure, Skip, case

SCHEMA = harness.ROOT / "docs/schema/result-v1.json"


def validate(value):
    """Uses tests/schema_check.py on docs/schema/result-v1.json."""
    path = harness.TESTS / "schema_check.py"
    if not path.exists() or not SCHEMA.exists():
        raise Skip("needs docs/schema/result-v1.json and tests/schema_check.py")
    spec = importlib.util.spec_from_file_location("schema_check", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    problems = module.check(json.loads(SCHEMA.read_text()), value)
    if problems:
        raise Failure("the result does not match its schema:\n  " + "\n  ".join(map(str, problems)))


@case("the result of every kind of end matches the published schema", needs="python", seconds=60)
def schema(t):
    t.file("a.txt", "x")
    for done in (
            t.shell("true", result=True), t.shell("exit 3", result=True), t.shell("kill -9 $$", result=True),
            t.shell("sleep 900", "--time", t.slow("300ms"), result=True), t.shell("yes", "--output", "100K", result=True),
            t.sbx("exec", "--", "no-such-command", result=True), t.shell("echo x > made; ln -s / l", result=True),
            t.probed("int80", result=True), t.python("raise MemoryError", result=True),
            t.shell("true", "--mount", "a.txt:/usr/bin/env/x", result=True)):
        validate(done.result)
    value = json.loads(t.sbx("run", "--json", "--lang", "python", "-c", "print(1)").out)
    validate(value)


@case("a compile step's result matches the schema", needs="g++", seconds=60)
def schema_compile(t):
    t.file("a.cpp", "int main() {}\n")
    t.file("b.cpp", "nonsense\n")
    for name in ("a.cpp", "b.cpp"):
        validate(t.sbx("run", name, result=True).result)


@case("the result has schema name and version, verdict, times, isolation, digest and sbx's version")
def fields(t):
    r = t.shell("exit 3", result=True).result
    t.match(str(r.get("schema")), "sbx-result", "schema")
    t.equal((r["verdict"], r["exit_code"]), ("exited", 3))
    for key in ("isolation", "limits_hit", "artifacts", "hints"):
        t.true(key in r, f"no {key} in the result: {sorted(r)}")
    t.equal(r["version"], 1, "version")
    t.match(r["sbx_version"], r"^\d+\.\d+", "sbx_version")
    t.match(r["policy"]["digest"], r"^[0-9a-f]{64}$", "policy.digest")
    t.match(r["isolation"]["seccomp"]["sha256"], r"^[0-9a-f]{64}$", "seccomp's digest")
    for name in ("user", "mount", "pid", "ipc", "uts", "net", "cgroup"):
        t.true(any(name in n for n in r["isolation"]["namespaces"]), f"no {name} in {r['isolation']['namespaces']}")
    t.true(r["setup"]["stages"], "no set-up times by stage")


@case("--json puts the one object on stdout with both streams inside, and nothing else", needs="python")
def json_object(t):
    done = t.sbx("run", "--json", "--lang", "python", "-c", "import sys; print('out é'); sys.stderr.write('err'); sys.exit(4)")
    t.equal(done.status, 4)
    r = json.loads(done.out)
    t.equal((r["stdout"]["encoding"], r["stdout"]["data"]), ("utf-8", "out é\n"), "stdout")
    t.equal((r["stderr"]["encoding"], r["stderr"]["data"]), ("utf-8", "err"), "stderr")
    t.equal(r["stdout"]["total_bytes"], 7, "total bytes")


@case("bytes that are no UTF-8 stand in the result as base64, byte-exact", needs="python")
def json_binary(t):
    r = json.loads(t.sbx("run", "--json", "--lang", "python", "-c", "import os; os.write(1, bytes(range(256)))").out)
    t.equal(r["stdout"]["encoding"], "base64", "encoding")
    data = r["stdout"]["data"]
    t.equal(base64.b64decode(data), bytes(range(256)), "stdout")


@case("truncated output says so, with total and kept bytes", needs="python")
def json_truncated(t):
    r = json.loads(t.sbx("run", "--json", "--output", "10K", f"{t.hostile}/flood.py", "1").out)
    t.equal(r["verdict"], "output_limit")
    stream = {key: value for key, value in r["stdout"].items() if key != "data"}
    t.true(stream["truncated"] is True and stream["kept_bytes"] == 10240 and stream["total_bytes"] >= 10240, f"{stream}")


@case("--result and --json together agree", needs="python")
def both(t):
    path = t.result_path()
    a = json.loads(t.sbx("run", "--json", "--result", path, "--lang", "python", "-c", "print(1)").out)
    b = json.load(open(path))
    for key in ("verdict", "exit_code", "limits_hit"):
        t.equal(a[key], b[key], key)


@case("the result file belongs to the caller and is written although the payload failed")
def result_owner(t):
    done = t.shell("exit 9", result=True)
    state = os.stat(done._result_path)
    t.equal(state.st_uid, t.identity.uid)


@case("a result that cannot be written is an error before anything runs")
def result_unwritable(t):
    done = t.run([t.binary, "exec", "--result", "/no/such/dir/r.json", "--", "echo", "ran"])
    t.expect(done, status=(2, 125), out="", err=r"^sbx: .*/no/such/dir")


@case("a usage error writes its result too: setup_failed with the error, where --result was given")
def result_on_error(t):
    done = t.sbx("run", "missing.py", result=True)
    t.equal(done.status, 2)
    if os.path.exists(done._result_path):
        t.equal(done.verdict, "setup_failed")


@case("peak memory and times are plausible", needs="python", seconds=30)
def usage(t):
    r = t.python("b = bytearray(100 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\nimport time; time.sleep(0.3)", result=True).result
    usage_of = r["usage"]
    t.true(300 <= usage_of["wall_ms"] < 20000, f"{usage_of}")
    if usage_of["peak_memory_bytes"] is None:
        t.true(usage_of["peak_memory_note"], f"null without a reason: {usage_of}")
    else:
        t.true(90 << 20 < usage_of["peak_memory_bytes"] < 400 << 20, f"{usage_of}")


@case("artifacts are listed with name, size, MIME type and sha256; the source is not among them", needs="python")
def listed(t):
    t.file("make.py", "open('a.txt','w').write('hello\\n'); open('b.png','wb').write(b'\\x89PNG\\r\\n\\x1a\\n' + b'0' * 20); import os; os.mkdir('d'); open('d/c','w').write('x')")
    r = t.sbx("run", "make.py", result=True).result
    by_name = {a["path"]: a for a in r["artifacts"]}
    t.equal(sorted(by_name), ["a.txt", "b.png", "d/c"], "artifacts")
    a = by_name["a.txt"]
    t.equal((a["size"], a["sha256"]), (6, hashlib.sha256(b"hello\n").hexdigest()))
    t.match(a["mime"], "^text/plain", "MIME type")
    t.match(by_name["b.png"]["mime"], "^image/png", "MIME type")


@case("--artifacts DIR copies them out, owned by the caller", needs="python")
def copied(t):
    t.file("make.py", "import os; open('a.txt','w').write('hello\\n'); os.makedirs('d/e'); open('d/e/f','w').write('x')")
    t.expect(t.sbx("run", "--artifacts", "out", "make.py"))
    t.equal((t.dir / "out/a.txt").read_text(), "hello\n")
    t.equal((t.dir / "out/d/e/f").read_text(), "x")
    t.true(not (t.dir / "out/make.py").exists(), "the source was copied")
    for name in ("out", "out/a.txt", "out/d", "out/d/e/f"):
        t.equal(os.stat(t.dir / name).st_uid, t.identity.uid, f"owner of {name}")


@case("artifacts are copied out although the run failed or ran out of time", needs="python")
def copied_failed(t):
    t.expect(t.shell("echo x > kept; sleep 900", "--time", t.slow("400ms"), "--artifacts", "out"), status=124)
    t.equal((t.dir / "out/kept").read_text(), "x\n")


@case("--artifacts is opened before the run: a payload with a :rw workspace cannot lead the copies elsewhere")
def destination_swapped(t):
    t.file("proj/keep", "")
    t.file("victim/keep", "")
    t.shell("mv out gone; ln -s ../victim out; echo planted > authorized_keys", "--workspace", ".:rw",
            "--artifacts", "out", cwd=t.dir / "proj")
    t.equal([path.name for path in (t.dir / "victim").iterdir()], ["keep"], "the place that the link leads to")
    t.equal((t.dir / "proj/gone/authorized_keys").read_text(), "planted\n")
    t.file("plain", "x")
    t.expect(t.shell("echo ran", "--artifacts", "plain"), status=2, out="", err="--artifacts")


@case("a hostile tree cannot harm: no link followed, no fifo waited for, no set-id bit, bounded", needs="python", seconds=40)
def hostile_tree(t):
    done = t.sbx("run", "--artifacts", "out", f"{t.hostile}/tree.py", result=True)
    t.expect(done, status=0)
    out = t.dir / "out"
    for path in out.rglob("*"):
        state = path.lstat()
        t.true(stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode), f"{path} has mode {oct(state.st_mode)}")
        t.true(not state.st_mode & 0o6000, f"{path} has set-id bits")
    t.equal((out / "out/good.txt").read_text(), "good\n")
    t.equal((out / "out/-rf").read_text(), "dash\n")
    total = sum(p.lstat().st_blocks * 512 for p in out.rglob("*"))
    t.true(total < 300 << 20, f"{total} bytes were copied")
    t.true(done.seconds < t.slow(20), f"took {done.seconds} s")
    t.true(b"\x1b[31m" not in done.err, "an escape sequence of a file name reached the terminal")


@case("an existing link in the destination is not written through", needs="python")
def destination_link(t):
    t.file("victim", "precious")
    t.mkdir("out")
    (t.dir / "out/a.txt").symlink_to(t.dir / "victim")
    t.shell("echo evil > a.txt", "--artifacts", "out")
    t.equal((t.dir / "victim").read_text(), "precious")


@case("changes of an overlay workspace come out as artifacts", needs="python")
def overlay_artifacts(t):
    t.file("proj/keep", "1")
    t.file("proj/change", "1")
    done = t.expect(t.shell("echo 2 > change; echo n > new", "--workspace", "proj:overlay", "--artifacts", "out", result=True))
    names = sorted(a["path"] for a in done.result["artifacts"])
    t.equal(names, ["change", "new"], "artifacts")
    t.equal((t.dir / "out/change").read_text(), "2\n")
    t.equal((t.dir / "proj/change").read_text(), "1")


@case("of a :rw workspace only what this run made or changed is listed")
def rw_artifacts(t):
    t.file("proj/keep", "1")
    t.file("proj/change", "1")
    done = t.expect(t.shell("echo 2 > change; echo n > new", "--workspace", "proj:rw", result=True))
    t.equal(sorted(a["path"] for a in done.result["artifacts"]), ["change", "new"], "artifacts")


@case("nothing made means an empty list")
def no_artifacts(t):
    t.equal(t.shell("true", result=True).result["artifacts"], [])
