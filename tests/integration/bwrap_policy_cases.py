"""bwrap's argument files as policies of sbx's own engine: --policy FILE of run and exec, policy check, policy explain."""

import json

import bwrap_behaviour_cases
from harness import case

USR = "--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64\n"


def policy(t, text, name="p.bwrap"):
    return t.file(name, text)


def run(t, text, script, *flags, **more):
    return t.sbx("exec", "--policy", policy(t, text), *flags, "--", "sh", "-c", script, **more)


def run_by_sbx(example):
    def function(t):
        example.prepare(t)
        mounts = [word for source, place, writable in example.mounts for word in ("--mount", f"{t.dir / source}:{place}" + (":rw" if writable else ""))]
        stored = bwrap_behaviour_cases.EXAMPLES / f"{example.name}.bwrap"
        path = t.file("policies/example.bwrap", stored.read_bytes())
        example.check(t, t.sbx("exec", "--policy", path, *mounts, "--", "sh", "-c", example.script, cwd=t.dir / "project", env={"SECRET": "x"}))
        checked = t.sbx("policy", "check", "--accept", "host-network", path, cwd=t.dir / "project")
        t.expect(checked, status=0)
    function.__name__ = "example_" + example.name.replace("-", "_")
    case(f"policies/examples/bwrap/{example.name}.bwrap, run by sbx exec: it does its work, and what it may not do fails")(function)


for _example in bwrap_behaviour_cases.EXAMPLE_CASES:
    run_by_sbx(_example)


@case("a bwrap policy is the whole view: nothing of sbx's manifest, home, box or synthetic /etc is there")
def whole_view(t):
    t.expect(run(t, USR, "ls -A / | tr '\\n' ' '; pwd"), out=b"bin lib lib64 proc usr /\n")
    t.expect(run(t, USR + "--dev /dev --dir /x --tmpfs /y --file-less", "true"), status=2, err="unknown option")
    t.expect(run(t, USR + "--dev /dev --perms 0710 --dir /x --perms 1777 --tmpfs /y", "stat -c '%a %n' /x /y; ls -A /"), out=b"710 /x\n1777 /y\nbin\ndev\nlib\nlib64\nproc\nusr\nx\ny\n")


@case("the text form: quotes, comments, lines; and the form with NUL bytes, by extension or by --dialect")
def forms(t):
    t.expect(run(t, USR + """# a comment with 'an open quote
--setenv A 'two  words' --setenv B "say \\"it\\"" \\
  --setenv C a#b --setenv D x\\ y # the end""", 'printf "%s|" "$A" "$B" "$C" "$D"'), out=b'two  words|say "it"|a#b|x y|')
    words = (USR + "--setenv A").split() + ["b # c\nd"]
    stored = t.file("stored", "\0".join(words) + "\0")
    t.expect(t.sbx("exec", "--dialect", "bwrap", "--policy", stored, "--", "sh", "-c", 'echo "$A"'), out=b"b # c\nd\n")
    for name in ("x.args", "x.bwrap"):
        t.expect(t.sbx("exec", "--policy", policy(t, USR, name), "--", "echo", "read"), out=b"read\n")
    t.expect(t.sbx("exec", "--policy", "x.args", "--policy", "x.bwrap", "--", "echo", "from here"), out=b"from here\n")


@case("what bwrap leaves open is open, what it closes is closed; sbx's filter and limits hold in any case")
def defaults(t):
    look = "grep -c : /proc/net/dev; uname -n; grep -h -E '^(Seccomp|NoNewPrivs|CapEff):' /proc/self/status | tr -s '\\t\\n' '  '"
    host = len([line for line in open("/proc/net/dev") if ":" in line])
    import os
    t.expect(run(t, USR, look), out=f"{host}\n{os.uname().nodename}\nCapEff: 0000000000000000 NoNewPrivs: 1 Seccomp: 2 ".encode())
    t.expect(run(t, USR + "--unshare-all --hostname boxed", look), out=b"1\nboxed\nCapEff: 0000000000000000 NoNewPrivs: 1 Seccomp: 2 ")
    t.expect(run(t, USR + "--unshare-all --share-net", look.split(";")[0]), out=f"{host}\n".encode())
    t.expect(run(t, USR, "unshare -U true"), status=1, err="unshare failed: Operation not permitted|not permitted")
    # bwrap itself lets it: the control.
    t.expect(bwrap_behaviour_cases.bwrap(t, "--ro-bind", "/", "/", "--unshare-user", "unshare", "-U", "true"))
    t.expect(run(t, USR + "--dev /dev", "sleep 60", "--time", "300ms", result=True), status=124, verdict="timed_out")


@case("ids are the caller's, as bwrap has it, or --uid and --gid")
def identity(t):
    t.expect(run(t, USR, "id -u; id -g"), out=f"{t.identity.uid}\n{t.identity.gid}\n".encode())
    t.expect(run(t, USR + "--uid 77 --gid 88", "id -u; id -g"), out=b"77\n88\n")


@case("the environment is the caller's, but for --clearenv, --unsetenv and --setenv in their order")
def environment(t):
    env = {"MINE": "yes", "OTHER": "too"}
    t.expect(run(t, USR, 'echo "$MINE $OTHER"', env=env), out=b"yes too\n")
    t.expect(run(t, USR + "--unsetenv OTHER --setenv MINE no", 'echo "$MINE ${OTHER-unset}"', env=env), out=b"no unset\n")
    t.expect(run(t, USR + "--setenv GONE x --clearenv --setenv A b", "env | grep -v PWD | sort", env=env), out=b"A=b\nPATH=/bin:/usr/bin\n")


@case("the working directory: --chdir, else the caller's where it is shared, else HOME, else /")
def directory(t):
    t.mkdir("here")
    here = f"{t.dir}/here"
    t.expect(run(t, USR + f"--bind {here} {here}", "pwd", cwd=here), out=f"{here}\n".encode())
    t.expect(run(t, USR + "--bind . /project --chdir /project", "pwd; echo x > made", cwd=here), out=b"/project\n")
    t.equal((t.dir / "here/made").read_text(), "x\n")
    t.expect(run(t, USR + "--dir /h --setenv HOME /h", "pwd", cwd=here), out=b"/h\n")
    t.expect(run(t, USR, "pwd", cwd=here), out=b"/\n")


@case("the host as the root: refused without a flag; with it, entry by entry, with processes and devices of the sandbox's own")
def host_root(t):
    text = "--ro-bind / / --tmpfs /home --unshare-all"
    t.expect(run(t, text, "true"), status=2, err=r'p\.bwrap:1:1: "/" is not shared(.|\n)*--allow-sensitive-mount')
    secret = t.file("file", "text")
    done = run(t, text, f"cat {secret}; (echo x > {secret}) 2>/dev/null || echo sealed; ls -A /home; ls /proc | grep -c '^[0-9]'; ls /dev | grep -c -e sda -e mem -e kmsg", "--allow-sensitive-mount")
    t.match(done.text, r"\Atextsealed\n[1-9]\n0\n\Z")


@case("sensitive places named in a bwrap policy are refused like those of any policy, with their place in the file")
def sensitive(t):
    for source in ("/etc", "/home", "/root"):
        t.expect(run(t, USR + f"--ro-bind {source} {source}", "true"), status=2, err=rf"p\.bwrap:2:1: .*{source}.*(.|\n)*--allow-sensitive-mount")
    t.expect(run(t, USR + "--ro-bind /etc /etc", "test -d /etc/ssl -o -d /etc/apt && echo there", "--allow-sensitive-mount"), out=b"there\n")


@case("a mistake names file, line and column, and the way out; what means nothing in a file is a mistake")
def mistakes(t):
    def wrong(text, *patterns):
        done = t.sbx("policy", "check", policy(t, text))
        t.expect(done, status=2)
        for pattern in patterns:
            t.match(done.text, pattern)
        t.expect(run(t, text, "true"), status=2, err="p.bwrap:")
    wrong("--ro-bind /usr /usr\n  --unshare-ne", r"p\.bwrap:2:3: error: unknown option .*did you mean --unshare-net\?$")
    wrong("--ro-bind /usr", r"p\.bwrap:1:1: error: --ro-bind takes SRC DEST$")
    wrong("--perms 0799 --dir /x", r"p\.bwrap:1:1: error: --perms takes an octal argument <= 07777$")
    wrong("--dir /a\n--perms 0700\n--symlink a /b", r"p\.bwrap:3:1: error: --perms must be followed by an option that creates a file$")
    wrong("--overlay-src /usr --overlay-src /etc --bind / /", r"p\.bwrap:1:39: error: --overlay-src must be followed by")
    wrong("--ro-bind $HOME /home", r"p\.bwrap:1:11: error: nothing is expanded here")
    wrong("--setenv A \"$B\"", r"p\.bwrap:1:\d+: error: nothing is expanded here, also not within")
    wrong("--ro-bind ~/x /x", r"p\.bwrap:1:11: error: nothing is expanded here")
    wrong("--setenv A 'b", r"p\.bwrap:1:12: error: the quotation that begins with ' does not end$")
    wrong("--dir /a; rm x", r"p\.bwrap:1:9: error: the shell's ';' has no meaning here|p\.bwrap:1:9: error: the shell's \";\" has no meaning here")
    wrong("--dir /a\nbash -l", r"p\.bwrap:2:1: error: .*is no option of bwrap; the command is given to sbx: sbx exec --policy .* -- COMMAND$")
    wrong("--info-fd 3\n--seccomp 4 --file 5 /x", r"p\.bwrap:1:1: error: --info-fd: .*descriptor.*--result", r"p\.bwrap:2:1: error: --seccomp: ", r"p\.bwrap:2:13: error: --file: .*--ro-bind FILE DEST$")
    wrong("--as-pid-1", r"p\.bwrap:1:1: error: --as-pid-1: process 1 is sbx's own")
    wrong("--unshare-ipc --hostname x", r"p\.bwrap:1:15: error: --hostname requires --unshare-uts$")
    wrong("--ro-bind /proc /proc", r"p\.bwrap:1:1: error: --ro-bind on .*; --proc /proc$")
    wrong("--cap-add ALL", r"p\.bwrap:1:1: error: --cap-add ALL: capabilities are named one by one here")
    wrong("--disable-userns", r"p\.bwrap: error: --disable-userns requires --unshare-user$")
    stored = t.file("nul.args", "--dir\0/x\0--nonsense\0")
    t.match(t.sbx("policy", "check", stored).text, r"nul\.args:1:3: error: unknown option")


@case("policy check speaks about risks in bwrap's words, with their place")
def risks(t):
    t.file("p/project", "")
    checked = t.sbx("policy", "check", "--json", "--allow-sensitive-mount", policy(t, USR + "--bind / /\n--ro-bind /run /run\n"))
    t.expect(checked, status=1)
    found = {}
    for risk in json.loads(checked.text)["files"][0]["risks"]:
        found.setdefault(risk["name"], risk)
    for name, severity, fix in (("whole-host", "high", "--ro-bind /usr /usr"), ("host-network", "high", "--unshare-net"), ("terminal-injection", "medium", "--new-session"),
                                ("host-processes", "medium", "--unshare-pid"), ("nested-namespaces", "medium", "--disable-userns"), ("host-ipc", "medium", "--unshare-ipc"),
                                ("writable-system", "high", "--ro-bind"), ("whole-environment", "low", "--clearenv"), ("outlives", "low", "--die-with-parent"),
                                ("no-filter", "medium", "--seccomp FD"), ("set-uid-programs", "low", "--ro-bind, or a host file system mounted nosuid")):
        t.true(name in found, f"no {name} in {sorted(found)}")
        t.equal(found[name]["severity"], severity, name)
        t.match(found[name]["fix"], fix)
    t.match(found["whole-host"]["origin"], r"p\.bwrap:2:1$")
    closed = USR + "--unshare-all --unshare-user --disable-userns --new-session --die-with-parent --clearenv --uid 1000 --gid 1000 --remount-ro /\n"
    t.expect(t.sbx("policy", "check", "--fail-on", "low", "--accept", "no-filter", policy(t, closed)), out_match=r"p\.bwrap: ok\n\Z")


@case("policy explain shows a bwrap policy: values with their place, what is seen, what is risky")
def explain(t):
    text = t.sbx("policy", "explain", policy(t, USR + "--unshare-net\n--bind /srv /data\n--clearenv --setenv A b\n")).text
    t.match(text, r'^mode = "none" +# .*p\.bwrap:2:1$')
    t.match(text, r"only what stands here:\n.*/srv at /data, and change it on the host  \(.*p\.bwrap:3:1\)|/srv at /data, and change it on the host")
    t.match(text, r"^  reach +nothing")
    t.match(text, r"the variables A, PATH")
    t.match(text, r"host-ipc: ")


@case("native policies and flags go on top of a bwrap policy")
def on_top(t):
    native = t.file("more.toml", '[limits]\npids = 7\n[net]\nmode = "none"\n')
    done = t.sbx("exec", "--policy", policy(t, USR), "--policy", native, "--env", "A=b", "--", "sh", "-c", "grep -c : /proc/net/dev; echo $A")
    t.expect(done, out=b"1\nb\n")


@case("a bwrap policy inside the shared workspace is refused: it says what is shared")
def in_workspace(t):
    t.file("w/p.bwrap", USR)
    done = t.sbx("exec", "--workspace", str(t.dir / "w"), "--policy", str(t.dir / "w/p.bwrap"), "--", "true")
    t.expect(done, status=2, err="lies inside the shared workspace")


@case("sbx run under a bwrap policy: the program is put in, the interpreter is what the policy shows", needs="python")
def languages(t):
    t.expect(t.sbx("run", "--policy", policy(t, USR + "--dev /dev --tmpfs /tmp --unshare-all"), "--lang", "python", "-c", "print(6 * 7)"), out=b"42\n")


@case("dangerous entries of /proc are masked whatever the order of --proc and --dev, or without --dev")
def masks(t):
    for more in ("--proc /proc --dev /dev", "--dev /dev --proc /proc", "--proc /proc", ""):
        t.expect(run(t, USR + more, "for n in cmdline locks interrupts; do wc -c < /proc/$n; done; cat /proc/keys | wc -c"), out=b"0\n0\n0\n0\n")
