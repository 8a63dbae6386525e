"""Containers as people start them, and what sbx makes of each. A case gets `t` (run.Trial); see README.md."""

import pathlib
import re
import subprocess

import podman
from run import case

UNCONFINED = ["--security-opt", "seccomp=unconfined"]
UNMASKED = ["--security-opt", "unmask=ALL"]
OPEN = UNCONFINED + UNMASKED  # what the recipes of docs/ci.md say, without AppArmor's part
SAMPLED = {"memory": "sampling every 20 ms, and RLIMIT_DATA for each process", "pids": "RLIMIT_NPROC in a user namespace of its own"}
OWN_UID = "a host uid of its own"
CALLERS_UID = "the caller's uid in a user namespace"
ALL_OPTIONS = r"start the container with: podman run (--security-opt \S+ ?){3}$"

EVERYBODY = ("root", "full", "one")
IDENTITY = {"root": OWN_UID, "full": OWN_UID, "one": CALLERS_UID}


@case("a privileged container: everything works, each limit held by what the host offers", who=EVERYBODY)
def privileged(t):
    inside = t.works(["--privileged"], identity=IDENTITY[t.who])
    if not t.podman.cgroups:
        t.equal({k: inside.held[k] for k in SAMPLED}, SAMPLED, "limits held by")
        t.true(any(r.startswith("no cgroup holds memory and processes: ") for r in inside.isolation["not_held"]), "the reason is told")


@case("sbx selftest in a container: everything is blocked, and what the container takes away is named", who=EVERYBODY)
def selftest(t):
    inside = t.works(["--privileged"], identity=IDENTITY[t.who], extra="tell selftest sbx selftest\n", record=False)
    told = inside.told["selftest"]
    t.equal(told.status, 0, f"status\n{told.text}")
    t.match(told.text, r"(?m)^\d+ blocked, 0 open, \d+ not applicable here$")
    if any(holder.startswith("sampling") for holder in inside.held.values()):
        t.match(told.text, r"(?m)^reduced here: no cgroup: the limit of memory is held by sampling")


@case("a container as podman starts it: refused in one line, whose options make it work", who=EVERYBODY)
def plain(t):
    refused = t.refused([], r"^the container around sbx masks parts of /proc, .*; " + ALL_OPTIONS)
    t.match(refused.doctor["verdict"], r"user-namespaces: the seccomp filter of the container around sbx refuses .*; " + ALL_OPTIONS)
    t.works(options_in(refused.hint), identity=IDENTITY[t.who])


@case("seccomp=unconfined alone leaves /proc masked: refused, and unmask=ALL is what it takes", who=EVERYBODY)
def masked_proc(t):
    refused = t.refused(UNCONFINED, r"masks parts of /proc, and the kernel then forbids a new one; start the container with: --security-opt unmask=ALL$")
    t.works(UNCONFINED + options_in(refused.hint), identity=IDENTITY[t.who])


@case("unmask=ALL alone leaves the filter: refused with the name of the filter", who=EVERYBODY)
def filtered(t):
    refused = t.refused(UNMASKED, r"^the seccomp filter of the container around sbx refuses .*; " + ALL_OPTIONS)
    t.works(options_in(refused.hint), identity=IDENTITY[t.who])


@case("CAP_SYS_ADMIN opens podman's filter: with an unmasked /proc sbx works under it", who=EVERYBODY)
def sys_admin(t):
    t.works(["--cap-add", "SYS_ADMIN"] + UNMASKED, identity=IDENTITY[t.who])


@case("no-new-privileges is no obstacle", who=EVERYBODY)
def no_new_privileges(t):
    t.works(OPEN + ["--security-opt", "no-new-privileges"], identity=IDENTITY[t.who])


@case("without capabilities: those that root needs are named, and either remedy works", who=("root", "full"))
def dropped(t):
    options = OPEN + ["--cap-drop", "ALL"]
    refused = t.refused(options, r"^start the container with:( --cap-add \w+){3}, or as another user than root: --user 1000:1000$",
                        error=r"root here lacks CAP_CHOWN, CAP_SETGID, CAP_SETUID$")
    first, second = refused.hint.split(", or as another user than root: ")
    t.works(options + options_in(first), identity=OWN_UID)
    t.works(options + second.split(), identity=CALLERS_UID)


@case("without capabilities and with one uid: root can only map itself, which takes CAP_SETFCAP", who=("one",))
def dropped_one(t):
    options = OPEN + ["--cap-drop", "ALL"]
    refused = t.refused(options, r"^root here lacks CAP_SETFCAP; start the container with: --cap-add SETFCAP$")
    t.works(options + options_in(refused.hint), identity=CALLERS_UID)


@case("a container whose user is not root: as it comes refused, with the options it works", who=("root", "full"))
def other_user(t):
    refused = t.refused(["--user", "1000:1000"], ALL_OPTIONS)
    t.works(["--user", "1000:1000"] + options_in(refused.hint), identity=CALLERS_UID)
    t.works(["--user", "1000:1000", "--privileged"], identity=CALLERS_UID)


@case("a read-only root file system: works; without podman's tmpfs on /run root needs one, a user needs none", who=("root", "full"))
def read_only(t):
    t.works(["--privileged", "--read-only"], identity=OWN_UID)
    bare = ["--read-only", "--read-only-tmpfs=false"]
    refused = t.refused(OPEN + bare, r"^mount a tmpfs on /run \(--tmpfs /run\), or run sbx as an ordinary user$", error=r"/run/sbx.*Read-only file system")
    t.works(OPEN + bare + options_in(refused.hint.split("(")[1].split(")")[0]), identity=OWN_UID)
    t.works(OPEN + bare + ["--user", "1000:1000"], identity=CALLERS_UID)


@case("a read-only root file system and one uid", who=("one",))
def read_only_one(t):
    t.works(OPEN + ["--read-only", "--read-only-tmpfs=false"], identity=CALLERS_UID)


PLACES = ("ro", "rw", "over", "private", "owned", "shared", "volume")
OWN_TMPFS = "cp /volume/* /work; cd /volume; tell volume-doctor sbx doctor\n"
WORKSPACES = r"""
cd /work
tell ro   sbx run --workspace . hello.py
tell rw   sbx run --workspace .:rw write.py
tell over sbx run --workspace .:overlay write.py
mkdir -m 700 /tmp/private /tmp/owned
cp /work/* /tmp/private
cp /work/* /tmp/owned
chown -R 1234:1234 /tmp/owned
cd /tmp/private
tell private sbx run --workspace . hello.py
cd /tmp/owned
tell owned sbx run --workspace .:rw write.py
stat -c 'made by %u' made.txt
cd /volume
tell shared sbx run --workspace .:overlay write.py
tell volume sbx run --workspace .:rw write.py
stat -c 'made by %u' made.txt
"""


@case("an overlay root cannot be idmapped: shown or copied, :rw only as an owner who is not root; a volume can", who=("root",))
def overlay_root(t):
    inside = t.works(["--privileged", "-v", f"{t.volume()}:/volume"], extra=WORKSPACES)
    t.equal(inside.finding("idmapped-mounts")["state"], "degraded", "idmapped-mounts in doctor")
    told = inside.told
    t.equal({name: told[name].status for name in PLACES}, {**dict.fromkeys(PLACES, 0), "rw": 125}, "statuses")
    t.match(told["rw"].text, "cannot be idmapped, .*\nsbx: hint: share the directory with :overlay, or run sbx as the owner of its files$")
    t.match(told["owned"].text, "written\nmade by 1234")
    t.match(told["volume"].text, "written\nmade by 0")


@case("a rootless container's volumes are its host's, who alone can idmap them; its own tmpfs it can", who=("full",))
def overlay_root_rootless(t):
    inside = t.works(["--privileged", "-v", f"{t.volume()}:/volume", "--tmpfs", "/work"], extra=OWN_TMPFS + WORKSPACES, record=False)
    told = inside.told
    t.equal({name: told[name].status for name in PLACES}, {**dict.fromkeys(PLACES, 0), "volume": 125}, "statuses")
    t.match(told["volume"].text, "belongs to the container's host and cannot be idmapped, .*\nsbx: hint: share the directory with :overlay, .*")
    t.match(told["volume-doctor"].text, "'/volume' \\(ext4\\) belongs to the container's host: .*\n.*\n.*work in a tmpfs of the container's own")


@case("root without CAP_SYS_ADMIN shows what everybody may read, and names the capability for the rest", who=("root", "full"))
def workspaces_without_sys_admin(t):
    inside = t.works(OPEN + ["-v", f"{t.volume()}:/volume"], extra=WORKSPACES)
    t.equal(inside.finding("idmapped-mounts")["found"], "root here lacks CAP_SYS_ADMIN", "doctor")
    told = inside.told
    refused = ("rw", "over", "private", "shared", "volume")
    t.equal({name: told[name].status for name in PLACES}, {name: 125 if name in refused else 0 for name in PLACES}, "statuses")
    for name in refused:
        t.match(told[name].text, r"^sbx: hint: start the container with --cap-add SYS_ADMIN, or run sbx as the owner of the files$")
    control = t.works(OPEN + ["--cap-add", "SYS_ADMIN", "-v", f"{t.volume()}:/volume"], extra=WORKSPACES).told
    for name in ("over", "private", "shared") + (("volume",) if t.who == "root" else ()):
        t.equal(control[name].status, 0, f"with it, status of {name}: {control[name].text}")


@case("with one uid root is a user: every workspace works, all files are its own", who=("one",))
def workspaces_one(t):
    told = t.works(OPEN + ["-v", f"{t.volume()}:/volume"], extra=WORKSPACES.replace("chown", "true")).told
    t.equal({name: told[name].status for name in PLACES}, dict.fromkeys(PLACES, 0), "statuses")


@case("a root without /usr: sandboxes run, and doctor's mount calls are tried on what there is", who=("root",))
def without_usr(t):
    tree = t.small_tree()
    inside = t.works(["--privileged"], rootfs=tree, record=False)
    t.equal(inside.finding("mount-api")["state"], "ok", "mount-api")


# ---- chroot: no container, but what is taken for one ------------------------------------------------------------

CHROOT = """
mount --bind /proc "$1/proc" && mount --bind /dev "$1/dev"
exec setpriv --reuid "$2" --regid "$2" --clear-groups env -i PATH=/usr/bin HOME=/tmp chroot "$1" sh -c "$3"
"""


@case("a chroot is named as what it is, not as a container; entered by pivot_root it works", who=("root",))
def chroot(t):
    tree = str(t.image.tree)
    script = t.script("")
    done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c",
                           'mount --bind /proc "$1/proc" && mount --bind /dev "$1/dev" && exec chroot "$1" sh -c "$2"', "sh", tree, script],
                          capture_output=True, timeout=60, env={"PATH": podman.harness.SYSTEM_PATH})
    refused = t.read(podman.Done(["chroot"], done.returncode, done.stdout, done.stderr, 0), "a plain chroot")
    t.check_refused(refused, r"^sbx runs in a chroot, where the kernel makes no user namespaces; run it outside, or enter the tree by pivot_root: ")
    t.equal(refused.finding("surroundings")["found"].split(",")[0], "no container that shows itself", "surroundings")
    command = refused.hint.split("pivot_root: ")[1].replace("DIR DIR", '"$1" "$1"').replace("cd DIR", 'mount --bind /proc "$1/proc" && mount --bind /dev "$1/dev" && cd "$1"')
    command = command.replace("exec COMMAND'", "exec sh -c \"$2\"' sh \"$1\" \"$2\"")
    done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", command, "sh", tree, script],
                          capture_output=True, timeout=60, env={"PATH": podman.harness.SYSTEM_PATH})
    t.check_works(t.read(podman.Done(["pivot_root"], done.returncode, done.stdout, done.stderr, 0), "pivot_root instead"), OWN_UID)


# ---- cgroup v2 --------------------------------------------------------------------------------------------------

LIMITS = r"""
cat > /tmp/heap.py <<'X'
kept = []
while True: kept.append(bytearray(1 << 20))
X
tell heap sbx run --memory 64M --result /tmp/heap.json /tmp/heap.py
cat > /tmp/forks.py <<'X'
import os
made = 0
try:
    while made < 40:
        if os.fork() == 0: os.read(0, 1); os._exit(0)
        made += 1
except OSError as e: print('stopped by errno', e.errno)
X
tell forks sbx run --pids 16 --result /tmp/forks.json /tmp/forks.py
tell cpus sbx run --cpus 0.5 -c 'print("half a CPU")' --lang python
tell end cat /tmp/heap.json
cd /sys/fs/cgroup
echo "left: $(echo */), processes beside: $(wc -l < cgroup.procs)"
"""


def own_cgroup(t, options):
    inside = t.works(options, extra=LIMITS)
    t.equal(inside.held["memory"], "cgroup v2 memory.max, without swap", "memory held by")
    t.equal(inside.held["pids"], "cgroup v2 pids.max", "processes held by")
    for name in ("cgroup", "cgroup-delegation", "cgroup-memory", "cgroup-pids", "cgroup-cpu"):
        t.equal(inside.finding(name)["state"], "ok", f"{name} in doctor")
    told = inside.told
    t.equal(told["heap"].status, 137, "status of the heap")
    t.match(told["end"].text, r'"verdict": "out_of_memory"')
    t.match(told["end"].text, "^left: sbx-sup/, processes beside: 0$")
    t.match(told["forks"].text, "stopped by errno 11")
    t.match(told["cpus"].text, "half a CPU")


@case("a container that owns its cgroup subtree: sbx moves aside, and v2 holds memory, processes and CPU", who=("root",), needs="v2")
def cgroup_privileged(t):
    own_cgroup(t, ["--privileged", "--cgroupns=private"])


@case("unmask=ALL hands the cgroup over without privileges", who=("root",), needs="v2")
def cgroup_unmasked(t):
    own_cgroup(t, OPEN + ["--cgroupns=private"])


@case("a container that sees its cgroup read-only: limits are sampled, and doctor's remedy holds them", who=("root",), needs="v2")
def cgroup_read_only(t):
    inside = t.works(["--cap-add", "SYS_ADMIN", "--security-opt", "unmask=/proc/*"] + UNCONFINED)
    t.equal({k: inside.held[k] for k in SAMPLED}, SAMPLED, "limits held by")
    mend = inside.finding("cgroup-delegation")["mend"]
    t.match(mend, r"podman with --security-opt unmask=/sys/fs/cgroup$")
    own_cgroup(t, ["--cap-add", "SYS_ADMIN", "--security-opt", "unmask=/proc/*"] + UNCONFINED + options_in(mend.split("podman with ")[1]))


@case("an image FROM scratch with the tarball alone: --version, and a doctor that says what is missing there", who=("root",))
def from_scratch(t):
    t.needs_tarball()
    context = t.folder / "scratch"
    context.mkdir()
    (context / "Dockerfile").write_text("FROM scratch\nADD files.tar.gz /\n")
    (context / "files.tar.gz").write_bytes(pathlib.Path(t.tarball).read_bytes())
    t.podman.build(context, "localhost/sbx-scratch")
    place = f"/{pathlib.Path(t.tarball).name.removesuffix('.tar.gz')}/bin"
    image = ["localhost/sbx-scratch"]
    said = t.podman.start([], image, [f"{place}/sbx", "--version"])
    t.match(said.text, r"^sbx [0-9.]+$", "--version")
    doctor = t.podman.start(OPEN, image, [f"{place}/sbx", "doctor"])
    t.equal(doctor.status, 1, "status of doctor")
    t.match(doctor.text, r"^ok +user-namespaces, mount-namespace", "doctor's last rows")
    t.match(doctor.text, r"^missing +sandbox +command not found inside the sandbox: 'true'$", "doctor's own sandbox")
    inside = t.podman.start(OPEN, image, [f"{place}/sbx", "exec", "--mount", f"{place}:/opt", "--", "/opt/sbx", "--version"])
    t.equal((inside.status, inside.text), (0, said.text), "what a program of the image's own prints in a sandbox")


def options_in(line):
    """The options of a `podman run` that a hint names."""
    return re.search(r"--[a-z].*$", line).group(0).split()
