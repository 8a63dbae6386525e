#!/usr/bin/env python3
"""Writes docs/containment.md from the cases' own data and what runs saw of them: evidence.json and compared*.json, which
`make containment` (tests/escape/record.py) records.

    tests/escape/table.py            writes the page
    tests/escape/table.py --check    fails when the page is not what would be written, or a case was never run
    tests/escape/table.py --self-test
"""

import json
import pathlib
import re
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(1, str(HERE.parent / "integration"))
import escape  # noqa: E402

PAGE = HERE.parent.parent / "docs" / "containment.md"
EVIDENCE = HERE / "evidence.json"
# Where `sbx selftest --compare … --json` ran, and what it printed.
COMPARED = (("here", HERE / "compared.json"), ("Debian 12", HERE / "compared-debian12.json"), ("Debian 13", HERE / "compared-debian13.json"))
EXPLOITS = HERE / "exploits.json"

SECTIONS = (
    ("System calls", ("keyrings", "session-keyring", "io-uring", "x32", "int80", "userfaultfd", "debugging", "administration", "ports", "personality", "clocks",
                      "process-options", "terminal-ioctls", "socket-families", "host-counters", "callers-counters", "leases", "locks", "priorities", "own-filters")),
    ("Namespaces, mounts, privileges", ("user-namespaces", "other-namespaces", "netfilter", "mounts", "landlock", "roots", "file-handles", "device-nodes", "set-uid-program",
                                        "privileges", "identities", "file-capabilities", "overlay-tricks", "hard-links", "names", "device-times")),
    ("Init, /proc, /dev, other processes", ("own-init-debugged", "magic-links", "descriptors", "environment", "host-processes", "users-processes", "kernel-settings", "kernel-windows", "proc-masks",
                                            "core-dump")),
    ("What lies outside", ("credentials", "abstract-sockets", "path-sockets", "fifos", "passed-descriptors", "loopback", "ipc", "shared-places")),
    ("Compile step, results, what the host trusts", ("compile-includes", "compile-code", "compile-output", "source-kinds", "result-in-workspace", "result-forged", "git-hooks", "own-places",
                                                     "hostile-names")),
    ("Supervisor, nesting, flags", ("supervisor-stopped", "supervisor-without-descriptors", "nested", "combined")),
)

# What other cases of tests/run.py hold, with their own controls: (attack, classes, what stops it, cases).
ELSEWHERE = (
    ("type into the caller's terminal (TIOCSTI, TIOCLINUX), leave it changed", "1, 3", "a terminal of the sandbox's own; filter", ("stream/tty_injection", "stream/tty_injection_control", "stream/tty_restored")),
    ("overwrite the caller's files by reopening stdin or stdout", "5, 43", "pipes; Landlock", ("stream/reopen_stdin", "stream/reopen_stdout")),
    ("swap a mount's source for a link while sbx starts", "35", "sources are opened without links and compared", ("hostility/swapped_source",)),
    ("leave links, FIFOs, devices, sparse and hostile trees for whoever collects the output", "36", "opened beneath, only regular files, bounded", ("result/hostile_tree", "result/destination_link", "hostility/artifacts_redirected")),
    ("leave set-uid files in a writable share", "29", "filter; a sweep after the run", ("mount/set_uid", "mount/set_uid_mount")),
    ("rewrite .git, worktree pointers and their like by renames, links and ancestors", "37", "read-only and pinned mounts; a sweep after the run", ("mount/sensitive", "mount/sensitive_missing", "mount/sensitive_worktree")),
    ("make mounts that show up on the host", "25", "private propagation", ("mount/no_propagation",)),
    ("exhaust memory by heap, shared mappings, memfds, segments, page tables, pipes, private files", "67, 68", "cgroup, else sampling", ("cgroup/heap", "cgroup/memfd", "cgroup/sysv", "cgroup/pipes", "limit/memfd", "limit/sysv", "hostility/page_tables")),
    ("fork bomb, threads", "66", "pids controller, else RLIMIT_NPROC", ("limit/fork_bomb", "cgroup/fork_bomb", "limit/threads")),
    ("fill disks by data and by empty files, write without end", "69, 70", "tmpfs limits; output limit", ("limit/disk", "limit/inodes", "limit/output", "limit/file_size")),
    ("use up the host's inotify instances and pseudo terminals", "67", "own bounds", ("hostility/inotify_share", "hostility/pty_share")),
    ("outlive the run, hold its streams, ignore signals, stop oneself", "71, 72", "init's death ends the namespace", ("stream/holder", "stream/daemon", "stream/kill", "stream/kill_early", "hostility/stop_itself")),
    ("sleep or spin past the time limits", "75", "the supervisor's timers", ("limit/wall_tree", "limit/cpu", "cgroup/cpu_autoreap", "hostility/slow_to_measure")),
    ("get out of, or see more than, one's own cgroup", "30, 31", "cgroup namespace, read-only", ("cgroup/namespace", "cgroup/nested", "view/no_state")),
    ("loosen a policy from inside a workspace", "37", "a policy in a workspace may only tighten", ("limit/policy_workspace",)),
    ("steer the interpreter by variables or modules that shadow", "15", "clean environment; import path", ("view/environment_steering", "run/nothing_shadows")),
)

OPEN = (
    ("Sockets in shared directories", "a socket of the host in a directory that is shared, read-only or not, can be connected to with the policies default, build and network, until the kernel has Landlock ABI 9 "
     "(`path-sockets`). That part of the Landlock rules could not be tried on a kernel that has it. `:overlay`, strict and judge close it on every kernel"),
    ("Counters by user", "as an ordinary user the payload has the caller's uid on the host, and the kernel counts some things by it: pages in pipes above a soft limit, descriptors in flight over sockets, epoll watches. "
     "A payload can use them up, within `--pids` and `--open-files`; as root every sandbox has a uid of its own"),
    ("Record locks and flock", "the default policy lets a payload lock files that it can open, those of a read-only share among them: programs of the host that lock the same files wait while it runs. judge refuses"),
    ("Futexes", "two sandboxes that see one file of the host, a library even, can wait and wake on a page of it by futex(2), under every policy: a filter does not see what an address belongs to"),
    ("Watches", "inotify on the host's read-only files (default, build, network) tells when programs of the host open them. judge and strict refuse"),
    ("sync(2)", "writes back all file systems of the host: a payload can make its disks busy"),
    ("Kernel memory without a cgroup", "sockets, pipes, cached names: bounded by `--pids` and `--open-files` only"),
    ("Loading of modules", "executing a file of an unknown format makes older kernels look for a module named after its first bytes. Socket families, line disciplines and file systems, the other roads, are closed"),
    ("Names of the host", "`/proc/self/mountinfo` shows the host's paths of what was shared; boot id, kernel version, load, uptime, processor and memory are the host's"),
    ("Side channels", "caches, branch predictors, SMT, bandwidth, timing of shared files in the page cache (classes 83 and 84)"),
    ("Bugs of the kernel", "in what the filter allows; the sandbox makes the surface smaller, no more. [Which published exploits that stops](#kernel-exploits-and-what-they-need), and which not"),
    ("Writable shares", "`:rw` directories have no limit but the file size: a payload can fill the host's disk there, and leave FIFOs, sockets and sparse files"),
    ("In a guest only", "a piped core_pattern: the control starts a helper as root, so `tests/escape/guest.sh` runs in a Debian 12 guest (Linux 6.1): no helper for five aborts inside, one for each abort outside"),
    ("Not tried here", "a real virtual console, GPUs, other file systems than ext4, overlay and tmpfs; "
     "aarch64, whose filter is evaluated but not run"),
)


def cell(text):
    return re.sub(r"\s+", " ", str(text)).replace("|", "\\|").replace("<", "&lt;").strip()


def seen(entry, which):
    """Of both identities; once where they agree."""
    texts = {label: pair[which] for label, pair in sorted(entry.items()) if pair[which]}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"as {label}: {text}" for label, text in texts.items() if text != "not as this identity")


def given(exploit, preconditions):
    return all(preconditions[name]["given"] for name in exploit["needs"])


def where_they_differ(texts):
    """{place: text} as one cell: once where all say the same, else each with its places."""
    groups = {}
    for place, text in texts.items():
        groups.setdefault(text, []).append(place)
    if len(groups) == 1:
        return next(iter(groups))
    return "; ".join(f"*{', '.join(places)}*: {text}" for text, places in groups.items())


def comparison(documents):
    """What `sbx selftest --compare` saw on each machine, side by side."""
    names = list(dict.fromkeys(tool["name"] for document in documents.values() for tool in document["tools"]))
    lines = ["## Beside other tools", "",
             "The attacks of `sbx selftest` ([selftest.md](selftest.md)), each once in a sandbox of the default policy and once under other tools as a careful user would call them, "
             "here and in a Debian 12 and a Debian 13 with systemd. "
             "*Not tried*: it uses up what only a limit holds, and the tool was given none. *Open* names the tries that worked, or that the kernel refused only for their arguments, which are wrong on purpose. "
             "It need not be a hole: bubblewrap, for one, filters no call unless it is handed a filter, and says so. A cell that does not name a machine holds for all on which the tool was tried. "
             "The guests are emulated, and slow: an attempt for which its own time was too short there could not be tried.", "",
             "`make containment` repeats the measurement, whose heart is `sudo sbx selftest --compare NAME,… --as USER --json`, and writes this page.", "",
             "| | kernel | sbx | " + " | ".join(names) + " |", "|---|---|---|" + "---|" * len(names)]
    for place, document in documents.items():
        tools = {tool["name"]: tool for tool in document["tools"]}
        versions = [re.search(r"[0-9][0-9.]*", tools[name]["version"]).group() if name in tools else "–" for name in names]
        host = document["host"]
        lines.append(f"| {place} | Linux {'.'.join(host['kernel'].split('.')[:2])}, {host['arch']} | {document['sbx_version']}: {document['blocked']} blocked, {document['open']} open, "
                     f"{document['not_applicable']} not applicable | " + " | ".join(versions) + " |")
    lines.append("")
    for name in names:
        commands = [" ".join(tool["command"]) for document in documents.values() for tool in document["tools"] if tool["name"] == name]
        lines += [f"- `{command}`" for command in dict.fromkeys(commands)]
    lines += ["", "| attack | sbx | " + " | ".join(names) + " |", "|---|---|" + "---|" * len(names)]
    by_name = {place: {attack["name"]: attack for attack in document["attacks"]} for place, document in documents.items()}
    for attack in documents["here"]["attacks"]:
        name = attack["name"]
        cells = [where_they_differ({place: f"{rows[name]['verdict']}: {rows[name]['by'] or rows[name]['why']}" for place, rows in by_name.items() if name in rows})]
        for tool in names:
            texts = {}
            for place, rows in by_name.items():
                for other in rows.get(name, {"others": []})["others"]:
                    if other["tool"] == tool:
                        texts[place] = f"**open**: {other['by']}" if other["verdict"] == "open" else other["verdict"]
            cells.append(where_they_differ(texts))
        lines.append("| " + " | ".join(cell(text) for text in [attack["attack"], *cells]) + " |")
    return lines + [""]


def exploit_table(document):
    """What each published kernel exploit needs, and whether the default policy gives it."""
    preconditions, rows = document["preconditions"], document["exploits"]
    open_ones = [row for row in rows if given(row, preconditions)]
    lines = ["## Kernel exploits and what they need", "",
             "Public exploits of the Linux kernel since 2023 that lead from an ordinary user to root, as far as a document says what they need; most are from Google's kernelCTF. "
             f"Of {len(rows)}, {len(rows) - len(open_ones)} need something that the default policy refuses, whatever the kernel's version. "
             "That says nothing about variants that need less, nor about the next one. A unit test decides each precondition with the shipped filter, on x86-64 and aarch64.", "",
             "| needs | the default policy | decided by |", "|---|---|---|"]
    for name, needed in preconditions.items():
        arguments = ", ".join(hex(value) if value > 255 else str(value) for value in needed["arguments"])
        lines.append(f"| {cell(name)} | {'gives it' if needed['given'] else 'refuses'} | `{needed['call']}({arguments})` |")
    lines += ["", "| exploit | in | needs | with the default policy |", "|---|---|---|---|"]
    for row in rows:
        refused = [name for name in row["needs"] if not preconditions[name]["given"]]
        lines.append(f"| [{row['cve']}]({row['source']}) | {cell(row['what'])} | {cell(', '.join(row['needs']))} | {'no ' + cell(', no '.join(re.sub('^an? ', '', name) for name in refused)) if refused else '**reached**: only a patched kernel helps'} |")
    return lines + [""]


def page(attacks, evidence):
    out = ["# What was tried against the sandbox", "",
           "Written by `tests/escape/table.py` from the cases in `tests/escape/` and what their last recorded run saw; do not edit.", "",
           f"The run: {evidence['host']}, as root and as an ordinary user, with a user namespace for each. `python3 tests/run.py --binary build/sbx -k '^escape/'` repeats it in half a minute, `make test` contains it.", "",
           "Every attempt is made inside a sandbox and must be refused. A refusal proves little by itself, so each has a **control**: the same attempt in the same sandbox with only that protection taken away. "
           "Where no flag takes it away the control is made in bare namespaces without a filter, or outside where it harms nobody; the column says so. "
           "What one program tries is tried under each shipped policy to which it applies (default, strict, judge, build, network). "
           "Where two protections hold the same place, the case takes each away alone: *and still refused* says with what.", ""]
    for title, names in SECTIONS:
        out += [f"## {title}", "", "| case | attempt | what stops it | seen | control | control seen |", "|---|---|---|---|---|---|"]
        for name in names:
            _folder, attack = attacks[name]
            entry = evidence["cases"][f"escape/{name}"]
            stops = attack.blocked_by + "".join(f"; *and still refused* when {layer.text}" for layer in attack.layers)
            control = attack.control
            text = control.text if control else "none: " + attack.no_control
            if control and control.how == "namespaces" and "bare namespaces" not in text:
                text += " (bare namespaces, no filter)"
            if control and control.how == "outside" and "outside" not in text:
                text += " (outside of a sandbox)"
            out.append("| " + " | ".join((f"`{name}`", cell(attack.what) + f" ({attack.classes})", cell(stops), cell(seen(entry, 0)), cell(text), cell(seen(entry, 1)))) + " |")
        out.append("")
    out += ["The numbers are classes of attacks known from other tools; [testing.md](testing.md#attempts-and-their-controls) has the list.", "",
            "## Held by other cases", "", "| attempt | what stops it | cases |", "|---|---|---|"]
    for what, classes, stops, names in ELSEWHERE:
        out.append(f"| {cell(what)} ({classes}) | {cell(stops)} | {', '.join(f'`{n}`' for n in names)} |")
    out += [""] + comparison({place: json.loads(path.read_text(encoding="utf-8")) for place, path in COMPARED}) + exploit_table(json.loads(EXPLOITS.read_text(encoding="utf-8")))
    out += ["## What is not held", "", "| | |", "|---|---|"]
    for what, text in OPEN:
        out.append(f"| {cell(what)} | {cell(text)} |")
    return "\n".join(out) + "\n"


def probe_names():
    """The attacks of selftest, as its source lists them."""
    source = (HERE.parent.parent / "src" / "selftest" / "probe.cc").read_text(encoding="utf-8")
    return set(re.findall(r'\{"([a-z0-9-]+)", k[A-Z]\w*,', source))


def problems_of(attacks, evidence, text):
    placed = [name for _title, names in SECTIONS for name in names]
    found = [f"{name}: stands in no section of table.py" for name in attacks if name not in placed]
    found += [f"{name}: stands in table.py and is no case" for name in placed if name not in attacks]
    found += [f"{name}: twice in table.py" for name in set(placed) if placed.count(name) > 1]
    for place, path in COMPARED:
        compared = [attack["name"] for attack in json.loads(path.read_text(encoding="utf-8"))["attacks"]] if path.exists() else []
        missing = sorted(probe_names() - set(compared)) if compared else ["all"]
        if missing:
            found.append(f"{path.name}: not compared ({place}): {', '.join(missing)}: make containment")
    for name in attacks:
        if f"escape/{name}" not in evidence["cases"]:
            found.append(f"{name}: no run of it is recorded (--evidence)")
        if attacks[name][1].control is None and not attacks[name][1].no_control:
            found.append(f"{name}: neither a control nor a word why there is none")
    if not found and page(attacks, evidence) != text:
        found.append("docs/containment.md is stale: run tests/escape/table.py")
    return found


def write():
    """The page anew; what is wrong with its sources ends the program."""
    attacks, evidence = escape.load_attacks(), json.loads(EVIDENCE.read_text())
    found = [p for p in problems_of(attacks, evidence, "") if "stale" not in p]
    if found:
        raise SystemExit("\n".join(found))
    PAGE.write_text(page(attacks, evidence))


def main():
    attacks, evidence = escape.load_attacks(), json.loads(EVIDENCE.read_text())
    if sys.argv[1:] == ["--self-test"]:
        text = page(attacks, evidence)
        assert problems_of(attacks, evidence, text) == [], problems_of(attacks, evidence, text)
        assert problems_of(attacks, evidence, text + "x"), "a stale page"
        name = next(iter(attacks))
        fewer = {"host": evidence["host"], "cases": {k: v for k, v in evidence["cases"].items() if k != f"escape/{name}"}}
        assert problems_of(attacks, fewer, text), "a case that was never run"
        assert problems_of({**attacks, "new": attacks[name]}, evidence, text), "a case that stands nowhere"
        return 0
    if sys.argv[1:] == ["--check"]:
        found = problems_of(attacks, evidence, PAGE.read_text())
        print("\n".join(found) or "docs/containment.md is up to date")
        return 1 if found else 0
    if sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
