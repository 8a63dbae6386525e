// What rules say about one call, without a filter: for messages about a call that a filter has refused. The filter is
// what decides; tests compare the two.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "policy/syscall_rules.h"

namespace sbx {

// Whether a test on an argument holds. A test for the start of the payload never does: it is over when this is asked.
bool holds(const ArgumentTest& test, std::span<const uint64_t, 6> arguments);
bool holds(const ArgumentCondition& condition, std::span<const uint64_t, 6> arguments);

// The rule that decides about a call, nullptr where `otherwise` does. Borrowed from `rules`.
const SyscallRule* deciding_rule(std::span<const SyscallRule> rules, std::string_view call, std::span<const uint64_t, 6> arguments);

}  // namespace sbx
