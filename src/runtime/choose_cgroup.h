// Which cgroup sandboxes are made in, and what controllers hold their limits there. Tried in this order:
//
//   1. --cgroup-parent PATH: that one, or an error. What lives in it is moved aside into PATH/sbx-sup; giving the flag
//      is the consent to that.
//   2. our own cgroup, where it was delegated to us (a container's own subtree, a service with Delegate=yes) and sbx is
//      the only process in it: sbx moves into a leaf beside the sandboxes ("no internal processes").
//   3. a user: a transient scope from the systemd user manager; sbx moves itself into it.
//   4. root on a host: the directory `sbx` below the root of the v2 tree, which stays.
//   5. root, for controllers that are mounted as v1: leaves below our own cgroups there.
//
// What none of them gives is held by sampling and rlimits. Nothing existing is changed, except that root switches
// controllers on for the children of the v2 root.
//
// begin() asks the user manager and returns; finish() waits for it, so that the rest of the set-up overlaps.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "runtime/cgroup.h"
#include "runtime/cgroup_v1.h"
#include "runtime/user_scope.h"

namespace sbx::runtime {

// Where this process stands in the cgroup trees, in paths of the file system.
struct CgroupView {
  std::string v2_root;  // the mount point; "": no v2 tree is mounted
  std::string v2_own;   // our own cgroup; "": outside of what is mounted
  struct V1 {
    CgroupV1Tree::Kind kind;
    std::string own;    // our own cgroup's directory, or the mount point
  };
  std::vector<V1> v1;
};
// Pure, from the texts of /proc/self/cgroup and /proc/self/mountinfo. Of several mounts the first counts.
CgroupView parse_cgroup_view(std::string_view cgroup, std::string_view mountinfo);
CgroupView look_around();  // this process's

// The leaves of one sandbox: one in the v2 tree, one for each v1 controller. Removed with it.
class SandboxCgroup {
 public:
  // What the kernel holds of the limits; the rest is the supervisor's.
  const Controllers& controllers() const { return controllers_; }
  // The controllers in words: "cgroup v2 memory.max" …; "" where no controller holds it.
  std::string memory_holder() const;
  std::string pids_holder() const;
  std::string cpus_holder() const;
  // For CLONE_INTO_CGROUP; -1: there is no v2 leaf.
  int birth_fd() const { return leaf_ ? leaf_->fd() : -1; }
  // For a child that waits and was not born there.
  Status admit(pid_t pid) const;
  // What the child itself has to write "0" to, to enter v1 cgroups.
  std::vector<int> tasks() const;
  CgroupCounts counts() const;
  bool in_v2() const { return v2_controllers_.any(); }
  bool counts_cpu_time() const { return leaf_.has_value(); }
  void kill() const;
  void remove();

 private:
  friend class CgroupParent;
  std::optional<CgroupLeaf> leaf_;
  std::vector<CgroupV1Leaf> v1_;
  Controllers controllers_, v2_controllers_;
};

// Where leaves are made. Outlives them.
class CgroupParent {
 public:
  CgroupParent() = default;
  CgroupParent(CgroupParent&& other) noexcept;
  CgroupParent& operator=(CgroupParent&&) = delete;
  CgroupParent(const CgroupParent&) = delete;
  CgroupParent& operator=(const CgroupParent&) = delete;
  ~CgroupParent();  // moves us back where we moved ourselves aside

  bool usable() const { return directory_.valid() || !v1_.empty(); }
  Controllers controllers() const { return both(v2_controllers_, v1_controllers_); }
  const std::string& path() const { return path_; }
  // Why a controller is missing, one clause; "" when none is. And what mends it, "" when nothing is known.
  const std::string& reason() const { return reason_; }
  const std::string& remedy() const { return remedy_; }

  // Leaves with these limits. `inner`: CgroupLeaf::create. Errors: with stage "cgroup".
  Result<SandboxCgroup> make(const CgroupLimits& limits, bool inner);

  // Removes what supervisors of this user left that were killed, at the first call; best while the sandbox is busy.
  void reap_stale();

  // Time that was spent on the choice, in microseconds, once: for the first run's result.
  int64_t take_spent_us() { return std::exchange(spent_us_, 0); }

 private:
  friend class CgroupChoice;
  UniqueFd directory_;      // in the v2 tree
  std::string path_;
  Controllers v2_controllers_, v1_controllers_;
  std::vector<CgroupV1Tree> v1_;
  std::string reason_, remedy_;
  std::string moved_from_;  // our own cgroup, when we moved into sbx-sup below it
  unsigned made_ = 0;
  bool reaped_ = false;
  int64_t spent_us_ = 0;
};

struct CgroupWish {
  std::string parent;             // --cgroup-parent; "": choose; "none": no cgroup at all
  std::string runtime_directory;  // XDG_RUNTIME_DIR, or where it would be
  uint32_t uid = 0;
};

class CgroupChoice {
 public:
  static CgroupChoice begin(const CgroupWish& wish);
  static CgroupChoice begin(const CgroupWish& wish, const CgroupView& view);  // for tests
  // Errors: usage for a --cgroup-parent that cannot serve.
  Result<CgroupParent> finish();

 private:
  Status use_named(const std::string& path);
  bool use_own();
  void use_scope();
  void use_root();
  void use_v1();
  Status divide(const std::string& path, bool move_others);
  void lacks(std::string reason, std::string remedy);

  CgroupWish wish_;
  CgroupView view_;
  CgroupParent parent_;
  std::optional<UserScope> scope_;
  std::optional<Error> error_;
};

}  // namespace sbx::runtime
