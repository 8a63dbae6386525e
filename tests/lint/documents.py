#!/usr/bin/env python3
"""Documents hang together: documents.py SOURCE_TREE, or documents.py --self-test.

Every page of docs/ stands in docs/README.md; every relative link of a page leads to a file, and its #part to a heading;
a `sh` block holds no sbx command, because only `console` blocks are tried out (tests/readme_test.py).
"""
import pathlib
import re
import sys
import tempfile

LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
SBX = re.compile(r"(?:^|[|;&(]\s*)(?:build/)?sbx\s")


def pages(root):
    return sorted(root.glob("*.md")) + sorted((root / "docs").rglob("*.md"))


def without_code(text):
    """The text without fenced blocks and `code`."""
    kept, fenced = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced:
            kept.append(re.sub(r"`[^`]*`", "", line))
        else:
            continue
    return "\n".join(kept)


def anchor(heading):
    """The name that GitHub gives a heading."""
    text = re.sub(r"[`*_]|\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip().lower())
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(text):
    return {anchor(match.group(1)) for match in re.finditer(r"^#+\s+(.*)$", text, re.MULTILINE)}


def check(root):
    problems = []
    index = root / "docs" / "README.md"
    listed = set(re.findall(r"\]\(([^)#\s]+)", index.read_text(encoding="utf-8"))) if index.exists() else set()
    for path in pages(root):
        name = path.relative_to(root).as_posix()
        if name.startswith("docs/") and path != index and path.relative_to(root / "docs").as_posix() not in listed:
            problems.append(f"{name}: is not listed in docs/README.md")
        text = path.read_text(encoding="utf-8")
        for target in LINK.findall(re.sub(r"`([^`\n]*)`", "", without_code(text))):
            if re.match(r"[a-z]+:", target):
                continue
            file, _, part = target.partition("#")
            goal = (path.parent / file).resolve() if file else path
            if not goal.exists():
                problems.append(f"{name}: a link to {target}, which does not exist")
            elif part and goal.suffix == ".md" and part not in anchors(goal.read_text(encoding="utf-8")):
                problems.append(f"{name}: a link to {target}, but there is no such heading")
        kind = None
        for number, line in enumerate(text.splitlines(), 1):
            if line.startswith("```"):
                kind = None if kind is not None else line[3:].split(" ")[0]
            elif kind in ("sh", "bash", "shell") and SBX.search(line.split("#")[0]):
                problems.append(f"{name}:{number}: an sbx command in a block that is never tried; make it a console block")
    return problems


def self_test():
    good = {"README.md": "see [docs](docs/README.md) and [a part](docs/a.md#the-part-1)\n```sh\nmake run # sbx run\n```\n",
            "docs/README.md": "[a](a.md)\n", "docs/a.md": "# `The` part 1\n[up](../README.md) `[no](link)`\n```\n[x](y)\n```\n"}
    bad = {"not listed": {"docs/README.md": "nothing\n"},
           "dead link": {"README.md": "[x](docs/b.md)\n"},
           "dead heading": {"README.md": "[x](docs/a.md#other)\n"},
           "command never tried": {"README.md": "```sh\necho | sbx run\n```\n"}}
    failures = []
    for title, change in {"good": {}, **bad}.items():
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {**good, **change}.items():
                (root / name).parent.mkdir(exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
            found = check(root)
            if bool(found) != bool(change):
                failures.append(f"{title}: {found}")
    return failures


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        problems_found = self_test()
    elif len(sys.argv) == 2:
        problems_found = check(pathlib.Path(sys.argv[1]).resolve())
    else:
        sys.exit(__doc__)
    print("\n".join(problems_found) or "documents: ok")
    sys.exit(1 if problems_found else 0)
