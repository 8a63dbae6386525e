#include "cli/session_client.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "base/sys.h"
#include "base/text.h"
#include "cli/output.h"

namespace sbx::cli {
namespace {

using session::Connection;
using session::Json;
using session::Kind;
using session::Message;

constexpr size_t kInputChunk = 65536;

ErrorKind kind_of(std::string_view name) {
  for (const ErrorKind kind : {ErrorKind::usage, ErrorKind::policy, ErrorKind::not_found, ErrorKind::not_executable, ErrorKind::unsupported,
                               ErrorKind::permission, ErrorKind::resource, ErrorKind::system}) {
    if (name == error_kind_name(kind)) return kind;
  }
  return ErrorKind::internal;
}

// INT and TERM are read from a descriptor while a program of the session runs, and a reader that goes away is no signal.
class Signals {
 public:
  Signals() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &ignore, &pipe_before_);
    sigset_t caught;
    sigemptyset(&caught);
    sigaddset(&caught, SIGINT);
    sigaddset(&caught, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &caught, &before_);
    fd_.reset(::signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals() {
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
    ::sigaction(SIGPIPE, &pipe_before_, nullptr);
  }
  int fd() const { return fd_.get(); }
  bool take() const {
    signalfd_siginfo info{};
    return ::read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info);
  }

 private:
  sigset_t before_{};
  struct sigaction pipe_before_ {};
  UniqueFd fd_;
};

class Exchange {
 public:
  Exchange(Connection& connection, int stdin_fd, bool quiet) : connection_(connection), stdin_(stdin_fd), quiet_(quiet) {}

  std::string result;  // as it came

  Result<Json> run() {
    for (;;) {
      std::array<pollfd, 3> polls{};
      polls[0] = {connection_.fd(), static_cast<short>(POLLIN | (to_send_.empty() ? 0 : POLLOUT)), 0};
      polls[1] = {signals_.fd(), POLLIN, 0};
      const bool reading = stdin_ >= 0 && to_send_.empty();
      polls[2] = {reading ? stdin_ : -1, POLLIN, 0};
      if (::poll(polls.data(), polls.size(), -1) < 0 && errno != EINTR) return Error::from_errno(errno, "wait for the session");
      if (polls[1].revents != 0) interrupt();
      if (polls[2].revents != 0) read_input();
      flush();
      if (polls[0].revents == 0) continue;
      for (bool closed = false;;) {
        std::optional<Message> message = SBX_TRY(connection_.poll(closed));
        if (message) {
          if (message->kind == Kind::result) {
            result = std::move(message->body);
            continue;
          }
          if (message->kind == Kind::reply) return session::parse_json(message->body);
          show(*message);
          continue;
        }
        if (closed) return session_has_ended();
        break;
      }
    }
  }

 private:
  void interrupt() {
    while (signals_.take()) to_send_ += session::encode(Kind::interrupt, "");
  }

  void read_input() {
    std::string bytes(kInputChunk, '\0');
    const ssize_t got = ::read(stdin_, bytes.data(), bytes.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got > 0) {
      bytes.resize(static_cast<size_t>(got));
      to_send_ += session::encode(Kind::input, bytes);
    } else {
      to_send_ += session::encode(Kind::input_end, "");
      stdin_ = -1;
    }
  }

  // Never waits: the session may be waiting for us to take what a program prints.
  void flush() {
    while (!to_send_.empty()) {
      const ssize_t put = ::send(connection_.fd(), to_send_.data(), to_send_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (put > 0) to_send_.erase(0, static_cast<size_t>(put));
      else if (errno != EINTR) return;  // a session that is gone shows by its end of file
    }
  }

  void show(const Message& message) {
    switch (message.kind) {
      case Kind::out:
      case Kind::shown: return write(STDOUT_FILENO, message.body, out_gone_);
      case Kind::err: return write(STDERR_FILENO, message.body, err_gone_);
      case Kind::note:
        if (!quiet_) say(message.body);
        return;
      default: return;
    }
  }

  // A slow reader must not keep an interrupt from reaching the session.
  void write(int fd, std::string_view bytes, bool& gone) {
    while (!gone && !bytes.empty()) {
      std::array<pollfd, 2> polls{};
      polls[0] = {fd, POLLOUT, 0};
      polls[1] = {signals_.fd(), POLLIN, 0};
      (void)::poll(polls.data(), polls.size(), -1);
      if (polls[1].revents != 0) {
        interrupt();
        flush();
      }
      if (polls[0].revents == 0) continue;
      const ssize_t put = ::write(fd, bytes.data(), std::min(bytes.size(), size_t{PIPE_BUF}));
      if (put > 0) bytes.remove_prefix(static_cast<size_t>(put));
      else if (errno != EINTR && errno != EAGAIN) gone = true;
    }
  }

  Connection& connection_;
  int stdin_;
  bool quiet_;
  Signals signals_;
  std::string to_send_;
  bool out_gone_ = false, err_gone_ = false;
};

}  // namespace

Error session_has_ended() {
  return Error(ErrorKind::system, "the session ended meanwhile").with_hint("sbx session ls lists those that live");
}

Result<SessionLink> open_session(const std::string& word) {
  const session::SessionPlace place = SBX_TRY(session::SessionPlace::open());
  session::SessionRecord record = SBX_TRY(place.find(word));
  UniqueFd socket = SBX_TRY(place.connect(record));
  return SessionLink{std::move(record), Connection(std::move(socket))};
}

std::optional<Error> error_of(const Json& reply) {
  const Json& error = reply.at("error");
  if (!error.is(Json::Kind::object)) return std::nullopt;
  return Error(kind_of(error.at("kind").text()), error.at("message").text()).with_hint(error.at("hint").text());
}

Result<Json> ask_session(Connection& connection, const Json& request) {
  SBX_TRY(connection.send(Kind::request, request.dump()));
  for (;;) {
    std::optional<Message> message = SBX_TRY(connection.receive());
    if (!message) return session_has_ended();
    if (message->kind != Kind::reply) continue;
    Json reply = SBX_TRY(session::parse_json(message->body));
    if (std::optional<Error> error = error_of(reply)) return std::move(*error);
    return reply;
  }
}

Result<SessionReply> run_at_session(Connection& connection, const Json& request, const std::optional<std::string>& code, const std::string& cell_input,
                            int stdin_fd, bool quiet) {
  SBX_TRY(connection.send(Kind::request, request.dump()));
  // A session that has refused it already does not listen any more; its answer is there to be read.
  bool listening = true;
  for (size_t at = 0; listening && at < cell_input.size(); at += kInputChunk) {
    listening = connection.send(Kind::input, std::string_view(cell_input).substr(at, kInputChunk)).ok();
  }
  if (code && listening) (void)connection.send(Kind::code, *code);
  Exchange exchange(connection, stdin_fd, quiet);
  SessionReply answer;
  answer.reply = SBX_TRY(exchange.run());
  if (std::optional<Error> error = error_of(answer.reply)) return std::move(*error);
  answer.result = std::move(exchange.result);
  return answer;
}

}  // namespace sbx::cli
