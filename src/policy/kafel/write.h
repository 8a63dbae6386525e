// Rules as Kafel, for nsjail and for reading. A pure function: the text compiles to rules that decide the same for every
// call of the machine, but for what is said to be missing.
#pragma once

#include "policy/kafel/kafel.h"
#include "policy/syscall_rules.h"
#include "policy/unsaid.h"

namespace sbx::kafel {

WrittenPolicy write(const SyscallRules& rules, Machine machine = native_machine());

}  // namespace sbx::kafel
