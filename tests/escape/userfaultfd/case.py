from escape import Attack, Control, FILTERED

CASE = Attack("hold the kernel in the middle of a copy by userfaultfd", "53", "filter (group host-control)", ["userfaultfd"], answers=FILTERED,
              control=Control("--allow-syscall userfaultfd", ["--allow-syscall", "userfaultfd"], absent="ENOSYS"))
