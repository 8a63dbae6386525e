from escape import Attack, Control, FILTERED

CASE = Attack(
    "store and read keys in the user's key rings, which all of a user's sandboxes would share", "20",
    "filter (group keyring)", ["keyctl", "add_key", "request_key"], answers=FILTERED,
    control=Control("--allow-syscall @keyring", ["--allow-syscall", "@keyring"], tries=["keyctl", "add_key"]))
