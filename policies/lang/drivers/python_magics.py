"""Magics and shell lines, and what get_ipython() gives where IPython is not used. Also completion and inspection."""
import builtins
import os
import sys

NO_PIP = ("packages cannot be installed into a running session: the sandbox has no network unless it is given one, and what is "
          "installed inside is gone with it. Make a virtual environment outside and start the session with --venv DIR")


class UsageError(Exception):
    """A magic that was called wrongly: told in one line."""
    __module__ = "builtins"


class Lines(list):
    """What x = !command gives."""

    @property
    def n(self):
        return "\n".join(self)

    @property
    def s(self):
        return " ".join(self)

    @property
    def l(self):  # noqa: E743
        return list(self)

    def grep(self, pattern, prune=False):
        import re
        wanted = pattern if callable(pattern) else re.compile(pattern, re.IGNORECASE).search
        return Lines([line for line in self if bool(wanted(line)) != prune])

    def fields(self, *numbers):
        rows = [line.split() for line in self]
        if not numbers:
            return rows
        return Lines([" ".join([row[number] for number in numbers if number < len(row)]) for row in rows])


class Captured:
    """What %%capture NAME gives."""

    def __init__(self, stdout, stderr):
        self.stdout, self.stderr = stdout, stderr

    def show(self):
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)

    __call__ = show

    def __str__(self):
        return self.stdout


class Nothing:
    """Takes whatever is registered, and does nothing with it."""

    def __getattr__(self, name):
        if name.startswith("__") or name.startswith("_repr_") or name.startswith("_ipython_"):
            raise AttributeError(name)
        return lambda *arguments, **keywords: None


def time_text(seconds, digits=3):
    if seconds >= 60:
        parts = []
        for name, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
            if seconds >= size:
                parts.append("%d%s" % (seconds // size, name))
                seconds %= size
        return " ".join(parts)
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)):
        if seconds >= size or unit == "ns":
            return "%.*g %s" % (digits, seconds / size, unit)


def split_options(line, known):
    """(options, the rest): `known` as for getopt, of single letters, at the beginning of the line only."""
    options, rest = {}, line.strip()
    while rest[:1] == "-" and rest[1:2] not in ("", " "):
        word, _, after = rest.partition(" ")
        at = 1
        while at < len(word):
            letter = word[at]
            place = known.find(letter)
            if place < 0 or letter == ":":
                raise UsageError("no such option: -%s" % letter)
            if known[place + 1:place + 2] == ":":
                if word[at + 1:]:
                    options[letter] = word[at + 1:]
                else:
                    options[letter], _, after = after.lstrip().partition(" ")
                at = len(word)
            else:
                options[letter] = True
                at += 1
        rest = after.lstrip()
    return options, rest


def integer(options, letter, default):
    try:
        return int(options.get(letter, default))
    except ValueError:
        raise UsageError("-%s wants a number" % letter) from None


def words(line):
    import shlex
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError("%s: %s" % (error, line)) from None


class Magics:
    def __init__(self, session):
        self.session = session
        self.source = session.load_source()
        self.config, self.kernel = {}, Nothing()
        self.events = self.display_pub = self.display_formatter = self.input_transformer_manager = Nothing()
        self.before = os.getcwd()
        self.line_magics = {name[5:]: getattr(self, name) for name in dir(self) if name.startswith("line_")}
        self.cell_magics = {name[5:]: getattr(self, name) for name in dir(self) if name.startswith("cell_")}
        self.line_magics.update({"script": self.not_a_line, "set_env": self.line_env, "rerun": self.not_here, "conda": self.line_pip,
                                 "mamba": self.line_pip, "micromamba": self.line_pip, "uv": self.line_pip, "sx": self.getoutput,
                                 "system": self.getoutput, "edit": self.not_here, "debug": self.not_here, "pdb": self.not_here,
                                 "unload_ext": self.line_load_ext, "reload_ext": self.line_load_ext})
        for name in ("colors", "config", "precision", "xmode", "autoawait", "automagic", "pprint", "gui", "alias", "pylab"):
            self.line_magics.setdefault(name, self.accepted)
        self.cell_magics.update({"sh": self.cell_bash, "svg": self.cell_SVG, "HTML": self.cell_html, "js": self.cell_javascript,
                                 "python3": self.cell_python})
        self.cell_magics["file"] = self.cell_writefile

    def __repr__(self):
        return "<the shell of this session>"

    # ---- what libraries and cells ask of get_ipython() --------------------------------------------------------------

    @property
    def user_ns(self):
        return self.session.space

    @property
    def user_module(self):
        return self.session.module

    @property
    def execution_count(self):
        return self.session.count

    def transform(self, source):
        return self.source.transform(source)

    transform_cell = transform

    def run_line_magic(self, name, line, _stack_depth=1):
        if name not in self.line_magics:
            if name in self.cell_magics:
                raise UsageError("Line magic function `%%%s` not found (But cell magic `%%%%%s` exists, did you mean that instead?)."
                                 % (name, name))
            raise UsageError("Line magic function `%%%s` not found." % name)
        return self.line_magics[name](self.expand(line) if name not in ("time", "timeit", "pinfo", "pinfo2") else line)

    def run_cell_magic(self, name, line, cell):
        if name not in self.cell_magics:
            if name in self.line_magics:
                raise UsageError("Cell magic `%%%%%s` not found (But line magic `%%%s` exists, did you mean that instead?)."
                                 % (name, name))
            raise UsageError("Cell magic `%%%%%s` not found." % name)
        return self.cell_magics[name](line if name in ("time", "timeit") else self.expand(line), cell)

    def magic(self, line):
        name, _, rest = line.lstrip("%").partition(" ")
        return self.run_line_magic(name, rest)

    def run_cell(self, source, *_, **__):
        self.session.run_code(source, self.name(source))

    def ev(self, source):
        return eval(source, self.user_ns)

    def ex(self, source):
        exec(source, self.user_ns)

    def push(self, variables, interactive=True):
        self.user_ns.update(variables)

    def register_magic_function(self, function, magic_kind="line", magic_name=None):
        table = self.cell_magics if magic_kind == "cell" else self.line_magics
        table[magic_name or function.__name__] = function

    def set_next_input(self, text, replace=False):
        pass

    def showtraceback(self, *_, **__):
        self.session.complain()

    def find_line_magic(self, name):
        return self.line_magics.get(name)

    def find_cell_magic(self, name):
        return self.cell_magics.get(name)

    def name(self, source):
        """A name for code that is part of the running cell."""
        name = "<cell %d>" % self.session.count
        if name not in self.session.sources:
            self.session.name_source(name, source)
        return name

    def expand(self, text):
        """{expression} and $name, where they are the session's; otherwise the text is as it was."""
        if "{" in text:
            parts, at = [], 0
            try:
                while at < len(text):
                    if text[at:at + 2] in ("{{", "}}"):
                        parts.append(text[at])
                        at += 2
                    elif text[at] == "{":
                        end = self.source.end_of_field(text, at + 1, False)
                        if text[end - 1] != "}":
                            raise ValueError
                        parts.append(str(eval(text[at + 1:end - 1].strip(), self.user_ns)))
                        at = end
                    else:
                        parts.append(text[at])
                        at += 1
                text = "".join(parts)
            except Exception:
                pass
        if "$" not in text:
            return text
        parts, at = [], 0
        while at < len(text):
            if text[at] != "$":
                parts.append(text[at])
                at += 1
                continue
            if text[at + 1:at + 2] == "$":
                parts.append("$")
                at += 2
                continue
            end = at + 1
            while end < len(text) and (text[end].isalnum() or text[end] == "_"):
                end += 1
            name = text[at + 1:end]
            parts.append(str(self.user_ns[name]) if name.isidentifier() and name in self.user_ns else text[at:end])
            at = end
        return "".join(parts)

    # ---- the shell --------------------------------------------------------------------------------------------------

    def refuse_pip(self, command):
        """Not a wall, which the sandbox is, but a reason in place of a minute's wait for the network."""
        first = command.split()
        if first[:1] == ["pip"] or first[:1] == ["pip3"] or first[1:3] == ["-m", "pip"] and first[0].startswith("python"):
            if "install" in first[1:5]:
                sys.stderr.write("note: %s\n" % NO_PIP)
                sys.stderr.flush()

    def system(self, command):
        import subprocess
        command = self.expand(command)
        self.refuse_pip(command)
        self.session.flush()
        status = subprocess.call(command, shell=True, executable=self.shell_path())
        self.user_ns["_exit_code"] = status

    system_raw = system_piped = system

    def shell_path(self):
        return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"

    def getoutput(self, command, split=True):
        import subprocess
        command = self.expand(command)
        self.refuse_pip(command)
        self.session.flush()
        process = subprocess.Popen(command, shell=True, executable=self.shell_path(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        text = process.communicate()[0].decode("utf-8", "replace")
        self.user_ns["_exit_code"] = process.returncode
        return Lines(text.splitlines()) if split else text

    def run_program(self, argv, text):
        import subprocess
        self.session.flush()
        try:
            process = subprocess.Popen(argv, stdin=subprocess.PIPE)
        except OSError as error:
            raise UsageError("%s: %s" % (argv[0], error.strerror)) from None
        try:
            process.communicate(text.encode("utf-8", "surrogateescape"))
        except BaseException:
            process.kill()
            process.wait()
            raise
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, argv)

    # ---- line magics ------------------------------------------------------------------------------------------------

    def accepted(self, line):
        """Magics that change what this session does not have."""

    def not_a_line(self, line):
        raise UsageError("this magic is for whole cells: %%…")

    def not_here(self, line):
        raise UsageError("this magic needs somebody at a terminal")

    def line_cd(self, line):
        options, line = split_options(line, "qb")
        line = line.strip().strip("'\"") if line.strip()[:1] in ("'", '"') else line.strip()
        target = self.before if line == "-" else os.path.expanduser(line or "~")
        here = os.getcwd()
        try:
            os.chdir(target)
        except OSError as error:
            raise type(error)(error.errno, error.strerror, target) from None
        self.before = here
        self.user_ns.setdefault("_dh", []).append(os.getcwd())
        if "q" not in options:
            print(os.getcwd())

    def line_pwd(self, line):
        return os.getcwd()

    def line_env(self, line):
        line = line.strip()
        if not line:
            return dict(os.environ)
        for mark in ("=", " "):
            name, found, value = line.partition(mark)
            if found and name.strip():
                os.environ[name.strip()] = value.strip()
                print("env: %s=%s" % (name.strip(), value.strip()))
                return None
        if line not in os.environ:
            raise UsageError("Environment does not have key: %s" % line)
        return os.environ[line]

    def line_time(self, line, cell=None):
        source = line if cell is None else "\n" + cell
        return self.timed(source)

    def timed(self, source):
        import ast
        import time
        from resource import RUSAGE_SELF, getrusage
        session, name = self.session, self.name(source)
        tree = session.parse(source, name)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        flags = session.flags | getattr(ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0)
        code = compile(tree, name, "exec", flags, True) if tree.body else None
        last = last and compile(last, name, "eval", flags, True)
        value, before, start = None, getrusage(RUSAGE_SELF), time.perf_counter()
        try:
            value = session.evaluate([part for part in (code, last) if part is not None])
        finally:
            wall, after = time.perf_counter() - start, getrusage(RUSAGE_SELF)
            user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
            print("CPU times: user %s, sys: %s, total: %s" % (time_text(user), time_text(system), time_text(user + system)))
            print("Wall time: %s" % time_text(wall))
        return None if last is None or session.quiet(source) else value

    def line_timeit(self, line, cell=None):
        import math
        import timeit
        options, statement = split_options(line, "n:r:oqp:tc")
        repeat, number = integer(options, "r", 7), integer(options, "n", 0)
        if repeat < 1 or number < 0:
            raise UsageError("-n and -r want positive numbers")
        setup, statement = ("pass", statement) if cell is None else (statement or "pass", cell)
        if not statement.strip():
            return None
        timer = timeit.Timer(self.transform(statement), self.transform(setup), globals=self.user_ns)
        if not number:
            number = 1
            while number < 10 ** 9 and timer.timeit(number) < 0.2:
                number *= 10
        times = [taken / number for taken in timer.repeat(repeat, number)]
        mean = math.fsum(times) / len(times)
        spread = (math.fsum([(taken - mean) ** 2 for taken in times]) / len(times)) ** 0.5
        text = "%s ± %s per loop (mean ± std. dev. of %d run%s, %s loop%s each)" % (
            time_text(mean), time_text(spread), repeat, "" if repeat == 1 else "s", format(number, ",d"), "" if number == 1 else "s")
        if "q" not in options:
            print(text)
        return text if "o" in options else None

    def names(self, line=""):
        hidden, space = self.session.hidden, self.user_ns
        wanted = words(line)
        found = []
        for name in sorted(space):
            if name.startswith("_") or name in hidden:
                continue
            if not wanted or type(space[name]).__name__ in wanted:
                found.append(name)
        return found

    def line_who_ls(self, line):
        return self.names(line)

    def line_who(self, line):
        names = self.names(line)
        if not names:
            print("No variables match your requested type." if line.strip() else "Interactive namespace is empty.")
            return
        print("\n".join(["\t ".join(names[at:at + 8]) + "\t " for at in range(0, len(names), 8)]))

    def about(self, value):
        """The value in one line, for %whos."""
        kind = type(value).__name__
        try:
            if kind in ("dict", "list", "tuple", "set", "frozenset", "str", "bytes") and kind not in ("str", "bytes"):
                return "n=%d" % len(value)
            if hasattr(value, "shape") and hasattr(value, "dtype"):
                size = "x".join([str(part) for part in value.shape])
                return "%s: %d elems, type `%s`, %d bytes" % (size or "1", value.size, value.dtype, value.nbytes)
            if kind == "DataFrame" or kind == "Series":
                return "shape %s" % (value.shape,)
            text = str(value)
        except Exception:
            text = "<cannot be shown>"
        text = " ".join(text.split("\n")) if "\n" in text else text
        return text if len(text) <= 62 else text[:25] + "<...>" + text[-25:]

    def line_whos(self, line):
        names = self.names(line)
        if not names:
            print("No variables match your requested type." if line.strip() else "Interactive namespace is empty.")
            return
        rows = [(name, type(self.user_ns[name]).__name__, self.about(self.user_ns[name])) for name in names]
        widths = [max([len(head)] + [len(row[column]) for row in rows]) for column, head in enumerate(("Variable", "Type"))]
        head = "%-*s   %-*s   Data/Info" % (widths[0], "Variable", widths[1], "Type")
        print(head)
        print("-" * len(head))
        for name, kind, about in rows:
            print("%-*s   %-*s   %s" % (widths[0], name, widths[1], kind, about))

    def line_run(self, line):
        options, rest = split_options(line, "ine")
        arguments = words(rest)
        if not arguments:
            raise UsageError("%run wants a file")
        path = os.path.expanduser(arguments[0])
        if not os.path.exists(path) and os.path.exists(path + ".py"):
            path += ".py"
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError as error:
            raise UsageError("File `%r` not found: %s" % (path, error.strerror)) from None
        if path.endswith(".ipy"):
            return self.run_cell(data.decode("utf-8", "replace"))
        module = type(sys)("__main__" if "n" not in options else os.path.splitext(os.path.basename(path))[0])
        module.__file__ = path
        space = module.__dict__
        if "i" in options:
            space.update(self.user_ns)
        space["__builtins__"] = builtins
        main, argv, entry = sys.modules["__main__"], sys.argv, os.path.dirname(os.path.abspath(path))
        sys.argv = [path] + arguments[1:]
        sys.path.insert(0, entry)
        if "n" not in options:
            sys.modules["__main__"] = module
        try:
            exec(compile(data, path, "exec", 0, True), space)
        except SystemExit as error:
            if error.code not in (None, 0) and "e" not in options:
                raise
        finally:
            sys.modules["__main__"] = main
            sys.argv = argv
            if entry in sys.path:
                sys.path.remove(entry)
            self.user_ns.update({name: value for name, value in space.items() if not (name.startswith("__") and name.endswith("__"))})
            self.session.keep = getattr(self.session, "keep", [])[-99:] + [module]  # its functions live in its dictionary
        return None

    def line_load(self, line):
        raise UsageError("%load puts text into an editor, and there is none: use %run, or open() the file")

    def line_pip(self, line):
        raise UsageError(NO_PIP)

    def line_matplotlib(self, line):
        if line.strip() in ("-l", "--list"):
            print("Available matplotlib backends: ['inline', 'agg']")
        elif line.strip() not in ("", "inline", "agg", "notebook", "widget", "ipympl", "nbagg", "auto"):
            raise UsageError("there is no display for the backend %r: plots are collected with `inline`" % line.strip())

    def line_load_ext(self, line):
        raise UsageError("the extension %r needs IPython, which is not installed here" % line.strip() if line.strip()
                         else "%load_ext wants the name of an extension")

    def line_reset(self, line):
        options, _ = split_options(line, "fsi")
        for name in [name for name in self.user_ns if name not in ("__builtins__", "__name__", "__doc__", "__package__", "__loader__",
                                                                    "__spec__")]:
            del self.user_ns[name]
        session = self.session
        session.outputs.clear()
        session.inputs[:] = [""] * len(session.inputs)
        session.last_values.update({"_": "", "__": "", "___": ""})
        session.set_history()

    def line_xdel(self, line):
        name = line.strip()
        if name not in self.user_ns:
            raise NameError("name '%s' is not defined" % name)
        value = self.user_ns.pop(name)
        for number in [number for number, known in self.session.outputs.items() if known is value]:
            del self.session.outputs[number]
            self.user_ns.pop("_%d" % number, None)

    def line_history(self, line):
        options, rest = split_options(line, "nopxrtg:l:")
        inputs = self.session.inputs
        numbers = list(range(1, self.session.count))
        if rest.strip():
            numbers = []
            for part in rest.split():
                first, _, last = part.partition("-")
                try:
                    numbers += range(int(first), int(last or first) + 1)
                except ValueError:
                    raise UsageError("%history wants numbers of cells: 3 or 3-5") from None
        if "l" in options:
            numbers = numbers[-integer(options, "l", 10):]
        for number in numbers:
            if 0 < number < len(inputs):
                print(("%4d: %s" % (number, inputs[number])) if "n" in options else inputs[number])
                if "o" in options and number in self.session.outputs:
                    print(self.session.output.pretty(self.session.outputs[number]))

    line_hist = line_history

    def line_lsmagic(self, line):
        print("Line magics: " + "  ".join(["%" + name for name in sorted(self.line_magics)]))
        print("Cell magics: " + "  ".join(["%%" + name for name in sorted(self.cell_magics)]))

    def line_pinfo(self, line, detail=0):
        name = line.strip()
        if name.startswith("%"):
            magic = self.cell_magics.get(name.strip("%")) if name.startswith("%%") else self.line_magics.get(name[1:])
            print(magic.__doc__ or "%s is a magic of this session." % name if magic else "Object `%s` not found." % name)
            return
        found = self.look_up(name)
        if found is None:
            print("Object `%s` not found." % name)
        else:
            self.session.display({"text/plain": self.describe(found[0], detail)}, raw=True)

    def line_pinfo2(self, line):
        self.line_pinfo(line, 1)

    def line_capture(self, line):
        raise UsageError("%capture is for whole cells: %%capture")

    def line_writefile(self, line):
        raise UsageError("%writefile is for whole cells: %%writefile FILE")

    # ---- cell magics ------------------------------------------------------------------------------------------------

    def cell_time(self, line, cell):
        return self.line_time(line, line + "\n" + cell if line.strip() else cell)

    def cell_timeit(self, line, cell):
        return self.line_timeit(line, cell)

    def cell_writefile(self, line, cell):
        options, rest = split_options(line, "a")
        name = os.path.expanduser((words(rest) or [""])[0])
        if not name:
            raise UsageError("%%writefile wants the name of a file")
        print(("Appending to %s" if "a" in options else "Overwriting %s") % name if os.path.exists(name) else "Writing %s" % name)
        with open(name, "a" if "a" in options else "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(cell)

    def cell_bash(self, line, cell):
        self.run_program(["bash" if os.path.exists("/bin/bash") else "sh"] + words(line), cell)

    def cell_script(self, line, cell):
        if not words(line):
            raise UsageError("%%script wants a program")
        self.run_program(words(line), cell)

    def cell_python(self, line, cell):
        self.run_program([sys.executable] + words(line) + ["-"], cell)

    def cell_perl(self, line, cell):
        self.run_program(["perl"] + words(line), cell)

    def cell_ruby(self, line, cell):
        self.run_program(["ruby"] + words(line), cell)

    def cell_system(self, line, cell):
        return self.getoutput(cell)

    def show(self, kind, name, text):
        self.session.display({kind: text, "text/plain": "<IPython.core.display.%s object>" % name}, raw=True)

    def cell_html(self, line, cell):
        self.show("text/html", "HTML", cell)

    def cell_markdown(self, line, cell):
        self.show("text/markdown", "Markdown", cell)

    def cell_latex(self, line, cell):
        self.show("text/latex", "Latex", cell)

    def cell_SVG(self, line, cell):
        self.show("image/svg+xml", "SVG", cell)

    def cell_javascript(self, line, cell):
        self.show("application/javascript", "Javascript", cell)

    def cell_capture(self, line, cell):
        import io
        name = (words(line.replace("--no-stderr", "").replace("--no-stdout", "").replace("--no-display", "")) or [""])[0]
        out, err, kept = io.StringIO(), io.StringIO(), (sys.stdout, sys.stderr)
        sys.stdout, sys.stderr = out, err
        cell_number, self.session.cell = self.session.cell, None  # nothing is displayed
        try:
            self.session.run_code("\n" + cell, self.name(cell))
        finally:
            self.session.cell = cell_number
            sys.stdout, sys.stderr = kept
            if name:
                self.user_ns[name] = Captured(out.getvalue(), err.getvalue())

    # ---- questions --------------------------------------------------------------------------------------------------

    def look_up(self, name):
        """[the object], by a dotted name; None. Nothing is called but what attributes do by themselves."""
        parts = name.split(".")
        if not all([part.isidentifier() for part in parts]):
            return None
        for space in (self.user_ns, vars(builtins)):
            if parts[0] in space:
                value = space[parts[0]]
                break
        else:
            return None
        for part in parts[1:]:
            try:
                value = getattr(value, part)
            except Exception:
                return None
        return [value]

    def describe(self, value, detail):
        import inspect
        fields = []
        if callable(value):
            try:
                fields.append(("Signature", "%s%s" % (getattr(value, "__name__", ""), inspect.signature(value))))
            except (ValueError, TypeError):
                pass
        fields.append(("Type", type(value).__name__))
        if not callable(value):
            try:
                fields.append(("String form", self.session.output.cut(str(value), 1000)))
            except Exception:
                pass
            try:
                fields.append(("Length", str(len(value))))
            except Exception:
                pass
        source = None
        try:
            fields.append(("File", inspect.getsourcefile(value) or inspect.getfile(value)))
            source = inspect.getsource(value) if detail else None
        except (TypeError, OSError):
            pass
        if source:
            fields.append(("Source", "\n" + source.rstrip()))
        else:
            fields.append(("Docstring", inspect.getdoc(value) or "<no docstring>"))
        return self.session.output.cut("\n".join(["%-13s%s" % (name + ":", text) for name, text in fields]), 100000)

    def dotted_before(self, code, position):
        start = position
        while start > 0 and (code[start - 1].isalnum() or code[start - 1] in "_."):
            start -= 1
        return start

    def complete(self, request):
        import keyword
        code = request["code"]
        position = min(max(int(request.get("position", len(code))), 0), len(code))
        start = self.dotted_before(code, position)
        text = code[start:position]
        if code[max(0, start - 1):start] == "%" and "." not in text:
            at = start - 1
            while at > 0 and code[at - 1] == "%":
                at -= 1
            table = self.cell_magics if start - at > 1 else self.line_magics
            return {"matches": ["%" * (start - at) + name for name in sorted(table) if name.startswith(text)], "start": at, "end": position}
        owner, dot, prefix = text.rpartition(".")
        if dot:
            found = self.look_up(owner)
            names = dir(found[0]) if found is not None else []
        else:
            names = set(self.user_ns) | set(vars(builtins)) | set(keyword.kwlist)
        names = [name for name in names if isinstance(name, str) and name.startswith(prefix)]
        if not prefix.startswith("_"):
            names = [name for name in names if not name.startswith("_")]
        return {"matches": sorted(names)[:1000], "start": position - len(prefix), "end": position}

    def inspect(self, request):
        code = request["code"]
        position = min(max(int(request.get("position", len(code))), 0), len(code))
        while position < len(code) and (code[position].isalnum() or code[position] == "_"):
            position += 1
        name = code[self.dotted_before(code, position):position].strip(".")
        found = self.look_up(name) if name else None
        if found is None:
            return {"found": False, "data": {}}
        return {"found": True, "data": {"text/plain": self.describe(found[0], request.get("detail", 0))}}

    def variables(self, _request):
        return {"variables": [{"name": name, "kind": type(self.user_ns[name]).__name__, "summary": self.about(self.user_ns[name])}
                              for name in self.names()[:1000]]}
