// Limits that somebody has to look at: memory, processes, CPU time and disk of one sandbox, from its cgroup's counters
// where there are some and from its process tree where not. It looks and judges; ending the sandbox is the caller's.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "policy/spec.h"
#include "runtime/choose_cgroup.h"
#include "runtime/outcome.h"
#include "runtime/sampler.h"

namespace sbx::runtime {

class LimitWatch {
 public:
  // The longest time between two looks (design section 6), and the time of the first.
  static constexpr int64_t kLookMs = 20;
  static constexpr int64_t kFirstLookMs = 5;

  // Borrowed, all of it. `cgroup` nullptr: everything by looking at the tree. `sample_memory`: no controller holds it.
  LimitWatch(const SandboxSpec& spec, const SandboxCgroup* cgroup, bool sample_memory)
      : spec_(spec), limits_(spec.limits), cgroup_(cgroup), sample_memory_(sample_memory) {}

  // `proc`: the sandbox's /proc; `space`: a directory on its private tmpfs, -1: none. Before this a look sees nothing.
  void start(int proc, int space);
  bool has_limits() const { return limits_.cpu_time || limits_.memory || limits_.pids; }
  // What was counted so far belongs to somebody before: the next program of a sandbox that lives longer than one.
  void begin_anew();
  // Of the CPU time alone: the next program begins while another one goes on.
  void begin_cpu_anew();

  // Why the sandbox has to end now. `dying`: it is being ended, whatever this finds.
  std::optional<Verdict> look(bool dying);
  // The last words, when nothing of it lives any more; `usage` is that of all that init reaped. `forced`: why it was
  // ended; `signaled`: the payload ended by a signal. What comes back takes the place of a missing `forced`.
  std::optional<Verdict> settle(const struct rusage& usage, bool forced, bool signaled);
  // What a look tells of the processes: for usage. 0 where nobody looked.
  std::optional<int64_t> cpu_us() const;

  void hit(const char* name, const char* key, std::string value, const char* enforced_by, uint64_t count = 1);
  std::vector<LimitHit> take_hits() { return std::exchange(hits_, {}); }
  const CgroupCounts& counts() const { return counts_; }
  uint64_t peak_bytes() const { return peak_bytes_; }
  uint64_t peak_threads() const { return peak_threads_; }
  bool sampled() const { return sampled_; }

 private:
  Controllers held() const { return cgroup_ != nullptr ? cgroup_->controllers() : Controllers{}; }
  bool cgroup_counts_cpu() const { return cgroup_ != nullptr && cgroup_->counts_cpu_time(); }
  bool must_sample() const;
  CgroupCounts read_counts() const;
  bool over_cpu_time(std::optional<int64_t> cpu_us) const;
  uint64_t look_at_disk();
  std::optional<Verdict> look_at_cgroup(bool dying);
  void judge_oom(const CgroupCounts& counts);
  std::optional<Verdict> look_at_tree(uint64_t disk);
  std::optional<Verdict> judge_memory(const TreeLook& tree, uint64_t disk);
  std::optional<Verdict> over_memory(uint64_t bytes);

  const SandboxSpec& spec_;
  const Limits& limits_;
  const SandboxCgroup* cgroup_;
  bool sample_memory_;
  int space_ = -1;
  std::optional<TreeSampler> sampler_;
  std::vector<LimitHit> hits_;
  CgroupCounts counts_, before_;
  int64_t tree_cpu_us_ = 0, tree_cpu_before_us_ = 0;
  uint64_t peak_bytes_ = 0;
  uint64_t peak_threads_ = 0;
  bool sampled_ = false;
  bool oom_seen_ = false;
  uint64_t current_peak_ = 0;  // where the kernel keeps no memory.peak
  bool disk_full_ = false, inodes_full_ = false, pids_full_ = false;
  uint64_t next_exact_ns_ = 0;
  uint64_t host_shared_before_ = 0;
};

}  // namespace sbx::runtime
