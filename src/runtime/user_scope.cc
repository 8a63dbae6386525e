#include "runtime/user_scope.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include <cerrno>
#include <cstring>

#include "base/sys.h"
#include "base/text.h"

namespace sbx::runtime {
namespace {

constexpr size_t kMostBytes = size_t{64} << 10;
constexpr int64_t kAnswerMs = 3000;
constexpr char kManagerPath[] = "/org/freedesktop/systemd1";
constexpr char kManager[] = "org.freedesktop.systemd1";
constexpr char kManagerInterface[] = "org.freedesktop.systemd1.Manager";

int64_t now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1000} + now.tv_nsec / 1000000;
}

// ---- marshalling: every value is aligned to its size, counted from the start of the message or body ------------------

class Writer {
 public:
  void align(size_t to) { bytes.resize((bytes.size() + to - 1) / to * to, '\0'); }
  void byte(uint8_t value) { bytes += static_cast<char>(value); }
  void number(uint32_t value) {
    align(4);
    for (int shift = 0; shift < 32; shift += 8) byte(static_cast<uint8_t>(value >> shift));
  }
  void text(std::string_view value) {
    number(static_cast<uint32_t>(value.size()));
    bytes += value;
    bytes += '\0';
  }
  void signature(std::string_view value) {
    byte(static_cast<uint8_t>(value.size()));
    bytes += value;
    bytes += '\0';
  }
  // Begins an array; end_array() writes its length, which does not count the padding before the first element.
  size_t begin_array(size_t element_alignment) {
    number(0);
    const size_t at = bytes.size();
    align(element_alignment);
    starts_.push_back(bytes.size());
    return at;
  }
  void end_array(size_t at) {
    patch(at - 4, static_cast<uint32_t>(bytes.size() - starts_.back()));
    starts_.pop_back();
  }
  std::string bytes;

 private:
  void patch(size_t at, uint32_t value) {
    for (size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
  }
  std::vector<size_t> starts_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool ok() const { return ok_; }
  size_t at() const { return at_; }
  bool done() const { return !ok_ || at_ >= bytes_.size(); }
  void align(size_t to) {
    at_ = (at_ + to - 1) / to * to;
    if (at_ > bytes_.size()) ok_ = false;
  }
  uint8_t byte() {
    if (!ok_ || at_ >= bytes_.size()) return fail();
    return static_cast<uint8_t>(bytes_[at_++]);
  }
  uint32_t number() {
    align(4);
    uint32_t value = 0;
    for (int shift = 0; shift < 32; shift += 8) value |= static_cast<uint32_t>(byte()) << shift;
    return value;
  }
  std::string text(size_t length) {
    if (!ok_ || bytes_.size() - at_ <= length) {
      ok_ = false;
      return "";
    }
    std::string value(bytes_.substr(at_, length));
    at_ += length + 1;
    return value;
  }

 private:
  uint8_t fail() {
    ok_ = false;
    return 0;
  }
  std::string_view bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

// ---- the socket ------------------------------------------------------------------------------------------------------

Result<UniqueFd> connect_to(const std::string& path) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return Error::from_errno(errno, "create a socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return Error(ErrorKind::unsupported, "'" + path + "' is too long a path for a socket");
  std::memcpy(address.sun_path, path.c_str(), path.size());
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Error::from_errno(errno, "connect to '" + path + "'");
  }
  return socket;
}

Status send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return Error::from_errno(errno, "write to the systemd user manager");
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return {};
}

// Appends what is there; waits for it until `deadline` (CLOCK_MONOTONIC, ms).
Status receive_more(int socket, std::string& bytes, int64_t deadline) {
  for (;;) {
    const int64_t left = deadline - now_ms();
    pollfd waiting{socket, POLLIN, 0};
    const int ready = left > 0 ? ::poll(&waiting, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return Error(ErrorKind::system, "the systemd user manager does not answer");
    char buffer[4096];
    const ssize_t got = ::recv(socket, buffer, sizeof buffer, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error::from_errno(errno, "read from the systemd user manager");
    if (got == 0) return Error(ErrorKind::system, "the systemd user manager closed the connection");
    bytes.append(buffer, static_cast<size_t>(got));
    if (bytes.size() > 2 * kMostBytes) return Error(ErrorKind::system, "the systemd user manager says too much");
    return {};
  }
}

// SASL EXTERNAL: the identity is the socket's peer, named by its uid in decimal, in hex.
Status authenticate(int socket, uint32_t uid, std::string& bytes) {
  std::string hex;
  for (const char digit : std::to_string(uid)) {
    hex += '3';
    hex += digit;
  }
  const std::string hello = std::string(1, '\0') + "AUTH EXTERNAL " + hex + "\r\n";
  SBX_TRY(send_all(socket, hello));
  const int64_t deadline = now_ms() + kAnswerMs;
  size_t end;
  while ((end = bytes.find("\r\n")) == std::string::npos) SBX_TRY(receive_more(socket, bytes, deadline));
  if (!starts_with(bytes, "OK ")) {
    return Error(ErrorKind::permission, "the systemd user manager refuses us: '" + printable(bytes.substr(0, end), 80) + "'");
  }
  bytes.erase(0, end + 2);
  return send_all(socket, "BEGIN\r\n");
}

}  // namespace

std::string marshal(const DbusMessage& message) {
  Writer out;
  out.byte('l');
  out.byte(static_cast<uint8_t>(message.type));
  out.byte(0);
  out.byte(1);
  out.number(static_cast<uint32_t>(message.body.size()));
  out.number(message.serial);
  const size_t fields = out.begin_array(8);
  const auto field = [&](uint8_t code, char type, const std::string& value) {
    if (value.empty()) return;
    out.align(8);
    out.byte(code);
    out.signature(std::string(1, type));
    if (type == 'g') out.signature(value);
    else out.text(value);
  };
  field(1, 'o', message.path);
  field(2, 's', message.interface);
  field(3, 's', message.member);
  field(4, 's', message.error_name);
  if (message.reply_serial != 0) {
    out.align(8);
    out.byte(5);
    out.signature("u");
    out.number(message.reply_serial);
  }
  field(6, 's', message.destination);
  field(8, 'g', message.signature);
  out.end_array(fields);
  out.align(8);
  return out.bytes + message.body;
}

Result<bool> unmarshal(std::string& bytes, DbusMessage& message) {
  const Error broken(ErrorKind::system, "the systemd user manager does not speak D-Bus as expected");
  if (bytes.size() < 16) return false;
  Reader head(bytes);
  if (head.byte() != 'l') return broken;
  const uint8_t type = head.byte();
  head.byte();
  if (head.byte() != 1 || type < 1 || type > 4) return broken;
  const uint32_t body_size = head.number();
  message = {};
  message.serial = head.number();
  const uint32_t fields_size = head.number();
  if (body_size > kMostBytes || fields_size > kMostBytes) return broken;
  const size_t body_at = (size_t{16} + fields_size + 7) / 8 * 8;
  if (bytes.size() < body_at + body_size) return false;

  message.type = static_cast<DbusMessage::Type>(type);
  Reader fields(std::string_view(bytes).substr(0, size_t{16} + fields_size));
  for (int i = 0; i < 4; ++i) fields.number();
  while (!fields.done()) {
    fields.align(8);
    if (fields.done()) break;
    const uint8_t code = fields.byte();
    const std::string signature = fields.text(fields.byte());
    std::string value;
    uint32_t number = 0;
    if (signature == "s" || signature == "o") value = fields.text(fields.number());
    else if (signature == "g") value = fields.text(fields.byte());
    else if (signature == "u") number = fields.number();
    else return broken;  // no header field has another type
    if (code == 1) message.path = value;
    else if (code == 2) message.interface = value;
    else if (code == 3) message.member = value;
    else if (code == 4) message.error_name = value;
    else if (code == 5) message.reply_serial = number;
    else if (code == 6) message.destination = value;
    else if (code == 8) message.signature = value;
  }
  if (!fields.ok()) return broken;
  message.body = bytes.substr(body_at, body_size);
  bytes.erase(0, body_at + body_size);
  return true;
}

std::vector<std::string> body_words(const DbusMessage& message) {
  std::vector<std::string> words;
  Reader body(message.body);
  for (const char type : message.signature) {
    if (type == 's' || type == 'o') words.push_back(body.text(body.number()));
    else if (type == 'u') words.push_back(std::to_string(body.number()));
    else break;
    if (!body.ok()) {
      words.pop_back();
      break;
    }
  }
  return words;
}

std::string scope_body(const UserScopeRequest& request) {
  Writer out;
  out.text(request.unit);
  out.text("fail");
  const size_t properties = out.begin_array(8);
  const auto property = [&](std::string_view name, std::string_view signature) {
    out.align(8);
    out.text(name);
    out.signature(signature);
  };
  property("Description", "s");
  out.text("sandboxes of sbx");
  property("PIDs", "au");
  const size_t pids = out.begin_array(4);
  out.number(request.pid);
  out.end_array(pids);
  property("Delegate", "b");
  out.number(1);
  property("CollectMode", "s");
  out.text("inactive-or-failed");
  out.end_array(properties);
  const size_t auxiliary = out.begin_array(8);
  out.end_array(auxiliary);
  return out.bytes;
}

Result<UserScope> UserScope::request(const UserScopeRequest& request) {
  if (request.runtime_directory.empty()) {
    return Error(ErrorKind::unsupported, "no systemd user manager: XDG_RUNTIME_DIR is not set");
  }
  Result<struct stat> info = sys::stat(request.runtime_directory);
  if (!info.ok() || info.value().st_uid != request.uid) {
    return Error(ErrorKind::unsupported, "no systemd user manager: '" + printable(request.runtime_directory) + "' is not there or not ours");
  }
  Result<UniqueFd> socket = connect_to(join_path(request.runtime_directory, "systemd/private"));
  if (socket.ok()) return request_on(socket.take(), false, request);
  socket = connect_to(join_path(request.runtime_directory, "bus"));
  if (socket.ok()) return request_on(socket.take(), true, request);
  return Error(ErrorKind::unsupported, "no systemd user manager: " + socket.error().text());
}

Result<UserScope> UserScope::request_on(UniqueFd socket, bool bus, const UserScopeRequest& request) {
  std::string bytes;
  SBX_TRY(authenticate(socket.get(), request.uid, bytes));
  std::string calls;
  DbusMessage call;
  uint32_t serial = 0;
  if (bus) {
    call.serial = ++serial;
    call.path = "/org/freedesktop/DBus";
    call.interface = call.destination = "org.freedesktop.DBus";
    call.member = "Hello";
    calls += marshal(call);
  }
  call = {};
  call.serial = ++serial;
  call.path = kManagerPath;
  call.interface = kManagerInterface;
  if (bus) call.destination = kManager;
  call.member = "StartTransientUnit";
  call.signature = "ssa(sv)a(sa(sv))";
  call.body = scope_body(request);
  calls += marshal(call);
  SBX_TRY(send_all(socket.get(), calls));
  UserScope scope(std::move(socket), serial);
  scope.pending_ = std::move(bytes);
  return scope;
}

Status UserScope::finish() {
  const int64_t deadline = now_ms() + kAnswerMs;
  std::string job;
  // Who started a job is told of its end, subscribed or not. On the private socket the signal may overtake the reply.
  std::vector<std::pair<std::string, std::string>> ended;
  for (;;) {
    DbusMessage message;
    while (!SBX_TRY(unmarshal(pending_, message))) SBX_TRY(receive_more(socket_.get(), pending_, deadline));
    const std::vector<std::string> words = body_words(message);
    if (message.type == DbusMessage::Type::error && message.reply_serial == serial_) {
      const std::string said = words.empty() ? message.error_name : words[0];
      return Error(ErrorKind::permission, "the systemd user manager refuses a scope: " + printable(said, 200));
    }
    if (message.type == DbusMessage::Type::error && message.reply_serial != 0) {
      return Error(ErrorKind::permission, "the user bus refuses us: " + printable(message.error_name, 200));
    }
    if (message.type == DbusMessage::Type::reply && message.reply_serial == serial_) job = words.empty() ? "" : words[0];
    if (message.type == DbusMessage::Type::signal && message.member == "JobRemoved" && words.size() == 4) {
      ended.emplace_back(words[1], words[3]);
      if (ended.size() > 64) ended.erase(ended.begin());
    }
    if (job.empty()) continue;
    for (const auto& [path, result] : ended) {
      if (path != job) continue;
      if (result == "done") return {};
      return Error(ErrorKind::system, "the systemd user manager could not start a scope: " + printable(result, 80));
    }
  }
}

}  // namespace sbx::runtime
