from escape import Attack, Control

CASE = Attack("make a system call by the x32 table, whose numbers no rule names", "18", "filter: killed", ["x32"], answers="killed",
              control=Control("bare namespaces, no filter", how="namespaces", absent="ENOSYS"), needs="x86_64")
