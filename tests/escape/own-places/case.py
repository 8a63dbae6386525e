import os
import shutil

from escape import Attack, Control


def run(t):
    for area in ("protected", "allowed"):
        t.mkdir(f"{area}/bin")
        shutil.copy(t.binary, t.dir / area / "bin/sbx")
        os.chmod(t.dir / area / "bin/sbx", 0o755)
        t.own(t.dir / area / "bin/sbx")
    code = ("mkdir -p .cache/sbx/builds .config/sbx/policies; echo planted > .cache/sbx/builds/KEY; echo planted > .config/sbx/policies/default.toml; "
            "mv .cache .gone; mkdir -p .cache/sbx/builds && echo planted > .cache/sbx/builds/KEY; echo planted > new; mv new bin/sbx; mv bin gone; true")

    def planted(area, *flags):
        root = t.dir / area
        t.run([str(root / "bin/sbx"), "exec", "--workspace", f"{area}:rw", *flags, "--", "/bin/sh", "-c", code],
              env={"XDG_CACHE_HOME": str(root / ".cache"), "XDG_CONFIG_HOME": str(root / ".config")})
        places = (".cache/sbx/builds/KEY", ".config/sbx/policies/default.toml", "bin/sbx", "gone/sbx")
        return [p for p in places if os.path.exists(root / p) and b"planted" in (root / p).read_bytes()[:16]]

    t.equal(planted("protected"), [], "planted")
    shown = planted("allowed", "--allow-sensitive-write")
    t.true(len(shown) >= 3, f"the control: {shown}")
    return "sbx's program, cache and policies in the share: none changed", "--allow-sensitive-write: " + ", ".join(shown)


CASE = Attack("change what the next sbx trusts: its own program, its cache of builds and toolchains, the user's policies, in a writable share", "37, 7",
              "read-only and pinned there", run=run, control=Control("--allow-sensitive-write"))
