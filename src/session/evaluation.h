// What one program has told of its values: the outputs of sbx run --eval.
//
// The driver writes a frame for each, as in a session, but nobody answers it, so what is printed next may be read first. Where
// the streams are kept (--json) the driver therefore marks the place in both: the program's token and the frame's number between
// record separators, which are taken out here. The program can find the token and write marks of its own; it moves its own outputs then.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "session/driver.h"

namespace sbx::session {

struct Evaluation {
  std::vector<std::string> outputs;  // each as JSON
  uint64_t dropped = 0;
  std::string problem;               // why nothing of what followed is believed; "": all was as it should be
};

// `out`, `err`: what was kept of the streams; they lose their marks, and stand among the outputs. nullptr: they were not kept.
Evaluation read_evaluation(std::string_view frames, const std::string& token, std::string* out = nullptr, std::string* err = nullptr);

}  // namespace sbx::session
