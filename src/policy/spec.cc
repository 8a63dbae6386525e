#include "policy/spec.h"

namespace sbx {

bool has_writable_host_directory(const SandboxSpec& spec) {
  for (const FsOp& op : spec.fs) {
    if (const BindOp* bind = std::get_if<BindOp>(&op); bind != nullptr && !bind->read_only) return true;
  }
  return false;
}

}  // namespace sbx
