#include "policy/kafel/parser.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <string>
#include <utility>

#include "base/text.h"
#include "policy/kafel/kafel.h"

// A recursive descent, one function for each line of the grammar in docs/kafel.md. A function that fails has left its
// mistake in mistake_ and returns false. Only brackets and "!" go deeper, and they are counted.
namespace sbx::kafel {
namespace {

constexpr std::array<std::string_view, 16> kKeywords = {
    "SYSCALL", "ALLOW", "LOG", "USER_NOTIF", "ERRNO",  "KILL_PROCESS", "KILL_THREAD", "KILL",
    "DENY",    "TRAP",  "TRACE", "USE",      "POLICY", "DEFAULT",      "ON",          "define"};

struct ArchitectureName {
  std::string_view name;
  Architecture bit;
};
constexpr std::array<ArchitectureName, 13> kArchitectures = {{{"arm", kArm},
                                                              {"aarch64", kAarch64},
                                                              {"arm64", kAarch64},
                                                              {"x86_64", kX86_64},
                                                              {"amd64", kX86_64},
                                                              {"x86", kX86},
                                                              {"i386", kX86},
                                                              {"mips", kMips},
                                                              {"mipso32", kMips},
                                                              {"mips64", kMips64},
                                                              {"riscv64", kRiscv64},
                                                              {"rv64", kRiscv64},
                                                              {"m68k", kM68k}}};

bool is_keyword(std::string_view word) { return std::find(kKeywords.begin(), kKeywords.end(), word) != kKeywords.end(); }

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

// "(a & b)" is a number and "(a == b)" a condition, which shows only behind what both begin with: so brackets are read
// as either.
using Either = std::variant<Value, Condition>;

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) {}

  bool program(Program& program);
  Mistake take_mistake() { return std::move(mistake_); }

 private:
  // ---- words
  bool advance() {
    if (lexer_.next(token_)) return true;
    mistake_ = lexer_.mistake();
    return false;
  }
  bool fail(Place at, std::string message, std::string hint = "") {
    mistake_ = {at, std::move(message), std::move(hint)};
    return false;
  }
  std::string found() const { return token_.kind == Token::Kind::end ? "the end of the text" : quoted(token_.text); }
  bool unexpected(const std::string& wanted, std::string hint = "") {
    return fail(token_.at, "expected " + wanted + ", found " + found(), std::move(hint));
  }
  bool at(std::string_view symbol) const { return token_.is_symbol(symbol); }
  bool expect(std::string_view symbol, const char* hint = "") {
    if (!at(symbol)) return unexpected("\"" + std::string(symbol) + "\"", hint);
    return advance();
  }
  bool at_identifier() const { return token_.kind == Token::Kind::word && !is_keyword(token_.text); }
  bool identifier(const std::string& what, std::string& name, Place& place) {
    if (!at_identifier()) return unexpected(what);
    name = std::string(token_.text);
    place = token_.at;
    return advance();
  }

  // ---- statements
  bool directive();
  bool policy(Program& program);
  bool entries(std::vector<Entry>& list);
  bool entry(std::vector<Entry>& list);
  bool at_action() const;
  bool action(SyscallVerdict& verdict);
  bool rule(Rule& rule);
  bool call(CallName& call);
  bool call_number(CallName& call);
  bool argument_names(CallName& call);
  bool architectures(unsigned& bits);
  bool architecture(unsigned& bits);

  // ---- conditions
  bool deeper() {
    if (++depth_ > kMaxDepth) return fail(token_.at, "nested more than " + std::to_string(kMaxDepth) + " deep");
    return true;
  }
  bool condition(Condition& condition);
  bool chain(Condition::Kind kind, std::string_view symbol, bool (Parser::*part)(Either&), Either& either);
  bool any_of(Either& either) { return chain(Condition::Kind::any, ",", &Parser::or_of, either); }
  bool or_of(Either& either) { return chain(Condition::Kind::any, "||", &Parser::and_of, either); }
  bool and_of(Either& either) { return chain(Condition::Kind::all, "&&", &Parser::primary, either); }
  bool primary(Either& either);
  bool as_condition(Either& either, Condition& condition);
  bool bits(Value::Kind kind, std::string_view symbol, bool (Parser::*part)(Either&), Either& either);
  bool bit_or(Either& either) { return bits(Value::Kind::bit_or, "|", &Parser::bit_and, either); }
  bool bit_and(Either& either) { return bits(Value::Kind::bit_and, "&", &Parser::operand, either); }
  bool operand(Either& either);

  Lexer lexer_;
  Token token_;
  Mistake mistake_;
  unsigned depth_ = 0;
  size_t rules_ = 0;
  std::map<std::string, uint64_t, std::less<>> constants_;
  std::map<std::string, size_t, std::less<>> policies_;
};

// Policies use each other, one below the other; walking that takes stack.
constexpr size_t kMaxPolicies = 4096;

// program = statement { statement }
bool Parser::program(Program& program) {
  if (!advance()) return false;
  if (token_.kind == Token::Kind::end) return fail(token_.at, "the text is empty", "DEFAULT ALLOW allows everything");
  while (token_.kind != Token::Kind::end) {
    if (at("#")) {
      if (!directive()) return false;
    } else if (token_.is_word("POLICY")) {
      if (!policy(program)) return false;
    } else if (token_.is_word("DEFAULT")) {
      const Place place = token_.at;
      SyscallVerdict verdict;
      if (!advance() || !action(verdict)) return false;
      if (program.otherwise) return fail(place, "a second DEFAULT");
      program.otherwise = verdict;
    } else if (!entries(program.entries)) {
      return false;
    }
  }
  return true;
}

// "#" "define" ID NUM
bool Parser::directive() {
  const Place place = token_.at;
  if (!advance()) return false;
  if (token_.is_word("include"))
    return fail(place, "#include is not supported: a policy is one text", "put the text of the other file here");
  if (!token_.is_word("define")) return unexpected("\"define\" after \"#\"");
  std::string name;
  Place name_place;
  if (!advance() || !identifier("the name of a constant", name, name_place)) return false;
  if (token_.kind != Token::Kind::number) return unexpected("a number", "a constant is one number, not an expression");
  const auto [known, is_new] = constants_.emplace(name, token_.number);
  if (!is_new && known->second != token_.number) return fail(place, "the constant " + quoted(name) + " has another value already");
  return advance();
}

// "POLICY" ID "{" [ entries ] "}"
bool Parser::policy(Program& program) {
  const Place place = token_.at;
  Policy policy;
  Place name_place;
  if (!advance() || !identifier("the name of the policy", policy.name, name_place) || !expect("{")) return false;
  if (!at("}") && !entries(policy.entries)) return false;
  if (!expect("}", "entries are separated by commas; a POLICY has no DEFAULT of its own")) return false;
  // Only now: a policy cannot use itself.
  if (!policies_.emplace(policy.name, program.policies.size()).second) return fail(place, "a second policy " + quoted(policy.name));
  if (program.policies.size() == kMaxPolicies) return fail(place, "more than " + std::to_string(kMaxPolicies) + " policies");
  program.policies.push_back(std::move(policy));
  return true;
}

// entries = entry { "," entry }
bool Parser::entries(std::vector<Entry>& list) {
  for (;;) {
    if (!entry(list)) return false;
    if (!at(",")) return true;
    if (!advance()) return false;
  }
}

bool Parser::at_action() const {
  for (const std::string_view word : {"ALLOW", "LOG", "KILL", "KILL_THREAD", "DENY", "KILL_PROCESS", "USER_NOTIF", "ERRNO", "TRAP", "TRACE"})
    if (token_.is_word(word)) return true;
  return false;
}

// entry = "USE" ID | action "{" [ rule { "," rule } ] "}"
bool Parser::entry(std::vector<Entry>& list) {
  Entry entry;
  if (token_.is_word("USE")) {
    std::string name;
    Place place;
    if (!advance() || !identifier("the name of a policy", name, place)) return false;
    const auto known = policies_.find(name);
    if (known == policies_.end()) {
      std::vector<std::string> names;
      for (const auto& [each, index] : policies_) names.push_back(each);
      const std::string near = did_you_mean(name, names);
      return fail(place, "there is no policy " + quoted(name) + " before this line", near.empty() ? "" : "did you mean " + quoted(near) + "?");
    }
    entry.use = known->second;
    list.push_back(std::move(entry));
    return true;
  }
  if (!at_action()) return unexpected("an action such as ALLOW, or USE");
  if (!action(entry.verdict) || !expect("{")) return false;
  while (!at("}")) {
    if (++rules_ > kMaxRules) return fail(token_.at, "more than " + std::to_string(kMaxRules) + " rules");
    entry.rules.emplace_back();
    if (!rule(entry.rules.back())) return false;
    if (at("}")) break;
    if (!at(",")) return unexpected("\",\" or \"}\"");
    if (!advance()) return false;
    if (at("}")) return unexpected("a system call", "no comma stands behind the last one");
  }
  if (!advance()) return false;
  list.push_back(std::move(entry));
  return true;
}

// action = ALLOW | LOG | KILL | KILL_THREAD | DENY | KILL_PROCESS | USER_NOTIF | (ERRNO|TRAP|TRACE) "(" NUM ")"
bool Parser::action(SyscallVerdict& verdict) {
  constexpr uint64_t kMostData = 0xffff;
  constexpr uint64_t kMostErrno = 4095;
  if (!at_action()) return unexpected("an action such as ALLOW");
  const std::string_view word = token_.text;
  if (!advance()) return false;
  if (word == "ALLOW") verdict = {SyscallAction::allow, 0};
  if (word == "LOG") verdict = {SyscallAction::log, 0};
  if (word == "KILL" || word == "KILL_THREAD" || word == "DENY") verdict = {SyscallAction::kill_thread, 0};
  if (word == "KILL_PROCESS") verdict = {SyscallAction::kill, 0};
  // What the kernel answers where nobody listens.
  if (word == "USER_NOTIF") verdict = {SyscallAction::errno_value, ENOSYS};
  if (word != "ERRNO" && word != "TRAP" && word != "TRACE") return true;
  if (!expect("(")) return false;
  if (token_.kind != Token::Kind::number) return unexpected("a number", "constants cannot stand here");
  if (token_.number > kMostData) return fail(token_.at, quoted(token_.text) + " is out of range, 0 to " + std::to_string(kMostData));
  verdict.errnum = static_cast<uint16_t>(token_.number);
  verdict.action = word == "TRAP" ? SyscallAction::trap : word == "TRACE" ? SyscallAction::trace : SyscallAction::errno_value;
  // The kernel cuts a larger one down (seccomp(2)).
  if (verdict.action == SyscallAction::errno_value) verdict.errnum = static_cast<uint16_t>(std::min(token_.number, kMostErrno));
  return advance() && expect(")");
}

// rule = call [ "(" [ ID { "," ID } ] ")" ] [ "ON" … ] [ "{" [ condition ] "}" ]
bool Parser::rule(Rule& rule) {
  if (!call(rule.call)) return false;
  if (at("(") && !argument_names(rule.call)) return false;
  if (token_.is_word("ON") && !architectures(rule.architectures)) return false;
  if (!at("{")) return true;
  if (!advance()) return false;
  if (!at("}")) {
    Condition read;
    if (!condition(read)) return false;
    rule.condition = std::move(read);
  }
  return expect("}");
}

// call = ID | "SYSCALL" "[" NUM "]"
bool Parser::call(CallName& call) {
  call.at = token_.at;
  if (token_.is_word("SYSCALL")) return advance() && expect("[") && call_number(call) && expect("]");
  Place place;
  if (!identifier("a system call", call.name, place)) return false;
  const auto constant = constants_.find(call.name);
  if (constant == constants_.end()) return true;
  if (constant->second > 0xffffffff && constant->second < 0xffffffff80000000)
    return fail(place, "the constant " + quoted(call.name) + " is no number of a system call: it has more than 32 bits");
  call.name.clear();
  call.number = static_cast<uint32_t>(constant->second);
  return true;
}

bool Parser::call_number(CallName& call) {
  if (token_.kind != Token::Kind::number) return unexpected("the number of a system call", "constants cannot stand here; they are used without SYSCALL[ ]");
  // 32 bits, or a negative number of 32 bits.
  if (token_.number > 0xffffffff && token_.number < 0xffffffff80000000)
    return fail(token_.at, quoted(token_.text) + " is no number of a system call: it has more than 32 bits");
  call.number = static_cast<uint32_t>(token_.number);
  return advance();
}

bool Parser::argument_names(CallName& call) {
  constexpr size_t kMostArguments = 6;
  if (!advance()) return false;
  call.arguments.emplace();
  while (!at(")")) {
    std::string name;
    Place place;
    if (!identifier("the name of an argument", name, place)) return false;
    std::vector<std::string>& names = *call.arguments;
    if (std::find(names.begin(), names.end(), name) != names.end()) return fail(place, "a second argument " + quoted(name));
    if (names.size() == kMostArguments) return fail(place, "system calls have 6 arguments at most");
    names.push_back(std::move(name));
    if (at(")")) break;
    if (!expect(",")) return false;
    if (at(")")) return unexpected("the name of an argument");
  }
  return advance();
}

// "ON" ( ID | "{" ID { "," ID } "}" )
bool Parser::architectures(unsigned& bits) {
  bits = 0;
  if (!advance()) return false;
  if (!at("{")) return architecture(bits);
  do {
    if (!advance() || !architecture(bits)) return false;
  } while (at(","));
  return expect("}");
}

bool Parser::architecture(unsigned& bits) {
  std::string name;
  Place place;
  if (!identifier("the name of an architecture", name, place)) return false;
  const std::string lower = lower_case(name);
  for (const ArchitectureName& known : kArchitectures) {
    if (known.name != lower) continue;
    if ((bits & known.bit) != 0) return fail(place, "the architecture " + quoted(name) + " a second time");
    bits |= known.bit;
    return true;
  }
  std::vector<std::string> names;
  names.reserve(std::size(kArchitectures));
  for (const ArchitectureName& known : kArchitectures) names.emplace_back(known.name);
  return fail(place, "there is no architecture " + quoted(name), "known: " + join(names, ", "));
}

// ---- conditions -----------------------------------------------------------------------------------------------

bool Parser::as_condition(Either& either, Condition& condition) {
  if (auto* read = std::get_if<Condition>(&either)) {
    condition = std::move(*read);
    return true;
  }
  // A value alone: what is missing stands where the next word is.
  return unexpected("a comparison, one of == != < <= > >=", "a number is no condition: write … != 0");
}

bool Parser::condition(Condition& condition) {
  Either either;
  return any_of(either) && as_condition(either, condition);
}

// condition = or { "," or }    or = and { "||" and }    and = primary { "&&" primary }
bool Parser::chain(Condition::Kind kind, std::string_view symbol, bool (Parser::*part)(Either&), Either& either) {
  if (!(this->*part)(either)) return false;
  if (std::holds_alternative<Value>(either) || !at(symbol)) return true;
  Condition all{.kind = kind, .op = {}, .sides = {}, .parts = {}};
  all.parts.push_back(std::move(std::get<Condition>(either)));
  while (at(symbol)) {
    Either next;
    if (!advance() || !(this->*part)(next)) return false;
    all.parts.emplace_back();
    if (!as_condition(next, all.parts.back())) return false;
  }
  either = std::move(all);
  return true;
}

// primary = "(" condition ")" | "!" primary | bits ("==" | "!=" | "<" | "<=" | ">" | ">=") bits
bool Parser::primary(Either& either) {
  if (at("!")) {
    Either inner;
    Condition negation{.kind = Condition::Kind::negation, .op = {}, .sides = {}, .parts = {}};
    negation.parts.emplace_back();
    if (!deeper() || !advance() || !primary(inner) || !as_condition(inner, negation.parts.back())) return false;
    --depth_;
    either = std::move(negation);
    return true;
  }
  if (!bit_or(either)) return false;
  if (std::holds_alternative<Condition>(either)) return true;
  constexpr std::array<std::pair<std::string_view, Comparison>, 6> kComparisons = {{{"==", Comparison::equal},
                                                                                   {"!=", Comparison::not_equal},
                                                                                   {"<", Comparison::less},
                                                                                   {"<=", Comparison::less_equal},
                                                                                   {">", Comparison::greater},
                                                                                   {">=", Comparison::greater_equal}}};
  for (const auto& [symbol, op] : kComparisons) {
    if (!at(symbol)) continue;
    Either right;
    if (!advance() || !bit_or(right)) return false;
    if (!std::holds_alternative<Value>(right)) return unexpected("a number or an argument on the right of " + quoted(symbol));
    Condition compare{.kind = Condition::Kind::compare, .op = op, .sides = {}, .parts = {}};
    compare.sides.push_back(std::move(std::get<Value>(either)));
    compare.sides.push_back(std::move(std::get<Value>(right)));
    either = std::move(compare);
    return true;
  }
  return true;
}

// bits = band { "|" band }    band = operand { "&" operand }
bool Parser::bits(Value::Kind kind, std::string_view symbol, bool (Parser::*part)(Either&), Either& either) {
  if (!(this->*part)(either)) return false;
  if (std::holds_alternative<Condition>(either) || !at(symbol)) return true;
  Value whole{.kind = kind, .at = std::get<Value>(either).at, .number = 0, .argument = {}, .parts = {}};
  whole.parts.push_back(std::move(std::get<Value>(either)));
  while (at(symbol)) {
    Either next;
    if (!advance() || !(this->*part)(next)) return false;
    if (!std::holds_alternative<Value>(next)) return fail(token_.at, "a condition cannot stand beside " + quoted(symbol), "conditions are joined by && and ||");
    whole.parts.push_back(std::move(std::get<Value>(next)));
  }
  either = std::move(whole);
  return true;
}

// operand = NUM | ID | "(" bits ")"; or a condition in brackets, which primary() takes.
bool Parser::operand(Either& either) {
  if (at("(")) {
    if (!deeper() || !advance() || !any_of(either)) return false;
    if (!at(")")) return unexpected(std::holds_alternative<Value>(either) ? "a comparison or \")\"" : "\")\"");
    --depth_;
    return advance();
  }
  Value value;
  value.at = token_.at;
  if (token_.kind == Token::Kind::number) {
    value.number = token_.number;
    either = std::move(value);
    return advance();
  }
  Place place;
  if (!identifier("a number or an argument", value.argument, place)) return false;
  const auto constant = constants_.find(value.argument);
  if (constant != constants_.end()) {
    value.number = constant->second;
    value.argument.clear();
  } else {
    value.kind = Value::Kind::argument;
  }
  either = std::move(value);
  return true;
}

}  // namespace

std::variant<Program, Mistake> parse(std::string_view text) {
  if (text.size() > kMaxBytes)
    return Mistake{{}, "the text has more than " + std::to_string(kMaxBytes >> 20) + "M", ""};
  Parser parser(text);
  Program program;
  if (!parser.program(program)) return parser.take_mistake();
  return program;
}

}  // namespace sbx::kafel
