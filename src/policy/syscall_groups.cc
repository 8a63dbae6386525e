#include "policy/syscall_groups.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "base/text.h"
#include "policy/toml_document.h"

namespace sbx {
namespace {

using Kind = TomlValue::Kind;
using Op = ArgumentTest::Op;

// Rules that one table may expand to; one_of lists multiply.
constexpr size_t kMaxExpandedRules = 1000;
// Linux's errno values end at 133 (EHWPOISON).
constexpr int kLastErrno = 133;

Status expect(const TomlValue& value, Kind kind, const std::string& name) {
  if (value.is(kind)) return {};
  return toml_error(name, value, "\"" + printable(value.key) + "\" must be a " + toml_kind_name(kind) + ", not a " +
                                     toml_kind_name(value.kind));
}

Error unknown_key(const TomlValue& value, const std::string& name, const std::vector<std::string>& known) {
  Error error(ErrorKind::policy, "unknown key \"" + printable(value.key) + "\"");
  const std::string near = did_you_mean(value.key, known);
  if (near.empty())
    return std::move(error).with_origin(toml_key_place(name, value)).with_hint("known keys: " + join(known, ", "));
  return std::move(error).with_origin(toml_key_place(name, value)).with_hint("did you mean \"" + near + "\"?");
}

Result<std::string> read_string(const TomlValue& value, const std::string& name) {
  SBX_TRY(expect(value, Kind::string, name));
  return value.string;
}

// A list of strings, none twice.
Result<std::vector<const TomlValue*>> read_names(const TomlValue& value, const std::string& name) {
  SBX_TRY(expect(value, Kind::array, name));
  std::vector<const TomlValue*> names;
  std::set<std::string> seen;
  for (const TomlValue& item : value.items) {
    if (!item.is(Kind::string) || item.string.empty())
      return toml_error(name, item, "a list of names holds strings, not a " + std::string(toml_kind_name(item.kind)));
    if (!seen.insert(item.string).second) return toml_error(name, item, "\"" + printable(item.string) + "\" is listed twice");
    names.push_back(&item);
  }
  return names;
}

// An integer, or a string with a decimal or 0x number, as 64 bits. Negative integers are two's complement.
Result<uint64_t> read_bits(const TomlValue& value, const std::string& name) {
  if (value.is(Kind::integer)) return static_cast<uint64_t>(value.integer);
  if (value.is(Kind::string)) {
    std::string_view digits = value.string;
    const bool hexadecimal = starts_with(digits, "0x");
    if (hexadecimal) digits.remove_prefix(2);
    uint64_t number = 0;
    const char* const last = digits.data() + digits.size();
    const std::from_chars_result end = std::from_chars(digits.data(), last, number, hexadecimal ? 16 : 10);
    if (end.ec == std::errc() && end.ptr == last) return number;
  }
  return toml_error(name, value, "must be an integer, or a string with an unsigned one such as \"0xffffffff00000000\"");
}

// One test of a `when` list: the alternatives that its one_of makes, each a list of tests that must all hold.
Result<std::vector<std::vector<ArgumentTest>>> read_test(const TomlValue& table, const std::string& name) {
  if (!table.is(Kind::table)) return toml_error(name, table, "a test is a table such as { arg = 0, equals = 1 }");
  struct Comparison {
    const char* key;
    Op plain;
    Op masked;  // == plain: takes no mask
    bool list;
  };
  static constexpr Comparison kComparisons[] = {
      {"equals", Op::equal, Op::masked_equal, false},
      {"not_equals", Op::not_equal, Op::masked_not_equal, false},
      {"one_of", Op::equal, Op::masked_equal, true},
      {"none_of", Op::not_equal, Op::masked_not_equal, true},
      {"below", Op::less, Op::less, false},
      {"at_most", Op::less_equal, Op::less_equal, false},
      {"above", Op::greater, Op::greater, false},
      {"at_least", Op::greater_equal, Op::greater_equal, false},
      {"any_bit", Op::any_bit, Op::any_bit, false},
  };
  ArgumentTest test;
  const TomlValue* argument = nullptr;
  const TomlValue* mask = nullptr;
  const TomlValue* operand = nullptr;
  const Comparison* comparison = nullptr;
  if (table.items.size() == 1 && table.items[0].key == "start") {
    const TomlValue& start = table.items[0];
    if (!start.is(Kind::boolean) || !start.boolean) return toml_error(name, start, "\"start\" can only be true");
    test.op = Op::start;
    return std::vector<std::vector<ArgumentTest>>{{test}};
  }
  for (const TomlValue& item : table.items) {
    if (item.key == "arg") {
      argument = &item;
    } else if (item.key == "mask") {
      mask = &item;
    } else if (item.key == "bits") {
      if (!item.is(Kind::integer) || (item.integer != 32 && item.integer != 64))
        return toml_error(name, item, "\"bits\" is 32 or 64");
      test.low32 = item.integer == 32;
    } else {
      const Comparison* found = nullptr;
      for (const Comparison& candidate : kComparisons)
        if (item.key == candidate.key) found = &candidate;
      if (found == nullptr) {
        std::vector<std::string> known = {"arg", "bits", "mask"};
        for (const Comparison& candidate : kComparisons) known.push_back(candidate.key);
        return unknown_key(item, name, known);
      }
      if (comparison != nullptr) return toml_error(name, item, "one test compares once; add another test for \"" + item.key + "\"");
      comparison = found;
      operand = &item;
    }
  }
  if (argument == nullptr) return toml_error(name, table, "a test needs \"arg\", the number of the argument from 0");
  if (!argument->is(Kind::integer) || argument->integer < 0 || argument->integer > 5)
    return toml_error(name, *argument, "\"arg\" is a number from 0 to 5");
  test.index = static_cast<unsigned>(argument->integer);
  if (comparison == nullptr) return toml_error(name, table, "a test needs a comparison such as \"equals\"");
  test.op = comparison->plain;
  const auto in_width = [&](uint64_t bits) { return test.low32 ? bits & 0xffffffff : bits; };
  if (mask != nullptr) {
    if (comparison->masked == comparison->plain)
      return toml_error(name, *mask, "\"" + std::string(comparison->key) + "\" takes no mask");
    test.op = comparison->masked;
    test.mask = in_width(SBX_TRY(read_bits(*mask, name)));
  }
  // Negative numbers of a 32-bit test are cut down to its width; too large ones are for compile() to refuse.
  const auto read_value = [&](const TomlValue& value) -> Result<uint64_t> {
    const uint64_t bits = SBX_TRY(read_bits(value, name));
    return value.is(Kind::integer) && value.integer < 0 ? in_width(bits) : bits;
  };
  if (comparison->list) {
    SBX_TRY(expect(*operand, Kind::array, name));
    if (operand->items.empty()) return toml_error(name, *operand, "\"" + operand->key + "\" is empty");
    std::vector<ArgumentTest> tests;
    tests.reserve(operand->items.size());
    for (const TomlValue& item : operand->items) {
      test.value = SBX_TRY(read_value(item));
      tests.push_back(test);
    }
    if (test.op == Op::not_equal || test.op == Op::masked_not_equal)
      return std::vector<std::vector<ArgumentTest>>{std::move(tests)};
    std::vector<std::vector<ArgumentTest>> alternatives;
    alternatives.reserve(tests.size());
    for (const ArgumentTest& alternative : tests) alternatives.push_back({alternative});
    return alternatives;
  }
  if (test.op == Op::any_bit) {
    test.mask = in_width(SBX_TRY(read_bits(*operand, name)));
  } else {
    test.value = SBX_TRY(read_value(*operand));
  }
  return std::vector<std::vector<ArgumentTest>>{{test}};
}

SyscallRule plain_rule(std::string call, SyscallVerdict verdict, std::string group, std::string origin) {
  return SyscallRule{std::move(call), {}, verdict, std::move(group), std::move(origin)};
}

// Finds calls and groups for one policy.
class GroupIndex {
 public:
  explicit GroupIndex(const std::vector<SyscallGroup>& groups) : groups_(groups) {
    for (const SyscallGroup& group : groups)
      for (const std::string& call : group.calls) by_call_[call] = &group;
  }
  const SyscallGroup* of_call(const std::string& call) const {
    const auto found = by_call_.find(call);
    return found == by_call_.end() ? nullptr : found->second;
  }
  Result<const SyscallGroup*> named(const TomlValue& item, const std::string& name) const {
    const std::string wanted = item.string.substr(1);
    std::vector<std::string> known;
    for (const SyscallGroup& group : groups_) {
      if (group.name == wanted) return &group;
      known.push_back(group.name);
    }
    Error error = toml_error(name, item, "there is no group \"@" + printable(wanted) + "\"");
    const std::string near = did_you_mean(wanted, known);
    if (near.empty()) return error;
    return std::move(error).with_hint("did you mean \"@" + near + "\"?");
  }

 private:
  const std::vector<SyscallGroup>& groups_;
  std::map<std::string, const SyscallGroup*> by_call_;
};

// "@group" and "call" entries to the calls they mean.
struct ListedCall {
  std::string call;
  std::string group;
  std::string origin;
};
Result<std::vector<ListedCall>> read_calls(const TomlValue& value, const std::string& name, const GroupIndex& index) {
  std::vector<ListedCall> calls;
  std::set<std::string> seen;
  for (const TomlValue* item : SBX_TRY(read_names(value, name))) {
    const std::string origin = toml_place(name, *item);
    std::vector<ListedCall> entry;
    if (item->string[0] == '@') {
      const SyscallGroup* group = SBX_TRY(index.named(*item, name));
      for (const std::string& call : group->calls) entry.push_back({call, group->name, origin});
    } else {
      const SyscallGroup* group = index.of_call(item->string);
      entry.push_back({item->string, group == nullptr ? "" : group->name, origin});
    }
    for (ListedCall& call : entry) {
      if (!seen.insert(call.call).second)
        return toml_error(name, *item, "\"" + printable(call.call) + "\" is listed twice, the second time by \"" +
                                           printable(item->string) + "\"");
      calls.push_back(std::move(call));
    }
  }
  return calls;
}

Result<SyscallVerdict> read_answer(const TomlValue& value, const std::string& name) {
  SBX_TRY(expect(value, Kind::string, name));
  Result<SyscallVerdict> verdict = parse_syscall_answer(value.string);
  if (!verdict.ok()) return verdict.take_error().with_origin(toml_place(name, value));
  return verdict;
}

}  // namespace

Result<SyscallVerdict> parse_syscall_answer(std::string_view text) {
  if (text == "allow") return SyscallVerdict{SyscallAction::allow, 0};
  if (text == "deny") return SyscallVerdict{SyscallAction::notify, 0};
  if (text == "log") return SyscallVerdict{SyscallAction::log, 0};
  if (text == "kill") return SyscallVerdict{SyscallAction::kill, 0};
  std::vector<std::string> known = {"allow", "deny", "log", "kill"};
  for (int number = 1; number <= kLastErrno; ++number) {
    const char* errno_name = strerrorname_np(number);
    if (errno_name == nullptr) continue;
    if (text == errno_name) return SyscallVerdict{SyscallAction::errno_value, static_cast<uint16_t>(number)};
    known.push_back(errno_name);
  }
  Error error(ErrorKind::policy, "\"" + printable(text) + "\" is no answer: \"allow\", \"deny\", \"log\", \"kill\" or an errno name");
  const std::string near = did_you_mean(text, known);
  if (near.empty()) return error;
  return std::move(error).with_hint("did you mean \"" + near + "\"?");
}

std::string format_syscall_answer(const SyscallVerdict& verdict) {
  switch (verdict.action) {
    case SyscallAction::allow: return "allow";
    case SyscallAction::notify: return "deny";
    case SyscallAction::log: return "log";
    case SyscallAction::kill: return "kill";
    case SyscallAction::kill_thread: return "kill the thread";
    case SyscallAction::trap: return "trap " + std::to_string(verdict.errnum);
    case SyscallAction::trace: return "trace " + std::to_string(verdict.errnum);
    case SyscallAction::errno_value: break;
  }
  const char* errno_name = strerrorname_np(verdict.errnum);
  return errno_name != nullptr ? errno_name : "errno " + std::to_string(verdict.errnum);
}

Result<std::vector<SyscallRule>> parse_syscall_rule(const TomlValue& table, const std::string& name) {
  if (!table.is(Kind::table)) return toml_error(name, table, "a rule is a table with \"calls\", \"when\" and \"answer\"");
  std::vector<const TomlValue*> calls;
  std::vector<std::vector<ArgumentTest>> alternatives = {{}};
  const TomlValue* answer = nullptr;
  for (const TomlValue& item : table.items) {
    if (item.key == "calls") {
      calls = SBX_TRY(read_names(item, name));
    } else if (item.key == "answer") {
      answer = &item;
    } else if (item.key == "when") {
      SBX_TRY(expect(item, Kind::array, name));
      if (item.items.empty()) return toml_error(name, item, "\"when\" is empty; leave it out for a rule that always holds");
      for (const TomlValue& test : item.items) {
        const std::vector<std::vector<ArgumentTest>> choices = SBX_TRY(read_test(test, name));
        if (alternatives.size() * choices.size() > kMaxExpandedRules)
          return toml_error(name, test, "the one_of lists of this rule multiply to more than " +
                                            std::to_string(kMaxExpandedRules) + " rules");
        std::vector<std::vector<ArgumentTest>> product;
        for (const std::vector<ArgumentTest>& alternative : alternatives) {
          for (const std::vector<ArgumentTest>& choice : choices) {
            product.push_back(alternative);
            product.back().insert(product.back().end(), choice.begin(), choice.end());
          }
        }
        alternatives = std::move(product);
      }
    } else {
      return unknown_key(item, name, {"calls", "when", "answer"});
    }
  }
  if (calls.empty()) return toml_error(name, table, "a rule needs \"calls\", a list of system calls");
  if (answer == nullptr) return toml_error(name, table, "a rule needs an \"answer\"");
  const SyscallVerdict verdict = SBX_TRY(read_answer(*answer, name));
  std::vector<SyscallRule> rules;
  for (const TomlValue* call : calls)
    for (const std::vector<ArgumentTest>& tests : alternatives)
      rules.push_back(SyscallRule{call->string, tests, verdict, "", toml_place(name, table)});
  return rules;
}

Result<std::vector<SyscallGroup>> parse_syscall_groups(std::string_view text, const std::string& name) {
  const TomlValue document = SBX_TRY(parse_toml(text, name));
  std::vector<SyscallGroup> groups;
  std::map<std::string, std::string> placed;  // call → group
  for (const TomlValue& table : document.items) {
    SBX_TRY(expect(table, Kind::table, name));
    SyscallGroup group;
    group.name = table.key;
    std::set<std::string> own;
    const auto place = [&](const std::string& call, const TomlValue& where) -> Status {
      const auto [known, is_new] = placed.emplace(call, group.name);
      if (!is_new) return toml_error(name, where, "\"" + printable(call) + "\" stands in group \"" + known->second + "\" already");
      own.insert(call);
      group.calls.push_back(call);
      return {};
    };
    for (const TomlValue& item : table.items) {
      if (item.key == "doc") {
        group.doc = SBX_TRY(read_string(item, name));
      } else if (item.key == "calls") {
        for (const TomlValue* call : SBX_TRY(read_names(item, name))) {
          SBX_TRY(place(call->string, *call));
          group.rules.push_back(
              plain_rule(call->string, {SyscallAction::allow, 0}, group.name, toml_place(name, *call)));
        }
      } else if (item.key == "rule") {
        SBX_TRY(expect(item, Kind::array, name));
        std::set<std::string> ruled;
        for (const TomlValue& rule_table : item.items) {
          for (SyscallRule& rule : SBX_TRY(parse_syscall_rule(rule_table, name))) {
            if (ruled.insert(rule.name).second) SBX_TRY(place(rule.name, rule_table));
            rule.group = group.name;
            group.rules.push_back(std::move(rule));
          }
        }
      } else {
        return unknown_key(item, name, {"doc", "calls", "rule"});
      }
    }
    if (group.doc.empty()) return toml_error(name, table, "group \"" + printable(group.name) + "\" needs a \"doc\"");
    groups.push_back(std::move(group));
  }
  return groups;
}

Result<SyscallRules> parse_syscall_policy(std::string_view text, const std::string& name, std::string_view groups_text) {
  const std::vector<SyscallGroup> groups = SBX_TRY(parse_syscall_groups(groups_text, "groups.toml"));
  const GroupIndex index(groups);
  const TomlValue document = SBX_TRY(parse_toml(text, name));
  static const std::vector<std::string> kKeys = {"doc", "allow", "deny", "errno", "otherwise", "unknown", "rule"};
  for (const TomlValue& item : document.items)
    if (std::find(kKeys.begin(), kKeys.end(), item.key) == kKeys.end()) return unknown_key(item, name, kKeys);

  SyscallRules policy;
  if (const TomlValue* doc = document.find("doc")) SBX_TRY(read_string(*doc, name));
  const TomlValue* otherwise = document.find("otherwise");
  if (otherwise == nullptr) return toml_error(name, document, "a policy needs \"otherwise\", the answer for all other calls");
  policy.otherwise = SBX_TRY(read_answer(*otherwise, name));
  if (const TomlValue* unknown = document.find("unknown")) policy.unknown = SBX_TRY(read_answer(*unknown, name));

  if (const TomlValue* rules = document.find("rule")) {
    SBX_TRY(expect(*rules, Kind::array, name));
    for (const TomlValue& table : rules->items) {
      for (SyscallRule& rule : SBX_TRY(parse_syscall_rule(table, name))) {
        const SyscallGroup* group = index.of_call(rule.name);
        if (group != nullptr) rule.group = group->name;
        policy.rules.push_back(std::move(rule));
      }
    }
  }

  std::map<std::string, std::string> refused;  // call → where
  const auto refuse = [&](const TomlValue& list, SyscallVerdict verdict) -> Status {
    for (ListedCall& call : SBX_TRY(read_calls(list, name, index))) {
      const auto [known, is_new] = refused.emplace(call.call, call.origin);
      if (!is_new)
        return Error(ErrorKind::policy, "\"" + printable(call.call) + "\" is refused at " + known->second + " already")
            .with_origin(call.origin);
      policy.rules.push_back(plain_rule(std::move(call.call), verdict, std::move(call.group), std::move(call.origin)));
    }
    return {};
  };
  if (const TomlValue* deny = document.find("deny")) SBX_TRY(refuse(*deny, {SyscallAction::notify, 0}));
  if (const TomlValue* errnos = document.find("errno")) {
    SBX_TRY(expect(*errnos, Kind::table, name));
    for (const TomlValue& list : errnos->items) {
      Result<SyscallVerdict> verdict = parse_syscall_answer(list.key);
      if (!verdict.ok()) return verdict.take_error().with_origin(toml_key_place(name, list));
      if (verdict.value().action != SyscallAction::errno_value)
        return toml_error(name, list, "[errno] holds lists by errno name, not \"" + printable(list.key) + "\"");
      SBX_TRY(refuse(list, verdict.value()));
    }
  }
  if (const TomlValue* allow = document.find("allow")) {
    for (ListedCall& call : SBX_TRY(read_calls(*allow, name, index))) {
      const SyscallGroup* group = index.of_call(call.call);
      if (group == nullptr) {
        policy.rules.push_back(plain_rule(std::move(call.call), {SyscallAction::allow, 0}, "", std::move(call.origin)));
        continue;
      }
      for (const SyscallRule& rule : group->rules)
        if (rule.name == call.call) policy.rules.push_back(rule);
    }
  }
  return policy;
}

}  // namespace sbx
