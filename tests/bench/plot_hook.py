#!/usr/bin/env python3
"""What collecting plots costs a program that shows none: starts with and without, interleaved in random order.

    tests/bench/plot_hook.py --binary build/sbx [--rounds 200]

The figure is the difference between `sbx run` and `sbx run --no-plots`, both with a result, in percent of a bare start of
the same interpreter outside: of the lower quartiles of wall time, which a busy machine moves least. Not more than 5.
"""

import argparse
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

PROGRAMS = {"python": ("/usr/bin/python3", "main.py", "pass\n"), "r": ("Rscript", "main.R", "invisible(1)\n")}


def time_one(argv, cwd, env):
    began = time.perf_counter()
    subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=cwd, env=env, check=True)
    return time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description="The cost of the plot hooks, against a bare start of the interpreter.")
    parser.add_argument("--binary", default=str(harness.ROOT / "build" / "sbx"))
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    binary = str(pathlib.Path(options.binary).resolve())
    with tempfile.TemporaryDirectory(prefix="sbx-bench-") as work:
        env = {"PATH": harness.SYSTEM_PATH, "HOME": work, "LANG": "C.UTF-8"}
        for language, (tool, name, code) in PROGRAMS.items():
            tool = shutil.which(tool, path=harness.SYSTEM_PATH)
            if tool is None:
                continue
            pathlib.Path(work, name).write_text(code)
            run = [binary, "run", "--toolchain", tool, "--result", os.path.join(work, "result.json")]
            rows = {"bare": [tool, name], "without": [*run, "--no-plots", name], "with": [*run, name]}
            times = {row: [] for row in rows}
            for argv in rows.values():
                time_one(argv, work, env)
            order = list(rows) * options.rounds
            random.Random(1).shuffle(order)
            for row in order:
                times[row].append(time_one(rows[row], work, env) * 1000)
            low = {row: statistics.quantiles(values, n=4)[0] for row, values in times.items()}
            middle = {row: statistics.median(values) for row, values in times.items()}
            print(f"{language}, {options.rounds} starts each: lower quartiles " + ", ".join(f"{row} {low[row]:.2f} ms" for row in rows))
            for what, values in (("lower quartiles", low), ("medians", middle)):
                print(f"  by {what}: {100 * (values['with'] - values['without']) / values['bare']:+.1f} % of a bare start")


if __name__ == "__main__":
    main()
