// What is risky about a sandbox: a pure function over a resolved spec, whatever dialect it came from. The shipped
// default has no findings; each finding is something that a policy, a flag or a dialect's defaults opened.
//
// It looks at what is written, not at the disk: that a shared directory holds a socket or a program of the host's is
// not known here. Findings are what somebody should have meant, not proofs of an escape.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "policy/host_facts.h"
#include "policy/spec.h"

namespace sbx {

enum class RiskSeverity {
  low,     // a second line of defence is missing, or something is shown that need not be
  medium,  // the host can be made slow or full, or a whole line of defence is missing
  high,    // what the payload does can reach out of the sandbox: secrets read, code left behind, services used
};
const char* risk_severity_name(RiskSeverity severity);  // "high"

struct Risk {
  std::string name;  // stable, for scripts: "host-network"
  RiskSeverity severity = RiskSeverity::low;
  std::string what;    // a sentence: what the payload can do with it
  std::string fix;     // what to write instead, in native keys
  std::string origin;  // what opened it: "x.toml:3:1", "flag --net"; "" : nobody said it
  bool operator==(const Risk&) const = default;
};
// Every name that review() can give, for scripts that accept one.
std::vector<std::string> risk_names();

struct ReviewInput {
  // Targets of writable shares whose places that the host trusts (.git/hooks, .envrc …) are kept read-only.
  std::vector<std::string> guarded;
};
// The worst first, else in the order of the spec. Errors: policy (a system call policy that does not exist).
Result<std::vector<Risk>> review(const SandboxSpec& spec, const HostFacts& facts, const ReviewInput& input);

}  // namespace sbx
