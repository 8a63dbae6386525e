// What the session commands share: one request to one session, its answer.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
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

// Runs what `request` says at the session: streams and signals go through, until the reply. `code`: of a cell.
// `stdin_fd`: read while it runs, if the request says "stdin".
struct SessionReply {
  session::Json reply;
  std::string unread;  // was read from stdin_fd, but not by the cell
  std::string result;  // the JSON of a run; "" where none was asked for
};
Result<SessionReply> run_at_session(session::Connection& connection, const session::Json& request, const std::optional<std::string>& code,
                                     int stdin_fd, bool quiet);

}  // namespace sbx::cli
