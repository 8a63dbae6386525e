"""What a session has of IPython: its shell, where it is installed and a cell asks for it; a stand-in, where it is not. And the
hooks that collect plots."""
import builtins
import os
import sys
import types


def install(session):
    """Called once, before the first cell."""
    if not session.once:  # a run collects plots by the hooks of its own
        watch_plots(session)
    sys.meta_path.insert(0 if session.mode == "never" else len(sys.meta_path), StandIn(session))


# ---- plots ----------------------------------------------------------------------------------------------------------

class Hooks:
    """The module python_display, read when a plotting library is."""

    def __init__(self, session):
        self.session = session

    def __getattr__(self, name):
        module = self.session.load("python_display")
        module.sink = self.session.plot
        self.session.display_hooks = module
        self.__dict__.update({"loading": module.loading, "loaded": module.loaded})
        return getattr(module, name)


def watch_plots(session):
    session.load("sitecustomize").watch([Hooks(session)])


# ---- IPython, where it is not installed -----------------------------------------------------------------------------

class Shown:
    """A value of one form: IPython.display.HTML and its like."""
    kind, method = "text/plain", None

    def __init__(self, data=None, url=None, filename=None, metadata=None, **keywords):
        if isinstance(data, os.PathLike):
            filename, data = os.fspath(data), None
        if isinstance(data, str) and filename is None and url is None and len(data) < 4096 and self.reads_files and os.path.isfile(data):
            filename, data = data, None
        if isinstance(data, str) and data.startswith(("http://", "https://")) and self.reads_files:
            url, data = data, None
        if filename is not None:
            with open(filename, "rb") as file:
                data = file.read()
            if not self.reads_files:
                data = data.decode("utf-8", "replace")
        self.data, self.url, self.filename, self.metadata, self.keywords = data, url, filename, metadata, keywords

    reads_files = False

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {self.kind: self.data, "text/plain": repr(self)}, {self.kind: self.metadata} if self.metadata else {}

    def __repr__(self):
        return "<IPython.core.display.%s object>" % type(self).__name__


def shown(name, kind):
    return type(name, (Shown,), {"kind": kind})


class JSON(Shown):
    kind = "application/json"

    def __init__(self, data=None, url=None, filename=None, expanded=False, metadata=None, root="root", **keywords):
        super().__init__(data, url, filename, dict(metadata or {}, expanded=expanded, root=root), **keywords)
        if isinstance(self.data, str):
            import json
            self.data = json.loads(self.data)


class Image(Shown):
    reads_files = True

    def __init__(self, data=None, url=None, filename=None, format=None, embed=None, width=None, height=None, retina=False,
                 unconfined=False, metadata=None, alt=None):
        super().__init__(data, url, filename, metadata)
        self.width, self.height = width, height

    def _repr_mimebundle_(self, include=None, exclude=None):
        size = {name: value for name, value in (("width", self.width), ("height", self.height)) if value is not None}
        if self.data is None:
            return {"text/html": '<img src="%s"%s/>' % (self.url, "".join([' %s="%s"' % pair for pair in size.items()])),
                    "text/plain": repr(self)}
        data = self.data if isinstance(self.data, bytes) else self.data.encode("utf-8", "replace")
        for start, kind in ((b"\x89PNG", "image/png"), (b"\xff\xd8", "image/jpeg"), (b"GIF8", "image/gif"), (b"RIFF", "image/webp"),
                            (b"", "image/png")):
            if data.startswith(start):
                break
        return {kind: data, "text/plain": repr(self)}, {kind: size} if size else {}


class Code(Shown):
    kind = "text/plain"

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": self.data}

    def __repr__(self):
        return str(self.data)


class IFrame:
    def __init__(self, src, width, height, extras=None, **keywords):
        self.src, self.width, self.height = src, width, height

    def _repr_html_(self):
        return '<iframe width="%s" height="%s" src="%s" frameborder="0" allowfullscreen></iframe>' % (self.width, self.height, self.src)


def module_of(name, session):
    module = types.ModuleType(name)
    if name == "IPython":
        module.get_ipython, module.version_info, module.__version__ = session.get_ipython, (8, 24, 0), "8.24.0"
        module.__path__ = []
    elif name == "IPython.display":
        for class_name, kind in (("HTML", "text/html"), ("Markdown", "text/markdown"), ("Latex", "text/latex"), ("Math", "text/latex"),
                                 ("SVG", "image/svg+xml"), ("Javascript", "application/javascript"), ("Pretty", "text/plain"),
                                 ("Video", "text/html"), ("Audio", "text/html")):
            setattr(module, class_name, shown(class_name, kind))
        module.SVG.reads_files = True
        module.JSON, module.Image, module.Code, module.IFrame = JSON, Image, Code, IFrame
        module.DisplayHandle, module.DisplayObject = type(session.display(display_id="x")), Shown
        module.display, module.update_display, module.clear_output = session.display, session.update_display, session.clear_output
        for short, kind in (("html", "text/html"), ("markdown", "text/markdown"), ("latex", "text/latex"), ("svg", "image/svg+xml"),
                            ("png", "image/png"), ("jpeg", "image/jpeg"), ("json", "application/json"),
                            ("javascript", "application/javascript"), ("pretty", "text/plain")):
            def show(*objs, raw=False, metadata=None, include=None, kind=kind, **keywords):
                for obj in objs:
                    session.display({kind: obj} if raw else obj, raw=raw, metadata=metadata, include=None if raw else ["text/plain", kind])
            setattr(module, "display_" + short, show)
    elif name in ("IPython.core.getipython", "IPython.core"):
        module.get_ipython = session.get_ipython
        module.__path__ = []
    elif name == "IPython.core.pylabtools":
        module.backend2gui = {}  # of no use to matplotlib here; older ones look
    elif name == "IPython.core.display":
        module.__dict__.update({key: value for key, value in vars(sys.modules["IPython.display"]).items() if not key.startswith("__")})
    return module


class StandIn:
    """The last finder, asked only for what is not installed; the first, where IPython is not wanted."""
    NAMES = ("IPython", "IPython.display", "IPython.core", "IPython.core.display", "IPython.core.getipython", "IPython.core.pylabtools")

    def __init__(self, session):
        self.session = session

    def find_spec(self, name, path=None, target=None):
        if name not in self.NAMES or (name != "IPython" and not hasattr(sys.modules.get("IPython"), "__sbx__")):
            return None
        from importlib.machinery import ModuleSpec
        return ModuleSpec(name, self, is_package=name in ("IPython", "IPython.core"))

    def create_module(self, spec):
        if spec.name == "IPython.core.display":
            __import__("IPython.display")
        module = module_of(spec.name, self.session)
        module.__sbx__ = True
        return module

    def exec_module(self, module):
        if module.__name__ == "IPython":
            import importlib
            module.display = importlib.import_module("IPython.display")


# ---- IPython, where it is -------------------------------------------------------------------------------------------

def consider(session, source):
    """Before a cell: takes IPython's shell when the mode says so, or when the cell wants what only IPython has."""
    if session.mode == "always" or is_loaded() or wants_ipython(session, source):
        try:
            session.shell = make_shell(session)
        except ImportError:
            pass  # it is not installed
        if session.shell is None:
            session.mode = "never"


def is_loaded():
    module = sys.modules.get("IPython")
    return module is not None and not hasattr(module, "__sbx__")


def wants_ipython(session, source):
    names = ("IPython", "get_ipython", "ipywidgets")
    if any([name in source for name in names]):
        if any([token.kind == "name" and token.text in names for token in session.load_source().tokens(source)]):
            return True
    if "%" not in source or compiles(source):
        return False
    magics = session.get_ipython()
    known = set(magics.line_magics) - {"load_ext", "reload_ext", "unload_ext"}
    head = source.lstrip("\n")
    if head.startswith("%%"):
        return head[2:].split(None, 1)[0] not in magics.cell_magics if head[2:].strip() else False
    for token in session.load_source().tokens(source):
        if token.kind in ("magic", "value") and token.text.startswith("%"):
            if token.text[1:].split(" ")[0].strip("?\n") not in known:
                return True
    return False


def compiles(source):
    try:
        compile(source, "<cell>", "exec", getattr(__import__("ast"), "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0), True)
        return True
    except (SyntaxError, ValueError):
        return False


class Shell:
    """What a Session asks of IPython's InteractiveShell."""

    def __init__(self, session, shell):
        self.session, self.shell = session, shell

    def run(self, source, name, store):
        shell = self.shell
        shell.execution_count = self.session.count
        shell.compile.get_code_name = lambda *_: name
        result = shell.run_cell(source, store_history=store)
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            raise error

    def forms(self, obj, include=None, exclude=None):
        data, metadata = self.shell.display_formatter.format(obj, include=include, exclude=exclude)
        return (data, metadata) if data else None


def make_shell(session):
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Hook(DisplayHook):
        def write_output_prompt(self):
            pass

        def write_format_data(self, format_dict, md_dict=None):
            session.send_data("result", format_dict, md_dict, execution_count=session.count)

        def finish_displayhook(self):
            self._is_active = False

    class Publisher(DisplayPublisher):
        def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **_):
            name = (transient or {}).get("display_id")
            session.send_data("update" if update else "display", data, metadata, **({} if name is None else {"display_id": str(name)[:200]}))

        def clear_output(self, wait=False):
            session.clear_output(wait)

    class SessionShell(InteractiveShell):
        displayhook_class, display_pub_class = Hook, Publisher
        system = InteractiveShell.system_raw

        def showtraceback(self, exc_tuple=None, *_, **__):
            if exc_tuple is not None:  # in a formatter; that of the cell is in the last frame
                session.complain()

        def showsyntaxerror(self, *_, **__):
            pass

        showindentationerror = showsyntaxerror

        def enable_gui(self, gui=None):
            pass

        def ask_exit(self):
            raise SystemExit

    settings = Config()
    settings.HistoryManager.enabled = False
    settings.InteractiveShell.colors = "NoColor"
    settings.InteractiveShell.autoindent = False
    main, excepthook, displayhook = sys.modules["__main__"], sys.excepthook, sys.displayhook
    before, inputs, outputs = dict(session.space), session.inputs, session.outputs
    shell = SessionShell.instance(config=settings, user_module=session.module, user_ns=session.space)
    sys.excepthook, sys.displayhook, sys.modules["__main__"] = excepthook, displayhook, main
    import warnings
    warnings.filterwarnings("ignore", message="To exit: use")
    own = session.get_ipython()
    shell.kernel = own.kernel
    shell.loop_runner = session.wait_for
    shell.loop_runner_map["asyncio"] = (session.wait_for, True)
    for name in ("pip", "conda", "mamba", "micromamba", "uv", "matplotlib", "pylab"):
        shell.register_magic_function(own.line_magics[name], "line", name)
    shell.register_magic_function(lambda line: shell.run_line_magic("sx", line), "line", "system")
    shell.display_formatter.formatters["image/png"].for_type_by_name(
        "matplotlib.figure", "Figure", lambda figure: session.display_hooks and session.display_hooks.picture_of(figure))
    # What the session has kept so far.
    history = shell.history_manager
    history.input_hist_parsed[:] = history.input_hist_raw[:] = inputs[:session.count]
    history.output_hist.update(outputs)
    for name, value in session.last_values.items():
        setattr(shell.displayhook, name, value)
    for name in ("_", "__", "___"):
        session.space[name] = session.last_values[name]
    for name in ("exit", "quit"):  # it hides the builtins
        session.space[name] = before.get(name, getattr(builtins, name))
        if name not in before:
            shell.user_ns_hidden[name] = session.space[name]
    session.inputs, session.outputs = history.input_hist_parsed, history.output_hist
    session.hidden |= set(session.space) - set(before)
    return Shell(session, shell)
