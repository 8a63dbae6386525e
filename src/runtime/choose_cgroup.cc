#include "runtime/choose_cgroup.h"

#include <sys/vfs.h>
#include <sys/xattr.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/sys.h"
#include "base/text.h"

namespace sbx::runtime {
namespace {

constexpr char kSupervisorLeaf[] = "sbx-sup";
constexpr char kRootDirectory[] = "sbx";
constexpr Controllers kWanted{true, true, true};
constexpr int kMoveRounds = 16;  // over processes that fork while they are moved
constexpr decltype(statfs::f_type) kCgroup2Magic = 0x63677270;
constexpr decltype(statfs::f_type) kCgroup1Magic = 0x27e0eb;

int64_t now_us() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1000000} + now.tv_nsec / 1000;
}

// mountinfo writes blanks and backslashes as \040 and the like (proc_pid_mountinfo(5)).
std::string unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto octal = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// Where the cgroup `own` lies when `root` of its tree is mounted at `mount`; "": outside.
std::string path_in_mount(const std::string& mount, const std::string& root, const std::string& own) {
  if (own.empty() || own.find("/..") != std::string::npos) return "";
  if (root == "/" ) return own == "/" ? mount : mount + own;
  if (own == root) return mount;
  if (path_is_under(own, root)) return mount + own.substr(root.size());
  return "";
}

bool may_write(const std::string& directory, const char* file) {
  return ::faccessat(AT_FDCWD, join_path(directory, file).c_str(), W_OK, AT_EACCESS) == 0;
}

bool may_divide(const std::string& directory) {
  return may_write(directory, ".") && may_write(directory, "cgroup.procs") && may_write(directory, "cgroup.subtree_control");
}

// systemd marks what it hands over: trusted.delegate for units of the system, user.delegate too since version 251.
bool marked_delegated(const std::string& directory) {
  for (const char* name : {"user.delegate", "trusted.delegate"}) {
    char value = '0';
    if (::getxattr(directory.c_str(), name, &value, 1) == 1 && value == '1') return true;
  }
  return false;
}

// The root of the whole tree, as opposed to that of a cgroup namespace, has no type.
bool is_tree_root(const std::string& directory) { return !sys::stat(join_path(directory, "cgroup.type")).ok(); }

std::vector<std::string> processes_of(const std::string& directory) {
  Result<std::string> text = read_file(join_path(directory, "cgroup.procs"), size_t{4} << 20);
  std::vector<std::string> pids;
  if (!text.ok()) return pids;
  for (const std::string& line : split(text.value(), '\n')) {
    if (!line.empty()) pids.push_back(line);
  }
  return pids;
}

std::string common_directory(const std::string& left, const std::string& right) {
  std::string common = left;
  while (!path_is_under(right, common)) common = dir_name(common);
  return common;
}

std::string in_quotes(const std::string& text) { return "'" + printable(text) + "'"; }

}  // namespace

namespace {

constexpr std::pair<std::string_view, CgroupV1Tree::Kind> kV1Kinds[] = {
    {"memory", CgroupV1Tree::Kind::memory}, {"pids", CgroupV1Tree::Kind::pids}, {"cpu", CgroupV1Tree::Kind::cpu}};

// A line of /proc/PID/cgroup: "4:cpu,cpuacct:/path", or "0::/path" of v2.
struct OwnCgroup {
  std::string_view controllers, path;
  bool has(std::string_view controller) const {
    for (size_t begin = 0, end = 0; begin <= controllers.size(); begin = end + 1) {
      end = std::min(controllers.find(',', begin), controllers.size());
      if (controllers.substr(begin, end - begin) == controller) return true;
    }
    return false;
  }
};

std::vector<OwnCgroup> own_cgroups(std::string_view text) {
  std::vector<OwnCgroup> own;
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    own.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return own;
}

std::string path_of(const std::vector<OwnCgroup>& own, std::string_view controller) {
  for (const OwnCgroup& each : own)
    if (controller.empty() ? each.controllers.empty() : each.has(controller)) return std::string(each.path);
  return "";
}

bool is_whole_tree(const std::string& directory, decltype(statfs::f_type) magic) {
  struct statfs info {};
  if (::statfs(directory.c_str(), &info) != 0 || info.f_type != magic) return false;
  if (magic == kCgroup2Magic) return is_tree_root(directory);
  return sys::stat(join_path(directory, "release_agent")).ok();  // only the root of a v1 tree has it
}

// The usual places, looked at directly: /proc/self/mountinfo takes the longer, the more mounts the host has. Only where
// what /proc/self/cgroup says begins at the root of each tree, and the whole trees are mounted: in the first cgroup
// namespace, not in a container. Nothing: mountinfo has to tell.
std::optional<CgroupView> usual_view(std::string_view cgroup) {
  constexpr std::string_view kFirstNamespace = "cgroup:[4026531835]";  // the kernel's PROC_CGROUP_INIT_INO
  const Result<std::string> space = sys::readlink("/proc/self/ns/cgroup");
  if (!space.ok() || space.value() != kFirstNamespace) return std::nullopt;
  const std::vector<OwnCgroup> own = own_cgroups(cgroup);
  CgroupView view;
  for (const char* place : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    if (!view.v2_root.empty() || !is_whole_tree(place, kCgroup2Magic)) continue;
    view.v2_root = place;
    view.v2_own = path_in_mount(place, "/", path_of(own, ""));
  }
  if (view.v2_own.empty()) return std::nullopt;
  for (const auto& [name, kind] : kV1Kinds) {
    const auto line = std::find_if(own.begin(), own.end(), [name = name](const OwnCgroup& each) { return each.has(name); });
    if (line == own.end()) continue;
    const std::string place = join_path("/sys/fs/cgroup", line->controllers);
    if (!is_whole_tree(place, kCgroup1Magic)) return std::nullopt;
    const std::string path = path_in_mount(place, "/", std::string(line->path));
    view.v1.push_back({kind, path.empty() ? place : path});
  }
  return view;
}

}  // namespace

CgroupView parse_cgroup_view(std::string_view cgroup, std::string_view mountinfo) {
  const std::vector<OwnCgroup> all_own = own_cgroups(cgroup);
  CgroupView view;
  for (size_t begin = 0, end = 0; begin < mountinfo.size(); begin = end + 1) {
    end = std::min(mountinfo.find('\n', begin), mountinfo.size());
    const std::string_view line = mountinfo.substr(begin, end - begin);
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos || !starts_with(line.substr(dash + 3), "cgroup")) continue;
    const std::vector<std::string> fields = split(line.substr(0, dash), ' ');
    const std::vector<std::string> more = split(line.substr(dash + 3), ' ');
    if (fields.size() < 5 || more.size() < 3) continue;
    const std::string root = unescape(fields[3]), mount = unescape(fields[4]);
    if (more[0] == "cgroup2" && (view.v2_root.empty() || view.v2_root == mount)) {  // the later one lies on top
      view.v2_root = mount;
      view.v2_own = path_in_mount(mount, root, path_of(all_own, ""));
    }
    if (more[0] != "cgroup") continue;
    const std::vector<std::string> options = split(more[2], ',');
    for (const auto& [name, kind] : kV1Kinds) {
      if (std::find(options.begin(), options.end(), name) == options.end()) continue;
      if (std::any_of(view.v1.begin(), view.v1.end(), [kind = kind](const CgroupView::V1& seen) { return seen.kind == kind; })) continue;
      std::string own = path_in_mount(mount, root, path_of(all_own, name));
      view.v1.push_back({kind, own.empty() ? mount : own});
    }
  }
  return view;
}

CgroupView look_around() {
  const Result<std::string> cgroup = read_file("/proc/self/cgroup", 65536);
  if (!cgroup.ok()) return {};
  if (std::optional<CgroupView> usual = usual_view(cgroup.value())) return std::move(*usual);
  const Result<std::string> mountinfo = read_file("/proc/self/mountinfo", size_t{8} << 20);
  return mountinfo.ok() ? parse_cgroup_view(cgroup.value(), mountinfo.value()) : CgroupView{};
}

// ---- the leaves of one sandbox ---------------------------------------------------------------------------------------

std::string SandboxCgroup::memory_holder() const {
  if (!controllers_.memory) return "";
  return v2_controllers_.memory ? "cgroup v2 memory.max, without swap" : "cgroup v1 memory.limit_in_bytes, without swap";
}
std::string SandboxCgroup::pids_holder() const {
  if (!controllers_.pids) return "";
  return v2_controllers_.pids ? "cgroup v2 pids.max" : "cgroup v1 pids.max";
}
std::string SandboxCgroup::cpus_holder() const {
  if (!controllers_.cpu) return "";
  return v2_controllers_.cpu ? "cgroup v2 cpu.max" : "cgroup v1 cpu.cfs_quota_us";
}

Status SandboxCgroup::admit(pid_t pid) const { return leaf_ ? leaf_->admit(pid) : Status{}; }

std::vector<int> SandboxCgroup::tasks() const {
  std::vector<int> tasks;
  for (const CgroupV1Leaf& leaf : v1_) tasks.push_back(leaf.tasks());
  return tasks;
}

CgroupCounts SandboxCgroup::counts() const {
  CgroupCounts counts;
  if (leaf_) leaf_->read_counts(counts);
  for (const CgroupV1Leaf& leaf : v1_) leaf.read_counts(counts);
  return counts;
}

void SandboxCgroup::kill() const {
  if (leaf_) leaf_->kill();
}

void SandboxCgroup::remove() {
  v1_.clear();
  leaf_.reset();
}

// ---- where they are made ---------------------------------------------------------------------------------------------

CgroupParent::CgroupParent(CgroupParent&& other) noexcept
    : directory_(std::move(other.directory_)),
      path_(std::move(other.path_)),
      v2_controllers_(other.v2_controllers_),
      v1_controllers_(other.v1_controllers_),
      v1_(std::move(other.v1_)),
      reason_(std::move(other.reason_)),
      remedy_(std::move(other.remedy_)),
      moved_from_(std::exchange(other.moved_from_, "")),
      made_(other.made_),
      reaped_(other.reaped_),
      spent_us_(other.spent_us_) {}

CgroupParent::~CgroupParent() {
  if (moved_from_.empty()) return;
  // Back as it was: a cgroup with controllers for its children takes no process.
  for (const char* word : {"-cpu", "-pids", "-memory"}) (void)write_cgroup_file(directory_.get(), "cgroup.subtree_control", word);
  (void)write_cgroup_file(directory_.get(), "cgroup.procs", "0");
  ::unlinkat(directory_.get(), kSupervisorLeaf, AT_REMOVEDIR);
}

void CgroupParent::reap_stale() {
  if (std::exchange(reaped_, true)) return;
  // The next run of the same user cleans up after a supervisor that was killed. Its sandbox died with it.
  if (directory_.valid()) {
    for (const std::string& name : stale_leaves(directory_.get(), made_ > 0 ? 1 : 0)) {
      Result<UniqueFd> leaf = sys::openat(directory_.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
      if (!leaf.ok()) continue;
      (void)write_cgroup_file(leaf.value().get(), "cgroup.kill", "1");
      ::unlinkat(leaf.value().get(), "box", AT_REMOVEDIR);
      ::unlinkat(directory_.get(), name.c_str(), AT_REMOVEDIR);
    }
  }
  for (const CgroupV1Tree& tree : v1_) {
    const bool has_ours = made_ > 0 && tree.kind != CgroupV1Tree::Kind::cpu;  // of cpu there need not be one
    for (const std::string& name : stale_leaves(tree.directory.get(), has_ours ? 1 : 0)) ::unlinkat(tree.directory.get(), name.c_str(), AT_REMOVEDIR);
  }
}

Result<SandboxCgroup> CgroupParent::make(const CgroupLimits& limits, bool inner) {
  const auto in_stage = [](Error error) { return std::move(error).with_context("cannot set up the sandbox's cgroup").with_stage("cgroup"); };
  Result<std::string> named = leaf_name(made_++);
  if (!named.ok()) return in_stage(named.take_error());
  const std::string name = named.take();
  SandboxCgroup cgroup;
  cgroup.controllers_ = controllers();
  cgroup.v2_controllers_ = v2_controllers_;
  if (limits.io_bytes && !(directory_.valid() && enable_io_controller(directory_.get()))) {
    Error error(ErrorKind::unsupported, "limits.io cannot be held here: " + (directory_.valid() ? in_quotes(path_) + " has no io controller" : "there is no cgroup v2"));
    if (::geteuid() != 0) {
      error = std::move(error).with_hint("as root: systemctl edit user@.service, and there [Service] Delegate=cpu cpuset io memory pids");
    }
    return in_stage(std::move(error));
  }
  if (directory_.valid()) {
    Result<CgroupLeaf> leaf = CgroupLeaf::create(directory_.get(), name, inner);
    if (!leaf.ok()) return in_stage(leaf.take_error()).with_origin(path_);
    cgroup.leaf_.emplace(leaf.take());
    Status limited = cgroup.leaf_->set_limits(limits, v2_controllers_);
    if (!limited.ok()) return in_stage(limited.take_error()).with_origin(path_);
  }
  for (const CgroupV1Tree& tree : v1_) {
    if (tree.kind == CgroupV1Tree::Kind::cpu && !limits.cpus_milli) continue;  // nothing is read from it
    Result<CgroupV1Leaf> leaf = CgroupV1Leaf::create(tree, name);
    if (!leaf.ok()) return in_stage(leaf.take_error());
    Status limited = leaf.value().set_limits(limits);
    if (!limited.ok()) return in_stage(limited.take_error());
    cgroup.v1_.push_back(leaf.take());
  }
  return cgroup;
}

// ---- the choice ------------------------------------------------------------------------------------------------------

void CgroupChoice::lacks(std::string reason, std::string remedy) {
  // The last one tried is the nearest to success; its remedy counts.
  parent_.reason_ = std::move(reason);
  parent_.remedy_ = std::move(remedy);
}

// Makes the cgroup at `path` the parent of leaves: empties it, then switches controllers on for its children.
Status CgroupChoice::divide(const std::string& path, bool move_others) {
  UniqueFd directory = SBX_TRY(sys::open(path, O_RDONLY | O_DIRECTORY));
  const std::string own = std::to_string(::getpid());
  bool moved = false;
  for (int round = 0; !is_tree_root(path); ++round) {
    const std::vector<std::string> pids = processes_of(path);
    if (pids.empty()) break;
    const bool others = pids.size() > 1 || pids[0] != own;
    if (others && !move_others) {
      return Error(ErrorKind::unsupported, in_quotes(path) + " holds other processes too, and controllers can be had only for one that holds none")
          .with_hint("--cgroup-parent " + shell_quote(path) + " lets sbx move them aside into " + join_path(path, kSupervisorLeaf));
    }
    if (round == kMoveRounds) return Error(ErrorKind::system, "the processes in " + in_quotes(path) + " cannot be moved aside");
    const Status made = sys::mkdirat(directory.get(), kSupervisorLeaf, 0755);
    if (!made.ok() && made.error().errnum() != EEXIST) return made;
    const UniqueFd leaf = SBX_TRY(sys::openat(directory.get(), kSupervisorLeaf, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    for (const std::string& pid : pids) {
      Status put = write_cgroup_file(leaf.get(), "cgroup.procs", pid);
      if (!put.ok() && put.error().errnum() != ESRCH) return put;
      moved = moved || (put.ok() && !move_others);
    }
  }
  parent_.v2_controllers_ = enable_controllers(directory.get(), kWanted);
  parent_.directory_ = std::move(directory);
  parent_.path_ = path;
  if (moved) parent_.moved_from_ = path;
  return {};
}

Status CgroupChoice::use_named(const std::string& path) {
  const auto wrong = [&](const std::string& what, const std::string& hint) {
    return Error(ErrorKind::usage, in_quotes(path) + " " + what).with_origin("flag --cgroup-parent").with_hint(hint);
  };
  Result<std::string> real = sys::realpath(path);
  if (!real.ok()) return wrong("cannot be opened: " + errno_text(real.error().errnum()), "name a directory of the cgroup v2 tree, for instance " + (view_.v2_own.empty() ? "/sys/fs/cgroup" : view_.v2_own));
  struct statfs info {};
  if (::statfs(real.value().c_str(), &info) != 0 || info.f_type != kCgroup2Magic) {
    return wrong("is not a directory of the cgroup v2 tree", "cgroup v2 is mounted at " + (view_.v2_root.empty() ? std::string("no place here") : view_.v2_root));
  }
  if (!may_divide(real.value())) {
    return wrong("cannot be written by us", "let it be delegated (systemd: Delegate=yes), or chown it, its cgroup.procs and its cgroup.subtree_control");
  }
  // Processes may be put somewhere only by who may write the nearest cgroup above both places (cgroup-v2.rst,
  // "Delegation Containment").
  if (!view_.v2_own.empty() && wish_.uid != 0) {
    const std::string common = common_directory(real.value(), view_.v2_own);
    if (!may_write(common, "cgroup.procs")) {
      return wrong("cannot be entered from " + in_quotes(view_.v2_own) + ", where sbx runs: " + in_quotes(join_path(common, "cgroup.procs")) + " is not ours to write",
                   "start sbx inside the delegated cgroup");
    }
  }
  Status divided = divide(real.value(), true);
  if (!divided.ok()) return divided.take_error().with_origin("flag --cgroup-parent");
  return {};
}

bool CgroupChoice::use_own() {
  const std::string& own = view_.v2_own;
  if (own.empty() || own == view_.v2_root) {
    // The tree's own root is root's (use_root); that of a container's namespace is what the container was given.
    if (own.empty() || is_tree_root(own)) return false;
  } else if (base_name(own) == kSupervisorLeaf) {
    // A sandbox runtime above us has already divided the cgroup around us.
    const std::string above = dir_name(own);
    if (!may_divide(above) || !divide(above, false).ok()) return false;
    return parent_.v2_controllers_.any();
  } else if (!marked_delegated(own)) {
    Result<struct stat> info = sys::stat(own);
    // Ours by owner, or the top of all that we see: whoever made the cgroup namespace gave it to the container. All
    // below user@UID.service belongs to the user, but it is the user manager that administers it.
    const bool given = own == view_.v2_root || (wish_.uid != 0 && info.ok() && info.value().st_uid == wish_.uid);
    if (!given || own.find("/user@") != std::string::npos) return false;
  }
  if (!may_divide(own)) {
    lacks("our own cgroup " + in_quotes(own) + " is not ours to divide", "in a container, mount its cgroup writable: podman run --security-opt unmask=/sys/fs/cgroup, or docker run --cgroupns=private --privileged");
    return false;
  }
  // All that lives in the root of a container's cgroup namespace is the container's: it stays aside, since the next
  // sandbox needs it there too.
  Status divided = divide(own, own == view_.v2_root);
  if (!divided.ok()) {
    lacks(divided.error().text(), divided.error().hint());
    return false;
  }
  if (parent_.v2_controllers_.any()) return true;
  lacks("our own cgroup " + in_quotes(own) + " has no controllers", "");
  return false;
}

void CgroupChoice::use_scope() {
  const Result<std::string> offered = read_file(join_path(view_.v2_root, "cgroup.controllers"), 4096);
  if (offered.ok() && !parse_controllers(offered.value()).any()) {
    return lacks("the cgroup v2 tree here has no controllers (they are mounted as v1, which serves root only)",
                 "boot with systemd.unified_cgroup_hierarchy=1");
  }
  UserScopeRequest request;
  request.runtime_directory = wish_.runtime_directory;
  request.uid = wish_.uid;
  request.pid = static_cast<uint32_t>(::getpid());
  const Result<std::string> name = leaf_name(0);
  if (!name.ok()) return lacks(name.error().text(), "");
  request.unit = name.value() + ".scope";
  Result<UserScope> scope = UserScope::request(request);
  if (scope.ok()) {
    scope_.emplace(scope.take());
  } else {
    lacks(scope.error().text(), "have one started, as root: loginctl enable-linger " + std::to_string(wish_.uid));
  }
}

void CgroupChoice::use_root() {
  Result<UniqueFd> root = sys::open(view_.v2_root, O_RDONLY | O_DIRECTORY);
  if (!root.ok()) return;
  (void)enable_controllers(root.value().get(), kWanted);
  Status made = sys::mkdirat(root.value().get(), kRootDirectory, 0755);
  if (!made.ok() && made.error().errnum() != EEXIST) {
    lacks(made.error().text(), "mount the cgroup tree writable");
    return;
  }
  const std::string ours = join_path(view_.v2_root, kRootDirectory);
  if (!may_write(ours, ".")) {  // uid 0 of a user namespace that does not own it
    lacks("'" + ours + "' is not ours to write", "have a cgroup delegated to the container");
    return;
  }
  Status divided = divide(ours, false);
  if (!divided.ok()) lacks(divided.error().text(), divided.error().hint());
}

void CgroupChoice::use_v1() {
  for (const CgroupView::V1& tree : view_.v1) {
    const Controllers& v2 = parent_.v2_controllers_;
    bool* held = nullptr;
    bool in_v2 = false;
    switch (tree.kind) {
      case CgroupV1Tree::Kind::memory: held = &parent_.v1_controllers_.memory, in_v2 = v2.memory; break;
      case CgroupV1Tree::Kind::pids: held = &parent_.v1_controllers_.pids, in_v2 = v2.pids; break;
      case CgroupV1Tree::Kind::cpu: held = &parent_.v1_controllers_.cpu, in_v2 = v2.cpu; break;
    }
    if (in_v2 || !may_write(tree.own, ".")) continue;
    Result<UniqueFd> directory = sys::open(tree.own, O_RDONLY | O_DIRECTORY);
    if (!directory.ok()) continue;
    parent_.v1_.push_back({tree.kind, directory.take()});
    *held = true;
  }
}

CgroupChoice CgroupChoice::begin(const CgroupWish& wish) {
  return begin(wish, wish.parent == "none" ? CgroupView{} : look_around());
}

CgroupChoice CgroupChoice::begin(const CgroupWish& wish, const CgroupView& view) {
  const int64_t start = now_us();
  CgroupChoice choice;
  choice.wish_ = wish;
  choice.view_ = view;
  CgroupParent& parent = choice.parent_;
  if (wish.parent == "none") {
    choice.lacks("--cgroup-parent none forbids it", "leave it out");
  } else if (!wish.parent.empty()) {
    Status named = choice.use_named(wish.parent);
    if (!named.ok()) choice.error_ = named.take_error();
  } else if (view.v2_root.empty() && view.v1.empty()) {
    choice.lacks("no cgroup tree is mounted here", "mount one: mount -t cgroup2 none /sys/fs/cgroup");
  } else {
    if (!view.v2_root.empty() && !choice.use_own()) {
      if (wish.uid != 0) choice.use_scope();
      else if (is_tree_root(view.v2_root)) choice.use_root();
    }
    if (wish.uid == 0 && !parent.v2_controllers_.all()) choice.use_v1();
  }
  parent.spent_us_ = now_us() - start;
  return choice;
}

Result<CgroupParent> CgroupChoice::finish() {
  if (error_) return std::move(*error_);
  const int64_t start = now_us();
  if (scope_) {
    Status ready = scope_->finish();
    if (ready.ok()) {
      // We stand somewhere else now.
      view_ = look_around();
      ready = view_.v2_own.empty() ? Status(Error(ErrorKind::system, "the scope lies outside of what is mounted"))
                                   : divide(view_.v2_own, false);
      parent_.moved_from_.clear();  // the scope vanishes with us
    }
    if (!ready.ok()) lacks(ready.error().text(), ready.error().hint());
    scope_.reset();
  }
  const Controllers missing = without(kWanted, parent_.controllers());
  if (!missing.any()) {
    parent_.reason_.clear();
    parent_.remedy_.clear();
  } else if (parent_.reason_.empty()) {
    parent_.reason_ = parent_.usable() ? "the cgroup above us has no controller for " + names_of(missing)
                                       : "no cgroup can be had here";
    parent_.remedy_ = "have it delegated, or boot with systemd.unified_cgroup_hierarchy=1";
  }
  parent_.spent_us_ += now_us() - start;
  return std::move(parent_);
}

}  // namespace sbx::runtime
