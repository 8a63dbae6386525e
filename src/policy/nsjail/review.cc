#include "policy/nsjail/review.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "policy/kafel/kafel.h"
#include "policy/account.h"

namespace sbx::nsjail {
namespace {

constexpr std::array<std::string_view, 8> kSockets = {"docker.sock", "containerd.sock", "podman.sock", "crio.sock", "libvirt-sock", "dbus", "X11-unix", "wayland"};
constexpr std::array<std::string_view, 6> kCredentials = {"/.ssh", "/.gnupg", "/.aws", "/.kube", "/.docker", "/etc/shadow"};
constexpr std::array<std::string_view, 7> kSystem = {"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/boot"};
constexpr std::array<std::string_view, 8> kStrong = {"CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE", "CAP_SYS_MODULE", "CAP_DAC_READ_SEARCH"};

class Review {
 public:
  explicit Review(const Config& config) : config_(config) {}

  std::vector<Risk> all() {
    for (size_t i = 0; i < config_.mount.size(); ++i) {
      if (config_.mount[i].is_bind) bind(config_.mount[i], config_.origins.at("mount", i));
      if (config_.mount[i].fstype == "proc" && config_.mount[i].rw) {
        add("writable-proc", RiskSeverity::low, "the program may write into /proc", "leave rw out of that mount", config_.origins.at("mount", i));
      }
    }
    isolation();
    calls();
    limits();
    std::stable_sort(risks_.begin(), risks_.end(), [](const Risk& a, const Risk& b) { return a.severity > b.severity; });
    return std::move(risks_);
  }

 private:
  void add(const char* name, RiskSeverity severity, std::string what, std::string fix, std::string origin) {
    risks_.push_back({name, severity, std::move(what), std::move(fix), std::move(origin)});
  }
  void if_said(bool risky, const char* field, const char* name, RiskSeverity severity, const char* what, const char* fix) {
    if (risky) add(name, severity, what, fix, config_.origins.at(field));
  }

  void bind(const Mount& mount, const std::string& from) {
    const std::string source = starts_with(mount.src, "/") ? normalize_path(mount.src) : mount.src;
    const std::string shown = quoted_path(source);
    const auto has = [&](const auto& list) { return std::any_of(list.begin(), list.end(), [&](std::string_view part) { return source.find(part) != std::string::npos; }); };
    if (has(kSockets)) {
      add("control-socket", RiskSeverity::high, "whoever listens at " + shown + " acts for the program, outside of the jail", "take the mount away", from);
      return;
    }
    if (has(kCredentials)) add("credentials", RiskSeverity::high, "the program reads " + shown, "take the mount away", from);
    if (source == "/") {
      add("whole-host", RiskSeverity::high, std::string("the program reads ") + (mount.rw ? "and changes " : "") + "all that the caller's user may read on this host",
          "mount what it needs: /usr, /lib, /lib64 and /bin; or a root directory made for it", from);
    } else if (mount.rw && std::any_of(kSystem.begin(), kSystem.end(), [&](std::string_view place) { return path_is_under(source, place); })) {
      add("writable-system", RiskSeverity::high, "the host runs or obeys what lies in " + shown + ", and the program may change it", "rw: false", from);
    } else if (mount.rw && !starts_with(source, "/dev/")) {
      add("writable-share", RiskSeverity::medium, "the program may change everything in " + shown + ", and fill its file system", "rw: false, or a tmpfs there", from);
    }
    if (source == "/home" || source == "/root" || starts_with(source, "/home/")) {
      add("home", RiskSeverity::high, "the program reads a home directory, " + shown, "mount the directory below it that is meant", from);
    }
    if (source == "/dev") add("device", RiskSeverity::high, "the program talks to the host's devices", "mount /dev/null, /dev/zero and /dev/urandom one by one", from);
    if (mount.rw && !mount.nosuid && !starts_with(source, "/dev/")) {
      add("set-uid-programs", RiskSeverity::low, "programs that the jail makes in " + shown + " may carry set-uid bits, which hold on the host", "nosuid: true, and a host file system mounted nosuid", from);
    }
  }

  void isolation() {
    using enum RiskSeverity;
    for (const auto& [maps, field] : {std::pair{&config_.uidmap, "uidmap"}, std::pair{&config_.gidmap, "gidmap"}}) {
      for (size_t i = 0; i < maps->size(); ++i) {
        if ((*maps)[i].outside_id != "0" && (*maps)[i].outside_id != "root") continue;
        add("host-root", high, "the program is root outside, too: what it reaches of the host it reaches as root", "outside_id: \"99999\", or any id that owns nothing",
            config_.origins.at(field, i));
      }
    }
    if_said(!config_.clone_newuser, "clone_newuser", "no-user-namespace", medium, "the program's ids are the host's", "clone_newuser: true");
    if_said(!config_.clone_newns, "clone_newns", "whole-host", high, "the program sees the host's files", "clone_newns: true, and mounts");
    if_said(!config_.clone_newpid, "clone_newpid", "host-processes", high, "the program sees the host's processes, and what it starts outlives it", "clone_newpid: true");
    if_said(!config_.clone_newnet, "clone_newnet", "host-network", high,
            "the program reaches all that the host reaches: the local network, services on localhost, a cloud's metadata service", "clone_newnet: true");
    if_said(!config_.clone_newipc, "clone_newipc", "host-ipc", medium, "the program sees shared memory and message queues of the host's programs", "clone_newipc: true");
    if_said(!config_.clone_newuts, "clone_newuts", "host-name", low, "the program learns the host's name", "clone_newuts: true");
    if_said(!config_.clone_newcgroup, "clone_newcgroup", "host-cgroups", low, "the program learns where its cgroup lies on the host", "clone_newcgroup: true");
    if_said(config_.keep_caps, "keep_caps", "capabilities", high, "the program keeps every capability, inside its own user namespace: kernel code that otherwise only root reaches",
            "name those that it needs: cap: \"CAP_NET_BIND_SERVICE\"");
    for (size_t i = 0; i < config_.cap.size(); ++i) {
      const bool strong = std::find(kStrong.begin(), kStrong.end(), config_.cap[i]) != kStrong.end();
      add("capabilities", strong ? high : low, "the program keeps " + printable(config_.cap[i]), "take this cap out", config_.origins.at("cap", i));
    }
    const bool filtered = config_.seccomp_policy_file || !config_.seccomp_string.empty();
    if_said(config_.disable_no_new_privs && !filtered, "disable_no_new_privs", "set-uid-programs", high, "set-uid programs inside give rights", "disable_no_new_privs: false, or nosuid: true at each mount");
    if_said(config_.no_pivotroot, "no_pivotroot", "chroot-only", medium, "who has CAP_SYS_CHROOT inside leaves the jail", "no_pivotroot: false");
    if_said(config_.keep_env, "keep_env", "secret-variable", medium, "the program reads every variable of the caller, secrets among them", "name those that it needs: envar: \"PATH=/usr/bin\"");
  }

  // The filter's say about single calls, where its text is here.
  void calls() {
    using enum RiskSeverity;
    if (config_.seccomp_policy_file) return;
    std::string text;
    for (const std::string& part : config_.seccomp_string) text += part + "\n";
    if (text.empty()) {
      add("no-filter", medium, "every system call reaches the kernel: one hole in one of them is enough", "seccomp_string: \"ERRNO(1) { mount, umount, ptrace, bpf, keyctl, unshare } DEFAULT ALLOW\", or an allow-list",
          "");
      if_said(config_.skip_setsid, "skip_setsid", "terminal-injection", high, "the program shares your terminal and may type into it (TIOCSTI), as if you had", "skip_setsid: false");
      return;
    }
    const Result<SyscallRules> rules = kafel::compile(text);
    if (!rules.ok()) return;  // a mistake, and told as one
    const auto allows = [&](const char* call, const uint64_t (&arguments)[6]) {
      const SyscallAction action = decide_call(rules.value(), call, arguments).action;
      return action == SyscallAction::allow || action == SyscallAction::log;
    };
    const std::string from = config_.origins.at("seccomp_string");
    if (config_.skip_setsid && allows("ioctl", {0, 0x5412, 0, 0, 0, 0})) {
      add("terminal-injection", high, "the program shares your terminal and may type into it (TIOCSTI), as if you had", "skip_setsid: false", config_.origins.at("skip_setsid"));
    }
    for (const auto& [call, name, severity] : {std::tuple{"bpf", "kernel-code", high}, {"io_uring_setup", "io-uring", medium}, {"unshare", "nested-namespaces", medium},
                                               {"keyctl", "keyring", medium}, {"ptrace", "debugging", low}, {"perf_event_open", "kernel-surface", medium}}) {
      const uint64_t arguments[6] = {std::string_view(call) == "unshare" ? uint64_t{0x10000000} : 0, 0, 0, 0, 0, 0};
      if (allows(call, arguments)) {
        add(name, severity, std::string("the policy allows ") + call + ", which strangers' programs do not need", std::string("ERRNO(1) { ") + call + " } before what allows it", from);
      }
    }
  }

  void limits() {
    using enum RiskSeverity;
    if_said(config_.time_limit == 0, "time_limit", "no-time-limit", low, "the program runs for as long as it likes", "time_limit: 60");
    if (config_.cgroup_mem_max == 0) {
      add("no-memory-limit", medium, "rlimit_as holds for each process: many of them together take all memory", "cgroup_mem_max: 536870912", "");
    }
    if (config_.cgroup_pids_max == 0 && (config_.rlimit_nproc_type != RlimitType::value || config_.disable_rl)) {
      add("no-process-limit", medium, "the program may start as many processes as the host takes", "cgroup_pids_max: 64", "");
    }
    if_said(config_.mode == Mode::listen && config_.max_conns == 0 && config_.max_conns_per_ip == 0, "mode", "no-connection-limit", low,
            "any number of connections starts any number of programs", "max_conns: 100 max_conns_per_ip: 4");
  }

  const Config& config_;
  std::vector<Risk> risks_;
};

}  // namespace

std::vector<Risk> review(const Config& config) { return Review(config).all(); }

}  // namespace sbx::nsjail
