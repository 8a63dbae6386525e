#include "policy/nsjail/reference.h"

#include <algorithm>

#include "base/text.h"
#include "policy/nsjail/flags.h"
#include "policy/nsjail/schema.h"

namespace sbx::nsjail {
namespace {

std::string cell(std::string text) {
  for (size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, "\\");
  return text;
}

const char* support_text(Support support) {
  switch (support) {
    case Support::works:
    case Support::comment: return "";
    case Support::refused: return "**Refused.** ";
    case Support::cgroup_v1: return "**Refused beside a limit that is to be held by cgroup v1.** ";
  }
  return "";
}

std::string flags_of(const std::string& field) {
  std::string text;
  for (const Flag& flag : flags()) {
    if (flag.field != field) continue;
    text += std::string(text.empty() ? "`" : ", `") + (flag.letter == '\0' ? "" : std::string("-") + flag.letter + " ") + "--" + flag.name + "`";
  }
  return text;
}

void table(const Schema& schema, const std::string& prefix, std::string& text) {
  text += "| Field | Type | Default | Flag | |\n|---|---|---|---|---|\n";
  for (const Field& field : schema.fields) {
    const std::string standard = default_text(field, schema);
    const std::string flag = prefix.empty() ? flags_of(field.name) : flags_of(prefix + field.name);
    text += std::string("| `") + field.name + "` | " + (field.label == Label::repeated ? "repeated " : field.label == Label::required ? "required " : "") + type_name(field) +
            " | " + (standard.empty() ? "" : "`" + cell(standard) + "`") + " | " + flag + " | " + support_text(field.support) + cell(field.doc) + " |\n";
  }
}

}  // namespace

std::string field_reference_markdown() {
  std::string text =
      "# Fields and flags of nsjail\n"
      "\n"
      "Written from the tables in the program (`make reference`). [nsjail.md](nsjail.md) says how they work together.\n"
      "\n"
      "## NsJailConfig\n"
      "\n";
  table(config_schema(), "", text);
  for (const char* name : {"uidmap", "mount", "exec_bin"}) {
    const Schema& inner = *config_schema().find(name)->message;
    text += std::string("\n## ") + inner.name + "\n\n";
    table(inner, std::string(name) + ".", text);
  }
  text += "\n## Flags\n\n| Flag | Value | Field | |\n|---|---|---|---|\n";
  for (const Flag& flag : flags()) {
    const Field* field = config_schema().find(flag.field);
    text += std::string("| `--") + flag.name + "`" + (flag.letter == '\0' ? "" : std::string(" `-") + flag.letter + "`") + " | " +
            (flag.value == nullptr ? "" : cell(flag.value)) + " | " + (*flag.field == '\0' ? "" : std::string("`") + flag.field + "`") + " | " +
            cell(flag.doc != nullptr ? flag.doc : field->doc) + " |\n";
  }
  return text;
}

}  // namespace sbx::nsjail
