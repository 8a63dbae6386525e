#include "policy/syscall_decide.h"

#include <algorithm>

namespace sbx {

bool holds(const ArgumentTest& test, std::span<const uint64_t, 6> arguments) {
  using Op = ArgumentTest::Op;
  if (test.index >= arguments.size()) return false;
  const uint64_t width = test.low32 ? 0xffffffff : ~uint64_t{0};
  const uint64_t argument = arguments[test.index] & width;
  const uint64_t value = test.value & width;  // a filter loads no more of it either
  switch (test.op) {
    case Op::equal: return argument == value;
    case Op::not_equal: return argument != value;
    case Op::less: return argument < value;
    case Op::less_equal: return argument <= value;
    case Op::greater: return argument > value;
    case Op::greater_equal: return argument >= value;
    case Op::masked_equal: return (argument & test.mask) == value;
    case Op::masked_not_equal: return (argument & test.mask) != value;
    case Op::any_bit: return (argument & test.mask) != 0;
    case Op::start: return false;
  }
  return false;
}

const SyscallRule* deciding_rule(std::span<const SyscallRule> rules, std::string_view call, std::span<const uint64_t, 6> arguments) {
  for (const SyscallRule& rule : rules) {
    if (rule.name != call) continue;
    if (std::all_of(rule.tests.begin(), rule.tests.end(), [&](const ArgumentTest& test) { return holds(test, arguments); }))
      return &rule;
  }
  return nullptr;
}

}  // namespace sbx
