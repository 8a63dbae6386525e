#include "policy/kafel/lower.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "policy/kafel/calls.h"

namespace sbx::kafel {
namespace {

constexpr uint64_t kAllBits = ~uint64_t{0};
constexpr uint64_t kLow32 = 0xffffffff;
// Alternatives of one rule that become rules of their own, which messages and other dialects can say; more stay together.
constexpr size_t kMostAlternatives = 64;

using Op = ArgumentTest::Op;

Architecture architecture_of(Machine machine) {
  switch (machine) {
    case Machine::x86_64: return kX86_64;
    case Machine::aarch64: return kAarch64;
  }
  return kX86_64;
}

Op op_of(Comparison comparison) {
  switch (comparison) {
    case Comparison::equal: return Op::equal;
    case Comparison::not_equal: return Op::not_equal;
    case Comparison::less: return Op::less;
    case Comparison::less_equal: return Op::less_equal;
    case Comparison::greater: return Op::greater;
    case Comparison::greater_equal: return Op::greater_equal;
  }
  return Op::equal;
}

Comparison opposite(Comparison comparison) {
  switch (comparison) {
    case Comparison::equal: return Comparison::not_equal;
    case Comparison::not_equal: return Comparison::equal;
    case Comparison::less: return Comparison::greater_equal;
    case Comparison::less_equal: return Comparison::greater;
    case Comparison::greater: return Comparison::less_equal;
    case Comparison::greater_equal: return Comparison::less;
  }
  return comparison;
}

// The same with the sides exchanged.
Comparison mirrored(Comparison comparison) {
  switch (comparison) {
    case Comparison::equal:
    case Comparison::not_equal: return comparison;
    case Comparison::less: return Comparison::greater;
    case Comparison::less_equal: return Comparison::greater_equal;
    case Comparison::greater: return Comparison::less;
    case Comparison::greater_equal: return Comparison::less_equal;
  }
  return comparison;
}

bool compare(uint64_t left, Comparison comparison, uint64_t right) {
  switch (comparison) {
    case Comparison::equal: return left == right;
    case Comparison::not_equal: return left != right;
    case Comparison::less: return left < right;
    case Comparison::less_equal: return left <= right;
    case Comparison::greater: return left > right;
    case Comparison::greater_equal: return left >= right;
  }
  return false;
}

struct Argument {
  std::string_view name;
  std::string_view other_name;
  unsigned bytes = 8;
};

// A condition that may turn out to be none.
struct Lowered {
  enum class Kind { never, always, depends } kind = Kind::always;
  ArgumentCondition condition;

  static Lowered constant(bool holds) { return {holds ? Kind::always : Kind::never, {}}; }
};

bool is_constant(const ArgumentValue& value) { return value.kind == ArgumentValue::Kind::constant; }

// One step of Kafel's own simplification, which decides how wide a comparison is: two constants become one, a constant
// that decides the result replaces it, one that changes nothing goes.
ArgumentValue combine(ArgumentValue::Kind kind, ArgumentValue left, ArgumentValue right) {
  const bool conjoins = kind == ArgumentValue::Kind::bit_and;
  if (is_constant(left) && is_constant(right)) {
    left.constant = conjoins ? left.constant & right.constant : left.constant | right.constant;
    return left;
  }
  const uint64_t decides = conjoins ? 0 : kAllBits;
  for (ArgumentValue* each : {&left, &right}) {
    if (!is_constant(*each)) continue;
    if (each->constant == decides) return std::move(*each);
    if (each->constant == ~decides) return std::move(each == &left ? right : left);
  }
  if (left.kind == kind) {
    left.parts.push_back(std::move(right));
    return left;
  }
  ArgumentValue whole;
  whole.kind = kind;
  whole.parts.push_back(std::move(left));
  whole.parts.push_back(std::move(right));
  return whole;
}

class Lowering {
 public:
  Lowering(const Program& program, const Options& options) : program_(program), options_(options), used_(program.policies.size(), false) {}

  bool run() {
    // Also what is never used has to be right.
    SyscallRules scratch;
    for (const Policy& policy : program_.policies)
      for (const Entry& entry : policy.entries)
        if (!entry.use && !block(entry, scratch.rules)) return false;
    rules.otherwise = program_.otherwise.value_or(SyscallVerdict{SyscallAction::kill_thread, 0});
    return entries(program_.entries);
  }

  SyscallRules rules;
  Mistake mistake;

 private:
  bool fail(Place at, std::string message, std::string hint = "") {
    mistake = {at, std::move(message), std::move(hint)};
    return false;
  }

  // A policy that is used a second time adds nothing: its rules stand before already.
  bool entries(const std::vector<Entry>& list) {
    for (const Entry& entry : list) {
      if (!entry.use) {
        if (!block(entry, rules.rules)) return false;
      } else if (!used_[*entry.use]) {
        used_[*entry.use] = true;
        if (!entries(program_.policies[*entry.use].entries)) return false;
      }
    }
    return true;
  }

  bool block(const Entry& entry, std::vector<SyscallRule>& out) {
    for (const Rule& rule : entry.rules) {
      if ((rule.architectures & architecture_of(options_.machine)) == 0) continue;
      if (!one(rule, entry.verdict, out)) return false;
    }
    return true;
  }

  bool one(const Rule& rule, const SyscallVerdict& verdict, std::vector<SyscallRule>& out) {
    SyscallRule base;
    base.verdict = verdict;
    base.origin = options_.place(rule.call.at.line, rule.call.at.column);
    if (!call(rule.call, base)) return false;
    if (!rule.condition) {
      out.push_back(std::move(base));
      return true;
    }
    Lowered lowered;
    if (!condition(*rule.condition, false, lowered)) return false;
    if (lowered.kind == Lowered::Kind::never) return true;
    if (lowered.kind == Lowered::Kind::always) {
      out.push_back(std::move(base));
      return true;
    }
    ArgumentCondition& whole = lowered.condition;
    if (whole.kind != ArgumentCondition::Kind::any || whole.parts.size() > kMostAlternatives) {
      out.push_back(with_condition(base, std::move(whole)));
      return true;
    }
    for (ArgumentCondition& part : whole.parts) out.push_back(with_condition(base, std::move(part)));
    return true;
  }

  // What a list of tests can say stands there, where more can read it.
  static SyscallRule with_condition(SyscallRule rule, ArgumentCondition condition) {
    std::vector<ArgumentCondition> parts;
    if (condition.kind == ArgumentCondition::Kind::all) {
      parts = std::move(condition.parts);
    } else {
      parts.push_back(std::move(condition));
    }
    for (ArgumentCondition& part : parts) {
      if (part.kind == ArgumentCondition::Kind::test) {
        rule.tests.push_back(part.test);
      } else {
        rule.conditions.push_back(std::move(part));
      }
    }
    return rule;
  }

  // Number and name of the call, and what its arguments are called.
  bool call(const CallName& name, SyscallRule& rule) {
    std::optional<KnownCall> known;
    if (name.number) {
      known = find_call(*name.number, options_.machine);
      rule.number = name.number;
      rule.name = known ? std::string(known->name) : "#" + std::to_string(*name.number);
    } else {
      known = find_call(name.name, options_.machine);
      if (!known) return no_such_call(name);
      rule.number = known->number;
      rule.name = std::string(known->name);
    }
    arguments_.clear();
    if (name.arguments) {
      for (const std::string& argument : *name.arguments) arguments_.push_back({argument, "", 8});
    } else if (known && !name.number) {
      // A call by its number has no names, as in Kafel's own library.
      for (const CallArgument& argument : known->arguments) arguments_.push_back({argument.name, argument.other_name, argument.bytes});
    }
    call_ = name.number ? "a system call by its number" : quoted(name.name);
    return true;
  }

  bool no_such_call(const CallName& name) {
    const Machine other = options_.machine == Machine::x86_64 ? Machine::aarch64 : Machine::x86_64;
    if (find_call(name.name, other)) {
      const std::string here = options_.machine == Machine::x86_64 ? "x86_64" : "aarch64";
      const std::string there = other == Machine::x86_64 ? "x86_64" : "aarch64";
      return fail(name.at, "there is no system call " + quoted(name.name) + " on " + here, "write " + name.name + " ON " + there);
    }
    const std::string near = did_you_mean(name.name, call_names(options_.machine));
    return fail(name.at, "there is no system call " + quoted(name.name),
                near.empty() ? "SYSCALL[n] names one by its number" : "did you mean " + quoted(near) + "?");
  }

  bool value(const Value& from, ArgumentValue& to) {
    switch (from.kind) {
      case Value::Kind::number:
        to.constant = from.number;
        return true;
      case Value::Kind::argument: return argument(from, to);
      case Value::Kind::bit_and:
      case Value::Kind::bit_or: break;
    }
    const auto kind = from.kind == Value::Kind::bit_and ? ArgumentValue::Kind::bit_and : ArgumentValue::Kind::bit_or;
    if (!value(from.parts.front(), to)) return false;
    for (size_t i = 1; i < from.parts.size(); ++i) {
      ArgumentValue next;
      if (!value(from.parts[i], next)) return false;
      to = combine(kind, std::move(to), std::move(next));
    }
    return true;
  }

  bool argument(const Value& from, ArgumentValue& to) {
    for (unsigned index = 0; index < arguments_.size(); ++index) {
      if (from.argument != arguments_[index].name && from.argument != arguments_[index].other_name) continue;
      to.kind = ArgumentValue::Kind::argument;
      to.index = index;
      return true;
    }
    std::vector<std::string> names;
    for (const Argument& known : arguments_) names.emplace_back(known.name);
    const std::string near = did_you_mean(from.argument, names);
    std::string hint = near.empty() ? "" : "did you mean " + quoted(near) + "?";
    if (near.empty()) hint = names.empty() ? "name the arguments behind the call: (a, b)" : "it has " + join(names, ", ");
    return fail(from.at, call_ + " has no argument " + quoted(from.argument), std::move(hint));
  }

  // All 64 bits count unless every argument is narrower and every number fits into 32: then the kernel reads no more.
  bool is_wide(const ArgumentValue& value) const {
    switch (value.kind) {
      case ArgumentValue::Kind::constant: return value.constant > kLow32;
      case ArgumentValue::Kind::argument: return arguments_[value.index].bytes > 4;
      case ArgumentValue::Kind::bit_and:
      case ArgumentValue::Kind::bit_or: break;
    }
    return std::any_of(value.parts.begin(), value.parts.end(), [&](const ArgumentValue& part) { return is_wide(part); });
  }

  bool comparison(const Condition& from, bool negated, Lowered& to) {
    ArgumentValue left;
    ArgumentValue right;
    if (!value(from.sides[0], left) || !value(from.sides[1], right)) return false;
    Comparison op = negated ? opposite(from.op) : from.op;
    if (is_constant(left) && is_constant(right)) {
      to = Lowered::constant(compare(left.constant, op, right.constant));
      return true;
    }
    if (left == right) {
      to = Lowered::constant(compare(0, op, 0));
      return true;
    }
    if (is_constant(left)) {
      std::swap(left, right);
      op = mirrored(op);
    }
    to.kind = Lowered::Kind::depends;
    to.condition.test.op = op_of(op);
    to.condition.test.low32 = !is_wide(left) && !is_wide(right);
    if (is_constant(right) && as_test(left, right.constant, op, to)) return true;
    to.condition.kind = ArgumentCondition::Kind::compare;
    to.condition.sides = {std::move(left), std::move(right)};
    return true;
  }

  // One argument, masked perhaps, against a constant: what ArgumentTest says.
  static bool as_test(const ArgumentValue& left, uint64_t constant, Comparison op, Lowered& to) {
    ArgumentTest& test = to.condition.test;
    const uint64_t width = test.low32 ? kLow32 : kAllBits;
    uint64_t mask = kAllBits;
    const ArgumentValue* argument = &left;
    if (left.kind == ArgumentValue::Kind::bit_and) {
      argument = nullptr;
      for (const ArgumentValue& part : left.parts) {
        if (is_constant(part)) {
          mask &= part.constant;
        } else if (part.kind != ArgumentValue::Kind::argument || argument != nullptr) {
          return false;
        } else {
          argument = &part;
        }
      }
    }
    if (argument->kind != ArgumentValue::Kind::argument) return false;
    mask &= width;
    if (mask == 0) {
      to = Lowered::constant(compare(0, op, constant));
      return true;
    }
    test.index = argument->index;
    test.value = constant;
    if (mask == width) return true;
    if (op != Comparison::equal && op != Comparison::not_equal) return false;
    if ((constant & ~mask) != 0) {
      to = Lowered::constant(op == Comparison::not_equal);
      return true;
    }
    test.mask = mask;
    if (op == Comparison::equal) {
      test.op = Op::masked_equal;
    } else {
      test.op = constant == 0 ? Op::any_bit : Op::masked_not_equal;
    }
    return true;
  }

  // What is negated is turned around down to the comparisons, so that rules need no negation.
  bool condition(const Condition& from, bool negated, Lowered& to) {
    if (from.kind == Condition::Kind::negation) return condition(from.parts.front(), !negated, to);
    if (from.kind == Condition::Kind::compare) return comparison(from, negated, to);
    const bool all = (from.kind == Condition::Kind::all) != negated;
    const Lowered::Kind decides = all ? Lowered::Kind::never : Lowered::Kind::always;
    ArgumentCondition whole;
    whole.kind = all ? ArgumentCondition::Kind::all : ArgumentCondition::Kind::any;
    bool decided = false;
    for (const Condition& each : from.parts) {
      Lowered part;
      if (!condition(each, negated, part)) return false;
      decided = decided || part.kind == decides;
      if (part.kind != Lowered::Kind::depends) continue;
      if (part.condition.kind == whole.kind) {
        std::move(part.condition.parts.begin(), part.condition.parts.end(), std::back_inserter(whole.parts));
      } else {
        whole.parts.push_back(std::move(part.condition));
      }
    }
    if (decided || whole.parts.empty()) {
      to = Lowered::constant(decided != all);
    } else {
      to.kind = Lowered::Kind::depends;
      to.condition = whole.parts.size() == 1 ? ArgumentCondition(whole.parts.front()) : std::move(whole);
    }
    return true;
  }

  const Program& program_;
  const Options& options_;
  std::vector<bool> used_;
  // Of the rule at hand.
  std::vector<Argument> arguments_;
  std::string call_;
};

}  // namespace

std::variant<SyscallRules, Mistake> lower(const Program& program, const Options& options) {
  Lowering lowering(program, options);
  if (!lowering.run()) return std::move(lowering.mistake);
  return std::move(lowering.rules);
}

}  // namespace sbx::kafel
