from escape import Attack, Control, FORKING, Layer

CASE = Attack(
    "make a user namespace, alone or with others, by unshare, clone and clone3", "21, 24", "filter; max_user_namespaces is 0",
    ["unshare 0x10000000", "clone 0x10000000", "clone3 0x10000000", "unshare 0x50000000"], answers="EPERM|ENOSYS|ENOSPC|EUSERS",
    layers=[Layer("the filter lets the calls pass", ["--allow-syscall", "unshare", "--allow-syscall", "clone", "--allow-syscall", "clone3"],
                  answers="ENOSPC|EPERM")],
    control=Control("[hardening] nested_userns = true", policy="[hardening]\nnested_userns = true\n",
                    tries=["unshare 0x10000000"]), policies=FORKING)
