from escape import Attack, Control, SHIPPED

CASE = Attack("reach another view through magic links: /proc/PID/root, cwd, exe, fd of init and of oneself, and .. above the root", "6, 7, 39", "init is not dumpable; pivot_root left nothing behind",
              program=[""], answers="EACCES|EPERM|ENOENT|ENOTDIR|ESRCH|ETXTBSY|EROFS|same|ELOOP", policies=SHIPPED,
              special={"own exe for reading": "ok"},
              control=Control("the payload's own program", tries=["own exe for reading"]))
