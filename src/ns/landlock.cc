#include "ns/landlock.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace sbx::ns {
namespace {

// ABI values; headers of Debian 12 end at ABI 2.
constexpr uint64_t kExecute = 1u << 0, kWriteFile = 1u << 1, kReadFile = 1u << 2, kReadDir = 1u << 3;
constexpr uint64_t kAllOfAbi1 = (1u << 13) - 1;
constexpr uint64_t kRefer = 1u << 13;     // ABI 2, 5.19
constexpr uint64_t kTruncate = 1u << 14;  // ABI 3, 6.2
constexpr uint64_t kIoctlDev = 1u << 15;  // ABI 5, 6.10
constexpr uint64_t kResolveUnix = 1u << 16;  // ABI 9
constexpr uint64_t kScopeAbstractUnix = 1u << 0, kScopeSignal = 1u << 1;  // ABI 6, 6.12

struct RulesetAttr {
  uint64_t handled_access_fs;
  uint64_t handled_access_net;
  uint64_t scoped;
};

}  // namespace

uint64_t landlock_handled_rights(int abi) {
  uint64_t rights = kAllOfAbi1;
  if (abi >= 2) rights |= kRefer;
  if (abi >= 3) rights |= kTruncate;
  if (abi >= 5) rights |= kIoctlDev;
  if (abi >= 9) rights |= kResolveUnix;
  return rights;
}

int landlock_abi() {
  const long version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, 1 /* LANDLOCK_CREATE_RULESET_VERSION */);
  return version > 0 ? static_cast<int>(version) : 0;
}

Result<LandlockPlan> plan_landlock(int abi, const std::vector<std::string>& writable,
                                   const std::vector<std::string>& with_sockets) {
  RulesetAttr attr{landlock_handled_rights(abi), 0, abi >= 6 ? kScopeAbstractUnix | kScopeSignal : 0};
  // The kernel takes a shorter structure, but refuses (E2BIG) a longer one than it knows.
  const size_t size = abi >= 6 ? sizeof attr : sizeof attr.handled_access_fs;
  const long fd = ::syscall(SYS_landlock_create_ruleset, &attr, size, 0);
  if (fd < 0) return Error::from_errno(errno, "create a Landlock ruleset");
  LandlockPlan plan;
  plan.ruleset.reset(static_cast<int>(fd));
  plan.rules.push_back({"/", kExecute | kReadFile | kReadDir, false});
  // Files of /proc such as /proc/self/comm are written by ordinary programs; which ones may be is procfs's business.
  if (std::find(writable.begin(), writable.end(), "/proc") == writable.end()) {
    plan.rules.push_back({"/proc", (kWriteFile | kTruncate) & attr.handled_access_fs, true});
  }
  // Sockets that the payload made itself need no rule. Those of the host that lie in a shared directory are closed even
  // where the directory is writable.
  for (const std::string& path : writable) plan.rules.push_back({path, attr.handled_access_fs & ~kResolveUnix, true});
  if (abi >= 9) {
    for (const std::string& path : with_sockets) plan.rules.push_back({path, kResolveUnix, true});
  }
  return plan;
}

}  // namespace sbx::ns
