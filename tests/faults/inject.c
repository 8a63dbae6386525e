// Makes one system call of a program fail, as strace --inject does, but numbers the calls of each process by itself: the
// supervisor's, init's, the payload's until its exec.
//
//   inject --log FILE [--record] [--fail ROLE:CALL:N:ERRNO]… [--below PATH:WHAT]… [--follow PROGRAM] [--seconds S] -- COMMAND [ARGS…]
//
// A ROLE is the way to a process in the tree of forks: 0 is COMMAND, 0.1 its first child, 0.1.1 the first child of that.
// N counts the calls of that name in that role, from 1. --below lets every write, mkdir, open and rmdir below PATH by COMMAND
// and its forks fail (WHAT an errno's number) or take longer (WHAT = +MILLISECONDS). Any process but COMMAND that executes a
// program is let go: from there on it is a payload, unless the program is the one to --follow. The status is COMMAND's.
//
// The log has a line for each fact:
//   c ROLE CALL N RESULT LABEL   with --record: a call          h ROLE CALL N LABEL   the call that was made to fail
//   m PATH                       a name was made by 0           x ROLE                executed a program, and with it
//   g NAME VALUE                 its cgroups and their limits, id maps and uid, as seen from outside
//   k ROLE SIGNAL                killed by a signal             l ROLE PID            lived on after COMMAND had ended
//   t                            COMMAND did not end in time    e STATUS              COMMAND's end
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#if !defined(__x86_64__)
int main(void) {
  fputs("inject: knows x86-64 only\n", stderr);
  return 2;
}
#else

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Newer than some headers: <linux/ptrace.h>, 5.3.
enum { kGetSyscallInfo = 0x420e, kEntry = 1, kExit = 2 };
struct syscall_info {
  uint8_t op, pad[3];
  uint32_t arch;
  uint64_t ip, sp;
  union {
    struct { uint64_t nr, args[6]; } entry;
    struct { int64_t rval; uint8_t is_error; } exit;
  } u;
};

// Which argument is a descriptor and which are paths: what the label shows. 9: none.
static const struct Name { const char* name; int nr, fd, path, path2; } kNames[] = {
#define CALL(name, fd, path, path2) {#name, SYS_##name, fd, path, path2},
  CALL(accept4, 0, 9, 9) CALL(access, 9, 0, 9) CALL(arch_prctl, 9, 9, 9) CALL(bind, 0, 9, 9) CALL(brk, 9, 9, 9) CALL(capget, 9, 9, 9) CALL(capset, 9, 9, 9)
  CALL(chdir, 9, 0, 9) CALL(chmod, 9, 0, 9) CALL(chown, 9, 0, 9) CALL(chroot, 9, 0, 9) CALL(clock_gettime, 9, 9, 9)
  CALL(clock_nanosleep, 9, 9, 9) CALL(clone, 9, 9, 9) CALL(close, 0, 9, 9) CALL(connect, 0, 9, 9) CALL(copy_file_range, 0, 9, 9)
  CALL(dup, 0, 9, 9) CALL(dup2, 0, 9, 9) CALL(dup3, 0, 9, 9) CALL(epoll_create1, 9, 9, 9) CALL(epoll_ctl, 0, 9, 9)
  CALL(epoll_wait, 0, 9, 9) CALL(eventfd2, 9, 9, 9) CALL(execve, 9, 0, 9) CALL(execveat, 0, 1, 9) CALL(exit_group, 9, 9, 9)
  CALL(faccessat, 0, 1, 9) CALL(fallocate, 0, 9, 9) CALL(fchdir, 0, 9, 9) CALL(fchmod, 0, 9, 9) CALL(fchmodat, 0, 1, 9)
  CALL(fchown, 0, 9, 9) CALL(fchownat, 0, 1, 9) CALL(fcntl, 0, 9, 9) CALL(flock, 0, 9, 9) CALL(fork, 9, 9, 9) CALL(fstat, 0, 9, 9) CALL(fstatfs, 0, 9, 9)
  CALL(fsync, 0, 9, 9) CALL(ftruncate, 0, 9, 9) CALL(futex, 9, 9, 9) CALL(getcwd, 9, 9, 9) CALL(getdents64, 0, 9, 9)
  CALL(getegid, 9, 9, 9) CALL(geteuid, 9, 9, 9) CALL(getgid, 9, 9, 9) CALL(getgroups, 9, 9, 9) CALL(getpgrp, 9, 9, 9)
  CALL(getpid, 9, 9, 9) CALL(getppid, 9, 9, 9) CALL(getrandom, 9, 9, 9) CALL(getresgid, 9, 9, 9) CALL(getresuid, 9, 9, 9)
  CALL(getrlimit, 9, 9, 9) CALL(getsockopt, 0, 9, 9) CALL(gettid, 9, 9, 9) CALL(getuid, 9, 9, 9) CALL(getxattr, 9, 0, 9)
  CALL(inotify_add_watch, 0, 1, 9) CALL(inotify_init1, 9, 9, 9) CALL(ioctl, 0, 9, 9) CALL(keyctl, 9, 9, 9) CALL(kill, 9, 9, 9)
  CALL(lgetxattr, 9, 0, 9) CALL(link, 9, 0, 1) CALL(linkat, 0, 1, 3) CALL(listen, 0, 9, 9) CALL(listxattr, 9, 0, 9) CALL(llistxattr, 9, 0, 9) CALL(lseek, 0, 9, 9) CALL(lstat, 9, 0, 9)
  CALL(madvise, 9, 9, 9) CALL(memfd_create, 9, 0, 9) CALL(mkdir, 9, 0, 9) CALL(mkdirat, 0, 1, 9) CALL(mknod, 9, 0, 9)
  CALL(mknodat, 0, 1, 9) CALL(mmap, 9, 9, 9) CALL(mount, 9, 1, 0) CALL(mprotect, 9, 9, 9) CALL(mremap, 9, 9, 9) CALL(munmap, 9, 9, 9)
  CALL(nanosleep, 9, 9, 9) CALL(newfstatat, 0, 1, 9) CALL(open, 9, 0, 9) CALL(openat, 0, 1, 9) CALL(pause, 9, 9, 9)
  CALL(personality, 9, 9, 9) CALL(pipe2, 9, 9, 9) CALL(pivot_root, 9, 0, 1) CALL(poll, 9, 9, 9) CALL(ppoll, 9, 9, 9)
  CALL(prctl, 9, 9, 9) CALL(pread64, 0, 9, 9) CALL(prlimit64, 9, 9, 9) CALL(pselect6, 9, 9, 9) CALL(pwrite64, 0, 9, 9) CALL(read, 0, 9, 9)
  CALL(readlink, 9, 0, 9) CALL(readlinkat, 0, 1, 9) CALL(readv, 0, 9, 9) CALL(recvfrom, 0, 9, 9) CALL(recvmsg, 0, 9, 9)
  CALL(rename, 9, 0, 1) CALL(renameat, 0, 1, 3) CALL(renameat2, 0, 1, 3) CALL(restart_syscall, 9, 9, 9) CALL(rmdir, 9, 0, 9)
  CALL(rseq, 9, 9, 9) CALL(rt_sigaction, 9, 9, 9) CALL(rt_sigpending, 9, 9, 9) CALL(rt_sigprocmask, 9, 9, 9)
  CALL(rt_sigreturn, 9, 9, 9) CALL(rt_sigsuspend, 9, 9, 9) CALL(rt_sigtimedwait, 9, 9, 9) CALL(sched_getaffinity, 9, 9, 9)
  CALL(sched_setaffinity, 9, 9, 9) CALL(sched_yield, 9, 9, 9) CALL(seccomp, 9, 9, 9) CALL(sendfile, 0, 9, 9) CALL(sendmsg, 0, 9, 9)
  CALL(sendto, 0, 9, 9) CALL(set_robust_list, 9, 9, 9) CALL(set_tid_address, 9, 9, 9) CALL(setfsuid, 9, 9, 9) CALL(setgid, 9, 9, 9)
  CALL(setgroups, 9, 9, 9) CALL(sethostname, 9, 9, 9) CALL(setns, 9, 9, 9) CALL(setpgid, 9, 9, 9) CALL(setpriority, 9, 9, 9) CALL(setresgid, 9, 9, 9)
  CALL(setresuid, 9, 9, 9) CALL(setrlimit, 9, 9, 9) CALL(setsid, 9, 9, 9) CALL(setsockopt, 0, 9, 9) CALL(setuid, 9, 9, 9)
  CALL(setxattr, 9, 0, 9) CALL(shutdown, 0, 9, 9) CALL(sigaltstack, 9, 9, 9) CALL(signalfd4, 9, 9, 9) CALL(socket, 9, 9, 9)
  CALL(socketpair, 9, 9, 9) CALL(splice, 0, 9, 9) CALL(stat, 9, 0, 9) CALL(statfs, 9, 0, 9) CALL(statx, 0, 1, 9)
  CALL(symlink, 9, 0, 1) CALL(symlinkat, 1, 2, 0) CALL(sysinfo, 9, 9, 9) CALL(tee, 0, 9, 9) CALL(tgkill, 9, 9, 9)
  CALL(timerfd_create, 9, 9, 9) CALL(timerfd_gettime, 0, 9, 9) CALL(timerfd_settime, 0, 9, 9) CALL(umask, 9, 9, 9)
  CALL(umount2, 9, 0, 9) CALL(uname, 9, 9, 9) CALL(unlink, 9, 0, 9) CALL(unlinkat, 0, 1, 9) CALL(unshare, 9, 9, 9)
  CALL(utimensat, 0, 1, 9) CALL(vfork, 9, 9, 9) CALL(wait4, 9, 9, 9) CALL(waitid, 9, 9, 9) CALL(write, 0, 9, 9) CALL(writev, 0, 9, 9)
#undef CALL
  {"pidfd_send_signal", 424, 0, 9, 9}, {"open_tree", 428, 0, 1, 9}, {"move_mount", 429, 0, 1, 3}, {"fsopen", 430, 9, 0, 9},
  {"fsconfig", 431, 0, 9, 9}, {"fsmount", 432, 0, 9, 9}, {"pidfd_open", 434, 9, 9, 9}, {"clone3", 435, 9, 9, 9},
  {"close_range", 436, 9, 9, 9}, {"openat2", 437, 0, 1, 9}, {"pidfd_getfd", 438, 0, 9, 9}, {"faccessat2", 439, 0, 1, 9},
  {"mount_setattr", 442, 0, 1, 9}, {"landlock_create_ruleset", 444, 9, 9, 9}, {"landlock_add_rule", 445, 0, 9, 9},
  {"landlock_restrict_self", 446, 0, 9, 9}, {"fchmodat2", 452, 0, 1, 9},
};
enum { kNameCount = sizeof kNames / sizeof *kNames, kMaxCalls = 512, kMaxProcesses = 4096, kMaxTargets = 64 };

struct Process {
  pid_t pid;
  char role[64];
  int known, children, traced, inside, record_call;
  int pidfd;
  int count[kMaxCalls];
  long top;              // what brk answered last
  long nr, forced;       // a result to put in the place of the real one
  char label[512];
};
static struct Process* processes[kMaxProcesses];
static int process_count;
static struct Target { char role[64]; int nr, n, error; } targets[kMaxTargets];
static int target_count;
static struct Below { char path[256]; int error, delay_ms; } belows[kMaxTargets];
static int below_count;
static FILE* log_file;
static int recording;
static const char* followed;
static volatile sig_atomic_t alarmed;

static void on_alarm(int signal) { (void)signal; alarmed = 1; }

static const struct Name* name_of(long nr) {
  for (int i = 0; i < kNameCount; ++i) {
    if (kNames[i].nr == nr) return &kNames[i];
  }
  return NULL;
}

static int number_of(const char* name) {
  for (int i = 0; i < kNameCount; ++i) {
    if (!strcmp(kNames[i].name, name)) return kNames[i].nr;
  }
  return strncmp(name, "nr_", 3) ? -1 : atoi(name + 3);
}

static const char* word_of(long nr) {
  static char text[32];
  const struct Name* name = name_of(nr);
  if (name) return name->name;
  snprintf(text, sizeof text, "nr_%ld", nr);
  return text;
}

static struct Process* find(pid_t pid) {
  for (int i = 0; i < process_count; ++i) {
    if (processes[i]->pid == pid) return processes[i];
  }
  return NULL;
}

static struct Process* add(pid_t pid) {
  if (process_count == kMaxProcesses) exit(2);
  struct Process* process = calloc(1, sizeof *process);
  if (!process) exit(2);
  process->pid = pid;
  process->traced = 1;
  process->pidfd = -1;
  processes[process_count++] = process;
  return process;
}

// Text of the tracee, up to its end or the room; what would break a line becomes '?'.
static void text_at(pid_t pid, uint64_t address, char* out, size_t room, size_t most) {
  size_t at = 0;
  if (most > room - 1) most = room - 1;
  while (at < most && address) {
    errno = 0;
    const long word = ptrace(PTRACE_PEEKDATA, pid, (void*)(address + at), NULL);
    if (errno) break;
    for (size_t i = 0; i < sizeof word && at < most; ++i, ++at) {
      const unsigned char c = (unsigned char)((unsigned long)word >> (8 * i) & 0xff);
      if (!c) { out[at] = 0; return; }
      out[at] = c < 0x20 || c > 0x7e ? '?' : (char)c;
    }
  }
  out[at] = 0;
}

static void descriptor(pid_t pid, long fd, char* out, size_t room) {
  char path[64];
  const int number = (int)fd;
  if (number == AT_FDCWD) snprintf(path, sizeof path, "/proc/%d/cwd", pid);
  else snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, number);
  const ssize_t size = readlink(path, out, room - 1);
  if (size < 0) snprintf(out, room, "fd%d", number);
  else out[size] = 0;
}

static void describe(struct Process* process, const struct syscall_info* info, int full) {
  const struct Name* name = name_of((long)info->u.entry.nr);
  const uint64_t* args = info->u.entry.args;
  char fd[256] = "", path[256] = "", second[256] = "";
  process->label[0] = 0;
  if (!name) return;
  if (name->path != 9) text_at(process->pid, args[name->path], path, sizeof path, 250);
  if (name->fd != 9 && path[0] != '/' && (full || path[0])) descriptor(process->pid, (long)args[name->fd], fd, sizeof fd);
  else if (name->fd == 9 && path[0] && path[0] != '/') descriptor(process->pid, AT_FDCWD, fd, sizeof fd);
  if (full && name->path2 != 9) text_at(process->pid, args[name->path2], second, sizeof second, 250);
  const char* between = fd[0] && path[0] ? "/" : "";
  int used = snprintf(process->label, sizeof process->label, "%s%s%s%s%s", fd, between, path, second[0] ? " " : "", second);
  if (!full || used < 0 || (size_t)used >= sizeof process->label) return;
  char* rest = process->label + used;
  const size_t room = sizeof process->label - (size_t)used;
  char bytes[48];
  switch (info->u.entry.nr) {
    case SYS_write:
      text_at(process->pid, args[1], bytes, sizeof bytes, args[2] < 40 ? args[2] : 40);
      snprintf(rest, room, " \"%s\"", bytes);
      break;
    case SYS_prctl: case SYS_prlimit64: case SYS_rt_sigaction: case SYS_fcntl: case SYS_ioctl: case SYS_epoll_ctl:
      snprintf(rest, room, " %ld %ld", (long)args[0], (long)args[1]);
      break;
    default: break;
  }
}

static int makes_a_name(long nr, const uint64_t* args) {
  if (nr == SYS_mkdir || nr == SYS_mkdirat || nr == SYS_mknod || nr == SYS_mknodat || nr == SYS_symlinkat || nr == SYS_symlink) return 1;
  if (nr == SYS_bind) return 0;
  return (nr == SYS_openat && (args[2] & O_CREAT)) || (nr == SYS_open && (args[1] & O_CREAT));
}

static int touches_files(long nr) {
  return nr == SYS_write || nr == SYS_mkdir || nr == SYS_mkdirat || nr == SYS_openat || nr == SYS_unlinkat || nr == SYS_rmdir || nr == SYS_read ||
         nr == SYS_pread64;
}

// ---- stops ---------------------------------------------------------------------------------------------------------

static void refuse(struct Process* process, int error) {
  // A harmless call in its place. Not -1, which a filter may kill for.
  ptrace(PTRACE_POKEUSER, process->pid, offsetof(struct user_regs_struct, orig_rax), SYS_getpid);
  // brk answers no errno but the end that stays.
  process->forced = process->nr == SYS_brk ? process->top : -error;
}

static void on_call(struct Process* process, const struct syscall_info* info) {
  const long nr = (long)info->u.entry.nr;
  process->nr = nr;
  process->forced = 0;
  process->label[0] = 0;
  const int n = nr >= 0 && nr < kMaxCalls ? ++process->count[nr] : 0;
  const int names = !strcmp(process->role, "0") && makes_a_name(nr, info->u.entry.args);
  if (recording || names) describe(process, info, recording);
  process->record_call = names;
  for (int i = 0; i < target_count; ++i) {
    if (targets[i].nr != nr || targets[i].n != n || strcmp(targets[i].role, process->role)) continue;
    describe(process, info, 1);
    fprintf(log_file, "h %s %s %d %s\n", process->role, word_of(nr), n, process->label);
    refuse(process, targets[i].error);
    process->record_call = 0;
  }
  if (below_count == 0 || !touches_files(nr)) return;
  describe(process, info, 1);
  for (int i = 0; i < below_count; ++i) {
    if (strncmp(process->label, belows[i].path, strlen(belows[i].path))) continue;
    fprintf(log_file, "h %s %s %d %s\n", process->role, word_of(nr), n, process->label);
    if (belows[i].delay_ms) {
      const struct timespec wait = {belows[i].delay_ms / 1000, belows[i].delay_ms % 1000 * 1000000L};
      nanosleep(&wait, NULL);  // the fault itself, not a wait for something
    } else {
      refuse(process, belows[i].error);
    }
    break;
  }
}

static void on_result(struct Process* process, const struct syscall_info* info) {
  long result = (long)info->u.exit.rval;
  if (process->forced) {
    result = process->forced;
    ptrace(PTRACE_POKEUSER, process->pid, offsetof(struct user_regs_struct, rax), result);
  }
  if (process->nr == SYS_brk) process->top = result;
  if (process->record_call && result >= 0) fprintf(log_file, "m %s\n", process->label);
  if (recording && process->nr < kMaxCalls && process->nr >= 0) {
    fprintf(log_file, "c %s %s %d %ld %s\n", process->role, word_of(process->nr), process->count[process->nr], result, process->label);
  }
  process->forced = 0;
}

static void show_file(const char* shown, const char* path) {
  char text[512];
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t size = read(fd, text, sizeof text - 1);
  close(fd);
  if (size <= 0) return;
  text[size] = 0;
  for (ssize_t i = 0; i < size; ++i) {
    if (text[i] == '\n') text[i] = i + 1 == size ? 0 : ';';
  }
  fprintf(log_file, "g %s %s\n", shown, text);
}

static void show_group(const char* kind, const char* mount, const char* group) {
  static const char* const kFiles[] = {"memory.max", "memory.swap.max", "memory.oom.group", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes",
                                       "pids.max", "cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us", "io.max"};
  for (size_t i = 0; i < sizeof kFiles / sizeof *kFiles; ++i) {
    char path[1024], shown[128];
    snprintf(path, sizeof path, "%s%s/%s", mount, group, kFiles[i]);
    snprintf(shown, sizeof shown, "%s:%s", kind, kFiles[i]);
    show_file(shown, path);
    // The payload's may lie one below the leaf that holds the limits.
    snprintf(path, sizeof path, "%s%s/../%s", mount, group, kFiles[i]);
    snprintf(shown, sizeof shown, "%s:../%s", kind, kFiles[i]);
    const char* const leaf = strstr(group, "/sbx-");
    if (leaf && strchr(leaf + 1, '/')) show_file(shown, path);
  }
}

// What a program that begins looks like from outside.
static void on_exec(struct Process* process) {
  char path[128], line[1024];
  fprintf(log_file, "x %s\n", process->role);
  snprintf(path, sizeof path, "/proc/%d/uid_map", process->pid);
  show_file("uid_map", path);
  snprintf(path, sizeof path, "/proc/%d/gid_map", process->pid);
  show_file("gid_map", path);
  snprintf(path, sizeof path, "/proc/%d/setgroups", process->pid);
  show_file("setgroups", path);
  snprintf(path, sizeof path, "/proc/%d/cgroup", process->pid);
  FILE* groups = fopen(path, "re");
  while (groups && fgets(line, sizeof line, groups)) {
    line[strcspn(line, "\n")] = 0;
    char* kind = strchr(line, ':');
    char* group = kind ? strchr(kind + 1, ':') : NULL;
    if (!group) continue;
    *group++ = 0;
    ++kind;
    fprintf(log_file, "g cgroup:%s %s\n", kind, group);
    char mount[128];
    if (!*kind) {
      show_group("v2", access("/sys/fs/cgroup/unified", F_OK) ? "/sys/fs/cgroup" : "/sys/fs/cgroup/unified", group);
      continue;
    }
    for (char* one = strtok(kind, ","); one; one = strtok(NULL, ",")) {
      snprintf(mount, sizeof mount, "/sys/fs/cgroup/%s", one);
      show_group(one, mount, group);
    }
  }
  if (groups) fclose(groups);
}

static int is_followed(const struct Process* process) {
  char path[64], program[512];
  snprintf(path, sizeof path, "/proc/%d/exe", process->pid);
  const ssize_t size = followed ? readlink(path, program, sizeof program - 1) : -1;
  if (size < 0) return 0;
  program[size] = 0;
  return !strcmp(program, followed);
}

static void go_on(struct Process* process, int signal) { ptrace(PTRACE_SYSCALL, process->pid, 0, signal); }

// The first stop of a child may come before its parent's word of it; then it waits for that.
static void name_child(struct Process* parent, pid_t pid) {
  struct Process* child = find(pid);
  const int stopped = child != NULL;
  if (!child) child = add(pid);
  snprintf(child->role, sizeof child->role, "%.50s.%d", parent->role, ++parent->children);
  child->known = 1;
  if (stopped) go_on(child, 0);
}

static void on_stop(struct Process* process, int status) {
  const int signal = WSTOPSIG(status), event = status >> 16;
  if (event == PTRACE_EVENT_EXEC) {
    if (strcmp(process->role, "0") && !is_followed(process)) {
      on_exec(process);
      process->pidfd = (int)syscall(434 /* pidfd_open */, process->pid, 0);
      process->traced = 0;
      ptrace(PTRACE_DETACH, process->pid, 0, 0);
      return;
    }
    memset(process->count, 0, sizeof process->count);
    process->inside = 1;
  } else if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE) {
    unsigned long pid = 0;
    ptrace(PTRACE_GETEVENTMSG, process->pid, 0, &pid);
    name_child(process, (pid_t)pid);
  } else if (event == PTRACE_EVENT_STOP) {
    if (signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU) {
      ptrace(PTRACE_LISTEN, process->pid, 0, 0);
      return;
    }
  } else if (signal == (SIGTRAP | 0x80)) {
    struct syscall_info info;
    memset(&info, 0, sizeof info);
    if (ptrace((enum __ptrace_request)kGetSyscallInfo, process->pid, sizeof info, &info) > 0 && (process->inside || strcmp(process->role, "0"))) {
      if (info.op == kEntry) on_call(process, &info);
      if (info.op == kExit) on_result(process, &info);
    }
  } else if (event == 0) {
    go_on(process, signal);
    return;
  }
  go_on(process, 0);
}

static int shell_status(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

static void set_alarm(double seconds) {
  const struct itimerval when = {{0, 200000}, {(time_t)seconds, (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6) + 1}};
  setitimer(ITIMER_REAL, &when, NULL);
}

static void kill_all(char mark) {
  for (int i = 0; i < process_count; ++i) {
    struct Process* process = processes[i];
    if (process->traced == 0 && process->pidfd < 0) continue;
    if (mark) fprintf(log_file, "%c %s %d %s %s\n", mark, process->role, process->pid, word_of(process->nr), process->label);
    if (process->traced) kill(process->pid, SIGKILL);
    else syscall(424 /* pidfd_send_signal */, process->pidfd, SIGKILL, NULL, 0);
  }
}

static int usage(void) {
  fputs("usage: inject --log FILE [--record] [--fail ROLE:CALL:N:ERRNO] [--below PATH:ERRNO|PATH:+MS] [--follow PROGRAM] [--seconds S] -- COMMAND…\n", stderr);
  return 2;
}

static int add_target(char* text) {
  char* role = strtok(text, ":");
  char* call = strtok(NULL, ":");
  char* n = strtok(NULL, ":");
  char* error = strtok(NULL, ":");
  if (!error || target_count == kMaxTargets || number_of(call) < 0) return 0;
  struct Target* target = &targets[target_count++];
  snprintf(target->role, sizeof target->role, "%s", role);
  target->nr = number_of(call);
  target->n = atoi(n);
  target->error = atoi(error);
  return 1;
}

static int add_below(char* text) {
  char* what = strrchr(text, ':');
  if (!what || below_count == kMaxTargets) return 0;
  *what++ = 0;
  struct Below* below = &belows[below_count++];
  snprintf(below->path, sizeof below->path, "%s", text);
  if (*what == '+') below->delay_ms = atoi(what + 1);
  else below->error = atoi(what);
  return below->error > 0 || below->delay_ms > 0;
}

int main(int argc, char** argv) {
  double seconds = 20;
  int at = 1;
  for (; at < argc && strcmp(argv[at], "--"); ++at) {
    if (!strcmp(argv[at], "--record")) recording = 1;
    else if (at + 1 >= argc) return usage();
    else if (!strcmp(argv[at], "--log")) log_file = fopen(argv[++at], "we");
    else if (!strcmp(argv[at], "--follow")) followed = argv[++at];
    else if (!strcmp(argv[at], "--seconds")) seconds = atof(argv[++at]);
    else if (!strcmp(argv[at], "--fail")) { if (!add_target(argv[++at])) return usage(); }
    else if (!strcmp(argv[at], "--below")) { if (!add_below(argv[++at])) return usage(); }
    else return usage();
  }
  if (!log_file || at + 1 >= argc) return usage();
  int go[2];
  if (pipe2(go, O_CLOEXEC)) return 2;
  const pid_t command = fork();
  if (command == 0) {
    char byte;
    if (read(go[0], &byte, 1) != 1) _exit(2);
    execv(argv[at + 1], argv + at + 1);
    _exit(127);
  }
  const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
  if (command < 0 || ptrace(PTRACE_SEIZE, command, 0, options)) return perror("inject: PTRACE_SEIZE"), 2;
  struct Process* root = add(command);
  strcpy(root->role, "0");
  root->known = 1;
  struct sigaction action = {.sa_handler = on_alarm};
  sigaction(SIGALRM, &action, NULL);
  set_alarm(seconds);
  if (write(go[1], "g", 1) != 1) return 2;
  ptrace(PTRACE_INTERRUPT, command, 0, 0);  // from here on it stops at each call
  int end = -1, late = 0;
  for (;;) {
    int status;
    const pid_t pid = waitpid(-1, &status, __WALL);
    if (pid < 0 && errno == ECHILD) break;
    if (pid < 0) {
      if (!alarmed) continue;
      alarmed = 0;
      if (end < 0) fprintf(log_file, "t\n");
      kill_all(late ? 0 : end < 0 ? 's' : 'l');
      late = 1;
      continue;
    }
    struct Process* process = find(pid);
    if (WIFSTOPPED(status)) {
      if (!process) {
        add(pid);  // stays stopped until its parent's word
      } else if (process->known) {
        on_stop(process, status);
      }
      continue;
    }
    if (!process) continue;
    process->traced = 0;
    if (WIFSIGNALED(status) && !late) fprintf(log_file, "k %s %d\n", process->role, WTERMSIG(status));
    if (process == root) {
      end = shell_status(status);
      if (!late) set_alarm(3);
    }
  }
  // Payloads that were let go: they end with their init, a moment later perhaps.
  for (int i = 0; i < process_count; ++i) {
    struct pollfd wait = {processes[i]->pidfd, POLLIN, 0};
    if (wait.fd < 0 || late) continue;
    int ready;
    alarmed = 0;
    do {
      ready = poll(&wait, 1, 3000);
    } while (ready < 0 && errno == EINTR && !alarmed);
    if (ready <= 0) {
      fprintf(log_file, "l %s %d\n", processes[i]->role, processes[i]->pid);
      syscall(424, processes[i]->pidfd, SIGKILL, NULL, 0);
    }
  }
  fprintf(log_file, "e %d\n", end);
  fclose(log_file);
  return end < 0 ? 2 : end;
}
#endif
