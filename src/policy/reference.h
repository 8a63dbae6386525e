// The reference of policy keys, written from the key table. docs/policy-keys.md is this text; a test compares them.
#pragma once

#include <string>

namespace sbx {

std::string key_reference_markdown();

}  // namespace sbx
