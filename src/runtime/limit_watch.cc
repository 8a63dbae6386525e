#include "runtime/limit_watch.h"

#include <algorithm>

#include "base/sys.h"
#include "base/text.h"

namespace sbx::runtime {
namespace {

constexpr uint64_t kExactSliceNs = 50000000;  // of a closer look at the memory; longer ones go on in the next look

std::optional<int64_t> since(const std::optional<int64_t>& now, const std::optional<int64_t>& before) {
  if (!now) return now;
  return *now - before.value_or(0);
}

}  // namespace

void LimitWatch::start(int proc, int space) {
  space_ = space;
  if (sample_memory_) host_shared_before_ = host_shared_bytes();
  sampler_.emplace(proc, sample_memory_);
}

void LimitWatch::begin_anew() {
  if (cgroup_ != nullptr) before_ = cgroup_->counts();
  if (sampler_) tree_cpu_before_us_ = tree_cpu_us_ = sampler_->look().cpu_us;
  hits_.clear();
  counts_ = {};
  peak_bytes_ = peak_threads_ = current_peak_ = 0;
  sampled_ = oom_seen_ = pids_full_ = false;
}

void LimitWatch::begin_cpu_anew() {
  if (cgroup_ != nullptr) {
    const CgroupCounts counts = cgroup_->counts();
    before_.user_us = counts.user_us;
    before_.system_us = counts.system_us;
  }
  if (sampler_) tree_cpu_before_us_ = tree_cpu_us_ = sampler_->look().cpu_us;
}

bool LimitWatch::must_sample() const {
  return sample_memory_ || (limits_.pids && !held().pids) || (limits_.cpu_time && !cgroup_counts_cpu());
}

CgroupCounts LimitWatch::read_counts() const {
  CgroupCounts counts = cgroup_->counts();
  counts.user_us = since(counts.user_us, before_.user_us);
  counts.system_us = since(counts.system_us, before_.system_us);
  counts.memory_refused -= std::min(counts.memory_refused, before_.memory_refused);
  counts.oom_kills -= std::min(counts.oom_kills, before_.oom_kills);
  counts.pids_refused -= std::min(counts.pids_refused, before_.pids_refused);
  return counts;
}

bool LimitWatch::over_cpu_time(std::optional<int64_t> cpu_us) const {
  return limits_.cpu_time && cpu_us && *cpu_us >= limits_.cpu_time->value * 1000;
}

std::optional<int64_t> LimitWatch::cpu_us() const {
  if (cgroup_counts_cpu()) return read_counts().cpu_us();
  if (!sampled_) return std::nullopt;
  return tree_cpu_us_ - tree_cpu_before_us_;
}

void LimitWatch::hit(const char* name, const char* key, std::string value, const char* enforced_by, uint64_t count) {
  for (LimitHit& known : hits_) {
    if (known.name == name) {
      known.count += count;
      return;
    }
  }
  const auto found = spec_.origins.find(key);
  hits_.push_back({name, std::move(value), found == spec_.origins.end() ? "" : found->second, enforced_by, count});
}

uint64_t LimitWatch::look_at_disk() {
  if (space_ < 0) return 0;
  const SpaceLook space = look_at_space(space_);
  if (space.bytes_exhausted && !disk_full_) hit("disk", "limits.disk", format_size(limits_.disk), "tmpfs");
  disk_full_ = space.bytes_exhausted;
  if (space.inodes_exhausted && !inodes_full_) hit("inodes", "limits.inodes", std::to_string(limits_.inodes), "tmpfs");
  inodes_full_ = space.inodes_exhausted;
  return space.used_bytes;
}

std::optional<Verdict> LimitWatch::look(bool dying) {
  if (!sampler_) return std::nullopt;
  const uint64_t disk = look_at_disk();
  if (cgroup_ != nullptr) {
    if (const std::optional<Verdict> verdict = look_at_cgroup(dying)) return verdict;
  }
  return must_sample() ? look_at_tree(disk) : std::nullopt;
}

std::optional<Verdict> LimitWatch::look_at_cgroup(bool dying) {
  const CgroupCounts counts = read_counts();
  current_peak_ = std::max(current_peak_, counts.memory_current.value_or(0));
  if (counts.oom_kills > 0) {
    // With memory.oom.group all are dead already; v1 has killed one of them.
    judge_oom(counts);
    return Verdict::out_of_memory;
  }
  if (!over_cpu_time(counts.cpu_us())) return std::nullopt;
  if (!dying) hit("cpu_time", "limits.cpu_time", format_duration(*limits_.cpu_time), "cgroup");
  return Verdict::cpu_time;
}

void LimitWatch::judge_oom(const CgroupCounts& counts) {
  if (oom_seen_) return;
  oom_seen_ = true;
  // Somebody else's limit, the host's or that of a cgroup around us, is no limit of this run.
  if (limits_.memory && counts.memory_refused > 0) hit("memory", "limits.memory", format_size(*limits_.memory), "cgroup");
}

std::optional<Verdict> LimitWatch::look_at_tree(uint64_t disk) {
  const TreeLook tree = sampler_->look();
  sampled_ = true;
  tree_cpu_us_ = tree.cpu_us;
  peak_threads_ = std::max(peak_threads_, tree.threads);
  if (limits_.pids && !held().pids && tree.threads >= *limits_.pids) {
    if (!pids_full_) hit("pids", "limits.pids", std::to_string(*limits_.pids), "rlimit");
    pids_full_ = true;
  } else {
    pids_full_ = false;
  }
  if (!cgroup_counts_cpu() && over_cpu_time(tree.cpu_us - tree_cpu_before_us_)) {
    hit("cpu_time", "limits.cpu_time", format_duration(*limits_.cpu_time), "sampling");
    return Verdict::cpu_time;
  }
  std::optional<Verdict> verdict;
  if (sample_memory_) verdict = judge_memory(tree, disk);
  peak_bytes_ = std::max(peak_bytes_, tree.resident_bytes + disk);
  return verdict;
}

// Resident pages that processes share count once for each of them, and shared pages that nobody has mapped in count
// for none: look closer before judging, and after an acquittal only as often as it costs less than a tenth of the
// time. Where what processes have taken for themselves is too much already nothing closer is needed: two hundred that grow at
// once leave the supervisor little of the CPUs for it.
std::optional<Verdict> LimitWatch::judge_memory(const TreeLook& tree, uint64_t disk) {
  const uint64_t limit = limits_.memory->value;
  const uint64_t host = host_shared_bytes();
  const uint64_t grown = host > host_shared_before_ + disk ? host - host_shared_before_ - disk : 0;
  if (tree.resident_bytes + disk + grown <= limit) {
    sampler_->abandon_exact();
    return std::nullopt;
  }
  if (const uint64_t grown_private = sampler_->grown_bytes(); grown_private + disk > limit) return over_memory(grown_private + disk);
  const uint64_t now = sys::monotonic_ns();
  if (now < next_exact_ns_) return std::nullopt;
  const std::optional<TreeSampler::Exact> judged = sampler_->exact(kExactSliceNs);
  if (!judged) {
    next_exact_ns_ = now + kExactSliceNs * 2;
    return std::nullopt;
  }
  const TreeSampler::Exact& exact = *judged;
  // Others' shared memory grows too; the payload's is bounded by what it has mapped.
  const uint64_t unseen = grown > exact.shared_bytes ? std::min(grown, sampler_->shared_bytes()) : 0;
  const uint64_t bytes = exact.private_bytes + std::max(exact.shared_bytes, unseen) + disk;
  next_exact_ns_ = now + std::min<uint64_t>((sys::monotonic_ns() - now) * 10, 200000000u);
  return bytes <= limit ? std::nullopt : over_memory(bytes);
}

std::optional<Verdict> LimitWatch::over_memory(uint64_t bytes) {
  peak_bytes_ = std::max(peak_bytes_, bytes);
  hit("memory", "limits.memory", format_size(*limits_.memory), "sampling");
  return Verdict::out_of_memory;
}

std::optional<Verdict> LimitWatch::settle(const struct rusage& usage, bool forced, bool signaled) {
  std::optional<Verdict> verdict;
  const uint64_t disk = look_at_disk();
  peak_bytes_ = std::max({peak_bytes_, disk, static_cast<uint64_t>(usage.ru_maxrss) * 1024});
  const int64_t cpu_us = usage.ru_utime.tv_sec * 1000000 + usage.ru_utime.tv_usec + usage.ru_stime.tv_sec * 1000000 +
                         usage.ru_stime.tv_usec;
  // A process that RLIMIT_CPU stopped, or the last look came too late.
  if (!cgroup_counts_cpu() && !forced && over_cpu_time(cpu_us)) {
    hit("cpu_time", "limits.cpu_time", format_duration(*limits_.cpu_time), "rlimit");
    if (signaled) verdict = Verdict::cpu_time;
  }
  if (cgroup_ == nullptr) return verdict;
  counts_ = read_counts();
  if (!counts_.memory_peak && current_peak_ > 0) counts_.memory_current = current_peak_;
  if (counts_.oom_kills > 0 && !oom_seen_) {
    judge_oom(counts_);
    if (!verdict) verdict = Verdict::out_of_memory;
  }
  if (limits_.pids && counts_.pids_refused > 0) {
    hit("pids", "limits.pids", std::to_string(*limits_.pids), "cgroup", counts_.pids_refused);
    before_.pids_refused += counts_.pids_refused;  // told: not once more, where the watch goes on
  }
  if (!forced && !verdict && over_cpu_time(counts_.cpu_us())) {
    hit("cpu_time", "limits.cpu_time", format_duration(*limits_.cpu_time), "cgroup");
    if (signaled) verdict = Verdict::cpu_time;
  }
  return verdict;
}

}  // namespace sbx::runtime
