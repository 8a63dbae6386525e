from escape import Attack, Control

CASE = Attack("load a line discipline, take over the console, paste, type into the terminal: ioctls on a terminal of one's own", "1, 3",
              "filter (test of ioctl's request, the low 32 bits)", ["own-pty TIOCSTI", "own-pty TIOCSTI-high", "own-pty TIOCSETD", "own-pty TIOCCONS", "own-pty TIOCLINUX"],
              answers="EPERM|EIO",
              control=Control("bare namespaces, no filter", how="namespaces", answers="ok|EIO|EINVAL", tries=["own-pty TIOCSETD"]))
