#include "ns/caps.h"

#include <sys/capability.h>
#include <sys/prctl.h>

#include <cctype>
#include <cerrno>

#include "base/text.h"

namespace sbx::ns {

Result<uint64_t> capability_mask(const std::vector<std::string>& names) {
  uint64_t mask = 0;
  for (const std::string& name : names) {
    std::string lower;
    for (const char c : name) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (!starts_with(lower, "cap_")) lower = "cap_" + lower;
    cap_value_t value = 0;
    if (::cap_from_name(lower.c_str(), &value) != 0) {
      return Error(ErrorKind::policy, "unknown capability '" + printable(name) + "'");
    }
    mask |= uint64_t{1} << value;
  }
  return mask;
}

uint64_t effective_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  if (::capget(&header, data) != 0) return 0;
  return uint64_t{data[1].effective} << 32 | data[0].effective;
}

uint32_t last_capability() {
  // PR_CAPBSET_READ answers EINVAL beyond the last one; search from the one that is the newest since 5.9. Whatever else
  // it answers (a filter around us), the capability is there, and the child's dropping it says so.
  const auto exists = [](uint32_t capability) { return ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0 || errno != EINVAL; };
  uint32_t last = 40;
  while (last < 63 && exists(last + 1)) ++last;
  while (last > 0 && !exists(last)) --last;
  return last;
}

}  // namespace sbx::ns
