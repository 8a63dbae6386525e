// TOML text to a plain value tree. The only place that knows the TOML library; every policy, runner and manifest
// reader works on this tree.
//
// Hostile input is bounded before and while it is read: kMaxTomlBytes of text, kMaxTomlDepth of nesting (arrays,
// inline tables and dotted keys alike), so neither the parser nor the destructor of the tree can run out of stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sbx {

inline constexpr size_t kMaxTomlBytes = size_t{1} << 20;
inline constexpr unsigned kMaxTomlDepth = 32;

// One value. Only the member that `kind` names is meaningful; dates and times are refused while reading.
struct TomlValue {
  enum class Kind { boolean, integer, decimal, string, array, table };
  Kind kind = Kind::table;

  bool boolean = false;
  int64_t integer = 0;
  double decimal = 0;
  std::string string;
  // Array: the elements. Table: the entries in the order of the text, each with its `key`.
  std::vector<TomlValue> items;

  // Where the value begins, from 1. Entries of a table also have the place of their key; for anything else, and for
  // a table made by a [header], it equals the value's own.
  uint32_t line = 0;
  uint32_t column = 0;
  std::string key;
  uint32_t key_line = 0;
  uint32_t key_column = 0;

  bool is(Kind wanted) const { return kind == wanted; }
  // The entry of a table, or nullptr (also when this is no table).
  const TomlValue* find(std::string_view name) const;
};

// "boolean", "integer", "decimal number", "string", "array", "table".
const char* toml_kind_name(TomlValue::Kind kind);

// The whole document as a table. `name` stands for the text in messages. Errors: policy, "name:line:col: what".
Result<TomlValue> parse_toml(std::string_view text, const std::string& name);

// "name:line:col" of the value itself, and of its key; and an Error (policy) that starts with the former.
std::string toml_place(const std::string& name, const TomlValue& value);
std::string toml_key_place(const std::string& name, const TomlValue& value);
Error toml_error(const std::string& name, const TomlValue& value, std::string message);

}  // namespace sbx
