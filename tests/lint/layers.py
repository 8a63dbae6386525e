#!/usr/bin/env python3
"""Includes go one way: layers.py SOURCE_TREE, or layers.py --self-test.

Reads every quoted include of src/ and tools/ against one table, and refuses headers that include each other in a
circle. A folder is a library; what it may include is what it may link.
"""
import re
import sys

sys.dont_write_bytecode = True
import linting  # noqa: E402

DATA_HEADERS = {"policy/spec.h", "policy/syscall_rules.h", "policy/host_facts.h"}
# Folder -> folders that it may include in full, and single headers beyond them.
MAY_INCLUDE = {
    "base": ({"base"}, set()),
    "policy": ({"policy", "base"}, set()),
    "ns": ({"ns", "base"}, DATA_HEADERS),
    "seccomp": ({"seccomp", "base"}, DATA_HEADERS),
    "runtime": ({"runtime", "ns", "seccomp", "policy", "base"}, set()),
    "selftest": ({"selftest", "runtime", "policy", "base"}, set()),
    "bwrap": ({"bwrap", "runtime", "ns", "policy", "base"}, set()),
    "nsjail": ({"nsjail", "runtime", "ns", "seccomp", "policy", "base"}, set()),
    "session": ({"session", "runtime", "ns", "policy", "base"}, set()),
    "cli": ({"cli", "selftest", "bwrap", "nsjail", "session", "runtime", "ns", "seccomp", "policy", "base"}, set()),
    "tools": ({"seccomp", "policy", "base"}, set()),
}
GENERATED = {"version.h"}
# Between clone and exec nothing allocates, so its file has no use for the headers whose types do.
CHILD = "src/ns/child.cc"
CHILD_MAY_NOT = re.compile(r"<(string|vector|map|set|unordered_\w+|memory|functional|optional|variant|iostream|sstream|"
                           r"fstream|thread|mutex|cstdio|stdio\.h|pwd\.h|grp\.h|filesystem|regex|format|list|deque)>")
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|(<[^>]+>))')


def sources(root):
    for folder in ("src", "tools"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cc"):
                yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")


def includes(text):
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1), match.group(2)


def circles(graph):
    """Strongly connected components of more than one header (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            component = []
            while True:
                component.append(stack.pop())
                if component[-1] == node:
                    break
            if len(component) > 1:
                found.append(sorted(component))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def check(root):
    problems, graph = [], {}
    for name, text in sources(root):
        folder = name.split("/")[1] if name.startswith("src/") else "tools"
        if folder not in MAY_INCLUDE:
            problems.append(f"{name}: src/{folder} is not in the table of tests/lint/layers.py")
            continue
        folders, headers = MAY_INCLUDE[folder]
        header = name.removeprefix("src/")
        graph.setdefault(header, set())
        for line, ours, theirs in includes(text):
            if ours is None:
                if name == CHILD and CHILD_MAY_NOT.match(theirs):
                    problems.append(f"{name}:{line}: the child may not include {theirs}")
                continue
            if ours in GENERATED:
                continue
            if "/" not in ours:
                problems.append(f'{name}:{line}: write the path from src/: "{ours}"')
            elif ours.split("/")[0] not in folders and ours not in headers:
                problems.append(f'{name}:{line}: {folder} may not include "{ours}"')
            else:
                graph[header].add(ours)
    for circle in circles(graph):
        problems.append("headers include each other in a circle: " + ", ".join(circle))
    return problems


CLEAN = {
    "src/base/a.h": "#pragma once\n#include <string>\n",
    "src/ns/b.h": '#include "base/a.h"\n#include "policy/spec.h"\n',
    "src/ns/b.cc": '#include "ns/b.h"\n#include "version.h"\n',
    "src/policy/spec.h": '#include "base/a.h"\n',
    "src/cli/main.cc": '#include "ns/b.h"\n',
    CHILD: "#include <cstdint>\n",
}
BAD = {
    "upward include": {"src/base/a.h": '#include "policy/spec.h"\n'},
    "ns and seccomp apart": {"src/ns/b.h": '#include "seccomp/compile.h"\n'},
    "not a data header": {"src/ns/b.h": '#include "policy/layer.h"\n'},
    "not from src/": {"src/ns/b.cc": '#include "b.h"\n'},
    "unknown folder": {"src/util/x.h": "\n"},
    "circle": {"src/ns/c.h": '#include "ns/b.h"\n', "src/ns/b.h": '# include "ns/c.h"\n'},
    "container in the child": {CHILD: "#include <vector>\n"},
    "tool includes cli": {"tools/t.cc": '#include "cli/x.h"\n'},
}


if __name__ == "__main__":
    linting.main(__doc__, "layers", check, CLEAN, BAD)
