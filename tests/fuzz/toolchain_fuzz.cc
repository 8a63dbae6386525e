// What shims print, pyvenv.cfg and entries of the toolchain cache. Paths that are believed are absolute and normalized,
// and an entry that is read can be written and read again.
#include <string>

#include "base/text.h"
#include "fuzz.h"
#include "runtime/toolchain_cache.h"
#include "runtime/toolchain_shim.h"
#include "runtime/toolchain_venv.h"

namespace {

void check_path(const std::string& path) {
  HOLDS(!path.empty() && path.front() == '/');
  HOLDS(sbx::normalize_path(path) == path);
  HOLDS(path.find('\0') == std::string::npos && path.find('\n') == std::string::npos);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sbx::runtime;
  const std::string_view text = fuzz::text_of(data, size);
  const auto paths = parse_probe_output(text);
  if (paths.ok()) {
    HOLDS(!paths.value().empty() && paths.value().size() <= 16);
    for (const std::string& path : paths.value()) check_path(path);
  }
  const std::string home = venv_home(text);
  if (!home.empty()) check_path(home);
  const auto entry = parse_cache_entry(text);
  if (entry.has_value()) {
    check_path(entry->toolchain.executable);
    for (const auto& mount : entry->toolchain.mounts) {
      check_path(mount.source);
      check_path(mount.target);
    }
    const std::string written = format_cache_entry(*entry);
    HOLDS(!written.empty());
    const auto again = parse_cache_entry(written);
    HOLDS(again.has_value() && format_cache_entry(*again) == written);
    HOLDS(again->witnesses == entry->witnesses);
  }
  return 0;
}
