// Theory of operation: each attempt that changes a process is made by a child of its own (clone3 without shared
// memory), which writes the errno of each step into a page that it shares with us and leaves by exit_group. The child
// makes raw system calls only, as ns/child.cc does, dies with us (PDEATHSIG) and is killed after five seconds.
#include "runtime/host_report.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/raw_sys.h"
#include "base/sys.h"
#include "base/text.h"
#include "ns/id_map.h"
#include "ns/landlock.h"
#include "runtime/uid_lease.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)  // 5.19
#endif

namespace sbx::runtime {
namespace {

using raw::call;

constexpr int kChildMilliseconds = 5000;
constexpr uint64_t kAllNamespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS |
                                    CLONE_NEWNET | CLONE_NEWCGROUP;

enum Step : int {
  kIdentity, kCapability, kPrivateMounts, kTmpfs, kProc, kOpenTree, kMountSetattr, kMoveMount, kXattr, kOverlay, kPty,
  kLoopback, kCloseNested, kNoNewPrivs, kSeccomp, kListener, kLandlock, kStepCount
};

// Shared with a child. Plain stores, read after it has been waited for.
struct Page {
  int result[kStepCount];  // 0: not tried; 1: worked; else -errno
};

Tried tried(const Page& page, Step step) {
  const int value = page.result[step];
  if (value == 0) return {};
  return value > 0 ? Tried::ok() : Tried::no(-value);
}

// ---- in the child: raw calls only ------------------------------------------------------------------------------

struct ChildInput {
  volatile Page* page;
  int hold_read, hold_write;  // a pipe; -1: do not wait
  long listener_flags;
  int landlock_ruleset;       // -1: none
};

bool note(const ChildInput& in, Step step, long result) noexcept {
  in.page->result[step] = result < 0 ? static_cast<int>(result) : 1;
  return result >= 0;
}

[[noreturn]] void leave() noexcept {
  for (;;) call(SYS_exit_group, 0);
}

long make_directory(const char* path) noexcept { return call(SYS_mkdirat, AT_FDCWD, path, 0755); }

// Our own tree for the mounts below: the place is covered in this child's namespace only.
void try_mounts(const ChildInput& in) noexcept {
  if (!note(in, kPrivateMounts, call(SYS_mount, nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr))) return;
  const char* base = "/tmp";
  long mounted = call(SYS_mount, "tmpfs", base, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755");
  if (mounted == -ENOENT) {
    base = "/dev";
    mounted = call(SYS_mount, "tmpfs", base, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755");
  }
  if (!note(in, kTmpfs, mounted)) return;
  call(SYS_chdir, base);
  for (const char* name : {"proc", "tree", "lower", "upper", "work", "both", "pts"}) make_directory(name);
  note(in, kXattr, call(SYS_setxattr, "lower", "user.sbx", "1", 1, 0));
  note(in, kOverlay, call(SYS_mount, "overlay", "both", "overlay", 0, "lowerdir=lower,upperdir=upper,workdir=work,userxattr"));
  long tree = -ENOENT;
  for (const char* name : {"/usr", "/bin", "/"}) {  // the first that there is
    tree = call(SYS_open_tree, AT_FDCWD, name, OPEN_TREE_CLONE | O_CLOEXEC | SBX_AT_RECURSIVE);
    if (tree != -ENOENT) break;
  }
  if (note(in, kOpenTree, tree)) {
    raw::mount_attr attr{};
    attr.attr_set = SBX_MOUNT_ATTR_RDONLY | SBX_MOUNT_ATTR_NOSUID | SBX_MOUNT_ATTR_NODEV;
    note(in, kMountSetattr, call(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | SBX_AT_RECURSIVE, &attr, sizeof attr));
    note(in, kMoveMount, call(SYS_move_mount, tree, "", AT_FDCWD, "tree", SBX_MOVE_MOUNT_F_EMPTY_PATH));
  }
  long pty = call(SYS_mount, "devpts", "pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620");
  if (pty >= 0) pty = call(SYS_openat, AT_FDCWD, "pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (pty >= 0) {
    int unlocked = 0;
    pty = call(SYS_ioctl, pty, TIOCSPTLCK, &unlocked);
  }
  note(in, kPty, pty);
  if (!note(in, kProc, call(SYS_mount, "proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr))) return;
  const long limit = call(SYS_openat, AT_FDCWD, "proc/sys/user/max_user_namespaces", O_WRONLY | O_CLOEXEC);
  note(in, kCloseNested, limit < 0 ? limit : call(SYS_write, limit, "0", 1));
}

void try_loopback(const ChildInput& in) noexcept {
  const long fd = call(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (!note(in, kLoopback, fd)) return;
  ifreq request{};
  request.ifr_name[0] = 'l';
  request.ifr_name[1] = 'o';
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  note(in, kLoopback, call(SYS_ioctl, fd, SIOCSIFFLAGS, &request));
}

void inside_namespaces(const ChildInput& in) noexcept {
  char byte;
  call(SYS_close, in.hold_write);
  if (call(SYS_read, in.hold_read, &byte, 1) != 1) return;
  // Root's own identity is never mapped; a user's already is this one.
  call(SYS_setgroups, 0, nullptr);
  long identity = call(SYS_setresgid, 1000, 1000, 1000);
  if (identity >= 0) identity = call(SYS_setresuid, 1000, 1000, 1000);
  call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (!note(in, kIdentity, identity)) return;
  note(in, kCapability, call(SYS_sethostname, "sbx", 3));
  try_loopback(in);
  try_mounts(in);
}

void under_filter(const ChildInput& in) noexcept {
  if (!note(in, kNoNewPrivs, call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))) return;
  if (in.landlock_ruleset >= 0) note(in, kLandlock, call(SYS_landlock_restrict_self, in.landlock_ruleset, 0));
  sock_filter allow[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  sock_fprog program{1, allow};
  if (in.listener_flags != 0) {
    note(in, kListener, call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, in.listener_flags, &program));
  } else {
    note(in, kSeccomp, call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
  }
}

void nothing(const ChildInput&) noexcept {}

// ---- outside ---------------------------------------------------------------------------------------------------

class SharedFacts {
 public:
  SharedFacts() {
    void* memory = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    page_ = memory == MAP_FAILED ? nullptr : static_cast<Page*>(memory);
  }
  SharedFacts(const SharedFacts&) = delete;
  SharedFacts& operator=(const SharedFacts&) = delete;
  ~SharedFacts() {
    if (page_ != nullptr) ::munmap(page_, sizeof(Page));
  }
  Page* page() { return page_; }

 private:
  Page* page_;
};

// Waits for the child, bounded; it is dead afterwards.
void await(pid_t pid, int pidfd) {
  pollfd wait{pidfd, POLLIN, 0};
  int ready;
  do {
    ready = ::poll(&wait, 1, kChildMilliseconds);
  } while (ready < 0 && errno == EINTR);
  if (ready <= 0) (void)::kill(pid, SIGKILL);  // ours, and not waited for yet: the number is still its own
  siginfo_t info{};
  long result;
  do {
    result = call(SYS_waitid, P_PID, pid, &info, WEXITED | __WALL, nullptr);
  } while (result == -EINTR);
}

struct ChildRun {
  int clone_errno = 0;
  Tried map;
};

// Makes a child with `flags` that does `act`. `ids`: its maps, written before it goes on.
ChildRun run_child(uint64_t flags, void (*act)(const ChildInput&) noexcept, Page* page, const ns::IdPair* ids = nullptr,
                   bool unprivileged = true, long listener_flags = 0, int ruleset = -1) {
  ChildRun run;
  if (page == nullptr) {
    run.clone_errno = ENOMEM;
    return run;
  }
  sys::Pipe hold;
  if (ids != nullptr) {
    Result<sys::Pipe> made = sys::pipe();
    if (!made.ok()) {
      run.clone_errno = made.error().errnum();
      return run;
    }
    hold = made.take();
  }
  const ChildInput input{page, hold.read.get(), hold.write.get(), listener_flags, ruleset};
  int pidfd = -1;
  clone_args args{};
  args.flags = flags | CLONE_PIDFD;
  args.pidfd = reinterpret_cast<uint64_t>(&pidfd);
  long pid = call(SYS_clone3, &args, sizeof args);
  // Docker's filter hides clone3 so that libraries fall back; what needs no namespace can still be tried.
  if (pid == -ENOSYS && flags == 0) pid = call(SYS_clone, CLONE_PIDFD, nullptr, &pidfd, nullptr, nullptr);
  if (pid == 0) {
    call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    act(input);
    leave();
  }
  if (pid < 0) {
    run.clone_errno = static_cast<int>(-pid);
    return run;
  }
  const UniqueFd owned(pidfd);
  if (ids != nullptr) {
    const Status mapped = ns::write_id_maps(static_cast<pid_t>(pid), *ids, unprivileged);
    run.map = mapped.ok() ? Tried::ok() : Tried::no(mapped.error().errnum() != 0 ? mapped.error().errnum() : EINVAL);
    if (mapped.ok()) (void)sys::write_all(hold.write.get(), "g");
    hold.write.reset();  // without the byte the child leaves
  }
  await(static_cast<pid_t>(pid), pidfd);
  return run;
}

Tried as_tried(const ChildRun& run) { return run.clone_errno == 0 ? Tried::ok() : Tried::no(run.clone_errno); }
Tried as_tried(const Status& status) {
  if (status.ok()) return Tried::ok();
  return Tried::no(status.error().errnum() != 0 ? status.error().errnum() : EINVAL);
}

void try_namespaces(HostReport& report, const HostFacts& facts, const std::optional<UidLease>& lease) {
  SharedFacts shared;
  report.user_namespace = as_tried(run_child(CLONE_NEWUSER, nothing, shared.page()));
  if (report.user_namespace.failed()) return;
  const std::pair<uint64_t, Tried*> kinds[] = {
      {CLONE_NEWNS, &report.mount_namespace}, {CLONE_NEWPID, &report.pid_namespace}, {CLONE_NEWIPC, &report.ipc_namespace},
      {CLONE_NEWUTS, &report.uts_namespace},  {CLONE_NEWNET, &report.net_namespace}, {CLONE_NEWCGROUP, &report.cgroup_namespace}};
  uint64_t flags = kAllNamespaces;
  for (const auto& [kind, result] : kinds) {
    *result = as_tried(run_child(CLONE_NEWUSER | kind, nothing, shared.page()));
    if (result->failed()) flags &= ~kind;
  }
  const uint32_t outside_uid = lease ? lease->uid : facts.uid;
  const uint32_t outside_gid = lease ? lease->uid : facts.gid;
  const ns::IdPair ids{1000, outside_uid, 1000, outside_gid};
  const ChildRun run = run_child(flags, inside_namespaces, shared.page(), &ids, !lease.has_value());
  if (run.clone_errno != 0) return;
  report.id_map = run.map;
  const Page& page = *shared.page();
  if (report.id_map.worked() && tried(page, kIdentity).failed()) report.id_map = tried(page, kIdentity);
  report.capability = tried(page, kCapability);
  report.private_mounts = tried(page, kPrivateMounts);
  report.tmpfs = tried(page, kTmpfs);
  report.proc = tried(page, kProc);
  report.open_tree = tried(page, kOpenTree);
  report.mount_setattr = tried(page, kMountSetattr);
  report.move_mount = tried(page, kMoveMount);
  report.tmpfs_xattr = tried(page, kXattr);
  report.overlay = tried(page, kOverlay);
  report.pty = tried(page, kPty);
  report.loopback = tried(page, kLoopback);
  report.close_nested = tried(page, kCloseNested);
}

void try_hardening(HostReport& report, const HostFacts& facts) {
  SharedFacts shared;
  UniqueFd ruleset;
  report.landlock_abi = facts.landlock_abi;
  if (report.landlock_abi > 0) {
    Result<ns::LandlockPlan> plan = ns::plan_landlock(report.landlock_abi, {}, {});
    if (plan.ok()) ruleset = std::move(plan.value().ruleset);
    else report.landlock = Tried::no(plan.error().errnum());
  } else {
    const long answer = call(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
    report.landlock = Tried::no(answer < 0 ? static_cast<int>(-answer) : EOPNOTSUPP);
  }
  const ChildRun run = run_child(0, under_filter, shared.page(), nullptr, true, 0, ruleset.get());
  if (run.clone_errno != 0) {
    if (report.user_namespace.worked()) report.seccomp = Tried::no(run.clone_errno);
    return;
  }
  report.no_new_privs = tried(*shared.page(), kNoNewPrivs);
  report.seccomp = tried(*shared.page(), kSeccomp);
  if (ruleset.valid()) report.landlock = tried(*shared.page(), kLandlock);
  run_child(0, under_filter, shared.page(), nullptr, true, SECCOMP_FILTER_FLAG_NEW_LISTENER);
  report.listener = tried(*shared.page(), kListener);
  if (!report.listener.worked()) return;
  shared.page()->result[kListener] = 0;
  run_child(0, under_filter, shared.page(), nullptr, true,
            SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
  report.wait_killable = tried(*shared.page(), kListener);
}

std::string file_system_name(long type) {
  constexpr std::pair<long, const char*> kNames[] = {
      {0xEF53, "ext4"},      {0x58465342, "xfs"},     {0x9123683E, "btrfs"}, {0x01021994, "tmpfs"}, {0x794C7630, "overlay"},
      {0x6969, "nfs"},       {0x01021997, "9p"},      {0x65735546, "fuse"},  {0x2FC12FC1, "zfs"},   {0xF2F52010, "f2fs"},
      {0xFF534D42, "cifs"},  {0x4D44, "vfat"}};
  for (const auto& [number, name] : kNames) {
    if (number == type) return name;
  }
  constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (unsigned long rest = static_cast<unsigned long>(type) & 0xFFFFFFFF; rest != 0; rest >>= 4) text.insert(0, 1, kHex[rest & 15]);
  return "type 0x" + text;
}

void try_idmap(HostReport& report, const std::optional<UidLease>& lease) {
  Result<std::string> directory = sys::getcwd();
  report.working_directory = directory.ok() ? directory.take() : "/";
  struct statfs system {};
  if (::statfs(report.working_directory.c_str(), &system) == 0) report.file_system = file_system_name(static_cast<long>(system.f_type));
  if (!lease) return;
  Result<struct stat> info = sys::stat(report.working_directory);
  if (!info.ok()) return;
  const ns::IdPair pair{info.value().st_uid, lease->uid, info.value().st_gid, lease->uid};
  Result<UniqueFd> map = ns::make_map_namespace(pair);
  if (!map.ok()) {
    report.idmap = Tried::no(map.error().errnum());
    return;
  }
  const long opened = call(SYS_open_tree, AT_FDCWD, report.working_directory.c_str(), OPEN_TREE_CLONE | O_CLOEXEC);
  if (opened < 0) {
    report.idmap = Tried::no(static_cast<int>(-opened));
    return;
  }
  const UniqueFd tree(static_cast<int>(opened));
  raw::mount_attr attr{};
  attr.attr_set = SBX_MOUNT_ATTR_IDMAP | SBX_MOUNT_ATTR_NOSUID | SBX_MOUNT_ATTR_NODEV;
  attr.userns_fd = static_cast<uint64_t>(map.value().get());
  const long mapped = call(SYS_mount_setattr, tree.get(), "", AT_EMPTY_PATH, &attr, sizeof attr);
  report.idmap = mapped < 0 ? Tried::no(static_cast<int>(-mapped)) : Tried::ok();
}

// ---- cgroups ---------------------------------------------------------------------------------------------------

struct CgroupMount {
  std::string root, point, options;
  bool v2 = false;
};

std::vector<CgroupMount> cgroup_mounts() {
  std::vector<CgroupMount> mounts;
  Result<std::string> text = read_file("/proc/self/mountinfo", size_t{4} << 20);
  if (!text.ok()) return mounts;
  for (const std::string& line : split(text.value(), '\n')) {
    // 36 35 98:0 ROOT POINT OPTIONS [TAGS…] - TYPE SOURCE SUPER_OPTIONS (proc_pid_mountinfo(5))
    const std::vector<std::string> words = split(line, ' ');
    size_t dash = 6;
    while (dash < words.size() && words[dash] != "-") ++dash;
    if (dash + 3 >= words.size()) continue;
    if (words[dash + 1] == "cgroup2") mounts.push_back({words[3], words[4], "", true});
    if (words[dash + 1] == "cgroup") mounts.push_back({words[3], words[4], words[dash + 3], false});
  }
  return mounts;
}

// The directory of our own cgroup in a mount, given the line "N:CONTROLLERS:PATH" of /proc/self/cgroup.
std::string own_directory(const CgroupMount& mount, const std::string& path) {
  if (mount.root == "/" || mount.root == path) {
    return normalize_path(mount.root == "/" ? mount.point + path : mount.point);
  }
  if (path_is_under(path, mount.root)) return normalize_path(mount.point + path.substr(mount.root.size()));
  return mount.point;
}

bool has_word(const std::string& list, char separator, const std::string& word) {
  for (const std::string& each : split(list, separator)) {
    if (each == word) return true;
  }
  return false;
}

Tried try_cgroup(const std::string& directory) {
  const std::string path = directory + "/sbx-doctor-" + std::to_string(::getpid());
  const Status made = sys::mkdirat(AT_FDCWD, path, 0755);
  if (made.ok()) (void)sys::unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
  return as_tried(made);
}

std::vector<std::string> controllers_of(const std::string& directory) {
  std::vector<std::string> names;
  Result<std::string> text = read_file(directory + "/cgroup.controllers", 4096);
  if (!text.ok()) return names;
  for (const std::string& name : split(std::string(trim(text.value())), ' ')) {
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

Tried connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return Tried::no(ENAMETOOLONG);
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Tried::no(errno);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return Tried::no(errno);
  return Tried::ok();
}

void try_cgroups(HostReport& report) {
  std::string v2_path = "/";
  std::vector<std::pair<std::string, std::string>> v1_paths;  // controllers, path
  if (Result<std::string> text = read_file("/proc/self/cgroup", size_t{1} << 20); text.ok()) {
    for (const std::string& line : split(text.value(), '\n')) {
      const size_t first = line.find(':');
      const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
      if (second == std::string::npos) continue;
      const std::string controllers = line.substr(first + 1, second - first - 1);
      if (controllers.empty()) v2_path = line.substr(second + 1);
      else v1_paths.emplace_back(controllers, line.substr(second + 1));
      for (const std::string& name : split(controllers, ',')) {
        if (!name.empty()) report.v1_controllers.push_back(name);
      }
    }
  }
  const char* variable = std::getenv("XDG_RUNTIME_DIR");
  const std::string runtime = variable != nullptr && variable[0] == '/' ? variable : "/run/user/" + std::to_string(report.uid);
  report.manager_socket = runtime + "/systemd/private";
  report.user_manager = connect_to(report.manager_socket);

  for (const CgroupMount& mount : cgroup_mounts()) {
    if (mount.v2) {
      if (!report.v2_mount.empty()) continue;
      report.v2_mount = mount.point;
      report.v2_own = own_directory(mount, v2_path);
      continue;
    }
    for (const char* controller : {"memory", "pids", "cpu"}) {
      if (!has_word(mount.options, ',', controller)) continue;
      std::string path = "/";
      for (const auto& [controllers, own] : v1_paths) {
        if (has_word(controllers, ',', controller)) path = own;
      }
      Tried made = try_cgroup(own_directory(mount, path));
      if (made.failed()) made = try_cgroup(mount.point);
      report.v1.emplace_back(controller, made);
    }
  }
  if (report.v2_mount.empty()) return;
  // Root makes its own below the root of the tree; a user in what was delegated to it, or by its manager.
  std::vector<std::string> places = {report.v2_own};
  if (report.root_identity && report.v2_own != report.v2_mount) places.insert(places.begin(), report.v2_mount);
  for (const std::string& place : places) {
    report.make_cgroup = try_cgroup(place);
    if (!report.make_cgroup.worked()) continue;
    report.delegated = place;
    break;
  }
  if (report.delegated.empty() && report.user_manager.worked()) {
    const std::string number = std::to_string(report.uid);
    report.delegated = report.v2_mount + "/user.slice/user-" + number + ".slice/user@" + number + ".service";
  }
  if (!report.delegated.empty()) report.v2_controllers = controllers_of(report.delegated);
}

// ---- the rest --------------------------------------------------------------------------------------------------

void read_surroundings(HostReport& report) {
  struct utsname names {};
  if (::uname(&names) == 0) {
    report.kernel = names.release;
    report.arch = names.machine;
  }
  report.wsl = report.kernel.find("icrosoft") != std::string::npos;
  // gVisor's own kernel says this of itself, whatever the host's is.
  Result<std::string> version = read_file("/proc/version", 4096);
  report.gvisor = version.ok() && version.value().find("Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016") != std::string::npos;
  if (Result<std::string> status = read_file("/proc/self/status", 65536); status.ok()) {
    for (const std::string& line : split(status.value(), '\n')) {
      if (starts_with(line, "Seccomp:\t") && line.size() > 9) report.seccomp_mode = line[9] - '0';
      if (line == "NoNewPrivs:\t1") report.no_new_privs_set = true;
    }
  }
  if (Result<std::string> map = read_file("/proc/self/uid_map", 65536); map.ok()) {
    for (const std::string& line : split(map.value(), '\n')) {
      std::vector<std::string> fields;
      for (const std::string& field : split(line, ' ')) {
        if (!field.empty()) fields.push_back(field);
      }
      if (fields.size() != 3) continue;
      if (Result<uint64_t> count = parse_integer(fields[2]); count.ok()) report.mapped_uids += count.value();
    }
  }
  if (Result<std::string> lsm = read_file("/sys/kernel/security/lsm", 4096); lsm.ok()) report.lsm = trim(lsm.value());
  if (Result<std::string> core = read_file("/proc/sys/kernel/core_pattern", 4096); core.ok()) report.core_pattern = trim(core.value());
}

void try_temporary(HostReport& report) {
  const char* variable = std::getenv("TMPDIR");
  report.temporary_directory = variable != nullptr && variable[0] == '/' ? variable : "/tmp";
  Result<UniqueFd> file = sys::open(report.temporary_directory, O_TMPFILE | O_RDWR, 0600);
  report.temporary = file.ok() ? Tried::ok() : Tried::no(file.error().errnum());
  // Not every file system has files without a name; being able to write is what counts.
  if (!file.ok() && (file.error().errnum() == EOPNOTSUPP || file.error().errnum() == EISDIR) &&
      ::access(report.temporary_directory.c_str(), W_OK | X_OK) == 0) {
    report.temporary = Tried::ok();
  }
  struct statfs system {};
  if (::statfs(report.temporary_directory.c_str(), &system) == 0) {
    report.temporary_free = static_cast<uint64_t>(system.f_bavail) * static_cast<uint64_t>(system.f_bsize);
  }
}

int64_t now_us() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1000000} + now.tv_nsec / 1000;
}

void run_true(HostReport& report, const HostFacts& facts) {
  RunRequest request;
  request.exec = true;
  request.command = {"true"};
  request.tty = TtyMode::never;
  request.capture_streams = true;
  // The second run counts: the first one pays for pages that nobody had touched yet.
  for (int i = 0; i < 2; ++i) {
    const int64_t start = now_us();
    const Result<Report> done = execute(request, facts, Observer{});
    report.run_us = now_us() - start;
    report.ran = true;
    if (!done.ok()) {
      report.run_problem = done.error().text();
      report.run_hint = done.error().hint();
      return;
    }
    const Outcome& outcome = done.value().outcome;
    report.run_ok = outcome.verdict == Verdict::exited && outcome.exit_code == 0;
    report.limits_held_by = outcome.isolation.limits_held_by;
    report.not_held = outcome.isolation.not_held;
    if (outcome.setup_error) {
      report.run_problem = outcome.setup_error->text();
      report.run_hint = outcome.setup_error->hint();
    } else if (!report.run_ok) {
      report.run_problem = std::string("`true` ended as ") + verdict_name(outcome.verdict);
    }
    if (!report.run_ok) return;
  }
}

}  // namespace

bool is_inside_sbx() {
  // What no other place has together: our host name and home, a filter, and no further user namespaces.
  struct utsname names {};
  if (::uname(&names) != 0 || std::string_view(names.nodename) != "sandbox") return false;
  if (!sys::stat("/home/sandbox").ok() || !sys::stat("/run/sbx").ok()) return false;
  Result<std::string> map = read_file("/proc/self/uid_map", 4096);
  Result<std::string> status = read_file("/proc/self/status", 65536);
  if (!map.ok() || !status.ok()) return false;
  if (status.value().find("\nNoNewPrivs:\t1\n") == std::string::npos) return false;
  const std::vector<std::string> lines = split(std::string(trim(map.value())), '\n');
  return lines.size() == 1 && lines[0].size() > 2 && lines[0].substr(lines[0].size() - 2) == " 1";
}

HostReport probe_report(const HostFacts& facts, const Observer& observer) {
  HostReport report;
  report.uid = facts.uid;
  report.root_identity = facts.root_identity;
  report.may_clone_trees = facts.may_clone_trees;
  report.knobs = read_namespace_knobs();
  report.inside_sbx = is_inside_sbx();
  read_surroundings(report);
  std::optional<UidLease> lease;
  if (facts.root_identity) {
    Result<std::string> map = read_file("/proc/self/uid_map", 65536);
    Result<UidLease> leased = lease_uid(choose_uid_range(map.ok() ? map.value() : ""));
    report.uid_lease = leased.ok() ? Tried::ok() : Tried::no(leased.error().errnum() != 0 ? leased.error().errnum() : EAGAIN);
    if (leased.ok()) lease = leased.take();
  }
  try_namespaces(report, facts, lease);
  try_hardening(report, facts);
  try_idmap(report, lease);
  try_cgroups(report);
  try_temporary(report);
  run_true(report, facts);
  if (observer.progress) observer.progress("asking the languages for their versions");
  Result<std::vector<LanguageStatus>> languages = list_languages(facts, observer);
  if (observer.progress) observer.progress("");
  if (languages.ok()) report.languages = languages.take();
  else report.languages_problem = languages.error().text();
  return report;
}

}  // namespace sbx::runtime
