#include "seccomp/start_key.h"

#include <doctest/doctest.h>
#include <linux/audit.h>
#include <linux/seccomp.h>

#include <set>

#include "seccomp/compile.h"
#include "seccomp/evaluate.h"

using namespace sbx;
using namespace sbx::seccomp;

namespace {

uint32_t accumulator_after(const StartKey& key, const std::array<uint64_t, 6>& arguments) {
  BpfProgram program;
  append_start_test(program, key);
  CHECK(program.size() == kStartTestLength);
  program.push_back({BPF_RET | BPF_A, 0, 0, 0});
  seccomp_data data{};
  std::copy(arguments.begin(), arguments.end(), data.args);
  return evaluate(program, data).value();
}

}  // namespace

TEST_CASE("the test of the start holds for exactly the three words, and each bit of each counts") {
  const StartKey key = {{0x1234567890, 0x2345678908, 0x3456789010}};
  CHECK(accumulator_after(key, {0x1234567890, 0x2345678908, 0x3456789010, 7, 8, 9}) == 0);
  for (size_t word = 0; word < 3; ++word) {
    for (unsigned bit = 0; bit < 64; ++bit) {
      std::array<uint64_t, 6> arguments = {key.words[0], key.words[1], key.words[2], 0, 0, 0};
      arguments[word] ^= uint64_t{1} << bit;
      CHECK(accumulator_after(key, arguments) != 0);
    }
  }
  // The differences of two words do not cancel each other out.
  CHECK(accumulator_after(key, {key.words[0] ^ 1, key.words[1] ^ 1, key.words[2], 0, 0, 0}) != 0);
}

TEST_CASE("nothing branches before all words have been compared") {
  BpfProgram program;
  append_start_test(program, {});
  for (const sock_filter& instruction : program) CHECK(BPF_CLASS(instruction.code) != BPF_JMP);
}

TEST_CASE("a key can be put into a program, again and again, and read from it; other programs have none") {
  SyscallRules rules;
  rules.otherwise = {SyscallAction::errno_value, 1};
  rules.rules = {{"execve", {{.op = ArgumentTest::Op::start}}, {SyscallAction::allow, 0}, "", ""},
                 {"exit_group", {}, {SyscallAction::allow, 0}, "", ""},
                 {"getpid", {{.index = 0, .op = ArgumentTest::Op::equal, .value = 3}}, {SyscallAction::allow, 0}, "", ""}};
  BpfProgram program = compile(rules, {.arch = native_arch()}).value();
  CHECK(start_key_of(program) == kNoStartKey);
  for (int i = 0; i < 3; ++i) {
    const StartKey key = make_start_key().value();
    set_start_key(program, key);
    CHECK(start_key_of(program) == key);
    CHECK(check_program(program).ok());
    CHECK(check_startable(program, native_arch()).ok());
  }
  rules.rules[0].tests.clear();
  CHECK_FALSE(start_key_of(compile(rules, {.arch = native_arch()}).value()).has_value());
}

TEST_CASE("only execve can be tested for being the start") {
  SyscallRules rules;
  rules.rules = {{"openat", {{.op = ArgumentTest::Op::start}}, {SyscallAction::allow, 0}, "", "x.toml:1:1"}};
  CHECK(compile(rules, {.arch = native_arch()}).error().text().find("only execve") != std::string::npos);
}

TEST_CASE("keys differ, lie in three slices of user space, apart from each other, and the arrays are aligned") {
#if defined(__SANITIZE_ADDRESS__)
  const uint64_t lowest = uint64_t{1} << 45;  // clear of AddressSanitizer's shadow
#else
  const uint64_t lowest = uint64_t{1} << 36;
#endif

  std::set<uint64_t> seen;
  for (int i = 0; i < 200; ++i) {
    const StartKey key = make_start_key().value();
    for (size_t word = 0; word < 3; ++word) {
      CHECK(key.words[word] >= lowest + (uint64_t{word} << 36));
      CHECK(key.words[word] < lowest + (uint64_t{word + 1} << 36));
      CHECK(seen.insert(key.words[word]).second);
    }
    CHECK(key.words[1] % 8 == 0);
    CHECK(key.words[2] % 8 == 0);
  }
}
