"""What a Python program shows, written to the folder SBX_PLOTS, one file a form of a plot:

    ORDER.FORM.LIBRARY.TITLE    ORDER sorts by time and is the same for all forms of one plot; TITLE is percent-encoded

Every file appears whole, by rename. An empty file, or one whose name begins with a dot, stands for a plot that could
not be kept. Nothing here prints or raises: a program runs as it would without. Works with Python 3.6 and later.

matplotlib  Each figure is one plot. Shown by show(): a PNG of what a window would have shown, after which the figure is
            closed, as by a user who closes the window. Only saved: a copy of the saved file. Neither, and left open at
            the end: a PNG. Cleared and drawn anew, it is a new figure.
plotly      show(), write_html(), write_image(): a figure is one plot, HTML and JSON.
PIL         Image.show(): a PNG for each call.

In a session no file is written: `sink` is told, and each cell ends as a program does.
"""
import atexit
import functools
import io
import itertools
import os
import sys
import threading
import time
import weakref

FOLDER = os.environ.get("SBX_PLOTS", "")
MOST_PLOTS = 100
MOST_BYTES = 64 << 20

sink = None  # of a session: called with Slot, forms and title in place of writing files

_numbers = itertools.count(1)
_written = {}  # name → size, of this process


class Slot:
    """One plot: where its files go, and how good what lies there is."""

    def __init__(self, library):
        self.library = library
        self.order = "%020d-%d-%d" % (time.time_ns() if hasattr(time, "time_ns") else int(time.time() * 1e9), os.getpid(),
                                      next(_numbers))
        self.rank = -1
        self.names = []  # one for each form
        self.text = ""   # what stands for it where there are no pictures

    def write(self, forms, title=""):
        """forms: bytes each, the preferred one first; None: it could not be drawn."""
        if sink is not None:
            return sink(self, forms, title)
        from urllib.parse import quote
        if not self.names and len(_written) >= 10 * MOST_PLOTS:
            return  # a flood: no further names either
        room = MOST_BYTES - sum(size for name, size in _written.items() if name not in self.names)
        if not forms or sum(map(len, forms)) > room or len(_written) - len(self.names) >= MOST_PLOTS:
            forms = [b""]
        title = quote(str(title or "").strip()[:80], safe="")[:160]
        names = []
        for number, data in enumerate(forms):
            hidden = os.path.join(FOLDER, ".%s.%d" % (self.order, number))
            try:
                with open(hidden, "wb") as file:
                    file.write(data)
            except OSError:
                open(hidden, "wb").close()  # the room is the program's
                raise
            names.append("%s.%d.%s.%s" % (self.order, number, self.library, title))
            os.rename(hidden, os.path.join(FOLDER, names[-1]))
            _written[names[-1]] = len(data)
        for name in self.names:
            if name not in names:
                del _written[name]
                os.unlink(os.path.join(FOLDER, name))
        self.names = names


def quietly(function):
    """A function whose failure the program does not notice."""
    @functools.wraps(function)
    def call(*args, **keywords):
        try:
            return function(*args, **keywords)
        except Exception:
            return None
    return call


def loading(name):
    """Called before the code of a module that is watched."""
    if name == "matplotlib.font_manager":
        seed_fonts()


def loaded(module):
    """Called once for each module that is watched, right after its code has run."""
    if (FOLDER or sink) and module.__name__ != "matplotlib.font_manager":
        {"matplotlib.backend_bases": backend_bases_loaded, "matplotlib.figure": figure_loaded,
         "matplotlib.pyplot": pyplot_loaded, "plotly.io._renderers": plotly_renderers_loaded,
         "plotly.io._html": plotly_writer_loaded, "plotly.io._kaleido": plotly_writer_loaded,
         "PIL.ImageShow": image_show_loaded}[module.__name__](module)


# ---- once for an interpreter ----------------------------------------------------------------------------------------

def prepare(target, folders=None):
    """Fills the folder that is then shown in place of the one that holds this file."""
    import py_compile
    sources = [os.path.join(folder, name) for folder in folders or [os.path.dirname(os.path.abspath(__file__))]
               for name in sorted(os.listdir(folder)) if name.endswith(".py")]
    for source in sources:
        name = os.path.basename(source)
        with open(source, "rb") as file, open(os.path.join(target, name), "wb") as copy:
            copy.write(file.read())
        if hasattr(py_compile, "PycInvalidationMode"):  # Python 3.7; a time stamp would not survive the copying
            import importlib.util
            compiled = os.path.join(target, os.path.relpath(importlib.util.cache_from_source(source), os.path.dirname(source)))
            py_compile.compile(source, compiled, source, True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    if not os.environ.get("SBX_THOROUGH"):
        return
    try:
        os.environ["MPLCONFIGDIR"] = os.path.join(target, "matplotlib")
        __import__("matplotlib.font_manager")
    except Exception:
        pass  # not installed


def seed_fonts():
    import matplotlib
    fonts = os.path.join(os.path.dirname(os.path.abspath(__file__)), "matplotlib")
    for name in os.listdir(fonts) if os.path.isdir(fonts) else []:
        target = os.path.join(matplotlib.get_cachedir(), name)
        if name.startswith("fontlist") and not os.path.lexists(target):
            with open(os.path.join(fonts, name), "rb") as file, open(target, "wb") as copy:
                copy.write(file.read())


# ---- matplotlib -----------------------------------------------------------------------------------------------------

SHOWN = 10
# Saved in several formats, the best of these is the plot. What is not here is drawn as PNG, or is no picture.
SAVED = {"png": 3, "jpg": 3, "jpeg": 3, "webp": 3, "gif": 3, "svg": 2, "pdf": 1}
REDRAWN = {"eps", "ps", "pgf", "tif", "tiff", "svgz"}

_figures = weakref.WeakKeyDictionary()  # figure → Slot
_live = weakref.WeakSet()               # shown without waiting: drawn again when they close
_own = threading.local()                 # .drawing: what is saved now, is saved by us


def slot_of(figure):
    slot = _figures.get(figure)
    if slot is None:
        slot = _figures[figure] = Slot("matplotlib")
    return slot


def title_of(figure):
    suptitle = getattr(figure, "_suptitle", None)
    if suptitle is not None and suptitle.get_text():
        return suptitle.get_text()
    return next((axes.get_title() for axes in figure.axes if axes.get_title()), "")


@quietly
def draw(figure, rank):
    if len(figure.get_children()) < 2:
        return  # nothing but the background
    slot = slot_of(figure)
    slot.rank, slot.text = rank, repr(figure)
    data = None
    try:
        data = png_of(figure)
    finally:
        slot.write([data] if data else None, title_of(figure))


def png_of(figure):
    was_drawing, _own.drawing = getattr(_own, "drawing", False), True
    try:
        import warnings
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for keywords in ({"bbox_inches": "tight"}, {}):
                buffer = io.BytesIO()
                try:
                    figure.savefig(buffer, format="png", dpi="figure", **keywords)
                    return buffer.getvalue()
                except Exception:
                    continue
    finally:
        _own.drawing = was_drawing
    return None


def read_whole(path):
    with open(path, "rb") as file:
        return file.read(MOST_BYTES + 1)


@quietly
def saved(figure, target, start, kind):
    slot = slot_of(figure)
    if isinstance(target, (str, bytes, os.PathLike)):
        path = os.fsdecode(target)
        kind = kind or os.path.splitext(path)[1][1:]
        if not kind:
            kind = figure.canvas.get_default_filetype()
            path = path.rstrip(".") + "." + kind
        rank = SAVED.get(kind.lower(), -1)
        if rank >= slot.rank and rank >= 0:
            slot.write([read_whole(path)], title_of(figure))
            slot.rank = rank
            return
    else:
        kind = kind or figure.canvas.get_default_filetype()
        rank = SAVED.get(kind.lower(), -1)
        if rank >= slot.rank and rank >= 0 and hasattr(target, "getbuffer"):
            slot.write([bytes(target.getbuffer()[start:])], title_of(figure))
            slot.rank = rank
            return
        if rank >= 0:
            kind = "ps"  # a stream that cannot be read back
    if slot.rank < 0 and kind.lower() in REDRAWN:
        draw(figure, 0)


def backend_bases_loaded(module):
    original = module.FigureCanvasBase.print_figure

    @functools.wraps(original)
    def print_figure(self, filename, *args, **keywords):
        if getattr(_own, "drawing", False):
            return original(self, filename, *args, **keywords)
        try:
            start = filename.tell() if hasattr(filename, "getbuffer") else 0
        except Exception:
            start = 0
        _own.drawing = True
        try:
            result = original(self, filename, *args, **keywords)
        finally:
            _own.drawing = False
        saved(self.figure, filename, start, keywords.get("format") or (args[4] if len(args) > 4 else None))
        return result

    module.FigureCanvasBase.print_figure = print_figure


def figure_loaded(module):
    Figure = module.Figure

    def renewing(original):
        @functools.wraps(original)
        def clear(self, *args, **keywords):
            if self not in _live:
                _figures.pop(self, None)
            return original(self, *args, **keywords)
        return clear

    for owner in {Figure, getattr(module, "FigureBase", Figure)}:
        for name in {"clear", "clf"} & set(vars(owner)):
            setattr(owner, name, renewing(vars(owner)[name]))

    original_show = Figure.show

    @functools.wraps(original_show)
    def show(self, warn=True):
        if self.canvas.manager is None:
            return original_show(self, warn)
        show_live(self)

    Figure.show = show


def show_live(figure):
    """Without waiting: the program may go on drawing, so this picture is not the last."""
    if figure not in _live:
        _live.add(figure)
        draw(figure, SHOWN)


def open_figures():
    from matplotlib._pylab_helpers import Gcf
    return [manager.canvas.figure for manager in Gcf.get_all_fig_managers()]


@quietly
def finish():
    """The end of a program: draws what was left open."""
    for figure in open_figures():
        if figure in _live or figure not in _figures or _figures[figure].rank < 0:
            draw(figure, SHOWN)


@quietly
def cell_done():
    """The end of a cell of a session: what is open is shown, and closed as by a user who goes on to the next one."""
    if "matplotlib.pyplot" in sys.modules:
        finish()
        _live.clear()
        from matplotlib._pylab_helpers import Gcf
        Gcf.destroy_all()


@quietly
def picture_of(figure):
    """The value of a cell is a figure: it need not be shown once more at the end."""
    data = png_of(figure)
    slot_of(figure).rank = SHOWN
    return data


def pyplot_loaded(module):
    last = []
    original_show, original_close, original_savefig = module.show, module.close, module.savefig

    @functools.wraps(original_show)
    def show(*args, **keywords):
        block = keywords.get("block", args[0] if args else None)
        figures = open_figures()
        if block is False or (block is None and module.isinteractive()):
            for figure in figures:
                show_live(figure)
            return
        for figure in figures:
            _live.discard(figure)
            draw(figure, SHOWN)
        last[:] = figures[-1:]
        original_close("all")

    @functools.wraps(original_close)
    def close(*args, **keywords):
        for figure in open_figures():
            if figure in _live:
                _live.discard(figure)
                draw(figure, SHOWN)
        return original_close(*args, **keywords)

    @functools.wraps(original_savefig)
    def savefig(*args, **keywords):
        # After show() there is no current figure any more, and a new one would be empty.
        if last and not module.get_fignums():
            return last[0].savefig(*args, **keywords)
        return original_savefig(*args, **keywords)

    module.show, module.close, module.savefig = show, close, savefig
    # Registered after pyplot's own, which closes all figures, and so called before it.
    atexit.register(finish)


# ---- plotly ---------------------------------------------------------------------------------------------------------

_plotly = {}  # id → (weak reference, Slot): figures of plotly compare by value and have no hash


@quietly
def plotly_figure(figure):
    import plotly.graph_objects as go
    import plotly.io as pio
    from plotly.basedatatypes import BaseFigure
    if not isinstance(figure, BaseFigure):
        figure = go.Figure(figure)
    known = _plotly.get(id(figure))
    if known is None or known[0]() is not figure:
        known = _plotly[id(figure)] = (weakref.ref(figure), Slot("plotly"))
    # Without the script of 4 to 9 MB, which a browser fetches; the JSON needs nobody else's server.
    html = pio.to_html(figure, include_plotlyjs="cdn", validate=False)
    known[1].write([html.encode("utf-8", "replace"), pio.to_json(figure, validate=False).encode("utf-8", "replace")],
                   figure.layout.title.text)


def plotly_renderers_loaded(module):
    @functools.wraps(module.show)
    def show(fig, *args, **keywords):
        plotly_figure(fig)

    module.show = show


def plotly_writer_loaded(module):
    def keeping(original):
        @functools.wraps(original)
        def write(fig, *args, **keywords):
            result = original(fig, *args, **keywords)
            plotly_figure(fig)
            return result
        return write

    for name in ("write_html", "write_image"):
        if name in vars(module):
            setattr(module, name, keeping(vars(module)[name]))


# ---- PIL ------------------------------------------------------------------------------------------------------------

def image_show_loaded(module):
    class Viewer(module.Viewer):
        format = "PNG"
        options = {"compress_level": 1}

        def show_image(self, image, **options):
            self.keep(image, options.get("title"))
            return 1

        @quietly
        def keep(self, image, title):
            buffer = io.BytesIO()
            image.save(buffer, "PNG", compress_level=6)
            Slot("pil").write([buffer.getvalue()], title)

    module.register(Viewer, 0)


if __name__ == "__main__":
    prepare(sys.argv[1])
