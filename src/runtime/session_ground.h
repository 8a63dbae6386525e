// What a session stands on: a request without a program, looked at as that of a run is (policies, workspace, mounts,
// language, toolchain), and kept, because a session asks again for every cell.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/request.h"

namespace sbx::runtime {

// One program that a cell without a driver runs; a compiled language has two.
struct CellStep {
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "K=V", complete
};

class SessionGround {
 public:
  virtual ~SessionGround() = default;
  // Of the driver, or of nothing in particular. Lives as long as this.
  virtual const SandboxSpec& spec() const = 0;
  virtual Result<CgroupParent*> cgroups() = 0;
  virtual const std::string& language() const = 0;  // its name; "" : none
  virtual bool has_driver() const = 0;
  // Where a cell's program lies in the sandbox, beneath the root ("box/main.c"), and what is run for it. Errors: usage where the
  // language has no cells.
  virtual std::string cell_path() const = 0;
  virtual Result<std::vector<CellStep>> cell_steps(const std::vector<std::string>& arguments) const = 0;
  // Language, tool, limits and policy, as every report of this session has them.
  virtual Report blank_report() const = 0;
  // Sentences about the places that the host trusts: what was found before, and, when nothing of the sandbox lives any
  // more, what has been mended.
  virtual std::vector<std::string> notes() const = 0;
  virtual std::vector<std::string> sweep() const = 0;
};

// `request.language` names the language; `driver_of` gives its driver, if there is one. `observer` is for the
// preparation only. Errors: those of a run before its program starts.
Result<std::unique_ptr<SessionGround>> prepare_session(RunRequest request, const HostFacts& facts, const Observer& observer,
                                                       const DriverOf& driver_of);

}  // namespace sbx::runtime
