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

namespace {

uint64_t value_of(const ArgumentValue& value, std::span<const uint64_t, 6> arguments) {
  const bool conjoins = value.kind == ArgumentValue::Kind::bit_and;
  switch (value.kind) {
    case ArgumentValue::Kind::constant: return value.constant;
    case ArgumentValue::Kind::argument: return value.index < arguments.size() ? arguments[value.index] : 0;
    case ArgumentValue::Kind::bit_and:
    case ArgumentValue::Kind::bit_or: break;
  }
  uint64_t bits = conjoins ? ~uint64_t{0} : 0;
  for (const ArgumentValue& part : value.parts) {
    const uint64_t more = value_of(part, arguments);
    bits = conjoins ? bits & more : bits | more;
  }
  return bits;
}

}  // namespace

bool holds(const ArgumentCondition& condition, std::span<const uint64_t, 6> arguments) {
  const auto part_holds = [&](const ArgumentCondition& part) { return holds(part, arguments); };
  switch (condition.kind) {
    case ArgumentCondition::Kind::test: return holds(condition.test, arguments);
    case ArgumentCondition::Kind::compare: {
      if (condition.sides.size() != 2) return false;
      // The left side as the one argument of a test against the right one.
      const uint64_t left[6] = {value_of(condition.sides[0], arguments)};
      return holds({.index = 0, .op = condition.test.op, .value = value_of(condition.sides[1], arguments), .low32 = condition.test.low32}, left);
    }
    case ArgumentCondition::Kind::all: return std::all_of(condition.parts.begin(), condition.parts.end(), part_holds);
    case ArgumentCondition::Kind::any: return std::any_of(condition.parts.begin(), condition.parts.end(), part_holds);
  }
  return false;
}

const SyscallRule* deciding_rule(std::span<const SyscallRule> rules, std::string_view call, std::span<const uint64_t, 6> arguments) {
  for (const SyscallRule& rule : rules) {
    if (rule.name != call) continue;
    const auto part_holds = [&](const auto& part) { return holds(part, arguments); };
    if (std::all_of(rule.tests.begin(), rule.tests.end(), part_holds) && std::all_of(rule.conditions.begin(), rule.conditions.end(), part_holds))
      return &rule;
  }
  return nullptr;
}

}  // namespace sbx
