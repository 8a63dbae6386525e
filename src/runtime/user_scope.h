// A transient scope from the user's systemd manager, delegated to us: the one way for an ordinary user to get cgroup
// controllers (systemd's CGROUP_DELEGATION.md; user@UID.service delegates cpu, memory and pids).
//
// A D-Bus client of our own, in as few bytes as this one call needs: libsystemd cannot be linked statically here, and
// systemd-run would be a further process that has to be found, started and waited for, and whose scope would hold it
// too. What is spoken is the D-Bus specification's little-endian wire format with EXTERNAL authentication.
//
// Theory of operation. request() connects to the manager's own socket (XDG_RUNTIME_DIR/systemd/private: no bus daemon
// need be installed, and no hop through one), else to the user bus (XDG_RUNTIME_DIR/bus), sends StartTransientUnit
// with our own pid, and returns: the manager works while we go on. finish() reads the answer and waits for the job's
// end (JobRemoved), after which this process is in the scope. The scope and all below it vanish when it is empty.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace sbx::runtime {

struct UserScopeRequest {
  std::string runtime_directory;  // XDG_RUNTIME_DIR
  uint32_t uid = 0;
  uint32_t pid = 0;               // who is to be moved
  std::string unit;               // "sbx-….scope"
};

class UserScope {
 public:
  // Errors: unsupported when there is no manager to talk to; system when it does not speak as expected.
  static Result<UserScope> request(const UserScopeRequest& request);
  // On a connected stream; for tests. `bus`: a bus daemon is at the other end, which wants Hello first.
  static Result<UserScope> request_on(UniqueFd socket, bool bus, const UserScopeRequest& request);

  // Waits (three seconds at most) until the process is in the scope. Errors: the manager's own words.
  Status finish();

 private:
  UserScope(UniqueFd socket, uint32_t serial) : socket_(std::move(socket)), serial_(serial) {}
  UniqueFd socket_;
  uint32_t serial_;     // of the call that we await the answer to
  std::string pending_;  // bytes read beyond the last whole message
};

// ---- the wire format, for tests --------------------------------------------------------------------------------

struct DbusMessage {
  enum class Type : uint8_t { call = 1, reply = 2, error = 3, signal = 4 };
  Type type = Type::call;
  uint32_t serial = 0;
  uint32_t reply_serial = 0;
  std::string path, interface, member, error_name, destination, signature;
  std::string body;  // marshalled
};
std::string marshal(const DbusMessage& message);
// Takes one message off the front of `bytes`. False: not all of it is there yet. Error: no D-Bus message, or one of
// more than 64 KiB.
Result<bool> unmarshal(std::string& bytes, DbusMessage& message);
// The strings (and object paths) at the front of a body whose signature begins with s, o or u; integers in decimal.
std::vector<std::string> body_words(const DbusMessage& message);
// The body of StartTransientUnit, signature ssa(sv)a(sa(sv)).
std::string scope_body(const UserScopeRequest& request);

}  // namespace sbx::runtime
