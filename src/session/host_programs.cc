#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>

#include "base/sys.h"
#include "base/text.h"
#include "session/host_parts.h"

namespace sbx::session {
namespace {

using runtime::Verdict;

constexpr size_t kMaxSegments = 100000;  // turns of stdout and stderr in one cell that are told apart

bool bytes_waiting(int fd) {
  pollfd wait{fd, POLLIN, 0};
  return ::poll(&wait, 1, 0) > 0 && (wait.revents & POLLIN) != 0;
}

}  // namespace

Program* Host::find_program(uint64_t id) {
  const auto found = programs_.find(id);
  return found == programs_.end() ? nullptr : &found->second;
}

Status Host::listen(int fd, uint64_t what, uint32_t events) const {
  epoll_event event{};
  event.events = events;
  event.data.u64 = what;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return Error::from_errno(errno, "watch a descriptor");
  return {};
}

void Host::forget(int fd) const { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

Result<uint64_t> Host::start_program(const std::vector<std::string>& argv, const std::string& exec_path, const std::vector<std::string>& environment,
                                     int stdin_fd, int socket) {
  sys::Pipe out = SBX_TRY(sys::pipe());
  sys::Pipe err = SBX_TRY(sys::pipe());
  runtime::ProgramStart start;
  start.argv = argv;
  start.exec_path = exec_path;
  start.environment = environment;
  // A cell may have closed its own directory: the interpreter starts beside it then, so that the files are not lost.
  start.working_directory = socket >= 0 && failures_ > 1 ? "/" : ground_.spec().working_directory;
  start.stdio[0] = stdin_fd;
  start.stdio[1] = out.write.get();
  start.stdio[2] = err.write.get();
  if (socket >= 0) start.extra.push_back(socket);
  runtime::StartedProgram started = SBX_TRY(live_->start_program(start));
  const uint64_t id = ++last_program_;
  Program& program = programs_[id];
  program.pid = started.pid;
  program.out = std::move(out.read);
  program.err = std::move(err.read);
  SBX_TRY(sys::set_nonblocking(program.out.get()));
  SBX_TRY(sys::set_nonblocking(program.err.get()));
  if (started.listener.valid()) {
    program.denials.emplace(std::move(started.listener));
    SBX_TRY(listen(program.denials->fd(), tag(kDenials, id)));
  }
  watch_output(id, program);
  return id;
}

void Host::watch_output(uint64_t id, Program& program) {
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

void Host::pump(uint64_t id, Program& program, int stream) {
  read_output(program, stream, kChunk);
  watch_output(id, program);
}

void Host::drain(Program& program) {
  for (const int stream : {1, 2}) {
    const UniqueFd& fd = stream == 1 ? program.out : program.err;
    for (size_t left = fd.valid() ? bytes_in_pipe(fd.get()) : 0; left > 0 && fd.valid();) {
      const size_t got = read_output(program, stream, std::min(left, kChunk));
      if (got == 0) break;
      left -= got;
    }
  }
}

size_t Host::read_output(Program& program, int stream, size_t size) {
  UniqueFd& fd = stream == 1 ? program.out : program.err;
  if (!fd.valid()) return 0;
  char bytes[kChunk];
  ssize_t got;
  do {
    got = ::read(fd.get(), bytes, std::min(size, sizeof bytes));
  } while (got < 0 && errno == EINTR);  // 0 would end drain(), and lose the rest
  if (got < 0 && errno == EAGAIN) return 0;
  if (got <= 0) {
    forget(fd.get());
    fd.reset();
    return 0;
  }
  deliver(program, stream, {bytes, static_cast<size_t>(got)});
  return static_cast<size_t>(got);
}

void Host::deliver(Program& program, int stream, std::string_view bytes) {
  append_tail(log_, bytes, kLogBytes);
  Job* const job = program.job;
  if (job == nullptr || job->over[stream]) return;
  runtime::StreamResult& result = job->streams[stream];
  if (limits_.output && result.total_bytes + bytes.size() > limits_.output->value) {
    bytes = bytes.substr(0, static_cast<size_t>(limits_.output->value - result.total_bytes));
    result.truncated = job->over[stream] = true;
    watch_->hit("output", "limits.output", format_size(*limits_.output), "pump");
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

void Host::on_denials(uint64_t, Program& program) {
  const runtime::DenialLog::Next next = program.denials->on_ready();
  if (next == runtime::DenialLog::Next::ready) return;
  forget(program.denials->fd());
  if (next == runtime::DenialLog::Next::gone) program.denials->stop();
  if (next == runtime::DenialLog::Next::tired) program.denials_resume_ms = clock_ms(CLOCK_MONOTONIC) + runtime::DenialLog::kPauseMs;
}

void Host::take_news() {
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

void Host::on_program_end(uint64_t id, int status) {
  Program& program = programs_[id];
  drain(program);
  collect_denials(program);
  Job* const job = program.job;
  const std::vector<runtime::Denial> denied = std::move(program.denied);
  programs_.erase(id);
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

void Host::collect_denials(Program& program) {
  if (!program.denials) return;
  while (program.denials->on_ready() == runtime::DenialLog::Next::ready && bytes_waiting(program.denials->fd())) {
  }
  for (runtime::Denial& denial : program.denials->take()) program.denied.push_back(std::move(denial));
}

Status Host::start_driver() {
  std::array<UniqueFd, 2> pair = SBX_TRY(sys::socketpair(SOCK_STREAM));
  const SandboxSpec& spec = ground_.spec();
  driver_id_ = SBX_TRY(start_program(spec.argv, spec.exec_path, spec.environment, -1, pair[1].get()));
  driver_pid_ = programs_[driver_id_].pid;
  driver_ready_ = false;
  frames_ = FrameReader();
  to_driver_.clear();
  handed_.reset();
  socket_ = std::move(pair[0]);
  SBX_TRY(sys::set_nonblocking(socket_.get()));
  driver_writes_ = false;
  SBX_TRY(listen(socket_.get(), tag(kFrames)));
  driver_deadline_ms_ = clock_ms(CLOCK_MONOTONIC) + options_.start.value;
  return {};
}

void Host::restart_driver() {
  Status started = start_driver();
  if (!started.ok()) driver_failed(started.error().text());
}

void Host::driver_failed(const std::string& why) {
  std::string tail(trim(log_.size() > 1000 ? log_.substr(log_.size() - 1000) : log_));
  Error error(ErrorKind::system, "the session's interpreter cannot be started: " + why + (tail.empty() ? "" : ": " + printable(tail, 500)));
  if (!announced_) {
    start_error_ = std::move(error);
    return;
  }
  if (++failures_ > kMaxFailures) return end_session(error.text());
  kill_everything();
}

void Host::send_frames(std::string_view bytes) {
  to_driver_.append(bytes);
  flush_driver();
}

void Host::flush_driver() {
  while (socket_.valid() && !to_driver_.empty()) {
    const ssize_t put = ::send(socket_.get(), to_driver_.data(), std::min(to_driver_.size(), kHighWater), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put > 0) to_driver_.erase(0, static_cast<size_t>(put));
    else if (errno == EAGAIN) break;
    else if (errno != EINTR) to_driver_.clear();  // it is gone, as news will tell
  }
  if (socket_.valid() && to_driver_.empty() && handed_.valid()) {
    const int fd = handed_.get();
    const Result<size_t> sent = sys::send_with_fds(socket_.get(), "\n", std::span(&fd, 1), MSG_DONTWAIT);
    if (sent.ok()) handed_.reset();
    else if (sent.error().errnum() != EAGAIN) return broken("its stdin could not be handed over: " + sent.error().text());
  }
  const bool wanted = !to_driver_.empty() || handed_.valid();
  if (!socket_.valid() || wanted == driver_writes_) return;
  epoll_event event{};
  event.events = EPOLLIN | (wanted ? EPOLLOUT : 0U);
  event.data.u64 = tag(kFrames);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket_.get(), &event);
  driver_writes_ = wanted;
}

void Host::on_frames(uint32_t events) {
  if (!socket_.valid()) return;
  if ((events & EPOLLOUT) != 0) flush_driver();
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read_frames(1);
}

void Host::read_frames(int rounds) {
  char bytes[kChunk];
  for (int round = 0; round < rounds && socket_.valid(); ++round) {
    const ssize_t got = ::recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
      if (got < 0 && errno != ECONNRESET) broken_ = Error::from_errno(errno, "hear the interpreter").text();
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

void Host::close_socket() {
  if (!socket_.valid()) return;
  forget(socket_.get());
  socket_.reset();
}

void Host::broken(const std::string& why) {
  close_socket();
  broken_ = why;
  if (cell_ && !cell_->forced) cell_->caught_signal = SIGKILL;
  kill_everything();
}

void Host::on_driver_end(int status) {
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
  programs_.erase(id);
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
  const std::string broken = std::exchange(broken_, "");
  restarting_ = false;
  if (over_) return;
  if (emptying_) return;
  if (was_ready) return restart_driver();
  if (!broken.empty()) return driver_failed(broken);
  driver_failed(WIFEXITED(status) ? "it ended with status " + std::to_string(WEXITSTATUS(status)) : "it was ended by signal " + std::to_string(WTERMSIG(status)));
}

}  // namespace sbx::session
