from escape import Attack, Control

CASE = Attack("take a lease on a file of a read-only share (whoever wants to write it on the host waits for 45 seconds), or leave a mark in its inode", "51",
              "filter (test of fcntl's command)", program=[""], answers="EPERM|EINVAL", flags=["--mount", "share:/share"],
              control=Control("outside of a sandbox, on a file of one's own", how="outside"))
