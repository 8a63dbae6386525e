#include "policy/reference.h"

#include <string_view>

#include "base/text.h"

namespace sbx {
namespace {

std::string_view section_of(std::string_view path) { return path.substr(0, path.find('.')); }
std::string_view name_in_section(std::string_view path) { return path.substr(path.find('.') + 1); }

// A basic string of TOML 1.0, whose escapes are JSON's, too.
std::string basic_string(const std::string& text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string result = "\"";
  for (const char c : is_valid_utf8(text) ? text : printable(text, text.size())) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (byte < 0x20 || byte == 0x7F) {
      result += std::string("\\u00") + kHex[byte >> 4] + kHex[byte & 15];
    } else {
      result += c;
    }
  }
  return result + "\"";
}

}  // namespace

const char* key_type_name(KeyType type) {
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

std::string key_range(const KeyRow& row) {
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
      text += key_type_name(row.type);
    }
    if (row.may_be_none) text += " or `\"none\"`";
    text += " | ";
    if (row.flag != nullptr) text += "`" + std::string(row.flag) + " " + row.metavar + "`";
    text += " | " + std::string(row.doc);
    if (const std::string range = key_range(row); !range.empty()) text += "; " + range;
    text += ". Example: `" + std::string(path.substr(path.find('.') + 1)) + " = " + row.example + "` |\n";
  }
  return text;
}

std::string toml_value(const KeyRow& row, const KeyValue& value) {
  if (const auto* list = std::get_if<std::vector<std::string>>(&value); list != nullptr) {
    std::string text = "[";
    for (const std::string& element : *list) text += (text.size() > 1 ? ", " : "") + basic_string(element);
    return text + "]";
  }
  if (const auto* map = std::get_if<std::map<std::string, std::string>>(&value); map != nullptr) {
    std::string text = "{";
    for (const auto& [name, content] : *map) text += (text.size() > 1 ? ", " : " ") + basic_string(name) + " = " + basic_string(content);
    return text + (text.size() > 1 ? " }" : "}");
  }
  const std::string text = format_value(row, value);
  const bool bare = std::holds_alternative<bool>(value) ||
                    (std::holds_alternative<uint64_t>(value) && row.type == KeyType::integer);
  return bare ? text : basic_string(text);
}

std::string start_policy(const std::string& file, const std::map<std::string, LayerValue>& defaults) {
  std::string text =
      "# A policy of sbx. What is commented out shows the default, which holds as long as the key is not set.\n"
      "#\n"
      "#   sbx policy check " + shell_quote(file) + "      mistakes and risks\n"
      "#   sbx policy explain " + shell_quote(file) + "    what it allows, in words\n"
      "#   sbx run --policy " + shell_quote(file) + " FILE\n"
      "#\n"
      "# Sizes: bytes, or \"512M\" (K, M, G, T). Times: seconds, or \"1.5s\" (ms, s, m, h). Limits may be \"none\" where that is\n"
      "# said. Flags win over this file.\n";
  std::string section;
  const auto end_section = [&] {
    if (section == "fs") {
      text +=
          "\n# A directory of the host; mode \"rw\" lets the payload write there, type = \"overlay\" keeps its writes apart.\n"
          "#[[fs.mount]]\n#source = \"/srv/data\"\n#target = \"/data\"\n#mode = \"ro\"\n#optional = true\n";
    } else if (section == "seccomp") {
      text +=
          "\n# One answer for calls with certain arguments: allow, deny, log, kill or an errno.\n"
          "#[[seccomp.rule]]\n#calls = [\"socket\"]\n#when = [{ arg = 0, bits = 32, equals = 16 }]\n#answer = \"EACCES\"\n";
    }
  };
  for (const KeyRow& row : key_table()) {
    if (section_of(row.path) != section) {
      end_section();
      section = section_of(row.path);
      text += "\n[" + section + "]\n";
    }
    std::string about = row.doc;
    if (!row.choices.empty() && about.find(row.choices.front()) == std::string::npos) about += ": " + join(row.choices, ", ");
    if (const std::string range = key_range(row); !range.empty()) about += "; " + range;
    if (row.may_be_none) about += ", or \"none\"";
    text += "# " + about + "\n#" + std::string(name_in_section(row.path)) + " = ";
    // An empty list and a whole environment show nobody how to write one.
    const auto found = defaults.find(row.path);
    const bool by_example = found == defaults.end() || row.type == KeyType::text_list || row.type == KeyType::text_map;
    text += (by_example ? row.example : toml_value(row, found->second.value)) + "\n";
  }
  end_section();
  return text;
}

namespace {

std::string schema_of(const KeyRow& row) {
  const std::string none = R"({"const": "none"})";
  std::string range;
  const auto number = [&](uint64_t unit) {
    // Sizes and the like as numbers are in the unit of the file: bytes, seconds, processors.
    return R"({"type": "number", "minimum": )" + std::to_string(row.least / unit) + "}";
  };
  std::vector<std::string> choices;
  switch (row.type) {
    case KeyType::boolean: choices = {R"({"type": "boolean"})"}; break;
    case KeyType::integer: choices = {R"({"type": "integer", "minimum": )" + std::to_string(row.least) + "}"}; break;
    case KeyType::decimal_cpus: choices = {number(1000), R"({"type": "string", "pattern": "^[0-9]+([.][0-9]+)?$"})"}; break;
    case KeyType::size:
      choices = {R"({"type": "integer", "minimum": )" + std::to_string(row.least) + "}",
                 R"({"type": "string", "pattern": "^[0-9]+([.][0-9]+)?([KMGTkmgt](i?B)?|B)?$"})"};
      break;
    case KeyType::duration: choices = {number(1000), R"({"type": "string", "pattern": "^[0-9]+([.][0-9]+)?(ms|s|m|h)?$"})"}; break;
    case KeyType::text: choices = {R"({"type": "string"})"}; break;
    case KeyType::text_list: choices = {R"({"type": "array", "items": {"type": "string"}})"}; break;
    case KeyType::text_map: choices = {R"({"type": "object", "additionalProperties": {"type": "string"}})"}; break;
    case KeyType::choice: {
      std::string list;
      for (const std::string& choice : row.choices) list += (list.empty() ? "" : ", ") + basic_string(choice);
      choices = {"{\"enum\": [" + list + "]}"};
      break;
    }
  }
  if (row.may_be_none) choices.push_back(none);
  const std::string about = R"("description": )" + basic_string(row.doc);
  if (choices.size() == 1) return choices.front().substr(0, choices.front().size() - 1) + ", " + about + "}";
  return "{\"anyOf\": [" + join(choices, ", ") + "], " + about + "}";
}

}  // namespace

std::string policy_schema_json() {
  std::string text = R"({
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "sbx policy, version 1",
  "description": "A native policy of sbx, as a TOML document. Written from the key table (src/policy/key_table.cc); do not edit. docs/policy.md explains it.",
  "type": "object",
  "properties": {)";
  std::string section;
  const auto end_section = [&] {
    if (section.empty()) return;
    if (section == "fs") text += ",\n        \"mount\": {\"type\": \"array\", \"items\": {\"$ref\": \"#/$defs/mount\"}}";
    if (section == "seccomp") text += ",\n        \"rule\": {\"type\": \"array\", \"items\": {\"$ref\": \"#/$defs/rule\"}}";
    text += "\n      },\n      \"additionalProperties\": false\n    },";
  };
  for (const KeyRow& row : key_table()) {
    if (section_of(row.path) != section) {
      end_section();
      section = section_of(row.path);
      text += "\n    " + basic_string(section) + ": {\n      \"type\": \"object\",\n      \"properties\": {\n";
    } else {
      text += ",\n";
    }
    text += "        " + basic_string(std::string(name_in_section(row.path))) + ": " + schema_of(row);
  }
  end_section();
  text.pop_back();  // the comma
  return text + R"(
  },
  "additionalProperties": false,
  "$defs": {
    "mount": {
      "type": "object",
      "properties": {
        "type": {"enum": ["bind", "overlay", "private"]},
        "source": {"type": "string", "pattern": "^/"},
        "target": {"type": "string", "pattern": "^/"},
        "mode": {"enum": ["ro", "rw"]},
        "optional": {"type": "boolean"},
        "no_exec": {"type": "boolean"}
      },
      "additionalProperties": false
    },
    "number": {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^(0x[0-9a-fA-F]+|[0-9]+)$"}]},
    "test": {
      "type": "object",
      "properties": {
        "arg": {"enum": [0, 1, 2, 3, 4, 5]},
        "bits": {"enum": [32, 64]},
        "mask": {"$ref": "#/$defs/number"},
        "equals": {"$ref": "#/$defs/number"},
        "not_equals": {"$ref": "#/$defs/number"},
        "one_of": {"type": "array", "items": {"$ref": "#/$defs/number"}},
        "none_of": {"type": "array", "items": {"$ref": "#/$defs/number"}},
        "below": {"$ref": "#/$defs/number"},
        "at_most": {"$ref": "#/$defs/number"},
        "above": {"$ref": "#/$defs/number"},
        "at_least": {"$ref": "#/$defs/number"},
        "any_bit": {"$ref": "#/$defs/number"}
      },
      "required": ["arg"],
      "additionalProperties": false
    },
    "rule": {
      "type": "object",
      "properties": {
        "calls": {"type": "array", "items": {"type": "string"}},
        "when": {"type": "array", "items": {"$ref": "#/$defs/test"}},
        "answer": {"type": "string", "pattern": "^(allow|deny|log|kill|E[A-Z0-9]+)$"}
      },
      "required": ["calls", "answer"],
      "additionalProperties": false
    }
  }
}
)";
}

}  // namespace sbx
