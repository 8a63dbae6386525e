#!/usr/bin/env python3
"""Records which system calls ordinary programs make: record.py [LANGUAGE…]

Each program below runs bare under strace, and what it and its children call is written to tests/seccomp/corpus/LANGUAGE.txt: one
call a line, with the symbolic argument of those that policies test. `tests/lint/corpus.py` checks that the default policy allows each
call, or answers it with the errno that its callers know how to live with; the case seccomp/corpus runs the same programs inside.
A language that this host lacks keeps the file that it has. Read the difference before committing it: a call that is new here is a
question to the policy.
"""
import datetime
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"

PYTHON = """
import asyncio, json, os, socket, subprocess, tempfile, threading, multiprocessing, time, select, mmap, hashlib, sqlite3
def work(n): return n * n
if __name__ == '__main__':
    t = threading.Thread(target=work, args=(2,)); t.start(); t.join()
    with tempfile.TemporaryDirectory() as d:
        p = os.path.join(d, 'x'); open(p, 'w').write('x' * 100000); os.chmod(p, 0o640); os.rename(p, p + 'y'); print(len(open(p + 'y').read()))
        c = sqlite3.connect(os.path.join(d, 'db')); c.execute('create table a (b)'); c.execute('insert into a values (1)'); c.commit()
    print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout.strip())
    with multiprocessing.get_context('fork').Pool(2) as pool: print(pool.map(work, [1, 2, 3]))
    s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(1)
    c = socket.create_connection(s.getsockname()); a, _ = s.accept(); c.sendall(b'hi'); print(a.recv(2)); a.close(); c.close(); s.close()
    asyncio.run(asyncio.sleep(0.01)); print(mmap.mmap(-1, 4096)[0], os.urandom(1) is not None, os.cpu_count() is not None)
"""
NODE = """
const fs = require('fs'), os = require('os'), net = require('net'), { Worker } = require('worker_threads'), { execFileSync, spawnSync } = require('child_process');
fs.writeFileSync(os.tmpdir() + '/sbx-node', 'x'); console.log(fs.readFileSync(os.tmpdir() + '/sbx-node', 'utf8')); fs.unlinkSync(os.tmpdir() + '/sbx-node');
console.log(execFileSync('echo', ['child']).toString(), spawnSync('true').status, os.cpus().length > 0);
new Worker("require('worker_threads').parentPort.postMessage(1)", { eval: true }).on('message', console.log);
const s = net.createServer(c => c.end('hi')); s.listen(0, '127.0.0.1', () => net.connect(s.address().port, '127.0.0.1').on('data', d => { console.log(d.toString()); s.close(); }));
"""
C = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <netinet/in.h>
#include <time.h>
#include <unistd.h>
#include <spawn.h>
#include <poll.h>
#include <signal.h>
extern char **environ;
static void *work(void *p) { struct timespec t = {0, 1000000}; nanosleep(&t, 0); return p; }
int main(void) {
  pthread_t t; pthread_create(&t, 0, work, 0); pthread_join(t, 0);
  char name[] = "/tmp/sbx-c-XXXXXX"; int fd = mkstemp(name); write(fd, "x", 1); ftruncate(fd, 4096);
  mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0); close(fd); unlink(name);
  if (fork() == 0) _exit(0);
  wait(0);
  pid_t child; char *args[] = {"true", 0}; posix_spawn(&child, "/bin/true", 0, 0, args, environ); waitpid(child, 0, 0);
  FILE *p = popen("echo popen", "r"); char line[64]; fgets(line, sizeof line, p); pclose(p);
  int s = socket(AF_INET, SOCK_STREAM, 0); struct sockaddr_in a; memset(&a, 0, sizeof a); a.sin_family = AF_INET;
  bind(s, (struct sockaddr *)&a, sizeof a); listen(s, 1);
  int pair[2]; socketpair(AF_UNIX, SOCK_STREAM, 0, pair); struct pollfd f = {pair[0], POLLIN, 0}; poll(&f, 1, 1);
  void *big = malloc(1 << 24); memset(big, 1, 1 << 24); free(big);
  signal(SIGCHLD, SIG_IGN); printf("%s", line); return 0;
}
"""
SHELL = r"""
set -e
d=$(mktemp -d); cd "$d"; printf 'b\na\n' | sort > x; cp -a x y; mv y z; ln -s z l; ln z h; chmod 600 z; touch -d yesterday z; mkdir -p a/b
find . -type f | xargs grep -l a | wc -l; tar cf t.tar a x; tar tf t.tar > /dev/null; sed -i s/a/c/ x; awk '{ print $1 }' x; ls -lR > /dev/null
du -s . > /dev/null; df . > /dev/null; stat x > /dev/null; cat <(echo process) ; trap 'echo term' TERM; kill -TERM $$; sleep 0.01; (ulimit -n > /dev/null); id -u > /dev/null
gzip -c x | gunzip > /dev/null; timeout 5 true; nproc > /dev/null; date > /dev/null; head -c 10 /dev/urandom | md5sum > /dev/null; rm -rf "$d"; echo done
"""
GO = """package main
import ("fmt"; "net"; "os"; "os/exec"; "sync"; "time")
func main() {
  var w sync.WaitGroup
  for i := 0; i < 8; i++ { w.Add(1); go func() { time.Sleep(time.Millisecond); w.Done() }() }
  w.Wait(); os.WriteFile("/tmp/sbx-go", []byte("x"), 0644); os.Remove("/tmp/sbx-go")
  out, _ := exec.Command("echo", "child").Output(); fmt.Print(string(out))
  l, _ := net.Listen("tcp", "127.0.0.1:0"); go func() { c, _ := l.Accept(); c.Write([]byte("hi")); c.Close() }()
  c, _ := net.Dial("tcp", l.Addr().String()); b := make([]byte, 2); c.Read(b); fmt.Println(string(b))
}
"""
RUST = """use std::{fs, io::{Read, Write}, net, process, thread, time};
fn main() {
  thread::spawn(|| thread::sleep(time::Duration::from_millis(1))).join().unwrap();
  fs::write("/tmp/sbx-rust", "x").unwrap(); fs::remove_file("/tmp/sbx-rust").unwrap();
  println!("{:?}", process::Command::new("echo").arg("child").output().unwrap().status);
  let l = net::TcpListener::bind("127.0.0.1:0").unwrap(); let a = l.local_addr().unwrap();
  let t = thread::spawn(move || { l.accept().unwrap().0.write_all(b"hi").unwrap(); });
  let mut b = [0; 2]; net::TcpStream::connect(a).unwrap().read_exact(&mut b).unwrap(); t.join().unwrap();
}
"""
JAVA = """import java.io.*; import java.net.*; import java.nio.file.*;
public class Main { public static void main(String[] a) throws Exception {
  Thread t = new Thread(() -> System.out.println("thread")); t.start(); t.join();
  Path p = Files.createTempFile("sbx", ""); Files.writeString(p, "x"); Files.delete(p);
  System.out.println(new ProcessBuilder("echo", "child").start().waitFor());
  ServerSocket s = new ServerSocket(0, 1, InetAddress.getLoopbackAddress()); Socket c = new Socket(s.getInetAddress(), s.getLocalPort()); s.accept().close(); c.close();
} }
"""
PERL = "print `echo child`; open(F, '>', '/tmp/sbx-perl'); print F 'x'; close F; unlink '/tmp/sbx-perl'; if (!fork) { exit 0 } wait; use IO::Socket::INET; IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1'); select(undef, undef, undef, 0.01);"
RUBY = "puts `echo child`; Thread.new { sleep 0.01 }.join; require 'tempfile'; Tempfile.create { |f| f.write 'x' }; Process.wait(fork { exit! }); require 'socket'; s = TCPServer.new('127.0.0.1', 0); c = TCPSocket.new('127.0.0.1', s.addr[1]); s.accept.close; c.close"
PHP = "echo shell_exec('echo child'); $f = tempnam('/tmp', 'sbx'); file_put_contents($f, 'x'); unlink($f); $s = stream_socket_server('tcp://127.0.0.1:0'); usleep(1000);"
LUA = "local p = io.popen('echo child'); print(p:read()); p:close(); local n = os.tmpname(); local f = io.open(n, 'w'); f:write('x'); f:close(); os.remove(n); print(os.time())"
R = "cat(system('echo child', intern = TRUE)); f <- tempfile(); writeLines('x', f); unlink(f); print(sum(rnorm(100)) < 1e9)"

# language: (tools, files, what is run with /bin/sh, how the version is asked for). Everything but the last line prepares, unrecorded.
PROGRAMS = {
    "python": (["python3"], {"main.py": PYTHON}, ["/usr/bin/python3 main.py"], "/usr/bin/python3 --version"),
    "bash": (["bash"], {"main.sh": SHELL}, ["bash main.sh"], "bash --version"),
    "javascript": (["node"], {"main.js": NODE}, ["node main.js"], "node --version"),
    "c": (["gcc"], {"main.c": C}, ["gcc -w -pthread -o main main.c", "./main"], "gcc --version"),
    "c-musl": (["musl-gcc"], {"main.c": C}, ["musl-gcc -w -static -pthread -o main main.c", "./main"], "dpkg-query -W musl-tools"),
    "gcc": (["gcc", "g++", "make"], {"main.cpp": "#include <iostream>\nint main() { std::cout << 1; }\n", "Makefile": "main: main.cpp\n\tg++ -O1 -o main main.cpp\n"},
            ["make -j2"], "g++ --version"),
    "clang": (["clang"], {"main.c": C}, ["clang -w -pthread -o main main.c"], "clang --version"),
    "git": (["git"], {"x": "x\n"}, ["git init -q . && git add x && git -c user.name=a -c user.email=a@b commit -qm x && git log --oneline && git clone -q . y"], "git --version"),
    "perl": (["perl"], {"main.pl": PERL}, ["perl main.pl"], "perl -e 'print $^V'"),
    "ruby": (["ruby"], {"main.rb": RUBY}, ["ruby main.rb"], "ruby --version"),
    "php": (["php"], {"main.php": "<?php " + PHP}, ["php main.php"], "php --version"),
    "lua": (["lua5.4"], {"main.lua": LUA}, ["lua5.4 main.lua"], "lua5.4 -v"),
    "r": (["Rscript"], {"main.R": R}, ["Rscript main.R"], "Rscript --version"),
    "java": (["javac", "java"], {"Main.java": JAVA}, ["javac Main.java && java Main"], "java --version"),
    "go": (["go"], {"main.go": GO, "go.mod": "module main\n"}, ["go build -o main . && ./main"], "go version"),
    "rust": (["rustc"], {"main.rs": RUST}, ["rustc -o main main.rs && ./main"], "rustc --version"),
}
# Calls with a test on an argument: which of strace's words tells what was asked for.
TESTED = {"ioctl": (1, 1), "prctl": (0, 1), "socket": (0, 3), "socketpair": (0, 2), "personality": (0, 1), "clone": (-1, 0), "unshare": (0, 1)}


def called(line):
    """What one line of strace says was called, "" for exits, signals and the rest of an unfinished call."""
    match = re.match(r"(?:\d+ +)?(\w+)\((.*)", line)
    if not match:
        return ""
    name, rest = match.groups()
    if name not in TESTED:
        return name
    first, count = TESTED[name]
    if name == "clone":
        flags = re.search(r"flags=([A-Z_|0-9x]+)", rest)
        return f"clone {flags.group(1)}" if flags else "clone"
    words = re.split(r", |\) +=|\)$| <unfinished", rest)[first:first + count]
    words = [re.sub(r"\|?SOCK_(CLOEXEC|NONBLOCK)", "", word) for word in words]
    # The words of a prctl or ioctl, not addresses and numbers that differ from run to run.
    return " ".join([name] + [word for word in words if re.match(r"^[A-Z0-9_x|]+$", word)])


def prepare(language, folder):
    _tools, files, _commands, _version = PROGRAMS[language]
    for name, text in files.items():
        (pathlib.Path(folder) / name).write_text(text, encoding="utf-8")


def environment(folder):
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": folder, "LANG": "C.UTF-8", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "GOCACHE": f"{folder}/.cache",
            **{name: os.environ[name] for name in ("RUSTUP_HOME", "CARGO_HOME") if name in os.environ}}


def record(language):
    tools, _files, commands, version = PROGRAMS[language]
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing:
        print(f"{language}: {', '.join(missing)} missing, left as it is")
        return
    with tempfile.TemporaryDirectory(prefix="sbx-corpus-") as folder:
        prepare(language, folder)
        env = environment(folder)
        if tools == ["rustc"]:
            env["HOME"] = os.environ.get("HOME", folder)
        for command in commands[:-1]:
            subprocess.run(["/bin/sh", "-c", command], cwd=folder, env=env, check=True)
        log = f"{folder}/strace.log"
        done = subprocess.run(["strace", "-f", "-qq", "-o", log, "/bin/sh", "-c", commands[-1]], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            print(f"{language}: status {done.returncode}: {done.stdout.decode(errors='replace')[-300:]}")
            return
        with open(log, encoding="utf-8", errors="replace") as lines:
            calls = sorted({call for call in map(called, lines) if call})
        said = subprocess.run(["/bin/sh", "-c", version + " 2>&1"], cwd=folder, env=env, stdout=subprocess.PIPE).stdout.decode().strip().splitlines()
    libc = os.confstr("CS_GNU_LIBC_VERSION")
    header = [f"# {said[0] if said else language}", f"# {os.uname().machine}, {libc}, Linux {'.'.join(os.uname().release.split('.')[:2])}, {datetime.date.today()}",
              f"# written by tests/seccomp/record.py {language}"]
    (CORPUS / f"{language}.txt").write_text("\n".join(header + calls) + "\n", encoding="utf-8")
    print(f"{language}: {len(calls)} calls")


if __name__ == "__main__":
    if not shutil.which("strace"):
        sys.exit("record.py needs strace")
    for wanted in sys.argv[1:] or PROGRAMS:
        if wanted not in PROGRAMS:
            sys.exit(f"record.py: no program for '{wanted}' ({', '.join(PROGRAMS)})")
        record(wanted)
