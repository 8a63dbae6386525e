// What a session and its clients say to each other: a kind, a length and bytes, over a Unix socket. Both ends are the
// same user; lengths are bounded all the same.
//
//   client                                 session
//   request (JSON) [code (bytes)] ───────▶
//   interrupt ───────────────────────────▶
//                                ◀──────── more (it takes another piece of input, if the request said "stdin"),
//                                          echo ("0": what is typed next is a secret; "1": no more)
//   input (a piece), input_end ──────────▶
//                                ◀──────── out, err (bytes of the program), note (a line for a person), shown (text of a
//                                          value, for who reads no JSON), descriptor (with one by SCM_RIGHTS)
//                                ◀──────── unread (of the input, what nobody has read)
//                                ◀──────── result (the JSON text of a run, as it is)
//                                ◀──────── reply (JSON), the last one
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace sbx::session {

enum class Kind : uint8_t {
  request = 'R',
  code = 'C',
  input = 'i',
  input_end = 'z',
  interrupt = 'I',
  out = 'o',
  err = 'e',
  note = 'n',
  shown = 's',
  descriptor = 'F',
  more = 'm',
  echo = 'h',
  unread = 'u',
  result = 'r',
  reply = 'J',
};

inline constexpr size_t kMaxMessage = size_t{3} << 30;    // a result holds both streams, each byte as \u0000 at worst
inline constexpr size_t kInputPiece = 65536;
inline constexpr size_t kMaxRequest = size_t{24} << 20;   // what a session accepts

struct Message {
  Kind kind;
  std::string body;
};

std::string encode(Kind kind, std::string_view body);

// Cuts what was read into messages.
class MessageReader {
 public:
  explicit MessageReader(size_t limit) : limit_(limit) {}
  void append(std::string_view bytes) { buffer_.append(bytes); }
  // nullopt: not whole yet. Errors: longer than the limit, which ends the connection.
  Result<std::optional<Message>> next();

 private:
  size_t limit_;
  std::string buffer_;
  size_t begin_ = 0;
};

// For a client, waiting.
class Connection {
 public:
  explicit Connection(UniqueFd socket) : socket_(std::move(socket)), reader_(kMaxMessage) {}
  int fd() const { return socket_.get(); }
  Status send(Kind kind, std::string_view body) const;
  // nullopt: the session is gone. A descriptor that comes along is kept for take_descriptor().
  Result<std::optional<Message>> receive();
  // What is there already; `closed` when nothing comes any more.
  Result<std::optional<Message>> poll(bool& closed);
  UniqueFd take_descriptor() { return std::move(descriptor_); }

 private:
  Result<bool> fill(bool wait);  // false: the end
  UniqueFd socket_;
  MessageReader reader_;
  UniqueFd descriptor_;
};

}  // namespace sbx::session
