"""Plots of a session's cells. The names in brackets are those of tests/integration/session_defect_cases.py: what went wrong with plots in
llm-sandbox (llm) and CodeBox-AI (codebox), and does not here."""
import base64

from harness import case
from plot_cases import MPL, PYTHON, needs


def session(t, *flags):
    from session_cases import Session  # here: its cases are not of this suite
    needs("matplotlib")
    return Session(t, "--toolchain", PYTHON, *flags)


def shown(result):
    """The forms of what was shown, in its order."""
    return [sorted(o["data"]) for o in result["outputs"] if o["type"] == "display_data"]


PICTURE = ["image/png", "text/plain"]


@case("[codebox, llm] a figure comes back without show() and without a backend, once, whether it was saved, shown, or both", seconds=120)
def once(t):
    s = session(t)
    for code in ("plt.plot([1, 2]);", "plt.plot([1]); plt.show()", "plt.plot([1]); plt.savefig('a.png'); plt.show()",
                 "fig, ax = plt.subplots(); ax.plot([1]); fig.savefig('b.png');", "plt.plot([1]); plt.savefig('c.jpg'); plt.close()"):
        got = s.json(MPL + code)
        t.equal((got["verdict"], [o["type"] for o in got["outputs"]]), ("exited", ["display_data"]), code)
        (picture,) = shown(got)
        t.true(any(form.startswith("image/") for form in picture), f"{code}: {picture}")
        t.equal((got["stdout"]["data"], got["stderr"]["data"]), ("", ""), "what the program printed")


@case("[llm] every open figure comes, not the current one alone; all plots of a cell, not the last alone", seconds=120)
def all_of_them(t):
    s = session(t)
    got = s.json(MPL + "for n in range(3):\n    plt.figure(); plt.plot([n])\nplt.show()\nplt.plot([3]); plt.show(); plt.plot([4]);")
    t.equal(len(shown(got)), 5)
    digests = {o["data"]["image/png"] for o in got["outputs"]}
    t.equal(len(digests), 5, "each is another picture")
    base64.b64decode(digests.pop(), validate=True)


@case("[llm] plots are those of their cell: none comes again in the next, nor in another session", seconds=120)
def of_one_cell(t):
    s = session(t)
    t.equal(len(shown(s.json(MPL + "plt.plot([1]);"))), 1)
    t.equal(shown(s.json("1")), [])
    t.equal(shown(s.json("plt.plot([2]); 1/0")), [PICTURE], "of a cell that fails")
    t.equal(shown(s.json("2")), [])


@case("[llm] line numbers, `from __future__` and stdout are the program's own with plots, too", seconds=120)
def no_prelude(t):
    s = session(t)
    got = s.json("from __future__ import annotations\n" + MPL + "plt.plot([1]); print('only this')\n1/0")
    t.equal(got["stdout"]["data"], "only this\n")
    error = got["outputs"][-1]
    t.equal(error["type"], "error")
    t.match(error["traceback"], r'File "<cell 1>", line 4, in <module>')


@case("[llm] a figure that cannot be drawn costs itself: said on stderr, stdout and the other figures are as they were", seconds=120)
def broken_figure(t):
    s = session(t)
    got = s.json(MPL + "plt.figure(); plt.plot([1]); plt.title(r'$\\undefined{x}$')\nplt.figure(); plt.plot([2]); print('out');")
    t.equal((got["stdout"]["data"], got["verdict"], len(shown(got)), got["outputs_dropped"]), ("out\n", "exited", 1, 1))
    t.equal(got["stderr"]["data"], "a plot could not be drawn: <Figure size 640x480 with 1 Axes>\n")
    t.expect(s.run("1"), out="1\n")


@case("[codebox] a read-only root and a HOME of its own bring no font cache and no warning", seconds=120)
def no_warnings(t):
    s = session(t)
    t.expect(s.run(MPL + "plt.plot([1]);"), err="")
    t.expect(s.run("import os, matplotlib; os.access(matplotlib.get_cachedir(), os.W_OK)"), out="True\n")


@case("[codebox] what one display() shows is one output with all its forms, long HTML among them, uncut", seconds=120)
def one_bundle(t):
    needs("plotly")
    s = session(t)
    got = s.json("import plotly.graph_objects as go; go.Figure(go.Scatter(y=[1, 3, 2])).show()")
    t.equal(len(shown(got)), 1)
    t.true("text/html" in shown(got)[0], shown(got))


@case("[llm] plots are bounded: the first thousand outputs come, the rest is counted", seconds=180)
def bounded(t):
    s = session(t)
    got = s.json("class P:\n    def _repr_png_(self): return b'\\x89PNG'\n    def __repr__(self): return 'P'\nfor _ in range(1100): display(P())")
    t.equal((len(got["outputs"]), got["outputs_dropped"]), (1000, 100))
