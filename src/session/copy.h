// Files between the host and a living sandbox: `sbx cp`, and the archives of save and restore. The sandbox's side is
// hostile and may change while it is copied: links are never followed there and never made on the host, nothing but regular files is
// read, set-id bits do not pass, and everything is bounded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace sbx::session {

// The root of a sandbox, and as whom to act there (ActAs).
struct Inside {
  int root = -1;  // borrowed
  uint32_t uid = 0, gid = 0;
};

struct CopyBounds {
  uint64_t max_bytes = uint64_t{16} << 30;
  size_t max_entries = 1000000;
  size_t max_depth = 100;
};

struct CopyReport {
  uint64_t files = 0, bytes = 0;
  std::vector<std::string> skipped;  // sentences; the first 20
  uint64_t skipped_count = 0;
};

// A file or a tree. Like cp -r: into `to` where that is a directory, else under that name. What stands there is replaced,
// directories are joined. `from` inside is absolute, or relative to `directory`. Errors: usage for a missing source or target.
Result<CopyReport> copy_out(const Inside& inside, const std::string& from, const std::string& to, const CopyBounds& bounds);
// Links of the host's tree are made as links in the sandbox, where they can lead nowhere else; `from` itself is followed.
Result<CopyReport> copy_in(const std::string& from, const Inside& inside, const std::string& to, const CopyBounds& bounds);

// Directories and regular files below `directory` as a tar archive (ustar, long names as GNU tar has them).
Result<CopyReport> write_archive(const Inside& inside, const std::string& directory, int to_fd, const CopyBounds& bounds);
// Of such an archive, below `directory`. Errors: usage for what is no archive or names a place outside.
Result<CopyReport> read_archive(int from_fd, const Inside& inside, const std::string& directory, const CopyBounds& bounds);

}  // namespace sbx::session
