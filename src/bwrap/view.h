// The file system that COMMAND sees: bwrap's operations as steps for ns/child.h, performed in the child.
#pragma once

#include <string>

#include "bwrap/voice.h"
#include "policy/bwrap/options.h"

namespace sbx::bwrap {

struct ViewContext {
  bool own_proc = false;       // a pid namespace was made or entered: a proc of its own
  bool seal_kernel_settings = false;  // COMMAND may be somebody whom /proc/sys obeys: root of the caller's world
  std::string terminal;        // device of stdout; "": none
  Voice voice;
};

// In a mount namespace of our own, whose "/" is the caller's. Afterwards "/" is the new root and the old one is gone;
// descriptors of operations are closed. Dies of what goes wrong.
void make_view(const Options& options, const ViewContext& context);

}  // namespace sbx::bwrap
