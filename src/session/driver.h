// The host's side of docs/session-protocol.md: which languages have a driver, requests as frames, and the frames that come
// back, each taken as hostile.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/session_ground.h"
#include "session/json.h"

namespace sbx::session {

inline constexpr char kDriverDirectory[] = "/run/sbx/session";
inline constexpr size_t kMaxFrame = size_t{16} << 20;

// nullopt: this language keeps files only.
// For Python only: `preload`, modules to import beforehand, "numpy,pandas"; `ipython`, whether its shell is used: "auto",
// "yes", "no"; "" as auto.
std::optional<runtime::SessionDriver> driver_of(const std::string& language, const std::string& preload = "", const std::string& ipython = "");
std::vector<std::string> languages_with_driver();
// How one program is run so that it tells the value of its last expression (sbx run --eval). Its frames bear `token`. `show`: what
// it writes where a value was told: "text", it as text; "marks", for read_evaluation() (session/evaluation.h).
// Errors: usage for a language that has no such driver.
Result<runtime::SessionDriver> evaluator_of(const std::string& language, const std::string& token, const std::string& show);

// 32 hexadecimal digits, new for each cell.
Result<std::string> make_token();

std::string frame(std::string_view body);

// What a driver says, checked.
struct DriverFrame {
  enum class Type { ready, display, update, result, clear, echo, done };
  Type type = Type::ready;
  Json body;
};

struct ExpectedCell {
  int64_t cell = 0;
  std::string token;
  int64_t seq = 0;  // of the last frame
};

// Cuts the stream into frames and checks each against the cell that runs. The first error is final: the driver cannot be
// believed any more.
class FrameReader {
 public:
  // Bytes of frames in one cell, all together.
  static constexpr size_t kMaxCellBytes = size_t{64} << 20;
  static constexpr size_t kMaxCellFrames = 4000;

  void begin_cell(int64_t cell, std::string token);
  // The frames of one program, which is cell 1 and says no `ready`.
  void begin_program(std::string token) {
    ready_ = true;
    begin_cell(1, std::move(token));
  }
  void end_cell() { running_ = false; }
  void append(std::string_view bytes) { buffer_.append(bytes); }
  size_t waiting() const { return buffer_.size() - begin_; }
  // nullopt: none is whole yet.
  Result<std::optional<DriverFrame>> next();
  int64_t seq() const { return expected_.seq; }

 private:
  Result<DriverFrame> check(Json body);
  bool ready_ = false;
  bool running_ = false;
  ExpectedCell expected_;
  size_t bytes_ = 0, frames_ = 0;
  std::string buffer_;
  size_t begin_ = 0;  // of what has not been read yet
};

// One display, update or result as it stands among the `outputs` of a result; and the error of a `done`, "" if none.
std::string output_json(const DriverFrame& frame);
std::string error_output(const DriverFrame& done);
// A piece of a stream among them, of which only `left` bytes are wanted; those are taken off.
std::string stream_output(const char* name, std::string_view bytes, size_t& left);
inline constexpr size_t kOutputText = size_t{4} << 20;  // of the streams, a second time among the outputs
// A JSON object as text, with the members of `more` and `outputs` behind its own. As text: the streams in it may be large,
// and of an output only its text is kept: as values, what a cell may send (64M of "[]," each) would take gigabytes.
std::string with_outputs(std::string object, const Json& more, const std::vector<std::string>& outputs);

}  // namespace sbx::session
