"""sbx langs, and languages of the user's own."""

import json

from harness import case

AWK = """name = "myawk"
extensions = [".myawk"]
source_name = "main.myawk"
commands = ["mawk", "gawk", "awk"]
version_argv = ["{tool}", "-W", "version"]
run_argv = ["{tool}", "-f", "{src}", "--", "{args}"]
"""


@case("a language's file that is wrong is told with line, column and what was meant")
def check_wrong(t):
    for line, place, what, hint in (
            ('nmae = "x"', "8:1", 'unknown key "nmae"', 'did you mean "name"\\?'),
            ('uses = ["lua"]\nprobe_argv = ["{tool:lua}"]', "9:15", "unknown placeholder|not used", ""),
            ('[limits]\nmemory = "lots"', "9:10", "limits.memory|size", ""),
            ('[compile]\nargv = "cc"', "9:8", "argv is a list of texts", ""),
            ('[[hints]]\npattern = "x"\nhint = "y"\nraise = "memroy"', "11:9", "no limit", "")):
        t.file("wrong.toml", AWK + "\n" + line + "\n")
        done = t.sbx("langs", "check", "wrong.toml")
        t.expect(done, status=2, out="")
        t.match(done.errors, rf"^sbx: wrong\.toml:{place}: .*({what})", "stderr")
        if hint:
            t.match(done.errors, f"hint: {hint}", "stderr")


@case("a language's file that uses a language nobody knows is refused")
def check_uses(t):
    t.file("wrong.toml", AWK + 'uses = ["javascrpt"]\n')
    done = t.sbx("langs", "check", "wrong.toml")
    t.expect(done, status=2, err='did you mean "javascript"')


@case("the file of a good language says what it takes from others", needs="awk")
def check_good(t):
    t.file("good.toml", AWK.replace('[".myawk"]', '[".myawk", ".py"]') + 'aliases = ["rb"]\n')
    done = t.sbx("langs", "check", "good.toml")
    t.expect(done, out_match='^good.toml: the language "myawk" ')
    t.match(done.text, "takes .py from Python", "stdout")
    t.match(done.text, "takes the name 'rb' from Ruby", "stdout")
    t.match(done.text, "to use it: install .* good.toml ", "stdout")


@case("an extension that a language of one's own claims is its own", needs="awk")
def own_extension(t):
    t.file("config/sbx/policies/lang/good.toml", AWK.replace(".myawk", ".py"))
    t.file("x.py", "BEGIN { print 6 * 7 }\n")
    t.expect(t.sbx("run", "x.py"), out="42\n")


@case("every language names its package, found or not, and asking again is quick", seconds=90)
def listed(t):
    first = t.sbx("langs", "--json")
    t.expect(first)
    languages = json.loads(first.text)["languages"]
    t.true(len(languages) >= 15, f"{len(languages)} languages")
    for entry in languages:
        t.true(entry["found"] or entry["problem"], f"{entry['name']}: neither found nor a reason")
        t.true(entry["found"] == bool(entry["path"]), entry["name"])
    again = t.sbx("langs", "--json")
    t.equal(again.out, first.out, "the second answer")
