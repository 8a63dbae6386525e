// What a session reads from a client, and a client from a session: messages come out whole and in order however the
// bytes arrive, none is longer than the limit, and no descriptor that came with them stays behind.
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/sys.h"
#include "base/unique_fd.h"
#include "fuzz.h"
#include "session/wire.h"

namespace {

using namespace sbx;
using namespace sbx::session;

// The messages as they would be sent; "!" for an error at the end.
std::vector<std::string> read_all(std::string_view bytes, size_t step, size_t limit) {
  std::vector<std::string> messages;
  MessageReader reader(limit);
  for (size_t at = 0; at < bytes.size(); at += step) {
    reader.append(bytes.substr(at, step));
    for (;;) {
      Result<std::optional<Message>> next = reader.next();
      if (!next.ok()) {
        messages.emplace_back("!");
        return messages;
      }
      if (!next.value()) break;
      HOLDS(next.value()->body.size() <= limit);
      messages.push_back(encode(next.value()->kind, next.value()->body));
    }
  }
  return messages;
}

void send_with(int socket, std::string_view bytes, size_t descriptors) {
  const std::vector<int> sent(descriptors, STDERR_FILENO);
  (void)sys::send_with_fds(socket, bytes, sent, MSG_DONTWAIT);
}

// The client's end, on a real socket.
void check_connection(std::string_view bytes, uint8_t choice, const std::vector<std::string>& expected) {
  const size_t before = fuzz::open_descriptors();
  {
    int ends[2];
    HOLDS(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    UniqueFd session(ends[1]);
    Connection client{UniqueFd(ends[0])};
    const size_t border = bytes.size() * (choice & 7) / 8;
    if (border > 0) send_with(session.get(), bytes.substr(0, border), choice >> 3 & 7);
    if (border < bytes.size()) send_with(session.get(), bytes.substr(border), choice >> 6);
    session.reset();
    for (size_t at = 0;; ++at) {
      const Result<std::optional<Message>> next = client.receive();
      if (!next.ok()) break;
      if (!next.value()) {
        HOLDS(at == expected.size());
        break;
      }
      HOLDS(at < expected.size() && encode(next.value()->kind, next.value()->body) == expected[at]);
    }
  }
  HOLDS(fuzz::open_descriptors() == before);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes = fuzz::text_of(data + 2, size - 2);
  const std::vector<std::string> messages = read_all(bytes, bytes.size() + 1, 4096);
  HOLDS(messages == read_all(bytes, size_t{data[0]} + 1, 4096));
  // What was read is what stood there.
  std::string together;
  for (const std::string& message : messages) together += message == "!" ? "" : message;
  HOLDS(bytes.substr(0, together.size()) == together);
  if (bytes.size() < 8192) check_connection(bytes, data[1], read_all(bytes, bytes.size() + 1, kMaxMessage));
  return 0;
}
