// Outcome: what became of one sandbox, from kernel facts only (wait status, our own timers, limits, the tmpfs), never
// from the payload's text. First cause wins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/units.h"

namespace sbx::runtime {

enum class Verdict {
  exited,
  signaled,
  timed_out,       // wall
  cpu_time,
  out_of_memory,
  output_limit,
  denied,          // killed by the filter
  killed,          // a signal sent to sbx ended it
  compile_failed,
  setup_failed,    // nothing ran
};
const char* verdict_name(Verdict verdict);

struct LimitHit {
  std::string name;         // "memory", "wall", "disk" …
  std::string value;        // as a person writes it: "1G"
  std::string origin;       // "default policy", "flag --memory"
  std::string enforced_by;  // "cgroup", "sampling", "tmpfs", "rlimit", "timer", "pump"
  uint64_t count = 1;
};

struct StreamResult {
  uint64_t total_bytes = 0;  // what the payload wrote (up to the limit)
  std::string kept;          // captured bytes; empty when the stream was only forwarded
  bool captured = false;
  bool truncated = false;
  bool joined = false;       // stderr only: one pipe with stdout, and counted there
  // Why not all of it reached its target; a reader that went away (EPIPE) is no such reason.
  std::optional<Error> forward_error;
};

struct Usage {
  Micros wall;
  std::optional<Micros> user;
  std::optional<Micros> system;
  std::optional<Bytes> peak_memory;
  std::string peak_memory_note;  // why null, or how exact
  std::optional<uint64_t> peak_pids;
  std::string peak_pids_note;
};

// A system call that the filter refused, and reported.
struct Denial {
  std::string call;     // "ptrace"
  std::string group;    // which of the shipped groups it is in: "debug"; "" : none, or nobody asked for a result
  uint64_t arguments[6] = {};  // of the first one
  std::string process;  // name of the first one's process, as it calls itself: the payload's to choose
  int pid = 0;          // of the first one, inside
  uint64_t count = 0;
};

struct StageTime {
  std::string stage;
  Micros duration;
};

// What stood between payload and host in this run.
struct Isolation {
  std::vector<std::string> namespaces;  // "user", "mount", …
  std::string identity;                 // "own host uid", "caller's uid in a user namespace"
  std::string network;                  // "none", "host"
  std::string seccomp_policy;           // "default"
  std::string seccomp_digest;           // sha256 of the loaded program, hex
  int landlock_abi = 0;                 // 0: not in force
  std::string landlock_note;
  std::vector<std::pair<std::string, std::string>> limits_held_by;  // {"memory", "sampling every 20 ms"}
  std::vector<std::string> not_held;    // sentences: what could not be enforced here
};

struct Outcome {
  Verdict verdict = Verdict::setup_failed;
  int exit_code = 0;  // the payload's own, when it exited
  int signal = 0;     // the payload's, when a signal ended it; for `killed` the signal sent to sbx
  std::vector<LimitHit> limits_hit;
  std::vector<Denial> denials;   // in the order of their first time
  std::string denials_note;      // why denials are not known, or not all of them
  StreamResult out;
  StreamResult err;
  std::string stderr_tail;  // last 4 KiB of stderr, kept even when only forwarded: for hints
  Usage usage;
  std::vector<StageTime> setup_times;
  Isolation isolation;
  std::optional<Error> setup_error;
};

// The exit status of `sbx run` and `sbx exec` for this outcome (design section 4): the payload's own; 128+N for
// signal N; 124 wall or CPU time; 137 memory or output; 159 denied; 128+N when signal N ended sbx; 125 set-up
// failed, 126 not executable, 127 command not found, 2 wrong usage or policy (by setup_error's kind). Where that is 0 but output of the payload
// could not be passed on: 1.
int exit_status(const Outcome& outcome);

}  // namespace sbx::runtime
