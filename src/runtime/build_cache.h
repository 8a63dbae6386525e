// What a compile step made, remembered: the same source, flags, compiler, headers, libraries and policy give the stored
// files without compiling again.
//
// Theory of operation. The key of an entry is a digest over everything that the compile step could see: the resolved
// spec, the contents of the source and of the files placed beside it, and the state (name, device, inode, size, mtime,
// ctime) of every file under the paths that the language's data file names in compile.watch and under whatever the
// caller mounted. A changed, added or removed header is thus another key; nothing has to be invalidated. That costs a
// look at each of those files (some 25,000 for C++, 30 ms), a tenth of the cheapest compile.
//
// Files that changed within the last two seconds, or while the compiler ran, are not vouched for: nothing is stored.
//
// An entry is a directory CACHE/builds/KEY (0700, ours, else there is no cache), made aside and renamed: an index and
// the product files 0, 1, …. Payloads never see it: products are copied into the sandbox. A hostile source can do no
// more than choose what its own entry holds, since its bytes are in the key. Bounded by kMostBytes and kMostEntries,
// the least recently used go first.
//
// Nothing here is an error for the caller: without an entry the compiler runs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"

namespace sbx::runtime {

// A file that a compile step made, for the run.
struct Product {
  std::string name;  // relative to the build directory
  UniqueFd content;  // open for reading
  bool executable = false;
};

// The state of all files that `patterns` name: glob(7) patterns of absolute host paths; a directory stands for
// everything below it, other mounts included, links not followed out of it (but a link's target is looked at).
// nullopt: more than `most` files, or something could not be read.
struct WatchState {
  std::string digest;        // 64 hexadecimal digits
  int64_t newest_nanos = 0;  // the latest mtime or ctime, CLOCK_REALTIME
  bool operator==(const WatchState&) const = default;
};
std::optional<WatchState> look_at(std::span<const std::string> patterns, size_t most = 150000);

struct CachedBuild {
  std::vector<Product> products;
  std::string out;  // what the compiler said on its standard output
  std::string err;
};

// `key`: 64 hexadecimal digits. Marks the entry as used now.
std::optional<CachedBuild> load_build(const std::string& cache_directory, const std::string& key);

// False: not stored (the disk is full, the build too large, the directory not ours). Reads the products with pread.
bool store_build(const std::string& cache_directory, const std::string& key, std::span<const Product> products,
                 const std::string& out, const std::string& err);

}  // namespace sbx::runtime
