#!/usr/bin/env python3
"""Languages hang together: languages.py SOURCE_TREE, or --self-test.

No two files of policies/lang/ claim one name, extension or #! word; each is called like the language in it and has
programs that try it (tests/languages/core or more), one that does not compile among them where there is a compile step;
and of programs nothing is left of a language that is gone.
"""
import re
import sys

sys.dont_write_bytecode = True
import linting  # noqa: E402

CORE = "tests/languages/core"
MORE = "tests/languages/more"


def words(text, key):
    """The texts of a list, or of a single text, at the top of a file."""
    found = re.search(rf'^{key} = (\[[^\]]*\]|"[^"\n]*")', text, re.MULTILINE)
    return re.findall(r'"([^"\n]*)"', found.group(1)) if found else []


def check(root):
    problems, claimed, names = [], {}, set()
    for path in sorted((root / "policies" / "lang").glob("*.toml")):
        place = f"policies/lang/{path.name}"
        whole = path.read_text(encoding="utf-8")
        top = re.split(r"^\[", whole, maxsplit=1, flags=re.MULTILINE)[0]
        name = "".join(words(top, "name"))
        names.add(name)
        if name != path.stem:
            problems.append(f"{place}: holds the language '{name}'")
        for kind, keys in (("name", ("name", "aliases")), ("extension", ("extensions",)), ("#! word", ("interpreters",))):
            for word in (word for key in keys for word in words(top, key)):
                other = claimed.setdefault((kind, word), name)
                if other != name:
                    problems.append(f"{place}: the {kind} '{word}' is that of {other}")
        if (root / CORE / f"{name}.cases").exists():
            continue
        cases = root / MORE / f"{name}.cases"
        if not cases.exists():
            problems.append(f"{place}: no program tries it; write {MORE}/{name}.cases")
        elif "\n[compile]" in whole and "@@ case compile error\n" not in cases.read_text(encoding="utf-8"):
            problems.append(f"{MORE}/{name}.cases: no case 'compile error'")
    for path in sorted((root / MORE).glob("*.cases")):
        if path.stem not in names:
            problems.append(f"{MORE}/{path.name}: there is no such language")
    return problems


CLEAN = {
    "policies/lang/a.toml": 'name = "a"\naliases = ["aa"]\nextensions = [\n  ".a",\n]\ninterpreters = ["a"]\n',
    "policies/lang/b.toml": 'name = "b"\nextensions = [".b"]\ninterpreters = []\n\n[compile]\nargv = ["x"]\n',
    "tests/languages/core/a.cases": "@@ case hello\n",
    "tests/languages/more/b.cases": "@@ case hello\n@@ case compile error\n",
}
BAD = {
    "another name": {"policies/lang/c.toml": 'name = "d"\n', "tests/languages/more/d.cases": "",
                     "tests/languages/core/d.cases": ""},
    "a name taken twice": {"policies/lang/b.toml": 'name = "b"\naliases = ["aa"]\n'},
    "an extension taken twice": {"policies/lang/b.toml": 'name = "b"\nextensions = [".b", ".a"]\n'},
    "an interpreter taken twice": {"policies/lang/b.toml": 'name = "b"\ninterpreters = ["a"]\n'},
    "no program": {"policies/lang/c.toml": 'name = "c"\n'},
    "nothing that does not compile": {"tests/languages/more/b.cases": "@@ case hello\n"},
    "no such language": {"tests/languages/more/z.cases": ""},
}

if __name__ == "__main__":
    linting.main(__doc__, "languages", check, CLEAN, BAD)
