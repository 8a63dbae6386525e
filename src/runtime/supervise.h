// The supervisor's loop: one epoll over the pidfd, timers, signals and streams of one launched sandbox; no threads.
#pragma once

#include <optional>
#include <string>

#include "runtime/launch.h"
#include "runtime/outcome.h"
#include "runtime/sandbox.h"
#include "runtime/signal_guard.h"
#include "runtime/stdio.h"

namespace sbx::runtime {

struct SuperviseInput {
  const SandboxSpec* spec = nullptr;
  Launched* launched = nullptr;
  Stdio* stdio = nullptr;
  const SandboxCgroup* cgroup = nullptr;  // nullptr: everything by looking at the tree
  bool sample_memory = false;     // no controller holds memory: look at the tree
  int space_slot = -1;            // the slot whose descriptor lies on the private tmpfs
  SignalGuard* signals = nullptr;  // borrowed; made before the launch
  Progress* progress = nullptr;   // borrowed; nullptr: none
  int side = -1;                  // borrowed: our end of RunOptions::side_limit's pair
  size_t side_limit = 0;
};

// Why and how it ended, before it is put into words.
struct SuperviseResult {
  bool ran = false;               // exec happened
  std::optional<Verdict> forced;  // we ended it, for this reason; the first reason wins
  int caught_signal = 0;          // the first signal sent to sbx
  bool payload_ended = false;
  int wait_status = 0;
  std::vector<LimitHit> limits_hit;
  std::vector<Denial> denials;
  bool denials_overflowed = false;
  bool listening = false;         // denials were reported
  struct rusage usage {};
  Micros wall;
  CgroupCounts counts;            // the kernel's own, at the end
  uint64_t peak_bytes = 0;        // by sampling
  uint64_t peak_threads = 0;
  bool sampled = false;
  uint64_t exec_ns = 0;           // CLOCK_MONOTONIC
  std::vector<UniqueFd> handed_over;
  std::string side;
  std::optional<Error> error;     // of the supervisor's own
};

// Returns when no process of the sandbox exists any more and its output has been written out.
SuperviseResult supervise(const SuperviseInput& input);

}  // namespace sbx::runtime
