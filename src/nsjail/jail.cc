#include "nsjail/jail.h"

#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/raw_sys.h"
#include "base/sys.h"
#include "base/text.h"
#include "ns/caps.h"
#include "policy/kafel/kafel.h"
#include "policy/nsjail/schema.h"
#include "seccomp/compile.h"

extern char** environ;

namespace sbx::nsjail {
namespace {

constexpr uint64_t kNewTime = 0x80;  // CLONE_NEWTIME, 5.6
constexpr long kCgroup2Magic = 0x63677270;
constexpr size_t kMaxFile = size_t{1} << 20;  // a seccomp policy

struct RlimitRow {
  const char* field;
  const char* type_field;
  int resource;
  uint64_t unit;
  uint64_t Config::*value;
  RlimitType Config::*type;
};
constexpr std::array<RlimitRow, 10> kRlimits = {{
    {"rlimit_as", "rlimit_as_type", RLIMIT_AS, 1 << 20, &Config::rlimit_as, &Config::rlimit_as_type},
    {"rlimit_core", "rlimit_core_type", RLIMIT_CORE, 1 << 20, &Config::rlimit_core, &Config::rlimit_core_type},
    {"rlimit_cpu", "rlimit_cpu_type", RLIMIT_CPU, 1, &Config::rlimit_cpu, &Config::rlimit_cpu_type},
    {"rlimit_fsize", "rlimit_fsize_type", RLIMIT_FSIZE, 1 << 20, &Config::rlimit_fsize, &Config::rlimit_fsize_type},
    {"rlimit_nofile", "rlimit_nofile_type", RLIMIT_NOFILE, 1, &Config::rlimit_nofile, &Config::rlimit_nofile_type},
    {"rlimit_nproc", "rlimit_nproc_type", RLIMIT_NPROC, 1, &Config::rlimit_nproc, &Config::rlimit_nproc_type},
    {"rlimit_stack", "rlimit_stack_type", RLIMIT_STACK, 1 << 20, &Config::rlimit_stack, &Config::rlimit_stack_type},
    {"rlimit_memlock", "rlimit_memlock_type", RLIMIT_MEMLOCK, 1 << 10, &Config::rlimit_memlock, &Config::rlimit_memlock_type},
    {"rlimit_rtprio", "rlimit_rtprio_type", RLIMIT_RTPRIO, 1, &Config::rlimit_rtprio, &Config::rlimit_rtprio_type},
    {"rlimit_msgqueue", "rlimit_msgqueue_type", RLIMIT_MSGQUEUE, 1, &Config::rlimit_msgqueue, &Config::rlimit_msgqueue_type},
}};

struct MountWord {
  const char* word;
  unsigned long set, clear;
};
constexpr MountWord kMountWords[] = {
    {"ro", MS_RDONLY, 0},  {"rw", 0, MS_RDONLY},    {"nosuid", MS_NOSUID, 0}, {"suid", 0, MS_NOSUID},
    {"nodev", MS_NODEV, 0}, {"dev", 0, MS_NODEV},   {"noexec", MS_NOEXEC, 0}, {"exec", 0, MS_NOEXEC},
    {"noatime", MS_NOATIME, 0},
};

Error problem(ErrorKind kind, std::string what, std::string origin) { return Error(kind, std::move(what)).with_origin(std::move(origin)); }

// A name in /etc/passwd or /etc/group, else a number. No name service: nothing of this process is to depend on it.
Result<uint32_t> find_id(const std::string& id, bool group, uint32_t own, const std::string& origin) {
  if (id.empty()) return own;
  const Result<std::string> table = read_file(group ? "/etc/group" : "/etc/passwd", size_t{8} << 20);
  if (table.ok()) {
    for (const std::string& line : split(table.value(), '\n')) {
      const std::vector<std::string> parts = split(line, ':');
      if (parts.size() < 3 || parts[0] != id) continue;
      const Result<uint64_t> number = parse_integer(parts[2]);
      if (number.ok() && number.value() < ~uint32_t{0}) return static_cast<uint32_t>(number.value());
    }
  }
  char* end = nullptr;
  errno = 0;
  const unsigned long long number = id[0] >= '0' && id[0] <= '9' ? std::strtoull(id.c_str(), &end, 0) : 0;
  if (end == nullptr || *end != '\0' || errno != 0 || number >= ~uint32_t{0}) {
    return problem(ErrorKind::usage, std::string("unknown ") + (group ? "group " : "user ") + quoted(id), origin);
  }
  return static_cast<uint32_t>(number);
}

}  // namespace

Result<Caller> Caller::now() {
  Caller caller;
  caller.uid = ::getuid();
  caller.gid = ::getgid();
  caller.euid = ::geteuid();
  caller.capabilities = ns::effective_capabilities();
  caller.umask = ::umask(0);
  ::umask(static_cast<mode_t>(caller.umask));
  caller.directory = SBX_TRY(sys::getcwd());
  for (char** variable = environ; *variable != nullptr; ++variable) caller.environment.emplace_back(*variable);
  return caller;
}

std::string describe_mount(const Mount& mount) {
  std::string text = mount.src.empty() ? "" : "'" + mount.src + "' -> ";
  text += "'" + mount.dst + "' type:'" + mount.fstype + "' options:'" + mount.options + "'";
  if (mount.is_dir) text += *mount.is_dir ? " dir:true" : " dir:false";
  if (!mount.mandatory) text += " mandatory:false";
  if (!mount.src_content.empty()) text += " src_content_len:" + std::to_string(mount.src_content.size());
  if (mount.is_symlink) text += " symlink:true";
  return text;
}

std::string Jail::step_text(uint32_t index) const {
  return index < steps_.size() ? operations_[steps_[index].op].first : "make the mounts private";
}
std::string Jail::step_origin(uint32_t index) const { return index < steps_.size() ? operations_[steps_[index].op].second : ""; }
std::string Jail::rlimit_name(uint32_t index) const { return index < rlimit_names_.size() ? rlimit_names_[index].first : ""; }
std::string Jail::rlimit_origin(uint32_t index) const { return index < rlimit_names_.size() ? rlimit_names_[index].second : ""; }

class JailBuilder {
 public:
  JailBuilder(const CommandLine& line, const Caller& caller)
      : line_(line), config_(line.config), caller_(caller), out_(std::make_unique<Jail>()), jail_(*out_) {}

  Result<std::unique_ptr<Jail>> build() {
    SBX_TRY(refused_fields());
    SBX_TRY(ids());
    SBX_TRY(namespaces());
    SBX_TRY(files());
    SBX_TRY(rlimits());
    SBX_TRY(manners());
    SBX_TRY(capabilities());
    SBX_TRY(cgroup());
    SBX_TRY(descriptors());
    SBX_TRY(filter());
    SBX_TRY(command());
    finish();
    return std::move(out_);
  }

 private:
  std::string origin(std::string_view field, size_t index = 0) const { return config_.origins.at(field, index); }
  const char* keep(std::string text) { return jail_.strings_.emplace_back(std::move(text)).c_str(); }

  // ---- what no jail is made of
  Status refused_fields() const {
    for (const Field& field : config_schema().fields) {
      if (field.support != Support::refused || !config_.origins.has(field.name)) continue;
      const std::string_view name = field.name;
      if (name == "user_net" && config_.user_net && config_.user_net->origins.has("enable") && !config_.user_net->enable) continue;
      if (starts_with(name, "macvlan_vs_") && !config_.macvlan_iface) continue;  // says nothing without an interface
      const void* value = field.read(&config_, 0);
      if (value == nullptr) continue;
      if (field.type != FieldType::message && value_text(field, value) == default_text(field, config_schema())) continue;
      return problem(ErrorKind::unsupported, std::string("'") + field.name + "' is not in this version", origin(name))
          .with_hint("docs/nsjail.md lists the differences; without it the jail has a network of its own with nothing but lo");
    }
    return {};
  }

  // ---- identity
  Status ids() {
    SBX_TRY(map("uidmap", config_.uidmap, false, caller_.uid, jail_.uids));
    SBX_TRY(map("gidmap", config_.gidmap, true, caller_.gid, jail_.gids));
    jail_.plan.uid = jail_.uids[0].inside;
    jail_.plan.gid = jail_.gids[0].inside;
    if (config_.clone_newuser) return {};
    jail_.direct.change_ids = caller_.euid == 0;
    for (size_t i = 1; i < jail_.gids.size(); ++i) jail_.groups_.push_back(jail_.gids[i].inside);
    return {};
  }

  Status map(const char* field, const std::vector<IdMap>& maps, bool group, uint32_t own, std::vector<IdRange>& out) {
    for (size_t i = 0; i < maps.size(); ++i) {
      const IdMap& map = maps[i];
      IdRange range;
      range.inside = SBX_TRY(find_id(map.inside_id, group, own, origin(field, i)));
      range.outside = SBX_TRY(find_id(map.outside_id, group, own, origin(field, i)));
      range.count = map.count == 0 ? 1 : map.count;
      range.helper = map.use_newidmap;
      out.push_back(range);
    }
    if (out.empty()) out.push_back({own, own, 1, false});
    const bool helper = std::any_of(out.begin(), out.end(), [](const IdRange& range) { return range.helper; });
    if (helper) {
      // A map is written once: by us, or by the helper as a whole.
      for (IdRange& range : out) range.helper = true;
    }
    for (const IdRange& range : out) {
      if (range.outside == 0 && config_.clone_newuser) {
        jail_.warnings.push_back(group ? "Process will be GID/EGID=0 in the global user namespace, and will have group root-level access to files"
                                       : "Process will be UID/EUID=0 in the global user namespace, and will have user root-level access to files");
      }
    }
    return {};
  }

  Status namespaces() {
    uint64_t& flags = jail_.clone_flags;
    if (config_.clone_newuser) flags |= CLONE_NEWUSER;
    if (config_.clone_newns) flags |= CLONE_NEWNS;
    if (config_.clone_newpid) flags |= CLONE_NEWPID;
    if (config_.clone_newipc) flags |= CLONE_NEWIPC;
    if (config_.clone_newuts) flags |= CLONE_NEWUTS;
    if (config_.clone_newnet) flags |= CLONE_NEWNET;
    if (config_.clone_newtime) flags |= kNewTime;
    // After the cgroup was entered, so that it is the namespace's root.
    jail_.plan.cgroup_namespace = config_.clone_newcgroup;
    jail_.plan.loopback = config_.clone_newnet && !config_.iface_no_lo;
    if (!config_.clone_newuts) return {};
    if (config_.hostname.size() > 64) return problem(ErrorKind::usage, "'hostname' is longer than the kernel's 64 bytes", origin("hostname"));
    jail_.plan.hostname = keep(config_.hostname);
    jail_.plan.hostname_size = static_cast<uint32_t>(config_.hostname.size());
    return {};
  }

  // ---- files
  struct Cover {
    std::string target;
    bool ours;           // we may make things there: a tmpfs
    std::string source;  // of a bind: the host's path
  };
  const Cover& cover(const std::string& path) const {
    for (auto found = covers_.rbegin(); found != covers_.rend(); ++found)
      if (path_is_under(path, found->target)) return *found;
    return covers_.front();
  }
  bool through_link(const std::string& path) const {
    return std::any_of(links_.begin(), links_.end(), [&](const std::string& link) { return path != link && path_is_under(path, link); });
  }
  bool may_make(const std::string& path) const { return cover(path).ours && !through_link(path); }
  const char* relative(const std::string& path) { return keep(path == "/" ? "." : path.substr(1)); }

  ns::Step& add(ns::StepKind kind) {
    ns::Step step{};
    step.kind = kind;
    step.op = static_cast<uint32_t>(jail_.operations_.size() - 1);
    return jail_.steps_.emplace_back(step);
  }
  void begin(std::string text, std::string from) { jail_.operations_.emplace_back(std::move(text), std::move(from)); }

  Status files() {
    std::vector<Mount> mounts;
    std::vector<std::string> origins;
    if (!line_.chroot.empty()) {
      Mount root;
      root.src = line_.chroot;
      root.dst = "/";
      root.is_bind = true;
      root.rw = line_.root_rw;
      root.is_dir = true;
      mounts.push_back(root);
      origins.emplace_back("flag --chroot");
    }
    for (size_t i = 0; i < config_.mount.size(); ++i) {
      mounts.push_back(config_.mount[i]);
      origins.push_back(origin("mount", i));
    }
    if (config_.mount_proc) {
      Mount proc;
      proc.dst = line_.proc_path;
      proc.fstype = "proc";
      proc.rw = line_.proc_rw;
      mounts.push_back(proc);
      origins.push_back(config_.origins.has("mount_proc") ? origin("mount_proc") : "the default /proc");
    }
    for (const Mount& mount : mounts) jail_.described_mounts.push_back((mount.is_symlink ? "Symlink: " : "Mount: ") + describe_mount(mount));
    jail_.direct.view = config_.clone_newns;
    jail_.direct.pivot = !config_.no_pivotroot;
    if (!config_.clone_newns) {
      if (!line_.chroot.empty()) jail_.direct.chroot = keep(absolute(line_.chroot));
      if (!config_.mount.empty()) jail_.warnings.push_back("without a mount namespace no mounts are made, and the program sees the host's files");
      return {};
    }
    if (config_.no_pivotroot) jail_.warnings.push_back("chroot instead of pivot_root: who has CAP_SYS_CHROOT inside can leave it");
    SBX_TRY(clone_roots(mounts, origins));
    begin("make the root", "");
    ns::Step& root = add(ns::StepKind::tmpfs);
    root.a = keep("/");
    root.b = keep("mode=1777,size=16777216");
    covers_.push_back({"/", true, ""});
    jail_.plan.read_only_root = !line_.root_rw;
    targets_ = {};
    for (const Mount& mount : mounts) targets_.push_back(SBX_TRY(target_of(mount, origins[targets_.size()])));
    for (size_t i = 0; i < mounts.size(); ++i) {
      index_ = i;
      Status done = mount(mounts[i], targets_[i], origins[i]);
      if (done.ok()) continue;
      if (mounts[i].mandatory) return done;
      jail_.warnings.push_back("left out, because it is not mandatory: " + done.error().text());
    }
    for (const auto& [operation, target, attributes] : restrictions_) {
      jail_.operations_.push_back(operation);
      ns::Step& step = add(ns::StepKind::restrict_top);
      step.b = relative(target);
      step.attr = attributes;
      step.flags = ns::kResolveTarget;
    }
    return {};
  }

  // The new root is put together on top of "/". Who wants to show "/" itself needs it as it is before that.
  Status clone_roots(const std::vector<Mount>& mounts, const std::vector<std::string>& origins) {
    const struct stat root = SBX_TRY(sys::stat("/"));
    for (size_t i = 0; i < mounts.size(); ++i) {
      if (!mounts[i].is_bind || mounts[i].is_symlink) continue;
      const Result<std::string> source = with_prefix(mounts[i].prefix_src_env, mounts[i].src, origins[i]);
      if (!source.ok()) continue;  // mount() finds the same
      const Result<struct stat> info = sys::stat(absolute(source.value()));
      if (!info.ok() || info.value().st_dev != root.st_dev || info.value().st_ino != root.st_ino) continue;
      const int slot = static_cast<int>(roots_.size());
      if (slot == ns::kMaxKept) return problem(ErrorKind::usage, "'/' is shown more than " + std::to_string(ns::kMaxKept) + " times", origins[i]);
      begin("clone '/'", origins[i]);
      ns::Step& step = add(ns::StepKind::keep_tree);
      step.a = keep("/");
      step.n = static_cast<uint64_t>(slot);
      roots_[i] = slot;
    }
    return {};
  }

  // The caller's variable `name` and `path` joined; nothing when it is not set.
  Result<std::string> with_prefix(const std::string& name, const std::string& path, const std::string& from) const {
    if (name.empty()) return path;
    for (const std::string& variable : caller_.environment)
      if (starts_with(variable, name + "=")) return variable.substr(name.size() + 1) + path;
    return problem(ErrorKind::usage, "the variable " + quoted(name) + " is not set, which a mount wants as a prefix", from);
  }
  Result<std::string> target_of(const Mount& mount, const std::string& from) const {
    Result<std::string> path = with_prefix(mount.prefix_dst_env, mount.dst, from);
    if (!path.ok()) {
      if (mount.mandatory) return path;
      return std::string();  // mount() finds the same
    }
    return normalize_path("/" + path.value());
  }
  std::string absolute(const std::string& path) const {
    return starts_with(path, "/") ? path : join_path(caller_.directory, path);
  }

  void make_parents(const std::string& target) {
    for (size_t end = target.find('/', 1); end != std::string::npos; end = target.find('/', end + 1)) {
      const std::string parent = target.substr(0, end);
      if (may_make(parent)) make_dir(parent, 0755);
    }
  }
  void make_dir(const std::string& target, uint32_t mode) {
    if (target == "/" || !made_.insert(target).second) return;
    ns::Step& step = add(ns::StepKind::make_dir);
    step.a = relative(target);
    step.mode = mode;
    step.flags = ns::kExistsIsFine;
  }
  // Something to mount on. Never on the host: below a bind it must be there.
  Status make_place(const std::string& target, bool directory, const std::string& from) {
    if (target == "/") return {};
    if (!may_make(target)) {
      const Cover& above = cover(target);
      if (above.source.empty() || through_link(target)) return {};  // the child sees whether it is there
      const std::string host = join_path(above.source, target.substr(above.target == "/" ? 1 : above.target.size() + 1));
      if (sys::lstat(host).ok()) return {};
      return problem(ErrorKind::usage, "the mount on " + quoted_path(target) + " finds no such place in " + quoted_path(above.source) + ", and nothing is made on the host", from)
          .with_hint(std::string(directory ? "mkdir -p " : "touch ") + shell_quote(host));
    }
    make_parents(target);
    if (directory) {
      make_dir(target, 0711);
    } else if (made_.insert(target).second) {
      ns::Step& step = add(ns::StepKind::write_file);
      step.a = relative(target);
      step.mode = 0644;
      step.flags = ns::kExistsIsFine;
    }
    return {};
  }

  static uint64_t attributes(const Mount& mount) {
    uint64_t attributes = 0;
    if (!mount.rw) attributes |= SBX_MOUNT_ATTR_RDONLY;
    if (mount.nosuid) attributes |= SBX_MOUNT_ATTR_NOSUID;
    if (mount.nodev) attributes |= SBX_MOUNT_ATTR_NODEV;
    if (mount.noexec) attributes |= SBX_MOUNT_ATTR_NOEXEC;
    return attributes;
  }
  static uint32_t flags_for(const Mount& mount, const std::string& target) {
    return ns::kResolveTarget | (target == "/" ? uint32_t{ns::kBecomesRoot} : 0u) | (mount.mandatory ? 0u : uint32_t{ns::kMayFail});
  }

  Status mount(const Mount& mount, const std::string& target, const std::string& from) {
    const std::string source = SBX_TRY(with_prefix(mount.prefix_src_env, mount.src, from));
    SBX_TRY(with_prefix(mount.prefix_dst_env, "", from));
    if (mount.is_symlink) return symlink(mount, source, target, from);
    if (!mount.src_content.empty() || (mount.origins.has("src_content") && mount.fstype.empty())) return content(mount, target, from);
    if (mount.is_bind) return bind(mount, absolute(source), target, from);
    return file_system(mount, source, target, from);
  }

  Status symlink(const Mount& mount, const std::string& text, const std::string& target, const std::string& from) {
    if (target == "/" || !may_make(target)) {
      return problem(ErrorKind::usage, "the link " + quoted_path(target) + " would be made on the host", from).with_hint("make it there yourself, or mount a tmpfs above it");
    }
    begin("make the link " + quoted_path(target), from);
    make_parents(target);
    ns::Step& step = add(ns::StepKind::make_symlink);
    step.a = relative(target);
    step.b = keep(text);
    step.flags = mount.mandatory ? 0u : uint32_t{ns::kExistsIsFine};
    links_.insert(target);
    return {};
  }

  Status content(const Mount& mount, const std::string& target, const std::string& from) {
    if (target == "/") return problem(ErrorKind::usage, "a file cannot be the root", from);
    begin("show a file on " + quoted_path(target), from);
    SBX_TRY(make_place(target, false, from));
    ns::Step& step = add(ns::StepKind::content_bind);
    const std::string& kept = jail_.strings_.emplace_back(mount.src_content);
    step.a = relative(target);
    step.b = step.a;
    step.c = kept.data();
    step.n = kept.size();
    step.mode = 0644;
    step.attr = attributes(mount);
    step.flags = flags_for(mount, target);
    covers_.push_back({target, false, ""});
    return {};
  }

  Status bind(const Mount& mount, const std::string& source, const std::string& target, const std::string& from) {
    const Result<struct stat> info = sys::stat(source);
    if (!info.ok()) {
      return problem(ErrorKind::usage, "cannot show " + quoted_path(source) + " on " + quoted_path(target) + ": " + errno_text(info.error().errnum()), from)
          .with_hint("a mount that may be missing says mandatory: false");
    }
    const bool directory = S_ISDIR(info.value().st_mode);
    if (mount.is_dir && *mount.is_dir != directory) {
      return problem(ErrorKind::usage, "is_dir says " + std::string(*mount.is_dir ? "true" : "false") + ", and " + quoted_path(source) + (directory ? " is a directory" : " is none"), from);
    }
    begin("bind " + quoted_path(source) + " on " + quoted_path(target), from);
    SBX_TRY(make_place(target, directory, from));
    ns::Step& step = add(ns::StepKind::bind);
    step.a = keep(source);
    step.b = relative(target);
    if (const auto root = roots_.find(index_); root != roots_.end()) step.fd = root->second;
    step.attr = attributes(mount);
    step.flags = flags_for(mount, target);
    covers_.push_back({target, false, source});
    if (target == "/") jail_.plan.read_only_root = false;  // has its attributes by now
    return {};
  }

  Status file_system(const Mount& mount, const std::string& source, const std::string& target, const std::string& from) {
    if (mount.fstype.empty()) {
      return problem(ErrorKind::usage, "the mount on " + quoted_path(target) + " is no bind, has no fstype, no src_content, and is no link", from)
          .with_hint("a tree of the host: is_bind: true");
    }
    begin("mount " + mount.fstype + " on " + quoted_path(target), from);
    SBX_TRY(make_place(target, mount.is_dir.value_or(true), from));
    unsigned long flags = 0;
    if (mount.nosuid) flags |= MS_NOSUID;
    if (mount.nodev) flags |= MS_NODEV;
    if (mount.noexec) flags |= MS_NOEXEC;
    if (mount.fstype == "proc") flags |= MS_NOSUID | MS_NODEV | MS_NOEXEC;
    if (!mount.rw) flags |= MS_RDONLY;
    std::vector<std::string> rest;
    for (const std::string& option : split(mount.options, ',')) {
      const auto* word = std::find_if(std::begin(kMountWords), std::end(kMountWords), [&](const MountWord& row) { return option == row.word; });
      if (word != std::end(kMountWords)) flags = (flags | word->set) & ~word->clear;
      else if (!option.empty()) rest.push_back(option);
    }
    const bool tmpfs = mount.fstype == "tmpfs" || mount.fstype == "ramfs";
    if ((flags & MS_RDONLY) != 0 && mount.mandatory && target_of_others(target)) {
      // Places have to be made in it first.
      flags &= ~static_cast<unsigned long>(MS_RDONLY);
      if (!covered_later(target)) restrictions_.push_back({jail_.operations_.back(), target, SBX_MOUNT_ATTR_RDONLY});
    }
    ns::Step& step = add(ns::StepKind::file_system);
    step.a = keep(source.empty() ? mount.fstype : source);
    step.b = relative(target);
    step.c = keep(join(rest, ","));
    step.d = keep(mount.fstype);
    step.attr = flags;
    step.flags = flags_for(mount, target);
    covers_.push_back({target, tmpfs, ""});
    // What was made below it is covered now.
    std::erase_if(made_, [&](const std::string& path) { return path_is_under(path, target) && path != target; });
    if (target == "/") jail_.plan.read_only_root = false;
    return {};
  }
  bool target_of_others(const std::string& target) const {
    for (size_t i = index_ + 1; i < targets_.size(); ++i)
      if (targets_[i] != target && path_is_under(targets_[i], target)) return true;
    return false;
  }
  bool covered_later(const std::string& target) const {
    for (size_t i = index_ + 1; i < targets_.size(); ++i)
      if (path_is_under(target, targets_[i])) return true;
    return false;
  }

  // ---- limits
  Status rlimits() {
    if (config_.disable_rl) return {};
    for (const RlimitRow& row : kRlimits) {
      struct rlimit current {};
      if (::getrlimit(static_cast<__rlimit_resource_t>(row.resource), &current) != 0) return Error::from_errno(errno, std::string("read ") + row.field);
      const RlimitType type = config_.*(row.type);
      uint64_t value = RLIM_INFINITY;
      switch (type) {
        case RlimitType::value: {
          const uint64_t number = config_.*(row.value);
          value = number > RLIM_INFINITY / row.unit ? RLIM_INFINITY : number * row.unit;
          break;
        }
        case RlimitType::soft: value = current.rlim_cur; break;
        case RlimitType::hard: value = current.rlim_max; break;
        case RlimitType::inf: break;
      }
      const std::string from = origin(config_.origins.has(row.field) && type == RlimitType::value ? row.field : row.type_field);
      if (value > current.rlim_max) {
        if (!ns::has_capability(caller_.capabilities, 24 /* CAP_SYS_RESOURCE */)) {
          return problem(ErrorKind::permission, std::string("'") + row.field + "' is above the caller's own hard limit of " + std::to_string(current.rlim_max), from)
              .with_hint(std::string(row.type_field) + ": HARD takes what there is");
        }
        jail_.raised_limits.emplace_back(row.resource, value);
      }
      jail_.rlimits_.push_back({row.resource, value});
      jail_.rlimit_names_.emplace_back(row.field, from);
    }
    return {};
  }

  Status manners() {
    ns::DirectPlan& direct = jail_.direct;
    if (config_.nice_level < -20 || config_.nice_level > 19) return problem(ErrorKind::usage, "'nice_level' goes from -20 to 19", origin("nice_level"));
    direct.default_priority = false;
    direct.priority = config_.nice_level;
    if (config_.persona_addr_compat_layout) direct.personality |= ADDR_COMPAT_LAYOUT;
    if (config_.persona_mmap_page_zero) direct.personality |= MMAP_PAGE_ZERO;
    if (config_.persona_read_implies_exec) direct.personality |= READ_IMPLIES_EXEC;
    if (config_.persona_addr_limit_3gb) direct.personality |= ADDR_LIMIT_3GB;
    if (config_.persona_addr_no_randomize) direct.personality |= ADDR_NO_RANDOMIZE;
    direct.own_core = config_.use_core_scheduling;
#if defined(__x86_64__)
    direct.no_tsc = config_.disable_tsc;
#else
    if (config_.disable_tsc) jail_.warnings.push_back("disable_tsc is for x86 only");
#endif
    if (config_.oom_score_adj) {
      if (*config_.oom_score_adj < -1000 || *config_.oom_score_adj > 1000) {
        return problem(ErrorKind::usage, "'oom_score_adj' goes from -1000 to 1000", origin("oom_score_adj"));
      }
      const std::string& text = jail_.strings_.emplace_back(std::to_string(*config_.oom_score_adj));
      direct.oom_score = text.c_str();
      direct.oom_score_size = static_cast<uint32_t>(text.size());
    }
    direct.umask = caller_.umask;
    direct.no_new_privs = !config_.disable_no_new_privs;
    jail_.plan.new_session = !config_.skip_setsid;
    jail_.plan.working_directory = keep(config_.cwd);
    return affinity();
  }

  // max_cpus CPUs of those that the caller may use, picked at random so that several jails spread.
  Status affinity() {
    if (config_.max_cpus == 0) return {};
    std::vector<unsigned long> mask(8192 / (8 * sizeof(unsigned long)));
    const long bytes = raw::call(SYS_sched_getaffinity, 0, mask.size() * sizeof(unsigned long), mask.data());
    if (bytes < 0) return Error::from_errno(static_cast<int>(-bytes), "read the CPU affinity");
    std::vector<size_t> cpus;
    constexpr size_t kBits = 8 * sizeof(unsigned long);
    for (size_t cpu = 0; cpu < mask.size() * kBits; ++cpu)
      if ((mask[cpu / kBits] >> (cpu % kBits) & 1) != 0) cpus.push_back(cpu);
    if (config_.max_cpus >= cpus.size()) {
      if (config_.max_cpus > cpus.size()) {
        jail_.warnings.push_back("max_cpus is " + std::to_string(config_.max_cpus) + ", and there are " + std::to_string(cpus.size()));
      }
      return {};
    }
    for (size_t i = 0; i < config_.max_cpus; ++i) {
      uint32_t dice = 0;
      if (::getrandom(&dice, sizeof dice, 0) != sizeof dice) dice = static_cast<uint32_t>(sys::monotonic_ns());
      std::swap(cpus[i], cpus[i + dice % (cpus.size() - i)]);
    }
    jail_.affinity_.assign(static_cast<size_t>(bytes) / sizeof(unsigned long), 0);
    for (size_t i = 0; i < config_.max_cpus; ++i) jail_.affinity_[cpus[i] / kBits] |= 1ul << (cpus[i] % kBits);
    return {};
  }

  Status capabilities() {
    const uint32_t last = ns::last_capability();
    const uint64_t all = (uint64_t{2} << last) - 1;
    const uint64_t permitted = config_.clone_newuser ? all : caller_.capabilities & all;
    jail_.plan.last_capability = last;
    jail_.direct.bound = config_.clone_newuser || ns::has_capability(caller_.capabilities, 8 /* CAP_SETPCAP */);
    if (config_.keep_caps) {
      jail_.plan.keep_capabilities = permitted;
      return {};
    }
    for (size_t i = 0; i < config_.cap.size(); ++i) {
      const std::string& name = config_.cap[i];
      const std::string from = origin("cap", i);
      const bool exact = starts_with(name, "CAP_") && std::none_of(name.begin(), name.end(), [](char c) { return c >= 'a' && c <= 'z'; });
      const Result<uint64_t> mask = exact ? ns::capability_mask({name}) : Result<uint64_t>(Error(ErrorKind::usage, ""));
      if (!mask.ok() || (mask.value() & ~all) != 0) {
        const std::string what = "unknown capability " + quoted(name);
        if (starts_with(from, "flag ")) return problem(ErrorKind::usage, what, from).with_hint("they are written as in CAP_NET_RAW");
        jail_.warnings.push_back(from + ": " + what);
        continue;
      }
      if ((mask.value() & ~permitted) != 0) return problem(ErrorKind::permission, "the caller has not the capability " + quoted(name) + " that is to be kept", from);
      jail_.plan.keep_capabilities |= mask.value();
    }
    return {};
  }

  // ---- cgroup
  Status cgroup() {
    runtime::CgroupLimits limits;
    limits.swap_bytes.reset();
    bool any = false;
    const auto wants = [&](const char* field, bool wanted) {
      if (!wanted) return false;
      if (!any) jail_.cgroup_origin = origin(field);
      any = true;
      return true;
    };
    if (wants("cgroup_mem_max", config_.cgroup_mem_max != 0)) limits.memory_bytes = config_.cgroup_mem_max;
    if (config_.cgroup_mem_memsw_max != 0 && config_.cgroup_mem_swap_max >= 0) {
      return problem(ErrorKind::usage, "cannot set both cgroup_mem_memsw_max and cgroup_mem_swap_max", origin("cgroup_mem_swap_max"));
    }
    if (wants("cgroup_mem_memsw_max", config_.cgroup_mem_memsw_max != 0)) {
      limits.swap_bytes = config_.cgroup_mem_memsw_max - std::min(config_.cgroup_mem_memsw_max, config_.cgroup_mem_max);
    }
    if (wants("cgroup_mem_swap_max", config_.cgroup_mem_swap_max >= 0)) limits.swap_bytes = static_cast<uint64_t>(config_.cgroup_mem_swap_max);
    if (limits.swap_bytes && !limits.memory_bytes) limits.memory_bytes = ~uint64_t{0};  // none
    if (wants("cgroup_pids_max", config_.cgroup_pids_max != 0)) limits.pids = config_.cgroup_pids_max;
    if (wants("cgroup_cpu_ms_per_sec", config_.cgroup_cpu_ms_per_sec != 0)) limits.cpus_milli = config_.cgroup_cpu_ms_per_sec;
    if (!any) return {};
    bool v2 = config_.use_cgroupv2;
    if (config_.detect_cgroupv2) {
      struct statfs info {};
      v2 = ::statfs(config_.cgroupv2_mount.c_str(), &info) == 0 && static_cast<long>(info.f_type) == kCgroup2Magic;
    }
    for (const Field& field : config_schema().fields) {
      if (v2 || field.support != Support::cgroup_v1 || !config_.origins.has(field.name)) continue;
      return problem(ErrorKind::unsupported, std::string("'") + field.name + "' places a cgroup of version 1, which is not in this version", origin(field.name))
          .with_hint("take it away: sbx finds a cgroup of either version by itself; or use_cgroupv2: true");
    }
    jail_.cgroup = limits;
    if (v2 && config_.origins.has("cgroupv2_mount")) jail_.cgroup_parent = config_.cgroupv2_mount;
    return {};
  }

  // ---- descriptors and streams
  Status descriptors() {
    for (size_t i = 0; i < config_.pass_fd.size(); ++i) {
      const int fd = config_.pass_fd[i];
      if (fd >= 0 && fd < 3) continue;
      // Closed at an exec: it is one of ours, the log's perhaps, and came from no caller.
      const int flags = fd < 0 ? -1 : ::fcntl(fd, F_GETFD);
      if (flags < 0 || (flags & FD_CLOEXEC) != 0) return problem(ErrorKind::usage, "descriptor " + std::to_string(fd) + " is not open", origin("pass_fd", i));
      if (std::find(jail_.pass_.begin(), jail_.pass_.end(), fd) == jail_.pass_.end()) jail_.pass_.push_back(fd);
    }
    for (int fd = 0; fd < 3; ++fd) {
      jail_.silent_streams[fd] = config_.silent || (fd == 2 && config_.stderr_to_null);
      if (jail_.silent_streams[fd] || config_.mode == Mode::listen) continue;
      const Result<struct stat> info = sys::fstat(fd);
      // fchdir(0) would lead out of the jail.
      const bool asked = std::find(config_.pass_fd.begin(), config_.pass_fd.end(), fd) != config_.pass_fd.end();
      if (info.ok() && S_ISDIR(info.value().st_mode) && !asked) {
        return problem(ErrorKind::usage, "descriptor " + std::to_string(fd) + " is a directory: the program could leave the jail by it", "")
            .with_hint("pass_fd: " + std::to_string(fd) + " says that it is meant");
      }
    }
    return {};
  }

  // ---- system calls
  Status filter() {
    if (config_.seccomp_log) jail_.direct.filter_flags = SECCOMP_FILTER_FLAG_LOG;
    if (config_.seccomp_policy_file && !config_.seccomp_string.empty()) {
      return problem(ErrorKind::usage, "seccomp_policy_file and seccomp_string exclude each other", origin("seccomp_string"));
    }
    if (!config_.seccomp_policy_file && config_.seccomp_string.empty()) return {};
    std::string text;
    kafel::Options options;
    if (config_.seccomp_policy_file) {
      const std::string& path = *config_.seccomp_policy_file;
      const UniqueFd file = SBX_TRY(with_origin(sys::open(path, O_RDONLY | O_NOCTTY), "seccomp_policy_file"));
      text = SBX_TRY(with_origin(sys::read_all(file.get(), kMaxFile), "seccomp_policy_file"));
      options.name = path;
    } else {
      std::vector<std::pair<uint32_t, std::string>> starts;  // first line of each string
      uint32_t lines = 0;
      for (size_t i = 0; i < config_.seccomp_string.size(); ++i) {
        starts.emplace_back(lines, origin("seccomp_string", i));
        text += config_.seccomp_string[i] + "\n";
        lines = static_cast<uint32_t>(std::count(text.begin(), text.end(), '\n'));
      }
      options.name = "seccomp_string";
      options.place = [starts](uint32_t at, uint32_t column) {
        size_t which = 0;
        while (which + 1 < starts.size() && starts[which + 1].first < at) ++which;
        return starts[which].second + ": policy line " + std::to_string(at - starts[which].first) + ", column " + std::to_string(column);
      };
    }
    const SyscallRules rules = SBX_TRY(kafel::compile(text, options));
    seccomp::CompileOptions how;
    how.arch = seccomp::native_arch();
    how.startable = false;
    jail_.filter_ = SBX_TRY(with_origin(seccomp::compile(rules, how), config_.seccomp_policy_file ? "seccomp_policy_file" : "seccomp_string"));
    const Status startable = seccomp::check_startable(jail_.filter_, how.arch);
    if (!startable.ok()) jail_.notes.push_back("the seccomp policy: " + startable.error().text());
    jail_.direct.no_new_privs = true;
    return {};
  }
  template <typename T>
  Result<T> with_origin(Result<T> result, const char* field) const {
    if (result.ok() || !result.error().origin().empty()) return result;
    return result.take_error().with_origin(origin(field));
  }

  // ---- the program
  Status command() {
    const Exe* exe = config_.exec_bin ? &*config_.exec_bin : nullptr;
    std::vector<std::string> argv = line_.argv;
    std::string path = exe != nullptr && exe->origins.has("path") ? exe->path : "";
    const bool has_path = exe != nullptr && exe->origins.has("path");
    if (argv.empty() && has_path) {
      argv.push_back(exe->arg0.value_or(exe->path));
      argv.insert(argv.end(), exe->arg.begin(), exe->arg.end());
    }
    if (!has_path && !argv.empty()) path = argv[0];
    if (!has_path && argv.empty()) {
      return Error(ErrorKind::usage, "No command-line provided").with_hint("words after --, or exec_bin in the configuration");
    }
    if (has_path && !line_.argv.empty() && line_.argv[0] != path && !starts_with(exe->origins.at("path"), "flag ")) {
      jail_.notes.push_back("the words after -- are the arguments; what is executed is still " + quoted_path(path) + " (" + exe->origins.at("path") + "), -x changes it");
    }
    if (exe != nullptr && exe->exec_fd) {
      jail_.executable_ = SBX_TRY(sys::open(path, O_PATH));
      jail_.direct.exec_fd = jail_.executable_.get();
    }
    jail_.exec_path = path;
    for (const std::string& word : argv) jail_.argv_.push_back(keep(word));
    for (const std::string& variable : environment()) jail_.envp_.push_back(keep(variable));
    return {};
  }

  std::vector<std::string> environment() {
    std::vector<std::string> variables;
    if (config_.keep_env) variables = caller_.environment;
    for (std::string variable : config_.envar) {
      const size_t equals = variable.find('=');
      const std::string name = variable.substr(0, equals);
      if (equals == std::string::npos) {
        const auto found = std::find_if(caller_.environment.begin(), caller_.environment.end(),
                                        [&](const std::string& own) { return starts_with(own, name + "="); });
        if (found == caller_.environment.end()) {
          jail_.warnings.push_back("Requested to use the '" + name + "' envar, but it's not set. It'll be ignored");
          continue;
        }
        variable = *found;
      }
      const auto same = std::find_if(variables.begin(), variables.end(), [&](const std::string& other) { return starts_with(other, name + "="); });
      if (same != variables.end()) *same = variable;
      else variables.push_back(variable);
    }
    return variables;
  }

  void finish() {
    ns::ChildPlan& plan = jail_.plan;
    plan.direct = &jail_.direct;
    plan.steps = jail_.steps_.data();
    plan.step_count = static_cast<uint32_t>(jail_.steps_.size());
    plan.rlimits = jail_.rlimits_.data();
    plan.rlimit_count = static_cast<uint32_t>(jail_.rlimits_.size());
    if (!jail_.affinity_.empty()) {
      plan.affinity = jail_.affinity_.data();
      plan.affinity_bytes = static_cast<uint32_t>(jail_.affinity_.size() * sizeof(unsigned long));
    }
    jail_.direct.groups = jail_.groups_.data();
    jail_.direct.group_count = static_cast<uint32_t>(jail_.groups_.size());
    jail_.direct.pass = jail_.pass_.data();
    jail_.direct.pass_count = static_cast<uint32_t>(jail_.pass_.size());
    if (!jail_.filter_.empty()) {
      jail_.program_ = {static_cast<unsigned short>(jail_.filter_.size()), jail_.filter_.data()};
      plan.filter = &jail_.program_;
    }
    jail_.candidates_ = {keep(jail_.exec_path), nullptr};
    jail_.argv_.push_back(nullptr);
    jail_.envp_.push_back(nullptr);
    plan.candidates = jail_.candidates_.data();
    plan.argv = jail_.argv_.data();
    plan.envp = jail_.envp_.data();
  }

  const CommandLine& line_;
  const Config& config_;
  const Caller& caller_;
  std::unique_ptr<Jail> out_;
  Jail& jail_;
  std::vector<Cover> covers_;
  std::set<std::string> links_, made_;
  std::vector<std::string> targets_;  // of all mounts, in order
  size_t index_ = 0;
  std::map<size_t, int> roots_;  // mounts that show "/": slot of the clone
  struct Restriction {
    std::pair<std::string, std::string> operation;
    std::string target;
    uint64_t attributes;
  };
  std::vector<Restriction> restrictions_;
};

Result<std::unique_ptr<Jail>> Jail::build(const CommandLine& line, const Caller& caller) { return JailBuilder(line, caller).build(); }

}  // namespace sbx::nsjail
