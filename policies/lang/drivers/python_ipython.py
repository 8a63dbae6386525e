"""What a session has of IPython: its shell, where it is installed and a cell asks for it; a stand-in, where it is not. And the
hooks that collect plots."""
import builtins
import os
import sys
import types


def install(session):
    """Called once, before the first cell."""
    if not session.once or not os.environ.get("SBX_PLOTS"):
        watch_plots(session)
    sys.meta_path.append(StandIn(session))


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

    def __init__(self, data=None, *arguments, **keywords):
        super().__init__(data, *arguments, **keywords)
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
        kind = {"png": "image/png"}.get("", None)
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
        module.get_ipython, module.version_info, module.__version__ = session.get_ipython, (0, 0, 0), "0.0.0"
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
    elif name == "IPython.core.display":
        module.__dict__.update({key: value for key, value in vars(sys.modules["IPython.display"]).items() if not key.startswith("__")})
    return module


class StandIn:
    """The last finder: asked only for what is not installed."""
    NAMES = ("IPython", "IPython.display", "IPython.core", "IPython.core.display", "IPython.core.getipython")

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
    """Whether this cell is IPython's to run."""
