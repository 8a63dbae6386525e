#!/usr/bin/env python3
"""Records which functions a start of sbx executes, and writes them, in the order of their first call, to cmake/start_order.ld.

    tools/start_order.py [--build build] [--as root,user]        (as root, on x86-64: a minute or two)

A page of the program that is needed for the first time is a fault, and the kernel maps sixteen around it: with the functions of a
start strewn over seven megabytes that was every fourth fault of the supervisor. The linker puts those that the script names side by
side. A name that no longer exists does nothing, and a function without one lies where it did: so the file may grow old, and is
made anew when the start has changed much. The supervisor is single-stepped (ptrace), so all that it runs is seen, the C library's
functions and what comes after the clone too.
"""

import argparse
import bisect
import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "integration"))
import harness  # noqa: E402

SCRIPT = ROOT / "cmake" / "start_order.ld"
HEAD = """/* The functions of a start, side by side. Written by tools/start_order.py, which tells what for. */
SECTIONS
{
  .text_start : {
"""
TAIL = """  }
}
INSERT BEFORE .text;
"""
STARTS = (["exec", "--", "true"], ["run", "--lang", "python", "-c", 'print("hello")'])
PTRACE_TRACEME, PTRACE_PEEKUSER, PTRACE_SINGLESTEP = 0, 3, 9
RIP = 16 * 8  # in struct user_regs_struct

libc = ctypes.CDLL(None, use_errno=True)
ptrace = libc.ptrace
ptrace.restype = ctypes.c_long
ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def addresses(argv, identity, env):
    """Of the program's instructions, in the order of their first execution, from where it is loaded."""
    pid = os.fork()
    if pid == 0:
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.chdir("/")
        if os.geteuid() != identity.uid:
            os.setgroups([])
            os.setresgid(identity.gid, identity.gid, identity.gid)
            os.setresuid(identity.uid, identity.uid, identity.uid)
        ptrace(PTRACE_TRACEME, 0, None, None)
        os.execve(argv[0], argv, env)
    _, status = os.waitpid(pid, 0)
    base = int(pathlib.Path(f"/proc/{pid}/maps").read_text().split("-")[0], 16)
    seen = {}
    while os.WIFSTOPPED(status):
        seen.setdefault(ptrace(PTRACE_PEEKUSER, pid, RIP, None) - base)
        signal = os.WSTOPSIG(status)
        if ptrace(PTRACE_SINGLESTEP, pid, None, 0 if signal == 5 else signal) != 0:
            break
        _, status = os.waitpid(pid, 0)
    if not os.WIFEXITED(status) or os.WEXITSTATUS(status) != 0:
        sys.exit(f"start_order: {' '.join(argv)} ended with {status}")
    return list(seen)


def input_sections(build):
    """[(address, size, name, file)] of all code, from a map that the linker writes."""
    command = subprocess.run(["ninja", "-t", "commands", "sbx"], cwd=build, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1]
    with tempfile.TemporaryDirectory() as work:
        command = command.replace(" -o sbx ", f" -Wl,-Map={work}/map -o {work}/sbx ")
        subprocess.run(command, shell=True, cwd=build, check=True)
        if pathlib.Path(work, "sbx").read_bytes() != pathlib.Path(build, "sbx").read_bytes():
            sys.exit("start_order: build/sbx is not what a link gives: build it first")
        text = pathlib.Path(work, "map").read_text(errors="replace")
    # A long name stands on a line of its own.
    found = re.findall(r"^ (\.text\S*)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+) (\S.*)$", text, re.M)
    return sorted((int(at, 16), int(size, 16), name, file) for name, at, size, file in found if int(at, 16) and int(size, 16))


def pattern(name, file):
    """What the linker shall take: C++ functions have sections of their own, the C library's lie in one for each object."""
    if name.startswith(".text._Z"):
        return f"*({name})"
    inside = re.search(r"([^/]+\.a)\((.+)\)$", file)
    return f"*{inside.group(1)}:{inside.group(2)}({name})" if inside else f"*{os.path.basename(file)}({name})"


def main():
    parser = argparse.ArgumentParser(description="Writes cmake/start_order.ld anew.")
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--as", dest="identities", default="root,user")
    options = parser.parse_args()
    sections = input_sections(options.build)
    begins = [section[0] for section in sections]
    wanted = {}
    with tempfile.TemporaryDirectory() as work:
        os.chmod(work, 0o755)
        binary = os.path.join(work, "sbx")
        pathlib.Path(binary).write_bytes(pathlib.Path(options.build, "sbx").read_bytes())
        os.chmod(binary, 0o755)
        for identity in harness.make_identities(options.identities.split(",")):
            env = {"PATH": harness.SYSTEM_PATH, "HOME": work, "LANG": "C.UTF-8"}
            for words in STARTS:
                for address in addresses([binary, *words], identity, env):
                    at = bisect.bisect_right(begins, address) - 1
                    if at >= 0 and address < begins[at] + sections[at][1]:
                        wanted.setdefault(sections[at])
    lines = dict.fromkeys(pattern(name, file) for _, _, name, file in wanted)
    SCRIPT.write_text(HEAD + "".join(f"    {line}\n" for line in lines) + TAIL)
    print(f"wrote {SCRIPT}: {len(lines)} sections, {sum(section[1] for section in wanted) >> 10} KiB of {sum(section[1] for section in sections) >> 10}")


if __name__ == "__main__":
    main()
