// Small text tools: strict numbers, sizes and durations, quoting, did-you-mean.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace sbx {

// Decimal digits only (no sign, space or prefix), fits 64 bits.
Result<uint64_t> parse_integer(std::string_view text);
// "64M", "1.5G", "4096": K, M, G, T are powers of 1024 (an optional trailing "B" or "iB" is accepted), a bare
// number is bytes; fractions are fine as long as a unit follows. Rounds down to whole bytes.
Result<Bytes> parse_size(std::string_view text);
// "250ms", "1.5s", "2m", "1h", "10": a bare number is seconds. Must be at least 1 ms.
Result<Millis> parse_duration(std::string_view text);

std::string format_size(Bytes bytes);         // "384M", "1G", "1536K", "100 bytes"
std::string format_duration(Millis millis);   // "60s", "250ms", "1.5s", "10m"

// Bytes made safe to print at a terminal on one line: control characters, invalid UTF-8 and DEL become \xHH
// escapes, at most `limit` bytes of input are shown and "…" marks a cut.
std::string printable(std::string_view bytes, size_t limit = 256);
// For messages: a word of a document in double quotes, a path in single ones; printable, the word cut at 128 bytes.
std::string quoted(std::string_view word);
std::string quoted_path(std::string_view path);
// Shell quoting for a word of a command line that is printed for people.
std::string shell_quote(std::string_view word);

bool is_valid_utf8(std::string_view bytes);
std::string base64_encode(std::string_view bytes);

std::vector<std::string> split(std::string_view text, char separator);
std::string join(std::span<const std::string> parts, std::string_view separator);
bool starts_with(std::string_view text, std::string_view prefix);
std::string_view trim(std::string_view text);

// The closest of `candidates` by edit distance, or "" when none is near enough to suggest.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

// Lexical path tools. Inputs are absolute for normalize_path: collapses "//", "." and "..", never looks at the disk.
std::string normalize_path(std::string_view path);
std::string base_name(std::string_view path);
std::string dir_name(std::string_view path);  // "/" for "/x", "." for "x"
std::string join_path(std::string_view directory, std::string_view name);
// True when `path` is `directory` or lies below it (both normalized).
bool path_is_under(std::string_view path, std::string_view directory);

}  // namespace sbx
