// A resolved policy as native TOML: what differs from the default, so that the text on top of it resolves to the same.
#pragma once

#include "policy/unsaid.h"

namespace sbx::native {

WrittenPolicy write(const SandboxSpec& spec, const WriteInput& input);

}  // namespace sbx::native
