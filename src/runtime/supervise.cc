#include "runtime/supervise.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>

#include "base/sys.h"
#include "base/text.h"
#include "runtime/denials.h"
#include "runtime/limit_watch.h"
#include "runtime/progress.h"

namespace sbx::runtime {
namespace {

constexpr int64_t kGraceMs = 5000;      // from a forwarded TERM, INT or HUP to the end by force
constexpr int kDrainMs = 2000;

enum Tag : uint64_t {
  kExec = 1, kPid, kWall, kLook, kSignals, kEvents, kGrace, kDenials, kDenialPause, kProgress, kSide, kStdio = 100
};

// A timer that does not run would be a limit that nobody holds.
Result<UniqueFd> make_timer(int64_t first_ms, int64_t every_ms) {
  UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer.valid()) return Error::from_errno(errno, "create a timer");
  itimerspec when{};
  when.it_value.tv_sec = first_ms / 1000;
  when.it_value.tv_nsec = first_ms % 1000 * 1000000;
  if (first_ms == 0) when.it_value.tv_nsec = 1;
  when.it_interval.tv_sec = every_ms / 1000;
  when.it_interval.tv_nsec = every_ms % 1000 * 1000000;
  if (::timerfd_settime(timer.get(), 0, &when, nullptr) != 0) return Error::from_errno(errno, "set a timer");
  return timer;
}

class Supervisor {
 public:
  explicit Supervisor(const SuperviseInput& input)
      : in_(input), limits_(input.spec->limits), watch_(*input.spec, input.cgroup, input.sample_memory), signals_(*input.signals) {}

  SuperviseResult run() {
    const uint64_t start_ns = sys::monotonic_ns();
    Status status = loop();
    if (!status.ok()) {
      out_.error = status.take_error();
      in_.launched->send_signal(SIGKILL);
    }
    if (!in_.launched->ended()) in_.launched->wait_for_end(out_.usage);
    while (in_.side >= 0 && read_side()) {  // nobody is left who could add to it
    }
    const ns::StatusPage& page = in_.launched->page();
    out_.payload_ended = page.ended != 0;
    out_.wait_status = page.wait_status;
    const uint64_t begin = out_.exec_ns != 0 ? out_.exec_ns : start_ns;
    out_.wall.value = static_cast<int64_t>((sys::monotonic_ns() - begin - stopped_ns_) / 1000);
    signals_.payload_is_gone();
    // A reader who takes his time (a pager) gets all of it, unless we were asked to end.
    in_.stdio->drain(out_.forced || out_.caught_signal != 0 ? kDrainMs : -1, signals_.fd());
    check_output();
    const bool signaled = out_.payload_ended && WIFSIGNALED(out_.wait_status);
    if (const std::optional<Verdict> late = watch_.settle(out_.usage, out_.forced.has_value(), signaled); late && !out_.forced) out_.forced = late;
    out_.limits_hit = watch_.take_hits();
    out_.counts = watch_.counts();
    out_.peak_bytes = watch_.peak_bytes();
    out_.peak_threads = watch_.peak_threads();
    out_.sampled = watch_.sampled();
    in_.stdio->finish();
    if (denials_) {
      out_.denials_overflowed = denials_->overflowed();
      out_.denials = denials_->take();
    }
    return std::move(out_);
  }

 private:
  void end_it(Verdict verdict) {
    if (!out_.forced) out_.forced = verdict;
    in_.launched->send_signal(SIGKILL);
    if (in_.cgroup != nullptr) in_.cgroup->kill();
  }

  Status listen(int fd, uint64_t tag) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = tag;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return Error::from_errno(errno, "watch a descriptor");
    return {};
  }

  Status loop() {
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll_.valid()) return Error::from_errno(errno, "create an epoll instance");
    SBX_TRY(listen(in_.launched->exec_pipe(), kExec));
    SBX_TRY(listen(in_.launched->pidfd(), kPid));
    if (signals_.fd() >= 0) SBX_TRY(listen(signals_.fd(), kSignals));
    if (in_.launched->event_pipe() >= 0) SBX_TRY(listen(in_.launched->event_pipe(), kEvents));
    if (limits_.wall) {
      wall_ = SBX_TRY(make_timer(limits_.wall->value, 0));
      SBX_TRY(listen(wall_.get(), kWall));
    }
    if (in_.progress != nullptr && in_.progress->due_ms() >= 0) {
      progress_ = SBX_TRY(make_timer(in_.progress->due_ms(), 0));
      SBX_TRY(listen(progress_.get(), kProgress));
    }
    if (in_.side >= 0) SBX_TRY(listen(in_.side, kSide));
    SBX_TRY(in_.stdio->register_with(epoll_.get(), kStdio));
    epoll_event events[16];
    for (;;) {
      const int count = ::epoll_wait(epoll_.get(), events, 16, -1);
      if (count < 0 && errno != EINTR) return Error::from_errno(errno, "wait for events");
      for (int i = 0; i < count; ++i) {
        const uint64_t tag = events[i].data.u64;
        if (tag == kPid) {
          in_.launched->wait_for_end(out_.usage);
          return {};
        }
        SBX_TRY(handle(tag, events[i].events));
      }
      SBX_TRY(in_.stdio->watch_status());
      check_output();
    }
  }

  Status handle(uint64_t tag, uint32_t events) {
    switch (tag) {
      case kExec: return on_exec();
      case kWall:
        watch_.hit("wall", "limits.time", format_duration(*limits_.wall), "timer");
        end_it(Verdict::timed_out);
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, wall_.get(), nullptr);
        return {};
      case kGrace:
        end_it(Verdict::killed);
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, grace_.get(), nullptr);
        return {};
      case kLook: {
        uint64_t expirations;
        (void)!::read(look_.get(), &expirations, sizeof expirations);
        look();
        return {};
      }
      case kDenials:
        return on_denials();
      case kDenialPause:
        denial_pause_.reset();
        return listen(denials_->fd(), kDenials);
      case kProgress:
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, progress_.get(), nullptr);
        in_.progress->look();
        return {};
      case kSide:
        if (!read_side()) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, in_.side, nullptr);
        return {};
      case kSignals: return on_signal();
      case kEvents: return on_job_control();
      default: in_.stdio->on_ready(tag, events); return {};
    }
  }

  Status on_denials() {
    const DenialLog::Next next = denials_->on_ready();
    if (next == DenialLog::Next::ready) return {};
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, denials_->fd(), nullptr);
    if (next == DenialLog::Next::gone) {
      denials_->stop();
      return {};
    }
    denial_pause_ = SBX_TRY(make_timer(DenialLog::kPauseMs, 0));
    return listen(denial_pause_.get(), kDenialPause);
  }

  // False: there is nothing (more), or more than anybody wants.
  bool read_side() {
    char bytes[16384];
    const size_t room = std::min(sizeof bytes, in_.side_limit - out_.side.size());
    if (room == 0) return false;
    const ssize_t got = ::recv(in_.side, bytes, room, MSG_DONTWAIT);
    if (got > 0) out_.side.append(bytes, static_cast<size_t>(got));
    return got > 0;
  }

  // End of file on the exec pipe: the payload runs, or the child died on its way there.
  Status on_exec() {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, in_.launched->exec_pipe(), nullptr);
    const ns::StatusPage& page = in_.launched->page();
    if (page.error_stage != 0 || page.stage < static_cast<uint32_t>(ns::Stage::exec)) return {};
    out_.ran = true;
    out_.exec_ns = sys::monotonic_ns();
    out_.handed_over = in_.launched->receive();
    UniqueFd& listener = out_.handed_over[ns::kListenerSlot];
    if (listener.valid()) {
      denials_.emplace(std::move(listener));
      out_.listening = true;
      SBX_TRY(listen(denials_->fd(), kDenials));
    }
    UniqueFd& master = out_.handed_over[ns::kTerminalSlot];
    if (master.valid()) SBX_TRY(in_.stdio->attach_pty(std::move(master)));
    // Without it no limit that is held by looking could be.
    if (!out_.handed_over[0].valid()) return Error(ErrorKind::resource, "the sandbox's /proc was not handed over");
    watch_.start(out_.handed_over[0].get(), space_fd());
    if (watch_.has_limits()) {
      look_ = SBX_TRY(make_timer(LimitWatch::kFirstLookMs, LimitWatch::kLookMs));
      SBX_TRY(listen(look_.get(), kLook));
    }
    return {};
  }

  // The exec pipe tells of the exec only after init, which shares the payload's memory until then, has been scheduled too.
  bool may_be_running() const { return in_.launched->page().stage >= static_cast<uint32_t>(ns::Stage::exec); }

  int space_fd() const {
    if (in_.space_slot < 0 || static_cast<size_t>(in_.space_slot) >= out_.handed_over.size()) return -1;
    return out_.handed_over[static_cast<size_t>(in_.space_slot)].get();
  }

  void look() {
    if (const std::optional<Verdict> verdict = watch_.look(out_.forced.has_value())) end_it(*verdict);
  }

  void check_output() {
    if (in_.stdio->over_limit() == 0 || output_seen_) return;
    output_seen_ = true;
    watch_.hit("output", "limits.output", format_size(*limits_.output), "pump");
    end_it(Verdict::output_limit);
  }

  Status on_signal() {
    signalfd_siginfo info{};
    while (::read(signals_.fd(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGWINCH) {
        in_.stdio->on_window_size_change();
        continue;
      }
      if (signal == SIGTSTP) {
        // By the terminal's Ctrl-Z while it is in line mode, or by kill(1).
        in_.launched->send_signal(SIGTSTP);
        stop_and_continue(::getpid());
        continue;
      }
      if (signal == SIGCONT) {
        in_.stdio->resume_terminal();  // after a SIGSTOP
        continue;
      }
      if (signal == SIGTTIN || signal == SIGTTOU) continue;
      if (signal == SIGUSR1 || signal == SIGUSR2) {
        in_.launched->send_signal(signal);
        continue;
      }
      const bool first = out_.caught_signal == 0;
      if (first) out_.caught_signal = signal;
      if (!first || !may_be_running()) {  // before exec nobody is there who could make something of it
        end_it(Verdict::killed);
        continue;
      }
      in_.launched->send_signal(signal);
      grace_ = SBX_TRY(make_timer(kGraceMs, 0));
      SBX_TRY(listen(grace_.get(), kGrace));
    }
    return {};
  }

  // Ctrl-Z at our terminal stopped the payload: stop as well, so that the caller's shell gets its prompt back.
  Status on_job_control() {
    bool stopped = false;
    char event;
    while (::read(in_.launched->event_pipe(), &event, 1) == 1) {
      if (event == ns::kContinued) continuing_ = stopped = false;
      if (event == ns::kPayloadStopped && !continuing_) stopped = true;
    }
    if (!stopped) return {};
    if (in_.stdio->has_job_control() && signals_.handles(SIGTSTP)) {
      // The whole group, as the key does: a script around us has to stop as well.
      stop_and_continue(0);
    } else {
      continue_payload();  // nobody could do it later
    }
    return {};
  }

  // Everything inside is stopped or about to be (init sees to it: while we are stopped nobody holds a limit). By SIGTSTP
  // and not SIGSTOP, because the kernel does not obey it where nobody could continue us (an orphaned process group);
  // then this goes on at once. Time stands still meanwhile.
  void stop_and_continue(pid_t whom) {
    const uint64_t before = sys::monotonic_ns();
    itimerspec left{};
    if (wall_.valid() && ::timerfd_gettime(wall_.get(), &left) == 0) {
      const itimerspec never{};
      if (left.it_value.tv_sec != 0 || left.it_value.tv_nsec != 0) ::timerfd_settime(wall_.get(), 0, &never, nullptr);
    }
    in_.stdio->suspend_terminal();
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    ::sigprocmask(SIG_UNBLOCK, &stop, nullptr);
    ::kill(whom, SIGTSTP);
    ::sigprocmask(SIG_BLOCK, &stop, nullptr);
    in_.stdio->resume_terminal();
    if (left.it_value.tv_sec != 0 || left.it_value.tv_nsec != 0) ::timerfd_settime(wall_.get(), 0, &left, nullptr);
    stopped_ns_ += sys::monotonic_ns() - before;
    continue_payload();
  }

  void continue_payload() {
    continuing_ = in_.launched->event_pipe() >= 0;
    in_.launched->send_signal(SIGCONT);
  }

  const SuperviseInput& in_;
  const Limits& limits_;
  LimitWatch watch_;
  SignalGuard& signals_;
  SuperviseResult out_;
  UniqueFd epoll_, wall_, look_, grace_, progress_;
  std::optional<DenialLog> denials_;
  UniqueFd denial_pause_;
  bool output_seen_ = false;
  bool continuing_ = false;  // init has not acknowledged our SIGCONT yet
  uint64_t stopped_ns_ = 0;
};

}  // namespace

SuperviseResult supervise(const SuperviseInput& input) { return Supervisor(input).run(); }

}  // namespace sbx::runtime
