import os

import trying

NAMES = ["/proc/" + name for name in ("kcore", "kmsg", "keys", "timer_list", "sched_debug", "cmdline", "locks", "interrupts", "kpagecount", "kpageflags", "kpagecgroup",
                                      "vmallocinfo", "slabinfo", "pagetypeinfo", "latency_stats", "vmcore", "asound/cards")]
NAMES += ["/dev/" + name for name in ("mem", "kmem", "port", "kmsg", "hpet", "rtc0", "fuse", "kvm", "vhost-net", "net/tun", "loop-control", "mapper/control", "userfaultfd",
                                      "dri/card0", "nvidia0", "input/event0", "snd/seq", "console", "tty0", "tty1", "vcs", "vda", "sda", "watchdog", "cuse", "uinput")]
NAMES += ["/sys/kernel/" + name for name in ("debug/sched/debug", "tracing/trace", "security/lockdown", "notes", "vmcoreinfo")] + ["/sys/class/dmi/id/product_uuid", "/sys/firmware/efi"]
NAMES += ["/hostproc/cmdline", "/hostproc/interrupts"]


def first_bytes(name):
    fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return "something" if os.read(fd, 64) else "nothing"
    finally:
        os.close(fd)


for name in NAMES:
    trying.attempt(name, first_bytes, name)
# Addresses are all zero for whoever may not know them.
def addresses():
    with open("/proc/kallsyms") as symbols:
        return "nothing" if set(symbols.readline().split()[0]) == {"0"} else "something"


trying.attempt("addresses in /proc/kallsyms", addresses)
