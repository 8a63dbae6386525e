from escape import Attack, Control

CASE = Attack("lock, lease or watch a file that two submissions can both open, to talk or to hold somebody up", "51", "filter of the policies judge (and strict, for watches)",
              program=["judge"], answers="EPERM|ENOSYS|EINVAL", policies=["judge"],
              control=Control("the default policy", flags=["--policy", "default"], tries=["flock", "F_OFD_SETLK", "inotify"]))
