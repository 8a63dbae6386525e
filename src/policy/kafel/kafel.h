// Kafel, the language of nsjail's system call policies: text to rules that seccomp/compile takes. The language as
// people write it stands in docs/kafel.md.
//
// The text is hostile: its bytes, the nesting of its expressions and the number of its rules are bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "policy/syscall_rules.h"

namespace sbx::kafel {

inline constexpr size_t kMaxBytes = size_t{1} << 20;
inline constexpr unsigned kMaxDepth = 200;  // of an expression
inline constexpr size_t kMaxRules = size_t{1} << 15;

// Numbers, names and arguments of system calls are an architecture's own.
enum class Machine { x86_64, aarch64 };
// That of this build.
Machine native_machine();

struct Options {
  // Stands for the text in messages and in the origins of rules: "NAME:LINE:COLUMN".
  std::string name = "kafel";
  Machine machine = native_machine();
  // Says otherwise where a line and column of the text are (both from 1): for a text inside another document.
  std::function<std::string(uint32_t line, uint32_t column)> place = {};
};

// The rules of the text for one architecture, in its order; what no rule decides is `otherwise`: its DEFAULT, or kill
// the thread. `unknown` is never set: DEFAULT is for every number. USER_NOTIF becomes errno ENOSYS, the kernel's answer
// where nobody listens. Errors: policy, with the place as origin and often a hint.
Result<SyscallRules> compile(std::string_view text, const Options& options = {});

}  // namespace sbx::kafel
