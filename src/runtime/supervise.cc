#include "runtime/supervise.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>

#include "base/sys.h"
#include "base/text.h"
#include "runtime/denials.h"
#include "runtime/progress.h"
#include "runtime/sampler.h"

namespace sbx::runtime {
namespace {

constexpr int64_t kLookMs = 20;         // the longest time between two looks (design section 6)
constexpr int64_t kFirstLookMs = 5;
constexpr uint64_t kExactSliceNs = 50000000;  // of a closer look at the memory; longer ones go on in the next look
constexpr int64_t kGraceMs = 5000;      // from a forwarded TERM, INT or HUP to the end by force
constexpr int kDrainMs = 2000;

enum Tag : uint64_t {
  kExec = 1, kPid, kWall, kLook, kSignals, kEvents, kGrace, kDenials, kDenialPause, kProgress, kStdio = 100
};

// The process-wide state that a run changes, and changes back: SIGPIPE and SIGXFSZ are ignored (a closed stdout and a
// file size limit of the caller's are handled by the pumps), and the signals that reach the payload and those of job
// control are blocked and read from a descriptor. One run at a time may forward signals; runs without forwarding leave
// the mask alone.
//
// SIGTTIN and SIGTTOU are among them so that a payload that writes to a background terminal (stty tostop) cannot have
// the supervisor stopped while it runs on without limits.
class SignalGuard {
 public:
  explicit SignalGuard(bool forward) : forward_(forward) {
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
    for (const int signal : {SIGTSTP, SIGCONT, SIGTTIN, SIGTTOU, SIGWINCH}) add(signal, job_control_, caught);
    ::sigprocmask(SIG_BLOCK, &caught, &mask_before_);
    fd_.reset(::signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  // Nothing is left inside: job control is the kernel's business again, and the descriptor tells of ends only.
  void payload_is_gone() {
    if (!forward_) return;
    ::signalfd(fd_.get(), &ending_, 0);
    ::sigprocmask(SIG_UNBLOCK, &job_control_, nullptr);
  }
  bool handles(int signal) const { return forward_ && sigismember(&job_control_, signal) == 1; }
  ~SignalGuard() {
    if (forward_) ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
    ::sigaction(SIGPIPE, &pipe_before_, nullptr);
    ::sigaction(SIGXFSZ, &size_before_, nullptr);
  }
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;
  int fd() const { return fd_.get(); }

 private:
  static void add(int signal, sigset_t& set, sigset_t& caught) {
    // nohup(1) and the like: what the caller ignores stays ignored.
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) return;
    sigaddset(&set, signal);
    sigaddset(&caught, signal);
  }

  bool forward_;
  sigset_t mask_before_{}, ending_{}, job_control_{};
  struct sigaction pipe_before_ {}, size_before_ {};
  UniqueFd fd_;
};

UniqueFd make_timer(int64_t first_ms, int64_t every_ms) {
  UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  itimerspec when{};
  when.it_value.tv_sec = first_ms / 1000;
  when.it_value.tv_nsec = first_ms % 1000 * 1000000;
  if (first_ms == 0) when.it_value.tv_nsec = 1;
  when.it_interval.tv_sec = every_ms / 1000;
  when.it_interval.tv_nsec = every_ms % 1000 * 1000000;
  if (timer.valid()) ::timerfd_settime(timer.get(), 0, &when, nullptr);
  return timer;
}

class Supervisor {
 public:
  explicit Supervisor(const SuperviseInput& input)
      : in_(input), limits_(input.spec->limits), signals_(input.forward_signals) {}

  SuperviseResult run() {
    const uint64_t start_ns = sys::monotonic_ns();
    Status status = loop();
    if (!status.ok()) {
      out_.error = status.take_error();
      in_.launched->send_signal(SIGKILL);
    }
    if (!in_.launched->ended()) in_.launched->wait_for_end(out_.usage);
    const ns::StatusPage& page = in_.launched->page();
    out_.payload_ended = page.ended != 0;
    out_.wait_status = page.wait_status;
    const uint64_t begin = out_.exec_ns != 0 ? out_.exec_ns : start_ns;
    out_.wall.value = static_cast<int64_t>((sys::monotonic_ns() - begin - stopped_ns_) / 1000);
    signals_.payload_is_gone();
    // A reader who takes his time (a pager) gets all of it, unless we were asked to end.
    in_.stdio->drain(out_.forced || out_.caught_signal != 0 ? kDrainMs : -1, signals_.fd());
    check_output();
    final_look();
    if (in_.cgroup != nullptr) settle(in_.cgroup->counts());
    in_.stdio->finish();
    if (denials_) {
      out_.denials_overflowed = denials_->overflowed();
      out_.denials = denials_->take();
    }
    return std::move(out_);
  }

 private:
  std::string origin(const char* key) const {
    const auto found = in_.spec->origins.find(key);
    return found == in_.spec->origins.end() ? "" : found->second;
  }

  void hit(const char* name, const char* key, std::string value, const char* enforced_by, uint64_t count = 1) {
    for (LimitHit& known : out_.limits_hit) {
      if (known.name == name) {
        known.count += count;
        return;
      }
    }
    out_.limits_hit.push_back({name, std::move(value), origin(key), enforced_by, count});
  }

  Controllers held() const { return in_.cgroup != nullptr ? in_.cgroup->controllers() : Controllers{}; }
  bool cgroup_counts_cpu() const { return in_.cgroup != nullptr && in_.cgroup->counts_cpu_time(); }
  // Whether anything is left that only a look at every process can tell.
  bool must_sample() const {
    return in_.sample_memory || (limits_.pids && !held().pids) || (limits_.cpu_time && !cgroup_counts_cpu());
  }

  void end_it(Verdict verdict) {
    if (!out_.forced) out_.forced = verdict;
    in_.launched->send_signal(SIGKILL);
    if (in_.cgroup != nullptr) in_.cgroup->kill();
  }

  Status watch(int fd, uint64_t tag) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = tag;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return Error::from_errno(errno, "watch a descriptor");
    return {};
  }

  Status loop() {
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll_.valid()) return Error::from_errno(errno, "create an epoll instance");
    SBX_TRY(watch(in_.launched->exec_pipe(), kExec));
    SBX_TRY(watch(in_.launched->pidfd(), kPid));
    if (signals_.fd() >= 0) SBX_TRY(watch(signals_.fd(), kSignals));
    if (in_.launched->event_pipe() >= 0) SBX_TRY(watch(in_.launched->event_pipe(), kEvents));
    if (limits_.wall) {
      wall_ = make_timer(limits_.wall->value, 0);
      SBX_TRY(watch(wall_.get(), kWall));
    }
    if (in_.progress != nullptr && in_.progress->due_ms() >= 0) {
      progress_ = make_timer(in_.progress->due_ms(), 0);
      SBX_TRY(watch(progress_.get(), kProgress));
    }
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
      check_output();
    }
  }

  Status handle(uint64_t tag, uint32_t events) {
    switch (tag) {
      case kExec: return on_exec();
      case kWall:
        hit("wall", "limits.time", format_duration(*limits_.wall), "timer");
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
        return watch(denials_->fd(), kDenials);
      case kProgress:
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, progress_.get(), nullptr);
        in_.progress->look();
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
    if (next == DenialLog::Next::gone) return {};
    denial_pause_ = make_timer(DenialLog::kPauseMs, 0);
    return watch(denial_pause_.get(), kDenialPause);
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
      SBX_TRY(watch(denials_->fd(), kDenials));
    }
    UniqueFd& master = out_.handed_over[ns::kTerminalSlot];
    if (master.valid()) SBX_TRY(in_.stdio->attach_pty(std::move(master)));
    // Without it no limit that is held by looking could be.
    if (!out_.handed_over[0].valid()) return Error(ErrorKind::resource, "the sandbox's /proc was not handed over");
    if (in_.sample_memory) host_shared_before_ = host_shared_bytes();
    sampler_.emplace(out_.handed_over[0].get());
    if (limits_.cpu_time || limits_.memory || limits_.pids) {
      look_ = make_timer(kFirstLookMs, kLookMs);
      SBX_TRY(watch(look_.get(), kLook));
    }
    return {};
  }

  int space_fd() const {
    if (in_.space_slot < 0 || static_cast<size_t>(in_.space_slot) >= out_.handed_over.size()) return -1;
    return out_.handed_over[static_cast<size_t>(in_.space_slot)].get();
  }

  void look_at_disk(uint64_t& used) {
    if (space_fd() < 0) return;
    const SpaceLook space = look_at_space(space_fd());
    used = space.used_bytes;
    if (space.bytes_exhausted) note_disk(disk_full_, "disk", "limits.disk", format_size(limits_.disk));
    disk_full_ = space.bytes_exhausted;
    if (space.inodes_exhausted) note_disk(inodes_full_, "inodes", "limits.inodes", std::to_string(limits_.inodes));
    inodes_full_ = space.inodes_exhausted;
  }
  void note_disk(bool already, const char* name, const char* key, std::string value) {
    if (!already) hit(name, key, std::move(value), "tmpfs");
  }

  void look() {
    uint64_t disk = 0;
    look_at_disk(disk);
    if (in_.cgroup != nullptr && look_at_cgroup()) return;
    if (must_sample()) look_at_tree(disk);
  }

  // True: the sandbox has been ended.
  bool look_at_cgroup() {
    const CgroupCounts counts = in_.cgroup->counts();
    current_peak_ = std::max(current_peak_, counts.memory_current.value_or(0));
    if (counts.oom_kills > 0) {
      // With memory.oom.group all are dead already; v1 has killed one of them.
      judge_oom(counts);
      return true;
    }
    const std::optional<int64_t> cpu_us = counts.cpu_us();
    if (!limits_.cpu_time || !cpu_us || *cpu_us < limits_.cpu_time->value * 1000) return false;
    if (out_.forced) return true;  // and dying
    hit("cpu_time", "limits.cpu_time", format_duration(*limits_.cpu_time), "cgroup");
    end_it(Verdict::cpu_time);
    return true;
  }

  void judge_oom(const CgroupCounts& counts) {
    if (oom_seen_) return;
    oom_seen_ = true;
    // Somebody else's limit, the host's or that of a cgroup around us, is no limit of this run.
    if (limits_.memory && counts.memory_refused > 0) hit("memory", "limits.memory", format_size(*limits_.memory), "cgroup");
    end_it(Verdict::out_of_memory);
  }

  // The last word of the kernel's counters, when nothing of the sandbox lives any more.
  void settle(CgroupCounts counts) {
    if (!counts.memory_peak && current_peak_ > 0) counts.memory_current = current_peak_;
    if (counts.oom_kills > 0) judge_oom(counts);
    if (limits_.pids && counts.pids_refused > 0) {
      hit("pids", "limits.pids", std::to_string(*limits_.pids), "cgroup", counts.pids_refused);
    }
    if (limits_.cpu_time && !out_.forced && counts.cpu_us() && *counts.cpu_us() >= limits_.cpu_time->value * 1000) {
      hit("cpu_time", "limits.cpu_time", format_duration(*limits_.cpu_time), "cgroup");
      if (out_.payload_ended && WIFSIGNALED(out_.wait_status)) out_.forced = Verdict::cpu_time;
    }
    out_.counts = counts;
  }

  void look_at_tree(uint64_t disk) {
    const TreeLook tree = sampler_->look();
    out_.sampled = true;
    out_.peak_threads = std::max(out_.peak_threads, tree.threads);
    if (limits_.pids && !held().pids && tree.threads >= *limits_.pids) {
      if (!pids_full_) hit("pids", "limits.pids", std::to_string(*limits_.pids), "rlimit");
      pids_full_ = true;
    } else {
      pids_full_ = false;
    }
    if (limits_.cpu_time && !cgroup_counts_cpu() && tree.cpu_us >= limits_.cpu_time->value * 1000) {
      hit("cpu_time", "limits.cpu_time", format_duration(*limits_.cpu_time), "sampling");
      end_it(Verdict::cpu_time);
      return;
    }
    if (in_.sample_memory) judge_memory(tree, disk);
    out_.peak_bytes = std::max(out_.peak_bytes, tree.resident_bytes + disk);
  }

  // Resident pages that processes share count once for each of them, and shared pages that nobody has mapped in count
  // for none: look closer before judging, and after an acquittal only as often as it costs less than a tenth of the
  // time.
  void judge_memory(const TreeLook& tree, uint64_t disk) {
    const uint64_t limit = limits_.memory->value;
    const uint64_t host = host_shared_bytes();
    const uint64_t grown = host > host_shared_before_ + disk ? host - host_shared_before_ - disk : 0;
    if (tree.resident_bytes + disk + grown <= limit) {
      sampler_->abandon_exact();
      return;
    }
    const uint64_t now = sys::monotonic_ns();
    if (now < next_exact_ns_) return;
    const std::optional<TreeSampler::Exact> judged = sampler_->exact(kExactSliceNs);
    if (!judged) {
      next_exact_ns_ = now + kExactSliceNs * 2;
      return;
    }
    const TreeSampler::Exact& exact = *judged;
    // Others' shared memory grows too; the payload's is bounded by what it has mapped.
    const uint64_t unseen = grown > exact.shared_bytes ? std::min(grown, sampler_->shared_bytes()) : 0;
    const uint64_t bytes = exact.private_bytes + std::max(exact.shared_bytes, unseen) + disk;
    next_exact_ns_ = now + std::min<uint64_t>((sys::monotonic_ns() - now) * 10, 200000000u);
    if (bytes <= limit) return;
    out_.peak_bytes = std::max(out_.peak_bytes, bytes);
    hit("memory", "limits.memory", format_size(*limits_.memory), "sampling");
    end_it(Verdict::out_of_memory);
  }

  void final_look() {
    uint64_t disk = 0;
    look_at_disk(disk);
    out_.peak_bytes = std::max({out_.peak_bytes, disk, static_cast<uint64_t>(out_.usage.ru_maxrss) * 1024});
    const int64_t cpu_us = out_.usage.ru_utime.tv_sec * 1000000 + out_.usage.ru_utime.tv_usec +
                           out_.usage.ru_stime.tv_sec * 1000000 + out_.usage.ru_stime.tv_usec;
    // A process that RLIMIT_CPU stopped, or the last look came too late.
    if (limits_.cpu_time && !cgroup_counts_cpu() && !out_.forced && cpu_us >= limits_.cpu_time->value * 1000) {
      hit("cpu_time", "limits.cpu_time", format_duration(*limits_.cpu_time), "rlimit");
      if (out_.payload_ended && WIFSIGNALED(out_.wait_status)) out_.forced = Verdict::cpu_time;
    }
  }

  void check_output() {
    if (in_.stdio->over_limit() == 0 || output_seen_) return;
    output_seen_ = true;
    hit("output", "limits.output", format_size(*limits_.output), "pump");
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
      if (out_.caught_signal != 0) {
        end_it(Verdict::killed);
        continue;
      }
      out_.caught_signal = signal;
      in_.launched->send_signal(signal);
      grace_ = make_timer(kGraceMs, 0);
      SBX_TRY(watch(grace_.get(), kGrace));
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
  SignalGuard signals_;
  SuperviseResult out_;
  UniqueFd epoll_, wall_, look_, grace_, progress_;
  std::optional<TreeSampler> sampler_;
  std::optional<DenialLog> denials_;
  UniqueFd denial_pause_;
  bool oom_seen_ = false;
  uint64_t current_peak_ = 0;  // where the kernel keeps no memory.peak
  bool disk_full_ = false, inodes_full_ = false, pids_full_ = false, output_seen_ = false;
  bool continuing_ = false;  // init has not acknowledged our SIGCONT yet
  uint64_t stopped_ns_ = 0;
  uint64_t next_exact_ns_ = 0;
  uint64_t host_shared_before_ = 0;
};

}  // namespace

SuperviseResult supervise(const SuperviseInput& input) { return Supervisor(input).run(); }

}  // namespace sbx::runtime
