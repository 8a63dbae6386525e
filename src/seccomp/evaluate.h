// A classic-BPF interpreter for seccomp programs, in user space: tests decide with it without loading anything, and
// explain asks it what the filter would answer.
#pragma once

#include <linux/seccomp.h>

#include <cstdint>
#include <span>

#include "base/result.h"
#include "seccomp/bpf_program.h"

namespace sbx::seccomp {

// The SECCOMP_RET_* value (action and data). Errors: internal, for a program that the kernel would not load.
Result<uint32_t> evaluate(std::span<const sock_filter> program, const seccomp_data& data);

}  // namespace sbx::seccomp
