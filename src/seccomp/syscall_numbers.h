// System call names and numbers per architecture: libseccomp's table, plus a small one of our own for what is newer
// than the library that we are built with (2.5.4 ends at Linux 6.7). The only place that knows libseccomp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "seccomp/bpf_program.h"

namespace sbx::seccomp {

// All numbers that filters treat as system calls lie below this; the two architectures' tables end at about 470.
inline constexpr unsigned kMaxSyscallNumber = 1024;

// The number of a call, nullopt when the architecture has none of this name.
std::optional<unsigned> syscall_number(const std::string& name, Arch arch);
// Is this the name of a call of any Linux architecture ("socketcall")? A policy may name it everywhere.
bool is_syscall_name(const std::string& name);
// The name of a number, "" when there is none. The view stays valid for the life of the process.
std::string_view syscall_name(unsigned number, Arch arch);
// Names of both architectures, sorted, each once: for did-you-mean and for completeness tests.
std::vector<std::string> syscall_names();

}  // namespace sbx::seccomp
