// nsjail's configuration files: protobuf's text format, or the same as JSON. Strict: a field that does not exist, a value
// of another type, a singular field given twice or a required one left out is an error that names line and column.
//
// Hostile input is bounded: kMaxConfigBytes of text, kMaxConfigDepth messages in each other.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "policy/nsjail/config.h"
#include "policy/nsjail/schema.h"

namespace sbx::nsjail {

inline constexpr size_t kMaxConfigBytes = size_t{1} << 20;
inline constexpr unsigned kMaxConfigDepth = 16;

// JSON when the first byte that is no blank is '{', else the text format. `name` stands for the text in messages and in
// the configuration's origins. Errors: policy, "name:line:col: what", with the nearest known name as a hint.
Result<Config> parse_config(std::string_view text, const std::string& name);
// The same from a file, which may be a pipe (/dev/fd/63): it is read once. Errors: those, and usage when it cannot be read.
Result<Config> read_config(const std::string& path);

// ---- shared by the readers ----------------------------------------------------------------------------------------

Result<Config> parse_textproto(std::string_view text, const std::string& name);
Result<Config> parse_json(std::string_view text, const std::string& name);

// A number of either sign, as text or JSON gave it.
struct Number {
  bool negative = false;
  uint64_t magnitude = 0;
};
// Into the slot of a field of an integer type or a choice. Errors: out of range, no such choice.
Status store_number(const Field& field, Number number, void* slot);
// A choice by its name. Error with a did-you-mean.
Status store_choice(const Field& field, std::string_view name, void* slot);
// "a number from 0 to 4294967295", "true or false", "one of LISTEN, ONCE …": what a field takes, for messages.
std::string expected(const Field& field);
// "unknown field 'x' in NsJailConfig".
Error unknown_field(const Schema& schema, std::string_view name, const std::string& origin);
// A message that has been read, `path` its own place ("mount[0]."): what it must have is there.
Status check_required(const Schema& schema, const void* message, const std::string& path, const std::string& origin);

}  // namespace sbx::nsjail
