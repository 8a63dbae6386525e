#include "runtime/toolchain_cache.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "base/sys.h"
#include "base/text.h"
#include "policy/resolve.h"
#include "runtime/digest.h"

namespace sbx::runtime {
namespace {

constexpr size_t kMaxEntry = 16384;
constexpr size_t kMaxEntries = 512;
constexpr std::string_view kToolchainHead = "sbx-toolchain=1";
constexpr std::string_view kLineHead = "sbx-line=1";
// The last line: an entry that was cut short has none.
constexpr std::string_view kEnd = "end=1";

std::string directory_of(const std::string& cache_directory) { return join_path(cache_directory, "toolchains"); }

// The cache directory when it is one that only we can write to.
std::optional<UniqueFd> open_cache(const std::string& cache_directory, uint32_t uid) {
  if (cache_directory.empty()) return std::nullopt;
  auto fd = sys::open(directory_of(cache_directory), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!fd.ok()) return std::nullopt;
  const auto info = sys::fstat(fd.value().get());
  if (!info.ok() || info.value().st_uid != uid || (info.value().st_mode & 077) != 0) return std::nullopt;
  return fd.take();
}

std::optional<std::string> load(const std::string& cache_directory, const std::string& name, uint32_t uid) {
  const std::optional<UniqueFd> directory = open_cache(cache_directory, uid);
  if (!directory.has_value()) return std::nullopt;
  const auto fd = sys::openat(directory->get(), name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (!fd.ok()) return std::nullopt;
  // Only we write here, and whole files: one read gets all of an entry.
  std::string text(kMaxEntry, '\0');
  const auto got = sys::read(fd.value().get(), text.data(), text.size());
  if (!got.ok() || got.value() == text.size()) return std::nullopt;
  text.resize(got.value());
  return text;
}

// Old answers are cheap to find again; the cache is emptied when it has grown out of all proportion.
void empty_when_full(int directory) {
  const Result<sys::Directory> listing = sys::list(directory);
  if (!listing.ok()) return;
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(listing.value().get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  if (names.size() < kMaxEntries) return;
  for (const std::string& name : names) (void)::unlinkat(directory, name.c_str(), 0);  // another run may do it too
}

void store(const std::string& cache_directory, const std::string& name, const std::string& text) {
  if (cache_directory.empty() || text.empty() || text.size() >= kMaxEntry) return;
  if (!make_directories(directory_of(cache_directory), 0700).ok()) return;
  const std::optional<UniqueFd> directory = open_cache(cache_directory, ::geteuid());
  if (!directory.has_value()) return;
  empty_when_full(directory->get());
  // A full or read-only disk costs the next run a probe, nothing else.
  (void)write_file_atomically(join_path(directory_of(cache_directory), name), text, 0600);
}

std::optional<FileIdentity> parse_identity(std::string_view text) {
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() != 4) return std::nullopt;
  uint64_t numbers[4];
  // The last is a time, which may lie before 1970.
  const bool before = starts_with(parts[3], "-");
  for (size_t i = 0; i < 4; ++i) {
    const auto number = parse_integer(std::string_view(parts[i]).substr(i == 3 && before ? 1 : 0));
    if (!number.ok()) return std::nullopt;
    numbers[i] = number.value();
  }
  if (numbers[3] > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  const auto time = static_cast<int64_t>(numbers[3]);
  return FileIdentity{numbers[0], numbers[1], numbers[2], before ? -time : time};
}

bool is_absolute(std::string_view path) { return !path.empty() && path.front() == '/' && normalize_path(path) == path; }

}  // namespace

CacheKey::CacheKey(std::string_view kind) { add("kind", kind); }

void CacheKey::add(std::string_view name, std::string_view value) {
  text_ += std::string(name) + "=" + std::to_string(value.size()) + ":";
  text_ += value;
  text_ += '\n';
}

std::string CacheKey::digest() const { return sha256_hex(text_); }

std::string format_cache_entry(const CacheEntry& entry) {
  const Toolchain& toolchain = entry.toolchain;
  std::vector<std::string> lines = {std::string(kToolchainHead), "executable=" + toolchain.executable,
                                    "version=" + toolchain.version, "origin=" + toolchain.origin};
  for (const BindOp& mount : toolchain.mounts) {
    lines.push_back("mount=" + mount.source);
    lines.push_back("target=" + mount.target);
    if (mount.idmap) lines.emplace_back("idmap=1");
  }
  for (const std::string& directory : toolchain.path_prepend) lines.push_back("path=" + directory);
  for (const auto& [name, value] : toolchain.environment) lines.push_back("env=" + name + "=" + value);
  for (const Witness& witness : entry.witnesses) {
    lines.push_back("witness=" + witness.path);
    lines.push_back("identity=" + identity_text(witness.identity));
  }
  lines.emplace_back(kEnd);
  if (!std::all_of(lines.begin(), lines.end(), is_plain_text)) return "";
  return join(lines, "\n") + "\n";
}

std::optional<CacheEntry> parse_cache_entry(std::string_view text) {
  if (text.size() > kMaxEntry || text.empty() || text.back() != '\n' || !is_valid_utf8(text)) return std::nullopt;
  const std::vector<std::string> lines = split(text.substr(0, text.size() - 1), '\n');
  if (lines.size() < 5 || lines.front() != kToolchainHead || lines.back() != kEnd) return std::nullopt;
  CacheEntry entry;
  Toolchain& toolchain = entry.toolchain;
  bool want_target = false;
  bool want_identity = false;
  for (size_t i = 1; i + 1 < lines.size(); ++i) {
    const size_t equals = lines[i].find('=');
    if (equals == std::string::npos || !is_plain_text(lines[i])) return std::nullopt;
    const std::string key = lines[i].substr(0, equals);
    const std::string value = lines[i].substr(equals + 1);
    if (want_target != (key == "target") || want_identity != (key == "identity")) return std::nullopt;
    if (key == "executable" && is_absolute(value)) {
      toolchain.executable = value;
    } else if (key == "version") {
      toolchain.version = value;
    } else if (key == "origin") {
      toolchain.origin = value;
    } else if (key == "mount" && is_absolute(value)) {
      toolchain.mounts.emplace_back();
      toolchain.mounts.back().source = value;
      want_target = true;
    } else if (key == "target" && is_absolute(value)) {
      toolchain.mounts.back().target = value;
      want_target = false;
    } else if (key == "idmap" && value == "1" && !toolchain.mounts.empty()) {
      toolchain.mounts.back().idmap = true;
    } else if (key == "path" && is_absolute(value)) {
      toolchain.path_prepend.push_back(value);
    } else if (key == "env" && value.find('=') != std::string::npos && value.front() != '=') {
      toolchain.environment[value.substr(0, value.find('='))] = value.substr(value.find('=') + 1);
    } else if (key == "witness" && is_absolute(value)) {
      entry.witnesses.emplace_back().path = value;
      want_identity = true;
    } else if (key == "identity") {
      const auto identity = parse_identity(value);
      if (!identity.has_value()) return std::nullopt;
      entry.witnesses.back().identity = *identity;
      want_identity = false;
    } else {
      return std::nullopt;
    }
  }
  if (want_target || want_identity || toolchain.executable.empty() || entry.witnesses.empty()) return std::nullopt;
  return entry;
}

std::optional<Toolchain> load_cached_toolchain(const std::string& cache_directory, const std::string& digest,
                                               const HostFacts& facts) {
  const std::optional<std::string> text = load(cache_directory, digest, facts.uid);
  if (!text.has_value()) return std::nullopt;
  std::optional<CacheEntry> entry = parse_cache_entry(*text);
  if (!entry.has_value()) return std::nullopt;
  for (const Witness& witness : entry->witnesses) {
    const auto info = sys::stat(witness.path);
    if (!info.ok() || identity_of(info.value()) != witness.identity) return std::nullopt;
  }
  for (BindOp& mount : entry->toolchain.mounts) {
    if (!check_mount_source(mount.source, 0, facts, "toolchain").ok()) return std::nullopt;
    mount.read_only = true;
    mount.origin = entry->toolchain.origin;
  }
  return std::move(entry->toolchain);
}

void store_cached_toolchain(const std::string& cache_directory, const std::string& digest, const CacheEntry& entry) {
  store(cache_directory, digest, format_cache_entry(entry));
}

std::optional<std::string> load_cached_line(const std::string& cache_directory, const std::string& digest) {
  const std::optional<std::string> text = load(cache_directory, digest, ::geteuid());
  if (!text.has_value() || text->empty() || text->back() != '\n' || !is_valid_utf8(*text)) return std::nullopt;
  const std::vector<std::string> lines = split(std::string_view(*text).substr(0, text->size() - 1), '\n');
  if (lines.size() != 3 || lines[0] != kLineHead || lines[2] != kEnd || !is_plain_text(lines[1])) return std::nullopt;
  return lines[1];
}

void store_cached_line(const std::string& cache_directory, const std::string& digest, const std::string& line) {
  if (!is_plain_text(line)) return;
  store(cache_directory, digest, std::string(kLineHead) + "\n" + line + "\n" + std::string(kEnd) + "\n");
}

}  // namespace sbx::runtime
