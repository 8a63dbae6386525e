#include "runtime/spec_text.h"

#include <cstdlib>

#include "base/text.h"
#include "policy/syscall_groups.h"
#include "runtime/digest.h"

namespace sbx::runtime {
namespace {

std::string octal(uint32_t mode) {
  std::string digits;
  for (; mode != 0; mode /= 8) digits.insert(digits.begin(), static_cast<char>('0' + mode % 8));
  return "0" + digits;
}

const char* yes_no(bool value) { return value ? "yes" : "no"; }

std::string value_text(const ArgumentValue& value) {
  switch (value.kind) {
    case ArgumentValue::Kind::constant: return std::to_string(value.constant);
    case ArgumentValue::Kind::argument: return "arg" + std::to_string(value.index);
    case ArgumentValue::Kind::bit_and:
    case ArgumentValue::Kind::bit_or: break;
  }
  std::string text = value.kind == ArgumentValue::Kind::bit_and ? "(&" : "(|";
  for (const ArgumentValue& part : value.parts) text += " " + value_text(part);
  return text + ")";
}

std::string test_text(const ArgumentTest& test) {
  return "arg" + std::to_string(test.index) + (test.low32 ? "/32" : "") + " op" + std::to_string(static_cast<int>(test.op)) + " " +
         std::to_string(test.mask) + " " + std::to_string(test.value);
}

std::string condition_text(const ArgumentCondition& condition) {
  switch (condition.kind) {
    case ArgumentCondition::Kind::test: return "(" + test_text(condition.test) + ")";
    case ArgumentCondition::Kind::compare: {
      std::string text = std::string("(op") + std::to_string(static_cast<int>(condition.test.op)) + (condition.test.low32 ? "/32" : "");
      for (const ArgumentValue& side : condition.sides) text += " " + value_text(side);
      return text + ")";
    }
    case ArgumentCondition::Kind::all:
    case ArgumentCondition::Kind::any: break;
  }
  std::string text = condition.kind == ArgumentCondition::Kind::all ? "(all" : "(any";
  for (const ArgumentCondition& part : condition.parts) text += " " + condition_text(part);
  return text + ")";
}

struct OpText {
  std::string operator()(const BindOp& op) const {
    std::string text = std::string(op.read_only ? "bind-ro " : "bind-rw ") + shell_quote(op.source);
    if (op.source != op.target) text += " at " + shell_quote(op.target);
    if (op.no_exec) text += " noexec";
    if (op.devices) text += " dev";
    if (op.idmap) text += " idmap";
    if (op.optional) text += " optional";
    return text;
  }
  std::string operator()(const TmpfsOp& op) const {
    return "tmpfs " + shell_quote(op.target) + " size " + format_size(op.size) + " inodes " +
           std::to_string(op.inodes) + " mode " + octal(op.mode);
  }
  std::string operator()(const PrivateDirOp& op) const {
    return "private " + shell_quote(op.target) + " mode " + octal(op.mode);
  }
  std::string operator()(const DirOp& op) const { return "dir " + shell_quote(op.target) + " mode " + octal(op.mode); }
  std::string operator()(const SymlinkOp& op) const {
    return "link " + shell_quote(op.target) + " to " + shell_quote(op.text);
  }
  std::string operator()(const FileOp& op) const {
    return "file " + shell_quote(op.target) + " mode " + octal(op.mode) + " sha256 " + sha256_hex(op.content);
  }
  std::string operator()(const CopyFdOp& op) const {
    return "copy " + shell_quote(op.target) + " mode " + octal(op.mode);
  }
  std::string operator()(const ProcOp& op) const {
    return "proc " + shell_quote(op.target) + (op.subset_pid ? " subset=pid" : "") + (op.masked ? "" : " unmasked");
  }
  std::string operator()(const DevOp& op) const { return "dev " + shell_quote(op.target); }
  std::string operator()(const OverlayOp& op) const {
    return "overlay " + shell_quote(op.lower) + " at " + shell_quote(op.target);
  }
  std::string operator()(const ReadOnlyOp& op) const { return "read-only " + shell_quote(op.target); }
  std::string operator()(const PinOp& op) const { return "pin " + shell_quote(op.target); }
};

}  // namespace

std::string spec_digest(const SandboxSpec& spec) { return sha256_hex(spec_text(spec)); }

std::string fs_op_text(const FsOp& op) { return std::visit(OpText{}, op); }

std::string spec_text(const SandboxSpec& spec) {
  std::string text;
  const auto line = [&](const std::string& name, const std::string& value) { text += name + " " + value + "\n"; };
  const auto size = [&](const char* name, std::optional<Bytes> value) {
    line(name, value ? std::to_string(value->value) : "none");
  };
  const auto number = [&](const char* name, std::optional<uint64_t> value) {
    line(name, value ? std::to_string(*value) : "none");
  };
  const auto time = [&](const char* name, std::optional<Millis> value) {
    line(name, value ? std::to_string(value->value) + "ms" : "none");
  };
  std::string words;
  for (const std::string& word : spec.argv) words += (words.empty() ? "" : " ") + shell_quote(word);
  line("argv", words);
  line("exec", shell_quote(spec.exec_path));
  line("working_directory", shell_quote(spec.working_directory));
  for (const std::string& variable : spec.environment) line("env", shell_quote(variable));
  line("uid", std::to_string(spec.identity.uid));
  line("gid", std::to_string(spec.identity.gid));
  line("namespaces", std::string("ipc=") + yes_no(spec.namespaces.ipc) + " uts=" + yes_no(spec.namespaces.uts) +
                         " cgroup=" + yes_no(spec.namespaces.cgroup));
  line("net", spec.net == NetMode::none ? "none" : "host");
  line("hostname", shell_quote(spec.hostname));
  line("new_session", yes_no(spec.new_session));
  for (const FsOp& op : spec.fs) line("fs", fs_op_text(op));
  line("read_only_root", yes_no(spec.read_only_root));
  for (const std::string& path : spec.writable_paths) line("writable", shell_quote(path));
  time("limits.time", spec.limits.wall);
  time("limits.cpu_time", spec.limits.cpu_time);
  size("limits.memory", spec.limits.memory);
  number("limits.pids", spec.limits.pids);
  number("limits.cpus_milli", spec.limits.cpus_milli);
  size("limits.io", spec.limits.io);
  size("limits.disk", spec.limits.disk);
  number("limits.inodes", spec.limits.inodes);
  size("limits.file_size", spec.limits.file_size);
  number("limits.open_files", spec.limits.open_files);
  size("limits.output", spec.limits.output);
  line("landlock", yes_no(spec.hardening.landlock));
  line("nested_userns", yes_no(spec.hardening.nested_userns));
  line("writable_noexec", yes_no(spec.hardening.writable_noexec));
  line("capabilities", join(spec.hardening.keep_capabilities, ","));
  line("seccomp", !spec.seccomp.enabled ? "off" : spec.seccomp.builtin.empty() ? "rules" : spec.seccomp.builtin);
  if (spec.seccomp.enabled && spec.seccomp.builtin.empty()) {
    for (const SyscallRule& rule : spec.seccomp.rules.rules) {
      std::string value = rule.name + " " + format_syscall_answer(rule.verdict);
      if (rule.number) value += " number " + std::to_string(*rule.number);
      for (const ArgumentTest& test : rule.tests) value += " " + test_text(test);
      for (const ArgumentCondition& condition : rule.conditions) value += " " + condition_text(condition);
      line("seccomp.rule", value);
    }
    line("seccomp.otherwise", format_syscall_answer(spec.seccomp.rules.otherwise));
  }
  return text;
}

}  // namespace sbx::runtime
