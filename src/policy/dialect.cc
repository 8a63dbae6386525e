#include "policy/dialect.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/text.h"

namespace sbx {
namespace {

struct Row {
  const char* name;
  std::array<const char*, 4> extensions;
  std::optional<Dialect> dialect;  // nothing: known, and not in this version
};
constexpr std::array<Row, 3> kDialects = {{
    {"native", {".toml", "", "", ""}, Dialect::native},
    {"bwrap", {".bwrap", ".args", "", ""}, Dialect::bwrap},
    {"nsjail", {".cfg", ".proto", ".textproto", ".json"}, Dialect::nsjail},
}};

}  // namespace

const char* dialect_name(Dialect dialect) {
  for (const Row& row : kDialects)
    if (row.dialect == dialect) return row.name;
  return "";
}

bool is_dialect_file(std::string_view name_or_file) {
  return std::any_of(kDialects.begin(), kDialects.end(), [&](const Row& row) {
    return std::any_of(row.extensions.begin(), row.extensions.end(), [&](std::string_view extension) {
      return !extension.empty() && name_or_file.size() > extension.size() && name_or_file.ends_with(extension);
    });
  });
}

Result<Dialect> choose_dialect(const std::string& name_or_file, const std::string& wanted) {
  const auto of = [](const Row& row) -> Result<Dialect> {
    if (row.dialect) return *row.dialect;
    return Error(ErrorKind::unsupported, "policies in the dialect " + std::string(row.name) + " are not read by this version")
        .with_hint("sbx policy new starts a native one");
  };
  if (!wanted.empty()) {
    std::vector<std::string> names;
    for (const Row& row : kDialects) {
      if (wanted == row.name) return of(row);
      names.emplace_back(row.name);
    }
    const std::string near = did_you_mean(wanted, names);
    return Error(ErrorKind::usage, "unknown dialect " + quoted(wanted) + (near.empty() ? "" : ": did you mean '" + near + "'?"))
        .with_origin("flag --dialect")
        .with_hint("known: " + join(names, ", "));
  }
  const std::string name = base_name(name_or_file);
  for (const Row& row : kDialects)
    for (const std::string_view extension : row.extensions)
      if (!extension.empty() && name.size() > extension.size() && name.ends_with(extension)) return of(row);
  return Dialect::native;
}

}  // namespace sbx
