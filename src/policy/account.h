// What a payload may do, read off a resolved spec: the answers to "what can it see, write, reach, call, for how long
// and how much". Pure; `sbx policy explain` puts it into words, and a review of risks stands on the same questions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/spec.h"

namespace sbx {

// How a filter answers one call with these arguments; the first rule of the name that holds decides.
SyscallVerdict decide_call(const SyscallRules& rules, std::string_view call, const uint64_t (&arguments)[6]);
// Whether there are arguments with which the call is let through.
bool may_be_called(const SyscallRules& rules, std::string_view call);
// The rules in force, those of a shipped policy looked up. Without a filter everything is allowed. Errors: policy.
Result<SyscallRules> rules_of(const SeccompSpec& seccomp);

struct SharedPlace {
  std::string source, target;
  enum class How { read_only, writable, overlay } how = How::read_only;
  std::string origin;
};

struct Account {
  std::vector<std::string> system;      // what the manifest shows of the host, all read-only; links among it
  std::vector<SharedPlace> shared;      // what the caller, a policy or a toolchain adds to it
  std::vector<std::string> made;        // files with a content of our own (/etc/passwd …)
  std::vector<std::string> private_places;  // writable, empty, gone afterwards
  std::vector<std::string> variables;   // names
  size_t calls_allowed = 0, calls_known = 0;  // calls of the shipped groups; "allowed": with some arguments at least
  std::vector<std::string> groups_allowed, groups_partly, groups_refused;  // without the @
};
// Errors: policy (a system call policy that does not exist).
Result<Account> account_of(const SandboxSpec& spec);

}  // namespace sbx
