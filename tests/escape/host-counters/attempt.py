import ctypes
import os

import trying

X86 = os.uname().machine == "x86_64"
context = ctypes.c_ulong()
buffer = ctypes.create_string_buffer(64)
trying.attempt("io_setup", trying.call, 206 if X86 else 0, 8, ctypes.byref(context))
trying.attempt("memfd_secret", trying.call, 447, 0)
trying.attempt("vmsplice", trying.call, 278 if X86 else 75, 1, buffer, 0, 0)
trying.attempt("move_pages", trying.call, 279 if X86 else 239, 0, 0, 0, 0, 0, 0)
trying.attempt("set_mempolicy", trying.call, 238 if X86 else 237, 0, 0, 0)
trying.attempt("add_key", trying.call, 248 if X86 else 217, b"user", b"d", b"p", 1, -4)
trying.attempt("fanotify_init", trying.call, 300 if X86 else 262, 0, 0)
trying.attempt("statmount", trying.call, 457, buffer, buffer, 64, 0)
