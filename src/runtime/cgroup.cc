#include "runtime/cgroup.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "base/sys.h"
#include "base/text.h"

namespace sbx::runtime {
namespace {

constexpr int kRemoveMs = 2000;
constexpr uint64_t kPeriodUs = 100000;  // the kernel's own default
constexpr uint64_t kLeastQuotaUs = 1000;  // the kernel refuses less
constexpr char kInner[] = "box";

// Field 22 of /proc/PID/stat, in clock ticks since boot; "" when there is no such process.
Result<std::string> start_time(const std::string& pid) {
  Result<std::string> text = read_file("/proc/" + pid + "/stat", 4096);
  if (!text.ok()) {
    const int errnum = text.error().errnum();
    if (errnum == ENOENT || errnum == ESRCH) return std::string();
    return text.take_error();
  }
  const size_t name_end = text.value().rfind(')');  // the name may hold anything
  const std::string_view rest = name_end == std::string::npos ? std::string_view() : std::string_view(text.value()).substr(name_end + 1);
  const std::vector<std::string> fields = split(rest, ' ');
  if (fields.size() <= 20) return Error(ErrorKind::system, "'/proc/" + pid + "/stat' cannot be read");
  return fields[20];
}

// "pid:[4026531836]" → "4026531836"
Result<std::string> pid_namespace() {
  const std::string link = SBX_TRY(sys::readlink("/proc/self/ns/pid"));
  std::string number;
  for (const char letter : link) {
    if (letter >= '0' && letter <= '9') number += letter;
  }
  return number;
}


// "populated" changes are reported by POLLPRI on an open cgroup.events that has been read once.
void wait_until_empty(int leaf, int milliseconds) {
  const UniqueFd events(::openat(leaf, "cgroup.events", O_RDONLY | O_CLOEXEC));
  if (!events.valid()) return;
  timespec start{};
  ::clock_gettime(CLOCK_MONOTONIC, &start);
  for (;;) {
    char text[256];
    const ssize_t got = ::pread(events.get(), text, sizeof text, 0);
    if (got <= 0) return;
    if (cgroup_count(std::string_view(text, static_cast<size_t>(got)), "populated").value_or(0) == 0) return;
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    const long passed = (now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000;
    if (passed >= milliseconds) return;
    pollfd waiting{events.get(), POLLPRI, 0};
    ::poll(&waiting, 1, static_cast<int>(milliseconds - passed));
  }
}

}  // namespace

Controllers both(const Controllers& left, const Controllers& right) {
  return {left.memory || right.memory, left.pids || right.pids, left.cpu || right.cpu};
}

Controllers without(const Controllers& left, const Controllers& right) {
  return {left.memory && !right.memory, left.pids && !right.pids, left.cpu && !right.cpu};
}

std::string names_of(const Controllers& controllers) {
  std::vector<std::string> names;
  if (controllers.memory) names.push_back("memory");
  if (controllers.pids) names.push_back("pids");
  if (controllers.cpu) names.push_back("cpu");
  return join(names, ", ");
}

Controllers parse_controllers(std::string_view text) {
  Controllers found;
  for (const std::string& word : split(trim(text), ' ')) {
    if (word == "memory") found.memory = true;
    if (word == "pids") found.pids = true;
    if (word == "cpu") found.cpu = true;
  }
  return found;
}

Status write_cgroup_file(int directory, const char* file, std::string_view text) {
  const UniqueFd fd = SBX_TRY(sys::openat(directory, file, O_WRONLY));
  // One write: each is a setting of its own.
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return Error::from_errno(errno, "write '" + std::string(trim(text)) + "' to " + file);
  }
  return {};
}

std::optional<std::string> read_cgroup_file(int directory, const char* file, size_t limit) {
  const UniqueFd fd(::openat(directory, file, O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return std::nullopt;
  Result<std::string> text = sys::read_some(fd.get(), limit);
  if (!text.ok()) return std::nullopt;
  return std::string(trim(text.value()));
}

std::optional<uint64_t> cgroup_count(std::string_view text, std::string_view key) {
  for (const std::string& line : split(text, '\n')) {
    if (!starts_with(line, key) || line.size() <= key.size() || line[key.size()] != ' ') continue;
    Result<uint64_t> value = parse_integer(trim(std::string_view(line).substr(key.size() + 1)));
    if (value.ok()) return value.value();
  }
  return std::nullopt;
}

Controllers enable_controllers(int directory, const Controllers& wanted) {
  const Controllers offered = parse_controllers(read_cgroup_file(directory, "cgroup.controllers").value_or(""));
  Controllers on = parse_controllers(read_cgroup_file(directory, "cgroup.subtree_control").value_or(""));
  const auto enable = [&](bool want, bool there, bool& now, const char* word) {
    if (want && there && !now) now = write_cgroup_file(directory, "cgroup.subtree_control", word).ok();
  };
  enable(wanted.memory, offered.memory, on.memory, "+memory");
  enable(wanted.pids, offered.pids, on.pids, "+pids");
  enable(wanted.cpu, offered.cpu, on.cpu, "+cpu");
  return on;
}

bool enable_io_controller(int directory) {
  // Only the root of the whole tree has no type.
  if (::faccessat(directory, "../cgroup.controllers", F_OK, 0) == 0 && ::faccessat(directory, "../cgroup.type", F_OK, 0) != 0) {
    (void)write_cgroup_file(directory, "../cgroup.subtree_control", "+io");
  }
  return write_cgroup_file(directory, "cgroup.subtree_control", "+io").ok();
}

Result<std::string> leaf_name(unsigned number) {
  const std::string pid = std::to_string(::getpid());
  const std::string space = SBX_TRY(pid_namespace());
  const std::string began = SBX_TRY(start_time("self"));
  return "sbx-" + space + "-" + pid + "-" + began + "-" + std::to_string(number);
}

bool is_stale_leaf(const std::string& name) {
  if (!starts_with(name, "sbx-")) return false;  // the kernel's own files are most of a listing
  const std::vector<std::string> parts = split(name, '-');
  if (parts.size() != 5 || parts[0] != "sbx") return false;
  if (!parse_integer(parts[2]).ok() || !parse_integer(parts[3]).ok()) return false;
  // Not knowing is no death: whoever lacks descriptors or memory must not kill the sandboxes of others.
  const Result<std::string> space = pid_namespace();
  if (!space.ok() || parts[1] != space.value()) return false;
  const Result<std::string> began = start_time(parts[2]);
  return began.ok() && began.value() != parts[3];
}

namespace {

// How many leaves of a listing are looked at closely, at the price of a file of /proc each: with sixty-four sandboxes at once all of them
// were two hundred files for every start. Of the others it counts whether there is a process of that number; which are the first of a
// listing differs from name to name, so the closer look comes to all.
constexpr unsigned kExactLeaves = 8;

// Its supervisor's number is nobody's. A number that was given out again is not noticed.
bool has_nobody(const char* name) {
  int pid = 0;
  return std::sscanf(name, "sbx-%*u-%d-", &pid) == 1 && pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH;
}

}  // namespace

std::vector<std::string> stale_leaves(int directory, unsigned ours) {
  std::vector<std::string> names;
  unsigned exact = kExactLeaves;
  // The links of a cgroup's directory are its children and two: most often there are no children but our own.
  struct stat info {};
  if (::fstat(directory, &info) == 0 && info.st_nlink <= 2 + ours) return names;
  const Result<sys::Directory> listing = sys::list(directory);
  if (!listing.ok()) return names;
  while (const dirent* entry = ::readdir(listing.value().get())) {
    if (entry->d_type != DT_DIR || std::strncmp(entry->d_name, "sbx-", 4) != 0) continue;
    const bool closely = exact > 0;
    if (closely) --exact;
    if ((closely || has_nobody(entry->d_name)) && is_stale_leaf(entry->d_name)) names.emplace_back(entry->d_name);
  }
  return names;
}

Result<CgroupLeaf> CgroupLeaf::create(int parent, const std::string& name, bool inner) {
  SBX_TRY(sys::mkdirat(parent, name, 0755));
  Result<UniqueFd> opened = sys::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!opened.ok()) {
    ::unlinkat(parent, name.c_str(), AT_REMOVEDIR);
    return opened.take_error();
  }
  CgroupLeaf leaf(parent, name, opened.take());
  if (inner) {
    SBX_TRY(sys::mkdirat(leaf.leaf_.get(), kInner, 0755));
    leaf.inner_ = SBX_TRY(sys::openat(leaf.leaf_.get(), kInner, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  }
  return leaf;
}

CgroupLeaf::CgroupLeaf(CgroupLeaf&& other) noexcept
    : parent_(std::exchange(other.parent_, -1)),
      name_(std::move(other.name_)),
      leaf_(std::move(other.leaf_)),
      inner_(std::move(other.inner_)) {}

CgroupLeaf::~CgroupLeaf() { remove(); }

Status CgroupLeaf::admit(pid_t pid) const { return write_cgroup_file(fd(), "cgroup.procs", std::to_string(pid)); }

Status CgroupLeaf::set_limits(const CgroupLimits& limits, const Controllers& controllers) const {
  return set_cgroup_limits(leaf_.get(), limits, controllers);
}

void CgroupLeaf::read_counts(CgroupCounts& counts) const { read_cgroup_counts(leaf_.get(), counts); }

void CgroupLeaf::kill() const { (void)write_cgroup_file(leaf_.get(), "cgroup.kill", "1"); }

void CgroupLeaf::remove() {
  if (!leaf_.valid()) return;
  const auto remove_both = [&] {
    if (inner_.valid()) ::unlinkat(leaf_.get(), kInner, AT_REMOVEDIR);
    return ::unlinkat(parent_, name_.c_str(), AT_REMOVEDIR) == 0 || errno != EBUSY;
  };
  if (!remove_both()) {
    kill();
    wait_until_empty(leaf_.get(), kRemoveMs);
    // What is then left is found by the next run: the name says whose it was.
    (void)remove_both();
  }
  inner_.reset();
  leaf_.reset();
}

Status set_cgroup_limits(int leaf, const CgroupLimits& limits, const Controllers& controllers) {
  if (controllers.memory && limits.memory_bytes) {
    SBX_TRY(write_cgroup_file(leaf, "memory.max", std::to_string(*limits.memory_bytes)));
    // Absent on kernels without swap; then there is none to limit.
    if (limits.swap_bytes) {
      Status swap = write_cgroup_file(leaf, "memory.swap.max", std::to_string(*limits.swap_bytes));
      if (!swap.ok() && swap.error().errnum() != ENOENT) return swap;
    }
    // All or nothing: a program that lost one of its processes at random would do anything (4.19).
    Status group = write_cgroup_file(leaf, "memory.oom.group", limits.all_die ? "1" : "0");
    if (!group.ok() && group.error().errnum() != ENOENT) return group;
  }
  if (controllers.pids && limits.pids) SBX_TRY(write_cgroup_file(leaf, "pids.max", std::to_string(*limits.pids)));
  if (controllers.cpu && limits.cpus_milli) {
    const uint64_t quota = std::max(kLeastQuotaUs, *limits.cpus_milli * kPeriodUs / 1000);
    SBX_TRY(write_cgroup_file(leaf, "cpu.max", std::to_string(quota) + " " + std::to_string(kPeriodUs)));
  }
  if (limits.io_bytes) {
    const std::string bytes = std::to_string(*limits.io_bytes);
    SBX_TRY(write_cgroup_file(leaf, "io.max", limits.io_device + " rbps=" + bytes + " wbps=" + bytes));
  }
  return {};
}

void read_cgroup_counts(int leaf, CgroupCounts& counts) {
  const auto number = [&](const char* file) -> std::optional<uint64_t> {
    const std::optional<std::string> text = read_cgroup_file(leaf, file);
    if (!text) return std::nullopt;
    Result<uint64_t> value = parse_integer(*text);
    if (!value.ok()) return std::nullopt;
    return value.value();
  };
  if (const auto events = read_cgroup_file(leaf, "memory.events")) {
    counts.oom_kills = cgroup_count(*events, "oom_kill").value_or(0);
    counts.memory_refused = cgroup_count(*events, "oom").value_or(0);
    counts.memory_peak = number("memory.peak");  // 5.19
    if (!counts.memory_peak) counts.memory_current = number("memory.current");
  }
  if (const auto events = read_cgroup_file(leaf, "pids.events")) {
    counts.pids_refused = cgroup_count(*events, "max").value_or(0);
    counts.pids_peak = number("pids.peak");  // 6.1
  }
  if (const auto stat = read_cgroup_file(leaf, "cpu.stat")) {
    const auto user = cgroup_count(*stat, "user_usec");
    const auto system = cgroup_count(*stat, "system_usec");
    if (user && system) {
      counts.user_us = static_cast<int64_t>(*user);
      counts.system_us = static_cast<int64_t>(*system);
    }
  }
}

}  // namespace sbx::runtime
