// The child between clone and exec. See the rules in the head of child.cc.
#pragma once

#include "ns/plan.h"

namespace sbx::ns {

// Becomes init of the sandbox: performs the plan, forks the payload, reaps, leaves by _exit. Runs in the child of
// clone3(); never returns, never allocates, makes raw system calls only.
[[noreturn]] void run_child(const ChildPlan& plan) noexcept;

// Becomes the payload itself, as plan.direct says. Under the same rules.
[[noreturn]] void run_direct(const ChildPlan& plan) noexcept;

}  // namespace sbx::ns
