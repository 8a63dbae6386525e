// The troubleshooting page of the guide: what sbx says and what helps, from the tables and functions that hints and
// `sbx doctor` are made of. docs/guide/09-troubleshooting.md is this text; a test compares them.
#pragma once

#include <string>

#include "base/result.h"

namespace sbx::runtime {

Result<std::string> hint_reference_markdown();

}  // namespace sbx::runtime
