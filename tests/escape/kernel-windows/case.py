from escape import Attack, Control, SHIPPED

CASE = Attack("read the kernel's memory, log, symbols, keys and other boxes' doings through /proc and /dev", "33, 79", "masks over /proc, checked by what is mounted there; a minimal /dev",
              program=[""], answers="nothing|EACCES|EPERM|ENOENT|EISDIR|ENXIO", policies=SHIPPED,
              control=Control("--allow-sensitive-mount --mount /proc:/hostproc, where the host's root may read",
                              flags=["--allow-sensitive-mount", "--mount", "/proc:/hostproc"], answers="something", as_=("root",), tries=["/hostproc/cmdline", "/hostproc/interrupts"]))
