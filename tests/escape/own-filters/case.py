from escape import Attack, Control, FORKING

CASE = Attack("answer a denied call by a filter of one's own: allow, log, trace, a notification, a second listener", "13, 58",
              "the strictest of all filters wins, whatever the order", program=[""], answers="EPERM|ENOSYS|EBUSY|EINVAL|EACCES",
              policies=FORKING, special={"getpid by a filter of one's own": "EDOM"},
              control=Control("a filter of one's own that denies what the sandbox allows", tries=["getpid by a filter of one's own"], answers="EDOM"))
