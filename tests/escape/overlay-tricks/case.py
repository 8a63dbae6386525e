from escape import Attack, Control

CASE = Attack("steer an overlay of a workspace by its own marks: redirects, whiteouts, opaque directories", "64",
              "the kernel hides the overlay's attributes; filter (device 0:0)", program=[""], answers="EPERM|ENOTSUP|EOPNOTSUPP|ENOENT|no effect|hidden",
              flags=["--workspace", "share:overlay"],
              policies=["default", "build", "network"], special={"an ordinary file": "ok"},
              control=Control("an ordinary new file in the same place", tries=["an ordinary file"]))
