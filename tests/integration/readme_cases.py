"""Every transcript in the documents (tests/readme_test.py describes them): run, and compared with what the page shows."""

import os
import pathlib
import re
import sys

from harness import REGISTRY, ROOT, TESTS, Failure, case

sys.path.insert(0, str(TESTS))
sys.path.insert(0, str(TESTS / "escape"))
import escape  # noqa: E402
import readme_test  # noqa: E402


def register(page, block, files):
    first = readme_test.steps(block)[0][0]

    def run(t):
        for name, text in files.items():
            t.file(f"page/{name}", text)
        path = f"{pathlib.Path(t.binary).parent}:/usr/local/bin:/usr/bin:/bin"
        done = t.run(["/bin/bash", "--norc", "--noprofile", "-c", readme_test.script(block)], cwd=t.mkdir("page"),
                     env={"PATH": path})
        found = readme_test.problems(block, done.text)
        if found:
            raise Failure("\n".join(found))

    run.__name__ = f"{os.path.basename(page).removesuffix('.md').lower()}_line_{block.line}"
    case(f"{page}, line {block.line}, prints what it shows: {first[:60]}", needs=block.needs, seconds=60)(run)


for page in readme_test.PAGES:
    if (ROOT / page).exists():
        everything = readme_test.blocks((ROOT / page).read_text())
        for transcript in readme_test.transcripts(everything):
            register(page, transcript, readme_test.files(everything))


def named_proofs(text):
    return set(re.findall(r"`([a-z]+/[a-z_-]+)`", text))


@case("every case that SECURITY.md and docs/limits.md name as proof exists", as_=("user",))
def proofs(t):
    known = {one.name for one in REGISTRY} | {f"escape/{name}" for name in escape.load_attacks()}
    areas = {name.split("/")[0] for name in known if "/" in name}
    t.equal(named_proofs("`limit/nothing_of_it`") - known, {"limit/nothing_of_it"}, "a name that does not exist")
    for page in ("SECURITY.md", "docs/limits.md", "docs/containment.md"):
        named = {name for name in named_proofs((ROOT / page).read_text()) if name.split("/")[0] in areas}
        t.true(len(named) > 10, f"{page} names no cases")
        t.equal(sorted(named - known), [], f"{page} names cases that do not exist")


@case("the defaults in README.md are those of policies/default.toml", as_=("user",))
def defaults(t):
    text = (ROOT / "policies" / "default.toml").read_text()
    limits = re.findall(r'^(\w+) = "?([^"\n]+)"?$', text[text.index("[limits]"):text.index("[seccomp]")], re.MULTILINE)
    t.true(len(limits) > 10, "no limits found")
    rows = [line.split("|") for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("| `--")]
    for key, value in limits:
        flag = "--" + key.replace("_", "-")
        defaults = [row[2] for row in rows if f"`{flag}`" in row[1]]
        t.true(any(re.search(rf"(?<!\w){re.escape(value)}(?!\w)", found) for found in defaults), f"{flag}: {value} is not in {defaults}")


@case("every flag that the documents give to sbx exists", as_=("user",))
def flags(t):
    known = set()
    for command in (("run",), ("exec",), ("langs",), ("policy", "check"), ("policy", "explain"), ("policy", "show"), ("doctor",), ("selftest",),
                    ("session", "start"), ("session", "run"), ("nsjail",)):
        known |= set(re.findall(r"--[a-z][a-z-]*", t.expect(t.sbx(*command, "--help")).text))
    others = {"--test-dir", "--binary", "--set-upstream-to", "--copies", "--version"}  # of ctest, tests, git, venv; and of sbx alone
    t.true("--memory" in known, "no flags found")
    guide = [page for page in readme_test.PAGES if page.startswith("docs/guide/") and not page.endswith("09-troubleshooting.md")]
    t.true(len(guide) == 9, "the guide has ten pages")
    for page in ("README.md", "SECURITY.md", "docs/cli.md", "docs/limits.md", "docs/policy.md", "docs/result.md", "docs/selftest.md", "docs/workspaces.md",
                 "docs/toolchains.md", *guide):
        text = re.sub(r"(?m)^\$ bwrap.*$", "", (ROOT / page).read_text())
        if page.endswith("08-coming-from.md"):  # the first column is other programs' flags
            text = re.sub(r"(?m)^(\| [^|]* )\|", "|", text)
        spans = re.findall(r"`([^`\n]*)`", text) + [line for line in text.splitlines() if re.match(r"\$ .*\bsbx ", line)]
        named = {flag for span in spans for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]*", span)}
        t.equal(sorted(named - known - others), [], f"{page} names flags that do not exist")
