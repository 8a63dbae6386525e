#include "session/evaluation.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace sbx::session {
namespace {

constexpr char kSeparator = '\x1e';
constexpr size_t kMostDigits = 6;  // of a frame's number

// One stream, cut at its marks.
class Marked {
 public:
  Marked(const char* name, std::string* text, const std::string& token) : name_(name), text_(text), head_(kSeparator + token + ":") {
    if (text_ != nullptr) rest_.swap(*text_);
  }

  // All up to the mark of that number goes to `outputs`; without such a mark nothing does.
  void take(int64_t seq, std::vector<std::string>& outputs, size_t& left) {
    const std::string mark = head_ + std::to_string(seq) + kSeparator;
    if (const size_t at = rest_.find(mark, begin_); at != std::string::npos) take_to(at, outputs, left);
  }
  void take_rest(std::vector<std::string>& outputs, size_t& left) { take_to(rest_.size(), outputs, left); }

 private:
  void take_to(size_t end, std::vector<std::string>& outputs, size_t& left) {
    if (text_ == nullptr) return;
    const std::string piece = without_marks(std::string_view(rest_).substr(begin_, end - begin_));
    begin_ = end;
    if (piece.empty()) return;
    text_->append(piece);
    outputs.push_back(stream_output(name_, piece, left));
  }

  std::string without_marks(std::string_view bytes) const {
    std::string text;
    for (;;) {
      const size_t at = bytes.find(head_);
      text.append(bytes.substr(0, at));
      if (at == std::string_view::npos) break;
      const size_t end = bytes.substr(0, at + head_.size() + kMostDigits + 1).find(kSeparator, at + head_.size());
      if (end == std::string_view::npos) return text;  // cut off by the limit of output
      bytes.remove_prefix(end + 1);
    }
    for (size_t size = std::min(head_.size(), text.size()); size > 1; --size) {
      if (!text.ends_with(std::string_view(head_).substr(0, size))) continue;
      text.resize(text.size() - size);  // so was this one
      break;
    }
    return text;
  }

  const char* name_;
  std::string* text_;
  std::string head_, rest_;
  size_t begin_ = 0;
};

}  // namespace

Evaluation read_evaluation(std::string_view frames, const std::string& token, std::string* out, std::string* err) {
  Evaluation evaluation;
  std::vector<std::string>& outputs = evaluation.outputs;
  Marked streams[] = {{"stdout", out, token}, {"stderr", err, token}};
  size_t left = kOutputText;
  FrameReader reader;
  reader.begin_program(token);
  reader.append(frames);
  bool clear = false;
  std::string error;
  for (;;) {
    Result<std::optional<DriverFrame>> next = reader.next();
    if (!next.ok()) {
      evaluation.problem = next.error().text();
      break;
    }
    if (!next.value()) break;
    const DriverFrame& frame = *next.value();
    if (frame.type == DriverFrame::Type::echo) continue;
    if (frame.type == DriverFrame::Type::done) {
      evaluation.dropped = static_cast<uint64_t>(std::max<int64_t>(frame.body.at("dropped").integer(), 0));
      error = error_output(frame);
      continue;
    }
    // What is printed before the next display is gone with what was cleared.
    for (Marked& stream : streams) stream.take(reader.seq(), outputs, left);
    if (frame.type == DriverFrame::Type::clear) {
      clear = true;
      if (frame.body.at("wait").boolean()) continue;
    }
    if (std::exchange(clear, false)) outputs.clear();
    if (frame.type != DriverFrame::Type::clear) outputs.push_back(output_json(frame));
  }
  for (Marked& stream : streams) stream.take_rest(outputs, left);
  if (!error.empty()) outputs.push_back(std::move(error));
  return evaluation;
}

}  // namespace sbx::session
