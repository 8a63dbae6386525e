#include "bwrap/life.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/raw_sys.h"
#include "base/sys.h"

namespace sbx::bwrap {
namespace {

void change_child_signal(int how, const Voice& voice) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGCHLD);
  if (::sigprocmask(how, &set, nullptr) != 0) voice.die("sigprocmask", errno);
}

// Says how COMMAND ended, if it ever was one: set-up and exec succeeded.
void report(Watch& watch, int status, const Voice& voice) {
  if (watch.json_fd < 0 || !watch.set_up.valid()) return;
  char bytes[2];
  const Result<size_t> got = sys::read(watch.set_up.get(), bytes, sizeof bytes);
  if (!got.ok()) voice.die("read of the set-up pipe", got.error().errnum());
  if (got.value() != 1) return;
  // Nobody may be reading any more; the status is the same.
  (void)sys::write_all(watch.json_fd, "{ \"exit-code\": " + std::to_string(status) + " }\n").ok();
}

}  // namespace

void hold_back_child_signal(const Voice& voice) {
  change_child_signal(SIG_BLOCK, voice);
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

void let_child_signal_through(const Voice& voice) { change_child_signal(SIG_UNBLOCK, voice); }

void die_with_parent(const Voice& voice) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) voice.die("prctl", errno);
}

int exit_status(int wait_status) {
  if (WIFEXITED(wait_status)) return WEXITSTATUS(wait_status);
  if (WIFSIGNALED(wait_status)) return 128 + WTERMSIG(wait_status);
  return 255;
}

void close_all_but(std::vector<int> kept) {
  std::sort(kept.begin(), kept.end());
  unsigned from = 3;
  for (const int fd : kept) {
    if (fd < 0 || static_cast<unsigned>(fd) < from) continue;
    if (static_cast<unsigned>(fd) > from) (void)raw::call(SYS_close_range, from, fd - 1, 0);
    from = static_cast<unsigned>(fd) + 1;
  }
  (void)raw::call(SYS_close_range, from, ~0u, 0);
}

bool is_orphan(int hold) {
  if (hold < 0) return false;
  pollfd end{hold, POLLIN, 0};
  return ::poll(&end, 1, 0) > 0;
}

void monitor(Watch watch, const Voice& voice) {
  // What the caller's pipes are to the sandbox, they shall not be to us: an end held here would keep its reader waiting.
  close_all_but({watch.ended.get(), watch.set_up.get(), watch.hold.get(), watch.json_fd});
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGCHLD);
  const UniqueFd signals(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.valid()) voice.die("Can't create signalfd", errno);
  pollfd events[2] = {{signals.get(), POLLIN, 0}, {watch.ended.get(), POLLIN, 0}};
  for (;;) {
    if (::poll(events, watch.ended.valid() ? 2 : 1, -1) < 0 && errno != EINTR) voice.die("poll", errno);
    // First what the reaper says: it often dies right after COMMAND, and would be taken for it.
    if (watch.ended.valid()) {
      uint64_t value = 0;
      if (::read(watch.ended.get(), &value, sizeof value) == sizeof value) {
        const int status = static_cast<int>(value) - 1;
        report(watch, status, voice);
        ::_exit(status);
      }
    }
    signalfd_siginfo info;
    (void)!::read(signals.get(), &info, sizeof info);
    // Several ends may come as one signal, and there may be children of whatever was this process before.
    int wait_status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &wait_status, WNOHANG)) > 0;) {
      if (pid != watch.child) continue;
      report(watch, exit_status(wait_status), voice);
      ::_exit(exit_status(wait_status));
    }
  }
}

std::vector<UniqueFd> lock_files(const Options& options, const Voice& voice) {
  std::vector<UniqueFd> locked;
  for (const std::string& path : options.lock_files) {
    // O_NONBLOCK: a FIFO that nobody writes is no wait for ever.
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
    if (!fd.valid()) voice.die("Unable to open lock file " + path, errno);
    struct flock lock {};
    lock.l_type = F_RDLCK;
    lock.l_whence = SEEK_SET;
    int result;
    do {
      result = ::fcntl(fd.get(), F_SETLK, &lock);
    } while (result < 0 && errno == EINTR);
    if (result < 0) voice.die("Unable to lock file " + path, errno);
    locked.push_back(std::move(fd));
  }
  return locked;
}

void reap(pid_t command, int ended, const std::vector<UniqueFd>& locks, const Options& options, const Privileges& privileges,
          const std::vector<std::string>& filters, const Voice& voice) {
  privileges.drop_all(voice);
  std::vector<int> kept = {ended, options.sync_fd};
  for (const UniqueFd& lock : locks) kept.push_back(lock.get());
  close_all_but(std::move(kept));
  load_filters(filters, voice);

  int status = 1;
  for (;;) {
    int wait_status = 0;
    const pid_t pid = ::wait(&wait_status);
    if (pid == command) {
      status = exit_status(wait_status);
      const uint64_t value = static_cast<uint64_t>(status) + 1;
      if (ended >= 0) (void)!::write(ended, &value, sizeof value);  // the monitor may be gone
    }
    if (pid < 0 && errno != EINTR) {
      if (errno != ECHILD) voice.die("init wait()", errno);
      ::_exit(status);
    }
  }
}

}  // namespace sbx::bwrap
