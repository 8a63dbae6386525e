// Errors as values: what went wrong, which thing it concerns, and the way out.
//
// A message is lower case, without a full stop, names the thing in quotes and then the cause. Context frames are
// added on the way up ("which one?"); a hint says what the user can do. Library code never prints an Error; the
// command line does, once.
#pragma once

#include <string>
#include <vector>

namespace sbx {

// Who has to act. exit_code_for() in cli maps this to an exit status in one place.
enum class ErrorKind {
  usage,        // the caller asked wrongly (flag, argument, missing FILE): exit 2
  policy,       // a policy file or key is wrong: exit 2
  not_found,    // toolchain or command not found: exit 127
  not_executable,  // found, but it cannot be executed: exit 126
  unsupported,  // this host cannot do it: exit 125
  permission,   // this host refuses it to us: exit 125
  resource,     // out of memory, descriptors, space: exit 125
  system,       // a system call failed: exit 125
  internal,     // a bug of ours: exit 125
};

// Stable lower-case name of a kind, as it stands in results.
const char* error_kind_name(ErrorKind kind);

// "No such file or directory" (ENOENT), for an errno value.
std::string errno_text(int errnum);

// What is wrong with a path that the caller named: it, or that the machine has no memory or descriptors to look at it.
ErrorKind kind_of_bad_path(int errnum);

class Error {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}

  // "cannot WHAT: errno in words". The kind follows from errnum (EACCES and EPERM: permission; ENOMEM, EMFILE,
  // ENOSPC …: resource; else system).
  static Error from_errno(int errnum, const std::string& what);

  // By value, not by reference: `error = std::move(error).with_hint(…)` would otherwise move the object into itself and
  // leave it empty.
  Error with_context(std::string frame) &&;
  Error with_hint(std::string hint) &&;
  // Where the offending setting came from: "file.toml:3:7" or "flag --mount".
  Error with_origin(std::string origin) &&;
  // The set-up stage or compile step that failed, for results.
  Error with_stage(std::string stage) &&;

  ErrorKind kind() const { return kind_; }
  int errnum() const { return errnum_; }  // 0 when no system call was involved
  const std::string& hint() const { return hint_; }
  const std::string& origin() const { return origin_; }
  const std::string& stage() const { return stage_; }

  // One line: "origin: outer: inner: message", without the hint.
  std::string text() const;

 private:
  ErrorKind kind_;
  int errnum_ = 0;
  std::string message_;
  std::vector<std::string> context_;  // innermost first
  std::string hint_;
  std::string origin_;
  std::string stage_;
};

}  // namespace sbx
