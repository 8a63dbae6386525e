// SandboxSpec to ChildPlan: every path, option string, mask and descriptor that the child will need.
//
// Two ways to bring a host tree inside. As an ordinary user the child reopens each
// source inside its new mount namespace and compares device and inode with what was seen here. As root this code
// clones each source into a detached mount (idmapped where the operation asks for it) and the child only attaches
// it: after it has changed identity it could not open them.
#pragma once

#include <linux/filter.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "ns/plan.h"
#include "policy/host_facts.h"
#include "policy/spec.h"

namespace sbx::ns {

// Why a plan could not be made: the file system of an operation's source cannot be idmapped (overlay, tmpfs before 6.3,
// NFS …). The caller may know another way: another host identity, or a tree of its own in PlanOptions::trees.
struct IdMapRefusal {
  size_t op = 0;  // index in spec.fs
  uint32_t owner_uid = 0, owner_gid = 0;
  uint32_t mode = 0;  // of the source itself
};

struct PlanOptions {
  bool leased = false;          // the root case: host_uid is not the caller's own
  bool detached_trees = false;  // the caller clones the sources: root with CAP_SYS_ADMIN
  uint32_t host_uid = 0;        // what spec.identity is mapped to
  uint32_t host_gid = 0;
  std::span<const sock_filter> filter;  // borrowed until the child has exec'ed; empty: none
  std::span<const sock_filter> reporting_filter;  // likewise; see ChildPlan
  std::array<uint64_t, 3> start_key{};  // see ChildPlan::start_path; zeros: none
  std::vector<std::string> keep;        // targets of PrivateDirOp or OverlayOp: descriptors for the supervisor
  bool keep_root = false;               // for a sandbox that outlives its programs: a descriptor of the new root in kRootSlot
  bool terminal = false;
  bool pids_controller = false;  // a cgroup counts processes: no RLIMIT_NPROC, which would refuse first and uncounted
  bool show_cgroup = false;      // mount our own cgroup at /sys/fs/cgroup, for runtimes that size themselves by it
  bool cpu_controller = false;   // a cgroup holds fractions of a CPU
  std::map<size_t, int> trees;  // by index in spec.fs: detached trees to use instead of the source; borrowed
  std::set<size_t> unmapped;    // by index in spec.fs: binds to be shown without a map, as a stranger sees them
  std::optional<IdMapRefusal>* refusal = nullptr;  // filled in when build_plan fails for it
  TerminalSetup terminal_setup;
  uint64_t data_limit = 0;      // RLIMIT_DATA in bytes, 0: none (the backstop of sampling)
  bool must_have_keyring = false;  // the payload may call keyctl
};

// The paths that a command may mean, in the order in which they are tried: itself, or its name in the PATH of
// `environment`.
std::vector<std::string> program_candidates(const std::string& exec_path, const std::vector<std::string>& environment);

// Texts that live as long as it does, one behind the other: a plan has some three hundred short ones.
class KeptText {
 public:
  const char* keep(std::string_view text);

 private:
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* next_ = nullptr;
  size_t left_ = 0;
};

class PlannedChild {
 public:
  ChildPlan plan;  // pointers lead into this object, and to the contents of the spec's files

  // "bind '/usr' on '/usr'", with the origin where it has one; for errors of Stage::mounts.
  std::string step_text(uint32_t step) const;
  std::string step_origin(uint32_t step) const;
  // One line a step, without descriptors' numbers: for golden tests.
  std::string text() const;
  // The supervisor's own descriptors of the trees, once the child has its copies.
  void close_trees() { trees_.clear(); }
  // Slot in the hand-over of keep[i]; slot 0 is /proc; -1: not there.
  std::vector<int> keep_slots;
  int landlock_abi = 0;
  std::vector<std::string> notes;  // what was left out or weakened, one sentence each

 private:
  friend class PlanBuilder;
  KeptText text_;
  std::vector<Step> steps_;
  // What a step belongs to. Its text is put together when it is asked for: when the step has failed.
  struct Op {
    const char *verb, *place, *source, *origin;
  };
  std::vector<Op> ops_;
  std::vector<UniqueFd> trees_;
  std::vector<RlimitSetting> rlimits_;
  std::vector<unsigned long> affinity_;
  std::vector<LandlockRule> landlock_rules_;
  UniqueFd landlock_ruleset_;
  sock_fprog filter_{}, reporting_filter_{};
  std::vector<const char*> candidates_, argv_, envp_;
};

// Errors: usage or policy (with origin) for a source that is missing or a target that cannot be made; unsupported for
// a fraction of a CPU without a cgroup or a file system that refuses idmapping; resource.
Result<std::unique_ptr<PlannedChild>> build_plan(const SandboxSpec& spec, const HostFacts& facts,
                                                 const PlanOptions& options);

}  // namespace sbx::ns
