// Reading what the caller wants to run: a file, text, or stdin; and the extra files that go with it.
//
// Bounded (kProgramLimit), never blocking on something that is not a program: a directory, a device or a socket is
// refused; a FIFO is fine (`sbx run --lang python <(make-code)`). The bytes go to a memory file whose descriptor the
// child copies from, so that what runs is what was looked at.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "runtime/request.h"

namespace sbx::runtime {

inline constexpr size_t kProgramLimit = size_t{64} << 20;

struct Program {
  UniqueFd content;         // memory file
  uint64_t size = 0;
  std::string head;         // the first 512 bytes at most
  std::string name;         // base name; "" when it has none worth keeping (text, stdin, a FIFO)
  std::string host_path;    // absolute, links in it kept as the caller wrote them; "" when it has none
  bool executable = false;  // the owner may execute the file
};

// Errors, kind usage: missing, unreadable, a directory or device, empty stdin, too large, an executable passed as
// source. Each has a hint with the way out. Reading from stdin (fd 0) leaves it at its end.
Result<Program> read_program(const ProgramSource& source);

// The whole text of a program.
Result<std::string> program_text(const Program& program);
// Puts `prefix` before the text of a program that does not hold `unless`.
Status put_prefix(Program& program, const std::string& prefix, const std::string& unless);

// An extra file, opened for reading: a regular file. Errors: usage.
struct ExtraFile {
  UniqueFd content;
  uint64_t size = 0;
  bool executable = false;
};
Result<ExtraFile> open_extra_file(const FileArgument& argument);

// Checks a --file NAME: relative, no empty, "." or ".." part. Errors: usage.
Status check_file_name(const FileArgument& argument);

// For "sbx run python main.py": what follows the language's name, with which it works.
std::string language_first_hint(const std::string& language, std::span<const std::string> arguments);

}  // namespace sbx::runtime
