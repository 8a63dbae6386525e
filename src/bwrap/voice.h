// What `sbx bwrap` says on stderr: upstream's lines, which clients match, and behind them hints of our own.
//
// bwrap is a chain of processes, each of which ends with status 1 when its part fails; so here, unlike in library code,
// an error is said where it happens and ends the process.
#pragma once

#include <string>

#include "runtime/mending.h"

namespace sbx::bwrap {

struct Voice {
  bool level_prefix = false;  // "<3>bwrap: …"

  void warn(const std::string& text) const;
  // An error's line, for a caller that has more to say before it ends the process.
  void warn_as_error(const std::string& text) const;
  // Lines beginning "bwrap: hint:", where somebody will read them: stderr is a terminal, or SBX_HINTS is 1.
  void hint(const std::string& text) const;
  // Why this host refuses what a sandbox needs, as far as it can be told.
  void hint(runtime::NamespaceStep step, int errnum) const;
  [[noreturn]] void die(const std::string& text) const;
  // "text: No such file or directory"
  [[noreturn]] void die(const std::string& text, int errnum) const;
  // The same and a hint.
  [[noreturn]] void die(const std::string& text, int errnum, runtime::NamespaceStep step) const;
  // The same for what mount(2) and its kin say.
  [[noreturn]] void die_mount(const std::string& text, int errnum) const;
};

// ENOSPC of a mount is no full disk.
std::string mount_errno_text(int errnum);

}  // namespace sbx::bwrap
