"""Verdict and exit status come from kernel facts only; a payload can say what it likes."""

import json
import signal
import subprocess
import time

from harness import TIME_FACTOR, case


@case("the payload's exit status is passed on, all of 0 to 255")
def statuses(t):
    for status in (0, 1, 2, 42, 100, 126, 128, 200, 255):
        t.expect(t.probed("exit", str(status), result=True), status=status, verdict="exited")


@case("a payload that itself exits 124, 125, 126, 127, 137 or 159 is 'exited' in the result")
def forged_statuses(t):
    for status in (124, 125, 126, 127, 137, 143, 159):
        done = t.expect(t.probed("exit", str(status), result=True), status=status, verdict="exited")
        t.equal(done.result["exit_code"], status, "exit_code")
        t.equal(done.result["limits_hit"], [], "limits_hit")


@case("a payload ended by a signal: 128+N, signaled, the signal in the result")
def signals(t):
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT, signal.SIGINT, signal.SIGPIPE, signal.SIGXCPU):
        done = t.expect(t.probed("raise", str(int(number)), result=True), status=128 + number, verdict="signaled")
        t.equal(done.result["signal"], {"number": int(number), "name": number.name}, "signal")


@case("a payload that kills itself with SIGKILL is not out_of_memory, with SIGXCPU not cpu_time, with SIGSYS not denied", needs="python")
def no_confusion(t):
    t.expect(t.probed("raise", "9", result=True), status=137, verdict="signaled")
    done = t.expect(t.probed("raise", "31", result=True), status=159)
    t.true(done.verdict in ("signaled", "denied"), done.describe())


@case("a foreign ABI is killed by the filter: 159, denied", needs="x86_64")
def denied(t):
    t.expect(t.probed("int80", result=True), status=159, verdict="denied", out="")
    t.expect(t.probed("x32", result=True), status=159, verdict="denied", out="")


@case("forged result text on stdout, stderr and every other descriptor changes nothing", needs="python")
def forged(t):
    done = t.sbx("run", f"{t.hostile}/forge.py", result=True)
    t.expect(done, status=7, verdict="exited")
    t.equal(done.result["exit_code"], 7)
    t.equal(done.result["limits_hit"], [])
    t.no_match(done.text, r"^wrote to", "stdout")


@case("with --json a payload that prints JSON does not break the object on stdout", needs="python")
def forged_json(t):
    done = t.expect(t.sbx("run", "--json", f"{t.hostile}/forge.py"), status=7)
    value = json.loads(done.out)
    t.equal((value["verdict"], value["exit_code"]), ("exited", 7))


@case("a command that is not found is 127, one that is not executable 126; the result says that nothing ran")
def not_found(t):
    for command in ("no-such-command", "/no/such/path"):
        done = t.expect(t.sbx("exec", "--", command, result=True), status=127, out="", err=rf"^sbx: .*{command}")
        t.true(done.verdict == "setup_failed", done.describe())
    t.file("plain", "no program")
    for command in ("/etc/passwd", "/usr"):
        t.expect(t.sbx("exec", "--", command, result=True), status=126, out="", err=rf"^sbx: .*{command}")


@case("an executable of a broken format is 126")
def bad_format(t):
    t.file("proj/junk", b"\x7fELF junk", 0o755)
    t.expect(t.sbx("exec", "--workspace", "proj", "--", "/box/junk"), status=126, out="", err=r"^sbx: ")


@case("a script whose #! interpreter is missing is 127, names the script and says what may be missing")
def missing_interpreter(t):
    t.file("proj/s", "#!/no/such/interp\n", 0o755)
    t.expect(t.sbx("exec", "--workspace", "proj", "--", "/box/s"), status=(126, 127), out="", err=r"^sbx: .*/box/s")
    t.expect(t.sbx("exec", "--workspace", "proj", "--", "/box/s"), status=127, err=r"^sbx: hint: .*#! line")


@case("a set-up failure is 125, setup_failed, names step and cause, and the payload did not run")
def setup_failed(t):
    # A working directory that cannot be: the mount source disappears behind a file.
    t.file("f", "x")
    done = t.shell("echo ran", "--mount", "f:/usr/bin/env/below", result=True)
    t.expect(done, status=125, out="", err=r"^sbx: ", verdict="setup_failed")
    t.match(done.errors, r"/usr/bin/env/below", "the path")
    t.true(done.result.get("error"), "the result has no error")


@case("TERM, INT and HUP sent to sbx reach the payload, which may handle them", needs="python")
def forwarded(t):
    code = ("import os, signal, time\ndef got(n, f): os.write(1, b'got %d\\n' % n); os._exit(5)\n"
            "for n in (1, 2, 15): signal.signal(n, got)\nprint('ready', flush=True)\n"
            "while True: time.sleep(0.05)  # a signal just before a long sleep would be handled after it\n")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        p = t.spawn([t.binary, "run", "--lang", "python", "-c", code], stdin=subprocess.DEVNULL)
        t.equal(p.stdout.readline(), b"ready\n")
        p.send_signal(number)
        out, err = p.communicate(timeout=10)
        t.equal(out, b"got %d\n" % number, "stdout")
        t.true(p.returncode in (5, 128 + number), f"status {p.returncode}\n{err}")


@case("a signal at any instant of the set-up ends it: before sbx looks by the signal itself, later as status 130; none is lost")
def signal_in_setup(t):
    seen = {"by the signal": 0, "ended": 0}
    for n in range(40):
        path = t.result_path()
        process = t.spawn([t.binary, "exec", "--result", path, "--", "sleep", "30"])
        time.sleep(n % 20 * 0.0006 * TIME_FACTOR)  # varies the instant
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=t.remaining())
        if process.returncode == -signal.SIGINT:
            seen["by the signal"] += 1
            continue
        t.equal((process.returncode, out), (130, b""))
        t.match(err.decode(), "told to stop by signal 2")
        t.equal(json.load(open(path))["verdict"], "killed")
        seen["ended"] += 1
    t.true(seen["ended"] > 0, f"no signal came after the first instants: {seen}")


@case("a signal that ends sbx gives 128+N and the verdict killed", needs="python")
def killed(t):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        path = t.result_path()
        p = t.spawn([t.binary, "exec", "--result", path, "--", "/bin/sh", "-c", "echo ready; sleep 300"], stdin=subprocess.DEVNULL)
        t.equal(p.stdout.readline(), b"ready\n")
        p.send_signal(number)
        p.communicate(timeout=12)
        t.true(p.returncode in (128 + number, -number), f"status {p.returncode} for signal {number}")
        result = json.load(open(path))
        t.equal(result["verdict"], "killed", "verdict")


@case("a second signal kills at once a payload that ignores the first", needs="python")
def twice(t):
    code = "import signal, time\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\nprint('ready', flush=True)\ntime.sleep(60)\n"
    p = t.spawn([t.binary, "run", "--lang", "python", "-c", code], stdin=subprocess.DEVNULL)
    t.equal(p.stdout.readline(), b"ready\n")
    p.send_signal(signal.SIGTERM)
    time.sleep(0.2)  # two signals at once would be one
    began = time.monotonic()
    p.send_signal(signal.SIGTERM)
    p.communicate(timeout=10)
    t.true(time.monotonic() - began < t.slow(3), "not at once")
    t.true(p.returncode == 143, f"status {p.returncode}")


@case("a hint names the module that stands beside the source but was not shared, and its remedy works when pasted", needs="python")
def hint_module(t):
    t.file("p/main.py", "import helper_mod\nprint(helper_mod.x)\n")
    t.file("p/helper_mod.py", "x = 42\n")
    done = t.expect(t.sbx("run", "main.py", cwd=t.dir / "p"), status=1, err=r"^sbx: .*--workspace \.")
    t.expect(t.sbx("run", "--workspace", ".", "main.py", cwd=t.dir / "p"), out="42\n")
    done = t.sbx("run", "-q", "main.py", cwd=t.dir / "p")
    t.no_match(done.errors, r"^sbx: ", "-q")


@case("a program that fails for no cause of sbx's gets no hint", needs="python")
def no_hint(t):
    done = t.expect(t.python("raise SystemExit(3)"), status=3)
    t.equal(done.err, b"", "stderr")


@case("no network by default: the failing program gets a hint with --net", needs="python")
def hint_net(t):
    done = t.python("import urllib.request; urllib.request.urlopen('http://example.org')")
    t.expect(done, status=1, err=r"^sbx: .*--net")


@case("a text in the payload's stderr gives at most a hint, never a verdict", needs="python")
def text_no_verdict(t):
    t.expect(t.python("import sys; sys.stderr.write('java.lang.OutOfMemoryError\\nMemoryError\\nKilled\\n'); sys.exit(137)", result=True),
             status=137, verdict="exited")
