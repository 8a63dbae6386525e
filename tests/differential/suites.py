"""The interpreters' own test-suites as programs. suites/NAME.txt says which of a suite's files are programs:

    take GLOB            the files of the suite that match
    leave NAME REASON    but not this one

A suite's tree is shown read-only at the same path on both sides; what a program writes beside or in its working directory is linked or
copied there.
"""

import functools
import os
import pathlib
import re
import shutil
import subprocess

import debian_sources
import harness
import sides
from sides import Program

HERE = pathlib.Path(__file__).resolve().parent


def lines(suite, word):
    for line in (HERE / "suites" / f"{suite}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(word + " "):
            yield line[len(word):].strip()


def left(suite):
    return {f"{suite}/" + line.split()[0] for line in lines(suite, "leave")}


def names(suite, tree=None):
    """The programs of a suite: with a tree its files, else the names as they are."""
    without = left(suite)
    found = []
    for pattern in lines(suite, "take"):
        found += [pattern] if tree is None else sorted(str(path.relative_to(tree)) for path in tree.glob(pattern))
    return [name for name in dict.fromkeys(found) if f"{suite}/{name}" not in without]


def linked(tree, folder="."):
    """Links to all that lies in a folder of the tree, in that folder of the working directory."""
    def prepare(work):
        (work / folder).mkdir(parents=True, exist_ok=True)
        for entry in os.scandir(tree / folder):
            os.symlink(entry.path, work / folder / entry.name)
    return prepare


def copied(folder):
    return lambda work: shutil.copytree(folder, work, symlinks=True, dirs_exist_ok=True)


# ---- one function a suite: (its name, its tree, the program's name in it) → Program, or None -----------------------------

# Lengths of paths, which are longer outside; names of temporary files; process ids.
PHP_SAYS = [(re.compile(rb'string\(\d+\) "([^"\n]*/(box|tmp)\b)'), rb'string(N) "\1'), (re.compile(rb"(/tmp/[\w.-]*?)\w{6}\b"), rb"\1XXXXXX"),
            (re.compile(rb"(?i)\b(p?pid)(\W{1,8})\d+"), rb"\1\2N")]


def php(suite, tree, name):
    """A .phpt file without what needs a web server's interface."""
    parts = re.split(r"(?m)^--([A-Z_]+)--\r?\n", (tree / name).read_bytes().decode("latin-1"))
    part = dict(zip(parts[1::2], parts[2::2]))
    if "FILE" not in part or part.keys() & {"POST", "POST_RAW", "PUT", "GET", "COOKIE", "CGI", "PHPDBG", "REDIRECTTEST", "GZIP_POST", "DEFLATE_POST", "CAPTURE_STDIO"}:
        return None
    if not {word.lower() for word in part.get("EXTENSIONS", "").split()} <= php_modules():
        return None
    folder = pathlib.PurePath(name).parent
    script = folder / (pathlib.PurePath(name).stem + ".php")

    def prepare(work):
        (work / folder).mkdir(parents=True)
        (work / script).write_bytes(part["FILE"].rstrip("\r\n").encode("latin-1"))
        for entry in os.scandir(tree / folder):
            if entry.is_file() and not entry.name.endswith(".phpt"):
                shutil.copyfile(entry.path, work / folder / entry.name)
            elif entry.is_dir():
                os.symlink(entry.path, work / folder / entry.name)
        for entry in os.scandir(tree / folder.parent):  # ../other/file.inc
            if entry.name != folder.name and entry.is_dir():
                os.symlink(entry.path, work / folder.parent / entry.name)
    settings = ["display_errors=1", "display_startup_errors=1", "error_reporting=32767", "log_errors=0", "html_errors=0", "precision=14", "serialize_precision=-1",
                "memory_limit=128M", "opcache.enable=0", "date.timezone=UTC", "zend.assertions=1", "zend.exception_ignore_args=0", "short_open_tag=0",
                "ignore_repeated_errors=0", "output_buffering=0"]
    settings += [line.strip().replace("{PWD}", f"{{work}}/{folder}").replace("{TMP}", "/tmp") for line in part.get("INI", "").splitlines() if "=" in line]
    env = {"TEST_PHP_EXECUTABLE": "/usr/bin/php", "TEST_PHP_EXECUTABLE_ESCAPED": "/usr/bin/php", "TEST_PHP_CGI_EXECUTABLE": "", "NO_INTERACTION": "1"}
    env.update(line.strip().partition("=")[::2] for line in part.get("ENV", "").splitlines() if "=" in line)
    argv = ["/usr/bin/php", *(word for setting in settings for word in ("-d", setting)), "-f", f"{{work}}/{script}", "--", *part.get("ARGS", "").split()]
    return Program(suite, name, ["env", "-C", f"{{work}}/{folder}", *argv], prepare, part.get("STDIN", "").encode("latin-1"), env, [str(tree)],
                   scrub=PHP_SAYS)


@functools.lru_cache(maxsize=None)
def php_modules():
    return {word.lower() for word in subprocess.run(["/usr/bin/php", "-m"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()}


def prepare_perl(tree):
    """lib/ of a perl that was just built: the installed modules. The tests look for them in ../lib alone."""
    found = subprocess.run(["/usr/bin/perl", "-MConfig", "-e", 'print "$Config{privlibexp}\n$Config{archlibexp}\n"'], stdout=subprocess.PIPE, text=True, check=True)
    for folder in found.stdout.split():
        subprocess.run(["cp", "-asn", f"{os.path.realpath(folder)}/.", str(tree / "lib")], check=True)


# Comments, with process ids, ports and the like; names of temporary files.
PERL_SAYS = [(re.compile(rb"(?m)^\s*# .*\n?"), b""), (re.compile(rb"\btmp_[A-Z]+(_[A-Z]+)?"), b"tmp")]


def perl(suite, tree, name):
    first = (tree / name).read_bytes().split(b"\n", 1)[0].decode("latin-1")
    switches = re.findall(r"\s(-[a-zA-Z]+)\b", first) if first.startswith("#!") else []

    def prepare(work):
        linked(tree, "t")(work)
        os.symlink(tree / "lib", work / "lib")
    return Program(suite, name, ["env", "-C", "{work}/t", "/usr/bin/perl", *switches, "-I../lib", f"../{name}" if not name.startswith("t/") else name[2:]],
                   prepare, env={"PERL_CORE": "1", "PERL_HASH_SEED": "0"}, mounts=[str(tree)], scrub=PERL_SAYS)


def gawk(suite, tree, name):
    path = tree / name
    env = {"AWKPATH": str(path.parent), "AWK": "/usr/bin/gawk", "srcdir": str(path.parent), "TZ": "UTC0"}
    if path.suffix == ".sh":
        return Program(suite, name, ["/bin/sh", str(path)], linked(path.parent), env=env, mounts=[str(tree)])
    given = path.with_suffix(".in")
    return Program(suite, name, ["/usr/bin/gawk", "-f", str(path)], None, given.read_bytes() if given.exists() else b"", env, [str(tree)])


def prepare_bash(tree):
    (tree / "bin").mkdir()
    for name in ("recho", "zecho", "printenv", "xcase"):
        subprocess.run(["gcc", "-w", "-DHAVE_UNISTD_H", "-DHAVE_STDLIB_H", "-DHAVE_STRING_H", "-I", str(tree), "-o", str(tree / "bin" / name), str(tree / "support" / f"{name}.c")],
                       check=True, stderr=subprocess.DEVNULL)


def bash(suite, tree, name):
    path = f"{tree}/bin:.:{sides.ENVIRONMENT['PATH']}"
    return Program(suite, name, ["/bin/bash", f"./{pathlib.PurePath(name).name}"], copied(tree / "tests"), env={"THIS_SH": "/bin/bash", "PATH": path, "BUILD_DIR": ".", "TMPDIR": "/tmp"},
                   mounts=[str(tree)], scrub=[(re.compile(rb"/bin/bash: line \d+: +\d+ "), b"/bin/bash: line N: PID ")])


def tcl(suite, tree, name):
    return Program(suite, name, ["/usr/bin/tclsh", str(tree / name), "-verbose", "pass error skip", "-tmpdir", "{work}"], mounts=[str(tree)],
                   scrub=[(re.compile(rb"(?m)^Test(s began| file| ended) at.*$"), b"")])


RUBY_TIMES = [(re.compile(rb" \. \d+\.\d+"), b" . N"), (re.compile(rb"\d+\.\d+(e-?\d+)? ?s\b"), b"N s"), (re.compile(rb"(?m)^Finished.*$"), b"Finished"), (re.compile(rb"\d+(\.\d+)? (tests/s|assertions/s|sec)"), b"N"),
              (re.compile(rb"(?m)^(\d{4}-\d\d-\d\d |Driver is|Target is).*$"), b""), (re.compile(rb"0x[0-9a-f]{12,16}"), b"0x")]


def ruby(suite, tree, name):
    return Program(suite, name, ["/usr/bin/ruby", "-x", str(tree / "bootstraptest/runner.rb"), "--ruby=/usr/bin/ruby", "-v", str(tree / name)], mounts=[str(tree)],
                   scrub=RUBY_TIMES)


GNU_SCRIPT = """
for file in lang-default envvar-check; do [ ! -e "$folder/$file" ] || . "$folder/$file"; done
export TMPDIR=/tmp; exec 9>&2
case $1 in *.pl) exec perl -w -I"$folder" -MCuSkip -MCoreutils -M"CuTmpdir qw($CU_TEST_NAME)" "$1" ;; esac
case $(head -n 1 "$1") in *perl*) exec perl -w -I"$folder" -MCuSkip -MCoreutils -M"CuTmpdir qw($CU_TEST_NAME)" "$1" ;; *bash*) exec bash "$1" ;; esac
exec sh "$1"
"""


def gnu(suite, tree, name):
    """The way of coreutils, sed, grep, gzip and diffutils: a script that sources init.sh, for the programs that are installed."""
    folder = name.split("/")[0]
    label = name.split("/", 1)[1].replace("/", "-")

    def prepare(work):
        for one in ("src", "sed", "lib", folder):
            (work / one).mkdir(exist_ok=True)
        linked(tree, folder)(work)
    env = {"srcdir": str(tree), "top_srcdir": str(tree), "abs_srcdir": str(tree), "abs_top_srcdir": str(tree), "abs_top_builddir": "{work}", "folder": str(tree / folder),
           "CONFIG_HEADER": "/dev/null", "CU_TEST_NAME": f"{suite},{label}", "built_programs": gnu_programs(), "host_os": "linux-gnu", "host_triplet": "x86_64-pc-linux-gnu",
           "AWK": "awk", "EGREP": "grep -E", "CC": "gcc", "MAKE": "make", "PERL": "perl", "SHELL": "/bin/sh", "VERSION": "0", "PACKAGE_VERSION": "0", "LOCALE_FR": "none",
           "LOCALE_FR_UTF8": "none", "fail": "0"}
    if suite in ("grep", "gzip", "diffutils"):  # their init.sh lies beside the tests, of which srcdir is the folder
        env["srcdir"] = str(tree / folder)
    return Program(suite, name, ["/bin/sh", "-c", GNU_SCRIPT, "sh", str(tree / name)], prepare, env=env, mounts=[str(tree)],
                   scrub=[(re.compile(rb"(-%s|%s,%s)[.-]\w{4,6}\b" % (re.escape(pathlib.PurePath(name).name).encode(), suite.encode(), re.escape(label).encode())), rb"\1")])


@functools.lru_cache(maxsize=None)
def gnu_programs():
    found = subprocess.run(["dpkg", "-L", "coreutils"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    return " ".join(sorted(pathlib.PurePath(path).name for path in found if re.search(r"/s?bin/", path)))


def zsh(suite, tree, name):
    return Program(suite, name, ["/usr/bin/zsh", "+Z", "-f", "./ztst.zsh", f"./{pathlib.PurePath(name).name}"], copied(tree / "Test"),
                   env={"ZTST_verbose": "1", "ZTST_exe": "/usr/bin/zsh", "ZTST_continue": "1", "ZTST_srcdir": "{work}"}, mounts=[str(tree)],
                   scrub=[(re.compile(rb"\.zsh-?tst?\.\w+|/tmp/zsh\w+|ztst\.(\w+\.)?\d+"), b"TEMPORARY")])


def jq(suite, tree, name):
    return Program(suite, name, ["/usr/bin/jq", "-L", str(tree / "tests/modules"), "--run-tests", str(tree / name)], mounts=[str(tree)])


RELEASE = "bookworm"  # whose interpreters `tools/install-deps.sh differential` installs on Debian 12
PHP_EXTENSIONS = ("pcntl", "posix", "sockets", "shmop", "sysvmsg", "sysvsem", "sysvshm")

# name: (Debian's source package, what of it is unpacked, the program that must be there, the function, what prepares the tree)
SUITES = {
    "bash": ("bash", ("tests/*", "support/*.c", "*.h"), "bash", bash, prepare_bash),
    "zsh": ("zsh", ("Test/*",), "zsh", zsh, None),
    "coreutils": ("coreutils", ("tests/*", "init.cfg"), "ls", gnu, None),
    "sed": ("sed", ("testsuite/*", "init.cfg"), "sed", gnu, None),
    "grep": ("grep", ("tests/*",), "grep", gnu, None),
    "gzip": ("gzip", ("tests/*",), "gzip", gnu, None),
    "diffutils": ("diffutils", ("tests/*",), "diff", gnu, None),
    "gawk": ("gawk", ("test/*",), "gawk", gawk, None),
    "jq": ("jq", ("tests/*",), "jq", jq, None),
    "perl": ("perl", ("t/*", "lib/*.t"), "perl", perl, prepare_perl),
    "php": ("php8.2", ("ext/standard/tests/dir/*", "ext/standard/tests/streams/*", "ext/standard/tests/file/*", *(f"ext/{name}/tests/*" for name in PHP_EXTENSIONS)), "php", php, None),
    "ruby": ("ruby3.1", ("bootstraptest/*",), "ruby", ruby, None),
    "tcl": ("tcl8.6", ("tests/*",), "tclsh", tcl, None),
}
NAMES = tuple(SUITES)


def programs(suite, base, cache):
    """The programs of a suite, or why there are none here."""
    package, paths, command, function, prepare = SUITES[suite]
    if not harness.have(command):
        return f"needs {command} (tools/install-deps.sh differential)"
    try:
        found = debian_sources.kept(cache, f"{package}-{RELEASE}", lambda folder: debian_sources.fetch(pathlib.Path(cache), RELEASE, package, folder / "tree", paths))
    except debian_sources.Unavailable as problem:
        return str(problem)
    tree = base / "trees" / suite  # where everybody may read it; another suite's changes do not show
    shutil.copytree(found / "tree", tree, symlinks=True)
    if prepare:
        prepare(tree)
    made = (function(suite, tree, name) for name in names(suite, tree))
    return [program for program in made if program]
