from escape import Attack, Control, SHIPPED

CASE = Attack("raise one's priority, run in real time, pin the host's memory, be the last to be killed, raise a limit", "76", "the kernel: rlimits and capabilities of the host",
              program=[""], answers="EPERM|EACCES|ENOMEM|EINVAL|ENOSYS|EAGAIN|not lowered", policies=SHIPPED,
              control=Control("root of the host, on its own process", how="outside", as_=("root",), tries=["nice -20", "SCHED_FIFO"], absent="EPERM"))
