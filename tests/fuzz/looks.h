// The payload's turn: fstatat() of the whole program, which looks and then lets something happen. Between that look and
// the open that follows it a hostile program changes the tree. For one source file of a program only.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>

namespace fuzz {

inline std::function<void()> after_look;

// While it lives, `act` follows every look.
class Looks {
 public:
  explicit Looks(std::function<void()> act) { after_look = std::move(act); }
  ~Looks() { after_look = nullptr; }
  Looks(const Looks&) = delete;
  Looks& operator=(const Looks&) = delete;
};

}  // namespace fuzz

extern "C" int fstatat(int directory, const char* name, struct stat* info, int flags) noexcept {
  const auto answer = static_cast<int>(::syscall(SYS_newfstatat, directory, name, info, flags));
  if (fuzz::after_look) {
    const int saved = errno;
    fuzz::after_look();
    errno = saved;
  }
  return answer;
}
