from escape import Attack, Control

CASE = Attack("take the masks of /proc and the read-only state of /usr and / away, with CAP_SYS_ADMIN and the calls allowed", "25, 33, 39",
              "Landlock: no mount changes, whatever the capabilities", ["umount", "remount-rw /usr", "remount-rw /", "remount-rw /proc/sys"], answers="EPERM",
              flags=["--allow-syscall", "@mount", "--policy", "{case}/admin.toml"],
              control=Control("[hardening] landlock = false", policy="[hardening]\nlandlock = false\n", tries=["remount-rw /"]),
              policies=["default"])
