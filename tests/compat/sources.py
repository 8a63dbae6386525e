"""bubblewrap's source packages of Debian, for comparison, with Debian's patches, and the newer one built.

    tests/compat/sources.py FOLDER      fetches and builds into FOLDER, unless all is there
"""

import hashlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import debian_sources  # noqa: E402
from debian_sources import Unavailable, run  # noqa: E402

# version of the suite: where it is from. The archive says which package that is today.
SUITES = {"0.12": "trixie", "0.8": "bookworm"}
BASELINE = "0.12"  # what we equal and report; built, so that both run on the same host


def build(folder):
    """folder/build/bwrap and the helper of the suite, folder/build/tests/try-syscall."""
    off = [f"-D{feature}=disabled" for feature in ("man", "selinux", "bash_completion", "zsh_completion")]
    run("meson", "setup", *off, folder / "build", folder / "tree")
    run("ninja", "-C", folder / "build", "-j2", "bwrap", "tests/try-syscall")


def ensure(cache):
    """{version: folder with tree/, and for the baseline build/}."""
    cache = pathlib.Path(cache)
    recipe = hashlib.sha256(b"".join(pathlib.Path(module.__file__).read_bytes() for module in (debian_sources, sys.modules[__name__]))).hexdigest()[:12]

    def made(version):
        def make(folder):
            debian_sources.fetch(cache, SUITES[version], "bubblewrap", folder / "tree", patched=True)
            if version == BASELINE:
                build(folder)
        return debian_sources.kept(cache, f"bubblewrap-{version}-{recipe}", make)
    return {version: made(version) for version in SUITES}


if __name__ == "__main__":
    try:
        for name, where in ensure(sys.argv[1]).items():
            print(name, where)
    except Unavailable as problem:
        sys.exit(f"sources.py: {problem}")
