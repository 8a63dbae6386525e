#include "runtime/signal_guard.h"

#include <sys/signalfd.h>

namespace sbx::runtime {

SignalGuard::SignalGuard(bool forward) : forward_(forward) {
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &pipe_before_);
  ::sigaction(SIGXFSZ, &ignore, &size_before_);
  if (!forward) return;
  sigset_t caught;
  sigemptyset(&caught);
  sigemptyset(&ending_);
  sigemptyset(&job_control_);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) add(signal, ending_, caught);
  // SIGTTIN and SIGTTOU so that a payload that writes to a background terminal (stty tostop) cannot have the supervisor
  // stopped while it runs on without limits.
  for (const int signal : {SIGTSTP, SIGCONT, SIGTTIN, SIGTTOU, SIGWINCH}) add(signal, job_control_, caught);
  ::sigprocmask(SIG_BLOCK, &caught, &mask_before_);
  fd_.reset(::signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK));
}

SignalGuard::~SignalGuard() {
  if (forward_) ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
  ::sigaction(SIGPIPE, &pipe_before_, nullptr);
  ::sigaction(SIGXFSZ, &size_before_, nullptr);
}

void SignalGuard::payload_is_gone() {
  if (!forward_) return;
  ::signalfd(fd_.get(), &ending_, 0);
  ::sigprocmask(SIG_UNBLOCK, &job_control_, nullptr);
}

void SignalGuard::add(int signal, sigset_t& set, sigset_t& caught) {
  // nohup(1) and the like: what the caller ignores stays ignored.
  struct sigaction now {};
  if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) return;
  sigaddset(&set, signal);
  sigaddset(&caught, signal);
}

}  // namespace sbx::runtime
