// One sandbox's leaf in the cgroup v2 tree (Documentation/admin-guide/cgroup-v2.rst): made, limited, read, killed and
// removed. Which directory it is made in is choose_cgroup's business; what v1 controllers hold, cgroup_v1's.
//
// A leaf is worth having even without controllers (a hybrid host's v2 tree): cgroup.kill ends everything inside at
// once, and cpu.stat counts the CPU time of all that ever ran there, whoever waited for it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace sbx::runtime {

// The controllers that the engine makes use of.
struct Controllers {
  bool memory = false;
  bool pids = false;
  bool cpu = false;
  bool any() const { return memory || pids || cpu; }
  bool all() const { return memory && pids && cpu; }
  bool operator==(const Controllers&) const = default;
};
Controllers both(const Controllers& left, const Controllers& right);     // what either has
Controllers without(const Controllers& left, const Controllers& right);  // what only `left` has
std::string names_of(const Controllers& controllers);                    // "memory, pids"
// From the text of cgroup.controllers or cgroup.subtree_control.
Controllers parse_controllers(std::string_view text);

struct CgroupLimits {
  std::optional<uint64_t> memory_bytes;
  std::optional<uint64_t> pids;        // processes and threads, init among them
  std::optional<uint64_t> cpus_milli;  // 1000: one CPU
  std::optional<uint64_t> io_bytes;    // a second, read and written each
  std::string io_device;               // "8:0", the disk that this concerns; a whole one
  std::optional<uint64_t> swap_bytes = 0;  // beside memory_bytes; nullopt: any
  bool all_die = true;                 // memory.oom.group; false: the kernel chooses one, init and its files outlive it
};

// What the kernel counted. nullopt: nobody counts it here.
struct CgroupCounts {
  std::optional<uint64_t> memory_peak;     // bytes
  std::optional<uint64_t> memory_current;
  std::optional<uint64_t> pids_peak;
  std::optional<int64_t> user_us, system_us;
  uint64_t memory_refused = 0;  // times that our own limit was reached and could not be kept by reclaim
  uint64_t oom_kills = 0;       // processes that a memory killer ended, whoever's limit it was
  uint64_t pids_refused = 0;    // forks that the limit refused
  std::optional<int64_t> cpu_us() const {
    if (!user_us || !system_us) return std::nullopt;
    return *user_us + *system_us;
  }
};

// ---- single files of a cgroup directory ------------------------------------------------------------------------

// Opens without creating, so that a file that this kernel lacks is ENOENT.
Status write_cgroup_file(int directory, const char* file, std::string_view text);
// At most `limit` bytes, without the final newline; nullopt when it cannot be read.
std::optional<std::string> read_cgroup_file(int directory, const char* file, size_t limit = 65536);
// The value behind `key` in "key value" lines.
std::optional<uint64_t> cgroup_count(std::string_view text, std::string_view key);

// Switches controllers on for the children of the cgroup `directory`; what it lacks is left alone. Singly, because one
// unknown name fails the whole write, and memory first: pids or cpu in a cgroup that holds processes succeeds and
// spoils it (it turns "domain threaded"), memory is refused (EBUSY). Returns what is on afterwards.
Controllers enable_controllers(int directory, const Controllers& wanted);
// The same for io, which is asked for rarely and would cost every sandbox. The root of the tree is switched on too, where
// it is just above and ours. False: it cannot be had.
bool enable_io_controller(int directory);

// "sbx-PIDNS-PID-STARTED-N": whose leaf it is. A leaf whose supervisor is dead may be removed by anybody who sees the
// same process ids.
Result<std::string> leaf_name(unsigned number);
// True when `name` is a leaf's, of our own pid namespace, and its supervisor surely lives no longer.
bool is_stale_leaf(const std::string& name);
// The names in `directory` for which that holds.
std::vector<std::string> stale_leaves(int directory, unsigned ours);  // `ours`: how many there are of this process

// ---- the leaf --------------------------------------------------------------------------------------------------

class CgroupLeaf {
 public:
  // Makes `name` in `parent` (borrowed until the leaf is gone). `inner`: processes live one level further down, without
  // limits of their own, so that a payload that may make user namespaces and mount its cgroup namespace's tree does
  // not see the files that hold its limits.
  static Result<CgroupLeaf> create(int parent, const std::string& name, bool inner);
  CgroupLeaf(CgroupLeaf&& other) noexcept;
  CgroupLeaf(const CgroupLeaf&) = delete;
  CgroupLeaf& operator=(const CgroupLeaf&) = delete;
  CgroupLeaf& operator=(CgroupLeaf&&) = delete;
  ~CgroupLeaf();  // removes it

  Status set_limits(const CgroupLimits& limits, const Controllers& controllers) const;
  void read_counts(CgroupCounts& counts) const;
  // For CLONE_INTO_CGROUP (5.7).
  int fd() const { return inner_.valid() ? inner_.get() : leaf_.get(); }
  // The other way in, for a process that waits.
  Status admit(pid_t pid) const;
  // Ends everything inside (5.14); where the kernel cannot, nothing happens.
  void kill() const;
  // Kills what is left, waits until the kernel has let go of it (two seconds at most) and removes the directory.
  void remove();

 private:
  CgroupLeaf(int parent, std::string name, UniqueFd leaf) : parent_(parent), name_(std::move(name)), leaf_(std::move(leaf)) {}
  int parent_;  // borrowed
  std::string name_;
  UniqueFd leaf_, inner_;
};

// On the directory of a leaf, by descriptor; for tests too.
Status set_cgroup_limits(int leaf, const CgroupLimits& limits, const Controllers& controllers);
void read_cgroup_counts(int leaf, CgroupCounts& counts);

}  // namespace sbx::runtime
