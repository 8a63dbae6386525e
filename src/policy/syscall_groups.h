// Shipped system call policies: policies/seccomp/groups.toml holds named groups of calls, policies/seccomp/NAME.toml
// (default, strict …) says which groups a policy takes and what it answers otherwise. docs/seccomp.md describes the
// format for people.
//
// A group: doc, calls (plainly allowed when the group is), and [[GROUP.rule]] for calls with tests on arguments.
// A policy: doc; otherwise and unknown (answers); allow, deny (lists of "@group" and "call"), [errno] with one such
// list per errno name; [[rule]].
// A rule: calls, when (list of tests that must all hold; absent: always), answer.
// A test: arg 0..5, bits 32 or 64 (default 64), optional mask, and one of equals, not_equals, one_of, none_of, below,
// at_most, above, at_least, any_bit; or alone { start = true }: execve when it starts the payload. Numbers are TOML
// integers or, for all 64 bits, strings ("0xffffffffffffffff").
// An answer: "allow", "deny" (EPERM, and reported where there is a listener), "log", "kill", or an errno name (silent).
//
// For one call the policy's own rules come first, then deny, then [errno], then allow; a name listed twice in one of
// these is an error. "call" in allow takes the tests that the call has in its group; only a [[rule]] lifts them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/syscall_rules.h"

namespace sbx {

struct TomlValue;

struct SyscallGroup {
  std::string name;  // without the @
  std::string doc;
  std::vector<std::string> calls;   // every call of the group, also those that have rules
  std::vector<SyscallRule> rules;   // what allowing the group means
};
// Errors: policy, with line and column: unknown keys, a call placed twice.
Result<std::vector<SyscallGroup>> parse_syscall_groups(std::string_view text, const std::string& name);

// Parses one policy text; `groups_text` is groups.toml. Errors: policy, with line and column. Names of calls are not
// checked here, compile() knows them.
Result<SyscallRules> parse_syscall_policy(std::string_view text, const std::string& name, std::string_view groups_text);

// One rule table (calls, when, answer) of any document, as [[seccomp.rule]] of a policy has it: one SyscallRule per
// call and combination of one_of values. `name` stands for the document in origins. Errors: policy.
Result<std::vector<SyscallRule>> parse_syscall_rule(const TomlValue& table, const std::string& name);
// "allow", "deny", "log", "kill" or an errno name. Errors: policy, without an origin.
Result<SyscallVerdict> parse_syscall_answer(std::string_view text);
// The text of a verdict as parse_syscall_answer reads it, or in words where only Kafel can say it.
std::string format_syscall_answer(const SyscallVerdict& verdict);

// The rules of a shipped policy, from the embedded texts. Errors: policy, with did-you-mean.
Result<SyscallRules> builtin_syscall_rules(const std::string& policy);

// The shipped groups, from the embedded text; parsed at each call.
Result<std::vector<SyscallGroup>> builtin_syscall_groups();

// Names of the calls in a group ("@network-io" without the @). Errors: policy, with did-you-mean.
Result<std::vector<std::string>> syscall_group(const std::string& group);

}  // namespace sbx
