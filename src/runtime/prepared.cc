#include "runtime/prepared.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <vector>

#include "base/sys.h"
#include "base/text.h"
#include "runtime/toolchain_cache.h"
#include "runtime/toolchain_paths.h"
#include "runtime/tree_walk.h"

namespace sbx::runtime {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 30;
constexpr WalkLimits kWalk = {.max_scan = 50000, .max_depth = 16};
constexpr size_t kMostKept = 24;
constexpr uint64_t kMostBytesKept = uint64_t{3} << 30;
// How exactly it is known when an entry was used last: marking it costs a write.
constexpr time_t kUsedAgain = 3600;
// An attempt that failed is not repeated by every run.
constexpr time_t kRetryAfter = 3600;
constexpr const char* kDone = "done";
constexpr const char* kContent = "content";

std::string digest_of(const PrepareRequest& request) {
  CacheKey key("prepared-1");
  key.add("runner", request.runner->name);
  for (const std::string& word : request.runner->prepare->argv) key.add("argv", word);
  for (const auto& [name, value] : request.runner->prepare->environment) key.add(name, value);
  key.add("executable", request.tool->executable);
  // Through the links: an upgrade replaces what they lead to.
  if (const auto real = sys::realpath(request.tool->executable); real.ok()) {
    key.add("real", real.value());
    if (const auto info = sys::stat(real.value()); info.ok()) key.add("identity", identity_text(identity_of(info.value())));
  }
  return key.digest();
}

int remove_entry(const char* path, const struct stat* /*info*/, int /*kind*/, struct FTW* /*place*/) {
  (void)::remove(path);
  return 0;
}
// A tree of our own making; what cannot be removed stays and is tried again.
void remove_tree(const std::string& path) { (void)::nftw(path.c_str(), remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT); }

Status copy_file(int from_directory, const std::string& name, int to_root, const std::string& path, uint64_t& budget) {
  const UniqueFd from = SBX_TRY(sys::openat2(from_directory, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, 0, 0));
  const struct stat info = SBX_TRY(sys::fstat(from.get()));
  if (!S_ISREG(info.st_mode)) return {};
  // Whoever runs in the sandbox has another uid where root started it.
  const UniqueFd to = SBX_TRY(sys::openat(to_root, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW,
                                          (info.st_mode & S_IXUSR) != 0 ? 0755 : 0644));
  std::array<char, 65536> buffer;
  for (;;) {
    const size_t got = SBX_TRY(sys::read(from.get(), buffer.data(), buffer.size()));
    if (got == 0) return {};
    if (got > budget) return Error(ErrorKind::resource, "what was prepared is too large to keep");
    budget -= got;
    SBX_TRY(sys::write_all(to.get(), {buffer.data(), got}));
  }
}

// The bytes that were copied.
Result<uint64_t> copy_tree(int from, int to) {
  uint64_t budget = kMostBytes;
  Status status;
  WalkVisitor visitor;
  visitor.entry = [&](const WalkEntry& entry) {
    if (!status.ok()) return false;
    if (S_ISDIR(entry.info.st_mode)) status = sys::mkdirat(to, entry.path(), 0755);
    else if (S_ISREG(entry.info.st_mode)) status = copy_file(entry.parent_fd, entry.name, to, entry.path(), budget);
    return status.ok();
  };
  const WalkReport report = SBX_TRY(walk_tree(from, kWalk, visitor));
  if (status.ok() && report.scan_limit_hit) return Error(ErrorKind::resource, "too many files were prepared to keep them");
  SBX_TRY(status);
  return kMostBytes - budget;
}

// Makes room for one more: the ones that were not used for longest go.
void forget_old(const std::string& folder) {
  struct Kept {
    time_t used;
    std::string path;
  };
  std::vector<Kept> kept;
  const auto directory = sys::open(folder, O_RDONLY | O_DIRECTORY);
  if (!directory.ok()) return;
  WalkVisitor visitor;
  visitor.entry = [&](const WalkEntry& entry) {
    const bool stale_work = entry.name.front() == '.' && entry.info.st_mtime < ::time(nullptr) - 24 * kRetryAfter;
    if (S_ISDIR(entry.info.st_mode) && (entry.name.front() != '.' || stale_work)) {
      kept.push_back({stale_work ? 0 : entry.info.st_mtime, join_path(folder, entry.name)});
    }
    return false;
  };
  (void)walk_tree(directory.value().get(), WalkLimits{.max_scan = 1000, .max_depth = 1}, visitor);
  std::sort(kept.begin(), kept.end(), [](const Kept& left, const Kept& right) { return left.used > right.used; });
  uint64_t bytes = kMostBytes;  // of the one to come
  for (size_t i = 0; i < kept.size(); ++i) {
    const Result<std::string> text = read_file(join_path(kept[i].path, kDone), 32);
    const Result<uint64_t> size = parse_integer(text.ok() ? text.value() : "");
    if (size.ok() && size.value() <= kMostBytes) bytes += size.value();
    if (i + 1 < kMostKept && bytes <= kMostBytesKept && kept[i].used != 0) continue;
    remove_tree(kept[i].path);
    (void)::unlink((kept[i].path + ".lock").c_str());
  }
}

// Ours alone, up to the entry itself.
bool is_private(const std::string& path) {
  const auto info = sys::lstat(path);
  return info.ok() && S_ISDIR(info.value().st_mode) && info.value().st_uid == ::geteuid() && (info.value().st_mode & 022) == 0;
}

enum class State { absent, failed, ready };
State state_of(const std::string& entry) {
  if (!is_private(entry)) return State::absent;
  if (sys::stat(join_path(entry, kDone)).ok()) return State::ready;
  const auto info = sys::stat(entry);
  return info.ok() && info.value().st_mtime > ::time(nullptr) - kRetryAfter ? State::failed : State::absent;
}

void mark_used(const std::string& entry) {
  const auto info = sys::lstat(entry);
  if (info.ok() && info.value().st_mtime > ::time(nullptr) - kUsedAgain) return;
  (void)::utimensat(AT_FDCWD, entry.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

// Fills the new directory `work`. Without a kDone in it, it stands for a failed attempt.
Status fill(const PrepareRequest& request, const PrepareRunner& run, const std::string& work) {
  const RunnerPrepare& prepare = *request.runner->prepare;
  const std::vector<std::string> argv = SBX_TRY(expand_words(prepare.argv, request.values, request.runner->origin));
  const auto environment = SBX_TRY(expand_environment(prepare.environment, request.values, request.runner->origin));
  const UniqueFd made = SBX_TRY(run(argv, environment));
  SBX_TRY(make_directories(join_path(work, kContent), 0755));
  const UniqueFd target = SBX_TRY(sys::open(join_path(work, kContent), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  const uint64_t bytes = SBX_TRY(copy_tree(made.get(), target.get()));
  return write_file_atomically(join_path(work, kDone), std::to_string(bytes), 0600);
}

}  // namespace

std::string prepared_directory(const PrepareRequest& request, const PrepareRunner& run,
                               const std::function<void(const std::string&)>& note) {
  if (request.cache_directory.empty()) return "";
  const std::string folder = join_path(request.cache_directory, "prepared");
  const std::string digest = digest_of(request);
  const std::string entry = join_path(folder, digest);
  const std::string content = join_path(entry, kContent);
  if (is_private(folder) && state_of(entry) == State::ready) {
    mark_used(entry);
    return content;
  }

  if (!make_directories(folder, 0700).ok() || !is_private(folder)) {
    note("nothing is prepared: '" + printable(folder) + "' is no directory of our own");
    return "";
  }
  const auto lock = sys::open(entry + ".lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  if (!lock.ok()) {
    note("nothing is prepared: " + lock.error().text());
    return "";
  }
  while (::flock(lock.value().get(), LOCK_EX) != 0 && errno == EINTR) {
  }
  switch (state_of(entry)) {
    case State::ready: return content;
    case State::failed: return "";
    case State::absent: break;
  }
  remove_tree(entry);
  forget_old(folder);
  const std::string work = join_path(folder, "." + digest.substr(0, 16) + "-" + std::to_string(::getpid()));
  remove_tree(work);
  if (Status made = make_directories(work, 0700); !made.ok()) {
    note("nothing is prepared: " + made.error().text());
    return "";
  }
  const Status filled = fill(request, run, work);
  if (!filled.ok()) {
    note("preparing " + request.runner->title + " failed: " + filled.error().text());
    const ErrorKind kind = filled.error().kind();
    if (kind != ErrorKind::not_found && kind != ErrorKind::resource) {
      remove_tree(work);
      return "";
    }
    // The tool's own doing is remembered; that sbx was interrupted, or could not set the sandbox up, is not.
    remove_tree(join_path(work, kContent));
  }
  if (::rename(work.c_str(), entry.c_str()) != 0) {
    note("what was prepared cannot be kept: " + errno_text(errno));
    remove_tree(work);
    return "";
  }
  return filled.ok() ? content : "";
}

}  // namespace sbx::runtime
