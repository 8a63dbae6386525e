// The answers of shims, remembered: starting a shim costs tens of milliseconds, looking its answer up a few system
// calls. Internal to find_toolchain.
//
// An entry is a text file of key=value lines, mode 0600, in CACHE/toolchains (0700, ours, else there is no cache).
// Its name is the sha256 of everything the answer depends on, so a changed dependency is simply another name. What
// cannot be in the name (the interpreter that the answer points to) stands in the entry as a witness and is compared.
// Nothing here is an error for the caller: without a cache the answer is found again.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/host_facts.h"
#include "runtime/toolchain.h"
#include "runtime/toolchain_paths.h"

namespace sbx::runtime {

// Collects what an answer depends on. Fields cannot run into each other.
class CacheKey {
 public:
  explicit CacheKey(std::string_view kind);
  void add(std::string_view name, std::string_view value);
  std::string digest() const;  // 64 hexadecimal digits

 private:
  std::string text_;
};

struct Witness {
  std::string path;
  FileIdentity identity;  // links followed
  bool operator==(const Witness&) const = default;
};

struct CacheEntry {
  Toolchain toolchain;
  std::vector<Witness> witnesses;  // at least one
};

// An entry as text and back. format gives "" for what cannot be written down (control characters in a path); parse
// gives nothing for anything that format does not write.
std::string format_cache_entry(const CacheEntry& entry);
std::optional<CacheEntry> parse_cache_entry(std::string_view text);

// The toolchain under `digest`, when every witness is unchanged and every mount is still one that may be shown.
std::optional<Toolchain> load_cached_toolchain(const std::string& cache_directory, const std::string& digest,
                                               const HostFacts& facts);
void store_cached_toolchain(const std::string& cache_directory, const std::string& digest, const CacheEntry& entry);

// One line of text under a digest, for version lines.
std::optional<std::string> load_cached_line(const std::string& cache_directory, const std::string& digest);
void store_cached_line(const std::string& cache_directory, const std::string& digest, const std::string& line);

}  // namespace sbx::runtime
