#!/usr/bin/env python3
"""Compatibility with bubblewrap and nsjail, against their own binaries, bubblewrap's sources and its real clients. docs/testing.md.

    tests/compat/run.py --binary build/sbx [--as root,user] [-k pattern] [--list] [-v] [--check-skips FILE]

    suite/…    upstream's suites of Debian 13 (0.12) and Debian 12 (0.8.0), next to upstream's own binary
    oracle/…   our own behaviour cases (tests/integration/bwrap_behaviour_cases.py), run against upstream's binary
    nsjail/…   command lines and configurations of nsjail, run by its own binary and by ours

The last line says `N passed, N failed, N skipped`. The sources are kept in build/compat, or in $SBX_COMPAT_CACHE.
"""

import argparse
import os
import pathlib
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "integration"), str(HERE)]
import harness  # noqa: E402
import nsjail  # noqa: E402
import place  # noqa: E402
import run as driver  # noqa: E402  (tests/run.py)
import sources  # noqa: E402


def stage(found, binary):
    """Copies that everybody may read and that lie outside /tmp, which the suites cover with a tmpfs."""
    base = pathlib.Path(tempfile.mkdtemp(prefix="sbx-compat-", dir="/var/tmp"))
    os.chmod(base, 0o755)
    trees = {}
    for version, folder in found.items():
        shutil.copytree(folder, base / version, symlinks=True)
        trees[version] = base / version / "tree"
    shutil.copy2(HERE / "guard.py", base / "guard.py")
    for name in ("ours", "upstream"):
        (base / name).mkdir()
    shutil.copy2(binary, base / "ours" / "sbx")
    os.symlink("sbx", base / "ours" / "bwrap")
    shutil.copy2(base / sources.BASELINE / "build" / "bwrap", base / "upstream" / "bwrap")
    for path in base.rglob("*"):
        if not path.is_symlink():
            os.chmod(path, 0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    return base, trees


def stage_nsjail(folder, binary):
    """Both programs, where everybody may read them."""
    base = pathlib.Path(tempfile.mkdtemp(prefix="sbx-compat-", dir="/var/tmp"))
    shutil.copytree(folder, base / "upstream")
    shutil.copy2(binary, base / "sbx")
    os.symlink("sbx", base / "nsjail")
    for path in [base, *base.rglob("*")]:
        if not path.is_symlink():
            os.chmod(path, 0o755)
    place.nsjail_upstream, place.nsjail_ours, place.nsjail_trouble = base / "upstream" / nsjail.PROGRAM, base / "nsjail", None
    return base


def oracle_cases(behaviours, upstream):
    """The behaviour cases against upstream's own binary: what it does not pass is a listed difference, or the case is wrong."""
    made = []
    for item in behaviours:
        name = item.name.split("/", 1)[1]
        reason = sys.modules["bwrap_behaviour_cases"].DIFFERS.get(name)

        def function(t, item=item, reason=reason):
            if not upstream:
                raise harness.Skip(place.trouble)
            t.bwrap_path = str(upstream)
            try:
                item.function(t)
            except harness.Failure:
                if reason is None:
                    raise
            else:
                if reason is not None:
                    raise harness.Failure(f"listed as a difference, but upstream's binary does the same: {reason}")
        made.append(harness.Case(f"oracle/{name}", item.sentence, function, item.as_, item.needs, item.seconds, item.alone))
    return made


def main():
    parser = argparse.ArgumentParser(description="Compares our bwrap and nsjail with upstream's.")
    driver.add_options(parser)
    options = parser.parse_args()
    bases = []
    cache = os.environ.get("SBX_COMPAT_CACHE") or harness.ROOT / "build" / "compat"
    cases = harness.load_python_cases(HERE)
    behaviours = harness.load_python_cases(HERE.parent / "integration", "bwrap_behaviour_cases.py")[len(cases):]
    try:
        found = sources.ensure(cache)
    except sources.Unavailable as problem:
        place.trouble = str(problem)
    else:
        base, place.trees = stage(found, pathlib.Path(options.binary).resolve())
        bases.append(base)
        place.guard = str(base / "guard.py")
        sys.modules["suite_cases"].prepare(place.trees)
        place.baseline, place.ours, place.trouble = base / "upstream" / "bwrap", base / "ours" / "bwrap", None
    try:
        bases.append(stage_nsjail(nsjail.ensure(cache), pathlib.Path(options.binary).resolve()))
    except sources.Unavailable as problem:
        place.nsjail_trouble = str(problem)
    cases += oracle_cases(behaviours, place.baseline)
    try:
        return driver.drive(cases, options)
    finally:
        for base in bases:
            shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
