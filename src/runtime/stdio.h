// The payload's three streams: pipes (or a pty of ours) pumped by the supervisor, live and byte-exact, neither
// blocked by the other; counted against the output limit; captured where asked.
//
// Theory of operation. prepare() makes, for each stream, what the payload will hold (child_fd) and what we keep.
// Pipes and never the caller's own descriptors: a payload could reopen those through /proc/self/fd with more rights.
// A pipe's payload end is fchown()ed to the payload's host uid by the caller of prepare() in the root case, so that
// /dev/stdout can be reopened inside. After the launch close_child_ends(); then the supervisor's epoll loop calls
// on_ready() for every event whose tag belongs here. After the sandbox is dead drain() reads what is left in the
// pipes and writes it out; finish() gives read-ahead input back to a seekable stdin (lseek by what the payload did
// not read) and restores the terminal.
//
// The forward targets may be slow, non-blocking (O_NONBLOCK is never set on the caller's descriptions: they are
// shared with other processes) or closed: EPIPE on a target drops that target and from then on the payload sees
// EPIPE/SIGPIPE, as it would without sbx.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "runtime/outcome.h"
#include "runtime/sandbox.h"

namespace sbx::runtime {

class Stdio {
 public:
  // output_limit: bytes per stream, 0: none.
  static Result<std::unique_ptr<Stdio>> prepare(const StdioPlan& plan, uint64_t output_limit);
  virtual ~Stdio() = default;

  // What the child shall have as 0, 1, 2; -1 where the stream is the pty (it does not exist before the child opened
  // it) or, for stdin, where it is empty (the child opens /dev/null). Owned by this object until close_child_ends().
  virtual int child_fd(int stream) const = 0;
  virtual bool needs_pty() const = 0;
  // The child's ends of the pipes, to be fchown()ed.
  virtual std::vector<int> pipe_fds() const = 0;
  virtual void close_child_ends() = 0;
  // The master side that the child made in the sandbox's own devpts. Sets raw mode on the caller's terminal and copies
  // its window size.
  virtual Status attach_pty(UniqueFd master) = 0;

  // Registers descriptors with the epoll instance; epoll_data.u64 is tag_base + small number.
  virtual Status register_with(int epoll_fd, uint64_t tag_base) = 0;
  virtual void on_ready(uint64_t tag, uint32_t events) = 0;
  virtual void on_window_size_change() = 0;  // SIGWINCH
  // Terminal job control: before sbx stops itself, and after it was continued.
  virtual void suspend_terminal() = 0;
  virtual void resume_terminal() = 0;

  // True as soon as a stream passed the limit (which: 1 or 2); the output up to the limit is kept.
  virtual int over_limit() const = 0;

  // The sandbox is dead: everything still in flight is written out. Bounded: a target that blocks for more than
  // `grace_ms` altogether is given up.
  virtual void drain(int grace_ms) = 0;
  virtual void finish() = 0;
  virtual StreamResult result(int stream) = 0;  // 1 or 2; moves the captured bytes out
  virtual std::string stderr_tail() const = 0;  // last 4 KiB
};

}  // namespace sbx::runtime
