// The floor of a start: the least static C program that puts up what `sbx exec -- true` puts up (the same namespaces, as
// many mounts of each kind, the same change of identity, capabilities, no_new_privs, Landlock left out, and the *same*
// filter program), then vforks and executes a command. It checks nothing, names no error and cleans nothing up; what
// sbx costs above it is what its care costs. tests/bench/bench.py runs it.
//
//   floor FILTER VIEW COMMAND [ARGS…]      FILTER: the program as `sbx policy show default --bpf FILE` writes it
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kHostUid = 200123, kInside = 1000 };

static void die(const char* what) {
  fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
  _exit(125);
}
static void must(long answer, const char* what) {
  if (answer < 0) die(what);
}
static void put(const char* path, const char* text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  must(fd, path);
  must(write(fd, text, strlen(text)), path);
  close(fd);
}
static int tree(const char* path, uint64_t attributes, unsigned recursive) {
  const int fd = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | recursive);
  must(fd, path);
  struct mount_attr change = {.attr_set = attributes};
  must(syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | recursive, &change, sizeof change), "mount_setattr");
  return fd;
}
static void attach(int fd, const char* target) {
  must(syscall(SYS_move_mount, fd, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH), target);
  close(fd);
}
static void file(const char* path, const char* bytes, size_t size) {
  const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  must(fd, path);
  must(write(fd, bytes, size), path);
  close(fd);
}

static struct sock_filter program[4096];
static struct sock_fprog filter;
static int read_end, write_end;
static int as_root;

// The view of files, a line each: "d PLACE" a directory, "e PLACE" an empty file, "l TEXT PLACE" a link, "f SIZE PLACE" a
// file, "b SOURCE PLACE" a bind. tests/bench/bench.py writes what `sbx exec -v` says of the very same host.
static const uint64_t kShown = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
static char text[65536], content[65536];
static struct line {
  char kind;
  const char *from, *place;
  int tree;
} lines[512];
static int line_count;

static void read_view(const char* path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  must(fd, path);
  must(read(fd, text, sizeof text - 1), path);
  close(fd);
  for (char* at = text; *at && line_count < 512;) {
    char* const end = strchr(at, '\n');
    if (!end) break;
    *end = 0;
    struct line* line = &lines[line_count++];
    line->kind = at[0];
    line->from = at + 2;
    char* const blank = strchr(at + 2, ' ');
    line->place = blank ? blank + 1 : at + 2;
    if (blank) *blank = 0;
    at = end + 1;
  }
}

// What the sandbox's child does, from the release by its parent to the exec of the command by its own child.
static int child(char** command) {
  char byte;
  close(write_end);
  if (read(read_end, &byte, 1) != 1) _exit(1);
  if (as_root) must(setgroups(0, NULL), "setgroups");
  must(syscall(SYS_setresgid, kInside, kInside, kInside), "setresgid");
  must(syscall(SYS_setresuid, kInside, kInside, kInside), "setresuid");
  must(prctl(PR_SET_PDEATHSIG, SIGKILL), "pdeathsig");
  struct pollfd hold = {.fd = read_end, .events = POLLIN};
  if (poll(&hold, 1, 0)) _exit(1);
  put("/proc/sys/user/max_user_namespaces", "0");

  must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private");
  must(mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m"), "root");
  must(chdir("/tmp"), "chdir");
  for (int i = 0; i < line_count; ++i) {
    const struct line* at = &lines[i];
    switch (at->kind) {
      case 'd': must(mkdir(at->place, 0755), at->place); break;
      case 'e': must(mknod(at->place, S_IFREG | 0644, 0), at->place); break;
      case 'l': must(symlink(at->from, at->place), at->place); break;
      case 'f': file(at->place, content, (size_t)atol(at->from)); break;
      case 'b': attach(as_root ? at->tree : tree(at->from, kShown, AT_RECURSIVE), at->place); break;
      default: _exit(2);
    }
  }
  const char* const devices[] = {"null", "zero", "full", "random", "urandom"};
  for (size_t i = 0; i < 5; ++i) {
    char from[32], to[32];
    snprintf(from, sizeof from, "/dev/%s", devices[i]);
    snprintf(to, sizeof to, "dev/%s", devices[i]);
    must(mknod(to, S_IFREG | 0644, 0), to);
    attach(tree(from, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, 0), to);
  }
  must(mount("devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666"), "devpts");
  must(mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "proc");
  const char* const masks[] = {"proc/sys", "proc/bus", "proc/irq", "proc/fs", "proc/acpi", "proc/scsi"};
  for (size_t i = 0; i < sizeof masks / sizeof *masks; ++i) {
    if (access(masks[i], F_OK) == 0) attach(tree(masks[i], MOUNT_ATTR_RDONLY, AT_RECURSIVE), masks[i]);
  }
  const char* const nulls[] = {"proc/kcore", "proc/keys", "proc/kmsg", "proc/timer_list", "proc/sysrq-trigger", "proc/cmdline",
                               "proc/locks", "proc/interrupts"};
  for (size_t i = 0; i < sizeof nulls / sizeof *nulls; ++i) {
    if (access(nulls[i], F_OK) == 0) attach(tree("/dev/null", MOUNT_ATTR_RDONLY, 0), nulls[i]);
  }
  must(mount("tmpfs", ".private", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=384m,nr_inodes=100k"), "private");
  const char* const writable[][2] = {{".private/t", "tmp"}, {".private/b", "box"}, {".private/h", "home/sandbox"}, {".private/s", "dev/shm"}};
  for (size_t i = 0; i < 4; ++i) {
    must(mkdir(writable[i][0], 0755), writable[i][0]);
    attach(tree(writable[i][0], MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, 0), writable[i][1]);
  }
  must(syscall(SYS_pivot_root, ".", "."), "pivot_root");
  must(umount2(".", MNT_DETACH), "umount");
  must(chdir("/"), "chdir");
  struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY};
  must(syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, &read_only, sizeof read_only), "read-only root");
  must(sethostname("sandbox", 7), "sethostname");
  const int net = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
  must(ioctl(net, SIOCSIFFLAGS, &request), "loopback");
  close(net);
  must(chdir("/box"), "chdir /box");

  int status = 0;
  const pid_t payload = vfork();
  if (payload == 0) {
    setsid();
    for (int capability = 0; capability <= 40; ++capability) prctl(PR_CAPBSET_DROP, capability);
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    must(syscall(SYS_capset, &header, none), "capset");
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    must(syscall(SYS_close_range, 3, ~0u, 0), "close_range");
    if (filter.len) must(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter), "filter");
    char* environment[] = {"PATH=/usr/bin:/bin", "HOME=/home/sandbox", NULL};
    execvpe(command[0], command, environment);
    _exit(127);
  }
  must(payload, "vfork");
  waitpid(payload, &status, 0);
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

int main(int argc, char** argv) {
  if (argc < 4) return fprintf(stderr, "usage: floor FILTER VIEW COMMAND [ARGS]\n"), 2;
  as_root = geteuid() == 0;
  read_view(argv[2]);
  const int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    const ssize_t size = read(fd, program, sizeof program);
    filter.len = (unsigned short)(size / (ssize_t)sizeof *program);
    filter.filter = program;
    close(fd);
  }
  int pipe_fds[2];
  must(pipe2(pipe_fds, O_CLOEXEC), "pipe");
  read_end = pipe_fds[0];
  write_end = pipe_fds[1];
  for (int i = 0; as_root && i < line_count; ++i) {
    if (lines[i].kind == 'b') lines[i].tree = tree(lines[i].from, kShown, AT_RECURSIVE);
  }
  struct clone_args arguments = {.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET |
                                          CLONE_NEWCGROUP,
                                 .exit_signal = SIGCHLD};
  const long pid = syscall(SYS_clone3, &arguments, sizeof arguments);
  must(pid, "clone3");
  if (pid == 0) child(argv + 3);
  char path[64], map[64];
  snprintf(path, sizeof path, "/proc/%ld/uid_map", pid);
  snprintf(map, sizeof map, "%d %u 1", kInside, as_root ? kHostUid : getuid());
  put(path, map);
  if (!as_root) {
    snprintf(path, sizeof path, "/proc/%ld/setgroups", pid);
    put(path, "deny");
  }
  snprintf(path, sizeof path, "/proc/%ld/gid_map", pid);
  snprintf(map, sizeof map, "%d %u 1", kInside, as_root ? kHostUid : getgid());
  put(path, map);
  must(write(write_end, "g", 1), "release");
  int status = 0;
  must(waitpid((pid_t)pid, &status, 0), "wait");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
