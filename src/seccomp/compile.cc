#include "seccomp/compile.h"

#include <linux/audit.h>
#include <linux/seccomp.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/text.h"
#include "seccomp/evaluate.h"
#include "seccomp/start_key.h"
#include "seccomp/syscall_numbers.h"

namespace sbx::seccomp {
namespace {

constexpr uint32_t kX32Bit = 0x40000000;
constexpr uint16_t kMaxErrno = 4095;  // the kernel cuts a larger one down (seccomp(2))
constexpr uint32_t kAllOnes = 0xffffffff;
// Alternatives for one call. Far above any sensible policy, and low enough that the work is bounded.
constexpr size_t kMaxRulesPerCall = 1000;
// Deeper than any reader of policies lets conditions become; walking them takes stack.
constexpr unsigned kMaxConditionDepth = 1000;

uint32_t audit_arch(Arch arch) {
  switch (arch) {
    case Arch::x86_64: return AUDIT_ARCH_X86_64;
    case Arch::aarch64: return AUDIT_ARCH_AARCH64;
  }
  return 0;
}

uint32_t return_value(const SyscallVerdict& verdict, bool listener) {
  switch (verdict.action) {
    case SyscallAction::allow: return SECCOMP_RET_ALLOW;
    case SyscallAction::errno_value: return SECCOMP_RET_ERRNO | verdict.errnum;
    case SyscallAction::notify: return listener ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ERRNO | EPERM;
    case SyscallAction::kill: return SECCOMP_RET_KILL_PROCESS;
    case SyscallAction::log: return SECCOMP_RET_LOG;
    case SyscallAction::kill_thread: return SECCOMP_RET_KILL_THREAD;
    case SyscallAction::trap: return SECCOMP_RET_TRAP | verdict.errnum;
    case SyscallAction::trace: return SECCOMP_RET_TRACE | verdict.errnum;
  }
  return SECCOMP_RET_KILL_PROCESS;
}

bool lets_pass(uint32_t answer) { return answer == SECCOMP_RET_ALLOW || answer == SECCOMP_RET_LOG; }

// --- rules to one list of alternatives per number -------------------------------------------------------------------

struct Alternative {
  std::vector<ArgumentTest> tests;            // all must hold,
  std::vector<ArgumentCondition> conditions;  // and these
  uint32_t answer = 0;                        // SECCOMP_RET_*
  bool always() const { return tests.empty() && conditions.empty(); }
  bool operator==(const Alternative&) const = default;
};
// Tried in order. Complete lists end in an alternative that always holds.
using Alternatives = std::vector<Alternative>;

Error bad_rule(const SyscallRule& rule, const std::string& what) {
  return Error(ErrorKind::policy, "rule for \"" + rule.name + "\": " + what).with_origin(rule.origin);
}

Status check_verdict(const SyscallVerdict& verdict, const std::string& origin) {
  if (verdict.action == SyscallAction::errno_value && verdict.errnum > kMaxErrno)
    return Error(ErrorKind::policy, "errno " + std::to_string(verdict.errnum) + " is out of range, at most " +
                                        std::to_string(kMaxErrno))
        .with_origin(origin);
  return {};
}

Status check_test(const SyscallRule& rule, const ArgumentTest& test) {
  using Op = ArgumentTest::Op;
  if (test.op == Op::start) {
    if (rule.name == "execve") return {};
    return bad_rule(rule, "only execve starts the program");
  }
  if (test.index > 5) return bad_rule(rule, "system calls have the arguments 0 to 5, not " + std::to_string(test.index));
  const bool has_mask = test.op == Op::masked_equal || test.op == Op::masked_not_equal || test.op == Op::any_bit;
  if (test.low32) {
    if (test.op != Op::any_bit && test.value > kAllOnes) return bad_rule(rule, "a test of 32 bits has a larger value");
    if (has_mask && test.mask > kAllOnes && test.mask != ~uint64_t{0})
      return bad_rule(rule, "a test of 32 bits has a larger mask");
  }
  if (has_mask && test.mask == 0) return bad_rule(rule, "a mask of 0 tests nothing");
  if ((test.op == Op::masked_equal || test.op == Op::masked_not_equal) && (test.value & ~test.mask) != 0)
    return bad_rule(rule, "the value has bits outside the mask, so no argument equals it");
  return {};
}

bool is_comparison(ArgumentTest::Op op) {
  using Op = ArgumentTest::Op;
  return op == Op::equal || op == Op::not_equal || op == Op::less || op == Op::less_equal || op == Op::greater ||
         op == Op::greater_equal;
}

// Scratch words that computing a value takes while another one is held in a word of its own. The part that needs most
// comes first, when nothing is held yet; so it is the logarithm of the value's size, and 16 words are plenty.
unsigned scratch_words(const ArgumentValue& value) {
  if (value.parts.empty()) return 0;  // the index register does
  unsigned most = 0;
  unsigned second = 0;
  for (const ArgumentValue& part : value.parts) {
    const unsigned words = scratch_words(part);
    second = std::max(second, std::min(most, words));
    most = std::max(most, words);
  }
  return 1 + std::max(most == 0 ? 0 : most - 1, second);
}

Status check_value(const SyscallRule& rule, const ArgumentValue& value, unsigned depth) {
  if (depth > kMaxConditionDepth) return bad_rule(rule, "its conditions are nested too deeply");
  switch (value.kind) {
    case ArgumentValue::Kind::constant: return {};
    case ArgumentValue::Kind::argument:
      if (value.index > 5) return bad_rule(rule, "system calls have the arguments 0 to 5, not " + std::to_string(value.index));
      return {};
    case ArgumentValue::Kind::bit_and:
    case ArgumentValue::Kind::bit_or: break;
  }
  if (value.parts.empty()) return bad_rule(rule, "an operator without operands");
  for (const ArgumentValue& part : value.parts) SBX_TRY(check_value(rule, part, depth + 1));
  return {};
}

Status check_condition(const SyscallRule& rule, const ArgumentCondition& condition, unsigned depth) {
  if (depth > kMaxConditionDepth) return bad_rule(rule, "its conditions are nested too deeply");
  switch (condition.kind) {
    case ArgumentCondition::Kind::test: return check_test(rule, condition.test);
    case ArgumentCondition::Kind::compare:
      if (condition.sides.size() != 2 || !is_comparison(condition.test.op)) return bad_rule(rule, "a comparison that compares nothing");
      for (const ArgumentValue& side : condition.sides) {
        SBX_TRY(check_value(rule, side, depth + 1));
        if (scratch_words(side) > BPF_MEMWORDS) return bad_rule(rule, "an expression that a filter has not memory enough for");
      }
      return {};
    case ArgumentCondition::Kind::all:
    case ArgumentCondition::Kind::any: break;
  }
  if (condition.parts.empty()) return bad_rule(rule, "a condition without parts");
  for (const ArgumentCondition& part : condition.parts) SBX_TRY(check_condition(rule, part, depth + 1));
  return {};
}

Error unknown_name(const SyscallRule& rule) {
  Error error(ErrorKind::policy, "there is no system call \"" + printable(rule.name) + "\"");
  const std::vector<std::string> names = syscall_names();
  const std::string near = did_you_mean(rule.name, names);
  if (!near.empty()) return std::move(error).with_origin(rule.origin).with_hint("did you mean \"" + near + "\"?");
  return std::move(error).with_origin(rule.origin).with_hint("names are those of `man 2 syscalls`; groups begin with @, as @network-io (docs/seccomp.md)");
}

Error too_long() {
  return Error(ErrorKind::policy, "the rules make a filter of more than " + std::to_string(BPF_MAXINSNS) +
                                      " instructions, which the kernel does not load")
      .with_hint("use fewer rules with argument tests");
}

// Puts a guard before what the rules say about a call, unless they deny it anyhow.
void guard(std::map<unsigned, Alternatives>& calls, uint32_t otherwise, const CompileOptions& options,
           const std::string& name, std::vector<ArgumentTest> tests, uint32_t answer) {
  const std::optional<unsigned> number = syscall_number(name, options.arch);
  if (!number) return;
  Alternatives& list = calls[*number];
  const uint32_t first = list.empty() ? otherwise : list.front().answer;
  if ((list.empty() || list.front().always()) && !lets_pass(first)) return;
  list.insert(list.begin(), Alternative{std::move(tests), {}, answer});
}

void guard_set_id_modes(std::map<unsigned, Alternatives>& calls, uint32_t otherwise, const CompileOptions& options) {
  using Op = ArgumentTest::Op;
  // open(2) makes a file with O_CREAT or O_TMPFILE; of the latter only its own bit counts, O_DIRECTORY is in it too.
  constexpr uint64_t kMakesFile = 0100 | 020000000;
  const uint32_t deny = return_value({SyscallAction::notify, 0}, options.listener);
  const auto bits = [](unsigned index, uint64_t mask) {
    return ArgumentTest{.index = index, .op = Op::any_bit, .mask = mask, .value = 0, .low32 = true};
  };
  struct ModeArgument {
    const char* call;
    unsigned mode;
    int flags;  // the argument with open flags, or -1: the call always sets the mode
  };
  constexpr ModeArgument kCalls[] = {
      {"chmod", 1, -1},  {"fchmod", 1, -1}, {"fchmodat", 2, -1}, {"fchmodat2", 2, -1}, {"creat", 1, -1},  {"mkdir", 1, -1},
      {"mkdirat", 2, -1}, {"mknod", 1, -1},  {"mknodat", 2, -1},  {"open", 2, 1},       {"openat", 3, 2},
  };
  for (const ModeArgument& call : kCalls) {
    std::vector<ArgumentTest> tests = {bits(call.mode, 06000)};
    if (call.flags >= 0) tests.push_back(bits(static_cast<unsigned>(call.flags), kMakesFile));
    guard(calls, otherwise, options, call.call, std::move(tests), deny);
  }
  // Its mode lies in memory, where a filter cannot look. Programs fall back to openat.
  guard(calls, otherwise, options, "openat2", {}, SECCOMP_RET_ERRNO | ENOSYS);
}

// Drops what decides nothing and makes the list end in an alternative that always holds.
Alternatives complete(Alternatives list, uint32_t otherwise) {
  const auto last = std::find_if(list.begin(), list.end(), [](const Alternative& a) { return a.always(); });
  if (last == list.end()) {
    list.push_back(Alternative{{}, {}, otherwise});
  } else {
    list.erase(last + 1, list.end());
  }
  while (list.size() > 1 && list[list.size() - 2].answer == list.back().answer) list.erase(list.end() - 2);
  return list;
}

// --- assembling ------------------------------------------------------------------------------------------------------

using Label = unsigned;

// Instructions with symbolic targets. All jumps lead forward, as classic BPF wants it.
class Assembler {
 public:
  Label make_label() {
    bound_.push_back(kUnbound);
    return static_cast<Label>(bound_.size() - 1);
  }
  // The label means the next instruction.
  void bind(Label label) { bound_[label] = items_.size(); }

  void emit(uint16_t code, uint32_t k) { items_.push_back({code, k, kNowhere, kNowhere}); }
  void branch(uint16_t code, uint32_t k, Label if_true, Label if_false) { items_.push_back({code, k, if_true, if_false}); }
  void jump(Label target) { items_.push_back({BPF_JMP | BPF_JA, 0, target, kNowhere}); }

  size_t size() const { return items_.size(); }

  // Resolves the labels. A conditional jump reaches 255 instructions; where that is too short, the target's return is
  // repeated behind the branch, or a long jump is put there.
  BpfProgram finish() && {
    std::vector<std::pair<bool, bool>> far(items_.size(), {false, false});
    std::vector<size_t> place(items_.size() + 1, 0);
    for (bool changed = true; changed;) {
      changed = false;
      size_t position = 0;
      for (size_t i = 0; i < items_.size(); ++i) {
        place[i] = position;
        position += 1u + (far[i].first ? 1 : 0) + (far[i].second ? 1 : 0);
      }
      place[items_.size()] = position;
      for (size_t i = 0; i < items_.size(); ++i) {
        if (!is_branch(items_[i])) continue;
        // Extra instructions only move targets away: what is far stays far, so this ends.
        if (!far[i].first && distance(place, i, items_[i].if_true) > 255) changed = far[i].first = true;
        if (!far[i].second && distance(place, i, items_[i].if_false) > 255) changed = far[i].second = true;
      }
    }
    BpfProgram program;
    program.reserve(place.back());
    for (size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      if (item.code == (BPF_JMP | BPF_JA)) {
        program.push_back({item.code, 0, 0, static_cast<uint32_t>(distance(place, i, item.if_true))});
      } else if (!is_branch(item)) {
        program.push_back({item.code, 0, 0, item.k});
      } else {
        const size_t true_distance = far[i].first ? 0 : distance(place, i, item.if_true);
        const size_t false_distance = far[i].second ? (far[i].first ? 1 : 0) : distance(place, i, item.if_false);
        program.push_back({item.code, static_cast<uint8_t>(true_distance), static_cast<uint8_t>(false_distance), item.k});
        if (far[i].first) program.push_back(long_jump(place, program.size(), item.if_true));
        if (far[i].second) program.push_back(long_jump(place, program.size(), item.if_false));
      }
    }
    return program;
  }

 private:
  static constexpr size_t kUnbound = ~size_t{0};
  static constexpr Label kNowhere = ~Label{0};
  struct Item {
    uint16_t code;
    uint32_t k;
    Label if_true;
    Label if_false;
  };

  static bool is_branch(const Item& item) {
    return BPF_CLASS(item.code) == BPF_JMP && item.code != (BPF_JMP | BPF_JA);
  }
  size_t distance(const std::vector<size_t>& place, size_t from, Label to) const {
    return place[bound_[to]] - place[from] - 1;
  }
  sock_filter long_jump(const std::vector<size_t>& place, size_t position, Label to) const {
    const Item& target = items_[bound_[to]];
    if (target.code == (BPF_RET | BPF_K)) return {target.code, 0, 0, target.k};
    return {BPF_JMP | BPF_JA, 0, 0, static_cast<uint32_t>(place[bound_[to]] - position - 1)};
  }

  std::vector<Item> items_;
  std::vector<size_t> bound_;  // label → index of the instruction
};

// --- argument tests --------------------------------------------------------------------------------------------------

// Emits one list of alternatives. It remembers what the accumulator holds on the way to each label, so tests of the
// same argument in a row load it once.
class TestEmitter {
 public:
  TestEmitter(Assembler& code, const std::map<uint32_t, Label>& answers) : code_(code), answers_(answers) {}

  void emit(const Alternatives& list) {
    holds_.clear();
    accumulator_ = {};
    for (size_t i = 0; i + 1 < list.size(); ++i) {
      const bool last = i + 2 == list.size();
      const Label next = last ? answers_.at(list.back().answer) : code_.make_label();
      const std::vector<ArgumentTest>& tests = list[i].tests;
      const std::vector<ArgumentCondition>& conditions = list[i].conditions;
      const size_t parts = tests.size() + conditions.size();
      for (size_t part = 0; part < parts; ++part) {
        const bool decides = part + 1 == parts;
        const Label holds = decides ? answers_.at(list[i].answer) : code_.make_label();
        if (part < tests.size()) {
          emit_test(tests[part], holds, next);
        } else {
          emit_condition(conditions[part - tests.size()], holds, next);
        }
        if (!decides) bind(holds);
      }
      if (!last) bind(next);
    }
  }

 private:
  struct Word {
    uint32_t offset = 0;
    uint32_t mask = 0;  // 0: nothing known
    bool operator==(const Word&) const = default;
  };

  void bind(Label label) {
    code_.bind(label);
    const auto known = holds_.find(label);
    accumulator_ = known == holds_.end() ? Word{} : known->second;
  }
  void load(uint32_t offset, uint32_t mask) {
    if (accumulator_ == Word{offset, mask}) return;
    if (accumulator_ != Word{offset, kAllOnes}) code_.emit(BPF_LD | BPF_W | BPF_ABS, offset);
    if (mask != kAllOnes) code_.emit(BPF_ALU | BPF_AND | BPF_K, mask);
    accumulator_ = {offset, mask};
  }
  void branch(uint16_t op, uint32_t k, Label if_true, Label if_false) {
    code_.branch(static_cast<uint16_t>(BPF_JMP | op | BPF_K), k, if_true, if_false);
    for (const Label label : {if_true, if_false}) {
      const auto [known, is_new] = holds_.emplace(label, accumulator_);
      if (!is_new && known->second != accumulator_) known->second = Word{};
    }
  }

  void emit_test(const ArgumentTest& test, Label yes, Label no) {
    using Op = ArgumentTest::Op;
    switch (test.op) {
      case Op::equal: return emit_equal(test, ~uint64_t{0}, yes, no);
      case Op::not_equal: return emit_equal(test, ~uint64_t{0}, no, yes);
      case Op::masked_equal: return emit_equal(test, test.mask, yes, no);
      case Op::masked_not_equal: return emit_equal(test, test.mask, no, yes);
      case Op::less: return emit_order(test, BPF_JGE, no, yes);
      case Op::greater_equal: return emit_order(test, BPF_JGE, yes, no);
      case Op::greater: return emit_order(test, BPF_JGT, yes, no);
      case Op::less_equal: return emit_order(test, BPF_JGT, no, yes);
      case Op::any_bit: return emit_any_bit(test, yes, no);
      case Op::start: return emit_start(yes, no);
    }
  }

  // A part that decides jumps straight to where the whole leads: no value of a condition is ever made.
  void emit_condition(const ArgumentCondition& condition, Label yes, Label no) {
    switch (condition.kind) {
      case ArgumentCondition::Kind::test: return emit_test(condition.test, yes, no);
      case ArgumentCondition::Kind::compare: return emit_compare(condition, yes, no);
      case ArgumentCondition::Kind::all:
      case ArgumentCondition::Kind::any: break;
    }
    const bool all = condition.kind == ArgumentCondition::Kind::all;
    for (size_t i = 0; i < condition.parts.size(); ++i) {
      const bool decides = i + 1 == condition.parts.size();
      const Label next = decides ? (all ? yes : no) : code_.make_label();
      emit_condition(condition.parts[i], all ? next : yes, all ? no : next);
      if (!decides) bind(next);
    }
  }

  void emit_compare(const ArgumentCondition& condition, Label yes, Label no) {
    using Op = ArgumentTest::Op;
    const auto order = [&](uint16_t op, Label above, Label not_above) {
      if (!condition.test.low32) {
        // Above in the high halves decides; equal there leaves it to the low ones. Both are asked of the same registers.
        const Label not_higher = code_.make_label();
        const Label low_half = code_.make_label();
        const Operand right = load_sides(condition, true);
        branch(BPF_JGT | right.source, right.k, above, not_higher);
        bind(not_higher);
        branch(BPF_JEQ | right.source, right.k, low_half, not_above);
        bind(low_half);
      }
      const Operand right = load_sides(condition, false);
      branch(op | right.source, right.k, above, not_above);
    };
    const auto same = [&](Label equal, Label different) {
      if (!condition.test.low32) {
        const Label low_half = code_.make_label();
        const Operand right = load_sides(condition, true);
        branch(BPF_JEQ | right.source, right.k, low_half, different);
        bind(low_half);
      }
      const Operand right = load_sides(condition, false);
      branch(BPF_JEQ | right.source, right.k, equal, different);
    };
    switch (condition.test.op) {
      case Op::equal: return same(yes, no);
      case Op::not_equal: return same(no, yes);
      case Op::greater_equal: return order(BPF_JGE, yes, no);
      case Op::less: return order(BPF_JGE, no, yes);
      case Op::greater: return order(BPF_JGT, yes, no);
      case Op::less_equal: return order(BPF_JGT, no, yes);
      case Op::masked_equal:
      case Op::masked_not_equal:
      case Op::any_bit:
      case Op::start: return;  // check_condition() refused them
    }
  }

  // What a jump compares the accumulator with: a constant or the index register.
  struct Operand {
    uint16_t source = BPF_K;
    uint32_t k = 0;
  };
  // Half of the left side into the accumulator, the same half of the right into what is returned.
  Operand load_sides(const ArgumentCondition& condition, bool high_half) {
    const ArgumentValue& left = condition.sides[0];
    const ArgumentValue& right = condition.sides[1];
    if (right.kind == ArgumentValue::Kind::constant) {
      compute(left, high_half, 0);
      return {BPF_K, half(right.constant, high_half)};
    }
    compute(right, high_half, 0);
    if (left.parts.empty()) {
      code_.emit(BPF_MISC | BPF_TAX, 0);
      compute(left, high_half, 0);
    } else {
      code_.emit(BPF_ST, 0);
      compute(left, high_half, 1);
      code_.emit(BPF_LDX | BPF_MEM, 0);
    }
    return {BPF_X, 0};
  }

  static uint32_t half(uint64_t value, bool high_half) { return high_half ? high(value) : low(value); }

  // Half of a value into the accumulator. Scratch words from `scratch` on are free; the index register is not kept,
  // unless the value is one argument or constant.
  void compute(const ArgumentValue& value, bool high_half, unsigned scratch) {
    switch (value.kind) {
      case ArgumentValue::Kind::constant:
        code_.emit(BPF_LD | BPF_IMM, half(value.constant, high_half));
        accumulator_ = {};
        return;
      case ArgumentValue::Kind::argument: {
        const ArgumentTest of{.index = value.index};
        load(high_half ? high_offset(of) : low_offset(of), kAllOnes);
        return;
      }
      case ArgumentValue::Kind::bit_and:
      case ArgumentValue::Kind::bit_or: break;
    }
    const auto op = static_cast<uint16_t>(BPF_ALU | (value.kind == ArgumentValue::Kind::bit_and ? BPF_AND : BPF_OR));
    // The part that needs most scratch words comes first, as long as nothing is held; single arguments and constants
    // need none and come last.
    std::vector<const ArgumentValue*> parts;
    for (const ArgumentValue& part : value.parts) parts.push_back(&part);
    std::stable_sort(parts.begin(), parts.end(), [](const ArgumentValue* a, const ArgumentValue* b) {
      const unsigned of_a = scratch_words(*a);
      const unsigned of_b = scratch_words(*b);
      if (of_a != of_b) return of_a > of_b;
      return a->kind != ArgumentValue::Kind::constant && b->kind == ArgumentValue::Kind::constant;
    });
    compute(*parts.front(), high_half, scratch);
    for (size_t i = 1; i < parts.size(); ++i) {
      const ArgumentValue& part = *parts[i];
      if (part.kind == ArgumentValue::Kind::constant) {
        code_.emit(op | BPF_K, half(part.constant, high_half));
      } else if (part.parts.empty()) {
        code_.emit(BPF_MISC | BPF_TAX, 0);
        compute(part, high_half, scratch);
        code_.emit(op | BPF_X, 0);
      } else {
        code_.emit(BPF_ST, scratch);
        compute(part, high_half, scratch + 1);
        code_.emit(BPF_LDX | BPF_MEM, scratch);
        code_.emit(op | BPF_X, 0);
      }
      accumulator_ = {};
    }
    accumulator_ = {};
  }

  void emit_start(Label yes, Label no) {
    BpfProgram block;
    append_start_test(block, kNoStartKey);
    for (const sock_filter& instruction : block) code_.emit(instruction.code, instruction.k);
    accumulator_ = {};
    branch(BPF_JEQ, 0, yes, no);
  }

  // seccomp_data holds each argument in the host's byte order; both architectures are little endian.
  static uint32_t low_offset(const ArgumentTest& test) {
    return static_cast<uint32_t>(offsetof(seccomp_data, args) + 8 * test.index);
  }
  static uint32_t high_offset(const ArgumentTest& test) { return low_offset(test) + 4; }
  static uint32_t low(uint64_t value) { return static_cast<uint32_t>(value); }
  static uint32_t high(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

  void emit_equal(const ArgumentTest& test, uint64_t mask, Label yes, Label no) {
    const bool low_counts = low(mask) != 0;
    if (!test.low32 && high(mask) != 0) {
      const Label low_half = low_counts ? code_.make_label() : yes;
      load(high_offset(test), high(mask));
      branch(BPF_JEQ, high(test.value), low_half, no);
      if (!low_counts) return;
      bind(low_half);
    }
    load(low_offset(test), low(mask));
    branch(BPF_JEQ, low(test.value), yes, no);
  }

  // `op` is JGE or JGT: above the value (or at it) is `yes`.
  void emit_order(const ArgumentTest& test, uint16_t op, Label yes, Label no) {
    if (!test.low32) {
      const Label low_half = code_.make_label();
      load(high_offset(test), kAllOnes);
      if (high(test.value) == 0) {
        branch(BPF_JEQ, 0, low_half, yes);
      } else {
        const Label not_above = code_.make_label();
        branch(BPF_JGT, high(test.value), yes, not_above);
        bind(not_above);
        branch(BPF_JEQ, high(test.value), low_half, no);
      }
      bind(low_half);
    }
    load(low_offset(test), kAllOnes);
    branch(op, low(test.value), yes, no);
  }

  void emit_any_bit(const ArgumentTest& test, Label yes, Label no) {
    const bool low_counts = low(test.mask) != 0;
    if (!test.low32 && high(test.mask) != 0) {
      const Label low_half = low_counts ? code_.make_label() : no;
      load(high_offset(test), kAllOnes);
      branch(BPF_JSET, high(test.mask), yes, low_half);
      if (!low_counts) return;
      bind(low_half);
    }
    load(low_offset(test), kAllOnes);
    branch(BPF_JSET, low(test.mask), yes, no);
  }

  Assembler& code_;
  const std::map<uint32_t, Label>& answers_;
  std::map<Label, Word> holds_;
  Word accumulator_;
};

// --- the search tree -------------------------------------------------------------------------------------------------

// Numbers first … up to the next run's first, all with one answer, but for some single ones inside.
struct Run {
  uint32_t first = 0;
  Label answer = 0;
  std::vector<std::pair<uint32_t, Label>> exceptions;
};

// A lone number between two runs with the same answer costs one comparison as an exception, two as a run of its own.
std::vector<Run> join_exceptions(const std::vector<Run>& runs) {
  std::vector<Run> joined;
  for (size_t i = 0; i < runs.size(); ++i) {
    const bool lone = !joined.empty() && i + 1 < runs.size() && runs[i + 1].first == runs[i].first + 1 &&
                      runs[i + 1].answer == joined.back().answer;
    if (lone) {
      joined.back().exceptions.emplace_back(runs[i].first, runs[i].answer);
      ++i;  // the run behind it goes on in the one before it
      continue;
    }
    joined.push_back(runs[i]);
  }
  return joined;
}

void emit_exceptions(Assembler& code, const Run& run) {
  for (size_t i = 0; i < run.exceptions.size(); ++i) {
    const auto& [number, answer] = run.exceptions[i];
    const bool last = i + 1 == run.exceptions.size();
    const Label next = last ? run.answer : code.make_label();
    code.branch(BPF_JMP | BPF_JEQ | BPF_K, number, answer, next);
    if (!last) code.bind(next);
  }
}

// The code for runs[0 … size), entered at the place where it is emitted.
void emit_tree(Assembler& code, std::span<const Run> runs) {
  if (runs.size() == 1) {
    if (runs[0].exceptions.empty()) {
      code.jump(runs[0].answer);
    } else {
      emit_exceptions(code, runs[0]);
    }
    return;
  }
  // Split so that both sides hold about as many comparisons.
  size_t total = 0;
  for (const Run& run : runs) total += 1 + run.exceptions.size();
  size_t split = 0;
  for (size_t weight = 0; split + 1 < runs.size() && weight < total / 2; ++split) weight += 1 + runs[split].exceptions.size();
  split = std::max<size_t>(split, 1);
  const std::span<const Run> left = runs.first(split);
  const std::span<const Run> right = runs.subspan(split);
  const auto is_leaf = [](std::span<const Run> side) { return side.size() == 1 && side[0].exceptions.empty(); };
  const Label left_label = is_leaf(left) ? left[0].answer : code.make_label();
  const Label right_label = is_leaf(right) ? right[0].answer : code.make_label();
  code.branch(BPF_JMP | BPF_JGE | BPF_K, right[0].first, right_label, left_label);
  if (!is_leaf(left)) {
    code.bind(left_label);
    emit_tree(code, left);
  }
  if (!is_leaf(right)) {
    code.bind(right_label);
    emit_tree(code, right);
  }
}

}  // namespace

Arch native_arch() {
#if defined(__x86_64__)
  return Arch::x86_64;
#elif defined(__aarch64__)
  return Arch::aarch64;
#else
#error "sbx has no filters for this architecture"
#endif
}

Result<BpfProgram> compile(const SyscallRules& rules, const CompileOptions& options) {
  SBX_TRY(check_verdict(rules.otherwise, ""));
  const uint32_t otherwise = return_value(rules.otherwise, options.listener);
  if (rules.unknown) SBX_TRY(check_verdict(*rules.unknown, ""));
  const uint32_t unknown = rules.unknown ? return_value(*rules.unknown, options.listener) : otherwise;

  std::map<unsigned, Alternatives> calls;
  for (const SyscallRule& rule : rules.rules) {
    if (!rule.number && !is_syscall_name(rule.name)) return unknown_name(rule);
    SBX_TRY(check_verdict(rule.verdict, rule.origin));
    for (const ArgumentTest& test : rule.tests) SBX_TRY(check_test(rule, test));
    for (const ArgumentCondition& condition : rule.conditions) SBX_TRY(check_condition(rule, condition, 0));
    const std::optional<unsigned> number = rule.number ? rule.number : syscall_number(rule.name, options.arch);
    if (!number) continue;  // a call of other architectures
    Alternatives& list = calls[*number];
    if (list.size() >= kMaxRulesPerCall) return bad_rule(rule, "more than " + std::to_string(kMaxRulesPerCall) + " rules");
    list.push_back(Alternative{rule.tests, rule.conditions, return_value(rule.verdict, options.listener)});
  }
  if (options.guard_set_id) guard_set_id_modes(calls, otherwise, options);
  if (options.guard_unseen_memory) {
    guard(calls, otherwise, options, "shmget", {}, return_value({SyscallAction::notify, 0}, options.listener));
    guard(calls, otherwise, options, "memfd_create", {}, SECCOMP_RET_ERRNO | ENOSYS);
    guard(calls, otherwise, options, "memfd_secret", {}, SECCOMP_RET_ERRNO | ENOSYS);
  }

  // One label per answer, one per distinct list with tests: calls with the same list share its code.
  Assembler code;
  std::map<uint32_t, Label> answers;
  std::vector<std::pair<Alternatives, Label>> blocks;
  const auto answer_label = [&](uint32_t answer) {
    const auto known = answers.find(answer);
    return known != answers.end() ? known->second : answers.emplace(answer, code.make_label()).first->second;
  };
  const auto label_for = [&](const Alternatives& list) {
    for (const Alternative& alternative : list) answer_label(alternative.answer);
    if (list.size() == 1) return answer_label(list[0].answer);
    for (const auto& [known, label] : blocks)
      if (known == list) return label;
    blocks.emplace_back(list, code.make_label());
    return blocks.back().second;
  };

  std::vector<Run> runs;
  const auto add_run = [&](uint32_t first, Label answer) {
    if (runs.empty() || runs.back().answer != answer) runs.push_back({first, answer, {}});
  };
  for (unsigned number = 0; number < kMaxSyscallNumber; ++number) {
    const auto rule = calls.find(number);
    if (rule != calls.end()) {
      add_run(number, label_for(complete(rule->second, otherwise)));
    } else {
      add_run(number, answer_label(syscall_name(number, options.arch).empty() ? unknown : otherwise));
    }
  }
  // Above them everything is unknown, but for what a rule names by its number.
  const Label kill = answer_label(SECCOMP_RET_KILL_PROCESS);
  const auto answer_without_rule = [&](uint32_t number) {
    // -1 has the x32 bit but is no such call: tracers use it to skip one, and programs to make a failing one.
    const bool x32 = options.arch == Arch::x86_64 && number >= kX32Bit && number != kAllOnes;
    return x32 ? kill : answer_label(unknown);
  };
  std::set<uint32_t> firsts = {kMaxSyscallNumber};
  if (options.arch == Arch::x86_64) firsts.insert({kX32Bit, kAllOnes});
  for (auto rule = calls.lower_bound(kMaxSyscallNumber); rule != calls.end(); ++rule) {
    firsts.insert(rule->first);
    if (rule->first != kAllOnes) firsts.insert(rule->first + 1);
  }
  for (const uint32_t first : firsts) {
    const auto rule = calls.find(first);
    add_run(first, rule == calls.end() ? answer_without_rule(first) : label_for(complete(rule->second, otherwise)));
  }

  const Label right_arch = code.make_label();
  code.emit(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
  code.branch(BPF_JMP | BPF_JEQ | BPF_K, audit_arch(options.arch), right_arch, kill);
  code.bind(right_arch);
  code.emit(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  emit_tree(code, join_exceptions(runs));
  TestEmitter tests(code, answers);
  for (const auto& [list, label] : blocks) {
    code.bind(label);
    tests.emit(list);
    if (code.size() > BPF_MAXINSNS) return too_long();
  }
  for (const auto& [answer, label] : answers) {
    code.bind(label);
    code.emit(BPF_RET | BPF_K, answer);
  }
  BpfProgram program = std::move(code).finish();
  if (program.size() > BPF_MAXINSNS) return too_long();
  SBX_TRY(check_program(program));
  if (options.startable) SBX_TRY(check_startable(program, options.arch));
  return program;
}

Status check_startable(std::span<const sock_filter> program, Arch arch) {
  for (const char* name : {"execve", "exit_group"}) {
    const std::optional<unsigned> number = syscall_number(name, arch);
    if (!number) return Error(ErrorKind::internal, std::string("no number for ") + name);
    // The pointers that the child will pass are not known here; a filter that tests them is refused by one of these,
    // but for the test that is made for them.
    for (const uint64_t argument : {uint64_t{0}, ~uint64_t{0}}) {
      seccomp_data data{};
      data.nr = static_cast<int>(*number);
      data.arch = audit_arch(arch);
      std::fill(std::begin(data.args), std::end(data.args), argument);
      if (const std::optional<StartKey> key = start_key_of(program)) {
        std::copy(key->words.begin(), key->words.end(), std::begin(data.args));
      }
      const uint32_t answer = SBX_TRY(evaluate(program, data));
      if (!lets_pass(answer))
        return Error(ErrorKind::policy, std::string("the filter denies ") + name +
                                            ", which starting the program needs after the filter is loaded")
            .with_hint(std::string("allow \"") + name + "\"");
    }
  }
  return {};
}

}  // namespace sbx::seccomp
