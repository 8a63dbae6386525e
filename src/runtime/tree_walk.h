// Walking a directory tree that a hostile program wrote, or may still be changing, without ever leaving it.
//
// Every entry is looked at relative to its directory's descriptor and never through a link: fstatat(AT_SYMLINK_NOFOLLOW)
// first, then openat2 with RESOLVE_BENEATH|NO_SYMLINKS|NO_MAGICLINKS|NO_XDEV (Linux 5.6) of one path component. Only
// directories are opened, so a FIFO or device cannot block or be touched. The stack is explicit and holds at most
// kOpenLevels descriptors, whatever the depth: deeper levels are left by "..", which is believed only when device and
// inode are those of the directory that was entered.
//
// Works on trees that have no path any more (a detached mount, the dead namespace of a sandbox): nothing but the
// descriptor is used.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace sbx::runtime {

struct WalkLimits {
  size_t max_scan = 100000;  // entries looked at, all directories together
  size_t max_depth = 32;     // an entry directly below the root has depth 1; directories of this depth are not entered
  // The tree is the sandbox's own and goes away with it: where the payload took the owner's right to read away, and we
  // are that owner (an ordinary user's sandbox), it is given back.
  bool give_back_rights = false;
};

struct WalkEntry {
  int parent_fd = -1;  // borrowed, for the call only
  const std::string& name;
  const struct stat& info;  // of the entry itself, links not followed
  const struct stat& parent;  // of its directory, when that was entered
  size_t depth = 0;
  const std::string& parent_path;  // relative to the root, "" at depth 1
  // parent_path/name. Built on demand: a hostile tree can make paths of a megabyte.
  std::string path() const { return parent_path.empty() ? name : parent_path + "/" + name; }
};

struct WalkVisitor {
  // Called for every entry, names of one directory in byte order, a directory before what is in it. For a directory:
  // false leaves it out. The answer for anything else is ignored.
  std::function<bool(const WalkEntry&)> entry;
  // Optional: called when a directory has been entered, with the names in it. The root comes first, with path "".
  std::function<void(int fd, const std::string& path, std::span<const std::string> names)> entered;
};

// What was left out, and an example of each.
struct WalkReport {
  size_t scanned = 0;
  bool scan_limit_hit = false;
  uint64_t too_deep = 0;        // directories beyond max_depth
  std::string first_too_deep;
  uint64_t unreadable = 0;      // directories that could not be opened, entries that vanished excepted
  std::string first_unreadable; // with the reason
  uint64_t other_mounts = 0;    // directories on which something else is mounted
  std::string first_other_mount;
  bool complete() const { return !scan_limit_hit && too_deep == 0 && unreadable == 0 && other_mounts == 0; }
  // One sentence for each thing that was left out, safe to print.
  std::vector<std::string> sentences(const WalkLimits& limits) const;
};

// Fails only when the root itself cannot be read. dirfd may be an O_PATH descriptor.
Result<WalkReport> walk_tree(int dirfd, const WalkLimits& limits, const WalkVisitor& visitor);

// Opens the relative path one component after the other, never through a link, never out of dirfd, never onto another
// mount. "", "." and ".." components are refused (EINVAL). O_CLOEXEC and O_NOFOLLOW are added.
Result<UniqueFd> open_beneath(int dirfd, const std::string& path, int flags);

}  // namespace sbx::runtime
