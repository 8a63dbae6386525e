#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "base/raw_sys.h"
#include "selftest/answer.h"
#include "selftest/tries.h"

namespace sbx::selftest::tries {
namespace {

constexpr int kProcesses = 400;           // the default policy's limit is 256
constexpr size_t kMemory = size_t{192} << 20;
constexpr size_t kDisk = size_t{24} << 20;
constexpr size_t kBlock = size_t{1} << 20;

}  // namespace

long many_processes(const Bait&) {
  pid_t children[kProcesses];
  int count = 0;
  long answer = 0;
  while (count < kProcesses) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      for (;;) ::pause();
    }
    if (pid < 0) {
      answer = -errno;
      break;
    }
    children[count++] = pid;
  }
  for (int i = 0; i < count; ++i) ::kill(children[i], SIGKILL);
  for (int i = 0; i < count; ++i) ::waitpid(children[i], nullptr, 0);
  return answer;
}

long much_memory(const Bait&) {
  void* block = ::mmap(nullptr, kMemory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return -errno;
  // Touched slowly enough for a supervisor that looks every 20 ms, where no cgroup counts.
  for (size_t at = 0; at < kMemory; at += kBlock) {
    std::memset(static_cast<char*>(block) + at, 1, kBlock);
    const timespec pause{0, 2000000};
    ::nanosleep(&pause, nullptr);
  }
  return 0;
}

long much_disk(const Bait&) {
  const char* path = "/tmp/sbx-selftest-large";
  const long fd = raw::call(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) return kUntried;
  static char block[kBlock];
  long answer = 0;
  for (size_t written = 0; written < kDisk && answer >= 0; written += kBlock) {
    answer = raw::call(SYS_write, fd, block, kBlock);
    if (answer >= 0 && static_cast<size_t>(answer) < kBlock) answer = -ENOSPC;
  }
  raw::call(SYS_unlinkat, AT_FDCWD, path, 0);
  return answer;
}

long much_time(const Bait&) {
  const timespec second{1, 0};
  ::nanosleep(&second, nullptr);
  return 0;
}

long raise_priority(const Bait&) { return raw::call(SYS_setpriority, PRIO_PROCESS, 0, -20); }
long real_time(const Bait&) {
  const sched_param parameter{1};
  return raw::call(SYS_sched_setscheduler, 0, SCHED_FIFO, &parameter);
}
long raise_files(const Bait&) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kUntried;
  limit.rlim_max += 1;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? 0 : -errno;
}
long core_file(const Bait&) {
  // 1 keeps even a piped core_pattern from running; anything larger makes a core file or starts the host's helper.
  rlimit limit{};
  if (::getrlimit(RLIMIT_CORE, &limit) != 0) return kUntried;
  return limit.rlim_max > 1 ? 0 : -EPERM;
}

}  // namespace sbx::selftest::tries
