#!/usr/bin/env python3
"""Big third-party headers stay where they are used: heavy_headers.py SOURCE_TREE, or --self-test.

Each costs seconds of compile time, and each is the border to a library: one source file per folder includes it, no
header of ours does.
"""
import re
import sys

sys.dont_write_bytecode = True
import linting  # noqa: E402

# Name -> pattern of the include, and how many source files of which folder may have it.
HEAVY = {
    "toml++": (r"toml\+\+/", {"src/policy": 1}),
    "nlohmann/json": (r"nlohmann/", {"src/runtime": 1, "src/session": 1, "src/cli": 1, "src/policy/nsjail": 1}),
    "CLI11": (r"CLI/", {"src/cli": 1}),
    "libseccomp": (r"seccomp\.h[>\"]", {"src/seccomp": 1, "tools": 1}),
    "libcap": (r"sys/capability\.h[>\"]", {"src/ns": 1}),
    "doctest": (r"doctest/", {}),
    # Streams and regular expressions bring locales: start-up time and hundreds of KiB.
    "iostream": (r"iostream>", {}),
    "regex": (r"regex>", {}),
}


def check(root):
    problems = []
    for name, (pattern, allowed) in HEAVY.items():
        include = re.compile(r'^\s*#\s*include\s+[<"]' + pattern, re.MULTILINE)
        users = {}
        for folder in ("src", "tools"):
            for path in sorted((root / folder).rglob("*")):
                if path.suffix not in (".h", ".cc", ".c") or not include.search(path.read_text(encoding="utf-8")):
                    continue
                relative = path.relative_to(root)
                if path.suffix == ".h":
                    problems.append(f"{relative}: a header may not include {name}")
                else:
                    users.setdefault(relative.parent.as_posix(), []).append(relative.name)
        for folder, files in users.items():
            limit = allowed.get(folder, 0)
            if len(files) > limit:
                problems.append(f"{folder}: {name} may be included by {limit} files here, not by {', '.join(files)}")
    return problems


CLEAN = {
    "src/policy/toml.cc": "#include <toml++/toml.h>\n",
    "src/seccomp/names.cc": "#include <seccomp.h>\n",
    "src/ns/child.cc": "#include <linux/seccomp.h>\n",
    "src/cli/main.cc": "#include <CLI/CLI.hpp>\n",
}
BAD = {
    "second file": {"src/policy/other.cc": "#include <toml++/toml.h>\n"},
    "wrong folder": {"src/base/x.cc": "#include <nlohmann/json.hpp>\n"},
    "header": {"src/runtime/x.h": "#include <nlohmann/json.hpp>\n"},
    "test framework in the program": {"src/base/x.cc": "#include <doctest/doctest.h>\n"},
    "capability header": {"src/runtime/x.cc": "#include <sys/capability.h>\n"},
    "streams": {"src/cli/x.cc": "# include <iostream>\n"},
}


if __name__ == "__main__":
    linting.main(__doc__, "heavy headers", check, CLEAN, BAD)
