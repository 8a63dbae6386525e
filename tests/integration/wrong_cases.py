"""What a new user does wrong, each answered with its cause and a remedy that works: tests/errors/wrong-uses.txt."""

import os
import re

import harness
from harness import case

KEYS = ("as", "needs", "given", "then", "after")


def entries():
    """(line, title, values by key, command, status, wanted lines)"""
    lines = (harness.TESTS / "errors/wrong-uses.txt").read_text().splitlines()
    found = []
    for number, line in enumerate(lines, 1):
        if line.startswith("# "):
            found.append((number, line[2:], {key: [] for key in KEYS}, [], []))
        elif found and line:
            _, _, values, command, answer = found[-1]
            key, _, rest = line.partition(" ")
            if line.startswith("$ "):
                command.append(line[2:])
            elif key in KEYS:
                values[key].append(rest)
            else:
                answer.append(line)
    return found


def matches(wanted, got):
    return re.fullmatch(".*".join(re.escape(part) for part in wanted.split("…")), got)


def check(t, values, command, answer):
    folder = os.path.dirname(t.binary)
    env = {"PATH": f"{folder}:{harness.SYSTEM_PATH}", "UNSET": None, "NOPE": None}

    def shell(text):
        return t.run(["/bin/bash", "--norc", "--noprofile", "-c", text], env=env, cwd=here)
    here = t.mkdir("here")  # not the home directory's own parent, which cannot be shared
    t.file("here/main.py", "print(1)\n")
    for text in values["given"]:
        t.expect(shell(text))
    status, wanted = int(answer[0]), answer[1:]
    done = t.expect(shell(command), status=status)
    said = [line for line in done.errors.splitlines() if line.startswith("sbx: ")]
    t.true(len(said) == len(wanted) and all(matches(w, g) for w, g in zip(wanted, said)), "it says\n  " + "\n  ".join(said) + "\nwanted\n  " + "\n  ".join(wanted))
    t.true(len(said) <= 2 and (len(said) == 1 or said[1].startswith("sbx: hint: ")), "more than a line and its hint")
    for remedy in values["then"] + values["after"]:
        t.true(remedy in done.errors, f"the answer does not name the remedy {remedy!r}")
        t.expect(shell(remedy))
    for _ in values["after"]:
        t.expect(shell(command))


for line, title, values, commands, answer in entries():
    def run(t, values=values, commands=commands, answer=answer):
        check(t, values, commands[0], answer)
    run.__name__ = run.__qualname__ = "line_" + str(line)
    case(title, needs=tuple(values["needs"]), as_=tuple(values["as"]) or ("root", "user"))(run)


@case("there are at least forty wrong uses, and most of those whose remedy is a command have it tried")
def enough(t):
    found = entries()
    t.true(len(found) >= 40, len(found))
    t.true(all(len(commands) == 1 and len(answer) >= 2 for _, _, _, commands, answer in found), "each has a command, a status and an answer")
    for line, title, values, _, answer in found:
        complete = re.search(r"(?:with|share it|directory|raise it|option|file|command): (sbx (?:run|exec) [^;…]+)", " ".join(answer[1:]))
        if complete and not re.search(r"\b(?:FILE|CODE|NAME|DIR)\b", complete.group(1)) and "too little time" not in title:
            t.true(values["then"] or values["after"], f"line {line}: the remedy {complete.group(1)!r} is not tried")
