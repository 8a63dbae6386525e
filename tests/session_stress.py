#!/usr/bin/env python3
"""Sessions under kill -9, and many at once: session_stress.py --binary build/sbx [--cells 500] [--sessions 100] [--seed N]

Runs as whoever calls it. Cells with every kind of end run in a few sessions, while at random instants a client, an
interpreter or a supervisor is killed by SIGKILL. After each, a session that lives must run a next cell, and one whose
supervisor was killed must be gone with all its processes. Then many sessions are started and each answers; their
memory is printed. At the end nothing is left: no process, no entry.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "integration"))
from harness import alive, process_tree as tree  # noqa: E402

CELLS = ["x = {n}\nprint({n})", "1 / 0", "print('y' * 100000)", "import os; os.system('sleep 0.05')", "import time; time.sleep(0.2)",
         "while True: pass", "import subprocess; subprocess.Popen(['sleep', '0.1'])", "b = bytearray(20 << 20)", "import os; os._exit(3)", "raise SystemExit(2)"]


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Stress:
    def __init__(self, binary, seed):
        self.binary, self.random = binary, random.Random(seed)
        self.home = tempfile.mkdtemp(prefix="sbx-stress-")
        self.env = dict(os.environ, XDG_RUNTIME_DIR=self.home)
        self.problems = []

    def sbx(self, *words, timeout=60):
        return subprocess.run([self.binary, "session", *words], env=self.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout)

    def start(self, name):
        done = self.sbx("start", "--name", name, "--time", "2s", "--ttl", "30m", "--memory", "256M", "--disk", "64M")
        if done.returncode != 0:
            raise SystemExit(f"cannot start a session: {done.stderr.decode()}")
        shown = json.loads(self.sbx("show", name).stdout)
        return shown["supervisor_pid"]

    def wait_gone(self, pids, what):
        end = time.monotonic() + 10
        while any(map(alive, pids)):
            if time.monotonic() > end:
                self.problems.append(f"{what}: still there: {[pid for pid in pids if alive(pid)]}")
                return
            time.sleep(0.01)

    def cells(self, count):
        name, supervisor = "a", self.start("a")
        kills = {"client": 0, "interpreter": 0, "supervisor": 0, "nothing": 0}
        for number in range(count):
            code = self.random.choice(CELLS).format(n=number)
            client = subprocess.Popen([self.binary, "session", "run", "--json", name, "-c", code], env=self.env, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            victim = self.random.choice(["client", "client", "interpreter", "interpreter", "supervisor", "nothing", "nothing"])
            kills[victim] += 1
            time.sleep(self.random.random() * 0.15)  # the instant is what varies
            pids = tree(supervisor)
            if victim == "client":
                client.kill()
            elif victim == "interpreter" and len(pids) > 2:
                kill(self.random.choice(pids[2:]))
            elif victim == "supervisor":
                kill(supervisor)
            try:
                out, _ = client.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                self.problems.append(f"cell {number} ({code!r}, {victim} killed) does not end")
                client.kill()
                client.communicate()
                continue
            if victim == "nothing" or victim == "interpreter":
                try:
                    json.loads(out)
                except ValueError:
                    self.problems.append(f"cell {number} ({code!r}, {victim} killed): no result")
            if victim == "supervisor":
                self.wait_gone(pids, f"cell {number}, supervisor killed")
                supervisor = self.start(name)
            else:
                done = self.sbx("run", name, "-c", f"print({number})")
                if victim == "interpreter" and done.returncode == 137:  # killed between the two cells
                    done = self.sbx("run", name, "-c", f"print({number})")
                if not done.stdout.endswith(b"%d\n" % number):
                    self.problems.append(f"after cell {number} ({code!r}, {victim} killed): {done.returncode} {done.stdout!r} {done.stderr!r}")
        pids = tree(supervisor)
        self.sbx("stop", name)
        self.wait_gone(pids, "stop")
        print(f"{count} cells, killed: {kills}")

    def many(self, count):
        began = time.monotonic()
        supervisors = [self.start(f"s{number}") for number in range(count)]
        started = time.monotonic() - began
        for number in range(count):
            done = self.sbx("run", f"s{number}", "-c", f"{number} + 1")
            if done.stdout != b"%d\n" % (number + 1):
                self.problems.append(f"session {number} of {count}: {done.stdout!r} {done.stderr!r}")
        pids = [pid for supervisor in supervisors for pid in tree(supervisor)]
        proportional = {"supervisor": 0, "init": 0, "interpreter": 0}
        for supervisor in supervisors:
            for role, pid in zip(proportional, tree(supervisor)):
                try:
                    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
                except OSError:
                    continue
                proportional[role] += int(text.split("Pss:")[1].split()[0])
        ticks = [sum(map(int, pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13])) for pid in pids]
        time.sleep(5)  # what idle ones cost is a rate
        after = [sum(map(int, pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13])) for pid in pids]
        busy = (sum(after) - sum(ticks)) / os.sysconf("SC_CLK_TCK") / 5
        print(f"{count} sessions, {started / count * 1000:.0f} ms a start, {len(pids)} processes; idle, all together: {busy * 100:.0f} % of one CPU")
        print("KiB a session (proportional): " + ", ".join(f"{role} {total // count}" for role, total in proportional.items()))
        self.sbx("stop", "--all", timeout=300)
        self.wait_gone(pids, "stop --all")

    def close(self):
        self.sbx("stop", "--all", timeout=300)
        left = [name for name in os.listdir(os.path.join(self.home, "sbx", "sessions")) if name != "lock"]
        if left:
            self.problems.append(f"entries left: {left}")
        shutil.rmtree(self.home)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--cells", type=int, default=500)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    stress = Stress(os.path.abspath(options.binary), options.seed)
    try:
        if options.cells:
            stress.cells(options.cells)
        if options.sessions:
            stress.many(options.sessions)
    finally:
        stress.close()
    for problem in stress.problems:
        print("problem: " + problem)
    print(f"{len(stress.problems)} problems")
    return 1 if stress.problems else 0


if __name__ == "__main__":
    sys.exit(main())
