"""That what a language compiled is taken from the build cache, until a file that it watches is another. Used by
behaviours.py and programs.py, with the shipped data file of the language and one more path to watch."""

import os
import pathlib
import time
import tomllib

LANGUAGES = pathlib.Path(__file__).resolve().parent.parent.parent / "policies" / "lang"


def remembers(language):
    described = tomllib.loads((LANGUAGES / f"{language}.toml").read_text(encoding="utf-8"))
    return bool(described.get("compile", {}).get("watch"))


def check(t, language, source):
    watched = t.file("watched/header", "one")
    text = (LANGUAGES / f"{language}.toml").read_text(encoding="utf-8")
    changed = text.replace("\nwatch = [", f'\nwatch = ["{t.dir}/watched", ', 1)
    t.true(changed != text, "the data file has a list 'watch'")
    t.file(f"config/sbx/policies/lang/{language}.toml", changed)

    def run(cached):
        done = t.sbx("run", "--lang", language, "-c", source, "--compile-memory", "none", result=True)
        t.expect(done, verdict="exited", status=0)
        t.equal(done.result["compile"]["cached"], cached, "compile.cached")
        return done.text

    # What has just changed is not vouched for.
    t.wait_until(lambda: time.time() > os.stat(watched).st_ctime + 2.1, 4, "the clock goes on")
    said = run(False)
    t.equal(run(True), said, "the program's output")
    t.file("watched/header", "two")
    t.equal(run(False), said, "the program's output")
