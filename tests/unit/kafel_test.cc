#include <doctest/doctest.h>
#include <linux/audit.h>
#include <linux/seccomp.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "kafel_random.h"
#include "policy/kafel/calls.h"
#include "policy/kafel/kafel.h"
#include "policy/kafel/parser.h"
#include "policy/kafel/write.h"
#include "policy/syscall_decide.h"
#include "policy/syscall_groups.h"
#include "seccomp/compile.h"
#include "seccomp/evaluate.h"
#include "seccomp/syscall_numbers.h"

using namespace sbx;
using namespace sbx::kafel;

namespace {

using Arguments = std::array<uint64_t, 6>;
constexpr uint32_t kX32Bit = 0x40000000;
constexpr uint32_t kMinusOne = 0xffffffff;

seccomp::Arch arch_of(Machine machine) { return machine == Machine::x86_64 ? seccomp::Arch::x86_64 : seccomp::Arch::aarch64; }

// ---- what a tree means, said without rules or filters ---------------------------------------------------------------

uint32_t answer_of(const SyscallVerdict& verdict) {
  switch (verdict.action) {
    case SyscallAction::allow: return SECCOMP_RET_ALLOW;
    case SyscallAction::log: return SECCOMP_RET_LOG;
    case SyscallAction::kill_thread: return SECCOMP_RET_KILL_THREAD;
    case SyscallAction::kill: return SECCOMP_RET_KILL_PROCESS;
    case SyscallAction::errno_value: return SECCOMP_RET_ERRNO + verdict.errnum;
    case SyscallAction::trap: return SECCOMP_RET_TRAP + verdict.errnum;
    case SyscallAction::trace: return SECCOMP_RET_TRACE + verdict.errnum;
    case SyscallAction::notify: break;
  }
  FAIL("an action that Kafel does not have");
  return 0;
}

class Reference {
 public:
  Reference(const Program& program, Machine machine) : program_(program), machine_(machine) {}

  uint32_t decide(uint32_t number, const Arguments& arguments) const {
    const SyscallVerdict* verdict = first(program_.entries, number, arguments);
    if (verdict != nullptr) return answer_of(*verdict);
    return program_.otherwise ? answer_of(*program_.otherwise) : SECCOMP_RET_KILL_THREAD;
  }

  // The numbers that a rule is about.
  std::set<uint32_t> numbers() const {
    std::set<uint32_t> all;
    const auto add = [&](const std::vector<Entry>& entries) {
      for (const Entry& entry : entries)
        for (const Rule& rule : entry.rules)
          if (applies(rule)) all.insert(number_of(rule.call));
    };
    add(program_.entries);
    for (const Policy& policy : program_.policies) add(policy.entries);
    return all;
  }

 private:
  // A number as Kafel sees it before it knows the arguments.
  struct Seen {
    bool constant;
    uint64_t value;
    bool wide;
  };

  bool applies(const Rule& rule) const { return (rule.architectures & (machine_ == Machine::x86_64 ? kX86_64 : kAarch64)) != 0; }
  uint32_t number_of(const CallName& call) const { return call.number ? *call.number : find_call(call.name, machine_)->number; }

  const SyscallVerdict* first(const std::vector<Entry>& entries, uint32_t number, const Arguments& arguments) const {
    for (const Entry& entry : entries) {
      if (entry.use) {
        if (const SyscallVerdict* verdict = first(program_.policies[*entry.use].entries, number, arguments)) return verdict;
        continue;
      }
      for (const Rule& rule : entry.rules)
        if (applies(rule) && number_of(rule.call) == number && (!rule.condition || is_true(*rule.condition, rule.call, arguments)))
          return &entry.verdict;
    }
    return nullptr;
  }

  bool is_true(const Condition& condition, const CallName& call, const Arguments& arguments) const {
    switch (condition.kind) {
      case Condition::Kind::negation: return !is_true(condition.parts[0], call, arguments);
      case Condition::Kind::all:
        for (const Condition& part : condition.parts)
          if (!is_true(part, call, arguments)) return false;
        return true;
      case Condition::Kind::any:
        for (const Condition& part : condition.parts)
          if (is_true(part, call, arguments)) return true;
        return false;
      case Condition::Kind::compare: break;
    }
    const Seen left = see(condition.sides[0], call, arguments);
    const Seen right = see(condition.sides[1], call, arguments);
    const bool all_bits = left.wide || right.wide || (left.constant && right.constant);
    const uint64_t width = all_bits ? ~uint64_t{0} : 0xffffffff;
    const uint64_t a = left.value & width;
    const uint64_t b = right.value & width;
    switch (condition.op) {
      case Comparison::equal: return a == b;
      case Comparison::not_equal: return a != b;
      case Comparison::less: return a < b;
      case Comparison::less_equal: return a <= b;
      case Comparison::greater: return a > b;
      case Comparison::greater_equal: return a >= b;
    }
    return false;
  }

  Seen see(const Value& value, const CallName& call, const Arguments& arguments) const {
    switch (value.kind) {
      case Value::Kind::number: return {true, value.number, value.number >> 32 != 0};
      case Value::Kind::argument: {
        if (call.arguments) {
          for (size_t i = 0; i < call.arguments->size(); ++i)
            if ((*call.arguments)[i] == value.argument) return {false, arguments[i], true};
        } else {
          const KnownCall known = find_call(call.name, machine_).value();
          for (size_t i = 0; i < known.arguments.size(); ++i)
            if (known.arguments[i].name == value.argument || known.arguments[i].other_name == value.argument)
              return {false, arguments[i], known.arguments[i].bytes == 8};
        }
        FAIL("no argument " << value.argument);
        return {};
      }
      case Value::Kind::bit_and:
      case Value::Kind::bit_or: break;
    }
    const bool conjoins = value.kind == Value::Kind::bit_and;
    Seen result = see(value.parts[0], call, arguments);
    for (size_t i = 1; i < value.parts.size(); ++i) result = together(conjoins, result, see(value.parts[i], call, arguments));
    return result;
  }

  static Seen together(bool conjoins, const Seen& a, const Seen& b) {
    const uint64_t both = conjoins ? a.value & b.value : a.value | b.value;
    if (a.constant && b.constant) return {true, both, both >> 32 != 0};
    const uint64_t all = ~uint64_t{0};
    const Seen& constant = a.constant ? a : b;
    const Seen& other = a.constant ? b : a;
    if (constant.constant) {
      if (constant.value == (conjoins ? 0 : all)) return constant;
      if (constant.value == (conjoins ? all : 0)) return other;
    }
    return {false, both, a.wide || b.wide};
  }

  const Program& program_;
  Machine machine_;
};

// ---- helpers --------------------------------------------------------------------------------------------------------

SyscallRules rules_of(const std::string& text, Machine machine = Machine::x86_64) {
  Result<SyscallRules> rules = kafel::compile(text, {.name = "p", .machine = machine});
  REQUIRE_MESSAGE(rules.ok(), rules.error().text() << "\n" << text);
  return rules.take();
}

seccomp::BpfProgram filter_of(const SyscallRules& rules, Machine machine = Machine::x86_64) {
  Result<seccomp::BpfProgram> program = seccomp::compile(rules, {.arch = arch_of(machine)});
  REQUIRE_MESSAGE(program.ok(), program.error().text());
  return program.take();
}

uint32_t ask(const seccomp::BpfProgram& program, uint32_t number, const Arguments& arguments, Machine machine = Machine::x86_64) {
  seccomp_data data{};
  data.nr = static_cast<int>(number);
  data.arch = machine == Machine::x86_64 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64;
  std::copy(arguments.begin(), arguments.end(), data.args);
  return seccomp::evaluate(program, data).value();
}

constexpr const char* kStart = " ALLOW { execve, exit_group } ";

// The answer to one call under a policy, which is given the rules that a start needs.
uint32_t decide(const std::string& text, const std::string& call, const Arguments& arguments = {}, Machine machine = Machine::x86_64) {
  const seccomp::BpfProgram program = filter_of(rules_of(text + kStart, machine), machine);
  return ask(program, find_call(call, machine).value().number, arguments, machine);
}
bool allows(const std::string& condition, const Arguments& arguments, const std::string& call = "mmap") {
  return decide("ALLOW { " + call + " { " + condition + " } } DEFAULT ERRNO(1)", call, arguments) == SECCOMP_RET_ALLOW;
}

std::string error_of(const std::string& text, Machine machine = Machine::x86_64) {
  Result<SyscallRules> rules = kafel::compile(text, {.name = "p", .machine = machine});
  REQUIRE_MESSAGE(!rules.ok(), text);
  CHECK(rules.error().kind() == ErrorKind::policy);
  return rules.error().text();
}

// Whether a number that no rule names is refused before the policy is asked.
bool is_guarded(uint32_t number, Machine machine) { return machine == Machine::x86_64 && number >= kX32Bit && number != kMinusOne; }

}  // namespace

TEST_CASE("Kafel: filters of random policies decide as their text says, for every call") {
  for (unsigned seed = 0; seed < 80; ++seed) {
    kafel_random::Policies policies(seed);
    const Machine machine = seed % 3 == 0 ? Machine::aarch64 : Machine::x86_64;
    const std::string text = policies.text();
    CAPTURE(seed);
    CAPTURE(text);
    std::variant<Program, Mistake> program = parse(text);
    REQUIRE(std::holds_alternative<Program>(program));
    const Reference reference(std::get<Program>(program), machine);
    const SyscallRules rules = rules_of(text, machine);
    const seccomp::BpfProgram filter = filter_of(rules, machine);

    std::set<uint32_t> named;
    for (const SyscallRule& rule : rules.rules) named.insert(rule.number.value());
    // Also those whose conditions can never hold, which have no rule.
    std::set<uint32_t> numbers = reference.numbers();
    for (uint32_t number = 0; number < 500; ++number) numbers.insert(number);
    numbers.insert({599, 601, 1023, 1024, kX32Bit - 1, kX32Bit, kX32Bit + 9, kMinusOne - 1, kMinusOne});
    for (const uint32_t number : numbers) {
      CAPTURE(number);
      const bool has_rules = named.count(number) > 0;
      for (unsigned sample = has_rules ? 60 : 1; sample > 0; --sample) {
        const Arguments arguments = policies.arguments();
        const uint32_t wanted = !has_rules && is_guarded(number, machine) ? SECCOMP_RET_KILL_PROCESS : reference.decide(number, arguments);
        const uint32_t answer = ask(filter, number, arguments, machine);
        REQUIRE_MESSAGE(answer == wanted, arguments[0] << " " << arguments[1] << " " << arguments[2] << " " << arguments[3] << " " << arguments[4]);
        // And what messages say about a call is what the filter does.
        const std::string_view name = seccomp::syscall_name(number, arch_of(machine));
        if (!has_rules || name.empty()) continue;
        const SyscallRule* rule = deciding_rule(rules.rules, name, arguments);
        REQUIRE(answer_of(rule == nullptr ? rules.otherwise : rule->verdict) == wanted);
      }
    }
  }
}

TEST_CASE("Kafel: actions and their other names") {
  CHECK(decide("ALLOW { read }", "read") == SECCOMP_RET_ALLOW);
  CHECK(decide("LOG { read }", "read") == SECCOMP_RET_LOG);
  CHECK(decide("KILL { read } DEFAULT ALLOW", "read") == SECCOMP_RET_KILL_THREAD);
  CHECK(decide("KILL_THREAD { read } DEFAULT ALLOW", "read") == SECCOMP_RET_KILL_THREAD);
  CHECK(decide("DENY { read } DEFAULT ALLOW", "read") == SECCOMP_RET_KILL_THREAD);
  CHECK(decide("KILL_PROCESS { read } DEFAULT ALLOW", "read") == SECCOMP_RET_KILL_PROCESS);
  CHECK(decide("ERRNO(13) { read }", "read") == (SECCOMP_RET_ERRNO | 13));
  CHECK(decide("ERRNO(0) { read }", "read") == SECCOMP_RET_ERRNO);
  CHECK(decide("ERRNO(0xffff) { read }", "read") == (SECCOMP_RET_ERRNO | 4095));
  CHECK(decide("TRAP(65535) { read }", "read") == (SECCOMP_RET_TRAP | 65535));
  CHECK(decide("TRACE(7) { read }", "read") == (SECCOMP_RET_TRACE | 7));
  CHECK(decide("USER_NOTIF { read }", "read") == (SECCOMP_RET_ERRNO | ENOSYS));
}

TEST_CASE("Kafel: what no rule decides is DEFAULT, and without one the thread is killed") {
  CHECK(decide("ALLOW { read }", "write") == SECCOMP_RET_KILL_THREAD);
  CHECK(decide("DEFAULT TRAP(3) ALLOW { read }", "write") == (SECCOMP_RET_TRAP | 3));
  const seccomp::BpfProgram program = filter_of(rules_of("DEFAULT ERRNO(5)" + std::string(kStart)));
  CHECK(ask(program, 900, {}) == (SECCOMP_RET_ERRNO | 5));
  CHECK(ask(program, 5000, {}) == (SECCOMP_RET_ERRNO | 5));
  CHECK(ask(program, kMinusOne, {}) == (SECCOMP_RET_ERRNO | 5));
}

TEST_CASE("Kafel: x32 and other architectures stay closed, unless a rule names that very number") {
  const seccomp::BpfProgram program = filter_of(rules_of("DEFAULT ALLOW ERRNO(9) { SYSCALL[0x40000001] }"));
  CHECK(ask(program, kX32Bit, {}) == SECCOMP_RET_KILL_PROCESS);
  CHECK(ask(program, kX32Bit + 1, {}) == (SECCOMP_RET_ERRNO | 9));
  CHECK(ask(program, kX32Bit + 2, {}) == SECCOMP_RET_KILL_PROCESS);
  CHECK(ask(program, 0, {}, Machine::aarch64) == SECCOMP_RET_KILL_PROCESS);
}

TEST_CASE("Kafel: the first rule that holds decides, whatever policy it stands in") {
  CHECK(decide("ALLOW { read { fd == 1 } } ERRNO(2) { read } ALLOW { read }", "read", {1}) == SECCOMP_RET_ALLOW);
  CHECK(decide("ALLOW { read { fd == 1 } } ERRNO(2) { read } ALLOW { read }", "read", {2}) == (SECCOMP_RET_ERRNO | 2));
  CHECK(decide("POLICY a { ERRNO(3) { read } } POLICY b { USE a, ALLOW { read } } USE b", "read") == (SECCOMP_RET_ERRNO | 3));
  CHECK(decide("POLICY a { ERRNO(3) { read } } ALLOW { read } USE a", "read") == SECCOMP_RET_ALLOW);
  CHECK(decide("POLICY unused { ERRNO(3) { read } } ALLOW { read }", "read") == SECCOMP_RET_ALLOW);
  CHECK(decide("ERRNO(4) { SYSCALL[0] } ALLOW { read }", "read") == (SECCOMP_RET_ERRNO | 4));
}

TEST_CASE("Kafel: operators bind as the language says") {
  const Arguments four = {0, 0, 4};
  CHECK(allows("prot & 4 == 4", four));                                  // (prot & 4) == 4
  CHECK(allows("prot & 3 == 0", four));
  CHECK(allows("!prot == 3", four));                                     // !(prot == 3)
  CHECK(allows("prot == 4 || prot == 5 && flags == 1", four));           // && before ||
  CHECK_FALSE(allows("(prot == 4 || prot == 5) && flags == 1", four));
  CHECK(allows("flags == 1 && prot == 9, prot == 4", four));             // a comma is the weakest ||
  CHECK(allows("prot | 1 & 8 == 4", four));                              // & before |
  CHECK(allows("!!(prot == 4)", four));
  CHECK(allows("((prot)) == ((4))", four));
  CHECK(allows("4 == prot && 3 < prot && 5 > prot && 4 <= prot", four));
}

TEST_CASE("Kafel: a comparison is as wide as its arguments and numbers are") {
  const auto allows = [](const std::string& condition, const Arguments& arguments) { return ::allows(condition, arguments, "openat"); };
  CHECK(allows("dfd == 3", {0x100000003}));                      // an int: the high half does not count
  CHECK_FALSE(allows("filename == 3", {0, 0x100000003}));
  CHECK_FALSE(allows("dfd == -1", {0xffffffff}));                // 64 bits were asked for
  CHECK(allows("dfd == -1", {~uint64_t{0}}));
  CHECK(allows("dfd == 0xffffffff", {~uint64_t{0}}));
  CHECK(allows("dfd & -1 == 3", {0x100000003}));                 // what changes nothing does not widen
  CHECK(allows("filename > -2", {0, ~uint64_t{0}}));             // unsigned
  CHECK_FALSE(allows("dfd < filename", {0x100000000, 5}));       // one that is wide makes both
  CHECK_FALSE(allows("dfd == flags", {1, 0, 2}));
  CHECK(allows("dfd == flags", {2, 0, 0x500000002}));
  CHECK(allows("mode == 0644", {0, 0, 0, 0xabcd000001a4}));      // umode_t: as 32
  CHECK(decide("ALLOW { read(a) { a == 3 } }", "read", {0x100000003}) == SECCOMP_RET_KILL_THREAD);  // own names are 64
}

TEST_CASE("Kafel: constants, numbers in four bases, comments") {
  CHECK(decide("#define A 5\n# define B 0x10\n#define A 5\nALLOW { read { fd == A || fd == B } }", "read", {16}) == SECCOMP_RET_ALLOW);
  CHECK(decide("ALLOW { read { fd == 0b101 } }", "read", {5}) == SECCOMP_RET_ALLOW);
  CHECK(decide("ALLOW { read { fd == 010 } }", "read", {8}) == SECCOMP_RET_ALLOW);
  CHECK(decide("ALLOW { read { count == 0xFFFFFFFFFFFFFFFF } }", "read", {0, 0, ~uint64_t{0}}) == SECCOMP_RET_ALLOW);
  CHECK(decide("// x }{\n/***/ ALLOW /* \n ** */ { read /** y **/ }\r\n", "read") == SECCOMP_RET_ALLOW);
  // A constant stands for a call as well, and from its line on.
  CHECK(decide("ALLOW { read } #define read 1\nERRNO(6) { read }", "read") == SECCOMP_RET_ALLOW);
  CHECK(decide("ALLOW { read } #define read 1\nERRNO(6) { read }", "write") == (SECCOMP_RET_ERRNO | 6));
}

TEST_CASE("Kafel: constant conditions are worked out") {
  CHECK(rules_of("ALLOW { read { 1 == 2 } }").rules.empty());
  CHECK(rules_of("ALLOW { read { fd == fd } }").rules == rules_of("ALLOW { read }").rules);
  CHECK(rules_of("ALLOW { read { fd & 3 == 4 } }").rules.empty());
  CHECK(rules_of("ALLOW { read { fd & 0 == 0 && 1 < 2 } }").rules == rules_of("ALLOW { read }").rules);
  CHECK(rules_of("ALLOW { read { !(1 == 1) || fd == 3 } }").rules == rules_of("ALLOW { read { fd == 3 } }").rules);
  CHECK(rules_of("ALLOW { read { fd == 3 || 1 == 1 } }").rules == rules_of("ALLOW { read }").rules);
}

TEST_CASE("Kafel: calls by number, by other names, for other architectures") {
  CHECK(decide("ALLOW { newfstat }", "fstat") == SECCOMP_RET_ALLOW);
  CHECK(decide("ALLOW { fstat }", "fstat") == SECCOMP_RET_ALLOW);
  CHECK(decide("ALLOW { umount, newuname, sendfile64 }", "umount2") == SECCOMP_RET_ALLOW);
  CHECK(decide("ALLOW { newfstat }", "fstat", {}, Machine::aarch64) == SECCOMP_RET_ALLOW);
  CHECK(decide("ALLOW { getrandom { flags == 1 && count == 8 && len == 8 } }", "getrandom", {0, 8, 1}) == SECCOMP_RET_ALLOW);
  CHECK(decide("ALLOW { clone { tls == 7 } }", "clone", {0, 0, 0, 0, 7}) == SECCOMP_RET_ALLOW);
  CHECK(decide("ALLOW { clone { tls == 7 } }", "clone", {0, 0, 0, 7}, Machine::aarch64) == SECCOMP_RET_ALLOW);
  CHECK(decide("ALLOW { no_such_call ON arm, read ON { ARM64, X86_64 } }", "read") == SECCOMP_RET_ALLOW);
  CHECK(decide("ALLOW { open ON amd64 }", "read", {}, Machine::aarch64) == SECCOMP_RET_KILL_THREAD);
  const SyscallRules rules = rules_of("ALLOW { SYSCALL[5000] } LOG { SYSCALL[-1] }" + std::string(kStart));
  CHECK(rules.rules[0].name == "#5000");
  CHECK(ask(filter_of(rules), 5000, {}) == SECCOMP_RET_ALLOW);
  CHECK(ask(filter_of(rules), 5001, {}) == SECCOMP_RET_KILL_THREAD);
  CHECK(ask(filter_of(rules), kMinusOne, {}) == SECCOMP_RET_LOG);
}

TEST_CASE("Kafel: numbers of calls are those of the filters") {
  for (const Machine machine : {Machine::x86_64, Machine::aarch64}) {
    const seccomp::Arch arch = arch_of(machine);
    for (unsigned number = 0; number < seccomp::kMaxSyscallNumber; ++number) {
      const std::string_view name = seccomp::syscall_name(number, arch);
      CAPTURE(number);
      const std::optional<KnownCall> known = find_call(number, machine);
      CHECK(name == (known ? known->name : ""));
    }
    for (const std::string& name : call_names(machine)) CHECK(find_call(name, machine)->arguments.size() <= 6);
  }
}

TEST_CASE("Kafel: conditions that tests can say are tests") {
  const auto tests = [](const std::string& condition) {
    const SyscallRules rules = rules_of("ALLOW { openat { " + condition + " } }");
    REQUIRE(rules.rules.size() == 1);
    CHECK(rules.rules[0].conditions.empty());
    CHECK(rules.rules[0].origin == "p:1:9");
    return rules.rules[0].tests;
  };
  using Op = ArgumentTest::Op;
  CHECK(tests("flags == 1") == std::vector<ArgumentTest>{{.index = 2, .op = Op::equal, .value = 1, .low32 = true}});
  CHECK(tests("flags & 6 & 7 != 0 && 5 < filename") ==
        std::vector<ArgumentTest>{{.index = 2, .op = Op::any_bit, .mask = 6, .value = 0, .low32 = true}, {.index = 1, .op = Op::greater, .value = 5}});
  CHECK(tests("!(flags & 4 == 4)") == std::vector<ArgumentTest>{{.index = 2, .op = Op::masked_not_equal, .mask = 4, .value = 4, .low32 = true}});
  // Alternatives are rules of their own, but for more than a reader would want to see.
  CHECK(rules_of("ALLOW { read { fd == 1, fd == 2 } }").rules.size() == 2);
  std::string many = "fd == 0";
  for (int i = 1; i < 200; ++i) many += ", fd == " + std::to_string(i);
  CHECK(rules_of("ALLOW { read { " + many + " } }").rules.size() == 1);
  CHECK(decide("ALLOW { read { " + many + " } }", "read", {199}) == SECCOMP_RET_ALLOW);
  CHECK(decide("ALLOW { read { " + many + " } }", "read", {200}) == SECCOMP_RET_KILL_THREAD);
}

TEST_CASE("Kafel: a filter grows with its text, not with what the text could be multiplied out to") {
  std::string condition;
  for (int i = 0; i < 20; ++i)
    condition += std::string(i > 0 ? " && " : "") + "(addr == " + std::to_string(2 * i) + " || len == " + std::to_string(2 * i + 1) + ")";
  const seccomp::BpfProgram program = filter_of(rules_of("ALLOW { mmap { " + condition + " } }" + kStart));
  CHECK(program.size() < 200);
  // And a value may be as long as it likes: one word of scratch memory does.
  std::string bits = "addr";
  for (int i = 0; i < 100; ++i) bits += i % 2 == 0 ? " | (len & prot)" : " & (addr | flags)";
  CHECK(filter_of(rules_of("ALLOW { mmap { " + bits + " == " + bits + " | fd } }" + kStart)).size() < 3000);
}

TEST_CASE("Kafel: mistakes are named with line and column") {
  struct Case {
    const char* text;
    const char* error;
  };
  const Case cases[] = {
      {"", "p:1:1: the text is empty"},
      {" // nothing\n", "p:2:1: the text is empty"},
      {"ALLOW { rea }", "p:1:9: there is no system call \"rea\""},
      {"ALLOW {\n\tread { fb == 1 } }", "p:2:9: \"read\" has no argument \"fb\""},
      {"ALLOW { read, }", "p:1:15: expected a system call, found \"}\""},
      {"ALLOW { read } }", "p:1:16: expected an action such as ALLOW, or USE, found \"}\""},
      {"ALLOW { read", "p:1:13: expected \",\" or \"}\", found the end of the text"},
      {"ALLOW read", "p:1:7: expected \"{\", found \"read\""},
      {"allow { read }", "p:1:1: expected an action such as ALLOW, or USE, found \"allow\""},
      {"ALLOW { read { fd } }", "p:1:19: expected a comparison, one of == != < <= > >=, found \"}\""},
      {"ALLOW { read { fd & 3 } }", "p:1:23: expected a comparison, one of == != < <= > >=, found \"}\""},
      {"ALLOW { read { (fd) && 1 == 1 } }", "p:1:21: expected a comparison, one of == != < <= > >=, found \"&&\""},
      {"ALLOW { read { 1 < fd < 3 } }", "p:1:23: expected \"}\", found \"<\""},
      {"ALLOW { read { (fd == 1) & 3 } }", "p:1:26: expected \"}\", found \"&\""},
      {"ALLOW { read { fd = 3 } }", "p:1:19: unexpected \"=\""},
      {"ALLOW { read }; DEFAULT KILL", "p:1:15: unexpected \";\""},
      {"ALLOW { SYSCALL[x] }", "p:1:17: expected the number of a system call, found \"x\""},
      {"ALLOW { SYSCALL[4294967296] }", "p:1:17: \"4294967296\" is no number of a system call: it has more than 32 bits"},
      {"ALLOW { SYSCALL[1] { fd == 1 } }", "p:1:22: a system call by its number has no argument \"fd\""},
      {"ALLOW { read(a, a) }", "p:1:17: a second argument \"a\""},
      {"ALLOW { read(a, b, c, d, e, f, g) }", "p:1:32: system calls have 6 arguments at most"},
      {"ALLOW { read() { fd == 1 } }", "p:1:18: \"read\" has no argument \"fd\""},
      {"ALLOW { read ON pdp11 }", "p:1:17: there is no architecture \"pdp11\""},
      {"ALLOW { read ON {arm, ARM} }", "p:1:23: the architecture \"ARM\" a second time"},
      {"ERRNO(65536) { read }", "p:1:7: \"65536\" is out of range, 0 to 65535"},
      {"ERRNO(-1) { read }", "p:1:7: \"-1\" is out of range, 0 to 65535"},
      {"ERRNO { read }", "p:1:7: expected \"(\", found \"{\""},
      {"ALLOW(1) { read }", "p:1:6: expected \"{\", found \"(\""},
      {"USE a", "p:1:5: there is no policy \"a\" before this line"},
      {"POLICY a { USE a }", "p:1:16: there is no policy \"a\" before this line"},
      {"POLICY a {}\nPOLICY a {}", "p:2:1: a second policy \"a\""},
      {"POLICY a { ALLOW { read } LOG { write } }", "p:1:27: expected \"}\", found \"LOG\""},
      {"POLICY a { DEFAULT KILL }", "p:1:12: expected an action such as ALLOW, or USE, found \"DEFAULT\""},
      {"POLICY a { ALLOW { nosuch } } ALLOW { read }", "p:1:20: there is no system call \"nosuch\""},
      {"POLICY ALLOW {}", "p:1:8: expected the name of the policy, found \"ALLOW\""},
      {"DEFAULT ALLOW DEFAULT ALLOW", "p:1:15: a second DEFAULT"},
      {"#define A 1\n#define A 2", "p:2:1: the constant \"A\" has another value already"},
      {"#define A (1)", "p:1:11: expected a number, found \"(\""},
      {"#define A 0x1ffffffff\nALLOW { A }", "p:2:9: the constant \"A\" is no number of a system call: it has more than 32 bits"},
      {"#undef A", "p:1:2: expected \"define\" after \"#\", found \"undef\""},
      {"#include \"x.policy\"\n", "p:1:1: #include is not supported: a policy is one text"},
      {"/* a", "p:1:1: a comment that never ends"},
      {"ALLOW { read { fd == 0x } }", "p:1:22: \"0x \" is no number"},
      {"ALLOW { read { fd == 09 } }", "p:1:22: \"9\" is no digit of a number that begins with 0"},
      {"ALLOW { read { fd == 18446744073709551616 } }", "p:1:22: the number \"18446744073709551616\" has more than 64 bits"},
      {"ALLOW { read { fd == 1k } }", "p:1:22: \"1k\" is no number"},
      {"ALLOW { read { fd == - 1 } }", "p:1:22: unexpected \"-\""},
      {"\xef\xbb\xbf" "ALLOW {}", "p:1:1: unexpected \"\\xef\""},
  };
  for (const Case& each : cases) {
    CAPTURE(each.text);
    CHECK(error_of(each.text) == each.error);
  }
  const Error missing = kafel::compile("ALLOW { open }", {.machine = Machine::aarch64}).take_error();
  CHECK(missing.text() == "kafel:1:9: there is no system call \"open\" on aarch64");
  CHECK(missing.hint() == "write open ON x86_64");
  Options elsewhere;
  elsewhere.place = [](uint32_t line, uint32_t column) { return "x.cfg:" + std::to_string(line + 10) + ":" + std::to_string(column); };
  CHECK(kafel::compile("\nKILL { }x", elsewhere).take_error().origin() == "x.cfg:12:9");
}

TEST_CASE("Kafel: a text that is made to exhaust its reader is refused") {
  const auto nested = [](const std::string& open, size_t depth, const std::string& middle, const std::string& close) {
    std::string text = "ALLOW { read { ";
    for (size_t i = 0; i < depth; ++i) text += open;
    text += middle;
    for (size_t i = 0; i < depth; ++i) text += close;
    return text + " } }" + kStart;
  };
  CHECK(kafel::compile(nested("(", kMaxDepth, "fd == 1", ")")).ok());
  CHECK(error_of(nested("(", kMaxDepth + 1, "fd == 1", ")")).find("nested more than 200 deep") != std::string::npos);
  CHECK(error_of(nested("(", 100000, "fd == 1", ")")).find("nested more than 200 deep") != std::string::npos);
  CHECK(error_of(nested("!", 100000, "fd == 1", "")).find("nested more than 200 deep") != std::string::npos);
  CHECK(error_of(std::string(kMaxBytes + 1, ' ')) == "p:1:1: the text has more than 1M");

  std::string rules = "ALLOW { read";
  for (size_t i = 0; i < kMaxRules; ++i) rules += ",read";
  CHECK(error_of(rules + "}").find("more than 32768 rules") != std::string::npos);

  // Long is not deep.
  std::string chain = "fd == 1";
  for (int i = 0; i < 50000; ++i) chain += " && fd != 2";
  const Result<SyscallRules> long_rules = kafel::compile("ALLOW { read { " + chain + " } }" + kStart);
  REQUIRE(long_rules.ok());
  const Result<seccomp::BpfProgram> too_long = seccomp::compile(long_rules.value(), {});
  REQUIRE_FALSE(too_long.ok());
  CHECK(too_long.error().kind() == ErrorKind::policy);

  std::string policies = "POLICY p0 { ALLOW { read } }";
  for (int i = 1; i < 4096; ++i) policies += " POLICY p" + std::to_string(i) + " { USE p" + std::to_string(i - 1) + ", USE p" + std::to_string(i - 1) + " }";
  CHECK(decide(policies + " USE p4095", "read") == SECCOMP_RET_ALLOW);
  CHECK(error_of(policies + " POLICY more { }").find("more than 4096 policies") != std::string::npos);
}

TEST_CASE("Kafel: the examples of docs/kafel.md compile") {
  std::ifstream file(std::string(SBX_SOURCE_DIR) + "/docs/kafel.md");
  std::string line;
  std::string block;
  bool inside = false;
  int blocks = 0;
  while (std::getline(file, line)) {
    if (line == "```kafel") {
      inside = true;
      block.clear();
    } else if (inside && line == "```") {
      inside = false;
      ++blocks;
      (void)rules_of(block);
    } else if (inside) {
      block += line + "\n";
    }
  }
  CHECK(blocks == 5);
}

// ---- written ----------------------------------------------------------------------------------------------------------

namespace {

// Both filters decide the same for every number, with arguments near those of the rules.
void check_same(const SyscallRules& rules, const SyscallRules& written, Machine machine, kafel_random::Policies& random) {
  const seccomp::BpfProgram before = filter_of(rules, machine);
  const seccomp::BpfProgram after = filter_of(written, machine);
  std::vector<uint64_t> numbers = {0, 1, 0xffffffff, 0x100000000};
  const auto note = [&](const ArgumentTest& test) { numbers.insert(numbers.end(), {test.value, test.mask, test.value | test.mask}); };
  std::set<uint32_t> named = {600, kX32Bit, kMinusOne};
  for (unsigned number = 0; number < 480; ++number) named.insert(number);
  std::set<uint32_t> tested;
  for (const SyscallRule& rule : rules.rules) {
    for (const ArgumentTest& test : rule.tests) note(test);
    if (rule.number) named.insert(*rule.number);
    const std::optional<KnownCall> known = find_call(rule.name, machine);
    if (!rule.tests.empty() || !rule.conditions.empty()) tested.insert(rule.number ? *rule.number : known ? known->number : 0);
  }
  for (const uint32_t number : named) {
    CAPTURE(number);
    for (int sample = tested.contains(number) ? 60 : 2; sample > 0; --sample) {
      Arguments arguments = random.arguments();
      for (uint64_t& each : arguments) {
        if (random.pick(3) == 0) continue;
        each = numbers[random.pick(static_cast<unsigned>(numbers.size()))];
        if (random.pick(4) == 0) each |= uint64_t{random.pick(5)} << 32;
        if (random.pick(4) == 0) each += random.pick(3) - 1;
      }
      REQUIRE(ask(before, number, arguments, machine) == ask(after, number, arguments, machine));
    }
  }
}

}  // namespace

TEST_CASE("Kafel written from the shipped policies decides as they do") {
  kafel_random::Policies random(1);
  (void)random.text();
  for (const Machine machine : {Machine::x86_64, Machine::aarch64}) {
    for (const std::string& policy : seccomp::builtin_policies()) {
      CAPTURE(policy);
      SyscallRules rules = builtin_syscall_rules(policy).take();
      const WrittenPolicy written = write(rules, machine);
      CAPTURE(written.text);
      // A start of its own is what Kafel has no word for.
      const bool starts = std::any_of(rules.rules.begin(), rules.rules.end(), [](const SyscallRule& rule) {
        return !rule.tests.empty() && rule.tests[0].op == ArgumentTest::Op::start;
      });
      CHECK(written.unsaid.empty() != starts);
      for (SyscallRule& rule : rules.rules)
        if (!rule.tests.empty() && rule.tests[0].op == ArgumentTest::Op::start) rule.tests.clear();
      check_same(rules, rules_of(written.text, machine), machine, random);
    }
  }
}

TEST_CASE("Kafel written from random policies decides as they do, and is stable") {
  for (unsigned seed = 1000; seed < 1060; ++seed) {
    kafel_random::Policies random(seed);
    const Machine machine = seed % 3 == 0 ? Machine::aarch64 : Machine::x86_64;
    const std::string text = random.text();
    CAPTURE(text);
    const SyscallRules rules = rules_of(text, machine);
    const WrittenPolicy written = write(rules, machine);
    CAPTURE(written.text);
    CHECK(written.unsaid.empty());
    const SyscallRules again = rules_of(written.text, machine);
    check_same(rules, again, machine, random);
    CHECK(write(again, machine).text == written.text);
  }
}

TEST_CASE("Kafel is written as a person would") {
  const SyscallRules rules = rules_of("ALLOW { read, write, newfstat { fd == 1 }, openat { flags & 3 == 0 && mode == 0 }, SYSCALL[5000](x) { x > 1 } }"
                                      "ERRNO(13) { mmap { (prot & 4 == 4 || fd == flags) && addr == 0 } } DEFAULT KILL_PROCESS");
  CHECK(write(rules, Machine::x86_64).text ==
        "ALLOW {\n"
        "  read, write, newfstat { fd == 1 }, openat { flags & 3 == 0 && mode == 0 }, SYSCALL[5000](a) { a > 1 }\n"
        "}\n"
        "ERRNO(13) {\n"
        "  mmap { addr == 0 && (prot & 4 == 4 || fd == flags) }\n"
        "}\n"
        "DEFAULT KILL_PROCESS\n");
  // A test of the low half of a wide argument, and of all of a narrow one.
  SyscallRules widths;
  widths.rules.push_back({"ioctl", {{.index = 2, .value = 5, .low32 = true}}, {SyscallAction::allow, 0}, "", ""});
  widths.rules.push_back({"ioctl", {{.index = 0, .value = 5}}, {SyscallAction::allow, 0}, "", ""});
  widths.otherwise = {SyscallAction::kill_thread, 0};
  CHECK(write(widths, Machine::x86_64).text == "ALLOW {\n  ioctl { arg & 0xffffffff == 5 }, ioctl(a) { a == 5 }\n}\nDEFAULT KILL\n");
}
