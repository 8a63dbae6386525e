from escape import Attack, Control


def run(t):
    secret = t.file("home/secret/token.h", 'const char* token = "CANARY";\n', 0o600)
    for name, code, flags in (
            ("#include", f'#include "{secret}"\nint main() {{}}\n', ()),
            ("#include <>", f"#include <{secret}>\nint main() {{}}\n", ()),
            ("-include", "int main() {}\n", ("--compile-flag", "-include", "--compile-flag", secret)),
            ("@file", "int main() {}\n", ("--compile-flag", f"@{secret}",)),
            (".incbin", f'asm(".incbin \\"{secret}\\"");\nint main() {{}}\n', ()),
            ("/proc/1/root", f'#include "/proc/1/root{secret}"\nint main() {{}}\n', ()),
            ("/etc/shadow", '#include "/etc/shadow"\nint main() {}\n', ())):
        done = t.sbx("run", *flags, t.file("main.cpp", code))
        t.no_match(done.text + done.errors, "CANARY|root:[$*!]", name)
        t.true(done.status != 0, f"{name}: compiled\n" + done.describe())
    shown = t.sbx("run", "--mount", f"{t.home}/secret", t.file("main.cpp", f'#include "{secret}"\n#include <cstdio>\nint main() {{ puts(token); }}\n'))
    t.expect(shown, out="CANARY\n")
    return "seven ways: no such file", "--mount of the directory: compiled in"


CASE = Attack("compile files of the host into the program: #include, -include, @file, .incbin", "85", "the compile step sees what the run sees", run=run, needs="g++", seconds=60,
              control=Control("--mount of what is included"))
