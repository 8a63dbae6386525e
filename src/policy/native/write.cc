#include "policy/native/write.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.h"
#include "policy/kafel/write.h"
#include "policy/layer.h"
#include "policy/reference.h"
#include "policy/syscall_groups.h"

namespace sbx::native {
namespace {

using Op = ArgumentTest::Op;

std::string quote(const std::string& text) { return toml_value(*find_key("sandbox.hostname"), text); }

// The same operation, wherever it was asked for.
FsOp without_origin(FsOp op) {
  if (auto* bind = std::get_if<BindOp>(&op)) bind->origin.clear();
  if (auto* overlay = std::get_if<OverlayOp>(&op)) overlay->origin.clear();
  return op;
}

class Writer {
 public:
  Writer(const SandboxSpec& spec, const WriteInput& input) : spec_(spec), base_(input.base), passed_(input.passed) {}

  WrittenPolicy write() {
    const bool uts = spec_.namespaces.uts;
    if (uts) value("sandbox.hostname", spec_.hostname, base_.hostname);
    value("sandbox.uid", uint64_t{spec_.identity.uid}, uint64_t{base_.identity.uid});
    value("sandbox.gid", uint64_t{spec_.identity.gid}, uint64_t{base_.identity.gid});
    value("sandbox.new_session", spec_.new_session, base_.new_session);
    value("sandbox.ipc_namespace", spec_.namespaces.ipc, base_.namespaces.ipc);
    value("sandbox.uts_namespace", uts, base_.namespaces.uts);
    value("sandbox.cgroup_namespace", spec_.namespaces.cgroup, base_.namespaces.cgroup);
    value("fs.read_only_root", spec_.read_only_root, base_.read_only_root);
    environment();
    const Limits& limits = spec_.limits;
    limit("limits.time", limits.wall, base_.limits.wall);
    limit("limits.cpu_time", limits.cpu_time, base_.limits.cpu_time);
    limit("limits.memory", limits.memory, base_.limits.memory);
    limit("limits.pids", limits.pids, base_.limits.pids);
    limit("limits.cpus", limits.cpus_milli, base_.limits.cpus_milli);
    limit("limits.io", limits.io, base_.limits.io);
    value("limits.disk", limits.disk, base_.limits.disk);
    value("limits.inodes", limits.inodes, base_.limits.inodes);
    limit("limits.file_size", limits.file_size, base_.limits.file_size);
    limit("limits.open_files", limits.open_files, base_.limits.open_files);
    limit("limits.output", limits.output, base_.limits.output);
    seccomp();
    value("net.mode", std::string(spec_.net == NetMode::host ? "host" : "none"), std::string(base_.net == NetMode::host ? "host" : "none"));
    value("hardening.landlock", spec_.hardening.landlock, base_.hardening.landlock);
    value("hardening.nested_userns", spec_.hardening.nested_userns, base_.hardening.nested_userns);
    value("hardening.writable_noexec", spec_.hardening.writable_noexec, base_.hardening.writable_noexec);
    value("hardening.proc", proc_of(spec_), proc_of(base_));
    value("hardening.capabilities", spec_.hardening.keep_capabilities, base_.hardening.keep_capabilities);
    if (spec_.working_directory != base_.working_directory)
      written_.unsaid.push_back({"", "the working directory " + quoted_path(spec_.working_directory) + ": a native policy begins in " + base_.working_directory});
    tables_ += rules_;
    mounts();
    written_.text = "# Written by sbx policy convert.\n" + written_.text + tables_;
    return std::move(written_);
  }

 private:
  void unsaid(const std::string& key, const std::string& what) {
    const auto origin = spec_.origins.find(key);
    written_.unsaid.push_back({origin == spec_.origins.end() ? "" : origin->second, what});
  }

  void line(const std::string& path, const std::string& text) {
    const size_t dot = path.find('.');
    if (path.substr(0, dot) != section_) {
      section_ = path.substr(0, dot);
      written_.text += "\n[" + section_ + "]\n";
    }
    written_.text += path.substr(dot + 1) + " = " + text + "\n";
  }
  template <typename T>
  void value(const char* path, const T& now, const T& before) {
    if (now != before) line(path, toml_value(*find_key(path), KeyValue(now)));
  }
  template <typename T>
  void limit(const char* path, const std::optional<T>& now, const std::optional<T>& before) {
    if (now != before) line(path, toml_value(*find_key(path), now ? KeyValue(*now) : KeyValue(Unlimited{})));
  }

  static std::string proc_of(const SandboxSpec& spec) {
    for (const FsOp& op : spec.fs)
      if (const auto* proc = std::get_if<ProcOp>(&op)) return proc->subset_pid ? "processes" : proc->masked ? "full" : "unmasked";
    return "full";
  }

  void environment() {
    std::map<std::string, std::string> set;
    for (const std::string& variable : spec_.environment) {
      if (std::find(base_.environment.begin(), base_.environment.end(), variable) != base_.environment.end()) continue;
      const size_t equals = variable.find('=');
      if (passed_.contains(variable.substr(0, equals))) continue;
      set[variable.substr(0, equals)] = variable.substr(equals + 1);
    }
    if (!passed_.empty()) line("env.pass", toml_value(*find_key("env.pass"), std::vector<std::string>(passed_.begin(), passed_.end())));
    if (!set.empty()) line("env.set", toml_value(*find_key("env.set"), set));
    for (const std::string& variable : base_.environment) {
      const std::string name = variable.substr(0, variable.find('='));
      const bool there = std::any_of(spec_.environment.begin(), spec_.environment.end(), [&](const std::string& each) { return starts_with(each, name + "="); });
      if (!there) unsaid("env.set", "without the variable " + name + ": a native policy takes none away");
    }
  }

  // ---- system calls
  void seccomp() {
    const SeccompSpec& seccomp = spec_.seccomp;
    if (!seccomp.enabled) return line("seccomp.kafel", "'DEFAULT ALLOW'");
    if (!seccomp.builtin.empty()) return value("seccomp.policy", seccomp.builtin, base_.seccomp.builtin);
    if (on_top_of_shipped()) return value("seccomp.policy", seccomp.policy, base_.seccomp.policy);
    WrittenPolicy kafel = kafel::write(seccomp.rules);
    std::move(kafel.unsaid.begin(), kafel.unsaid.end(), std::back_inserter(written_.unsaid));
    const auto reports = [](const SyscallRule& rule) { return rule.verdict.action == SyscallAction::notify; };
    if (seccomp.rules.otherwise.action == SyscallAction::notify || std::any_of(seccomp.rules.rules.begin(), seccomp.rules.rules.end(), reports))
      unsaid("seccomp.policy", "refused calls are reported: in Kafel they answer EPERM, silently");
    line("seccomp.kafel", "'''\n" + kafel.text + "'''");
  }

  // Rules of one's own before those of a shipped policy are [[seccomp.rule]]s, if TOML has words for each.
  bool on_top_of_shipped() {
    const SyscallRules& rules = spec_.seccomp.rules;
    const Result<SyscallRules> shipped = builtin_syscall_rules(spec_.seccomp.policy);
    if (!shipped.ok()) return false;
    const std::vector<SyscallRule>& tail = shipped.value().rules;
    if (rules.rules.size() < tail.size() || rules.otherwise != shipped.value().otherwise || rules.unknown != shipped.value().unknown) return false;
    size_t own = rules.rules.size() - tail.size();
    if (!std::equal(tail.begin(), tail.end(), rules.rules.begin() + static_cast<ptrdiff_t>(own))) return false;
    // hardening.nested_userns brings its own, right before the shipped ones.
    constexpr std::array kOfNesting = {"clone", "clone3", "unshare", "setns"};
    const auto is_of_nesting = [&](size_t i) {
      const SyscallRule& rule = rules.rules[own - kOfNesting.size() + i];
      return rule.name == kOfNesting[i] && rule.tests.empty() && rule.verdict.action == SyscallAction::allow;
    };
    if (spec_.hardening.nested_userns && own >= kOfNesting.size() && is_of_nesting(0) && is_of_nesting(1) && is_of_nesting(2) && is_of_nesting(3))
      own -= kOfNesting.size();
    std::string text;
    for (size_t i = 0; i < own; ++i) {
      const std::optional<std::string> rule = rule_text(rules.rules[i]);
      if (!rule) return false;
      text += *rule;
    }
    rules_ = std::move(text);
    return true;
  }

  static std::optional<std::string> rule_text(const SyscallRule& rule) {
    const std::string answer = format_syscall_answer(rule.verdict);
    if (!rule.conditions.empty() || rule.number || !parse_syscall_answer(answer).ok()) return std::nullopt;
    std::string text = "\n[[seccomp.rule]]\ncalls = [" + quote(rule.name) + "]\n";
    for (size_t i = 0; i < rule.tests.size(); ++i) text += (i == 0 ? "when = [" : ", ") + test_text(rule.tests[i]) + (i + 1 == rule.tests.size() ? "]\n" : "");
    return text + "answer = " + quote(answer) + "\n";
  }
  static std::string number(uint64_t value) { return value <= INT64_MAX ? std::to_string(value) : "\"" + std::to_string(value) + "\""; }
  static std::string test_text(const ArgumentTest& test) {
    if (test.op == Op::start) return "{ start = true }";
    std::string text = "{ arg = " + std::to_string(test.index) + (test.low32 ? ", bits = 32" : "");
    if (test.op == Op::masked_equal || test.op == Op::masked_not_equal) text += ", mask = " + number(test.mask);
    const auto with = [&](const char* key, uint64_t value) { return text + ", " + key + " = " + number(value) + " }"; };
    switch (test.op) {
      case Op::equal:
      case Op::masked_equal: return with("equals", test.value);
      case Op::not_equal:
      case Op::masked_not_equal: return with("not_equals", test.value);
      case Op::less: return with("below", test.value);
      case Op::less_equal: return with("at_most", test.value);
      case Op::greater: return with("above", test.value);
      case Op::greater_equal: return with("at_least", test.value);
      case Op::any_bit: return with("any_bit", test.mask);
      case Op::start: break;
    }
    return text + " }";
  }

  // ---- files: the base's operations are there by themselves, in their order; what is left are mounts.
  void mounts() {
    std::vector<FsOp> left;
    std::vector<FsOp> own;
    for (const FsOp& op : base_.fs) own.push_back(without_origin(op));
    std::vector<bool> met(own.size(), false);
    for (const FsOp& op : spec_.fs) {
      const FsOp plain = without_origin(op);
      size_t at = 0;
      while (at < own.size() && (met[at] || own[at] != plain)) ++at;
      if (at < own.size()) met[at] = true;
      else left.push_back(op);
    }
    std::vector<std::string> besides;
    for (size_t i = 0; i < own.size(); ++i) {
      const std::string target = std::visit([](const auto& op) { return op.target; }, own[i]);
      if (!met[i] && !is_made_by_keys(own[i])) besides.push_back(target);
    }
    for (const FsOp& op : left)
      if (!is_made_by_keys(op)) std::visit([&](const auto& each) { mount(each); }, op);
    if (!besides.empty())
      unsaid("fs.root", "without " + join(besides, ", ") + ": a native policy always shows sbx's own places");
  }
  // Follows from other keys: /proc, what names the host and the user, what tells of its processors.
  static bool is_made_by_keys(const FsOp& op) {
    if (std::holds_alternative<ProcOp>(op) || std::holds_alternative<DevOp>(op)) return true;
    const std::string target = std::visit([](const auto& each) { return each.target; }, op);
    for (const char* made : {"/etc/passwd", "/etc/group", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/nsswitch.conf"})
      if (target == made) return true;
    return path_is_under(target, "/sys");  // limits.cpus
  }

  void mount(const BindOp& op) {
    tables_ += "\n[[fs.mount]]\nsource = " + quote(op.source) + "\n";
    if (op.target != op.source) tables_ += "target = " + quote(op.target) + "\n";
    if (!op.read_only) tables_ += "mode = \"rw\"\n";
    if (op.optional) tables_ += "optional = true\n";
    if (op.no_exec) tables_ += "no_exec = true\n";
    if (op.devices) written_.unsaid.push_back({op.origin, "devices in " + quoted_path(op.target) + ": a native policy opens none"});
  }
  void mount(const OverlayOp& op) {
    tables_ += "\n[[fs.mount]]\ntype = \"overlay\"\nsource = " + quote(op.lower) + "\n";
    if (op.target != op.lower) tables_ += "target = " + quote(op.target) + "\n";
  }
  void mount(const PrivateDirOp& op) {
    tables_ += "\n[[fs.mount]]\ntype = \"private\"\ntarget = " + quote(op.target) + "\n";
    if (op.mode != 0755) no_word(op.target, "the mode of a private directory");
  }
  void mount(const TmpfsOp& op) { no_word(op.target, "a file system of its own in memory"); }
  void mount(const DirOp& op) { no_word(op.target, "a directory"); }
  void mount(const SymlinkOp& op) { no_word(op.target, "a link to " + quoted_path(op.text)); }
  void mount(const FileOp& op) { no_word(op.target, "a file with a content of its own"); }
  void mount(const CopyFdOp& op) { no_word(op.target, "a file from a descriptor"); }
  void mount(const ReadOnlyOp& op) { no_word(op.target, "made read-only"); }
  void mount(const PinOp& op) { no_word(op.target, "pinned in its place"); }
  void mount(const ProcOp&) {}
  void mount(const DevOp&) {}
  void no_word(const std::string& target, const std::string& what) {
    written_.unsaid.push_back({"", quoted_path(target) + ": " + what + ", for which a native policy has no word"});
  }

  const SandboxSpec& spec_;
  const SandboxSpec& base_;
  const std::set<std::string>& passed_;
  WrittenPolicy written_;
  std::string section_;
  std::string rules_;
  std::string tables_;
};

}  // namespace

WrittenPolicy write(const SandboxSpec& spec, const WriteInput& input) { return Writer(spec, input).write(); }

}  // namespace sbx::native
