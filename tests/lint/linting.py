"""What the lint tests share: a tree made of a dictionary, the check that each can fail, and the command line."""
import pathlib
import sys
import tempfile


def run_on(check, files):
    """`check` on a tree that holds these texts."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        return check(root)


def self_test(check, clean, bad):
    """A clean tree has no problem, and each change of `bad` (title -> files) brings exactly one."""
    failures = []
    if problems := run_on(check, clean):
        failures.append(f"a clean tree has problems: {problems}")
    for title, change in bad.items():
        problems = run_on(check, {**clean, **change})
        if len(problems) != 1:
            failures.append(f"{title}: expected exactly one problem, got {problems}")
    return failures


def main(doc, name, check, clean, bad):
    """SOURCE_TREE or --self-test; prints the problems, and is the exit status."""
    if len(sys.argv) != 2:
        sys.exit(doc)
    found = self_test(check, clean, bad) if sys.argv[1] == "--self-test" else check(pathlib.Path(sys.argv[1]))
    print("\n".join(found) or f"{name}: ok")
    sys.exit(1 if found else 0)
