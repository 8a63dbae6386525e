from escape import Attack, Control


def run(t):
    seen = t.shell("grep -hE '^(NoNewPrivs|Cap...|Seccomp|Groups):' /proc/self/status; cat /proc/self/setgroups; "
                   "python3 -c 'import ctypes; print(\"securebits\", hex(ctypes.CDLL(None).prctl(27, 0, 0, 0, 0)))'")
    wanted = "".join(f"Cap{name}:\t{'0' * 16}\n" for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")) + "NoNewPrivs:\t1\nSeccomp:\t2\n"
    text = seen.text
    for line in wanted.splitlines():
        t.true(line in text, f"no line {line!r}\n" + seen.describe())
    t.match(text, "^securebits 0xef$", "secure bits")
    # KEEP_CAPS_LOCKED without KEEP_CAPS, NOROOT, NO_SETUID_FIXUP and NO_CAP_AMBIENT_RAISE with their locks
    policy = t.file("raw.toml", '[hardening]\ncapabilities = ["cap_net_raw"]\n')
    code = ("for n in {1..1000}; do grep -qE '^Cap...:.*[1-9a-f]' /proc/1/status || break; done\n"
            "grep -h '^Cap' /proc/self/status /proc/1/status")
    kept = t.shell(code, "--policy", policy)
    names = ("Inh", "Prm", "Eff", "Bnd", "Amb")
    t.expect(kept, out="".join(f"Cap{name}:\t{'0' * 12}2000\n" for name in names) + "".join(f"Cap{name}:\t{'0' * 16}\n" for name in names))
    return "all five sets empty, no_new_privs, secure bits 0xef locked", "with capabilities = [\"cap_net_raw\"]: exactly that one in the payload, none in init"


CASE = Attack("gain a capability: bounding, inheritable and ambient sets, secure bits, no_new_privs", "29, 65",
              "all sets empty, secure bits locked, no_new_privs", run=run, needs="python",
              control=Control("[hardening] capabilities keeps one: it is there, alone"))
