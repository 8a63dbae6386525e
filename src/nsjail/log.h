// The log as nsjail writes it: "[I][2026-11-30T06:48:24+0000] text"; every level but I adds "[pid] function():line". It
// goes to a descriptor of its own, never to what the program inside has.
#pragma once

#include <string>

#include "base/error.h"
#include "base/unique_fd.h"
#include "policy/nsjail/config.h"

namespace sbx::nsjail {

// Where a line of the log comes from: std::source_location, which clang 14 cannot read from g++ 12's library.
struct Where {
  const char* function = "";
  unsigned line = 0;
  static constexpr Where current(const char* function = __builtin_FUNCTION(), unsigned line = __builtin_LINE()) { return {function, line}; }
};

class Log {
 public:
  Log();  // to descriptor 2, level INFO

  // What the configuration asks for. A file that cannot be opened is a warning, and descriptor 2 is used.
  void configure(const Config& config);

  void debug(const std::string& text, const Where& where = Where::current()) const { write(LogLevel::debug, text, where); }
  void info(const std::string& text) const { write(LogLevel::info, text, {}); }
  void warning(const std::string& text, const Where& where = Where::current()) const { write(LogLevel::warning, text, where); }
  // With its hint, at level E or, when it ends everything, F.
  void error(const Error& error, LogLevel level = LogLevel::error, const Where& where = Where::current()) const;
  bool shows(LogLevel level) const { return level >= level_; }

 private:
  void write(LogLevel level, const std::string& text, const Where& where) const;
  void use(int fd);
  UniqueFd fd_;
  bool colours_ = false;
  LogLevel level_ = LogLevel::info;
};

}  // namespace sbx::nsjail
