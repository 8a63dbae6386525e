#include <doctest/doctest.h>

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/sys.h"
#include "runtime/terminal.h"
#include "open_pty.h"

using sbx::UniqueFd;
using sbx::runtime::Terminal;

namespace {

bool same(const struct termios& a, const struct termios& b) {
  return a.c_iflag == b.c_iflag && a.c_oflag == b.c_oflag && a.c_cflag == b.c_cflag && a.c_lflag == b.c_lflag &&
         std::memcmp(a.c_cc, b.c_cc, sizeof a.c_cc) == 0;
}

}  // namespace

TEST_CASE("what is not a terminal is refused") {
  const sbx::sys::Pipe pipe = sbx::sys::pipe().take();
  CHECK(Terminal::create(pipe.read.get()).error().kind() == sbx::ErrorKind::usage);
}

TEST_CASE("raw mode switches line editing, echo, signals and output translation off, and restore brings all back") {
  const Pty pty = open_pty();
  const struct termios before = attributes_of(pty.slave.get());
  Terminal terminal = Terminal::create(pty.slave.get()).take();
  CHECK(terminal.is_canonical());
  REQUIRE(terminal.enter_raw());
  CHECK(terminal.enter_raw());
  CHECK_FALSE(terminal.is_canonical());
  const struct termios raw = attributes_of(pty.slave.get());
  CHECK((raw.c_lflag & (ECHO | ICANON | ISIG)) == 0);
  CHECK((raw.c_oflag & OPOST) == 0);
  terminal.restore();
  CHECK(same(before, attributes_of(pty.slave.get())));
  terminal.restore();
  CHECK_FALSE(terminal.is_raw());
}

TEST_CASE("a terminal that goes out of scope or is moved from is restored exactly once") {
  const Pty pty = open_pty();
  const struct termios before = attributes_of(pty.slave.get());
  {
    Terminal first = Terminal::create(pty.slave.get()).take();
    REQUIRE(first.enter_raw());
    Terminal second = std::move(first);
    CHECK_FALSE(first.is_raw());
    CHECK(second.is_raw());
    CHECK_FALSE(same(before, attributes_of(pty.slave.get())));
  }
  CHECK(same(before, attributes_of(pty.slave.get())));
}

TEST_CASE("the emergency restore brings the attributes back, keeps errno and forgets after a normal restore") {
  const Pty pty = open_pty();
  const struct termios before = attributes_of(pty.slave.get());
  Terminal terminal = Terminal::create(pty.slave.get()).take();
  REQUIRE(terminal.enter_raw());
  errno = ENOENT;
  sbx::runtime::restore_terminal_now();
  CHECK(errno == ENOENT);
  CHECK(same(before, attributes_of(pty.slave.get())));

  terminal.restore();
  struct termios changed = before;
  changed.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  REQUIRE(::tcsetattr(pty.slave.get(), TCSANOW, &changed) == 0);
  sbx::runtime::restore_terminal_now();
  CHECK(same(changed, attributes_of(pty.slave.get())));
}

TEST_CASE("a process in the background neither changes its terminal nor is stopped for trying") {
  const Pty pty = open_pty();
  const struct termios before = attributes_of(pty.slave.get());
  const pid_t leader = ::fork();
  REQUIRE(leader >= 0);
  if (leader == 0) {
    // Session leader with this controlling terminal; its child moves to a process group of its own: background.
    if (::setsid() < 0 || ::ioctl(pty.slave.get(), TIOCSCTTY, 0) != 0) ::_exit(10);
    const pid_t background = ::fork();
    if (background == 0) {
      ::setpgid(0, 0);
      auto terminal = Terminal::create(pty.slave.get());
      if (!terminal.ok()) ::_exit(11);
      if (terminal.value().in_foreground()) ::_exit(12);
      if (terminal.value().enter_raw()) ::_exit(13);
      ::_exit(0);
    }
    int status = 0;
    if (::waitpid(background, &status, WUNTRACED) != background) ::_exit(14);
    if (WIFSTOPPED(status)) {
      ::kill(background, SIGKILL);
      ::_exit(15);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 16);
    // The control: the foreground may.
    auto terminal = Terminal::create(pty.slave.get());
    ::_exit(terminal.ok() && terminal.value().in_foreground() && terminal.value().enter_raw() ? 0 : 17);
  }
  int status = 0;
  REQUIRE(::waitpid(leader, &status, 0) == leader);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  (void)before;
}

TEST_CASE("the window size is copied, and a terminal without one leaves the other as it is") {
  const Pty from = open_pty(33, 111);
  const Pty to = open_pty(24, 80);
  CHECK(sbx::runtime::copy_window_size(from.slave.get(), to.master.get()));
  struct winsize size {};
  REQUIRE(::ioctl(to.slave.get(), TIOCGWINSZ, &size) == 0);
  CHECK(size.ws_row == 33);
  CHECK(size.ws_col == 111);

  const Pty unsized = open_pty(0, 0);
  CHECK_FALSE(sbx::runtime::copy_window_size(unsized.slave.get(), to.master.get()));
  REQUIRE(::ioctl(to.slave.get(), TIOCGWINSZ, &size) == 0);
  CHECK(size.ws_row == 33);
}

TEST_CASE("a reopened description is non-blocking and leaves the caller's as it is") {
  const sbx::sys::Pipe pipe = sbx::sys::pipe().take();
  const UniqueFd own = sbx::runtime::reopen_nonblocking(pipe.write.get(), O_WRONLY);
  REQUIRE(own.valid());
  CHECK((::fcntl(own.get(), F_GETFL) & O_NONBLOCK) != 0);
  CHECK((::fcntl(pipe.write.get(), F_GETFL) & O_NONBLOCK) == 0);
  REQUIRE(::write(own.get(), "x", 1) == 1);
  char byte = 0;
  CHECK(::read(pipe.read.get(), &byte, 1) == 1);
  CHECK(byte == 'x');
}

TEST_CASE("a pty master and a socket are not reopened") {
  const Pty pty = open_pty();
  CHECK_FALSE(sbx::runtime::reopen_nonblocking(pty.master.get(), O_RDWR).valid());
  CHECK(sbx::runtime::reopen_nonblocking(pty.slave.get(), O_RDWR).valid());
  const auto pair = sbx::sys::socketpair(SOCK_STREAM).take();
  CHECK_FALSE(sbx::runtime::reopen_nonblocking(pair[0].get(), O_RDWR).valid());
}
