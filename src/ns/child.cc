// The child between clone and exec.
//
// Rules: this translation unit makes raw system calls only. Nothing allocates, locks, throws, logs, looks a name up
// or touches libc's state; a test reads this object file's undefined symbols. Input is the plan, output the shared
// page. Everything that could need more is done by the supervisor beforehand.
//
// Theory of operation. Three processes exist: the supervisor (outside), init (pid 1 inside, this code for its whole
// life) and the payload (pid 2, this code until exec). Where a CPU is free, a helper of init's makes the
// network's namespace beside the mounts.
//
//   supervisor                     init                                payload
//   clone3(most namespaces) ────▶ makes the network's, or starts the helper
//   writes the id maps            waits on the hold pipe
//   go byte ────────────────────▶ identity, death signal, mounts, pivot, names
//                                 enters the network's namespace
//                                 hands descriptors over ──▶ fork ───▶ session, streams, capabilities, no_new_privs,
//   end of file on the exec pipe ◀─────────────────────────────────── landlock, limits, seccomp, exec
//   pidfd, timers, pumps          reaps; forwards signals that come
//                                 from outside; writes the wait status
//                                 of the payload and exits, whereupon
//   pidfd readable ◀───────────── the kernel kills all that is left
//
// Sessions. Init leads one of its own: what the caller's terminal sends to its foreground group must reach the payload
// once, by way of the supervisor. Without a terminal the payload leads another. With one it is a job in init's session,
// in a process group of its own that owns the terminal: the kernel lets nobody stop by Ctrl-Z whose group is orphaned,
// which a session leader's always is.
//
// Stops. When the payload of a terminal run stops, the supervisor is about to stop too, and cannot hold limits then: so
// init stops everything inside first. The same at the supervisor's SIGTSTP; its SIGCONT continues everything.
//
// Sessions (ChildPlan::session): init forks no payload at once but serves the supervisor, as ns/plan.h says under
// SpawnVerb; the exec pipe's end of file then means "ready". It goes on when a program ends, and ends with the
// supervisor. Landlock's rules are added before the first program runs: later their paths could lead elsewhere.
//
// Death: the hold pipe's write end is held by the supervisor alone. Credentials changes clear the death signal, so it
// is set after them, and then the pipe is looked at once more (measured: this order lost no race).
#include "ns/child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/openat2.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <net/if.h>
#include <sys/wait.h>
#include <time.h>

#include "base/raw_sys.h"

namespace sbx::ns {
namespace {

using raw::call;

constexpr unsigned kCloseRangeCloexec = 4;  // CLOSE_RANGE_CLOEXEC, 5.11
constexpr unsigned long kAtEmptyPath = 0x1000;
constexpr unsigned long kTiocgptpeer = 0x5441;
constexpr unsigned long kKeyctlJoinSessionKeyring = 1;

// ---- small pieces ----------------------------------------------------------------------------------------------

[[noreturn]] void leave(int status) noexcept {
  for (;;) call(SYS_exit_group, status);
}

void enter(const ChildPlan& plan, Stage stage) noexcept {
  timespec now{};
  call(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  plan.page->stage = static_cast<uint32_t>(stage);
  plan.page->step = 0;
  plan.page->stage_ns[static_cast<uint32_t>(stage)] =
      static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

[[noreturn]] void fail(const ChildPlan& plan, long negative_errno, uint32_t detail = 0) noexcept {
  StatusPage* page = plan.page;
  if (page->error_stage == 0) {
    page->error_step = page->step;
    page->error_errno = static_cast<int32_t>(-negative_errno);
    page->error_detail = detail;
    page->error_stage = page->stage;
  }
  leave(plan.direct != nullptr ? plan.direct->fail_status : 1);
}

void must(const ChildPlan& plan, long result, uint32_t detail = 0) noexcept {
  if (result < 0) fail(plan, result, detail);
}


// Descriptors that this step opened are closed at the end of the step.
struct Closing {
  int fd = -1;
  ~Closing() {
    if (fd >= 0) call(SYS_close, fd);
  }
};

// ---- mounts ----------------------------------------------------------------------------------------------------

long open_by(const char* path, unsigned long flags, unsigned long resolve) noexcept {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.resolve = resolve;
  return call(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
}

long open_target(const char* path, unsigned long flags) noexcept {
  return open_by(path, flags, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

// Clones the tree at `path`, or what `opened` has found there under rules of its own (negative: nothing).
long clone_tree(const char* path, int opened) noexcept {
  const bool found = opened >= 0;
  return call(SYS_open_tree, found ? opened : AT_FDCWD, found ? "" : path,
              OPEN_TREE_CLONE | O_CLOEXEC | SBX_AT_RECURSIVE | (found ? kAtEmptyPath : 0ul));
}

long set_attributes(int tree, uint64_t attributes, bool recursive) noexcept {
  raw::mount_attr attr{};
  attr.attr_set = attributes;
  return call(SYS_mount_setattr, tree, "", kAtEmptyPath | (recursive ? SBX_AT_RECURSIVE : 0), &attr, sizeof attr);
}

// Attaches the detached tree at the step's target.
long move_to(const Step& step, int tree, const char* target) noexcept {
  if ((step.flags & kResolveTarget) == 0) {
    return call(SYS_move_mount, tree, "", AT_FDCWD, target, SBX_MOVE_MOUNT_F_EMPTY_PATH);
  }
  Closing place;
  const long fd = open_target(target, O_PATH);
  if (fd < 0) return fd;
  place.fd = static_cast<int>(fd);
  return call(SYS_move_mount, tree, "", place.fd, "", SBX_MOVE_MOUNT_F_EMPTY_PATH | SBX_MOVE_MOUNT_T_EMPTY_PATH);
}

long bind_at_place(const Step& step, int tree, uint32_t type, StepRun& run) noexcept;

long bind(const Step& step, StepRun& run) noexcept {
  Closing source;
  run.part = StepPart::open_source;
  if ((step.flags & kNoLinks) != 0) {
    const long opened = open_by(step.a, O_PATH, RESOLVE_NO_SYMLINKS);
    if (opened < 0) return opened;
    source.fd = static_cast<int>(opened);
  }
  const bool place = (step.flags & kMakePlace) != 0;
  const long fd = step.fd < 0 ? clone_tree(step.a, source.fd) : place ? step.fd : run.kept[step.fd];
  if (fd < 0) return fd;
  const Closing tree{static_cast<int>(fd)};
  struct stat info {};
  if (place || step.n != 0 || step.m != 0) {
    const long looked = call(SYS_newfstatat, tree.fd, "", &info, kAtEmptyPath);
    if (looked < 0) return looked;
    run.part = StepPart::stale_source;
    if ((step.n != 0 || step.m != 0) && (info.st_dev != step.n || info.st_ino != step.m)) return -ESTALE;
  }
  if (place) return bind_at_place(step, tree.fd, info.st_mode, run);
  run.part = StepPart::act;
  const long restricted = set_attributes(tree.fd, step.attr, true);
  if (restricted < 0) return restricted;
  return move_to(step, tree.fd, step.b);
}

long clone_bind(const Step& step) noexcept {
  Closing source;
  if ((step.flags & kResolveTarget) != 0) {
    const long opened = open_target(step.a, O_PATH);
    if (opened < 0) return opened;
    source.fd = static_cast<int>(opened);
  }
  // Looked for first: closing a clone that was attached nowhere waits for a grace period of the kernel's, 0.1 ms and more.
  if ((step.flags & (kMayBeMissing | kOverSelf)) == kMayBeMissing) {
    const long there = call(SYS_faccessat, AT_FDCWD, step.b, F_OK);
    if (there < 0) return there;
  }
  const long fd = clone_tree(step.a, source.fd);
  if (fd < 0) return fd;
  const Closing tree{static_cast<int>(fd)};
  if (step.attr != 0) {
    const long restricted = set_attributes(tree.fd, step.attr, true);
    if (restricted < 0) return restricted;
  }
  if ((step.flags & kOverSelf) != 0 && source.fd >= 0) {
    return call(SYS_move_mount, tree.fd, "", source.fd, "", SBX_MOVE_MOUNT_F_EMPTY_PATH | SBX_MOVE_MOUNT_T_EMPTY_PATH);
  }
  return move_to(step, tree.fd, (step.flags & kOverSelf) != 0 ? step.a : step.b);
}

long fill(long fd, const char* content, uint64_t size) noexcept {
  if (fd < 0) return fd;
  const Closing file{static_cast<int>(fd)};
  uint64_t done = 0;
  while (done < size) {
    const long put = call(SYS_write, file.fd, content + done, size - done);
    if (put < 0) return put;
    done += static_cast<uint64_t>(put);
  }
  return 0;
}

constexpr unsigned long kNewFile = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;

long write_file(const Step& step) noexcept {
  // An empty file, most often a place to mount on, needs no descriptor. mknod never follows a link either.
  if (step.n == 0) return call(SYS_mknodat, AT_FDCWD, step.a, S_IFREG | step.mode, 0);
  return fill(call(SYS_openat, AT_FDCWD, step.a, kNewFile, step.mode), step.b, step.n);
}

long write_to(const Step& step) noexcept {
  return fill(call(SYS_openat, AT_FDCWD, step.a, O_WRONLY | O_CLOEXEC), step.b, step.n);
}

long copy_fd(const Step& step) noexcept {
  const long fd = call(SYS_openat, AT_FDCWD, step.a, kNewFile, step.mode);
  if (fd < 0) return fd;
  const Closing file{static_cast<int>(fd)};
  long offset = 0;
  for (;;) {
    const long sent = call(SYS_sendfile, file.fd, step.fd, &offset, 1 << 30);
    if (sent < 0) return sent;
    if (sent == 0) return 0;
  }
}

// ---- places: targets that are made where they do not exist --------------------------------------------------------

constexpr unsigned long kInRoot = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
enum class Node { existing, directory, file };

// Beside a rename somewhere on the system the kernel may not be sure about a "..", and says EAGAIN.
long open_place(const char* path, unsigned long flags) noexcept {
  long fd = -EAGAIN;
  for (int i = 0; i < 1000 && fd == -EAGAIN; ++i) fd = open_by(path, flags, kInRoot);
  return fd;
}

// A path in pieces: each prefix that ends a component can be opened.
struct Path {
  char bytes[4096];
  size_t size = 0;
  explicit Path(const char* path) noexcept {
    while (path[size] != '\0' && size < sizeof bytes) {
      bytes[size] = path[size];
      ++size;
    }
    too_long = size == sizeof bytes;
    while (size > 0 && bytes[size - 1] == '/') --size;  // slashes at the end mean nothing
    if (!too_long) bytes[size] = '\0';
    name = size;
    while (name > 0 && bytes[name - 1] != '/') --name;
  }
  size_t name = 0;  // where the last component begins
  bool too_long = false;
};

// The directory that the last component of `path` lies in, made with all above it. Every component is made in a directory
// that was found inside the new root, and is a single name: nothing outside can be made by it.
long make_parents(Path& path, uint32_t mode) noexcept {
  if (path.name == 0) return open_place(".", O_PATH | O_DIRECTORY);
  path.bytes[path.name - 1] = '\0';
  long parent = open_place(path.bytes[0] == '\0' ? "." : path.bytes, O_PATH | O_DIRECTORY);
  path.bytes[path.name - 1] = '/';
  if (parent != -ENOENT) return parent;
  parent = open_place(".", O_PATH | O_DIRECTORY);
  size_t at = 0;
  while (parent >= 0) {
    while (path.bytes[at] == '/') ++at;
    if (at >= path.name) return parent;
    size_t end = at;
    while (path.bytes[end] != '/') ++end;
    path.bytes[end] = '\0';
    const long made = call(SYS_mkdirat, parent, path.bytes + at, mode);
    call(SYS_close, parent);
    if (made < 0 && made != -EEXIST) return made;
    parent = open_place(path.bytes, O_PATH | O_DIRECTORY);
    path.bytes[end] = '/';
    at = end;
  }
  return parent;
}

long check_place(int fd, Node node, bool mount, StepRun& run) noexcept {
  struct stat info {};
  run.part = StepPart::look;
  const long looked = call(SYS_newfstatat, fd, "", &info, kAtEmptyPath);
  if (looked < 0) return looked;
  if (mount && S_ISLNK(info.st_mode)) {
    run.part = StepPart::symlink_place;
    return -ELOOP;
  }
  if (node == Node::directory && !S_ISDIR(info.st_mode)) {
    run.part = StepPart::not_a_directory;
    return -ENOTDIR;
  }
  if (node == Node::file && S_ISDIR(info.st_mode)) {
    run.part = StepPart::not_a_file;
    return -EISDIR;
  }
  return 0;
}

// The place at `target` as an O_PATH descriptor. `mode` is what a directory or file gets that has to be made.
long make_place(const Step& step, const char* target, Node node, uint32_t mode, bool mount, StepRun& run) noexcept {
  long fd = -1;
  if ((step.flags & kBelowBase) != 0) {
    run.part = StepPart::place;
    if (node == Node::directory) fd = call(SYS_mkdirat, run.base, target, mode);
    if (node == Node::file) fd = call(SYS_mknodat, run.base, target, S_IFREG | mode, 0);
    if (fd < 0 && fd != -EEXIST) return fd;
    fd = call(SYS_openat, run.base, target, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) run.part = StepPart::act;
    return fd;
  }
  Path path(target);
  run.part = StepPart::parents;
  if (path.too_long) return -ENAMETOOLONG;
  if (path.size == 0) {
    path.bytes[0] = '.';
    path.bytes[path.size = 1] = '\0';
  }
  fd = open_place(path.bytes, O_PATH | O_NOFOLLOW);
  if (fd == -ENOENT) {
    Closing parent;
    fd = make_parents(path, step.parent_mode);
    if (fd < 0) return fd;
    parent.fd = static_cast<int>(fd);
    run.part = StepPart::place;
    if (node == Node::directory) fd = call(SYS_mkdirat, parent.fd, path.bytes + path.name, mode);
    if (node == Node::file) fd = call(SYS_mknodat, parent.fd, path.bytes + path.name, S_IFREG | mode, 0);
    if (fd < 0 && fd != -EEXIST) return fd;
    fd = open_place(path.bytes, O_PATH | O_NOFOLLOW);
    if (fd < 0) return fd;
  } else if (fd < 0) {
    return fd;
  }
  const long checked = check_place(static_cast<int>(fd), node, mount, run);
  if (checked == 0) {
    run.part = StepPart::act;
    return fd;
  }
  call(SYS_close, fd);
  return checked;
}

bool same_place(int first, int second) noexcept {
  struct statx one {}, other {};
  constexpr unsigned kWanted = STATX_INO | STATX_MNT_ID;
  if (call(SYS_statx, first, "", kAtEmptyPath, kWanted, &one) < 0) return false;
  if (call(SYS_statx, second, second == AT_FDCWD ? "." : "", kAtEmptyPath, kWanted, &other) < 0) return false;
  return one.stx_ino == other.stx_ino && one.stx_mnt_id == other.stx_mnt_id;
}

// To be asked before something is mounted at the place; become_root() afterwards.
bool is_root_place(const Step& step, int place) noexcept {
  return (step.flags & kMaybeRoot) != 0 && same_place(place, AT_FDCWD);
}

// The old root is still "/", and new ones lie on it: "/.." is the uppermost.
long become_root(StepRun& run) noexcept {
  ++run.layers;
  return call(SYS_chdir, "/..");
}

long attach_at_place(const Step& step, int tree, int place, StepRun& run) noexcept {
  const bool root = is_root_place(step, place);
  const long moved =
      call(SYS_move_mount, tree, "", place, "", SBX_MOVE_MOUNT_F_EMPTY_PATH | SBX_MOVE_MOUNT_T_EMPTY_PATH);
  if (moved < 0 || !root) return moved;
  return become_root(run);
}

struct FdPath {  // "/proc/self/fd/N"
  char text[32] = "/proc/self/fd/";
  explicit FdPath(int fd) noexcept {
    char digits[12];
    size_t count = 0;
    do {
      digits[count++] = static_cast<char>('0' + fd % 10);
      fd /= 10;
    } while (fd != 0);
    size_t at = 14;
    while (count > 0) text[at++] = digits[--count];
    text[at] = '\0';
  }
};

long mount_at(const Step& step, StepRun& run) noexcept {
  const long made = make_place(step, step.b, Node::directory, 0755, true, run);
  if (made < 0) return made;
  const Closing place{static_cast<int>(made)};
  const bool root = is_root_place(step, place.fd);
  const FdPath path(place.fd);
  const long mounted = call(SYS_mount, step.a, path.text, step.a, step.attr, step.c);
  if (mounted < 0) return mounted;
  if (root) {
    const long top = become_root(run);
    if (top < 0) return top;
  }
  if ((step.flags & (kBecomesBase | kBecomesScratch)) == 0) return 0;
  const long upon = open_place(step.b[0] == '\0' || root ? "." : step.b, O_RDONLY | O_DIRECTORY);
  if (upon < 0) return upon;
  if ((step.flags & kBecomesBase) != 0) {
    if (run.base >= 0) call(SYS_close, run.base);
    run.base = static_cast<int>(upon);
    return 0;
  }
  run.scratch = static_cast<int>(step.n);
  const Closing number{static_cast<int>(upon)};
  return call(SYS_dup3, number.fd, run.scratch, O_CLOEXEC);
}

// Everything that can be read from `from` to the end of it.
long pour(int from, int to) noexcept {
  char buffer[16384];
  for (;;) {
    const long got = call(SYS_read, from, buffer, sizeof buffer);
    if (got == -EINTR) continue;
    if (got <= 0) return got;
    for (long done = 0; done < got;) {
      const long put = call(SYS_write, to, buffer + done, got - done);
      if (put == -EINTR) continue;
      if (put < 0) return put;
      done += put;
    }
  }
}

long file_at_place(const Step& step, StepRun& run) noexcept {
  Path path(step.a);
  run.part = StepPart::parents;
  if (path.too_long) return -ENAMETOOLONG;
  long fd = make_parents(path, step.parent_mode);
  if (fd < 0) return fd;
  const Closing parent{static_cast<int>(fd)};
  run.part = StepPart::place;
  // O_NONBLOCK: a FIFO that nobody reads is an error, not a wait for ever.
  const char* const name = path.size == 0 ? "." : path.bytes + path.name;
  fd = call(SYS_openat, parent.fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK | O_CLOEXEC, step.mode);
  if (fd < 0) return fd;
  const Closing file{static_cast<int>(fd)};
  run.part = StepPart::write;
  const long poured = pour(step.fd, file.fd);
  call(SYS_close, step.fd);
  return poured;
}

long bind_data(const Step& step, int file, int place, StepRun& run) noexcept {
  const long cloned = clone_tree("", file);
  if (cloned < 0) return cloned;
  const Closing tree{static_cast<int>(cloned)};
  const long restricted = set_attributes(tree.fd, step.attr, true);
  if (restricted < 0) return restricted;
  return attach_at_place(step, tree.fd, place, run);
}

long data_at_place(const Step& step, StepRun& run) noexcept {
  const long made = make_place(step, step.b, Node::file, 0444, true, run);
  if (made < 0) return made;
  const Closing place{static_cast<int>(made)};
  run.part = StepPart::make_data;
  // A name for as long as it takes: what has none cannot be bound.
  static constexpr char kName[] = ".data";
  const long opened = call(SYS_openat, run.scratch, kName, O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC, 0600);
  if (opened < 0) return opened;
  const Closing file{static_cast<int>(opened)};
  long done = call(SYS_fchmod, file.fd, step.mode);
  if (done >= 0) {
    run.part = StepPart::write;
    done = pour(step.fd, file.fd);
    call(SYS_close, step.fd);
  }
  if (done >= 0) {
    run.part = StepPart::act;
    done = bind_data(step, file.fd, place.fd, run);
  }
  call(SYS_unlinkat, run.scratch, kName, 0);
  return done;
}

long symlink_at_place(const Step& step, StepRun& run) noexcept {
  long made;
  if ((step.flags & kBelowBase) != 0) return call(SYS_symlinkat, step.b, run.base, step.a);
  Path path(step.a);
  run.part = StepPart::parents;
  if (path.too_long) return -ENAMETOOLONG;
  const long fd = make_parents(path, step.parent_mode);
  if (fd < 0) return fd;
  const Closing parent{static_cast<int>(fd)};
  const char* const name = path.size == 0 ? "." : path.bytes + path.name;
  run.part = StepPart::act;
  made = call(SYS_symlinkat, step.b, parent.fd, name);
  if (made != -EEXIST) return made;
  // The same link again is fine.
  char said[4096];
  const long size = call(SYS_readlinkat, parent.fd, name, said, sizeof said - 1);
  if (size < 0) {
    run.part = size == -EINVAL ? StepPart::no_link : StepPart::act;
    return size == -EINVAL ? -EEXIST : size;
  }
  said[size] = '\0';
  long at = 0;
  while (at < size && said[at] == step.b[at]) ++at;
  if (at == size && step.b[at] == '\0') return 0;
  run.part = StepPart::other_link;
  for (at = 0; at < size && at < static_cast<long>(sizeof run.text) - 1; ++at) run.text[at] = said[at];
  run.text[at] = '\0';
  return -EEXIST;
}

long restrict_place(const Step& step, StepRun& run) noexcept {
  const long made = make_place(step, step.a, Node::existing, 0, true, run);
  if (made < 0) return made;
  const Closing place{static_cast<int>(made)};
  const long restricted = set_attributes(place.fd, step.attr, false);
  if (restricted == -EINVAL) run.part = StepPart::no_mount;
  return restricted;
}

long chmod_place(const Step& step, StepRun& run) noexcept {
  run.part = StepPart::place;
  const Path path(step.a);
  if (path.too_long) return -ENAMETOOLONG;
  const long opened = open_place(path.size == 0 ? "." : path.bytes, O_PATH | O_NOFOLLOW);
  if (opened < 0) return opened;
  const Closing place{static_cast<int>(opened)};
  run.part = StepPart::act;
  const FdPath self(place.fd);
  return call(SYS_fchmodat, AT_FDCWD, self.text, step.mode);
}

// `tree` with `attributes` where all of its mounts take them, else as far as they do: submounts of a place that is no
// boundary may refuse (locked flags of FUSE mounts, automounts that fail).
long restrict_tree(const Step& step, int tree) noexcept {
  const long restricted = set_attributes(tree, step.attr, true);
  if (restricted >= 0 || (step.flags & kMayBeLocked) == 0) return restricted;
  return set_attributes(tree, step.attr, false);
}

long bind_at_place(const Step& step, int tree, uint32_t type, StepRun& run) noexcept {
  run.part = StepPart::attributes;
  const long restricted = restrict_tree(step, tree);
  if (restricted < 0) return restricted;
  const long made = make_place(step, step.b, S_ISDIR(type) ? Node::directory : Node::file, S_ISDIR(type) ? 0755 : 0444, true, run);
  if (made < 0) return made;
  const Closing place{static_cast<int>(made)};
  return attach_at_place(step, tree, place.fd, run);
}

long directory_at_place(const Step& step, StepRun& run) noexcept {
  const long made = make_place(step, step.a, Node::directory, step.mode, false, run);
  if (made < 0) return made;
  call(SYS_close, made);
  return 0;
}

// ---- nsjail's mounts -------------------------------------------------------------------------------------------

long enter_root(const Step& step, long result, StepRun& run) noexcept {
  return result < 0 || (step.flags & kBecomesRoot) == 0 ? result : become_root(run);
}

long file_system(const Step& step) noexcept {
  if ((step.flags & kResolveTarget) == 0) return call(SYS_mount, step.a, step.b, step.d, step.attr, step.c);
  Closing place;
  const long fd = open_target(step.b, O_PATH);
  if (fd < 0) return fd;
  place.fd = static_cast<int>(fd);
  const FdPath path(place.fd);
  return call(SYS_mount, step.a, path.text, step.d, step.attr, step.c);
}

// A tmpfs lies over everything for as long as the file is made and cloned: nobody finds it by a path.
long content_bind(const Step& step) noexcept {
  long result = call(SYS_mount, "sbx", "/", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700");
  if (result < 0) return result;
  Closing tree;
  result = fill(call(SYS_openat, AT_FDCWD, "/../content", kNewFile, step.mode), step.c, step.n);
  if (result >= 0) {
    result = clone_tree("/../content", -1);
    tree.fd = static_cast<int>(result < 0 ? -1 : result);
  }
  const long away = call(SYS_umount2, "/..", MNT_DETACH);
  if (result < 0) return result;
  if (away < 0) return away;
  result = set_attributes(tree.fd, step.attr, true);
  return result < 0 ? result : move_to(step, tree.fd, step.b);
}

long restrict_top(const Step& step) noexcept {
  const long fd = open_target(step.b, O_PATH);
  if (fd < 0) return fd;
  const Closing place{static_cast<int>(fd)};
  return set_attributes(place.fd, step.attr, false);
}

long keep(const Step& step, int (&kept)[kMaxKept]) noexcept {
  const long fd = (step.flags & kResolveTarget) != 0 ? open_target(step.a, O_RDONLY | O_DIRECTORY)
                                                     : call(SYS_openat, AT_FDCWD, step.a, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return fd;
  kept[step.n] = static_cast<int>(fd);
  return 0;
}

unsigned long noexec(const Step& step) noexcept { return (step.attr & SBX_MOUNT_ATTR_NOEXEC) != 0 ? MS_NOEXEC : 0; }

long perform(const Step& step, StepRun& run) noexcept {
  const bool place = (step.flags & kMakePlace) != 0;
  switch (step.kind) {
    case StepKind::tmpfs: {
      const long mounted = call(SYS_mount, "sbx", step.a, "tmpfs", MS_NOSUID | MS_NODEV | noexec(step), step.b);
      if (mounted < 0 || step.a[0] != '/' || step.a[1] != '\0') return mounted;
      // The new root lies over the old one, whose files are still reached by absolute paths; "/.." crosses into the
      // upper mount, and from here on relative paths are the new root's.
      return call(SYS_chdir, "/..");
    }
    case StepKind::make_dir:
      return place ? directory_at_place(step, run) : call(SYS_mkdirat, AT_FDCWD, step.a, step.mode);
    case StepKind::make_symlink:
      return place ? symlink_at_place(step, run) : call(SYS_symlinkat, step.b, AT_FDCWD, step.a);
    case StepKind::write_file: return write_file(step);
    case StepKind::write_to: return write_to(step);
    case StepKind::copy_fd: return place ? file_at_place(step, run) : copy_fd(step);
    case StepKind::bind: return enter_root(step, bind(step, run), run);
    case StepKind::clone_bind: return clone_bind(step);
    case StepKind::attach: return move_to(step, step.fd, step.b);
    case StepKind::proc:
      return call(SYS_mount, "proc", step.a, "proc",
                  MS_NOSUID | MS_NODEV | MS_NOEXEC | ((step.attr & SBX_MOUNT_ATTR_RDONLY) != 0 ? MS_RDONLY : 0), step.b);
    case StepKind::devpts:
      // All instances draw on one number of terminals for the whole host; without a bound one sandbox takes them all.
      return call(SYS_mount, "devpts", step.a, "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620,max=64");
    case StepKind::overlay:
      return call(SYS_mount, "overlay", step.a, "overlay", MS_NOSUID | MS_NODEV | noexec(step), step.b);
    case StepKind::cgroup:
      return call(SYS_mount, "cgroup2", step.a, "cgroup2", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);
    case StepKind::open_keep: return keep(step, run.kept);
    case StepKind::mount_at: return mount_at(step, run);
    case StepKind::data: return data_at_place(step, run);
    case StepKind::restrict: return restrict_place(step, run);
    case StepKind::chmod: return chmod_place(step, run);
    case StepKind::host_name: return call(SYS_sethostname, step.a, step.n);
    case StepKind::file_system: return enter_root(step, file_system(step), run);
    case StepKind::content_bind: return content_bind(step);
    case StepKind::restrict_top: return restrict_top(step);
    case StepKind::keep_tree: {
      const long fd = clone_tree(step.a, -1);
      if (fd >= 0) run.kept[step.n] = static_cast<int>(fd);
      return fd;
    }
  }
  return -EINVAL;
}

bool tolerated(const Step& step, long result) noexcept {
  if ((step.flags & kMayFail) != 0) return true;
  if ((step.flags & kMayBeMissing) != 0 && (result == -ENOENT || result == -ENOTDIR)) return true;
  return (step.flags & kExistsIsFine) != 0 && result == -EEXIST;
}

void make_view(const ChildPlan& plan, StepRun& run) noexcept {
  enter(plan, Stage::mounts);
  must(plan, call(SYS_mount, nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), ~0u);
  for (uint32_t i = 0; i < plan.step_count; ++i) {
    plan.page->step = i;
    const long result = perform_step(plan.steps[i], run);
    if (result < 0) fail(plan, result);
  }
}

// ---- stages of init --------------------------------------------------------------------------------------------

long raise_loopback(long socket) noexcept {
  ifreq request{};
  request.ifr_name[0] = 'l';
  request.ifr_name[1] = 'o';
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  return call(SYS_ioctl, socket, SIOCSIFFLAGS, &request);
}

// The namespace of the network is the dearest of all, a third of a millisecond. Where a CPU is free a helper makes it while init
// is at its mounts: a process of init's, in init's memory, with descriptors in common; and gone before the payload starts.
struct NetworkHelper {
  long pid = 0;
  volatile Stage stage = Stage::network;  // and Stage::loopback
  volatile long answer = -ECHILD;         // the namespace's descriptor, or -errno
  alignas(16) char stack[4096];
};

[[noreturn]] void make_network(NetworkHelper& helper) noexcept {
  long done = call(SYS_unshare, CLONE_NEWNET);
  if (done == 0) {
    helper.stage = Stage::loopback;
    const long socket = call(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    done = socket < 0 ? socket : raise_loopback(socket);
    if (done == 0) done = call(SYS_ioctl, socket, SIOCGSKNS, 0);
    if (socket >= 0) call(SYS_close, socket);
  }
  helper.answer = done;
  leave(0);
}

// A process on a stack of its own in our memory: it returns nowhere. Its number is far from those that the payload and its
// children get, which are the same with and without it. Negative: that is refused here.
long clone_onto(NetworkHelper& helper) noexcept {
  const pid_t number = 300;  // the least that a namespace's pid_max leaves room for
  clone_args args{};
  args.flags = CLONE_VM | CLONE_FILES;
  args.stack = reinterpret_cast<uint64_t>(helper.stack);
  args.stack_size = sizeof helper.stack;
  args.set_tid = reinterpret_cast<uint64_t>(&number);
  args.set_tid_size = 1;
#if defined(__x86_64__)
  long result;
  __asm__ volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "mov %[helper], %%rdi\n\t"
      "call *%[work]\n"
      "1:"
      : "=a"(result)
      : "a"(SYS_clone3), "D"(&args), "S"(CLONE_ARGS_SIZE_VER1), [work] "r"(&make_network), [helper] "r"(&helper)
      : "rcx", "r11", "memory");
  return result;
#else
  register long x8 __asm__("x8") = SYS_clone3;
  register long x0 __asm__("x0") = reinterpret_cast<long>(&args);
  register long x1 __asm__("x1") = CLONE_ARGS_SIZE_VER1;
  __asm__ volatile(
      "svc 0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x0, %[helper]\n\t"
      "blr %[work]\n"
      "1:"
      : "+r"(x0)
      : "r"(x8), "r"(x1), [work] "r"(&make_network), [helper] "r"(&helper)
      : "memory", "x30");
  return x0;
#endif
}

// Without a helper: at once, while the supervisor writes the id maps.
void start_network(const ChildPlan& plan, NetworkHelper& helper) noexcept {
  plan.page->stage = static_cast<uint32_t>(Stage::network);
  if (plan.network_beside) helper.pid = clone_onto(helper);
  if (helper.pid <= 0) must(plan, call(SYS_unshare, CLONE_NEWNET));
}

// False: what was entered is one whose loopback is not up yet.
bool enter_made_network(const ChildPlan& plan, const NetworkHelper& helper) noexcept {
  if (helper.pid <= 0) return false;
  long ended;
  do {
    ended = call(SYS_wait4, helper.pid, nullptr, __WALL, nullptr);
  } while (ended == -EINTR);
  must(plan, ended);
  plan.page->stage = static_cast<uint32_t>(helper.stage);
  must(plan, helper.answer);
  plan.page->stage = static_cast<uint32_t>(Stage::network);
  const long entered = call(SYS_setns, helper.answer, CLONE_NEWNET);
  must(plan, call(SYS_close, helper.answer));
  // A filter around us may know unshare only: one of our own then.
  if (entered < 0) must(plan, call(SYS_unshare, CLONE_NEWNET));
  return entered == 0;
}

void enter_network(const ChildPlan& plan, const NetworkHelper& helper) noexcept {
  enter(plan, Stage::network);
  if (enter_made_network(plan, helper)) return;
  enter(plan, Stage::loopback);
  must(plan, bring_loopback_up());
}

void wait_for_supervisor(const ChildPlan& plan) noexcept {
  enter(plan, Stage::wait);
  char go = 0;
  long got;
  do {
    got = call(SYS_read, plan.hold_read, &go, 1);
  } while (got == -EINTR);
  must(plan, got);
  if (got != 1) leave(plan.direct != nullptr ? plan.direct->fail_status : 1);  // the supervisor is dead
}

void enter_cgroup(const ChildPlan& plan) noexcept {
  enter(plan, Stage::cgroup);
  for (uint32_t i = 0; i < plan.cgroup_tasks_count; ++i) {
    plan.page->step = i;
    must(plan, call(SYS_write, plan.cgroup_tasks[i], "0", 1));
  }
  if (plan.cgroup_namespace) must(plan, call(SYS_unshare, CLONE_NEWCGROUP));
}

void leave_if_orphaned(const ChildPlan& plan) noexcept {
  pollfd hold{plan.hold_read, POLLIN, 0};
  timespec zero{};
  // Any event means that the write end is closed (nothing but the go byte is ever written). getppid is no test: it
  // is 0 in a new pid namespace, alive or dead.
  const long closed = call(SYS_ppoll, &hold, 1, &zero, nullptr, 8);
  must(plan, closed);
  if (closed != 0) leave(1);
}

void become_nobody_in_particular(const ChildPlan& plan) noexcept {
  enter(plan, Stage::identity);
  if (plan.drop_groups) must(plan, call(SYS_setgroups, 0, nullptr));
  must(plan, call(SYS_setresgid, plan.gid, plan.gid, plan.gid));
  must(plan, call(SYS_setresuid, plan.uid, plan.uid, plan.uid));
  if (plan.oom_score) {
    const long fd = call(SYS_openat, AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {  // a courtesy to the host, not a protection of it: without /proc it is left out
      call(SYS_write, fd, "1000", 4);
      call(SYS_close, fd);
    }
  }
  // The caller's keys are found through it, by keyctl and by file systems that ask for keys in the payload's name.
  const long keyring = call(SYS_keyctl, kKeyctlJoinSessionKeyring, nullptr);
  if (plan.must_have_keyring && keyring != -ENOSYS) must(plan, keyring);
  enter(plan, Stage::death_signal);
  must(plan, call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0));
  must(plan, call(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0));
  leave_if_orphaned(plan);
}

int open_terminal(const ChildPlan& plan, int& master) noexcept {
  enter(plan, Stage::terminal);
  const long opened = call(SYS_openat, AT_FDCWD, "/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
  must(plan, opened);
  master = static_cast<int>(opened);
  int unlocked = 0;
  must(plan, call(SYS_ioctl, master, TIOCSPTLCK, &unlocked));
  const long slave = call(SYS_ioctl, master, kTiocgptpeer, O_RDWR | O_NOCTTY | O_CLOEXEC);
  must(plan, slave);
  must(plan, call(SYS_ioctl, slave, TCSETS, &plan.terminal.modes));
  const winsize size{plan.terminal.rows, plan.terminal.columns, 0, 0};
  must(plan, call(SYS_ioctl, master, TIOCSWINSZ, &size));
  return static_cast<int>(slave);
}

// One message: each descriptor, and in the text which slot it is for.
long send_descriptors(int socket, const int* fds, const char* slots, size_t count) noexcept {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kSlotCount)];
  for (char& byte : control) {
    byte = 0;
    __asm__ volatile("" ::: "memory");
  }
  iovec text{const_cast<char*>(slots), count};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(count * sizeof(int));
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(count * sizeof(int));
  int* numbers = reinterpret_cast<int*>(CMSG_DATA(header));
  for (size_t i = 0; i < count; ++i) {
    numbers[i] = fds[i];
    __asm__ volatile("" ::: "memory");
  }
  return call(SYS_sendmsg, socket, &message, MSG_NOSIGNAL);
}

void hand_over(const ChildPlan& plan, const int (&kept)[kMaxKept], int master) noexcept {
  enter(plan, Stage::hand_over);
  int fds[kSlotCount];
  char slots[kSlotCount];
  size_t count = 0;
  for (int i = 0; i < kMaxKept; ++i) {
    if (kept[i] < 0) continue;
    slots[count] = static_cast<char>(i);
    fds[count++] = kept[i];
  }
  if (master >= 0) {
    slots[count] = static_cast<char>(kTerminalSlot);
    fds[count++] = master;
  }
  if (count != 0) must(plan, send_descriptors(plan.hand_over, fds, slots, count));
}

// ---- the payload until exec ------------------------------------------------------------------------------------

// What no exec may ever give back. It takes CAP_SETPCAP and no capability away, so init does it before it forks, for
// both of them: 41 system calls once instead of twice.
void bound_capabilities(const ChildPlan& plan, uint64_t keep) noexcept {
  for (uint32_t capability = 0; capability <= plan.last_capability; ++capability) {
    if ((keep >> capability & 1) != 0) continue;
    must(plan, call(SYS_prctl, PR_CAPBSET_DROP, capability, 0, 0, 0), capability);
  }
  if (keep == 0) {
    // Even uid 0 gains nothing by exec, now and for good.
    must(plan, call(SYS_prctl, PR_SET_SECUREBITS,
                    SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED |
                        SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED,
                    0, 0, 0));
  }
}

void set_capabilities(const ChildPlan& plan, uint64_t keep) noexcept {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  for (int half = 0; half < 2; ++half) {
    const uint32_t bits = static_cast<uint32_t>(keep >> (32 * half));
    data[half].effective = data[half].permitted = data[half].inheritable = bits;
  }
  must(plan, call(SYS_capset, &header, data));
  if (keep == 0) {
    must(plan, call(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0));
    return;
  }
  for (uint32_t capability = 0; capability <= plan.last_capability; ++capability) {
    if ((keep >> capability & 1) == 0) continue;
    must(plan, call(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0), capability);
  }
}

void connect_streams(const ChildPlan& plan, int slave) noexcept {
  enter(plan, Stage::streams);
  for (int stream = 0; stream < 3; ++stream) {
    plan.page->step = static_cast<uint32_t>(stream);
    int from = plan.tty[stream] ? slave : plan.stdio[stream];
    if (from < 0) {
      const long null = call(SYS_openat, AT_FDCWD, "/dev/null", (stream == 0 ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
      must(plan, null);
      from = static_cast<int>(null);
    }
    // The supervisor sees to it that none of ours is 0, 1 or 2; so dup3 never meets its own number.
    must(plan, call(SYS_dup3, from, stream, 0));
  }
}

// What the kernel's own signal structures look like; libc's differ.
struct KernelSigaction {
  void (*handler)(int);
  unsigned long flags;
  void (*restorer)();
  uint64_t mask;
};

void default_signals(const ChildPlan& plan, bool file_size_signal) noexcept {
  KernelSigaction action{};
  for (int signal = 1; signal < 65; ++signal) {
    // Exceeding the file size limit is to be EFBIG, which programs handle, not death.
    action.handler = signal == SIGXFSZ && !file_size_signal ? SIG_IGN : SIG_DFL;
    if (signal == SIGKILL || signal == SIGSTOP) continue;
    must(plan, call(SYS_rt_sigaction, signal, &action, nullptr, 8));
  }
  const uint64_t none = 0;
  must(plan, call(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, 8));
}

// execute, write, read, truncate (ABI 3), device ioctl (ABI 5), connecting to sockets (ABI 9): linux/landlock.h
constexpr uint64_t kLandlockFileRights = 1u << 0 | 1u << 1 | 1u << 2 | 1u << 14 | 1u << 15 | 1u << 16;

void add_landlock_rules(const ChildPlan& plan) noexcept {
  enter(plan, Stage::landlock);
  for (uint32_t i = 0; i < plan.landlock_rule_count; ++i) {
    plan.page->step = i;
    const LandlockRule& rule = plan.landlock_rules[i];
    const long fd = call(SYS_openat, AT_FDCWD, rule.path, O_PATH | O_CLOEXEC);
    if (fd == -ENOENT && rule.may_be_missing != 0) continue;
    must(plan, fd);
    landlock_path_beneath_attr beneath{};
    beneath.allowed_access = rule.rights;
    beneath.parent_fd = static_cast<int>(fd);
    long added = call(SYS_landlock_add_rule, plan.landlock_ruleset, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0);
    if (added == -EINVAL) {
      // A single file (--mount FILE:…:rw) takes no rights of directories.
      beneath.allowed_access &= kLandlockFileRights;
      added = call(SYS_landlock_add_rule, plan.landlock_ruleset, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0);
    }
    must(plan, added);
    call(SYS_close, fd);
  }
}

void apply_landlock(const ChildPlan& plan) noexcept {
  if (plan.session < 0) add_landlock_rules(plan);
  must(plan, call(SYS_landlock_restrict_self, plan.landlock_ruleset, 0));
}

constexpr unsigned long kNewListener = 1u << 3;          // SECCOMP_FILTER_FLAG_NEW_LISTENER, 5.0
constexpr unsigned long kWaitKillableReceive = 1u << 5;  // SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, 5.19

// After this only what the filter allows may follow: the supervisor has made sure of sendmsg (a call that is reported
// while nobody holds the listener would wait for ever) and of execve.
void load_filter(const ChildPlan& plan) noexcept {
  if (plan.reporting_filter != nullptr) {
    long listener = call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, kNewListener | kWaitKillableReceive, plan.reporting_filter);
    if (listener == -EINVAL) listener = call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, kNewListener, plan.reporting_filter);
    if (listener >= 0) {
      const int fd = static_cast<int>(listener);
      const char slot = static_cast<char>(kListenerSlot);
      must(plan, send_descriptors(plan.hand_over, &fd, &slot, 1));
      return;
    }
    if (listener != -EBUSY && listener != -EINVAL) fail(plan, listener);
  }
  if (plan.filter != nullptr) must(plan, call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, plan.filter));
}

// Memory at an address that the supervisor has chosen; whatever lies there already makes the start fail.
char* memory_at(const ChildPlan& plan, uint64_t address, uint64_t bytes) noexcept {
  constexpr uint64_t kPage = 65536;  // the largest page of either architecture
  const uint64_t first = address & ~(kPage - 1);
  const uint64_t size = (address + bytes - first + kPage - 1) & ~(kPage - 1);
  // Shared: RLIMIT_DATA, which is set by now, counts private memory.
  must(plan, call(SYS_mmap, first, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
  return reinterpret_cast<char*>(address);
}

void copy(char* to, const void* from, uint64_t bytes) noexcept {
  for (uint64_t i = 0; i < bytes; ++i) to[i] = static_cast<const char*>(from)[i];
}

// What execve is called with: the plan's own memory, or copies at the places that the filter wants.
struct Start {
  char* path = nullptr;
  const char* const* argv;
  const char* const* envp;

  explicit Start(const ChildPlan& plan) noexcept : argv(plan.argv), envp(plan.envp) {
    if (plan.start_path == 0) return;
    path = memory_at(plan, plan.start_path, plan.start_path_bytes);
    char* const arguments = memory_at(plan, plan.start_argv, plan.argv_bytes);
    copy(arguments, plan.argv, plan.argv_bytes);
    argv = reinterpret_cast<const char* const*>(arguments);
    char* const environment = memory_at(plan, plan.start_envp, plan.envp_bytes);
    copy(environment, plan.envp, plan.envp_bytes);
    envp = reinterpret_cast<const char* const*>(environment);
  }
  long exec(const char* candidate) const noexcept {
    if (path == nullptr) return call(SYS_execve, candidate, argv, envp);
    uint64_t size = 0;
    while (candidate[size] != '\0') ++size;
    copy(path, candidate, size + 1);
    return call(SYS_execve, path, argv, envp);
  }
};

void set_rlimits(const ChildPlan& plan) noexcept {
  enter(plan, Stage::rlimits);
  for (uint32_t i = 0; i < plan.rlimit_count; ++i) {
    plan.page->step = i;
    const uint64_t pair[2] = {plan.rlimits[i].value, plan.rlimits[i].value};
    must(plan, call(SYS_prlimit64, 0, plan.rlimits[i].resource, pair, nullptr));
  }
}

[[noreturn, gnu::noinline]] void run_payload(const ChildPlan& plan, int slave) noexcept {
  enter(plan, Stage::session);
  if (plan.new_session) {
    if (slave < 0) {
      must(plan, call(SYS_setsid));
    } else {
      must(plan, call(SYS_setpgid, 0, 0));
      // From the background, which SIGTTOU is blocked for.
      const int group = static_cast<int>(call(SYS_getpid));
      must(plan, call(SYS_ioctl, slave, TIOCSPGRP, &group));
    }
  }
  connect_streams(plan, slave);

  enter(plan, Stage::affinity);
  if (plan.affinity != nullptr) must(plan, call(SYS_sched_setaffinity, 0, plan.affinity_bytes, plan.affinity));
  call(SYS_umask, 022);
  enter(plan, Stage::working_directory);
  must(plan, call(SYS_chdir, plan.working_directory));
  default_signals(plan, false);

  // Where it keeps none, init has given up all of its own before it forked.
  enter(plan, Stage::capabilities);
  if (plan.keep_capabilities != 0) set_capabilities(plan, plan.keep_capabilities);
  enter(plan, Stage::no_new_privs);
  must(plan, call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  if (plan.landlock_ruleset >= 0) apply_landlock(plan);

  enter(plan, Stage::descriptors);
  // Close-on-exec rather than closed: the exec pipe has to live exactly until then, and the fork that inherits all
  // of the caller's leaked descriptors makes no other system call that could use one. What lies below the two that
  // are still needed is closed at once: the filter's listener takes the lowest free number, which a small limit of
  // open files must allow.
  const int needed = plan.exec_pipe < plan.hand_over ? plan.exec_pipe : plan.hand_over;
  if (needed > 3) must(plan, call(SYS_close_range, 3, needed - 1, 0));
  must(plan, call(SYS_close_range, 3, ~0u, kCloseRangeCloexec));
  for (int i = 0; i < kMaxExtra; ++i) {
    if (plan.extra[i] >= 0) must(plan, call(SYS_dup3, plan.extra[i], 3 + i, 0));
  }

  // After everything that opens descriptors: the numbers up to here are the supervisor's, not the payload's.
  set_rlimits(plan);

  enter(plan, Stage::seccomp);
  const Start start(plan);
  load_filter(plan);

  // From here on only what the filter allows; the shared page needs no call. (No clock either: vdso or not.)
  plan.page->stage = static_cast<uint32_t>(Stage::exec);
  long error = -ENOENT;
  uint32_t which = 0;
  for (uint32_t i = 0; plan.candidates[i] != nullptr; ++i) {
    const long result = start.exec(plan.candidates[i]);
    if (result == -ENOENT || result == -ENOTDIR) continue;
    if (result != -EACCES) {
      fail(plan, result, i);
    }
    if (error != -EACCES) {  // as execvp(3): remember it, go on looking
      error = result;
      which = i;
    }
  }
  fail(plan, error, which);
}

// ---- without init (nsjail) ---------------------------------------------------------------------------------------

void take_identity(const ChildPlan& plan) noexcept {
  const DirectPlan& direct = *plan.direct;
  enter(plan, Stage::identity);
  if (direct.oom_score != nullptr) {
    const long fd = call(SYS_openat, AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {  // a courtesy to the host, not a protection of it
      call(SYS_write, fd, direct.oom_score, direct.oom_score_size);
      call(SYS_close, fd);
    }
  }
  call(SYS_keyctl, kKeyctlJoinSessionKeyring, nullptr);
  if (direct.change_ids) {
    // The capabilities are needed until the view stands, whichever ids we have.
    must(plan, call(SYS_prctl, PR_SET_SECUREBITS, SECBIT_KEEP_CAPS | SECBIT_NO_SETUID_FIXUP, 0, 0, 0), 1);
    must(plan, call(SYS_setresgid, plan.gid, plan.gid, plan.gid), 2);
    const long groups = call(SYS_setgroups, direct.group_count, direct.groups);
    if (direct.group_count != 0) must(plan, groups, 3);
    must(plan, call(SYS_setresuid, plan.uid, plan.uid, plan.uid), 4);
    must(plan, call(SYS_prctl, PR_SET_SECUREBITS, 0, 0, 0, 0), 1);
  }
  enter(plan, Stage::death_signal);
  if (!direct.death_signal) return;
  must(plan, call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0));
  leave_if_orphaned(plan);
}

void change_root(const ChildPlan& plan) noexcept {
  const DirectPlan& direct = *plan.direct;
  if (direct.view) {
    StepRun run;
    make_view(plan, run);
    enter(plan, Stage::pivot);
    if (direct.pivot) {
      must(plan, call(SYS_pivot_root, ".", "."));
      // The old root lies on ours now, and on it what came before the mount that became the root; the uppermost goes first.
      for (uint32_t i = 0; i <= run.layers; ++i) must(plan, call(SYS_umount2, ".", MNT_DETACH));
    } else {
      must(plan, call(SYS_chroot, "."));
    }
    must(plan, call(SYS_chdir, "/"));
    if (plan.read_only_root) {
      raw::mount_attr attr{};
      attr.attr_set = SBX_MOUNT_ATTR_RDONLY;
      must(plan, call(SYS_mount_setattr, AT_FDCWD, "/", 0, &attr, sizeof attr));
    }
  } else if (direct.chroot != nullptr) {
    enter(plan, Stage::pivot);
    must(plan, call(SYS_chroot, direct.chroot));
  }
}

// Priorities and the like: what a program may have set for itself, too.
void set_manners(const ChildPlan& plan) noexcept {
  const DirectPlan& direct = *plan.direct;
  enter(plan, Stage::affinity);
  if (plan.affinity != nullptr) must(plan, call(SYS_sched_setaffinity, 0, plan.affinity_bytes, plan.affinity), 1);
  if (direct.own_core) must(plan, call(SYS_prctl, 62 /* PR_SCHED_CORE, 5.14 */, 1, 0, 1, 0), 2);
  if (direct.no_tsc) must(plan, call(SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0), 3);
  if (direct.personality != 0) must(plan, call(SYS_personality, direct.personality), 4);
  if (!direct.default_priority) call(SYS_setpriority, 0, 0, direct.priority);
  enter(plan, Stage::session);
  if (plan.new_session) must(plan, call(SYS_setsid));
}

// ---- init's life -----------------------------------------------------------------------------------------------

// Negative ones are none.
void close_all_but(int first, int second, int third) noexcept {
  unsigned from = 0;
  for (;;) {
    int next = -1;  // the lowest that is not below `from`
    const int kept_fds[3] = {first, second, third};
    for (const int kept : kept_fds) {
      if (kept >= static_cast<int>(from) && (next < 0 || kept < next)) next = kept;
    }
    if (next < 0) break;
    if (static_cast<unsigned>(next) > from) call(SYS_close_range, from, next - 1, 0);
    from = static_cast<unsigned>(next) + 1;
  }
  call(SYS_close_range, from, ~0u, 0);
}

void tell(const ChildPlan& plan, char event) noexcept {
  if (plan.event_pipe >= 0) call(SYS_write, plan.event_pipe, &event, 1);
}

// Reaps all that is there; leaves when the payload is among it.
void reap(const ChildPlan& plan, long payload) noexcept {
  for (;;) {
    int status = 0;
    const int job_control = plan.event_pipe >= 0 ? WUNTRACED : 0;
    const long pid = call(SYS_wait4, -1, &status, WNOHANG | job_control, nullptr);
    if (pid <= 0) return;
    if (pid != payload) continue;
    if (WIFSTOPPED(status)) {
      call(SYS_kill, -1, SIGSTOP);  // all but init itself
      tell(plan, kPayloadStopped);
    } else {
      plan.page->wait_status = status;
      __asm__ volatile("" ::: "memory");
      plan.page->ended = 1;
      leave(0);
    }
  }
}

[[noreturn]] void be_init(const ChildPlan& plan, long payload) noexcept {
  close_all_but(plan.hold_read, plan.event_pipe, -1);
  call(SYS_prctl, PR_SET_NAME, "sbx-init", 0, 0, 0);
  if (plan.keep_capabilities != 0) {  // what the payload keeps is not init's
    bound_capabilities(plan, 0);
    set_capabilities(plan, 0);
  }
  const uint64_t wanted = uint64_t{1} << (SIGCHLD - 1) | uint64_t{1} << (SIGTERM - 1) | uint64_t{1} << (SIGINT - 1) |
                          uint64_t{1} << (SIGHUP - 1) | uint64_t{1} << (SIGQUIT - 1) | uint64_t{1} << (SIGUSR1 - 1) |
                          uint64_t{1} << (SIGUSR2 - 1) | uint64_t{1} << (SIGCONT - 1) | uint64_t{1} << (SIGTSTP - 1);
  for (;;) {
    siginfo_t info{};
    const long signal = call(SYS_rt_sigtimedwait, &wanted, &info, nullptr, 8);
    if (signal == SIGCHLD) {
      reap(plan, payload);
    } else if (signal > 0 && info.si_pid == 0) {
      // From outside the pid namespace: the supervisor. The payload's own signals to init carry its pid: ignored.
      if (signal == SIGTSTP) {
        call(SYS_kill, -1, SIGSTOP);
      } else if (signal == SIGCONT) {
        call(SYS_kill, -1, SIGCONT);
        tell(plan, kContinued);
      } else if (call(SYS_kill, -payload, signal) < 0) {
        call(SYS_kill, payload, signal);
      }
    }
  }
}

// The payload borrows init's memory until it executes its program, and init waits that long: copying the memory, and each
// page of it that either would write, is the dearer half of a fork. A frame of its own (it is not inlined), in which
// nothing is written after the call: both processes return into it. Not where memory is mapped at chosen addresses on the way
// (`Start`): that would stay init's.
[[gnu::noinline]] long fork_payload(const ChildPlan& plan, int slave) noexcept {
  const unsigned long shared = plan.start_path == 0 ? CLONE_VM | CLONE_VFORK : 0;
  const long payload = call(SYS_clone, shared | SIGCHLD, 0, 0, 0, 0);
  if (payload == 0) run_payload(plan, slave);
  return payload;
}

// ---- init of a sandbox that outlives its programs -----------------------------------------------------------------

// The programs that the supervisor asked for. `name`: the pid of the first process, whose group it stays; 0: a free place.
struct Spawned {
  struct Place {
    int name, pid, heir;
  } places[kMaxSpawned];
};

Spawned::Place* place_of(Spawned& spawned, long name) noexcept {
  for (Spawned::Place& place : spawned.places) {
    if (place.name == name) return &place;
  }
  return nullptr;
}

Spawned::Place* place_of_process(Spawned& spawned, long pid) noexcept {
  for (Spawned::Place& place : spawned.places) {
    if (place.name != 0 && place.pid == pid) return &place;
  }
  return nullptr;
}

void report(const ChildPlan& plan, SpawnNews news, long pid, long status) noexcept {
  const SpawnEvent event{news, static_cast<int32_t>(pid), static_cast<int32_t>(status)};
  must(plan, call(SYS_sendto, plan.session, &event, sizeof event, MSG_NOSIGNAL, nullptr, 0));  // or the supervisor would wait for ever
}

// WNOHANG: what has ended. 0: until no process but init is left.
void reap_spawned(const ChildPlan& plan, Spawned& spawned, int options) noexcept {
  for (;;) {
    int status = 0;
    const long pid = call(SYS_wait4, -1, &status, options, nullptr);
    if (pid <= 0) return;
    Spawned::Place* const place = place_of_process(spawned, pid);
    if (place == nullptr) continue;  // an orphan
    // Its children are ours now. The payload says which one the heir is: one that is none, or another program, is not believed.
    const int heir = place->heir;
    place->heir = 0;
    if (heir != 0) report(plan, SpawnNews::succeeded, place->name, 0);
    if (heir > 1 && place_of_process(spawned, heir) == nullptr && call(SYS_waitid, P_PID, heir, nullptr, WEXITED | WNOHANG | WNOWAIT, nullptr) == 0) {
      place->pid = heir;
      continue;
    }
    report(plan, SpawnNews::ended, place->name, status);
    place->name = 0;
  }
}

// Reaping does the rest: waiting for the end here would hang where somebody inside traces it.
void let_succeed(const ChildPlan& plan, Spawned& spawned, int name, int heir) noexcept {
  Spawned::Place* const place = place_of(spawned, name);
  if (name <= 0 || heir == 0 || place == nullptr || place->heir != 0) return report(plan, SpawnNews::succeeded, name, 0);
  place->heir = heir;
  call(SYS_kill, place->pid, SIGKILL);
}

// The number of descriptors that came with the command; -1: the supervisor is gone.
int receive_command(const ChildPlan& plan, SpawnCommand& command, int (&fds)[kSpawnFds + kMaxExtra]) noexcept {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds)];
  iovec text{&command, sizeof command};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const long got = call(SYS_recvmsg, plan.session, &message, MSG_CMSG_CLOEXEC);
  must(plan, got);
  if (got != static_cast<long>(sizeof command)) return -1;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return 0;
  const int count = static_cast<int>((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
  for (int i = 0; i < count; ++i) fds[i] = reinterpret_cast<const int*>(CMSG_DATA(header))[i];
  return count;
}

[[noreturn]] void run_spawned(const ChildPlan& plan, const int (&fds)[kSpawnFds + kMaxExtra], int count) noexcept {
  const SpawnArea& area = *plan.spawn;
  ChildPlan own = plan;
  own.page = &plan.spawn->page;
  own.working_directory = area.working_directory;
  own.candidates = area.candidates;
  own.argv = area.argv;
  own.envp = area.envp;
  own.start_path_bytes = area.start_path_bytes;
  own.argv_bytes = area.argv_bytes;
  own.envp_bytes = area.envp_bytes;
  // Out of the way of 3 and 4, and of what run_payload() closes.
  constexpr int kOutOfTheWay = 32;
  enter(own, Stage::streams);
  int moved[kSpawnFds + kMaxExtra];
  for (int i = 0; i < count; ++i) {
    const long fd = call(SYS_fcntl, fds[i], F_DUPFD_CLOEXEC, kOutOfTheWay);
    must(own, fd);
    moved[i] = static_cast<int>(fd);
  }
  own.exec_pipe = moved[0];
  own.hand_over = moved[1];
  for (int i = 0; i < 3; ++i) {
    own.stdio[i] = moved[2 + i];
    own.tty[i] = false;
  }
  for (int i = kSpawnFds; i < count; ++i) own.extra[i - kSpawnFds] = moved[i];
  run_payload(own, -1);
}

void start_spawned(const ChildPlan& plan, Spawned& spawned, const int (&fds)[kSpawnFds + kMaxExtra], int count) noexcept {
  Spawned::Place* const place = place_of(spawned, 0);
  long pid = -EAGAIN;
  if (place != nullptr && count >= kSpawnFds) pid = call(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (pid == 0) run_spawned(plan, fds, count);
  if (pid > 0 && place_of(spawned, pid) != nullptr) {  // a heir goes on under that number
    call(SYS_kill, pid, SIGKILL);
    pid = -EAGAIN;
  }
  if (pid > 0) {
    place->name = place->pid = static_cast<int>(pid);
    place->heir = 0;
  }
  report(plan, SpawnNews::started, pid > 0 ? pid : 0, pid > 0 ? 0 : pid);
}

// What its programs keep, they take up after the fork. Init only holds it ready: nothing it does is done with it.
void shelve_capabilities(const ChildPlan& plan, uint64_t keep) noexcept {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  for (int half = 0; half < 2; ++half) data[half].permitted = static_cast<uint32_t>(keep >> (32 * half));
  must(plan, call(SYS_capset, &header, data));
  must(plan, call(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0));
}

[[noreturn]] void serve_session(const ChildPlan& plan) noexcept {
  enter(plan, Stage::capabilities);
  shelve_capabilities(plan, plan.keep_capabilities);
  if (plan.landlock_ruleset >= 0) add_landlock_rules(plan);
  const uint64_t ended = uint64_t{1} << (SIGCHLD - 1);
  enter(plan, Stage::running);
  close_all_but(plan.hold_read, plan.session, plan.landlock_ruleset);  // the exec pipe with it: ready
  // What comes from the supervisor must not become 0, 1 or 2.
  for (int i = 0; i < 3; ++i) {
    must(plan, call(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC));
  }
  const long signals = call(SYS_signalfd4, -1, &ended, 8, O_CLOEXEC | O_NONBLOCK);
  must(plan, signals);
  call(SYS_prctl, PR_SET_NAME, "sbx-init", 0, 0, 0);
  Spawned spawned;
  for (Spawned::Place& place : spawned.places) {
    place.name = place.pid = place.heir = 0;
    __asm__ volatile("" ::: "memory");
  }
  for (;;) {
    pollfd waits[2] = {{static_cast<int>(signals), POLLIN, 0}, {plan.session, POLLIN, 0}};
    if (call(SYS_ppoll, waits, 2, nullptr, nullptr, 8) <= 0) continue;
    char info[128];  // signalfd_siginfo: one is pending at most, and says nothing that wait4 does not
    while (call(SYS_read, signals, info, sizeof info) > 0) {
    }
    reap_spawned(plan, spawned, WNOHANG);
    if (waits[1].revents == 0) continue;
    SpawnCommand command;
    int fds[kSpawnFds + kMaxExtra];
    const int count = receive_command(plan, command, fds);
    if (count < 0) leave(1);  // the supervisor is dead
    switch (command.verb) {
      case SpawnVerb::start: start_spawned(plan, spawned, fds, count); break;
      case SpawnVerb::signal:
        if (command.pid > 0 && place_of(spawned, command.pid) != nullptr) {
          // The group: what an interrupted program started shall be interrupted as well.
          if (call(SYS_kill, -command.pid, command.signal) < 0) call(SYS_kill, place_of(spawned, command.pid)->pid, command.signal);
        }
        report(plan, SpawnNews::signalled, command.pid, 0);
        break;
      case SpawnVerb::succeed: let_succeed(plan, spawned, command.pid, command.heir); break;
      case SpawnVerb::kill_all:
        call(SYS_kill, -1, SIGKILL);  // a fork that is under way fails: kill(2) holds the list of processes meanwhile
        reap_spawned(plan, spawned, 0);
        report(plan, SpawnNews::emptied, 0, 0);
        break;
    }
    for (int i = 0; i < count; ++i) call(SYS_close, fds[i]);
  }
}

}  // namespace

long perform_step(const Step& step, StepRun& run) noexcept {
  run.part = StepPart::act;
  const long result = perform(step, run);
  return result < 0 && !tolerated(step, result) ? result : 0;
}

long bring_loopback_up() noexcept {
  const long fd = call(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return fd;
  const long up = raise_loopback(fd);
  call(SYS_close, fd);
  return up;
}

namespace {

// What the caller's process held: its umask, and its words where anyone inside could read them.
void forget_caller(const ChildPlan& plan) noexcept {
  call(SYS_umask, 0);
  for (size_t i = 0; i < plan.wipe_size; ++i) {
    plan.wipe[i] = '\0';
    __asm__ volatile("" ::: "memory");
  }
}

void set_host(const ChildPlan& plan) noexcept {
  if (plan.hostname != nullptr) {
    enter(plan, Stage::host_name);
    must(plan, call(SYS_sethostname, plan.hostname, plan.hostname_size));
  }
  if (plan.loopback) {
    enter(plan, Stage::loopback);
    must(plan, bring_loopback_up());
  }
}

}  // namespace

[[noreturn]] void run_child(const ChildPlan& plan) noexcept {
  const uint64_t all = ~uint64_t{0};
  call(SYS_rt_sigprocmask, SIG_SETMASK, &all, nullptr, 8);
  // A caller that ignores SIGCHLD would have init's children vanish without a word.
  const KernelSigaction action{};
  call(SYS_rt_sigaction, SIGCHLD, &action, nullptr, 8);
  call(SYS_close, plan.hold_write);
  forget_caller(plan);
  NetworkHelper network;
  if (plan.network_namespace) start_network(plan, network);
  wait_for_supervisor(plan);
  enter_cgroup(plan);
  become_nobody_in_particular(plan);

  StepRun run;
  make_view(plan, run);

  enter(plan, Stage::pivot);
  must(plan, call(SYS_pivot_root, ".", "."));
  must(plan, call(SYS_umount2, ".", MNT_DETACH));
  must(plan, call(SYS_chdir, "/"));
  if (plan.read_only_root) {
    raw::mount_attr attr{};
    attr.attr_set = SBX_MOUNT_ATTR_RDONLY;
    must(plan, call(SYS_mount_setattr, AT_FDCWD, "/", 0, &attr, sizeof attr));
  }
  if (plan.network_namespace) enter_network(plan, network);
  set_host(plan);

  int master = -1;
  const int slave = plan.open_terminal ? open_terminal(plan, master) : -1;
  hand_over(plan, run.kept, master);

  enter(plan, Stage::capabilities);
  bound_capabilities(plan, plan.keep_capabilities);

  enter(plan, Stage::fork);
  if (plan.new_session) {
    must(plan, call(SYS_setsid));
    if (slave >= 0) must(plan, call(SYS_ioctl, slave, TIOCSCTTY, 0));
  }
  if (plan.session >= 0) serve_session(plan);
  if (plan.keep_capabilities == 0) set_capabilities(plan, 0);
  const long payload = fork_payload(plan, slave);
  must(plan, payload);
  be_init(plan, payload);
}

[[noreturn]] void run_direct(const ChildPlan& plan) noexcept {
  const DirectPlan& direct = *plan.direct;
  const uint64_t all = ~uint64_t{0};
  call(SYS_rt_sigprocmask, SIG_SETMASK, &all, nullptr, 8);
  if (plan.hold_write >= 0) call(SYS_close, plan.hold_write);
  forget_caller(plan);
  wait_for_supervisor(plan);
  enter_cgroup(plan);
  take_identity(plan);
  change_root(plan);
  set_host(plan);
  connect_streams(plan, -1);
  enter(plan, Stage::working_directory);
  must(plan, call(SYS_chdir, plan.working_directory));
  set_manners(plan);
  default_signals(plan, true);
  call(SYS_umask, direct.umask);

  enter(plan, Stage::no_new_privs);
  if (direct.no_new_privs) must(plan, call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  enter(plan, Stage::capabilities);
  if (direct.bound) bound_capabilities(plan, plan.keep_capabilities);
  set_capabilities(plan, plan.keep_capabilities);

  enter(plan, Stage::descriptors);
  must(plan, call(SYS_close_range, 3, ~0u, kCloseRangeCloexec));
  for (uint32_t i = 0; i < direct.pass_count; ++i) {
    plan.page->step = i;
    must(plan, call(SYS_fcntl, direct.pass[i], F_SETFD, 0));
  }
  set_rlimits(plan);

  enter(plan, Stage::seccomp);
  if (plan.filter != nullptr) {
    must(plan, call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, direct.filter_flags, plan.filter));
  }
  plan.page->stage = static_cast<uint32_t>(Stage::exec);
  if (direct.exec_fd >= 0) fail(plan, call(SYS_execveat, direct.exec_fd, "", plan.argv, plan.envp, kAtEmptyPath));
  fail(plan, call(SYS_execve, plan.candidates[0], plan.argv, plan.envp));
}

}  // namespace sbx::ns
