// Capability names and masks. capabilities(7).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace sbx::ns {

// Bit N is capability N. Errors: policy, for an unknown name (with or without "cap_", any case).
Result<uint64_t> capability_mask(const std::vector<std::string>& names);

// Of this process; 0 where they cannot be read.
uint64_t effective_capabilities();
constexpr bool has_capability(uint64_t mask, unsigned number) { return (mask >> number & 1) != 0; }

// The highest capability that the running kernel knows.
uint32_t last_capability();

}  // namespace sbx::ns
