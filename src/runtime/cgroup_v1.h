// One sandbox's leaves in cgroup v1 hierarchies, for root on hosts that still mount them: memory, pids and cpu, each
// in its own tree. The child enters by itself, through descriptors of the files `tasks` that are opened here (v1 knows no
// birth in a cgroup, and moving another process by cgroup.procs waits for an RCU grace period). Nothing here kills
// or waits, which the v2 leaf of a hybrid host and the death of init do.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "runtime/cgroup.h"

namespace sbx::runtime {

// Where a controller's leaves are made: our own cgroup in its hierarchy, so that limits around us keep holding.
struct CgroupV1Tree {
  enum class Kind { memory, pids, cpu };
  Kind kind = Kind::memory;
  UniqueFd directory;
};

class CgroupV1Leaf {
 public:
  static Result<CgroupV1Leaf> create(const CgroupV1Tree& tree, const std::string& name);  // `tree` borrowed
  CgroupV1Leaf(CgroupV1Leaf&& other) noexcept;
  CgroupV1Leaf(const CgroupV1Leaf&) = delete;
  CgroupV1Leaf& operator=(const CgroupV1Leaf&) = delete;
  CgroupV1Leaf& operator=(CgroupV1Leaf&&) = delete;
  ~CgroupV1Leaf();  // removes it

  Status set_limits(const CgroupLimits& limits) const;
  // The file that the child writes "0" to. The right to do so was checked when it was opened.
  int tasks() const { return tasks_.get(); }
  void read_counts(CgroupCounts& counts) const;
  void remove();

 private:
  CgroupV1Leaf(CgroupV1Tree::Kind kind, int parent, std::string name) : kind_(kind), parent_(parent), name_(std::move(name)) {}
  CgroupV1Tree::Kind kind_;
  int parent_;  // borrowed
  std::string name_;
  UniqueFd leaf_, tasks_;
};

// On the directory of a leaf, by descriptor; for tests too.
Status set_cgroup_v1_limits(int leaf, CgroupV1Tree::Kind kind, const CgroupLimits& limits);
void read_cgroup_v1_counts(int leaf, CgroupV1Tree::Kind kind, CgroupCounts& counts);

}  // namespace sbx::runtime
