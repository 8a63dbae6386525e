// What a HostReport means: for each need of a sandbox whether the host meets it, what was found, what sbx does
// meanwhile, and what mends it. Pure: tested with the reports of hosts that are not at hand.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/host_report.h"

namespace sbx::runtime {

enum class FindingState {
  ok,
  degraded,  // there, or replaced by something that does less
  missing,
  unknown,   // could not be tried, because something before it failed
};
const char* finding_state_name(FindingState state);

enum class Severity {
  need,        // no sandbox without it
  protection,  // a second wall behind the first
  limit,       // who holds a limit, and how exactly
  feature,     // one option or language
  fact,        // nothing depends on it directly
};
const char* severity_name(Severity severity);

struct Finding {
  std::string name;       // stable: for --require and for programs that read the JSON
  std::string title;
  std::string tried;      // how it was found out
  Severity severity = Severity::fact;
  FindingState state = FindingState::unknown;
  std::string found;      // one clause
  std::string meanwhile;  // what sbx does as long as it is so; "" when all is well
  std::string mend;       // the command or setting; "" when there is none
};

struct Diagnosis {
  std::vector<Finding> findings;   // in the order of the table
  std::vector<Finding> languages;  // "lang:NAME"
  bool works = false;              // sandboxes run here
  // The one line that matters most: what is in the way of any sandbox, or else of the first thing that is not ok.
  std::string verdict;
};
Diagnosis diagnose(const HostReport& report);

// Every name that --require takes, but for the languages: those of the table, then "all".
std::vector<std::string> finding_names();

// One sentence for each required name that is not ok; empty: everything is there. Errors: usage for an unknown name.
Result<std::vector<std::string>> unmet_requirements(const Diagnosis& diagnosis, std::span<const std::string> names);

}  // namespace sbx::runtime
