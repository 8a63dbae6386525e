"""Defects of the tools whose users sessions are meant for, each a case that passes here.

The table holds (name, what went wrong there, the case). `codebox` are those of CodeBox-AI, `llm` those of llm-sandbox. Not in it, because
nothing here could have them:

- an advisory scanner of source text (regular expressions that a comment or a concatenation defeats, a threshold that never
  blocks, a list of library names): there is none; the kernel is the boundary, and what it refuses is in containment.md;
- package installation into a session (unchecked names, shell lines, a network call at each start, an upgrade of pip): it is refused,
  and a virtual environment made outside is shown read-only;
- an image that a session is committed over, an existing container that is attached to, a template that is deleted: there are no images;
- a host that is blocked by its own clients' calls inside one server: there is no server, each session is a process (codebox_8 shows that
  a busy one keeps no other waiting);
- unbounded "temporary" members of a pool and their expiry: at most 16 sessions wait, by a count before each is made;
- plots (saved twice, never shown, shown by another cell): tests/plots/plot_cases.py and tests/sessions/driver_test.py have them with the real
  libraries, which plain test machines lack.
"""
import json
import os

from harness import REGISTRY, Case
from session_cases import Session


def options_work(t):
    s = Session(t, "--memory", "300M", "--cpus", "1", "--env", "GREETING=hello", "--time", "700ms")
    got = s.json("import os; print(os.environ['GREETING'], len(os.sched_getaffinity(0)))")
    t.equal(got["stdout"]["data"], "hello 1\n")
    t.equal(s.show()["limits"]["memory"], "300M")
    # A loop that prints is ended by its time as one is that does not.
    for code in ("while True: print('x' * 60, flush=True); __import__('time').sleep(0.01)", "while True: pass"):
        t.expect(s.run(code), status=124)
    t.expect(s.run("x = bytearray(1 << 30)\nfor i in range(0, 1 << 30, 4096): x[i] = 1", "--timeout", "30s"), status=137)


def late_output(t):
    s = Session(t)
    t.expect(s.run("import time\ntry:\n    while True: time.sleep(0.01)\nfinally: print('last words of the first')", "--timeout", "300ms"), status=124,
             out="last words of the first\n")
    t.expect(s.run("print('second')"), out="second\n", err="")


def after_exception(t):
    s = Session(t)
    t.expect(s.run("1/0"), status=1)
    t.expect(s.run("print('out'); 5"), out="out\n5\n", err="")


def unknown_id(t):
    Session(t)
    for words in (("run", "nobody", "-c", "1"), ("show", "nobody"), ("stop", "nobody"), ("exec", "nobody", "--", "true")):
        t.expect(t.sbx("session", *words), status=2, out="", err="nobody")
    t.expect(t.sbx("cp", "nobody:a", "."), status=2)


def rich_forms(t):
    s = Session(t)
    forms = {"html": "text/html", "svg": "image/svg+xml", "markdown": "text/markdown", "latex": "text/latex", "json": "application/json"}
    code = "class R:\n" + "".join(f"    def _repr_{name}_(self): return {'{1: 2}' if name == 'json' else repr('<' + name + '>')}\n" for name in forms)
    code += "    def _repr_jpeg_(self): return b'\\xff\\xd8\\xff'\nR()"
    data = s.json(code)["outputs"][0]["data"]
    t.true(set(forms.values()) | {"image/jpeg", "text/plain"} <= set(data), f"{sorted(data)}")


def names_are_checked(t):
    marker = os.path.join(t.mkdir("m", 0o777), "ran")
    done = t.sbx("session", "start", "--preload", f"os; touch {marker}")
    t.expect(done, status=2, out="", err="is no list of modules")
    t.true(not os.path.exists(marker), "nothing ran")
    s = Session(t)
    t.expect(s.exec("printf", "%s", f"$(touch {marker}); `id`"), out=f"$(touch {marker}); `id`")


def input_fails(t):
    s = Session(t)
    t.expect(s.run("input('? ')", "--timeout", "20s"), status=1, err="EOFError")


def busy_is_alone(t):
    s = Session(t)
    busy = s.spawn("import time; print('on', flush=True); time.sleep(60)")
    t.wait_until(lambda: s.show()["state"] == "busy", 15, "the cell runs")
    t.expect(s.exec("echo", "beside"), out="beside\n")
    t.expect(t.sbx("session", "ls"), out=None)
    other = Session(t, name="other")
    t.expect(other.run("6 * 7"), out="42\n")
    s.do("interrupt")
    busy.wait(20)


def time_by_default(t):
    s = Session(t)
    t.equal(s.show()["limits"]["time"], "60s")


def partial_output(t):
    s = Session(t)
    got = s.json("import sys\nprint('a', flush=True); sys.stderr.write('b'); \nwhile True: pass", "--timeout", "300ms")
    t.equal((got["stdout"]["data"], got["verdict"]), ("a\n", "timed_out"))


def no_litter(t):
    s = Session(t)
    t.expect(s.run("import os; os.listdir('.')"), out="[]\n")


def future_import(t):
    s = Session(t)
    t.expect(s.run("from __future__ import annotations\nprint('fine')\ndef f(x: Nothing): pass\nf.__annotations__"), out="fine\n{'x': 'Nothing'}\n", err="")
    t.expect(s.run("\n1/0"), status=1, err=r'"<cell 2>", line 2')
    t.expect(t.sbx("run", "--lang", "python", "--json", "-c", "from __future__ import annotations\n1/0"), status=1, out=None)


def empty_and_dotted(t):
    Session(t)
    empty, dotted = t.file("empty", ""), t.file("a..b", "dots")
    t.expect(t.sbx("cp", empty, "s:"))
    t.expect(t.sbx("cp", dotted, "s:"))
    back = t.mkdir("back", 0o755)
    t.expect(t.sbx("cp", "s:/box", back))
    for name, content in (("empty", b""), ("a..b", b"dots")):
        with open(os.path.join(back, "box", name), "rb") as file:
            t.equal(file.read(), content)


def links_are_told(t):
    s = Session(t)
    t.expect(s.run("import os; os.mkdir('d'); os.symlink('/etc/passwd', 'd/link'); open('d/f', 'w').close()"))
    t.expect(t.sbx("cp", "s:d", t.mkdir("back", 0o755)), status=1, err="'d/link' is left out: a link")


def exit_keeps_session(t):
    s = Session(t)
    t.expect(s.run("x = 3; exit()"))
    t.expect(s.run("x"), out="3\n")
    t.expect(s.run("import os; os._exit(9)"), status=9)
    t.expect(s.run("1 + 1"), out="2\n")


def streams_live(t):
    s = Session(t)
    process = s.spawn("import time\nprint('first', flush=True)\ntime.sleep(60)")
    t.equal(os.read(process.stdout.fileno(), 6), b"first\n")
    t.expect(s.run("pass", "--no-wait"), status=125)
    s.do("interrupt")
    process.wait(20)


def streaming_keeps_status(t):
    s = Session(t)
    t.expect(s.run("print('o'); raise SystemExit(7)"), status=7, out="o\n")


def split_character(t):
    s = Session(t)
    code = "import os, time\nfor byte in '€ü𝄞'.encode() + b'\\xff!': os.write(1, bytes([byte])); time.sleep(0.005)"
    t.expect(s.run(code), out="€ü𝄞".encode() + b"\xff!")
    t.equal(s.json("import os; os.write(1, b'\\xff!');")["stdout"]["encoding"], "base64")


def fractions(t):
    s = Session(t)
    t.expect(s.run("while True: pass", "--timeout", "0.5s"), status=124, err=r"\(500ms\)")


def runaway_ends(t):
    s = Session(t)
    before = s.show()["processes"]
    t.expect(s.run("import subprocess, time\np = subprocess.Popen(['sleep', '1000'])\nwhile True: time.sleep(0.01)", "--timeout", "300ms"), status=124)
    t.expect(s.run("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", "--timeout", "300ms"), status=124, err="state was lost")
    t.wait_until(lambda: s.show()["state"] == "idle" and s.show()["processes"] <= before, 15, "nothing of it runs on")


def session_time(t):
    s = Session(t, "--ttl", "1500ms")
    process = s.spawn("import time; time.sleep(60)")
    _, err = process.communicate(timeout=20)
    t.true(process.returncode != 0, err)
    t.wait_until(lambda: s.entries() == [], 15, "nothing is left of it")
    t.expect(s.run("1"), status=2)


def pool_is_clean(t):
    t.base_env["XDG_RUNTIME_DIR"] = t.mkdir("run", 0o700)
    t.at_end(lambda: t.sbx("session", "stop", "--all", timeout=20))
    t.expect(t.sbx("session", "warm"))
    one = t.expect(t.sbx("session", "start")).text.strip()
    t.expect(t.sbx("session", "run", one, "-c", "import os; os.system('echo secret > /tmp/left; echo > /box/left; echo > ~/left')"))
    t.wait_until(lambda: b'"warm"' in t.sbx("session", "ls", "--json").out, 15, "another waits")
    two = t.expect(t.sbx("session", "start")).text.strip()
    t.true(one != two, "used once")
    t.expect(t.sbx("session", "run", two, "-c", "import os; [os.listdir(p) for p in ('/tmp', '/box', os.path.expanduser('~'))]"), out="[[], [], []]\n")


def bytes_exact(t):
    s = Session(t)
    t.expect(s.run("import os; os.write(1, b'x');"), out="x")
    t.expect(s.run("import sys; sys.stdout.buffer.write(bytes(range(256)) * 16384);"), out=bytes(range(256)) * 16384)
    t.expect(s.exec("sh", "-c", "exit 3"), status=3)


def no_shadowing(t):
    code = t.file("code.py", "import code, random\nprint(hasattr(code, 'InteractiveConsole'))\n'v'")
    Session(t)
    t.expect(t.sbx("session", "run", "s", code), out="True\n'v'\n")


def threads_and_loops(t):
    s = Session(t)
    t.expect(s.run("import asyncio, threading\nasync def f():\n    await asyncio.sleep(0)\n    return threading.active_count()\nawait f()", "--timeout", "20s"), out="1\n")
    t.expect(s.run("import asyncio; await asyncio.sleep(100)", "--timeout", "300ms"), status=124)
    t.expect(s.run("6 * 7"), out="42\n")


def artifacts_of_one_cell(t):
    s = Session(t)
    t.equal([a["path"] for a in s.json("open('one', 'w').write('1');")["artifacts"]], ["one"])
    t.equal([a["path"] for a in s.json("open('two', 'w').write('2');")["artifacts"]], ["two"])


def killed_is_over(t):
    s = Session(t)
    code = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    while True: time.sleep(0.01)\nwhile True: pass"
    t.expect(s.run(code, "--timeout", "300ms"), status=124)
    s.do("restart")
    t.wait_until(lambda: s.show()["state"] == "idle" and s.show()["processes"] <= 1, 15, "the child that had left its group is gone as well")


def huge_output(t):
    s = Session(t, "--output", "1M")
    done = s.run("while True: print('x' * 1000)", "--json")
    got = json.loads(done.out)
    t.equal((got["verdict"], got["stdout"]["kept_bytes"], got["stdout"]["truncated"]), ("output_limit", 1 << 20, True))


TABLE = [
    ("codebox_1", "options were taken and ignored: time, memory, CPUs, environment", options_work),
    ("codebox_2", "after a timeout, late output of one cell was read as the next one's", late_output),
    ("codebox_3", "the cell after an exception came back empty", after_exception),
    ("codebox_4", "an id that nobody has was accepted, and failed later", unknown_id),
    ("codebox_5", "HTML, SVG, JPEG, LaTeX, Markdown and JSON forms were dropped", rich_forms),
    ("codebox_6", "names of packages became words of a shell", names_are_checked),
    ("codebox_7", "input() hung until the timeout", input_fails),
    ("codebox_8", "a busy session kept everybody waiting", busy_is_alone),
    ("llm_time_by_default", "without an option there was no timeout at all", time_by_default),
    ("llm_partial_output", "a timeout lost what was printed so far", partial_output),
    ("llm_no_litter", "each run left its source in the working directory", no_litter),
    ("llm_future_import", "a prelude shifted line numbers, printed, and made `from __future__` an error", future_import),
    ("llm_empty_and_dotted", "empty files were not found, and files named a..b dropped", empty_and_dotted),
    ("llm_links_are_told", "links were dropped without a word", links_are_told),
    ("llm_exit_keeps_session", "exit() ended the runner, and the next cell hung", exit_keeps_session),
    ("llm_streams_live", "an interactive session did not stream", streams_live),
    ("llm_streaming_keeps_status", "with streaming the exit status was always 0", streaming_keeps_status),
    ("llm_split_character", "a character cut in two lost all further output; bytes that are no UTF-8 failed the run", split_character),
    ("llm_fractions", "half a second was taken for none", fractions),
    ("llm_runaway_ends", "a program whose time was over ran on", runaway_ends),
    ("llm_session_time", "the session's own time did not end what ran in it", session_time),
    ("llm_pool_is_clean", "pooled sandboxes kept the files of their last user", pool_is_clean),
    ("llm_bytes_exact", "the first bytes of the output and the exit status were lost", bytes_exact),
    ("llm_no_shadowing", "a program saved as code.py shadowed the module", no_shadowing),
    ("llm_threads_and_loops", "the timer broke threads and event loops", threads_and_loops),
    ("llm_artifacts_of_one_cell", "files of earlier runs came back again", artifacts_of_one_cell),
    ("llm_killed_is_over", "kill came back before the processes were gone", killed_is_over),
    ("llm_huge_output", "huge output brought down the host", huge_output),
]

for name, sentence, function in TABLE:
    REGISTRY.append(Case(f"session_defect/{name}", f"not so here: {sentence}", function, ("root", "user"), ("python",), 60, False))
