// What the session commands share: one request to one session, its answer.
#pragma once

#include <signal.h>

#include <initializer_list>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "session/json.h"
#include "session/place.h"
#include "session/wire.h"

namespace sbx::cli {

struct SessionLink {
  session::SessionRecord record;
  session::Connection connection;
};
// `word`: an id, the beginning of one, or a name. Errors: usage.
Result<SessionLink> open_session(const std::string& word);

// Sends `{"op": …}` and waits for the reply. Errors: those of the session, and its end.
Result<session::Json> ask_session(session::Connection& connection, const session::Json& request);
// The error in a reply, as it was meant.
std::optional<Error> error_of(const session::Json& reply);
Error session_has_ended();

// Signals that are read from a descriptor as long as it lives, so that nothing is left half-done: the terminal without its
// echo, a restore. What the caller ignores (nohup) stays ignored, and a reader of ours that goes away is no signal. One that came
// and was not taken does what it does when the object goes.
class CaughtSignals {
 public:
  CaughtSignals(std::initializer_list<int> signals);
  // Those that concern a program which we wait for: INT, TERM, HUP, QUIT, and TSTP and CONT of job control.
  CaughtSignals();
  CaughtSignals(const CaughtSignals&) = delete;
  CaughtSignals& operator=(const CaughtSignals&) = delete;
  ~CaughtSignals();
  int fd() const { return fd_.get(); }
  int take();  // one that came; 0: none
  bool came(int signal) const { return sigismember(&came_, signal) == 1; }  // it was taken
  // What the signal does by itself: SIGTSTP stops us, and this returns when we go on.
  static void let_act(int signal);

 private:
  sigset_t before_{}, came_{};
  struct sigaction pipe_before_ {};
  UniqueFd fd_;
};

// Runs what `request` says at the session: streams and signals go through, until the reply. `code`: of a cell.
// `stdin_fd`: read while it runs, if the request says "stdin".
struct SessionReply {
  session::Json reply;
  std::string unread;  // was read from stdin_fd, but not by the cell
  std::string result;  // the JSON of a run; "" where none was asked for
};
Result<SessionReply> run_at_session(session::Connection& connection, const session::Json& request, const std::optional<std::string>& code,
                                     int stdin_fd, bool quiet, CaughtSignals& signals);

}  // namespace sbx::cli
