#include "seccomp/evaluate.h"

#include <array>
#include <cstring>
#include <string>

#include "seccomp/compile.h"

// What seccomp accepts is a subset of classic BPF: 32-bit loads from seccomp_data at aligned offsets, arithmetic
// without modulo, scratch memory, forward jumps, two forms of return (kernel: seccomp_check_filter and
// bpf_check_classic). check_program() refuses the rest, so the interpreter needs no fallback of its own.
namespace sbx::seccomp {
namespace {

Error refused(size_t index, const std::string& why) {
  return Error(ErrorKind::internal, "the kernel would refuse this filter: instruction " + std::to_string(index) + " " + why);
}

// A comparison with two ways on.
bool is_branch(uint16_t code) {
  switch (code) {
    case BPF_JMP | BPF_JEQ | BPF_K:
    case BPF_JMP | BPF_JEQ | BPF_X:
    case BPF_JMP | BPF_JGE | BPF_K:
    case BPF_JMP | BPF_JGE | BPF_X:
    case BPF_JMP | BPF_JGT | BPF_K:
    case BPF_JMP | BPF_JGT | BPF_X:
    case BPF_JMP | BPF_JSET | BPF_K:
    case BPF_JMP | BPF_JSET | BPF_X: return true;
    default: return false;
  }
}

// Is scratch memory written before it is read, on every way to the read? The kernel's check_load_and_stores: a mask
// of the words written, met over the jumps that lead to an instruction.
Status check_memory(std::span<const sock_filter> program) {
  std::vector<uint16_t> written(program.size(), 0xffff);
  uint16_t valid = 0;
  for (size_t i = 0; i < program.size(); ++i) {
    valid = static_cast<uint16_t>(valid & written[i]);
    const sock_filter& instruction = program[i];
    switch (instruction.code) {
      case BPF_ST:
      case BPF_STX: valid = static_cast<uint16_t>(valid | (1u << instruction.k)); break;
      case BPF_LD | BPF_MEM:
      case BPF_LDX | BPF_MEM:
        if ((valid & (1u << instruction.k)) == 0) return refused(i, "reads scratch memory that nothing wrote");
        break;
      case BPF_JMP | BPF_JA:
        written[i + 1 + instruction.k] = static_cast<uint16_t>(written[i + 1 + instruction.k] & valid);
        valid = 0xffff;
        break;
      default:
        if (!is_branch(instruction.code)) break;
        written[i + 1 + instruction.jt] = static_cast<uint16_t>(written[i + 1 + instruction.jt] & valid);
        written[i + 1 + instruction.jf] = static_cast<uint16_t>(written[i + 1 + instruction.jf] & valid);
        valid = 0xffff;
        break;
    }
  }
  return {};
}

}  // namespace

Status check_program(std::span<const sock_filter> program) {
  if (program.empty()) return Error(ErrorKind::internal, "the kernel would refuse this filter: it is empty");
  if (program.size() > BPF_MAXINSNS)
    return Error(ErrorKind::internal, "the kernel would refuse this filter: " + std::to_string(program.size()) +
                                          " instructions, at most " + std::to_string(BPF_MAXINSNS) + " are loaded")
        .with_hint("fewer rules with argument tests make a shorter filter");
  for (size_t i = 0; i < program.size(); ++i) {
    const sock_filter& instruction = program[i];
    const size_t left = program.size() - i - 1;  // instructions after this one
    switch (instruction.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        if (instruction.k >= sizeof(seccomp_data) || instruction.k % 4 != 0)
          return refused(i, "loads from offset " + std::to_string(instruction.k));
        break;
      case BPF_LD | BPF_W | BPF_LEN:
      case BPF_LDX | BPF_W | BPF_LEN:
      case BPF_LD | BPF_IMM:
      case BPF_LDX | BPF_IMM:
      case BPF_MISC | BPF_TAX:
      case BPF_MISC | BPF_TXA:
      case BPF_RET | BPF_K:
      case BPF_RET | BPF_A:
      case BPF_ALU | BPF_NEG:
      case BPF_ALU | BPF_ADD | BPF_K:  // NOLINT(misc-redundant-expression): both are 0, which is not the point
      case BPF_ALU | BPF_ADD | BPF_X:
      case BPF_ALU | BPF_SUB | BPF_K:
      case BPF_ALU | BPF_SUB | BPF_X:
      case BPF_ALU | BPF_MUL | BPF_K:
      case BPF_ALU | BPF_MUL | BPF_X:
      case BPF_ALU | BPF_DIV | BPF_X:
      case BPF_ALU | BPF_AND | BPF_K:
      case BPF_ALU | BPF_AND | BPF_X:
      case BPF_ALU | BPF_OR | BPF_K:
      case BPF_ALU | BPF_OR | BPF_X:
      case BPF_ALU | BPF_XOR | BPF_K:
      case BPF_ALU | BPF_XOR | BPF_X:
      case BPF_ALU | BPF_LSH | BPF_X:
      case BPF_ALU | BPF_RSH | BPF_X: break;
      case BPF_ALU | BPF_DIV | BPF_K:
        if (instruction.k == 0) return refused(i, "divides by zero");
        break;
      case BPF_ALU | BPF_LSH | BPF_K:
      case BPF_ALU | BPF_RSH | BPF_K:
        if (instruction.k >= 32) return refused(i, "shifts by " + std::to_string(instruction.k));
        break;
      case BPF_ST:
      case BPF_STX:
      case BPF_LD | BPF_MEM:
      case BPF_LDX | BPF_MEM:
        if (instruction.k >= BPF_MEMWORDS) return refused(i, "names scratch word " + std::to_string(instruction.k));
        break;
      case BPF_JMP | BPF_JA:
        if (instruction.k >= left) return refused(i, "jumps behind the end");
        break;
      default:
        if (!is_branch(instruction.code)) return refused(i, "has the unknown code " + std::to_string(instruction.code));
        if (instruction.jt >= left || instruction.jf >= left) return refused(i, "jumps behind the end");
        break;
    }
  }
  const uint16_t last = program.back().code;
  if (last != (BPF_RET | BPF_K) && last != (BPF_RET | BPF_A)) return refused(program.size() - 1, "is the last and no return");
  return check_memory(program);
}

Result<uint32_t> evaluate(std::span<const sock_filter> program, const seccomp_data& data) {
  SBX_TRY(check_program(program));
  uint32_t a = 0;
  uint32_t x = 0;
  std::array<uint32_t, BPF_MEMWORDS> memory{};
  // Jumps go forward only and the last instruction returns: the loop ends.
  for (size_t i = 0;; ++i) {
    const sock_filter& instruction = program[i];
    const uint32_t k = instruction.k;
    const auto branch = [&](bool taken) { i += taken ? instruction.jt : instruction.jf; };
    switch (instruction.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        std::memcpy(&a, reinterpret_cast<const unsigned char*>(&data) + k, sizeof a);
        break;
      case BPF_LD | BPF_W | BPF_LEN: a = sizeof(seccomp_data); break;
      case BPF_LDX | BPF_W | BPF_LEN: x = sizeof(seccomp_data); break;
      case BPF_LD | BPF_IMM: a = k; break;
      case BPF_LDX | BPF_IMM: x = k; break;
      case BPF_LD | BPF_MEM: a = memory[k]; break;
      case BPF_LDX | BPF_MEM: x = memory[k]; break;
      case BPF_ST: memory[k] = a; break;
      case BPF_STX: memory[k] = x; break;
      case BPF_MISC | BPF_TAX: x = a; break;
      case BPF_MISC | BPF_TXA: a = x; break;
      case BPF_RET | BPF_K: return k;
      case BPF_RET | BPF_A: return a;
      case BPF_ALU | BPF_NEG: a = 0 - a; break;
      case BPF_ALU | BPF_ADD | BPF_K: a += k; break;  // NOLINT(misc-redundant-expression)
      case BPF_ALU | BPF_ADD | BPF_X: a += x; break;
      case BPF_ALU | BPF_SUB | BPF_K: a -= k; break;
      case BPF_ALU | BPF_SUB | BPF_X: a -= x; break;
      case BPF_ALU | BPF_MUL | BPF_K: a *= k; break;
      case BPF_ALU | BPF_MUL | BPF_X: a *= x; break;
      case BPF_ALU | BPF_DIV | BPF_K: a /= k; break;
      case BPF_ALU | BPF_DIV | BPF_X:
        if (x == 0) return uint32_t{0};  // the kernel ends the program with 0, which kills the thread
        a /= x;
        break;
      case BPF_ALU | BPF_AND | BPF_K: a &= k; break;
      case BPF_ALU | BPF_AND | BPF_X: a &= x; break;
      case BPF_ALU | BPF_OR | BPF_K: a |= k; break;
      case BPF_ALU | BPF_OR | BPF_X: a |= x; break;
      case BPF_ALU | BPF_XOR | BPF_K: a ^= k; break;
      case BPF_ALU | BPF_XOR | BPF_X: a ^= x; break;
      // By X the kernel shifts modulo 32, as its own instruction set says.
      case BPF_ALU | BPF_LSH | BPF_K: a <<= k; break;
      case BPF_ALU | BPF_LSH | BPF_X: a <<= (x & 31); break;
      case BPF_ALU | BPF_RSH | BPF_K: a >>= k; break;
      case BPF_ALU | BPF_RSH | BPF_X: a >>= (x & 31); break;
      case BPF_JMP | BPF_JA: i += k; break;
      case BPF_JMP | BPF_JEQ | BPF_K: branch(a == k); break;
      case BPF_JMP | BPF_JEQ | BPF_X: branch(a == x); break;
      case BPF_JMP | BPF_JGE | BPF_K: branch(a >= k); break;
      case BPF_JMP | BPF_JGE | BPF_X: branch(a >= x); break;
      case BPF_JMP | BPF_JGT | BPF_K: branch(a > k); break;
      case BPF_JMP | BPF_JGT | BPF_X: branch(a > x); break;
      case BPF_JMP | BPF_JSET | BPF_K: branch((a & k) != 0); break;
      case BPF_JMP | BPF_JSET | BPF_X: branch((a & x) != 0); break;
      default: return Error(ErrorKind::internal, "the evaluator lacks an instruction that the checker knows");
    }
  }
}

}  // namespace sbx::seccomp
