from escape import Attack, Control, FILTERED

CASE = Attack("set the host's clocks, or a time namespace's", "75", "filter (group clock-set)",
              ["clock_settime", "settimeofday", "adjtimex", "unshare 0x80"], answers=FILTERED,
              control=Control("--allow-syscall @clock-set: the kernel looks at the time, which is none", ["--allow-syscall", "@clock-set"],
                              answers="EINVAL", tries=["clock_settime", "settimeofday"]))
