from escape import Attack, Control

CASE = Attack("reach nf_tables in a network namespace of one's own, the usual road to kernel bugs", "22", "filter; max_user_namespaces is 0", ["nft"],
              answers="EPERM|ENOSYS|ENOSPC|EUSERS|EPROTONOSUPPORT|EAFNOSUPPORT",
              control=Control("bare namespaces, no filter", how="namespaces", absent="EPROTONOSUPPORT|EPERM"))
