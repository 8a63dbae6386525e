// A shared workspace before and after a run: what a payload left in it has no set-id bits any more and stands at no place
// that the host trusts, and nothing outside is touched.
#include <set>
#include <string>

#include "base/text.h"
#include "fuzz.h"
#include "runtime/workspace.h"
#include "tree.h"

namespace {

using namespace sbx;
using namespace sbx::runtime;

// Inodes of the regular files with set-id bits.
void collect_set_id(int directory, std::set<uint64_t>& inodes) {
  DIR* const stream = ::fdopendir(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (stream == nullptr) return;
  while (const dirent* entry = ::readdir(stream)) {
    const std::string name = entry->d_name;
    struct stat info {};
    if (name == "." || name == ".." || ::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISREG(info.st_mode) && (info.st_mode & 06000) != 0) inodes.insert(info.st_ino);
    if (!S_ISDIR(info.st_mode)) continue;
    const UniqueFd below(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (below.valid()) collect_set_id(below.get(), inodes);
  }
  ::closedir(stream);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Bytes bytes(data, size);
  const uint8_t flags = bytes.byte();
  const bool sensitive = (flags & 1) == 0;
  ArtifactBounds bounds;
  bounds.max_scan = bytes.byte() % 160 + 1;
  bounds.max_depth = bytes.byte() % 40 + 1;

  const fuzz::Scratch scratch;
  const UniqueFd tree = scratch.directory("tree");
  const std::string canary = scratch.path("canary");
  fuzz::TreeScript(tree.get(), canary).run(bytes, 24);
  std::set<uint64_t> had;
  collect_set_id(tree.get(), had);
  const Result<WorkspaceGuard> made = guard_workspace(tree.get(), "/box", sensitive, bounds);
  if (!made.ok()) return 0;
  const WorkspaceGuard& guard = made.value();
  HOLDS(guard.before.size() <= bounds.max_scan);
  for (const FsOp& op : guard.ops) {
    std::visit([](const auto& any) { HOLDS(normalize_path(any.target) == any.target && path_is_under(any.target, "/box")); }, op);
    HOLDS(std::holds_alternative<ReadOnlyOp>(op) || std::holds_alternative<PinOp>(op));
  }
  if (!sensitive) HOLDS(guard.ops.empty());

  fuzz::TreeScript(tree.get(), canary).run(bytes, 24);
  const Result<SweepReport> swept = sweep_workspace(tree.get(), guard);
  HOLDS(swept.ok());
  const SweepReport& report = swept.value();
  HOLDS(report.stripped.size() <= report.stripped_count && report.stripped.size() <= 100);
  for (const std::string& note : report.notes) {
    HOLDS(is_valid_utf8(note));
    for (const char c : note) HOLDS(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  }
  HOLDS(report.complete || !report.notes.empty());
  if (!report.complete || !guard.before_complete) return 0;

  std::set<uint64_t> has;
  collect_set_id(tree.get(), has);
  for (const uint64_t inode : has) HOLDS(had.count(inode) != 0);
  // What the mounts of a run protect is not protected here, so nothing can be said of it.
  if (!sensitive || !guard.protected_paths.empty() || !guard.links.empty()) return 0;
  for (const SensitivePlace& place : sensitive_places()) {
    struct stat info {};
    if (guard.before.count(place.path) == 0) HOLDS(::fstatat(tree.get(), place.path, &info, AT_SYMLINK_NOFOLLOW) != 0);
  }
  return 0;
}
