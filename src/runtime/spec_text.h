// A SandboxSpec as canonical text, one value a line: what -v prints and what the policy digest in results is taken
// over. Equal specs give equal text; descriptors are left out, since their numbers mean nothing.
#pragma once

#include <string>

#include "policy/spec.h"

namespace sbx::runtime {

std::string spec_text(const SandboxSpec& spec);
std::string fs_op_text(const FsOp& op);  // one line, without a line break
// SHA-256 over spec_text(), lower-case hex.
std::string spec_digest(const SandboxSpec& spec);

}  // namespace sbx::runtime
