// Hosts that are not at hand, as reports: for each the one line that says which outer setting is needed.
#include <doctest/doctest.h>

#include <cerrno>
#include <set>

#include "runtime/doctor.h"

using namespace sbx;
using namespace sbx::runtime;

namespace {

// An ordinary user on a host where everything works: Debian 13, logged in through systemd.
HostReport healthy() {
  HostReport r;
  r.kernel = "6.12.0-1-amd64";
  r.arch = "x86_64";
  r.uid = 1000;
  r.mapped_uids = 4294967295u;
  r.knobs.uid = 1000;
  r.knobs.max_user_namespaces = 31000;
  for (Tried* tried : {&r.user_namespace, &r.mount_namespace, &r.pid_namespace, &r.ipc_namespace, &r.uts_namespace,
                       &r.net_namespace, &r.cgroup_namespace, &r.id_map, &r.capability, &r.private_mounts, &r.tmpfs, &r.proc,
                       &r.open_tree, &r.mount_setattr, &r.move_mount, &r.tmpfs_xattr, &r.overlay, &r.pty, &r.loopback,
                       &r.close_nested, &r.no_new_privs, &r.seccomp, &r.listener, &r.wait_killable, &r.landlock,
                       &r.user_manager, &r.temporary}) {
    *tried = Tried::ok();
  }
  r.landlock_abi = 6;
  r.lsm = "lockdown,capability,landlock,yama,apparmor";
  r.working_directory = "/home/ada/project";
  r.file_system = "ext4";
  r.v2_mount = "/sys/fs/cgroup";
  r.v2_own = "/sys/fs/cgroup/user.slice/user-1000.slice/session-1.scope";
  r.make_cgroup = Tried::no(EACCES);
  r.delegated = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service";
  r.v2_controllers = {"cpu", "io", "memory", "pids"};
  r.manager_socket = "/run/user/1000/systemd/private";
  r.core_pattern = "core";
  r.temporary_directory = "/tmp";
  r.temporary_free = uint64_t{10} << 30;
  LanguageStatus python;
  python.name = "python";
  python.title = "Python";
  python.found = true;
  python.tool = "/usr/bin/python3";
  python.version = "3.13.5";
  r.languages = {python};
  r.ran = r.run_ok = true;
  r.run_us = 4560;
  r.limits_held_by = {{"memory", "cgroup v2 memory.max"}, {"pids", "cgroup v2 pids.max"}};
  return r;
}

// No namespace could be used: what needs one was not tried, and the run failed.
void without_namespaces(HostReport& r) {
  for (Tried* tried : {&r.mount_namespace, &r.pid_namespace, &r.ipc_namespace, &r.uts_namespace, &r.net_namespace,
                       &r.cgroup_namespace, &r.id_map, &r.capability, &r.private_mounts, &r.tmpfs, &r.proc, &r.open_tree,
                       &r.mount_setattr, &r.move_mount, &r.tmpfs_xattr, &r.overlay, &r.pty, &r.loopback, &r.close_nested}) {
    *tried = {};
  }
  r.run_ok = false;
  r.run_problem = "cannot create the sandbox's namespaces";
  r.limits_held_by.clear();
}

void in_container(HostReport& r, const std::string& name) {
  r.uid = r.knobs.uid = 0;
  r.root_identity = r.may_clone_trees = true;
  r.uid_lease = r.idmap = Tried::ok();
  r.knobs.container = name;
  r.user_manager = Tried::no(ENOENT);
  r.v2_own = r.v2_mount;
  r.make_cgroup = Tried::no(EROFS);
  r.delegated.clear();
  r.v2_controllers.clear();
  r.limits_held_by = {{"memory", "sampling every 20 ms, and RLIMIT_DATA for each process"},
                      {"pids", "RLIMIT_NPROC in a user namespace of its own"}};
}

const Finding& of(const Diagnosis& diagnosis, const std::string& name) {
  for (const Finding& f : diagnosis.findings) {
    if (f.name == name) return f;
  }
  FAIL("no finding " << name);
  return diagnosis.findings.front();
}

std::string state(const Diagnosis& diagnosis, const std::string& name) { return finding_state_name(of(diagnosis, name).state); }

}  // namespace

TEST_CASE("a host with everything is said to have everything") {
  const Diagnosis d = diagnose(healthy());
  CHECK(d.works);
  CHECK(d.verdict == "sandboxes work here, with everything");
  for (const Finding& f : d.findings) {
    CAPTURE(f.name);
    CHECK(f.state == FindingState::ok);
    CHECK(!f.found.empty());
    CHECK(f.meanwhile.empty());
    CHECK(f.mend.empty());
  }
  CHECK(of(d, "sandbox").found == "`true` ran and ended in 4.6 ms");
}

TEST_CASE("Ubuntu 24.04: the namespace is made, and AppArmor keeps its capabilities") {
  HostReport r = healthy();
  r.kernel = "6.8.0-31-generic";
  r.knobs.apparmor_restrict = 1;
  r.capability = r.loopback = Tried::no(EPERM);
  r.private_mounts = Tried::no(EACCES);
  for (Tried* tried : {&r.tmpfs, &r.proc, &r.open_tree, &r.mount_setattr, &r.move_mount, &r.tmpfs_xattr, &r.overlay, &r.pty,
                       &r.close_nested}) {
    *tried = {};
  }
  r.run_ok = false;
  r.run_problem = "cannot make the root";
  const Diagnosis d = diagnose(r);
  CHECK(!d.works);
  CHECK(d.verdict ==
        "no sandbox can be had here: user-namespaces: AppArmor restricts user namespaces here "
        "(kernel.apparmor_restrict_unprivileged_userns is 1) (Operation not permitted (EPERM)); allow them for sbx alone: sudo sbx "
        "doctor --fix=install; or for every program: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0");
  CHECK(of(d, "mounts").mend == of(d, "user-namespaces").mend);
  CHECK(of(d, "loopback").mend == of(d, "user-namespaces").mend);
  CHECK(state(d, "proc") == "unknown");

  SUBCASE("without Ubuntu's profile the namespace itself is refused, with EACCES") {
    r.user_namespace = Tried::no(EACCES);
    without_namespaces(r);
    CHECK(of(diagnose(r), "user-namespaces").mend == of(d, "user-namespaces").mend);
  }
  SUBCASE("the knob alone is no finding: what works, works") {
    HostReport fine = healthy();
    fine.knobs.apparmor_restrict = 1;
    CHECK(diagnose(fine).verdict == "sandboxes work here, with everything");
  }
}

TEST_CASE("RHEL 9: an old number with newer features counts by what was tried") {
  HostReport r = healthy();
  r.kernel = "5.14.0-427.13.1.el9_4.x86_64";
  r.landlock = Tried::no(EOPNOTSUPP);
  r.landlock_abi = 0;
  r.lsm = "lockdown,capability,yama,selinux,bpf";
  r.tmpfs_xattr = Tried::no(EOPNOTSUPP);
  const Diagnosis d = diagnose(r);
  CHECK(d.works);
  CHECK(d.verdict == "sandboxes work here; not at their best: kernel, landlock, tmpfs-xattr");
  CHECK(of(d, "kernel").found == "Linux 5.14.0-427.13.1.el9_4.x86_64 on x86_64 is older than 5.15; missing: Landlock (5.13)");
  CHECK(of(d, "landlock").mend ==
        "add to the kernel's command line and boot: lsm=landlock,lockdown,capability,yama,selinux,bpf");

  SUBCASE("hardened by a guide, with user namespaces at zero") {
    r.user_namespace = Tried::no(ENOSPC);
    r.knobs.max_user_namespaces = 0;
    without_namespaces(r);
    CHECK(diagnose(r).verdict ==
          "no sandbox can be had here: user-namespaces: user.max_user_namespaces is 0, so no user namespace can be made; another "
          "sandbox around sbx may have set that (No space left on device (ENOSPC)); on a host: sudo sysctl -w "
          "user.max_user_namespaces=65536 (to keep it: echo 'user.max_user_namespaces=65536' | sudo tee /etc/sysctl.d/60-sbx.conf)");
  }
}

TEST_CASE("an old kernel is refused, and each missing feature is named") {
  HostReport r = healthy();
  r.kernel = "5.10.0-28-amd64";
  r.overlay = Tried::no(EPERM);
  r.mount_setattr = r.landlock = Tried::no(ENOSYS);
  r.landlock_abi = 0;
  r.wait_killable = Tried::no(EINVAL);
  r.run_ok = false;
  const Diagnosis d = diagnose(r);
  CHECK(!d.works);
  CHECK(of(d, "kernel").found ==
        "Linux 5.10.0-28-amd64 on x86_64 is older than 5.15; missing: overlay in user namespaces (5.11), mount_setattr (5.12), "
        "Landlock (5.13), uninterrupted notification (5.19)");
  CHECK(d.verdict == "no sandbox can be had here: mount-api: mount_setattr is refused: Function not implemented (ENOSYS); boot Linux 5.15 or newer");
}

TEST_CASE("Debian with user namespaces switched off for users") {
  HostReport r = healthy();
  r.knobs.unprivileged_clone = 0;
  r.user_namespace = Tried::no(EPERM);
  without_namespaces(r);
  CHECK(of(diagnose(r), "user-namespaces").mend ==
        "sudo sysctl -w kernel.unprivileged_userns_clone=1 (to keep it: echo 'kernel.unprivileged_userns_clone=1' | sudo tee "
        "/etc/sysctl.d/60-sbx.conf)");
}

TEST_CASE("Debian 12, a user without a manager: sandboxes work, limits are sampled, linger is named") {
  HostReport r = healthy();
  r.kernel = "6.1.0-21-amd64";
  r.tmpfs_xattr = Tried::no(EOPNOTSUPP);
  r.user_manager = Tried::no(ENOENT);
  r.delegated.clear();
  r.v2_controllers.clear();
  r.limits_held_by = {{"memory", "sampling every 20 ms"}, {"pids", "RLIMIT_NPROC"}};
  const Diagnosis d = diagnose(r);
  CHECK(d.works);
  CHECK(d.verdict ==
        "sandboxes work here; not at their best: tmpfs-xattr, cgroup, cgroup-delegation, cgroup-memory, cgroup-pids, cgroup-cpu, "
        "cgroup-io, user-manager");
  CHECK(of(d, "cgroup").found == "memory: sampling every 20 ms; pids: RLIMIT_NPROC");
  CHECK(of(d, "cgroup").mend ==
        "sudo loginctl enable-linger $USER (a user manager then runs without a login; set XDG_RUNTIME_DIR=/run/user/1000 where the "
        "shell does not)");
  CHECK(of(d, "user-manager").mend == of(d, "cgroup").mend);
  CHECK(of(d, "tmpfs-xattr").mend == "boot Linux 6.6 or newer");
}

TEST_CASE("Docker as it comes: clone3 is hidden, the options of docker run are named") {
  HostReport r = healthy();
  in_container(r, "docker");
  r.seccomp_mode = 2;
  r.user_namespace = Tried::no(ENOSYS);
  without_namespaces(r);
  const char* const options =
      "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined";
  CHECK(diagnose(r).verdict ==
        std::string("no sandbox can be had here: user-namespaces: clone3 is blocked or older than Linux 5.3; sbx needs it (Function not "
                    "implemented (ENOSYS)); start the container with: ") + options);
  CHECK(of(diagnose(r), "surroundings").found == "a docker container, root, a seccomp filter lies on sbx already");

  SUBCASE("an older filter answers EPERM") {
    r.user_namespace = Tried::no(EPERM);
    CHECK(diagnose(r).verdict ==
          std::string("no sandbox can be had here: user-namespaces: the container or sandbox around sbx forbids new namespaces "
                      "(Operation not permitted (EPERM)); start the container with: ") + options);
  }
  SUBCASE("the container's filter comes before AppArmor on its host") {
    r.user_namespace = Tried::no(EPERM);
    r.knobs.apparmor_restrict = 1;
    CHECK(of(diagnose(r), "user-namespaces").mend == std::string("start the container with: ") + options);
  }
}

TEST_CASE("Docker with its filter lifted: first AppArmor's mounts, then the masked /proc") {
  HostReport r = healthy();
  in_container(r, "docker");
  r.run_ok = false;
  SUBCASE("mounts") {
    r.private_mounts = Tried::no(EACCES);
    for (Tried* tried : {&r.tmpfs, &r.proc, &r.open_tree, &r.mount_setattr, &r.move_mount, &r.tmpfs_xattr, &r.overlay, &r.pty,
                         &r.close_nested}) {
      *tried = {};
    }
    CHECK(diagnose(r).verdict ==
          "no sandbox can be had here: mounts: the container or sandbox around sbx forbids mounting (its AppArmor profile does) "
          "(Permission denied (EACCES)); start the container with: docker run --security-opt seccomp=unconfined --security-opt "
          "apparmor=unconfined --security-opt systempaths=unconfined");
  }
  SUBCASE("masked /proc") {
    r.proc = Tried::no(EPERM);
    r.close_nested = {};
    CHECK(diagnose(r).verdict ==
          "no sandbox can be had here: proc: the container around sbx masks parts of /proc, and the kernel then forbids a new one "
          "(Operation not permitted (EPERM)); start the container with: --security-opt systempaths=unconfined");
    r.knobs.container = "podman";
    CHECK(of(diagnose(r), "proc").mend == "start the container with: --security-opt unmask=ALL");
    r.knobs.container = "kubernetes";
    CHECK(of(diagnose(r), "proc").mend ==
          "set procMount: Unmasked in the container's securityContext and hostUsers: false in the pod's spec, or privileged: true");
  }
}

TEST_CASE("podman as it comes: its filter refuses, not a security module") {
  HostReport r = healthy();
  in_container(r, "podman");
  r.seccomp_mode = 2;
  r.knobs.filtered = true;
  r.capability = r.loopback = r.proc = Tried::no(EPERM);
  r.close_nested = {};
  r.run_ok = false;
  const Diagnosis d = diagnose(r);
  CHECK(d.verdict ==
        "no sandbox can be had here: user-namespaces: the seccomp filter of the container around sbx refuses what sbx may do in its own "
        "namespaces (Operation not permitted (EPERM)); start the container with: podman run --security-opt seccomp=unconfined "
        "--security-opt apparmor=unconfined --security-opt unmask=ALL");
  // The options in one line, not one after the other.
  CHECK(of(d, "proc").mend == of(d, "user-namespaces").mend);
}

TEST_CASE("root of a plain container lacks CAP_SYS_ADMIN: shared files are shown as they are") {
  HostReport r = healthy();
  in_container(r, "podman");
  r.may_clone_trees = false;
  r.idmap = Tried::no(EPERM);
  CHECK(diagnose(r).works);
  CHECK(of(diagnose(r), "idmapped-mounts").found == "root here lacks CAP_SYS_ADMIN");
  CHECK(of(diagnose(r), "idmapped-mounts").mend ==
        "start the container with: --cap-add SYS_ADMIN, or run sbx as the owner of the files");
}

TEST_CASE("a volume of a rootless container cannot be idmapped from inside") {
  HostReport r = healthy();
  in_container(r, "podman");
  r.mapped_uids = 65537;
  r.idmap = Tried::no(EPERM);
  CHECK(of(diagnose(r), "idmapped-mounts").found.find("belongs to the container's host: Operation not permitted (EPERM)") != std::string::npos);
  CHECK(of(diagnose(r), "idmapped-mounts").mend.find("work in a tmpfs") == 0);
}

TEST_CASE("a container without capabilities: those that root needs are named, and another user") {
  HostReport r = healthy();
  in_container(r, "podman");
  r.knobs.leases_uids = true;
  r.knobs.capabilities = 0;
  r.id_map = Tried::no(EPERM);
  CHECK(of(diagnose(r), "user-namespaces").found == "root here lacks CAP_CHOWN, CAP_SETGID, CAP_SETUID (Operation not permitted (EPERM))");
  CHECK(of(diagnose(r), "user-namespaces").mend ==
        "start the container with: --cap-add CHOWN --cap-add SETGID --cap-add SETUID, or as another user than root: --user 1000:1000");
  SUBCASE("one uid can only be root's, which SETFCAP may map") {
    r.knobs.leases_uids = false;
    CHECK(of(diagnose(r), "user-namespaces").mend == "start the container with: --cap-add SETFCAP");
  }
  SUBCASE("with them it is something else") {
    r.knobs.capabilities = ~uint64_t{0};
    CHECK(of(diagnose(r), "user-namespaces").found.find("the id map of a new user namespace is refused") == 0);
  }
}

TEST_CASE("a chroot is named as what it is") {
  HostReport r = healthy();
  r.user_namespace = Tried::no(EPERM);
  without_namespaces(r);
  r.knobs.chrooted = true;
  CHECK(of(diagnose(r), "user-namespaces").found ==
        "sbx runs in a chroot, where the kernel makes no user namespaces (Operation not permitted (EPERM))");
  CHECK(of(diagnose(r), "user-namespaces").mend.find("pivot_root") != std::string::npos);
  SUBCASE("but not everything in a chroot is its doing") {
    r.user_namespace = Tried::no(ENOSPC);
    CHECK(of(diagnose(r), "user-namespaces").found.find("chroot") == std::string::npos);
  }
}

TEST_CASE("a container's cgroup that is not its own, and a controller that its host has as v1") {
  HostReport r = healthy();
  in_container(r, "podman");
  r.make_cgroup = Tried::no(EACCES);
  CHECK(of(diagnose(r), "cgroup-delegation").mend.find("its engine must hand a cgroup over") == 0);
  r.make_cgroup = Tried::ok();
  r.delegated = r.v2_mount;
  r.v1_controllers = {"memory"};
  CHECK(of(diagnose(r), "cgroup-memory").mend == "the host has it as cgroup v1: boot it with systemd.unified_cgroup_hierarchy=1");
}

TEST_CASE("rootless podman with one uid: it works as a user does, and the subuid lines are named") {
  HostReport r = healthy();
  in_container(r, "podman");
  r.root_identity = false;
  r.mapped_uids = 1;
  r.uid_lease = r.idmap = {};
  const Diagnosis d = diagnose(r);
  CHECK(d.works);
  CHECK(of(d, "surroundings").found == "a podman container, root, a user namespace of 1 uid");
  CHECK(of(d, "uid-range").found == "root of a user namespace with 1 uid");
  CHECK(of(d, "uid-range").mend.find("/etc/subuid") != std::string::npos);
  CHECK(state(d, "idmapped-mounts") == "ok");
  CHECK(of(d, "user-manager").mend == "none is to be expected in a container");
}

TEST_CASE("WSL2 is a machine of its own: its kernel counts, not its name") {
  HostReport r = healthy();
  r.kernel = "5.15.153.1-microsoft-standard-WSL2";
  r.wsl = true;
  r.landlock = Tried::no(ENOSYS);
  r.landlock_abi = 0;
  r.wait_killable = Tried::no(EINVAL);
  r.tmpfs_xattr = Tried::no(EOPNOTSUPP);
  const Diagnosis d = diagnose(r);
  CHECK(d.works);
  CHECK(state(d, "kernel") == "ok");
  CHECK(of(d, "surroundings").found == "WSL, uid 1000");
  CHECK(d.verdict == "sandboxes work here; not at their best: seccomp-notify, landlock, tmpfs-xattr");
}

TEST_CASE("gVisor: what it lacks is named, and the runtime that has it") {
  HostReport r = healthy();
  in_container(r, "docker");
  r.gvisor = true;
  r.kernel = "4.4.0";
  r.open_tree = r.landlock = Tried::no(ENOSYS);
  r.mount_setattr = r.move_mount = {};
  r.landlock_abi = 0;
  r.run_ok = false;
  const Diagnosis d = diagnose(r);
  CHECK(d.verdict ==
        "no sandbox can be had here: mount-api: open_tree is refused: Function not implemented (ENOSYS); gVisor does not have it: docker "
        "run --runtime=runc");
  CHECK(state(d, "kernel") == "degraded");
}

TEST_CASE("a hybrid host: root has the v1 controllers, a user has not") {
  HostReport r = healthy();
  r.v2_controllers.clear();
  r.delegated.clear();
  r.v1 = {{"memory", Tried::no(EACCES)}, {"pids", Tried::no(EACCES)}, {"cpu", Tried::no(EACCES)}};
  CHECK(state(diagnose(r), "cgroup-memory") == "missing");
  CHECK(of(diagnose(r), "cgroup-memory").mend == "boot with systemd.unified_cgroup_hierarchy=1");
  r.uid = r.knobs.uid = 0;
  r.root_identity = true;
  for (auto& entry : r.v1) entry.second = Tried::ok();
  CHECK(state(diagnose(r), "cgroup-memory") == "ok");
  CHECK(state(diagnose(r), "cgroup-io") == "missing");
}

TEST_CASE("a requirement is met by ok alone, each that is not is named with its remedy, an unknown one is refused") {
  HostReport r = healthy();
  r.landlock = Tried::no(ENOSYS);
  LanguageStatus node;
  node.name = "javascript";
  node.problem = "no node on the PATH";
  node.package = "nodejs";
  r.languages.push_back(node);
  const Diagnosis d = diagnose(r);
  const auto unmet = [&](const std::vector<std::string>& names) { return unmet_requirements(d, names); };
  CHECK(unmet({"sandbox", "proc", "lang:python"}).value().empty());
  CHECK(unmet({"sandbox", "landlock", "landlock", "lang:javascript"}).value() ==
        std::vector<std::string>{"degraded: landlock: this kernel has no Landlock (Linux 5.13, CONFIG_SECURITY_LANDLOCK), or an outer filter "
                                 "hides it; boot a kernel that has it",
                                 "missing: lang:javascript: no node on the PATH; install the package nodejs"});
  CHECK(unmet({"all"}).value().size() == 2);  // landlock, toolchains
  const Result<std::vector<std::string>> wrong = unmet({"landlok"});
  REQUIRE(!wrong.ok());
  CHECK(wrong.error().text() == "unknown requirement 'landlok': did you mean 'landlock'?");
  CHECK(wrong.error().kind() == ErrorKind::usage);
}

TEST_CASE("names are unique, and what is not ok says what sbx does meanwhile") {
  const std::vector<std::string> names = finding_names();
  CHECK(std::set<std::string>(names.begin(), names.end()).size() == names.size());
  // A report in which nothing was tried and one in which everything failed: no row may be silent.
  HostReport failed = healthy();
  for (Tried* tried : {&failed.user_namespace, &failed.proc, &failed.overlay, &failed.landlock, &failed.listener,
                       &failed.tmpfs_xattr, &failed.pty, &failed.loopback, &failed.seccomp, &failed.temporary, &failed.close_nested}) {
    *tried = Tried::no(EPERM);
  }
  failed.run_ok = false;
  failed.run_problem = "refused";
  const HostReport reports[] = {HostReport{}, failed};
  for (const HostReport& report : reports) {
    const Diagnosis d = diagnose(report);
    CHECK(!d.works);
    CHECK(!d.verdict.empty());
    for (const Finding& f : d.findings) {
      CAPTURE(f.name);
      CHECK(!f.found.empty());
      if (f.state == FindingState::degraded || f.state == FindingState::missing) CHECK(!f.meanwhile.empty());
    }
  }
}

TEST_CASE("containers are known by the marks that they leave, WSL is none") {
  CHECK(container_name({}) == "");
  CHECK(container_name({.dockerenv = true}) == "docker");
  CHECK(container_name({.dockerenv = true, .kubernetes = true}) == "kubernetes");
  CHECK(container_name({.containerenv = true, .variable = "oci"}) == "podman");
  CHECK(container_name({.variable = "lxc-libvirt"}) == "lxc");
  CHECK(container_name({.systemd_container = "systemd-nspawn"}) == "systemd-nspawn");
  CHECK(container_name({.systemd_container = "wsl"}) == "");
  CHECK(container_name({.variable = "somebody's"}) == "container");
}

TEST_CASE("an AppArmor profile names one plain path, and none that a rule could read otherwise") {
  CHECK(apparmor_profile("/usr/local/bin/sbx").find("\nprofile sbx \"/usr/local/bin/sbx\" flags=(unconfined) {\n  userns,\n") !=
        std::string::npos);
  CHECK(!apparmor_profile("/opt/with space/sbx").empty());
  for (const char* path : {"", "sbx", "/home/*/sbx", "/a\"{}\n/sbx", "/@{HOME}/sbx", "/a\\sbx", "/a[b]/sbx", "/a?/sbx", "/a\n/sbx"}) {
    CAPTURE(path);
    CHECK(apparmor_profile(path).empty());
  }
}
