from escape import Attack, Control, FORKING

CASE = Attack("put capabilities, set-id bits or overlay marks on a file by attributes", "64, 29", "the kernel outside of its first user namespace; filter for set-id bits",
              program=[""], answers="EPERM|EOPNOTSUPP|ENOTSUP|EINVAL|ENOSYS|EACCES|none", flags=["--workspace", "share:rw"],
              special={"user.plain": "ok|ENOTSUP|EPERM"}, policies=FORKING,
              control=Control("an attribute without meaning in the same place", tries=["user.plain"], absent="ENOTSUP"))
