// A configuration, looked at together with the caller and the host, to what starting it takes: the plan of the child,
// the id maps, the cgroup's limits. Made once; a listener starts it for each connection.
#pragma once

#include <linux/filter.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "ns/plan.h"
#include "policy/nsjail/flags.h"
#include "runtime/cgroup.h"

namespace sbx::nsjail {

// What of the caller decides. environment: "K=V".
struct Caller {
  uint32_t uid = 0, gid = 0, euid = 0;
  uint64_t capabilities = 0;
  uint32_t umask = 022;
  std::string directory;  // working directory
  std::vector<std::string> environment;
  static Result<Caller> now();
};

struct IdRange {
  uint32_t inside = 0, outside = 0, count = 1;
  bool helper = false;  // newuidmap, newgidmap
};

class Jail {
 public:
  // Errors: of any kind, with the field's or flag's origin where one is at fault.
  static Result<std::unique_ptr<Jail>> build(const CommandLine& line, const Caller& caller);

  ns::ChildPlan plan;    // pointers lead into this object
  ns::DirectPlan direct;
  uint64_t clone_flags = 0;
  std::vector<IdRange> uids, gids;
  std::optional<runtime::CgroupLimits> cgroup;  // nothing: no limit by a cgroup is asked for
  std::string cgroup_parent;                    // "": where there is one
  std::string cgroup_origin;
  std::vector<std::pair<int, uint64_t>> raised_limits;  // hard limits that root has to raise for itself before
  std::vector<std::string> notes;     // said at level I
  std::vector<std::string> warnings;  // at level W
  std::vector<std::string> described_mounts;
  std::string exec_path;
  bool silent_streams[3] = {};  // /dev/null

  // What step `index` of the plan was to do, and who asked for it.
  std::string step_text(uint32_t index) const;
  std::string step_origin(uint32_t index) const;
  // Which rlimit, capability … `index` is, and who asked for it.
  std::string rlimit_name(uint32_t index) const;
  std::string rlimit_origin(uint32_t index) const;

 private:
  friend class JailBuilder;
  std::deque<std::string> strings_;
  std::vector<ns::Step> steps_;
  std::vector<std::pair<std::string, std::string>> operations_;  // text and origin
  std::vector<ns::RlimitSetting> rlimits_;
  std::vector<std::pair<std::string, std::string>> rlimit_names_;  // name and origin
  std::vector<unsigned long> affinity_;
  std::vector<uint32_t> groups_;
  std::vector<int> pass_;
  std::vector<const char*> argv_, envp_, candidates_;
  std::vector<sock_filter> filter_;
  sock_fprog program_{};
  UniqueFd executable_;
};

// As in the log: 'src' -> 'dst' type:'' options:''.
std::string describe_mount(const Mount& mount);

}  // namespace sbx::nsjail
