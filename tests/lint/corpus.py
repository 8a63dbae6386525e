#!/usr/bin/env python3
"""What ordinary programs call, the default policy allows, or answers with an errno that they expect: corpus.py SOURCE_TREE, or --self-test.

The record is tests/seccomp/corpus/*.txt (tests/seccomp/record.py). A call that stands in `deny` or in no list at all is a problem:
the program would get EPERM for something that it does every day. With tests on its arguments the names of a line must be among those
that DENIED does not list.
"""
import sys

import linting

try:
    import tomllib
except ImportError:  # Python 3.11
    print("corpus: skipped, needs Python 3.11")
    sys.exit(0)

POLICIES = "policies/seccomp"
CORPUS = "tests/seccomp/corpus"
# Words that a tested call must not have: what the default refuses of it. (That socket's are answered by errnos, as MPTCP's
# EPROTONOSUPPORT, is checked by the case that runs the programs inside.)
DENIED = ("CLONE_NEW", "TIOCSTI", "TIOCLINUX", "TIOCCONS", "TIOCSETD", "PR_SET_MM", "PR_SCHED_CORE", "SOCK_RAW", "SOCK_PACKET", "ADDR_NO_RANDOMIZE")


def check(root):
    if not (root / CORPUS).exists():
        return []
    groups = tomllib.loads((root / POLICIES / "groups.toml").read_text(encoding="utf-8"))
    policy = tomllib.loads((root / POLICIES / "default.toml").read_text(encoding="utf-8"))
    calls_of = {name: group.get("calls", []) + [call for rule in group.get("rule", []) for call in rule["calls"]] for name, group in groups.items()}

    def expand(entries):
        return {call for entry in entries for call in (calls_of[entry[1:]] if entry.startswith("@") else [entry])}

    answered = expand(call for calls in policy.get("errno", {}).values() for call in calls)
    fine = (expand(policy.get("allow", [])) | answered) - expand(policy.get("deny", []))
    problems = []
    for path in sorted((root / CORPUS).glob("*.txt")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line or line.startswith("#"):
                continue
            name, *words = line.split()
            if name not in fine:
                problems.append(f"{CORPUS}/{path.name}:{number}: {name} is refused by the default policy")
            elif any(word.startswith(DENIED) or any(flag.startswith(DENIED) for flag in word.split("|")) for word in words):
                problems.append(f"{CORPUS}/{path.name}:{number}: {line}: these arguments are refused by the default policy")
    return problems


CLEAN = {
    f"{POLICIES}/groups.toml": '[io]\ncalls = ["read"]\n[[io.rule]]\ncalls = ["clone"]\nanswer = "allow"\n[probed]\ncalls = ["clone3"]\n[debug]\ncalls = ["ptrace"]\n',
    f"{POLICIES}/default.toml": 'allow = ["@io"]\ndeny = ["@debug"]\n[errno]\nENOSYS = ["@probed"]\n',
    f"{CORPUS}/a.txt": "# a\nread\nclone3\nclone CLONE_VM|SIGCHLD\n",
}
BAD = {
    "a denied call": {f"{CORPUS}/b.txt": "ptrace\n"},
    "a call in no list": {f"{CORPUS}/b.txt": "# b\nread\nwrite\n"},
    "arguments that are refused": {f"{CORPUS}/b.txt": "clone CLONE_NEWUSER|SIGCHLD\n"},
    "an allowed call that is denied now": {f"{POLICIES}/default.toml": 'allow = ["@io"]\ndeny = ["@debug", "read"]\n[errno]\nENOSYS = ["@probed"]\n'},
}

if __name__ == "__main__":
    linting.main(__doc__, "corpus", check, CLEAN, BAD)
