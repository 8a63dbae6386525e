#!/usr/bin/env python3
"""Compares the Python driver, plain and with IPython's shell, with a real ipykernel over the same cells.

    golden.py [--python /usr/bin/python3] [-k NAME]

Needs python3-ipykernel and python3-jupyter-client for that Python (tools/install-deps.sh sessions); without them it says so and
ends with status 77. What is compared, when addresses, times and pictures are taken out: status, name and text of the error,
stdout, stderr, and every value and display with its MIME types, in order. What differs on purpose stands in DIFFERENCES with the reason;
one that differs no longer is an error too.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import driver_client  # noqa: E402

# name of the cell → (which of plain and ipython, why)
BOTH = ("plain", "ipython")
DIFFERENCES = {
    "unclosed": (("plain",), "IPython compiles so that an unfinished cell is told from a wrong one; ours names the bracket"),
    "system exit": (BOTH, "exit() has a status of its own here, and is no error"),
    "broken repr": (BOTH, "the traceback goes to stderr, not to an error message; plain: a text stands for the value"),
    "broken html": (BOTH, "the traceback goes to stderr, not to an error message"),
    "bash fails": (("plain",), "the error names the program, not its text"),
    "unknown magic": (BOTH, "an error is not written to stderr too"),
    "figure as value": (BOTH, "a figure that is a cell's value is shown once"),
    "input": (BOTH, "an EOFError, which programs know, says why"),
}

KERNEL = r"""
import json, subprocess, sys
from jupyter_client.manager import KernelManager
manager = KernelManager(kernel_name="python3", transport="ipc", ip=sys.argv[1])
manager.start_kernel(cwd=sys.argv[2], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
client = manager.blocking_client()
client.start_channels()
client.wait_for_ready(timeout=60)
for line in sys.stdin:
    asked = client.execute(json.loads(line), stop_on_error=False, allow_stdin=False)
    result = {"stdout": "", "stderr": "", "outputs": [], "status": "", "name": "", "value": ""}
    while True:
        message = client.get_iopub_msg(timeout=60)
        if message["parent_header"].get("msg_id") != asked:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "status" and content["execution_state"] == "idle":
            break
        if kind == "stream":
            result[content["name"]] += content["text"]
        elif kind in ("execute_result", "display_data", "update_display_data"):
            result["outputs"].append([{"execute_result": "result", "display_data": "display"}.get(kind, "update"),
                                      content["data"], content["metadata"]])
        elif kind == "clear_output":
            result["outputs"].append(["clear", {}, {}])
    while True:
        reply = client.get_shell_msg(timeout=60)
        if reply["parent_header"].get("msg_id") == asked:
            break
    result["status"] = reply["content"]["status"]
    result["name"], result["value"] = reply["content"].get("ename", ""), reply["content"].get("evalue", "")
    print(json.dumps(result), flush=True)
client.stop_channels()
manager.shutdown_kernel(now=True)
"""


def cells():
    text = (pathlib.Path(__file__).parent / "golden_cells.txt").read_text(encoding="utf-8")
    parts = re.split(r"^#--- (.*)\n", text, flags=re.M)[1:]
    return [(name, code.rstrip("\n")) for name, code in zip(parts[::2], parts[1::2])]


def environment(folder):
    result = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL")}
    result.update(HOME=str(folder), JUPYTER_RUNTIME_DIR=str(folder), IPYTHONDIR=str(folder / "ipython"), LC_ALL="C.UTF-8",
                  PYTHONDONTWRITEBYTECODE="1", MPLCONFIGDIR=str(folder / "mpl"))
    return result


def of_kernel(python, folder, sources):
    process = subprocess.Popen([python, "-c", KERNEL, str(folder / "k"), str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env=environment(folder))
    results = []
    for source in sources:
        process.stdin.write(json.dumps(source).encode() + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise SystemExit("the kernel has ended at: " + source)
        results.append(json.loads(line))
    process.stdin.close()
    process.wait(30)
    return results


def of_driver(python, folder, sources, mode):
    results = []
    with driver_client.python_driver(python, "--ipython", mode, environment=environment(folder), cwd=str(folder), timeout=60) as driver:
        driver.frame()
        for number, source in enumerate(sources):
            out, err = len(driver.out), len(driver.err)
            frames = driver.run(source)
            mark = "mark-%d" % number
            driver.run("__import__('os').write(1, b'%s') and __import__('os').write(2, b'%s') and None" % (mark, mark), store=False)
            driver.wait_for("out", mark.encode())
            driver.wait_for("err", mark.encode())
            done = frames[-1]
            error = done.get("error", {})
            results.append({
                "stdout": driver.out[out:].decode("utf-8", "replace").replace(mark, ""),
                "stderr": driver.err[err:].decode("utf-8", "replace").replace(mark, ""),
                "outputs": [[frame["type"], frame.get("data", {}), frame.get("metadata", {})] for frame in frames[:-1]],
                "status": done["status"], "name": error.get("name", ""), "value": error.get("value", "")})
    return results


def plain_text(text):
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace("\r\n", "\n")
    text = re.sub(r"0x[0-9a-f]{6,}", "0xADDRESS", text)
    text = re.sub(r"\b[\d.]+(e[+-]\d+)? (ns|µs|us|ms|s)\b", "TIME", text)
    text = re.sub(r"(<cell \d+>|/tmp/ipykernel_\d+/\d+\.py|\b\d{6,}\.py|<ipython-input-[^>]*>|Cell In\[\d+\])", "CELL", text)
    # Of a traceback that was written to stderr only the last line is the same everywhere.
    if re.search(r"^Traceback|^-{70,}", text, re.M):
        text = "TRACEBACK " + (text.strip().splitlines() or [""])[-1]
    return text


def normal(result):
    result = dict(result)
    for name in ("stdout", "stderr", "value"):
        result[name] = plain_text(result[name])
    outputs = []
    for kind, data, metadata in result["outputs"]:
        data = {mime: "PICTURE" if mime in ("image/png", "image/jpeg") else plain_text(content) if isinstance(content, str) else content
                for mime, content in data.items()}
        metadata = {mime: about for mime, about in (metadata or {}).items() if about and mime != "needs_background"}
        if any(isinstance(about, dict) and about.get("needs_background") for about in metadata.values()):
            metadata = {}
        outputs.append([kind, data, metadata])
    result["outputs"] = outputs
    result["status"] = {"interrupted": "error", "exit": "error"}.get(result["status"], result["status"])
    return result


def compare(python, names, sources, pattern):
    """(cell, driver) → what is not as it should be."""
    with tempfile.TemporaryDirectory() as scratch:
        found = []
        for mode in (None, "never", "always"):
            folder = pathlib.Path(scratch) / str(mode)
            folder.mkdir()
            pathlib.Path("/tmp/sbx-golden.txt").unlink(missing_ok=True)
            found.append(of_kernel(python, folder, sources) if mode is None else of_driver(python, folder, sources, mode))
        pathlib.Path("/tmp/sbx-golden.txt").unlink(missing_ok=True)
    wrong = {}
    for name, source, kernel, plain, ipython in zip(names, sources, *found):
        wanted = normal(kernel)
        for which, result in (("plain", normal(plain)), ("ipython", normal(ipython))):
            differs = result != wanted
            expected = which in DIFFERENCES.get(name, ((), ""))[0]
            if differs == expected or pattern not in name:
                continue
            if expected:
                wrong[name, which] = "%s (%s): no longer differs; take it out of DIFFERENCES" % (name, which)
                continue
            lines = ["%s (%s) differs from ipykernel:\n    %s" % (name, which, source.replace("\n", "\n    "))]
            lines += ["  %s\n    ipykernel %r\n    driver    %r" % (key, wanted[key], result[key]) for key in wanted if wanted[key] != result[key]]
            wrong[name, which] = "\n".join(lines)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("-k", default="", metavar="NAME")
    options = parser.parse_args()
    probe = subprocess.run([options.python, "-c", "import ipykernel, jupyter_client, IPython, numpy, pandas, matplotlib, PIL"],
                           capture_output=True, text=True)
    if probe.returncode:
        print("skipped: %s" % probe.stderr.strip().splitlines()[-1])
        return 77
    names, sources = zip(*cells())
    wrong = {}
    for attempt in range(3):
        found = compare(options.python, names, sources, options.k)
        # A kernel on a busy machine hands in what children printed after it has said that the cell is over.
        wrong = found if attempt == 0 else {key: text for key, text in found.items() if key in wrong}
        if not wrong:
            break
    for text in wrong.values():
        print(text)
    explained = sum(len(which) for which, _ in DIFFERENCES.values())
    print("%d cells, two drivers: %d differences that are explained, %d that are not" % (len(names), explained, len(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
