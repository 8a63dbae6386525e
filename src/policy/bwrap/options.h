// The command line of bubblewrap 0.12.0 as data: what was asked for, in the order in which it counts, nothing carried out.
//
// parse.h makes it; bwrap/run.h carries it out. Descriptors are numbers that the caller of bwrap gave: borrowed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sbx::bwrap {

enum class OperationKind {
  bind,         // --bind, --ro-bind, --dev-bind, their -try forms, --bind-fd, --ro-bind-fd
  overlay,      // --overlay: source is RWSRC, work is WORKDIR
  tmp_overlay,
  ro_overlay,
  proc,
  dev,
  tmpfs,        // perms, size
  mqueue,
  dir,          // perms
  file,         // fd, perms
  data,         // --bind-data, --ro-bind-data: fd, perms
  symlink,      // source is what the link says
  remount_ro,
  hostname,     // dest is the name
  chmod,        // perms
};

enum class Access { read_write, read_only, devices };

// One step of the set-up. Steps are carried out in the order given.
struct Operation {
  OperationKind kind = OperationKind::dir;
  std::string option;               // as it was spelled: "--ro-bind-try"
  std::string source;
  std::string dest;
  std::string work;
  std::vector<std::string> lower;   // --overlay-src, as given: the first is the lowest layer
  Access access = Access::read_write;  // bind, data
  bool may_be_missing = false;      // a source that does not exist (ENOENT) is passed over
  int fd = -1;                      // bind-fd, file, data
  int perms = -1;                   // -1: none were given and the operation has none of its own
  uint64_t size = 0;                // 0: the kernel's default
};

struct EnvironmentChange {
  enum class Kind { clear, set, unset } kind = Kind::clear;
  std::string name, value;
};

struct CapabilityChange {
  bool add = false;
  uint64_t mask = 0;  // bit N is capability N; ALL is every bit
};

struct Options {
  std::vector<Operation> operations;
  std::vector<EnvironmentChange> environment;  // in order
  std::vector<CapabilityChange> capabilities;  // in order, upon what the caller begins with
  std::vector<std::string> lock_files;
  std::vector<std::string> filters;  // --add-seccomp-fd: each an array of sock_filter, whole

  bool unshare_user = false, unshare_user_try = false;
  bool unshare_ipc = false, unshare_pid = false, unshare_net = false, unshare_uts = false;
  bool unshare_cgroup = false, unshare_cgroup_try = false;
  bool disable_userns = false, assert_userns_disabled = false;
  bool new_session = false, die_with_parent = false, as_pid_1 = false;
  bool not_a_security_boundary = false;
  bool level_prefix = false;  // messages after the parse have it

  std::optional<std::string> argv0, chdir, hostname;
  std::optional<uint32_t> uid, gid;
  int userns_fd = -1, userns2_fd = -1, pidns_fd = -1;
  int sync_fd = -1, block_fd = -1, userns_block_fd = -1;
  int info_fd = -1, json_status_fd = -1;
  int filter_fd = -1;  // --seccomp

  std::vector<std::string> command;  // COMMAND and its arguments
};

}  // namespace sbx::bwrap
