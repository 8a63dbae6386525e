// Files between the host and a living sandbox: `sbx cp`, and the archives of save and restore. The sandbox's side is
// hostile and may change while it is copied: links are never followed there and never made on the host, nothing but regular files is
// read, set-id bits do not pass, holes stay holes, and everything is bounded.
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
  uint64_t max_bytes = uint64_t{4} << 30;  // that are stored: holes cost nothing
  size_t max_entries = 1000000;
  size_t max_depth = 100;
  int stop_fd = -1;  // borrowed; readable when the copy shall end (an error)
};

struct CopyReport {
  uint64_t files = 0, bytes = 0;
  std::vector<std::string> skipped;  // sentences; the first 20
  uint64_t skipped_count = 0;
};

// A file or a tree. Like cp -r: into `to` where that is a directory, else under that name. What stands there is replaced,
// directories are joined. `from` inside is absolute, or relative to `directory`. Errors: usage for a missing source or target, and
// for a source that cannot be copied; what cannot be copied in a tree is left out and reported.
Result<CopyReport> copy_out(const Inside& inside, const std::string& from, const std::string& to, const CopyBounds& bounds);
// Links of the host's tree are made as links in the sandbox, where they can lead nowhere else; `from` itself is followed.
Result<CopyReport> copy_in(const std::string& from, const Inside& inside, const std::string& to, const CopyBounds& bounds);

// Directories and regular files below `directory` as a tar archive in GNU tar's format (long names, holes, large numbers).
Result<CopyReport> write_archive(const Inside& inside, const std::string& directory, int to_fd, const CopyBounds& bounds);
// Of such an archive, below `directory`: all of it, or nothing. It is unpacked beside what is there, and moved when it was whole.
// Errors: usage for what is no whole archive or names a place outside.
Result<CopyReport> read_archive(int from_fd, const Inside& inside, const std::string& directory, const CopyBounds& bounds);

}  // namespace sbx::session
