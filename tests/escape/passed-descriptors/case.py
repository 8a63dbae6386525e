import array
import os
import socket

from escape import Attack, Control


def run(t):
    ours, theirs = socket.socketpair()
    code = ("import array,os,socket,sys\n"
            "try:\n"
            "    s = socket.socket(fileno=os.dup(0))\n"
            "    data, control, *_ = s.recvmsg(10, 1000)\n"
            "    print(len(control))\n"
            "except OSError as e: print(e)\n")
    ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [os.open("/", os.O_RDONLY)]))])
    done = t.run([t.binary, "run", "--lang", "python", "-c", code], stdin=theirs, timeout=10)
    ours.close()
    theirs.close()
    t.match(done.text, "Socket operation on non-socket", "what the payload saw")
    pair = t.python("import socket,array,os\na,b=socket.socketpair()\na.sendmsg([b'x'],[(1,1,array.array('i',[0]))])\nprint(len(b.recvmsg(10,1000)[1]) > 0)")
    t.expect(pair, out="True\n")
    return "ENOTSOCK", "a socket pair of the payload's own: a descriptor comes through"


CASE = Attack("receive a directory of the host over a socket that the caller gave as stdin", "43", "sbx pumps the streams through pipes of its own", run=run, needs="python",
              control=Control("a socket pair made inside"))
