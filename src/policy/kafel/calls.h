// System calls as Kafel names them: numbers for each architecture, names and widths of the arguments.
//
// Names are those of the kernel's tracepoints (newstat, newfstat, umount …); those of `man 2 syscalls` serve as well.
// Arguments likewise, with the names that Kafel's own library has where they differ.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/kafel/kafel.h"

namespace sbx::kafel {

struct CallArgument {
  std::string_view name;
  std::string_view other_name;  // "": none
  unsigned bytes = 8;           // what the kernel reads of it
};

struct KnownCall {
  std::string_view name;  // of `man 2 syscalls`
  uint32_t number = 0;
  std::vector<CallArgument> arguments;
};

// nullopt: the architecture has no call of this name.
std::optional<KnownCall> find_call(std::string_view name, Machine machine);
std::optional<KnownCall> find_call(uint32_t number, Machine machine);
// The name that Kafel's own library knows a call by: "newstat" for "stat".
std::string_view kafel_name(std::string_view name);
// All names, for did-you-mean and for tests.
std::vector<std::string> call_names(Machine machine);

}  // namespace sbx::kafel
