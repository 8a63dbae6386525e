#!/usr/bin/env python3
"""Words that may not stand in the tree: forbidden_words.py SOURCE_TREE, or --self-test.

Paths of one developer's machine anywhere but in tests; in library code whatever prints, ends the process or asks the
locale (library code returns an Error, the command line prints it).
"""
import re
import subprocess
import sys

sys.dont_write_bytecode = True
import linting  # noqa: E402

TEXT = {".cc", ".h", ".c", ".cmake", ".txt", ".toml", ".md", ".py", ".sh", ".json", ".in", ".js", ".cpp", ""}
SKIPPED = ("build", ".git", "tests", "docs/licenses")
MACHINE_PATH = re.compile(r"(?<![\w.-])/(?:root|work)/[\w.]")
LIBRARIES = ("src/base/", "src/policy/", "src/ns/", "src/seccomp/", "src/runtime/", "src/selftest/")
LIBRARY_WORDS = [
    (re.compile(r"(?<![\w.>])(?:std::|::)?(?:v?f?printf|f?puts|putchar|fputc|perror|v?dprintf)\s*\("), "prints"),
    (re.compile(r"std::(?:cout|cerr|clog)\b"), "prints"),
    (re.compile(r"(?<![\w.>])(?:std::|::)?(?:exit|quick_exit)\s*\("), "ends the process"),
    (re.compile(r"(?<![\w.>])(?:std::|::)?(?:setlocale|strtod|atoi|atol|atoll|atof)\s*\("),
     "asks the locale or reads numbers loosely (base/text.h, std::from_chars)"),
    (re.compile(r"(?<![\w.>])(?:std::|::)?(?:system|popen|tmpnam|mktemp|strcpy|strcat|sprintf|gets)\s*\("),
     "is never safe on hostile text"),
]


def files(root):
    """Tracked and new files where git knows the tree, else all."""
    try:
        listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "-co", "--exclude-standard"], check=True,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode().split("\0")
        names = sorted(name for name in listed if name)
    except (OSError, subprocess.CalledProcessError):
        names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    for name in names:
        path = root / name
        if path.suffix not in TEXT or path.is_symlink() or not path.is_file():
            continue
        if any(name == skipped or name.startswith((skipped + "/", skipped + "-")) for skipped in SKIPPED):
            continue
        yield name, path.read_text(encoding="utf-8", errors="replace")


def without_comment(line):
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', line).split("//")[0]


def check(root):
    problems = []
    for name, text in files(root):
        for number, line in enumerate(text.splitlines(), 1):
            if MACHINE_PATH.search(line):
                problems.append(f"{name}:{number}: a path of one machine: {line.strip()[:80]}")
            if name.startswith(LIBRARIES):
                code = without_comment(line)
                for pattern, why in LIBRARY_WORDS:
                    if pattern.search(code):
                        problems.append(f"{name}:{number}: library code that {why}: {line.strip()[:80]}")
    return problems


CLEAN = {
    "src/base/a.cc": 'std::snprintf(buffer, 3, "x");  // never printf(\nlist.exit(1); _exit(1); f("printf(");\n',
    "src/policy/b.cc": 'if (path == "/root" || path == "/etc") {}\n',
    "src/cli/main.cc": 'std::printf("x");\n',
    "tests/unit/x.cc": 'open("/ro' + 'ot/x");\n',
}
BAD = {
    "machine path": {"src/base/a.cc": 'open("/ro' + 'ot/x");\n'},
    "machine path in a document": {"README.md": "see /wo" + "rk/tree\n"},
    "printing": {"src/base/a.cc": 'std::fprintf(stderr, "x");\n'},
    "stream": {"src/runtime/a.cc": 'std::cerr << "x";\n'},
    "ending": {"src/ns/a.cc": "::exit(1);\n"},
    "locale": {"src/policy/b.cc": "int x = atoi(text);\n"},
    "shell": {"src/runtime/b.cc": "system(command);\n"},
}


if __name__ == "__main__":
    linting.main(__doc__, "forbidden words", check, CLEAN, BAD)
