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
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  iovec text{bytes, sizeof bytes};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got;
  do {
    got = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
  } while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
  if (got <= 0) return false;  // ECONNRESET: killed, with something unread
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    // There is room for a second one, which nobody asked for: the last is kept, none stays open unseen.
    for (size_t at = 0; at + CMSG_LEN(sizeof(int)) <= header->cmsg_len; at += sizeof(int)) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
      descriptor_.reset(fd);
    }
  }
  reader_.append({bytes, static_cast<size_t>(got)});
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
