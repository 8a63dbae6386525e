from escape import Attack, Control, FILTERED

CASE = Attack(
    "administer the machine: bpf, modules, kexec, quotas, accounting, swap, reboot, kernel log, fanotify, hang-up", "54, 33",
    "filter (groups kernel-code and host-control), whatever the kernel would say",
    ["bpf", "kexec_load", "init_module", "finit_module", "delete_module", "quotactl", "acct", "swapon", "swapoff", "reboot", "syslog",
     "vhangup", "fanotify_init", "lookup_dcookie"], answers=FILTERED,
    control=Control("--allow-syscall reboot, and CAP_SYS_BOOT over the own pid namespace: the kernel looks at the arguments",
                    ["--allow-syscall", "reboot"], '[hardening]\ncapabilities = ["cap_sys_boot"]\n', answers="EINVAL", tries=["reboot"]))
