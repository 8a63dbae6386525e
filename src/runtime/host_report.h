// What this host gives a sandbox, each need tried in a throw-away child: the facts behind `sbx doctor`, errno by errno.
// What they mean is doctor.h's business, a pure function that is tested with made-up reports.
//
// Trying leaves nothing behind: children are waited for, cgroups made are removed at once, mounts lie in namespaces
// that die with their child. Besides, root takes a uid lease for the time of it, as a run does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policy/host_facts.h"
#include "runtime/mending.h"
#include "runtime/request.h"

namespace sbx::runtime {

struct Tried {
  bool tried = false;
  int errnum = 0;
  bool worked() const { return tried && errnum == 0; }
  bool failed() const { return tried && errnum != 0; }
  static Tried ok() { return {true, 0}; }
  static Tried no(int errnum) { return {true, errnum}; }
};

struct HostReport {
  // ---- who and where
  std::string kernel;        // uname release
  std::string arch;
  uint32_t uid = 0;
  uint64_t mapped_uids = 0;  // uids in our own user namespace
  bool root_identity = false;  // the engine leases host uids
  bool may_clone_trees = false;  // and has CAP_SYS_ADMIN
  NamespaceKnobs knobs;      // with the container's name
  bool wsl = false;
  bool gvisor = false;
  bool inside_sbx = false;
  int seccomp_mode = 0;      // of ourselves: 2, a filter lies on us already
  bool no_new_privs_set = false;

  // ---- namespaces: one made alone, then each other kind with it, then what a child in all of them may do
  Tried user_namespace, mount_namespace, pid_namespace, ipc_namespace, uts_namespace, net_namespace, cgroup_namespace;
  Tried id_map;
  Tried capability;          // sethostname(2) inside: the namespace comes with its capabilities
  Tried private_mounts;      // MS_REC|MS_PRIVATE on /
  Tried tmpfs, proc, open_tree, mount_setattr, move_mount, tmpfs_xattr, overlay, pty, loopback, close_nested;

  // ---- what the payload's process takes on
  Tried no_new_privs, seccomp, listener, wait_killable, landlock;
  int landlock_abi = 0;
  std::string lsm;           // /sys/kernel/security/lsm

  // ---- root's
  Tried uid_lease, idmap;
  std::string working_directory;
  std::string file_system;   // of it: "ext4", or a number in hex

  // ---- limits
  std::string v2_mount;      // "": no cgroup v2
  std::string v2_own;        // our own cgroup's directory in it
  std::string delegated;     // where sandboxes' cgroups can be made; "": nowhere
  Tried make_cgroup;         // mkdir there, or why not in the last place that was tried
  std::vector<std::string> v2_controllers;         // that `delegated` has
  std::vector<std::pair<std::string, Tried>> v1;   // memory, pids, cpu mounted as v1, and a mkdir there
  std::vector<std::string> v1_controllers;         // that the host has as v1, seen here or not
  std::string manager_socket;
  Tried user_manager;        // connect(2) to it

  // ---- the rest
  std::optional<std::string> core_pattern;
  std::string temporary_directory;
  Tried temporary;           // a file without a name in it
  uint64_t temporary_free = 0;  // bytes
  std::vector<LanguageStatus> languages;
  std::string languages_problem;

  // ---- a real run of `true`
  bool ran = false;          // it was tried
  bool run_ok = false;
  std::string run_problem, run_hint;
  int64_t run_us = 0;        // the second of two runs, set-up and end included
  std::vector<std::pair<std::string, std::string>> limits_held_by;  // {"memory", "cgroup v2 memory.max"}
  std::vector<std::string> not_held;
};

// Cheap: whether this process is inside a sandbox of ours, where no second one can be made.
bool is_inside_sbx();

// Tries everything; some 50 ms, and the first time as long as the languages take to tell their versions.
HostReport probe_report(const HostFacts& facts, const Observer& observer);

}  // namespace sbx::runtime
