#!/usr/bin/env python3
"""docs/languages.md from the data files of the languages and the table of what is tested in them.

    page.py            writes the page
    page.py --check    fails when the page is not what it would write
    page.py --self-test

A mark in the table is a case that `make test-languages` runs as root and as a user, and that may not be skipped.
"""
import importlib.util
import pathlib
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs" / "languages.md"
sys.path.insert(0, str(HERE))
import behaviours  # noqa: E402

HEAD = """# Languages

Made by `tests/languages/page.py` from `policies/lang/` and `tests/languages/core/`; not to be edited. `sbx langs` says which of
them this host has, and the package that brings a missing one. [Adding a language](adding-a-language.md) is one file.

## What is tested in each of the fifteen

A mark is a case of `make test-languages`, run as root and as an ordinary user with the packages that
`tools/install-deps.sh languages` installs.

"""


def read_languages():
    import tomllib
    found = []
    for path in sorted((ROOT / "policies" / "lang").glob("*.toml")):
        found.append(tomllib.loads(path.read_text(encoding="utf-8")))
    return sorted(found, key=lambda entry: entry["name"])


def table(rows):
    lines = ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows[1:]]) + "\n"


def behaviour_table():
    """Languages across, behaviours down; reasons for what is not there below."""
    reasons = []
    rows = [["", *behaviours.FIFTEEN]]
    read = {language: behaviours.read_programs(language) for language in behaviours.FIFTEEN}
    for name, (sentence, _check) in behaviours.BEHAVIOURS.items():
        row = [sentence]
        for language in behaviours.FIFTEEN:
            programs, without = read[language]
            reason = behaviours.reason_against(language, name, without)
            row.append("✓" if name in programs else "–")
            if name in without:
                reasons.append(f"- {language}, {name}: {reason}")
        rows.append(row)
    rows.append(["sees the CPUs that it was given, and fits its heap to the memory",
                 *("✓" if language in behaviours.SEES else "" for language in behaviours.FIFTEEN)])
    return table(rows) + "\n" + "\n".join(sorted(reasons)) + "\n"


def package(entry, *families):
    packages = entry.get("packages", {})
    for family in families:
        if packages.get(family):
            return "`" + packages[family] + "`"
    return "–"


def language_table(languages):
    rows = [["name", "other names", "files", "commands", "compiled", "Debian", "Ubuntu", "Fedora"]]
    for entry in languages:
        commands = list(entry["commands"])
        for other in entry.get("alternative", []):
            commands += [name for name in other["commands"] if name not in commands]
        words = lambda items: ", ".join(f"`{item}`" for item in items)  # noqa: E731
        rows.append([f"**{entry['name']}** {entry.get('title', '')}", words(entry.get("aliases", [])),
                     words(entry.get("extensions", [])), words(commands), "yes" if entry.get("compile") else "",
                     package(entry, "debian"), package(entry, "ubuntu", "debian"), package(entry, "fedora")])
    return table(rows)


def page(languages):
    return (HEAD + behaviour_table() + f"\n## All {len(languages)}\n\nCommands are looked for in this order.\n\n" +
            language_table(languages))


def self_test():
    languages = [{"name": "x", "commands": ["a"], "packages": {"debian": "p"}, "alternative": [{"commands": ["b"]}]}]
    assert "| **x**  |  |  | `a`, `b` |  | `p` | `p` | – |" in language_table(languages), language_table(languages)
    assert page(languages) != page(languages * 2)
    assert behaviours.reason_against("c", "syntax-error", {}) == "compiled"
    assert behaviours.reason_against("c", "pool", {}) is None


def main():
    if not importlib.util.find_spec("tomllib"):
        print("skipped: this needs Python 3.11")
        return 0
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    text = page(read_languages())
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            print("docs/languages.md is stale: run tests/languages/page.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
