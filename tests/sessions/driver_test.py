#!/usr/bin/env python3
"""The drivers of sessions by themselves, over their protocol (docs/session-protocol.md), without sbx.

    driver_test.py [--python PATH]… [--all-pythons] [--fuzz SECONDS [--seed N]] [-k NAME]

Without --python: the python3 of the system. --all-pythons: every python3.N of the host. Cases are functions; what they ask for
(`python`, `bash`) says which driver they are for. Those of Python run on each interpreter.
"""
import argparse
import glob
import inspect
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from driver_client import DRIVERS, Driver, Gone, bash_driver, python_driver  # noqa: E402


def result(frames):
    """The text of the value."""
    found = [frame for frame in frames if frame["type"] == "result"]
    return found[0]["data"].get("text/plain") if found else None


def status(frames):
    return frames[-1]["status"]


def error(frames):
    return frames[-1].get("error", {"name": None, "value": None, "traceback": None})


def value_of(driver, code):
    frames = driver.run(code)
    assert status(frames) == "ok", frames
    return result(frames)


def begin(python, *options, **keywords):
    keywords.setdefault("environment", {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    driver = python_driver(python, *options, **keywords)
    ready = driver.frame()
    assert ready["type"] == "ready" and ready["protocol"] == 1 and ready["pid"] == driver.process.pid, ready
    return driver


# ---- Python: cells --------------------------------------------------------------------------------------------------

def python_keeps_state_between_cells(python):
    with begin(python) as driver:
        driver.run("import os, math\nx = 5\ndef f(): return x * 2\nos.chdir('/usr')")
        assert value_of(driver, "f(), math.floor(2.5), os.getcwd()") == "(10, 2, '/usr')"
        assert value_of(driver, "_[0] + 1") == "11"
        assert value_of(driver, "Out[2], _3, __[1], In[2]") == "((10, 2, '/usr'), 11, 2, 'f(), math.floor(2.5), os.getcwd()')"


def python_shows_the_last_value_only(python):
    with begin(python) as driver:
        assert value_of(driver, "1\n2") == "2"
        for code in ("3;", "3;  # quiet", "3;\n# quiet\n\n", "None", "x = 1", "if 1: 4", "", "# nothing", "'a;b';", "\n\n"):
            assert value_of(driver, code) is None, code
        assert value_of(driver, "'a;'") == "'a;'"


def python_does_not_take_a_name_that_the_user_took(python):
    with begin(python) as driver:
        driver.run("_ = 'mine'")
        driver.run("1 + 1")
        assert value_of(driver, "_") == "'mine'"


def python_says_where_an_error_is_in_the_users_lines(python):
    with begin(python) as driver:
        driver.run("def f():\n    return 1 / 0")
        frames = driver.run("a = 1\nf()")
        assert status(frames) == "error" and error(frames)["name"] == "ZeroDivisionError"
        text = error(frames)["traceback"]
        assert text.startswith('Traceback (most recent call last):\n  File "<cell 2>", line 2, in <module>\n    f()\n'), text
        assert '  File "<cell 1>", line 2, in f\n    return 1 / 0\n' in text and "python_cells" not in text, text


def python_tells_chained_errors_and_groups(python):
    with begin(python) as driver:
        text = error(driver.run("try:\n    1/0\nexcept Exception as e:\n    raise KeyError('k') from e"))["traceback"]
        assert text.count("<cell 1>") == 2 and "direct cause" in text and "python_cells" not in text, text
        if sys_version(python) >= (3, 11):
            text = error(driver.run("raise ExceptionGroup('g', [ValueError(1), TypeError(2)])"))["traceback"]
            assert "ValueError: 1" in text and "python_cells" not in text, text


def python_points_at_a_syntax_error(python):
    with begin(python) as driver:
        driver.run("kept = 1")
        text = error(driver.run("x = 1\nif x:\n  y = = 2"))["traceback"]
        assert 'File "<cell 2>", line 3' in text and "y = = 2" in text and "^" in text and "Traceback" not in text, text
        text = error(driver.run("kept = 2\nreturn 3"))["traceback"]
        assert "'return' outside function" in text and "return 3" in text, text
        assert value_of(driver, "kept") == "1"  # nothing of a cell that does not compile has run


def python_takes_any_text(python):
    with begin(python) as driver:
        assert value_of(driver, "'grüße ☃ \U0001f600'") == "'grüße ☃ \U0001f600'"
        assert value_of(driver, "x = 1\r\nx + 1\r\n") == "2"
        assert value_of(driver, "'\\ud800'") == "'\\ud800'"
        frames = driver.run(b"'\xff'")
        assert status(frames) == "error", frames
        frames = driver.run(b"1 +\x00 1")
        assert status(frames) == "error", frames
        assert value_of(driver, "(None, True, '\\\\')") == "(None, True, '\\\\')"


def python_awaits(python):
    if sys_version(python) < (3, 8):
        return "top-level await needs Python 3.8"
    with begin(python) as driver:
        driver.run("import asyncio\nasync def gen():\n    for i in range(3):\n        await asyncio.sleep(0)\n        yield i")
        assert value_of(driver, "[i async for i in gen()]") == "[0, 1, 2]"
        assert value_of(driver, "async with asyncio.Lock() as l: pass\nawait asyncio.sleep(0, 7)") == "7"
        driver.run("q = asyncio.Queue()\ntask = asyncio.ensure_future(q.get())\nawait asyncio.sleep(0)")
        driver.run("await q.put(5)")
        assert value_of(driver, "await task") == "5"
        assert value_of(driver, "async def main(): return 6\nasyncio.run(main())") == "6"
        assert error(driver.run("await asyncio.sleep(0)\n1/0"))["traceback"].count("File") == 1


def python_runs_tasks_between_cells(python):
    if sys_version(python) < (3, 8):
        return "top-level await needs Python 3.8"
    with begin(python) as driver:
        driver.run("import asyncio\nasync def later():\n    await asyncio.sleep(0.05)\n    print('later', flush=True)\n"
                   "task = asyncio.ensure_future(later())\nawait asyncio.sleep(0)")
        driver.wait_for("out", b"later")
        assert value_of(driver, "1") == "1"


def python_keeps_future_statements(python):
    if sys_version(python) < (3, 7):
        return "from __future__ import annotations needs Python 3.7"
    with begin(python) as driver:
        driver.run("from __future__ import annotations")
        assert value_of(driver, "def f(x: nowhere): pass\nf.__annotations__") == "{'x': 'nowhere'}"


def python_is_main(python):
    with begin(python) as driver:
        driver.run("import pickle, inspect, sys\nclass A: pass\ndef source_of_me():\n    return 1")
        assert value_of(driver, "__name__, A.__module__, sys.modules['__main__'].A is A, sys.argv, sys.path[0]") == \
            "('__main__', '__main__', True, [''], '')"
        assert value_of(driver, "type(pickle.loads(pickle.dumps(A()))) is A") == "True"
        assert value_of(driver, "inspect.getsource(source_of_me)") == "'def source_of_me():\\n    return 1\\n'"


def python_counts_cells(python):
    with begin(python) as driver:
        assert driver.run("1")[-1]["execution_count"] == 1
        assert driver.run("'hidden'", store=False)[-1]["execution_count"] == 1
        frames = driver.run("2")
        assert [frame.get("execution_count") for frame in frames] == [2, 2]
        assert value_of(driver, "len(In), sorted(Out)") == "(4, [1, 2])"


# ---- Python: ends ---------------------------------------------------------------------------------------------------

def python_survives_exit(python):
    with begin(python) as driver:
        driver.run("x = 1")
        for code, wanted in (("exit(3)", 3), ("quit()", 0), ("import sys; sys.exit(4)", 4), ("raise SystemExit('no')", 1), ("sys.exit(256 + 7)", 7),
                             ("raise SystemExit(None)", 0)):
            frames = driver.run(code)
            assert status(frames) == "exit" and frames[-1]["exit_code"] == wanted, (code, frames)
        assert value_of(driver, "x") == "1"
        driver.wait_for("err", b"no\n")


def python_is_interrupted_and_keeps_state(python):
    with begin(python) as driver:
        driver.run("import time\nx = 1")
        for code in ("print('go', flush=True)\nwhile True: pass", "display(1)\nprint('go', flush=True)\nwhile True: pass", "print('go', flush=True)\ntime.sleep(60)",
                     "print('go', flush=True)\nimport subprocess; subprocess.call(['sleep', '60'])",
                     "print('go', flush=True)\ntry:\n    time.sleep(60)\nfinally:\n    x += 1"):
            driver.out = b""
            driver.start(code)
            driver.wait_for("out", b"go")
            driver.interrupt()
            frames = driver.finish()
            assert status(frames) == "interrupted" and frames[-1]["exit_code"] == 130, frames
            assert error(frames)["name"] == "KeyboardInterrupt" and "<cell" in error(frames)["traceback"]
        driver.interrupt()  # between cells
        assert value_of(driver, "x") == "2"


def python_an_interrupt_is_for_no_later_cell(python):
    with begin(python) as driver:
        # One that the cell's own handler takes, and one for which it is not waited.
        for code in ("import signal; signal.signal(signal.SIGINT, signal.default_int_handler);", "signal.signal(signal.SIGINT, signal.SIG_DFL);",
                     "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]);", "signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT]);"):
            assert status(driver.run(code)) == "ok"
            for _ in range(3):
                driver.interrupt()
            assert value_of(driver, "6 * 7") == "42", code


LEAVES_FORKS = """
import os, signal, subprocess, time
def leave(work):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        work(writing)
    os.close(writing)
    os.read(reading, 1)  # it sleeps, or is another program
    os.close(reading)
    return pid
def sleep(writing): os.close(writing); time.sleep(60); os._exit(0)
def lives(pid): return open('/proc/%d/stat' % pid).read().rpartition(')')[2].split()[0] != 'Z'
"""


def python_forks_of_an_interrupted_cell_end_with_it(python):
    with begin(python) as driver:
        driver.run(LEAVES_FORKS + "earlier = leave(sleep)\nprogram = leave(lambda _: os.execlp('sleep', 'sleep', '60'))\n")
        driver.start("deaf = leave(sleep)\nrun = leave(lambda _: os.execlp('sleep', 'sleep', '60'))\nfor _ in range(4):\n    if os.fork() == 0: break\n"
                     "try: print('on', flush=True); time.sleep(60)\nfinally: print('end', flush=True)")
        driver.wait_for("out", b"on\n" * 5)
        driver.interrupt()
        assert status(driver.finish()) == "interrupted"
        driver.wait_for("out", b"end\n" * 5)
        assert value_of(driver, "[lives(pid) for pid in (earlier, program, deaf, run)]") == "[True, True, False, True]"
        assert driver.err == b"", driver.err
        # A cell that ends by itself leaves them.
        driver.run("left = leave(sleep)")
        assert value_of(driver, "lives(left)") == "True"
        driver.run("for pid in (earlier, program, run, left): os.kill(pid, signal.SIGKILL)")


def python_an_interrupt_never_tears_a_frame(python):
    with begin(python) as driver:
        for number in range(30):
            keys = {"ack": True} if number % 2 else {}
            driver.start("for n in range(900): display('%s' * n)" % ("x" * (number + 1)), **keys)
            for _ in range(number):
                frame = driver.frame()
                if keys:
                    driver.send({"type": "ack", "seq": frame["seq"]})
            driver.interrupt()
            seen = number
            while True:
                frame = driver.frame()
                seen += 1
                assert frame["seq"] == seen, frame
                if frame["type"] == "done":
                    break
                if keys:
                    driver.send({"type": "ack", "seq": frame["seq"]})
            assert frame["status"] in ("interrupted", "ok"), frame
        assert value_of(driver, "6 * 7") == "42"


def python_interrupts_an_awaiting_cell(python):
    if sys_version(python) < (3, 8):
        return "top-level await needs Python 3.8"
    with begin(python) as driver:
        driver.start("import asyncio\ntry:\n    print('go', flush=True)\n    await asyncio.sleep(60)\nexcept BaseException:\n"
                     "    seen = 1\n    raise")
        driver.wait_for("out", b"go")
        driver.interrupt()
        assert status(driver.finish()) == "interrupted"
        assert value_of(driver, "await asyncio.sleep(0, seen)") == "1"


def python_takes_interrupts_back(python):
    with begin(python) as driver:
        driver.run("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)")
        driver.start("print('go', flush=True)\nwhile True: pass")
        driver.wait_for("out", b"go")
        driver.interrupt()
        assert status(driver.finish()) == "interrupted"


def python_that_dies_is_noticed(python):
    for code, wanted in (("import os; os._exit(9)", 9), ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9),
                         ("import os; os.execv('/bin/true', ['true'])", 0)):
        with begin(python) as driver:
            driver.start(code)
            try:
                driver.finish()
                raise AssertionError("it still speaks")
            except (Gone, ConnectionResetError):
                pass
            assert driver.process.wait(10) == wanted


def python_ends_with_its_host(python):
    with begin(python) as driver:
        driver.run("import atexit; atexit.register(print, 'bye')")
        driver.socket.close()
        assert driver.process.wait(10) == 0
    assert driver.out == b"bye\n"


def python_children_of_a_fork_say_nothing(python):
    with begin(python) as driver:
        driver.run("import os, sys\nx = 1")
        frames = driver.run("pid = os.fork()\nif pid == 0:\n    x = 2\n    display('from the child')\nelse:\n    os.waitpid(pid, 0)\n'value'")
        assert [frame["type"] for frame in frames] == ["result", "done"], frames
        frames = driver.run("pid = os.fork()\nif pid == 0:\n    1 / 0\nos.WEXITSTATUS(os.waitpid(pid, 0)[1])")
        assert result(frames) == "1", frames
        driver.wait_for("err", b"ZeroDivisionError")
        frames = driver.run("pid = os.fork()\nif pid == 0: exit(5)\nos.WEXITSTATUS(os.waitpid(pid, 0)[1])")
        assert result(frames) == "5", frames
        assert value_of(driver, "import multiprocessing\ndef f(n): return n * n\n"
                        "with multiprocessing.get_context('fork').Pool(2) as pool: r = pool.map(f, range(4))\nr") == "[0, 1, 4, 9]"


def python_a_fork_made_by_c_code_says_nothing(python):
    if subprocess.run([python, "-c", "import ctypes"], capture_output=True).returncode:
        return "no ctypes"
    with begin(python) as driver:
        frames = driver.run("import ctypes, os\npid = ctypes.CDLL(None).fork()\nif pid:\n    os.waitpid(pid, 0)\ndisplay('who')\n'v'")
        assert [frame["type"] for frame in frames] == ["display", "result", "done"], frames
        assert value_of(driver, "1") == "1"


def python_hides_the_channel_from_children(python):
    with begin(python) as driver:
        code = ("import subprocess\nsubprocess.check_output(['sh', '-c', 'ls -l /proc/self/fd; for f in /proc/%d/fd/*; do "
                "test -S $f && ( : > $f ) 2>&1 && echo OPENED; done; true' % os.getpid()], close_fds=%s).decode()")
        driver.run("import os, stat")
        for close in ("True", "False"):
            shown = value_of(driver, code.replace("close_fds=%s", "close_fds=" + close))
            assert "socket:" not in shown and "OPENED" not in shown, shown
        assert value_of(driver, "pid = os.fork()\nif pid == 0:\n    bad = 0\n    for n in range(65536):\n        try: bad += "
                        "stat.S_ISSOCK(os.fstat(n).st_mode)\n        except OSError: pass\n    os._exit(bad)\n"
                        "os.WEXITSTATUS(os.waitpid(pid, 0)[1])") == "0"
        # The control: the driver itself has it, so that the test would see it.
        assert value_of(driver, "sum(stat.S_ISSOCK(os.stat('/proc/self/fd/' + n).st_mode) for n in os.listdir('/proc/self/fd') "
                        "if os.path.exists('/proc/self/fd/' + n))") == "1"


# ---- Python: output -------------------------------------------------------------------------------------------------

def python_output_is_bytes_of_the_process(python):
    with begin(python) as driver:
        driver.run("import os, sys\nprint('a', end='')\nos.write(1, b'\\xff\\x00')\nsys.stdout.buffer.write(b'\\xfe')\n"
                   "os.system('printf b; printf e >&2')\nprint('c')\nsys.stderr.write('f')")
    assert sorted(driver.out) == sorted(b"a\xff\x00\xfebc\n"), driver.out
    assert driver.err == b"ef", driver.err


def python_keeps_the_order_of_prints_and_displays(python):
    with begin(python) as driver:
        driver.start("import sys\nfor n in range(20):\n    print(n, end=' ')\n    display(n)\n", ack=True)
        seen = []
        while True:
            frame = driver.frame()
            if frame["type"] == "done":
                break
            driver.wait_for("out", b"%d " % len(seen))
            seen.append(driver.out)
            driver.send({"type": "ack", "seq": frame["seq"]})
        assert seen == [b"".join(b"%d " % n for n in range(m + 1)) for m in range(20)], seen


def python_output_of_c_code_belongs_to_its_cell(python):
    if subprocess.run([python, "-c", "import ctypes"], capture_output=True).returncode:
        return "no ctypes"
    with begin(python) as driver:
        driver.run("import ctypes\nctypes.CDLL(None).printf(b'from C')")
        driver.wait_for("out", b"from C")


def python_prints_without_waiting_for_the_end(python):
    with begin(python) as driver:
        driver.start("import time\nprint('first')\nwhile True: time.sleep(0.01)")
        driver.wait_for("out", b"first\n")
        driver.interrupt()
        driver.finish()


def python_mends_closed_streams(python):
    with begin(python) as driver:
        for code in ("import sys, os; sys.stdout.close()", "os.close(1)", "sys.stdout = None", "os.close(2); sys.stderr = 5",
                     "class Evil:\n    closed = property(lambda self: 1/0)\n    def flush(self): 1/0\nsys.stdout = Evil()"):
            driver.run(code)
        driver.run("sys.stdout = sys.__stdout__; print('still here'); os.write(2, b'and here')")
    assert b"still here" in driver.out and b"and here" in driver.err


def python_a_redirected_stdout_stays(python):
    with begin(python) as driver:
        driver.run("import sys, io\nkeep, sys.stdout = sys.stdout, io.StringIO()\nprint('into it')")
        assert value_of(driver, "print('too')\nt = sys.stdout.getvalue()\nsys.stdout = keep\nt") == "'into it\\ntoo\\n'"


def python_threads_may_print_late(python):
    with begin(python) as driver:
        driver.run("import threading, time\ngo = threading.Event()\ndef late():\n    go.wait()\n    display('lost')\n    print('late', flush=True)\n"
                   "t = threading.Thread(target=late, daemon=True)\nt.start()")
        frames = driver.run("1")
        assert len(frames) == 2
        driver.run("threading.Timer(0.05, go.set).start()")
        driver.wait_for("out", b"late")
        assert [frame["type"] for frame in driver.run("2")] == ["result", "done"]


def python_threads_display_into_the_cell_that_runs(python):
    with begin(python) as driver:
        frames = driver.run("import threading\nts = [threading.Thread(target=display, args=(n,)) for n in range(20)]\n"
                            "for t in ts: t.start()\nfor t in ts: t.join()", ack=True)
        assert sorted(int(frame["data"]["text/plain"]) for frame in frames[:-1]) == list(range(20))


def python_bounds_what_is_huge(python):
    with begin(python) as driver:
        shown = value_of(driver, "'x' * 5000000")
        assert len(shown) < 1100000 and "left out" in shown
        frames = driver.run("for n in range(1500): display(n)")
        assert len(frames) == 1001 and frames[-1]["dropped"] == 500
        frames = driver.run("display({'text/html': 'y' * (9 << 20), 'text/plain': 'p'}, raw=True)")
        assert frames[0]["data"] == {"text/plain": "p"} and frames[-1]["dropped"] == 1
        frames = driver.run("display({'application/json': list(range(200000)), 'application/x+json': {n: n for n in range(5000)}, 'text/plain': 'p'}, raw=True)")
        assert frames[0]["data"] == {"text/plain": "p"} and frames[-1]["dropped"] == 2
        frames = driver.run("for n in range(20): display({'text/html': 'y' * (5 << 20), 'text/plain': 'p'}, raw=True)")
        assert len([1 for frame in frames if "text/html" in frame.get("data", {})]) == 9 and frames[-1]["dropped"] == 11, frames[-1]
        frames = driver.run("display({'x/y%d' % n: 'z' for n in range(100)}, raw=True)")
        assert len(frames[0]["data"]) == 60 and frames[-1]["dropped"] == 40
        frames = driver.run("raise ValueError('z' * 10000000)")
        assert len(error(frames)["value"]) < 20000 and len(error(frames)["traceback"]) < 200000
        frames = driver.run("class Deep(dict): pass\nd = {}\nfor n in range(500): d = {'a': d}\ndisplay({'application/json': d}, raw=True)")
        assert frames[0]["type"] == "display"
        frames = driver.run("e = []\ne.append(e)\ndisplay({'application/json': [e, float('nan'), 10 ** 400, b'x', {1: 2}, '\\ud800']}, raw=True)")
        assert frames[0]["data"]["application/json"][1] is None


def python_bad_objects_do_no_harm(python):
    with begin(python) as driver:
        driver.run("class Bad:\n    def __repr__(self): raise RuntimeError('no')\n    def _repr_html_(self): return 5\n"
                   "    def _repr_png_(self): 1/0\n    def _repr_json_(self): return object()\n")
        frames = driver.run("Bad()")
        assert status(frames) == "ok" and "cannot be shown" in result(frames), frames
        frames = driver.run("class E(Exception):\n    def __str__(self): 1/0\nraise E")
        assert status(frames) == "error" and error(frames)["name"] == "E"
        frames = driver.run("class Any:\n    def __getattr__(self, name): return lambda *a, **k: self\nAny()")
        assert status(frames) == "ok" and "Any" in result(frames), frames
        frames = driver.run("class Meta(type):\n    def __getattribute__(self, name): raise ValueError(name)\nclass M(metaclass=Meta): pass\nM")
        assert driver.run("1")[-1]["status"] == "ok"
        frames = driver.run("class Exits:\n    def __repr__(self): raise SystemExit(5)\nExits()")
        assert status(frames) == "exit"
        frames = driver.run("class S(str):\n    def __str__(self): return 5\n    def encode(self, *a): 1/0\ndisplay({S('text/plain'): S('x')}, raw=True)")
        assert driver.run("2")[-1]["status"] == "ok"


def python_survives_what_cells_do_to_the_interpreter(python):
    cells = ["import builtins, sys, json, os, io, traceback, linecache, threading, signal, ast",
             "json.dumps = json.loads = json.JSONEncoder = None", "sys.displayhook = None", "del sys.displayhook",
             "traceback.TracebackException = None; traceback.format_exception = None", "linecache.cache.clear(); linecache.getline = None; linecache.cache = 5",
             "os.write = os.read = os.getpid = os.dup2 = os.fstat = None", "io.TextIOWrapper = io.open = None", "signal.signal = None", "ast.parse = ast.Expr = None",
             "sys.excepthook = None", "sys.setrecursionlimit(60)", "sys.settrace(lambda *a: 1/0)", "sys.settrace(None)", "sys.setprofile(None)",
             "__builtins__ = None", "del __builtins__", "display = get_ipython = None", "In = Out = _ = None", "Out = {}", "globals().clear()",
             "import sys; sys.modules.clear()"]
    with begin(python) as driver:
        for code in cells:
            driver.run(code)
        frames = driver.run("40 + 2")
        assert frames[-1]["type"] == "done", frames
    for name in ("len", "isinstance", "str", "repr", "getattr", "print", "open", "type", "Exception", "range"):
        with begin(python) as driver:
            driver.run("import builtins\nbuiltins.%s = None" % name)
            frames = driver.run("40 + 2")
            assert status(frames) == "ok" and result(frames) == "42", (name, frames)
            frames = driver.run("1 / 0")
            assert status(frames) == "error" and error(frames)["name"] == "ZeroDivisionError", (name, frames)


def python_recursion_is_an_error(python):
    with begin(python) as driver:
        frames = driver.run("def f(): return f()\nf()")
        assert error(frames)["name"] == "RecursionError" and len(error(frames)["traceback"]) < 20000
        frames = driver.run("d = []\nfor n in range(100000): d = [d]\nd")
        assert status(frames) in ("ok", "error")
        frames = driver.run("(" * 200 + ")" * 200)
        assert frames[-1]["type"] == "done"
        assert value_of(driver, "1") == "1"


# ---- Python: displays -----------------------------------------------------------------------------------------------

def python_shows_all_forms(python):
    with begin(python) as driver:
        driver.run("class A:\n    def _repr_html_(self): return '<b>'\n    def _repr_png_(self): return b'\\x89PNG', {'width': 5}\n"
                   "    def _repr_json_(self): return {'a': [1]}\n    def _repr_mimebundle_(self, include=None, exclude=None): return {'text/x': 'x'}\n"
                   "    def __repr__(self): return 'A!'")
        frame = driver.run("A()")[0]
        assert frame["data"] == {"text/x": "x", "text/html": "<b>", "image/png": "iVBORw==", "application/json": {"a": [1]}, "text/plain": "A!"}, frame
        assert frame["metadata"] == {"image/png": {"width": 5}}
        frame = driver.run("display(A(), include=['text/html'])")[0]
        assert frame["data"] == {"text/html": "<b>"}, frame
        assert set(driver.run("A")[0]["data"]) == {"text/plain"}


def python_updates_displays(python):
    with begin(python) as driver:
        frames = driver.run("h = display('one', display_id=True)\nh.update('two')\ndisplay(3, display_id='x')\nfrom IPython.display import update_display, clear_output\n"
                            "update_display(4, display_id='x')\nclear_output(wait=True)\nNone")
        assert [frame["type"] for frame in frames] == ["display", "update", "display", "update", "clear", "done"], frames
        assert frames[0]["display_id"] == frames[1]["display_id"] and frames[2]["display_id"] == frames[3]["display_id"] == "x"
        assert frames[4]["wait"] is True


def python_has_the_display_classes(python):
    with begin(python, "--ipython", "never") as driver:
        driver.run("from IPython.display import *\nimport IPython")
        for code, kind, wanted in (("HTML('<b>')", "text/html", "<b>"), ("Markdown('*')", "text/markdown", "*"), ("Latex('$')", "text/latex", "$"),
                                   ("SVG('<svg/>')", "image/svg+xml", "<svg/>"), ("JSON({'a': 1})", "application/json", {"a": 1}),
                                   ("Javascript('1')", "application/javascript", "1"), ("Image(data=b'\\x89PNG')", "image/png", "iVBORw==")):
            frame = driver.run(code)[0]
            assert frame["data"][kind] == wanted, frame
        assert value_of(driver, "get_ipython() is IPython.get_ipython()") == "True"


def python_pretty_prints(python):
    with begin(python) as driver:
        for code, wanted in (("list(range(30))", "[" + ",\n ".join(map(str, range(30))) + "]"), ("(1,)", "(1,)"), ("{'b': 1, 'a': 2}", "{'b': 1, 'a': 2}"),
                             ("{3, 1}", "{1, 3}"), ("int", "int"), ("{'k': ['x' * 30] * 3}", "{'k': ['" + "x" * 30 + "',\n  '" + "x" * 30 + "',\n  '" + "x" * 30 + "']}"),
                             ("def f(a, *b): pass\nf", "<function __main__.f(a, *b)>"), ("import collections\ncollections.OrderedDict(a=1)", "OrderedDict([('a', 1)])")):
            assert value_of(driver, code) == wanted, (code, value_of(driver, code))


# ---- Python: stdin, magics, start -----------------------------------------------------------------------------------

def python_has_no_stdin_unless_it_is_fed(python):
    with begin(python) as driver, tempfile.TemporaryDirectory() as folder:
        frames = driver.run("input('? ')")
        assert error(frames)["name"] == "EOFError" and "without stdin" in error(frames)["value"], frames
        assert value_of(driver, "import sys\nsys.stdin.read()") == "''"
        path = os.path.join(folder, "in")
        pathlib.Path(path).write_text("ada\nrest\nmore\n")
        frames = driver.run("name = input('? ')\nimport subprocess\nname, sys.stdin.readline()", stdin=path)
        assert result(frames) == "('ada', 'rest\\n')", frames
        assert result(driver.run("subprocess.check_output(['cat'])", stdin=path)) == "b'ada\\nrest\\nmore\\n'"
        assert result(driver.run("[input() for _ in range(3)]\ntry: input()\nexcept EOFError as e: x = str(e)\nx", stdin=path)) == "'EOF when reading a line'"
        assert error(driver.run("input()"))["name"] == "EOFError"
        reading, writing = os.pipe()
        driver.start("a = input()\nprint('got', a, flush=True)\nb = input()\na + b", stdin=reading)
        with open(writing, "w", buffering=1) as file:
            file.write("live\n")
            driver.wait_for("out", b"got live")
            file.write("ly\n")
            frames = driver.finish()
        assert result(frames) == "'lively'", frames
        driver.run("import socket; socket.setdefaulttimeout(0.01)")
        assert result(driver.run("input()", stdin=path)) == "'ada'"


def python_says_when_a_secret_is_typed(python):
    with begin(python) as driver, tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "in")
        pathlib.Path(path).write_text("secret\nseen\n")
        frames = driver.run("import getpass\np = getpass.getpass('P: ')\np, input()", stdin=path)
        assert [frame["on"] for frame in frames if frame["type"] == "echo"] == [False, True], frames
        assert result(frames) == "('secret', 'seen')", frames
        driver.wait_for("err", b"P: ")
        frames = driver.run("getpass.getpass()")
        assert error(frames)["name"] == "EOFError" and all(frame["type"] != "echo" for frame in frames), frames


def python_knows_magics_and_shell_lines(python):
    with begin(python, "--ipython", "never") as driver, tempfile.TemporaryDirectory() as folder:
        assert value_of(driver, "%%cd -q %s\n%%pwd" % folder) is None or True
        driver.run("%%cd -q %s" % folder)
        assert value_of(driver, "%pwd") == repr(folder)
        driver.run("%%writefile a.py\nimport sys\ngot = sys.argv[1:]\nwho = __name__")
        driver.run("%run a.py one 'two three'")
        assert value_of(driver, "got, who") == "(['one', 'two three'], '__main__')"
        assert value_of(driver, "x = !printf 'a\\nb\\n'\nx, x.n") == "(['a', 'b'], 'a\\nb')"
        driver.run("word = 'w'\n!echo shell {word + '1'} $word $$HOME_not '{{'")
        driver.wait_for("out", b"shell w1 w")
        assert value_of(driver, "if True:\n    %env SBX_X=1 2\nimport os\nos.environ['SBX_X']") == "'1 2'"
        driver.wait_for("out", b"env: SBX_X=1 2")
        assert value_of(driver, "%time 6 * 7") == "42"
        assert value_of(driver, "%%time\ny = 3\ny + 1") == "4"
        frames = driver.run("%%bash\necho in bash\nfalse")
        assert error(frames)["name"] == "CalledProcessError"
        assert value_of(driver, "a = (7\n%4)\na") == "3"
        assert value_of(driver, "'''\n%cd /nowhere\n!touch no\n'''") == "'\\n%cd /nowhere\\n!touch no\\n'"
        assert not os.path.exists(folder + "/no")
        for code, wanted in (("%pip install x", "--venv"), ("%nothing", "not found"), ("%%nothing\nx", "not found"), ("%load_ext nothing", "IPython"),
                             ("%cd -q /nowhere/at/all", "No such file")):
            frames = driver.run(code)
            assert status(frames) == "error" and wanted in error(frames)["value"], (code, frames)
        frames = driver.run("len?")
        assert "Return the number of items" in frames[0]["data"]["text/plain"]
        frames = driver.run("def f(a):\n    return 'source'\nf??")
        assert "return 'source'" in frames[0]["data"]["text/plain"], frames
        text = error(driver.run("!true \\\n  x\n1 / 0"))["traceback"]
        assert "line 3" in text and "1 / 0" in text, text
        driver.run("%reset -f")
        assert error(driver.run("word"))["name"] == "NameError"
        assert error(driver.run("%cd ("))["name"] in ("FileNotFoundError", "UsageError")


def python_answers_questions(python):
    with begin(python) as driver:
        driver.run("import os\nvalue = [1, 2]\nclass Trap:\n    @property\n    def p(self): 1/0\nt = Trap()")
        driver.send({"type": "complete", "code": "os.getcw", "position": 8})
        assert driver.frame() == {"type": "completion", "matches": ["getcwd", "getcwdb"], "start": 3, "end": 8}
        driver.send({"type": "complete", "code": "%%writ", "position": 6, "token": "t" * 32})
        frame = driver.frame()
        assert frame["matches"] == ["%%writefile"] and frame["token"] == "t" * 32, frame
        driver.send({"type": "inspect", "code": "len(x)", "position": 2})
        assert "number of items" in driver.frame()["data"]["text/plain"]
        driver.send({"type": "inspect", "code": "t.p.q", "position": 5})
        assert driver.frame()["found"] is False
        driver.send({"type": "variables"})
        assert {"name": "value", "kind": "list", "summary": "n=2"} in driver.frame()["variables"]


def python_refuses_requests_that_make_no_sense(python):
    with begin(python) as driver:
        for body in ({"type": "nothing"}, {}, b"[]", b"{", b"", b"\xff", b'{"type":"complete"}', b'{"type":"inspect","code":5}', b'{"type":' + b"[" * 5000,
                     b'{"a":99999999999999999999999999}'):
            driver.send(body)
            frame = driver.frame()
            assert frame["type"] in ("refused", "completion", "inspection"), (body, frame)
        for request in ({"type": "execute"}, {"type": "execute", "cell": "1", "token": "0" * 32}, {"type": "execute", "cell": 1, "token": "short"},
                        {"type": "execute", "cell": 1, "token": "0" * 32, "stdin": 5}):
            driver.send(request)
            driver.send(b"1/0")
            assert driver.frame()["type"] == "refused", request
        assert value_of(driver, "1") == "1"


def python_ends_when_framing_breaks(python):
    for data in (b"xxxxxxxx", b"FFFFFFFF", b"ffffffff", b"00000010abc", b"\x00\x00\x00\x04null", b"0000000", b"-0000001"):
        with begin(python) as driver:
            driver.socket.sendall(data)
            driver.socket.shutdown(socket.SHUT_WR)
            code = driver.process.wait(10)
            assert code == (0 if len(data) < 8 else 70), (data, code)


def python_a_wrong_acknowledgement_ends_it(python):
    with begin(python) as driver:
        driver.start("display(1)", ack=True)
        driver.frame()
        driver.send({"type": "ack", "seq": 7})
        assert driver.process.wait(10) == 70


def python_starts_ahead(python):
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "seeded.py").write_text("import random, tempfile\nrandom.seed(5)\nprint('loaded')\n")
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
        driver = python_driver(python, "--preload", "seeded,no_such_module_at_all", environment=environment)
        with driver:
            ready = driver.frame()
            assert ready["preloaded"] == ["seeded"] and "no_such_module_at_all" in ready["preload_failed"], ready
            expected = random.Random(5).random()
            assert value_of(driver, "import random\nrandom.random() == %r" % expected) == "False"
            # The control: the module did seed it.
            assert value_of(driver, "random.seed(5)\nrandom.random() == %r" % expected) == "True"


def python_is_prepared_once(python):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-I", str(DRIVERS / "python_driver.py"), "--prepare", folder], check=True)
        names = set(os.listdir(folder))
        assert {"python_driver.py", "python_cells.py", "python_output.py", "sitecustomize.py", "python_display.py"} <= names, names
        if sys_version(python) >= (3, 7):
            assert len(glob.glob(folder + "/__pycache__/python_cells.*")) == 1
        with Driver([python, folder + "/python_driver.py", "--fd", "{fd}"]) as driver:
            driver.frame()
            assert value_of(driver, "6 * 7") == "42"
            assert "python_cells" not in error(driver.run("1/0"))["traceback"]


def python_runs_one_program(python):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "prog.py")

        def once(text, *arguments):
            pathlib.Path(path).write_text(text)
            driver = python_driver(python, "--once", path, *arguments, environment={**os.environ, "SBX_TOKEN": "t" * 32})
            driver.cell, driver.token = 1, "t" * 32
            with driver:
                frames = driver.finish()
                driver.process.wait(10)
            return frames, driver

        frames, driver = once("import sys, os\nprint(sys.argv[1:], __name__, __file__ == sys.argv[0], sys.path[0] == os.path.dirname(__file__), "
                              "'SBX_TOKEN' in os.environ, sorted(n for n in globals() if not n.startswith('__')))\ndisplay(1)\n6 * 7\n", "a", "b")
        assert [frame["type"] for frame in frames] == ["display", "result", "done"] and result(frames) == "42", frames
        assert driver.out == b"['a', 'b'] __main__ True True False ['os', 'sys']\n", driver.out
        assert driver.process.returncode == 0
        frames, driver = once("import atexit\natexit.register(print, 'bye')\ndef f():\n    1/0\nf()\n")
        assert status(frames) == "error" and driver.process.returncode == 1 and driver.out == b"bye\n"
        assert driver.err.startswith(b"Traceback (most recent call last):\n  File \"" + path.encode() + b"\", line 5, in <module>\n    f()\n"), driver.err
        frames, driver = once("import sys\nsys.exit(3)\n")
        assert status(frames) == "exit" and driver.process.returncode == 3
        frames, driver = once("x = 1\n5;\n")
        assert [frame["type"] for frame in frames] == ["done"]


def python_collects_plots(python):
    if subprocess.run([python, "-c", "import matplotlib.pyplot, PIL"], capture_output=True).returncode:
        return "no matplotlib and PIL"
    with begin(python) as driver, tempfile.TemporaryDirectory() as folder:
        def kinds(code):
            frames = driver.run(code)
            assert status(frames) == "ok", frames
            return [(frame["type"], sorted(frame["data"])) for frame in frames[:-1]]

        picture = ("display", ["image/png", "text/plain"])
        driver.run("import matplotlib.pyplot as plt, os\nos.chdir(%r)" % folder)
        assert kinds("plt.plot([1, 2]);") == [picture]
        assert kinds("plt.plot([1, 2])\nplt.show()") == [picture]
        assert kinds("plt.figure(); plt.plot([1]); plt.figure(); plt.plot([2]); plt.show()\nplt.plot([3]);") == [picture] * 3
        assert kinds("plt.plot([1]); plt.savefig('a.png'); plt.savefig('a.pdf')") == [picture]
        assert kinds("plt.plot([1]); plt.savefig('b.pdf'); plt.show()") == [picture]
        assert kinds("fig = plt.figure(); fig.gca().plot([1]); fig") == [("result", ["image/png", "text/plain"])]
        assert kinds("fig") == [("result", ["image/png", "text/plain"])]
        assert kinds("plt.ion(); plt.plot([1]); plt.show(); plt.plot([2]); plt.ioff(); None") == [picture, ("update", ["image/png", "text/plain"])]
        assert kinds("import PIL.Image; PIL.Image.new('RGB', (3, 3)).show()") == [picture]
        assert kinds("import matplotlib; matplotlib.use('Agg'); plt.plot([1]); plt.show()") == [picture]
        assert kinds("1;") == []


def python_uses_ipython_when_asked(python):
    if subprocess.run([python, "-c", "import IPython"], capture_output=True).returncode:
        return "no IPython"
    with begin(python) as driver:
        driver.run("x = 41")
        assert value_of(driver, "'IPython' in __import__('sys').modules") == "False"
        frames = driver.run("import IPython\nx + 1")
        assert result(frames) == "42"
        assert value_of(driver, "_, type(get_ipython()).__name__, In[1], get_ipython().user_ns is globals()") == "(42, 'SessionShell', 'x = 41', True)"
        frames = driver.run("from IPython.display import HTML\nHTML('<b>')")
        assert frames[0]["data"]["text/html"] == "<b>"
        assert error(driver.run("def f():\n    1/0\nf()"))["traceback"].count("File") == 2
        assert status(driver.run("exit(3)")) == "exit"
        assert "--venv" in error(driver.run("%pip install x"))["value"]
        assert status(driver.run("%load_ext autoreload")) == "ok"
        driver.start("print('go', flush=True)\nwhile True: pass")
        driver.wait_for("out", b"go")
        driver.interrupt()
        assert status(driver.finish()) == "interrupted"


# ---- bash -----------------------------------------------------------------------------------------------------------

def start_bash(bash, **keywords):
    driver = bash_driver(bash, **keywords)
    ready = driver.frame()
    assert ready["type"] == "ready" and ready["language"] == "bash" and ready["pid"] == driver.process.pid, ready
    return driver


def said(driver, code, stream="out", **keys):
    """What a cell prints there."""
    before = len(getattr(driver, stream))
    frames = driver.run(code, **keys)
    mark = os.urandom(8).hex()
    driver.run("builtin printf %%s %s%s" % (mark, " >&2" if stream == "err" else ""))
    driver.wait_for(stream, mark.encode())
    return getattr(driver, stream)[before:].replace(mark.encode(), b"").decode(), frames[-1]


def bash_keeps_state_between_cells(bash):
    with start_bash(bash) as driver:
        driver.run("x=5; export y=6; declare -A map=([k]=v); list=(a 'b c'); f() { echo f$x; }; cd /usr; alias hi='echo aliased'; set -o pipefail; shopt -s nullglob\n"
                   "declare -i number=3; readonly r=1; exec 7</etc/passwd; declare -r z=2")
        assert said(driver, 'echo $x $y ${map[k]} "${list[1]}" $PWD $number $r $z; f; hi; shopt -q nullglob && echo ng; set -o | grep -c "pipefail.*on"; read -u 7 l; echo ${#l}')[0].startswith(
            "5 6 v b c /usr 3 1 2\nf5\naliased\nng\n1\n")
        assert said(driver, "printenv y; bash -c 'echo $y'")[0] == "6\n6\n"


def bash_tells_statuses(bash):
    with start_bash(bash) as driver:
        for code, wanted in (("true", ("ok", 0)), ("false", ("error", 1)), ("(exit 7)", ("error", 7)), ("nosuchcommand 2>/dev/null", ("error", 127)),
                             ("kill -9 $BASHPID & wait $!", ("error", 137)), ("", ("ok", 0)), ("# comment", ("ok", 0)), ("false | true", ("ok", 0)), ("if", ("error", 2)),
                             ("true; false; true", ("ok", 0))):
            done = driver.run(code)[-1]
            if code == "if":
                assert done["status"] == "error", done
                continue
            if code in ("", "# comment"):
                assert done["type"] == "done"
                continue
            assert (done["status"], done["exit_code"]) == wanted, (code, done)
        driver.run("(exit 9)")
        assert said(driver, "echo $?")[0] == "9\n"


def bash_survives_exit(bash):
    with start_bash(bash) as driver:
        driver.run("x=1; declare -A m=([a]=b)")
        for code, wanted in (("exit 3", 3), ("f() { local inner=1; exit 4; }; f", 4), ("{ exit 5; } > /dev/null", 5), ("for i in 1 2; do exit 6; done", 6),
                             ("echo | { exit 2; }; exit", 2), ("g() { exit 7; } >/dev/null; g </etc/passwd", 7), ("exec 3>&1 >/dev/null; exit 8", 8),
                             (": ${nothing:?is not set}", None), ("set -u; echo $nothing; echo no", None), ("set +u; eval 'exit 9'", 9), ("return 3; exit 1", None)):
            done = driver.run(code)[-1]
            assert done["status"] == "exit" and wanted in (None, done["exit_code"]), (code, done)
        driver.run("set +u")
        assert said(driver, 'x=$((x + 1)); declare new=2; echo $x ${m[a]}; (exit 3); echo $?')[0] == "2 b\n3\n"
        assert said(driver, "echo $new $(echo sub)")[0] == "2 sub\n"


def bash_survives_break(bash):
    with start_bash(bash) as driver:
        for code in ("break", "continue", "break 5", "continue 3", "for i in 1 2; do break 9; done"):
            assert driver.run(code)[-1]["type"] == "done"
            assert said(driver, "echo fine; for i in 1 2 3; do [ $i = 2 ] && break; echo $i; done")[0] == "fine\n1\n"


def bash_survives_set_e(bash):
    with start_bash(bash) as driver:
        done = driver.run("set -e\nx=1\nfalse\nx=2")[-1]
        assert done["status"] == "exit" and done["exit_code"] == 1, done
        text, done = said(driver, "echo $x $-")
        assert text.startswith("1 ") and "e" in text.split()[1], text
        assert driver.run("false || true; if false; then :; fi; x=3")[-1]["status"] == "ok"
        done = driver.run("(exit 5)")[-1]
        assert (done["status"], done["exit_code"]) == ("exit", 5), done
        assert said(driver, "set +e; false; echo $x still")[0] == "3 still\n"


def bash_is_interrupted_and_keeps_state(bash):
    with start_bash(bash) as driver:
        driver.run("x=1")
        for code in ("echo go; while :; do :; done", "echo go; sleep 60", "f() { echo go; sleep 60; x=5; }; f; x=6", "echo go; cat < <(sleep 60)", "x=2; (echo go; sleep 60)"):
            driver.out = b""
            driver.start(code)
            driver.wait_for("out", b"go")
            done = driver.interrupt_until_done()[-1]
            assert (done["status"], done["exit_code"]) == ("interrupted", 130), (code, done)
        driver.interrupt()
        assert said(driver, "echo $x")[0] == "2\n"


def bash_numbers_lines_of_the_cell(bash):
    with start_bash(bash) as driver:
        assert ": line 3: nosuchcommand" in said(driver, "\n\nnosuchcommand", "err")[0]
        text = said(driver, "a=1\nif then\n", "err")[0]
        assert "line 2: syntax error" in text and "`if then'" in text and "__sbx" not in text, text
        assert said(driver, "echo $LINENO\n\necho $LINENO")[0] == "1\n3\n"
        driver.run("exit 1")
        assert ": line 2: nosuchcommand" in said(driver, "\nnosuchcommand", "err")[0]


def bash_takes_texts_as_they_are(bash):
    with start_bash(bash) as driver:
        assert said(driver, "cat <<'X'\n$x \\ \"q\" 'é ☃'\tt\nX")[0] == "$x \\ \"q\" 'é ☃'\tt\n"
        assert said(driver, "printf '%s' 'a\\nb' | od -An -c")[0].split() == ["a", "\\", "n", "b"]
        assert said(driver, b"printf '\xff\xfe' | od -An -tx1")[0].split() == ["ff", "fe"]
        assert said(driver, "x='%s'; echo ${#x}" % ("y" * 300000))[0] == "300000\n"


def bash_has_no_stdin_unless_it_is_fed(bash):
    with start_bash(bash) as driver, tempfile.TemporaryDirectory() as folder:
        assert said(driver, "read line; echo $? \"[$line]\"; cat")[0] == "1 []\n"
        path = os.path.join(folder, "in")
        pathlib.Path(path).write_text("one\ntwo\n")
        assert said(driver, "read line; echo [$line]; cat", stdin=path)[0] == "[one]\ntwo\n"
        assert said(driver, "cat; exec <%s; cat" % path)[0] == "one\ntwo\n"
        assert said(driver, "cat; echo end")[0] == "end\n"
        out, frames = said(driver, "echo no", stdin="/no/such/file")
        assert (out, frames["status"], frames["exit_code"]) == ("", "error", 1), (out, frames)
        assert said(driver, "echo on")[0] == "on\n"


def bash_hides_the_channel(bash):
    with start_bash(bash) as driver:
        for _ in range(2):
            text = said(driver, "ls -l /proc/self/fd; bash -c 'ls -l /proc/self/fd'; (exec ls -l /proc/self/fd); sleep 0 & ls -l /proc/self/fd")[0]
            assert "socket:" not in text, text
            assert "socket:" in said(driver, "p=$BASHPID; ls -l /proc/$p/fd")[0]  # the control
            driver.run("exit 1")


def bash_runs_background_jobs(bash):
    with start_bash(bash) as driver:
        driver.run("(read -t 0.05 < <(sleep 9); echo done) & pid=$!")
        assert said(driver, "wait $pid; echo waited $?")[0] == "done\nwaited 0\n"
        assert driver.run("${nothing:?is not set} & wait")[-1]["type"] == "done"
        assert driver.run("wait; true")[-1]["status"] == "ok"
        assert said(driver, "sleep 60 & jobs | grep -c sleep; kill %1; wait 2>/dev/null; true")[0] == "1\n"


def bash_traps_belong_to_the_session(bash):
    with start_bash(bash) as driver:
        driver.run("trap 'echo bye $x' EXIT; trap 'echo usr' USR1; x=1")
        assert driver.run("exit 3")[-1]["status"] == "exit"
        assert said(driver, "x=2; kill -USR1 $BASHPID; echo after")[0] == "usr\nafter\n"
        assert said(driver, "(trap 'echo sub' EXIT; exit 4); echo $?")[0] == "sub\n4\n"
        driver.run("trap 'echo err' ERR")
        assert said(driver, "false; true")[0] == "err\n"
        driver.run("trap - ERR")
    assert driver.out.endswith(b"bye 2\n"), driver.out


def bash_keeps_options_out_of_its_own_work(bash):
    with start_bash(bash) as driver:
        driver.run("IFS=0123456789abcdef; set -f; shopt -s nocasematch extglob; GLOBIGNORE='*'")
        text = said(driver, "set -x; echo traced", "err")[0]
        assert text.replace("+", "").strip().startswith("echo traced") and "__sbx" not in text, text
        driver.run("set +x; unset IFS")
        for option in ("set -o posix", "set +o posix", "set -u", "set -o noclobber", "set -v", "set +v", "shopt -s lastpipe", "set -a", "set -E -T", "LC_ALL=C", "LANG=",
                       "umask 777", "ulimit -n 64", "PATH=", "unset PATH", "POSIXLY_CORRECT=1", "unset POSIXLY_CORRECT", "set -- a b c"):
            done = driver.run(option)[-1]
            assert done["type"] == "done", option
        assert said(driver, 'echo "$1$2$3" ok')[0] == "abc ok\n"


def bash_names_of_ours_are_not_easily_broken(bash):
    with start_bash(bash) as driver:
        for code in ("__sbx_write() { :; }", "printf() { echo mine; }; read() { :; }; echo() { builtin echo E \"$@\"; }", "alias eval=true while=true printf=true",
                     "unset -f __sbx_read __sbx_end", "enable -n printf read; enable printf read", "function local { :; }; unset -f local"):
            assert driver.run(code)[-1]["type"] == "done", code
        assert said(driver, "builtin printf fine")[0] == "fine"


def bash_keeps_a_debug_trap_of_the_cells(bash):
    for setting in ("trap 'echo dbg' DEBUG", "set -T; trap 'echo dbg' debug", "set -T; n=DE; builtin trap 'echo dbg' ${n}BUG; trap 'echo dbg' ${n}BUG"):
        with start_bash(bash) as driver:
            said(driver, setting)
            for _ in range(2):
                text = said(driver, "echo a")[0]
                assert "dbg\na\n" in text and text.count("dbg") < 12, (setting, text)
            said(driver, "builtin trap - DEBUG")
            assert said(driver, "echo d")[0] == "d\n", setting


def bash_ends(bash):
    with start_bash(bash) as driver:
        driver.run("exit 2")
        driver.run("exit 3")
        driver.socket.close()
        assert driver.process.wait(10) == 0
    with start_bash(bash) as driver:
        driver.start("exec true")
        try:
            driver.finish()
            raise AssertionError("it still speaks")
        except (Gone, ConnectionResetError):
            pass
    for data in (b"xxxxxxxx", b"ffffffff", b"00000010abc"):
        with start_bash(bash) as driver:
            driver.socket.sendall(data)
            driver.socket.shutdown(socket.SHUT_WR)
            assert driver.process.wait(10) == 70, data


# ---- fuzz -----------------------------------------------------------------------------------------------------------

PIECES = ["%", "%%", "!", "!!", "?", "??", "x", " = ", "\n", "'", '"', "'''", "f'", "{", "}", "(", ")", "[", "]", "\\", "\\\n", "#", ";", "    ", "$", "cd", "time ", "ls",
          "1/0", "lambda: 0", "await ", "async ", "class A: pass", "\x00", "\t", "é", ">>> ", "... ", "def f():\n  ", "if 1:\n  ", "=", "==", "%x", "get_ipython()", "In [1]: "]


def random_cell(chance):
    return "".join(chance.choice(PIECES) for _ in range(chance.randint(1, 25)))


def fuzz_source(seconds, chance):
    """Any text is transformed, in as many lines, without an exception of ours."""
    sys.path.insert(0, str(DRIVERS))
    import python_source
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        text = random_cell(chance)
        changed = python_source.transform(text)
        if not text.lstrip().startswith("%%") and ">>>" not in text and "\\" not in text:
            assert changed.count("\n") == text.count("\n"), (text, changed)
        for token in python_source.tokens(text):
            assert token.start <= token.end <= len(text), (text, token.__dict__)
        python_source.ends_with(text, ";")
        count += 1
    return count


def fuzz_frames(python, seconds, chance):
    """Whatever is sent: well-formed answers, or status 70."""
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        with begin(python) as driver:
            driver.socket.settimeout(20)
            for _ in range(40):
                count += 1
                choice = chance.random()
                if choice < 0.5:
                    cell = random_cell(chance).replace("!", "#").replace("%", "#") if chance.random() < 0.5 else chance.choice(
                        ["1", "x = 1", "display(1)", "1/0", "exit()", "'a' * 100", "import sys; sys.stdout.close()"])
                    frames = driver.run(cell)
                    assert frames[-1]["type"] == "done"
                elif choice < 0.9:
                    body = bytearray(chance.choice([b'{"type":"complete","code":"os.","position":3}', b'{"type":"variables"}', b'{"type":"inspect","code":"x"}', b"{}"]))
                    for _ in range(chance.randint(0, 4)):
                        body[chance.randrange(len(body))] = chance.randrange(256)
                    if b'"execute"' in body or b'"shutdown"' in body:
                        continue
                    driver.send(bytes(body))
                    try:
                        assert driver.frame()["type"] in ("refused", "completion", "variables", "inspection")
                    except Gone:
                        raise AssertionError("it ended with %r after %r: %r" % (driver.process.wait(10), bytes(body), driver.err[-500:]))
                else:
                    driver.socket.sendall(bytes(chance.randrange(256) for _ in range(chance.randint(8, 30))))
                    driver.socket.shutdown(socket.SHUT_WR)
                    assert driver.process.wait(20) == 70
                    break
    return count


BASH_PIECES = ["x=1", "echo a", "$x", "${x", "}", "{", "(", ")", "$(", "`", "'", '"', "\\", "\n", ";", "&", "&&", "||", "|", "<<E", "E\n", "<", ">", "/dev/null", "exit 3", "set -e", "set +e",
               "set -u", "set +u", "set -x", "set +x", "if", "then", "fi", "false", "true", "f() {", "return", "local y=1", "trap 'echo t' EXIT", "trap - EXIT", "exec 5>&1", "exec >/dev/null",
               "exec 0<&-", "exec 1>&-", "exec 2>&-", "unset x", "declare -A m", "case", "esac", "[[", "]]", "((", "))", "#", "!", "eval", "shopt -s extglob", "alias a=b", "\xff", "read z",
               "wait", "kill -INT $$", "${y:?no}", "break", "continue", "shift"]


def fuzz_bash(seconds, chance):
    """Any text ends as a cell does, and the next one runs; after an exit a few errors of the shell's own may end the process."""
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        # What redirections make lies in a directory of its own, and no program is found.
        with tempfile.TemporaryDirectory() as folder, start_bash("/bin/bash", cwd=folder, environment={"HOME": folder, "PATH": "/nowhere"}) as driver:
            driver.socket.settimeout(20)
            said_so_far, exits = [], 0
            for _ in range(25):
                code = " ".join(chance.choice(BASH_PIECES) for _ in range(chance.randint(1, 12)))
                said_so_far.append(code)
                try:
                    exits += driver.run(code)[-1]["status"] in ("exit", "interrupted")
                    exits += driver.run("true")[-1]["status"] in ("exit", "interrupted")
                except (Gone, ConnectionError) as problem:
                    assert exits or "exec" in code, (problem, said_so_far)
                    break
                except (OSError, AssertionError) as problem:
                    raise AssertionError("%r after %r" % (problem, said_so_far))
                count += 1
    return count


# ---- running --------------------------------------------------------------------------------------------------------

VERSIONS = {}


def sys_version(python):
    if python not in VERSIONS:
        text = subprocess.run([python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, check=True).stdout
        VERSIONS[python] = tuple(map(int, text.split()))
    return VERSIONS[python]


def pythons_of_host():
    found = {}
    for pattern in ("/usr/bin/python3.*", "/usr/local/bin/python3.*", os.path.expanduser("~/.pyenv/versions/3.*/bin/python3.*")):
        for path in sorted(glob.glob(pattern)):
            if re.search(r"/python3\.\d+$", path):
                found.setdefault(path.rpartition("/")[2], path)
    return sorted(found.values(), key=sys_version)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--all-pythons", action="store_true")
    parser.add_argument("--fuzz", type=float, default=0, metavar="SECONDS")
    parser.add_argument("--seed", type=int)
    parser.add_argument("-k", default="", metavar="NAME")
    options = parser.parse_args()
    pythons = pythons_of_host() if options.all_pythons else options.python or [
        "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable]
    cases = [(name, function) for name, function in globals().items() if name.startswith(("python_", "bash_")) and name not in ("python_driver", "bash_driver")]
    passed, failed, skipped = 0, [], []
    for name, function in cases:
        parameters = inspect.signature(function).parameters
        for tool in pythons if "python" in parameters else ["bash"]:
            if options.k not in name:
                continue
            label = name if len(pythons) == 1 or "bash" in parameters else "%s [%d.%d]" % ((name,) + sys_version(tool))
            try:
                why = function(tool)
            except (Exception, Gone):
                failed.append(label)
                print("FAILED %s\n%s" % (label, traceback.format_exc()))
                continue
            if why:
                skipped.append("%s: %s" % (label, why))
            else:
                passed += 1
    if options.fuzz and options.k in "fuzz":
        seed = random.randrange(1 << 32) if options.seed is None else options.seed
        try:
            cells = fuzz_source(options.fuzz, random.Random(seed))
            frames = fuzz_frames(pythons[-1], options.fuzz, random.Random(seed))
            shell = fuzz_bash(options.fuzz, random.Random(seed))
            print("fuzzed %d cells, %d requests, %d cells of bash" % (cells, frames, shell))
        except (Exception, Gone):
            failed.append("fuzz, seed %d" % seed)
            traceback.print_exc()
    for text in skipped:
        print("skipped " + text)
    print("%d passed, %d skipped, %d failed%s" % (passed, len(skipped), len(failed), ": " + ", ".join(failed) if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
