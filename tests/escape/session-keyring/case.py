from escape import Attack, Control

KEYS = r"""
import ctypes, os, subprocess, sys
L = ctypes.CDLL(None, use_errno=True)
ADD, REQUEST, CTL = (248, 249, 250) if os.uname().machine == "x86_64" else (217, 218, 219)
def search(): return L.syscall(CTL, 10, -3, b"user", b"sbx-test-secret", 0)
if sys.argv[1] == "search":
    key = search()
    buffer = ctypes.create_string_buffer(100)
    n = L.syscall(CTL, 11, key, buffer, 100) if key > 0 else -1
    print(buffer.raw[:n].decode() if n > 0 else "nothing")
else:
    L.syscall(CTL, 1, None)  # a session of our own, or the test's own would keep the key
    if L.syscall(ADD, b"user", b"sbx-test-secret", b"XYZZY", 5, -3) < 0: sys.exit("no key: %d" % ctypes.get_errno())
    sys.stdout.write(subprocess.run(sys.argv[2:], stdout=subprocess.PIPE).stdout.decode())
"""


def run(t):
    script = t.file("share/keys.py", KEYS)
    outside = t.run(["/usr/bin/python3", script, "with", "/usr/bin/python3", script, "search"])
    if "no key" in outside.errors:
        return "this kernel or this container has no keys", outside.errors.strip()
    t.expect(outside, out="XYZZY\n")
    inside = t.run(["/usr/bin/python3", script, "with", t.binary, "exec", "--allow-syscall", "@keyring", "--workspace", "share", "--",
                    "/usr/bin/python3", "/box/keys.py", "search"])
    t.expect(inside, out="nothing\n")
    return "--allow-syscall @keyring: nothing is found", "a program outside, in the same session: the key"


CASE = Attack("find the caller's keys, Kerberos tickets or file system keys in the session key ring, with the calls allowed", "20",
              "a session key ring of the sandbox's own", run=run, needs="python", control=Control("outside, in the caller's session", how="outside"))
