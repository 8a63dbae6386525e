"""Sessions of the real binary with IPython's shell in them: always with /usr/bin/python3, which has the distribution's."""
import os
import subprocess

from harness import Skip, case

PYTHON = "/usr/bin/python3"
SHELL = "__import__('IPython').core.interactiveshell.InteractiveShell in type(get_ipython()).__mro__"


def session(t, *flags):
    from session_cases import Session  # here: its cases are not of this suite
    if not os.access(PYTHON, os.X_OK) or subprocess.run([PYTHON, "-c", "import IPython"], stderr=subprocess.DEVNULL).returncode != 0:
        raise Skip(f"needs IPython of {PYTHON}")
    return Session(t, "--toolchain", PYTHON, *flags)


@case("--ipython yes: its shell from the first cell, with state, values, magics, errors and ends as without", seconds=120)
def from_the_first_cell(t):
    s = session(t, "--ipython", "yes")
    t.expect(s.run("x = 41\n" + SHELL), out="True\n")
    t.expect(s.run("x + 1"), out="42\n")
    t.expect(s.run("%who_ls"), out="['x']\n")
    t.expect(s.run("!echo from the shell"), out="from the shell\n")
    t.expect(s.run("lines = !printf 'a\\nb'\nlist(lines)"), out="['a', 'b']\n")
    t.expect(s.run("Out[2], _"), out="(42, ['a', 'b'])\n")
    t.expect(s.run("await __import__('asyncio').sleep(0, 'awaited')"), out="'awaited'\n")
    done = t.expect(s.run("def f():\n    return 1 / 0\nf()"), status=1, err="ZeroDivisionError: division by zero")
    t.no_match(done.errors, r"python_cells|python_ipython|IPython/core")
    t.expect(s.run("%pip install x"), status=1, err="packages cannot be installed")
    t.expect(s.run("input()"), status=1, err="EOFError")
    t.expect(s.run("input('? ')", "--stdin", "-", stdin=b"answer\n"), out="? 'answer'\n")
    t.expect(s.run("while True: pass", "--timeout", t.slow("500ms")), status=124, err="state is kept")
    t.expect(s.run("x; exit(3)"), status=3)
    t.expect(s.run("x"), out="41\n")
    t.expect(s.do("restart"))
    t.expect(s.run("x"), status=1, err="NameError")
    t.expect(s.run(SHELL), out="True\n")


@case("without --ipython a session goes over to it at the cell that needs it, and what it has stays; with no, never", seconds=120)
def on_demand(t):
    s = session(t)
    t.expect(s.run("x = 41; 'IPython' in __import__('sys').modules"), out="False\n")
    t.expect(s.run("%load_ext autoreload"))
    t.expect(s.run("x, 'IPython' in __import__('sys').modules"), out="(41, True)\n")
    from session_cases import Session
    never = Session(t, "--toolchain", PYTHON, "--ipython", "no", name="never")
    t.expect(never.run("%load_ext autoreload"), status=1)
    t.expect(never.run("'IPython' in __import__('sys').modules"), out="False\n")
