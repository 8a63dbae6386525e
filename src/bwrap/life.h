// The two processes of bwrap's that stay: the monitor outside, the reaper inside.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "bwrap/privileges.h"
#include "bwrap/voice.h"
#include "policy/bwrap/options.h"

namespace sbx::bwrap {

// Blocks SIGCHLD, so that it can be read from a descriptor, and reaps what an earlier program left.
void hold_back_child_signal(const Voice& voice);
void let_child_signal_through(const Voice& voice);

// PR_SET_PDEATHSIG with SIGKILL. It is cleared by fork and by changes of credentials (not by giving capabilities up).
void die_with_parent(const Voice& voice);

// What the monitor holds.
struct Watch {
  pid_t child = -1;
  UniqueFd ended;       // eventfd: COMMAND's status + 1, from the reaper; may be none
  UniqueFd set_up;      // pipe: one byte for a successful set-up, two where exec failed after it; may be none
  UniqueFd hold;        // whose end tells the child that the monitor is dead; may be none
  int json_fd = -1;     // --json-status-fd
};
// Waits for COMMAND or the sandbox to end, reports it, and ends the process with its status.
[[noreturn]] void monitor(Watch watch, const Voice& voice);

// Read locks on --lock-file's files; they are this process's, its children do not have them.
std::vector<UniqueFd> lock_files(const Options& options, const Voice& voice);

// Process 1 inside, or the owner of locks and of --sync-fd: lives until the last process that it can wait for is gone.
// `ended`, an eventfd, gets COMMAND's status + 1.
[[noreturn]] void reap(pid_t command, int ended, const std::vector<UniqueFd>& locks, const Options& options,
                       const Privileges& privileges, const std::vector<std::string>& filters, const Voice& voice);

// Whether the other end of the hold pipe is closed: the monitor is dead. -1 for `hold`: it never is.
bool is_orphan(int hold);

// Closes everything from 3 on but these.
void close_all_but(std::vector<int> kept);

// What a shell makes of a wait status.
int exit_status(int wait_status);

}  // namespace sbx::bwrap
