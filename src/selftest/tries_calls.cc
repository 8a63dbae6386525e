#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "base/raw_sys.h"
#include "selftest/answer.h"
#include "selftest/tries.h"

// Numbers that headers may lack; the same on every architecture.
#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif

namespace sbx::selftest::tries {
namespace {

constexpr long kProcessKeyring = -2;  // dies with the process
constexpr unsigned long kHighRequest = 0x100000000ul;

// A terminal of our own, so that letting the request through harms nobody.
long on_own_terminal(unsigned long request, const void* argument) {
  const long master = raw::call(SYS_openat, AT_FDCWD, "/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC, 0);
  if (master < 0) return kUntried;
  int unlocked = 0;
  unsigned number = 0;
  if (raw::call(SYS_ioctl, master, TIOCSPTLCK, &unlocked) < 0 || raw::call(SYS_ioctl, master, TIOCGPTN, &number) < 0) return kUntried;
  const long slave = raw::call(SYS_ioctl, master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
  if (slave < 0) return kUntried;
  return raw::call(SYS_ioctl, slave, request, argument);
}

long socket_of(int family, int type, int protocol) { return raw::call(SYS_socket, family, type | SOCK_CLOEXEC, protocol); }

}  // namespace

long keyctl(const Bait&) { return raw::call(SYS_keyctl, 0, kProcessKeyring, 1); }
long add_key(const Bait&) { return raw::call(SYS_add_key, "user", "sbx-selftest", "x", 1, kProcessKeyring); }
long request_key(const Bait&) { return raw::call(SYS_request_key, "user", "sbx-selftest", nullptr, 0); }

long io_uring_setup(const Bait&) {
  char parameters[120] = {};
  return raw::call(SYS_io_uring_setup, 2, parameters);
}

long x32([[maybe_unused]] const Bait& bait) {
#if defined(__x86_64__)
  return raw::call(0x40000000L + SYS_getpid);
#else
  return kUntried;
#endif
}

long int80([[maybe_unused]] const Bait& bait) {
#if defined(__x86_64__)
  long answer = 20;  // getpid of the 32-bit table
  __asm__ volatile("int $0x80" : "+a"(answer) : : "r8", "r9", "r10", "r11", "memory");
  return answer;
#else
  return kUntried;
#endif
}

long userfaultfd(const Bait&) { return raw::call(SYS_userfaultfd, 1 | O_CLOEXEC); }
long ptrace_traceme(const Bait&) { return raw::call(SYS_ptrace, 0, 0, 0, 0); }

long process_vm_readv(const Bait&) {
  char source[8] = {};
  char target[8] = {};
  iovec local{target, sizeof target};
  iovec remote{source, sizeof source};
  return raw::call(SYS_process_vm_readv, ::getpid(), &local, 1, &remote, 1, 0);
}

long kcmp(const Bait&) { return raw::call(SYS_kcmp, ::getpid(), ::getpid(), 0, 0, 1); }

long pidfd_getfd(const Bait&) {
  const long own = raw::call(SYS_pidfd_open, ::getpid(), 0);
  return own < 0 ? kUntried : raw::call(SYS_pidfd_getfd, own, 1, 0);
}

long perf_event_open(const Bait&) {
  // A software clock of this process alone, user space only: what perf_event_paranoid 2 still allows.
  struct {
    uint32_t type, size;
    uint64_t config, period, sample, format, flags;
    char rest[80];
  } event = {};
  event.type = 1;
  event.size = 64;
  event.flags = 0x60;  // exclude_kernel, exclude_hv
  return raw::call(SYS_perf_event_open, &event, 0, -1, -1, 0);
}

long bpf(const Bait&) {
  char attributes[72] = {};
  return raw::call(SYS_bpf, 0, attributes, sizeof attributes);
}
long init_module(const Bait&) { return raw::call(SYS_init_module, "", 0, ""); }
long finit_module(const Bait&) { return raw::call(SYS_finit_module, -1, "", 0); }
long kexec_load(const Bait&) { return raw::call(SYS_kexec_load, 0, 17, nullptr, 0); }
long swapon(const Bait&) { return raw::call(SYS_swapon, "/tmp/sbx-selftest-none", 0); }
// Wrong magic numbers: a kernel that would do it says EINVAL.
long reboot(const Bait&) { return raw::call(SYS_reboot, 1, 2, 3, 0); }

long syslog(const Bait&) {
  char buffer[64];
  return raw::call(SYS_syslog, 3, buffer, sizeof buffer);
}

long fanotify_init(const Bait&) { return raw::call(SYS_fanotify_init, 0x200, 0); }

long iopl([[maybe_unused]] const Bait& bait) {
#if defined(__x86_64__)
  return raw::call(SYS_iopl, 3);
#else
  return kUntried;
#endif
}

long modify_ldt([[maybe_unused]] const Bait& bait) {
#if defined(__x86_64__)
  char table[64] = {};
  return raw::call(SYS_modify_ldt, 0, table, sizeof table);
#else
  return kUntried;
#endif
}

long personality(const Bait&) { return raw::call(SYS_personality, 0x0040000); }

// The estimated error, set to what it is: a kernel looks at the rights before it looks at anything else.
long adjtimex(const Bait&) {
  struct timex request {};
  if (raw::call(SYS_adjtimex, &request) < 0) request = {};
  request.modes = ADJ_ESTERROR;
  return raw::call(SYS_adjtimex, &request);
}
long clock_adjtime(const Bait&) {
  struct timex request {};
  if (raw::call(SYS_clock_adjtime, CLOCK_REALTIME, &request) < 0) request = {};
  request.modes = ADJ_ESTERROR;
  return raw::call(SYS_clock_adjtime, CLOCK_REALTIME, &request);
}

long prctl_mm(const Bait&) {
  unsigned size = 0;
  return raw::call(SYS_prctl, 35, 15, &size, 0, 0);  // PR_SET_MM_MAP_SIZE: asks, by the option that sets
}
long prctl_core(const Bait&) {
  uint64_t cookie = 0;
  return raw::call(SYS_prctl, 62, 0, 0, 0, &cookie);  // PR_SCHED_CORE_GET of oneself
}

long tiocsti(const Bait&) { return on_own_terminal(TIOCSTI, " "); }
// The kernel looks at the low 32 bits of the request only; so must a filter.
long tiocsti_high(const Bait&) { return on_own_terminal(kHighRequest | TIOCSTI, " "); }
long tioclinux(const Bait&) { return on_own_terminal(TIOCLINUX, "\x03"); }
long tiocsetd(const Bait&) {
  const int plain = 0;  // N_TTY, which it has anyway
  return on_own_terminal(TIOCSETD, &plain);
}

long socket_vsock(const Bait&) { return socket_of(40, SOCK_STREAM, 0); }
long socket_alg(const Bait&) { return socket_of(38, SOCK_SEQPACKET, 0); }
long socket_packet(const Bait&) { return socket_of(AF_PACKET, SOCK_RAW, 0); }
long socket_raw(const Bait&) { return socket_of(AF_INET, SOCK_RAW, 1); }
long socket_netfilter(const Bait&) { return socket_of(AF_NETLINK, SOCK_RAW, 12); }
long socket_xfrm(const Bait&) { return socket_of(AF_NETLINK, SOCK_RAW, 6); }

long kernel_tls(const Bait&) {
  const long fd = socket_of(AF_INET, SOCK_STREAM, 0);
  return fd < 0 ? kUntried : raw::call(SYS_setsockopt, fd, 6, 31, "tls", 4);  // SOL_TCP, TCP_ULP
}

long io_setup(const Bait&) {
  unsigned long context = 0;
  return raw::call(SYS_io_setup, 1, &context);
}
long memfd_secret(const Bait&) { return raw::call(SYS_memfd_secret, O_CLOEXEC); }

long lease(const Bait&) {
  const char* path = "/tmp/sbx-selftest-lease";
  const long made = raw::call(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (made < 0) return kUntried;
  raw::call(SYS_close, made);
  const long fd = raw::call(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  raw::call(SYS_unlinkat, AT_FDCWD, path, 0);
  return fd < 0 ? kUntried : raw::call(SYS_fcntl, fd, F_SETLEASE, F_RDLCK);
}

}  // namespace sbx::selftest::tries
