#include "cli/session_client.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <optional>

#include "base/sys.h"
#include "base/text.h"
#include "cli/output.h"

namespace sbx::cli {
namespace {

using session::Connection;
using session::Json;
using session::Kind;
using session::Message;

ErrorKind kind_of(std::string_view name) {
  for (const ErrorKind kind : {ErrorKind::usage, ErrorKind::policy, ErrorKind::not_found, ErrorKind::not_executable, ErrorKind::unsupported,
                               ErrorKind::permission, ErrorKind::resource, ErrorKind::system}) {
    if (name == error_kind_name(kind)) return kind;
  }
  return ErrorKind::internal;
}

// The terminal's echo: off while a program asks for a secret, and back whatever happens. Nothing is done to the terminal of a job in
// the background, which is another's.
class Echo {
 public:
  explicit Echo(int terminal) : terminal_(terminal) {}  // -1: none
  Echo(const Echo&) = delete;
  Echo& operator=(const Echo&) = delete;
  ~Echo() { show(); }
  void hide() {
    hidden_ = true;
    take_again();
  }
  void show() {
    hidden_ = false;
    give_back();
    before_.reset();
  }
  // While we are stopped the terminal is another's, who may change it.
  void give_back() {
    if (!before_ || !is_ours()) return;
    (void)::tcsetattr(terminal_, TCSADRAIN, &*before_);
    before_.reset();
  }
  void take_again() {
    termios now{};
    if (!hidden_ || !is_ours() || ::tcgetattr(terminal_, &now) != 0) return;
    if (!before_) before_ = now;
    now.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    (void)::tcsetattr(terminal_, TCSADRAIN, &now);
  }

 private:
  bool is_ours() const { return terminal_ >= 0 && ::tcgetpgrp(terminal_) == ::getpgrp(); }
  int terminal_;
  bool hidden_ = false;
  std::optional<termios> before_;
};

class Exchange {
 public:
  Exchange(Connection& connection, int stdin_fd, bool quiet, CaughtSignals& signals)
      : connection_(connection), stdin_(stdin_fd), quiet_(quiet), echo_(stdin_fd), signals_(signals) {}

  std::string result, unread;  // as they came

  Result<Json> run() {
    for (;;) {
      std::array<pollfd, 3> polls{};
      polls[0] = {connection_.fd(), static_cast<short>(POLLIN | (to_send_.empty() ? 0 : POLLOUT)), 0};
      polls[1] = {signals_.fd(), POLLIN, 0};
      polls[2] = {wants_input_ ? stdin_ : -1, POLLIN, 0};
      if (::poll(polls.data(), polls.size(), -1) < 0 && errno != EINTR) return Error::from_errno(errno, "wait for the session");
      if (polls[1].revents != 0) take_signals();
      if (endings_ > 2) return Error(ErrorKind::system, "the session did not answer").with_hint("sbx session stop ends it");
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
          if (message->kind == Kind::unread) {
            unread = std::move(message->body);
            continue;
          }
          if (message->kind == Kind::more) {
            wants_input_ = true;
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
  void take_signals() {
    while (const int signal = signals_.take()) {
      if (signal == SIGTSTP) {
        echo_.give_back();
        CaughtSignals::let_act(signal);
        echo_.take_again();
      } else if (signal == SIGCONT) {
        echo_.take_again();
      } else {
        to_send_ += session::encode(Kind::interrupt, "");
        if (signal != SIGINT) ++endings_;
      }
    }
  }

  // One piece, for which the session has asked: so an interrupt never waits behind input that nobody reads.
  void read_input() {
    std::string bytes(session::kInputPiece, '\0');
    const ssize_t got = ::read(stdin_, bytes.data(), bytes.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    wants_input_ = false;
    bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
    to_send_ += bytes.empty() ? session::encode(Kind::input_end, "") : session::encode(Kind::input, bytes);
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
      case Kind::echo: return message.body == "0" ? echo_.hide() : echo_.show();
      default: return;
    }
  }

  // A slow reader must not keep an interrupt from reaching the session.
  void write(int fd, std::string_view bytes, bool& gone) {
    while (!gone && !bytes.empty() && endings_ <= 2) {
      std::array<pollfd, 2> polls{};
      polls[0] = {fd, POLLOUT, 0};
      polls[1] = {signals_.fd(), POLLIN, 0};
      (void)::poll(polls.data(), polls.size(), -1);
      if (polls[1].revents != 0) {
        take_signals();
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
  Echo echo_;
  CaughtSignals& signals_;
  std::string to_send_;
  int endings_ = 0;  // TERM, HUP and QUIT: the second makes the session use force, and we wait for nothing after the third
  bool wants_input_ = false, out_gone_ = false, err_gone_ = false;
};

}  // namespace

CaughtSignals::CaughtSignals() : CaughtSignals({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT}) {}

CaughtSignals::CaughtSignals(std::initializer_list<int> signals) {
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &pipe_before_);
  sigemptyset(&came_);
  sigset_t caught;
  sigemptyset(&caught);
  for (const int signal : signals) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) != 0 || now.sa_handler != SIG_IGN) sigaddset(&caught, signal);
  }
  ::sigprocmask(SIG_BLOCK, &caught, &before_);
  fd_.reset(::signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK));
}

CaughtSignals::~CaughtSignals() {
  ::sigaction(SIGPIPE, &pipe_before_, nullptr);
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

int CaughtSignals::take() {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return 0;
  const auto signal = static_cast<int>(info.ssi_signo);
  sigaddset(&came_, signal);
  return signal;
}

void CaughtSignals::let_act(int signal) {
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  ::raise(signal);
  ::sigprocmask(SIG_UNBLOCK, &one, nullptr);
  ::sigprocmask(SIG_BLOCK, &one, nullptr);
}

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

// A session that has refused a request already does not listen any more: its answer is there to be read.
Result<Json> ask_session(Connection& connection, const Json& request) {
  (void)connection.send(Kind::request, request.dump());
  for (;;) {
    std::optional<Message> message = SBX_TRY(connection.receive());
    if (!message) return session_has_ended();
    if (message->kind != Kind::reply) continue;
    Json reply = SBX_TRY(session::parse_json(message->body));
    if (std::optional<Error> error = error_of(reply)) return std::move(*error);
    return reply;
  }
}

Result<SessionReply> run_at_session(Connection& connection, const Json& request, const std::optional<std::string>& code, int stdin_fd, bool quiet, CaughtSignals& signals) {
  (void)connection.send(Kind::request, request.dump());
  if (code) (void)connection.send(Kind::code, *code);
  // Who sends no input has no secret to type: a session that says so all the same is not heard.
  Exchange exchange(connection, request.at("stdin").boolean() ? stdin_fd : -1, quiet, signals);
  SessionReply answer;
  answer.reply = SBX_TRY(exchange.run());
  if (std::optional<Error> error = error_of(answer.reply)) return std::move(*error);
  answer.result = std::move(exchange.result);
  answer.unread = std::move(exchange.unread);
  return answer;
}

}  // namespace sbx::cli
