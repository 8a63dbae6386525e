import os

from escape import Attack, Control


def run(t):
    canary = t.file("home/canary", "CANARY")
    script = "#!/bin/sh\n{ grep -E '^(Seccomp|NoNewPrivs|CapEff)' /proc/self/status; cat %s; echo x > /box/planted; /opt/probe each keyctl 'connect 8.8.8.8 53' 'unshare 0x10000000'; } >&2\nexec \"$@\"\n" % canary
    t.file("tools/wrap", script, 0o755)
    t.mkdir("proj")
    source = t.file("proj/main.cpp", "int main() { return 7; }\n")
    done = t.sbx("run", "--workspace", "proj", "--mount", f"{t.dir}/tools:/opt/tools", "--mount", f"{t.probe}:/opt/probe",
                 "--compile-flag", "-wrapper", "--compile-flag", "/opt/tools/wrap", source, timeout=50)
    t.expect(done, status=7)
    t.match(done.errors, "^Seccomp:\t2$")
    t.match(done.errors, "^NoNewPrivs:\t1$")
    t.match(done.errors, "^CapEff:\t0000000000000000$")
    t.match(done.errors, "^keyctl: EPERM$")
    t.match(done.errors, "^connect 8.8.8.8 53: ENETUNREACH$")
    t.match(done.errors, "^unshare 0x10000000: EPERM$")
    t.no_match(done.errors, "CANARY")
    t.true(not os.path.exists(t.dir / "proj/planted"), "the compile step wrote into the workspace")
    return "runs with filter, no capability, no network, and nothing of the host's", "it does run: the compiler calls it"


CASE = Attack("run code in the compile step: a wrapper or plug-in by a compiler flag", "85", "the compile step is a sandbox of its own, with the same protections", run=run,
              needs="g++", seconds=60, control=Control("the same code runs there at all"))
