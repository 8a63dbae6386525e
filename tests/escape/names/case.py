from escape import Attack, Control, Layer

CASE = Attack("rename the host", "76", "UTS namespace; filter; no capability", ["sethostname"], answers="EPERM",
              layers=[Layer("the filter lets the call pass", ["--allow-syscall", "sethostname"], answers="EPERM")],
              control=Control("--allow-syscall sethostname, CAP_SYS_ADMIN over the own UTS namespace", ["--allow-syscall", "sethostname"],
                              '[hardening]\ncapabilities = ["cap_sys_admin"]\n'))
