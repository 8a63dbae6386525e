# A tree that hurts whoever collects it: links, a fifo, sparse and huge (200 MiB, or as many as the argument says, where a
# limit stops the terabyte), deep, odd names, no permission.
import os, socket, sys
os.makedirs("out", exist_ok=True)
os.symlink("/etc/shadow", "out/passwords")
os.symlink("/", "out/rootlink")
os.symlink("loop", "out/loop")
os.mkfifo("out/fifo")
with open("out/sparse", "wb") as file:
    try:
        file.truncate(1 << 40)
    except OSError:
        file.truncate((int(sys.argv[1]) if len(sys.argv) > 1 else 200) << 20)
s = socket.socket(socket.AF_UNIX)
s.bind("out/sock")
open("out/good.txt", "w").write("good\n")
open("out/exec.sh", "w").write("#!/bin/sh\n")
os.chmod("out/exec.sh", 0o755)
try:
    os.chmod("out/good.txt", 0o6755)
except OSError:
    pass
open(b"out/new\nline\x1b[31m\xff", "wb").write(b"odd\n")
open("out/-rf", "w").write("dash\n")
open("out/hidden", "w").write("x")
os.chmod("out/hidden", 0)
deep = "out"
here = os.getcwd()
os.chdir("out")
try:
    for n in range(300):
        os.mkdir("deep")
        os.chdir("deep")
    open("bottom", "w").write("b")
except OSError:
    pass
