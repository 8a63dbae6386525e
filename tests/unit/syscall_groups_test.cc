#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <string>
#include <vector>

#include "policy/syscall_groups.h"
#include "seccomp/compile.h"
#include "seccomp/syscall_numbers.h"

using namespace sbx;
using Op = ArgumentTest::Op;

namespace {

const char* const kGroups = R"([io]
doc = "In and out."
calls = ["read", "write"]
[[io.rule]]
calls = ["ioctl"]
when = [{ arg = 1, bits = 32, one_of = [1, 2] }]
answer = "deny"
[[io.rule]]
calls = ["ioctl"]
answer = "allow"
[start]
doc = "Starting."
calls = ["execve", "exit_group"]
[debug]
doc = "Looking into others."
calls = ["ptrace"]
)";

SyscallRules policy(const std::string& text) {
  Result<SyscallRules> rules = parse_syscall_policy(text, "p.toml", kGroups);
  REQUIRE_MESSAGE(rules.ok(), rules.error().text());
  return rules.take();
}
Error failed(const std::string& text) {
  Result<SyscallRules> rules = parse_syscall_policy(text, "p.toml", kGroups);
  REQUIRE_FALSE(rules.ok());
  CHECK(rules.error().kind() == ErrorKind::policy);
  return rules.take_error();
}
std::string failure(const std::string& text) { return failed(text).text(); }
std::string rule_failure(const std::string& rule) { return failure("otherwise = \"deny\"\n[[rule]]\n" + rule); }
std::string group_failure(const std::string& text) {
  Result<std::vector<SyscallGroup>> groups = parse_syscall_groups(text, "g.toml");
  REQUIRE_FALSE(groups.ok());
  return groups.error().text();
}
bool says(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE(text);
  return found;
}

}  // namespace

TEST_CASE("a policy's own rules come first, then what it denies, then errnos, then what it allows") {
  const SyscallRules rules = policy(R"(doc = "Test."
otherwise = "deny"
unknown = "ENOSYS"
allow = ["@io", "@start"]
deny = ["@debug", "write"]
[errno]
ENOSYS = ["io_uring_setup"]
[[rule]]
calls = ["read"]
when = [{ arg = 0, equals = 5 }]
answer = "kill"
)");
  const SyscallVerdict allow{SyscallAction::allow, 0};
  const SyscallVerdict deny{SyscallAction::notify, 0};
  const ArgumentTest fifth{.index = 0, .op = Op::equal, .value = 5};
  const auto low = [](uint64_t value) { return ArgumentTest{.index = 1, .op = Op::equal, .value = value, .low32 = true}; };
  const std::vector<SyscallRule> expected = {
      {"read", {fifth}, {SyscallAction::kill, 0}, "io", "p.toml:8:1"},
      {"ptrace", {}, deny, "debug", "p.toml:5:9"},
      {"write", {}, deny, "io", "p.toml:5:19"},
      {"io_uring_setup", {}, {SyscallAction::errno_value, ENOSYS}, "", "p.toml:7:11"},
      {"read", {}, allow, "io", "groups.toml:3:10"},
      {"write", {}, allow, "io", "groups.toml:3:18"},
      {"ioctl", {low(1)}, deny, "io", "groups.toml:4:1"},
      {"ioctl", {low(2)}, deny, "io", "groups.toml:4:1"},
      {"ioctl", {}, allow, "io", "groups.toml:8:1"},
      {"execve", {}, allow, "start", "groups.toml:13:10"},
      {"exit_group", {}, allow, "start", "groups.toml:13:20"},
  };
  REQUIRE(rules.rules.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    INFO(i, " ", rules.rules[i].name, " ", rules.rules[i].origin);
    CHECK(rules.rules[i] == expected[i]);
  }
  CHECK(rules.otherwise == deny);
  CHECK(rules.unknown == SyscallVerdict{SyscallAction::errno_value, ENOSYS});
}

TEST_CASE("a call in allow takes the tests that it has in its group") {
  const SyscallRules rules = policy("otherwise = \"deny\"\nallow = [\"ioctl\", \"mseal\"]\n");
  REQUIRE(rules.rules.size() == 4);
  CHECK(rules.rules[0].tests.size() == 1);
  CHECK(rules.rules[2].tests.empty());
  CHECK(rules.rules[3].name == "mseal");
  CHECK_FALSE(rules.unknown.has_value());
}

TEST_CASE("every comparison can be written") {
  const SyscallRules rules = policy(R"(otherwise = "kill"
[[rule]]
calls = ["read"]
answer = "log"
when = [
  { arg = 0, equals = 1 }, { arg = 1, not_equals = -1 }, { arg = 2, below = 2 }, { arg = 3, at_most = 3 },
  { arg = 4, above = 4 }, { arg = 5, at_least = 5 }, { arg = 0, bits = 64, any_bit = 0x10 },
  { arg = 1, mask = 0xf0, equals = 0x10 }, { arg = 2, mask = "0xffffffff00000000", not_equals = "0x100000000" },
  { arg = 3, none_of = [7, 8] }, { arg = 4, bits = 32, mask = -2, none_of = [6] }, { arg = 5, bits = 32, equals = -1 },
]
)");
  REQUIRE(rules.rules.size() == 1);
  const uint64_t all = ~uint64_t{0};
  const std::vector<ArgumentTest> expected = {
      {0, Op::equal, all, 1, false},
      {1, Op::not_equal, all, all, false},
      {2, Op::less, all, 2, false},
      {3, Op::less_equal, all, 3, false},
      {4, Op::greater, all, 4, false},
      {5, Op::greater_equal, all, 5, false},
      {0, Op::any_bit, 0x10, 0, false},
      {1, Op::masked_equal, 0xf0, 0x10, false},
      {2, Op::masked_not_equal, 0xffffffff00000000, 0x100000000, false},
      {3, Op::not_equal, all, 7, false},
      {3, Op::not_equal, all, 8, false},
      {4, Op::masked_not_equal, 0xfffffffe, 6, true},
      {5, Op::equal, all, 0xffffffff, true},
  };
  CHECK(rules.rules[0].tests == expected);
  CHECK(rules.otherwise.action == SyscallAction::kill);
}

TEST_CASE("several one_of lists make a rule for each combination, in order") {
  const SyscallRules rules = policy(R"(otherwise = "deny"
[[rule]]
calls = ["read", "write"]
when = [{ arg = 0, one_of = [1, 2] }, { arg = 1, any_bit = 4 }, { arg = 2, mask = 0xf, one_of = [3, 4] }]
answer = "EAGAIN"
)");
  REQUIRE(rules.rules.size() == 8);
  CHECK(rules.rules[1].name == "read");
  CHECK(rules.rules[1].tests == std::vector<ArgumentTest>{{0, Op::equal, ~uint64_t{0}, 1, false},
                                                           {1, Op::any_bit, 4, 0, false},
                                                           {2, Op::masked_equal, 0xf, 4, false}});
  CHECK(rules.rules[7].name == "write");
  CHECK(rules.rules[7].tests[0].value == 2);
}

TEST_CASE("mistakes in a policy are errors that name the place and the way out") {
  CHECK(says(failure("allow = []"), "needs \"otherwise\""));
  CHECK(says(failure("otherwise = \"deny\"\nalow = []"), "p.toml:2:1: unknown key \"alow\""));
  CHECK(failed("otherwise = \"deny\"\nalow = []").hint() == "did you mean \"allow\"?");
  CHECK(says(failure("otherwise = \"dny\""), "p.toml:1:13: \"dny\" is no answer"));
  CHECK(failed("otherwise = \"ENOSY\"").hint() == "did you mean \"ENOSYS\"?");
  CHECK(says(failure("otherwise = 5"), "must be a string, not a integer"));
  CHECK(says(failure("otherwise = \"deny\"\nallow = [\"@oi\"]"), "p.toml:2:10: there is no group \"@oi\""));
  CHECK(failed("otherwise = \"deny\"\nallow = [\"@debg\"]").hint() == "did you mean \"@debug\"?");
  CHECK(says(failure("otherwise = \"deny\"\nallow = [\"@io\", \"read\"]"), "\"read\" is listed twice"));
  CHECK(says(failure("otherwise = \"deny\"\nallow = [\"read\", \"read\"]"), "listed twice"));
  CHECK(says(failure("otherwise = \"deny\"\nallow = \"read\""), "must be a array"));
  CHECK(says(failure("otherwise = \"deny\"\nallow = [1]"), "holds strings"));
  CHECK(says(failure("otherwise = \"deny\"\ndeny = [\"read\"]\n[errno]\nENOSYS = [\"@io\"]"), "refused at p.toml:2:9 already"));
  CHECK(says(failure("otherwise = \"deny\"\n[errno]\nallow = [\"@io\"]"), "lists by errno name"));
  CHECK(says(failure("otherwise = \"deny\"\n[errno]\nEFOO = [\"@io\"]"), "p.toml:3:1: \"EFOO\" is no answer"));
  CHECK(says(failure("otherwise = = 1"), "p.toml:1:13"));
}

TEST_CASE("mistakes in a rule are errors that name the place") {
  CHECK(says(rule_failure("answer = \"deny\""), "needs \"calls\""));
  CHECK(says(rule_failure("calls = [\"read\"]"), "needs an \"answer\""));
  CHECK(says(rule_failure("calls = [\"read\"]\nanswer = \"deny\"\nif = 1"), "p.toml:5:1: unknown key \"if\""));
  CHECK(says(rule_failure("calls = [\"read\"]\nanswer = \"deny\"\nwhen = []"), "\"when\" is empty"));
  const auto test_failure = [](const std::string& test) {
    return rule_failure("calls = [\"read\"]\nanswer = \"deny\"\nwhen = [" + test + "]");
  };
  CHECK(says(test_failure("1"), "a test is a table"));
  CHECK(says(test_failure("{ equals = 1 }"), "needs \"arg\""));
  CHECK(says(test_failure("{ arg = 6, equals = 1 }"), "0 to 5"));
  CHECK(says(test_failure("{ arg = \"0\", equals = 1 }"), "0 to 5"));
  CHECK(says(test_failure("{ arg = 0 }"), "needs a comparison"));
  CHECK(says(test_failure("{ arg = 0, equals = 1, above = 2 }"), "compares once"));
  CHECK(says(test_failure("{ arg = 0, equal = 1 }"), "unknown key \"equal\""));
  CHECK(says(test_failure("{ arg = 0, bits = 16, equals = 1 }"), "32 or 64"));
  CHECK(says(test_failure("{ arg = 0, mask = 1, above = 2 }"), "takes no mask"));
  CHECK(says(test_failure("{ arg = 0, equals = \"x\" }"), "must be an integer"));
  CHECK(says(test_failure("{ arg = 0, equals = \"1x\" }"), "must be an integer"));
  CHECK(says(test_failure("{ arg = 0, equals = \"-1\" }"), "must be an integer"));
  CHECK(says(test_failure("{ arg = 0, equals = \"0x10000000000000000\" }"), "must be an integer"));
  CHECK(says(test_failure("{ arg = 0, one_of = [] }"), "is empty"));
  CHECK(says(test_failure("{ arg = 0, one_of = 3 }"), "must be a array"));
  std::string hundred = "0";
  for (int i = 1; i < 100; ++i) hundred += "," + std::to_string(i);
  CHECK(says(test_failure("{ arg = 0, one_of = [" + hundred + "] }, { arg = 1, one_of = [" + hundred + "] }"), "more than 1000 rules"));
}

TEST_CASE("mistakes in the groups are errors") {
  CHECK(says(group_failure("[a]\ndoc = \"x\"\ncalls = [\"read\"]\n[b]\ndoc = \"x\"\ncalls = [\"read\"]\n"),
             "g.toml:6:10: \"read\" stands in group \"a\" already"));
  CHECK(says(group_failure("[a]\ndoc = \"x\"\ncalls = [\"read\"]\n[[a.rule]]\ncalls = [\"read\"]\nanswer = \"deny\"\n"), "stands in group \"a\""));
  CHECK(says(group_failure("[a]\ncalls = [\"read\"]\n"), "needs a \"doc\""));
  CHECK(says(group_failure("[a]\ndoc = \"x\"\ncall = [\"read\"]\n"), "unknown key \"call\""));
  CHECK(says(group_failure("a = 1\n"), "must be a table"));
}

TEST_CASE("answers are read back as they are written") {
  for (const char* text : {"allow", "deny", "log", "kill", "EPERM", "ENOSYS", "EAFNOSUPPORT", "EOPNOTSUPP"}) {
    const Result<SyscallVerdict> verdict = parse_syscall_answer(text);
    REQUIRE(verdict.ok());
    CHECK(format_syscall_answer(verdict.value()) == text);
  }
  CHECK(format_syscall_answer({SyscallAction::errno_value, 4000}) == "errno 4000");
}

TEST_CASE("every system call of both architectures stands in exactly one shipped group") {
  const Result<std::vector<SyscallGroup>> groups = builtin_syscall_groups();
  REQUIRE_MESSAGE(groups.ok(), groups.error().text());
  std::map<std::string, std::string> placed;
  for (const SyscallGroup& group : groups.value()) {
    for (const std::string& call : group.calls) {
      CHECK_MESSAGE(seccomp::is_syscall_name(call), call);
      CHECK_MESSAGE(placed.emplace(call, group.name).second, call);
    }
  }
  for (const std::string& name : seccomp::syscall_names()) CHECK_MESSAGE(placed.count(name) == 1, name);
  CHECK(placed["ptrace"] == "debug");
  CHECK(placed["socket"] == "network-io");
  const Result<std::vector<std::string>> debug = syscall_group("debug");
  REQUIRE(debug.ok());
  CHECK(std::count(debug.value().begin(), debug.value().end(), "ptrace") == 1);
}

TEST_CASE("unknown shipped policies and groups are errors with the nearest name") {
  const Result<SyscallRules> rules = builtin_syscall_rules("defualt");
  REQUIRE_FALSE(rules.ok());
  CHECK(rules.error().hint() == "did you mean \"default\"?");
  CHECK_FALSE(builtin_syscall_rules("groups").ok());
  CHECK_FALSE(builtin_syscall_rules("../default").ok());
  CHECK_FALSE(builtin_syscall_rules("").ok());
  const Result<std::vector<std::string>> group = syscall_group("network");
  REQUIRE_FALSE(group.ok());
  CHECK(says(group.error().text() + group.error().hint(), "network-io"));
}
