from escape import Attack, Control, Layer, MOUNTS_ALLOWED

CASE = Attack(
    "mount, by the old calls and the new", "25", "filter (group mount); no capability; Landlock",
    ["mount tmpfs /tmp", "mount proc /tmp", "mount debugfs /tmp", "mount tracefs /tmp", "mount sysfs /tmp", "mount cgroup2 /tmp", "fsopen", "open_tree",
     "mount_setattr", "remount-rw /"],
    answers="EPERM|ENOSYS|EINVAL",
    layers=[Layer("the filter lets the calls pass, the payload keeps CAP_SYS_ADMIN, Landlock stays", policy=MOUNTS_ALLOWED.replace("landlock = false", ""),
                  answers="EPERM", tries=["mount tmpfs /tmp", "mount proc /tmp", "remount-rw /"]),
            Layer("the filter lets the calls pass, no capability", ["--allow-syscall", "@mount"], answers="EPERM|ENODEV")],
    control=Control("filter, capabilities and Landlock taken away", policy=MOUNTS_ALLOWED, tries=["mount tmpfs /tmp", "fsopen", "open_tree"]))
