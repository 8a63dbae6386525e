// The part of sbx that runs inside, under sbx or another tool: `sbx __probe NAME BAIT`. It has no rights but those of
// the sandbox around it.
#pragma once

#include <span>
#include <string>

#include "base/result.h"

namespace sbx::selftest {

inline constexpr char kInsideWord[] = "__probe";

// Makes the tries of one probe, each in a process of its own, and writes the report (answer.h) to `report_fd`. Errors:
// usage (not the words of sbx selftest), permission (root outside of a sandbox is never let do it).
Status run_inside(std::span<const std::string> words, int report_fd);

}  // namespace sbx::selftest
