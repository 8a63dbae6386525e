#!/usr/bin/env python3
"""Searches with the fuzz targets of a build, several at a time, and tells what came of it.

  run.py BUILD [--seconds N] [--jobs N] [-k NAME…]   each target until its process has used N seconds of CPU time
  run.py BUILD --resume …                             the same, with what BUILD/fuzz.json says of earlier searches counted
  run.py BUILD --reduce [-k NAME…]                    what was found since, as few and as short files as cover the same, into
                                                      tests/fuzz/corpus

Inputs that a search found lie in BUILD/corpus/NAME and are where the next one begins, with tests/fuzz/corpus/NAME. What
fails is kept in build/fuzz-findings, and the exit status is 1.

CPU time and not wall time, because libFuzzer counts the latter: on a busy machine its own limit would be a shorter search.
SIGTERM and SIGINT end the searches with their figures.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
FINDINGS = SOURCE / "build" / "fuzz-findings"

# In the order of their risk: first what reads bytes of the hostile side, then texts that a stranger may have written.
# The longest input that makes sense, and files whose words go into the dictionary besides the seeds'.
TARGETS = {
    "frames": (8192, []),
    "wire": (4096, []),
    "json": (4096, []),
    "hand_over": (256, []),
    "result": (2048, []),
    "artifacts": (1024, []),
    "archive": (6144, []),
    "copy": (1024, []),
    "workspace": (1024, []),
    "denials": (2048, []),
    "textproto": (4096, ["docs/nsjail-fields.md"]),
    "kafel": (2048, ["docs/kafel.md"]),
    "bwrap_args": (2048, ["docs/bwrap*.md"]),
    "policy": (4096, ["policies/*.toml"]),
    "lower": (4000, ["policies/*.toml", "docs/nsjail-fields.md", "docs/bwrap*.md"]),
    "toolchain": (4096, []),
    "proc": (4096, []),
    "class_file": (4096, []),
    "dbus": (4096, []),
    "answer": (1024, []),
    "mime": (1024, []),
    "nsjail_args": (1024, ["docs/nsjail-fields.md"]),
    "bwrap_policy": (2048, ["docs/bwrap*.md"]),
    "syscalls": (4096, ["policies/*.toml"]),
    "bpf": (1024, []),
    "runner": (4096, ["policies/lang/python.toml", "policies/lang/cpp.toml", "policies/lang/java.toml"]),
    "values": (512, ["docs/policy-keys.md"]),
}
OPTIONS = ["-rss_limit_mb=2560", "-timeout=30", "-print_final_stats=1", "-reload=0", "-verbosity=1"]
MOST_WORDS = 400
STOP = threading.Event()
# Of the seeds of one target. Together they have to stay small: everybody who gets the sources gets them.
MOST_SEED_BYTES = 8 * 1024
MOST_SEED = 4096


def targets_of(build, wanted):
    found = [path.name.removesuffix("_fuzz") for path in (build / "fuzz").glob("*_fuzz")]
    unknown = set(found) ^ set(TARGETS)
    if unknown:
        sys.exit(f"run.py: {build}/fuzz and the table of targets differ: {' '.join(sorted(unknown))}")
    return [name for name in TARGETS if not wanted or name in wanted]


def files_of(directory):
    return sorted(path for path in directory.glob("*") if path.is_file()) if directory.is_dir() else []


def write_dictionary(name, path):
    """Words of the seeds and of the files that explain the language."""
    texts = [seed.read_bytes() for seed in files_of(HERE / "corpus" / name)]
    for pattern in TARGETS[name][1]:
        texts += [file.read_bytes() for file in sorted(SOURCE.glob(pattern))]
    words = {}
    for text in texts:
        for word in re.findall(rb"[A-Za-z_@./-][A-Za-z0-9_./@+-]{2,40}", text):
            words[word] = words.get(word, 0) + 1
    chosen = sorted(words, key=lambda word: (-words[word], word))[:MOST_WORDS]
    path.write_text("".join('"' + word.decode() + '"\n' for word in chosen))


def cpu_seconds(pid):
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def search(build, name, seconds, most_wall, nice):
    corpus = build / "corpus" / name
    corpus.mkdir(parents=True, exist_ok=True)
    FINDINGS.mkdir(parents=True, exist_ok=True)
    before = set(FINDINGS.glob(f"{name}-*"))
    dictionary = build / "corpus" / f"{name}.dict"
    write_dictionary(name, dictionary)
    scratch = tempfile.mkdtemp(prefix="sbx-fuzz-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    command = [str(build / "fuzz" / f"{name}_fuzz"), *OPTIONS, f"-max_len={TARGETS[name][0]}", f"-artifact_prefix={FINDINGS}/{name}-"]
    if dictionary.stat().st_size > 0:
        command.append(f"-dict={dictionary}")
    command += [str(corpus), str(HERE / "corpus" / name)]
    begin = time.monotonic()
    log_path = build / "corpus" / f"{name}.log"
    with open(log_path, "wb") as log:
        # SIGUSR1 asks libFuzzer to end, with its figures. In a session of its own: what a terminal sends, we pass on so.
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "SBX_FUZZ_SCRATCH": scratch}, start_new_session=True,
                                 preexec_fn=lambda: os.nice(nice))
        asked, used, usage = False, 0.0, None
        while True:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid != 0:
                child.returncode = os.waitstatus_to_exitcode(status)
                break
            used = cpu_seconds(child.pid) or used
            wall = time.monotonic() - begin
            if not asked and (used >= seconds or wall >= most_wall or STOP.is_set()):
                os.kill(child.pid, signal.SIGUSR1)
                asked = time.monotonic()
            elif asked and time.monotonic() - asked > 120:
                os.kill(child.pid, signal.SIGKILL)
            time.sleep(0.5)
    shutil.rmtree(scratch, ignore_errors=True)
    text = log_path.read_text(errors="replace")
    numbers = re.findall(r"^#(\d+)\s+\S+\s+cov: (\d+) ft: (\d+)", text, re.M)
    executions = re.findall(r"^stat::number_of_executed_units: (\d+)", text, re.M)
    cpu = usage.ru_utime + usage.ru_stime
    count = int(executions[-1]) if executions else int(numbers[-1][0]) if numbers else 0
    inputs = files_of(corpus)
    said = re.findall(r"(\S+:\d+: does not hold: .*|ERROR: .*|\S+:\d+:\d+: runtime error: .*)", text)
    findings = sorted(str(path.relative_to(SOURCE)) for path in set(FINDINGS.glob(f"{name}-*")) - before)
    if child.returncode != 0 and not findings:
        findings = [f"exit status {child.returncode}, see {log_path}"]
    return {
        "target": name,
        "cpu_seconds": round(cpu, 1),
        "wall_seconds": round(time.monotonic() - begin, 1),
        "executions": count,
        "executions_per_cpu_second": round(count / cpu) if cpu > 0 else 0,
        "edges": int(numbers[-1][1]) if numbers else 0,
        "features": int(numbers[-1][2]) if numbers else 0,
        "corpus_files": len(inputs) + len(files_of(HERE / "corpus" / name)),
        "corpus_bytes": sum(path.stat().st_size for path in inputs),
        "peak_memory_mib": usage.ru_maxrss // 1024,
        "findings": findings,
        "said": said[:3],
    }


def output_of(*command):
    done = subprocess.run(command, cwd=SOURCE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return done.stdout.strip().split("\n")[0]


def add(earlier, result):
    """One record of two searches of the same target, the second of which began where the first ended."""
    if earlier is None:
        return result
    total = dict(result)
    for key in ("cpu_seconds", "wall_seconds"):
        total[key] = round(earlier[key] + result[key], 1)
    total["executions"] = earlier["executions"] + result["executions"]
    total["executions_per_cpu_second"] = round(total["executions"] / total["cpu_seconds"]) if total["cpu_seconds"] > 0 else 0
    for key in ("edges", "features", "peak_memory_mib"):
        total[key] = max(earlier[key], result[key])
    for key in ("findings", "said"):
        total[key] = earlier[key] + [each for each in result[key] if each not in earlier[key]]
    return total


def table(results):
    lines = ["| target | CPU s | wall s | executions | per CPU s | edges | corpus | findings |", "|---|---|---|---|---|---|---|---|"]
    for one in results:
        lines.append(f"| {one['target']} | {one['cpu_seconds']:.0f} | {one['wall_seconds']:.0f} | {one['executions']:,} | {one['executions_per_cpu_second']:,} "
                     f"| {one['edges']:,} | {one['corpus_files']:,} | {len(one['findings']) or 'none'} |")
    return "\n".join(lines)


def reduce(build, name):
    """The smallest inputs that cover together what all cover, within the room that there is."""
    seeds = HERE / "corpus" / name
    fuzzer = str(build / "fuzz" / f"{name}_fuzz")
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as place:
        scratch = Path(place) / "scratch"
        merged = Path(place) / "merged"
        for directory in (scratch, merged):
            directory.mkdir()
        shutil.copytree(seeds, merged, dirs_exist_ok=True)
        subprocess.run([fuzzer, "-merge=1", "-rss_limit_mb=2560", f"-max_len={min(TARGETS[name][0], MOST_SEED)}", str(merged), str(build / "corpus" / name)],
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, env={**os.environ, "SBX_FUZZ_SCRATCH": str(scratch)})
        known = {file.read_bytes() for file in files_of(seeds)}
        room = MOST_SEED_BYTES - sum(len(text) for text in known)
        added = 0
        # Of a ladder of sizes a few each: the shortest alone would all be beginnings.
        new = sorted((text for text in {file.read_bytes() for file in files_of(merged)} - known if 0 < len(text) <= MOST_SEED), key=lambda text: (len(text), text))
        for text in new[::-1][:: max(1, len(new) // 40)]:
            if len(text) <= room:
                (seeds / hashlib.sha256(text).hexdigest()[:12]).write_bytes(text)
                room -= len(text)
                added += 1
        print(f"{name}: {len(known)} seeds and {added} more of {len(new)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--seconds", type=float, default=60, help="CPU time of each target")
    parser.add_argument("--most-wall", type=float, help="seconds after which a target ends all the same (default: four times --seconds)")
    parser.add_argument("--jobs", "-j", type=int, default=os.cpu_count())
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--json", type=Path, help="default: BUILD/fuzz.json")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--reduce", action="store_true")
    parser.add_argument("--table", action="store_true", help="of the JSON, without a search")
    parser.add_argument("-k", nargs="+", default=[], metavar="NAME")
    options = parser.parse_args()
    build = options.build.resolve()
    names = targets_of(build, options.k)
    if not names:
        sys.exit("run.py: there is no such target")
    if options.reduce:
        for name in names:
            reduce(build, name)
        return 0

    if options.table:
        print(table(json.loads((options.json or build / "fuzz.json").read_text())["targets"]))
        return 0
    record = {
        "commit": output_of("git", "describe", "--always", "--dirty", "--abbrev=12"),
        "compiler": output_of(os.environ.get("CXX", "clang++"), "--version"),
        "kernel": os.uname().release,
        "command": "tests/fuzz/run.py " + " ".join(sys.argv[1:]),
        "begun": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime()),
        "targets": [],
    }
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: STOP.set())
    json_path = options.json or build / "fuzz.json"
    earlier = {}
    if options.resume and json_path.exists():
        old = json.loads(json_path.read_text())
        earlier = {each["target"]: each for each in old["targets"]}
        record["targets"] = old["targets"]
        record["begun"] = old["begun"]
    most_wall = options.most_wall or 4 * options.seconds

    def one(name):
        before = earlier.get(name)
        left = options.seconds - (before["cpu_seconds"] if before else 0)
        if left < 1 or STOP.is_set():
            return
        result = add(before, search(build, name, left, most_wall, options.nice))
        record["targets"] = [each for each in record["targets"] if each["target"] != name] + [result]
        record["targets"].sort(key=lambda each: list(TARGETS).index(each["target"]))
        json_path.write_text(json.dumps(record, indent=2) + "\n")
        print(f"{name}: {result['executions']:,} inputs in {result['cpu_seconds']:.0f} s of CPU time, {result['edges']:,} edges"
              + "".join(f"\n  {line}" for line in result["findings"] + result["said"]), flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, names))
    print("\n" + table(record["targets"]))
    return 1 if any(one["findings"] for one in record["targets"]) else 0


if __name__ == "__main__":
    sys.exit(main())
