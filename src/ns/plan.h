// ChildPlan: all that the child does between clone and exec, as a flat array of trivially copyable steps whose strings,
// descriptors, masks and programs the supervisor has already made. ns/build_plan.cc writes it, ns/child.cc performs it.
//
// The child reports through a shared page (StatusPage) and says *when* through descriptors: the exec pipe (close-on-
// exec, so that end of file means "exec happened, or it died: look at the page"), and the event pipe of a terminal run.
#pragma once

#include <linux/filter.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace sbx::ns {

// What the child is doing, in the order in which it happens. Names stand in results and errors.
enum class Stage : uint32_t {
  none,
  clone,         // the supervisor: clone3
  id_maps,       // the supervisor: writing the maps
  wait,          // waiting for the maps
  cgroup,        // entering cgroups that the supervisor has opened, and the namespace rooted there
  identity,
  death_signal,
  mounts,
  pivot,
  network,       // its namespace, made beside all of the above: waiting for it, and entering it
  host_name,
  loopback,
  terminal,
  hand_over,     // sending descriptors to the supervisor
  fork,
  session,
  streams,
  working_directory,
  affinity,
  capabilities,
  no_new_privs,
  landlock,
  descriptors,
  rlimits,
  seccomp,
  exec,
  running,
};
inline constexpr uint32_t kStageCount = static_cast<uint32_t>(Stage::running) + 1;
const char* stage_name(Stage stage);

enum class StepKind : uint32_t {
  tmpfs,         // mount a tmpfs at `a` with options `b`
  make_dir,      // mkdir a, mode
  make_symlink,  // link a saying b
  write_file,    // a with content b[0..n], mode
  write_to,      // the existing file a gets b[0..n] written (a sysctl)
  copy_fd,       // a filled from fd, mode
  bind,          // the host's `a` at `b`, attributes `attr`; device and inode must be n and m (0, 0: not compared);
                 // with kMakePlace, where fd is not -1: it is the clone already
  clone_bind,    // `a`, already inside, at `b` with attributes `attr` (masks, private directories, self-binds)
  attach,        // the detached tree `fd` at b
  proc,          // at a with options b, read-only if `attr` says so
  devpts,        // at a
  overlay,       // at a with options b
  cgroup,        // the cgroup v2 tree at a, read-only: from the root of our cgroup namespace down
  open_keep,     // opens directory a and keeps it in slot n for the hand-over
  // What bwrap's operations need besides. Their target (b of mounts, else a) is a place: see kMakePlace.
  mount_at,      // a file system of type `a` at b, mount(2) flags `attr`, options `c`
  data,          // what can be read from fd, in a file without a name, bound at b with `attr`; mode
  restrict,      // attributes `attr` for the mount at a alone
  chmod,         // mode of a
  host_name,     // a[0..n]
  // What nsjail's mounts need besides; targets as kResolveTarget says.
  file_system,   // type `d` from source a at b, mount(2) flags `attr`, options `c`
  content_bind,  // a file with content c[0..n], on a tmpfs of its own that nobody else sees, at b with `attr`; mode
  keep_tree,     // clones the host's `a` into slot n, for a bind whose `fd` is that slot: "/" itself, before ours lies on it
  restrict_top,  // attributes `attr` for the mount at b alone
};

// How `b` (or `a` of the other kinds) is looked up: below our own empty tmpfs a plain relative path cannot lead out;
// below anything a stranger filled (a workspace) it is resolved in the new root, magic links refused.
enum StepFlags : uint32_t {
  kResolveTarget = 1,   // openat2(RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS) on the target
  kMayBeMissing = 2,    // ENOENT of the target is not an error
  kExistsIsFine = 4,    // EEXIST is not an error
  kOverSelf = 8,        // bind the target over itself
  kNoLinks = 16,        // bind: no part of the source may be a link by now
  kMayFail = 32,        // a convenience, no protection: whatever the error, go on
  // The target is looked up in the new root as kResolveTarget says, and made where it does not exist: parents with
  // `parent_mode`, itself as the step needs it. Its last component is never followed.
  kMakePlace = 64,
  kMaybeRoot = 128,     // the place may be the new root itself: what is mounted there becomes the new root
  kBecomesBase = 256,   // mount_at: what was mounted is where the steps with kBelowBase work
  kBelowBase = 512,     // the target is one name in that directory
  kBecomesScratch = 1024,  // mount_at: this tmpfs holds the files of `data`; its descriptor becomes number n
  kMayBeLocked = 2048,  // bind, with kMakePlace: attributes that a submount refuses are done without
  kBecomesRoot = 4096,  // bind, file_system, without kMakePlace: what was mounted at "." is the new root from here on
};

// What a step was doing when it failed, for messages that tell them apart.
enum class StepPart : uint32_t {
  act,             // what the step is for
  open_source,
  stale_source,    // device or inode are not those that were seen before
  parents,         // of the place
  place,           // the place itself
  look,            // at the place: its type
  symlink_place,
  not_a_directory,
  not_a_file,
  attributes,
  make_data,       // the nameless file
  write,
  no_mount,        // restrict: nothing is mounted there
  other_link,      // make_symlink: another link is there; what it says stands in StepRun::text
  no_link,         // make_symlink: something else is there
};

struct Step {
  StepKind kind = StepKind::make_dir;
  uint32_t flags = 0;
  const char* a = nullptr;
  const char* b = nullptr;
  const char* c = nullptr;
  const char* d = nullptr;
  uint64_t n = 0;
  uint64_t m = 0;
  uint64_t attr = 0;   // MOUNT_ATTR_*
  uint32_t mode = 0;
  int fd = -1;
  uint32_t op = 0;     // index of the operation in the spec that made this step, for messages
  uint32_t parent_mode = 0;
};
static_assert(std::is_trivially_copyable_v<Step> && std::is_standard_layout_v<Step>);

struct RlimitSetting {
  int resource;
  uint64_t value;  // soft and hard
};

struct LandlockRule {
  const char* path;  // inside, after the pivot
  uint64_t rights;
  uint32_t may_be_missing;
};

// Slots of the descriptors handed over: /proc, then directories, then the terminal's master and the filter's listener.
inline constexpr int kMaxKept = 8;
inline constexpr int kRootSlot = kMaxKept - 1;  // the new root, where that is asked for
inline constexpr int kTerminalSlot = kMaxKept;
inline constexpr int kListenerSlot = kMaxKept + 1;
inline constexpr int kSlotCount = kMaxKept + 2;

// What the payload's terminal is like before the payload starts. TerminalModes is the kernel's struct termios (TCSETS).
struct TerminalModes {
  uint32_t input = 0, output = 0, control = 0, local = 0;
  uint8_t line = 0;
  uint8_t keys[19] = {};
};
static_assert(sizeof(TerminalModes) == 36);
struct TerminalSetup {
  uint16_t rows = 24, columns = 80;
  TerminalModes modes;
};

// What init says through the event pipe, one byte each. Whatever comes between the supervisor's SIGCONT and its
// acknowledgement tells of a stop that is over.
inline constexpr char kPayloadStopped = 's';  // and with it all that lives inside
inline constexpr char kContinued = 'c';       // the supervisor's SIGCONT was passed on

// Written by the child, read by the supervisor; the payload never has it mapped (exec drops it).
struct StatusPage {
  uint32_t stage = 0;          // Stage now
  uint32_t step = 0;           // index of the current step
  uint32_t error_stage = 0;    // 0: no error; first writer wins
  uint32_t error_step = 0;
  int32_t error_errno = 0;
  uint32_t error_detail = 0;   // exec: which candidate; landlock: which rule
  uint32_t ended = 0;          // 1: wait_status is valid
  int32_t wait_status = 0;
  uint64_t stage_ns[kStageCount] = {};  // CLOCK_MONOTONIC when the stage began
};

// The other life cycle (nsjail's): no init; the process that was cloned becomes the program. What is not said here is as
// in ChildPlan.
struct DirectPlan {
  bool view = true;            // ChildPlan::steps, in a mount namespace of our own
  bool pivot = true;           // false: chroot
  const char* chroot = nullptr;  // without a view of our own
  bool change_ids = true;
  const uint32_t* groups = nullptr;  // supplementary groups; none can be had where the kernel denies it
  uint32_t group_count = 0;
  bool death_signal = true;    // die with the supervisor
  bool no_new_privs = true;
  bool bound = true;           // take from the bounding set what is not kept
  bool default_priority = true;
  int priority = 0;            // nice level
  uint64_t personality = 0;    // 0: as it is
  bool no_tsc = false;
  bool own_core = false;       // PR_SCHED_CORE_CREATE
  const char* oom_score = nullptr;
  uint32_t oom_score_size = 0;
  uint32_t umask = 022;
  const int* pass = nullptr;   // descriptors that stay open
  uint32_t pass_count = 0;
  int exec_fd = -1;            // executed instead of the candidates
  uint32_t filter_flags = 0;   // SECCOMP_FILTER_FLAG_*
  int fail_status = 1;         // what the process exits with when a step fails
};
static_assert(std::is_trivially_copyable_v<DirectPlan> && std::is_standard_layout_v<DirectPlan>);

// ---- a sandbox that outlives its programs ------------------------------------------------------------------------
// With ChildPlan::session init starts no payload of its own: it starts, signals and reaps what the supervisor asks for,
// through a SOCK_SEQPACKET pair that no payload ever holds. Each program goes the payload's whole way (session, streams,
// capabilities, Landlock, rlimits, filter), forked from init, which has nothing that it could lose on that way.

inline constexpr int kMaxSpawned = 16;    // programs that init knows at a time
inline constexpr int kMaxExtra = 2;       // descriptors beyond 0 to 2: they become 3 and 4
// In the order of SCM_RIGHTS: exec pipe, hand-over socket, streams, extras.
inline constexpr int kSpawnFds = 5;

enum class SpawnVerb : uint32_t {
  start = 1,  // what SpawnArea says; answered by `started`
  signal,     // to the process group of `pid`, if init still knows it; answered by `signalled` when it is sent
  succeed,    // `pid` is killed, and the program is then its child `heir`, still called by the old number; answered by
              // `succeeded` when the old process is reaped, and where there is no such child by `ended` after it
  kill_all,   // SIGKILL to all but init, at one instant; answered by `emptied` when all are reaped
};
struct SpawnCommand {
  SpawnVerb verb = SpawnVerb::start;
  int32_t pid = 0;
  int32_t signal = 0;
  int32_t heir = 0;
  uint32_t fds = 0;  // that came with it
};
enum class SpawnNews : uint32_t {
  started = 1,  // pid inside; 0: status is -errno, or no room
  ended,        // wait status of a program that was started
  emptied,
  signalled,  // the signal is sent, or had nobody to go to
  succeeded,
};
struct SpawnEvent {
  SpawnNews news = SpawnNews::started;
  int32_t pid = 0;
  int32_t status = 0;
};

// Shared memory at the same address in supervisor and init: what the next program is. Written by the supervisor while
// init waits; a program loses it by exec.
inline constexpr size_t kSpawnText = size_t{1} << 20;
struct SpawnArea {
  StatusPage page;
  const char* working_directory = nullptr;  // all pointers lead into `text`
  const char* const* candidates = nullptr;
  const char* const* argv = nullptr;
  const char* const* envp = nullptr;
  uint64_t start_path_bytes = 0, argv_bytes = 0, envp_bytes = 0;
  alignas(8) char text[kSpawnText] = {};
};

struct ChildPlan {
  StatusPage* page = nullptr;

  // descriptors (numbers are the same in the child: it is a fork)
  int hold_read = -1;        // go byte, then end of file when the supervisor is dead
  int hold_write = -1;       // the supervisor's end: closed first
  int exec_pipe = -1;        // write end, close-on-exec
  int event_pipe = -1;       // init's reports about job control; -1 without a terminal
  int hand_over = -1;        // SOCK_SEQPACKET: init's message with directories, the payload's with the listener
  int session = -1;          // init's end of the pair, for a sandbox that outlives its programs; -1: one payload
  SpawnArea* spawn = nullptr;  // with `session`
  int extra[kMaxExtra] = {-1, -1};  // become 3 and 4 of the program
  int stdio[3] = {-1, -1, -1};  // -1: /dev/null for stdin, the terminal where tty[i]
  bool tty[3] = {};
  bool open_terminal = false;
  TerminalSetup terminal;

  // identity
  uint32_t uid = 0, gid = 0;
  bool drop_groups = false;  // root case: setgroups(0)
  // A session key ring of our own instead of the caller's. Where the payload may not call keyctl, one that cannot be had
  // (no keys in this kernel, a filter around us, the user's quota) is done without.
  bool must_have_keyring = false;
  // Files named `tasks` of cgroup v1 directories: "0" written there moves the writer, without the wait for all CPUs
  // (an RCU grace period, 15 ms on an idle host) that moving another process by cgroup.procs costs.
  const int* cgroup_tasks = nullptr;
  uint32_t cgroup_tasks_count = 0;
  // One of our own, its loopback up. Not by clone3, for which the supervisor would wait: see make_network() in child.cc.
  bool network_namespace = false;
  bool network_beside = false;  // by a helper, beside the mounts: a CPU is free for it
  // unshare(CLONE_NEWCGROUP) once the supervisor has put us into our cgroup: by clone3 the namespace's root would be
  // the supervisor's own cgroup.
  bool cgroup_namespace = false;

  const Step* steps = nullptr;
  uint32_t step_count = 0;
  bool oom_score = false;    // write 1000 to our own oom_score_adj (user case; else the supervisor did)
  const char* hostname = nullptr;
  uint32_t hostname_size = 0;
  bool loopback = false;  // for run_direct(): in the namespace that clone3 made
  bool read_only_root = true;

  bool new_session = true;
  const RlimitSetting* rlimits = nullptr;
  uint32_t rlimit_count = 0;
  const unsigned long* affinity = nullptr;
  uint32_t affinity_bytes = 0;
  uint64_t keep_capabilities = 0;
  uint32_t last_capability = 40;
  int landlock_ruleset = -1;
  const LandlockRule* landlock_rules = nullptr;
  uint32_t landlock_rule_count = 0;
  const sock_fprog* filter = nullptr;  // nullptr: no filter
  // The same decisions with reports: loaded with a listener, which is handed over. nullptr: none wanted. Where another
  // listener exists already (EBUSY: a sandbox in a sandbox) or the kernel has none, `filter` is loaded instead.
  const sock_fprog* reporting_filter = nullptr;

  // Where path, argv and envp of execve must lie for the filter to allow it (seccomp/start_key.h); 0: anywhere.
  uint64_t start_path = 0, start_argv = 0, start_envp = 0;
  uint64_t start_path_bytes = 0, argv_bytes = 0, envp_bytes = 0;

  const char* working_directory = "/";
  const char* const* candidates = nullptr;  // paths tried in order, nullptr-terminated
  const char* const* argv = nullptr;
  const char* const* envp = nullptr;

  const DirectPlan* direct = nullptr;  // for run_direct()

  // The memory of our own command line and environment: zeroed in the child's copy, so that /proc/1/cmdline says
  // nothing about the caller (cmdline is readable by anyone who sees the process).
  char* wipe = nullptr;
  size_t wipe_size = 0;
};
static_assert(std::is_trivially_copyable_v<ChildPlan> && std::is_standard_layout_v<ChildPlan>);

}  // namespace sbx::ns
