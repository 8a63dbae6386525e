// probe_host(): the snapshot that resolve() and the engine decide by. Asks the kernel and reads /etc/passwd; no name
// service, which a static binary cannot load.
#include <linux/capability.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <map>

#include "base/sys.h"
#include "base/text.h"
#include "ns/caps.h"
#include "ns/landlock.h"
#include "runtime/request.h"
#include "runtime/uid_lease.h"

namespace sbx::runtime {
namespace {

// People's accounts begin here by default (login.defs UID_MIN); below stand the system's, whose "homes" are
// directories such as /bin.
constexpr uint64_t kFirstPerson = 1000;
constexpr uint64_t kNobody = 65534;

// A range of uids, as an initial namespace or a system container has; a rootless container maps one.
bool can_lease_uids() {
  const Result<std::string> map = read_file("/proc/self/uid_map", 65536);
  // Where it stands but cannot be read (no descriptors, no memory), root is not mapped for want of better knowledge: the
  // engine reads it once more, and says what is wrong.
  if (!map.ok()) return map.error().errnum() != ENOENT;
  return choose_uid_range(map.value()).count != 0;
}

// Links resolved, so that it compares with a canonical mount source; the path itself where that fails.
std::string canonical(const std::string& path) {
  Result<std::string> real = sys::realpath(path);
  return real.ok() ? real.take() : normalize_path(path);
}

}  // namespace

HostFacts probe_host() {
  HostFacts facts;
  facts.uid = ::geteuid();
  facts.gid = ::getegid();
  facts.root_identity = facts.uid == 0 && can_lease_uids();
  if (facts.root_identity) facts.capabilities = ns::effective_capabilities();
  facts.may_clone_trees = ns::has_capability(facts.capabilities, CAP_SYS_ADMIN);
  facts.landlock_abi = ns::landlock_abi();

  // Homes of one machine share few parents; each is resolved once.
  std::map<std::string, std::string> parents;
  Result<std::string> passwd = read_file("/etc/passwd", size_t{8} << 20);
  if (passwd.ok()) {
    const std::string_view text = passwd.value();
    for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
      end = std::min(text.find('\n', begin), text.size());
      // name:password:uid:gid:comment:home:shell
      std::string_view fields[6];
      size_t field = 0;
      for (size_t from = begin, to = 0; field < 6 && from <= end; from = to + 1) {
        to = std::min(text.find(':', from), end);
        fields[field++] = text.substr(from, to - from);
      }
      if (field < 6 || fields[5].empty() || fields[5][0] != '/') continue;
      const Result<uint64_t> uid = parse_integer(fields[2]);
      if (!uid.ok()) continue;
      const bool person = uid.value() == 0 || (uid.value() >= kFirstPerson && uid.value() != kNobody);
      if (!person && uid.value() != facts.uid) continue;
      const std::string home = normalize_path(fields[5]);
      if (uid.value() == facts.uid && facts.home.empty() && home != "/") facts.home = canonical(home);
      if (home == "/" || !person) continue;
      const std::string parent = dir_name(home);
      auto known = parents.find(parent);
      if (known == parents.end()) known = parents.emplace(parent, canonical(parent)).first;
      facts.other_homes.push_back(join_path(known->second, base_name(home)));
    }
  }
  const char* variable = std::getenv("HOME");
  if (variable != nullptr && variable[0] == '/') {
    const std::string home = canonical(variable);
    if (facts.home.empty()) facts.home = home;
    else if (home != facts.home && home != "/") facts.other_homes.push_back(home);
  }
  return facts;
}

}  // namespace sbx::runtime
