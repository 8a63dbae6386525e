// A resolved policy as options of bwrap, one a line, as a file of them: for `bwrap --args` and for sbx itself.
#pragma once

#include "policy/unsaid.h"

namespace sbx::bwrap {

WrittenPolicy write(const SandboxSpec& spec, const WriteInput& input);

}  // namespace sbx::bwrap
