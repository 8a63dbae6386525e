from escape import Attack, Control, FILTERED

CASE = Attack("reach hardware ports and descriptor tables: iopl, ioperm, modify_ldt", "54", "filter (group raw-hardware)",
              ["iopl", "ioperm", "modify_ldt"], answers=FILTERED, needs="x86_64",
              control=Control("--allow-syscall modify_ldt", ["--allow-syscall", "modify_ldt"], tries=["modify_ldt"], absent="ENOSYS"))
