from escape import Attack, Control, Layer, MOUNTS_ALLOWED

CASE = Attack("change the root: chroot, pivot_root; enter a namespace by setns", "26", "filter (groups mount and namespaces); no capability",
              ["chroot", "pivot_root", "setns"], answers="EPERM|ENOSYS|EACCES|EINVAL",
              layers=[Layer("the filter lets the calls pass", ["--allow-syscall", "@mount", "--allow-syscall", "@namespaces"], answers="EPERM|EINVAL")],
              control=Control("filter, capabilities and Landlock taken away", policy=MOUNTS_ALLOWED, tries=["chroot", "setns"]))
