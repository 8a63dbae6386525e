#include <doctest/doctest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "seccomp/compile.h"
#include "seccomp/evaluate.h"

using namespace sbx;
using namespace sbx::seccomp;

namespace {

sock_filter op(unsigned code, uint32_t k = 0) { return {static_cast<uint16_t>(code), 0, 0, k}; }
sock_filter jump(unsigned code, uint32_t k, uint8_t if_true, uint8_t if_false) {
  return {static_cast<uint16_t>(code), if_true, if_false, k};
}
const sock_filter kRetA = op(BPF_RET | BPF_A);

uint32_t run(const std::vector<sock_filter>& program, const seccomp_data& data = {}) {
  Result<uint32_t> result = evaluate(program, data);
  REQUIRE_MESSAGE(result.ok(), result.error().text());
  return result.value();
}

// A loaded with `a`, X with `x`, then one instruction; the new A.
uint32_t alu(unsigned code, uint32_t a, uint32_t x, uint32_t k) {
  return run({op(BPF_LD | BPF_IMM, a), op(BPF_LDX | BPF_IMM, x), op(BPF_ALU | code, k), kRetA});
}
uint32_t alu_k(unsigned code, uint32_t a, uint32_t k) { return alu(code | BPF_K, a, 0xdead, k); }
uint32_t alu_x(unsigned code, uint32_t a, uint32_t x) { return alu(code | BPF_X, a, x, 7); }

bool branches(unsigned code, uint32_t a, uint32_t x, uint32_t k) {
  return run({op(BPF_LD | BPF_IMM, a), op(BPF_LDX | BPF_IMM, x), jump(BPF_JMP | code, k, 1, 0), op(BPF_RET | BPF_K, 0),
              op(BPF_RET | BPF_K, 1)}) == 1;
}

std::string refusal(const std::vector<sock_filter>& program) {
  const Status status = check_program(program);
  return status.ok() ? "" : status.error().text();
}

// 0 when the kernel takes the program, else the errno.
int kernel_answer(const std::vector<sock_filter>& program) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // What follows may be denied by the very program; an unlucky exit is seen as a strange status.
    sock_fprog filter{static_cast<unsigned short>(program.size()), const_cast<sock_filter*>(program.data())};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    const long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
    _exit(result == 0 ? 0 : errno);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("loads read seccomp_data, its length, constants and scratch memory") {
  seccomp_data data{};
  data.nr = 0x11223344;
  data.arch = 0xc000003e;
  data.instruction_pointer = 0x5566778899aabbcc;
  for (unsigned i = 0; i < 6; ++i) data.args[i] = 0x0102030405060708 + i;
  CHECK(run({op(BPF_LD | BPF_W | BPF_ABS, 0), kRetA}, data) == 0x11223344);
  CHECK(run({op(BPF_LD | BPF_W | BPF_ABS, 4), kRetA}, data) == 0xc000003e);
  CHECK(run({op(BPF_LD | BPF_W | BPF_ABS, 8), kRetA}, data) == 0x99aabbcc);
  CHECK(run({op(BPF_LD | BPF_W | BPF_ABS, 12), kRetA}, data) == 0x55667788);
  for (unsigned i = 0; i < 6; ++i) {
    CHECK(run({op(BPF_LD | BPF_W | BPF_ABS, 16 + 8 * i), kRetA}, data) == 0x05060708 + i);
    CHECK(run({op(BPF_LD | BPF_W | BPF_ABS, 20 + 8 * i), kRetA}, data) == 0x01020304);
  }
  CHECK(run({op(BPF_LD | BPF_W | BPF_LEN), kRetA}) == 64);
  CHECK(run({op(BPF_LDX | BPF_W | BPF_LEN), op(BPF_MISC | BPF_TXA), kRetA}) == 64);
  CHECK(run({op(BPF_LD | BPF_IMM, 9), kRetA}) == 9);
  CHECK(run({op(BPF_LDX | BPF_IMM, 8), op(BPF_MISC | BPF_TXA), kRetA}) == 8);
  CHECK(run({op(BPF_LD | BPF_IMM, 5), op(BPF_ST, 15), op(BPF_LD | BPF_IMM, 0), op(BPF_LD | BPF_MEM, 15), kRetA}) == 5);
  CHECK(run({op(BPF_LDX | BPF_IMM, 6), op(BPF_STX, 0), op(BPF_LDX | BPF_IMM, 0), op(BPF_LDX | BPF_MEM, 0),
             op(BPF_MISC | BPF_TXA), kRetA}) == 6);
  CHECK(run({op(BPF_LD | BPF_IMM, 4), op(BPF_MISC | BPF_TAX), op(BPF_LD | BPF_IMM, 1), op(BPF_ALU | BPF_ADD | BPF_X), kRetA}) == 5);
}

TEST_CASE("both registers begin as 0") {
  CHECK(run({kRetA}) == 0);
  CHECK(run({op(BPF_MISC | BPF_TXA), kRetA}) == 0);
  CHECK(run({op(BPF_RET | BPF_K, 77)}) == 77);
}

TEST_CASE("arithmetic is unsigned and of 32 bits") {
  CHECK(alu_k(BPF_ADD, 0xffffffff, 2) == 1);
  CHECK(alu_x(BPF_ADD, 0xffffffff, 2) == 1);
  CHECK(alu_k(BPF_SUB, 1, 2) == 0xffffffff);
  CHECK(alu_x(BPF_SUB, 1, 2) == 0xffffffff);
  CHECK(alu_k(BPF_MUL, 0x80000001, 2) == 2);
  CHECK(alu_x(BPF_MUL, 0x80000001, 2) == 2);
  CHECK(alu_k(BPF_DIV, 0xfffffffe, 3) == 0x55555554);
  CHECK(alu_x(BPF_DIV, 0xfffffffe, 3) == 0x55555554);
  CHECK(alu_k(BPF_AND, 0xff00, 0x0ff0) == 0x0f00);
  CHECK(alu_x(BPF_AND, 0xff00, 0x0ff0) == 0x0f00);
  CHECK(alu_k(BPF_OR, 0xff00, 0x0ff0) == 0xfff0);
  CHECK(alu_x(BPF_OR, 0xff00, 0x0ff0) == 0xfff0);
  CHECK(alu_k(BPF_XOR, 0xff00, 0x0ff0) == 0xf0f0);
  CHECK(alu_x(BPF_XOR, 0xff00, 0x0ff0) == 0xf0f0);
  CHECK(alu_k(BPF_LSH, 0x80000001, 1) == 2);
  CHECK(alu_x(BPF_LSH, 0x80000001, 33) == 2);
  CHECK(alu_k(BPF_RSH, 0x80000001, 31) == 1);
  CHECK(alu_x(BPF_RSH, 0x80000001, 63) == 1);
  CHECK(alu_k(BPF_NEG, 1, 0) == 0xffffffff);
}

TEST_CASE("every instruction that the checker accepts is evaluated, and no other is accepted") {
  // All 65536 codes, in a program that would be right for any of them.
  int accepted = 0;
  for (unsigned code = 0; code <= 0xffff; ++code) {
    const std::vector<sock_filter> program = {op(BPF_ST, 0), op(BPF_STX, 0), op(code, 0), op(BPF_RET | BPF_K, 0)};
    const std::vector<sock_filter> by_one = {op(BPF_ST, 1), op(BPF_STX, 1), op(code, 1), op(BPF_RET | BPF_K, 0), op(BPF_RET | BPF_K, 0)};
    for (const std::vector<sock_filter>& candidate : {program, by_one}) {
      if (!check_program(candidate).ok()) continue;
      ++accepted;
      CHECK_MESSAGE(evaluate(candidate, {}).ok(), "code " << code);
    }
  }
  // 3 loads of the length and data and 4 of constants and memory, 2 stores, 9 by 2 operations and a negation, a jump and 4 by 2
  // comparisons, 2 returns, 2 copies between registers: 41, each with 0 and 1 but for the load from 1 and the division by 0.
  CHECK(accepted == 2 * 41 - 2);
}

TEST_CASE("division by a zero in X ends the program with 0") {
  CHECK(run({op(BPF_LD | BPF_IMM, 5), op(BPF_ALU | BPF_DIV | BPF_X), op(BPF_RET | BPF_K, 1)}) == 0);
}

TEST_CASE("each conditional jump compares as its name says") {
  for (const bool by_x : {false, true}) {
    const unsigned source = by_x ? BPF_X : BPF_K;
    const auto taken = [&](unsigned code, uint32_t a, uint32_t operand) {
      return branches(code | source, a, by_x ? operand : 0x5a5a5a5a, by_x ? 0x5a5a5a5a : operand);
    };
    CHECK(taken(BPF_JEQ, 3, 3));
    CHECK_FALSE(taken(BPF_JEQ, 3, 4));
    CHECK(taken(BPF_JGT, 0x80000000, 3));
    CHECK_FALSE(taken(BPF_JGT, 3, 3));
    CHECK(taken(BPF_JGE, 3, 3));
    CHECK_FALSE(taken(BPF_JGE, 2, 0x80000000));
    CHECK(taken(BPF_JSET, 6, 4));
    CHECK_FALSE(taken(BPF_JSET, 6, 9));
  }
}

TEST_CASE("jumps skip exactly as many instructions as they say") {
  CHECK(run({op(BPF_JMP | BPF_JA, 2), op(BPF_RET | BPF_K, 1), op(BPF_RET | BPF_K, 2), op(BPF_RET | BPF_K, 3)}) == 3);
  CHECK(run({jump(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0), op(BPF_RET | BPF_K, 1), op(BPF_RET | BPF_K, 2)}) == 2);
  CHECK(run({jump(BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 2), op(BPF_RET | BPF_K, 1), op(BPF_RET | BPF_K, 2), op(BPF_RET | BPF_K, 3)}) == 3);
}

TEST_CASE("programs that the kernel would not load are errors, and the kernel agrees") {
  const sock_filter ret = op(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct Case {
    const char* title;
    std::vector<sock_filter> program;
    const char* says;
  };
  const Case cases[] = {
      {"no return at the end", {ret, op(BPF_LD | BPF_IMM, 1)}, "no return"},
      {"jump at the end", {op(BPF_JMP | BPF_JA, 0)}, "jumps behind the end"},
      {"unknown code", {op(0xffff), ret}, "unknown code"},
      {"modulo, which seccomp lacks", {op(BPF_ALU | BPF_MOD | BPF_K, 3), ret}, "unknown code"},
      {"a byte load", {op(BPF_LD | BPF_B | BPF_ABS, 0), ret}, "unknown code"},
      {"an indirect load", {op(BPF_LD | BPF_W | BPF_IND, 0), ret}, "unknown code"},
      {"return of X", {op(BPF_RET | BPF_X)}, "unknown code"},
      {"unaligned load", {op(BPF_LD | BPF_W | BPF_ABS, 2), ret}, "loads from offset 2"},
      {"load behind the data", {op(BPF_LD | BPF_W | BPF_ABS, 64), ret}, "loads from offset 64"},
      {"long jump behind the end", {op(BPF_JMP | BPF_JA, 1), ret}, "jumps behind the end"},
      {"long jump around the end", {op(BPF_JMP | BPF_JA, 0xffffffff), ret}, "jumps behind the end"},
      {"true jump behind the end", {jump(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0), ret}, "jumps behind the end"},
      {"false jump behind the end", {jump(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1), ret}, "jumps behind the end"},
      {"division by zero", {op(BPF_ALU | BPF_DIV | BPF_K, 0), ret}, "divides by zero"},
      {"left shift too far", {op(BPF_ALU | BPF_LSH | BPF_K, 32), ret}, "shifts by 32"},
      {"right shift too far", {op(BPF_ALU | BPF_RSH | BPF_K, 32), ret}, "shifts by 32"},
      {"store behind the scratch memory", {op(BPF_ST, 16), ret}, "scratch word 16"},
      {"X stored behind the scratch memory", {op(BPF_STX, 16), ret}, "scratch word 16"},
      {"load behind the scratch memory", {op(BPF_LD | BPF_MEM, 16), ret}, "scratch word 16"},
      {"X loaded behind the scratch memory", {op(BPF_LDX | BPF_MEM, 16), ret}, "scratch word 16"},
      {"scratch memory that nothing wrote", {op(BPF_LD | BPF_MEM, 3), ret}, "nothing wrote"},
      {"scratch memory written on one way only",
       {jump(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0), op(BPF_ST, 3), op(BPF_LDX | BPF_MEM, 3), ret},
       "nothing wrote"},
      {"scratch memory written before a long jump around the write",
       {op(BPF_JMP | BPF_JA, 1), op(BPF_ST, 3), op(BPF_LD | BPF_MEM, 3), ret},
       "nothing wrote"},
  };
  for (const Case& bad : cases) {
    INFO(bad.title);
    CHECK(refusal(bad.program).find(bad.says) != std::string::npos);
    CHECK_FALSE(evaluate(bad.program, {}).ok());
    CHECK(kernel_answer(bad.program) == EINVAL);
  }
  CHECK(refusal({}).find("empty") != std::string::npos);
  CHECK(kernel_answer({}) == EINVAL);
  std::vector<sock_filter> longest(BPF_MAXINSNS, ret);
  CHECK(refusal(longest) == "");
  CHECK(kernel_answer(longest) == 0);
  longest.push_back(ret);
  CHECK(refusal(longest).find("4097 instructions") != std::string::npos);
  CHECK(kernel_answer(longest) == EINVAL);
}

TEST_CASE("programs that the kernel loads are accepted, with every instruction that it knows") {
  const sock_filter ret = op(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  std::vector<sock_filter> all = {op(BPF_LD | BPF_W | BPF_ABS, 60), op(BPF_LD | BPF_W | BPF_LEN), op(BPF_LDX | BPF_W | BPF_LEN),
                                  op(BPF_LD | BPF_IMM, 1), op(BPF_LDX | BPF_IMM, 1), op(BPF_ST, 0), op(BPF_STX, 15),
                                  op(BPF_LD | BPF_MEM, 15), op(BPF_LDX | BPF_MEM, 0), op(BPF_MISC | BPF_TAX), op(BPF_MISC | BPF_TXA),
                                  op(BPF_ALU | BPF_NEG)};
  for (const unsigned code : {BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV, BPF_AND, BPF_OR, BPF_XOR, BPF_LSH, BPF_RSH}) {
    all.push_back(op(BPF_ALU | code | BPF_K, 1));
    all.push_back(op(BPF_ALU | code | BPF_X));
  }
  all.push_back(op(BPF_JMP | BPF_JA, 0));
  for (const unsigned code : {BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET}) {
    all.push_back(jump(BPF_JMP | code | BPF_K, 1, 0, 0));
    all.push_back(jump(BPF_JMP | code | BPF_X, 0, 0, 0));
  }
  all.push_back(ret);
  CHECK(refusal(all) == "");
  CHECK(kernel_answer(all) == 0);
  // Memory written on both ways; and whatever stands behind a jump that nothing leads to.
  const std::vector<sock_filter> both = {jump(BPF_JMP | BPF_JEQ | BPF_K, 0, 2, 0), op(BPF_ST, 1), op(BPF_JMP | BPF_JA, 1), op(BPF_STX, 1),
                                         op(BPF_LD | BPF_MEM, 1), ret};
  CHECK(refusal(both) == "");
  CHECK(kernel_answer(both) == 0);
  const std::vector<sock_filter> unreached = {op(BPF_JMP | BPF_JA, 1), op(BPF_LD | BPF_MEM, 1), ret};
  CHECK(refusal(unreached) == "");
  CHECK(kernel_answer(unreached) == 0);
  CHECK(refusal({op(BPF_LD | BPF_IMM, SECCOMP_RET_ALLOW), kRetA}) == "");
}
