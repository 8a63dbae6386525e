// What one supervisor holds: what is asked for, who asked, and the programs that run. Plain data; host_parts.h says who
// changes them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "base/units.h"
#include "runtime/artifacts.h"
#include "runtime/cgroup.h"
#include "runtime/denials.h"
#include "runtime/outcome.h"
#include "runtime/session_ground.h"
#include "session/json.h"
#include "session/wire.h"

namespace sbx::session {

// What is asked for: a cell, or a program.
struct Job {
  uint64_t id = 0;
  uint64_t client = 0;       // 0: it went away
  bool exec = false;
  std::string code;
  bool has_input = false;    // its client feeds its stdin, a piece at a time
  bool want_result = false;  // streams and files are wanted
  bool streams_inside = false;
  Millis timeout;
  bool no_timeout = false;

  std::vector<runtime::CellStep> steps;  // programs, one after the other
  size_t step = 0;
  uint64_t program = 0;      // the one that runs; 0: the driver
  bool started = false;
  int64_t number = 0;        // of the cell
  uint64_t began_ns = 0;
  runtime::CgroupCounts counts_before;
  std::string fifo_name;     // of the pipe that the driver is about to open, beneath the root
  UniqueFd fifo;             // it: O_PATH
  std::optional<int64_t> fifo_again_ms;
  UniqueFd input;            // where its stdin is written
  UniqueFd input_end;        // what it reads, of a driver that is handed it
  std::string to_input;
  bool input_asked = false, input_ends = false, input_watched = false;
  std::optional<int64_t> deadline_ms, grace_ms;
  std::optional<int64_t> again_ms;  // when the driver gets its next SIGINT
  std::optional<runtime::Verdict> forced;
  int caught_signal = 0;
  bool over[3] = {};
  runtime::StreamResult streams[3];
  struct Segment {
    int stream;
    size_t begin, end;       // in kept
    size_t output;           // SIZE_MAX: text; else an index in `outputs`
  };
  std::vector<Segment> segments;
  std::vector<std::string> outputs;  // each as JSON
  bool clear_pending = false;
  uint64_t dropped = 0;
  std::string tail;
  runtime::Baseline before;
  bool has_before = false;
  std::vector<std::string> hints;
};

// Who asks, over the socket.
struct Client {
  UniqueFd fd;
  MessageReader reader{kMaxRequest};
  std::string pending;
  size_t sent = 0;
  bool asked = false;        // its request has come
  std::optional<Json> request;  // waits for its code
  Job* job = nullptr;        // borrowed
  uint32_t watched = 0;
  bool ended = false;        // close when everything is sent
  size_t backlog() const { return pending.size() - sent; }
};

// One that runs in the sandbox: the driver, a cell's where there is none, or one of `exec`.
struct Program {
  pid_t pid = 0;
  UniqueFd out, err;
  bool out_watched = false, err_watched = false;
  std::optional<runtime::DenialLog> denials;
  int64_t denials_resume_ms = 0;
  std::vector<runtime::Denial> denied;
  Job* job = nullptr;        // borrowed: who gets what it prints
};

}  // namespace sbx::session
