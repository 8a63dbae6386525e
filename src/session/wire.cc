#include "session/wire.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/sys.h"

namespace sbx::session {
namespace {

constexpr size_t kHead = 1 + sizeof(uint32_t);

}  // namespace

std::string encode(Kind kind, std::string_view body) {
  std::string text(kHead, '\0');
  text[0] = static_cast<char>(kind);
  const auto size = static_cast<uint32_t>(body.size());
  std::memcpy(text.data() + 1, &size, sizeof size);
  text.append(body);
  return text;
}

Result<std::optional<Message>> MessageReader::next() {
  if (buffer_.size() - begin_ < kHead) return std::optional<Message>();
  uint32_t size = 0;
  std::memcpy(&size, buffer_.data() + begin_ + 1, sizeof size);
  if (size > limit_) return Error(ErrorKind::resource, "a message of " + std::to_string(size) + " bytes is too long");
  if (buffer_.size() - begin_ < kHead + size) return std::optional<Message>();
  Message message{static_cast<Kind>(buffer_[begin_]), buffer_.substr(begin_ + kHead, size)};
  begin_ += kHead + size;
  if (begin_ == buffer_.size() || begin_ > (size_t{1} << 20)) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  return std::optional<Message>(std::move(message));
}

Status Connection::send(Kind kind, std::string_view body) const {
  const std::string text = encode(kind, body);
  for (size_t at = 0; at < text.size();) {
    const ssize_t put = ::send(socket_.get(), text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return Error(ErrorKind::system, "the session has ended");
    at += static_cast<size_t>(put);
  }
  return {};
}

Result<bool> Connection::fill(bool wait) {
  char bytes[65536];
  std::vector<UniqueFd> fds;
  const Result<size_t> got = sys::receive_with_fds(socket_.get(), bytes, fds, wait ? 0 : MSG_DONTWAIT);
  if (!got.ok() && got.error().errnum() == EAGAIN) return true;
  if (!got.ok() || got.value() == 0) return false;  // ECONNRESET: killed, with something unread
  if (!fds.empty()) descriptor_ = std::move(fds.back());
  reader_.append({bytes, got.value()});
  return true;
}

Result<std::optional<Message>> Connection::receive() {
  for (;;) {
    std::optional<Message> message = SBX_TRY(reader_.next());
    if (message) return message;
    if (!SBX_TRY(fill(true))) return std::optional<Message>();
  }
}

Result<std::optional<Message>> Connection::poll(bool& closed) {
  std::optional<Message> message = SBX_TRY(reader_.next());
  if (message) return message;
  closed = !SBX_TRY(fill(false));
  return reader_.next();
}

}  // namespace sbx::session
