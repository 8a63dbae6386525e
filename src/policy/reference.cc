#include "policy/reference.h"

#include <string_view>

#include "policy/layer.h"

namespace sbx {
namespace {

const char* type_name(KeyType type) {
  switch (type) {
    case KeyType::boolean: return "boolean";
    case KeyType::integer: return "whole number";
    case KeyType::decimal_cpus: return "number";
    case KeyType::size: return "size";
    case KeyType::duration: return "duration";
    case KeyType::text: return "text";
    case KeyType::text_list: return "list of texts";
    case KeyType::choice: return "choice";
    case KeyType::text_map: return "table of texts";
  }
  return "";
}

std::string range_text(const KeyRow& row) {
  if (row.least == 0 && row.most == 0) return "";
  const auto value = [&](uint64_t number) {
    switch (row.type) {
      case KeyType::size: return format_value(row, Bytes{number});
      case KeyType::duration: return format_value(row, Millis{static_cast<int64_t>(number)});
      default: return format_value(row, number);
    }
  };
  return value(row.least) + " to " + value(row.most);
}

}  // namespace

std::string key_reference_markdown() {
  std::string text =
      "# Policy keys\n\n"
      "Written from the key table (`src/policy/key_table.cc`); do not edit. `docs/policy.md` explains how policies\n"
      "work. Sizes: bytes, or a text with K, M, G, T (powers of 1024). Durations: seconds, or a text with ms, s, m, h.\n";
  std::string section;
  for (const KeyRow& row : key_table()) {
    const std::string_view path = row.path;
    const std::string_view here = path.substr(0, path.find('.'));
    if (here != section) {
      section = here;
      text += "\n## [" + section + "]\n\n| key | type | flag | meaning |\n|---|---|---|---|\n";
    }
    text += "| `" + std::string(path.substr(path.find('.') + 1)) + "` | ";
    if (row.type == KeyType::choice) {
      for (size_t i = 0; i < row.choices.size(); ++i) text += (i > 0 ? ", " : "") + ("`\"" + row.choices[i] + "\"`");
    } else {
      text += type_name(row.type);
    }
    if (row.may_be_none) text += " or `\"none\"`";
    text += " | ";
    if (row.flag != nullptr) text += "`" + std::string(row.flag) + " " + row.metavar + "`";
    text += " | " + std::string(row.doc);
    if (const std::string range = range_text(row); !range.empty()) text += "; " + range;
    text += ". Example: `" + std::string(path.substr(path.find('.') + 1)) + " = " + row.example + "` |\n";
  }
  return text;
}

}  // namespace sbx
