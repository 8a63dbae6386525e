// The caller's terminal: raw mode and its way back, who owns it at the moment, its size.
//
// The payload never holds this terminal (TIOCSTI types into it, tcsetattr changes it even after setsid): it has a pty
// of its own, and the supervisor carries bytes between the two. While it does, the caller's terminal is raw, so that
// echo, line editing, Ctrl-C and Ctrl-Z are the inner terminal's business.
//
// Job control. A process that is not in the terminal's foreground process group must neither read (SIGTTIN) nor set
// attributes (SIGTTOU): the kernel would stop us, and the attributes belong to somebody else then. So every call here
// asks first. A terminal that is not our controlling terminal knows no foreground for us (tcgetpgrp: ENOTTY): it may be
// used freely.
//
// Only one Terminal of the process can be raw at a time as far as restore_terminal_now() is concerned: it restores
// the one that went raw last. That slot is the module's only global state.
#pragma once

#include <termios.h>

#include "base/result.h"
#include "base/unique_fd.h"

namespace sbx::runtime {

class Terminal {
 public:
  Terminal() = default;
  // Duplicates `fd`, which must be a terminal (ErrorKind::usage else).
  static Result<Terminal> create(int fd);
  Terminal(Terminal&& other) noexcept;
  Terminal& operator=(Terminal&& other) noexcept;
  ~Terminal() { restore(); }

  bool valid() const { return fd_.valid(); }
  int fd() const { return fd_.get(); }

  // May we read and change it without being stopped? True when it is not our controlling terminal.
  bool in_foreground() const;
  // Our controlling terminal: the shell that started us can stop and continue us there.
  bool is_controlling() const;
  // Nobody has switched line editing off: true for a shell's terminal, false while a pager or editor owns it.
  bool is_canonical() const;
  // The attributes as they are now.
  Result<struct termios> attributes() const;

  // Saves the attributes and goes raw; does nothing (and returns true) when raw already. False when we are in the
  // background or the terminal refuses: nothing has changed then.
  bool enter_raw();
  // Brings the saved attributes back if enter_raw() changed them. In the background nothing is written (whoever has
  // the terminal now has set it up), and the saved attributes are forgotten. Idempotent.
  void restore();
  bool is_raw() const { return raw_; }
  // After SIGCONT: somebody may have set up the terminal anew while we were stopped without notice (SIGSTOP). Then what
  // enter_raw() saved is no longer what is to come back.
  void forget_if_changed();

 private:
  UniqueFd fd_;
  bool raw_ = false;
  struct termios saved_ {};
};

// For fatal-signal handlers: brings the attributes back of the terminal that is raw now, if any. Async-signal-safe
// (tcgetpgrp, getpgrp and tcsetattr only), keeps errno, may be called at any time and more than once.
void restore_terminal_now() noexcept;

// Copies rows and columns; false when `from` has none (ENOTTY, or 0x0: a serial line). Sends SIGWINCH to the foreground
// process group of `to` when the size differs (the kernel does that).
bool copy_window_size(int from, int to);

// A description of its own, non-blocking, of the pipe, FIFO or terminal behind `fd`, or an invalid one where that
// cannot be had (no /proc, another owner, a pty master: opening /dev/ptmx again would make a new terminal). The
// caller's own description is shared with other processes, so O_NONBLOCK must never be set on it.
// `access` is O_RDONLY, O_WRONLY or O_RDWR.
UniqueFd reopen_nonblocking(int fd, int access);

}  // namespace sbx::runtime
