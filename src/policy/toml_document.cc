#include "policy/toml_document.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

// The parser reports errors as values, prints nothing, and is told our depth limit.
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_MAX_NESTED_VALUES 32
// Some of its assertions are no invariants: "[<" as a whole document violates one (version 3.0.1, parse_key()). With NDEBUG
// it would go on from there as if they held, else abort: neither is for text that a stranger wrote. The exception is
// caught in this file.
struct TomlParserFault {};
[[noreturn]] static void toml_parser_fault() { throw TomlParserFault(); }
#define TOML_ASSERT(condition) ((condition) ? static_cast<void>(0) : toml_parser_fault())
#include <toml++/toml.h>

namespace sbx {
namespace {

static_assert(TOML_MAX_NESTED_VALUES == kMaxTomlDepth);

Error error_at(const std::string& name, uint32_t line, uint32_t column, std::string message) {
  return Error(ErrorKind::policy, std::move(message))
      .with_origin(name + ":" + std::to_string(line) + ":" + std::to_string(column));
}

// Looks for a key with too many dots. The library bounds nested values but not dotted keys and headers, and a text
// of a megabyte of "a.a.a." makes a tree that its recursive destructor cannot take down. Dots outside strings and
// comments stand only in keys, numbers and dates, so counting those of one line between separators is enough; a text
// that confuses this scan about its strings is refused by the parser or has as many dots in its strings.
Status check_dots(std::string_view text, const std::string& name) {
  uint32_t line = 1;
  size_t line_start = 0;
  unsigned dots = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      ++line;
      line_start = i + 1;
      dots = 0;
    } else if (c == '#') {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    } else if (c == '"' || c == '\'') {
      const bool is_long = i + 2 < text.size() && text[i + 1] == c && text[i + 2] == c;
      const std::string_view end = is_long ? text.substr(i, 3) : text.substr(i, 1);
      i += end.size();
      while (i < text.size() && text.substr(i, end.size()) != end) {
        if (c == '"' && text[i] == '\\' && i + 1 < text.size()) ++i;
        if (text[i] == '\n') {
          if (!is_long) break;  // not closed: the parser says so
          ++line;
          line_start = i + 1;
        }
        ++i;
      }
      if (i < text.size() && text[i] == '\n') {
        --i;  // an unclosed string: let the loop see the line's end
      } else {
        i += end.size() - 1;
      }
    } else if (c == '=' || c == ',' || c == '{' || c == '[') {
      dots = 0;
    } else if (c == '.' && ++dots >= kMaxTomlDepth) {
      return error_at(name, line, static_cast<uint32_t>(i - line_start + 1),
                      "a key of more than " + std::to_string(kMaxTomlDepth) + " parts");
    }
  }
  return {};
}

Result<TomlValue> convert(const toml::node& node, const std::string& name, unsigned depth) {
  TomlValue value;
  value.line = node.source().begin.line;
  value.column = node.source().begin.column;
  value.key_line = value.line;
  value.key_column = value.column;
  // Headers and dotted keys can each be as deep as a value, so a legal text stays below three times the limit.
  if (depth > 3 * kMaxTomlDepth) return error_at(name, value.line, value.column, "values are nested too deeply");
  switch (node.type()) {
    case toml::node_type::table: {
      value.kind = TomlValue::Kind::table;
      for (const auto& [key, child] : *node.as_table()) {
        TomlValue item = SBX_TRY(convert(child, name, depth + 1));
        item.key = std::string(key.str());
        if (key.source().begin.line != 0) {
          item.key_line = key.source().begin.line;
          item.key_column = key.source().begin.column;
        }
        value.items.push_back(std::move(item));
      }
      // The library sorts by name; readers want the order of the text.
      std::stable_sort(value.items.begin(), value.items.end(), [](const TomlValue& a, const TomlValue& b) {
        return std::pair(a.key_line, a.key_column) < std::pair(b.key_line, b.key_column);
      });
      return value;
    }
    case toml::node_type::array: {
      value.kind = TomlValue::Kind::array;
      for (const toml::node& child : *node.as_array())
        value.items.push_back(SBX_TRY(convert(child, name, depth + 1)));
      return value;
    }
    case toml::node_type::string:
      value.kind = TomlValue::Kind::string;
      value.string = node.as_string()->get();
      return value;
    case toml::node_type::integer:
      value.kind = TomlValue::Kind::integer;
      value.integer = node.as_integer()->get();
      return value;
    case toml::node_type::floating_point:
      value.kind = TomlValue::Kind::decimal;
      value.decimal = node.as_floating_point()->get();
      return value;
    case toml::node_type::boolean:
      value.kind = TomlValue::Kind::boolean;
      value.boolean = node.as_boolean()->get();
      return value;
    case toml::node_type::date:
    case toml::node_type::time:
    case toml::node_type::date_time:
      return error_at(name, value.line, value.column, "dates and times have no use here");
    case toml::node_type::none: break;
  }
  return Error(ErrorKind::internal, "a TOML value without a type in \"" + name + "\"");
}

bool has_fault(std::string_view text) {
  try {
    (void)toml::parse(text);
  } catch (const TomlParserFault&) {
    return true;
  }
  return false;
}

// The parser goes from front to back, so the first line with which the text has a fault is the one at fault.
uint32_t faulty_line(std::string_view text) {
  std::vector<size_t> ends;  // of each line, behind its newline
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n' || i + 1 == text.size()) ends.push_back(i + 1);
  }
  size_t low = 0, high = ends.empty() ? 0 : ends.size() - 1;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (has_fault(text.substr(0, ends[middle]))) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return static_cast<uint32_t>(low + 1);
}

}  // namespace

const TomlValue* TomlValue::find(std::string_view wanted) const {
  if (kind != Kind::table) return nullptr;
  for (const TomlValue& item : items)
    if (item.key == wanted) return &item;
  return nullptr;
}

const char* toml_kind_name(TomlValue::Kind kind) {
  switch (kind) {
    case TomlValue::Kind::boolean: return "boolean";
    case TomlValue::Kind::integer: return "integer";
    case TomlValue::Kind::decimal: return "decimal number";
    case TomlValue::Kind::string: return "string";
    case TomlValue::Kind::array: return "array";
    case TomlValue::Kind::table: return "table";
  }
  return "value";
}

Result<TomlValue> parse_toml(std::string_view text, const std::string& name) {
  if (text.size() > kMaxTomlBytes)
    return error_at(name, 1, 1, "the text is larger than " + std::to_string(kMaxTomlBytes) + " bytes");
  SBX_TRY(check_dots(text, name));
  toml::parse_result parsed;
  try {
    parsed = toml::parse(text, std::string_view(name));
  } catch (const TomlParserFault&) {
    return error_at(name, faulty_line(text), 1, "this line is not TOML");
  }
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return error_at(name, error.source().begin.line, error.source().begin.column, std::string(error.description()));
  }
  return convert(parsed.table(), name, 0);
}

std::string toml_place(const std::string& name, const TomlValue& value) {
  return name + ":" + std::to_string(value.line) + ":" + std::to_string(value.column);
}

std::string toml_key_place(const std::string& name, const TomlValue& value) {
  return name + ":" + std::to_string(value.key_line) + ":" + std::to_string(value.key_column);
}

Error toml_error(const std::string& name, const TomlValue& value, std::string message) {
  return error_at(name, value.line, value.column, std::move(message));
}

}  // namespace sbx
