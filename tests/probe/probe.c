// One attempt at something a sandbox should refuse. `probe NAME [ARGS…]` tries it and prints one line: `ok` when it
// worked, else the errno's name (`EPERM`); some sub-commands print facts instead. Static, so that it runs in any view of
// files. The exit status is 0 when the attempt could be made, 2 for wrong usage; a filter may kill it.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

// Numbers that a C library's headers may lack; the generic ones are the same on every architecture.
enum {
  kNrIoUringSetup = 425, kNrOpenTree = 428, kNrFsopen = 430, kNrClone3 = 435, kNrOpenat2 = 437,
  kNrPidfdGetfd = 438, kNrMountSetattr = 442, kNrFchmodat2 = 452,
};
static const char* const kErrnoNames[] = {
    [EPERM] = "EPERM", [ENOENT] = "ENOENT", [ESRCH] = "ESRCH", [EINTR] = "EINTR", [EIO] = "EIO", [ENXIO] = "ENXIO",
    [E2BIG] = "E2BIG", [ENOEXEC] = "ENOEXEC", [EBADF] = "EBADF", [ECHILD] = "ECHILD", [EAGAIN] = "EAGAIN",
    [ENOMEM] = "ENOMEM", [EACCES] = "EACCES", [EFAULT] = "EFAULT", [EBUSY] = "EBUSY", [EEXIST] = "EEXIST",
    [EXDEV] = "EXDEV", [ENODEV] = "ENODEV", [ENOTDIR] = "ENOTDIR", [EISDIR] = "EISDIR", [EINVAL] = "EINVAL",
    [ENFILE] = "ENFILE", [EMFILE] = "EMFILE", [ENOTTY] = "ENOTTY", [ETXTBSY] = "ETXTBSY", [EFBIG] = "EFBIG",
    [ENOSPC] = "ENOSPC", [ESPIPE] = "ESPIPE", [EROFS] = "EROFS", [EMLINK] = "EMLINK", [EPIPE] = "EPIPE",
    [ELOOP] = "ELOOP", [ENOSYS] = "ENOSYS", [EOVERFLOW] = "EOVERFLOW", [EUSERS] = "EUSERS",
    [ENOTSOCK] = "ENOTSOCK", [EPROTONOSUPPORT] = "EPROTONOSUPPORT", [ESOCKTNOSUPPORT] = "ESOCKTNOSUPPORT",
    [EOPNOTSUPP] = "EOPNOTSUPP", [EAFNOSUPPORT] = "EAFNOSUPPORT", [EADDRINUSE] = "EADDRINUSE",
    [ENETDOWN] = "ENETDOWN", [ENETUNREACH] = "ENETUNREACH", [ECONNRESET] = "ECONNRESET", [ETIMEDOUT] = "ETIMEDOUT",
    [ECONNREFUSED] = "ECONNREFUSED", [EHOSTUNREACH] = "EHOSTUNREACH", [EDQUOT] = "EDQUOT", [ENOKEY] = "ENOKEY",
};

static int say(long answer) {
  if (answer >= 0) {
    puts("ok");
  } else if (errno > 0 && errno < (int)(sizeof kErrnoNames / sizeof *kErrnoNames) && kErrnoNames[errno]) {
    puts(kErrnoNames[errno]);
  } else {
    printf("errno %d\n", errno);
  }
  fflush(stdout);
  return 0;
}

static long number(const char* text) { return strtol(text, NULL, 0); }

// open MODE PATH [OCTAL]: modes r w rw trunc append create(=O_CREAT|O_EXCL|O_WRONLY) path(=O_PATH)
static int try_open(char** argv) {
  int flags = O_RDONLY;
  if (!strcmp(argv[0], "w")) flags = O_WRONLY;
  if (!strcmp(argv[0], "rw")) flags = O_RDWR;
  if (!strcmp(argv[0], "trunc")) flags = O_WRONLY | O_TRUNC;
  if (!strcmp(argv[0], "append")) flags = O_WRONLY | O_APPEND;
  if (!strcmp(argv[0], "create")) flags = O_WRONLY | O_CREAT | O_EXCL;
  if (!strcmp(argv[0], "path")) flags = O_PATH;
  return say(open(argv[1], flags | O_NONBLOCK | O_NOCTTY, argv[2] ? strtol(argv[2], NULL, 8) : 0644));
}

// A child's verdict must not kill the probe: clone-like attempts are made in a child of our own.
static int try_clone(unsigned long flags) {
  // Raw clone: the child must not return into a frame that libc does not know; it exits at once.
  const long pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
  if (pid == 0) syscall(SYS_exit_group, 0);
  if (pid > 0) waitpid((pid_t)pid, NULL, __WALL);
  return say(pid < 0 ? -1 : 0);
}

static int try_clone3(uint64_t flags) {
  struct { uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls; } arguments;
  memset(&arguments, 0, sizeof arguments);
  arguments.flags = flags;
  arguments.exit_signal = SIGCHLD;
  const long pid = syscall(kNrClone3, &arguments, sizeof arguments);
  if (pid == 0) syscall(SYS_exit_group, 0);
  if (pid > 0) waitpid((pid_t)pid, NULL, __WALL);
  return say(pid < 0 ? -1 : 0);
}

static int try_connect(const char* address, int port) {
  struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  const int is_six = strchr(address, ':') != NULL;
  if (inet_pton(is_six ? AF_INET6 : AF_INET, address, is_six ? (void*)&six.sin6_addr : (void*)&four.sin_addr) != 1) {
    return 2;
  }
  const int fd = socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
  if (fd < 0) return say(-1);
  struct timeval second = {.tv_sec = 2};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
  return say(is_six ? connect(fd, (void*)&six, sizeof six) : connect(fd, (void*)&four, sizeof four));
}

// A name that starts with '@' is an abstract one.
static int try_unix(const char* name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const size_t length = strlen(name);
  if (length >= sizeof address.sun_path) return 2;
  memcpy(address.sun_path, name, length);
  if (name[0] == '@') address.sun_path[0] = 0;
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) return say(-1);
  return say(connect(fd, (void*)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length +
                                                       (name[0] == '@' ? 0 : 1))));
}

// Loads a filter file as sbx dumps it and answers whether the kernel takes it.
static int try_load_filter(const char* path) {
  static struct sock_filter program[4096];
  const int fd = open(path, O_RDONLY);
  if (fd < 0) return say(-1);
  const ssize_t size = read(fd, program, sizeof program);
  struct sock_fprog filter = {.len = (unsigned short)(size / (ssize_t)sizeof *program), .filter = program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return say(-1);
  return say(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
}

// One request on a terminal of our own making, so that it harms nobody who lets it through.
static int try_own_terminal(const char* request) {
  const int master = open("/dev/ptmx", O_RDWR | O_NOCTTY);
  if (master < 0 || unlockpt(master)) return say(-1);
  const char* name = ptsname(master);
  const int slave = name ? open(name, O_RDWR | O_NOCTTY) : -1;
  if (slave < 0) return say(-1);
  int discipline = 0;  // N_TTY
  if (!strcmp(request, "TIOCSTI")) return say(ioctl(slave, TIOCSTI, " "));
  // The kernel looks at the low 32 bits of the request only; so must the filter.
  if (!strcmp(request, "TIOCSTI-high")) return say(syscall(SYS_ioctl, slave, 0x100000000ul | TIOCSTI, " "));
  if (!strcmp(request, "TIOCSETD")) return say(ioctl(slave, TIOCSETD, &discipline));
  if (!strcmp(request, "TIOCCONS")) return say(ioctl(slave, TIOCCONS, 0));
  if (!strcmp(request, "TIOCLINUX")) return say(ioctl(slave, TIOCLINUX, "\x03"));
  return 2;
}

static int list_fds(void) {
  // fcntl and not /proc: it works without a /proc, and sees descriptors that a listing of it would add to.
  for (int fd = 0; fd < 4096; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) printf("%d\n", fd);
  }
  return 0;
}

// mode-bits CALL DIR: creates a file with mode 06755 in DIR by this call; says ok only if the bits are then there.
static int try_mode_bits(const char* call, const char* directory) {
  char path[4096], link[4096];
  snprintf(path, sizeof path, "%s/mode-%s", directory, call);
  snprintf(link, sizeof link, "%s/mode-%s.link", directory, call);
  umask(0);
  unlink(path);
  long answer = -1;
  int fd = -1;
  if (!strcmp(call, "open")) {
    answer = fd = open(path, O_CREAT | O_WRONLY | O_EXCL, 06755);
  } else if (!strcmp(call, "openat")) {
    answer = fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_EXCL, 06755);
  } else if (!strcmp(call, "tmpfile")) {
    answer = fd = open(directory, O_TMPFILE | O_WRONLY, 06755);
    if (fd >= 0) {
      struct stat state;
      if (fstat(fd, &state)) return say(-1);
      if ((state.st_mode & 06000) == 0) { puts("stripped"); return 0; }
      return say(0);
    }
    return say(-1);
  } else if (!strcmp(call, "openat2")) {
    struct { uint64_t flags, mode, resolve; } how = {O_CREAT | O_WRONLY | O_EXCL, 06755, 0};
    answer = fd = (int)syscall(kNrOpenat2, AT_FDCWD, path, &how, sizeof how);
#ifdef SYS_creat
  } else if (!strcmp(call, "creat")) {
    answer = fd = (int)syscall(SYS_creat, path, 06755);
#endif
  } else if (!strcmp(call, "mknod")) {
#ifdef SYS_mknod
    answer = syscall(SYS_mknod, path, S_IFREG | 06755, 0);
#else
    answer = mknodat(AT_FDCWD, path, S_IFREG | 06755, 0);
#endif
  } else if (!strcmp(call, "mknodat")) {
    answer = syscall(SYS_mknodat, AT_FDCWD, path, S_IFREG | 06755, 0);
  } else {
    fd = open(path, O_CREAT | O_WRONLY | O_EXCL, 0644);
    if (fd < 0) return say(-1);
    if (!strcmp(call, "fchmod")) answer = fchmod(fd, 06755);
#ifdef SYS_chmod
    if (!strcmp(call, "chmod")) answer = syscall(SYS_chmod, path, 06755);
#endif
    if (!strcmp(call, "fchmodat")) answer = syscall(SYS_fchmodat, AT_FDCWD, path, 06755);
    if (!strcmp(call, "fchmodat2")) answer = syscall(kNrFchmodat2, AT_FDCWD, path, 06755, 0);
  }
  if (answer < 0) return say(-1);
  struct stat state;
  if (stat(path, &state)) return say(-1);
  if ((state.st_mode & 06000) == 0) {
    puts("stripped");
    return 0;
  }
  return say(0);
}

static int show_ids(void) {
  uid_t r, e, s;
  gid_t rg, eg, sg, groups[256];
  getresuid(&r, &e, &s);
  getresgid(&rg, &eg, &sg);
  const int count = getgroups(256, groups);
  printf("uid %u %u %u\ngid %u %u %u\ngroups %d\n", r, e, s, rg, eg, sg, count);
  return 0;
}

#ifdef __x86_64__
static int try_int80(void) {
  long answer;
  // getpid of the 32-bit table: harmless where it is let through.
  __asm__ volatile("int $0x80" : "=a"(answer) : "a"(20L) : "r8", "r9", "r10", "r11", "memory");
  errno = answer < 0 ? (int)-answer : 0;
  return say(answer < 0 ? -1 : 0);
}
#endif

static int named_call(const char* name) {
  char buffer[256];
  memset(buffer, 0, sizeof buffer);
  if (!strcmp(name, "bpf")) return say(syscall(SYS_bpf, 0, buffer, 72));
  if (!strcmp(name, "perf_event_open")) return say(syscall(SYS_perf_event_open, buffer, 0, -1, -1, 0));
  if (!strcmp(name, "kexec_load")) return say(syscall(SYS_kexec_load, 0, 0, 0, 0));
  if (!strcmp(name, "init_module")) return say(syscall(SYS_init_module, buffer, 0, ""));
  if (!strcmp(name, "finit_module")) return say(syscall(SYS_finit_module, 0, "", 0));
  if (!strcmp(name, "delete_module")) return say(syscall(SYS_delete_module, "no_such_module", 0));
#ifdef SYS_iopl
  if (!strcmp(name, "iopl")) return say(syscall(SYS_iopl, 3));
  if (!strcmp(name, "ioperm")) return say(syscall(SYS_ioperm, 0x80, 1, 1));
  if (!strcmp(name, "modify_ldt")) return say(syscall(SYS_modify_ldt, 0, buffer, 64));
#endif
  if (!strcmp(name, "quotactl")) return say(syscall(SYS_quotactl, 0x80000100, 0, 0, 0));
  if (!strcmp(name, "acct")) return say(syscall(SYS_acct, 0));
  if (!strcmp(name, "swapon")) return say(syscall(SYS_swapon, "/tmp/no-such", 0));
  if (!strcmp(name, "swapoff")) return say(syscall(SYS_swapoff, "/tmp/no-such"));
  // Wrong magic numbers: refused with EINVAL even where it would be allowed, so a kernel that is reached shows.
  if (!strcmp(name, "reboot")) return say(syscall(SYS_reboot, 1, 2, 3, 0));
  if (!strcmp(name, "lookup_dcookie")) return say(syscall(SYS_lookup_dcookie, 0, buffer, 64));
  if (!strcmp(name, "userfaultfd")) return say(syscall(SYS_userfaultfd, 1));
  if (!strcmp(name, "io_uring_setup")) return say(syscall(kNrIoUringSetup, 2, buffer));
  if (!strcmp(name, "fsopen")) return say(syscall(kNrFsopen, "tmpfs", 0));
  if (!strcmp(name, "open_tree")) return say(syscall(kNrOpenTree, AT_FDCWD, "/", 1));
  if (!strcmp(name, "mount_setattr")) return say(syscall(kNrMountSetattr, AT_FDCWD, "/", 0, buffer, 32));
  if (!strcmp(name, "pivot_root")) return say(syscall(SYS_pivot_root, "/", "/tmp"));
  if (!strcmp(name, "chroot")) return say(chroot("/"));
  if (!strcmp(name, "umount")) return say(umount2("/proc", MNT_DETACH));
  if (!strcmp(name, "add_key")) return say(syscall(SYS_add_key, "user", "d", "p", 1, -4));
  if (!strcmp(name, "keyctl")) return say(syscall(SYS_keyctl, 0, -3, 0));
  if (!strcmp(name, "request_key")) return say(syscall(SYS_request_key, "user", "d", 0, -4));
  if (!strcmp(name, "open_by_handle_at")) {
    memcpy(buffer, "\x08\0\0\0\1\0\0\0", 8);
    return say(syscall(SYS_open_by_handle_at, AT_FDCWD, buffer, 0));
  }
  if (!strcmp(name, "clock_settime")) {
    // No time at all: a kernel that is reached says EINVAL before it looks whether we may.
    struct timespec epoch = {0, -1};
    return say(syscall(SYS_clock_settime, CLOCK_REALTIME, &epoch));
  }
  if (!strcmp(name, "adjtimex")) {
    struct timex request = {.modes = ADJ_TICK, .tick = 10000};
    return say(adjtimex(&request));
  }
  if (!strcmp(name, "settimeofday")) {
    struct timeval epoch = {0, -1};
    return say(syscall(SYS_settimeofday, &epoch, NULL));
  }
  if (!strcmp(name, "personality")) return say(syscall(SYS_personality, 0x0040000));
  if (!strcmp(name, "setpriority")) return say(setpriority(PRIO_PROCESS, 0, -5));
  if (!strcmp(name, "sched_fifo")) {
    struct sched_param parameter = {.sched_priority = 1};
    return say(sched_setscheduler(0, SCHED_FIFO, &parameter));
  }
  if (!strcmp(name, "sethostname")) return say(sethostname("probe", 5));
  if (!strcmp(name, "vhangup")) return say(syscall(SYS_vhangup));
  if (!strcmp(name, "syslog")) return say(syscall(SYS_syslog, 3, buffer, sizeof buffer));
  if (!strcmp(name, "fanotify_init")) return say(syscall(SYS_fanotify_init, 0, 0));
  if (!strcmp(name, "name_to_handle_at")) {
    int mount = 0;
    memcpy(buffer, "\x40\0\0\0", 4);
    return say(syscall(SYS_name_to_handle_at, AT_FDCWD, "/", buffer, &mount, 0));
  }
  if (!strcmp(name, "setns")) {
    const int fd = open("/proc/self/ns/uts", O_RDONLY);
    return fd < 0 ? say(-1) : say(setns(fd, 0));
  }
  if (!strcmp(name, "setgroups")) return say(setgroups(0, NULL));
  if (!strcmp(name, "setuid0")) return say(setuid(0));
  if (!strcmp(name, "kcmp")) return say(syscall(SYS_kcmp, getpid(), getpid(), 0, 0, 1));
  if (!strcmp(name, "tiocsti")) return say(ioctl(0, TIOCSTI, " "));
  if (!strcmp(name, "tioclinux")) return say(ioctl(0, TIOCLINUX, "\x03"));
  if (!strcmp(name, "tiocsti-high")) {
    // The kernel looks at the low 32 bits of the request only; so must the filter.
    return say(syscall(SYS_ioctl, 0, 0x100000000ul | TIOCSTI, " "));
  }
  if (!strcmp(name, "raise-rlimit")) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_CORE, &limit)) return say(-1);
    limit.rlim_cur = limit.rlim_max = RLIM_INFINITY;
    return say(setrlimit(RLIMIT_CORE, &limit));
  }
#ifdef __x86_64__
  if (!strcmp(name, "x32")) return say(syscall(0x40000000 + SYS_getpid));
  if (!strcmp(name, "int80")) return try_int80();
#endif
  return 2;
}

static int attempt(int argc, char** argv);

// each "NAME ARGS…" "NAME ARGS…" …: several attempts in one process, a line `NAME ARGS…: answer` for each.
static int each(int count, char** texts) {
  for (int i = 0; i < count; ++i) {
    char words[1024];
    char* argv[16] = {"probe"};
    int argc = 1;
    snprintf(words, sizeof words, "%s", texts[i]);
    for (char* word = strtok(words, " "); word != NULL && argc < 15; word = strtok(NULL, " ")) argv[argc++] = word;
    printf("%s: ", texts[i]);
    fflush(stdout);
    if (attempt(argc, argv) != 0) puts("could not be tried");
    fflush(stdout);
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 2) return fprintf(stderr, "usage: probe NAME [ARGS…]\n"), 2;
  if (!strcmp(argv[1], "each")) return each(argc - 2, argv + 2);
  return attempt(argc, argv);
}

static int attempt(int argc, char** argv) {
  const char* name = argv[1];
  char** rest = argv + 2;
  const int count = argc - 2;
  if (!strcmp(name, "open") && count >= 2) return try_open(rest);
  if (!strcmp(name, "fds")) return list_fds();
  if (!strcmp(name, "ids")) return show_ids();
  if (!strcmp(name, "unshare") && count == 1) return say(unshare((int)number(rest[0])));
  if (!strcmp(name, "clone") && count == 1) return try_clone((unsigned long)number(rest[0]));
  if (!strcmp(name, "clone3") && count == 1) return try_clone3((uint64_t)number(rest[0]));
  if (!strcmp(name, "socket") && count == 3) {
    return say(socket((int)number(rest[0]), (int)number(rest[1]), (int)number(rest[2])));
  }
  if (!strcmp(name, "connect") && count == 2) return try_connect(rest[0], (int)number(rest[1]));
  if (!strcmp(name, "unix") && count == 1) return try_unix(rest[0]);
  if (!strcmp(name, "kill") && count == 2) return say(kill((pid_t)number(rest[0]), (int)number(rest[1])));
  if (!strcmp(name, "vmread") && count == 1) {
    // Any address does: permission is checked first, so EFAULT means that it was granted.
    char here[8];
    struct iovec local = {here, sizeof here}, remote = {(void*)0x400000, sizeof here};
    const pid_t target = (pid_t)number(rest[0]);
    return say(process_vm_readv(target ? target : getpid(), &local, 1, &remote, 1, 0));
  }
  if (!strcmp(name, "traceme")) return say(ptrace(PTRACE_TRACEME, 0, 0, 0));
  if (!strcmp(name, "own-pty") && count == 1) return try_own_terminal(rest[0]);
  if (!strcmp(name, "attach") && count == 1) return say(ptrace(PTRACE_ATTACH, (pid_t)number(rest[0]), 0, 0));
  if (!strcmp(name, "mount") && count == 2) return say(mount("probe", rest[1], rest[0], 0, NULL));
  if (!strcmp(name, "remount-rw") && count == 1) return say(mount(NULL, rest[0], NULL, MS_REMOUNT | MS_BIND, NULL));
  if (!strcmp(name, "mknod-device") && count == 1) return say(mknod(rest[0], S_IFCHR | 0666, makedev(1, 1)));
  if (!strcmp(name, "shmget") && count == 1) return say(shmget((key_t)number(rest[0]), 0, 0));
  if (!strcmp(name, "shm-create") && count == 1) return say(shmget((key_t)number(rest[0]), 4096, IPC_CREAT | 0666));
  if (!strcmp(name, "msgget") && count == 1) return say(msgget((key_t)number(rest[0]), 0));
  if (!strcmp(name, "msg-create") && count == 1) return say(msgget((key_t)number(rest[0]), IPC_CREAT | 0666));
  if (!strcmp(name, "mq") && count == 1) return say(mq_open(rest[0], O_RDONLY));
  if (!strcmp(name, "chown") && count == 3) return say(chown(rest[0], (uid_t)number(rest[1]), (gid_t)number(rest[2])));
  if (!strcmp(name, "setxattr") && count == 3) return say(setxattr(rest[0], rest[1], rest[2], strlen(rest[2]), 0));
  if (!strcmp(name, "mode-bits") && count == 2) return try_mode_bits(rest[0], rest[1]);
  if (!strcmp(name, "load-filter") && count == 1) return try_load_filter(rest[0]);
  if (!strcmp(name, "pidfd-getfd") && count == 2) {
    const int fd = (int)syscall(SYS_pidfd_open, number(rest[0]), 0);
    return fd < 0 ? say(-1) : say(syscall(kNrPidfdGetfd, fd, number(rest[1]), 0));
  }
  if (!strcmp(name, "exec") && count >= 1) {
    execv(rest[0], rest);
    return say(-1);
  }
  if (!strcmp(name, "then") && count >= 2) {
    // then CALL EXEC ARGS…: one attempt, then the rest as another probe (for a sequence in one process).
    named_call(rest[0]);
    execv("/proc/self/exe", argv + 2);
    return say(-1);
  }
  if (!strcmp(name, "nft")) {
    // A user namespace with a network namespace in it, then the netfilter socket: the usual road to kernel bugs.
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET)) return say(-1);
    return say(socket(AF_NETLINK, SOCK_RAW, 12));
  }
  if (!strcmp(name, "spin")) {
    for (volatile unsigned long i = 0;; ++i) {
    }
  }
  if (!strcmp(name, "exit") && count == 1) return (int)number(rest[0]);
  if (!strcmp(name, "raise") && count == 1) {
    raise((int)number(rest[0]));
    return 0;
  }
  if (!strcmp(name, "touch-memory") && count == 1) {
    const size_t size = (size_t)number(rest[0]) << 20;
    char* block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return say(-1);
    memset(block, 1, size);
    return say(0);
  }
  const int answer = named_call(name);
  if (answer == 2) fprintf(stderr, "probe: unknown attempt '%s'\n", name);
  return answer;
}
