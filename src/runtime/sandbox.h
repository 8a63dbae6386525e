// The engine's facade: one SandboxSpec in, one Outcome out. Every front end comes through here.
//
// Re-entrant; process-wide state: none but what `SignalGuard` in supervise.cc documents.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "policy/host_facts.h"
#include "policy/spec.h"
#include "runtime/outcome.h"

namespace sbx::runtime {

class CgroupParent;
class Progress;

// Where an output stream of the payload goes. Both may be set.
struct OutputPlan {
  int forward_fd = -1;      // borrowed; -1: not forwarded
  bool capture = false;
  size_t capture_limit = size_t{64} << 20;  // bytes kept; beyond: truncated
  bool tty = false;         // this stream of the payload is the terminal of ours
  std::function<void()> before_first;  // called once, before anything is forwarded
};

struct StdioPlan {
  int stdin_fd = -1;        // borrowed; -1: the payload's stdin is empty
  bool stdin_tty = false;   // the payload's stdin is the terminal of ours; stdin_fd need not be one
  OutputPlan out;
  OutputPlan err;
  int terminal_fd = -1;     // the caller's terminal, whose size and modes ours takes over; -1: there is none
};

struct RunOptions {
  StdioPlan stdio;
  bool forward_signals = true;  // TERM, INT, HUP sent to us reach the payload; a second one kills
  // Directories inside whose descriptors shall come back (artifact collection): targets of private directories and
  // overlays. An overlay's descriptor is that of its upper directory.
  std::vector<std::string> keep_directories;
  // Where the sandbox's cgroup is made; borrowed. nullptr, or what has no controllers: sampling and rlimits hold the
  // limits (outcome.isolation says what did).
  CgroupParent* cgroups = nullptr;
  Progress* progress = nullptr;  // borrowed: shown while we wait
  // Above 0: the payload's descriptor 3 is a socket, and what it writes there is kept, up to so many bytes.
  size_t side_limit = 0;
  std::function<void(const std::string&)> show_call;  // every system call of the set-up, before it is made (-vv)
  std::function<void()> ended;  // called when the sandbox is dead, and before what it stood on is taken apart
};

struct RunResult {
  Outcome outcome;
  // Still readable although the sandbox is dead; same order as keep_directories, invalid where there is none.
  std::vector<UniqueFd> kept_directories;
  std::string side;  // see RunOptions::side_limit
};

// Runs the sandbox to its end: when this returns, no process of it exists. Never fails without an Outcome:
// everything that goes wrong before the payload runs is Verdict::setup_failed with setup_error.
RunResult run_sandbox(const SandboxSpec& spec, const HostFacts& facts, const RunOptions& options);

}  // namespace sbx::runtime
