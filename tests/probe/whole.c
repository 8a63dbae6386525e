// A payload that says how whole its sandbox is: one line `FACT VALUE` for each protection, in a fixed order, so that two
// reports can be compared. `whole [touch MIB | spin | sleep | flood]` goes on to use up what a limit holds. Static: it
// runs in any view of files. First of all it says `payload runs`, unbuffered.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

extern char** environ;

static void say(const char* fact, const char* format, ...) {
  va_list rest;
  va_start(rest, format);
  printf("%s ", fact);
  vprintf(format, rest);
  putchar('\n');
  va_end(rest);
}

static void answer(const char* fact, long result) { say(fact, "%s", result >= 0 ? "ok" : strerrorname_np(errno)); }

// Lines of a file that begin with one of the words; all without words.
static void show_lines(const char* fact, const char* path, const char* const* words) {
  FILE* file = fopen(path, "re");
  if (!file) { say(fact, "cannot be opened: %s", strerrorname_np(errno)); return; }
  char line[8192];
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    int wanted = words == NULL;
    for (int i = 0; words && words[i]; ++i) wanted |= !strncmp(line, words[i], strlen(words[i]));
    if (wanted) say(fact, "%s", line);
  }
  fclose(file);
}

static void show_link(const char* fact, const char* path) {
  char text[512];
  const ssize_t size = readlink(path, text, sizeof text - 1);
  if (size < 0) { say(fact, "%s %s", path, strerrorname_np(errno)); return; }
  text[size] = 0;
  say(fact, "%s %s", path, text);
}

static void show_namespaces(void) {
  static const char* const kKinds[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
  for (size_t i = 0; i < sizeof kKinds / sizeof *kKinds; ++i) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/ns/%s", kKinds[i]);
    show_link("namespace", path);
  }
}

static void show_mounts(void) {
  // Place, its options, type, source and the file system's own options; without ids, devices and what depends on a run.
  FILE* file = fopen("/proc/self/mountinfo", "re");
  char line[8192];
  if (!file) { say("mount", "no mountinfo: %s", strerrorname_np(errno)); return; }
  while (fgets(line, sizeof line, file)) {
    char root[2048], place[2048], options[1024], type[256], source[2048], super[2048];
    char* const rest = strstr(line, " - ");
    if (!rest || sscanf(line, "%*s %*s %*s %2047s %2047s %1023s", root, place, options) != 3) continue;
    if (sscanf(rest + 3, "%255s %2047s %2047s", type, source, super) != 3) continue;
    say("mount", "%s %s %s root=%s super=%s", place, options, type, root, super);
  }
  fclose(file);
}

static void show_masks(void) {
  static const char* const kPlaces[] = {
      "/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/kallsyms", "/proc/kmsg", "/proc/modules", "/proc/timer_list", "/proc/sched_debug", "/proc/sysrq-trigger",
      "/proc/interrupts", "/proc/config.gz", "/proc/slabinfo", "/proc/vmallocinfo", "/proc/cmdline", "/proc/version", "/proc/mounts", "/proc/diskstats", "/proc/partitions",
      "/proc/iomem", "/proc/ioports", "/proc/locks", "/proc/cpuinfo", "/proc/meminfo", "/proc/acpi", "/proc/scsi", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys/kernel/hostname",
      "/sys", "/sys/kernel", "/sys/firmware", "/sys/fs/cgroup"};
  for (size_t i = 0; i < sizeof kPlaces / sizeof *kPlaces; ++i) {
    char text[16];
    const int fd = open(kPlaces[i], O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) { say("read", "%s %s", kPlaces[i], strerrorname_np(errno)); continue; }
    const ssize_t got = read(fd, text, sizeof text);
    say("read", "%s %s", kPlaces[i], got < 0 ? strerrorname_np(errno) : got == 0 ? "empty" : "bytes");
    close(fd);
  }
  static const char* const kWritten[] = {"/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger", "/proc/self/oom_score_adj", "/usr/x", "/etc/x", "/x", "/dev/x",
                                         "/proc/self/uid_map", "/sys/x", "/bin/x"};
  for (size_t i = 0; i < sizeof kWritten / sizeof *kWritten; ++i) {
    const int fd = open(kWritten[i], O_WRONLY | O_CLOEXEC | O_NONBLOCK | (strstr(kWritten[i], "/x") ? O_CREAT : 0), 0600);
    say("open for writing", "%s %s", kWritten[i], fd < 0 ? strerrorname_np(errno) : "ok");
    if (fd >= 0) close(fd);
  }
}

static void show_filter(void) {
  char buffer[256];
  memset(buffer, 0, sizeof buffer);
  answer("call unshare(user)", unshare(CLONE_NEWUSER));
  answer("call mount", mount("x", "/tmp", "tmpfs", 0, NULL));
  answer("call umount", umount2("/proc", MNT_DETACH));
  answer("call remount", mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL));
  answer("call pivot_root", syscall(SYS_pivot_root, "/", "/"));
  answer("call bpf", syscall(SYS_bpf, 0, buffer, 72));
  answer("call keyctl", syscall(SYS_keyctl, 0, -3, 0));
  answer("call add_key", syscall(SYS_add_key, "user", "d", "p", 1, -4));
  answer("call perf_event_open", syscall(SYS_perf_event_open, buffer, 0, -1, -1, 0));
  answer("call io_uring_setup", syscall(425, 2, buffer));
  answer("call userfaultfd", syscall(SYS_userfaultfd, 1));
  answer("call ptrace", ptrace(PTRACE_ATTACH, 1, 0, 0));
  answer("call kexec_load", syscall(SYS_kexec_load, 0, 0, 0, 0));
  answer("call open_by_handle_at", syscall(SYS_open_by_handle_at, AT_FDCWD, "\x08\0\0\0\1\0\0\0\0\0\0\0\0\0\0", 0));
  answer("call fsopen", syscall(430, "tmpfs", 0));
  answer("call setns", syscall(SYS_setns, -1, 0));
  answer("call socket(vsock)", socket(40, SOCK_STREAM, 0));
  answer("call socket(packet)", socket(AF_PACKET, SOCK_RAW, 0));
  answer("call sethostname", sethostname("x", 1));
  answer("call kill(1)", kill(1, 0));
}

// Landlock: what only it refuses. A file opened by the caller through /proc/self/fd, scoped signals and sockets.
static void show_landlock(void) {
  struct { uint64_t fs, net, scoped; } rules = {1, 0, 0};
  const int set = (int)syscall(444, &rules, 8, 0);
  say("landlock ruleset", "%s", set < 0 ? strerrorname_np(errno) : "ok");
  if (set >= 0) close(set);
  for (int fd = 0; fd < 3; ++fd) {
    char path[64], fact[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    snprintf(fact, sizeof fact, "reopen %d for writing", fd);
    const int again = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    answer(fact, again);
    if (again >= 0) close(again);
  }
  // Any Landlock domain forbids changing mounts, whatever the filter and the capabilities say.
  answer("execute from /dev", access("/dev/null", X_OK));
}

static void show_descriptors(void) {
  for (int fd = 0; fd < 1024; ++fd) {
    char path[64], text[256];
    if (fcntl(fd, F_GETFD) < 0) continue;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const ssize_t size = readlink(path, text, sizeof text - 1);
    text[size < 0 ? 0 : size] = 0;
    say("descriptor", "%d %s", fd, text);
  }
}

static void show_network(void) {
  show_lines("network", "/proc/self/net/dev", NULL);
  struct ifreq request = {.ifr_name = "lo"};
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  say("loopback", "%s", fd < 0 ? "no socket" : ioctl(fd, SIOCGIFFLAGS, &request) ? strerrorname_np(errno) : request.ifr_flags & IFF_UP ? "up" : "down");
  struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(53), .sin_addr.s_addr = htonl(0xc0000201)};  // 192.0.2.1, of nobody
  if (fd >= 0) answer("connect outside", connect(fd, (void*)&there, sizeof there));
  if (fd >= 0) close(fd);
}

static void show_process(void) {
  static const char* const kStatus[] = {"Umask", "Uid", "Gid", "Groups", "SigBlk", "SigIgn", "SigCgt", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs",
                                        "Seccomp:", "Seccomp_filters", "NSpid", "Cpus_allowed_list", NULL};
  show_lines("status", "/proc/self/status", kStatus);
  show_lines("cgroup", "/proc/self/cgroup", NULL);
  show_lines("uid_map", "/proc/self/uid_map", NULL);
  show_lines("setgroups", "/proc/self/setgroups", NULL);
  show_lines("oom_score_adj", "/proc/self/oom_score_adj", NULL);
  say("securebits", "%#x", prctl(PR_GET_SECUREBITS));
  say("session", "leader %d, group leader %d, parent %d", getsid(0) == getpid(), getpgrp() == getpid(), getppid());
  say("processes", "%s", kill(-1, 0) ? strerrorname_np(errno) : "others");
  for (int resource = 0; resource < 16; ++resource) {
    struct rlimit limit;
    if (getrlimit(resource, &limit) == 0) say("rlimit", "%d %lld %lld", resource, (long long)limit.rlim_cur, (long long)limit.rlim_max);
  }
  struct utsname names;
  if (uname(&names) == 0) say("hostname", "%s", names.nodename);
  char here[4096];
  say("directory", "%s", getcwd(here, sizeof here) ? here : strerrorname_np(errno));
  for (char** word = environ; *word; ++word) say("environment", "%s", *word);
}

static void show_directory(const char* path) {
  struct dirent** names;
  const int count = scandir(path, &names, NULL, alphasort);
  if (count < 0) { say("list", "%s %s", path, strerrorname_np(errno)); return; }
  for (int i = 0; i < count; ++i) {
    if (strcmp(names[i]->d_name, ".") && strcmp(names[i]->d_name, "..")) say("list", "%s/%s", path, names[i]->d_name);
  }
}

int main(int argc, char** argv) {
  if (write(1, "payload runs\n", 13) != 13) return 3;
  if (argc > 1 && strcmp(argv[1], "report")) {
    if (!strcmp(argv[1], "touch")) {
      const size_t size = (size_t)strtoul(argv[2], NULL, 10) << 20;
      char* const block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      // Slowly enough for a supervisor that looks every 20 ms.
      for (size_t i = 0; block != MAP_FAILED && i < size; i += 4096) {
        block[i] = 1;
        if (i % (16u << 20) == 0) usleep(10000);
      }
      for (;;) pause();
    }
    if (!strcmp(argv[1], "sleep")) for (;;) pause();
    if (!strcmp(argv[1], "spin")) for (;;) {}
    if (!strcmp(argv[1], "flood")) {
      static char text[65536];
      memset(text, 'x', sizeof text);
      while (write(1, text, sizeof text) > 0) {}
      for (;;) pause();
    }
    return 2;
  }
  show_descriptors();
  show_namespaces();
  show_process();
  show_network();
  show_masks();
  show_landlock();
  show_filter();
  show_mounts();
  show_directory("/");
  show_directory("/dev");
  show_directory("/box");
  show_directory("/etc");
  puts("report ends");
  return 0;
}
