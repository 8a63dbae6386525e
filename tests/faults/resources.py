#!/usr/bin/env python3
"""What sbx does without descriptors, memory, disk or processes, beside a bad cgroup file system, and stopped or killed.

    tests/faults/resources.py --binary build/sbx [--as root,user] [-k CASE]

Unlike run.py, which makes single calls fail, these are real shortages of the supervisor's. Wanted is the same: the run fails
closed, in words, and leaves nothing; or its sandbox is whole. Cases that need root, a cgroup or a mount namespace of their own
say so where they are skipped.
"""

import argparse
import errno
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "integration"))
import harness  # noqa: E402
import run as faults  # noqa: E402

SECONDS = 30 * harness.TIME_FACTOR


class Wrong(Exception):
    pass


def check(true, text):
    if not true:
        raise Wrong(text)


class Place:
    """Runs sbx in a slot, by way of a shell that takes something away first."""

    def __init__(self, slot):
        self.slot = slot
        self.sbx = slot.tools["sbx"]
        self.plain = None

    def exec_words(self, *flags):
        return ["exec", *flags, "--mount", f"{self.slot.whole}:{faults.WHOLE}", "--", faults.WHOLE]

    def start(self, before, words, identity=None, **more):
        argv = ["/bin/bash", "-c", f'{before}\nexec "$0" "$@"', self.sbx, *words]
        arguments = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": self.slot.environment(), "cwd": self.slot.dir}
        arguments.update(self.slot.identity.popen_arguments() if identity is None else identity)
        arguments.update(more)
        return subprocess.Popen(argv, **arguments)

    def run(self, before, words, **more):
        process = self.start(before, words, **more)
        try:
            out, err = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Wrong(f"did not end: {before}; sbx {' '.join(words)}")
        return Done(process.returncode, (out or b"").decode("utf-8", "replace"), (err or b"").decode("utf-8", "replace"), self.slot)

    def whole(self):
        """The report without any shortage."""
        if self.plain is None:
            self.plain = self.run(":", self.exec_words())
            check(self.plain.status == 0, f"without a shortage: {self.plain}")
        return self.plain


class Done:
    def __init__(self, status, out, err, slot):
        self.status, self.out, self.err = harness.shell_status(status), out, err
        self.report, self.facts = faults.normal(out, slot), []

    def __str__(self):
        return f"status {self.status}, stdout {self.out[-200:]!r}, stderr {self.err[-400:]!r}"


def closed_or_whole(place, done, what, but=(), counts=None):
    """Failed in words with nothing run, or whole; `but`: beginnings of lines that the shortage itself changes."""
    if done.status in faults.FAILED and "payload runs" not in done.out:
        check(any(line.startswith("sbx: ") for line in done.err.splitlines()), f"{what}: no words: {done}")
        kind = "failed"
    else:
        check(done.status == 0, f"{what}: {done}")
        more = [line for line in faults.differences([place.whole()], done) if not line[1:].startswith(tuple(but)) and not faults.is_fewer_files(line)]
        check(not more, f"{what}: the sandbox is another: {more[:6]}")
        kind = "whole"
    if counts is not None:
        counts[kind] = counts.get(kind, 0) + 1


def none_left(place, what):
    """No process has the slot's sbx in its words; no leaf of a dead supervisor stands."""
    end = time.monotonic() + 3 * harness.TIME_FACTOR
    binary = os.fsencode(str(place.slot.dir))
    while True:
        left = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = pathlib.Path(f"/proc/{pid}/environ").read_bytes() + pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if binary in words and int(pid) != os.getpid():
                left.append(pid)
        if not left:
            return
        check(time.monotonic() < end, f"{what}: processes left: {left}")
        time.sleep(0.02)  # polls


def told(counts):
    return ", ".join(f"{v} {k}" for k, v in sorted(counts.items()))


# ---- the cases -------------------------------------------------------------------------------------------------------

def descriptors(place):
    counts = {}
    for number in range(3, 81):
        done = place.run(f"ulimit -n {number}", place.exec_words())
        closed_or_whole(place, done, f"ulimit -n {number}", ["rlimit 7 "], counts)
    check(len(counts) == 2, f"both are to be seen: {counts}")
    return told(counts)


def address_space(place):
    counts = {}
    for kib in [*range(1024, 8192, 1024), *range(8192, 16384, 128), 32768, 65536]:
        if place.run(f"ulimit -v {kib}", ["--version"]).status != 0:
            counts["not even --version"] = counts.get("not even --version", 0) + 1
            continue
        done = place.run(f"ulimit -v {kib}", place.exec_words())
        closed_or_whole(place, done, f"ulimit -v {kib}", ["rlimit 9 "], counts)
    check({"failed", "whole"} <= set(counts), f"both are to be seen: {counts}")
    return told(counts)


def processes(place):
    if place.slot.identity.uid == 0:
        return processes_by_cgroup(place)
    counts = {}
    for number in range(0, 8):
        done = place.run(f"ulimit -u {number}", place.exec_words())
        closed_or_whole(place, done, f"ulimit -u {number}", ["rlimit 6 "], counts)
    return told(counts)


class Group:
    """A cgroup of our own below the one we are in, for one controller; removed again."""

    def __init__(self, controller, settings):
        self.path = None
        own = pathlib.Path("/proc/self/cgroup").read_text().splitlines()
        for line in own:
            _number, names, below = line.split(":", 2)
            if controller in names.split(","):
                self.path = pathlib.Path(f"/sys/fs/cgroup/{controller}{below}") / f"faults-{os.getpid()}"
        if self.path is None:
            raise harness.Skip(f"needs a v1 {controller} controller")
        try:
            self.path.mkdir()
            for name, value in settings.items():
                (self.path / name).write_text(str(value))
        except OSError as error:
            self.remove()
            raise harness.Skip(f"needs a {controller} cgroup of its own: {error.strerror}")

    def __enter__(self):
        return self

    def __exit__(self, *_rest):
        self.remove()

    def remove(self):
        for _ in range(200):
            try:
                for directory in [d for d in self.path.iterdir() if d.is_dir()]:
                    directory.rmdir()
                self.path.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.02)  # polls: v1 tells nobody when a cgroup is empty


def processes_by_cgroup(place):
    counts = {}
    for number in range(1, 7):
        with Group("pids", {"pids.max": number}) as group:
            done = place.run(f"echo $$ > {group.path}/cgroup.procs", place.exec_words())
            closed_or_whole(place, done, f"pids.max {number}", [], counts)
    none_left(place, "pids.max")
    return told(counts)


def memory_cgroup(place):
    """The kernel ends the supervisor itself: then nothing lives on."""
    if place.slot.identity.uid != 0:
        raise harness.Skip("root puts sbx into a cgroup")
    counts = {}
    for kib in (512, 1024, 1536, 2048, 3072, 4096, 8192):
        with Group("memory", {"memory.limit_in_bytes": kib << 10}) as group:
            done = place.run(f"echo $$ > {group.path}/cgroup.procs", place.exec_words())
            none_left(place, f"memory {kib}K")
            if done.status == 137 and "report ends" not in done.out:
                counts["killed"] = counts.get("killed", 0) + 1
                continue
            closed_or_whole(place, done, f"memory {kib}K", [], counts)
    return told(counts)


def result_words(place, result, artifacts=None):
    words = ["--result", str(result)]
    return [*words, *(["--artifacts", str(artifacts)] if artifacts else [])]


def file_size(place):
    """Results, artifacts and what sbx writes for itself meet the caller's RLIMIT_FSIZE."""
    slot = place.slot
    for blocks in (0, 1):
        for name in ("made", "result.json"):
            shutil.rmtree(slot.dir / name, ignore_errors=True)
        words = ["exec", *result_words(place, slot.dir / "result.json", slot.dir / "made"), "--", "/bin/sh", "-c", "head -c 100000 /dev/zero > /box/big; echo ran"]
        done = place.run(f"ulimit -f {blocks}", words)
        check(done.status != 0 and os.strerror(errno.EFBIG) in done.err, f"ulimit -f {blocks}: {done}")
        check(not (slot.dir / "result.json").exists() or blocks > 0, f"ulimit -f {blocks}: a part of a result stands there")
        left = [p.name for p in slot.dir.iterdir() if p.name.startswith(".result")]
        check(not left, f"temporary files left: {left}")
    return "2 said 'File too large'"


def full_disk(place):
    """Result, artifacts and temporary files on a file system without room."""
    if os.geteuid() != 0:
        raise harness.Skip("root makes the small file system, in a mount namespace of its own")
    slot = place.slot
    full = slot.dir / "full"
    full.mkdir()
    counts = {}
    uid = slot.identity.uid
    drop = f"exec setpriv --reuid {uid} --regid {slot.identity.gid} --clear-groups" if uid else "exec"
    script = f'mount -t tmpfs -o size=16k,mode=0777 full {full} && head -c 1000000 /dev/zero > {full}/fill 2>/dev/null; {drop} "$0" "$@"'
    payload = ["--", "/bin/sh", "-c", "head -c 100000 /dev/zero > /box/big; echo payload runs"]
    for name, words, env in (("result", ["exec", *result_words(place, full / "r.json"), *payload], {}),
                             ("artifacts", ["exec", "--artifacts", str(full / "made"), *payload], {}),
                             ("both", ["exec", *result_words(place, full / "r.json", full / "made"), *payload], {}),
                             ("TMPDIR and caches", ["exec", *payload], {"TMPDIR": str(full), "XDG_CACHE_HOME": str(full / "cache")})):
        environment = {**slot.environment(), **env}
        done = subprocess.run(["unshare", "-m", "/bin/sh", "-c", script, place.sbx, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=environment, cwd=slot.dir, timeout=SECONDS)
        text = f"{name}: status {done.returncode}: {done.stderr.decode()[-300:]}"
        if env:
            check(done.returncode == 0, text)
            counts["ran"] = counts.get("ran", 0) + 1
        else:
            check(done.returncode != 0 and os.strerror(errno.ENOSPC) in done.stderr.decode(), text)
            counts["said 'No space left on device'"] = counts.get("said 'No space left on device'", 0) + 1
    full.rmdir()
    return told(counts)


def streams(place):
    """stdout and results that take nothing: /dev/full, a pipe whose reader is gone, one that nobody empties."""
    slot = place.slot
    shell = ["exec", "--", "/bin/sh", "-c", "echo payload runs; echo more"]
    done = place.run("exec > /dev/full", shell)
    check(done.status != 0 and os.strerror(errno.ENOSPC) in done.err, f"stdout to /dev/full: {done}")
    done = place.run(":", ["exec", "--result", "/dev/full", "--", "/bin/sh", "-c", "echo payload runs"])
    check(done.status == 1 and os.strerror(errno.ENOSPC) in done.err, f"result to /dev/full: {done}")
    done = place.run(":", ["exec", "--json", "--", "/bin/true"], stdout=os.open("/dev/full", os.O_WRONLY))
    check(done.status == 1 and done.err, f"--json to /dev/full: {done}")
    read, write = os.pipe()
    os.close(read)
    done = place.run(":", ["exec", "--", "/bin/sh", "-c", "echo x; echo y"], stdout=write)
    os.close(write)
    check(done.status in (0, 1, 141), f"stdout to a pipe without a reader: {done}")
    # A result for a pipe that is full: the sandbox is gone by then, and a TERM ends sbx.
    read, write = os.pipe()
    if os.geteuid() == 0:
        os.fchown(write, slot.identity.uid, slot.identity.gid)  # so that it may be opened by its name
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, bytes(65536))
    except BlockingIOError:
        os.set_blocking(write, True)
    process = place.start(":", ["exec", "--result", f"/dev/fd/{write}", "--", "/bin/sh", "-c", "echo payload runs"], pass_fds=[write])
    check(process.stdout.readline() == b"payload runs\n", "the payload of the full pipe")
    end = time.monotonic() + 10 * harness.TIME_FACTOR
    while harness.children_of(process.pid):
        check(time.monotonic() < end, "a full result pipe: the sandbox lives on")
        time.sleep(0.01)  # polls
    check(process.poll() is None, "a full result pipe: sbx ended, so nothing was proven")
    process.send_signal(signal.SIGTERM)
    try:
        process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Wrong("a full result pipe: TERM does not end sbx")
    finally:
        os.close(read)
        os.close(write)
    none_left(place, "streams")
    return "5 sinks"


def cgroup_errors(place):
    """The cgroup file system answers errors, or slowly."""
    if platform.machine() != "x86_64":
        raise harness.Skip("the tracer knows x86-64 only")
    slot = place.slot
    counts = {}
    plain = faults.Command("cgroup", lambda s: place.exec_words("--result", f"{s.dir}/result.json"), result=True)
    required = faults.Command("required", lambda s: place.exec_words("--require", "cgroup"))
    baseline = faults.Run(slot, plain)
    first = faults.Run(slot, required)
    for what in ("EIO", "EBUSY", "ENOSPC", "EACCES", "ENOMEM", "ENODEV", "+5", "+40"):
        value = what if what.startswith("+") else str(getattr(errno, what))
        below = ["--below", f"/sys/fs/cgroup:{value}", "--seconds", str(SECONDS)]
        for command, base in ((plain, baseline), (required, first)):
            if base.status != 0:
                continue
            slot.clean()
            done = subprocess.run([slot.tools["inject"], "--log", str(slot.log), *below, "--", place.sbx, *command.words(slot)], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=slot.environment(), cwd=slot.dir, **slot.identity.popen_arguments())
            log = faults.Log(slot.log)
            text = f"{command.name} {what}: status {log.status}: {done.stderr.decode()[-300:]}"
            check(not log.hang and not log.left, f"{text}: hang {log.stuck}, left {log.left}")
            out = done.stdout.decode()
            if log.status == 125:
                check("payload runs" not in out and "sbx: " in done.stderr.decode(), text)
                kind = "failed"
            else:
                check(log.status == 0, text)
                facts = [line for line in sorted(faults.normal("\n".join(sum(log.facts, [])), slot)) if line.startswith("cgroup")]
                same = facts == [line for line in sum(base.facts, []) if line.startswith("cgroup")]
                check(same or command is plain, f"{text}: --require cgroup, and yet none")
                if same:
                    kind = "whole"
                else:
                    kind = "held without a cgroup, and said so"
                    result = (slot.dir / "result.json").read_text()
                    check("sampling" in result or "RLIMIT" in result, f"{text}: the result does not say that no cgroup holds")
            counts[kind] = counts.get(kind, 0) + 1
    faults.Run(slot, plain)  # takes away what could not be taken away
    return told(counts)


def wait_for_text(process, text):
    line = process.stdout.readline().decode()
    check(line.startswith(text), f"wanted {text!r}, not {line!r}")


def state_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


def wait_until(condition, what, seconds=10):
    end = time.monotonic() + seconds * harness.TIME_FACTOR
    while not condition():
        check(time.monotonic() < end, what)
        time.sleep(0.01)  # polls


def while_stopped(place, words, script):
    """Starts sbx with a shell's text, stops it, lets the text go on, and waits for its end while sbx stands still."""
    share = place.slot.dir / "share"
    shutil.rmtree(share, ignore_errors=True)
    share.mkdir()
    place.slot.own(share)
    process = place.start(":", ["exec", *words, "--time", "60s", "--workspace", f"{share}:ro", *place.exec_words()[1:-2], "--", "/bin/sh", "-c",
                                f"echo payload runs; while [ ! -e go ]; do :; done; {script}"])
    wait_for_text(process, "payload runs")
    inside = harness.process_tree(process.pid)[1:]
    os.kill(process.pid, signal.SIGSTOP)
    wait_until(lambda: state_of(process.pid) == "T", "sbx to be stopped")
    check(all(state_of(pid) not in ("", "Z") for pid in inside), "what is inside lives")
    (share / "go").touch()
    return process, inside


def stopped(place):
    """A supervisor that is stopped: what the kernel holds, holds; what it holds itself, it does when it goes on."""
    # The rlimit: no file grows beyond it; the pids limit: cgroup or rlimit.
    process, inside = while_stopped(place, ["--file-size", "1M", "--pids", "10"], "head -c 3000000 /dev/zero > /tmp/big 2>/dev/null; wc -c < /tmp/big; "
                                    "n=0; while [ $n -lt 40 ]; do sleep 60 & n=$((n+1)); done 2>/dev/null; echo end")
    wait_until(lambda: all(state_of(pid) in ("", "Z") for pid in inside), "the payload to end, with sbx stopped")
    os.kill(process.pid, signal.SIGCONT)
    out, err = process.communicate(timeout=SECONDS)
    text = out.decode()
    check(text.split()[:1] == ["1048576"], f"the file size: {text!r} {err.decode()[-200:]!r}")
    check(harness.shell_status(process.returncode) in (0, 2), f"the end: {process.returncode}: {err.decode()[-200:]}")
    # Memory and time: over the limit while it is stopped.
    process, inside = while_stopped(place, ["--memory", "64M", "--disk", "16M"], f"exec {faults.WHOLE} touch 500")
    held = "looking, after SIGCONT"
    if place.slot.identity.uid == 0:
        held = "a cgroup, while stopped"
        wait_until(lambda: all(state_of(pid) in ("", "Z") for pid in inside), "the kernel to end the payload, with sbx stopped")
    os.kill(process.pid, signal.SIGCONT)
    out, err = process.communicate(timeout=SECONDS)
    check(harness.shell_status(process.returncode) == 137, f"memory after SIGCONT: {process.returncode}: {err.decode()[-200:]}")
    process = place.start(":", ["exec", "--time", "700ms", "--", "/bin/sh", "-c", "echo payload runs; sleep 60"])
    wait_for_text(process, "payload runs")
    began = time.monotonic()
    os.kill(process.pid, signal.SIGSTOP)
    wait_until(lambda: state_of(process.pid) == "T", "sbx to be stopped")
    wait_until(lambda: time.monotonic() > began + 1, "its time to be over")
    os.kill(process.pid, signal.SIGCONT)
    out, err = process.communicate(timeout=SECONDS)
    check(harness.shell_status(process.returncode) == 124, f"time after SIGCONT: {process.returncode}: {err.decode()[-200:]}")
    none_left(place, "stopped")
    return f"rlimits while stopped; memory: {held}; time after SIGCONT"


def killed(place):
    """SIGKILL of sbx, running and stopped: everything inside dies."""
    for before in (None, signal.SIGSTOP):
        process = place.start(":", ["exec", "--", "/bin/sh", "-c", "(setsid sleep 60 &) ; echo payload runs; sleep 60"])
        wait_for_text(process, "payload runs")
        inside = harness.process_tree(process.pid)[1:]
        check(len(inside) >= 2, f"init and payload are there: {inside}")
        if before:
            os.kill(process.pid, before)
        process.kill()
        process.communicate()
        wait_until(lambda: all(state_of(pid) in ("", "Z") for pid in inside), "all inside to die", 3)
    place.run(":", ["exec", "--", "/bin/true"])
    none_left(place, "killed")
    return "running and stopped"


CASES = [descriptors, address_space, processes, memory_cgroup, file_size, full_disk, streams, cgroup_errors, stopped, killed]


def main():
    parser = argparse.ArgumentParser(description="sbx without descriptors, memory, disk, processes, a working cgroup file system, or itself.")
    parser.add_argument("--binary", default=str(harness.ROOT / "build" / "sbx"))
    parser.add_argument("--as", dest="identities", default="root,user")
    parser.add_argument("-k", dest="pattern", default="")
    options = parser.parse_args()
    binary = pathlib.Path(options.binary).resolve()
    base = tempfile.mkdtemp(prefix="sbx-tests-faults-")
    os.chmod(base, 0o755)
    passed = failed = skipped = 0
    try:
        tools = faults.copy_tools(binary, base)
        before = faults.count(tools, base)
        for identity in harness.make_identities(options.identities.split(",")):
            for number, case in enumerate(CASES):
                if options.pattern not in case.__name__:
                    continue
                slot = faults.Slot(base, number, identity, tools)
                began = time.monotonic()
                label = f"resources/{case.__name__} [{identity.label}]"
                try:
                    print(f"PASS {label}: {case(Place(slot))} ({time.monotonic() - began:.0f} s)", flush=True)
                    passed += 1
                except harness.Skip as skip:
                    print(f"SKIP {label}: {skip}", flush=True)
                    skipped += 1
                except (Wrong, subprocess.TimeoutExpired) as wrong:
                    print(f"FAIL {label}: {wrong}", flush=True)
                    failed += 1
                shutil.rmtree(slot.dir)
        for text in faults.left_since(before, tools, base):
            print(f"FAIL left: {text}")
            failed += 1
    finally:
        shutil.rmtree(base, ignore_errors=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
