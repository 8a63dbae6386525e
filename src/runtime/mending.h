// Why a host refuses what a sandbox needs, and the command or setting that mends it: one text for each cause, used by
// the engine's hints and by `sbx doctor`.
//
// Pure, but for read_namespace_knobs(). Commands stand complete, so that they work when pasted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sbx::runtime {

struct Mending {
  std::string cause;   // one clause, lower case
  std::string remedy;  // one clause or command; "" when nothing is known
  std::string text() const { return remedy.empty() ? cause : cause + "; " + remedy; }
};

// What decides about user namespaces for a process without privileges. nullopt: this kernel does not have the knob.
struct NamespaceKnobs {
  uint32_t uid = 0;
  std::string container;  // "docker", "podman", "kubernetes", "lxc", "systemd-nspawn", "container"; "": none that shows
  std::optional<int64_t> apparmor_restrict;    // kernel.apparmor_restrict_unprivileged_userns (Ubuntu 23.10)
  std::optional<int64_t> unprivileged_clone;   // kernel.unprivileged_userns_clone (Debian)
  std::optional<int64_t> max_user_namespaces;  // user.max_user_namespaces, of our own user namespace
  bool filtered = false;   // a seccomp filter lies on this process already
  bool chrooted = false;   // our root is none of our mount namespace's
  uint64_t capabilities = ~uint64_t{0};  // effective ones
  bool leases_uids = false;  // root with a range of uids: a sandbox gets one of its own
};
NamespaceKnobs read_namespace_knobs();

// Where one shows that it is a container. Each engine leaves a mark of its own; none of them is a promise.
struct ContainerMarks {
  bool dockerenv = false;         // /.dockerenv
  bool containerenv = false;      // /run/.containerenv (podman)
  bool kubernetes = false;        // KUBERNETES_SERVICE_HOST
  std::string variable;           // container=… in our environment
  std::string systemd_container;  // /run/systemd/container
};
std::string container_name(const ContainerMarks& marks);

// What a step of making namespaces was refused with. `in_use`: the namespace was made, and its capabilities are
// refused (Ubuntu's way since 24.04) or mounting is (a container's AppArmor profile).
enum class NamespaceStep { make, map, use, mount };
Mending mend_namespaces(const NamespaceKnobs& knobs, NamespaceStep step, int errnum);
// A new /proc was refused because the outer one is partly covered.
Mending mend_masked_proc(const NamespaceKnobs& knobs);
// What root must have to give a sandbox its uid, and has not: "CAP_CHOWN, CAP_SETUID"; "": nothing is lacking.
std::string lacking_capabilities(bool leases_uids, uint64_t effective);
Mending mend_capabilities(const NamespaceKnobs& knobs);
// A lock on a uid could not be had in `directory`.
std::string mend_uid_lease(int errnum, const std::string& directory);
// Landlock is not built in (ENOSYS), or not started (EOPNOTSUPP); `lsm` is the text of /sys/kernel/security/lsm.
Mending mend_landlock(int errnum, std::string_view lsm);
// What a container of this kind has to be started with, for everything that sbx needs.
std::string container_options(const std::string& container);

// ---- the AppArmor profile --------------------------------------------------------------------------------------

inline constexpr char kAppArmorProfilePath[] = "/etc/apparmor.d/sbx";
// A profile that lets the program at `path` make user namespaces and restricts nothing (AppArmor 4.0). "" when the path
// has a character that a profile cannot hold safely.
std::string apparmor_profile(std::string_view path);

}  // namespace sbx::runtime
