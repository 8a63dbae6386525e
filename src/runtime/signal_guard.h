// What a run changes of the process it is in, and changes back: SIGPIPE and SIGXFSZ are ignored (a closed stdout and a
// file size limit of the caller's are handled by the pumps), and the signals that reach the payload and those of job
// control are blocked and read from a descriptor. One run at a time may forward signals; runs without forwarding leave
// the mask alone.
//
// Made before the launch: what is sent from then on is neither lost on a child that has not blocked it yet (init is pid 1,
// to which an unblocked signal means nothing) nor ends sbx with its sandbox half made.
#pragma once

#include <signal.h>

#include "base/unique_fd.h"

namespace sbx::runtime {

class SignalGuard {
 public:
  explicit SignalGuard(bool forward);
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  int fd() const { return fd_.get(); }  // a signalfd; -1: nothing is forwarded, or none could be had
  bool handles(int signal) const { return forward_ && sigismember(&job_control_, signal) == 1; }
  // Nothing is left inside: job control is the kernel's business again, and the descriptor tells of ends only.
  void payload_is_gone();

 private:
  static void add(int signal, sigset_t& set, sigset_t& caught);

  bool forward_;
  sigset_t mask_before_{}, ending_{}, job_control_{};
  struct sigaction pipe_before_ {}, size_before_ {};
  UniqueFd fd_;
};

}  // namespace sbx::runtime
