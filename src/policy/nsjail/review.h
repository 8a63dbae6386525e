// What is risky about a configuration as nsjail runs it, in its own words: policy/review.h for this dialect. It looks at
// what is written, not at the disk.
#pragma once

#include <vector>

#include "policy/nsjail/config.h"
#include "policy/review.h"

namespace sbx::nsjail {

// The worst first, else in the order of the checks.
std::vector<Risk> review(const Config& config);

}  // namespace sbx::nsjail
