// Capability names and masks. capabilities(7).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace sbx::ns {

// Bit N is capability N. Errors: policy, for an unknown name (with or without "cap_", any case).
Result<uint64_t> capability_mask(const std::vector<std::string>& names);

// The highest capability that the running kernel knows.
uint32_t last_capability();

}  // namespace sbx::ns
