#include "policy/review.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.h"
#include "policy/account.h"
#include "policy/resolve.h"

namespace sbx {
namespace {

// ---- what is looked for -------------------------------------------------------------------------------------------

// A call that a filter for strangers' programs should not let through. `arguments` make it the dangerous one.
struct RiskyCall {
  const char* name;  // of the risk
  RiskSeverity severity;
  const char* call;
  uint64_t arguments[6];
  const char* what;
};
constexpr uint64_t kTiocsti = 0x5412;
constexpr uint64_t kVsock = 40, kPacket = 17, kAlg = 38;
constexpr std::array<RiskyCall, 19> kRiskyCalls = {{
    {"kernel-code", RiskSeverity::high, "bpf", {}, "brings code into the kernel"},
    {"kernel-code", RiskSeverity::high, "finit_module", {}, "brings code into the kernel"},
    {"kernel-code", RiskSeverity::high, "init_module", {}, "brings code into the kernel"},
    {"kernel-code", RiskSeverity::high, "kexec_load", {}, "replaces the kernel"},
    {"io-uring", RiskSeverity::high, "io_uring_setup", {}, "is a second way to make system calls, which no filter sees"},
    {"kernel-surface", RiskSeverity::medium, "perf_event_open", {}, "measures other processes and the kernel, and has often had holes"},
    {"kernel-surface", RiskSeverity::medium, "userfaultfd", {}, "holds the kernel in the middle of a copy: the exploit writer's aid"},
    {"keyring", RiskSeverity::medium, "keyctl", {}, "reads and changes keys that the kernel keeps per user, not per sandbox"},
    {"keyring", RiskSeverity::medium, "add_key", {}, "fills the keys that the kernel keeps per user, not per sandbox"},
    {"keyring", RiskSeverity::medium, "request_key", {}, "asks for keys that the kernel keeps per user, not per sandbox"},
    {"file-handles", RiskSeverity::medium, "open_by_handle_at", {}, "opens files by number, around the view of files"},
    {"debugging", RiskSeverity::low, "ptrace", {}, "steers other processes of the sandbox, and has often had holes"},
    {"debugging", RiskSeverity::low, "process_vm_writev", {}, "writes into other processes of the sandbox"},
    {"mount-calls", RiskSeverity::medium, "mount", {}, "changes the view of files as soon as a capability is there"},
    {"mount-calls", RiskSeverity::medium, "fsopen", {}, "changes the view of files as soon as a capability is there"},
    {"join-namespaces", RiskSeverity::medium, "setns", {}, "enters other namespaces as soon as a capability is there"},
    {"socket-families", RiskSeverity::medium, "socket", {kVsock, 1}, "of AF_VSOCK reaches a virtual machine's host past the network namespace"},
    {"socket-families", RiskSeverity::medium, "socket", {kPacket, 3}, "of AF_PACKET reads and forges packets as soon as a capability is there"},
    {"socket-families", RiskSeverity::medium, "socket", {kAlg, 5}, "of AF_ALG opens kernel code that has often had holes"},
}};

// Below a home: what a shell, a session or sbx itself starts or obeys.
constexpr std::array<std::string_view, 17> kTrusted = {
    ".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zshenv", ".zprofile", ".xprofile", ".gitconfig",
    ".config/git", ".config/fish", ".config/systemd", ".config/autostart", ".config/sbx", ".local/bin", "bin",
    ".local/share/applications"};
// The host runs, or obeys, what lies there.
constexpr std::array<std::string_view, 12> kSystem = {"/usr",  "/bin", "/sbin", "/lib",     "/lib32",     "/lib64",
                                                      "/boot", "/opt", "/etc",  "/var/lib", "/var/spool", "/nix/store"};
// Where services keep their sockets.
constexpr std::array<std::string_view, 4> kSocketPlaces = {"/run", "/var/run", "/tmp", "/var/tmp"};

// Capabilities that reach kernel code or settings well beyond the payload's own processes, inside its user namespace.
constexpr std::array<std::string_view, 9> kStrongCapabilities = {
    "cap_sys_admin", "cap_net_admin", "cap_net_raw", "cap_bpf", "cap_perfmon", "cap_sys_ptrace", "cap_sys_module", "cap_mknod",
    "cap_dac_read_search"};

constexpr std::array<const char*, 37> kNames = {
    "control-socket", "device", "whole-host", "home", "credentials", "system-settings", "writable-system", "trusted-places",
    "sensitive-writes", "writable-share", "socket-directory", "host-network", "no-filter", "terminal-injection",
    "nested-namespaces", "capabilities", "host-ipc", "host-name", "host-cgroups", "no-landlock", "writable-root", "inside-root",
    "no-memory-limit", "no-process-limit", "no-time-limit", "no-output-limit", "no-disk-limit", "secret-variable",
    // Of what another sandbox's words leave open there: PolicyLayer::remarks.
    "host-processes", "outlives", "whole-environment",
    // Of nsjail's configurations alone (policy/nsjail/review.cc).
    "host-root", "no-user-namespace", "set-uid-programs", "chroot-only", "writable-proc", "no-connection-limit"};

bool is_name_of_secret(std::string_view name) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(), [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  for (const char* part : {"API_KEY", "PRIVATE_KEY", "ACCESS_KEY", "SECRET_KEY", "AUTH_SOCK", "DATABASE_URL"})
    if (upper.find(part) != std::string::npos) return true;
  // PGPASSWORD and GH_TOKEN, but not TOKENIZERS_PARALLELISM.
  for (const std::string& word : split(upper, '_'))
    for (const char* end : {"TOKEN", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIALS", "APIKEY"})
      if (word.ends_with(end)) return true;
  return false;
}

// ---- the review ---------------------------------------------------------------------------------------------------

class Review {
 public:
  Review(const SandboxSpec& spec, const HostFacts& facts, const ReviewInput& input) : spec_(spec), facts_(facts), input_(input) {}

  Result<std::vector<Risk>> all() {
    for (const FsOp& op : spec_.fs) {
      if (const auto* bind = std::get_if<BindOp>(&op)) share(*bind);
      if (const auto* overlay = std::get_if<OverlayOp>(&op)) overlaid(*overlay);
    }
    const SyscallRules rules = SBX_TRY(rules_of(spec_.seccomp));
    network();
    filter(rules);
    identity();
    limits();
    environment();
    std::stable_sort(risks_.begin(), risks_.end(), [](const Risk& a, const Risk& b) { return a.severity > b.severity; });
    return std::move(risks_);
  }

 private:
  void add(const char* name, RiskSeverity severity, std::string what, std::string fix, std::string origin) {
    Risk risk{name, severity, std::move(what), std::move(fix), std::move(origin)};
    if (std::find(risks_.begin(), risks_.end(), risk) == risks_.end()) risks_.push_back(std::move(risk));
  }
  std::string origin(const char* key) const {
    const auto found = spec_.origins.find(key);
    return found == spec_.origins.end() ? "" : found->second;
  }

  // What to write instead: in the words of whoever opened it.
  std::string instead(const char* key, const char* value) const {
    const KeyRow* row = find_key(key);
    std::string word(value);
    if (row != nullptr && row->flag != nullptr && starts_with(origin(key), "flag ")) {
      std::erase(word, '"');
      return std::string(row->flag) + " " + word;
    }
    return std::string(key) + " = " + word;
  }
  static std::string not_writable(const std::string& from) {
    return starts_with(from, "flag ") ? "leave :rw out, or share it with --workspace DIR:overlay" : "mode = \"ro\", or type = \"overlay\"";
  }

  // ---- files
  // What a source gives away by being seen at all; true when something was found.
  bool exposed(const std::string& source, uint32_t mode, bool writable, const std::string& from) {
    const std::string shown = quoted_path(source);
    if (S_ISSOCK(mode)) {
      add("control-socket", RiskSeverity::high, "whoever listens at the socket " + shown + " acts for the payload, outside of the sandbox",
          "take the mount away", from);
      return true;
    }
    if (S_ISCHR(mode) || S_ISBLK(mode)) {
      add("device", RiskSeverity::high, "the payload talks to the host's device " + shown, "take the mount away", from);
      return true;
    }
    const Status refused = check_mount_source(source, mode, facts_, "");
    if (refused.ok()) return false;
    const std::string reason = refused.error().text();
    const std::string why = reason.substr(reason.find("not shared: ") == std::string::npos ? 0 : reason.find("not shared: ") + 12);
    const std::string does = writable ? "the payload reads and changes " : "the payload reads ";
    const auto says = [&](const char* part) { return why.find(part) != std::string::npos; };
    const char* name = "system-settings";
    const char* fix = "share a directory below it, or take the mount away";
    if (source == "/") name = "whole-host";
    else if (says("credentials") || says("password") || says("keys")) name = "credentials", fix = "take the mount away";
    else if (says("home director")) name = "home";
    else if (says("socket") || says("services of the host")) name = "control-socket", fix = "take the mount away";
    else if (says("devices")) name = "device", fix = "take the mount away";
    add(name, RiskSeverity::high, does + shown + ": " + why, fix, from);
    return true;
  }

  void share(const BindOp& op) {
    if (exposed(op.source, op.source_mode, !op.read_only, op.origin)) return;
    const std::string shown = quoted_path(op.source);
    for (const std::string_view place : kSocketPlaces) {
      if (op.source != place) continue;
      add("socket-directory", RiskSeverity::medium, shown + " usually holds sockets of the host's programs, and a read-only share lets the payload connect to them",
          "share a directory below it, or share it as an overlay, which hides sockets", op.origin);
    }
    if (op.read_only) return;
    if (std::any_of(kSystem.begin(), kSystem.end(), [&](std::string_view place) { return path_is_under(op.source, place); })) {
      add("writable-system", RiskSeverity::high, "the host runs or obeys what lies in " + shown + ", and the payload may change it",
          not_writable(op.origin), op.origin);
      return;
    }
    if (trusted_place(op)) return;
    no_disk_limit(op);
    if (std::find(input_.guarded.begin(), input_.guarded.end(), op.target) != input_.guarded.end()) return;
    const bool whole_workspace = op.origin == "flag --workspace";
    add(whole_workspace ? "sensitive-writes" : "writable-share", whole_workspace ? RiskSeverity::high : RiskSeverity::medium,
        "the payload may change everything in " + shown + ", also what the host later runs: git hooks, .envrc, editor settings, programs",
        whole_workspace ? "leave --allow-sensitive-write out" : not_writable(op.origin), op.origin);
  }

  bool trusted_place(const BindOp& op) {
    if (facts_.home.empty()) return false;
    for (const std::string_view name : kTrusted) {
      const std::string place = join_path(facts_.home, name);
      if (!path_is_under(op.source, place) && !path_is_under(place, op.source)) continue;
      add("trusted-places", RiskSeverity::high, "your shell, your session or sbx itself runs or obeys " + quoted_path(place) + ", and the payload may change it",
          not_writable(op.origin), op.origin);
      return true;
    }
    return false;
  }

  void no_disk_limit(const BindOp& op) {
    add("no-disk-limit", RiskSeverity::low, "limits.disk and limits.inodes hold in private places only: the payload can fill the file system of " + quoted_path(op.source),
        not_writable(op.origin), op.origin);
  }

  void overlaid(const OverlayOp& op) { exposed(op.lower, 0, false, op.origin); }

  // ---- network, system calls
  void network() {
    if (spec_.net != NetMode::host) return;
    add("host-network", RiskSeverity::high,
        "the payload reaches all that the host reaches: the local network, services that listen on localhost only, a cloud's metadata service",
        instead("net.mode", "\"none\""), origin("net.mode"));
  }

  // What changed the filter: allow and deny lists, rules, or the policy itself.
  std::string filter_origin(const SyscallRules& rules, std::string_view call) const {
    for (const SyscallRule& rule : rules.rules)
      if (rule.name == call && !rule.origin.empty()) return rule.origin;
    return origin("seccomp.policy");
  }

  void filter(const SyscallRules& rules) {
    const uint64_t tiocsti[6] = {0, kTiocsti, 0, 0, 0, 0};
    const bool open_terminal = allowed(rules, "ioctl", tiocsti);
    if (!spec_.new_session && open_terminal) {
      add("terminal-injection", RiskSeverity::high, "the payload shares your terminal and may type into it (TIOCSTI), as if you had",
          instead("sandbox.new_session", "true"), origin("sandbox.new_session"));
    }
    if (!spec_.seccomp.enabled) {
      add("no-filter", RiskSeverity::high, "every system call reaches the kernel: one hole in one of them is enough", instead("seccomp.policy", "\"default\""),
          origin("seccomp.policy"));
      return;  // each single call would only repeat it
    }
    for (const RiskyCall& row : kRiskyCalls) {
      if (!allowed(rules, row.call, row.arguments)) continue;
      if (spec_.hardening.nested_userns && std::string_view(row.call) == "setns") continue;  // comes with it, and is told there
      add(row.name, row.severity, std::string("the system call ") + row.call + " is allowed, which " + row.what,
          std::string("seccomp.deny = [\"") + row.call + "\"], or take it out of seccomp.allow", filter_origin(rules, row.call));
    }
  }
  static bool allowed(const SyscallRules& rules, std::string_view call, const uint64_t (&arguments)[6]) {
    const SyscallAction action = decide_call(rules, call, arguments).action;
    return action == SyscallAction::allow || action == SyscallAction::log;
  }

  // ---- identity and namespaces
  void identity() {
    if (spec_.hardening.nested_userns) {
      add("nested-namespaces", RiskSeverity::high,
          "the payload may make user namespaces and hold every capability in them: kernel code that otherwise only root reaches",
          instead("hardening.nested_userns", "false"), origin("hardening.nested_userns"));
    }
    for (const std::string& name : spec_.hardening.keep_capabilities) {
      const bool strong = std::find(kStrongCapabilities.begin(), kStrongCapabilities.end(), name) != kStrongCapabilities.end();
      add("capabilities", strong ? RiskSeverity::high : RiskSeverity::low,
          "the payload keeps " + name + (strong ? ", inside its own user namespace: kernel code that otherwise only root reaches"
                                                : ", inside its own user namespace only"),
          "take it out of hardening.capabilities", origin("hardening.capabilities"));
    }
    if (!spec_.namespaces.ipc) {
      add("host-ipc", RiskSeverity::medium, "the payload sees shared memory, semaphores and message queues of the host's programs",
          instead("sandbox.ipc_namespace", "true"), origin("sandbox.ipc_namespace"));
    }
    if (!spec_.namespaces.uts) {
      add("host-name", RiskSeverity::low, "the payload learns the host's name", instead("sandbox.uts_namespace", "true"), origin("sandbox.uts_namespace"));
    }
    if (!spec_.namespaces.cgroup) {
      add("host-cgroups", RiskSeverity::low, "the payload learns where it stands among the host's cgroups", instead("sandbox.cgroup_namespace", "true"),
          origin("sandbox.cgroup_namespace"));
    }
    if (!spec_.hardening.landlock) {
      add("no-landlock", RiskSeverity::low, "nothing but the mounts keeps the payload from writing elsewhere: the second line is off",
          instead("hardening.landlock", "true"), origin("hardening.landlock"));
    }
    if (!spec_.read_only_root) {
      add("writable-root", RiskSeverity::low, "the payload may put files of its own beside the system's, inside the sandbox", instead("fs.read_only_root", "true"),
          origin("fs.read_only_root"));
    }
    if (spec_.identity.uid == 0) {
      add("inside-root", RiskSeverity::low, "programs inside take themselves for root; it is none on the host", instead("sandbox.uid", "1000"), origin("sandbox.uid"));
    }
  }

  // ---- limits
  void limits() {
    const Limits& limits = spec_.limits;
    if (!limits.memory) {
      add("no-memory-limit", RiskSeverity::medium, "the payload may use all of the host's memory, and the host ends programs of others then",
          instead("limits.memory", "\"1G\""), origin("limits.memory"));
    }
    if (!limits.pids) {
      add("no-process-limit", RiskSeverity::medium, "a fork bomb fills the host's table of processes", instead("limits.pids", "256"), origin("limits.pids"));
    }
    if (!limits.wall) {
      const bool cpu = limits.cpu_time.has_value();
      add("no-time-limit", cpu ? RiskSeverity::low : RiskSeverity::medium, cpu ? "a payload that sleeps is never ended" : "a payload that does not end by itself is never ended",
          instead("limits.time", "\"60s\""), origin("limits.time"));
    }
    if (!limits.output) {
      add("no-output-limit", RiskSeverity::medium, "the payload may print until the disk or the memory of the reader is full", instead("limits.output", "\"64M\""),
          origin("limits.output"));
    }
  }

  void environment() {
    for (const std::string& variable : spec_.environment) {
      const std::string name = variable.substr(0, variable.find('='));
      if (!is_name_of_secret(name)) continue;
      const std::string passed = origin("env.pass");
      add("secret-variable", RiskSeverity::medium, "the payload reads the variable " + printable(name) + ", which looks like a secret",
          "take it out of env.pass and env.set, or give the payload a value of its own", passed.empty() || starts_with(passed, "default ") ? origin("env.set") : passed);
    }
  }

  const SandboxSpec& spec_;
  const HostFacts& facts_;
  const ReviewInput& input_;
  std::vector<Risk> risks_;
};

}  // namespace

const char* risk_severity_name(RiskSeverity severity) {
  switch (severity) {
    case RiskSeverity::low: return "low";
    case RiskSeverity::medium: return "medium";
    case RiskSeverity::high: return "high";
  }
  return "";
}

std::vector<std::string> risk_names() {
  std::vector<std::string> names(kNames.begin(), kNames.end());
  for (const RiskyCall& row : kRiskyCalls)
    if (std::find(names.begin(), names.end(), row.name) == names.end()) names.emplace_back(row.name);
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::vector<Risk>> review(const SandboxSpec& spec, const HostFacts& facts, const ReviewInput& input) {
  return Review(spec, facts, input).all();
}

}  // namespace sbx
