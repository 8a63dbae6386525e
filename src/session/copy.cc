#include "session/copy.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/sys.h"
#include "base/text.h"
#include "session/copier.h"

namespace sbx::session {
namespace {

// To a directory of the other side.
class TreeCopier final : public Copier {
 public:
  TreeCopier(const Side& from, const Side& to, int directory, std::string first_name, const CopyBounds& bounds)
      : Copier(from, bounds), to_(to), first_(std::move(first_name)) {
    stack_.push_back(directory);
  }

 private:
  std::string target_name(const std::string& name) const { return stack_.size() == 1 ? first_ : name; }
  Status regular(int file, const struct stat& info, const std::string& name, const std::string& path) override {
    const std::string own = target_name(name);
    const UniqueFd target = SBX_TRY_CTX(to_.make_file(stack_.back(), own, (info.st_mode & 0100) != 0), path);
    Status copied = contents(file, target.get());
    if (copied.ok()) return {};
    to_.remove_file(stack_.back(), own);  // a part of a file would be taken for all of it
    return copied.take_error().with_context(path);
  }
  Status contents(int file, int target) {
    std::string buffer(kCopyChunk, '\0');
    uint64_t at = 0;
    for (size_t got = 1; got > 0;) {
      const std::optional<Extent> extent = next_extent(file, at);
      if (!extent) break;
      at = extent->begin;
      if (::lseek(file, static_cast<off_t>(at), SEEK_SET) < 0 || ::lseek(target, static_cast<off_t>(at), SEEK_SET) < 0) return Error::from_errno(errno, "pass over a hole");
      while (at < extent->end && (got = SBX_TRY(sys::read(file, buffer.data(), std::min<uint64_t>(buffer.size(), extent->end - at)))) > 0) {
        SBX_TRY(count(got));
        SBX_TRY(sys::write_all(target, std::string_view(buffer).substr(0, got)));
        at += got;
      }
    }
    // A hole at its end.
    const struct stat info = SBX_TRY(sys::fstat(file));
    if (static_cast<uint64_t>(info.st_size) > at && ::ftruncate(target, info.st_size) != 0) return Error::from_errno(errno, "make a file of " + std::to_string(info.st_size) + " bytes");
    return {};
  }
  Status link(int directory, const std::string& name, const std::string& path) override {
    if (!to_.inside) return skip(path, "a link");
    const Result<std::string> target = sys::readlinkat(directory, name);
    if (!target.ok()) return skip(path, "a link that cannot be read");
    return to_.make_link(stack_.back(), target_name(name), target.value());
  }
  Status begin_tree(const std::string& name, const std::string& path) override {
    owned_.push_back(SBX_TRY_CTX(to_.make_directory(stack_.back(), target_name(name)), path));
    stack_.push_back(owned_.back().get());
    return {};
  }
  void end_tree() override {
    stack_.pop_back();
    owned_.pop_back();
  }

  const Side& to_;
  std::string first_;
  std::vector<int> stack_;
  std::vector<UniqueFd> owned_;
};

}  // namespace

Result<CopyReport> copy_out(const Inside& inside, const std::string& from, const std::string& to, const CopyBounds& bounds) {
  const Side source = side_of(inside);
  const Side host;
  const Place place = SBX_TRY(place_inside(inside, from, false, ""));
  if (const Result<struct stat> info = source.stat(place.directory.get(), place.name); !info.ok()) return unusable(from, info.error().errnum());
  else if (S_ISLNK(info.value().st_mode)) return unusable(from, ELOOP);
  std::string directory = to, name = place.name;
  Result<UniqueFd> target = sys::open(to, O_RDONLY | O_DIRECTORY);
  if (!target.ok()) {
    directory = dir_name(to);
    name = base_name(to);
    target = sys::open(directory, O_RDONLY | O_DIRECTORY);
    if (!target.ok() || name.empty() || to.ends_with('/')) return unusable(directory, target.ok() ? ENOENT : target.error().errnum());
  }
  TreeCopier copier(source, host, target.value().get(), name, bounds);
  SBX_TRY(copier.entry(place.directory.get(), place.name, place.name));
  return copier.take_report();
}

Result<CopyReport> copy_in(const std::string& from, const Inside& inside, const std::string& to, const CopyBounds& bounds) {
  const Side host;
  const Side target = side_of(inside);
  const Result<std::string> real = sys::realpath(from);
  if (!real.ok()) return unusable(from, real.error().errnum());
  // Named by what the caller called it, not by what a link of his leads to.
  std::string name = base_name(from.size() > 1 && from.back() == '/' ? from.substr(0, from.size() - 1) : from);
  if (name.empty() || name == "." || name == "..") name = base_name(real.value());
  if (name == "/") return Error(ErrorKind::usage, quoted_path(from) + " is all of the host").with_hint("name a directory in it");
  const Place place = SBX_TRY(place_inside(inside, to, true, name));
  const UniqueFd parent = SBX_TRY(sys::open(dir_name(real.value()), O_RDONLY | O_DIRECTORY));
  TreeCopier copier(host, target, place.directory.get(), place.name, bounds);
  SBX_TRY(copier.entry(parent.get(), base_name(real.value()), from));
  return copier.take_report();
}

}  // namespace sbx::session
