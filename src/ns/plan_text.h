// A plan as the system calls that the child makes of it, for `-vv`. Written from the plan, before the child exists, and
// not traced: what the child does only when a call fails does not show. tests/integration compares it with a trace.
#pragma once

#include <string>
#include <vector>

#include "ns/plan.h"

namespace sbx::ns {

// One call a line, "init: mount(…)" or "payload: prctl(…)"; descriptors by what they are. Equal calls in a row stand
// once, followed by " [N times]".
std::vector<std::string> system_calls_of(const ChildPlan& plan);

}  // namespace sbx::ns
