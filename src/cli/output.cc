#include "cli/output.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "base/sys.h"
#include "base/text.h"

namespace sbx::cli {
namespace {

constexpr size_t kLongestLine = 4096;

// Written whole: one write for one message, so that lines of several processes do not run into each other. An error
// has nobody left to be told to.
void to_stderr(const std::string& text) { (void)sys::write_all(STDERR_FILENO, text); }

}  // namespace

void say(const std::string& text) {
  std::string lines;
  for (const std::string& line : split(text, '\n')) lines += "sbx: " + printable(line, kLongestLine) + "\n";
  to_stderr(lines);
}

void say_error(const Error& error) {
  std::string lines = "sbx: " + printable(error.text(), kLongestLine) + "\n";
  if (!error.hint().empty()) lines += "sbx: hint: " + printable(error.hint(), kLongestLine) + "\n";
  to_stderr(lines);
}

bool can_show_progress() {
  const char* terminal = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb" && *terminal != '\0';
}

void show_progress(const std::string& text) {
  to_stderr(text.empty() ? "\r\033[K" : "\r\033[Ksbx: " + printable(text, 60) + " ...");
}

bool print(const std::string& text) { return sys::write_all(STDOUT_FILENO, text).ok(); }

int print_or_fail(const std::string& text) {
  const Status written = sys::write_all(STDOUT_FILENO, text);
  if (written.ok()) return 0;
  // A reader that has seen enough (`sbx langs | head -1`) is no failure worth words.
  if (written.error().errnum() != EPIPE) say("cannot write to stdout: " + errno_text(written.error().errnum()));
  return 1;
}

namespace {

// Characters, near enough: the bytes of UTF-8 that do not continue one.
size_t width_of(const std::string& cell) {
  return static_cast<size_t>(
      std::count_if(cell.begin(), cell.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], width_of(row[column]));
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (size_t column = 0; column < row.size(); ++column) {
      line += row[column];
      if (column + 1 < row.size()) line.append(widths[column] - width_of(row[column]) + 2, ' ');
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text += line + "\n";
  }
  return text;
}

std::string json_text(const std::string& text) {
  // RFC 8259: quote, backslash and controls are escaped; bytes that are no UTF-8 cannot stand in a JSON text.
  const std::string safe = is_valid_utf8(text) ? text : printable(text, kLongestLine);
  constexpr char kHex[] = "0123456789abcdef";
  std::string result = "\"";
  for (const char letter : safe) {
    const unsigned char byte = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      result += '\\';
      result += letter;
    } else if (byte < 0x20) {
      result += "\\u00";
      result += kHex[byte >> 4];
      result += kHex[byte & 15];
    } else {
      result += letter;
    }
  }
  return result + "\"";
}

std::string json_list(const std::vector<std::string>& texts) {
  std::string list = "[";
  for (const std::string& text : texts) list += (list.size() > 1 ? ", " : "") + json_text(text);
  return list + "]";
}

}  // namespace sbx::cli
