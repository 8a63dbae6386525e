#include "base/text.h"

#include <algorithm>
#include <array>
#include <limits>

namespace sbx {
namespace {

// <cctype> asks the locale; these never do.
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Wide enough for a 64-bit number times any unit, so that overflow is seen instead of wrapped.
__extension__ using Wide = unsigned __int128;

// A number with an optional fraction, as it stands before a unit.
struct Decimal {
  uint64_t whole = 0;
  uint64_t fraction = 0;  // digits after the point as a number …
  uint64_t scale = 1;     // … over this power of ten
  bool has_point = false;
  std::string_view unit;  // what follows the digits
};

// Nine digits of fraction tell a T to the byte closely enough and keep fraction × unit far from 128 bits.
constexpr size_t kMaxFractionDigits = 9;

// Digits, then maybe a point and digits. False: no number, or one that does not fit.
bool read_decimal(std::string_view text, Decimal& out) {
  size_t at = 0;
  for (; at < text.size() && is_digit(text[at]); ++at) {
    const auto digit = static_cast<uint64_t>(text[at] - '0');
    if (out.whole > (std::numeric_limits<uint64_t>::max() - digit) / 10) return false;
    out.whole = out.whole * 10 + digit;
  }
  if (at == 0) return false;
  if (at < text.size() && text[at] == '.') {
    const size_t first = ++at;
    for (; at < text.size() && is_digit(text[at]); ++at) {
      if (at - first == kMaxFractionDigits) return false;
      out.fraction = out.fraction * 10 + static_cast<uint64_t>(text[at] - '0');
      out.scale *= 10;
    }
    if (at == first) return false;
    out.has_point = true;
  }
  out.unit = text.substr(at);
  return true;
}

// number × unit, rounded down; false when it exceeds `limit`.
bool scaled(const Decimal& number, uint64_t unit, uint64_t limit, uint64_t& out) {
  const Wide value = Wide{number.whole} * unit + Wide{number.fraction} * unit / number.scale;
  if (value > limit) return false;
  out = static_cast<uint64_t>(value);
  return true;
}

Error bad_text(std::string_view text, const char* problem, const char* hint) {
  Error error(ErrorKind::usage, "'" + printable(text, 64) + "' " + problem);
  return std::move(error).with_hint(hint);
}

constexpr const char* kSizeHint = "write bytes or a number with K, M, G or T, for example 64M or 1.5G";
constexpr const char* kDurationHint = "write seconds or a number with ms, s, m or h, for example 250ms, 1.5s or 10m";

// The length of the valid UTF-8 sequence at the start of `bytes`, 0 when there is none (RFC 3629: no overlong forms,
// no surrogates, nothing above U+10FFFF). `code_point` is set on success.
size_t utf8_sequence(std::string_view bytes, uint32_t& code_point) {
  const auto at = [&](size_t index) { return static_cast<uint32_t>(static_cast<unsigned char>(bytes[index])); };
  const uint32_t lead = at(0);
  size_t size = 0;
  uint32_t smallest = 0;
  if (lead < 0x80) {
    code_point = lead;
    return 1;
  }
  if (lead >= 0xC2 && lead <= 0xDF) {
    size = 2;
    smallest = 0x80;
    code_point = lead & 0x1F;
  } else if ((lead & 0xF0) == 0xE0) {
    size = 3;
    smallest = 0x800;
    code_point = lead & 0x0F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    size = 4;
    smallest = 0x10000;
    code_point = lead & 0x07;
  } else {
    return 0;
  }
  if (bytes.size() < size) return 0;
  for (size_t index = 1; index < size; ++index) {
    if ((at(index) & 0xC0) != 0x80) return 0;
    code_point = (code_point << 6) | (at(index) & 0x3F);
  }
  if (code_point < smallest || code_point > 0x10FFFF) return 0;
  if (code_point >= 0xD800 && code_point <= 0xDFFF) return 0;
  return size;
}

// What a terminal may obey instead of showing: C0, DEL, C1, and the format characters that reorder or hide text or
// start a new line (bidirectional controls, zero-width characters, U+2028, U+2029, the byte order mark).
bool is_terminal_control(uint32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7F && code_point <= 0x9F) || code_point == 0x061C ||
         (code_point >= 0x200B && code_point <= 0x200F) || (code_point >= 0x2028 && code_point <= 0x202E) ||
         (code_point >= 0x2060 && code_point <= 0x2069) || code_point == 0xFEFF ||
         (code_point >= 0xFFF9 && code_point <= 0xFFFB) || (code_point >= 0xE0000 && code_point <= 0xE007F);
}

void append_hex_escape(std::string& out, char byte) {
  constexpr const char* kDigits = "0123456789abcdef";
  const auto value = static_cast<unsigned char>(byte);
  out += "\\x";
  out += kDigits[value >> 4];
  out += kDigits[value & 15];
}

void append_octal_escape(std::string& out, char byte) {
  const auto value = static_cast<unsigned char>(byte);
  out += '\\';
  out += static_cast<char>('0' + (value >> 6));
  out += static_cast<char>('0' + ((value >> 3) & 7));
  out += static_cast<char>('0' + (value & 7));
}

bool is_plain_in_shell(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) ||
         std::string_view("_@%+=:,./-").find(c) != std::string_view::npos;
}

// Words and candidates are option, key and language names; anything longer is not worth a guess and keeps the table
// of the distance on the stack.
constexpr size_t kLongestGuess = 64;

// Insertions, deletions, substitutions and swaps of neighbours (optimal string alignment), letter case ignored.
size_t edit_distance(std::string_view left, std::string_view right) {
  using Row = std::array<size_t, kLongestGuess + 1>;
  Row before_last{};
  Row last{};
  Row current{};
  for (size_t column = 0; column <= right.size(); ++column) last[column] = column;
  for (size_t row = 1; row <= left.size(); ++row) {
    current[0] = row;
    for (size_t column = 1; column <= right.size(); ++column) {
      const char a = to_lower(left[row - 1]);
      const char b = to_lower(right[column - 1]);
      size_t best = std::min({last[column] + 1, current[column - 1] + 1, last[column - 1] + (a == b ? 0U : 1U)});
      if (row > 1 && column > 1 && a == to_lower(right[column - 2]) && to_lower(left[row - 2]) == b) {
        best = std::min(best, before_last[column - 2] + 1);
      }
      current[column] = best;
    }
    before_last = last;
    last = current;
  }
  return last[right.size()];
}

}  // namespace

Result<uint64_t> parse_integer(std::string_view text) {
  uint64_t value = 0;
  for (const char c : text) {
    if (!is_digit(c)) return bad_text(text, "is not a whole number", "write decimal digits only");
    const auto digit = static_cast<uint64_t>(c - '0');
    if (value > (std::numeric_limits<uint64_t>::max() - digit) / 10) {
      return bad_text(text, "is too large", "the largest number is 18446744073709551615");
    }
    value = value * 10 + digit;
  }
  if (text.empty()) return bad_text(text, "is not a whole number", "write decimal digits only");
  return value;
}

Result<Bytes> parse_size(std::string_view text) {
  Decimal number;
  if (!read_decimal(text, number)) return bad_text(text, "is not a size", kSizeHint);
  std::string_view unit = number.unit;
  uint64_t factor = 1;
  if (!unit.empty()) {
    switch (unit.front()) {
      case 'K': case 'k': factor = uint64_t{1} << 10; break;
      case 'M': case 'm': factor = uint64_t{1} << 20; break;
      case 'G': case 'g': factor = uint64_t{1} << 30; break;
      case 'T': case 't': factor = uint64_t{1} << 40; break;
      default: break;
    }
    if (factor > 1) {
      unit.remove_prefix(1);
      if (unit == "iB") unit.remove_prefix(2);
    }
    if (unit == "B") unit.remove_prefix(1);
    if (!unit.empty()) return bad_text(text, "is not a size", kSizeHint);
  }
  if (number.has_point && factor == 1) return bad_text(text, "is a fraction of a byte", kSizeHint);
  Bytes bytes;
  if (!scaled(number, factor, std::numeric_limits<uint64_t>::max(), bytes.value)) {
    return bad_text(text, "is too large a size", kSizeHint);
  }
  return bytes;
}

Result<Millis> parse_duration(std::string_view text) {
  // Leaves room for the same time in nanoseconds in 64 bits: nobody below has to think about overflow.
  constexpr uint64_t kLongest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / 1000000;
  Decimal number;
  if (!read_decimal(text, number)) return bad_text(text, "is not a duration", kDurationHint);
  uint64_t factor = 0;
  if (number.unit == "ms") factor = 1;
  if (number.unit.empty() || number.unit == "s") factor = 1000;
  if (number.unit == "m") factor = 60 * 1000;
  if (number.unit == "h") factor = 60 * 60 * 1000;
  if (factor == 0) return bad_text(text, "is not a duration", kDurationHint);
  uint64_t value = 0;
  if (!scaled(number, factor, kLongest, value)) return bad_text(text, "is too long a duration", kDurationHint);
  if (value == 0) return bad_text(text, "is shorter than 1 ms", kDurationHint);
  return Millis{static_cast<int64_t>(value)};
}

std::string format_size(Bytes bytes) {
  constexpr std::string_view kUnits = "TGMK";
  for (size_t index = 0; index < kUnits.size(); ++index) {
    const uint64_t unit = uint64_t{1} << (10 * (kUnits.size() - index));
    if (bytes.value != 0 && bytes.value % unit == 0) return std::to_string(bytes.value / unit) + kUnits[index];
  }
  return std::to_string(bytes.value) + (bytes.value == 1 ? " byte" : " bytes");
}

std::string format_duration(Millis millis) {
  constexpr uint64_t kSecond = 1000;
  constexpr uint64_t kMinute = 60 * kSecond;
  constexpr uint64_t kHour = 60 * kMinute;
  std::string sign = millis.value < 0 ? "-" : "";
  // Negated as unsigned: the smallest int64_t has no positive twin.
  const uint64_t value = millis.value < 0 ? 0 - static_cast<uint64_t>(millis.value) : static_cast<uint64_t>(millis.value);
  if (value < kSecond) return sign + std::to_string(value) + "ms";
  if (value % kHour == 0) return sign + std::to_string(value / kHour) + "h";
  // One minute reads better as 60s, the way people write that limit.
  if (value % kMinute == 0 && value > kMinute) return sign + std::to_string(value / kMinute) + "m";
  std::string text = sign + std::to_string(value / kSecond);
  if (value % kSecond != 0) {
    std::string fraction = std::to_string(kSecond + value % kSecond).substr(1);
    while (fraction.back() == '0') fraction.pop_back();
    text += "." + fraction;
  }
  return text + "s";
}

std::string printable(std::string_view bytes, size_t limit) {
  std::string out;
  size_t at = 0;
  while (at < bytes.size()) {
    uint32_t code_point = 0;
    const size_t size = utf8_sequence(bytes.substr(at), code_point);
    const size_t taken = size == 0 ? 1 : size;
    if (taken > limit - at) return out + "…";
    if (size == 0 || is_terminal_control(code_point)) {
      for (size_t index = 0; index < taken; ++index) append_hex_escape(out, bytes[at + index]);
    } else {
      out.append(bytes.substr(at, size));
    }
    at += taken;
  }
  return out;
}

std::string quoted(std::string_view word) { return "\"" + printable(word, 128) + "\""; }
std::string quoted_path(std::string_view path) { return "'" + printable(path) + "'"; }

std::string shell_quote(std::string_view word) {
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain_in_shell)) return std::string(word);
  // Words that a terminal would obey are written as $'…' (bash, zsh, ksh, POSIX 2024): three octal digits each, since
  // a hexadecimal escape has no fixed length in every shell.
  if (printable(word, word.size()) != word) {
    std::string out = "$'";
    for (size_t at = 0; at < word.size();) {
      uint32_t code_point = 0;
      const size_t size = utf8_sequence(word.substr(at), code_point);
      const size_t taken = size == 0 ? 1 : size;
      if (size == 0 || is_terminal_control(code_point)) {
        for (size_t index = 0; index < taken; ++index) append_octal_escape(out, word[at + index]);
      } else {
        if (code_point == '\'' || code_point == '\\') out += '\\';
        out.append(word.substr(at, size));
      }
      at += taken;
    }
    return out + "'";
  }
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

bool is_valid_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    uint32_t code_point = 0;
    const size_t size = utf8_sequence(bytes, code_point);
    if (size == 0) return false;
    bytes.remove_prefix(size);
  }
  return true;
}

std::string base64_encode(std::string_view bytes) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    uint32_t group = 0;
    for (size_t index = 0; index < 3; ++index) {
      group = group << 8 | (index < count ? static_cast<unsigned char>(bytes[at + index]) : 0U);
    }
    for (size_t index = 0; index < 4; ++index) {
      out += index <= count ? kAlphabet[group >> (18 - 6 * index) & 63] : '=';
    }
  }
  return out;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string out;
  for (size_t index = 0; index < parts.size(); ++index) {
    if (index > 0) out += separator;
    out += parts[index];
  }
  return out;
}

bool starts_with(std::string_view text, std::string_view prefix) { return text.starts_with(prefix); }

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  if (word.empty() || word.size() > kLongestGuess) return "";
  // One slip in a short word, one more for every three letters, never more than three.
  size_t best_distance = std::clamp<size_t>(word.size() / 3, 1, 3) + 1;
  std::string best;
  for (const std::string& candidate : candidates) {
    if (candidate.empty() || candidate.size() > kLongestGuess) continue;
    const size_t distance = edit_distance(word, candidate);
    // A guess that shares no letter with a short word ("a" for "b") helps nobody.
    if (distance < best_distance && distance < std::max(word.size(), candidate.size())) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string normalize_path(std::string_view path) {
  std::string out;
  while (!path.empty()) {
    const size_t end = path.find('/');
    const std::string_view part = path.substr(0, end);
    if (part == "..") {
      const size_t slash = out.rfind('/');
      out.resize(slash == std::string::npos ? 0 : slash);
    } else if (!part.empty() && part != ".") {
      out += '/';
      out += part;
    }
    if (end == std::string_view::npos) break;
    path.remove_prefix(end + 1);
  }
  return out.empty() ? "/" : out;
}

std::string base_name(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos || path == "/") return std::string(path);
  return std::string(path.substr(slash + 1));
}

std::string dir_name(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  std::string_view directory = path.substr(0, slash);
  while (!directory.empty() && directory.back() == '/') directory.remove_suffix(1);
  return directory.empty() ? "/" : std::string(directory);
}

std::string join_path(std::string_view directory, std::string_view name) {
  if (directory.empty()) return std::string(name);
  std::string out(directory);
  // An absolute name stays below the directory too: nothing a payload names may leave it lexically this way.
  while (!name.empty() && name.front() == '/') name.remove_prefix(1);
  if (name.empty()) return out;
  if (out.back() != '/') out += '/';
  out += name;
  return out;
}

bool path_is_under(std::string_view path, std::string_view directory) {
  if (directory == "/") return path.starts_with('/');
  // The byte after it first: it tells most paths apart.
  if (path.size() < directory.size() || (path.size() > directory.size() && path[directory.size()] != '/')) return false;
  return path.starts_with(directory);
}

}  // namespace sbx
