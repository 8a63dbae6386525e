from escape import Attack, Control


def run(t):
    canary = t.file("home/canary", "CANARY", 0o644)
    t.mkdir("proj")
    source = t.file("proj/main.cpp", "int main() { return 7; }\n")
    seen = []
    for name, act in (("link", f'ln -sf {canary} "$o"'), ("link-to-proc", 'ln -sf /proc/1/root/etc/passwd "$o"'), ("fifo", 'rm -f "$o"; mkfifo "$o"'),
                      ("directory", 'rm -f "$o"; mkdir "$o"'), ("sparse", 'rm -f "$o"; truncate -s 250M "$o"'), ("nothing", 'rm -f "$o"')):
        # g++ starts the compiler, the assembler and the linker through it; sbx takes over what the linker makes.
        t.file("tools/wrap", f"""#!/bin/sh
for w; do [ "$p" = -o ] && o=$w; p=$w; done
"$@" || exit
case $1 in *collect2) {act};; esac
exit 0
""", 0o755)
        done = t.sbx("run", "--workspace", "proj", "--mount", f"{t.dir}/tools:/opt/tools", "--compile-flag", "-wrapper", "--compile-flag", "/opt/tools/wrap",
                     source, result=True, timeout=40)
        t.no_match(done.text + done.errors, "CANARY|root:x", name)
        t.true(done.status not in (0, 7), f"{name}: it ran\n" + done.describe())
        seen.append(f"{name}: {done.verdict}")
    t.file("tools/wrap", '#!/bin/sh\nexec "$@"\n', 0o755)
    t.expect(t.sbx("run", "--workspace", "proj", "--mount", f"{t.dir}/tools:/opt/tools", "--compile-flag", "-wrapper", "--compile-flag", "/opt/tools/wrap", source), status=7)
    return "; ".join(seen), "a wrapper that changes nothing: the program runs"


CASE = Attack("hand over something else than a program from the compile step: a link, a FIFO, a directory, a huge sparse file", "36, 85",
              "only regular files are taken over, beneath the build directory, bounded", run=run, needs="g++", seconds=90, control=Control("the compiler's own output"))
