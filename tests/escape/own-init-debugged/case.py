from escape import Attack, Control, REFUSED

CASE = Attack("look into init with a debugger's calls, which a policy has allowed, and through /proc", "8, 9, 11, 12",
              "init: not dumpable, so nothing of it is readable",
              ["attach 1", "vmread 1", "pidfd-getfd 1 0", "open r /proc/1/mem", "open rw /proc/1/mem", "open r /proc/1/environ", "open r /proc/1/maps",
               "open r /proc/1/auxv", "open r /proc/1/stack", "open r /proc/1/syscall", "open r /proc/1/exe", "open r /proc/1/cwd", "open r /proc/1/root",
               "open r /proc/1/fd", "open r /proc/1/ns/mnt", "open r /proc/1/pagemap", "open r /proc/1/mountinfo"],
              special={"open r /proc/1/mountinfo": REFUSED + "|ok"},  # the same view as the payload's own
              flags=["--allow-syscall", "@debug"],
              control=Control("the payload's own process in init's place",
                              instead=["vmread 0", "open rw /proc/self/mem", "open r /proc/self/environ", "open r /proc/self/maps", "open r /proc/self/auxv",
                                       "open r /proc/self/exe", "open r /proc/self/cwd", "open r /proc/self/fd", "open r /proc/self/ns/mnt"]))
