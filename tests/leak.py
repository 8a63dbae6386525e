#!/usr/bin/env python3
"""Nothing is left behind: many runs with every kind of end, and counts of everything that could leak, before and after.

    tests/leak.py --binary build/sbx [--runs 200] [--kills 30] [--as root,user] [--seed N]

The full proof is --runs 2000 --kills 300. Counted: processes, mounts, this driver's own descriptors, temporary files,
uid leases, network and other namespaces, cgroup directories. After the last run one more `sbx exec -- true` is made:
what a killed supervisor left on disk is gone after the next command at the latest.
"""

import argparse
import collections
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from counting import Count, foreign_sandboxes, harness, settled  # noqa: E402

# The kinds of end: name, arguments, wanted exit statuses.
KINDS = [
    ("exit", ["--", "/bin/sh", "-c", "exit 7"], {7}),
    ("signal", ["--", "/bin/sh", "-c", "kill -SEGV $$"], {139}),
    ("time limit", ["--time", "100ms", "--", "/bin/sh", "-c", "sleep 60 & sleep 60"], {124}),
    ("CPU time limit", ["--cpu-time", "100ms", "--", "/bin/sh", "-c", "while :; do :; done"], {124}),
    ("memory limit", ["--memory", "64M", "--disk", "16M", "--", "PROBE", "touch-memory", "512"], {137}),
    ("output limit", ["--output", "64K", "--", "yes"], {137}),
    ("set-up failure", ["--mount", "PROBE:/usr/bin/env/below", "--", "true"], {125}),
    ("command not found", ["--", "no-such-command"], {127}),
    ("filter", ["--", "PROBE", "x32"], {159}),
    ("daemon left", ["--", "/bin/sh", "-c", "(trap '' TERM HUP INT; setsid sleep 60 &) ; exit 0"], {0}),
    ("files left", ["--", "/bin/sh", "-c", "for i in 1 2 3 4; do mkdir d$i; head -c 100000 /dev/zero > d$i/f; done; mkfifo p; ln -s / l"], {0}),
    ("overlay", ["--workspace", "WORK:overlay", "--", "/bin/sh", "-c", "echo x > f; rm -f keep"], {0}),
    ("artifacts", ["--artifacts", "WORK/out", "--", "/bin/sh", "-c", "echo x > made"], {0}),
]


def run(identity, binary, probe, runs, kills, jobs, seed, base):
    marker = f"leak-{os.getpid()}-{identity.label}".encode()
    work = tempfile.mkdtemp(prefix="work-", dir=base)
    home = tempfile.mkdtemp(prefix="home-", dir=base)
    for path in (work, home, os.path.join(work, "keep")):
        if path.endswith("keep"):
            open(path, "w").close()
        if os.geteuid() == 0:
            os.chown(path, identity.uid, identity.gid)
    env = {"PATH": harness.SYSTEM_PATH, "HOME": home, "LEAK_MARKER": marker.decode(), "LANG": "C.UTF-8"}
    chance = random.Random(seed)
    lock = threading.Lock()
    failures, ends = [], collections.Counter()

    def start(arguments):
        words = [str(probe) if w == "PROBE" else w.replace("PROBE:", f"{probe}:").replace("WORK", work) for w in arguments]
        if "PROBE" in arguments:
            words[0:0] = ["--mount", str(probe)]
        return harness.Process([str(binary), "exec", "--env", f"LEAK_MARKER={marker.decode()}", *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, env=env, cwd=work, **identity.popen_arguments())

    # A long time for the kills' payloads, so that the instant decides where in its life sbx is hit.
    start_takes = 0.030 * harness.TIME_FACTOR
    plans = [("kind", KINDS[i % len(KINDS)], None) for i in range(runs - kills)]
    plans += [("kill", None, chance.random() * start_takes) for _ in range(kills)]
    plans += [("term", None, chance.random() * start_takes) for _ in range(max(4, kills // 4))]
    chance.shuffle(plans)

    def worker():
        while True:
            with lock:
                if not plans:
                    return
                what, kind, delay = plans.pop()
            if what == "kind":
                name, arguments, wanted = kind
                process = start(arguments)
                try:
                    _out, err = process.communicate(timeout=30)
                except subprocess.TimeoutExpired:
                    process.kill()
                    _out, err = process.communicate()
                    with lock:
                        failures.append(f"{name}: did not end")
                    continue
                status = harness.shell_status(process.returncode)
                with lock:
                    ends[name] += 1
                    if status not in wanted:
                        failures.append(f"{name}: status {status}, wanted {sorted(wanted)}: {err[-300:].decode('utf-8', 'replace').strip()}")
            else:
                process = start(["--", "/bin/sh", "-c", "(setsid sleep 60 &) ; sleep 60"])
                time.sleep(delay)  # the instant is what is varied
                process.send_signal(signal.SIGKILL if what == "kill" else signal.SIGTERM)
                try:
                    process.communicate(timeout=15)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
                    with lock:
                        failures.append(f"{what} after {delay * 1000:.1f} ms: sbx did not end")
                with lock:
                    ends[what] += 1

    # Whatever is made once and kept (caches, lease directories) is made before the first count.
    for arguments in (["--", "true"], KINDS[11][1]):
        start(arguments).communicate(timeout=30)
    before = Count(marker, binary)
    began = time.monotonic()
    threads = [threading.Thread(target=worker) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - began
    start(["--", "true"]).communicate(timeout=30)

    differences = settled(before, lambda: Count(marker, binary), 2 * harness.TIME_FACTOR, 30 * harness.TIME_FACTOR, lambda: foreign_sandboxes(binary))
    print(f"leak [{identity.label}]: {sum(ends.values())} runs in {seconds:.1f} s: " + ", ".join(f"{v} {k}" for k, v in sorted(ends.items())))
    for text, count in collections.Counter(failures).most_common(12):
        print(f"FAIL leak [{identity.label}]: {count} times: {text}")
    for text in differences:
        print(f"FAIL leak [{identity.label}]: {text}")
    return sum(ends.values()) - len(failures), len(failures) + len(differences)


def main():
    parser = argparse.ArgumentParser(description="Counts what runs with every kind of end leave behind.")
    parser.add_argument("--binary", default=str(harness.ROOT / "build" / "sbx"))
    parser.add_argument("--probe", default="")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--kills", type=int, default=-1, help="of the runs, ended by SIGKILL of sbx; default 15 %%")
    parser.add_argument("--as", dest="identities", default="root,user")
    parser.add_argument("-j", dest="jobs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    binary = pathlib.Path(options.binary).resolve()
    probe = pathlib.Path(options.probe).resolve() if options.probe else binary.parent / "tests" / "probe"
    kills = options.kills if options.kills >= 0 else options.runs * 15 // 100
    print(f"seed {options.seed}")
    passed = failed = 0
    base = tempfile.mkdtemp(prefix="sbx-leak-")
    os.chmod(base, 0o755)
    try:
        for source, name in ((binary, "sbx"), (probe, "probe")):
            shutil.copy2(source, os.path.join(base, name))
            os.chmod(os.path.join(base, name), 0o755)
        identities = harness.make_identities(options.identities.split(","))
        for identity in identities:
            ended, wrong = run(identity, pathlib.Path(base) / "sbx", pathlib.Path(base) / "probe", options.runs // len(identities), kills // len(identities),
                               options.jobs, options.seed, base)
            passed, failed = passed + ended, failed + wrong
    finally:
        shutil.rmtree(base, ignore_errors=True)
    print(f"leak: {'FAILED' if failed else 'nothing left'}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
