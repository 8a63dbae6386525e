#!/usr/bin/env python3
"""run_guest.py NAME… [--binary build/sbx] [--as root,session-user,…] [-j N] [-k PATTERN | --script FILE]

Boots guests (debian12, debian13; several at once) in plain emulation, runs the integration cases of cases.txt (or those that
-k names, or a script) in them as each identity, shows their consoles meanwhile and fetches what they left. README.md says more.
"""

import argparse
import concurrent.futures
import copy
import io
import os
import pathlib
import re
import select
import subprocess
import sys
import tarfile
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import build_image  # noqa: E402

HERE = build_image.HERE
ROOT = build_image.ROOT
IDENTITIES = ("root", "session-user", "manager-user", "service-user")
OUT_SIZE = 256 << 20
TIME_FACTOR = 12  # how much slower than a real machine, generously


def add_bytes(tar, name, content, mode=0o644):
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    tar.addfile(info, io.BytesIO(content))


def add_tree(tar, source, name):
    def plain(info):
        if "__pycache__" in info.name:
            return None
        info.uid = info.gid = 0
        info.uname = info.gname = "root"
        info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
        return info
    tar.add(str(source), name, filter=plain)


def listed(text, who):
    """cases.txt: `PATTERN [IDENTITY…]` a line, a regular expression without blanks; or `leak=N` in its place, N runs of
    tests/leak.py. Returns the pattern of this identity's cases, and N (0: none)."""
    patterns, leaks = [], 0
    for line in text.splitlines():
        words = line.split("#", 1)[0].split()
        if not words or (words[1:] and who not in words[1:]):
            continue
        for other in words[1:]:
            if other not in IDENTITIES:
                raise SystemExit(f"cases.txt: no identity {other!r} (in {line!r})")
        if words[0].startswith("leak="):
            leaks = int(words[0][5:])
        else:
            patterns.append(f"(?:{words[0]})")
    return "|".join(patterns) or "^$", leaks


def expected_skips(name, who):
    """Of expected-skips.txt, lines `GUEST IDENTITY case [label]: reason`, `*` for any guest."""
    lines = [line.split("#", 1)[0].split(None, 2) for line in (HERE / "expected-skips.txt").read_text().splitlines()]
    return {line[2].strip() for line in lines if len(line) == 3 and line[0] in ("*", name) and line[1] == who}


def write_input(path, options):
    binary = pathlib.Path(options.binary).resolve()
    probe = pathlib.Path(options.probe).resolve() if options.probe else binary.parent / "tests" / "probe"
    with tarfile.open(path, "w") as tar:
        for name in ("as", "job", "phase"):
            add_tree(tar, HERE / "inside" / name, name)
        add_tree(tar, binary, "sbx")
        if probe.exists():
            add_tree(tar, probe, "tests-bin/probe")
        for name in ("tests", "policies", "examples", "docs/schema"):
            if (ROOT / name).exists():
                add_tree(tar, ROOT / name, f"tree/{name}")
        add_bytes(tar, "identities", "\n".join(options.identities).encode())
        add_bytes(tar, "env", f"export SBX_TEST_TIME_FACTOR={options.factor:g} JOBS={options.jobs}\n".encode())
        if options.script:
            add_bytes(tar, "script", pathlib.Path(options.script).read_bytes())
        for who in options.identities:
            pattern, leaks = (options.pattern, 0) if options.pattern else listed((HERE / "cases.txt").read_text(), who)
            add_bytes(tar, f"cases/{who}", pattern.encode())
            add_bytes(tar, f"leaks/{who}", str(leaks).encode())
        for extra in options.file:
            add_tree(tar, extra, f"files/{pathlib.Path(extra).name}")
    os.truncate(path, (path.stat().st_size + 0xfffff) & ~0xfffff)


def qemu_command(image, given, taken, options):
    # no_timer_check: on a busy host the timer's interrupts come too late for the kernel's taste, and it panics.
    # transparent_hugepage=never: khugepaged's waits for the other CPU lock up there.
    # norandmaps: with addresses that differ in each process nothing that was translated serves the next one: four times slower.
    # no5lvl, tsc: shorter walks of page tables, and a clock that is no device.
    append = ("console=ttyS0 root=/dev/vda rw quiet loglevel=3 panic=-1 no_timer_check transparent_hugepage=never mitigations=off net.ifnames=0 "
              "norandmaps no5lvl clocksource=tsc tsc=reliable "
              "systemd.show_status=0 systemd.firstboot=off systemd.mask=serial-getty@ttyS0.service fsck.mode=skip")
    drives = [(image / "root.img", "snapshot=on"), (given, "readonly=on"), (taken, "cache=unsafe")]
    command = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
               "-machine", "q35", "-accel", f"tcg,thread={options.threads}", "-cpu", "max", "-smp", str(options.cpus), "-m", str(options.memory),
               "-serial", "stdio", "-device", "virtio-rng-pci",
               "-kernel", str(image / "vmlinuz"), "-initrd", str(image / "initrd.img"), "-append", append]
    for path, more in drives:
        command += ["-drive", f"file={path},format=raw,if=virtio,{more}"]
    return command


class Console:
    """Reads what the guest prints, line by line, until qemu ends or a limit passes."""

    def __init__(self, process, show, prefix):
        self.process, self.show, self.prefix = process, show, prefix
        self.lines, self.partial = [], b""
        self.started = self.ended = None

    def take(self, chunk):
        self.partial += chunk
        *whole, self.partial = self.partial.split(b"\n")
        for raw in whole:
            line = raw.decode("utf-8", "replace").rstrip("\r")
            self.lines.append(line)
            if "guest-started " in line:
                self.started = time.monotonic()
            if "guest-ended " in line:
                self.ended = time.monotonic()
            if self.show == "all" or (self.show == "run" and self.started and not self.ended):
                print(self.prefix + line, flush=True)

    def follow(self, boot_limit, limit):
        """"" when qemu ended by itself, else which limit passed."""
        began = time.monotonic()
        while True:
            now = time.monotonic()
            if not self.started and now - began > boot_limit:
                return f"did not boot within {boot_limit} s"
            if now - began > limit:
                return f"did not end within {limit} s"
            ready, _, _ = select.select([self.process.stdout], [], [], 1)
            if ready:
                chunk = os.read(self.process.stdout.fileno(), 65536)
                if not chunk:
                    return ""
                self.take(chunk)


def fetch(disk, folder):
    """Unpacks what the guest left; False: it left nothing readable."""
    try:
        with tarfile.open(disk, "r:") as tar:
            for member in tar:
                target = (folder / member.name).resolve()
                if folder not in (target, *target.parents):
                    continue
                if member.isdir():
                    target.mkdir(parents=True, exist_ok=True)
                elif member.isfile():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(tar.extractfile(member).read())
    except (tarfile.TarError, OSError, EOFError):
        return False
    return (folder / "status").exists()


def run(options):
    """One guest, from its image to its results: (status, the lines to be printed last)."""
    image = build_image.ensure(options.name)
    out = pathlib.Path(options.out or build_image.ROOT / "build" / "guest-results").resolve()
    if not options.out or len(options.names) > 1:
        out = out / options.name
    subprocess.run(["rm", "-rf", str(out)], check=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="sbx-guest-") as scratch:
        scratch = pathlib.Path(scratch)
        given, taken = scratch / "given.tar", scratch / "taken.tar"
        write_input(given, options)
        with open(taken, "wb") as file:
            file.truncate(OUT_SIZE)
        began = time.monotonic()
        process = subprocess.Popen(qemu_command(image, given, taken, options), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        console = Console(process, options.console, f"{options.name}: " if len(options.names) > 1 else "")
        try:
            problem = console.follow(options.boot_limit, options.limit)
        finally:
            if process.poll() is None:
                try:
                    process.wait(0 if problem_pending(console) else 10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        (out / "console.log").write_text("\n".join(console.lines) + "\n")
        whole = fetch(taken, out)
        took = time.monotonic() - began
        booted = f"booted in {console.started - began:.0f} s" if console.started else "never booted"
    if problem or not whole:
        return 3, [*console.lines[-60:], f"run_guest.py: {options.name}: {problem or 'it ended without a result'}: above is the end "
                   f"of its console; all of it: {out}/console.log"]
    return report(options, out, f"{options.name}: {booted}, {took:.0f} s altogether")


def problem_pending(console):
    return console.ended is None


def wrong_skips(name, out, who):
    """What is skipped for want of a controller would go unnoticed: the set must be the expected one."""
    got = set((out / who / "skips").read_text().splitlines())
    want = expected_skips(name, who)
    return [f"skipped, but not expected to be: {line}" for line in sorted(got - want)] + \
           [f"expected to be skipped, but was not: {line}" for line in sorted(want - got)]


def report(options, out, line):
    status = int((out / "status").read_text())
    if options.script:
        return status, [f"({line}; results: {out})"]
    lines, totals = [], [0, 0, 0]
    for who in options.identities:
        text = (out / f"{who}.log").read_text(errors="replace")
        found = re.findall(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", text, re.MULTILINE)
        if not found:
            found = [(0, 1, 0)]
            lines.append(f"FAIL {options.name} {who}: the driver came to no end (status {(out / f'{who}.status').read_text().strip()})")
        wrong = re.findall(r"^FAIL (leak .*)", text, re.MULTILINE)
        if not options.pattern and (out / who / "skips").exists():
            wrong += wrong_skips(options.name, out, who)
        unsteady = set(re.findall(r"^unsteady (.*?\]):", text, re.MULTILINE))
        names = [name for name in dict.fromkeys(re.findall(r"^FAIL (\S+ \[.*?\]):", text, re.MULTILINE)) if name not in unsteady]
        lines += [f"FAIL {options.name} {who}: {what}" for what in names + wrong]
        passed, failed, skipped = map(int, found[-1])
        failed += len(wrong)
        lines.append(f"{options.name} {who}: {passed} passed, {failed} failed, {skipped} skipped"
                     + (f"; unsteady: {', '.join(sorted(unsteady))}" if unsteady else ""))
        totals = [a + b for a, b in zip(totals, (passed, failed, skipped))]
    if totals[1]:
        status = status or 1
    return status, [*lines, f"({line}; results: {out})", f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped"]


def main():
    parser = argparse.ArgumentParser(description="Runs tests or a script in a guest.")
    parser.add_argument("names", nargs="+", choices=sorted(build_image.GUESTS), metavar="NAME", help=", ".join(sorted(build_image.GUESTS)))
    parser.add_argument("--binary", default=str(ROOT / "build" / "sbx"))
    parser.add_argument("--probe", default="", help="default: tests/probe beside the binary")
    parser.add_argument("--as", dest="identities", default="", help=f"of {', '.join(IDENTITIES)}; default: all of "
                        "them, or root with --script")
    parser.add_argument("-k", dest="pattern", default="", help="cases to run instead of those of cases.txt")
    parser.add_argument("-j", dest="jobs", type=int, default=3, help="cases at once")
    parser.add_argument("--script", default="", help="run this bash script instead of the cases")
    parser.add_argument("--file", action="append", default=[], help="also there as /guest/files/NAME (may be given again)")
    parser.add_argument("--out", default="", help="where its results go; default: build/guest-results/NAME; of several guests OUT/NAME")
    parser.add_argument("--limit", type=int, default=3000, help="seconds until qemu is ended, whatever happens")
    parser.add_argument("--boot-limit", type=int, default=600)
    parser.add_argument("--memory", type=int, default=3072, help="MiB")
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--threads", choices=("single", "multi"), default="single", help="qemu's: one for all CPUs, or one for each")
    parser.add_argument("--factor", type=float, default=TIME_FACTOR, help="SBX_TEST_TIME_FACTOR inside")
    parser.add_argument("--console", choices=("run", "all", "none"), default="run")
    options = parser.parse_args()
    wanted = options.identities or ("root" if options.script else ",".join(IDENTITIES))
    options.identities = [word for word in wanted.split(",") if word]
    for who in options.identities:
        if who not in IDENTITIES:
            parser.error(f"no identity {who!r} ({', '.join(IDENTITIES)})")
    if not os.access(options.binary, os.X_OK):
        parser.error(f"no such binary: {options.binary}")
    one_each = [copy.copy(options) for _ in options.names]
    for name, mine in zip(options.names, one_each):
        mine.name = name
        build_image.ensure(name)  # one after the other: each keeps all CPUs busy
    with concurrent.futures.ThreadPoolExecutor(len(one_each)) as pool:
        ended = list(pool.map(run, one_each))
    for _status, lines in ended:
        print("\n".join(lines))
    return max(status for status, _lines in ended)


if __name__ == "__main__":
    sys.exit(main())
