// Pseudo-terminals for tests.
#pragma once

#include <doctest/doctest.h>
#include <pty.h>
#include <termios.h>

#include "base/unique_fd.h"

struct Pty {
  sbx::UniqueFd master;
  sbx::UniqueFd slave;
};

inline Pty open_pty(unsigned short rows = 24, unsigned short columns = 80) {
  int master = -1;
  int slave = -1;
  struct winsize size {rows, columns, 0, 0};
  REQUIRE(::openpty(&master, &slave, nullptr, nullptr, &size) == 0);
  return {sbx::UniqueFd(master), sbx::UniqueFd(slave)};
}

inline struct termios attributes_of(int fd) {
  struct termios attributes {};
  REQUIRE(::tcgetattr(fd, &attributes) == 0);
  return attributes;
}
