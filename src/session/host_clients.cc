#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "base/sys.h"
#include "base/text.h"
#include "runtime/sampler.h"
#include "session/host_parts.h"

namespace sbx::session {
namespace {

constexpr size_t kMaxClients = 64;
constexpr size_t kMaxQueue = 64;
constexpr size_t kMaxPrograms = 12;  // beside the driver

Json error_json(const Error& error) {
  return Json::object().set("kind", error_kind_name(error.kind())).set("message", error.text()).set("hint", error.hint());
}

}  // namespace

Client* Host::find_client(uint64_t id) {
  const auto found = clients_.find(id);
  return found == clients_.end() ? nullptr : &found->second;
}

void Host::accept_client() {
  for (;;) {
    UniqueFd fd(::accept4(entry_->listener(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) return;
    if (clients_.size() >= kMaxClients) continue;
    Result<bool> trusted = is_trusted_peer(fd.get());
    if (trusted.ok() && !trusted.value()) continue;
    const uint64_t id = ++last_client_;
    Client& client = clients_[id];
    client.fd = std::move(fd);
    client.watched = EPOLLIN;
    const Status heard = trusted.ok() ? listen(client.fd.get(), tag(kClient, id)) : trusted.take_error();
    if (!heard.ok()) {
      refuse(id, heard.error());
      clients_.erase(id);
    }
  }
}

void Host::on_client(uint64_t id, uint32_t events) {
  Client* client = find_client(id);
  if (client == nullptr) return;
  if ((events & EPOLLOUT) != 0) {
    if (!send_some(*client)) return lose_client(id);
    for (auto& [program_id, program] : programs_) watch_output(program_id, program);
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
    char bytes[kChunk];
    const ssize_t got = ::recv(client->fd.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    const bool deaf = got < 0 && errno != EAGAIN && errno != EINTR;
    if (deaf) refuse(id, Error::from_errno(errno, "hear the request"));  // should it still listen
    if (got == 0 || deaf) return lose_client(id);
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

void Host::watch_client(uint64_t id) {
  Client* const client = find_client(id);
  if (client == nullptr) return;
  const uint32_t wanted = uint32_t{EPOLLIN} | (client->backlog() > 0 ? uint32_t{EPOLLOUT} : 0U);
  if (wanted == client->watched) return;
  epoll_event event{};
  event.events = wanted;
  event.data.u64 = tag(kClient, id);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, client->fd.get(), &event);
  client->watched = wanted;
}

void Host::lose_client(uint64_t id) {
  Client* const client = find_client(id);
  if (client == nullptr) return;
  Job* const job = client->job;
  clients_.erase(id);
  std::erase(stoppers_, id);
  if (job == nullptr) return;
  job->client = 0;
  if (forget_queued(*job)) return;
  if (job->exec) ask_to_end(*job, runtime::Verdict::killed);
  else if (job->caught_signal == 0) interrupt(*job);  // a second one would end it by force
  for (auto& [program_id, program] : programs_) watch_output(program_id, program);
}

bool Host::forget_queued(const Job& job) {
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

bool Host::send_some(Client& client) {
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

void Host::tell(uint64_t id, Kind kind, std::string_view body) {
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

void Host::reply(uint64_t id, Json answer) {
  tell(id, Kind::reply, answer.dump());
  if (Client* client = find_client(id)) client->ended = true;
}

void Host::refuse(uint64_t id, const Error& error) { reply(id, Json::object().set("error", error_json(error))); }

void Host::close_finished() {
  std::vector<uint64_t> done;
  for (auto& [id, client] : clients_) {
    if (client.ended && client.backlog() == 0) done.push_back(id);
  }
  for (const uint64_t id : done) clients_.erase(id);
}

void Host::on_message(uint64_t id, Client& client, Message& message) {
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
    case Kind::input_end: {
      Job* const job = client.job;
      if (job == nullptr) return;  // it has ended meanwhile
      if (message.body.size() > kInputPiece || !std::exchange(job->input_asked, false)) return lose_client(id);
      job->to_input += message.body;
      if (message.kind == Kind::input_end) job->input_ends = true;
      return feed(*job);
    }
    case Kind::interrupt:
      if (client.job != nullptr && !forget_queued(*client.job)) interrupt(*client.job);
      return;
    default: lose_client(id);
  }
}

std::unique_ptr<Job> Host::make_job(uint64_t client, const Json& request) {
  auto job = std::make_unique<Job>();
  job->id = ++last_job_;
  job->client = client;
  job->has_input = request.at("stdin").boolean();
  job->want_result = request.at("result").boolean();
  job->streams_inside = request.at("streams").boolean();
  if (request.has("timeout_ms")) job->timeout = Millis{std::max<int64_t>(1, request.at("timeout_ms").integer())};
  else if (limits_.wall) job->timeout = *limits_.wall;
  else job->no_timeout = true;
  return job;
}

void Host::on_run(uint64_t id, Client& client, const Json& request, std::string code) {
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
  std::vector<std::string> arguments;
  for (const Json& word : request.at("arguments").items()) arguments.push_back(word.text());
  if (!ground_.has_driver()) {
    Result<std::vector<runtime::CellStep>> steps = ground_.cell_steps(arguments);
    if (!steps.ok()) return refuse(id, steps.error());
    job->steps = steps.take();
  } else if (!arguments.empty()) {
    return refuse(id, Error(ErrorKind::usage, "a cell takes no arguments").with_hint("set a variable in a cell before it"));
  }
  client.job = job.get();
  if (busy) tell(id, Kind::note, "the session is busy; this cell waits for its turn");
  queue_.push_back(std::move(job));
  deadlines_->set_busy(true, now_ms());
}

void Host::on_request(uint64_t id, Client& client, const Json& request) {
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

void Host::adopt(uint64_t id, const Json& request) {
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

void Host::send_root(uint64_t id, Client& client) {
  const std::string text = encode(Kind::descriptor, "");
  const int fd = live_->root_fd();
  const Result<size_t> sent = sys::send_with_fds(client.fd.get(), text, std::span(&fd, 1), MSG_DONTWAIT);
  if (!sent.ok() || sent.value() != text.size()) return lose_client(id);
  reply(id, Json::object().set("uid", static_cast<int64_t>(live_->host_uid())).set("gid", static_cast<int64_t>(live_->host_gid()))
                .set("directory", ground_.spec().working_directory));
}

Json Host::describe() {
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

}  // namespace sbx::session
