"""What programs show comes back in the result: with the distribution's own libraries, so always with /usr/bin/python3
(a version manager's interpreter may come first on PATH)."""

import base64
import functools
import hashlib
import importlib.util
import json
import os
import struct
import subprocess

import harness
from harness import Failure, Skip, case

PYTHON = "/usr/bin/python3"
HOOKS = harness.ROOT / "policies/lang/hooks"


@functools.lru_cache(maxsize=None)
def has_module(name):
    return os.access(PYTHON, os.X_OK) and subprocess.run([PYTHON, "-c", f"import {name}"], stdout=subprocess.DEVNULL,
                                                         stderr=subprocess.DEVNULL).returncode == 0


def needs(*modules):
    for name in modules:
        if not has_module(name):
            raise Skip(f"needs {name} of {PYTHON}")


def python(t, code, *flags, **more):
    t.file("main.py", code)
    return t.sbx("run", "--toolchain", PYTHON, *flags, "main.py", result=True, **more)


def rscript(t, code, *flags, **more):
    if not harness.have("Rscript"):
        raise Skip("needs Rscript")
    t.file("main.R", code)
    return t.sbx("run", *flags, "main.R", result=True, **more)


def plots(done, dropped=False):
    if done.result["plots_dropped"] and not dropped:
        raise Failure(f"plots were dropped: {done.result['plots_dropped']}\n{done.describe()}")
    return done.result["plots"]


def data(plot):
    return base64.b64decode(plot["data"])


def summary(done):
    return [(p["library"], p["format"], p["title"]) for p in plots(done)]


def pixels(t, png):
    """Decodes an 8-bit RGBA or RGB PNG; the harness must not depend on a library for it."""
    import zlib
    t.equal(png[:8], b"\x89PNG\r\n\x1a\n", "signature")
    at, body, head = 8, b"", None
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        if kind == b"IHDR":
            head = struct.unpack(">IIBB", png[at + 8:at + 18])
        if kind == b"IDAT":
            body += png[at + 8:at + 8 + size]
        at += 12 + size
    return head, zlib.decompress(body)


# ---- matplotlib -----------------------------------------------------------------------------------------------------

MPL = "import matplotlib.pyplot as plt\n"


@case("a shown figure is one plot, a PNG whose size and digest are true; the next one starts afresh", seconds=120)
def shown(t):
    needs("matplotlib")
    done = t.expect(python(t, MPL + "plt.plot([1, 2]); plt.title('First é'); plt.show()\n"
                                    "plt.plot([2, 1]); print(len(plt.gca().lines)); plt.show()\n"), out="1\n")
    t.equal(done.err, b"", "stderr")
    t.equal(summary(done), [("matplotlib", "png", "First é"), ("matplotlib", "png", None)])
    for index, plot in enumerate(plots(done), 1):
        content = data(plot)
        head, _rows = pixels(t, content)
        t.equal((plot["index"], plot["size"], plot["sha256"], plot["mime"]),
                (index, len(content), hashlib.sha256(content).hexdigest(), "image/png"))
        t.equal((plot["width"], plot["height"]), head[:2], "size in pixels")
    t.equal(done.result["artifacts"], [], "artifacts")
    validate(t, done.result)


def validate(t, value):
    spec = importlib.util.spec_from_file_location("schema_check", harness.TESTS / "schema_check.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    problems = module.check(json.loads((harness.ROOT / "docs/schema/result-v1.json").read_text()), value)
    t.true(not problems, "the result does not match its schema:\n  " + "\n  ".join(map(str, problems)))


@case("one figure is one plot: saved and shown, shown and saved, saved thrice, several open at once", seconds=120)
def once(t):
    needs("matplotlib")
    done = t.expect(python(t, MPL + """
plt.plot([1]); plt.title("saved, shown"); plt.savefig("a.png"); plt.show()
fig, ax = plt.subplots(); ax.plot([2]); ax.set_title("shown, saved"); plt.show(); fig.savefig("b.png"); plt.savefig("c.png")
fig, ax = plt.subplots(); ax.plot([3]); ax.set_title("saved thrice")
for name in ("d.pdf", "d.svg", "d.png"): fig.savefig(name)
plt.close(fig)
for n in (1, 2): plt.figure(); plt.plot([n]); plt.title(f"open {n}")
plt.show()
"""))
    t.equal([title for _l, _f, title in summary(done)], ["saved, shown", "shown, saved", "saved thrice", "open 1", "open 2"])
    t.equal(sorted(a["path"] for a in done.result["artifacts"]), ["a.png", "b.png", "c.png", "d.pdf", "d.png", "d.svg"])
    # plt.savefig() after show() saves what was shown, as it does where nothing is shown.
    by_name = {a["path"]: a["sha256"] for a in done.result["artifacts"]}
    t.equal(by_name["b.png"], by_name["c.png"], "saved after show()")
    t.equal(plots(done)[2]["sha256"], by_name["d.png"], "a figure that was only saved is the saved file, best format first")


@case("a figure that is neither shown nor saved is drawn when the program ends, even by an error; an empty one is not", seconds=120)
def left_open(t):
    needs("matplotlib")
    done = t.expect(python(t, "from __future__ import annotations\n" + MPL +
                           "plt.figure()\nplt.figure(); plt.bar([1, 2], [3, 4]); plt.title('left')\nplt.figure(); plt.plot(1); plt.close()\n1/0\n"),
                    status=1, err=r'File "/box/main.py", line 6, in <module>')
    t.no_match(done.errors, "hooks", "the traceback")
    t.equal(summary(done), [("matplotlib", "png", "left")])


@case("whichever backend the program chooses, and a canvas without pyplot", seconds=120)
def backends(t):
    needs("matplotlib")
    for backend in ("Agg", "svg", "pdf"):
        done = t.expect(python(t, f"import matplotlib; matplotlib.use({backend!r})\n" + MPL + "plt.plot([1, 2]); plt.show()\nprint(plt.get_backend())"),
                        out=f"{backend}\n".lower() if backend != "Agg" else None)
        t.equal([p["format"] for p in plots(done)], ["png"], backend)
    done = t.expect(python(t, "from matplotlib.figure import Figure\nimport io\nfig = Figure(); fig.subplots().plot([1, 2])\n"
                              "out = io.BytesIO(); out.write(b'before'); fig.savefig(out, format='svg'); fig.savefig(out, format='raw')\n"
                              "print(len(out.getvalue()) > 1000000)"), out="True\n")
    t.equal([p["format"] for p in plots(done)], ["svg"])
    t.match(data(plots(done)[0]).decode(), r"^<\?xml", "the saved bytes alone")


@case("without waiting (interactive mode, pause, block=False) a figure is one plot, as it looked when it was closed", seconds=120)
def live(t):
    needs("matplotlib")
    done = t.expect(python(t, MPL + """
plt.figure(figsize=(2, 2))
for n in range(3):
    plt.cla(); plt.plot([n]); plt.title(f"frame {n}"); plt.pause(0.001)
plt.close()
plt.ion(); plt.plot([1]); plt.show(); plt.title("later")
"""))
    t.equal(summary(done), [("matplotlib", "png", "frame 2"), ("matplotlib", "png", "later")])


@case("seaborn and pandas come through matplotlib", seconds=180)
def seaborn_pandas(t):
    needs("seaborn", "pandas")
    done = t.expect(python(t, "import pandas as pd, seaborn as sns\n" + MPL +
                           "d = pd.DataFrame({'a': [1, 2, 3], 'b': [3, 1, 2]})\n"
                           "d.plot(title='pandas'); plt.show()\n"
                           "sns.scatterplot(data=d, x='a', y='b').set_title('seaborn'); plt.show()\n"
                           "sns.relplot(data=d, x='a', y='b').fig.suptitle('grid')\n"))
    t.equal([title for _l, _f, title in summary(done)], ["pandas", "seaborn", "grid"])


@case("pictures hold what was drawn: a red figure is red", seconds=120)
def content(t):
    needs("matplotlib")
    done = t.expect(python(t, MPL + "fig = plt.figure(figsize=(1, 1), facecolor='red'); fig.text(0.5, 0.5, '.'); plt.show()"))
    head, rows = pixels(t, data(plots(done)[0]))
    t.equal(rows[1:4], b"\xff\x00\x00", "the first pixel")


@case("plots of other processes of the program come too, whole and in order", seconds=120)
def processes(t):
    needs("matplotlib")
    t.file("child.py", MPL + "import sys\nplt.plot([1]); plt.title(sys.argv[1]); plt.show()\n")
    done = t.expect(python(t, "import subprocess, sys, multiprocessing\n" + MPL + """
def draw(n):
    plt.figure(); plt.plot([n]); plt.title(f"pool {n}"); plt.savefig(f"{n}.png"); plt.close()
if __name__ == "__main__":
    subprocess.run([sys.executable, "child.py", "child"], check=True)
    with multiprocessing.Pool(2) as pool: pool.map(draw, [1, 2])
    plt.plot([1]); plt.title("parent"); plt.show()
""", "--file", "child.py"))
    titles = [title for _l, _f, title in summary(done)]
    t.equal((titles[0], sorted(titles[1:3]), titles[3]), ("child", ["pool 1", "pool 2"], "parent"))


@case("a program that is killed keeps what it had shown", seconds=120)
def killed(t):
    needs("matplotlib")
    done = python(t, MPL + "plt.plot([1]); plt.title('shown'); plt.show()\nplt.plot([2])\nimport os; os.kill(os.getpid(), 9)")
    t.equal((done.status, summary(done)), (137, [("matplotlib", "png", "shown")]))


# ---- plotly, PIL ----------------------------------------------------------------------------------------------------

@case("a plotly figure is one plot, as HTML and as JSON", seconds=120)
def plotly(t):
    needs("plotly")
    done = t.expect(python(t, "import plotly.express as px, plotly.graph_objects as go\n"
                              "px.line(x=[1, 2], y=[3, 4], title='px').show()\n"
                              "fig = go.Figure(go.Bar(y=[1, 2])); fig.write_html('own.html', include_plotlyjs='cdn'); fig.show(renderer='browser')\n"), out="")
    t.equal(done.err, b"", "stderr")
    t.equal([(p["index"], p["library"], p["format"], p["title"]) for p in plots(done)],
            [(1, "plotly", "html", "px"), (1, "plotly", "json", "px"), (2, "plotly", "html", None), (2, "plotly", "json", None)])
    value = json.loads(data(plots(done)[1]))
    t.equal((value["data"][0]["type"], plots(done)[1]["mime"]), ("scatter", "application/vnd.plotly.v1+json"))
    t.match(data(plots(done)[0]).decode(), "plotly", "the HTML")
    t.equal([a["path"] for a in done.result["artifacts"]], ["own.html"])


@case("Image.show() of PIL is a plot, whatever the mode of the image", seconds=120)
def pil(t):
    needs("PIL")
    done = t.expect(python(t, "from PIL import Image\nImage.new('RGB', (3, 4), 'red').show(title='r')\n"
                              "for mode in ('1', 'L', 'CMYK', 'RGBA', 'P', 'I', 'F'): Image.new(mode, (5, 6)).show()\n"), out="")
    t.equal(done.err, b"", "stderr")
    t.equal(summary(done)[0], ("pil", "png", "r"))
    t.equal([(p["width"], p["height"]) for p in plots(done)], [(3, 4)] + [(5, 6)] * 7)


# ---- R --------------------------------------------------------------------------------------------------------------

@case("R: base graphics, ggplot2 and lattice, one plot a page, and no Rplots.pdf", seconds=180)
def r(t):
    done = rscript(t, """
plot(1:3); lines(3:1)
par(mfrow = c(1, 2)); hist(c(1, 2, 2)); plot(2)
dev.off()
suppressMessages(library(ggplot2)); print(ggplot(mtcars, aes(mpg, hp)) + geom_point())
library(lattice); print(xyplot(hp ~ mpg, mtcars))
png("own.png"); plot(1); invisible(dev.off())
barplot(1:3)
cat(list.files(), "\\n")
""")
    t.expect(done, out="null device \n          1 \nmain.R own.png \n")
    t.equal(done.err, b"", "stderr")
    t.equal(summary(done), [("r", "png", None)] * 5)
    t.equal([p["index"] for p in plots(done)], [1, 2, 3, 4, 5])
    t.equal(len({p["sha256"] for p in plots(done)}), 5, "different pictures")
    t.equal([a["path"] for a in done.result["artifacts"]], ["own.png"])


@case("R: an error keeps the pages so far, and a workspace's own .Rprofile is read", seconds=120)
def r_error(t):
    t.file("proj/.Rprofile", "mine <- 42\n")
    t.file("proj/main.R", "cat(mine, '\\n')\nplot(1)\nstop('end')\n")
    if not harness.have("Rscript"):
        raise Skip("needs Rscript")
    done = t.sbx("run", "--workspace", ".", "main.R", result=True, cwd=t.dir / "proj")
    t.expect(done, status=1, out="42 \n", err="Error: end")
    t.equal(summary(done), [("r", "png", None)])


# ---- everywhere -----------------------------------------------------------------------------------------------------

@case("with --artifacts plots are copied to sbx-plots, owned by the caller, and the result names them", seconds=120)
def copied(t):
    needs("matplotlib")
    done = t.expect(python(t, MPL + "plt.plot([1]); plt.savefig('a.png'); plt.show()", "--artifacts", "out"))
    plot = plots(done)[0]
    t.equal((plot["file"], plot["data"]), ("sbx-plots/001.png", None))
    path = t.dir / "out" / plot["file"]
    t.equal(hashlib.sha256(path.read_bytes()).hexdigest(), plot["sha256"])
    t.equal((os.stat(path).st_uid, os.stat(path).st_mode & 0o7777), (t.identity.uid, 0o644))
    t.true((t.dir / "out/a.png").exists(), "the saved file is an artifact")


@case("with --no-plots, or when nobody asked for a result, there is no trace of the hooks")
def off(t):
    code = "import os, sys\nprint(os.path.exists('/run/sbx/hooks'), os.path.exists('/run/sbx/plots'), 'PYTHONPATH' in os.environ)"
    t.expect(python(t, code, "--no-plots"), out="False False False\n")
    t.expect(t.sbx("run", "--toolchain", PYTHON, "main.py"), out="False False False\n")
    # The control: with it there are.
    t.expect(python(t, code), out="True True True\n")


@case("the program's import path, its PYTHONPATH, its own sitecustomize and usercustomize are as without hooks")
def transparent(t):
    t.file("proj/lib/sitecustomize.py", "import sys\nsys.mine = __file__\n")
    t.file("proj/main.py", "import sys\nprint(sys.path, getattr(sys, 'mine', None), sorted(sys.modules))")
    outputs = []
    for flag in ((), ("--no-plots",)):
        for env in ((), ("--env", "PYTHONPATH=/box/lib:/box/more")):
            done = t.expect(t.sbx("run", "--toolchain", PYTHON, "--workspace", ".", *flag, *env, "main.py", result=True, cwd=t.dir / "proj"))
            outputs.append(done.out)
    t.match(outputs[1].decode(), "/box/lib/sitecustomize.py", "the program's own sitecustomize")
    t.equal(outputs[1], outputs[3], "with PYTHONPATH")
    t.equal(outputs[0].replace(b"'sitecustomize', ", b""), outputs[2].replace(b"'sitecustomize', ", b""), "without")


@case("a sitecustomize that fails fails as without hooks")
def failing_sitecustomize(t):
    t.file("proj/lib/sitecustomize.py", "raise ValueError('broken')\n")
    t.file("proj/main.py", "print('ran')")
    said = []
    for flag in ((), ("--no-plots",)):
        done = t.expect(t.sbx("run", "--toolchain", PYTHON, "--workspace", ".", *flag, "--env", "PYTHONPATH=/box/lib", "main.py",
                              result=True, cwd=t.dir / "proj"), out="ran\n")
        said.append(done.err)
    t.equal(said[0], said[1], "stderr")


@case("what a program puts in the folder of plots by itself is looked at as hostile")
def hostile(t):
    done = python(t, """
import os
os.chdir("/run/sbx/plots")
png = b"\\x89PNG\\r\\n\\x1a\\n" + b"0" * 20
open("mine.png", "wb").write(png)
open(b"1.0.matplotlib.%0a%1b[31m\\xff", "wb").write(png)
os.symlink("/etc/passwd", "2.0.matplotlib.link")
os.mkfifo("3.0.matplotlib.fifo")
open("4.0.matplotlib.page.html", "w").write("just text")
open("5.0.matplotlib.locked", "wb").write(png); os.chmod("5.0.matplotlib.locked", 0)
os.link("mine.png", "6.0.r.hard link")
os.mkdir("7.0.matplotlib.dir")
with open("8.0.r.huge", "wb") as file: file.write(b"\\x89PNG\\r\\n\\x1a\\n"); file.truncate(200 << 20)
os.chmod(".", 0)
""", "--artifacts", "out")
    t.expect(done)
    found = [(p["library"], p["format"]) for p in plots(done, dropped=True)]
    t.equal(found, [("matplotlib", "png"), ("matplotlib", "png"), ("r", "png"), (None, "png")])
    t.match(" ".join(done.result["plots_dropped"]), r": 4, the first .*beyond 64M altogether: 1, the first", "plots_dropped")
    t.true(b"\x1b[31m" not in done.err, "an escape sequence of a name reached the terminal")
    for path in (t.dir / "out/sbx-plots").iterdir():
        t.true(path.is_file() and not path.is_symlink(), f"{path}")


@case("more plots than the bounds: the first hundred come, the rest is counted", seconds=180)
def many(t):
    needs("PIL")
    done = t.expect(python(t, "from PIL import Image\nim = Image.new('L', (2, 2))\nfor n in range(130): im.show()\n"))
    t.equal(len(plots(done, dropped=True)), 100)
    t.match(" ".join(done.result["plots_dropped"]), ": 30, the first", "plots_dropped")


@case("a full disk costs the plot, not the program, and is said", seconds=120)
def full(t):
    needs("PIL")
    done = t.expect(python(t, "from PIL import Image\nimport os\n"
                              "f = os.open('fill', os.O_WRONLY | os.O_CREAT)\ntry:\n  while True: os.write(f, bytes(65536))\nexcept OSError: pass\n"
                              "Image.frombytes('RGB', (100, 100), os.urandom(30000)).show()\nprint('went on')", "--disk", "8M"), out="went on\n")
    t.equal(plots(done, dropped=True), [])
    t.true(done.result["plots_dropped"], "nothing is said of the plot that was lost")


@case("the hooks are valid in the oldest Python that they promise")
def old_python(t):
    import ast
    for name in ("sitecustomize.py", "python_display.py"):
        ast.parse((HOOKS / name).read_text(), feature_version=(3, 6))
