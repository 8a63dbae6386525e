"""--mount and --workspace: what they show, whom files belong to, and what is refused."""

import os
import pathlib
import stat

from harness import Skip, case


def owner_is_callers(t, path):
    state = os.lstat(path)
    t.equal((state.st_uid, state.st_gid), (t.identity.uid, t.identity.gid), f"owner of {path}")


# ---- --mount

@case("--mount SRC shows a directory at its own path, read-only")
def same_path(t):
    t.file("share/a.txt", "content")
    t.expect(t.shell(f"cat {t.dir}/share/a.txt; touch {t.dir}/share/b 2>/dev/null || echo refused", "--mount", "share"),
             out="contentrefused\n")


@case("--mount SRC:DST shows it elsewhere, and a single file works too")
def elsewhere(t):
    t.file("share/a.txt", "content")
    t.expect(t.shell("cat /data/a.txt /one", "--mount", "share:/data", "--mount", "share/a.txt:/one"), out="contentcontent")


@case("a place below /var/tmp, /var/run or another link of the view is the one that the link leads to")
def below_a_link(t):
    t.file("share/a.txt", "content")
    t.expect(t.shell("cat /tmp/x/y/a.txt /var/tmp/x/y/a.txt /run/z",
                     "--mount", "share:/var/tmp/x/y", "--mount", "share/a.txt:/var/run/z"), out="content" * 3)
    t.expect(t.shell("echo ran", "--mount", "share:/var/run/sbx/x"), status=2, out="", err="/run/sbx belongs to the sandbox")


@case("--mount SRC:DST:rw writes through; the files come back as the caller's own")
def read_write(t):
    t.mkdir("share")
    t.file("share/old", "1")
    t.expect(t.shell("echo new > /data/new; echo more >> /data/old; mkdir /data/d; stat -c %U /data/old", "--mount", "share:/data:rw"), out="sandbox\n")
    t.equal((t.dir / "share/new").read_text(), "new\n")
    t.equal((t.dir / "share/old").read_text(), "1more\n")
    for name in ("new", "old", "d"):
        owner_is_callers(t, t.dir / "share" / name)


@case("a private file of the caller's (0600) in a shared directory can be read inside")
def private_file(t):
    t.file("share/secret", "mine", 0o600)
    t.expect(t.shell("cat /data/secret", "--mount", "share:/data"), out="mine")


@case("SRC:ro and SRC:rw without DST mean the same path")
def mode_only(t):
    t.mkdir("share")
    t.expect(t.shell(f"touch {t.dir}/share/x && echo ok", "--mount", f"{t.dir}/share:rw"), out="ok\n")
    t.expect(t.shell(f"touch {t.dir}/share/y 2>/dev/null || echo no", "--mount", f"{t.dir}/share:ro"), out="no\n")


@case("a missing mount source is an error that names it and the flag; nothing runs")
def missing(t):
    done = t.shell("echo ran", "--mount", "nowhere:/x")
    t.expect(done, status=(2, 125), out="", err=r"^sbx: .*nowhere")
    t.match(done.errors, r"[Nn]o such file", "the errno in words")


REFUSED = ("/", "/etc", "/root", "/home")


@case("exactly /, /etc, /root and /home are refused, with the reason")
def refused_places(t):
    for place in REFUSED:
        done = t.shell("echo ran", "--mount", f"{place}:/x")
        t.expect(done, status=(2, 125), out="", err=r"^sbx: ")
        t.match(done.errors, r"--allow-sensitive-mount", f"the way out for {place}")


@case("other spellings of a refused place are refused as well: .., links, /proc/self/root")
def refused_spellings(t):
    (t.dir / "link").symlink_to("/etc")
    for place in ("/usr/..", "//", "/usr/../etc", str(t.dir / "link"), "/proc/self/root/etc", "/etc/"):
        t.expect(t.shell("echo ran", "--mount", f"{place}:/x"), status=(2, 125), out="", err=r"^sbx: ")


@case("the caller's home directory itself is refused")
def refused_home(t):
    t.expect(t.shell("echo ran", "--mount", f"{t.identity.home}:/x"), status=(2, 125), out="", err="--allow-sensitive-mount")


@case("credential directories and what lies in them are refused; the same under an ordinary name is fine")
def refused_credentials(t):
    for name in (".ssh", ".gnupg", ".aws", ".kube", ".docker", ".config/gcloud", ".mozilla"):
        t.file(f"home/{name}/secret", "KEY", 0o600)
        for place in (f"{t.home}/{name}", f"{t.home}/{name}/secret"):
            t.expect(t.shell("cat /x /x/secret", "--mount", f"{place}:/x", env={"HOME": t.home}), status=(2, 125), out="", err=r"^sbx: ")
    t.file("home/.netrc", "KEY", 0o600)
    t.expect(t.shell("cat /x", "--mount", f"{t.home}/.netrc:/x", env={"HOME": t.home}), status=(2, 125), out="", err=r"^sbx: ")
    t.file("home/project/secret", "fine")
    t.expect(t.shell("cat /x/secret", "--mount", f"{t.home}/project:/x", env={"HOME": t.home}), out="fine")


@case("sockets and devices are refused")
def refused_kinds(t):
    import socket
    server = socket.socket(socket.AF_UNIX)
    path = str(t.dir / "s")
    server.bind(path)
    t.own(path)
    t.at_end(server.close)
    for place in (path, "/dev/null", "/dev/kmsg"):
        t.expect(t.shell("echo ran", "--mount", f"{place}:/x"), status=(2, 125), out="", err=r"^sbx: ")


@case("--allow-sensitive-mount allows it")
def allowed(t):
    t.expect(t.shell("test -e /x/passwd && echo seen", "--allow-sensitive-mount", "--mount", "/etc:/x"), out="seen\n")


@case("a project below a refused place is fine")
def project_below(t):
    t.file("home/work/a.txt", "fine")
    t.expect(t.shell("cat /x/a.txt", "--mount", f"{t.home}/work:/x"), out="fine")


@case("a link inside a mounted directory leads nowhere outside")
def links_inside(t):
    t.file("outside/secret", "SECRET")
    t.mkdir("share")
    (t.dir / "share/link").symlink_to(t.dir / "outside/secret")
    (t.dir / "share/shadow").symlink_to("/etc/shadow")
    done = t.shell("cat /data/link; cat /data/shadow; true", "--mount", "share:/data")
    t.equal(done.out, b"", "what links gave")


@case("set-uid bits are inert in mounts: nosuid, and devices do not open")
def mount_options(t):
    t.mkdir("share")
    done = t.expect(t.shell("grep ' /data ' /proc/self/mountinfo", "--mount", "share:/data"))
    for word in ("ro", "nosuid", "nodev"):
        t.match(done.text, rf"\b{word}\b", "mount options")


@case("a mount cannot be put at a relative path, nor over /, /proc and /dev")
def reserved_targets(t):
    t.mkdir("share")
    for target in ("relative/path", "/proc", "/dev", "/"):
        done = t.shell("echo ran", "--mount", f"share:{target}:ro")
        t.expect(done, status=(2, 125), out="", err=r"^sbx: ")


# ---- --workspace

@case("a workspace stands at /box, read-only unless said otherwise")
def workspace(t):
    t.file("proj/a.txt", "content")
    for value in ("proj", "proj:ro"):
        t.expect(t.shell("pwd; cat a.txt; touch new 2>/dev/null || echo refused", "--workspace", value), out="/box\ncontentrefused\n")
    t.true(not (t.dir / "proj/new").exists(), "written on the host")


@case("a FILE inside the workspace runs where it stands", needs="python")
def workspace_file(t):
    t.file("proj/pkg/main.py", "import os, helper; print(os.getcwd(), __file__, helper.x)")
    t.file("proj/pkg/helper.py", "x = 42")
    t.expect(t.sbx("run", "--workspace", "proj", "proj/pkg/main.py"), out_match=r"^/box /box/pkg/main\.py 42$")


@case("the working directory is the caller's own when it lies inside the workspace", needs="python")
def workspace_cwd(t):
    t.file("proj/sub/main.py", "import os; print(os.getcwd())")
    t.expect(t.sbx("run", "--workspace", "..", "main.py", cwd=t.dir / "proj/sub"), out="/box/sub\n")
    t.expect(t.sbx("exec", "--workspace", "..", "--", "pwd", cwd=t.dir / "proj/sub"), out="/box/sub\n")


@case("--workspace . of the CI line works: run a script of the tree", needs="python")
def workspace_dot(t):
    t.file("proj/tests/run.py", "import sys, lib; print(lib.y, sys.argv[1:])")
    t.file("proj/tests/lib.py", "y = 1")
    t.expect(t.sbx("run", "--workspace", ".", "--memory", "512M", "--time", "10m", "tests/run.py", "-x", cwd=t.dir / "proj", result=True),
             out="1 ['-x']\n", verdict="exited")


@case("a FILE outside the workspace, -c and stdin lie in /run/sbx/src", needs="python")
def workspace_outside(t):
    t.mkdir("proj")
    t.file("tool.py", "import os; print(__file__, os.getcwd())")
    t.expect(t.sbx("run", "--workspace", "proj", "tool.py"), out="/run/sbx/src/tool.py /box\n")
    for done in (t.sbx("run", "--workspace", "proj", "--lang", "python", "-c", "print(__file__)"),
                 t.sbx("run", "--workspace", "proj", "--lang", "python", stdin="print(__file__)")):
        t.expect(done, out_match=r"^/run/sbx/src/\S+\.py$")


@case(":rw writes to the host; what is made and changed belongs to the caller")
def workspace_rw(t):
    t.file("proj/old", "1")
    t.file("proj/private", "p", 0o600)
    t.expect(t.shell("cat private; echo 2 >> old; echo n > new; mkdir -p d/e; mv old older; ln -s new link; chmod 755 new", "--workspace", "proj:rw"), out="p")
    proj = t.dir / "proj"
    t.equal((proj / "older").read_text(), "12\n")
    for name in ("new", "older", "d", "d/e", "link"):
        owner_is_callers(t, proj / name)
    t.equal(stat.S_IMODE(os.stat(proj / "new").st_mode), 0o755)


@case(":overlay lets the payload write, append, rename and delete, and leaves the host as it was")
def workspace_overlay(t):
    t.file("proj/keep", "1")
    t.file("proj/del", "1")
    t.file("proj/dir/f", "1")
    before = snapshot(t.dir / "proj")
    t.expect(t.shell("echo 2 >> keep; rm del; mv dir/f dir/g; echo n > new; chmod 600 keep; cat keep new; ls . dir", "--workspace", "proj:overlay"),
             out="12\nn\n.:\ndir\nkeep\nnew\n\ndir:\ng\n")
    t.equal(snapshot(t.dir / "proj"), before, "the host's tree")


@case("in an :overlay workspace directories of the host can be removed, and made anew", needs="tmpfs-xattr")
def overlay_directories(t):
    t.file("proj/dir/f", "1")
    before = snapshot(t.dir / "proj")
    t.expect(t.shell("rm -r dir; ls; mkdir dir; echo 2 > dir/g; ls dir", "--workspace", "proj:overlay"), out="g\n")
    t.equal(snapshot(t.dir / "proj"), before, "the host's tree")


def snapshot(root):
    found = {}
    for path in sorted(pathlib.Path(root).rglob("*")):
        state = path.lstat()
        found[str(path.relative_to(root))] = (state.st_mode, state.st_uid, state.st_size, state.st_mtime_ns,
                                              path.read_bytes() if path.is_file() else b"")
    return found


PROTECTED = (".git/hooks/pre-commit", ".git/config", ".envrc", ".vscode/settings.json", ".vscode/tasks.json",
             ".idea/workspace.xml", ".claude/settings.json", ".mcp.json")


@case("with :rw the places that the host later trusts stay as they are, whatever the payload tries")
def sensitive(t):
    for name in PROTECTED:
        t.file(f"proj/{name}", "host")
    before = {name: (t.dir / "proj" / name).read_text() for name in PROTECTED}
    t.expect(t.shell("for f in " + " ".join(PROTECTED) + "; do echo evil > $f; rm -f $f; mv $f $f.x; ln -sf /tmp/x $f; done 2>/dev/null; "
                     "echo evil > .git/hooks/post-checkout 2>/dev/null; mv .git .git2 2>/dev/null; mv .git/hooks .git/h 2>/dev/null; "
                     "rm -rf .git/hooks 2>/dev/null; mkdir -p .git/hooks 2>/dev/null; echo evil > .git/hooks/post-merge 2>/dev/null; echo ok > normal; true",
                     "--workspace", "proj:rw"))
    for name in PROTECTED:
        t.equal((t.dir / "proj" / name).read_text() if (t.dir / "proj" / name).exists() else "(gone)", before[name], name)
    for name in ("post-checkout", "post-merge"):
        t.true(not (t.dir / "proj/.git/hooks" / name).exists(), f"a hook {name} was made")
    t.true((t.dir / "proj/normal").exists(), "an ordinary file was not written")


@case("-q does not hide what was put aside in the caller's directory")
def sensitive_quiet(t):
    t.file("proj/a", "x")
    t.expect(t.shell("echo evil > .envrc", "-q", "--workspace", "proj:rw"), err=r"^sbx: .*\.envrc")


@case("with :rw a trusted place that does not exist yet cannot be made either")
def sensitive_missing(t):
    t.file("proj/.git/HEAD", "ref: refs/heads/main\n")
    t.expect(t.shell("mkdir -p .git/hooks .vscode; echo evil > .git/hooks/pre-commit; echo evil > .git/config; echo evil > .envrc; "
                     "echo evil > .vscode/settings.json; true", "--workspace", "proj:rw"), status=0)
    for name in (".git/hooks/pre-commit", ".git/config", ".envrc", ".vscode/settings.json"):
        path = t.dir / "proj" / name
        t.true(not path.exists() or path.read_text() != "evil\n", f"{name} was made by the payload")


@case("a .git that is a file (worktree, submodule) cannot be redirected")
def sensitive_worktree(t):
    t.file("proj/.git", "gitdir: /somewhere\n")
    t.expect(t.shell("echo 'gitdir: /box/evil' > .git; rm -f .git; true", "--workspace", "proj:rw"))
    t.equal((t.dir / "proj/.git").read_text(), "gitdir: /somewhere\n")


@case("git itself works in a :rw workspace: add and commit")
def git_works(t):
    import shutil
    if not shutil.which("git"):
        raise Skip("needs git")
    t.mkdir("proj")
    t.run(["git", "init", "-q", "proj"])
    t.expect(t.shell("git config --global user.email a@example.org; git config --global user.name a; git config --global safe.directory '*'; "
                     "echo x > f && git add f && git commit -qm m && git log --oneline | wc -l", "--workspace", "proj:rw"), out="1\n")


@case("--allow-sensitive-write lifts the protection")
def sensitive_allowed(t):
    t.file("proj/.git/hooks/pre-commit", "host")
    t.expect(t.shell("echo changed > .git/hooks/pre-commit", "--workspace", "proj:rw", "--allow-sensitive-write"))
    t.equal((t.dir / "proj/.git/hooks/pre-commit").read_text(), "changed\n")


@case("a refused place is refused as a workspace too")
def workspace_refused(t):
    for place in ("/", "/etc", t.identity.home):
        t.expect(t.shell("echo ran", "--workspace", place), status=(2, 125), out="", err=r"^sbx: ")


@case("a workspace that is missing, a file, or of an unknown mode is wrong usage that names it")
def workspace_bad(t):
    t.file("afile", "x")
    for value in ("nowhere", "afile", "afile:rx"):
        t.expect(t.shell("echo ran", "--workspace", value), status=(2, 125), out="", err=r"^sbx: ")


SET_ID_CALLS = ("open", "openat", "tmpfile", "openat2", "creat", "mknod", "mknodat", "fchmod", "chmod", "fchmodat", "fchmodat2")


@case("no call makes a set-uid file in a writable host directory; in the private /box the same call works (control)", needs="x86_64")
def set_uid(t):
    t.mkdir("proj")
    os.chmod(t.dir / "proj", 0o777)
    for call in SET_ID_CALLS:
        inside = t.probed("mode-bits", call, "/box", flags=("--workspace", "proj:rw")).text.strip()
        t.true(inside in ("EPERM", "ENOSYS", "EOPNOTSUPP", "stripped"), f"{call} in a writable workspace: {inside}")
    for path in (t.dir / "proj").iterdir():
        t.true(not path.lstat().st_mode & 0o6000, f"{path} has mode {oct(path.lstat().st_mode)}")
    control = {call: t.probed("mode-bits", call, "/box").text.strip() for call in ("chmod", "open", "fchmod")}
    t.true("ok" in control.values(), f"control: {control}")


@case("in a :rw mount too, no set-uid file can be made, and gid bits of a directory do not survive either")
def set_uid_mount(t):
    t.mkdir("share")
    done = t.shell("cp /bin/true /data/t && chmod u+s,g+s /data/t; mkdir /data/d && chmod g+s /data/d; true", "--mount", "share:/data:rw")
    for path in (t.dir / "share").iterdir():
        t.true(not path.lstat().st_mode & 0o6000, f"{path.name} {oct(path.lstat().st_mode)}\n{done.describe()}")


# ---- mounts stay inside

@case("on a host whose mounts are shared, what is mounted inside does not show up on the host", as_=("root",))
def no_propagation(t):
    # A mount namespace of the test's own, shared as systemd makes it; a protected .git/hooks is a mount inside.
    script = ("set -e; mount --make-rshared /; mkdir -p proj/.git/hooks; touch proj/.git/config; "
              "before=$(cat /proc/self/mountinfo | wc -l); "
              '"$0" exec --workspace proj:rw -- /bin/sh -c "grep -c /box/.git /proc/self/mountinfo"; '
              "echo $(( $(cat /proc/self/mountinfo | wc -l) - before ))")
    done = t.expect(t.run(["unshare", "--mount", "--propagation", "shared", "/bin/bash", "-c", script, t.binary]))
    inside, outside = done.text.split()
    t.true(int(inside) >= 2, f"the control: {inside} mounts below .git inside")
    t.equal(outside, "0", "mounts that came out")


# ---- file systems that cannot be idmapped (overlay, as a container's root is), for a root caller

def on_overlay(t, script):
    """Runs script in a mount namespace of the test's own, its working directory on an overlay; files belong to root."""
    setup = ("set -e; mkdir -p scratch; mount -t tmpfs scratch scratch; cd scratch; mkdir lower upper work merged; "
             "mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay merged; mkdir merged/proj; cd merged; "
             "echo shown > proj/open; echo hidden > proj/secret; ln -s secret proj/link; mkdir proj/d; echo deep > proj/d/f; chmod 600 proj/secret; ")
    return t.run(["unshare", "--mount", "--propagation", "private", "/bin/bash", "-c", setup + script, t.binary])


@case("a workspace that cannot be idmapped is shown as a stranger sees it, if everybody may enter it", as_=("root",))
def unmappable_open(t):
    t.expect(on_overlay(t, '"$0" exec --workspace proj -- /bin/sh -c "cat open; cat secret 2>/dev/null || echo unreadable"'), out="shown\nunreadable\n")


@case("a private workspace that cannot be idmapped is copied in, read-only or as an overlay's lower side", as_=("root",))
def unmappable_private(t):
    inside = "cat open link d/f; stat -c %U secret; touch new 2>/dev/null && ls new || echo read-only"
    done = on_overlay(t, f'chmod 700 proj; "$0" exec --workspace proj -- /bin/sh -c "{inside}"; "$0" exec --workspace proj:overlay -- /bin/sh -c "{inside}"; ls proj')
    t.expect(done, out="shown\nhidden\ndeep\nsandbox\nread-only\nshown\nhidden\ndeep\nsandbox\nnew\nd\nlink\nopen\nsecret\n")


@case("a private workspace that cannot be idmapped and is larger than --disk is refused with the reason", as_=("root",))
def unmappable_large(t):
    done = on_overlay(t, 'chmod 700 proj; head -c 20M /dev/zero > proj/big; "$0" exec --disk 10M --workspace proj -- echo ran')
    t.expect(done, status=125, out="", err=r"^sbx: .*does not fit")


@case("a writable workspace that cannot be idmapped is written as its owner; one of root's is refused and :overlay named", as_=("root",))
def unmappable_writable(t):
    done = on_overlay(t, 'chown -R 4321:4321 proj; "$0" exec --workspace proj:rw -- /bin/sh -c "cat secret; echo x > made; id -u"; stat -c "%u %g" proj/made')
    t.expect(done, out="hidden\n1000\n4321 4321\n")
    done = on_overlay(t, '"$0" exec --workspace proj:rw -- echo ran')
    t.expect(done, status=125, out="", err=r"^sbx: hint: .*:overlay")
