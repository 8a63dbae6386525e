#include "seccomp/syscall_numbers.h"

#include <seccomp.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace sbx::seccomp {
namespace {

// Calls newer than libseccomp 2.5.4, with the first kernel that has them. Since 5.1 new calls get one number on all
// architectures; the two exceptions belong to x86's own table.
struct NewCall {
  const char* name;
  unsigned number;
  bool x86_64_only;
};
constexpr NewCall kNewCalls[] = {
    {"uretprobe", 335, true},          // 6.11
    {"uprobe", 336, true},             // 6.18
    {"cachestat", 451, false},         // 6.5
    {"fchmodat2", 452, false},         // 6.6
    {"map_shadow_stack", 453, false},  // 6.6
    {"futex_wake", 454, false},        // 6.7
    {"futex_wait", 455, false},        // 6.7
    {"futex_requeue", 456, false},     // 6.7
    {"statmount", 457, false},         // 6.8
    {"listmount", 458, false},         // 6.8
    {"lsm_get_self_attr", 459, false}, // 6.8
    {"lsm_set_self_attr", 460, false}, // 6.8
    {"lsm_list_modules", 461, false},  // 6.8
    {"mseal", 462, false},             // 6.10
    {"setxattrat", 463, false},        // 6.13
    {"getxattrat", 464, false},        // 6.13
    {"listxattrat", 465, false},       // 6.13
    {"removexattrat", 466, false},     // 6.13
    {"open_tree_attr", 467, false},    // 6.15
    {"file_getattr", 468, false},      // 6.17
    {"file_setattr", 469, false},      // 6.17
    {"listns", 470, false},            // 6.19
};

uint32_t library_arch(Arch arch) {
  switch (arch) {
    case Arch::x86_64: return SCMP_ARCH_X86_64;
    case Arch::aarch64: return SCMP_ARCH_AARCH64;
  }
  return 0;
}

using NameTable = std::array<std::string, kMaxSyscallNumber>;

NameTable make_table(Arch arch) {
  NameTable table;
  for (unsigned number = 0; number < kMaxSyscallNumber; ++number) {
    char* name = seccomp_syscall_resolve_num_arch(library_arch(arch), static_cast<int>(number));
    if (name == nullptr) continue;
    table[number] = name;
    std::free(name);
  }
  for (const NewCall& call : kNewCalls)
    if (!call.x86_64_only || arch == Arch::x86_64) table[call.number] = call.name;
  return table;
}

// Made at first use, constant from then on.
const NameTable& names_of(Arch arch) {
  static const NameTable x86_64 = make_table(Arch::x86_64);
  static const NameTable aarch64 = make_table(Arch::aarch64);
  return arch == Arch::x86_64 ? x86_64 : aarch64;
}

}  // namespace

std::optional<unsigned> syscall_number(const std::string& name, Arch arch) {
  for (const NewCall& call : kNewCalls) {
    if (name != call.name) continue;
    if (call.x86_64_only && arch != Arch::x86_64) return std::nullopt;
    return call.number;
  }
  const int number = seccomp_syscall_resolve_name_arch(library_arch(arch), name.c_str());
  // Negative: an error, or the library's pseudo number for a call of another architecture.
  if (number < 0 || number >= static_cast<int>(kMaxSyscallNumber)) return std::nullopt;
  return static_cast<unsigned>(number);
}

bool is_syscall_name(const std::string& name) {
  for (const NewCall& call : kNewCalls)
    if (name == call.name) return true;
  return seccomp_syscall_resolve_name(name.c_str()) != __NR_SCMP_ERROR;
}

std::string_view syscall_name(unsigned number, Arch arch) {
  if (number >= kMaxSyscallNumber) return "";
  return names_of(arch)[number];
}

std::vector<std::string> syscall_names() {
  std::vector<std::string> names;
  for (Arch arch : {Arch::x86_64, Arch::aarch64})
    for (const std::string& name : names_of(arch))
      if (!name.empty()) names.push_back(name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace sbx::seccomp
