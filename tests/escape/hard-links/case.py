from escape import Attack, Control


def run(t):
    t.file("share/precious", "precious\n")
    t.mkdir("writable")
    code = ("import os,sys\n"
            "for source in ('/ro/precious', '/usr/bin/env'):\n"
            "    for target in ('/box/link', '/tmp/link'):\n"
            "        try: os.link(source, target); print('linked')\n"
            "        except OSError as e: print(e.errno)\n"
            "for name in ('/ro/precious',):\n"
            "    for act in (lambda: open(name,'a'), lambda: os.chmod(name,0), lambda: os.utime(name), lambda: os.unlink(name), lambda: os.rename(name,'/ro/x')):\n"
            "        try: act(); print('done')\n"
            "        except OSError as e: print(e.errno)\n")
    done = t.python(code, "--workspace", "writable:rw", "--mount", "share:/ro")
    t.expect(done)
    t.true(set(done.text.split()) <= {"18", "30", "1", "13"}, done.describe())
    t.equal(open(t.dir / "share/precious").read(), "precious\n")
    t.file("writable/a")
    control = t.python("import os; os.link('/box/a', '/box/b'); open('/box/b','a').write('x'); print('done')", "--workspace", "writable:rw")
    t.expect(control, out="done\n")
    return "EXDEV, EROFS", "within one writable share: linked and written"


CASE = Attack("write a read-only file through a hard link, or change it by metadata calls", "35", "read-only mounts; links do not cross mounts", run=run, needs="python",
              control=Control("the file lies in a :rw share"))
