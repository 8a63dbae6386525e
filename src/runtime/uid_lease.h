// A host uid of its own for each sandbox of a root caller, so that two sandboxes share no process limit, no signal and
// no ptrace.
//
// The uids come from a range outside passwd, subuid, systemd's and nspawn's (systemd.io/UIDS-GIDS, 2026: from
// 1879048192 on nothing is assigned below 2147352576), clipped to the caller's own uid map. A lease is a lock on one
// byte of a file in /run/sbx (open file description lock, fcntl(2)): it ends with the last process that holds the
// descriptor, however that died, so nothing has to be cleaned up.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace sbx::runtime {

struct UidLease {
  uint32_t uid = 0;  // and gid
  UniqueFd lock;
};

struct UidRange {
  uint32_t first = 0;
  uint32_t count = 0;  // 0: none to be had
};

// The range to lease from, given the text of /proc/self/uid_map; pure.
UidRange choose_uid_range(const std::string& uid_map);

// Errors: resource when all are taken; permission or system when the lock file cannot be made.
Result<UidLease> lease_uid(const UidRange& range, const std::string& lock_directory = "/run/sbx");

}  // namespace sbx::runtime
