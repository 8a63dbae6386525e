from escape import Attack, Control, FILTERED, Layer

CASE = Attack("open a file by its number in the file system, around the view", "27", "filter; the kernel wants a capability of the host",
              program=[""], answers=FILTERED,
              layers=[Layer("the filter lets the call pass", ["--allow-syscall", "open_by_handle_at"], answers="EPERM")],
              control=Control("root of the host, on a file that everybody may read", how="outside", as_=("root",)))
