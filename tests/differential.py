#!/usr/bin/env python3
"""Real programs give the same status and output inside and outside: an interpreter's own standard-library test modules,
and small shell, perl, awk and C programs.

    tests/differential.py --binary build/sbx [--quick] [-k pattern] [-j2] [--learn]

"Outside" is the same ordinary user in a temporary directory with the same environment and no sandbox. What differs
must stand in differential-expected.json with its reason; a difference that is not there fails, and so does one that is
there and no longer happens. --learn prints the entries for what differs now (the reasons are for a person to write).

Where the interpreter lies below a home that the test user cannot enter, the driver (root) shows its prefix at the same
path in a mount namespace of its own, for both sides alike.
"""

import argparse
import concurrent.futures
import ctypes
import fnmatch
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "integration"))
import harness  # noqa: E402

EXPECTED = harness.TESTS / "differential-expected.json"

QUICK = """test_bool test_re test_hashlib test_zlib test_struct test_tempfile test_glob test_pipes test_fcntl test_poll test_select
test_operator test_sqlite3 test_mmap test_pty test_stat test_shlex test_textwrap test_csv test_random""".split()

# Quick and deterministic ones; what needs a terminal, a display, minutes or the internet is not among them.
FULL = QUICK + """test_abc test_json test_queue test_argparse test_array test_ast test_atexit test_base64 test_binascii test_bisect test_bool test_bufio
test_bytes test_bz2 test_calendar test_cmath test_cmd test_code test_codecs test_collections test_colorsys test_compile
test_complex test_configparser test_contextlib test_copy test_copyreg test_ctypes test_dataclasses test_dbm test_dbm_dumb
test_dbm_gnu test_decimal test_deque test_dict test_difflib test_dis test_email test_enum test_epoll test_errno
test_exceptions test_file test_filecmp test_fileinput test_fileio test_float test_fnmatch test_format test_fractions test_frame
test_fstring test_functools test_gc test_genericpath test_getopt test_getpass test_gettext
test_grp test_gzip test_heapq test_hmac test_html test_htmlparser test_http_cookies test_httplib test_imghdr test_import
test_inspect test_int test_ipaddress test_iter test_itertools test_keyword test_largefile test_linecache test_list
test_locale test_long test_lzma test_mailbox test_marshal test_math test_memoryio test_memoryview test_mimetypes test_minidom
test_netrc test_ntpath test_numeric_tower test_opcodes test_operator test_optparse test_ordered_dict test_os test_pathlib
test_pkgutil test_platform test_plistlib test_popen test_posix test_posixpath test_pprint test_profile test_property
test_pwd test_pyexpat test_quopri test_range test_reprlib test_resource test_runpy test_sched
test_shelve test_shutil test_signal test_site test_slice test_sort test_spwd test_statistics test_string test_stringprep
test_strtod test_sys test_sysconfig test_syslog test_threadsignals test_timeit test_tokenize test_tomllib
test_trace test_tuple test_types test_typing test_ucn test_unicodedata test_urllib test_urlparse test_userdict
test_uu test_uuid test_wait3 test_wait4 test_warnings test_xml_etree test_zipapp test_zipimport""".split()

# Prints one line a test, sorted, and nothing that depends on time; the resources that need the outside are off.
RUNNER = r"""
import os, sys, unittest
name = sys.argv[1]
real = os.fdopen(os.dup(1), 'w')
null = os.open(os.devnull, os.O_WRONLY); os.dup2(null, 1); os.dup2(null, 2)
import test.support
test.support.use_resources = []
test.support.verbose = 0
lines = []
class R(unittest.TestResult):
    def say(self, t, what): lines.append('%s %s' % (t.id().replace('test.' + name + '.', '', 1) if hasattr(t, 'id') else t, what))
    def addSuccess(self, t): self.say(t, 'ok')
    def addFailure(self, t, e): super().addFailure(t, e); self.say(t, 'FAIL')
    def addError(self, t, e): super().addError(t, e); self.say(t, 'ERROR')
    def addSkip(self, t, r): super().addSkip(t, r); self.say(t, 'skipped')
    def addExpectedFailure(self, t, e): self.say(t, 'xfail')
    def addUnexpectedSuccess(self, t): self.say(t, 'XPASS')
    def addSubTest(self, t, s, e):
        if e: self.failures.append((s, '')); self.say(t, 'FAIL in a part')
status = 0
try:
    suite = unittest.defaultTestLoader.loadTestsFromName('test.' + name)
    r = R(); suite.run(r)
    status = 0 if r.wasSuccessful() else 1
except unittest.SkipTest as e:
    lines.append('whole module skipped')
except BaseException as e:
    lines.append('module: %s' % type(e).__name__); status = 3
for line in sorted(set(lines)): real.write(line + '\n')
real.flush()
os._exit(status)
"""

PROGRAMS = {
    "sh arithmetic": ["sh", "-c", "i=0; s=0; while [ $i -lt 5000 ]; do s=$((s + i * i)); i=$((i + 1)); done; echo $s"],
    "sh traps": ["sh", "-c", "trap 'echo term' TERM; kill -TERM $$; trap 'echo bye' EXIT; exit 9"],
    "sh pipes": ["sh", "-c", "seq 1 5000 | sort -rn | head -3 | tac; yes | head -1000 | uniq -c"],
    "sh background": ["bash", "-c", "for i in 1 2 3; do (sleep 0.0$i; exit $i) & p[i]=$!; done; for i in 1 2 3; do wait ${p[i]}; echo $?; done"],
    "sh files": ["sh", "-c", "mkdir -p a/b && cd a && echo x > b/f && ln b/f g && ln -s b l && cat l/f && stat -c '%F %h %a' b/f l g && find . | sort && rm -r b; ls"],
    "sh here-document": ["bash", "-c", "cat <<< hello; cat <(echo from a process); printf -v x %05d 42; echo $x; ulimit -c"],
    "sh no such command": ["sh", "-c", "no_such_command_at_all 2>/dev/null; echo $?; exec /no/such/file 2>/dev/null"],
    "sh limits": ["sh", "-c", "umask; umask 077; touch f; stat -c %a f"],
    "sed and awk": ["sh", "-c", "seq 100 | awk '{s += $1; a[$1 % 7]++} END {print s; for (i = 0; i < 7; i++) print i, a[i]}' | sed -n 's/^\\([0-9]\\) /\\1: /p'"],
    "tar and gzip": ["sh", "-c", "mkdir d; seq 1000 > d/s; chmod 640 d/s; tar cf - d | gzip -n | gunzip | tar tvf - | awk '{print $1, $3, $6}'; tar cf t d; rm -r d; tar xf t && md5sum d/s"],
    "perl": ["perl", "-e", "my %h; $h{$_ % 13} += $_ for 1..10000; print join(',', map {\"$_=$h{$_}\"} sort {$a <=> $b} keys %h), \"\\n\"; exit 3"],
    "perl fork": ["perl", "-e", "$|=1; for my $i (1..4) { my $p = fork; if (!$p) { exit $i } waitpid $p, 0; print $? >> 8, \"\\n\" } open my $f, '-|', 'echo', 'piped'; print <$f>; kill 15, $$"],
    "perl files": ["perl", "-e", "open my $f, '>', 'x' or die; flock $f, 2 or die; print $f 'abc'; close $f; print -s 'x', \"\\n\"; rename 'x', 'y'; utime 1, 2, 'y'; print +(stat 'y')[9], \"\\n\"; opendir my $d, '.'; print join ' ', sort readdir $d"],
    "perl sockets": ["perl", "-e", "use IO::Socket; my $s = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die; if (!fork) { my $c = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $s->sockport); print $c \"hi\\n\"; exit } my $c = $s->accept; print scalar <$c>; wait"],
    "C program": ["sh", "-c", "printf '%s\\n' '#include <stdio.h>' '#include <stdlib.h>' '#include <pthread.h>' '#include <unistd.h>' "
                  "'static void* f(void* p) { return (void*)((long)p * 2); }' "
                  "'int main(void) { pthread_t t; void* r; pthread_create(&t, 0, f, (void*)21l); pthread_join(t, &r); printf(\"%ld\\n\", (long)r); "
                  "FILE* g = tmpfile(); fputs(\"x\", g); printf(\"%ld %d\\n\", ftell(g), isatty(0)); fflush(stdout); abort(); }' > p.c && gcc -pthread -o p p.c && ./p"],
    "C++ exceptions": ["sh", "-c", "printf '%s\\n' '#include <iostream>' '#include <stdexcept>' '#include <map>' 'int main() { try { std::map<int, int> m; m.at(3); } "
                       "catch (const std::out_of_range& e) { std::cout << \"caught\\n\"; } throw std::runtime_error(\"x\"); }' > p.cc && g++ -o p p.cc && ./p"],
    "python": ["/usr/bin/python3", "-c", "import os, sys, subprocess, tempfile, socket\nprint(subprocess.run(['false']).returncode, socket.socketpair()[0].family.name, os.cpu_count() > 0)\n"
               "os.mkfifo('f'); print(oct(os.stat('f').st_mode)); sys.exit(11)"],
    "node timers": ["node", "-e", "setTimeout(() => console.log('later'), 5); console.log([...'abc'].reverse().join(''))"],
    "node files": ["node", "-e", "const fs = require('fs'); fs.writeFileSync('a', 'x'); fs.renameSync('a', 'b'); console.log(fs.readdirSync('.'), process.argv.length); process.exitCode = 12"],
    "git": ["sh", "-c", "git init -q r 2>/dev/null && cd r && echo x > f && git add f && git -c user.name=a -c user.email=a@example.org commit -qm m && git log --format=%s && git status --short"],
    "make": ["sh", "-c", "printf 'all: a b\\n\\t@echo done\\na b:\\n\\t@echo $@ > $@; echo $@\\n' > Makefile && make -j1"],
}


def find_python(wanted):
    """(executable, prefix) of an interpreter `wanted` ("3.11") that has its own test package."""
    candidates = []
    for root in (os.environ.get("PYENV_ROOT"), os.path.expanduser("~/.pyenv")):
        if root:
            candidates += sorted(pathlib.Path(root).glob(f"versions/{wanted}*/bin/python3"))
    candidates += [pathlib.Path(p) for p in (f"/usr/local/bin/python{wanted}", f"/usr/bin/python{wanted}", "/usr/bin/python3")]
    for path in candidates:
        if not path.exists():
            continue
        code = "import sys, os, test.test_json, test.support; print('%d.%d' % sys.version_info[:2], sys.prefix)"
        done = subprocess.run([str(path), "-I", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/", text=True)
        if done.returncode == 0 and done.stdout.split()[0] == wanted:
            return str(path), done.stdout.split()[1]
    return None


def show_prefix(prefix, identity):
    """Makes `prefix` reachable for `identity` at its own path, in a mount namespace of this process alone."""
    if identity.uid == os.geteuid() or prefix == "/usr":
        return
    done = subprocess.run(["test", "-x", f"{prefix}/bin/python3"], **identity.popen_arguments())
    if done.returncode == 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)

    def check(answer, what):
        if answer:
            raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
    check(libc.unshare(0x20000), "unshare")
    check(libc.mount(None, b"/", None, 0x44000, None), "mount --make-rprivate")
    handle = os.open(prefix, os.O_PATH)
    top = "/" + prefix.split("/")[1]
    check(libc.mount(b"tmpfs", top.encode(), b"tmpfs", 0, b"mode=755"), f"tmpfs on {top}")
    os.makedirs(prefix)
    check(libc.mount(f"/proc/self/fd/{handle}".encode(), prefix.encode(), None, 0x5000, None), f"bind {prefix}")
    os.close(handle)


class Side:
    def __init__(self, identity, base):
        self.identity, self.base = identity, base

    def run(self, argv, seconds=120):
        directory = tempfile.mkdtemp(prefix="d-", dir=self.base)
        if os.geteuid() == 0:
            os.chown(directory, self.identity.uid, self.identity.gid)
        os.chmod(directory, 0o755)
        home = os.path.join(directory, "home")
        work = os.path.join(directory, "work")
        for path in (home, work):
            os.mkdir(path)
            if os.geteuid() == 0:
                os.chown(path, self.identity.uid, self.identity.gid)
        env = {"PATH": harness.SYSTEM_PATH, "HOME": home, "USER": self.identity.name, "LOGNAME": self.identity.name, "LANG": "C.UTF-8"}
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd=work,
                                   start_new_session=True, **self.identity.popen_arguments())
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            out, err = process.communicate()
            return "timeout", out.decode("utf-8", "backslashreplace"), err.decode("utf-8", "replace")
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        return harness.shell_status(process.returncode), out.decode("utf-8", "backslashreplace"), err.decode("utf-8", "replace")


def lines_of_difference(outside, inside):
    """What differs, as stable lines: `status A -> B`, `TEST: A -> B`."""
    found = []
    if outside[0] != inside[0]:
        found.append(f"status: {outside[0]} -> {inside[0]}")
    return found


def module_difference(outside, inside):
    found = lines_of_difference(outside, inside)
    a, b = ({line.rsplit(" ", 1)[0] if not line.endswith("in a part") else line[:-15]: line.rsplit(" ", 1)[1] for line in side[1].splitlines() if " " in line}
            for side in (outside, inside))
    for name in sorted(set(a) | set(b)):
        if a.get(name) != b.get(name):
            found.append(f"{name}: {a.get(name, 'absent')} -> {b.get(name, 'absent')}")
    return found


def program_difference(outside, inside):
    found = lines_of_difference(outside, inside)
    a, b = outside[1].splitlines(), inside[1].splitlines()
    for n in range(max(len(a), len(b))):
        left, right = a[n] if n < len(a) else "absent", b[n] if n < len(b) else "absent"
        if left != right:
            found.append(f"line {n + 1}: {left} -> {right}")
    return found


def main():
    parser = argparse.ArgumentParser(description="Compares programs inside and outside of the sandbox.")
    parser.add_argument("--binary", default=str(harness.ROOT / "build" / "sbx"))
    parser.add_argument("--quick", action="store_true", help="the subset of the default suite")
    parser.add_argument("-k", dest="pattern", default="")
    parser.add_argument("-j", dest="jobs", type=int, default=2)
    parser.add_argument("--learn", action="store_true")
    parser.add_argument("--outside-only", action="store_true", help="only time the outside runs")
    options = parser.parse_args()
    expected = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {"python": "3.11", "differences": {}}
    identities = harness.make_identities(["user"])
    identity = identities[0]
    base = tempfile.mkdtemp(prefix="sbx-differential-")
    os.chmod(base, 0o755)
    try:
        binary = os.path.join(base, "sbx")
        if not options.outside_only:
            shutil.copy2(options.binary, binary)
            os.chmod(binary, 0o755)
        python = find_python(expected["python"])
        work = []
        if python:
            show_prefix(python[1], identity)
            for name in dict.fromkeys(QUICK if options.quick else FULL):
                work.append((name, [python[0], "-c", RUNNER, name], module_difference, ["--mount", python[1]] if python[1] != "/usr" else []))
        else:
            print(f"differential: skipped the interpreter's own tests: needs python {expected['python']} with its test package (Debian: libpython3-testsuite)")
        for name, argv in PROGRAMS.items():
            if harness.have(argv[0]):
                work.append((name, argv, program_difference, []))
        if options.pattern:
            work = [w for w in work if re.search(options.pattern, w[0])]
        side = Side(identity, base)
        results = {}

        def judge(name, differences):
            """What nobody has explained, and what was explained and is no more."""
            entries = expected["differences"].get(name, [])
            unexplained, used = [], set()
            for line in differences:
                for n, entry in enumerate(entries):
                    if fnmatch.fnmatchcase(line, entry["difference"]):
                        used.add(n)
                        break
                else:
                    unexplained.append(line)
            return unexplained, [e["difference"] for n, e in enumerate(entries) if n not in used and not e.get("sometimes")]

        def compare(item):
            """Twice where the first time fails: the programs' own tests wait for threads and clocks."""
            result = compare_once(item)
            if options.outside_only or options.learn or judge(result[0], result[3]) == ([], []):
                return result
            print(f"unsteady differential: {item[0]}, compared once more", flush=True)
            return compare_once(item)

        def compare_once(item):
            name, argv, difference, flags = item
            began = time.monotonic()
            outside = side.run(argv)
            middle = time.monotonic()
            if options.outside_only:
                return name, outside, outside, [], middle - began, 0
            inside = side.run([binary, "exec", "--time", "110s", "--memory", "2G", "--disk", "1G", *flags, "--", *argv])
            return name, outside, inside, difference(outside, inside), middle - began, time.monotonic() - middle

        began = time.monotonic()
        failed, same, explained, learnt = 0, 0, 0, {}
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for future in [pool.submit(compare, item) for item in work]:
                name, outside, inside, differences, outside_seconds, inside_seconds = future.result()
                if options.outside_only:
                    print(f"{outside_seconds:6.2f} {name} status {outside[0]} {len(outside[1].splitlines())} lines")
                    continue
                unexplained, vanished = judge(name, differences)
                if options.learn and unexplained:
                    learnt[name] = [{"difference": line.replace("[", "[[]"), "reason": "?"} for line in unexplained]
                if unexplained or vanished:
                    failed += 1
                    print(f"FAIL differential: {name} (outside {outside_seconds:.1f} s, inside {inside_seconds:.1f} s)")
                    for line in unexplained[:20]:
                        print(f"    {line}")
                    for line in vanished:
                        print(f"    expected difference that vanished: {line}")
                    if unexplained and inside[2]:
                        print("    stderr inside: " + inside[2].strip()[-400:].replace("\n", "\n      "))
                elif differences:
                    explained += 1
                else:
                    same += 1
        if options.learn:
            print(json.dumps(learnt, indent=1, ensure_ascii=False))
        print(f"differential: {len(work)} programs in {time.monotonic() - began:.0f} s: {same} the same, {explained} with explained differences, {failed} failed")
        print(f"{same + explained} passed, {failed} failed")
        return 1 if failed else 0
    finally:
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
