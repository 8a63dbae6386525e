// What a run created or changed, listed and copied out. Everything below the descriptors given here was written by a
// payload and is hostile: links are never followed, every name is opened beneath its directory (openat2,
// RESOLVE_BENEATH|NO_SYMLINKS|NO_MAGICLINKS|NO_XDEV), only regular files are read (opened O_NONBLOCK|O_NOCTTY, then
// fstat-ed), and everything is bounded.
//
// Give the descriptor of the *host's* directory for a shared workspace, not one from inside the sandbox: there, every
// protected place is a mount of its own and would be left out.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"

namespace sbx::runtime {

struct ArtifactBounds {
  size_t max_entries = 1000;              // listed
  uint64_t max_bytes = uint64_t{256} << 20;  // copied and hashed, all files together
  size_t max_depth = 32;
  size_t max_scan = 100000;               // directory entries looked at
  bool private_tree = false;              // the sandbox's own: WalkLimits::give_back_rights
};

struct Artifact {
  enum class Type { file, directory, symlink, device, fifo, socket, deleted };
  std::string path;  // relative, raw bytes as the payload chose them
  Type type = Type::file;
  uint64_t size = 0;
  std::string mime;    // files: by content, "application/octet-stream" when unknown
  std::string sha256;  // files within the bounds: lower-case hex
  std::string note;    // why something is missing: "over the byte limit", "link, not followed" …
};

// State before the run of one file of a directory that outlives it (a :rw workspace), or of a file that sbx placed.
struct FileStamp {
  uint64_t device = 0, inode = 0, size = 0;
  int64_t mtime_ns = 0, ctime_ns = 0;
  bool operator==(const FileStamp&) const = default;
};
using Baseline = std::map<std::string, FileStamp>;  // relative path → stamp
FileStamp stamp_of(const struct stat& info);

struct ArtifactList {
  std::vector<Artifact> artifacts;  // sorted by path
  std::vector<std::string> dropped;  // sentences for everything beyond the bounds
};

// Stamps of all below dirfd, at most bounds.max_scan entries (more: an Error of kind resource).
Result<Baseline> take_baseline(int dirfd, const ArtifactBounds& bounds);

// Everything below dirfd that is not in `before` with an equal stamp. `exclude`: relative paths left out whatever
// their state, with all that is below them. With `overlay_upper`, character devices 0:0 are deletions; without it,
// what `before` holds and a complete walk does not find any more is a deletion (of a directory: one entry).
// Directories are listed only when they are new and empty. Fails only when dirfd itself cannot be read.
Result<ArtifactList> list_artifacts(int dirfd, const Baseline& before, const std::vector<std::string>& exclude,
                                    bool overlay_upper, const ArtifactBounds& bounds);

// The directory that artifacts are copied to, made with its parents (mode 0755) if missing. To be called BEFORE the
// run when the directory may lie in a place that the payload can write (a :rw workspace): afterwards its path may lead
// through a link that the payload made.
Result<UniqueFd> open_artifacts_destination(const std::string& destination);

// Copies the listed regular files below `destination_fd`, keeping relative paths. Modes become 0644, or 0755 where the
// owner may execute, less the caller's umask: never set-id bits. An existing destination file is replaced, never
// written through (a link there is replaced; a directory there, or a link in place of a directory, is an error). A file
// whose size or content is no longer what was listed is refused and noted. Copies what it can; the Error is the first
// that concerned the destination.
Status copy_artifacts(int dirfd, ArtifactList& list, int destination_fd, const ArtifactBounds& bounds);

// Puts a file of this content at the relative path `path` below the destination, with the same care, mode 0644.
Status put_artifact(int destination_fd, const std::string& path, std::string_view content);

// MIME type of a file that starts with `head` (512 bytes suffice) and is called `name`, which only chooses among text
// formats. "application/octet-stream" for unknown bytes, "application/x-empty" for none.
std::string mime_type(std::string_view head, std::string_view name);

}  // namespace sbx::runtime
