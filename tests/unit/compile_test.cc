#include <doctest/doctest.h>
#include <linux/audit.h>
#include <linux/seccomp.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "seccomp/compile.h"
#include "seccomp/evaluate.h"
#include "seccomp/syscall_numbers.h"
#include "argument_test.h"

using namespace sbx;
using namespace sbx::seccomp;
using Op = ArgumentTest::Op;

namespace {

constexpr SyscallVerdict kAllow{SyscallAction::allow, 0};
constexpr SyscallVerdict kDeny{SyscallAction::notify, 0};
SyscallVerdict error_number(uint16_t number) { return {SyscallAction::errno_value, number}; }
constexpr uint32_t kPerm = SECCOMP_RET_ERRNO | EPERM;

SyscallRule rule(std::string name, SyscallVerdict verdict, std::vector<ArgumentTest> tests = {}) {
  return {std::move(name), std::move(tests), verdict, "", "x.toml:1:1"};
}
// What no filter may deny, so that the filter under test loads.
SyscallRules startable(std::vector<SyscallRule> rules) {
  rules.push_back(rule("execve", kAllow));
  rules.push_back(rule("exit_group", kAllow));
  return SyscallRules{std::move(rules), error_number(EPERM), std::nullopt};
}

BpfProgram compiled(const SyscallRules& rules, const CompileOptions& options = {}) {
  Result<BpfProgram> program = compile(rules, options);
  REQUIRE_MESSAGE(program.ok(), program.error().text());
  return program.take();
}
Error failure(const SyscallRules& rules, const CompileOptions& options = {}) {
  Result<BpfProgram> program = compile(rules, options);
  REQUIRE_FALSE(program.ok());
  return program.take_error();
}

uint32_t audit_arch(Arch arch) { return arch == Arch::x86_64 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64; }

uint32_t decide_number(const BpfProgram& program, uint32_t number, std::vector<uint64_t> arguments = {}, Arch arch = Arch::x86_64) {
  seccomp_data data{};
  data.nr = static_cast<int>(number);
  data.arch = audit_arch(arch);
  for (size_t i = 0; i < arguments.size(); ++i) data.args[i] = arguments[i];
  Result<uint32_t> answer = evaluate(program, data);
  REQUIRE(answer.ok());
  return answer.value();
}
uint32_t decide(const BpfProgram& program, const std::string& name, std::vector<uint64_t> arguments = {}, Arch arch = Arch::x86_64) {
  const std::optional<unsigned> number = syscall_number(name, arch);
  REQUIRE(number.has_value());
  return decide_number(program, *number, std::move(arguments), arch);
}

const std::vector<uint64_t> kEdges = {
    0, 1, 2, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff, 0x100000000, 0x100000001, 0x1ffffffff, 0x200000000,
    0x7fffffffffffffff, 0x8000000000000000, 0xfffffffeffffffff, 0xffffffff00000000, 0xffffffff00000001, 0xffffffffffffffff};

}  // namespace

TEST_CASE("every comparison decides on all 64 bits, or on the low 32 where it says so") {
  for (const Op op : {Op::equal, Op::not_equal, Op::less, Op::less_equal, Op::greater, Op::greater_equal, Op::masked_equal,
                      Op::masked_not_equal, Op::any_bit}) {
    const bool masked = op == Op::masked_equal || op == Op::masked_not_equal || op == Op::any_bit;
    for (const bool low32 : {false, true}) {
      for (const uint64_t value : kEdges) {
        for (const uint64_t mask : masked ? kEdges : std::vector<uint64_t>{~uint64_t{0}}) {
          ArgumentTest test{.index = 3, .op = op, .mask = mask, .value = value, .low32 = low32};
          if (masked && mask == 0) continue;
          if (op == Op::any_bit) test.value = 0;
          if ((op == Op::masked_equal || op == Op::masked_not_equal) && (value & ~mask) != 0) continue;
          if (low32 && (test.value > 0xffffffff || (masked && mask > 0xffffffff))) continue;
          const BpfProgram program = compiled(startable({rule("getpid", kAllow, {test})}));
          for (const uint64_t argument : kEdges) {
            const uint32_t answer = decide(program, "getpid", {0, 0, 0, argument});
            CHECK_MESSAGE(answer == (holds(test, argument) ? SECCOMP_RET_ALLOW : kPerm), "op ", static_cast<int>(op), " value ", value,
                          " mask ", mask, " low32 ", low32, " argument ", argument);
          }
        }
      }
    }
  }
}

TEST_CASE("each of the six arguments is the one that is tested") {
  for (unsigned index = 0; index < 6; ++index) {
    const BpfProgram program = compiled(startable({rule("getpid", kAllow, {{.index = index, .op = Op::equal, .value = 0x500000007}})}));
    for (unsigned given = 0; given < 6; ++given) {
      std::vector<uint64_t> arguments(6, 0);
      arguments[given] = 0x500000007;
      CHECK(decide(program, "getpid", arguments) == (given == index ? SECCOMP_RET_ALLOW : kPerm));
    }
  }
}

TEST_CASE("a rule holds when all its tests hold, and the first rule that holds decides") {
  const BpfProgram program = compiled(startable({
      rule("ioctl", error_number(ENOTTY), {{.index = 0, .op = Op::equal, .value = 1}, {.index = 1, .op = Op::equal, .value = 2}}),
      rule("ioctl", {SyscallAction::log, 0}, {{.index = 0, .op = Op::equal, .value = 1}}),
      rule("ioctl", kAllow, {{.index = 2, .op = Op::any_bit, .mask = 8}}),
      rule("ioctl", {SyscallAction::kill, 0}, {{.index = 1, .op = Op::greater, .value = 100}}),
  }));
  CHECK(decide(program, "ioctl", {1, 2, 8}) == (SECCOMP_RET_ERRNO | ENOTTY));
  CHECK(decide(program, "ioctl", {1, 3, 8}) == SECCOMP_RET_LOG);
  CHECK(decide(program, "ioctl", {2, 200, 9}) == SECCOMP_RET_ALLOW);
  CHECK(decide(program, "ioctl", {2, 200, 1}) == SECCOMP_RET_KILL_PROCESS);
  CHECK(decide(program, "ioctl", {2, 100, 1}) == kPerm);
}

TEST_CASE("what follows a rule without tests never decides") {
  const BpfProgram program = compiled(startable({rule("getpid", error_number(ENOSYS)), rule("getpid", kAllow)}));
  CHECK(decide(program, "getpid") == (SECCOMP_RET_ERRNO | ENOSYS));
}

TEST_CASE("foreign architectures and x32 calls are killed, whatever the rules say") {
  SyscallRules rules = startable({});
  rules.otherwise = kAllow;
  const BpfProgram x86 = compiled(rules);
  const BpfProgram arm = compiled(rules, {.arch = Arch::aarch64});
  for (const uint32_t arch : {uint32_t{AUDIT_ARCH_I386}, uint32_t{AUDIT_ARCH_ARM}, uint32_t{AUDIT_ARCH_AARCH64}, uint32_t{0}}) {
    seccomp_data data{};
    data.arch = arch;
    CHECK(evaluate(x86, data).value() == SECCOMP_RET_KILL_PROCESS);
  }
  for (const uint32_t arch : {uint32_t{AUDIT_ARCH_X86_64}, uint32_t{AUDIT_ARCH_ARM}, uint32_t{0}}) {
    seccomp_data data{};
    data.arch = arch;
    CHECK(evaluate(arm, data).value() == SECCOMP_RET_KILL_PROCESS);
  }
  for (const uint32_t number : {0x40000000u, 0x40000027u, 0x40000208u, 0x7fffffffu, 0x80000000u, 0xfffffffeu})
    CHECK(decide_number(x86, number) == SECCOMP_RET_KILL_PROCESS);
  CHECK(decide_number(x86, 0x3fffffff) == SECCOMP_RET_ALLOW);
  CHECK(decide_number(x86, 0xffffffff) == SECCOMP_RET_ALLOW);
  CHECK(decide_number(arm, 0x40000027, {}, Arch::aarch64) == SECCOMP_RET_ALLOW);
}

TEST_CASE("numbers without a name get the answer for unknown calls, named ones that no rule mentions do not") {
  SyscallRules rules = startable({});
  rules.unknown = error_number(ENOSYS);
  for (const Arch arch : {Arch::x86_64, Arch::aarch64}) {
    const BpfProgram program = compiled(rules, {.arch = arch});
    for (const uint32_t number : {400u, 471u, 600u, 1023u, 1024u, 0x3fffffffu, 0xffffffffu})
      CHECK(decide_number(program, number, {}, arch) == (SECCOMP_RET_ERRNO | ENOSYS));
    CHECK(decide(program, "getpid", {}, arch) == kPerm);
    CHECK(decide(program, "mseal", {}, arch) == kPerm);
  }
  rules.unknown.reset();
  CHECK(decide_number(compiled(rules), 600) == kPerm);
}

TEST_CASE("a listener turns denials into notifications, and nothing else") {
  const SyscallRules rules = startable({rule("getpid", kDeny), rule("gettid", error_number(EPERM))});
  const BpfProgram program = compiled(rules, {.listener = true});
  CHECK(decide(program, "getpid") == SECCOMP_RET_USER_NOTIF);
  CHECK(decide(program, "gettid") == kPerm);
  CHECK(decide(compiled(rules), "getpid") == kPerm);
}

TEST_CASE("an unknown name is an error with its origin and the nearest name") {
  const Error error = failure(startable({rule("getpidd", kAllow)}));
  CHECK(error.kind() == ErrorKind::policy);
  CHECK(error.text() == "x.toml:1:1: there is no system call \"getpidd\"");
  CHECK(error.hint() == "did you mean \"getpid\"?");
}

TEST_CASE("a name of another architecture is no error and changes nothing") {
  CHECK(compiled(startable({rule("socketcall", kAllow), rule("arm_fadvise64_64", kAllow)})).size() == compiled(startable({})).size());
  CHECK(decide(compiled(startable({rule("open", kAllow)}), {.arch = Arch::aarch64}), "openat", {}, Arch::aarch64) == kPerm);
}

TEST_CASE("tests out of range are errors") {
  const auto text = [](ArgumentTest test) { return failure(startable({rule("getpid", kAllow, {test})})).text(); };
  CHECK(text({.index = 6}).find("arguments 0 to 5") != std::string::npos);
  CHECK(text({.op = Op::equal, .value = 0x100000000, .low32 = true}).find("larger value") != std::string::npos);
  CHECK(text({.op = Op::any_bit, .mask = 0x100000000, .low32 = true}).find("larger mask") != std::string::npos);
  CHECK(text({.op = Op::any_bit, .mask = 0}).find("tests nothing") != std::string::npos);
  CHECK(text({.op = Op::masked_equal, .mask = 0xf0, .value = 0x0f}).find("outside the mask") != std::string::npos);
  CHECK(failure(startable({rule("getpid", error_number(4096))})).text().find("out of range") != std::string::npos);
  SyscallRules rules = startable({});
  rules.otherwise = error_number(5000);
  CHECK(failure(rules).kind() == ErrorKind::policy);
}

TEST_CASE("a filter under which nothing can start is refused") {
  SyscallRules rules = startable({});
  rules.rules = {rule("exit_group", kAllow)};
  CHECK(failure(rules).text() == "the filter denies execve, which starting the program needs after the filter is loaded");
  rules.rules = {rule("execve", kAllow)};
  CHECK(failure(rules).text().find("exit_group") != std::string::npos);
  rules.rules = {rule("execve", kDeny), rule("exit_group", kAllow)};
  CHECK_FALSE(compile(rules, {.listener = true}).ok());
  rules.rules = {rule("execve", kAllow, {{.index = 0, .op = Op::equal, .value = 0}}), rule("exit_group", kAllow)};
  CHECK_FALSE(compile(rules, {}).ok());
  rules.rules = {rule("execve", {SyscallAction::log, 0}), rule("exit_group", kAllow)};
  CHECK(compile(rules, {}).ok());
}

TEST_CASE("jumps of any length reach their target") {
  // One call with 600 alternatives between the tree and the shared answers, on both sides of other tested calls.
  std::vector<SyscallRule> rules;
  for (unsigned i = 0; i < 600; ++i)
    rules.push_back(rule("ioctl", error_number(static_cast<uint16_t>(1 + i % 40)), {{.index = 1, .op = Op::equal, .value = 1000 + 3 * i}}));
  rules.push_back(rule("ioctl", kAllow));
  for (const char* name : {"read", "write", "getpid", "mseal"}) rules.push_back(rule(name, kAllow));
  rules.push_back(rule("fcntl", kAllow, {{.index = 1, .op = Op::less, .value = 0x300000000}}));
  const BpfProgram program = compiled(startable(rules));
  CHECK(program.size() > 1200);
  for (unsigned i = 0; i < 600; ++i) {
    CHECK(decide(program, "ioctl", {0, 1000 + 3 * i}) == (SECCOMP_RET_ERRNO | (1 + i % 40)));
    CHECK(decide(program, "ioctl", {0, 1001 + 3 * i}) == SECCOMP_RET_ALLOW);
  }
  for (const char* name : {"read", "write", "getpid", "mseal", "execve"}) CHECK(decide(program, name) == SECCOMP_RET_ALLOW);
  CHECK(decide(program, "fcntl", {0, 0x2ffffffff}) == SECCOMP_RET_ALLOW);
  CHECK(decide(program, "fcntl", {0, 0x300000000}) == kPerm);
  CHECK(decide(program, "open") == kPerm);
}

TEST_CASE("programs of every length around the reach of a jump decide the same") {
  // One alternative more at a time: each jump over this block, true or false, passes 255 at some length.
  std::vector<SyscallRule> rules;
  for (unsigned i = 0; i < 300; ++i) {
    rules.push_back(rule("ioctl", error_number(static_cast<uint16_t>(1 + i % 2)), {{.index = 1, .op = Op::equal, .value = 1000 + 3 * i, .low32 = true}}));
    std::vector<SyscallRule> all = rules;
    all.push_back(rule("ioctl", kAllow));
    all.push_back(rule("read", kAllow));
    all.push_back(rule("fcntl", kAllow, {{.index = 1, .op = Op::any_bit, .mask = 4}, {.index = 2, .op = Op::not_equal, .value = 9}}));
    const BpfProgram program = compiled(startable(std::move(all)));
    INFO(program.size());
    seccomp_data foreign{};
    foreign.arch = AUDIT_ARCH_I386;
    CHECK(evaluate(program, foreign).value() == SECCOMP_RET_KILL_PROCESS);
    CHECK(decide_number(program, 0x40000000) == SECCOMP_RET_KILL_PROCESS);
    CHECK(decide_number(program, 600) == kPerm);
    CHECK(decide(program, "read") == SECCOMP_RET_ALLOW);
    CHECK(decide(program, "write") == kPerm);
    CHECK(decide(program, "mseal") == kPerm);
    CHECK(decide(program, "exit_group") == SECCOMP_RET_ALLOW);
    CHECK(decide(program, "ioctl", {0, 1000}) == (SECCOMP_RET_ERRNO | 1));
    CHECK(decide(program, "ioctl", {0, 1000 + 3 * i}) == (SECCOMP_RET_ERRNO | (1 + i % 2)));
    CHECK(decide(program, "ioctl", {0, 5}) == SECCOMP_RET_ALLOW);
    CHECK(decide(program, "fcntl", {0, 4, 8}) == SECCOMP_RET_ALLOW);
    CHECK(decide(program, "fcntl", {0, 4, 9}) == kPerm);
    CHECK(decide(program, "fcntl", {0, 3, 8}) == kPerm);
  }
}

TEST_CASE("random rules decide as their tests say, whatever was compared before") {
  std::mt19937_64 random(4);
  const auto pick = [&](size_t count) { return static_cast<size_t>(random() % count); };
  const uint64_t values[] = {0, 1, 2, 3, 0x100000000, 0x100000001, 0x200000002, 0xffffffff00000003};
  for (int round = 0; round < 1500; ++round) {
    std::vector<SyscallRule> rules;
    for (size_t r = 1 + pick(6); r > 0; --r) {
      std::vector<ArgumentTest> tests;
      for (size_t t = 1 + pick(3); t > 0; --t) {
        ArgumentTest test{.index = static_cast<unsigned>(pick(2)), .op = static_cast<Op>(pick(9)), .mask = ~uint64_t{0}, .value = values[pick(8)], .low32 = pick(2) == 0};
        if (test.low32) test.value &= 0xffffffff;
        if (test.op == Op::masked_equal || test.op == Op::masked_not_equal || test.op == Op::any_bit) {
          test.mask = test.low32 ? 1 + pick(3) : values[1 + pick(7)];
          test.value &= test.mask;
        }
        tests.push_back(test);
      }
      rules.push_back(rule("ioctl", error_number(static_cast<uint16_t>(1 + pick(4))), std::move(tests)));
    }
    const BpfProgram program = compiled(startable(rules));
    for (int sample = 0; sample < 12; ++sample) {
      const std::vector<uint64_t> arguments = {values[pick(8)], values[pick(8)]};
      uint32_t expected = kPerm;
      for (const SyscallRule& candidate : rules) {
        if (!std::all_of(candidate.tests.begin(), candidate.tests.end(), [&](const ArgumentTest& t) { return holds(t, arguments[t.index]); })) continue;
        expected = SECCOMP_RET_ERRNO | candidate.verdict.errnum;
        break;
      }
      CHECK_MESSAGE(decide(program, "ioctl", arguments) == expected, "round ", round);
    }
  }
}

TEST_CASE("rules that make too long a filter are an error that says so") {
  std::vector<SyscallRule> rules;
  for (const char* name : {"ioctl", "fcntl", "prctl", "read", "write"})
    for (unsigned i = 0; i < 900; ++i)
      rules.push_back(rule(name, i % 2 == 0 ? kAllow : kDeny, {{.index = i % 5, .op = Op::equal, .value = i + (uint64_t{1} << 40)}}));
  const Error error = failure(startable(rules));
  CHECK(error.kind() == ErrorKind::policy);
  CHECK(error.text().find("4096 instructions") != std::string::npos);
  rules.clear();
  for (unsigned i = 0; i < 2000; ++i) rules.push_back(rule("ioctl", kAllow, {{.index = 1, .op = Op::equal, .value = i}}));
  CHECK(failure(startable(rules)).text().find("more than 1000 rules") != std::string::npos);
}

TEST_CASE("calls with the same rules share their code") {
  const std::vector<ArgumentTest> tests = {{.index = 0, .op = Op::any_bit, .mask = 0x7e020000, .low32 = true}};
  const BpfProgram one = compiled(startable({rule("read", kDeny, tests), rule("read", kAllow)}));
  // The neighbours 0, 1, 2, 3 make one run: the same tree, too.
  std::vector<SyscallRule> rules;
  for (const char* name : {"read", "write", "open", "close"}) {
    rules.push_back(rule(name, kDeny, tests));
    rules.push_back(rule(name, kAllow));
  }
  CHECK(compiled(startable(rules)).size() == one.size());
}

TEST_CASE("the set-id guard refuses mode bits 06000 in every call that sets a mode, by their low 32 bits") {
  struct Call {
    const char* name;
    unsigned mode;
    int flags;
  };
  const Call calls[] = {{"chmod", 1, -1},   {"fchmod", 1, -1}, {"fchmodat", 2, -1}, {"fchmodat2", 2, -1}, {"creat", 1, -1}, {"mkdir", 1, -1},
                        {"mkdirat", 2, -1}, {"mknod", 1, -1},  {"mknodat", 2, -1},  {"open", 2, 1},       {"openat", 3, 2}};
  std::vector<SyscallRule> rules = {rule("openat2", kAllow)};
  for (const Call& call : calls) rules.push_back(rule(call.name, kAllow));
  for (const Arch arch : {Arch::x86_64, Arch::aarch64}) {
    const BpfProgram guarded = compiled(startable(rules), {.arch = arch, .guard_set_id = true});
    const BpfProgram plain = compiled(startable(rules), {.arch = arch});
    for (const Call& call : calls) {
      INFO(call.name);
      if (!syscall_number(call.name, arch)) {
        CHECK(arch == Arch::aarch64);
        continue;
      }
      for (const uint64_t mode : {04755u, 02755u, 06000u, 04000u, 0755u, 01777u, 0u}) {
        for (const uint64_t flags : {uint64_t{0}, uint64_t{0100}, uint64_t{020200000}, uint64_t{0100} << 32}) {
          for (const uint64_t high : {uint64_t{0}, uint64_t{1} << 32}) {
            std::vector<uint64_t> arguments(6, 0);
            arguments[call.mode] = mode | high;
            if (call.flags >= 0) arguments[static_cast<size_t>(call.flags)] = flags;
            const bool makes = call.flags < 0 || (flags & (0100 | 020000000)) != 0;
            const bool refused = (mode & 06000) != 0 && makes;
            CHECK(decide(guarded, call.name, arguments, arch) == (refused ? kPerm : SECCOMP_RET_ALLOW));
            CHECK(decide(plain, call.name, arguments, arch) == SECCOMP_RET_ALLOW);
          }
        }
      }
    }
    CHECK(decide(guarded, "openat2", {}, arch) == (SECCOMP_RET_ERRNO | ENOSYS));
    CHECK(decide(plain, "openat2", {}, arch) == SECCOMP_RET_ALLOW);
  }
}

TEST_CASE("the unseen-memory guard refuses memory that belongs to no process") {
  const SyscallRules rules = startable({rule("shmget", kAllow), rule("memfd_create", kAllow), rule("memfd_secret", kAllow)});
  const BpfProgram guarded = compiled(rules, {.guard_unseen_memory = true});
  CHECK(decide(guarded, "shmget") == kPerm);
  CHECK(decide(guarded, "memfd_create") == (SECCOMP_RET_ERRNO | ENOSYS));
  CHECK(decide(guarded, "memfd_secret") == (SECCOMP_RET_ERRNO | ENOSYS));
  CHECK(decide(compiled(rules), "shmget") == SECCOMP_RET_ALLOW);
}

TEST_CASE("guards keep what the rules deny anyway") {
  const SyscallRules rules = startable({rule("chmod", error_number(ENOSYS)), rule("openat2", {SyscallAction::kill, 0}),
                                        rule("shmget", error_number(EINVAL)),
                                        rule("fchmod", kAllow, {{.index = 0, .op = Op::equal, .value = 3}})});
  const BpfProgram program = compiled(rules, {.guard_set_id = true, .guard_unseen_memory = true});
  CHECK(decide(program, "chmod", {0, 04755}) == (SECCOMP_RET_ERRNO | ENOSYS));
  CHECK(decide(program, "openat2") == SECCOMP_RET_KILL_PROCESS);
  CHECK(decide(program, "shmget") == (SECCOMP_RET_ERRNO | EINVAL));
  CHECK(decide(program, "memfd_create") == kPerm);
  CHECK(decide(program, "fchmod", {3, 0755}) == SECCOMP_RET_ALLOW);
  CHECK(decide(program, "fchmod", {3, 04755}) == kPerm);
}

TEST_CASE("the digest names a program") {
  // printf '\006\0\0\0\0\0\377\177' | sha256sum
  const std::vector<sock_filter> allow = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  CHECK(program_digest(allow) == "40b2a31e1a78576bb4afdf1433867d0cc67b769635ef549fba81c7d37570520f");
  const BpfProgram program = compiled(startable({}));
  CHECK(program_digest(program).size() == 64);
  CHECK(program_digest(program) != program_digest(compiled(startable({rule("getpid", kAllow)}))));
  CHECK(program_digest(program) == program_digest(compiled(startable({}))));
}

TEST_CASE("every name has one number and every number its name") {
  for (const Arch arch : {Arch::x86_64, Arch::aarch64}) {
    size_t count = 0;
    for (unsigned number = 0; number < kMaxSyscallNumber; ++number) {
      const std::string name(syscall_name(number, arch));
      if (name.empty()) continue;
      ++count;
      CHECK(is_syscall_name(name));
      CHECK(syscall_number(name, arch) == number);
    }
    CHECK(count > 300);
  }
  CHECK(syscall_name(0, Arch::x86_64) == "read");
  CHECK(syscall_name(63, Arch::aarch64) == "read");
  CHECK(syscall_name(462, Arch::aarch64) == "mseal");
  CHECK(syscall_name(335, Arch::x86_64) == "uretprobe");
  CHECK(syscall_name(kMaxSyscallNumber, Arch::x86_64) == "");
  CHECK_FALSE(is_syscall_name("no_such_call"));
}
