// Why a system call was refused, and what would allow it: the words that stand in the result and in hints.
//
// The filter decided when the call was made; this only finds the rule again, from the same texts. So it costs a run
// without refused calls nothing, and nothing here lets a call pass.
#pragma once

#include <string>
#include <vector>

#include "policy/spec.h"
#include "runtime/outcome.h"

namespace sbx::runtime {

// Fills in the words of each denial. Where the shipped texts cannot be read (they are embedded, so never) they stay "".
void explain_denials(const SandboxSpec& spec, std::vector<Denial>& denials);

// "denied: ptrace(PTRACE_TRACEME) by python3 (pid 3), rule "debug" of policy default; allow it with --allow-syscall
// ptrace"; with ", 3 times" where it was tried more often. Printable, one line.
std::string denial_line(const Denial& denial);

}  // namespace sbx::runtime
