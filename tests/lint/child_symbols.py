#!/usr/bin/env python3
"""The code between clone and exec calls nothing: child_symbols.py SOURCE_TREE BUILD_TREE NM, or --self-test.

Reads the undefined symbols of the object that src/ns/child.cc became. What a compiler may put in by itself is
allowed; a call into a runtime (allocation, locks, exceptions, errno, sanitizers, libc wrappers) is not.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ALLOWED = {"memcpy", "memset", "memmove", "memcmp", "strlen", "_GLOBAL_OFFSET_TABLE_"}
CHILD = "src/ns/child.cc"


def undefined(nm, path):
    out = subprocess.run([nm, "-u", "-P", path], check=True, stdout=subprocess.PIPE).stdout.decode()
    return {line.split()[0].split("@")[0] for line in out.splitlines() if line.strip()}


def check(source, build, nm):
    if not (source / CHILD).exists():
        return []
    found = [path for path in build.rglob("child.cc.o") if path.as_posix().endswith(CHILD + ".o")]
    if not found:
        return [f"{CHILD} has no object below {build}: build first"]
    return [f"{CHILD}: calls {symbol}" for path in found for symbol in sorted(undefined(nm, path) - ALLOWED)]


def self_test():
    compiler, nm = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++"), shutil.which("nm")
    if not compiler or not nm:
        return ["no compiler or nm to test with"]
    cases = {
        "quiet": ("#include <cstring>\nvoid f(char* a, const char* b, unsigned long n) { memcpy(a, b, n); }\n", 0),
        "allocation": ("int* f() { return new int(1); }\n", 1),
        "errno": ("#include <cerrno>\nint f() { return errno; }\n", 1),
        "libc wrapper": ("#include <unistd.h>\nint f() { return getppid(); }\n", 1),
    }
    failures = []
    for title, (text, expected) in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "src/ns").mkdir(parents=True)
            (root / CHILD).write_text(text)
            if not check(root, root, nm):
                failures.append(f"{title}: a missing object was not noticed")
            subprocess.run([compiler, "-O2", "-U_FORTIFY_SOURCE", "-c", root / CHILD, "-o", root / (CHILD + ".o")],
                           check=True, env={**os.environ, "LC_ALL": "C"})
            problems = check(root, root, nm)
            if len(problems) != expected:
                failures.append(f"{title}: expected {expected} problems, got {problems}")
    with tempfile.TemporaryDirectory() as folder:
        if check(pathlib.Path(folder), pathlib.Path(folder), nm):
            failures.append("a tree without the child has problems")
    return failures


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        problems_found = self_test()
    elif len(sys.argv) == 4:
        problems_found = check(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3])
    else:
        sys.exit(__doc__)
    print("\n".join(problems_found) or "child symbols: ok")
    sys.exit(1 if problems_found else 0)
