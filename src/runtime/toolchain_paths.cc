#include "runtime/toolchain_paths.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/sys.h"
#include "base/text.h"
#include "policy/resolve.h"

namespace sbx::runtime {
namespace {

constexpr std::array<std::string_view, 7> kSystemDirectories = {"/usr",   "/bin",   "/sbin",  "/lib",
                                                                "/lib32", "/lib64", "/libx32"};

// Directories that hold many things besides a toolchain. Anything directly below "/" that is not listed (/conda,
// /venv) was made for its purpose.
constexpr std::array<std::string_view, 19> kSharedDirectories = {
    "/",     "/boot", "/dev", "/etc", "/home", "/media", "/mnt",      "/opt",     "/proc",     "/root",
    "/run",  "/srv",  "/sys", "/tmp", "/var",  "/data",  "/var/tmp", "/var/lib", "/run/user"};

// The same below a home directory. Their bin directories may be shown, they themselves not.
constexpr std::array<std::string_view, 14> kSharedInHome = {
    ".local", ".local/share", ".config",   ".cache",  ".cargo",  ".npm",     "Desktop",
    "Documents", "Downloads", "Pictures", "Public", "projects", "src", "work"};

// Package managers whose programs use libraries from all over the store: the store is the unit that works.
constexpr std::array<std::string_view, 2> kStores = {"/nix/store", "/gnu/store"};
constexpr std::string_view kCellar = "/Cellar/";

std::vector<std::string> homes_of(const HostFacts& facts) {
  std::vector<std::string> homes = facts.other_homes;
  if (!facts.home.empty()) homes.push_back(facts.home);
  // passwd gives daemons homes such as "/", "/bin" and "/nonexistent", which are nobody's.
  std::erase_if(homes, [](const std::string& home) { return home.size() < 2 || is_system_path(home); });
  return homes;
}

bool is_directly_in_home(const std::string& path, const HostFacts& facts) {
  const std::string parent = dir_name(path);
  const std::vector<std::string> homes = homes_of(facts);
  return std::find(homes.begin(), homes.end(), parent) != homes.end();
}

void add_once(std::vector<std::string>& list, const std::string& item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

bool is_directory(const std::string& path) {
  const auto info = sys::stat(path);
  return info.ok() && S_ISDIR(info.value().st_mode);
}

// A mount of a host directory at `target`, or why not.
struct DirectoryMount {
  std::optional<BindOp> mount;
  std::string refusal;
};

DirectoryMount directory_mount(const std::string& target, const HostFacts& facts, const std::string& origin) {
  const auto source = sys::realpath(target);
  if (!source.ok()) return {std::nullopt, source.error().text()};
  const auto info = sys::stat(source.value());
  if (!info.ok()) return {std::nullopt, info.error().text()};
  if (!S_ISDIR(info.value().st_mode)) return {std::nullopt, "'" + source.value() + "' is not a directory"};
  std::string refusal = refused_prefix(source.value(), info.value(), facts);
  if (!refusal.empty()) return {std::nullopt, std::move(refusal)};
  BindOp mount;
  mount.source = source.value();
  mount.target = target;
  mount.read_only = true;
  mount.no_links = true;
  // A root caller's private toolchain (umask 077) is closed to the uid that the payload runs as.
  mount.idmap = facts.root_identity && (info.value().st_mode & 05) != 05;
  mount.origin = origin;
  return {std::move(mount), ""};
}

// The directory that has to be shown for a binary in a directory that is not called "bin": zig and others lie beside
// their "lib". "" when the file stands alone.
std::string flat_prefix(const std::string& directory) {
  for (const char* name : {"lib", "lib64", "share"}) {
    if (is_directory(join_path(directory, name))) return directory;
  }
  return "";
}

std::string store_of(const std::string& binary) {
  for (std::string_view store : kStores) {
    if (path_is_under(binary, store)) return std::string(store);
  }
  const size_t cellar = binary.find(kCellar);
  return cellar == std::string::npos || cellar == 0 ? "" : binary.substr(0, cellar);
}

}  // namespace

FileIdentity identity_of(const struct stat& info) {
  return FileIdentity{info.st_dev, info.st_ino, static_cast<uint64_t>(info.st_size),
                      int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

std::string identity_text(const FileIdentity& identity) {
  return std::to_string(identity.device) + ":" + std::to_string(identity.inode) + ":" + std::to_string(identity.size) +
         ":" + std::to_string(identity.mtime_ns);
}

bool is_system_path(std::string_view path) {
  return std::any_of(kSystemDirectories.begin(), kSystemDirectories.end(),
                     [&](std::string_view directory) { return path_is_under(path, directory); });
}

bool is_plain_text(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

Result<FileKind> file_kind(const std::string& path) {
  const UniqueFd fd = SBX_TRY(sys::open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK));
  char head[4];
  const size_t got = SBX_TRY_CTX(sys::read(fd.get(), head, sizeof head), "'" + path + "'");
  const std::string_view start(head, got);
  if (start == std::string_view("\x7f"
                                "ELF",
                                4)) {
    return FileKind::elf;
  }
  return start.substr(0, 2) == "#!" ? FileKind::script : FileKind::other;
}

std::vector<std::string> path_directories(std::string_view path) {
  std::vector<std::string> directories;
  for (const std::string& entry : split(path, ':')) {
    if (entry.empty() || entry.front() != '/') continue;
    std::string directory = normalize_path(entry);
    if (std::find(directories.begin(), directories.end(), directory) == directories.end()) {
      directories.push_back(std::move(directory));
    }
  }
  return directories;
}

CommandSearch search_command(const std::vector<std::string>& commands, const std::vector<std::string>& directories) {
  CommandSearch search;
  for (const std::string& command : commands) {
    for (const std::string& directory : directories) {
      std::string path = join_path(directory, command);
      struct stat info {};
      // Bare calls: a miss is the normal case here, and no Error has to be built for it.
      if (::stat(path.c_str(), &info) != 0) {
        if (errno == EACCES) add_once(search.unreadable, directory);
        continue;
      }
      if (!S_ISREG(info.st_mode) || (info.st_mode & 0111) == 0) continue;
      if (::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) != 0) {
        add_once(search.unreadable, path);
        continue;
      }
      search.found = FoundCommand{command, std::move(path), info};
      return search;
    }
  }
  return search;
}

std::string refused_prefix(const std::string& source, const struct stat& info, const HostFacts& facts) {
  const std::string quoted = "'" + source + "'";
  if (std::find(kSharedDirectories.begin(), kSharedDirectories.end(), source) != kSharedDirectories.end()) {
    return quoted + " holds more than a toolchain";
  }
  for (const std::string& home : homes_of(facts)) {
    if (path_is_under(home, source)) return quoted + " is or holds a home directory";
    if (!path_is_under(source, home)) continue;
    for (std::string_view name : kSharedInHome) {
      if (source == join_path(home, name)) return quoted + " holds more than a toolchain";
    }
  }
  if ((info.st_mode & S_ISVTX) != 0 && (info.st_mode & S_IWOTH) != 0) {
    return quoted + " is a directory that everybody may write";
  }
  const Status sensitive = check_mount_source(source, info.st_mode, facts, "toolchain");
  return sensitive.ok() ? "" : sensitive.error().text();
}

Result<std::vector<BindOp>> prefix_mounts(const std::string& binary, const HostFacts& facts,
                                          const std::string& origin) {
  std::vector<BindOp> mounts;
  if (is_system_path(binary)) return mounts;

  const std::string directory = dir_name(binary);
  const bool in_bin = base_name(directory) == "bin";
  const std::string store = store_of(binary);
  const std::string prefix = !store.empty() ? store : in_bin ? dir_name(directory) : flat_prefix(directory);
  if (!prefix.empty()) {
    DirectoryMount whole = directory_mount(prefix, facts, origin);
    if (whole.mount.has_value()) {
      mounts.push_back(std::move(*whole.mount));
      return mounts;
    }
  }
  // The prefix is not ours to show; the directories of a toolchain in it are, except straight below a home, where
  // they hold whatever a person keeps there.
  if (in_bin && !is_directly_in_home(directory, facts)) {
    DirectoryMount bin = directory_mount(directory, facts, origin);
    if (bin.mount.has_value()) {
      mounts.push_back(std::move(*bin.mount));
      for (const char* name : {"lib", "lib64", "libexec"}) {
        const std::string sibling = join_path(prefix, name);
        if (!is_directory(sibling)) continue;
        DirectoryMount library = directory_mount(sibling, facts, origin);
        if (library.mount.has_value()) mounts.push_back(std::move(*library.mount));
      }
      return mounts;
    }
  }

  BindOp file;
  file.source = SBX_TRY(sys::realpath(binary));
  const struct stat info = SBX_TRY(sys::stat(file.source));
  const Status allowed = check_mount_source(file.source, info.st_mode, facts, "toolchain");
  if (!allowed.ok()) {
    const std::string why = allowed.error().text();
    return Error(ErrorKind::not_found, "'" + binary + "' lies in a place that is never shown: " + why)
        .with_hint("install it elsewhere, or name another: --toolchain PATH");
  }
  file.target = binary;
  file.read_only = true;
  file.no_links = true;
  file.idmap = facts.root_identity && (info.st_mode & 05) != 05;
  file.origin = origin;
  mounts.push_back(std::move(file));
  return mounts;
}

void add_mount(std::vector<BindOp>& mounts, BindOp mount) {
  for (const BindOp& earlier : mounts) {
    if (!path_is_under(mount.target, earlier.target)) continue;
    // Already seen through the earlier mount when the rest of both paths is the same.
    const std::string rest = mount.target.substr(earlier.target.size());
    if (earlier.source + rest == mount.source) return;
  }
  mounts.push_back(std::move(mount));
}

void add_mounts(std::vector<BindOp>& mounts, std::vector<BindOp> more) {
  for (BindOp& mount : more) add_mount(mounts, std::move(mount));
}

Result<std::vector<std::string>> link_chain(const std::string& path) {
  std::vector<std::string> chain = {path};
  for (int hop = 0; hop < 16; ++hop) {
    const auto text = sys::readlink(chain.back());
    if (!text.ok()) {
      if (text.error().errnum() == EINVAL) return chain;  // not a link: the end
      return text.error();
    }
    if (!text.value().empty() && text.value().front() == '/') {
      chain.push_back(normalize_path(text.value()));
    } else {
      // ".." is taken from where the directory really is.
      const std::string base = SBX_TRY(sys::realpath(dir_name(chain.back())));
      const std::string joined = join_path(base, text.value());
      chain.push_back(normalize_path(joined));
    }
  }
  return Error::from_errno(ELOOP, "follow '" + path + "'");
}

}  // namespace sbx::runtime
