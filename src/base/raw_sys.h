// Raw system calls for the child between clone and exec: no errno, no libc state, -errno comes back. Constants that old
// headers lack stand here with the kernel version that brought them.
#pragma once

#include <sys/syscall.h>

#include <cstddef>
#include <cstdint>

namespace sbx::raw {

#if defined(__x86_64__)
inline long call6(long number, long a, long b, long c, long d, long e, long f) noexcept {
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}
#elif defined(__aarch64__)
inline long call6(long number, long a, long b, long c, long d, long e, long f) noexcept {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
}
#else
#error "sbx knows x86-64 and aarch64"
#endif

template <typename T>
inline long word(T value) noexcept {
  if constexpr (__is_same(T, decltype(nullptr))) {
    return 0;
  } else {
    return (long)value;  // pointers and integers alike
  }
}

template <typename... Args>
inline long call(long number, Args... args) noexcept {
  static_assert(sizeof...(args) <= 6);
  const long words[6] = {word(args)...};
  return call6(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

}  // namespace sbx::raw

// linux/mount.h cannot be included beside sys/mount.h with glibc 2.36; the values are ABI.
#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif
#define SBX_AT_RECURSIVE 0x8000
#define SBX_MOVE_MOUNT_F_EMPTY_PATH 0x00000004
#define SBX_MOVE_MOUNT_T_EMPTY_PATH 0x00000040
#define SBX_MOUNT_ATTR_RDONLY 0x00000001
#define SBX_MOUNT_ATTR_NOSUID 0x00000002
#define SBX_MOUNT_ATTR_NODEV 0x00000004
#define SBX_MOUNT_ATTR_NOEXEC 0x00000008
#define SBX_MOUNT_ATTR_IDMAP 0x00100000  // 5.12

namespace sbx::raw {
struct mount_attr {  // mount_setattr(2), 5.12
  uint64_t attr_set;
  uint64_t attr_clr;
  uint64_t propagation;
  uint64_t userns_fd;
};
}  // namespace sbx::raw
