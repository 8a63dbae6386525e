"""Artifacts of programs that mean harm, or have odd habits."""

import hashlib
import os

from harness import case


def by_path(done):
    return {a["path"] if isinstance(a["path"], str) else a["path"]["base64"]: a for a in done.result["artifacts"]}


@case("files and directories without any permission come out as well, even those in a closed working directory", needs="python")
def closed(t):
    done = t.expect(t.python("import os\nos.makedirs('d/e'); open('d/e/f', 'w').write('inner\\n'); open('g', 'w').write('outer\\n')\n"
                             "for name in ('d/e/f', 'd/e', 'd', 'g', '.'): os.chmod(name, 0)", "--artifacts", "out", result=True))
    found = by_path(done)
    t.equal(sorted(found), ["d/e/f", "g"])
    for name, content in (("d/e/f", "inner\n"), ("g", "outer\n")):
        t.equal((t.dir / "out" / name).read_text(), content)
        t.equal((found[name]["sha256"], found[name]["note"]), (hashlib.sha256(content.encode()).hexdigest(), None))
    t.equal(done.result["artifacts_dropped"], [])


@case("the same in an overlay; in a :rw workspace the permissions are the host's matter and stay", needs="python")
def closed_workspace(t):
    code = "open('g', 'w').write('x'); import os; os.chmod('g', 0)"
    t.file("proj/keep", "")
    done = t.expect(t.python(code, "--workspace", "proj:overlay", "--artifacts", "out", result=True))
    t.equal((t.dir / "out/g").read_text(), "x")
    done = t.expect(t.python(code, "--workspace", "proj:rw", result=True))
    t.equal(os.stat(t.dir / "proj/g").st_mode & 0o777, 0)
    if not t.is_root:
        t.match(by_path(done)["g"]["note"], "Permission denied", "note")


@case("links, a FIFO and a socket are listed with their kind and not followed; a hard link is a file", needs="python")
def kinds(t):
    done = t.expect(t.python("import os, socket\nopen('file', 'w').write('x'); os.link('file', 'hard'); os.symlink('/etc/passwd', 'link')\n"
                             "os.mkfifo('fifo'); socket.socket(socket.AF_UNIX).bind('sock'); os.mkdir('empty')", "--artifacts", "out", result=True))
    t.equal({name: a["type"] for name, a in by_path(done).items()},
            {"file": "file", "hard": "file", "link": "symlink", "fifo": "fifo", "sock": "socket", "empty": "directory"})
    t.equal(sorted(p.name for p in (t.dir / "out").iterdir()), ["file", "hard"])
    t.true((t.dir / "out/file").stat().st_nlink == 1, "copies are files of their own")


@case("a hundred thousand files: the bounds hold, quickly, and what is beyond is counted", needs="python", seconds=120)
def hundred_thousand(t):
    done = t.expect(t.python("import os\nos.mkdir('many')\nfor n in range(99000): os.close(os.open(f'many/{n:06}', os.O_CREAT | os.O_WRONLY))",
                             "--artifacts", "out", result=True))
    t.equal(len(done.result["artifacts"]), 1000)
    t.match(" ".join(done.result["artifacts_dropped"]), "98000 more than the 1000 entries listed, the first 'many/001000'", "dropped")
    t.equal(len(list((t.dir / "out/many").iterdir())), 1000)


@case("a sparse file of a tebibyte is listed with its size, and neither read nor copied", needs="python")
def sparse(t):
    done = t.expect(t.python("open('huge', 'w').truncate(1 << 40)", "--file-size", "none", "--artifacts", "out", result=True))
    artifact = by_path(done)["huge"]
    t.equal((artifact["size"], artifact["sha256"], artifact["note"]), (1 << 40, None, "over the byte limit"))
    t.true(not (t.dir / "out/huge").exists(), "it was copied")
    t.match(" ".join(done.result["artifacts_dropped"]), "over the limit of 256M", "dropped")


@case("names with newlines, escapes and no UTF-8 come out byte for byte, and are safe to print", needs="python")
def names(t):
    done = t.expect(t.python("for n in (b'a\\nb', b'\\x1b[31m', b'\\xff\\xfe', b'-rf', b' ', b'%s', b'x' * 255): open(n, 'w').write('y')",
                             "--artifacts", "out", result=True))
    t.equal(sorted(os.listdir(os.fsencode(t.dir / "out"))),
            sorted([b"a\nb", b"\x1b[31m", b"\xff\xfe", b"-rf", b" ", b"%s", b"x" * 255]))
    t.true("//4=" in by_path(done), "base64 of what is no UTF-8")
    t.true(b"\x1b[31m" not in done.err, "an escape sequence reached the terminal")


@case("extended attributes and times do not come along", needs="python")
def attributes(t):
    t.expect(t.python("import os\nopen('f', 'w').write('x')\nos.utime('f', (0, 0))\ntry: os.setxattr('f', 'user.evil', b'1')\nexcept OSError: pass",
                      "--artifacts", "out"))
    t.equal(os.listxattr(t.dir / "out/f"), [])
    t.true(os.stat(t.dir / "out/f").st_mtime > 1e9, "the time of the copy is its own")


@case("a process left behind that keeps changing a file is dead before the file is read: size and digest agree", needs="python")
def still_changing(t):
    done = t.expect(t.python("import os, time\nr, w = os.pipe()\nif os.fork() == 0:\n  os.setsid(); f = open('f', 'wb', 0); f.write(b'x'); os.write(w, b'1')\n"
                             "  while True: f.write(b'x' * 100)\nos.read(r, 1)", "--artifacts", "out", "--file-size", "16M", result=True))
    artifact = by_path(done)["f"]
    content = (t.dir / "out/f").read_bytes()
    t.equal((artifact["size"], artifact["sha256"], artifact["note"]), (len(content), hashlib.sha256(content).hexdigest(), None))


@case("only what this run made: files of --file that stay as they were are not, changed ones are; a second run starts from nothing", needs="python")
def this_run(t):
    t.file("in.txt", "1")
    t.file("kept.txt", "2")
    done = t.expect(t.python("open('in.txt', 'a').write('x'); open('new', 'w')", "--file", "in.txt", "--file", "kept.txt", result=True))
    t.equal(sorted(by_path(done)), ["in.txt", "new"])
    t.equal(t.expect(t.python("pass", "--file", "in.txt", result=True)).result["artifacts"], [])
