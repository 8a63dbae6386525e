from escape import Attack, Control

CASE = Attack("change by prctl what /proc shows of a process, or which processes share a core on the host", "84", "filter (test of prctl's option)",
              program=[""], answers="EPERM|EINVAL|ENODEV|ENOSYS",
              special={"PR_SET_NAME": "ok", "PR_SET_SECUREBITS": "EPERM", "PR_CAP_AMBIENT": "EPERM|EINVAL"},
              control=Control("an option that only concerns oneself", tries=["PR_SET_NAME"]))
