// A compiled classic-BPF seccomp program, as seccomp(2) takes it. Plain data.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <span>
#include <vector>

namespace sbx::seccomp {

// Architectures that filters are compiled and evaluated for.
enum class Arch { x86_64, aarch64 };

// The architecture of this build.
Arch native_arch();

using BpfProgram = std::vector<sock_filter>;

}  // namespace sbx::seccomp
