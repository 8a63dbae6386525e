from escape import Attack, Control

CASE = Attack(
    "open sockets that reach past the network namespace or load kernel modules: vsock, alg, packet, raw, bluetooth, can, tipc, rds, smc, xdp, netlink's rare kinds", "47",
    "filter: as if the kernel were built without",
    ["socket 40 1 0", "socket 38 5 0", "socket 17 3 0", "socket 2 3 1", "socket 31 3 0", "socket 44 3 0", "socket 29 3 1", "socket 30 1 0", "socket 21 5 0",
     "socket 43 1 0", "socket 9 5 0", "socket 16 3 12", "socket 16 3 15", "socket 16 3 9", "socket 16 3 4"], answers="EPERM|EACCES|ENOSYS|EAFNOSUPPORT|EPROTONOSUPPORT",
    control=Control("bare namespaces, no filter", how="namespaces", answers="ok", tries=["socket 17 3 0", "socket 2 3 1", "socket 16 3 15"],
                    absent="EAFNOSUPPORT|EPROTONOSUPPORT"))
