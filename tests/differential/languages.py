"""The programs of tests/languages, by `sbx run` inside; outside by the very commands that it says it runs (`plan:` lines of -v).

Whoever runs these by hand types such a command; what sbx's runner adds (flags, environment) is then the same on both sides, and what is
compared is the sandbox.
"""

import base64
import functools
import json
import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
LANGUAGES = HERE.parent / "languages"
sys.path[:0] = [str(LANGUAGES)]
import behaviours  # noqa: E402  (tests/languages/behaviours.py)
import programs  # noqa: E402  (tests/languages/programs.py)
import run  # noqa: E402
import sides  # noqa: E402
import suites  # noqa: E402

POLICIES = HERE.parent.parent / "policies" / "lang"
ENVIRONMENT = {"latex": {"max_print_line": "1000"}}  # which else breaks lines where a path outside is long
SCRUB = [(re.compile(rb"/tmp/cc\w{6}\b"), b"/tmp/ccXXXXXX")]  # of gcc
LIMITS = ("time", "memory", "out-of-memory-hint", "compiled-once")  # what the limits do to programs: outside there are none


@functools.lru_cache(maxsize=None)
def runner_files(language):
    """{name: text} of the [files] of a runner."""
    text = (POLICIES / f"{language}.toml").read_text(encoding="utf-8")
    section = re.search(r"(?ms)^\[files\]\n(.*?)(?=^\[|\Z)", text)
    return {} if not section else {name.strip('"'): body for name, body in re.findall(r"(?ms)^([\w.\"-]+) = '''\n(.*?)'''", text)}


class LanguageProgram(sides.Program):
    def __init__(self, language, name, source, args, together=(), **more):
        super().__init__("languages", f"{language}/{name}", [], env=ENVIRONMENT.get(language), scrub=SCRUB, **more)
        self.language, self.source, self.args, self.together = language, source, args, together

    def inside(self, binary, end):
        # What is compiled together is named; alone, a program runs where it stands.
        share = [word for name in self.together for word in ("--file", str(end.work / name))] or ["--workspace", f"{end.work}:rw"]
        return [binary, "run", "-v", "--result", str(end.place / "result.json"), "--lang", self.language, *share, *self.flags, *(word for item in self.env.items() for word in ("--env", "=".join(item))), str(end.work / self.source), *self.args]

    def outside(self, end, inside_end):
        files = end.place / "files"
        files.mkdir()
        for name, text in runner_files(self.language).items():
            (files / name).write_text(text)
        prepared = end.place.parent / f"prepared-{end.place.name}-{self.language}"  # as inside, what a toolchain keeps is kept
        prepared.mkdir(exist_ok=True)
        os.chmod(prepared, 0o777)
        names = (*((name, path) for path, name in end.names() if name != "/tmp"), ("/run/sbx/files", files), ("/run/sbx/prepared", prepared))

        def translated(word):
            for name, path in names:
                word = re.sub(rf"(?<![\w/.-]){re.escape(name)}(?![\w-])", str(path), word)
            return word
        env = {}
        for line in inside_end.raw_err.decode("utf-8", "surrogateescape").splitlines():
            if line.startswith("sbx: plan: env "):
                name, _, value = line[len("sbx: plan: env "):].partition("=")
                if not value.startswith("/run/sbx/hooks"):  # how plots are collected
                    env[name] = translated(value.strip("'"))
        return [([translated(word) for word in argv], env) for argv in inside_end.commands]

    def ended(self, end):
        result = json.loads((end.place / "result.json").read_bytes())
        commands = [result["compile"]["argv"]] if result.get("compile") else []
        end.compilers = len(commands)
        if result["verdict"] != "compile_failed":
            commands.append(result["argv"])
        end.commands = [[word if isinstance(word, str) else base64.b64decode(word["data"]).decode("utf-8", "surrogateescape") for word in argv] for argv in commands]


def placed(files):
    """Writes {name: bytes} into the working directory."""
    def prepare(work):
        for name, data in files.items():
            path = work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return prepare


def small(binary):
    known = programs.languages(binary)
    for path in sorted((LANGUAGES / "more").glob("*.cases")):
        language = path.stem
        if not known[language]["found"]:
            continue
        for trial in programs.parse_cases(path.read_text(encoding="utf-8"), path.name)[0]:
            source = trial.file or "main" + (known[language]["extensions"] or [""])[0]
            yield LanguageProgram(language, trial.name, source, trial.args, prepare=placed({source: trial.program}), stdin=trial.input,
                                  flags=trial.flags)


def larger(binary):
    known = programs.languages(binary)
    for folder in sorted((LANGUAGES / "programs").glob("*/*/")):
        language = folder.parent.name
        if known[language]["found"]:
            source = next(path for path in folder.iterdir() if path.stem.lower() == "main")
            args = (run.read(folder / "args") or b"").decode().splitlines()
            yield LanguageProgram(language, folder.name, source.name, args, prepare=placed({source.name: source.read_bytes()}),
                                  stdin=run.read(folder / "stdin") or b"")


def core(binary):
    known = programs.languages(binary)
    for language in behaviours.FIFTEEN:
        if not known[language]["found"]:
            continue
        for name, program in behaviours.read_programs(language)[0].items():
            if name in LIMITS:
                continue
            source = ("Main." if language == "java" else "main.") + behaviours.EXTENSION[language]
            files = {source: program.source.encode(), **{name: text.encode() for name, text in program.files.items()}}
            args, stdin = [], b""
            if name == "arguments":
                args = behaviours.WORDS
            elif name == "utf8":
                args = ["ünï→"]
            elif name == "stdin":
                stdin = b"".join(b"%d\n" % n for n in range(1000))
            elif name == "workspace":
                files["data/numbers.txt"] = b"1 2 3\n4\n"
            yield LanguageProgram(language, name, source, args, program.files, prepare=placed(files), stdin=stdin)


def every_program(binary):
    left = suites.left("languages")
    return [program for program in (*larger(binary), *core(binary), *small(binary)) if program.name not in left]
