// The payload's three streams: pipes (or a pty of ours) pumped by the supervisor, live and byte-exact, neither
// blocked by the other; counted against the output limit; captured where asked.
//
// Theory of operation. prepare() makes, for each stream, what the payload will hold (child_fd) and what we keep.
// Pipes and never the caller's own descriptors: a payload could reopen those through /proc/self/fd with more rights.
// A pipe's payload end is fchown()ed to the payload's host uid by the caller of prepare() in the root case, so that
// /dev/stdout can be reopened inside. After the launch close_child_ends(); then the supervisor's epoll loop calls
// on_ready() for every event whose tag belongs here. After the sandbox is dead drain() reads what is left in the
// pipes and writes it out; finish() gives read-ahead input back and restores the terminal.
//
// Output. Data go payload -> pipe (1 MiB where allowed) -> 64 KiB buffer of ours -> target; a stream that is only
// forwarded is spliced. Every wait happens in the caller's epoll, never in a write: O_NONBLOCK is never set on the
// caller's descriptions (they are shared with other processes); instead pipes are written with RWF_NOWAIT or through a
// non-blocking description of our own (/proc/self/fd), sockets with MSG_DONTWAIT, and where nothing of that works at
// most PIPE_BUF bytes are written after a poll. Regular files are written plainly: a slow disk does stall the loop.
// Where both streams have the same target (2>&1) and neither is captured, the payload gets one pipe for both, so that
// their order is kept; it counts as stdout. Otherwise the order between them is kept only as far as their readiness
// tells. A target that is closed already (`>&-`) swallows the stream.
//
// A target whose reader is gone (EPIPE, or the hang-up of an anonymous pipe even before the payload writes) is dropped
// and our end of the payload's pipe closed: from then on the payload sees EPIPE/SIGPIPE, as it would without sbx. Any
// other failure (a full disk) does the same and is kept in forward_status().
//
// Input. A pump from the caller's descriptor into a pipe, no further ahead than pipe and buffer hold, and what the
// payload did not read is not taken from the caller, so that a shell loop around sbx works:
//   - a seekable stdin is read with pread; finish() advances the shared offset by exactly what the payload read;
//   - of a pipe nothing is taken before the payload reads: tee(2) shows it a page at a time, and what it has read is then
//     removed from the caller's pipe. After 64 KiB of that the stream is pumped plainly, and 128 KiB of read-ahead may
//     be lost when the payload ends early. (Another process reading the same pipe meanwhile may see bytes twice.)
//   - terminals, sockets and devices are read ahead and nothing can be given back.
// When the payload closes its stdin, pumping stops and our duplicate is closed; the borrowed stdin_fd stays open, so a
// writer there sees SIGPIPE only when the owner closes it.
//
// Pty. Streams marked tty share one pty that the child opens in the sandbox's own devpts and sets up as pty_setup() says;
// the others stay pipes. Its output goes where stdout goes, and counts (limit, capture, tail) as stdout; to where stderr
// goes, as stderr, when only that is a tty; to terminal_fd when neither is (the echo of stdin). With stdin a tty and a
// terminal of the caller's, that one is raw and what is typed goes to the master: the inner line discipline does echo,
// Ctrl-C and Ctrl-Z. Not raw, and line-wise, when the pty's output goes to no terminal or stdout is a pipe or socket:
// another program of that pipeline (a pager) may own the terminal; while one has it out of line mode nothing is read. In
// the background the terminal is neither read nor changed; a timer looks every 200 ms whether that is over.
//
// A stdin that is no terminal can be the pty's input as well: it goes through the input pump's pipe to the master, no
// further ahead than the terminal takes it, and its end becomes the end-of-file key (twice after a last line without
// its end: the first key only ends that line). Then nothing is echoed, and what the terminal took is not given back.
//
// The caller of this class must ignore SIGPIPE (and SIGXFSZ, when an RLIMIT_FSIZE may be set), must have descriptors 0,
// 1 and 2 open (or stand-ins there) before prepare(), and must keep the epoll instance until finish().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "ns/plan.h"
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
  // How the child sets up the pty before the payload can see it: like the caller's terminal at prepare().
  virtual ns::TerminalSetup pty_setup() const = 0;
  // The master side that the child made in the sandbox's own devpts. Sets raw mode on the caller's terminal and copies
  // its window size, should it have changed.
  virtual Status attach_pty(UniqueFd master) = 0;

  // Registers descriptors with the epoll instance; epoll_data.u64 is tag_base + small number.
  virtual Status register_with(int epoll_fd, uint64_t tag_base) = 0;
  virtual void on_ready(uint64_t tag, uint32_t events) = 0;
  // Whether all that was to be registered is: a stream that nobody watches would stand still.
  virtual Status watch_status() const = 0;
  virtual void on_window_size_change() = 0;  // SIGWINCH
  // A shell can stop and continue us at the caller's terminal.
  virtual bool has_job_control() const = 0;
  // Terminal job control: before sbx stops itself, and after it was continued.
  virtual void suspend_terminal() = 0;
  virtual void resume_terminal() = 0;

  // True as soon as a stream passed the limit (which: 1 or 2); the output up to the limit is kept.
  virtual int over_limit() const = 0;

  // The sandbox is dead: everything still in flight is written out. Bounded: a target that blocks for more than
  // `grace_ms` altogether is given up.
  // `grace_ms` < 0: as long as it takes, as any filter does whose reader is slow (a pager). In any case returns early
  // when `interrupt_fd` (a signalfd; not read here) becomes readable. Only what is in the pipes at the start is read:
  // somebody who still holds a payload's end cannot prolong it; a pty is waited for at most 1 s until it hangs up.
  virtual void drain(int grace_ms, int interrupt_fd = -1) = 0;
  // Idempotent, also done by the destructor. Nothing is pumped afterwards; the results stay.
  virtual void finish() = 0;
  virtual StreamResult result(int stream) = 0;  // 1 or 2; moves the captured bytes out
  virtual std::string stderr_tail() const = 0;  // last 4 KiB; of a pty when stderr is one (then with stdout mixed in)
  // Why output of stream 1 or 2 did not reach its target, except for a reader that went away (EPIPE): a full disk,
  // a target given up by drain(). Stands in result() too.
  virtual Status forward_status(int stream) const = 0;
};

}  // namespace sbx::runtime
