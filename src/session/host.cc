#include "session/host.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "base/sys.h"
#include "base/text.h"
#include "runtime/artifacts.h"
#include "runtime/denials.h"
#include "runtime/explain.h"
#include "runtime/limit_watch.h"
#include "runtime/live_sandbox.h"
#include "runtime/runner.h"
#include "session/deadlines.h"
#include "session/driver.h"
#include "session/payload_files.h"
#include "session/wire.h"

namespace sbx::session {
namespace {

using runtime::Verdict;

constexpr size_t kMaxClients = 64;
constexpr size_t kMaxQueue = 64;
constexpr size_t kMaxPrograms = 12;           // beside the driver
constexpr size_t kChunk = 65536;
constexpr size_t kHighWater = size_t{1} << 20;  // of what a client has not taken yet
constexpr size_t kTail = 4096;
constexpr size_t kLogBytes = size_t{256} << 10;
constexpr size_t kMaxSegments = 100000;       // turns of stdout and stderr in one cell that are told apart
constexpr size_t kMaxOutputs = 2000;
constexpr size_t kOutputText = size_t{4} << 20;  // of the streams, a second time among the outputs
constexpr size_t kMaxStdin = size_t{16} << 20;
// A signal that comes in the instant before a system call blocks is seen only when that returns.
constexpr int64_t kInterruptAgainMs = 200;
constexpr int64_t kIdleLookMs = 200;          // while nothing in the sandbox uses the CPU
constexpr int kMaxFailures = 3;               // starts of a driver that came to nothing, in a row
constexpr uint64_t kHashedBytes = uint64_t{64} << 20;  // of files that a cell changed

enum Tag : uint64_t { kNews = 1, kEnd, kListener, kTimer, kSignals, kFrames, kClient, kOut, kErr, kInput, kDenials };
constexpr uint64_t tag(Tag kind, uint64_t id = 0) { return id << 8 | kind; }

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

Json error_json(const Error& error) {
  return Json::object().set("kind", error_kind_name(error.kind())).set("message", error.text()).set("hint", error.hint());
}

// What is asked for: a cell, or a program.
struct Job {
  uint64_t client = 0;       // 0: it went away
  bool exec = false;
  std::string code;
  std::vector<std::string> arguments;  // of a cell's program, where there is no driver
  std::string input;         // a cell's stdin
  bool has_input = false;
  bool want_result = false;  // streams and files are wanted
  bool streams_inside = false;
  Millis timeout;
  bool no_timeout = false;

  std::vector<runtime::CellStep> steps;  // programs, one after the other
  size_t step = 0;
  uint64_t program = 0;      // the one that runs; 0: the driver
  bool started = false;
  int64_t number = 0;        // of the cell
  uint64_t began_ns = 0;
  std::optional<int64_t> deadline_ms, grace_ms;
  std::optional<int64_t> again_ms;  // when the driver gets its next SIGINT
  std::optional<Verdict> forced;
  int caught_signal = 0;
  bool over[3] = {};
  runtime::StreamResult streams[3];
  struct Segment {
    int stream;
    size_t begin, end;       // in kept
    size_t output;           // SIZE_MAX: text; else an index in `outputs`
  };
  std::vector<Segment> segments;
  std::vector<std::string> outputs;  // each as JSON
  bool clear_pending = false;
  uint64_t dropped = 0;
  std::string tail;
  runtime::Baseline before;
  bool has_before = false;
  std::vector<std::string> hints;
};

struct Client {
  UniqueFd fd;
  MessageReader reader{kMaxRequest};
  std::string pending;
  size_t sent = 0;
  bool asked = false;        // its request has come
  std::optional<Json> request;  // waits for its code
  Job* job = nullptr;        // borrowed
  uint32_t watched = 0;
  bool ended = false;        // close when everything is sent
  size_t backlog() const { return pending.size() - sent; }
};

struct Program {
  pid_t pid = 0;
  UniqueFd out, err, input;
  bool out_watched = false, err_watched = false, input_watched = false;
  std::string to_input;
  bool input_ends = false;
  std::optional<runtime::DenialLog> denials;
  int64_t denials_resume_ms = 0;
  std::vector<runtime::Denial> denied;
  Job* job = nullptr;        // borrowed: who gets what it prints
};

class Host {
 public:
  Host(runtime::SessionGround& ground, const HostFacts& facts, const SessionPlace& place, const HostOptions& options,
       const std::function<void(const SessionRecord&)>& ready)
      : ground_(ground), facts_(facts), place_(place), options_(options), ready_callback_(ready), limits_(ground.spec().limits) {}

  Status run() {
    Status status = begin();
    if (status.ok()) status = loop();
    end();
    return status;
  }

 private:
  // ---- life ----------------------------------------------------------------------------------------------------

  Status begin() {
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
    runtime::CgroupParent* const cgroups = SBX_TRY(ground_.cgroups());
    live_ = SBX_TRY(runtime::LiveSandbox::start(ground_.spec(), facts_, cgroups));
    watch_.emplace(ground_.spec(), live_->cgroup(), live_->samples_memory());
    watch_->start(live_->proc_fd(), live_->space_fd());
    deadlines_.emplace(options_.ttl, options_.idle, now_ms());
    SBX_TRY(listen(signals_.get(), tag(kSignals)));
    SBX_TRY(listen(timer_.get(), tag(kTimer)));
    SBX_TRY(listen(live_->news_fd(), tag(kNews)));
    SBX_TRY(listen(live_->pidfd(), tag(kEnd)));
    SBX_TRY(listen(entry_->listener(), tag(kListener)));
    if (ground_.has_driver()) return start_driver();
    become_ready();
    return {};
  }

  void become_ready() {
    if (std::exchange(announced_, true)) return;
    ready_callback_(entry_->record());
  }

  Status loop() {
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

  void handle(uint64_t what, uint32_t events) {
    const uint64_t id = what >> 8;
    switch (static_cast<Tag>(what & 255)) {
      case kNews: return;  // take_news()
      case kEnd: end_session("the sandbox was ended from outside"); return;
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
        if (Program* program = find_program(id)) feed(id, *program);
        return;
      case kDenials:
        if (Program* program = find_program(id)) on_denials(id, *program);
        return;
    }
  }

  void end_session(const std::string& why) {
    if (std::exchange(over_, true)) return;
    why_over_ = why;
  }

  // Everything inside dies with `live_`; then the places that the host trusts are looked after.
  void end() {
    if (cell_) finish(*cell_, Verdict::killed, 0, SIGKILL, false, why_over_);
    while (!queue_.empty()) {
      fail(*queue_.front(), Error(ErrorKind::usage, "the session ended: " + why_over_));
      queue_.pop_front();
    }
    for (auto& job : execs_) finish(*job, Verdict::killed, 0, SIGKILL, false, why_over_);
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

  // ---- time ----------------------------------------------------------------------------------------------------

  int64_t now_ms() const { return options_.now_ms ? options_.now_ms() : clock_ms(CLOCK_BOOTTIME); }

  bool is_busy() const { return cell_ != nullptr || !execs_.empty() || !queue_.empty(); }

  void arm_timer() {
    itimerspec when{};
    if (const std::optional<int64_t> next = deadlines_->next_ms(now_ms())) {
      const int64_t ms = std::max<int64_t>(*next, 1);
      when.it_value.tv_sec = ms / 1000;
      when.it_value.tv_nsec = ms % 1000 * 1000000;
    }
    ::timerfd_settime(timer_.get(), 0, &when, nullptr);
  }

  int wait_ms() const {
    const int64_t now = clock_ms(CLOCK_MONOTONIC);
    std::optional<int64_t> until = next_look_ms_;
    const auto earlier = [&](const std::optional<int64_t>& other) {
      if (other && (!until || *other < *until)) until = other;
    };
    if (cell_) {
      earlier(cell_->deadline_ms);
      earlier(cell_->grace_ms);
      earlier(cell_->again_ms);
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

  void check_times() {
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

  void check_job(Job& job, int64_t now) {
    if (job.deadline_ms && *job.deadline_ms <= now) {
      job.deadline_ms.reset();
      hit(job, "wall", "limits.time", format_duration(job.timeout), "timer");
      ask_to_end(job, Verdict::timed_out);
    }
    if (job.grace_ms && *job.grace_ms <= now) {
      job.grace_ms.reset();
      job.again_ms.reset();
      return kill_everything();
    }
    if (job.again_ms && *job.again_ms <= now) interrupt_driver(job, now);
  }

  // ---- limits --------------------------------------------------------------------------------------------------

  void hit(Job& job, const char* name, const char* key, std::string value, const char* by) {
    (void)job;  // limits are the sandbox's; the cell that ends next tells of them
    watch_->hit(name, key, std::move(value), by);
  }

  void look() {
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

  void state_lost(const std::string& why) {
    if (!ground_.has_driver()) return;
    lost_note_ = "the session's state was lost (" + why + "); its files are there";
  }

  // All processes but init. What they were comes back as news, and then a new driver is started.
  void kill_everything() {
    if (std::exchange(emptying_, true)) return;
    live_->kill_all();
  }

  // Its whole process group; again and again, until the cell ends or its grace.
  void interrupt_driver(Job& job, int64_t now) {
    live_->signal(driver_pid_, SIGINT);
    job.again_ms = now + kInterruptAgainMs;
  }

  // By the gentle way where there is one.
  void ask_to_end(Job& job, Verdict verdict) {
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

  void interrupt(Job& job) {
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

  // ---- programs ------------------------------------------------------------------------------------------------

  Program* find_program(uint64_t id) {
    const auto found = programs_.find(id);
    return found == programs_.end() ? nullptr : &found->second;
  }

  Status listen(int fd, uint64_t what, uint32_t events = EPOLLIN) const {
    epoll_event event{};
    event.events = events;
    event.data.u64 = what;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return Error::from_errno(errno, "watch a descriptor");
    return {};
  }
  void forget(int fd) const { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

  // Starts it with pipes of its own. `socket`: becomes its descriptor 3.
  Result<uint64_t> start_program(const std::vector<std::string>& argv, const std::string& exec_path, const std::vector<std::string>& environment,
                                 int socket, bool input) {
    sys::Pipe out = SBX_TRY(sys::pipe());
    sys::Pipe err = SBX_TRY(sys::pipe());
    sys::Pipe in;
    if (input) in = SBX_TRY(sys::pipe());
    runtime::ProgramStart start;
    start.argv = argv;
    start.exec_path = exec_path;
    start.environment = environment;
    start.working_directory = ground_.spec().working_directory;
    start.stdio[0] = input ? in.read.get() : -1;
    start.stdio[1] = out.write.get();
    start.stdio[2] = err.write.get();
    if (socket >= 0) start.extra.push_back(socket);
    runtime::StartedProgram started = SBX_TRY(live_->start_program(start));
    const uint64_t id = ++last_program_;
    Program& program = programs_[id];
    program.pid = started.pid;
    program.out = std::move(out.read);
    program.err = std::move(err.read);
    program.input = std::move(in.write);
    SBX_TRY(sys::set_nonblocking(program.out.get()));
    SBX_TRY(sys::set_nonblocking(program.err.get()));
    if (program.input.valid()) SBX_TRY(sys::set_nonblocking(program.input.get()));
    if (started.listener.valid()) {
      program.denials.emplace(std::move(started.listener));
      SBX_TRY(listen(program.denials->fd(), tag(kDenials, id)));
    }
    watch_output(id, program);
    return id;
  }

  void watch_output(uint64_t id, Program& program) {
    const Client* client = program.job != nullptr ? find_client(program.job->client) : nullptr;
    const bool wanted = client == nullptr || client->backlog() < kHighWater;
    const auto set = [&](UniqueFd& fd, bool& watched, Tag kind) {
      if (!fd.valid() || watched == wanted) return;
      if (wanted) (void)listen(fd.get(), tag(kind, id));
      else forget(fd.get());
      watched = wanted;
    };
    set(program.out, program.out_watched, kOut);
    set(program.err, program.err_watched, kErr);
  }

  void pump(uint64_t id, Program& program, int stream) {
    read_output(program, stream, kChunk);
    watch_output(id, program);
  }

  // What is in the pipes by now, and not what a writer adds meanwhile.
  void drain(Program& program) {
    for (const int stream : {1, 2}) {
      const UniqueFd& fd = stream == 1 ? program.out : program.err;
      for (size_t left = fd.valid() ? bytes_in_pipe(fd.get()) : 0; left > 0 && fd.valid();) {
        const size_t got = read_output(program, stream, std::min(left, kChunk));
        if (got == 0) break;
        left -= got;
      }
    }
  }

  size_t read_output(Program& program, int stream, size_t size) {
    UniqueFd& fd = stream == 1 ? program.out : program.err;
    if (!fd.valid()) return 0;
    char bytes[kChunk];
    const ssize_t got = ::read(fd.get(), bytes, std::min(size, sizeof bytes));
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (got <= 0) {
      forget(fd.get());
      fd.reset();
      return 0;
    }
    deliver(program, stream, {bytes, static_cast<size_t>(got)});
    return static_cast<size_t>(got);
  }

  void deliver(Program& program, int stream, std::string_view bytes) {
    append_tail(log_, bytes, kLogBytes);
    Job* const job = program.job;
    if (job == nullptr || job->over[stream]) return;
    runtime::StreamResult& result = job->streams[stream];
    if (limits_.output && result.total_bytes + bytes.size() > limits_.output->value) {
      bytes = bytes.substr(0, static_cast<size_t>(limits_.output->value - result.total_bytes));
      result.truncated = job->over[stream] = true;
      hit(*job, "output", "limits.output", format_size(*limits_.output), "pump");
      ask_to_end(*job, Verdict::output_limit);
    }
    if (bytes.empty()) return;
    result.total_bytes += bytes.size();
    if (stream == 2) append_tail(job->tail, bytes, kTail);
    if (job->streams_inside) {
      note_clear(*job);
      std::vector<Job::Segment>& segments = job->segments;
      const size_t begin = result.kept.size();
      result.kept.append(bytes);
      if (!segments.empty() && segments.back().output == SIZE_MAX && segments.back().stream == stream && segments.back().end == begin) {
        segments.back().end = result.kept.size();
      } else if (segments.size() < kMaxSegments) {
        segments.push_back({stream, begin, result.kept.size(), SIZE_MAX});
      }
    } else {
      tell(job->client, stream == 1 ? Kind::out : Kind::err, bytes);
    }
  }

  void feed(uint64_t id, Program& program) {
    while (program.input.valid() && !program.to_input.empty()) {
      const ssize_t put = ::write(program.input.get(), program.to_input.data(), program.to_input.size());
      if (put > 0) {
        program.to_input.erase(0, static_cast<size_t>(put));
      } else if (errno == EAGAIN) {
        break;
      } else if (errno != EINTR) {
        program.to_input.clear();
        program.input_ends = true;
      }
    }
    if (!program.input.valid()) return;
    const bool wanted = !program.to_input.empty();
    if (wanted != program.input_watched) {
      if (wanted) (void)listen(program.input.get(), tag(kInput, id), EPOLLOUT);
      else forget(program.input.get());
      program.input_watched = wanted;
    }
    if (program.to_input.empty() && program.input_ends) {
      program.input.reset();
    }
    if (program.job != nullptr) watch_client(program.job->client);
  }

  void on_denials(uint64_t, Program& program) {
    const runtime::DenialLog::Next next = program.denials->on_ready();
    if (next == runtime::DenialLog::Next::ready) return;
    forget(program.denials->fd());
    if (next == runtime::DenialLog::Next::tired) program.denials_resume_ms = clock_ms(CLOCK_MONOTONIC) + runtime::DenialLog::kPauseMs;
  }

  void take_news() {
    while (!over_) {
      const std::optional<ns::SpawnEvent> event = live_->next_news();
      if (!event) return;
      if (event->news == ns::SpawnNews::emptied) {
        emptying_ = false;
        watch_->begin_anew();
        if (ground_.has_driver() && driver_id_ == 0) restart_driver();
        continue;
      }
      if (event->news != ns::SpawnNews::ended) continue;
      for (auto& [id, program] : programs_) {
        if (program.pid != event->pid) continue;
        if (id == driver_id_) on_driver_end(event->status);
        else on_program_end(id, event->status);
        break;
      }
    }
  }

  void on_program_end(uint64_t id, int status) {
    Program& program = programs_[id];
    drain(program);
    collect_denials(program);
    Job* const job = program.job;
    const std::vector<runtime::Denial> denied = std::move(program.denied);
    remove_program(id);
    if (job == nullptr) return;
    job->program = 0;
    const bool last = job->step + 1 >= job->steps.size();
    if (!last && !job->forced && job->caught_signal == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) {
      ++job->step;
      if (Status next = start_step(*job); !next.ok()) fail_running(*job, next.take_error());
      return;
    }
    Verdict verdict = Verdict::exited;
    int signal = 0;
    if (WIFSIGNALED(status)) {
      signal = WTERMSIG(status);
      verdict = signal == SIGSYS ? Verdict::denied : Verdict::signaled;
      if (job->caught_signal == signal || (job->caught_signal != 0 && signal == SIGKILL)) verdict = Verdict::killed;
    } else if (!last) {
      job->hints.emplace_back("the program was not compiled");
    }
    job_denied_ = denied;
    finish(*job, verdict, WIFEXITED(status) ? WEXITSTATUS(status) : 0, signal, true, "");
  }

  void collect_denials(Program& program) {
    if (!program.denials) return;
    while (program.denials->on_ready() == runtime::DenialLog::Next::ready && bytes_waiting(program.denials->fd())) {
    }
    for (runtime::Denial& denial : program.denials->take()) program.denied.push_back(std::move(denial));
  }
  static bool bytes_waiting(int fd) {
    pollfd wait{fd, POLLIN, 0};
    return ::poll(&wait, 1, 0) > 0 && (wait.revents & POLLIN) != 0;
  }

  void remove_program(uint64_t id) { programs_.erase(id); }

  // ---- driver --------------------------------------------------------------------------------------------------

  Status start_driver() {
    std::array<UniqueFd, 2> pair = SBX_TRY(sys::socketpair(SOCK_STREAM));
    const SandboxSpec& spec = ground_.spec();
    driver_id_ = SBX_TRY(start_program(spec.argv, spec.exec_path, spec.environment, pair[1].get(), false));
    driver_pid_ = programs_[driver_id_].pid;
    driver_ready_ = false;
    frames_ = FrameReader();
    to_driver_.clear();
    socket_ = std::move(pair[0]);
    SBX_TRY(sys::set_nonblocking(socket_.get()));
    driver_writes_ = false;
    SBX_TRY(listen(socket_.get(), tag(kFrames)));
    driver_deadline_ms_ = clock_ms(CLOCK_MONOTONIC) + options_.start.value;
    return {};
  }

  void restart_driver() {
    Status started = start_driver();
    if (!started.ok()) driver_failed(started.error().text());
  }

  // It could not be started, or ended before it was ready.
  void driver_failed(const std::string& why) {
    std::string tail(trim(log_.size() > 1000 ? log_.substr(log_.size() - 1000) : log_));
    Error error(ErrorKind::system, "the session's interpreter cannot be started: " + why + (tail.empty() ? "" : ": " + printable(tail, 500)));
    if (!announced_) {
      start_error_ = std::move(error);
      return;
    }
    if (++failures_ > kMaxFailures) return end_session(error.text());
    kill_everything();
  }

  void send_frames(std::string_view bytes) {
    to_driver_.append(bytes);
    flush_driver();
  }
  void flush_driver() {
    while (socket_.valid() && !to_driver_.empty()) {
      const ssize_t put = ::send(socket_.get(), to_driver_.data(), std::min(to_driver_.size(), kHighWater), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (put > 0) to_driver_.erase(0, static_cast<size_t>(put));
      else if (errno == EAGAIN) break;
      else if (errno != EINTR) to_driver_.clear();  // it is gone, as news will tell
    }
    const bool wanted = !to_driver_.empty();
    if (!socket_.valid() || wanted == driver_writes_) return;
    epoll_event event{};
    event.events = EPOLLIN | (wanted ? EPOLLOUT : 0U);
    event.data.u64 = tag(kFrames);
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket_.get(), &event);
    driver_writes_ = wanted;
  }

  void on_frames(uint32_t events) {
    if (!socket_.valid()) return;
    if ((events & EPOLLOUT) != 0) flush_driver();
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read_frames(1);
  }

  // At most `rounds` pieces: a flood of frames must not hold up timers.
  void read_frames(int rounds) {
    char bytes[kChunk];
    for (int round = 0; round < rounds && socket_.valid(); ++round) {
      const ssize_t got = ::recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (got <= 0) {
        close_socket();
        // A driver that closed it and lives on is of no use.
        if (driver_id_ != 0) live_->signal(driver_pid_, SIGKILL);
        return;
      }
      frames_.append({bytes, static_cast<size_t>(got)});
      for (;;) {
        Result<std::optional<DriverFrame>> frame = frames_.next();
        if (!frame.ok()) return broken(frame.error().text());
        if (!frame.value()) break;
        on_frame(*frame.value());
        if (!socket_.valid()) return;
      }
    }
  }
  void close_socket() {
    if (!socket_.valid()) return;
    forget(socket_.get());
    socket_.reset();
  }

  // Nothing that it says can be believed any more.
  void broken(const std::string& why) {
    close_socket();
    broken_ = why;
    if (cell_ && !cell_->forced) cell_->caught_signal = SIGKILL;
    kill_everything();
  }

  void on_frame(DriverFrame& frame) {
    if (frame.type == DriverFrame::Type::ready) {
      driver_ready_ = true;
      driver_deadline_ms_.reset();
      failures_ = 0;
      driver_version_ = printable(frame.body.at("version").text(), 64);
      become_ready();
      return;
    }
    Program* const program = find_program(driver_id_);
    if (program == nullptr || !cell_) return;
    drain(*program);
    Job& job = *cell_;
    if (frame.type == DriverFrame::Type::done) return on_done(job, frame);
    note_output(job, frame);
    send_frames(session::frame(Json::object().set("type", "ack").set("seq", frames_.seq()).dump()));
  }

  void note_clear(Job& job) {
    if (!std::exchange(job.clear_pending, false)) return;
    job.outputs.clear();
    job.segments.clear();
  }

  void note_output(Job& job, DriverFrame& frame) {
    if (frame.type == DriverFrame::Type::clear) {
      job.clear_pending = true;
      if (!frame.body.at("wait").boolean()) note_clear(job);
      return;
    }
    note_clear(job);
    const Json& data = frame.body.at("data");
    if (!job.streams_inside && frame.type != DriverFrame::Type::update) {
      std::string text = data.at("text/plain").text();
      if (!text.empty()) tell(job.client, Kind::shown, text + "\n");
    }
    if (job.outputs.size() >= kMaxOutputs) {
      ++job.dropped;
      return;
    }
    job.segments.push_back({0, 0, 0, job.outputs.size()});
    job.outputs.push_back(output_json(frame));
  }

  void on_done(Job& job, const DriverFrame& frame) {
    const Json& body = frame.body;
    job.dropped += static_cast<uint64_t>(std::max<int64_t>(body.at("dropped").integer(), 0));
    execution_count_ = body.at("execution_count").integer();
    if (const Json& error = body.at("error"); error.is(Json::Kind::object)) {
      const std::string& traceback = error.at("traceback").text();
      if (!job.streams_inside) tell(job.client, Kind::err, traceback.ends_with('\n') ? traceback : traceback + "\n");
      append_tail(job.tail, traceback, kTail);
      job.segments.push_back({0, 0, 0, job.outputs.size()});
      job.outputs.push_back(error_output(frame));
    }
    Program& program = programs_[driver_id_];
    collect_denials(program);
    job_denied_ = std::move(program.denied);
    program.denied.clear();
    const bool interrupted = body.at("status").text() == "interrupted";
    finish(job, interrupted ? Verdict::killed : Verdict::exited, static_cast<int>(body.at("exit_code").integer()), interrupted ? SIGINT : 0, true, "");
  }

  void on_driver_end(int status) {
    Program& program = programs_[driver_id_];
    drain(program);
    read_frames(512);
    drain(program);
    collect_denials(program);
    job_denied_ = std::move(program.denied);
    close_socket();
    driver_deadline_ms_.reset();
    const bool was_ready = driver_ready_;
    driver_ready_ = false;
    const uint64_t id = std::exchange(driver_id_, 0);
    programs_[id].job = nullptr;
    remove_program(id);
    if (cell_ && cell_->started && cell_->program == 0) {
      Verdict verdict = Verdict::exited;
      int signal = 0;
      if (WIFSIGNALED(status)) {
        signal = WTERMSIG(status);
        verdict = signal == SIGSYS ? Verdict::denied : Verdict::signaled;
        if (cell_->caught_signal != 0) {
          verdict = Verdict::killed;
          signal = cell_->caught_signal;
        }
      }
      const std::string why = broken_.empty() ? "the interpreter had to be started anew" : broken_;
      finish(*cell_, verdict, WIFEXITED(status) ? WEXITSTATUS(status) : 0, signal, false, why);
    } else if (was_ready && lost_note_.empty() && !restarting_) {
      state_lost(broken_.empty() ? "its interpreter ended between two cells" : broken_);
    }
    broken_.clear();
    restarting_ = false;
    if (over_) return;
    if (!was_ready && !emptying_) return driver_failed(WIFEXITED(status) ? "it ended with status " + std::to_string(WEXITSTATUS(status)) : "it was ended by signal " + std::to_string(WTERMSIG(status)));
    if (!emptying_) restart_driver();
  }

  // ---- jobs ----------------------------------------------------------------------------------------------------

  void next_cell() {
    if (over_ || cell_ || queue_.empty() || emptying_) return;
    if (ground_.has_driver() && !driver_ready_) return;
    cell_ = std::move(queue_.front());
    queue_.pop_front();
    Job& job = *cell_;
    if (execs_.empty()) watch_->begin_anew();
    begin_job(job);
    job.number = ++cells_;
    Status started = start_cell(job);
    if (!started.ok()) fail_running(job, started.take_error());
  }

  void begin_job(Job& job) {
    deadlines_->set_busy(true, now_ms());
    job.began_ns = sys::monotonic_ns();
    if (!job.no_timeout) job.deadline_ms = clock_ms(CLOCK_MONOTONIC) + job.timeout.value;
    next_look_ms_ = 0;
    if (!job.want_result || !options_.changes) return;
    const Result<UniqueFd> box = open_inside(live_->root_fd(), "box", O_RDONLY | O_DIRECTORY);
    if (!box.ok()) return;
    if (Result<runtime::Baseline> before = runtime::take_baseline(box.value().get(), {}); before.ok()) {
      job.before = before.take();
      job.has_before = true;
    }
  }

  Status start_cell(Job& job) {
    const ActAs acting(live_->host_uid(), live_->host_gid());
    if (!ground_.has_driver()) {
      SBX_TRY(put_inside(live_->root_fd(), ground_.cell_path(), job.code));
      job.steps = SBX_TRY(ground_.cell_steps(job.arguments));
      return start_step(job);
    }
    Json request = Json::object();
    const std::string token = SBX_TRY(make_token());
    request.set("type", "execute").set("cell", job.number).set("token", token).set("ack", true);
    if (job.has_input) {
      const std::string path = std::string(runtime::kCellInputDirectory) + "/" + std::to_string(job.number);
      SBX_TRY(put_inside(live_->root_fd(), path.substr(1), job.input));
      request.set("stdin", path);
    }
    frames_.begin_cell(job.number, token);
    programs_[driver_id_].job = &job;
    job.started = true;
    send_frames(session::frame(request.dump()) + session::frame(job.code));
    if (job.caught_signal != 0) interrupt(job);
    return {};
  }

  Status start_step(Job& job) {
    const runtime::CellStep& step = job.steps[job.step];
    const bool last = job.step + 1 == job.steps.size();
    job.program = SBX_TRY(start_program(step.argv, step.argv[0], step.environment, -1, last && (job.exec || job.has_input)));
    job.started = true;
    Program& program = programs_[job.program];
    program.job = &job;
    if (last && job.has_input && !job.exec) {
      program.to_input = std::move(job.input);
      program.input_ends = true;
      feed(job.program, program);
    }
    return {};
  }

  void start_exec(std::unique_ptr<Job> job) {
    Job& started = *job;
    if (!is_busy()) watch_->begin_anew();
    execs_.push_back(std::move(job));
    begin_job(started);
    Status status = emptying_ ? Status(Error(ErrorKind::resource, "the session is being restarted").with_hint("try again")) : start_step(started);
    if (!status.ok()) fail_running(started, status.take_error());
  }

  // It could not be run at all.
  void fail(Job& job, const Error& error) {
    Json answer = Json::object();
    answer.set("error", error_json(error));
    if (job.client != 0) {
      if (Client* client = find_client(job.client)) client->job = nullptr;
      reply(job.client, std::move(answer));
    }
  }
  void fail_running(Job& job, const Error& error) {
    fail(job, error);
    drop(job);
  }

  void drop(Job& job) {
    for (auto& [id, program] : programs_) {
      if (program.job == &job) program.job = nullptr;
    }
    if (Client* client = find_client(job.client)) client->job = nullptr;
    if (cell_.get() == &job) {
      frames_.end_cell();
      cell_.reset();
    } else {
      std::erase_if(execs_, [&](const std::unique_ptr<Job>& exec) { return exec.get() == &job; });
    }
    deadlines_->set_busy(is_busy(), now_ms());
    // What was counted is told; a kill by the kernel, say, is not the next one's.
    if (!over_ && !cell_ && execs_.empty()) watch_->begin_anew();
    for (auto& [id, program] : programs_) watch_output(id, program);
  }

  // The end of a cell or program: everything is told to whoever asked, and then it is forgotten.
  void finish(Job& job, Verdict verdict, int code, int signal, bool state_kept, const std::string& note) {
    runtime::Report report = ground_.blank_report();
    runtime::Outcome& outcome = report.outcome;
    outcome.isolation = live_->isolation();
    if (job.exec || !job.steps.empty()) {
      report.argv = job.steps.empty() ? report.argv : job.steps[std::min(job.step, job.steps.size() - 1)].argv;
      if (job.exec) report.language = report.tool = report.tool_version = "";
    }
    if (!driver_version_.empty() && !job.exec && report.tool_version.empty()) report.tool_version = driver_version_;
    const rusage nothing{};
    const std::optional<Verdict> late = watch_->settle(nothing, job.forced.has_value(), verdict == Verdict::signaled);
    outcome.verdict = job.forced ? *job.forced : late ? *late : verdict;
    outcome.exit_code = outcome.verdict == Verdict::exited ? code : 0;
    outcome.signal = outcome.verdict == Verdict::signaled || outcome.verdict == Verdict::killed || outcome.verdict == Verdict::denied ? signal : 0;
    outcome.limits_hit = watch_->take_hits();
    fill_usage(job, outcome.usage);
    outcome.denials = std::exchange(job_denied_, {});
    runtime::explain_denials(ground_.spec(), outcome.denials);
    outcome.out = std::move(job.streams[1]);
    outcome.err = std::move(job.streams[2]);
    outcome.out.captured = outcome.err.captured = job.streams_inside;
    outcome.stderr_tail = job.tail.size() > kTail ? job.tail.substr(job.tail.size() - kTail) : job.tail;
    report.exit_status = runtime::exit_status(outcome);
    list_changes(job, report);
    const bool driven = ground_.has_driver() && !job.exec;
    std::string lost = driven && !state_kept ? "the session's state was lost; its files are there" + (note.empty() ? "" : ": " + note) : "";
    if (job.exec || !driven) {
      if (!note.empty()) report.hints.push_back(note);
    }
    report.hints.insert(report.hints.end(), job.hints.begin(), job.hints.end());
    add_hints(report, driven && state_kept, lost);

    Json answer = Json::object();
    answer.set("exit_status", report.exit_status).set("verdict", runtime::verdict_name(outcome.verdict));
    Json hints = Json::array();
    for (const std::string& hint : report.hints) hints.add(hint);
    answer.set("hints", std::move(hints)).set("state_kept", driven ? Json(state_kept) : Json());
    if (job.client != 0) {
      if (job.want_result) tell(job.client, Kind::result, result_text(job, report, driven, state_kept, lost));
      reply(job.client, std::move(answer));
    }
    cells_done_ += job.exec ? 0 : 1;
    last_verdict_ = runtime::verdict_name(outcome.verdict);
    drop(job);
  }

  void fill_usage(const Job& job, runtime::Usage& usage) const {
    usage.wall.value = static_cast<int64_t>((sys::monotonic_ns() - job.began_ns) / 1000);
    const runtime::CgroupCounts& counts = watch_->counts();
    if (counts.user_us && counts.system_us) {
      usage.user = Micros{*counts.user_us};
      usage.system = Micros{*counts.system_us};
    }
    if (const uint64_t bytes = std::max(watch_->peak_bytes(), counts.memory_current.value_or(0)); bytes > 0) usage.peak_memory = Bytes{bytes};
    usage.peak_memory_note = "the whole sandbox while this ran, looked at every 20 ms";
    if (watch_->peak_threads() > 0) usage.peak_pids = watch_->peak_threads();
    usage.peak_pids_note = watch_->sampled() ? "sampled every 20 ms, the session's interpreter among them" : "not looked at";
  }

  void list_changes(const Job& job, runtime::Report& report) const {
    if (!job.has_before || live_ == nullptr) return;
    const Result<UniqueFd> box = open_inside(live_->root_fd(), "box", O_RDONLY | O_DIRECTORY);
    if (!box.ok()) return;
    runtime::ArtifactBounds bounds;
    bounds.max_bytes = kHashedBytes;
    Result<runtime::ArtifactList> list = runtime::list_artifacts(box.value().get(), job.before, {}, false, bounds);
    if (list.ok()) report.artifacts = list.take();
    else report.artifact_notes.push_back("the files could not be listed: " + list.error().text());
  }

  void add_hints(runtime::Report& report, bool kept, std::string& lost) {
    const runtime::Outcome& outcome = report.outcome;
    for (const runtime::LimitHit& limit : outcome.limits_hit) {
      if (limit.name == "wall") {
        report.hints.push_back("its time (" + limit.value + ") was over" + std::string(kept ? "; it was interrupted and the session's state is kept" : "") + ": --timeout allows more");
      } else {
        report.hints.push_back("the limit of " + limit.name + " (" + limit.value + ") was reached: a session started with a higher --" + hyphens(limit.name) + " has more");
      }
    }
    if (runtime::exit_status(outcome) != 0) {
      for (const runtime::Denial& denial : outcome.denials) report.hints.push_back(runtime::denial_line(denial));
    }
    if (!lost.empty()) report.hints.push_back(lost);
    if (!lost_note_.empty()) {
      if (lost.empty()) report.hints.push_back(lost_note_ + ", before this cell");
      lost_note_.clear();
    }
  }
  static std::string hyphens(std::string name) {
    std::replace(name.begin(), name.end(), '_', '-');
    return name;
  }

  // The result of a run, and behind it what only cells have.
  std::string result_text(const Job& job, const runtime::Report& report, bool driven, bool state_kept, const std::string& lost) const {
    const SessionRecord& record = entry_->record();
    Json more = Json::object();
    more.set("session", Json::object().set("id", record.id).set("name", record.name.empty() ? Json() : Json(record.name)));
    more.set("execution_count", driven && execution_count_ > 0 ? Json(execution_count_) : Json());
    more.set("state_kept", driven ? Json(state_kept) : Json()).set("state_note", lost.empty() ? Json() : Json(lost));
    std::vector<std::string> outputs;
    size_t left = kOutputText;
    for (const Job::Segment& segment : job.segments) {
      if (segment.output != SIZE_MAX) {
        outputs.push_back(job.outputs[segment.output]);
        continue;
      }
      const std::string& kept = segment.stream == 1 ? report.outcome.out.kept : report.outcome.err.kept;
      const std::string bytes = kept.substr(segment.begin, std::min(segment.end - segment.begin, left));
      left -= bytes.size();
      Json output = Json::object().set("type", "stream").set("name", segment.stream == 1 ? "stdout" : "stderr");
      if (bytes.size() < segment.end - segment.begin) output.set("truncated", true);
      if (is_valid_utf8(bytes)) output.set("text", bytes);
      else output.set("base64", base64_encode(bytes));
      outputs.push_back(output.dump());
    }
    more.set("outputs_dropped", job.dropped);
    return with_outputs(runtime::result_json(report, job.streams_inside), more, outputs);
  }

  // ---- clients -------------------------------------------------------------------------------------------------

  Client* find_client(uint64_t id) {
    const auto found = clients_.find(id);
    return found == clients_.end() ? nullptr : &found->second;
  }

  void accept_client() {
    for (;;) {
      UniqueFd fd(::accept4(entry_->listener(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!fd.valid()) return;
      if (clients_.size() >= kMaxClients || !is_trusted_peer(fd.get())) continue;
      const uint64_t id = ++last_client_;
      Client& client = clients_[id];
      client.fd = std::move(fd);
      client.watched = EPOLLIN;
      if (!listen(client.fd.get(), tag(kClient, id)).ok()) clients_.erase(id);
    }
  }

  void on_client(uint64_t id, uint32_t events) {
    Client* client = find_client(id);
    if (client == nullptr) return;
    if ((events & EPOLLOUT) != 0) {
      if (!send_some(*client)) return lose_client(id);
      for (auto& [program_id, program] : programs_) watch_output(program_id, program);
    }
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
      char bytes[kChunk];
      const ssize_t got = ::recv(client->fd.get(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return lose_client(id);
      if (got > 0) client->reader.append({bytes, static_cast<size_t>(got)});
      while ((client = find_client(id)) != nullptr) {
        Result<std::optional<Message>> message = client->reader.next();
        if (!message.ok()) return lose_client(id);
        if (!message.value()) break;
        on_message(id, *client, *message.value());
      }
    }
    watch_client(id);
  }

  void watch_client(uint64_t id) {
    Client* const client = find_client(id);
    if (client == nullptr) return;
    const Program* program = client->job != nullptr && client->job->program != 0 ? find_program(client->job->program) : nullptr;
    const bool full = program != nullptr && program->to_input.size() > kHighWater;
    const uint32_t wanted = (full ? 0U : uint32_t{EPOLLIN}) | (client->backlog() > 0 ? uint32_t{EPOLLOUT} : 0U);
    if (wanted == client->watched) return;
    epoll_event event{};
    event.events = wanted;
    event.data.u64 = tag(kClient, id);
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, client->fd.get(), &event);
    client->watched = wanted;
  }

  // It went away: what it asked for is interrupted.
  void lose_client(uint64_t id) {
    Client* const client = find_client(id);
    if (client == nullptr) return;
    Job* const job = client->job;
    clients_.erase(id);
    std::erase(stoppers_, id);
    client_input_.erase(id);
    if (job == nullptr) return;
    job->client = 0;
    if (forget_queued(*job)) return;
    if (job->exec) ask_to_end(*job, Verdict::killed);
    else interrupt(*job);
    for (auto& [program_id, program] : programs_) watch_output(program_id, program);
  }

  // True: it was waiting for its turn, and is gone.
  bool forget_queued(const Job& job) {
    for (auto queued = queue_.begin(); queued != queue_.end(); ++queued) {
      if (queued->get() != &job) continue;
      if (Client* const client = find_client(job.client)) {
        client->job = nullptr;
        reply(job.client, Json::object().set("exit_status", 128 + SIGINT).set("verdict", "killed").set("hints", Json::array().add("it was interrupted before its turn came")));
      }
      queue_.erase(queued);
      deadlines_->set_busy(is_busy(), now_ms());
      return true;
    }
    return false;
  }

  static bool send_some(Client& client) {
    while (client.backlog() > 0) {
      const ssize_t put = ::send(client.fd.get(), client.pending.data() + client.sent, client.backlog(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return errno == EAGAIN;
      client.sent += static_cast<size_t>(put);
    }
    client.pending.clear();
    client.sent = 0;
    return true;
  }

  // Errors of sending show as a hang-up.
  void tell(uint64_t id, Kind kind, std::string_view body) {
    Client* const client = find_client(id);
    if (client == nullptr) return;
    if (client->sent > kHighWater) {
      client->pending.erase(0, client->sent);
      client->sent = 0;
    }
    client->pending += encode(kind, body);
    (void)send_some(*client);
    watch_client(id);
  }

  void reply(uint64_t id, Json answer) {
    tell(id, Kind::reply, answer.dump());
    if (Client* client = find_client(id)) client->ended = true;
  }
  void refuse(uint64_t id, const Error& error) { reply(id, Json::object().set("error", error_json(error))); }

  // After the last message the client closes; we do when it does, or here.
  void close_finished() {
    std::vector<uint64_t> done;
    for (auto& [id, client] : clients_) {
      if (client.ended && client.backlog() == 0) done.push_back(id);
    }
    for (const uint64_t id : done) clients_.erase(id);
  }

  void on_message(uint64_t id, Client& client, Message& message) {
    switch (message.kind) {
      case Kind::request: {
        Result<Json> request = parse_json(message.body, 16, 20000);
        if (client.asked || !request.ok()) return lose_client(id);
        client.asked = true;
        const std::string& op = request.value().at("op").text();
        if (!entry_->record().warm.empty() && op != "show" && op != "stop" && op != "adopt") {
          return refuse(id, Error(ErrorKind::usage, "the session is started ahead and not in use").with_hint("sbx session start takes it"));
        }
        if (request.value().at("op").text() == "run") client.request = request.take();
        else on_request(id, client, request.value());
        return;
      }
      case Kind::code:
        if (!client.request) return lose_client(id);
        on_run(id, client, *client.request, std::move(message.body));
        client.request.reset();
        return;
      case Kind::input:
        if (client.request) {  // a cell's, before its code
          if (client_input_[id].size() + message.body.size() > kMaxStdin) return lose_client(id);
          client_input_[id] += message.body;
        } else if (Program* program = program_of(client)) {
          program->to_input += message.body;
          feed(client.job->program, *program);
        }
        return;
      case Kind::input_end:
        if (Program* program = program_of(client)) {
          program->input_ends = true;
          feed(client.job->program, *program);
        }
        return;
      case Kind::interrupt:
        if (client.job != nullptr && !forget_queued(*client.job)) interrupt(*client.job);
        return;
      default: lose_client(id);
    }
  }
  Program* program_of(const Client& client) {
    return client.job != nullptr && client.job->exec && client.job->program != 0 ? find_program(client.job->program) : nullptr;
  }

  // What all jobs have.
  std::unique_ptr<Job> make_job(uint64_t id, const Json& request) const {
    auto job = std::make_unique<Job>();
    job->client = id;
    job->want_result = request.at("result").boolean();
    job->streams_inside = request.at("streams").boolean();
    if (request.has("timeout_ms")) job->timeout = Millis{std::max<int64_t>(1, request.at("timeout_ms").integer())};
    else if (limits_.wall) job->timeout = *limits_.wall;
    else job->no_timeout = true;
    return job;
  }

  void on_run(uint64_t id, Client& client, const Json& request, std::string code) {
    deadlines_->use(now_ms());
    if (code.size() > kMaxFrame) return refuse(id, Error(ErrorKind::usage, "the code is more than 16M").with_hint("put data into a file: sbx cp"));
    if (ground_.has_driver() && code.find('\0') != std::string::npos) return refuse(id, Error(ErrorKind::usage, "the code has a NUL byte in it"));
    const bool busy = cell_ != nullptr || !queue_.empty();
    if (busy && !request.at("wait").boolean(true)) {
      return refuse(id, Error(ErrorKind::resource, "the session is busy").with_hint("wait for it (without --no-wait), or sbx session interrupt"));
    }
    if (queue_.size() >= kMaxQueue) return refuse(id, Error(ErrorKind::resource, "too many cells wait already"));
    std::unique_ptr<Job> job = make_job(id, request);
    job->code = std::move(code);
    for (const Json& word : request.at("arguments").items()) job->arguments.push_back(word.text());
    if (ground_.has_driver() && !job->arguments.empty()) return refuse(id, Error(ErrorKind::usage, "a cell takes no arguments").with_hint("set a variable in a cell before it"));
    job->has_input = request.at("stdin").boolean();
    if (const auto input = client_input_.find(id); input != client_input_.end()) {
      job->input = std::move(input->second);
      client_input_.erase(input);
    }
    client.job = job.get();
    if (busy) tell(id, Kind::note, "the session is busy; this cell waits for its turn");
    queue_.push_back(std::move(job));
    deadlines_->set_busy(true, now_ms());
  }

  void on_request(uint64_t id, Client& client, const Json& request) {
    const std::string& op = request.at("op").text();
    if (op == "show") return reply(id, describe());
    if (op == "logs") return reply(id, Json::object().set("log", base64_encode(log_.size() > kLogBytes ? log_.substr(log_.size() - kLogBytes) : log_)));
    deadlines_->use(now_ms());
    if (op == "adopt") return adopt(id, request);
    if (op == "exec") {
      if (execs_.size() >= kMaxPrograms) return refuse(id, Error(ErrorKind::resource, "too many programs run in this session already"));
      std::unique_ptr<Job> job = make_job(id, request);
      job->exec = true;
      runtime::CellStep step;
      for (const Json& word : request.at("argv").items()) step.argv.push_back(word.text());
      if (step.argv.empty() || step.argv[0].empty()) return refuse(id, Error(ErrorKind::usage, "no command given"));
      step.environment = ground_.spec().environment;
      job->steps.push_back(std::move(step));
      client.job = job.get();
      return start_exec(std::move(job));
    }
    if (op == "interrupt") {
      const bool running = cell_ != nullptr;
      if (running) interrupt(*cell_);
      return reply(id, Json::object().set("interrupted", running));
    }
    if (op == "restart") {
      restarting_ = true;
      if (cell_) {
        if (!cell_->caught_signal) cell_->caught_signal = SIGKILL;
      }
      for (auto& job : execs_) {
        if (!job->forced) job->caught_signal = SIGKILL;
      }
      lost_note_.clear();
      failures_ = 0;
      kill_everything();
      return reply(id, Json::object());
    }
    if (op == "stop") {
      stoppers_.push_back(id);
      return end_session("it was stopped");
    }
    if (op == "root") return send_root(id, client);
    refuse(id, Error(ErrorKind::usage, "the session does not know " + quoted(op)).with_hint("it was started by another version of sbx"));
  }

  // From now on it is in use, by whoever was first.
  void adopt(uint64_t id, const Json& request) {
    if (entry_->record().warm.empty() || entry_->record().warm != request.at("warm").text() || !driver_ready_) {
      return refuse(id, Error(ErrorKind::usage, "somebody was faster"));
    }
    if (Status adopted = entry_->adopt(place_, request.at("name").text()); !adopted.ok()) return refuse(id, adopted.error());
    const auto time = [&](const char* key) {
      return request.has(key) ? std::optional<Millis>(Millis{request.at(key).integer()}) : std::nullopt;
    };
    deadlines_.emplace(time("ttl_ms"), time("idle_ms"), now_ms());
    reply(id, Json::object().set("id", entry_->record().id).set("language", entry_->record().language).set("supervisor_pid", static_cast<int64_t>(entry_->record().pid)));
  }

  // The sandbox's root directory: who has it is the same user, and copies by its own hands.
  void send_root(uint64_t id, Client& client) {
    const std::string text = encode(Kind::descriptor, "");
    const int fd = live_->root_fd();
    const Result<size_t> sent = sys::send_with_fds(client.fd.get(), text, std::span(&fd, 1), MSG_DONTWAIT);
    if (!sent.ok() || sent.value() != text.size()) return lose_client(id);
    reply(id, Json::object().set("uid", static_cast<int64_t>(live_->host_uid())).set("gid", static_cast<int64_t>(live_->host_gid()))
                  .set("directory", ground_.spec().working_directory));
  }

  Json describe() {
    const SessionRecord& record = entry_->record();
    const int64_t now = now_ms();
    Json json = Json::object();
    json.set("id", record.id).set("name", record.name.empty() ? Json() : Json(record.name)).set("language", record.language);
    json.set("keeps_state", ground_.has_driver());
    const bool starting = emptying_ || (ground_.has_driver() && !driver_ready_);
    json.set("state", cell_ ? "busy" : starting ? "starting" : record.warm.empty() ? "idle" : "warm");
    json.set("cells", cells_done_).set("waiting", static_cast<int64_t>(queue_.size())).set("programs", static_cast<int64_t>(execs_.size()));
    json.set("last_verdict", last_verdict_.empty() ? Json() : Json(last_verdict_));
    json.set("supervisor_pid", static_cast<int64_t>(record.pid)).set("created", record.created);
    const auto left = [&](const std::optional<int64_t>& ms) { return ms ? Json(*ms) : Json(); };
    json.set("ttl_left_ms", left(deadlines_->ttl_left(now))).set("idle_left_ms", left(deadlines_->idle_left(now)));
    runtime::TreeSampler sampler(live_->proc_fd());
    const runtime::TreeLook tree = sampler.look();
    uint64_t disk = 0;
    if (live_->space_fd() >= 0) disk = runtime::look_at_space(live_->space_fd()).used_bytes;
    json.set("processes", static_cast<int64_t>(tree.threads)).set("resident_bytes", static_cast<int64_t>(tree.resident_bytes)).set("disk_bytes", static_cast<int64_t>(disk));
    json.set("tool", ground_.blank_report().tool).set("version", driver_version_.empty() ? Json() : Json(driver_version_));
    json.set("network", live_->isolation().network).set("seccomp", live_->isolation().seccomp_policy);
    Json limits = Json::object();
    if (limits_.wall) limits.set("time", format_duration(*limits_.wall));
    if (limits_.memory) limits.set("memory", format_size(*limits_.memory));
    if (limits_.pids) limits.set("pids", static_cast<int64_t>(*limits_.pids));
    limits.set("disk", format_size(limits_.disk));
    json.set("limits", std::move(limits));
    Json held = Json::object();
    for (const auto& [limit, by] : live_->isolation().limits_held_by) held.set(limit, by);
    json.set("limits_held_by", std::move(held));
    return json;
  }

  runtime::SessionGround& ground_;
  const HostFacts& facts_;
  const SessionPlace& place_;
  const HostOptions& options_;
  const std::function<void(const SessionRecord&)>& ready_callback_;
  const Limits& limits_;

  UniqueFd epoll_, timer_, signals_;
  std::optional<SessionPlace::Entry> entry_;
  std::unique_ptr<runtime::LiveSandbox> live_;
  std::optional<runtime::LimitWatch> watch_;
  std::optional<Deadlines> deadlines_;
  std::optional<int64_t> next_look_ms_ = 0;
  int64_t last_cpu_us_ = 0;
  bool announced_ = false, over_ = false, emptying_ = false, restarting_ = false;
  std::string why_over_;
  std::optional<Error> start_error_;

  std::map<uint64_t, Client> clients_;
  std::map<uint64_t, std::string> client_input_;
  std::map<uint64_t, Program> programs_;
  uint64_t last_client_ = 0, last_program_ = 0;
  std::deque<std::unique_ptr<Job>> queue_;
  std::unique_ptr<Job> cell_;
  std::vector<std::unique_ptr<Job>> execs_;
  std::vector<uint64_t> stoppers_;
  std::vector<runtime::Denial> job_denied_;

  uint64_t driver_id_ = 0;   // 0: none runs
  pid_t driver_pid_ = 0;
  bool driver_ready_ = false, driver_writes_ = false;
  UniqueFd socket_;
  FrameReader frames_;
  std::string to_driver_, driver_version_, broken_, lost_note_;
  std::optional<int64_t> driver_deadline_ms_;
  int failures_ = 0;

  std::string log_, last_verdict_;
  int64_t cells_ = 0, cells_done_ = 0, execution_count_ = 0;
};

}  // namespace

Status host_session(runtime::SessionGround& ground, const HostFacts& facts, const SessionPlace& place, const HostOptions& options,
                    const std::function<void(const SessionRecord&)>& ready) {
  return Host(ground, facts, place, options, ready).run();
}

}  // namespace sbx::session
