#include "runtime/cgroup_v1.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/sys.h"
#include "base/text.h"

namespace sbx::runtime {
namespace {

constexpr uint64_t kPeriodUs = 100000;
constexpr uint64_t kLeastQuotaUs = 1000;
// v1 tells nobody when a cgroup becomes empty; by the time init has been reaped it is, save for a moment.
constexpr int kRemoveTries = 200;

// The kernel charges in advance, some 64 pages for each CPU: that much may be missing from the limit when it is hit.
constexpr uint64_t kChargeSlack = uint64_t{4} << 20;

std::optional<uint64_t> number(int directory, const char* file) {
  const std::optional<std::string> text = read_cgroup_file(directory, file);
  if (!text) return std::nullopt;
  Result<uint64_t> value = parse_integer(*text);
  if (!value.ok()) return std::nullopt;
  return value.value();
}

}  // namespace

Result<CgroupV1Leaf> CgroupV1Leaf::create(const CgroupV1Tree& tree, const std::string& name) {
  SBX_TRY(sys::mkdirat(tree.directory.get(), name, 0755));
  CgroupV1Leaf leaf(tree.kind, tree.directory.get(), name);
  leaf.leaf_ = SBX_TRY(sys::openat(tree.directory.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  leaf.tasks_ = SBX_TRY(sys::openat(leaf.leaf_.get(), "tasks", O_WRONLY));
  return leaf;
}

CgroupV1Leaf::CgroupV1Leaf(CgroupV1Leaf&& other) noexcept
    : kind_(other.kind_), parent_(std::exchange(other.parent_, -1)), name_(std::move(other.name_)),
      leaf_(std::move(other.leaf_)), tasks_(std::move(other.tasks_)) {}

CgroupV1Leaf::~CgroupV1Leaf() { remove(); }

Status CgroupV1Leaf::set_limits(const CgroupLimits& limits) const { return set_cgroup_v1_limits(leaf_.get(), kind_, limits); }
void CgroupV1Leaf::read_counts(CgroupCounts& counts) const { read_cgroup_v1_counts(leaf_.get(), kind_, counts); }

void CgroupV1Leaf::remove() {
  if (parent_ < 0) return;
  for (int i = 0; i < kRemoveTries; ++i) {
    if (::unlinkat(parent_, name_.c_str(), AT_REMOVEDIR) == 0 || errno != EBUSY) break;
    ::poll(nullptr, 0, i < 20 ? 1 : 10);
  }
  leaf_.reset();
  tasks_.reset();
  parent_ = -1;
}

Status set_cgroup_v1_limits(int leaf, CgroupV1Tree::Kind kind, const CgroupLimits& limits) {
  switch (kind) {
    case CgroupV1Tree::Kind::memory: {
      if (!limits.memory_bytes) return {};
      const std::string bytes = std::to_string(*limits.memory_bytes);
      // In this order: memory and swap together must not be below memory alone.
      SBX_TRY(write_cgroup_file(leaf, "memory.limit_in_bytes", bytes));
      Status swap = write_cgroup_file(leaf, "memory.memsw.limit_in_bytes", bytes);
      // Absent where swap is not accounted (swapaccount=0); then the kernel at least shall not choose to swap.
      if (!swap.ok() && swap.error().errnum() == ENOENT) return write_cgroup_file(leaf, "memory.swappiness", "0");
      return swap;
    }
    case CgroupV1Tree::Kind::pids:
      return limits.pids ? write_cgroup_file(leaf, "pids.max", std::to_string(*limits.pids)) : Status{};
    case CgroupV1Tree::Kind::cpu: {
      if (!limits.cpus_milli) return {};
      const uint64_t quota = std::max(kLeastQuotaUs, *limits.cpus_milli * kPeriodUs / 1000);
      SBX_TRY(write_cgroup_file(leaf, "cpu.cfs_period_us", std::to_string(kPeriodUs)));
      return write_cgroup_file(leaf, "cpu.cfs_quota_us", std::to_string(quota));
    }
  }
  return {};
}

void read_cgroup_v1_counts(int leaf, CgroupV1Tree::Kind kind, CgroupCounts& counts) {
  switch (kind) {
    case CgroupV1Tree::Kind::memory:
      if (const auto control = read_cgroup_file(leaf, "memory.oom_control")) {
        counts.oom_kills = cgroup_count(*control, "oom_kill").value_or(0);
      }
      counts.memory_peak = number(leaf, "memory.max_usage_in_bytes");
      // Whose limit a kill was about: v1 has no event for it, and some kernels leave memory.failcnt at zero.
      if (counts.oom_kills > 0 && counts.memory_peak.value_or(0) + kChargeSlack >= number(leaf, "memory.limit_in_bytes").value_or(0)) {
        counts.memory_refused = counts.oom_kills;
      }
      return;
    case CgroupV1Tree::Kind::pids:
      if (const auto events = read_cgroup_file(leaf, "pids.events")) {
        counts.pids_refused = cgroup_count(*events, "max").value_or(0);
      }
      counts.pids_peak = number(leaf, "pids.peak");
      return;
    case CgroupV1Tree::Kind::cpu: return;
  }
}

}  // namespace sbx::runtime
