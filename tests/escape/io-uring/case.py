from escape import Attack, Control

CASE = Attack(
    "make system calls through io_uring, past the filter", "17", "filter: ENOSYS", ["io_uring_setup"], answers="ENOSYS",
    control=Control("--allow-syscall io_uring_setup", ["--allow-syscall", "io_uring_setup"], absent="ENOSYS|EPERM"))
