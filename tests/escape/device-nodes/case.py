from escape import Attack, Layer

CASE = Attack("make a device node in a private place or a writable share", "28", "filter (test of mknod's type); the kernel, outside of its first user namespace",
              ["mknod-device /tmp/n", "mknod-device /box/n"], answers="EPERM|ENOSYS|EACCES",
              layers=[Layer("the payload keeps CAP_MKNOD", policy='[hardening]\ncapabilities = ["cap_mknod"]\n', answers="EPERM|ENOSYS|EACCES")],
              flags=["--workspace", "share:rw"],
              no_control="only root of the host can make one; a node of /dev/mem is not made there for a test")
