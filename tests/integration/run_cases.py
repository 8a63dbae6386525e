"""Parsing, choice of the language, sources of the program, places: design section 4, first paragraphs."""

from harness import case

SHOW = "import sys; print(sys.argv[1:])\n"


# ---- parsing

@case("options end at FILE: everything behind it belongs to the payload, even what looks like an option", needs="python")
def options_end_at_file(t):
    t.file("show.py", SHOW)
    t.expect(t.sbx("run", "show.py", "--time", "1", "-q", "--", "x", "--no-such-flag"),
             out="['--time', '1', '-q', '--', 'x', '--no-such-flag']\n")


@case("arguments of a -c program follow --", needs="python")
def arguments_after_dashes(t):
    t.expect(t.sbx("run", "--lang", "python", "-c", SHOW, "--", "a", "-b", "--", ""), out="['a', '-b', '--', '']\n")


@case("arguments of a program on stdin follow --", needs="python")
def arguments_stdin(t):
    t.expect(t.sbx("run", "--lang", "python", "--", "a", "b c", stdin=SHOW), out="['a', 'b c']\n")


@case("an option with a value takes --flag VALUE and --flag=VALUE alike", needs="python")
def equals_form(t):
    for words in (["--time", "1500ms"], ["--time=1500ms"]):
        t.expect(t.sbx("run", *words, "--lang=python", "-c", "print(1)"), out="1\n")


@case("an unknown flag is wrong usage with a did-you-mean and status 2, and nothing runs", needs="python")
def unknown_flag(t):
    done = t.sbx("run", "--memroy", "1G", "--lang", "python", "-c", "print('ran')")
    t.expect(done, status=2, out="", err=r"^sbx: .*--memroy")
    t.match(done.errors, "--memory", "the suggestion")


@case("an unknown command is wrong usage with a did-you-mean and status 2")
def unknown_command(t):
    done = t.sbx("rum", "x.py")
    t.expect(done, status=2, out="", err=r"^sbx: .*rum")
    t.match(done.errors, r"\brun\b", "the suggestion")


@case("an unknown language gets a did-you-mean and the list of languages, status 2")
def unknown_language(t):
    done = t.sbx("run", "--lang", "pyhton", "-c", "x")
    t.expect(done, status=2, out="", err=r"^sbx: .*pyhton")
    t.match(done.errors, r"python", "the suggestion")


@case("sbx alone prints at most 24 lines with examples")
def alone(t):
    done = t.sbx()
    text = done.text + done.errors
    t.true(0 < len(text.splitlines()) <= 24, f"{len(text.splitlines())} lines:\n{text}")
    t.true(text.count("sbx run") + text.count("sbx exec") >= 3, f"fewer than three examples:\n{text}")


@case("--help of run and exec prints to stdout, status 0, and shows the defaults of the limits")
def help_text(t):
    for command in ("run", "exec"):
        done = t.expect(t.sbx(command, "--help"), out_match=r"--memory")
        t.match(done.text, r"1G", "--help")
        t.match(done.text, r"384M", "--help")


@case("--version names sbx and its version")
def version(t):
    t.expect(t.sbx("--version"), out_match=r"^sbx \d+\.\d+\.\d+")


@case("exec without a command is wrong usage")
def exec_nothing(t):
    t.expect(t.sbx("exec"), status=2, err="^sbx: ")
    t.expect(t.sbx("exec", "--"), status=2, err="^sbx: ")


@case("exec passes the arguments as they are, without a shell")
def exec_words(t):
    t.expect(t.sbx("exec", "--", "printf", "[%s]", "a b", "$HOME", "*", "", "é"), out="[a b][$HOME][*][][é]")


@case("every line of sbx's own on stderr starts with 'sbx: '")
def own_lines(t):
    for words in (["run", "--memory", "abc", "-c", "x", "--lang", "python"], ["run", "nothing-here.py"],
                  ["exec", "--", "no-such-command-here"]):
        done = t.sbx(*words)
        for line in done.errors.splitlines():
            t.match(line, r"^sbx: ", "a line on stderr")


# ---- language

@case("--lang chooses the language whatever the extension says", needs="python")
def lang_flag(t):
    t.file("odd.js", "print('python here')\n")
    t.expect(t.sbx("run", "--lang", "python", "odd.js"), out="python here\n")


@case("the extension chooses the language", needs=("python", "bash"))
def by_extension(t):
    t.file("a.py", "print('py')")
    t.file("a.sh", "echo sh $BASH_VERSION")
    t.expect(t.sbx("run", "a.py"), out="py\n")
    t.expect(t.sbx("run", "a.sh"), out_match=r"^sh \d")


@case("a #! line chooses the language of a file without a known extension", needs=("python", "bash"))
def by_shebang(t):
    t.file("prog", "#!/usr/bin/env python3\nprint('py')")
    t.file("prog2", "#!/bin/bash\necho ${BASH_VERSION:+bash}")
    t.file("prog3", "#!/usr/bin/env -S python3 -u\nprint('py')")
    t.expect(t.sbx("run", "prog"), out="py\n")
    t.expect(t.sbx("run", "prog2"), out="bash\n")
    t.expect(t.sbx("run", "prog3"), out="py\n")


@case("a file of no known language is an error that lists the languages, status 2")
def undecided(t):
    t.file("thing.xyz", "hello")
    done = t.expect(t.sbx("run", "thing.xyz"), status=2, err=r"^sbx: .*thing\.xyz")
    for name in ("python", "bash", "javascript", "cpp"):
        t.match(done.errors, name, "the list of languages")


@case("stdin without --lang is an error that lists the languages, unless it starts with #!", needs="python")
def stdin_language(t):
    t.expect(t.sbx("run", stdin="print(1)"), status=2, err="python")
    t.expect(t.sbx("run", "-", stdin="#!/usr/bin/python3\nprint(6*7)\n"), status=(0, 2))


@case("langs lists the languages with what this host has", needs="python", seconds=120)
def langs(t):
    done = t.expect(t.sbx("langs"))
    for name in ("python", "bash", "javascript", "cpp"):
        t.match(done.text, rf"(?m)^\s*{name}\b", "langs")
    t.match(done.text, r"3\.\d+", "python's version")


@case("javascript runs", needs="node")
def javascript(t):
    t.file("a.js", "console.log(6*7, process.argv.slice(2))\n")
    t.expect(t.sbx("run", "a.js", "x"), out="42 [ 'x' ]\n")
    t.expect(t.sbx("run", "--lang", "javascript", "-c", "console.log(1)"), out="1\n")


@case("C++ is compiled and run; the program's arguments, stdin and status are its own", needs="g++", seconds=60)
def cpp(t):
    t.file("a.cpp", "#include <iostream>\n#include <string>\nint main(int c, char** v) { std::string s; std::getline(std::cin, s);"
                    " std::cout << s << ' ' << c << ' ' << v[1] << std::endl; return 7; }\n")
    t.expect(t.sbx("run", "a.cpp", "arg", stdin="line\n", result=True), status=7, out="line 2 arg\n")


# ---- program sources

@case("the payload of a file reads the caller's stdin", needs="python")
def file_stdin(t):
    t.file("up.py", "import sys; sys.stdout.write(sys.stdin.read().upper())")
    t.expect(t.sbx("run", "up.py", stdin="abc\n"), out="ABC\n")


@case("the payload of -c reads the caller's stdin", needs="python")
def text_stdin(t):
    t.expect(t.python("import sys; sys.stdout.write(sys.stdin.read().upper())", stdin="abc"), out="ABC")


@case("a program on stdin, with - or without FILE, has an empty stdin of its own", needs="python")
def program_on_stdin(t):
    code = "import sys; print(6*7, repr(sys.stdin.read()))"
    t.expect(t.sbx("run", "--lang", "python", stdin=code), out="42 ''\n")
    t.expect(t.sbx("run", "--lang", "python", "-", stdin=code), out="42 ''\n")
    t.expect(t.sbx("run", "--lang", "python", "-", "a1", stdin="import sys; print(sys.argv[1])"), out="a1\n")


@case("the line of the README: echo 'print(6*7)' | sbx run --lang python", needs="python")
def readme_line(t):
    t.expect(t.run(["/bin/bash", "-c", 'echo "print(6*7)" | "$0" run --lang python', t.binary]), out="42\n")


@case("--stdin FILE gives the payload another stdin, also beside a program on stdin", needs="python")
def stdin_flag(t):
    t.file("in.txt", "from a file")
    code = "import sys; print(sys.stdin.read())"
    t.expect(t.sbx("run", "--lang", "python", "--stdin", "in.txt", "-c", code, stdin="not this"), out="from a file\n")
    t.expect(t.sbx("run", "--lang", "python", "--stdin", "in.txt", stdin=code), out="from a file\n")


@case("--stdin of a missing file is wrong usage that names it", needs="python")
def stdin_missing(t):
    t.expect(t.sbx("run", "--lang", "python", "--stdin", "nope.txt", "-c", "print(1)"), status=2, out="",
             err=r"^sbx: .*nope\.txt")


@case("an empty stdin instead of a program is said in words; it is no success", needs="python")
def empty_program(t):
    t.expect(t.sbx("run", "--lang", "python", stdin=b""), status=2, out="", err=r"^sbx: .*stdin")


@case("a program with CR LF, a byte order mark, or without a last newline runs as its interpreter would", needs="python")
def odd_bytes(t):
    t.expect(t.sbx("run", "--lang", "python", stdin=b"\xef\xbb\xbfprint('\xc3\xa9')\r\nprint(2)"), out="é\n2\n")


@case("--file puts extra files beside the program, under their own or a given name", needs="python")
def extra_files(t):
    t.file("data/one.txt", "1")
    t.file("two.txt", "2")
    t.file("a.py", "print(open('one.txt').read(), open('sub/zwei.txt').read())")
    t.expect(t.sbx("run", "--file", "data/one.txt", "--file", "two.txt:sub/zwei.txt", "a.py"), out="1 2\n")


@case("--file refuses names that leave /box, and the program's own", needs="python")
def extra_file_names(t):
    t.file("one.txt", "1")
    t.file("a.py", "print('ran')")
    for name in ("../x", "/etc/x", "sub/../../x", "a.py"):
        t.expect(t.sbx("run", "--file", f"one.txt:{name}", "a.py"), status=2, out="", err="^sbx: ")


@case("a missing --file is wrong usage that names it", needs="python")
def extra_file_missing(t):
    t.file("a.py", "print('ran')")
    t.expect(t.sbx("run", "--file", "nope.txt", "a.py"), status=2, out="", err=r"^sbx: .*nope\.txt")


@case("sbx adds no file to the import path that could shadow a module", needs="python")
def nothing_shadows(t):
    code = ("import os, sys\n"
            "print(sorted(os.listdir('/box')))\n"
            "print([p for p in sys.path if p and os.path.isdir(p) and 'sbx' in p and os.listdir(p)])\n")
    t.file("only.py", code)
    t.expect(t.sbx("run", "only.py"), out="['only.py']\n[]\n")


# ---- places

@case("/box is the working directory: private, empty but for the source under its own name, writable", needs="python")
def box(t):
    t.file("deep/prog.py", "import os\nprint(os.getcwd(), os.listdir('.'), __file__)\nopen('new','w').write('x')\n")
    t.expect(t.sbx("run", "deep/prog.py"), out_match=r"^/box \['prog.py'\] (/box/)?prog\.py$")
    t.true(not (t.dir / "deep/new").exists() and not (t.dir / "new").exists(), "a file appeared on the host")


@case("a traceback names the source under its own name", needs="python")
def traceback_name(t):
    t.file("boom.py", "def f():\n    1/0\nf()\n")
    done = t.expect(t.sbx("run", "boom.py"), status=1, err=r'File "/box/boom\.py", line 2, in f')
    t.match(done.errors, "ZeroDivisionError")
    t.match(done.errors, "1/0", "the source line in the traceback")


@case("hostile names of the source file work: spaces, a leading dash, quotes, newline, other alphabets", needs="python")
def odd_names(t):
    for name in ("with space.py", "quote'\".py", "päth-日本.py", "new\nline.py", "$(id).py", "%s.py"):
        t.file(name, "print('ran', __file__.rsplit('/',1)[-1] == %r)" % name)
        t.expect(t.sbx("run", name), out="ran True\n")
    t.file("-dash.py", "print('dash')")
    t.expect(t.sbx("run", "./-dash.py"), out="dash\n")


@case("exec works in /box too")
def exec_box(t):
    t.expect(t.sbx("exec", "--", "pwd"), out="/box\n")
    t.expect(t.shell("ls -A; touch x && ls"), out="x\n")


@case("each run has a /box of its own: nothing is left from the last one")
def box_private(t):
    t.expect(t.shell("echo 1 > left; echo 1 > /tmp/left; echo 1 > /dev/shm/left; echo 1 > ~/left"))
    t.expect(t.shell("ls -A /box /tmp /dev/shm ~ | grep left; true"), out="")


@case("a FILE that is a link is followed, and lies in /box under the name that was given", needs="python")
def linked_source(t):
    t.file("real/target.py", "print(__file__.rsplit('/',1)[-1])")
    (t.dir / "link.py").symlink_to("real/target.py")
    t.expect(t.sbx("run", "link.py"), out="link.py\n")


@case("FILE may be a pipe or /dev/stdin", needs="python")
def fifo_source(t):
    t.expect(t.run(["/bin/bash", "-c", '"$0" run --lang python <(echo "print(5)")', t.binary]), out="5\n")
    t.expect(t.run(["/bin/bash", "-c", 'echo "print(6)" | "$0" run --lang python /dev/stdin', t.binary]), out="6\n")
