// Frames that a session's driver sends, and the JSON in them; and those of one program (sbx run --eval). The first byte
// says which, and where the stream is split: how it arrives makes no difference.
#include <cmath>
#include <string>
#include <vector>

#include "base/text.h"
#include "fuzz.h"
#include "session/driver.h"
#include "session/evaluation.h"
#include "session/json.h"

namespace {

using namespace sbx;
using namespace sbx::session;

constexpr char kToken[] = "00000000000000000000000000000000";

// What a cell's outputs become in a result is JSON, ASCII only, and says the same.
void check_output(const DriverFrame& frame) {
  const std::string text = output_json(frame);
  for (const char c : text) HOLDS(c >= 0x20 && c < 0x7f);
  const Result<Json> read = parse_json(text, 80);
  HOLDS(read.ok());
  HOLDS(read.value().at("data") == parse_json(frame.body.at("data").dump(), 80).value());
}

// The frames as text, "!" for an error at the end. Whatever is accepted has its place and its cell.
std::vector<std::string> read_cells(std::string_view text, size_t step) {
  std::vector<std::string> said;
  FrameReader reader;
  bool ready = false, running = false;
  int64_t cell = 0, last = 0;
  for (size_t at = 0; at < text.size(); at += step) {
    reader.append(text.substr(at, step));
    for (;;) {
      const Result<std::optional<DriverFrame>> next = reader.next();
      if (!next.ok()) {
        HOLDS(!next.error().text().empty());
        said.emplace_back("!");
        return said;
      }
      if (!next.value()) break;
      const DriverFrame& frame = *next.value();
      HOLDS(ready == (frame.type != DriverFrame::Type::ready));
      if (ready) {
        HOLDS(running && frame.body.at("cell").integer() == cell && frame.body.at("token").text() == kToken);
        HOLDS(frame.body.at("seq").integer() == ++last && reader.seq() == last);
        switch (frame.type) {
          case DriverFrame::Type::display:
          case DriverFrame::Type::update:
          case DriverFrame::Type::result: check_output(frame); break;
          case DriverFrame::Type::done: {
            const std::string error = error_output(frame);
            HOLDS(error.empty() || parse_json(error).ok());
            running = false;
            break;
          }
          case DriverFrame::Type::clear:
          case DriverFrame::Type::echo:
          case DriverFrame::Type::ready: break;
        }
      }
      const std::string body = frame.body.dump();
      const Result<Json> again = parse_json(body);
      HOLDS(again.ok() && again.value().dump() == body);
      said.push_back(body);
      if (!running) {
        reader.begin_cell(++cell, kToken);
        running = true;
        last = 0;
      }
      ready = true;
    }
  }
  return said;
}

// The streams hold what the frames do: marks of every kind.
void check_evaluation(std::string_view text) {
  std::string out(text);
  std::string err(text.substr(text.size() / 2));
  const Evaluation evaluation = read_evaluation(text, kToken, &out, &err);
  HOLDS(out.size() <= text.size() && err.size() <= text.size() - text.size() / 2);
  const Json more = Json::object().set("dropped", evaluation.dropped).set("problem", evaluation.problem);
  const Result<Json> result = parse_json(with_outputs("{\n  \"a\": {\"b\": [1]}\n}\n", more, evaluation.outputs), 80, 1000000);
  HOLDS(result.ok());
  HOLDS(result.value().at("outputs").items().size() == evaluation.outputs.size());
  HOLDS(result.value().at("problem") == more.at("problem") || !is_valid_utf8(evaluation.problem));
  HOLDS(result.value().at("a").at("b").items().size() == 1);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  if (text.empty()) return 0;
  const auto choice = static_cast<unsigned char>(text[0]);
  if (choice >= 0xf0) check_evaluation(text.substr(1));
  else HOLDS(read_cells(text.substr(1), size_t{choice} + 1) == read_cells(text.substr(1), text.size()));
  return 0;
}
