// Hints: one line each, for a run that failed for a cause which sbx can name, with a remedy that works when pasted.
//
// Two sources, never mixed up. Facts of the kernel (the verdict, limits touched) are stated. Text that the payload
// wrote (the last 4 KiB of its stderr) is only looked at to guess, and the hint says so; it never changes a verdict.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/runner_spec.h"
#include "policy/spec.h"
#include "runtime/request.h"

namespace sbx::runtime {

struct HintContext {
  const RunRequest* request = nullptr;   // borrowed, like the rest
  const Report* report = nullptr;        // outcome, compile and limits are filled in
  const RunnerSpec* runner = nullptr;    // nullptr for exec
  NetMode net = NetMode::none;
  std::string source_directory;          // host directory of the program when it was not shared; "" otherwise
  std::string source_directory_shown;    // the same as the caller would write it: ".", "src"
  std::vector<std::string> siblings;     // names in it, besides the program
};
std::vector<std::string> make_hints(const HintContext& context);

// The caller's command line with `flags` (option and value in turn) put where they win ("sbx run --memory 2G main.py"), quoted for a shell; ""
// when it cannot be pasted: the program came from stdin, or a word holds a line break, or it is very long.
std::string command_with(const RunRequest& request, std::span<const std::string> flags);

// The first of `siblings` that a complaint about something missing in `stderr_tail` names: a file name, or the stem
// of one ("No module named 'helper'" and helper.py). "" if none.
std::string missing_sibling(std::string_view stderr_tail, std::span<const std::string> siblings);

// Names in a directory, bounded; empty when it cannot be read.
std::vector<std::string> names_beside(const std::string& directory, const std::string& program_name);

// ---- what hints are made of: for hint_reference too ------------------------------------------------------------

struct LimitText {
  const char* name;          // as limits_hit names it
  const char* flag;
  const char* compile_flag;  // nullptr: the same flag holds for the compile step
  const char* said;          // "ran out of memory"
};
std::span<const LimitText> limit_texts();

// A cause that shows in the payload's own words only, in whatever language.
struct MessageText {
  std::span<const std::string_view> phrases;
  const char* said;   // ends where the command with the remedy follows
  const char* flag;   // of the remedy; nullptr: there is none
  const char* value;
  const char* limit;  // the limit that the flag raises, or nullptr
};
std::span<const MessageText> message_texts();

}  // namespace sbx::runtime
