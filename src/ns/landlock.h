// Landlock over the mount view: reading and executing everywhere, writing only in the writable places. It also stands
// between the payload and files that it holds open but that lie outside its view.
// Source: Documentation/userspace-api/landlock.rst; rights above the kernel's ABI make create_ruleset EINVAL, so they
// are masked by it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace sbx::ns {

// The kernel's ABI version, 0 without Landlock (not built in, or switched off at boot).
int landlock_abi();

struct LandlockPathRule {
  std::string path;
  uint64_t rights = 0;
  bool may_be_missing = false;
};

struct LandlockPlan {
  UniqueFd ruleset;
  std::vector<LandlockPathRule> rules;
};

// What a ruleset of this ABI decides about files: everything that the ABI knows.
uint64_t landlock_handled_rights(int abi);

// REQUIRES abi >= 1. Paths inside the sandbox; a missing one is skipped. `with_sockets`: where sockets that the host's
// programs listen on may be connected to, which ABI 9 can tell apart; before it, any socket that is seen may be.
Result<LandlockPlan> plan_landlock(int abi, const std::vector<std::string>& writable,
                                   const std::vector<std::string>& with_sockets);

}  // namespace sbx::ns
