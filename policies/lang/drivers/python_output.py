"""What a value looks like: text as people expect it from a notebook, and all its other forms, ready for a frame."""
import types
from binascii import b2a_base64

MOST_BYTES = 8 << 20   # of one form
MOST_TEXT = 1 << 20    # of text/plain, in characters
MOST_DEPTH = 60
MOST_VALUES = 100000   # in JSON of one form
MOST_KEYS = 4000       # of one object
MOST_FORMS = 60
WIDTH = 79
MOST_ITEMS = 1000


# ---- pretty printing ------------------------------------------------------------------------------------------------

class Group:
    def __init__(self, depth):
        self.depth, self.broken = depth, False


class Break:
    def __init__(self, separator, indentation, group):
        self.separator, self.indentation, self.group = separator, indentation, group


class Indent:
    def __init__(self, enter, leave):
        self.enter, self.leave = enter, leave

    def __enter__(self):
        self.enter()

    def __exit__(self, *_):
        self.leave()


class Printer:
    """Oppen's pretty printer with consistent breaks: a group that does not fit on the line has all its breaks become
    line ends, outer groups first. Its methods are those that _repr_pretty_() expects."""

    def __init__(self, width=WIDTH):
        self.max_width, self.max_seq_length, self.verbose = width, MOST_ITEMS, False
        self.indentation = 0
        self.parts, self.column = [], 0
        self.waiting, self.waiting_width = [], 0
        self.groups = [Group(0)]
        self.inside = []

    def text(self, text):
        if self.waiting:
            self.waiting.append(text)
            self.waiting_width += len(text)
            self._make_room()
        else:
            self.parts.append(text)
            self.column += len(text)

    def breakable(self, sep=" "):
        group = self.groups[-1]
        if group.broken:
            self.flush()
            self._end_line(self.indentation)
        else:
            self.waiting.append(Break(sep, self.indentation, group))
            self.waiting_width += len(sep)
            self._make_room()

    def break_(self):
        group = self._outermost()
        if group is not None:
            self._break(group)
        self.flush()
        self._end_line(self.indentation)

    def begin_group(self, indent=0, open=""):
        if open:
            self.text(open)
        self.groups.append(Group(self.groups[-1].depth + 1))
        self.indentation += indent

    def end_group(self, dedent=0, close=""):
        self.indentation -= dedent
        self.groups.pop()
        if close:
            self.text(close)

    def group(self, indent=0, open="", close=""):
        return Indent(lambda: self.begin_group(indent, open), lambda: self.end_group(indent, close))

    def indent(self, indent):
        def shift(by):
            self.indentation += by
        return Indent(lambda: shift(indent), lambda: shift(-indent))

    def flush(self):
        for item in self.waiting:
            self._put(item)
        self.waiting, self.waiting_width = [], 0

    def _end_line(self, indentation):
        self.parts.append("\n" + " " * indentation)
        self.column = indentation

    def _put(self, item):
        if not isinstance(item, Break):
            self.parts.append(item)
            self.column += len(item)
        elif item.group.broken:
            self._end_line(item.indentation)
        else:
            self.parts.append(item.separator)
            self.column += len(item.separator)

    def _outermost(self):
        found = None
        for item in self.waiting:
            if isinstance(item, Break) and (found is None or item.group.depth <= found.depth):
                found = item.group
        return found

    def _break(self, group):
        group.broken = True
        for outer in self.groups:  # without a break so far; they do not fit either
            if outer.depth < group.depth:
                outer.broken = True
        last = max(i for i, item in enumerate(self.waiting) if isinstance(item, Break) and item.group is group)
        while last + 1 < len(self.waiting) and not isinstance(self.waiting[last + 1], Break):
            last += 1
        for item in self.waiting[:last + 1]:
            self._put(item)
        del self.waiting[:last + 1]
        self.waiting_width = sum(len(item.separator if isinstance(item, Break) else item) for item in self.waiting)

    def _make_room(self):
        while self.column + self.waiting_width > self.max_width:
            group = self._outermost()
            if group is None:
                return
            self._break(group)

    def _enumerate(self, items):
        for number, item in enumerate(items):
            if self.max_seq_length and number >= self.max_seq_length:
                self.text(",")
                self.breakable()
                self.text("...")
                return
            yield number, item

    def pretty(self, obj):
        cycle = id(obj) in self.inside
        self.inside.append(id(obj))
        self.begin_group()
        try:
            self._printer(type(obj))(obj, self, cycle)
        finally:
            self.end_group()
            self.inside.pop()

    def _printer(self, kind):
        if kind in PRINTERS:
            return PRINTERS[kind]
        for base in type.__dict__["__mro__"].__get__(kind):
            if base in PRINTERS:
                return PRINTERS[base]
            key = (getattr(base, "__module__", None), base.__name__)
            if isinstance(key[0], str) and key in PRINTERS_BY_NAME:
                return PRINTERS_BY_NAME[key]
            if "_repr_pretty_" in base.__dict__:
                method = base._repr_pretty_
                if callable(method):
                    return method
            if base is not object and callable(base.__dict__.get("__repr__")):
                return as_repr
        return as_default


def as_repr(obj, p, _cycle):
    lines = repr(obj).splitlines() or [""]
    p.begin_group()
    for number, line in enumerate(lines):
        if number:
            p.break_()
        p.text(line)
    p.end_group()


def as_default(obj, p, _cycle):
    p.begin_group(1, "<")
    p.pretty(type(obj))
    p.text(" at 0x%x" % id(obj))
    p.end_group(1, ">")


def as_sequence(open, close):
    def show(obj, p, cycle):
        if cycle:
            return p.text(open + "..." + close)
        p.begin_group(len(open), open)
        for number, item in p._enumerate(obj):
            if number:
                p.text(",")
                p.breakable()
            p.pretty(item)
        if len(obj) == 1 and type(obj) is tuple:
            p.text(",")
        p.end_group(len(open), close)
    return show


def as_set(open, close, empty):
    def show(obj, p, cycle):
        if not obj:
            return p.text(empty)
        if cycle:
            return p.text(open + "..." + close)
        items = obj
        if len(obj) <= MOST_ITEMS:
            try:
                items = sorted(obj)
            except Exception:
                try:
                    items = sorted(obj, key=lambda item: (type(item).__name__, repr(item)))
                except Exception:
                    items = list(obj)
        p.begin_group(len(open), open)
        for number, item in p._enumerate(items):
            if number:
                p.text(",")
                p.breakable()
            p.pretty(item)
        p.end_group(len(open), close)
    return show


def as_dict(open, close):
    def show(obj, p, cycle):
        if cycle:
            return p.text("{...}")
        p.begin_group(len(open), open)
        for number, key in p._enumerate(obj):
            if number:
                p.text(",")
                p.breakable()
            p.pretty(key)
            p.text(": ")
            p.pretty(obj[key])
        p.end_group(len(open), close)
    return show


def as_call(arguments):
    """NAME(ARGUMENTS…), of which those that are pairs have names."""
    def show(obj, p, cycle):
        name = type(obj).__name__ if type(obj) is not types.SimpleNamespace else "namespace"
        p.begin_group(len(name) + 1, name + "(")
        if cycle:
            p.text("...")
        for number, argument in enumerate([] if cycle else arguments(obj)):
            if number:
                p.text(",")
                p.breakable()
            if isinstance(argument, Named):
                p.begin_group(len(argument.name) + 1, argument.name + "=")
                p.pretty(argument.value)
                p.end_group(len(argument.name) + 1)
            else:
                p.pretty(argument)
        p.end_group(len(name) + 1, ")")
    return show


class Named:
    def __init__(self, name, value):
        self.name, self.value = name, value


def as_type(obj, p, _cycle):
    if type(obj).__repr__ is not type.__repr__ and type(obj) is not type:
        for base in type(obj).__mro__:
            if base is type:
                break
            if "__repr__" in base.__dict__:
                return as_repr(obj, p, _cycle)
    module = getattr(obj, "__module__", None)
    name = getattr(obj, "__qualname__", obj.__name__)
    name = name if isinstance(name, str) else obj.__name__
    p.text(name if module in (None, "builtins") or not isinstance(module, str) else module + "." + name)


def as_function(obj, p, _cycle):
    import inspect
    name = getattr(obj, "__qualname__", obj.__name__)
    module = getattr(obj, "__module__", None)
    if module and module != "builtins":
        name = "%s.%s" % (module, name)
    try:
        name += str(inspect.signature(obj))
    except (ValueError, TypeError):
        pass
    p.text("<function %s>" % name)


def as_exception(obj, p, cycle):
    name = getattr(type(obj), "__qualname__", type(obj).__name__)
    if type(obj).__module__ not in ("exceptions", "builtins"):
        name = "%s.%s" % (type(obj).__module__, name)
    p.begin_group(len(name) + 1, name + "(")
    if cycle:
        p.text("...")
    for number, argument in enumerate([] if cycle else getattr(obj, "args", ())):
        if number:
            p.text(",")
            p.breakable()
        p.pretty(argument)
    p.end_group(len(name) + 1, ")")


def as_pattern(obj, p, _cycle):
    import re
    p.text("re.compile(")
    pattern = repr(obj.pattern)
    p.text("r" + (pattern[1:] if pattern[:1] in "uU" else pattern).replace("\\\\", "\\") if isinstance(obj.pattern, str) else pattern)
    flags = []
    for flag in ("TEMPLATE", "IGNORECASE", "LOCALE", "MULTILINE", "DOTALL", "UNICODE", "VERBOSE", "DEBUG"):
        bit = getattr(re, flag, 0)
        if flag != "UNICODE" and obj.flags & bit or flag == "UNICODE" and obj.flags & bit and isinstance(obj.pattern, str):
            flags.append("re." + flag)
    if flags:
        p.text(",")
        p.breakable()
        p.text("|".join(flags))
    p.text(")")


PRINTERS = {
    tuple: as_sequence("(", ")"), list: as_sequence("[", "]"), dict: as_dict("{", "}"),
    set: as_set("{", "}", "set()"), frozenset: as_set("frozenset({", "})", "frozenset()"),
    types.MappingProxyType: as_dict("mappingproxy({", "})"),
    type: as_type, types.FunctionType: as_function, types.BuiltinFunctionType: as_function,
    types.MethodType: as_repr, BaseException: as_exception, str: as_repr, int: as_repr, float: as_repr, type(None): as_repr,
    types.SimpleNamespace: as_call(lambda obj: [Named(name, value) for name, value in obj.__dict__.items()]),
}
PRINTERS_BY_NAME = {
    ("collections", "OrderedDict"): as_call(lambda obj: [list(obj.items())] if obj else []),
    ("collections", "defaultdict"): as_call(lambda obj: [obj.default_factory, dict(obj)]),
    ("collections", "Counter"): as_call(lambda obj: [dict(obj)] if obj else []),
    ("collections", "deque"): as_call(lambda obj: [list(obj)] + ([Named("maxlen", obj.maxlen)] if obj.maxlen is not None else [])),
    ("collections", "UserList"): as_call(lambda obj: [obj.data]),
    ("re", "Pattern"): as_pattern, ("_sre", "SRE_Pattern"): as_pattern,
}


def pretty(obj):
    printer = Printer()
    printer.pretty(obj)
    printer.flush()
    return "".join(printer.parts)


# ---- what goes into a frame -----------------------------------------------------------------------------------------

def clean_text(text):
    """Without what UTF-8 cannot say."""
    text = str.__str__(text)
    try:
        text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


def cut(text, most=MOST_TEXT):
    text = clean_text(text)
    if len(text) <= most:
        return text
    half = most // 2
    return "%s\n… %d characters are left out …\n%s" % (text[:half], len(text) - 2 * half, text[-half:])


class TooMuch(Exception):
    pass


def plain(value, depth=0, left=None):
    """The same value of plain types that any JSON reader can take: exact types, finite numbers, not deep, no cycles, bounded."""
    left = [MOST_VALUES] if left is None else left
    left[0] -= 1
    if left[0] < 0:
        raise TooMuch
    if isinstance(value, str):
        return clean_text(value)
    if value is None or value is True or value is False:
        return value
    if isinstance(value, int):
        value = int.__int__(value)
        if -(1 << 63) <= value < 1 << 63:
            return value
        return float(value) if abs(value) < 1 << 1000 else "<an integer of %d bits>" % value.bit_length()
    if isinstance(value, float):
        value = float.__float__(value)
        return value if value - value == 0 else None
    if depth >= MOST_DEPTH:
        return "…"
    if isinstance(value, dict):
        if dict.__len__(value) > MOST_KEYS:
            raise TooMuch
        return {clean_text(key if isinstance(key, str) else str(key)): plain(item, depth + 1, left)
                for key, item in list(dict.items(value))}
    if isinstance(value, (list, tuple)):
        return [plain(item, depth + 1, left) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return in_base64(bytes(value))
    for name in ("tolist", "isoformat"):  # numpy, datetime
        if callable(getattr(value, name, None)):
            return plain(getattr(value, name)(), depth + 1, left)
    return cut(str(value))


def in_base64(data):
    return b2a_base64(data, newline=False).decode("ascii")


def is_json(kind):
    return kind == "application/json" or kind.endswith("+json")


def is_text(kind):
    return kind.startswith("text/") or kind == "image/svg+xml" or kind in ("application/javascript", "application/x-latex")


def size_of(value):
    if isinstance(value, str):
        return len(value.encode("utf-8"))
    if isinstance(value, dict):
        return sum(size_of(key) + size_of(item) + 4 for key, item in value.items()) + 2
    if isinstance(value, list):
        return sum(map(size_of, value)) + len(value) + 2
    return 24


def clean_form(kind, content):
    """As a frame has it."""
    if is_json(kind):
        return plain(content)
    if isinstance(content, (bytes, bytearray)):
        return bytes(content).decode("utf-8", "backslashreplace") if is_text(kind) else in_base64(bytes(content))
    if isinstance(content, str) and kind != "text/plain":
        return clean_text(content)
    return cut(content if isinstance(content, str) else str(content))


def clean_bundle(data, room=15 << 20):
    """(MIME type → content as a frame has it, their bytes, how many were left out)"""
    result, dropped, total = {}, 0, 0
    for kind, content in list(data.items()):
        if not isinstance(kind, str) or "/" not in kind or len(kind) > 100 or content is None:
            continue
        kind = clean_text(kind)
        try:
            content = clean_form(kind, content)
            size = size_of(content)
        except (TooMuch, RecursionError):
            size = MOST_BYTES + 1
        if size > min(room - total, MOST_BYTES) or len(result) >= MOST_FORMS:
            dropped += 1
            continue
        total += size
        result[kind] = content
    return result, total, dropped


def kind_of(data):
    """The MIME type of a picture, or of what a plotting library writes."""
    for start, kind in ((b"\x89PNG\r\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"),
                        (b"%PDF", "application/pdf")):
        if data.startswith(start):
            return kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    head = data[:1000].lstrip().lower()
    if head.startswith((b"<?xml", b"<svg", b"<!doctype svg")) and b"<svg" in data[:4000].lower():
        return "image/svg+xml"
    if head.startswith(b"{"):
        return "application/json"
    return "text/html" if head.startswith(b"<") else "application/octet-stream"


# ---- the forms of a value -------------------------------------------------------------------------------------------

METHODS = [
    ("text/html", "_repr_html_"), ("text/markdown", "_repr_markdown_"), ("image/svg+xml", "_repr_svg_"),
    ("image/png", "_repr_png_"), ("application/pdf", "_repr_pdf_"), ("image/jpeg", "_repr_jpeg_"),
    ("text/latex", "_repr_latex_"), ("application/json", "_repr_json_"), ("application/javascript", "_repr_javascript_"),
]


def method_of(obj, name):
    """A method, not the attribute of an object that answers to every name, nor the function of a class."""
    try:
        if not isinstance(obj, type) and hasattr(obj, "_ipython_canary_method_should_not_exist_"):
            return None
        method = getattr(obj, name, None)
    except Exception:
        return None
    if isinstance(obj, type) and not isinstance(method, types.MethodType):
        return None
    return method if callable(method) else None


def forms_of(obj, complain, include=None, exclude=None, extra=None):
    """(data, metadata), or None when the object showed itself. complain(): called for an exception of the object's.
    extra(obj): forms that somebody else knows."""
    method = method_of(obj, "_ipython_display_")
    if method is not None:
        try:
            method()
            return None
        except NotImplementedError:
            pass
        except Exception:
            complain()
            return None
    data, metadata = {}, {}
    method = method_of(obj, "_repr_mimebundle_")
    if method is not None:
        try:
            found = method(include=include, exclude=exclude)
            if isinstance(found, tuple) and len(found) == 2:
                found, about = found
                metadata.update(about if isinstance(about, dict) else {})
            if isinstance(found, dict):
                data.update(found)
        except NotImplementedError:
            pass
        except Exception:
            complain()

    def wanted(kind):
        return kind not in data and (not include or kind in include) and (not exclude or kind not in exclude)

    if extra is not None:
        for kind, content in extra(obj).items():
            if wanted(kind):
                data[kind] = content
    for kind, name in METHODS:
        method = method_of(obj, name) if wanted(kind) else None
        if method is None:
            continue
        try:
            found = method()
        except NotImplementedError:
            continue
        except Exception:
            complain()
            continue
        if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], dict):
            found, metadata[kind] = found
        if found is not None:
            data[kind] = found
    if wanted("text/plain"):
        try:
            data["text/plain"] = pretty(obj)
        except NotImplementedError:
            pass
        except Exception:
            complain()
            data["text/plain"] = "<%s that cannot be shown>" % type(obj).__name__
    if include:
        data = {kind: content for kind, content in data.items() if kind in include}
    if exclude:
        data = {kind: content for kind, content in data.items() if kind not in exclude}
    return data, metadata
