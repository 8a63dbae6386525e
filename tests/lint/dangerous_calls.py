#!/usr/bin/env python3
"""No shipped policy lets a dangerous system call pass whatever its arguments are: dangerous_calls.py SOURCE_TREE, or --self-test.

Dangerous: steers other processes, brings code into the kernel, changes the view of files, makes namespaces, is kept outside the
sandbox, or has requests that differ as day and night (ioctl, prctl). Such a call is refused, or stands in a group or a policy
with a test on its arguments.
"""
import sys

import linting

try:
    import tomllib
except ImportError:  # Python 3.11
    print("dangerous_calls: skipped, needs Python 3.11")
    sys.exit(0)

DANGEROUS = set("""
  ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd perf_event_open
  mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr
  clone clone3 unshare setns
  add_key request_key keyctl
  bpf init_module finit_module delete_module kexec_load kexec_file_load create_module
  io_uring_setup io_uring_enter io_uring_register
  userfaultfd open_by_handle_at fanotify_init fanotify_mark
  reboot swapon swapoff acct quotactl quotactl_fd syslog vhangup sethostname setdomainname
  settimeofday clock_settime adjtimex clock_adjtime
  iopl ioperm modify_ldt uselib vmsplice memfd_secret lookup_dcookie _sysctl nfsservctl
  ioctl prctl personality socket mknod mknodat
  move_pages migrate_pages process_mrelease
""".split())
FOLDER = "policies/seccomp"


def plainly_allowed(policy, groups):
    """The calls that pass for all arguments, with where that is said."""
    placed = {call: name for name, group in groups.items() for call in group.get("calls", [])}
    tested = {}
    for name, group in groups.items():
        for rule in group.get("rule", []):
            for call in rule["calls"]:
                tested.setdefault(call, []).append(rule)
                placed.setdefault(call, name)

    def expand(entries):
        for entry in entries:
            if entry.startswith("@"):
                yield from ((call, entry) for call, name in placed.items() if name == entry[1:])
            else:
                yield entry, entry

    refused = {call for call, _ in expand(policy.get("deny", []) + [c for calls in policy.get("errno", {}).values() for c in calls])}
    found = []
    decided = set()
    for rule in policy.get("rule", []):
        for call in rule["calls"]:
            if "when" not in rule and call not in decided:
                decided.add(call)
                if rule["answer"] in ("allow", "log"):
                    found.append((call, "[[rule]]"))
    for call, entry in expand(policy.get("allow", [])):
        if call in refused or call in decided:
            continue
        rules = tested.get(call, [])
        # A list of rules tests something when the first of them does.
        if not rules or "when" not in rules[0]:
            found.append((call, entry))
    if policy.get("otherwise", "deny") in ("allow", "log"):
        found += [(call, "otherwise") for call in sorted(DANGEROUS - refused - decided - {call for call, _ in expand(policy.get("allow", []))})]
    return found


def check(root):
    folder = root / FOLDER
    if not folder.exists():
        return []
    groups = tomllib.loads((folder / "groups.toml").read_text(encoding="utf-8"))
    problems = []
    for path in sorted(folder.glob("*.toml")):
        if path.name == "groups.toml":
            continue
        policy = tomllib.loads(path.read_text(encoding="utf-8"))
        problems += [f"{FOLDER}/{path.name}: {call} is allowed whatever its arguments, by {where}"
                     for call, where in plainly_allowed(policy, groups) if call in DANGEROUS]
    return problems


GROUPS = """
[io]
calls = ["read"]
[[io.rule]]
calls = ["ioctl"]
when = [{ arg = 1, bits = 32, equals = 3 }]
answer = "deny"
[[io.rule]]
calls = ["ioctl"]
answer = "allow"
[debug]
calls = ["ptrace", "bpf"]
"""
CLEAN = {f"{FOLDER}/groups.toml": GROUPS, f"{FOLDER}/default.toml": 'otherwise = "deny"\nallow = ["@io"]\ndeny = ["@debug"]\n'}
BAD = {
    "by name": {f"{FOLDER}/default.toml": 'allow = ["@io", "ptrace"]\n'},
    "by its group": {f"{FOLDER}/default.toml": 'allow = ["@debug"]\ndeny = ["bpf"]\n'},
    "in no group": {f"{FOLDER}/default.toml": 'allow = ["keyctl"]\n'},
    "by a rule without a test": {f"{FOLDER}/default.toml": 'allow = ["@io"]\n[[rule]]\ncalls = ["ioctl"]\nanswer = "allow"\n'},
    "by a group's list that begins without a test": {f"{FOLDER}/groups.toml": GROUPS.replace("when = [{ arg = 1, bits = 32, equals = 3 }]\n", "")},
    "in another policy": {f"{FOLDER}/own.toml": 'allow = ["bpf"]\n'},
}

if __name__ == "__main__":
    linting.main(__doc__, "dangerous_calls", check, CLEAN, BAD)
