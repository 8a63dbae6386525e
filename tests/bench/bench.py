#!/usr/bin/env python3
"""Times whole starts, interleaved in random order, and prints medians and ratios.

    tests/bench/bench.py --binary build/sbx [--rounds 60] [--as root,user] [--json FILE]

    bare       vfork and exec of the command, nothing else
    floor      tests/bench/floor.c: the least C that puts up the same namespaces, mounts, identity and filter
    sbx        sbx exec -- true; sbx run --lang python -c 'print("hello")'
    … without cgroup   with --cgroup-parent none: the difference is what a cgroup costs, for a user the manager's scope too
    bwrap      Debian's bubblewrap with the same view of files, where it is installed (it has no filter and fewer
               protections); "whole-host" is --ro-bind / / --unshare-all --proc /proc --dev /dev
    sbx bwrap  the same command line, carried out by sbx

and what the default filter costs one system call, against the same call without any:

    allowed    getppid, which the kernel serves from its bitmap of calls that are always allowed
    tested     an ioctl, whose number the filter compares
    errno      io_uring_setup, which the filter answers with ENOSYS
    reported   acct, which the supervisor hears of and answers

Only ratios mean anything: machines differ, and a busy one slows all rows alike. The quartiles tell how far to trust a row.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import harness  # noqa: E402


WHOLE_HOST = ["--ro-bind", "/", "/", "--unshare-all", "--proc", "/proc", "--dev", "/dev", "true"]


def bwrap_argv(command, program=("bwrap",)):
    """The view that sbx gives, in bwrap's words."""
    words = [*program, "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin",
             "--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib64"):
        if os.path.islink(f"/{name}"):
            words += ["--symlink", os.readlink(f"/{name}"), f"/{name}"]
        elif os.path.isdir(f"/{name}"):
            words += ["--ro-bind", f"/{name}", f"/{name}"]
    for name in ("/etc/alternatives", "/etc/ssl", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/ca-certificates"):
        words += ["--ro-bind-try", name, name]
    words += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/box", "--tmpfs", "/home/sandbox", "--hostname", "sandbox", "--chdir", "/box", "--"]
    return words + command


def time_one(argv, identity, cwd, env):
    began = time.perf_counter()
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=cwd, env=env,
                          **identity.popen_arguments())
    seconds = time.perf_counter() - began
    return seconds, done.returncode, done.stderr


def planned_binds(binary, identity, cwd, env):
    """How many read-only binds the default view has on this host, as `-v` shows the plan; 12 when it does not."""
    done = subprocess.run([binary, "exec", "-v", "--", "true"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=cwd,
                          env=env, **identity.popen_arguments())
    found = done.stderr.decode(errors="replace").count(": fs bind-ro ")
    return min(found, 64) or 12


def measure(identity, options, base):
    work = tempfile.mkdtemp(prefix="b-", dir=base)
    if os.geteuid() == 0:
        os.chown(work, identity.uid, identity.gid)
    env = {"PATH": harness.SYSTEM_PATH, "HOME": work, "LANG": "C.UTF-8"}
    binary = os.path.join(base, "sbx")
    hello = ["/usr/bin/python3", "-c", 'print("hello")']
    true = shutil.which("true", path=harness.SYSTEM_PATH)
    rows = {"bare true": [true], "sbx exec true": [binary, "exec", "--", "true"],
            "sbx without cgroup true": [binary, "exec", "--cgroup-parent", "none", "--", "true"], "bare python": hello,
            "sbx run python": [binary, "run", "--lang", "python", "-c", 'print("hello")']}
    filter_file = os.path.join(work, "filter.bpf")
    done = subprocess.run([binary, "policy", "show", "default", "--bpf", filter_file], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, env=env, cwd=work, **identity.popen_arguments())
    if not os.path.exists(filter_file):
        print(f"note: floor runs without a filter: sbx policy show --bpf: {done.stderr.decode(errors='replace').strip()[:200]}")
        filter_file = "/dev/null"
    if os.path.exists(os.path.join(base, "floor")):
        binds = options.binds or planned_binds(binary, identity, work, env)
        rows["floor true"] = [os.path.join(base, "floor"), filter_file, str(binds), "true"]
        rows["floor python"] = [os.path.join(base, "floor"), filter_file, str(binds), *hello]
    if harness.have("bwrap"):
        rows["bwrap true"] = bwrap_argv(["true"])
        rows["bwrap python"] = bwrap_argv(hello)
        rows["bwrap whole-host"] = ["bwrap", *WHOLE_HOST]
        rows["sbx bwrap true"] = bwrap_argv(["true"], [binary, "bwrap"])
        rows["sbx bwrap whole-host"] = [binary, "bwrap", *WHOLE_HOST]
    usable = {}
    for name, argv in rows.items():
        seconds, status, err = time_one(argv, identity, work, env)
        if status:
            print(f"note: {name} left out: status {status}: {err.decode(errors='replace').strip()[:200]}")
        else:
            usable[name] = argv
    times = {name: [] for name in usable}
    order = [name for name in usable for _ in range(options.rounds)]
    random.Random(options.seed).shuffle(order)
    for name in order:
        times[name].append(time_one(usable[name], identity, work, env)[0] * 1000)
    return times


CALLS = {"allowed": 200000, "tested": 200000, "errno": 200000, "reported": 300}


def call_costs(identity, options, base):
    """{kind: nanoseconds of one call}, and "bare" for getppid without a filter; the least of a few interleaved rounds."""
    calls, binary = os.path.join(base, "calls"), os.path.join(base, "sbx")
    if not os.path.exists(calls):
        return {}
    work = tempfile.mkdtemp(prefix="c-", dir=base)
    if os.geteuid() == 0:
        os.chown(work, identity.uid, identity.gid)
    rows = {"bare": [calls, "200000", "allowed"]}
    for kind, loops in CALLS.items():
        rows[kind] = [binary, "exec", "--mount", f"{calls}:/opt/calls", "--", "/opt/calls", str(loops), kind]
    costs = {}
    for _ in range(max(3, options.rounds // 12)):
        for kind, argv in rows.items():
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=work,
                                  env={"PATH": harness.SYSTEM_PATH, "HOME": work, "LANG": "C.UTF-8"}, **identity.popen_arguments())
            if done.returncode:
                print(f"note: calls {kind} left out: {done.stderr.decode(errors='replace').strip()[:200]}")
            else:
                costs[kind] = min(costs.get(kind, 1e12), float(done.stdout))
    return costs


def call_table(costs):
    if "bare" not in costs:
        return
    print(f"\n{'one call':16} {'ns':>10} {'/ bare':>8}")
    for kind, cost in costs.items():
        print(f"{kind:16} {cost:10.0f} {cost / costs['bare']:8.2f}")


def table(times):
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(f"{'':24} {'median ms':>10} {'quartiles':>16} {'/ bare':>8} {'/ floor':>8} {'/ bwrap':>8}")
    for name in sorted(times, key=lambda n: (n.split()[-1], medians[n])):
        what = name.split()[-1]
        low, _middle, high = statistics.quantiles(times[name], n=4) if len(times[name]) > 1 else (0, 0, 0)
        ratios = [f"{medians[name] / medians[f'{other} {what}']:8.2f}" if f"{other} {what}" in medians else f"{'-':>8}" for other in ("bare", "floor", "bwrap")]
        print(f"{name:24} {medians[name]:10.2f} {f'{low:.2f}-{high:.2f}':>16} {' '.join(ratios)}")
    return medians


def main():
    parser = argparse.ArgumentParser(description="Start-up times against the floor and bwrap; ratios only.")
    parser.add_argument("--binary", default=str(harness.ROOT / "build" / "sbx"))
    parser.add_argument("--floor", default="", help="default: tests/floor beside the binary")
    parser.add_argument("--binds", type=int, default=0, help="read-only binds that the floor makes; default: as many as sbx makes here")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--as", dest="identities", default="root,user")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    floor = pathlib.Path(options.floor) if options.floor else pathlib.Path(options.binary).resolve().parent / "tests" / "floor"
    base = tempfile.mkdtemp(prefix="sbx-bench-")
    os.chmod(base, 0o755)
    record = {"schema": "sbx-bench", "version": 1, "kernel": os.uname().release, "machine": os.uname().machine, "rounds": options.rounds, "identities": {}, "calls_ns": {}}
    try:
        for source, name in ((pathlib.Path(options.binary), "sbx"), (floor, "floor"), (floor.parent / "calls", "calls")):
            if source.exists():
                shutil.copy2(source, os.path.join(base, name))
                os.chmod(os.path.join(base, name), 0o755)
            else:
                print(f"note: {source} is missing")
        for identity in harness.make_identities(options.identities.split(",")):
            print(f"\nas {identity.label}, {options.rounds} starts each, interleaved in random order")
            times = measure(identity, options, base)
            medians = table(times)
            costs = call_costs(identity, options, base)
            call_table(costs)
            record["calls_ns"][identity.label] = costs
            record["identities"][identity.label] = {
                name: {"median_ms": round(medians[name], 3), "samples_ms": [round(v, 3) for v in values]} for name, values in times.items()}
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
