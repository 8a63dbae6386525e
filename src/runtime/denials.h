// The receiving end of the filter's user notification: answers EPERM to every reported call, and remembers which.
//
// Deciding nothing: the filter has decided, so there is no race with the payload's memory and nothing to be bypassed.
// If the supervisor is stopped the call waits (until the supervisor goes on, or the caller is killed); if it is dead the kernel answers ENOSYS; a call never passes.
// seccomp_unotify(2).
#pragma once

#include <linux/seccomp.h>

#include <cstdint>
#include <functional>
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
  // Answers what waits; at most a few dozen calls, so that a flood cannot hold up timers and streams. An answer is work
  // of ours that no limit of the sandbox counts, so a flood pays for it by waiting: after the first ten thousand answers
  // `tired` asks not to be called again for kPauseMs.
  enum class Next { ready, tired, gone };  // gone: the last process is, or nothing can be read any more
  static constexpr int kPauseMs = 5;
  Next on_ready();
  // Of the distinct calls the first kMaxDistinct are remembered. `status`: the text of the caller's status file, asked for
  // when its call is a new one.
  static constexpr size_t kMaxDistinct = 64;
  void note(const seccomp_data& call, const std::function<std::string()>& status);
  // Whoever still waits for an answer, and whoever asks from now on, gets ENOSYS from the kernel.
  void stop() { listener_.reset(); }
  std::vector<Denial> take() { return std::move(denials_); }
  // How many distinct calls did not fit any more (their counts are lost, their answer is the same).
  bool overflowed() const { return overflowed_; }

 private:
  bool answer_one();

  UniqueFd listener_;
  std::vector<Denial> denials_;
  uint64_t answered_ = 0;
  bool overflowed_ = false;
};

}  // namespace sbx::runtime
