"""Starts the Python of a session: docs/session-protocol.md. Small, for a script is compiled at each start; the rest lies beside it.

    python_driver.py --fd N [--preload MODULE,…] [--ipython auto|always|never]
    python_driver.py --fd N --once FILE ARGUMENTS…
    python_driver.py --prepare DIRECTORY

Works with Python 3.6 and later, and needs the standard library only.
"""
import builtins
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# In a sandbox all lies in one directory; in the source tree the hooks have their own.
BUILTINS = dict(vars(builtins))
FOLDERS = [HERE, os.path.join(os.path.dirname(HERE), "hooks")]


def load(name):
    """A module of ours, found there and nowhere else, and unknown to sys.modules."""
    from importlib.machinery import PathFinder
    spec = PathFinder.find_spec(name, FOLDERS)
    module = type(sys)(name)
    module.__file__, module.__spec__, module.__loader__ = spec.origin, spec, spec.loader
    module.__builtins__ = BUILTINS  # a cell that replaces len() does not replace ours
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = writes
    return module


def hide(descriptor):
    """The same open file under a number that nobody guesses or needs, close-on-exec."""
    try:
        highest = min(os.sysconf("SC_OPEN_MAX"), 1 << 16)
    except (OSError, ValueError):
        highest = 256
    for byte in os.urandom(64):
        number = highest - 1 - byte % max(1, highest // 4)
        try:
            os.fstat(number)
        except OSError:
            os.dup2(descriptor, number, inheritable=False)
            if number != descriptor:
                os.close(descriptor)
            return number
    os.set_inheritable(descriptor, False)
    return descriptor


def main(arguments):
    while HERE in sys.path:
        sys.path.remove(HERE)
    if arguments[0] == "--prepare":
        load("python_display").prepare(arguments[1], FOLDERS)
        return 0
    options = {"--ipython": "auto", "--preload": ""}
    while arguments and arguments[0].startswith("--"):
        options[arguments[0]] = arguments[1]
        if arguments[0] == "--once":
            break
        del arguments[:2]
    options["--fd"] = hide(int(options["--fd"]))
    return load("python_cells").main(options, arguments[1:], load)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
