// The receiving end of the filter's user notification: answers EPERM to every reported call, and remembers which.
//
// Deciding nothing: the filter has decided, so there is no race with the payload's memory and nothing to be bypassed.
// If the supervisor is stopped the call waits; if it is dead the kernel answers ENOSYS; a call never passes.
// seccomp_unotify(2).
#pragma once

#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "runtime/outcome.h"

namespace sbx::runtime {

class DenialLog {
 public:
  // Owns the listener.
  explicit DenialLog(UniqueFd listener) : listener_(std::move(listener)) {}

  int fd() const { return listener_.get(); }
  // Answers what waits; at most a few dozen calls, so that a flood cannot hold up timers and streams. False when the
  // listener is of no further use (the last process is gone).
  bool on_ready();
  std::vector<Denial> take() { return std::move(denials_); }
  // How many distinct calls did not fit any more (their counts are lost, their answer is the same).
  bool overflowed() const { return overflowed_; }

 private:
  bool answer_one();

  UniqueFd listener_;
  std::vector<Denial> denials_;
  bool overflowed_ = false;
};

}  // namespace sbx::runtime
