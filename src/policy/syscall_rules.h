// System call rules as data: what a filter shall decide, without any library's types. seccomp/compile turns it into
// BPF; policy parses it from TOML and from Kafel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sbx {

enum class SyscallAction {
  allow,
  errno_value,  // answer -errno
  notify,       // answer EPERM and report (needs a listener; compiled as errno EPERM without one)
  kill,         // SIGSYS, the whole process
  log,          // allow and log
  kill_thread,  // the calling thread alone
  trap,         // SIGSYS that the program may handle
  trace,        // a tracer of the payload decides; ENOSYS without one
};

struct SyscallVerdict {
  SyscallAction action = SyscallAction::allow;
  uint16_t errnum = 0;  // for errno_value; trap, trace: the number that the handler or the tracer is given
  bool operator==(const SyscallVerdict&) const = default;
};

// One test on a 64-bit argument; a rule holds when all its tests hold.
struct ArgumentTest {
  // start: not about one argument; holds for the call that starts the payload, and never afterwards (seccomp/start_key.h).
  enum class Op { equal, not_equal, less, less_equal, greater, greater_equal, masked_equal, masked_not_equal, any_bit, start };
  unsigned index = 0;  // 0..5
  Op op = Op::equal;
  uint64_t mask = ~uint64_t{0};  // for masked_equal/masked_not_equal ((arg & mask) == value), any_bit ((arg & mask) != 0)
  uint64_t value = 0;
  bool low32 = false;  // compare only the low 32 bits: what the kernel reads for an int argument
  bool operator==(const ArgumentTest&) const = default;
};

// A number made of arguments and constants.
struct ArgumentValue {
  enum class Kind { constant, argument, bit_and, bit_or };
  Kind kind = Kind::constant;
  uint64_t constant = 0;
  unsigned index = 0;                // argument: 0..5
  std::vector<ArgumentValue> parts;  // bit_and, bit_or: two or more
  bool operator==(const ArgumentValue&) const = default;
};

// What a list of tests cannot say: either this or that, two arguments compared with each other, an order of masked bits.
struct ArgumentCondition {
  enum class Kind {
    test,
    compare,  // sides[0] OP sides[1], OP one of equal … greater_equal
    all,      // of the parts
    any,
  };
  Kind kind = Kind::test;
  ArgumentTest test;                     // compare: its op and low32 alone count
  std::vector<ArgumentValue> sides;      // compare: two
  std::vector<ArgumentCondition> parts;  // all, any: two or more
  bool operator==(const ArgumentCondition&) const = default;
};

struct SyscallRule {
  std::string name;  // kernel name; unknown names are an error, names absent on an architecture are not
  std::vector<ArgumentTest> tests;
  SyscallVerdict verdict;
  std::string group;   // the group it stands in, for messages
  std::string origin;  // file:line
  // Hold besides the tests.
  std::vector<ArgumentCondition> conditions = {};
  // Set: the rule is about this number of the architecture at hand, whatever it is called; `name`, where it has one, is
  // for messages.
  std::optional<uint32_t> number = std::nullopt;
  bool operator==(const SyscallRule&) const = default;
};

// Rules of one name are tried in order, the first that holds decides; then `otherwise`.
struct SyscallRules {
  std::vector<SyscallRule> rules;
  SyscallVerdict otherwise{SyscallAction::errno_value, 1};
  // The answer for numbers that nobody has a name for: calls newer than this build, which programs probe and fall
  // back from only when told ENOSYS. Nothing: the same as `otherwise`.
  std::optional<SyscallVerdict> unknown;
  bool operator==(const SyscallRules&) const = default;
};

}  // namespace sbx
