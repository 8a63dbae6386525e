#include "runtime/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/sys.h"

namespace sbx::runtime {
namespace {

// What restore_terminal_now() reads. A handler may come at any moment: the attributes are written before the
// descriptor is published and the descriptor is withdrawn before it is closed.
std::atomic<int> emergency_fd{-1};
struct termios emergency_attributes {};

bool may_change(int fd) {
  const pid_t foreground = ::tcgetpgrp(fd);
  return foreground < 0 || foreground == ::getpgrp();
}

}  // namespace

Result<Terminal> Terminal::create(int fd) {
  if (::isatty(fd) == 0) return Error(ErrorKind::usage, "descriptor " + std::to_string(fd) + " is not a terminal");
  Terminal terminal;
  terminal.fd_ = SBX_TRY(sys::dup(fd));
  return terminal;
}

Terminal::Terminal(Terminal&& other) noexcept
    : fd_(std::move(other.fd_)), raw_(std::exchange(other.raw_, false)), saved_(other.saved_) {}

Terminal& Terminal::operator=(Terminal&& other) noexcept {
  if (this != &other) {
    restore();
    fd_ = std::move(other.fd_);
    raw_ = std::exchange(other.raw_, false);
    saved_ = other.saved_;
  }
  return *this;
}

bool Terminal::in_foreground() const { return valid() && may_change(fd()); }

bool Terminal::is_controlling() const { return valid() && ::tcgetpgrp(fd()) >= 0; }

bool Terminal::is_canonical() const {
  struct termios now {};
  return valid() && ::tcgetattr(fd(), &now) == 0 && (now.c_lflag & ICANON) != 0;
}

Result<struct termios> Terminal::attributes() const {
  struct termios now {};
  if (::tcgetattr(fd(), &now) != 0) return Error::from_errno(errno, "read the terminal's attributes");
  return now;
}

bool Terminal::enter_raw() {
  if (raw_) return true;
  if (!in_foreground() || ::tcgetattr(fd(), &saved_) != 0) return false;
  struct termios raw = saved_;
  ::cfmakeraw(&raw);
  emergency_fd.store(-1);
  emergency_attributes = saved_;
  emergency_fd.store(fd());
  // TCSADRAIN would wait for output that a stopped terminal (Ctrl-S) never takes.
  if (::tcsetattr(fd(), TCSANOW, &raw) != 0) {
    emergency_fd.store(-1);
    return false;
  }
  raw_ = true;
  return true;
}

void Terminal::restore() {
  if (!raw_) return;
  raw_ = false;
  if (may_change(fd())) ::tcsetattr(fd(), TCSANOW, &saved_);
  int ours = fd();
  emergency_fd.compare_exchange_strong(ours, -1);
}

void Terminal::forget_if_changed() {
  if (!raw_ || !is_canonical()) return;
  raw_ = false;
  int ours = fd();
  emergency_fd.compare_exchange_strong(ours, -1);
}

void restore_terminal_now() noexcept {
  const int saved_errno = errno;
  const int fd = emergency_fd.load();
  if (fd >= 0 && may_change(fd)) ::tcsetattr(fd, TCSANOW, &emergency_attributes);
  errno = saved_errno;
}

bool copy_window_size(int from, int to) {
  struct winsize size {};
  if (::ioctl(from, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) return false;
  return ::ioctl(to, TIOCSWINSZ, &size) == 0;
}

UniqueFd reopen_nonblocking(int fd, int access) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return {};
  const bool terminal = S_ISCHR(info.st_mode) && ::isatty(fd) != 0;
  if (!S_ISFIFO(info.st_mode) && !terminal) return {};
  unsigned number = 0;
  if (terminal && ::ioctl(fd, TIOCGPTN, &number) == 0) return {};  // a master
  char path[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  UniqueFd own(::open(path, access | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat reopened {};
  // Whatever is mounted at /proc: only the very same object will do.
  if (!own.valid() || ::fstat(own.get(), &reopened) != 0 || reopened.st_dev != info.st_dev ||
      reopened.st_ino != info.st_ino || reopened.st_rdev != info.st_rdev) {
    return {};
  }
  return own;
}

}  // namespace sbx::runtime
