import fcntl
import os
import struct

import trying

file = open("/usr/bin/env", "rb")
lock = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
trying.attempt("flock", fcntl.flock, file, fcntl.LOCK_SH | fcntl.LOCK_NB)
trying.attempt("F_SETLK", fcntl.fcntl, file, fcntl.F_SETLK, lock)
trying.attempt("F_OFD_SETLK", fcntl.fcntl, file, 37, lock)
trying.attempt("F_GETLK", fcntl.fcntl, file, fcntl.F_GETLK, lock)


def watch():
    fd = trying.libc.inotify_init1(0)
    if fd < 0 or trying.libc.inotify_add_watch(fd, b"/usr/bin/env", 0x20) < 0:
        raise OSError(trying.ctypes.get_errno(), "inotify")


trying.attempt("inotify", watch)
