from escape import Attack, Control

CASE = Attack("use up what the kernel counts for the whole host or keeps out of every count: AIO requests, secret memory, NUMA moves, key quota, fanotify groups", "67",
              "filter: as if the kernel were built without", program=[""], answers="ENOSYS|EPERM",
              control=Control("--allow-syscall io_setup, memfd_secret", ["--allow-syscall", "io_setup", "--allow-syscall", "memfd_secret"],
                              tries=["io_setup", "memfd_secret"], absent="ENOSYS"))
