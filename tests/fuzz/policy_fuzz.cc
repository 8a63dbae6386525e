// TOML text to the value tree and to a policy: errors name the text, places lie inside it, what was read can be printed.
#include <algorithm>
#include <string>

#include "fuzz.h"
#include "policy/layer.h"
#include "policy/loader.h"
#include "policy/toml_document.h"

namespace {

void check_tree(const sbx::TomlValue& value, unsigned depth, uint32_t lines) {
  HOLDS(depth <= 3 * sbx::kMaxTomlDepth + 1);  // a header of that many parts, each an array of tables, and values in it
  HOLDS(value.line <= lines && value.key_line <= lines);
  for (const sbx::TomlValue& item : value.items) check_tree(item, depth + 1, lines);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const sbx::Result<sbx::TomlValue> tree = sbx::parse_toml(text, "fuzz.toml");
  if (tree.ok()) {
    check_tree(tree.value(), 0, static_cast<uint32_t>(std::count(text.begin(), text.end(), '\n')) + 1);
  } else {
    HOLDS(tree.error().kind() == sbx::ErrorKind::policy);
  }
  const sbx::Result<sbx::PolicyLayer> layer = sbx::parse_native_toml(text, "fuzz.toml");
  HOLDS(tree.ok() || !layer.ok());
  if (!layer.ok()) {
    HOLDS(!layer.error().text().empty());
    return 0;
  }
  for (const auto& [path, value] : layer.value().values) {
    const sbx::KeyRow* row = sbx::find_key(path);
    HOLDS(row != nullptr);
    HOLDS(sbx::check_value(*row, value.value).ok());
    (void)sbx::format_value(*row, value.value);
  }
  return 0;
}
