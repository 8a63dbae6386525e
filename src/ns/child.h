// The child between clone and exec. See the rules in the head of child.cc.
#pragma once

#include "ns/plan.h"

namespace sbx::ns {

// What steps leave for later ones.
struct StepRun {
  int kept[kMaxKept] = {-1, -1, -1, -1, -1, -1, -1, -1};
  int base = -1;
  int scratch = -1;
  uint32_t layers = 0;  // mounts that have become the new root, one upon the other
  StepPart part = StepPart::act;
  char text[256] = {};
};

// Performs one step. The new root is the working directory, "/" still the old one. 0 or -errno; run.part then says at
// what. Allocates nothing, makes raw system calls only.
long perform_step(const Step& step, StepRun& run) noexcept;

// The loopback interface of this network namespace gets its addresses. 0 or -errno.
long bring_loopback_up() noexcept;

// Becomes init of the sandbox: performs the plan, forks the payload, reaps, leaves by _exit. Runs in the child of
// clone3(); never returns, never allocates, makes raw system calls only.
[[noreturn]] void run_child(const ChildPlan& plan) noexcept;

// Becomes the payload itself, as plan.direct says. Under the same rules.
[[noreturn]] void run_direct(const ChildPlan& plan) noexcept;

}  // namespace sbx::ns
