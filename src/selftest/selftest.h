// The whole of `sbx selftest`: every probe in a sandbox, its control where it has one, and the same under other tools.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "selftest/way.h"

namespace sbx::selftest {

enum class ProbeVerdict {
  blocked,
  open,
  not_applicable,  // it proves nothing here: `why`
  not_tried,       // it may not be tried under this tool: `why`
  failed,          // no report came out, so nothing is known: counts as open
};
const char* verdict_name(ProbeVerdict verdict);  // "not applicable"

struct Judgement {
  ProbeVerdict verdict = ProbeVerdict::failed;
  std::string by;   // what blocked it, or which tries were open
  std::string why;  // of what is neither blocked nor open
};

enum class ControlState {
  none,     // the probe has none: `Probe::no_control` says why
  not_run,
  opens,    // the same try works without the protection: the refusal was the protection's
  refused,  // refused without it too, so that the try itself cannot work here
  failed,   // the weaker sandbox could not be set up
};
const char* control_state_name(ControlState state);

struct ControlSeen {
  ControlState state = ControlState::none;
  std::string change;      // of the control that was decisive
  std::vector<Answer> answers;
  int interrupted = 0;
};

// What the answers mean. Pure.
Judgement judge(const Probe& probe, const Seen& seen, const ControlSeen& control);
ControlState judge_control(const Probe& probe, const Seen& seen);

struct ProbeResult {
  const Probe* probe = nullptr;
  Seen seen;
  ControlSeen control;
  Judgement judgement;
  std::vector<std::pair<Judgement, Seen>> others;  // one for each of Selftest::tools
};

enum class Controls { cheap, all, none };

struct SelftestRequest {
  std::vector<const Probe*> probes;
  std::vector<std::string> policies;
  Controls controls = Controls::cheap;
  std::vector<std::string> compare;  // known names
  std::string user;                  // whom a root caller becomes for other tools
  std::function<void(const std::string&)> progress;  // may be empty
};

struct Selftest {
  std::vector<ProbeResult> results;
  std::vector<Tool> tools;
  std::string tool_user;             // "" : ourselves
  std::vector<std::string> reduced;  // protections that this host, or this container, does not give; sentences
  int interrupted = 0;               // the signal that ended it early: the rest means nothing then
  int open = 0, blocked = 0, not_applicable = 0;  // of our own sandbox
};

// Errors: those of a sandbox that cannot be set up here, or of a policy (nothing was tried then); usage for a user that
// there is not.
Result<Selftest> run_selftest(const SelftestRequest& request);

}  // namespace sbx::selftest
