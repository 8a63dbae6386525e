#include "runtime/mending.h"

#include <linux/capability.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/error.h"
#include "base/sys.h"
#include "base/text.h"
#include "ns/caps.h"
#include "runtime/uid_lease.h"

namespace sbx::runtime {
namespace {

std::optional<int64_t> knob(const char* path) {
  Result<std::string> text = read_file(path, 64);
  if (!text.ok()) return std::nullopt;
  Result<uint64_t> value = parse_integer(trim(text.value()));
  if (!value.ok()) return std::nullopt;
  return static_cast<int64_t>(value.value());
}

// A sysctl that also holds after the next boot.
std::string set_sysctl(const std::string& key, const std::string& value) {
  return "sudo sysctl -w " + key + "=" + value + " (to keep it: echo '" + key + "=" + value +
         "' | sudo tee /etc/sysctl.d/60-sbx.conf)";
}

std::string start_with(const std::string& container) {
  if (container == "systemd-nspawn" || container == "lxc") return "use " + container_options(container);
  return (container.empty() ? "" : "start the container with: ") + container_options(container);
}

// chroot(2) into a directory leaves a root that no mount begins at. Into one where a mount begins, init's root tells
// the rest, which only root may ask; a container that shares the host's processes has another root too.
bool is_chrooted(bool may_be_container) {
  struct statx info {};
  if (::statx(AT_FDCWD, "/", 0, STATX_BASIC_STATS, &info) == 0 && (info.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0 &&
      (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) == 0) {
    return true;
  }
  if (may_be_container) return false;
  Result<struct stat> own = sys::stat("/");
  Result<struct stat> first = sys::stat("/proc/1/root/.");
  return own.ok() && first.ok() && (own.value().st_dev != first.value().st_dev || own.value().st_ino != first.value().st_ino);
}

constexpr char kMaxKey[] = "user.max_user_namespaces";
constexpr char kMaxWanted[] = "65536";

}  // namespace

NamespaceKnobs read_namespace_knobs() {
  NamespaceKnobs knobs;
  knobs.uid = ::geteuid();
  knobs.apparmor_restrict = knob("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
  knobs.unprivileged_clone = knob("/proc/sys/kernel/unprivileged_userns_clone");
  knobs.max_user_namespaces = knob("/proc/sys/user/max_user_namespaces");
  ContainerMarks marks;
  marks.dockerenv = sys::stat("/.dockerenv").ok();
  marks.containerenv = sys::stat("/run/.containerenv").ok();
  marks.kubernetes = std::getenv("KUBERNETES_SERVICE_HOST") != nullptr;
  if (const char* variable = std::getenv("container"); variable != nullptr) marks.variable = printable(variable, 40);
  if (Result<std::string> text = read_file("/run/systemd/container", 64); text.ok()) {
    marks.systemd_container = printable(trim(text.value()), 40);
  }
  knobs.container = container_name(marks);
  if (Result<std::string> status = read_file("/proc/self/status", 65536); status.ok()) {
    knobs.filtered = status.value().find("\nSeccomp:\t2\n") != std::string::npos;
  }
  knobs.chrooted = is_chrooted(knobs.filtered || !knobs.container.empty());
  knobs.capabilities = ns::effective_capabilities();
  Result<std::string> map = read_file("/proc/self/uid_map", 65536);
  knobs.leases_uids = knobs.uid == 0 && map.ok() && choose_uid_range(map.value()).count != 0;
  return knobs;
}

std::string container_name(const ContainerMarks& marks) {
  if (marks.kubernetes) return "kubernetes";
  if (marks.containerenv || marks.variable == "podman") return "podman";
  if (marks.dockerenv) return "docker";
  for (const std::string& said : {marks.systemd_container, marks.variable}) {
    if (said == "docker" || said == "podman" || said == "lxc" || said == "systemd-nspawn") return said;
    if (starts_with(said, "lxc")) return "lxc";
    // systemd says "wsl" for WSL, which is a virtual machine: its kernel refuses nothing.
    if (!said.empty() && said != "wsl") return "container";
  }
  return "";
}

std::string container_options(const std::string& container) {
  if (container == "docker") {
    return "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined";
  }
  if (container == "podman") {
    return "podman run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt unmask=ALL";
  }
  if (container == "kubernetes") return "securityContext: { privileged: true } in the pod's container";
  if (container == "lxc") return "lxc config set NAME security.nesting=true";
  if (container == "systemd-nspawn") return "a virtual machine or the host: nspawn covers parts of /proc and has no switch for that";
  return "with Docker: --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined";
}

Mending mend_namespaces(const NamespaceKnobs& knobs, NamespaceStep step, int errnum) {
  const bool root = knobs.uid == 0;
  const bool contained = !knobs.container.empty();
  // The kernel's own refusals first: each has an errno of its own.
  if (errnum == ENOSYS) {
    return {"clone3 is blocked or older than Linux 5.3; sbx needs it",
            contained ? start_with(knobs.container) : ""};
  }
  if (step == NamespaceStep::make && (errnum == ENOSPC || knobs.max_user_namespaces == 0)) {
    if (knobs.max_user_namespaces == 0) {
      return {"user.max_user_namespaces is 0, so no user namespace can be made; another sandbox around sbx may have set that",
              "on a host: " + set_sysctl(kMaxKey, kMaxWanted)};
    }
    return {"no further user namespaces are allowed here: user.max_user_namespaces is reached, or 33 levels deep",
            "on a host: " + set_sysctl(kMaxKey, kMaxWanted)};
  }
  if (step == NamespaceStep::make && !root && knobs.unprivileged_clone == 0) {
    return {"kernel.unprivileged_userns_clone is 0: user namespaces are switched off for users",
            set_sysctl("kernel.unprivileged_userns_clone", "1")};
  }
  if (step == NamespaceStep::make && errnum == EPERM && knobs.chrooted) {
    return {"sbx runs in a chroot, where the kernel makes no user namespaces",
            "run it outside, or enter the tree by pivot_root: unshare --mount sh -c 'mount --bind DIR DIR && cd DIR && pivot_root . . && "
            "umount -l . && exec COMMAND'"};
  }
  if (step == NamespaceStep::map && errnum == EPERM && root) {
    if (Mending mending = mend_capabilities(knobs); !mending.cause.empty()) return mending;
  }
  // AppArmor refuses the namespace with EACCES, or (24.04) gives it without its capabilities; a container's seccomp
  // filter answers EPERM to the clone. Root in a container is no exception to AppArmor's restriction, on a host it is.
  const bool by_apparmor = knobs.apparmor_restrict == 1 && (!root || contained) &&
                           !(contained && step == NamespaceStep::make && errnum == EPERM) &&
                           !(contained && step == NamespaceStep::mount);
  if (by_apparmor) {
    if (contained) {
      return {"AppArmor on the container's host restricts user namespaces (kernel.apparmor_restrict_unprivileged_userns is 1)",
              "on that host: " + set_sysctl("kernel.apparmor_restrict_unprivileged_userns", "0")};
    }
    return {"AppArmor restricts user namespaces here (kernel.apparmor_restrict_unprivileged_userns is 1)",
            "allow them for sbx alone: sudo sbx doctor --fix=install; or for every program: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"};
  }
  if (errnum == EPERM || errnum == EACCES) {
    std::string cause;
    switch (step) {
      case NamespaceStep::make: cause = "the container or sandbox around sbx forbids new namespaces"; break;
      case NamespaceStep::map: cause = "the id map of a new user namespace is refused"; break;
      case NamespaceStep::use:
        cause = knobs.filtered && contained ? "the seccomp filter of the container around sbx refuses what sbx may do in its own namespaces"
                                            : "a new user namespace comes without its capabilities: a security module takes them";
        break;
      case NamespaceStep::mount: cause = "the container or sandbox around sbx forbids mounting (its AppArmor profile does)"; break;
    }
    if (!contained && step == NamespaceStep::use) {
      return {cause, "SELinux or AppArmor says which in: sudo dmesg | grep -i denied"};
    }
    if (step == NamespaceStep::map && !contained) return {cause, ""};
    return {cause, start_with(knobs.container)};
  }
  if (errnum == EINVAL) return {"this kernel was built without a kind of namespace that sbx needs", "boot a distribution's kernel"};
  return {errno_text(errnum), ""};
}

std::string lacking_capabilities(bool leases_uids, uint64_t effective) {
  // A uid of its own is mapped and given its pipes; root's own can be mapped since Linux 5.12 by who could also make
  // files of it privileged.
  constexpr std::pair<unsigned, const char*> kLeasing[] = {{CAP_CHOWN, "CAP_CHOWN"}, {CAP_SETGID, "CAP_SETGID"}, {CAP_SETUID, "CAP_SETUID"}};
  std::vector<std::string> lacking;
  if (leases_uids) {
    for (const auto& [number, name] : kLeasing) {
      if (!ns::has_capability(effective, number)) lacking.push_back(name);
    }
  } else if (!ns::has_capability(effective, CAP_SETFCAP)) {
    lacking.push_back("CAP_SETFCAP");
  }
  return join(lacking, ", ");
}

Mending mend_capabilities(const NamespaceKnobs& knobs) {
  const std::string lacking = lacking_capabilities(knobs.leases_uids, knobs.capabilities);
  if (lacking.empty()) return {};
  std::string options;
  for (const std::string& name : split(lacking, ',')) options += " --cap-add " + std::string(trim(name)).substr(4);
  return {"root here lacks " + lacking, "start the container with:" + options + (knobs.leases_uids ? ", or as another user than root: --user 1000:1000" : "")};
}

Mending mend_masked_proc(const NamespaceKnobs& knobs) {
  const std::string& container = knobs.container;
  const std::string cause = "the container around sbx masks parts of /proc, and the kernel then forbids a new one";
  // Its filter, which comes next, would refuse too.
  if (knobs.filtered && (container == "podman" || container == "docker")) return {cause, start_with(container)};
  if (container == "podman") return {cause, "start the container with: --security-opt unmask=ALL"};
  if (container == "kubernetes") {
    return {cause, "set procMount: Unmasked in the container's securityContext and hostUsers: false in the pod's spec, or privileged: true"};
  }
  if (container == "lxc" || container == "systemd-nspawn") return {cause, "use " + container_options(container)};
  return {cause, "start the container with: --security-opt systempaths=unconfined"};
}

std::string mend_uid_lease(int errnum, const std::string& directory) {
  if (errnum == EROFS) return "mount a tmpfs on /run (--tmpfs /run), or run sbx as an ordinary user";
  return "sbx as root keeps its uid leases in " + directory + ": make it a writable directory of root's, or run sbx as an ordinary user";
}

Mending mend_landlock(int errnum, std::string_view lsm) {
  if (errnum == EOPNOTSUPP) {
    const std::string list(trim(lsm));
    return {"Landlock is built into this kernel but not started",
            "add to the kernel's command line and boot: lsm=landlock" + (list.empty() ? ",…(the list in CONFIG_LSM)" : "," + list)};
  }
  if (errnum == ENOSYS) {
    return {"this kernel has no Landlock (Linux 5.13, CONFIG_SECURITY_LANDLOCK), or an outer filter hides it", "boot a kernel that has it"};
  }
  return {"Landlock is refused: " + errno_text(errnum), ""};
}

std::string apparmor_profile(std::string_view path) {
  // What globbing, variables and quoting mean something to; and a relative path names nothing.
  if (path.empty() || path[0] != '/' || path.size() > 1024) return "";
  for (const char letter : path) {
    const unsigned char byte = static_cast<unsigned char>(letter);
    if (byte < 0x20 || byte == 0x7F || std::string_view("*?[]{}^@\"\\,").find(letter) != std::string_view::npos) return "";
  }
  return "# Lets sbx make user namespaces where AppArmor restricts them (Ubuntu 23.10 and later).\n"
         "# It confines nothing: sbx itself confines what runs in it, and closes further user namespaces there.\n"
         "abi <abi/4.0>,\n"
         "include <tunables/global>\n"
         "\n"
         "profile sbx \"" + std::string(path) + "\" flags=(unconfined) {\n"
         "  userns,\n"
         "\n"
         "  include if exists <local/sbx>\n"
         "}\n";
}

}  // namespace sbx::runtime
