#include "session/host.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/sys.h"
#include "base/text.h"
#include "session/host_parts.h"

namespace sbx::session {
namespace {

using runtime::Verdict;

// A signal that comes in the instant before a system call blocks is seen only when that returns.
constexpr int64_t kInterruptAgainMs = 200;
constexpr int64_t kIdleLookMs = 200;  // while nothing in the sandbox uses the CPU

}  // namespace

int64_t clock_ms(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

size_t bytes_in_pipe(int fd) {
  int count = 0;
  return ::ioctl(fd, FIONREAD, &count) == 0 && count > 0 ? static_cast<size_t>(count) : 0;
}

void append_tail(std::string& tail, std::string_view bytes, size_t limit) {
  tail.append(bytes);
  if (tail.size() > 2 * limit) tail.erase(0, tail.size() - limit);
}

Status Host::run() {
  Status status = begin();
  if (status.ok()) status = loop();
  if (status.ok() && !announced_) status = Error(ErrorKind::system, "the session ended before it could be used: " + why_over_);
  end();
  return status;
}

Status Host::begin() {
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, nullptr);
  ::sigaction(SIGXFSZ, &ignore, nullptr);
  sigset_t caught;
  sigemptyset(&caught);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&caught, signal);
  ::sigprocmask(SIG_BLOCK, &caught, nullptr);
  signals_.reset(::signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK));
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  timer_.reset(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!epoll_.valid() || !timer_.valid() || !signals_.valid()) return Error::from_errno(errno, "make the session's descriptors");
  entry_.emplace(SBX_TRY(place_.add(options_.name, ground_.language(), options_.warm)));
  if (options_.entered) options_.entered();
  runtime::CgroupParent* const cgroups = SBX_TRY(ground_.cgroups());
  live_ = SBX_TRY(runtime::LiveSandbox::start(ground_.spec(), facts_, cgroups));
  watch_.emplace(ground_.spec(), live_->cgroup(), live_->samples_memory());
  watch_->start(live_->proc_fd(), live_->space_fd());
  deadlines_.emplace(std::nullopt, std::nullopt, now_ms());
  SBX_TRY(listen(signals_.get(), tag(kSignals)));
  SBX_TRY(listen(timer_.get(), tag(kTimer)));
  SBX_TRY(listen(live_->news_fd(), tag(kNews)));
  SBX_TRY(listen(live_->pidfd(), tag(kEnd)));
  SBX_TRY(listen(entry_->listener(), tag(kListener)));
  if (ground_.has_driver()) return start_driver();
  become_ready();
  return {};
}

void Host::become_ready() {
  if (std::exchange(announced_, true)) return;
  deadlines_.emplace(options_.ttl, options_.idle, now_ms());  // a slow start is not its user's time
  if (!ready_callback_(entry_->record()).ok()) over_ = true;
}

Status Host::loop() {
  epoll_event events[32];
  while (!over_) {
    arm_timer();
    const int count = ::epoll_wait(epoll_.get(), events, 32, wait_ms());
    if (count < 0 && errno != EINTR) return Error::from_errno(errno, "wait for events");
    for (int i = 0; i < count && !over_; ++i) handle(events[i].data.u64, events[i].events);
    take_news();
    look();
    check_times();
    next_cell();
    close_finished();
    if (start_error_) return std::move(*start_error_);
  }
  return {};
}

void Host::handle(uint64_t what, uint32_t events) {
  const uint64_t id = what >> 8;
  switch (static_cast<Tag>(what & 255)) {
    case kNews: return;  // take_news()
    case kEnd: {
      const std::string words = live_->last_words();
      end_session(words.empty() ? "the sandbox was ended from outside" : words);
      return;
    }
    case kListener: accept_client(); return;
    case kTimer: {
      uint64_t expirations;
      (void)!::read(timer_.get(), &expirations, sizeof expirations);
      return;  // check_times()
    }
    case kSignals: {
      signalfd_siginfo info{};
      while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
        if (info.ssi_signo != SIGHUP) end_session("its supervisor was asked to end");
      }
      return;
    }
    case kFrames: on_frames(events); return;
    case kClient: on_client(id, events); return;
    case kOut:
    case kErr:
      if (Program* program = find_program(id)) pump(id, *program, (what & 255) == kOut ? 1 : 2);
      return;
    case kInput:
      if (Job* job = find_job(id)) feed(*job);
      return;
    case kDenials:
      if (Program* program = find_program(id)) on_denials(id, *program);
      return;
  }
}

void Host::end_session(const std::string& why) {
  if (std::exchange(over_, true)) return;
  why_over_ = why;
}

void Host::end() {
  const std::string ended = "the session has ended, and the files of its own with it: " + why_over_;
  if (cell_) finish(*cell_, Verdict::killed, 0, SIGKILL, false, ended);
  while (!queue_.empty()) {
    fail(*queue_.front(), Error(ErrorKind::usage, "the session ended: " + why_over_));
    queue_.pop_front();
  }
  while (!execs_.empty()) finish(*execs_.back(), Verdict::killed, 0, SIGKILL, false, ended);
  driver_id_ = 0;
  programs_.clear();
  watch_.reset();
  live_.reset();
  const std::vector<std::string> notes = ground_.sweep();
  entry_.reset();
  for (const uint64_t id : stoppers_) {
    Json answer = Json::object();
    Json list = Json::array();
    for (const std::string& note : notes) list.add(note);
    answer.set("notes", std::move(list));
    reply(id, std::move(answer));
  }
  // What clients have not taken yet: they are ours, and waited for two seconds at most.
  const int64_t until = clock_ms(CLOCK_MONOTONIC) + 2000;
  for (auto& [id, client] : clients_) {
    while (client.backlog() > 0 && clock_ms(CLOCK_MONOTONIC) < until) {
      pollfd wait{client.fd.get(), POLLOUT, 0};
      if (::poll(&wait, 1, 100) > 0 && !send_some(client)) break;
    }
  }
  clients_.clear();
}

int64_t Host::now_ms() const { return options_.now_ms ? options_.now_ms() : clock_ms(CLOCK_BOOTTIME); }

bool Host::is_busy() const { return cell_ != nullptr || !execs_.empty() || !queue_.empty(); }

void Host::arm_timer() {
  itimerspec when{};
  if (const std::optional<int64_t> next = deadlines_->next_ms(now_ms())) {
    const int64_t ms = std::max<int64_t>(*next, 1);
    when.it_value.tv_sec = ms / 1000;
    when.it_value.tv_nsec = ms % 1000 * 1000000;
  }
  ::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

int Host::wait_ms() const {
  const int64_t now = clock_ms(CLOCK_MONOTONIC);
  std::optional<int64_t> until = next_look_ms_;
  const auto earlier = [&](const std::optional<int64_t>& other) {
    if (other && (!until || *other < *until)) until = other;
  };
  if (cell_) {
    earlier(cell_->deadline_ms);
    earlier(cell_->grace_ms);
    earlier(cell_->again_ms);
    earlier(cell_->fifo_again_ms);
  }
  for (const auto& job : execs_) {
    earlier(job->deadline_ms);
    earlier(job->grace_ms);
  }
  earlier(driver_deadline_ms_);
  for (const auto& [id, program] : programs_) {
    if (program.denials_resume_ms != 0) earlier(program.denials_resume_ms);
  }
  if (!until) return -1;
  return static_cast<int>(std::clamp<int64_t>(*until - now, 0, 60000));
}

void Host::check_times() {
  switch (deadlines_->over(now_ms())) {
    case Deadlines::Over::no: break;
    case Deadlines::Over::time_to_live: end_session("its time to live is over"); return;
    case Deadlines::Over::idle: end_session("nobody used it"); return;
  }
  const int64_t now = clock_ms(CLOCK_MONOTONIC);
  if (cell_) check_job(*cell_, now);
  for (auto& job : execs_) check_job(*job, now);
  for (auto& [id, program] : programs_) {
    if (program.denials_resume_ms == 0 || program.denials_resume_ms > now) continue;
    program.denials_resume_ms = 0;
    (void)listen(program.denials->fd(), tag(kDenials, id));
  }
  if (driver_deadline_ms_ && *driver_deadline_ms_ <= now) {
    driver_deadline_ms_.reset();
    driver_failed("the interpreter does not start");
  }
}

void Host::check_job(Job& job, int64_t now) {
  if (job.deadline_ms && *job.deadline_ms <= now) {
    job.deadline_ms.reset();
    watch_->hit("wall", "limits.time", format_duration(job.timeout), "timer");
    ask_to_end(job, Verdict::timed_out);
  }
  if (job.grace_ms && *job.grace_ms <= now) {
    job.grace_ms.reset();
    job.again_ms.reset();
    return kill_everything();
  }
  if (job.again_ms && *job.again_ms <= now) interrupt_driver(job, now);
  if (job.fifo_again_ms && *job.fifo_again_ms <= now) open_fifo(job, now);
}

// Limits are the sandbox's: the cell that ends next tells of them.
void Host::look() {
  const int64_t now = clock_ms(CLOCK_MONOTONIC);
  if (!watch_->has_limits() || now < next_look_ms_.value_or(0)) return;
  const std::optional<Verdict> verdict = watch_->look(emptying_);
  const int64_t cpu = watch_->cpu_us().value_or(0);
  const bool quiet = !is_busy() && announced_ && cpu == last_cpu_us_;
  last_cpu_us_ = cpu;
  next_look_ms_ = now + (quiet ? kIdleLookMs : runtime::LimitWatch::kLookMs);
  if (!verdict || emptying_) return;
  if (cell_ && !cell_->forced) cell_->forced = verdict;
  for (auto& job : execs_) {
    if (!job->forced) job->forced = verdict;
  }
  if (!cell_) {
    state_lost(runtime::verdict_name(*verdict));
    if (++failures_ > kMaxFailures) return end_session("its files alone pass a limit");
  }
  kill_everything();
}

void Host::state_lost(const std::string& why) {
  if (!ground_.has_driver()) return;
  lost_note_ = "the session's state was lost (" + why + "); its files are there";
}

void Host::kill_everything() {
  if (std::exchange(emptying_, true)) return;
  live_->kill_all();
}

void Host::interrupt_driver(Job& job, int64_t now) {
  live_->signal(driver_pid_, SIGINT);
  job.again_ms = now + kInterruptAgainMs;
}

void Host::ask_to_end(Job& job, Verdict verdict) {
  if (!job.forced) job.forced = verdict;
  if (!job.started) return;
  const int64_t now = clock_ms(CLOCK_MONOTONIC);
  if (job.program == 0) {
    if (job.grace_ms) return;
    interrupt_driver(job, now);
    job.grace_ms = now + options_.grace.value;
  } else if (!job.exec) {
    kill_everything();
  } else if (const Program* program = find_program(job.program)) {
    live_->signal(program->pid, SIGKILL);
  }
}

void Host::interrupt(Job& job) {
  const bool again = job.caught_signal != 0;
  job.caught_signal = SIGINT;
  if (!job.started) return;
  if (again && job.program == 0) return kill_everything();
  const int64_t now = clock_ms(CLOCK_MONOTONIC);
  if (!job.grace_ms) job.grace_ms = now + options_.grace.value;
  if (job.program == 0) {
    interrupt_driver(job, now);
  } else if (const Program* program = find_program(job.program)) {
    live_->signal(program->pid, again ? SIGKILL : SIGINT);
    if (job.exec) job.grace_ms.reset();
  }
}

Status host_session(runtime::SessionGround& ground, const HostFacts& facts, const SessionPlace& place, const HostOptions& options,
                    const std::function<Status(const SessionRecord&)>& ready) {
  return Host(ground, facts, place, options, ready).run();
}

}  // namespace sbx::session
