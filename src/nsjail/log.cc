#include "nsjail/log.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

#include "base/sys.h"
#include "base/text.h"

namespace sbx::nsjail {
namespace {

std::string now() {
  const time_t seconds = ::time(nullptr);
  struct tm parts {};
  char text[64];
  if (::localtime_r(&seconds, &parts) == nullptr || ::strftime(text, sizeof text, "%FT%T%z", &parts) == 0) return "?";
  return text;
}

}  // namespace

Log::Log() { use(STDERR_FILENO); }

void Log::use(int fd) {
  // Above what becomes the program's stdin, stdout and stderr.
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  fd_.reset(copy >= 0 ? copy : ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  colours_ = ::isatty(fd_.get()) == 1 && ::getenv("NO_COLOR") == nullptr;
}

void Log::configure(const Config& config) {
  if (config.log_level) level_ = *config.log_level;
  if (config.log_fd) use(*config.log_fd);
  std::string file = config.log_file.value_or("");
  if (config.daemon && !config.log_file && !config.log_fd) file = "/var/log/nsjail.log";
  if (file.empty()) return;
  const Result<UniqueFd> opened = sys::open(file, O_CREAT | O_RDWR | O_APPEND, 0640);
  if (opened.ok()) {
    use(opened.value().get());
  } else {
    warning(opened.error().text());
  }
}

void Log::error(const Error& error, LogLevel level, const Where& where) const {
  write(level, error.text(), where);
  if (!error.hint().empty()) write(level, "hint: " + error.hint(), where);
}

void Log::write(LogLevel level, const std::string& text, const Where& where) const {
  if (!shows(level) || !fd_.valid()) return;
  static constexpr char kLetters[] = "DIWEF";
  static constexpr const char* kColours[] = {"\033[0;4m", "\033[1m", "\033[0;33m", "\033[1;31m", "\033[7;35m"};
  const auto index = static_cast<size_t>(level);
  std::string line = colours_ ? kColours[index] : "";
  line += std::string("[") + kLetters[index] + "][" + now() + "]";
  if (level != LogLevel::info) {
    line += "[" + std::to_string(::getpid()) + "] " + where.function + "():" + std::to_string(where.line);
  }
  line += " " + printable(text, size_t{4096}) + (colours_ ? "\033[0m" : "") + "\n";
  (void)sys::write_all(fd_.get(), line);
}

}  // namespace sbx::nsjail
