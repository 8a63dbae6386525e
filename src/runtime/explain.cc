#include "runtime/explain.h"

#include <algorithm>

#include "base/text.h"
#include "policy/account.h"
#include "policy/syscall_decide.h"
#include "policy/syscall_groups.h"
#include "seccomp/describe_call.h"

namespace sbx::runtime {
namespace {

constexpr uint64_t kNamespaceFlags = 0x7e020080;  // CLONE_NEW*, as groups.toml refuses them

// Groups whose calls the kernel refuses to those without a capability, filter or not.
constexpr std::string_view kPrivileged[] = {"mount", "namespaces", "clock-set", "kernel-code", "host-control", "raw-hardware"};

const SyscallGroup* group_of(const std::vector<SyscallGroup>& groups, const std::string& call) {
  for (const SyscallGroup& group : groups)
    if (std::find(group.calls.begin(), group.calls.end(), call) != group.calls.end()) return &group;
  return nullptr;
}

bool lets_pass(const SyscallVerdict& verdict) {
  return verdict.action == SyscallAction::allow || verdict.action == SyscallAction::log;
}

// The rules let it pass, so what refused it stands before them (CompileOptions' guards).
void name_guard(Denial& denial) {
  if (denial.call == "shmget") {
    denial.rule = "because nothing here counts memory that is shared by System V";
    denial.remedy = "it is allowed where a cgroup holds the memory limit (sbx doctor)";
    return;
  }
  denial.rule = "because set-id bits would stay in a writable directory of the host";
  denial.remedy = "it is allowed where none is shared writable (:ro, :overlay)";
}

void explain_one(const SandboxSpec& spec, const SyscallRules& rules, const std::vector<SyscallGroup>& groups, Denial& denial) {
  denial.text = seccomp::describe_call(denial.call, denial.arguments);
  const SyscallGroup* group = group_of(groups, denial.call);
  if (group != nullptr) denial.group = group->name;
  const SyscallRule* decides = deciding_rule(rules.rules, denial.call, denial.arguments);
  if (decides != nullptr && lets_pass(decides->verdict)) return name_guard(denial);

  const std::string& policy = spec.seccomp.policy;
  const bool shipped = decides == nullptr || starts_with(decides->origin, "groups.toml:") || starts_with(decides->origin, policy + ".toml:");
  if (!shipped) {
    denial.rule = starts_with(decides->origin, "flag ") ? decides->origin : "rule at " + decides->origin;
  } else {
    denial.rule = (denial.group.empty() ? "" : "rule \"" + denial.group + "\" of ") + "policy " + policy;
  }
  if (!shipped && decides->origin == "flag --deny-syscall") {
    denial.remedy = "it is allowed without --deny-syscall " + denial.call;
    return;
  }
  // A call that is allowed by name keeps the tests of its group.
  const SyscallRule* named = group == nullptr ? nullptr : deciding_rule(group->rules, denial.call, denial.arguments);
  if (group == nullptr || (named != nullptr && lets_pass(named->verdict))) {
    denial.allow = "--allow-syscall " + denial.call;
    denial.remedy = "allow it with " + denial.allow;
    if (std::find(std::begin(kPrivileged), std::end(kPrivileged), denial.group) != std::end(kPrivileged))
      denial.remedy += ", though the kernel wants a capability as well";
    return;
  }
  const bool makes_namespaces = denial.call == "clone" || denial.call == "unshare";
  if (makes_namespaces && (denial.arguments[0] & kNamespaceFlags) != 0) {
    denial.remedy = "a policy with hardening.nested_userns = true allows it";
  } else {
    denial.remedy = "--allow-syscall keeps the tests of its arguments; a policy's [[seccomp.rule]] can lift them";
  }
}

}  // namespace

void explain_denials(const SandboxSpec& spec, std::vector<Denial>& denials) {
  if (denials.empty()) return;
  const Result<std::vector<SyscallGroup>> groups = builtin_syscall_groups();
  const Result<SyscallRules> rules = rules_of(spec.seccomp);
  if (!groups.ok() || !rules.ok()) return;
  for (Denial& denial : denials) explain_one(spec, rules.value(), groups.value(), denial);
}

std::string denial_line(const Denial& denial) {
  std::string line = "denied: " + (denial.text.empty() ? printable(denial.call, 64) : denial.text);
  line += denial.process.empty() ? " by a process that is gone" : " by " + printable(denial.process, 32);
  if (denial.pid > 0) line += " (pid " + std::to_string(denial.pid) + ")";
  if (denial.count > 1) line += ", " + std::to_string(denial.count) + " times";
  if (!denial.rule.empty()) line += ", " + denial.rule;
  if (!denial.remedy.empty()) line += "; " + denial.remedy;
  return line;
}

}  // namespace sbx::runtime
