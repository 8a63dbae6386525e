// Capabilities, id maps and seccomp programs of bwrap's processes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bwrap/voice.h"
#include "policy/bwrap/options.h"

namespace sbx::bwrap {

// Who bwrap was called by, and what COMMAND shall be able to.
struct Privileges {
  uid_t uid = 0;
  gid_t gid = 0;
  bool chosen = false;      // --cap-add or --cap-drop was given
  uint64_t requested = 0;   // bit N is capability N

  // Refuses a set-uid, set-gid or file-capability installation; gives up what an ordinary user has inherited.
  static Privileges of_caller(const Voice& voice);
  void choose(const Options& options);
  // Nothing but `requested` can be had by an exec from now on. To be repeated in each new user namespace.
  void bound(const Voice& voice) const;
  // This process has what COMMAND shall have. Dies when more would remain.
  void become_command(const Voice& voice) const;
  // This process has none, or no more than COMMAND has where the kernel refuses (some containers deny capset).
  void drop_all(const Voice& voice) const;
  // What `requested` says survives the exec of an ordinary user.
  void raise_ambient(const Voice& voice) const;
};

// One line each for the user namespace of this process: `inside` shows as what was `outside`. `proc` is /proc.
void write_own_maps(int proc, uid_t inside_uid, uid_t outside_uid, gid_t inside_gid, gid_t outside_gid, bool deny_groups,
                    const Voice& voice);

// Loads the programs, in order; each is an array of sock_filter.
void load_filters(const std::vector<std::string>& programs, const Voice& voice);

}  // namespace sbx::bwrap
