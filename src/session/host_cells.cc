#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/sys.h"
#include "base/text.h"
#include "runtime/explain.h"
#include "runtime/runner.h"
#include "session/host_parts.h"
#include "session/payload_files.h"

namespace sbx::session {
namespace {

using runtime::Verdict;

constexpr size_t kMaxOutputs = 2000;
constexpr uint64_t kHashedBytes = uint64_t{64} << 20;  // of files that a cell changed

std::string hyphens(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

}  // namespace

void Host::on_frame(DriverFrame& frame) {
  if (frame.type == DriverFrame::Type::ready) {
    driver_ready_ = true;
    driver_deadline_ms_.reset();
    failures_ = 0;
    driver_version_ = printable(frame.body.at("version").text(), 64);
    const std::vector<Json>& features = frame.body.at("features").items();
    driver_receives_ = std::any_of(features.begin(), features.end(), [](const Json& feature) { return feature.text() == "descriptor"; });
    become_ready();
    return;
  }
  Program* const program = find_program(driver_id_);
  if (program == nullptr || !cell_) return;
  drain(*program);
  Job& job = *cell_;
  if (frame.type == DriverFrame::Type::done) return on_done(job, frame);
  if (frame.type != DriverFrame::Type::echo) note_output(job, frame);
  else if (job.has_input) tell(job.client, Kind::echo, frame.body.at("on").boolean() ? "1" : "0");  // else nobody types
  send_frames(session::frame(Json::object().set("type", "ack").set("seq", frames_.seq()).dump()));
}

void Host::note_clear(Job& job) {
  if (!std::exchange(job.clear_pending, false)) return;
  job.outputs.clear();
  job.segments.clear();
}

void Host::note_output(Job& job, DriverFrame& frame) {
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

void Host::on_done(Job& job, const DriverFrame& frame) {
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
  if (const int64_t heir = body.at("pid").integer(); heir != 0) live_->let_succeed(driver_pid_, static_cast<pid_t>(heir));
  const bool interrupted = body.at("status").text() == "interrupted";
  finish(job, interrupted ? Verdict::killed : Verdict::exited, static_cast<int>(body.at("exit_code").integer()), interrupted ? SIGINT : 0, true, "");
}

void Host::next_cell() {
  if (over_ || cell_ || queue_.empty() || emptying_) return;
  if (ground_.has_driver() && !driver_ready_) return;
  if (live_->is_settling()) return;  // what was meant for the last cell would hit this one
  cell_ = std::move(queue_.front());
  queue_.pop_front();
  Job& job = *cell_;
  if (execs_.empty()) watch_->begin_anew();
  else watch_->begin_cpu_anew();
  begin_job(job);
  job.number = ++cells_;
  Status started = start_cell(job);
  if (!started.ok()) fail_running(job, started.take_error());
}

void Host::begin_job(Job& job) {
  deadlines_->set_busy(true, now_ms());
  job.began_ns = sys::monotonic_ns();
  if (!job.no_timeout) job.deadline_ms = clock_ms(CLOCK_MONOTONIC) + job.timeout.value;
  next_look_ms_ = 0;
  job.counts_before = counts();
  if (!job.want_result || !options_.changes) return;
  const Result<UniqueFd> box = open_inside(live_->root_fd(), "box", O_RDONLY | O_DIRECTORY);
  if (!box.ok()) return;
  if (Result<runtime::Baseline> before = runtime::take_baseline(box.value().get(), {}); before.ok()) {
    job.before = before.take();
    job.has_before = true;
  }
}

Status Host::start_cell(Job& job) {
  const ActAs acting(live_->host_uid(), live_->host_gid());
  if (!ground_.has_driver()) {
    SBX_TRY(put_inside(live_->root_fd(), ground_.cell_path(), job.code));
    return start_step(job);
  }
  Json request = Json::object();
  const std::string token = SBX_TRY(make_token());
  request.set("type", "execute").set("cell", job.number).set("token", token).set("ack", true);
  if (job.has_input) request.set("stdin", SBX_TRY(prepare_input(job)));
  frames_.begin_cell(job.number, token);
  programs_[driver_id_].job = &job;
  job.started = true;
  send_frames(session::frame(request.dump()) + session::frame(job.code));
  if (job.input_end.valid()) take_input(job, std::move(job.input));
  if (job.caught_signal != 0) interrupt(job);
  return {};
}

Status Host::start_step(Job& job) {
  const runtime::CellStep& step = job.steps[job.step];
  sys::Pipe input;
  if (job.has_input && job.step + 1 == job.steps.size()) {
    input = SBX_TRY(sys::pipe());
    SBX_TRY(sys::set_nonblocking(input.write.get()));
  }
  job.program = SBX_TRY(start_program(step.argv, step.argv[0], step.environment, input.read.valid() ? input.read.get() : -1, -1));
  job.started = true;
  programs_[job.program].job = &job;
  if (input.write.valid()) take_input(job, std::move(input.write));
  return {};
}

Job* Host::find_job(uint64_t id) {
  if (cell_ && cell_->id == id) return cell_.get();
  for (auto& job : execs_) {
    if (job->id == id) return job.get();
  }
  return nullptr;
}

// What the request says of it. A socket, handed over: no other process comes to it, neither by a name nor through /proc. A
// driver that cannot receive one opens a pipe by its name, which nobody can guess; who looks at the right moment sees it.
Result<Json> Host::prepare_input(Job& job) {
  if (driver_receives_) {
    std::array<UniqueFd, 2> pair = SBX_TRY(sys::socketpair(SOCK_STREAM));
    SBX_TRY(sys::set_nonblocking(pair[0].get()));
    ::shutdown(pair[0].get(), SHUT_RD);  // nothing is said there
    handed_ = SBX_TRY(sys::dup(pair[1].get()));
    job.input = std::move(pair[0]);
    job.input_end = std::move(pair[1]);
    return Json(true);
  }
  const std::string path = std::string(runtime::kCellInputDirectory) + "/" + SBX_TRY(sys::random_hex(16));
  job.fifo = SBX_TRY(make_fifo_inside(live_->root_fd(), path.substr(1)));
  job.fifo_name = path.substr(1);
  job.fifo_again_ms = 0;
  return Json(path);
}

// Nothing tells when a reader comes, and only then can the end of input be said by closing.
void Host::open_fifo(Job& job, int64_t now) {
  const ActAs acting(live_->host_uid(), live_->host_gid());
  Result<UniqueFd> writer = sys::open("/proc/self/fd/" + std::to_string(job.fifo.get()), O_WRONLY | O_NONBLOCK);
  if (!writer.ok() && writer.error().errnum() == ENXIO && is_at(live_->root_fd(), job.fifo_name, job.fifo.get())) {
    const auto waited = static_cast<int64_t>((sys::monotonic_ns() - job.began_ns) / 1000000);
    job.fifo_again_ms = now + std::clamp<int64_t>(waited / 4, 2, 50);
    return;
  }
  job.fifo_again_ms.reset();
  if (writer.ok()) {
    take_input(job, writer.take());
  } else {
    // The driver may wait for ever at what stands there now.
    job.hints.emplace_back("another process of the session has taken away the stdin of this cell");
    interrupt(job);
  }
  remove_inside(live_->root_fd(), std::exchange(job.fifo_name, ""));
}

void Host::take_input(Job& job, UniqueFd input) {
  job.input = std::move(input);
  feed(job);
}

void Host::feed(Job& job) {
  while (job.input.valid() && !job.to_input.empty()) {
    const ssize_t put = ::write(job.input.get(), job.to_input.data(), job.to_input.size());
    if (put > 0) {
      job.to_input.erase(0, static_cast<size_t>(put));
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {  // nobody reads it any more
      job.to_input.clear();
      job.input_ends = true;
    }
  }
  if (!job.input.valid()) return;
  const bool wanted = !job.to_input.empty();
  if (wanted != job.input_watched) {
    if (wanted) (void)listen(job.input.get(), tag(kInput, job.id), EPOLLOUT);
    else forget(job.input.get());
    job.input_watched = wanted;
  }
  if (wanted) return;
  if (job.input_ends) job.input.reset();
  else if (!std::exchange(job.input_asked, true)) tell(job.client, Kind::more, "");
}

std::string Host::what_is_left(const Job& job) {
  const bool socket = job.input_end.valid();
  const UniqueFd pipe(socket ? -1 : ::open(("/proc/self/fd/" + std::to_string(job.input.get())).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const int fd = socket ? job.input_end.get() : pipe.get();
  std::string left(fd >= 0 ? bytes_in_pipe(fd) : 0, '\0');
  const ssize_t got = socket ? ::recv(fd, left.data(), left.size(), MSG_DONTWAIT) : ::read(fd, left.data(), left.size());
  left.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return left;
}

// Nobody reads on: what is left goes back to who typed it.
void Host::end_input(Job& job) {
  job.fifo_again_ms.reset();
  if (!job.fifo_name.empty() && live_ != nullptr) {
    const ActAs acting(live_->host_uid(), live_->host_gid());
    remove_inside(live_->root_fd(), std::exchange(job.fifo_name, ""));
  }
  std::string unread;
  if (job.input.valid()) {
    unread = what_is_left(job);
    if (job.input_watched) forget(job.input.get());
    job.input.reset();
  }
  unread += std::exchange(job.to_input, "");
  if (!unread.empty()) tell(job.client, Kind::unread, unread);
}

void Host::start_exec(std::unique_ptr<Job> job) {
  Job& started = *job;
  if (!is_busy()) watch_->begin_anew();
  execs_.push_back(std::move(job));
  begin_job(started);
  Status status = emptying_ ? Status(Error(ErrorKind::resource, "the session is being restarted").with_hint("try again")) : start_step(started);
  if (!status.ok()) fail_running(started, status.take_error());
}

void Host::fail(Job& job, const Error& error) {
  if (job.client == 0) return;
  if (Client* client = find_client(job.client)) client->job = nullptr;
  refuse(job.client, error);
}

void Host::fail_running(Job& job, const Error& error) {
  fail(job, error);
  drop(job);
}

void Host::drop(Job& job) {
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

void Host::finish(Job& job, Verdict verdict, int code, int signal, bool state_kept, const std::string& note) {
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
  std::string lost;
  if (driven && !state_kept) lost = over_ ? note : "the session's state was lost; its files are there" + (note.empty() ? "" : ": " + note);
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
  end_input(job);
  if (job.client != 0) {
    if (job.want_result) tell(job.client, Kind::result, result_text(job, report, driven, state_kept, lost));
    reply(job.client, std::move(answer));
  } else if (!lost.empty()) {
    lost_note_ = lost;  // whoever waited has gone: the next cell is told
  }
  cells_done_ += job.exec ? 0 : 1;
  last_verdict_ = runtime::verdict_name(outcome.verdict);
  drop(job);
}

runtime::CgroupCounts Host::counts() const { return live_->cgroup() != nullptr ? live_->cgroup()->counts() : runtime::CgroupCounts(); }

void Host::fill_usage(const Job& job, runtime::Usage& usage) const {
  usage.wall.value = static_cast<int64_t>((sys::monotonic_ns() - job.began_ns) / 1000);
  // Another job may have begun meanwhile, and what is watched with it.
  const runtime::CgroupCounts now = counts();
  if (now.cpu_us() && job.counts_before.cpu_us()) {
    usage.user = Micros{*now.user_us - *job.counts_before.user_us};
    usage.system = Micros{*now.system_us - *job.counts_before.system_us};
  }
  if (const uint64_t bytes = std::max(watch_->peak_bytes(), watch_->counts().memory_current.value_or(0)); bytes > 0) usage.peak_memory = Bytes{bytes};
  usage.peak_memory_note = "the whole sandbox while this ran, looked at every 20 ms";
  if (watch_->peak_threads() > 0) usage.peak_pids = watch_->peak_threads();
  usage.peak_pids_note = watch_->sampled() ? "sampled every 20 ms, the session's interpreter among them" : "not looked at";
}

void Host::list_changes(const Job& job, runtime::Report& report) const {
  if (!job.has_before || live_ == nullptr) return;
  const Result<UniqueFd> box = open_inside(live_->root_fd(), "box", O_RDONLY | O_DIRECTORY);
  if (!box.ok()) return;
  runtime::ArtifactBounds bounds;
  bounds.max_bytes = kHashedBytes;
  Result<runtime::ArtifactList> list = runtime::list_artifacts(box.value().get(), job.before, {}, false, bounds);
  if (list.ok()) report.artifacts = list.take();
  else report.artifact_notes.push_back("the files could not be listed: " + list.error().text());
}

void Host::add_hints(runtime::Report& report, bool kept, std::string& lost) {
  const runtime::Outcome& outcome = report.outcome;
  for (const runtime::LimitHit& limit : outcome.limits_hit) {
    const bool processes = limit.name == "memory" || limit.name == "pids" || limit.name == "cpu_time";
    if (limit.name == "wall") {
      report.hints.push_back("its time (" + limit.value + ") was over" + std::string(kept ? "; it was interrupted and the session's state is kept" : "") + ": --timeout allows more");
    } else {
      report.hints.push_back("the limit of " + limit.name + " (" + limit.value + ") was reached: a session started with a higher --" + hyphens(limit.name) + " has more" +
                             (processes && cells_done_ > 0 ? "; what earlier cells left running counts as well" : ""));
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

std::string Host::result_text(const Job& job, const runtime::Report& report, bool driven, bool state_kept, const std::string& lost) const {
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
    const std::string_view bytes = std::string_view(kept).substr(segment.begin, segment.end - segment.begin);
    outputs.push_back(stream_output(segment.stream == 1 ? "stdout" : "stderr", bytes, left));
  }
  more.set("outputs_dropped", job.dropped);
  return with_outputs(runtime::result_json(report, job.streams_inside), more, outputs);
}

}  // namespace sbx::session
