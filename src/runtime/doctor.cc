#include "runtime/doctor.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "base/text.h"

namespace sbx::runtime {
namespace {

using State = FindingState;
constexpr char kNoSandbox[] = "nothing runs: every sandbox ends with status 125 before the program starts";

void good(Finding& f, std::string found) {
  f.state = State::ok;
  f.found = std::move(found);
}
void bad(Finding& f, State state, std::string found, std::string meanwhile, std::string mend) {
  f.state = state;
  f.found = std::move(found);
  f.meanwhile = std::move(meanwhile);
  f.mend = std::move(mend);
}
void untried(Finding& f, std::string why) {
  f.state = State::unknown;
  f.found = std::move(why);
}

std::string words(int errnum) { return errno_text(errnum); }

std::string refused(const char* what, int errnum) { return std::string(what) + " is refused: " + words(errnum); }

// "6.1" of "6.1.0-13-amd64"; {0, 0} when it is not of that form.
std::pair<int, int> version_of(const std::string& release) {
  int major = 0, minor = 0;
  const char* end = release.data() + release.size();
  const std::from_chars_result first = std::from_chars(release.data(), end, major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.') return {0, 0};
  if (std::from_chars(first.ptr + 1, end, minor).ec != std::errc()) return {0, 0};
  return {major, minor};
}

// ---- one function a row of the table ---------------------------------------------------------------------------

void judge_kernel(const HostReport& r, Finding& f) {
  const std::pair<int, int> version = version_of(r.kernel);
  const std::string named = "Linux " + r.kernel + " on " + r.arch;
  if (r.gvisor) {
    return bad(f, State::degraded, "gVisor, which calls itself " + named,
               "each need below was tried on it; what gVisor lacks is named there",
               "run the container with the host's own kernel: docker run --runtime=runc");
  }
  if (version >= std::pair{5, 15}) return good(f, named);
  std::string lacks;
  const std::pair<const Tried*, const char*> features[] = {
      {&r.user_namespace, "clone3 (5.3)"},          {&r.open_tree, "open_tree (5.2)"},
      {&r.overlay, "overlay in user namespaces (5.11)"}, {&r.mount_setattr, "mount_setattr (5.12)"},
      {&r.landlock, "Landlock (5.13)"},             {&r.wait_killable, "uninterrupted notification (5.19)"}};
  for (const auto& [tried, name] : features) {
    if (tried->failed()) lacks += (lacks.empty() ? "" : ", ") + std::string(name);
  }
  const std::string what = named + " is older than 5.15" + (lacks.empty() ? "" : "; missing: " + lacks);
  // Red Hat's 5.14 carries what later versions brought; there the attempts below decide.
  if (version == std::pair{5, 14} && r.kernel.find(".el9") != std::string::npos) {
    return bad(f, State::degraded, what, "Red Hat brings newer features to it: each need below was tried and counts", "");
  }
  bad(f, State::missing, what, "sbx is not meant for it: what it does there is untested", "boot Linux 5.15 or newer (6.1 and newer are tested)");
}

void judge_surroundings(const HostReport& r, Finding& f) {
  std::vector<std::string> parts;
  if (r.inside_sbx) parts.push_back("the inside of an sbx sandbox");
  if (!r.knobs.container.empty()) parts.push_back(r.knobs.container == "container" ? "a container" : "a " + r.knobs.container + " container");
  if (r.wsl) parts.push_back("WSL");
  if (r.gvisor) parts.push_back("gVisor");
  if (parts.empty()) parts.push_back("no container that shows itself");
  parts.push_back(r.uid == 0 ? "root" : "uid " + std::to_string(r.uid));
  if (r.mapped_uids < 4294967295u) parts.push_back("a user namespace of " + std::to_string(r.mapped_uids) + (r.mapped_uids == 1 ? " uid" : " uids"));
  if (r.seccomp_mode == 2) parts.push_back("a seccomp filter lies on sbx already");
  if (r.no_new_privs_set) parts.push_back("no_new_privs is set already");
  good(f, join(parts, ", "));
}

void judge_user_namespaces(const HostReport& r, Finding& f) {
  const auto missing = [&](NamespaceStep step, int errnum) {
    const Mending mending = mend_namespaces(r.knobs, step, errnum);
    bad(f, State::missing, mending.cause + " (" + words(errnum) + ")", kNoSandbox, mending.remedy);
  };
  if (!r.user_namespace.tried) return untried(f, "not tried");
  if (r.user_namespace.failed()) return missing(NamespaceStep::make, r.user_namespace.errnum);
  if (r.id_map.failed()) return missing(NamespaceStep::map, r.id_map.errnum);
  if (r.capability.failed()) return missing(NamespaceStep::use, r.capability.errnum);
  good(f, "made, mapped and used");
}

void judge_kind(const HostReport& r, Finding& f, const Tried& tried, const char* limit) {
  if (!tried.tried) return untried(f, "needs a user namespace");
  if (tried.worked()) return good(f, "made");
  Mending mending = mend_namespaces(r.knobs, NamespaceStep::make, tried.errnum);
  if (tried.errnum == ENOSPC) {
    mending = {"no further one is allowed", "sudo sysctl -w user." + std::string(limit) + "=65536"};
  }
  bad(f, State::missing, mending.cause + " (" + words(tried.errnum) + ")", kNoSandbox, mending.remedy);
}
void judge_mount_namespace(const HostReport& r, Finding& f) { judge_kind(r, f, r.mount_namespace, "max_mnt_namespaces"); }
void judge_pid_namespace(const HostReport& r, Finding& f) { judge_kind(r, f, r.pid_namespace, "max_pid_namespaces"); }
void judge_ipc_namespace(const HostReport& r, Finding& f) { judge_kind(r, f, r.ipc_namespace, "max_ipc_namespaces"); }
void judge_uts_namespace(const HostReport& r, Finding& f) { judge_kind(r, f, r.uts_namespace, "max_uts_namespaces"); }
void judge_net_namespace(const HostReport& r, Finding& f) { judge_kind(r, f, r.net_namespace, "max_net_namespaces"); }
void judge_cgroup_namespace(const HostReport& r, Finding& f) { judge_kind(r, f, r.cgroup_namespace, "max_cgroup_namespaces"); }

void judge_mounts(const HostReport& r, Finding& f) {
  if (!r.private_mounts.tried) return untried(f, "needs a user and a mount namespace");
  for (const Tried* tried : {&r.private_mounts, &r.tmpfs}) {
    if (!tried->failed()) continue;
    const Mending mending = mend_namespaces(r.knobs, NamespaceStep::mount, tried->errnum);
    return bad(f, State::missing, mending.cause + " (" + words(tried->errnum) + ")", kNoSandbox, mending.remedy);
  }
  good(f, "made private, tmpfs mounted");
}

void judge_mount_api(const HostReport& r, Finding& f) {
  const std::pair<const Tried*, const char*> calls[] = {
      {&r.open_tree, "open_tree"}, {&r.mount_setattr, "mount_setattr"}, {&r.move_mount, "move_mount"}};
  for (const auto& [tried, name] : calls) {
    if (!tried->tried) return untried(f, "needs mounts in a user namespace");
    if (!tried->failed()) continue;
    std::string mend = "boot Linux 5.15 or newer";
    if (r.gvisor) mend = "gVisor does not have it: docker run --runtime=runc";
    else if (tried->errnum != ENOSYS || !r.knobs.container.empty()) mend = container_options(r.knobs.container);
    return bad(f, State::missing, refused(name, tried->errnum), kNoSandbox, mend);
  }
  good(f, "open_tree, mount_setattr and move_mount work");
}

void judge_proc(const HostReport& r, Finding& f) {
  if (!r.proc.tried) return untried(f, "needs mounts in a user namespace");
  if (r.proc.worked()) return good(f, "mounted");
  if (r.proc.errnum == EPERM) {
    const Mending mending = mend_masked_proc(r.knobs);
    return bad(f, State::missing, mending.cause + " (" + words(EPERM) + ")", kNoSandbox, mending.remedy);
  }
  bad(f, State::missing, refused("a new /proc", r.proc.errnum), kNoSandbox, container_options(r.knobs.container));
}

void judge_nested(const HostReport& r, Finding& f) {
  if (!r.close_nested.tried) return untried(f, "needs a new /proc");
  if (r.close_nested.worked()) return good(f, "their count was set to 0 from inside");
  bad(f, State::missing, refused("writing user.max_user_namespaces inside", r.close_nested.errnum), kNoSandbox,
      container_options(r.knobs.container));
}

void judge_loopback(const HostReport& r, Finding& f) {
  if (!r.loopback.tried) return untried(f, "needs a user and a network namespace");
  if (r.loopback.worked()) return good(f, "brought up in a network namespace of its own");
  const Mending mending = mend_namespaces(r.knobs, NamespaceStep::use, r.loopback.errnum);
  bad(f, State::missing, "the loopback of a new network namespace cannot be brought up (" + words(r.loopback.errnum) + ")",
      "nothing runs without the network of the host; --net host does", mending.remedy);
}

void judge_pty(const HostReport& r, Finding& f) {
  if (!r.pty.tried) return untried(f, "needs mounts in a user namespace");
  if (r.pty.worked()) return good(f, "made in a devpts of its own");
  bad(f, State::missing, refused("a devpts of its own", r.pty.errnum), kNoSandbox,
      "the kernel needs CONFIG_UNIX98_PTYS");
}

void judge_no_new_privs(const HostReport& r, Finding& f) {
  if (!r.no_new_privs.tried) return untried(f, "no child could be made");
  if (r.no_new_privs.worked()) return good(f, "set");
  bad(f, State::missing, refused("prctl PR_SET_NO_NEW_PRIVS", r.no_new_privs.errnum), kNoSandbox, "");
}

void judge_seccomp(const HostReport& r, Finding& f) {
  if (!r.seccomp.tried) return untried(f, "no child could be made");
  if (r.seccomp.worked()) return good(f, "a filter was loaded");
  bad(f, State::missing, refused("loading a filter", r.seccomp.errnum), kNoSandbox, "boot a kernel with CONFIG_SECCOMP_FILTER");
}

void judge_notify(const HostReport& r, Finding& f) {
  constexpr char kMeanwhile[] = "the filter holds all the same, but denied calls are not named in results and hints";
  if (!r.listener.tried) return untried(f, "needs a filter");
  if (r.listener.failed()) {
    return bad(f, State::degraded,
               r.listener.errnum == EBUSY ? "another supervisor listens to us already: a process has one listener at most"
                                          : refused("a listener", r.listener.errnum),
               kMeanwhile, r.listener.errnum == EBUSY ? "run sbx outside of that sandbox or container tool" : "");
  }
  if (r.wait_killable.failed()) {
    return bad(f, State::degraded, "a listener, without WAIT_KILLABLE_RECV (Linux 5.19)",
               "a signal can interrupt a denied call, which then ends with EINTR", "boot Linux 5.19 or newer");
  }
  good(f, "a listener, not interrupted by signals");
}

void judge_landlock(const HostReport& r, Finding& f) {
  if (r.landlock.worked()) return good(f, "ABI " + std::to_string(r.landlock_abi));
  if (!r.landlock.tried) return untried(f, "no child could be made");
  const Mending mending = mend_landlock(r.landlock.errnum, r.lsm);
  bad(f, State::degraded, mending.cause, "namespaces and read-only mounts protect without this second wall", mending.remedy);
}

void judge_overlay(const HostReport& r, Finding& f) {
  if (!r.overlay.tried) return untried(f, "needs mounts in a user namespace");
  if (r.overlay.worked()) return good(f, "mounted");
  std::string mend = "sudo modprobe overlay";
  if (r.overlay.errnum == EPERM) mend = "boot Linux 5.11 or newer";
  else if (r.overlay.errnum != ENODEV) mend = "";
  bad(f, State::missing, refused("overlay in a user namespace", r.overlay.errnum),
      "--workspace DIR:overlay ends with status 125; :ro and :rw work", mend);
}

void judge_xattr(const HostReport& r, Finding& f) {
  if (!r.tmpfs_xattr.tried) return untried(f, "needs mounts in a user namespace");
  if (r.tmpfs_xattr.worked()) return good(f, "set");
  bad(f, State::degraded, refused("a user attribute on tmpfs", r.tmpfs_xattr.errnum),
      "with --workspace DIR:overlay a program that removes or replaces a directory of DIR gets an I/O error", "boot Linux 6.6 or newer");
}

void judge_idmap(const HostReport& r, Finding& f) {
  if (!r.root_identity) return good(f, "not needed: files are the caller's own inside");
  if (!r.idmap.tried) return untried(f, "needs a leased uid");
  const std::string place = "'" + printable(r.working_directory, 200) + "' (" + r.file_system + ")";
  if (r.idmap.worked()) return good(f, "works on " + place);
  if (!r.may_clone_trees) {
    return bad(f, State::degraded, "root here lacks CAP_SYS_ADMIN",
               "--workspace is shown as everybody may read it; :rw and :overlay run as the owner of the files, or are refused when that is root",
               r.knobs.container.empty() ? "run sbx as the owner of the files" : "start the container with: --cap-add SYS_ADMIN, or run sbx as the owner of the files");
  }
  // Only the file system's own root may ask for it.
  const bool foreign = r.idmap.errnum == EPERM && r.mapped_uids < 4294967295u;
  bad(f, State::degraded, place + (foreign ? " belongs to the container's host: " : " refuses: ") + words(r.idmap.errnum),
      "--workspace there is shown as everybody may read it, or copied in within the limits; :rw runs as the owner of the files, or is refused when that is root",
      foreign ? "work in a tmpfs of the container's own (--tmpfs /DIR), or run sbx as the owner of the files"
              : "work in a directory on ext4, xfs or btrfs, or run sbx as the owner of the files");
}

void judge_uid_lease(const HostReport& r, Finding& f) {
  if (r.uid != 0) return good(f, "not needed: sandboxes run as the caller in a user namespace");
  if (!r.root_identity) {
    return bad(f, State::degraded,
               "root of a user namespace with " + std::to_string(r.mapped_uids) + (r.mapped_uids == 1 ? " uid" : " uids"),
               "sandboxes run under this one uid, as an ordinary user's do: they do not share processes, files or limits, but the kernel sees one user",
               "give the container 65536 uids: a line in /etc/subuid and /etc/subgid of its host (sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER), then podman system migrate");
  }
  if (r.uid_lease.worked()) return good(f, "leased one in /run/sbx");
  bad(f, State::missing, refused("a lease in /run/sbx", r.uid_lease.errnum), kNoSandbox,
      mend_uid_lease(r.uid_lease.errnum, "/run/sbx"));
}

// ---- limits ----------------------------------------------------------------------------------------------------

std::string holder_of(const HostReport& r, std::string_view limit) {
  for (const auto& [name, holder] : r.limits_held_by) {
    if (name == limit) return holder;
  }
  return "";
}
bool by_cgroup(const std::string& holder) { return holder.find("cgroup") != std::string::npos; }

bool v1_usable(const HostReport& r, std::string_view controller) {
  return std::any_of(r.v1.begin(), r.v1.end(), [&](const auto& entry) { return entry.first == controller && entry.second.worked(); });
}

// What lets this caller have cgroups of its own.
std::string delegation_mend(const HostReport& r) {
  if (!r.knobs.container.empty()) {
    if (r.knobs.container == "kubernetes") return "a privileged container with cgroup v2, or accept the fallback";
    // It can be written to, but belongs to somebody else.
    if (r.make_cgroup.errnum == EACCES || r.make_cgroup.errnum == EPERM) {
      return "its engine must hand a cgroup over to the container: where that runs without root, its host needs cgroup v2 and a systemd session of that user";
    }
    return "start the container with its own writable cgroup: --cgroupns=private --privileged, or podman with --security-opt unmask=/sys/fs/cgroup";
  }
  if (r.root_identity) return "mount cgroup v2 read-write: sudo mount -o remount,rw " + (r.v2_mount.empty() ? "/sys/fs/cgroup" : r.v2_mount);
  return "sudo loginctl enable-linger $USER (a user manager then runs without a login; set XDG_RUNTIME_DIR=/run/user/" +
         std::to_string(r.uid) + " where the shell does not)";
}

void judge_limits(const HostReport& r, Finding& f) {
  if (!r.run_ok) return untried(f, "no sandbox ran");
  std::string found;
  bool all = true;
  for (const char* name : {"memory", "pids"}) {
    const std::string holder = holder_of(r, name);
    if (holder.empty()) continue;
    found += (found.empty() ? "" : "; ") + std::string(name) + ": " + holder;
    all = all && by_cgroup(holder);
  }
  if (all) return good(f, found.empty() ? "no limit is set by default" : found);
  std::string mend = r.delegated.empty() && !v1_usable(r, "memory") ? delegation_mend(r) : "";
  bad(f, State::degraded, found,
      "a limit holds, but a program can pass it for the moment between two looks; the result says what held it", mend);
}

void judge_v2(const HostReport& r, Finding& f) {
  if (r.v2_mount.empty()) {
    return bad(f, State::missing, r.v1.empty() ? "no cgroup file system is mounted" : "only cgroup v1 is mounted",
               r.root_identity && !r.v1.empty() ? "root's sandboxes can use the v1 controllers" : "limits are held by sampling and rlimits",
               r.knobs.container.empty() ? "boot with systemd.unified_cgroup_hierarchy=1" : "the host must use cgroup v2, and the container see it in /sys/fs/cgroup");
  }
  if (!r.v1.empty()) {
    std::string names;
    for (const auto& entry : r.v1) names += (names.empty() ? "" : ", ") + entry.first;
    return bad(f, State::degraded, "mounted at " + r.v2_mount + ", but v1 has " + names + " (a hybrid host)",
               r.root_identity ? "root's sandboxes can use the v1 controllers" : "limits of those are held by sampling and rlimits",
               "boot with systemd.unified_cgroup_hierarchy=1");
  }
  good(f, "mounted at " + r.v2_mount);
}

void judge_delegation(const HostReport& r, Finding& f) {
  if (r.v2_mount.empty()) return untried(f, "needs cgroup v2");
  if (r.make_cgroup.worked()) return good(f, "cgroups can be made in " + r.delegated);
  if (!r.delegated.empty()) return good(f, "by the user manager, in a scope of its own");
  bad(f, State::missing, "no cgroup can be made in " + (r.v2_own.empty() ? r.v2_mount : r.v2_own) + " (" + words(r.make_cgroup.errnum) + ")" +
                             (!r.root_identity ? ", and no user manager answers" : ""),
      "limits are held by sampling and rlimits", delegation_mend(r));
}

void judge_controller(const HostReport& r, Finding& f, const char* name) {
  const bool v2 = std::find(r.v2_controllers.begin(), r.v2_controllers.end(), name) != r.v2_controllers.end();
  if (v2) return good(f, "cgroup v2");
  if (r.root_identity && v1_usable(r, name)) return good(f, "cgroup v1, which root may use");
  const std::string what = name;
  std::string meanwhile = "limits of it are not held by a cgroup";
  if (what == "memory") meanwhile = "memory is sampled over the whole tree every 20 ms, with RLIMIT_DATA behind it";
  if (what == "pids") meanwhile = "RLIMIT_NPROC holds it, in a user namespace of its own";
  if (what == "cpu") meanwhile = "--cpus takes whole numbers only, held by affinity";
  if (what == "io") meanwhile = "nothing limits the speed of disks";
  std::string mend;
  if (r.v2_mount.empty() || !r.v1.empty()) mend = "boot with systemd.unified_cgroup_hierarchy=1";
  else if (r.delegated.empty()) mend = delegation_mend(r);
  else if (!r.root_identity && what == "io") mend = "write [Service] Delegate=cpu io memory pids to /etc/systemd/system/user@.service.d/delegate.conf, run sudo systemctl daemon-reload and log in anew";
  else if (!r.root_identity) mend = "write [Service] Delegate=cpu memory pids to /etc/systemd/system/user@.service.d/delegate.conf, run sudo systemctl daemon-reload and log in anew";
  else if (std::find(r.v1_controllers.begin(), r.v1_controllers.end(), name) != r.v1_controllers.end()) {
    mend = "the host has it as cgroup v1: boot it with systemd.unified_cgroup_hierarchy=1";
  } else if (what == "memory") mend = "boot with cgroup_enable=memory";
  bad(f, State::missing, r.delegated.empty() ? "no cgroup of our own" : "not among the controllers of " + r.delegated, meanwhile, mend);
}
void judge_memory(const HostReport& r, Finding& f) { judge_controller(r, f, "memory"); }
void judge_pids(const HostReport& r, Finding& f) { judge_controller(r, f, "pids"); }
void judge_cpu(const HostReport& r, Finding& f) { judge_controller(r, f, "cpu"); }
void judge_io(const HostReport& r, Finding& f) { judge_controller(r, f, "io"); }

void judge_v1(const HostReport& r, Finding& f) {
  if (r.v1.empty()) return good(f, "not mounted, and not needed");
  std::string names;
  bool usable = true;
  for (const auto& [name, made] : r.v1) {
    names += (names.empty() ? "" : ", ") + name;
    usable = usable && made.worked();
  }
  if (usable) return good(f, names + ": usable");
  bad(f, State::degraded, names + ": mounted, but not writable for us", "limits are held by sampling and rlimits",
      "boot with systemd.unified_cgroup_hierarchy=1");
}

void judge_manager(const HostReport& r, Finding& f) {
  if (r.root_identity) return good(f, "not needed: root makes its own cgroups");
  if (r.user_manager.worked()) return good(f, "answers at " + printable(r.manager_socket, 200));
  if (r.make_cgroup.worked()) return good(f, "not needed: a cgroup of our own is delegated");
  bad(f, State::missing, "no user manager at " + printable(r.manager_socket, 200) + " (" + words(r.user_manager.errnum) + ")",
      "limits are held by sampling and rlimits",
      r.knobs.container.empty() ? delegation_mend(r) : "none is to be expected in a container");
}

// ---- the rest --------------------------------------------------------------------------------------------------

void judge_core(const HostReport& r, Finding& f) {
  if (!r.core_pattern) return untried(f, "/proc/sys/kernel/core_pattern cannot be read");
  const std::string pattern = printable(*r.core_pattern, 80);
  if (!starts_with(*r.core_pattern, "|")) return good(f, "written to a file: '" + pattern + "'; sandboxes make none");
  good(f, "piped to a program of the host: '" + pattern + "'; sandboxes start none (their core limit is 1 byte)");
}

void judge_temporary(const HostReport& r, Finding& f) {
  const std::string place = "'" + printable(r.temporary_directory, 200) + "'";
  constexpr uint64_t kLittle = uint64_t{64} << 20;
  if (!r.temporary.worked()) {
    return bad(f, State::degraded, "nothing can be written to " + place + " (" + words(r.temporary.errnum) + ")",
               "runs work; what needs a temporary file on the host says so", "set TMPDIR to a directory that you may write to");
  }
  const std::string free = format_size(Bytes{r.temporary_free & ~uint64_t{0xFFFFF}});
  if (r.temporary_free < kLittle) {
    return bad(f, State::degraded, "only " + std::to_string(r.temporary_free >> 20) + "M free in " + place, "runs work; copied artifacts may find no room",
               "make room there, or set TMPDIR");
  }
  good(f, free + " free in " + place);
}

void judge_toolchains(const HostReport& r, Finding& f) {
  if (!r.languages_problem.empty()) return untried(f, r.languages_problem);
  if (r.languages.empty()) return untried(f, "no language was looked for");
  std::string found, absent, packages;
  for (const LanguageStatus& language : r.languages) {
    if (language.found) {
      found += (found.empty() ? "" : ", ") + language.name + (language.version.empty() ? "" : " " + printable(language.version, 40));
    } else {
      absent += (absent.empty() ? "" : ", ") + language.name;
      if (!language.package.empty()) packages += " " + language.package;
    }
  }
  if (absent.empty()) return good(f, found);
  bad(f, found.empty() ? State::missing : State::degraded, (found.empty() ? "none" : found) + "; not found: " + absent,
      "`sbx run` of those ends with status 127", packages.empty() ? "" : "install what you need of: " + packages.substr(1));
}

void judge_run(const HostReport& r, Finding& f) {
  if (!r.ran) return untried(f, "not tried");
  if (r.run_ok) {
    const int64_t tenths = (r.run_us + 50) / 100;
    return good(f, "`true` ran and ended in " + std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " ms");
  }
  bad(f, State::missing, r.run_problem, kNoSandbox, r.run_hint);
}

// ---- the table -------------------------------------------------------------------------------------------------

struct Check {
  const char* name;
  const char* title;
  const char* tried;
  Severity severity;
  void (*judge)(const HostReport&, Finding&);
};

// Names are for scripts: never changed, only added to.
constexpr Check kChecks[] = {
    {"kernel", "kernel", "uname(2)", Severity::need, judge_kernel},
    {"surroundings", "surroundings", "marks that containers leave, /proc/self/status, uid_map", Severity::fact, judge_surroundings},
    {"user-namespaces", "user namespaces", "clone3 with CLONE_NEWUSER, id maps, sethostname inside", Severity::need, judge_user_namespaces},
    {"mount-namespace", "mount namespace", "clone3 with CLONE_NEWNS", Severity::need, judge_mount_namespace},
    {"pid-namespace", "pid namespace", "clone3 with CLONE_NEWPID", Severity::need, judge_pid_namespace},
    {"ipc-namespace", "ipc namespace", "clone3 with CLONE_NEWIPC", Severity::need, judge_ipc_namespace},
    {"uts-namespace", "host name namespace", "clone3 with CLONE_NEWUTS", Severity::need, judge_uts_namespace},
    {"net-namespace", "network namespace", "clone3 with CLONE_NEWNET", Severity::need, judge_net_namespace},
    {"cgroup-namespace", "cgroup namespace", "clone3 with CLONE_NEWCGROUP", Severity::need, judge_cgroup_namespace},
    {"mounts", "mounts inside", "private mounts and a tmpfs inside", Severity::need, judge_mounts},
    {"mount-api", "mount calls", "open_tree, mount_setattr and move_mount of a tree inside", Severity::need, judge_mount_api},
    {"proc", "a /proc of its own", "mount of proc inside", Severity::need, judge_proc},
    {"no-nested-namespaces", "no namespaces within", "user.max_user_namespaces set to 0 inside", Severity::need, judge_nested},
    {"loopback", "loopback", "SIOCSIFFLAGS inside", Severity::need, judge_loopback},
    {"pty", "terminals", "mount of devpts and open of its ptmx inside", Severity::need, judge_pty},
    {"no-new-privs", "no_new_privs", "prctl in a child", Severity::need, judge_no_new_privs},
    {"seccomp", "system call filter", "a filter loaded in a child", Severity::need, judge_seccomp},
    {"seccomp-notify", "filter notification", "a listener in a child, with and without WAIT_KILLABLE_RECV", Severity::feature, judge_notify},
    {"landlock", "Landlock", "a ruleset enforced in a child", Severity::protection, judge_landlock},
    {"uid-range", "uids for sandboxes", "a lease in /run/sbx", Severity::need, judge_uid_lease},
    {"overlay", "overlay workspaces", "mount of overlay inside", Severity::feature, judge_overlay},
    {"tmpfs-xattr", "attributes on tmpfs", "setxattr inside", Severity::feature, judge_xattr},
    {"idmapped-mounts", "idmapped mounts", "mount_setattr with MOUNT_ATTR_IDMAP on the working directory", Severity::feature, judge_idmap},
    {"cgroup", "limits by cgroup", "a real sandbox: who held its limits", Severity::limit, judge_limits},
    {"cgroup-v2", "cgroup v2", "/proc/self/mountinfo", Severity::limit, judge_v2},
    {"cgroup-delegation", "cgroups of our own", "mkdir of a cgroup", Severity::limit, judge_delegation},
    {"cgroup-memory", "memory controller", "cgroup.controllers, mkdir in v1", Severity::limit, judge_memory},
    {"cgroup-pids", "pids controller", "cgroup.controllers, mkdir in v1", Severity::limit, judge_pids},
    {"cgroup-cpu", "cpu controller", "cgroup.controllers, mkdir in v1", Severity::limit, judge_cpu},
    {"cgroup-io", "io controller", "cgroup.controllers", Severity::limit, judge_io},
    {"cgroup-v1", "cgroup v1", "/proc/self/mountinfo, mkdir", Severity::fact, judge_v1},
    {"user-manager", "user manager", "connect to its socket", Severity::limit, judge_manager},
    {"core-pattern", "core dumps", "/proc/sys/kernel/core_pattern", Severity::fact, judge_core},
    {"temporary-files", "temporary files", "a file in TMPDIR", Severity::fact, judge_temporary},
    {"toolchains", "languages", "sbx langs", Severity::feature, judge_toolchains},
    {"sandbox", "a whole sandbox", "sbx exec -- true, twice", Severity::need, judge_run},
};

std::vector<Finding> language_findings(const HostReport& report) {
  std::vector<Finding> findings;
  for (const LanguageStatus& language : report.languages) {
    Finding f;
    f.name = "lang:" + language.name;
    f.title = language.title.empty() ? language.name : language.title;
    f.tried = "sbx langs";
    f.severity = Severity::feature;
    if (language.found) {
      good(f, (language.version.empty() ? "" : printable(language.version, 40) + ", ") + printable(language.tool, 200));
    } else {
      bad(f, State::missing, language.problem.empty() ? "not found" : printable(language.problem, 200),
          "`sbx run` of it ends with status 127", language.package.empty() ? "" : "install the package " + language.package);
    }
    findings.push_back(std::move(f));
  }
  return findings;
}

std::string sentence(const Finding& f) {
  return f.name + ": " + f.found + (f.mend.empty() ? "" : "; " + f.mend);
}

}  // namespace

const char* finding_state_name(FindingState state) {
  switch (state) {
    case FindingState::ok: return "ok";
    case FindingState::degraded: return "degraded";
    case FindingState::missing: return "missing";
    case FindingState::unknown: return "unknown";
  }
  return "unknown";
}

const char* severity_name(Severity severity) {
  switch (severity) {
    case Severity::need: return "need";
    case Severity::protection: return "protection";
    case Severity::limit: return "limit";
    case Severity::feature: return "feature";
    case Severity::fact: return "fact";
  }
  return "fact";
}

Diagnosis diagnose(const HostReport& report) {
  Diagnosis diagnosis;
  for (const Check& check : kChecks) {
    Finding f;
    f.name = check.name;
    f.title = check.title;
    f.tried = check.tried;
    f.severity = check.severity;
    check.judge(report, f);
    diagnosis.findings.push_back(std::move(f));
  }
  diagnosis.languages = language_findings(report);
  diagnosis.works = report.run_ok;
  const Finding* first = nullptr;
  for (const Finding& f : diagnosis.findings) {
    if (f.severity == Severity::need && f.state == State::missing) {
      diagnosis.works = false;
      // The kernel's age explains less than a need that fails on it.
      if (first == nullptr || first->name == "kernel") first = &f;
    }
  }
  if (first != nullptr) {
    diagnosis.verdict = "no sandbox can be had here: " + sentence(*first);
    return diagnosis;
  }
  std::vector<std::string> lesser;
  for (const Finding& f : diagnosis.findings) {
    if (f.state != State::ok && f.severity != Severity::fact) lesser.push_back(f.name);
  }
  diagnosis.verdict = !diagnosis.works ? "no sandbox was tried"
                      : lesser.empty() ? "sandboxes work here, with everything"
                                       : "sandboxes work here; not at their best: " + join(lesser, ", ");
  return diagnosis;
}

std::vector<std::string> finding_names() {
  std::vector<std::string> names;
  for (const Check& check : kChecks) names.emplace_back(check.name);
  names.emplace_back("all");
  return names;
}

Result<std::vector<std::string>> unmet_requirements(const Diagnosis& diagnosis, std::span<const std::string> names) {
  std::vector<std::string> unmet;
  std::vector<std::string> known = finding_names();
  for (const Finding& f : diagnosis.languages) known.push_back(f.name);
  const auto require = [&](const Finding& f) {
    const std::string line = std::string(finding_state_name(f.state)) + ": " + sentence(f);
    if (f.state != State::ok && std::find(unmet.begin(), unmet.end(), line) == unmet.end()) unmet.push_back(line);
  };
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      const std::string near = did_you_mean(name, known);
      return Error(ErrorKind::usage, "unknown requirement '" + printable(name) + "'" +
                                         (near.empty() ? "" : ": did you mean '" + near + "'?"))
          .with_hint("sbx doctor --list names them all; of the languages: lang:NAME");
    }
    for (const std::vector<Finding>* list : {&diagnosis.findings, &diagnosis.languages}) {
      for (const Finding& f : *list) {
        if (f.name == name || (name == "all" && list == &diagnosis.findings && f.severity != Severity::fact)) require(f);
      }
    }
  }
  return unmet;
}

}  // namespace sbx::runtime
