#include "session/copier.h"

#include <dirent.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/sys.h"
#include "base/text.h"
#include "session/payload_files.h"

namespace sbx::session {
namespace {

constexpr size_t kSaid = 20;

}  // namespace

Result<struct stat> Side::stat(int directory, const std::string& name) const {
  const ActAs acting(uid, gid);
  return sys::fstatat(directory, name, AT_SYMLINK_NOFOLLOW);
}

Result<UniqueFd> Side::open(int directory, const std::string& name, int flags) const {
  const ActAs acting(uid, gid);
  return sys::openat(directory, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
}

Result<UniqueFd> Side::make_directory(int directory, const std::string& name) const {
  {
    const ActAs acting(uid, gid);
    Status made = sys::mkdirat(directory, name, 0755);
    if (!made.ok() && made.error().errnum() != EEXIST) return made.take_error();
  }
  return enter(directory, name);
}

Result<UniqueFd> Side::make_file(int directory, const std::string& name, bool executable) const {
  const ActAs acting(uid, gid);
  (void)sys::unlinkat(directory, name);
  return sys::openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, executable ? 0755 : 0644);
}

Status Side::make_link(int directory, const std::string& name, const std::string& target) const {
  const ActAs acting(uid, gid);
  (void)sys::unlinkat(directory, name);
  if (::symlinkat(target.c_str(), directory, name.c_str()) != 0) return Error::from_errno(errno, "make the link " + quoted_path(name));
  return {};
}

Status Side::rename(int from, int to, const std::string& name) const {
  const ActAs acting(uid, gid);
  return sys::renameat2(from, name, to, name, 0);
}

void Side::remove_file(int directory, const std::string& name) const {
  const ActAs acting(uid, gid);
  (void)sys::unlinkat(directory, name);
}

void Side::remove_tree(int directory, const std::string& name, size_t depth) const {
  constexpr size_t kDeepest = 200;  // a payload may go on digging
  constexpr size_t kMost = 1000000;
  {
    const Result<UniqueFd> opened = enter(directory, name);
    if (!opened.ok() || depth > kDeepest) return remove_file(directory, name);
    const Result<std::vector<std::string>> children = names(opened.value().get(), kMost);
    if (!children.ok()) return;
    for (const std::string& child : children.value()) {
      const Result<struct stat> info = stat(opened.value().get(), child);
      if (info.ok() && S_ISDIR(info.value().st_mode)) remove_tree(opened.value().get(), child, depth + 1);
      else remove_file(opened.value().get(), child);
    }
  }
  const ActAs acting(uid, gid);
  (void)sys::unlinkat(directory, name, AT_REMOVEDIR);
}

Result<std::vector<std::string>> Side::names(int directory, size_t limit) const {
  const ActAs acting(uid, gid);
  const sys::Directory stream = SBX_TRY(sys::list(directory));
  std::vector<std::string> found;
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (found.size() > limit) break;
    found.emplace_back(name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

Side side_of(const Inside& inside) { return Side{inside.uid, inside.gid, true}; }

Error unusable(const std::string& path, int errnum) {
  Error error(ErrorKind::usage, errnum == ENOENT ? "no such file or directory: " + quoted_path(path) : "cannot use " + quoted_path(path) + ": " + errno_text(errnum));
  return errnum == ELOOP ? std::move(error).with_hint("links inside a sandbox are not followed: name the place that it leads to") : error;
}

Result<Place> place_inside(const Inside& inside, const std::string& path, bool enter_directory, const std::string& name) {
  const ActAs acting(inside.uid, inside.gid);
  std::string clean = path;
  while (clean.size() > 1 && clean.back() == '/') clean.pop_back();
  if (enter_directory) {
    Result<UniqueFd> directory = open_inside(inside.root, clean, O_RDONLY | O_DIRECTORY);
    if (directory.ok()) return Place{directory.take(), name};
    if (directory.error().errnum() == ELOOP || path.ends_with('/')) return unusable(path, directory.error().errnum());
  }
  Result<UniqueFd> parent = open_inside(inside.root, dir_name(clean), O_RDONLY | O_DIRECTORY);
  if (!parent.ok()) return unusable(path, parent.error().errnum());
  const std::string own = base_name(clean);
  // Of "/" the name is "/" again, which as a name in a directory would be the host's.
  if (own == "/") return Error(ErrorKind::usage, quoted_path(path) + " is all that the sandbox sees, the host's programs among it").with_hint("name a directory in it, as in ID:/box");
  if (own.empty() || own == "." || own == "..") return Error(ErrorKind::usage, quoted_path(path) + " ends in no name").with_hint("name the directory itself, as in ID:/box");
  return Place{parent.take(), own};
}

std::optional<Extent> next_extent(int file, uint64_t from) {
  const off_t begin = ::lseek(file, static_cast<off_t>(from), SEEK_DATA);
  if (begin < 0 && errno == ENXIO) return std::nullopt;
  if (begin < 0) return Extent{from, UINT64_MAX};
  const off_t end = ::lseek(file, begin, SEEK_HOLE);
  // Something at least, or a payload that makes holes as fast as we look keeps us here for ever.
  constexpr off_t kLeast = 4096;
  return Extent{static_cast<uint64_t>(begin), static_cast<uint64_t>(std::max(end, begin + kLeast))};
}

// ---- Tally ---------------------------------------------------------------------------------------------------------

Status Tally::entry() {
  SBX_TRY(go_on());
  if (++entries_ <= bounds_.max_entries) return {};
  return Error(ErrorKind::resource, "more than " + std::to_string(bounds_.max_entries) + " files");
}

Status Tally::bytes(uint64_t more) {
  SBX_TRY(go_on());
  if (more <= bounds_.max_bytes - report.bytes) {
    report.bytes += more;
    return {};
  }
  return Error(ErrorKind::resource, "more than " + format_size(Bytes{bounds_.max_bytes}) + " altogether").with_hint("--max-size allows more");
}

void Tally::leave_out(const std::string& path, const std::string& why) {
  ++report.skipped_count;
  if (report.skipped.size() < kSaid) report.skipped.push_back(quoted_path(path) + " is left out: " + why);
}

Status Tally::go_on() const {
  pollfd stop{bounds_.stop_fd, POLLIN, 0};
  if (bounds_.stop_fd < 0 || ::poll(&stop, 1, 0) <= 0) return {};
  return Error(ErrorKind::system, "interrupted");
}

// ---- Copier --------------------------------------------------------------------------------------------------------

Status Copier::entry(int directory, const std::string& name, const std::string& path) {
  const Result<struct stat> info = from_.stat(directory, name);
  if (!info.ok()) return skip(path, errno_text(info.error().errnum()));
  SBX_TRY(tally_.entry());
  if (S_ISDIR(info.value().st_mode)) return tree(directory, name, path);
  if (S_ISLNK(info.value().st_mode)) return link(directory, name, path);
  if (!S_ISREG(info.value().st_mode)) return skip(path, "no regular file");
  const Result<UniqueFd> file = from_.open(directory, name, O_RDONLY);
  if (!file.ok()) return skip(path, errno_text(file.error().errnum()));
  const Result<struct stat> opened = sys::fstat(file.value().get());
  if (!opened.ok() || !S_ISREG(opened.value().st_mode)) return skip(path, "it changed meanwhile");
  ++tally_.report.files;
  return regular(file.value().get(), opened.value(), name, path);
}

Status Copier::tree(int directory, const std::string& name, const std::string& path) {
  if (depth_ >= bounds().max_depth) return skip(path, "nested too deeply");
  const Result<UniqueFd> opened = from_.enter(directory, name);
  if (!opened.ok()) return skip(path, errno_text(opened.error().errnum()));
  const Result<std::vector<std::string>> children = from_.names(opened.value().get(), bounds().max_entries);
  if (!children.ok()) return skip(path, errno_text(children.error().errnum()));
  SBX_TRY(begin_tree(name, path));
  ++depth_;
  for (const std::string& child : children.value()) SBX_TRY(entry(opened.value().get(), child, path + "/" + child));
  --depth_;
  end_tree();
  return {};
}

Status Copier::skip(const std::string& path, const std::string& why) {
  if (depth_ == 0) return Error(ErrorKind::usage, "cannot copy " + quoted_path(path) + ": " + why);
  tally_.leave_out(path, why);
  return {};
}

}  // namespace sbx::session
