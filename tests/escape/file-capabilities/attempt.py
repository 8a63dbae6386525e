import os
import shutil
import struct
import subprocess

import trying

CAPABILITY = struct.pack("<5I", 0x02000001, 0xffffffff, 0xffffffff, 0x1ff, 0x1ff)  # VFS_CAP_REVISION_2, effective
for place in ("/box", "/tmp"):
    shutil.copy("/usr/bin/cat", place + "/program")
    trying.attempt(f"security.capability in {place}", os.setxattr, place + "/program", "security.capability", CAPABILITY)
    got = subprocess.run([place + "/program", "/proc/self/status"], capture_output=True, text=True).stdout
    print(f"capabilities of a program run from {place}: " + ("none" if "CapEff:\t0000000000000000" in got else "some"))
    trying.attempt(f"trusted.overlay.opaque in {place}", os.setxattr, place, "trusted.overlay.opaque", b"y")
    trying.attempt(f"security.ima in {place}", os.setxattr, place + "/program", "security.ima", b"x")
    trying.attempt(f"system.posix_acl_access with a foreign user in {place}", os.setxattr, place + "/program", "system.posix_acl_access",
                   struct.pack("<I" + "HHI" * 5, 2, 1, 7, 0xffffffff, 2, 7, 0, 4, 5, 0xffffffff, 16, 7, 0xffffffff, 32, 5, 0xffffffff))
    trying.attempt(f"chmod 6755 in {place}", os.chmod, place + "/program", 0o6755)
trying.attempt("user.plain", os.setxattr, "/box/program", "user.plain", b"x")
