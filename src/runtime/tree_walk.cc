#include "runtime/tree_walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/sys.h"
#include "base/text.h"

namespace sbx::runtime {
namespace {

constexpr size_t kOpenLevels = 64;
constexpr unsigned long long kBeneath =
    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;

struct Level {
  UniqueFd fd;  // closed while a deeper level is current and this one is beyond kOpenLevels
  struct stat info {};
  size_t path_size = 0;  // of the walk's one running path, while this level is current
  std::vector<std::string> names;
  size_t next = 0;
};

// All names in the directory, sorted, at most `budget`; *cut tells that there were more.
Result<std::vector<std::string>> read_names(int fd, size_t budget, bool* cut) {
  const sys::Directory directory = SBX_TRY(sys::list(fd));
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const struct dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) {
      if (errno != 0) return Error::from_errno(errno, "read a directory");
      break;
    }
    if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
    if (names.size() >= budget) {
      *cut = true;
      break;
    }
    names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Without an error: what cannot be read then says so itself.
void give_back(int fd, const struct stat& info) {
  const mode_t wanted = S_ISDIR(info.st_mode) ? S_IRUSR | S_IXUSR : S_IRUSR;
  if ((!S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode)) || (info.st_mode & wanted) == wanted || info.st_uid != ::geteuid()) return;
  // By the descriptor's entry in /proc: fchmod(2) refuses O_PATH.
  (void)::chmod(("/proc/self/fd/" + std::to_string(fd)).c_str(), (info.st_mode & 07777) | wanted);
}

void give_back(int parent_fd, const std::string& name, const struct stat& seen) {
  if ((seen.st_mode & S_IRUSR) != 0 && (!S_ISDIR(seen.st_mode) || (seen.st_mode & S_IXUSR) != 0)) return;
  const Result<UniqueFd> handle = sys::openat2(parent_fd, name, O_PATH | O_NOFOLLOW, 0, kBeneath);
  struct stat info {};
  if (handle.ok() && ::fstat(handle.value().get(), &info) == 0) give_back(handle.value().get(), info);
}

void count(uint64_t& counter, std::string& first, const std::string& what) {
  if (counter++ == 0) first = what;
}

std::string several(uint64_t number, const char* one, const char* many) {
  return std::to_string(number) + " " + (number == 1 ? one : many);
}

}  // namespace

std::vector<std::string> WalkReport::sentences(const WalkLimits& limits) const {
  std::vector<std::string> lines;
  if (scan_limit_hit) {
    lines.push_back("only the first " + std::to_string(limits.max_scan) + " directory entries were looked at");
  }
  if (too_deep > 0) {
    lines.push_back(several(too_deep, "directory", "directories") + " more than " + std::to_string(limits.max_depth) +
                    " levels deep not looked into, the first '" + printable(first_too_deep) + "'");
  }
  if (unreadable > 0) {
    lines.push_back(several(unreadable, "entry", "entries") + " could not be read, the first '" +
                    printable(first_unreadable) + "'");
  }
  if (other_mounts > 0) {
    lines.push_back(several(other_mounts, "directory", "directories") +
                    " with another file system mounted not looked into, the first '" + printable(first_other_mount) + "'");
  }
  return lines;
}

Result<WalkReport> walk_tree(int dirfd, const WalkLimits& limits, const WalkVisitor& visitor) {
  WalkReport report;
  std::vector<Level> stack;
  // Path of the current level: one string for all, since a path for each level would be quadratic in the depth.
  std::string path;

  auto enter = [&](Level level) -> Status {
    bool cut = false;
    level.names = SBX_TRY(read_names(level.fd.get(), limits.max_scan - report.scanned, &cut));
    report.scanned += level.names.size();
    report.scan_limit_hit = report.scan_limit_hit || cut;
    if (visitor.entered) visitor.entered(level.fd.get(), path, level.names);
    if (stack.size() > kOpenLevels) stack.back().fd.reset();
    stack.push_back(std::move(level));
    return {};
  };

  {
    Level root;
    struct stat info {};
    if (limits.give_back_rights && ::fstat(dirfd, &info) == 0) give_back(dirfd, info);
    root.fd = SBX_TRY(sys::openat(dirfd, ".", kDirectoryFlags));
    root.info = SBX_TRY(sys::fstat(root.fd.get()));
    SBX_TRY(enter(std::move(root)));
  }

  while (!stack.empty()) {
    Level& level = stack.back();
    if (level.next == level.names.size()) {
      Level done = std::move(stack.back());
      stack.pop_back();
      if (stack.empty()) break;
      path.resize(stack.back().path_size);
      if (stack.back().fd.valid()) continue;
      // The parent's descriptor was given up for the sake of the limit: come back by "..", and believe it only if
      // nobody moved the directory meanwhile. If somebody did, the rest of that level is left out.
      Level& parent = stack.back();
      Result<UniqueFd> up = sys::openat(done.fd.get(), "..", kDirectoryFlags);
      struct stat info {};
      if (up.ok() && ::fstat(up.value().get(), &info) == 0 && info.st_dev == parent.info.st_dev &&
          info.st_ino == parent.info.st_ino) {
        parent.fd = up.take();
      } else {
        count(report.unreadable, report.first_unreadable, path + ": moved while it was read");
        parent.next = parent.names.size();
        // Without a descriptor there is no way further up either, except to a level that kept its own.
        while (!stack.empty() && !stack.back().fd.valid()) stack.pop_back();
        path.resize(stack.empty() ? 0 : stack.back().path_size);
      }
      continue;
    }

    const std::string& name = level.names[level.next++];
    struct stat info {};
    if (::fstatat(level.fd.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) != 0) {
      if (errno != ENOENT) {
        count(report.unreadable, report.first_unreadable, path + "/" + name + ": " + errno_text(errno));
      }
      continue;
    }
    if (limits.give_back_rights) give_back(level.fd.get(), name, info);
    const WalkEntry entry{level.fd.get(), name, info, level.info, stack.size(), path};
    if (!visitor.entry(entry) || !S_ISDIR(info.st_mode)) continue;
    if (stack.size() >= limits.max_depth) {
      count(report.too_deep, report.first_too_deep, entry.path());
      continue;
    }
    Result<UniqueFd> opened = sys::openat2(level.fd.get(), name, kDirectoryFlags, 0, kBeneath);
    if (!opened.ok()) {
      const int cause = opened.error().errnum();
      if (cause == EXDEV) {
        count(report.other_mounts, report.first_other_mount, entry.path());
      } else if (cause != ENOENT) {
        count(report.unreadable, report.first_unreadable, entry.path() + ": " + errno_text(cause));
      }
      continue;
    }
    Level child;
    child.fd = opened.take();
    if (::fstat(child.fd.get(), &child.info) != 0) continue;
    const size_t before = path.size();
    path = entry.path();
    child.path_size = path.size();
    if (Status entered = enter(std::move(child)); !entered.ok()) {
      count(report.unreadable, report.first_unreadable, path + ": " + entered.error().text());
      path.resize(before);
    }
  }
  return report;
}

Result<UniqueFd> open_beneath(int dirfd, const std::string& path, int flags) {
  UniqueFd current;
  int at = dirfd;
  for (size_t begin = 0;;) {
    const size_t end = path.find('/', begin);
    const std::string part = path.substr(begin, end == std::string::npos ? std::string::npos : end - begin);
    if (part.empty() || part == "." || part == "..") return Error::from_errno(EINVAL, "open '" + printable(path) + "'");
    const bool last = end == std::string::npos;
    Result<UniqueFd> next = sys::openat2(at, part, last ? flags | O_NOFOLLOW : O_PATH | O_DIRECTORY | O_NOFOLLOW, 0,
                                         kBeneath);
    if (!next.ok()) return Error::from_errno(next.error().errnum(), "open '" + printable(path) + "'");
    if (last) return next;
    current = next.take();
    at = current.get();
    begin = end + 1;
  }
}

}  // namespace sbx::runtime
