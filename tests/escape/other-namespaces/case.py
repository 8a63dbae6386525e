from escape import Attack, Control

CASE = Attack(
    "make a namespace of another kind: mount, pid, network, IPC, UTS, cgroup, time", "21", "filter; no capability",
    ["unshare 0x20000", "unshare 0x20000000", "unshare 0x40000000", "unshare 0x08000000", "unshare 0x04000000", "unshare 0x02000000",
     "unshare 0x80", "clone 0x20000", "clone 0x40000000", "clone3 0x20000", "clone3 0x40000000", "clone3 0x20000000"], answers="EPERM|ENOSYS|ENOSPC|EINVAL",
    control=Control("bare namespaces with all capabilities, no filter", how="namespaces",
                    tries=["unshare 0x20000", "unshare 0x40000000", "unshare 0x04000000"]))
