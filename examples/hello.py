# sbx run examples/hello.py
import os
import socket
import sys

print(f"Hello from Python {sys.version.split()[0]}, inside a sandbox.")
print(f"  I am uid {os.getuid()}, process {os.getpid()}, in {os.getcwd()} on '{socket.gethostname()}'.")


def attempt(what, action):
    try:
        action()
        print(f"  {what}: possible")
    except OSError as error:
        print(f"  {what}: {error.strerror}")


attempt("write to my own directory", lambda: open("note.txt", "w").close())
attempt("read the host's password hashes", lambda: open("/etc/shadow").close())
attempt("write to /usr/bin", lambda: open("/usr/bin/planted", "w").close())
attempt("reach the network", lambda: socket.create_connection(("192.0.2.1", 80), timeout=1).close())
