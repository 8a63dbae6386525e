#!/usr/bin/env python3
"""The transcripts in the documents are true: readme_test.py --self-test, or through tests/run.py (readme_cases.py).

A fenced block whose first word is `console` is a transcript: lines that begin with `$ ` are commands, what follows is
what they print on both streams. It is run in a fresh directory that holds every block of the same page marked
`file=NAME`; `needs=a,b` names what the host must have. In what is printed

- a line `…` stands for any number of lines, `…` inside a line for anything;
- version numbers (three numbers with dots) are equal to each other.

Blocks of other kinds are not run; a `sh` block may therefore hold no sbx command (tests/lint/documents.py).
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ("README.md",
         "docs/adding-a-language.md",
         "docs/bwrap-policies.md",
         "docs/bwrap.md",
         "docs/ci.md",
         "docs/cli.md",
         "docs/convert.md",
         "docs/kafel.md",
         "docs/limits.md",
         "docs/policy.md",
         "docs/sessions.md",
         *sorted(page.relative_to(ROOT).as_posix() for page in (ROOT / "docs/guide").glob("*.md")))
MARK = "-- end of command, status "
FENCE = re.compile(r"^```(\S*)[ \t]*(.*)$")


class Block:
    def __init__(self, line, kind, words, text):
        self.line, self.kind, self.text = line, kind, text
        self.options = dict(word.split("=", 1) for word in words.split() if "=" in word)
        self.needs = tuple(word for word in self.options.get("needs", "").split(",") if word)


def blocks(text):
    """The fenced blocks of a page, in order."""
    found, opened, body = [], None, []
    for number, line in enumerate(text.splitlines(), 1):
        match = FENCE.match(line)
        if opened is None and match:
            opened, body = (number, match.group(1), match.group(2)), []
        elif opened is not None and line.rstrip() == "```":
            found.append(Block(*opened, "".join(part + "\n" for part in body)))
            opened = None
        elif opened is not None:
            body.append(line)
    if opened is not None:
        raise ValueError(f"line {opened[0]}: a block without an end")
    return found


def files(page):
    return {block.options["file"]: block.text for block in page if "file" in block.options}


def transcripts(page):
    return [block for block in page if block.kind == "console"]


def steps(block):
    """(command, wanted lines) of a transcript."""
    found = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif not found:
            raise ValueError(f"line {block.line}: output before the first command")
        else:
            found[-1][1].append(line)
    return found


def script(block):
    """Bash text that runs the commands one after the other, each seeing the status of the one before."""
    lines = ["status=0"]
    for command, _wanted in steps(block):
        lines += ["(exit $status)", command, "status=$?", f"printf '\\n{MARK}%s\\n' $status"]
    return "exec 2>&1\n" + "\n".join(lines) + "\n"


def outputs(block, printed):
    """What each command printed, from what the script printed. A missing one is None."""
    found = re.split(r"\n" + MARK + r"\d+\n", printed)[:-1]
    return found + [None] * (len(steps(block)) - len(found))


def normal(line):
    return re.sub(r"(?<![\d.])\d+\.\d+\.\d+(?![\d.])", "1.2.3", line.rstrip())


def pattern_of(line):
    return re.compile(".*".join(re.escape(part) for part in normal(line).split("…")) + r"\Z")


def matches(wanted, got):
    """Whether the printed lines are those of the transcript."""
    if not wanted:
        return not got
    if wanted[0].strip() == "…":
        return any(matches(wanted[1:], got[at:]) for at in range(len(got) + 1))
    return bool(got) and bool(pattern_of(wanted[0]).match(normal(got[0]))) and matches(wanted[1:], got[1:])


def problems(block, printed):
    found = []
    for (command, wanted), got in zip(steps(block), outputs(block, printed)):
        if got is None:
            found.append(f"$ {command}\n  did not end")
            break
        if not matches(wanted, got.splitlines()):
            found.append(f"$ {command}\n  the page says:\n" + "".join(f"    {line}\n" for line in wanted) +
                         "  it prints:\n" + "".join(f"    {line}\n" for line in got.splitlines()))
    return found


def self_test():
    import subprocess
    page = blocks("text\n```python file=a.py\nprint(1)\n```\n```sh\nmake\n```\n"
                  "```console needs=python,bash\n$ cat a.py\nprint(1)\n$ (echo no >&2; exit 3)\nno\n$ echo $?\n3\n```\n")
    failures = []

    def check(what, truth):
        if not truth:
            failures.append(what)

    check("a file block", files(page) == {"a.py": "print(1)\n"})
    check("one transcript", len(transcripts(page)) == 1 and transcripts(page)[0].needs == ("python", "bash"))
    block = transcripts(page)[0]

    def run(block):
        return subprocess.run(["/bin/bash", "-c", script(block)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()

    def transcript(text):
        return Block(1, "console", "", text)

    check("a missing file is noticed", len(problems(block, run(block))) == 1)
    good = transcript("$ echo a; echo v2.31.4\na\nv3.0.1\n$ printf x\nx\n$ true\n$ seq 9\n1\n…\n9\n$ echo took 5 ms\ntook … ms\n")
    check(f"a true transcript has no problems: {problems(good, run(good))}", not problems(good, run(good)))
    for text in ("$ echo a\nb\n", "$ echo a\n", "$ true\na\n", "$ seq 3\n1\n…\n9\n", "$ echo 12.5\n12.6\n", "$ (exit 3)\n$ echo $?\n0\n",
                 "$ exit 0\n$ echo a\na\n", "$ echo ab\na\n", "$ kill -9 $$\n"):
        check(f"a false transcript is noticed: {text!r}", problems(transcript(text), run(transcript(text))))
    for text in ("```console\n$ echo\n", "```console\nout\n$ echo\n```\n"):
        try:
            [steps(b) for b in blocks(text)]
            failures.append(f"nonsense is accepted: {text!r}")
        except ValueError:
            pass
    return failures


if __name__ == "__main__":
    if sys.argv[1:] != ["--self-test"]:
        sys.exit(__doc__)
    found = self_test()
    print("\n".join(found) or "transcripts: ok")
    sys.exit(1 if found else 0)
