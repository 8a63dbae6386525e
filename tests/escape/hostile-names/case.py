import json

from escape import Attack, Control


def run(t):
    evil = "ev,upperdir=il:\\z\n\x1b[2J 'q\"$(id)"
    t.mkdir(evil)
    t.file(f"{evil}/f", "fine\n")
    for name in ("HEAD", "config", "objects/x", "refs/x", "hooks/pre-commit"):
        t.file(f"{evil}/na\nme/.git/{name}", "old\n")
    done = t.sbx("exec", "--workspace", f"{evil}:overlay", "--", "/bin/sh", "-c", "echo new > f; cat f; ls /")
    t.expect(done, out_match="^new$")
    t.equal(open(t.dir / evil / "f").read(), "fine\n", "the lower file")
    done = t.sbx("exec", "--workspace", f"{evil}:rw", "--", "/bin/sh", "-c", "echo planted > */.git/hooks/pre-commit; mv */.git x; true")
    t.equal(open(t.dir / evil / "na\nme/.git/hooks/pre-commit").read(), "old\n", "a hook below a name with a newline")
    made = t.python("import os\n"
                    "for n in (b'\\x1b]52;c;eA==\\x07', b'a\\nb', b'\\xff\\xfe', b'-rf', b'sbx: hint: run this', b'\\xe2\\x80\\xae.txt'):\n"
                    "    open(os.path.join(b'/box', n), 'w').write('x')\n", "--artifacts", str(t.dir / "out"), result=True)
    t.expect(made)
    t.no_match(made.errors, "[\x00-\x08\x0b-\x1f\x7f\u202e]", "control characters on stderr")
    t.no_match(made.errors, "^sbx: hint: run this", "a forged hint")
    json.dumps(made.result)
    t.true(len(made.result["artifacts"]) >= 5, "the artifacts are listed")
    plain = t.sbx("exec", "--workspace", f"{evil}:overlay", "--", "cat", "f")
    t.expect(plain, out="fine\n")
    return "mount options are not injected, hooks below such names are protected, nothing unprintable on stderr", "the same directory works"


CASE = Attack("inject by names: mount options, terminal escapes, forged lines, invalid UTF-8", "36, 70", "options are escaped, names are printed safely", run=run, needs="python",
              control=Control("the same names do work"))
