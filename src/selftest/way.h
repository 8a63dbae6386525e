// The ways in which a probe is run: in a sandbox of sbx, or under another tool. Either gives the same Seen.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/outcome.h"
#include "selftest/answer.h"
#include "selftest/probe.h"

namespace sbx::selftest {

struct Seen {
  std::string problem;          // why the program inside said nothing that can be used; "": it did
  std::optional<Error> refused;  // nothing could be run: the engine's own words
  int interrupted = 0;          // a signal that was sent to us meanwhile
  std::vector<Answer> answers;  // one for each try; empty with a problem
  std::set<std::string> denied;  // system calls that our filter refused and reported
  bool ours = false;
  runtime::Verdict verdict = runtime::Verdict::exited;  // of our sandbox
  runtime::Isolation isolation;                         // of our sandbox
};

// Our own sandbox, under the default policy and `policies`. `control`: the same with only that taken away.
struct OurSandbox {
  HostFacts facts;
  std::vector<std::string> policies;
};
Seen run_in_ours(const OurSandbox& ours, const Probe& probe, Bait bait, const Control* control);

// Another tool, as a careful user would call it; `none`: no sandbox, an ordinary user.
struct Tool {
  std::string name;
  std::string path;              // "" : not installed, or `none`
  std::string version;           // its own first line
  std::vector<std::string> words;  // the command line, the program inside left out
  std::string absent;            // why it cannot be used here; "": it can
  bool has_run = false;          // once at least
};
struct ToolUser {
  unsigned uid = 0, gid = 0;
  std::string name, home;
  bool switch_to = false;        // we are root and become this user first
};
std::vector<std::string> tool_names();  // bwrap, nsjail, firejail, none
// REQUIRES a known name. `program`: our own, where every user may execute it.
Tool find_tool(const std::string& name, const std::string& program, const ToolUser& user);
Seen run_in_tool(const Tool& tool, const std::string& program, const ToolUser& user, const Probe& probe, const Bait& bait);

}  // namespace sbx::selftest
