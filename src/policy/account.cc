#include "policy/account.h"

#include "base/text.h"
#include "policy/syscall_decide.h"
#include "policy/syscall_groups.h"

namespace sbx {
namespace {

bool lets_through(const SyscallVerdict& verdict) {
  return verdict.action == SyscallAction::allow || verdict.action == SyscallAction::log;
}

// The manifests name their own entries so; everything else was asked for by somebody.
bool is_of_manifest(const std::string& origin) { return starts_with(origin, "rootfs/"); }

struct Collect {
  Account& account;

  void operator()(const BindOp& op) const {
    if (is_of_manifest(op.origin)) account.system.push_back(op.target);
    else account.shared.push_back({op.source, op.target, op.read_only ? SharedPlace::How::read_only : SharedPlace::How::writable, op.origin});
  }
  void operator()(const OverlayOp& op) const {
    account.shared.push_back({op.lower, op.target, SharedPlace::How::overlay, op.origin});
  }
  void operator()(const PrivateDirOp& op) const { account.private_places.push_back(op.target); }
  void operator()(const TmpfsOp& op) const { account.private_places.push_back(op.target); }
  void operator()(const FileOp& op) const { account.made.push_back(op.target); }
  void operator()(const CopyFdOp& op) const { account.made.push_back(op.target); }
  void operator()(const SymlinkOp& op) const { account.system.push_back(op.target); }
  void operator()(const DirOp&) const {}
  void operator()(const ProcOp& op) const { account.made.push_back(op.target); }
  void operator()(const DevOp& op) const { account.made.push_back(op.target); }
  void operator()(const ReadOnlyOp&) const {}
  void operator()(const PinOp&) const {}
};

}  // namespace

SyscallVerdict decide_call(const SyscallRules& rules, std::string_view call, const uint64_t (&arguments)[6]) {
  const SyscallRule* rule = deciding_rule(rules.rules, call, arguments);
  return rule == nullptr ? rules.otherwise : rule->verdict;
}

bool may_be_called(const SyscallRules& rules, std::string_view call) {
  for (const SyscallRule& rule : rules.rules) {
    if (rule.name != call) continue;
    if (lets_through(rule.verdict)) return true;
    if (rule.tests.empty() && rule.conditions.empty()) return false;
  }
  return lets_through(rules.otherwise);
}

Result<SyscallRules> rules_of(const SeccompSpec& seccomp) {
  if (!seccomp.enabled) return SyscallRules{.rules = {}, .otherwise = {SyscallAction::allow, 0}, .unknown = std::nullopt};
  if (seccomp.builtin.empty()) return seccomp.rules;
  return builtin_syscall_rules(seccomp.builtin);
}

Result<Account> account_of(const SandboxSpec& spec) {
  Account account;
  for (const FsOp& op : spec.fs) std::visit(Collect{account}, op);
  for (const std::string& variable : spec.environment) account.variables.push_back(variable.substr(0, variable.find('=')));

  const SyscallRules rules = SBX_TRY(rules_of(spec.seccomp));
  for (const SyscallGroup& group : SBX_TRY(builtin_syscall_groups())) {
    size_t allowed = 0;
    for (const std::string& call : group.calls) allowed += may_be_called(rules, call) ? 1 : 0;
    account.calls_allowed += allowed;
    account.calls_known += group.calls.size();
    auto& list = allowed == 0 ? account.groups_refused : allowed == group.calls.size() ? account.groups_allowed : account.groups_partly;
    list.push_back(group.name);
  }
  return account;
}

}  // namespace sbx
