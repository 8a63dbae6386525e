from escape import Attack, Control

CASE = Attack(
    "write the kernel's settings: core_pattern, modprobe, hot-plug helpers, sysrq, power, binfmt", "32, 33",
    "/proc/sys is read-only; /sys is not there; the files belong to the host's root",
    ["open w /proc/sys/kernel/core_pattern", "open w /proc/sys/kernel/modprobe", "open w /proc/sys/kernel/hotplug", "open w /proc/sys/vm/drop_caches",
     "open w /proc/sys/vm/overcommit_memory", "open w /proc/sys/user/max_user_namespaces", "open w /proc/sys/user/max_inotify_instances",
     "open w /proc/sys/fs/suid_dumpable", "open w /proc/sys/kernel/ns_last_pid", "open w /proc/sys/fs/binfmt_misc/register", "open w /proc/sys/kernel/hostname",
     "open w /proc/sys/net/ipv4/ip_forward", "open w /proc/irq/default_smp_affinity", "open w /proc/mtrr", "open w /proc/acpi/wakeup", "open w /proc/scsi/scsi",
     "open w /proc/bus/pci/00/00.0", "open w /sys/kernel/uevent_helper", "open w /sys/power/state", "open w /sys/fs/cgroup/cgroup.procs"],
    answers="EROFS|EACCES|EPERM|ENOENT|ENOTDIR",
    control=Control("a file of /proc that is the payload's own", instead=["open w /proc/self/comm", "open w /proc/self/coredump_filter"]))
