// The supervisor of one session: one sandbox, one driver in it, one socket; until it is stopped, its time is over, or
// somebody kills it, which ends the sandbox as well.
//
// Theory of operation. One epoll loop, no threads. Clients connect to the socket and ask for one thing each
// (session/wire.h). A cell goes to the driver by frames (docs/session-protocol.md); cells wait in a queue for each other.
// What a cell prints comes through two pipes that the driver holds for its whole life; a frame is noted when both have
// been read empty, so the order of text and outputs is kept. Where the language has no driver, a cell is a program of its own
// in the same sandbox, as everything is that `exec` starts.
//
// A client that reads slowly stops the pipe, and with it the program; one that goes away interrupts what it asked for.
// Ending a cell: SIGINT to the driver's process group, and when that has no effect in time, the end of every process in
// the sandbox and a new driver. A limit of memory or CPU time does the latter at once. Files stay in either case.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "policy/host_facts.h"
#include "runtime/session_ground.h"
#include "session/place.h"

namespace sbx::session {

struct HostOptions {
  std::string name;
  std::optional<Millis> ttl, idle;
  std::string warm;          // started ahead, for whoever asks for exactly this; used once. "": in use at once
  Millis grace{3000};        // from the interrupt to the end of everything
  Millis start{120000};      // until the driver is ready: with what it imports beforehand, on a slow machine
  bool changes = false;      // the working directory can be written: tell what cells changed in it
  std::function<void()> entered = nullptr;  // called once it has its entry in the place
  std::function<int64_t()> now_ms;  // for ttl and idle; milliseconds that go on in suspend. Empty: CLOCK_BOOTTIME
};

// Returns when the session is over and nothing is left of it. `ready` is called when it can be used; where that fails, it ends. An Error: it never
// came to that. Process-wide: ignores SIGPIPE, and reads TERM, INT and HUP from a descriptor: the first two stop it.
Status host_session(runtime::SessionGround& ground, const HostFacts& facts, const SessionPlace& place, const HostOptions& options,
                    const std::function<Status(const SessionRecord&)>& ready);

}  // namespace sbx::session
