// A resolved policy as a configuration of nsjail, in the text format.
#pragma once

#include "policy/unsaid.h"

namespace sbx::nsjail {

WrittenPolicy write(const SandboxSpec& spec, const WriteInput& input);

}  // namespace sbx::nsjail
