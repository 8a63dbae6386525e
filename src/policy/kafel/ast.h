// A Kafel text as a tree, constants already put in place of their names. Calls and arguments are still names: which of
// them exist is lower.h's business.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "policy/syscall_rules.h"

namespace sbx::kafel {

// From 1; columns count bytes.
struct Place {
  uint32_t line = 1;
  uint32_t column = 1;
};

struct Value {
  enum class Kind { number, argument, bit_and, bit_or };
  Kind kind = Kind::number;
  Place at;
  uint64_t number = 0;
  std::string argument;
  std::vector<Value> parts;  // bit_and, bit_or: as many as a chain of the same operator has
};

enum class Comparison { equal, not_equal, less, less_equal, greater, greater_equal };

struct Condition {
  enum class Kind { compare, negation, all, any };
  Kind kind = Kind::compare;
  Comparison op = Comparison::equal;
  std::vector<Value> sides;      // compare: two
  std::vector<Condition> parts;  // negation: one; all, any: as many as a chain has
};

struct CallName {
  Place at;
  std::string name;                // empty: by number
  std::optional<uint32_t> number;  // SYSCALL[n], or a constant
  // "read(a, b)": names that replace those of the table.
  std::optional<std::vector<std::string>> arguments;
};

// Bits of the names that ON takes.
enum Architecture : unsigned {
  kArm = 1 << 0,
  kAarch64 = 1 << 1,
  kX86_64 = 1 << 2,
  kX86 = 1 << 3,
  kMips = 1 << 4,
  kMips64 = 1 << 5,
  kRiscv64 = 1 << 6,
  kM68k = 1 << 7,
};

struct Rule {
  CallName call;
  unsigned architectures = ~0u;  // of Architecture
  std::optional<Condition> condition;
};

struct Entry {
  std::optional<size_t> use;  // index of a policy that stands before this one; else a block of rules
  SyscallVerdict verdict;     // of the block
  std::vector<Rule> rules;
};

struct Policy {
  std::string name;
  std::vector<Entry> entries;
};

struct Program {
  std::vector<Policy> policies;
  std::vector<Entry> entries;  // what stands at the top level: the program proper
  std::optional<SyscallVerdict> otherwise;
};

}  // namespace sbx::kafel
