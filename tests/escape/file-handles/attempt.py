import ctypes
import os

import trying

NUMBERS = {"x86_64": (303, 304), "aarch64": (264, 265)}
name_to_handle_at, open_by_handle_at = NUMBERS[os.uname().machine]
handle = ctypes.create_string_buffer(b"\x40\0\0\0", 136)
mount = ctypes.c_int()
trying.call(name_to_handle_at, -100, b"/usr/bin/env", handle, ctypes.byref(mount), 0)
directory = os.open("/usr", os.O_RDONLY)
trying.attempt("open_by_handle_at", trying.call, open_by_handle_at, directory, handle, 0)
