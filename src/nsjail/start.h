// From a Jail to a running program: clone3 or, for EXECVE, this very process; the id maps; the cgroup.
#pragma once

#include <sys/types.h>

#include <optional>

#include "base/result.h"
#include "base/unique_fd.h"
#include "nsjail/jail.h"
#include "nsjail/log.h"
#include "runtime/choose_cgroup.h"

namespace sbx::nsjail {

// The program's stdin, stdout and stderr: borrowed descriptors.
struct Streams {
  int fds[3] = {0, 1, 2};
};

// How a program ended.
struct Ending {
  int status = 0;  // exit status, or 128 + signal
  int signal = 0;  // 0: it exited
};

class Running {
 public:
  Running() = default;
  Running(Running&&) = default;
  ~Running();  // kills it and waits for it
  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }
  void send_signal(int signal) const;
  // Waits for the end; the cgroup is gone afterwards.
  Ending wait();

 private:
  friend Result<Running> start(Jail& jail, const Streams& streams, runtime::CgroupParent* cgroups);
  pid_t pid_ = 0;
  UniqueFd pidfd_, hold_write_;
  std::optional<runtime::SandboxCgroup> cgroup_;
};

// Where the jail's cgroups are made; nothing when it wants none. Errors: with the field that asks for what is not there.
Result<std::optional<runtime::CgroupParent>> find_cgroup(const Jail& jail, const Caller& caller);

// Returns when the program has been executed. Errors: what failed, with the origin in the configuration and a hint.
Result<Running> start(Jail& jail, const Streams& streams, runtime::CgroupParent* cgroups);

// This process becomes the program. Comes back only when that failed before anything irrevocable was done; later
// failures are logged by a process that stays behind for it, and end this one.
Error become(Jail& jail, const Streams& streams, const Log& log);

}  // namespace sbx::nsjail
