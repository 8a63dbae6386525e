"""The Python of a session: reads cells from the host, runs them, and says what came of them (docs/session-protocol.md).

One process is the driver and the user's interpreter. So everything that a cell can replace is kept here by reference, every exception
of the user's code is caught where it may arise, and a child of a fork never gets to speak.
"""
import _ast as ast  # these with an underscore: less to load, and in C, so that no cell changes them
import builtins
import io
import linecache
import os
import sys
import traceback
import types
from _json import encode_basestring, scanstring
from _signal import SIG_DFL, SIG_IGN, SIGINT, SIGKILL
from _signal import signal as _signal
from _thread import RLock
from _thread import get_ident as _get_ident

PROTOCOL = 1
MOST_FRAME = 16 << 20
MOST_OUTPUTS = 1000      # of a cell
MOST_BYTES = 48 << 20    # of their forms
MOST_REMEMBERED = 1000   # values in Out, texts in In
FORKS_MS = 300           # which an interrupted cell's forks have
HERE = os.path.dirname(os.path.abspath(__file__))
TOP_LEVEL_AWAIT = getattr(ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0)
FUTURE = 0
for _name in __import__("__future__").all_feature_names:
    FUTURE |= getattr(__import__("__future__"), _name).compiler_flag
COROUTINE = 0x80 | 0x100 | 0x200

_read, _write, _getpid, _exit, _fstat, _dup2 = os.read, os.write, os.getpid, os._exit, os.fstat, os.dup2
_main_thread = _get_ident()
_getcwd = os.getcwd
_TracebackException, _compile, _eval, _input = traceback.TracebackException, compile, eval, input
_sys_modules, _exc_info = sys.modules, sys.exc_info


def encode(value):
    """JSON of plain values: no library that a cell could have changed."""
    if isinstance(value, str):
        return encode_basestring(value)
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ",".join([encode_basestring(key) + ":" + encode(item) for key, item in value.items()]) + "}"
    return "[" + ",".join([encode(item) for item in value]) + "]"


def decode(text):
    """A flat JSON object of texts, integers, true, false and null; anything else is a ValueError."""
    def skip(at):
        while text[at:at + 1] in (" ", "\n", "\r", "\t"):
            at += 1
        return at

    result, at = {}, skip(0)
    if text[at:at + 1] != "{":
        raise ValueError("not an object")
    at = skip(at + 1)
    if text[at:at + 1] == "}":
        return result
    while True:
        if text[at:at + 1] != '"':
            raise ValueError("no key")
        key, at = scanstring(text, at + 1, True)
        at = skip(at)
        if text[at:at + 1] != ":":
            raise ValueError("no value")
        at = skip(at + 1)
        if text[at:at + 1] == '"':
            result[key], at = scanstring(text, at + 1, True)
        else:
            end = at
            while text[end:end + 1] not in ("", ",", "}", " ", "\n", "\r", "\t"):
                end += 1
            word, at = text[at:end], end
            if word in ("true", "false", "null"):
                result[key] = {"true": True, "false": False, "null": None}[word]
            elif len(word) < 20:
                result[key] = int(word)
            else:
                raise ValueError("a number too long")
        at = skip(at)
        mark, at = text[at:at + 1], skip(at + 1)
        if mark == "}":
            return result
        if mark != ",":
            raise ValueError("neither , nor }")


if not TOP_LEVEL_AWAIT:
    def in_loop(codes, space):
        raise SyntaxError("top-level await needs Python 3.8")
else:
    async def in_loop(codes, space):
        value = None
        for code in codes:
            value = _eval(code, space)
            if code.co_flags & COROUTINE:
                value = await value
        return value


class Broken(Exception):
    """The stream to the host is not what it should be, or is gone."""


class Channel:
    def __init__(self, descriptor):
        self.descriptor, self.owner = descriptor, _getpid()
        self.lock = RLock()

    def read_exactly(self, count):
        parts = []
        while count:
            part = _read(self.descriptor, min(count, 1 << 20))
            if not part:
                return None
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def read(self):
        """The body of the next frame; None: the stream has ended."""
        head = self.read_exactly(8)
        if head is None:
            return None
        for byte in head:
            if byte not in b"0123456789abcdef":
                raise Broken
        size = int(head, 16)
        body = self.read_exactly(size) if size <= MOST_FRAME else None
        if body is None:
            raise Broken
        return body

    def receive(self):
        """A descriptor, which comes with a byte of its own."""
        try:
            os.close(os.dup(self.descriptor))
        except OSError:  # cells hold all that there may be: it takes the place of the stdin that was
            try:
                os.close(0)
            except OSError:
                pass
        import _socket
        channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, self.descriptor)
        try:
            _, passed, _, _ = channel.recvmsg(1, _socket.CMSG_SPACE(4), _socket.MSG_CMSG_CLOEXEC)
        finally:
            channel.detach()
            os.set_blocking(self.descriptor, True)  # socket.setdefaulttimeout() of a cell is for new sockets
        if not passed:
            raise Broken
        return int.from_bytes(passed[0][2][:4], sys.byteorder)

    def write(self, message):
        body = encode(message).encode("utf-8")
        if len(body) > MOST_FRAME:
            raise ValueError("a frame too long")
        data = b"%08x%s" % (len(body), body)
        if _getpid() != self.owner:
            return
        try:
            at = _write(self.descriptor, data)
            while at < len(data):
                at += _write(self.descriptor, data[at:])
        except OSError:
            _exit(70)


class Handle:
    """What display() returns for a display that can be changed."""

    def __init__(self, session, display_id):
        self._session, self.display_id = session, display_id

    def display(self, obj, **keywords):
        self._session.display(obj, display_id=self.display_id, **keywords)

    def update(self, obj, **keywords):
        self._session.update_display(obj, display_id=self.display_id, **keywords)

    def __repr__(self):
        return "<DisplayHandle display_id=%s>" % self.display_id


class Leave:
    """exit and quit."""

    def __init__(self, name):
        self.name = name

    def __call__(self, code=None):
        raise SystemExit(code)

    def __repr__(self):
        return "Use %s() to end this cell; the session and its state stay." % self.name


class Session:
    def __init__(self, channel, options, load):
        self.channel, self.load, self.output = channel, load, load("python_output")
        self.mode = options["--ipython"]
        self.once = "--once" in options
        self.count = 0                 # of cells that are numbered
        self.cell = self.token = None  # of the cell that runs
        self.seq = self.dropped = self.bytes = 0
        self.acknowledge = False
        self.interruptible = self.interrupted = False
        self.getpass_before = None
        self.lifeline = None           # a pipe that the cell's forks hold open
        self.show = ""                 # what a program of its own writes where it displays: "text", "marks"
        self.loop = self.task = None   # its event loop; the cell that awaits in it
        self.cancelled = False         # by an interrupt
        self.flags = 0
        self.shell = None              # IPython's, once it is used
        self.hidden = set()            # names of ours among the user's
        self.pending = {}              # plots that were saved and not shown: Slot → (forms, title)
        self.shown = set()
        self.sources = {}              # name → lines, of the cells that tracebacks may mention
        self.display_hooks = None
        self.fresh = True
        self.module = types.ModuleType("__main__")
        self.space = self.module.__dict__
        self.space["__builtins__"] = builtins
        self.inputs, self.outputs = [""], {}
        self.last_values = {"_": "", "__": "", "___": ""}
        self.prompt = []
        self.magics = None

    # ---- the process ------------------------------------------------------------------------------------------------

    def take_over(self, watch):
        """What the interpreter of a session has that another has not."""
        sys.modules["__main__"] = self.module
        for name, value in (("display", self.display), ("get_ipython", self.get_ipython), ("input", self.input)):
            setattr(builtins, name, value)
        if not self.once:
            self.set_history()
            self.streams()
            for name in ("exit", "quit"):
                setattr(builtins, name, Leave(name))
            sys.displayhook = self.show_value
            sys.argv[:] = [""]
            sys.path.insert(0, "")
            for name in ("ps1", "ps2"):
                if hasattr(sys, name):
                    delattr(sys, name)
        self.saved = {number: os.dup(number) for number in (1, 2)}
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self.before_fork, after_in_child=self.forked)
        else:  # Python 3.6
            os.fork = self.forking(os.fork)
        watch.install(self)
        self.stand_in = watch

    def streams(self):
        """stdout and stderr in UTF-8, a line at a time, whatever the locale; as bytes what cannot be said in it."""
        for number, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
            self.stream(number, name)

    def stream(self, number, name):
        try:
            _fstat(number)
        except OSError:
            return
        if number == 0:
            file = io.open(0, "r", encoding="utf-8", errors="surrogateescape", closefd=False)
        else:
            file = io.TextIOWrapper(io.BufferedWriter(io.FileIO(number, "w", closefd=False)), encoding="utf-8",
                                    errors="surrogateescape" if number == 1 else "backslashreplace", line_buffering=True)
            file.mode = "w"
        for prefix in ("", "__"):
            setattr(sys, prefix + name + prefix, file)
        setattr(self, name, file)

    def forking(self, fork):
        def wrapper():
            self.before_fork()
            pid = fork()
            if pid == 0:
                self.forked()
            return pid
        return wrapper

    def before_fork(self):
        if self.lifeline is None and self.cell is not None and not self.once and _getpid() == self.channel.owner:
            try:
                self.lifeline = os.pipe()  # close-on-exec: programs do not hold it
            except OSError:
                pass

    def end_forks(self, interrupted):
        """The cell is over. Forks that it left go on in the background. An interrupt is meant for them, too: they get a moment
        to end, so that what they say of it stands in this cell and not in the next one, and are then killed."""
        if self.lifeline is None:
            return
        (reader, writer), self.lifeline = self.lifeline, None
        os.close(writer)
        if interrupted:
            import select
            end = select.poll()
            end.register(reader, 0)  # POLLHUP alone: nobody holds it
            if not end.poll(FORKS_MS):
                self.kill_holders(os.readlink("/proc/self/fd/%d" % reader))
                end.poll(FORKS_MS)
        os.close(reader)

    def kill_holders(self, pipe):
        for pid in [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != _getpid()]:
            try:
                if any(os.readlink("/proc/%d/fd/%s" % (pid, number)) == pipe for number in os.listdir("/proc/%d/fd" % pid)):
                    os.kill(pid, SIGKILL)
            except OSError:
                pass

    def forked(self):
        """In the child of a fork."""
        for descriptor in (self.channel.descriptor, self.saved[1], self.saved[2]):
            try:
                os.close(descriptor)
            except OSError:
                pass
        self.channel.owner = 0

    def forget_interrupts(self):
        """Those that have come are for no cell any more: ignoring them for an instant takes away what is pending."""
        for action in (SIG_IGN, SIG_IGN, self.on_interrupt):
            try:
                _signal(SIGINT, action)
            except BaseException:  # of a handler that the cell has set, and once more then
                pass
        self.interrupted = False

    def on_interrupt(self, _number, frame):
        if not self.interruptible:
            self.interrupted = True
            return
        if self.task is not None and not self.cancelled and frame is not None:
            name = frame.f_code.co_filename
            if "/asyncio/" in name or name.endswith("/selectors.py"):  # an exception there would damage the event loop
                self.cancelled = True
                self.loop.call_soon_threadsafe(self.task.cancel)
                return
        raise KeyboardInterrupt

    def flush(self):
        for stream in (sys.stdout, sys.stderr, getattr(self, "stdout", None), getattr(self, "stderr", None)):
            try:
                stream.flush()
            except Exception:
                pass
        if not self.once and ("_ctypes" in _sys_modules or "_cffi_backend" in _sys_modules or "numpy" in _sys_modules):
            try:
                import ctypes
                library = ctypes.CDLL(None)  # what C code has printed; not all files: a thread may wait in one
                library.fflush(ctypes.c_void_p.in_dll(library, "stdout"))
            except Exception:
                pass

    def mend(self):
        """Puts right what an earlier cell has closed or broken, and nobody means to be broken."""
        for number in (1, 2):
            try:
                _fstat(number)
            except OSError:
                _dup2(self.saved[number], number)
        for number, name in ((1, "stdout"), (2, "stderr")):
            try:
                if getattr(sys, name).closed:
                    self.stream(number, name)
            except Exception:
                self.stream(number, name)
        if sys.getrecursionlimit() < 300:
            sys.setrecursionlimit(1000)

    # ---- frames -----------------------------------------------------------------------------------------------------

    def send(self, kind, **keys):
        """One frame of the cell that runs. Interrupts wait until it is written and acknowledged."""
        main = _get_ident() == _main_thread
        before = self.interruptible
        if main:
            self.interruptible = False
        try:
            with self.channel.lock:
                if self.cell is None or _getpid() != self.channel.owner:
                    return
                if kind != "done":
                    if self.seq >= MOST_OUTPUTS:
                        self.dropped += 1
                        return
                    self.flush()
                self.seq += 1
                if self.show and kind != "done":
                    self.show_here(kind, keys)
                message = {"type": kind, "cell": self.cell, "token": self.token, "seq": self.seq}
                message.update(keys)
                self.channel.write(message)
                if self.acknowledge and kind != "done":
                    body = self.channel.read()
                    if body is None:
                        _exit(0)
                    reply = decode(body.decode("utf-8"))
                    if reply.get("type") != "ack" or reply.get("seq") != self.seq:
                        raise Broken
        except (Broken, OSError, ValueError, SystemError):
            _exit(70)
        finally:
            if main:
                self.interruptible = before
        if main and before and self.interrupted:
            self.interrupted = False
            raise KeyboardInterrupt

    def show_here(self, kind, keys):
        """For a program of its own: nobody reads its frames before its end, so the place of each is in what it prints."""
        if self.show == "marks":
            places, text = (1, 2), "\x1e%s:%d\x1e" % (self.token, self.seq)
        elif kind in ("display", "result") and keys["data"].get("text/plain"):
            places, text = (1,), keys["data"]["text/plain"] + "\n"
        else:
            return
        for number in places:
            rest = text.encode("utf-8", "backslashreplace")
            try:
                while rest:
                    rest = rest[os.write(self.saved[number], rest):]
            except OSError:
                pass

    def send_data(self, kind, data, metadata, **keys):
        data, size, dropped = self.output.clean_bundle(data, min(15 << 20, MOST_BYTES - self.bytes))
        self.dropped += dropped
        self.bytes += size
        if not data and kind != "update":
            return
        try:
            metadata = self.output.plain(metadata or {}, 0, [1000])
        except (self.output.TooMuch, RecursionError):
            metadata = {}
        if self.output.size_of(metadata) > 1 << 16:
            metadata = {}
        self.send(kind, data=data, metadata=metadata, **keys)

    # ---- values -----------------------------------------------------------------------------------------------------

    def complain(self):
        """An exception in what an object says of itself."""
        try:
            sys.stderr.write(self.traceback_of(*_exc_info()))
        except Exception:
            pass

    def forms(self, obj, include=None, exclude=None):
        if self.shell is not None:
            return self.shell.forms(obj, include, exclude)
        return self.output.forms_of(obj, self.complain, include, exclude, self.picture)

    def picture(self, obj):
        """A figure of matplotlib is worth more than its repr()."""
        module = _sys_modules.get("matplotlib.figure")
        if module is None or self.display_hooks is None or not isinstance(obj, module.Figure):
            return {}
        data = self.display_hooks.picture_of(obj)
        return {"image/png": data} if data else {}

    def display(self, *objs, include=None, exclude=None, metadata=None, transient=None, display_id=None, raw=False,
                clear=False, **keywords):
        if clear:
            self.clear_output(wait=True)
        if display_id is True or (display_id is None and not objs):
            display_id = os.urandom(16).hex()
        if not objs and display_id is None:
            return None
        for obj in objs:
            self.put("update" if keywords.get("update") else "display", obj, include, exclude, metadata, display_id, raw)
        return Handle(self, display_id) if display_id is not None else None

    def update_display(self, obj, display_id=None, include=None, exclude=None, metadata=None, raw=False, **_):
        if display_id is None:
            raise TypeError("update_display() needs the display_id of what is to be changed")
        self.put("update", obj, include, exclude, metadata, display_id, raw)

    def put(self, kind, obj, include, exclude, metadata, display_id, raw):
        keys = {} if display_id is None else {"display_id": self.output.cut(str(display_id), 200)}
        if raw:
            if not isinstance(obj, dict):
                raise TypeError("display(raw=True) wants a dict of MIME types")
            self.send_data(kind, obj, metadata, **keys)
            return
        found = self.forms(obj, include, exclude)
        if found is not None:
            found[1].update(metadata or {})
            self.send_data(kind, found[0], found[1], **keys)

    def clear_output(self, wait=False):
        self.flush()
        self.send("clear", wait=bool(wait))

    def plot(self, slot, forms, title):
        """From the hooks: a plot was shown or saved."""
        if not forms or not any(forms):
            self.dropped += 1
            sys.stderr.write("a plot could not be drawn: %s\n" % self.output.cut(slot.text or title or slot.library, 200))
            return
        if slot.library == "matplotlib" and slot.rank < self.display_hooks.SHOWN:
            self.pending[slot] = (forms, title)
            return
        self.pending.pop(slot, None)
        self.put_plot(slot, forms)

    def put_plot(self, slot, forms):
        data = {}
        for form in forms:
            kind = self.output.kind_of(form)
            if slot.library == "plotly" and kind == "application/json":
                try:
                    import json
                    data["application/vnd.plotly.v1+json"] = json.loads(form.decode("utf-8"))
                except ValueError:
                    pass
            else:
                data[kind] = form
        data["text/plain"] = {"matplotlib": "<Figure>", "plotly": "<Figure>"}.get(slot.library, "<Image>")
        if slot.library == "matplotlib" and slot.text:
            data["text/plain"] = slot.text
        self.send_data("update" if slot in self.shown else "display", data, {}, display_id="plot-" + slot.order)
        self.shown.add(slot)

    def end_plots(self):
        if self.display_hooks is not None:
            self.display_hooks.cell_done()
            for slot, (forms, _) in list(self.pending.items()):
                self.put_plot(slot, forms)
        self.pending.clear()

    def show_value(self, value):
        """sys.displayhook: the value of a cell's last expression."""
        if value is None:
            return
        found = self.forms(value)
        if found is not None:
            self.send_data("result", found[0], found[1], execution_count=self.count)
        if not self.once:
            self.remember(value)

    def remember(self, value):
        space, last = self.space, self.last_values
        if value is not self.outputs:
            # A name that the user took is the user's.
            if all(space.get(name, last[name]) is last[name] for name in last) and "_" not in vars(builtins):
                last["___"], last["__"], last["_"] = last["__"], last["_"], value
                space.update(last)
            if self.count:
                self.outputs[self.count] = space["_%d" % self.count] = value
        if len(self.outputs) > MOST_REMEMBERED:
            for number in sorted(self.outputs)[:MOST_REMEMBERED // 5]:
                space.pop("_%d" % number, None)
                del self.outputs[number]

    def set_history(self):
        space = self.space
        space.update(self.last_values)
        space.update({"In": self.inputs, "Out": self.outputs, "_ih": self.inputs, "_oh": self.outputs, "_dh": [_getcwd()],
                      "_i": "", "_ii": "", "_iii": ""})
        self.hidden = set(space)

    def note_input(self, source):
        while len(self.inputs) <= self.count:
            self.inputs.append("")
        self.inputs[self.count] = source
        space = self.space
        space["_iii"], space["_ii"], space["_i"] = space.get("_ii", ""), space.get("_i", ""), self.inputs[self.count - 1]
        space["_i%d" % self.count] = source
        old = self.count - MOST_REMEMBERED
        if old > 0:
            self.inputs[old] = ""
            space.pop("_i%d" % old, None)

    # ---- cells ------------------------------------------------------------------------------------------------------

    def name_source(self, name, source):
        lines = source.splitlines(True)
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        self.sources[name] = (len(source), None, lines, name)
        linecache.cache[name] = self.sources[name]
        if len(self.sources) > MOST_REMEMBERED:
            oldest = next(iter(self.sources))
            del self.sources[oldest]
            linecache.cache.pop(oldest, None)

    def parse(self, source, name):
        """The tree of a cell. What is not Python by itself may become so when magics and shell lines are calls."""
        try:
            return _compile(source, name, "exec", ast.PyCF_ONLY_AST | self.flags | TOP_LEVEL_AWAIT, True)
        except (SyntaxError, ValueError, OverflowError) as error:
            first = error
        if self.magics is None:
            self.magics = self.load("python_magics").Magics(self)
        changed = self.magics.transform(source)
        if changed == source:
            raise first
        try:
            return _compile(changed, name, "exec", ast.PyCF_ONLY_AST | self.flags | TOP_LEVEL_AWAIT, True)
        except SyntaxError as error:
            lines = source.splitlines()
            if error.lineno and error.lineno <= len(lines):
                error.text = lines[error.lineno - 1] + "\n"
            raise

    def quiet(self, source):
        """Does the last expression end with a semicolon?"""
        for line in reversed(source.splitlines()):
            if line.strip() and not line.lstrip().startswith("#"):
                return ";" in line and self.load_source().ends_with(source, ";")
        return False

    def load_source(self):
        if not hasattr(self, "source_module"):
            self.source_module = self.load("python_source")
        return self.source_module

    def run_code(self, source, name, interactive=True):
        tree = self.parse(source, name)
        last = None
        if interactive and tree.body and isinstance(tree.body[-1], ast.Expr) and not self.quiet(source):
            last = ast.Expression(tree.body.pop().value)
        code = _compile(tree, name, "exec", self.flags | TOP_LEVEL_AWAIT, True) if tree.body else None
        if code is not None:
            self.flags |= code.co_flags & FUTURE
        last = last and _compile(last, name, "eval", self.flags | TOP_LEVEL_AWAIT, True)
        value = self.evaluate([part for part in (code, last) if part is not None])
        if last is not None:
            (self.show_value if self.once else getattr(sys, "displayhook", self.show_value))(value)

    def evaluate(self, codes):
        """The value of the last one. Where one awaits, all run in the event loop."""
        value = None
        if any([code.co_flags & COROUTINE for code in codes]):
            return self.wait_for(in_loop(codes, self.space))
        for code in codes:
            value = _eval(code, self.space)
        return value

    def wait_for(self, coroutine):
        import asyncio
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        task = self.loop.create_task(coroutine)
        before = self.task, self.cancelled
        self.task, self.cancelled = task, False
        try:
            # A signal wakes the loop, even one that comes in the instant before it sleeps; what is done is still up to us.
            self.loop.add_signal_handler(SIGINT, int)
            _signal(SIGINT, self.on_interrupt)
            return self.loop.run_until_complete(task)
        except KeyboardInterrupt:
            try:
                if task.cancel():  # not when it was the task that was interrupted: it is done, and its loop would not stop
                    self.loop.run_until_complete(task)
            except (asyncio.CancelledError, Exception):
                pass
            raise
        except asyncio.CancelledError:
            if self.cancelled:
                raise KeyboardInterrupt from None
            raise
        finally:
            self.task, self.cancelled = before
            self.loop.remove_signal_handler(SIGINT)
            _signal(SIGINT, self.on_interrupt)

    def traceback_of(self, kind, value, trace):
        """As Python prints it, with the frames of the user's only."""
        try:
            linecache.cache.update(self.sources)
            if issubclass(kind, Exception) and kind.__name__ == "UsageError":
                return self.output.cut("UsageError: %s\n" % value, 10000)
            if isinstance(value, SyntaxError) and value.text is None and value.filename in self.sources and value.lineno:
                lines = self.sources[value.filename][2]
                value.text = lines[value.lineno - 1] if 0 < value.lineno <= len(lines) else None
            found = _TracebackException(kind, value, trace)
            chain, seen = [found], set()
            while chain:
                one = chain.pop()
                if one is None or id(one) in seen:
                    continue
                seen.add(id(one))
                self.only_user(one)
                chain += [one.__cause__, one.__context__] + list(getattr(one, "exceptions", None) or [])
            lines = list(found.format())
            if not found.stack and lines and lines[0].startswith("Traceback"):
                del lines[0]
            return self.output.cut("".join(lines), 100000)
        except Exception:
            name = getattr(kind, "__name__", "Exception")
            return "%s: <the traceback cannot be shown>\n" % (name if isinstance(name, str) else "Exception")

    def only_user(self, found):
        stack = [frame for frame in found.stack if not frame.filename.startswith(HERE + os.sep)]
        for number, frame in enumerate(stack):
            if frame.filename in self.sources:
                stack = stack[number:]
                break
        else:
            if getattr(found, "filename", None) in self.sources:  # a SyntaxError of the cell itself
                stack = []
        found.stack[:] = stack

    def error_of(self, kind, value, trace):
        name = getattr(kind, "__qualname__", "Exception")
        try:
            text = str(value)
        except Exception:
            text = "<the exception cannot be shown>"
        return {"name": self.output.cut(name if isinstance(name, str) else "Exception", 200),
                "value": self.output.cut(text if isinstance(text, str) else "", 10000),
                "traceback": self.traceback_of(kind, value, trace)}

    def exit_status(self, error):
        """What a shell would show for SystemExit."""
        code = error.code
        if code is None:
            return 0
        if isinstance(code, int):
            return int.__int__(code) & 0xFF
        try:
            sys.stderr.write(self.output.cut(str(code)) + "\n")
        except Exception:
            pass
        return 1

    def execute(self, cell, token, source, stdin=None, acknowledge=False, store=True):
        if self.fresh:
            self.fresh = False
            self.new_randomness()
        self.seq = self.dropped = self.bytes = 0
        self.cell, self.token, self.acknowledge = cell, token, acknowledge
        self.forget_interrupts()
        try:
            done = self.whole_cell(source, stdin, store)
        except BaseException:  # ours, or a cell that has broken the interpreter below us
            done = {"status": "error", "exit_code": 1, "error": self.error_of(*_exc_info())}
        if _getpid() != self.channel.owner:
            self.end_of_child(done)
        self.forget_interrupts()
        self.flush()
        self.send("done", execution_count=self.count, dropped=self.dropped, **done)
        self.cell = None

    def whole_cell(self, source, stdin, store):
        self.mend()
        self.open_stdin(stdin)
        if store:
            self.count += 1
            if self.shell is None:
                self.note_input(source)
        name = "<cell %d>" % self.count if store else "<cell>"
        self.name_source(name, source)
        done = self.guarded(lambda: self.run_cell(source, name, store))
        if _getpid() == self.channel.owner:
            plots = self.guarded(self.end_plots)
            if done["status"] == "ok" and plots["status"] == "interrupted":
                done = plots
            self.close_stdin()
            try:
                self.end_forks(done["status"] == "interrupted")
            except (ImportError, OSError):
                pass
        return done

    def run_cell(self, source, name, store):
        if self.shell is None and self.mode != "never":
            self.stand_in.consider(self, source)
        if self.shell is not None:
            self.shell.run(source, name, store)
        else:
            self.run_code(source, name, store)

    def guarded(self, work):
        """Runs the user's code: what became of it."""
        try:
            try:
                self.interruptible = True
                if self.interrupted:
                    raise KeyboardInterrupt
                work()
            finally:
                self.interruptible = False
        except KeyboardInterrupt:
            kind, value, trace = _exc_info()
            return {"status": "interrupted", "exit_code": 130, "error": self.error_of(kind, value, trace)}
        except SystemExit as error:
            return {"status": "exit", "exit_code": self.exit_status(error)}
        except BaseException:
            kind, value, trace = _exc_info()
            return {"status": "error", "exit_code": 1, "error": self.error_of(kind, value, trace)}
        return {"status": "ok", "exit_code": 0}

    def end_of_child(self, done):
        """A child of a fork has come to the end of the cell: it ends as a program would, and says nothing."""
        try:
            if done["status"] == "error":  # of an interrupt the interpreter tells, once
                sys.stderr.write(done["error"]["traceback"])
        except Exception:
            pass
        self.flush()
        _exit(done["exit_code"])

    def new_randomness(self):
        """A driver that was started ahead, or copied, is not to repeat anybody's numbers."""
        for name, module in (("random", _sys_modules.get("random")), ("numpy", _sys_modules.get("numpy.random"))):
            try:
                module and module.seed()
            except Exception:
                pass
        if "tempfile" in _sys_modules:
            _sys_modules["tempfile"]._name_sequence = None
        try:
            if "torch" in _sys_modules:
                _sys_modules["torch"].seed()
        except Exception:
            pass

    # ---- stdin ------------------------------------------------------------------------------------------------------

    def open_stdin(self, source):
        self.has_stdin = source is not None
        if source is None:
            try:
                source = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return
        if source != 0:
            _dup2(source, 0)
            os.close(source)
        else:
            os.set_inheritable(0, True)
        self.stream(0, "stdin")
        if self.has_stdin:
            try:
                import getpass
                if self.getpass_before is None:
                    self.getpass_before, getpass.getpass = getpass.getpass, self.getpass
            except Exception:
                pass

    def close_stdin(self):
        if self.has_stdin:
            self.open_stdin(None)

    def input(self, prompt="", *rest):
        if getattr(self, "has_stdin", True) or self.cell is None or sys.stdin is not self.stdin or _getpid() != self.channel.owner:
            return _input(prompt, *rest)
        raise EOFError("input() has nothing to read: this cell was run without stdin")

    def getpass(self, prompt="Password: ", stream=None, **keywords):
        """There is no terminal here: who types has one, and hides what is typed."""
        if not self.has_stdin or self.cell is None or sys.stdin is not self.stdin or _getpid() != self.channel.owner:
            return self.getpass_before(prompt, stream, **keywords)
        stream = stream or sys.stderr
        self.send("echo", on=False)
        try:
            stream.write(prompt)
            stream.flush()
            line = sys.stdin.readline()
        finally:
            self.send("echo", on=True)
        stream.write("\n")
        if not line:
            raise EOFError
        return line[:-1] if line.endswith("\n") else line

    def get_ipython(self):
        if self.shell is not None:
            return self.shell.shell
        if self.magics is None:
            self.magics = self.load("python_magics").Magics(self)
        return self.magics

    # ---- requests ---------------------------------------------------------------------------------------------------

    def serve(self):
        while True:
            body = self.next_frame()
            if body is None:
                return
            try:
                request = decode(body.decode("utf-8"))
                kind = request.get("type")
                if kind == "execute":
                    code = self.channel.read()
                    if code is None:
                        raise Broken
                    self.on_execute(request, code)
                elif kind == "shutdown":
                    return
                elif kind in ("complete", "inspect", "variables"):
                    self.on_question(kind, request)
                else:
                    self.refuse("a request of an unknown type")
            except (ValueError, KeyError, TypeError, SystemError) as error:  # the last: scanstring, while json is not loaded
                self.refuse("a request that makes no sense: %s" % type(error).__name__)

    def next_frame(self):
        """Waits for the host. Tasks that a cell has left in its event loop go on meanwhile."""
        loop = self.loop
        if loop is None or loop.is_closed():
            return self.channel.read()
        try:
            import asyncio
            tasks = getattr(asyncio, "all_tasks", None) or asyncio.Task.all_tasks
            if tasks(loop):
                loop.add_reader(self.channel.descriptor, loop.stop)
                try:
                    loop.run_forever()
                finally:
                    loop.remove_reader(self.channel.descriptor)
        except (Exception, SystemExit):
            self.complain()
        return self.channel.read()

    def refuse(self, reason):
        self.channel.write({"type": "refused", "reason": reason})

    def on_execute(self, request, code):
        cell, token, stdin = request["cell"], request["token"], request.get("stdin")
        if type(cell) is not int or type(token) is not str or len(token) != 32 or stdin not in (None, True):
            raise ValueError
        stdin = self.channel.receive() if stdin else None
        try:
            source = code.decode("utf-8")
        except UnicodeDecodeError:
            source = code.decode("utf-8", "surrogateescape")
        self.execute(cell, token, source.replace("\r\n", "\n").replace("\r", "\n"), stdin, request.get("ack") is True,
                     request.get("store") is not False)

    def on_question(self, kind, request):
        answer = {"type": {"complete": "completion", "inspect": "inspection"}.get(kind, kind)}
        if isinstance(request.get("token"), str):
            answer["token"] = request["token"][:64]
        if self.magics is None:
            self.magics = self.load("python_magics").Magics(self)
        empty = {"complete": {"matches": [], "start": 0, "end": 0}, "inspect": {"found": False, "data": {}},
                 "variables": {"variables": []}}[kind]
        try:
            found = {"complete": self.magics.complete, "inspect": self.magics.inspect,
                     "variables": self.magics.variables}[kind](request)
            answer.update(self.output.plain(found))
        except Exception:
            answer.update(empty)
        self.channel.write(answer)


def preload(names):
    """Modules that the first cell then finds. (loaded, name → why not)"""
    done, failed = [], {}
    for name in [name for name in names.split(",") if name]:
        try:
            __import__(name)
            done.append(name)
        except BaseException as error:
            failed[name] = ("%s: %s" % (type(error).__name__, error))[:1000]
    return done, failed


def main(options, arguments, load):
    channel = Channel(options["--fd"])
    session = Session(channel, options, load)
    watch = load("python_ipython")
    if session.once:
        return run_once(session, [options["--once"]] + arguments[1:], watch)
    _signal(SIGINT, session.on_interrupt)
    done, failed = preload(options["--preload"])
    session.take_over(watch)
    channel.write({"type": "ready", "protocol": PROTOCOL, "language": "python", "version": "%d.%d.%d" % sys.version_info[:3],
                   "pid": os.getpid(), "features": ["execute", "complete", "inspect", "variables", "display", "descriptor"]
                   + (["await"] if TOP_LEVEL_AWAIT else []), "preloaded": done, "preload_failed": failed})
    try:
        session.serve()
    except (Broken, OSError):
        session.flush()
        _exit(70)
    session.flush()
    return 0


def run_once(session, arguments, watch):
    """`python3 FILE ARGUMENTS…`, and the value of the last expression."""
    path = arguments[0]
    token = os.environ.pop("SBX_TOKEN", "")
    session.show = os.environ.pop("SBX_SHOW", "")
    sys.argv[:] = arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    session.space["__file__"] = path
    session.take_over(watch)
    session.cell, session.token, session.has_stdin = 1, token, True
    session.count = 1
    done = {"status": "ok", "exit_code": 0}
    try:
        with io.open(path, "rb") as file:
            data = file.read()
        import tokenize
        encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        session.name_source(path, data.decode(encoding).replace("\r\n", "\n"))
        session.run_code("".join(session.sources[path][2]), path)
    except SystemExit as error:
        done = {"status": "exit", "exit_code": session.exit_status(error)}
    except BaseException:
        kind, value, trace = sys.exc_info()
        done = {"status": "error", "exit_code": 1, "error": session.error_of(kind, value, trace)}
        if kind is KeyboardInterrupt:
            done.update(status="interrupted", exit_code=130)
        session.flush()
        sys.stderr.write(done["error"]["traceback"])
    if _getpid() == session.channel.owner:
        session.flush()
        session.send("done", execution_count=1, dropped=session.dropped, **done)
    session.cell = None
    if done["status"] == "interrupted":
        _signal(SIGINT, SIG_DFL)
        session.flush()
        os.kill(os.getpid(), SIGINT)
    return done["exit_code"]
