#include "policy/kafel/write.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <set>
#include <utility>

#include "base/text.h"
#include "policy/kafel/calls.h"

namespace sbx::kafel {
namespace {

constexpr uint64_t kLow32 = 0xffffffff;
constexpr size_t kWidth = 110;

using Op = ArgumentTest::Op;

// Calls that Kafel's own library has no name for: their numbers serve everywhere.
constexpr std::array<std::string_view, 2> kNewer = {"listns", "uprobe"};
constexpr std::array<std::string_view, 6> kNotOnAarch64 = {"io_pgetevents", "pkey_alloc", "pkey_free", "pkey_mprotect", "sendfile", "sync_file_range"};
// Calls whose arguments it has in another order than the kernel.
constexpr std::array<std::string_view, 11> kOtherOrder = {"file_getattr", "file_setattr", "futex_requeue", "futex_wait",     "futex_wake", "getxattrat",
                                                          "listmount",    "listxattrat",  "removexattrat", "setxattrat", "statmount"};

template <size_t n>
bool is_one_of(const std::array<std::string_view, n>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

std::string number_text(uint64_t number) {
  constexpr char kHex[] = "0123456789abcdef";
  if (number < 4096) return std::to_string(number);
  std::string digits;
  for (; number != 0; number /= 16) digits.insert(digits.begin(), kHex[number % 16]);
  return "0x" + digits;
}

std::string action_text(const SyscallVerdict& verdict) {
  switch (verdict.action) {
    case SyscallAction::allow: return "ALLOW";
    case SyscallAction::log: return "LOG";
    case SyscallAction::notify: return "ERRNO(" + std::to_string(EPERM) + ")";
    case SyscallAction::kill: return "KILL_PROCESS";
    case SyscallAction::kill_thread: return "KILL";
    case SyscallAction::errno_value: return "ERRNO(" + std::to_string(verdict.errnum) + ")";
    case SyscallAction::trap: return "TRAP(" + std::to_string(verdict.errnum) + ")";
    case SyscallAction::trace: return "TRACE(" + std::to_string(verdict.errnum) + ")";
  }
  return "KILL_PROCESS";
}

const char* op_text(Op op) {
  switch (op) {
    case Op::equal:
    case Op::masked_equal: return " == ";
    case Op::not_equal:
    case Op::masked_not_equal:
    case Op::any_bit: return " != ";
    case Op::less: return " < ";
    case Op::less_equal: return " <= ";
    case Op::greater: return " > ";
    case Op::greater_equal: return " >= ";
    case Op::start: break;
  }
  return " == ";
}

// One rule's condition. Kafel has no word for the width of a comparison; it follows from what is compared. So a 32-bit
// test of a wide argument is masked, and a 64-bit test of a narrow one needs the rule's own names, which are wide.
class ConditionWriter {
 public:
  explicit ConditionWriter(const std::vector<CallArgument>* known) : known_(known) {}

  std::string text(const SyscallRule& rule) {
    std::vector<std::string> parts;
    for (const ArgumentTest& test : rule.tests) parts.push_back(test_text(test));
    for (const ArgumentCondition& condition : rule.conditions) parts.push_back(condition_text(condition, parts.size() + rule.conditions.size() > 1));
    return join(parts, " && ");
  }
  // The call's own names cannot say it.
  bool needs_own_names() const { return needs_own_names_; }
  unsigned arguments() const { return arguments_; }

 private:
  bool is_narrow(unsigned index) const { return known_ != nullptr && index < known_->size() && (*known_)[index].bytes <= 4; }

  std::string name(unsigned index) {
    arguments_ = std::max(arguments_, index + 1);
    if (known_ == nullptr) return std::string(1, static_cast<char>('a' + index));
    if (index >= known_->size()) {
      needs_own_names_ = true;
      return "";
    }
    const CallArgument& argument = (*known_)[index];
    const std::string_view name = argument.other_name.empty() ? argument.name : argument.other_name;
    if (name.front() == '_') needs_own_names_ = true;  // no word of Kafel
    return std::string(name);
  }

  // Masks what is wider than the test, and finds out where a mask would not do.
  std::string sized(const std::string& text, bool narrow, bool low32, uint64_t largest) {
    if (low32 && !narrow) return text + " & 0xffffffff";
    if (!low32 && narrow && largest <= kLow32) needs_own_names_ = true;
    return text;
  }

  std::string test_text(const ArgumentTest& test) {
    const bool narrow = is_narrow(test.index);
    const bool has_mask = test.op == Op::masked_equal || test.op == Op::masked_not_equal || test.op == Op::any_bit;
    const uint64_t value = test.op == Op::any_bit ? 0 : test.value;
    const uint64_t mask = !has_mask ? ~uint64_t{0} : test.low32 ? test.mask & kLow32 : test.mask;
    if (mask == ~uint64_t{0}) return sized(name(test.index), narrow, test.low32, value) + op_text(test.op) + number_text(value);
    // Whatever the width: the mask leaves nothing of the high half, or makes the comparison wide.
    return name(test.index) + " & " + number_text(mask) + op_text(test.op) + number_text(value);
  }

  struct Sides {
    bool all_narrow = true;
    uint64_t largest = 0;
  };
  void look(const ArgumentValue& value, Sides& sides) const {
    switch (value.kind) {
      case ArgumentValue::Kind::constant: sides.largest = std::max(sides.largest, value.constant); return;
      case ArgumentValue::Kind::argument: sides.all_narrow = sides.all_narrow && is_narrow(value.index); return;
      case ArgumentValue::Kind::bit_and:
      case ArgumentValue::Kind::bit_or: break;
    }
    for (const ArgumentValue& part : value.parts) look(part, sides);
  }

  std::string value_text(const ArgumentValue& value, bool inside) {
    switch (value.kind) {
      case ArgumentValue::Kind::constant: return number_text(value.constant);
      case ArgumentValue::Kind::argument: return name(value.index);
      case ArgumentValue::Kind::bit_and:
      case ArgumentValue::Kind::bit_or: break;
    }
    std::string text;
    for (const ArgumentValue& part : value.parts)
      text += (text.empty() ? "" : value.kind == ArgumentValue::Kind::bit_and ? " & " : " | ") + value_text(part, true);
    return inside ? "(" + text + ")" : text;
  }

  std::string compare_text(const ArgumentCondition& condition) {
    Sides sides;
    for (const ArgumentValue& side : condition.sides) look(side, sides);
    const bool narrow = sides.all_narrow && sides.largest <= kLow32;
    std::string text;
    for (const ArgumentValue& side : condition.sides) {
      // A mask on both sides makes a wide comparison of low halves.
      const bool masked = condition.test.low32 && !narrow;
      text += (text.empty() ? "" : op_text(condition.test.op)) + value_text(side, masked) + (masked ? " & 0xffffffff" : "");
    }
    if (!condition.test.low32 && narrow) needs_own_names_ = true;
    return text;
  }

  std::string condition_text(const ArgumentCondition& condition, bool inside) {
    switch (condition.kind) {
      case ArgumentCondition::Kind::test: return test_text(condition.test);
      case ArgumentCondition::Kind::compare: return compare_text(condition);
      case ArgumentCondition::Kind::all:
      case ArgumentCondition::Kind::any: break;
    }
    std::string text;
    for (const ArgumentCondition& part : condition.parts)
      text += (text.empty() ? "" : condition.kind == ArgumentCondition::Kind::all ? " && " : " || ") + condition_text(part, true);
    return inside ? "(" + text + ")" : text;
  }

  const std::vector<CallArgument>* known_;  // nullptr: the rule's own names
  bool needs_own_names_ = false;
  unsigned arguments_ = 0;
};

class Writer {
 public:
  explicit Writer(Machine machine) : machine_(machine) {}

  WrittenPolicy write(const SyscallRules& rules) {
    for (const SyscallRule& rule : rules.rules) add(rule);
    // Kafel has one answer for all that no rule decides; where unknown numbers have another, the known calls are named.
    if (rules.unknown && action_text(*rules.unknown) != action_text(rules.otherwise)) {
      for (const std::string& name : call_names(machine_)) {
        const KnownCall call = *find_call(name, machine_);
        if (call.name == name && !decided_.contains(call.number)) put(rules.otherwise, call_text(call.name, call.number));
      }
    }
    end_block();
    const SyscallVerdict& otherwise = rules.unknown ? *rules.unknown : rules.otherwise;
    written_.text += "DEFAULT " + action_text(otherwise) + "\n";
    return std::move(written_);
  }

 private:
  std::string call_text(std::string_view name, uint32_t number) const {
    const bool unnamed = name.empty() || is_one_of(kNewer, name) || (machine_ == Machine::aarch64 && is_one_of(kNotOnAarch64, name));
    return unnamed ? "SYSCALL[" + std::to_string(number) + "]" : std::string(kafel_name(name));
  }

  void add(const SyscallRule& rule) {
    const std::optional<KnownCall> known = rule.number ? find_call(*rule.number, machine_) : find_call(rule.name, machine_);
    if (!known && !rule.number) return;  // a call of other architectures
    const uint32_t number = rule.number ? *rule.number : known->number;
    if (decided_.contains(number)) return;
    if (std::any_of(rule.tests.begin(), rule.tests.end(), [](const ArgumentTest& test) { return test.op == Op::start; })) {
      // nsjail loads the filter before it starts the program, so the call has to be allowed, and stays so.
      written_.unsaid.push_back({rule.origin, rule.name + " for the start alone: Kafel allows it for good"});
      put(rule.verdict, call_text(known->name, number));
      decided_.insert(number);
      return;
    }
    std::string text = call_text(known ? known->name : std::string_view(), number);
    if (rule.tests.empty() && rule.conditions.empty()) {
      decided_.insert(number);
      put(rule.verdict, std::move(text));
      return;
    }
    ConditionWriter natural(known ? &known->arguments : nullptr);
    std::string condition = natural.text(rule);
    const bool by_number = text.find('[') != std::string::npos;
    if (by_number || natural.needs_own_names() || is_one_of(kOtherOrder, known->name)) {
      ConditionWriter own(nullptr);
      condition = own.text(rule);
      for (unsigned i = 0; i < own.arguments(); ++i) text += (i == 0 ? "(" : ", ") + std::string(1, static_cast<char>('a' + i));
      text += ")";
    }
    put(rule.verdict, text + " { " + condition + " }");
  }

  // Rules with one answer in a row share a block; lines end before they are too long.
  void put(const SyscallVerdict& verdict, std::string text) {
    const std::string action = action_text(verdict);
    if (action != action_) {
      end_block();
      action_ = action;
      written_.text += action + " {\n";
      line_ = " ";
    }
    if (line_.size() > 1) line_ += ",";
    if (line_.size() + 1 + text.size() > kWidth && line_.size() > 1) {
      written_.text += line_ + "\n";
      line_ = " ";
    }
    line_ += " " + text;
  }
  void end_block() {
    if (!action_.empty()) written_.text += line_ + "\n}\n";
    action_.clear();
  }

  Machine machine_;
  WrittenPolicy written_;
  std::set<uint32_t> decided_;
  std::string action_;
  std::string line_;
};

}  // namespace

WrittenPolicy write(const SyscallRules& rules, Machine machine) { return Writer(machine).write(rules); }

}  // namespace sbx::kafel
