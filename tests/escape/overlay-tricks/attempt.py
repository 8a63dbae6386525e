import os
import stat

import trying

os.mkdir("/box/d")


def marked(name, value):
    os.setxattr("/box/d", name, value)
    # Taken in, it must be an attribute like another, kept under another name.
    return "hidden" if os.listdir("/box/d") == [] else "SHOWS " + repr(os.listdir("/box/d"))


trying.attempt("user.overlay.redirect", marked, "user.overlay.redirect", b"/../../etc")
trying.attempt("user.overlay.metacopy", marked, "user.overlay.metacopy", b"")
trying.attempt("user.overlay.opaque", marked, "user.overlay.opaque", b"y")
trying.attempt("a whiteout", os.mknod, "/box/file2", 0o600 | stat.S_IFCHR, os.makedev(0, 0))
trying.attempt("the upper directory", os.listdir, "/proc/0")
trying.attempt("an ordinary file", lambda: open("/box/d/new", "w").close())
