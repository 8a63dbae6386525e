// A system call as people write it: "ptrace(PTRACE_TRACEME)", "clone(CLONE_NEWUSER|SIGCHLD)", "socket(AF_INET, SOCK_RAW)".
// Only arguments that tell what was wanted and lie in registers; memory is never read. For messages, so a value without
// a name stands there as a number, and a call without a row as "add_key()".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sbx::seccomp {

std::string describe_call(std::string_view call, std::span<const uint64_t, 6> arguments);

}  // namespace sbx::seccomp
