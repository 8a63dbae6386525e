from escape import Attack, Control, FILTERED

CASE = Attack("look into other processes: ptrace, process_vm_readv, kcmp, pidfd_getfd, perf", "11, 12, 13", "filter (group debug)",
              ["attach 1", "traceme", "vmread 0", "kcmp", "pidfd-getfd 1 0", "perf_event_open"], answers=FILTERED,
              control=Control("--allow-syscall @debug", ["--allow-syscall", "@debug"], answers="ok|EFAULT",
                              tries=["traceme", "vmread 0", "kcmp"]))
