// Shipped system call policies: policies/seccomp/groups.toml holds named groups of calls, policies/seccomp/NAME.toml
// (default, strict …) says which groups a policy takes and what it answers otherwise.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/syscall_rules.h"

namespace sbx {

// Parses one policy text; `groups_text` is groups.toml. Errors: policy, with line and column.
Result<SyscallRules> parse_syscall_policy(std::string_view text, const std::string& name, std::string_view groups_text);

// The rules of a shipped policy, from the embedded texts. Errors: policy, with did-you-mean.
Result<SyscallRules> builtin_syscall_rules(const std::string& policy);

// Names of the calls in a group ("@network-io" without the @). Errors: policy, with did-you-mean.
Result<std::vector<std::string>> syscall_group(const std::string& group);

}  // namespace sbx
