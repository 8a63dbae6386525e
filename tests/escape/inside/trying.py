"""What an attempt's program in a sandbox says, and how it calls the kernel without a C library in between."""

import ctypes
import errno
import os

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def call(number, *arguments):
    """The system call itself; OSError when it fails. Integers are passed with all 64 bits."""
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    answer = libc.syscall(ctypes.c_long(number), *words)
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


def answer_of(function, *arguments):
    try:
        got = function(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno)) if error.errno else type(error).__name__
    return got if isinstance(got, str) else "ok"


def attempt(name, function, *arguments):
    """Prints `name: ok`, the errno's name, or the text that the function returns."""
    print(f"{name}: {answer_of(function, *arguments)}", flush=True)
