// What sbx cp and the archives of sessions have in common: the two sides of a copy, and the walk over a tree. copy.h
// says what is hostile here and what is promised.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "session/copy.h"

namespace sbx::session {

inline constexpr size_t kCopyChunk = 256 * 1024;

// One side of a copy: directories by descriptor, names of one component.
struct Side {
  uint32_t uid = 0, gid = 0;  // 0: the host's
  bool inside = false;

  Result<struct stat> stat(int directory, const std::string& name) const;
  Result<UniqueFd> open(int directory, const std::string& name, int flags) const;
  Result<UniqueFd> enter(int directory, const std::string& name) const { return open(directory, name, O_RDONLY | O_DIRECTORY); }
  // Made if missing; a link in its place is an error.
  Result<UniqueFd> make_directory(int directory, const std::string& name) const;
  // Always a new file: what stood there is not written through.
  Result<UniqueFd> make_file(int directory, const std::string& name, bool executable) const;
  Status make_link(int directory, const std::string& name, const std::string& target) const;
  Status rename(int from, int to, const std::string& name) const;
  // As far as it can be removed.
  void remove_file(int directory, const std::string& name) const;
  void remove_tree(int directory, const std::string& name, size_t depth = 0) const;
  // In alphabetical order, one more than `limit` at most.
  Result<std::vector<std::string>> names(int directory, size_t limit) const;
};
Side side_of(const Inside& inside);

// The directory that a path lies in, and its name there; an existing directory as a target is itself the directory.
struct Place {
  UniqueFd directory;
  std::string name;
};
Result<Place> place_inside(const Inside& inside, const std::string& path, bool enter_directory, const std::string& name);
// What the caller is told of a path that cannot be used.
Error unusable(const std::string& path, int errnum);

// A part of a file that holds data. Between such parts are holes: they are zeros of which no disk holds one, so that a
// file of a terabyte can be made out of nothing.
struct Extent {
  uint64_t begin, end;
};
// The first one behind `from`; nullopt: there is none up to the end of the file. `end` may lie behind that: a file system that
// knows no holes (/proc) has one extent without end.
std::optional<Extent> next_extent(int file, uint64_t from);

// The bounds of one copy, and what came of it.
class Tally {
 public:
  explicit Tally(const CopyBounds& bounds) : bounds_(bounds) {}
  CopyReport report;

  Status entry();               // one more
  Status bytes(uint64_t more);  // more that are stored
  void leave_out(const std::string& path, const std::string& why);
  const CopyBounds& bounds() const { return bounds_; }

 private:
  Status go_on() const;  // unless whoever waits for it wants it to end
  const CopyBounds& bounds_;
  size_t entries_ = 0;
};

// Walks over a tree, for another tree or an archive that receives it.
class Copier {
 public:
  Copier(const Side& from, const CopyBounds& bounds) : tally_(bounds), from_(from) {}
  virtual ~Copier() = default;
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  // `name` in `directory`, of which `path` is what is said. What cannot be copied is an error where it was named itself (usage),
  // and left out where it lies in a tree.
  Status entry(int directory, const std::string& name, const std::string& path);
  CopyReport take_report() { return std::move(tally_.report); }

 protected:
  virtual Status regular(int file, const struct stat& info, const std::string& name, const std::string& path) = 0;
  virtual Status link(int directory, const std::string& name, const std::string& path) = 0;
  virtual Status begin_tree(const std::string& name, const std::string& path) = 0;
  virtual void end_tree() = 0;

  Status skip(const std::string& path, const std::string& why);
  Status count(uint64_t bytes) { return tally_.bytes(bytes); }
  const CopyBounds& bounds() const { return tally_.bounds(); }

 private:
  Status tree(int directory, const std::string& name, const std::string& path);

  Tally tally_;
  const Side& from_;
  size_t depth_ = 0;
};

}  // namespace sbx::session
