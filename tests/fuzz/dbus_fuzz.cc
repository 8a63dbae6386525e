// What the user's systemd manager, or who sits on its socket, answers: a whole conversation on a real socket, and the
// wire format by itself.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "base/unique_fd.h"
#include "fuzz.h"
#include "runtime/user_scope.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sbx;
  using namespace sbx::runtime;
  const std::string text(fuzz::text_of(data, size));
  std::string left = text;
  for (;;) {
    const size_t before = left.size();
    DbusMessage message;
    const Result<bool> taken = unmarshal(left, message);
    if (!taken.ok() || !taken.value()) {
      HOLDS(left.size() == before);
      break;
    }
    HOLDS(left.size() < before && message.body.size() <= before);
    HOLDS(body_words(message).size() <= message.signature.size());
    // A field that is empty is not written.
    std::string again = marshal(message);
    DbusMessage same;
    const Result<bool> read = unmarshal(again, same);
    HOLDS(read.ok() && read.value() && again.empty());
    HOLDS(same.type == message.type && same.serial == message.serial && same.reply_serial == message.reply_serial && same.body == message.body &&
          same.member == message.member && same.signature == message.signature && same.error_name == message.error_name);
  }

  int ends[2];
  HOLDS(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  UniqueFd manager(ends[1]);
  // Its answers lie there before the questions are asked, and nothing follows them: nobody waits.
  if (::send(manager.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) != static_cast<ssize_t>(text.size())) {
    ::close(ends[0]);
    return 0;
  }
  ::shutdown(manager.get(), SHUT_WR);
  Result<UserScope> scope = UserScope::request_on(UniqueFd(ends[0]), (size & 1) != 0, {"/run/user/1", 1000, 42, "sbx-42.scope"});
  if (!scope.ok()) return 0;
  const Status finished = scope.value().finish();
  HOLDS(finished.ok() || !finished.error().text().empty());
  return 0;
}
