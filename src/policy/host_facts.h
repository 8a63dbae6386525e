// What this host allows, as a snapshot taken once: resolve() is a pure function of layers and facts, and is tested
// with made-up ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sbx {

struct HostFacts {
  uint32_t uid = 0;
  uint32_t gid = 0;
  bool root_identity = false;  // uid 0 with a uid map large enough to lease host uids from
  uint64_t capabilities = 0;   // of root_identity: the effective ones
  bool may_clone_trees = false;  // of root_identity: CAP_SYS_ADMIN, which root of a plain container lacks
  int landlock_abi = 0;        // 0: none
  std::string home;            // the caller's home directory (passwd first, then HOME), normalized; may be empty
  std::vector<std::string> other_homes;  // home directories from /etc/passwd, normalized
};

}  // namespace sbx
