#include "ns/build_plan.h"

#include <linux/capability.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/raw_sys.h"
#include "base/sys.h"
#include "base/text.h"
#include "ns/caps.h"
#include "ns/id_map.h"
#include "ns/landlock.h"

namespace sbx::ns {
namespace {

// Private directories are made here and cloned to their places. Nothing is mounted from the host's /proc, and the
// old root with all that lies over it goes away at the pivot.
constexpr const char* kStaging = "/proc";

constexpr const char* kDevices[] = {"null", "zero", "full", "random", "urandom"};

std::string escape_overlay(const std::string& path) {
  std::string escaped;
  for (const char c : path) {
    if (c == ',' || c == ':' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// A source of a mount, looked at: what is cloned later is what was looked at, where a descriptor is valid.
struct Source {
  UniqueFd fd;
  UniqueFd tree;  // its clone
  struct stat info {};
};

// What was seen of it when the view was made, if that is all that is asked of it later: its type, and whether it is still the same.
bool was_seen(const BindOp& op, struct stat& info) {
  if (op.source_inode == 0 || op.idmap) return false;
  info.st_mode = op.source_mode;
  info.st_dev = op.source_device;
  info.st_ino = op.source_inode;
  return true;
}

Result<Source> look_at(const BindOp& op) {
  Source source;
  if (!op.no_links && was_seen(op, source.info)) return source;
  if (op.no_links) {
    source.fd = SBX_TRY(sys::openat2(AT_FDCWD, op.source, O_PATH, 0, RESOLVE_NO_SYMLINKS));
    source.info = SBX_TRY(sys::fstat(source.fd.get()));
  } else {
    source.info = SBX_TRY(sys::stat(op.source));
  }
  return source;
}

Result<UniqueFd> clone_tree(const std::string& path, const UniqueFd& opened) {
  const bool by_fd = opened.valid();
  const long fd = ::syscall(SYS_open_tree, by_fd ? opened.get() : AT_FDCWD, by_fd ? "" : path.c_str(),
                            OPEN_TREE_CLONE | O_CLOEXEC | SBX_AT_RECURSIVE | (by_fd ? AT_EMPTY_PATH : 0));
  if (fd < 0) return Error::from_errno(errno, "clone the tree " + quoted_path(path));
  return UniqueFd(static_cast<int>(fd));
}

int set_attributes(int tree, uint64_t attributes, int userns = -1) {
  raw::mount_attr attr{};
  attr.attr_set = attributes;
  // The clone of a shared mount is a peer of the host's: what the child mounts below it (a protected .git/hooks) would
  // appear on the host as well.
  attr.propagation = MS_PRIVATE;
  if (userns >= 0) {
    attr.attr_set |= SBX_MOUNT_ATTR_IDMAP;
    attr.userns_fd = static_cast<uint64_t>(userns);
  }
  const long result = ::syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | SBX_AT_RECURSIVE, &attr, sizeof attr);
  return result == 0 ? 0 : errno;
}

}  // namespace

class PlanBuilder {
 public:
  PlanBuilder(const SandboxSpec& spec, const HostFacts& facts, const PlanOptions& options)
      : spec_(spec), facts_(facts), options_(options), out_(std::make_unique<PlannedChild>()) {}

  Result<std::unique_ptr<PlannedChild>> build() {
    out_->steps_.reserve(192);  // the default view has some 160
    out_->ops_.reserve(160);
    known_.reserve(160);
    SBX_TRY(files());
    SBX_TRY(rlimits());
    SBX_TRY(affinity());
    SBX_TRY(hardening());
    SBX_TRY(command());
    finish();
    return std::move(out_);
  }

 private:
  // ---- targets -------------------------------------------------------------------------------------------------
  // Who fills the place at which a path lies: we (our tmpfs, private directories), or a stranger (a bind, an overlay),
  // where nothing is ever created and every look-up is confined.
  enum class Cover : uint8_t { nothing, ours, on_private_tmpfs, stranger };
  // What is known of one path inside.
  struct Known {
    Cover cover = Cover::nothing;
    uint32_t cover_number = 0;  // where several lie over a path the last one counts
    bool link = false;
    bool made = false;
  };
  // A place on its way into the plan.
  struct Place {
    const char* path;  // kept, absolute
    Cover cover = Cover::nothing;
    bool confined = false;  // a stranger's, or behind a link
    Known* known = nullptr;  // of the path itself

    // Relative to the new root, which is the child's working directory while it mounts.
    const char* relative() const { return path[1] == '\0' ? "." : path + 1; }
    uint32_t flags() const { return confined ? kResolveTarget : 0u; }
  };

  const char* keep_string(std::string_view text) { return out_->text_.keep(text); }
  const char* relative(const std::string& path) { return keep_string(path == "/" ? std::string_view(".") : std::string_view(path).substr(1)); }

  Step& add(StepKind kind) {
    Step step{};
    step.kind = kind;
    step.op = static_cast<uint32_t>(out_->ops_.size() - 1);
    return out_->steps_.emplace_back(step);
  }

  void begin_op(const char* verb, std::string_view place = {}, std::string_view source = {}, std::string_view origin = {}) {
    out_->ops_.push_back({verb, keep_string(place), keep_string(source), keep_string(origin)});
  }

  // Something of ours is made there: it is no inode of the payload's.
  void count_inode(Cover cover) {
    if (cover == Cover::nothing) ++root_inodes_;
    if (cover == Cover::on_private_tmpfs) ++private_inodes_;
  }
  void make_own_dir(const char* path, uint32_t mode, Cover cover, Known& known) {
    if (std::exchange(known.made, true)) return;
    Step& step = add(StepKind::make_dir);
    step.a = path + 1;
    step.mode = mode;
    step.flags = kExistsIsFine;
    count_inode(cover);
  }
  // The place at `target`: one walk along the path finds who fills it, and makes the directories above it as far as they are ours.
  Place place_at(std::string_view target) {
    Place place{keep_string(target)};
    const std::string_view path = place.path;
    uint32_t number = 0;
    bool behind_link = false, making = true;
    const auto pass = [&](Known& known) {
      if (known.cover != Cover::nothing && known.cover_number >= number) {
        number = known.cover_number;
        place.cover = known.cover;
      }
      place.confined = place.cover == Cover::stranger || behind_link;
      behind_link = behind_link || known.link;
    };
    pass(known_["/"]);
    for (size_t end = path.find('/', 1); end != std::string_view::npos; end = path.find('/', end + 1)) {
      const std::string_view parent = path.substr(0, end);
      auto found = known_.find(parent);
      if (found == known_.end()) {
        if (place.confined) continue;  // nothing is made there, so there is nothing to remember
        found = known_.emplace(keep_string(parent), Known{}).first;
      }
      pass(found->second);
      making = making && !place.confined;
      if (making) make_own_dir(found->first.data(), 0755, place.cover, found->second);
    }
    place.known = path == "/" ? &known_["/"] : &known_[path];
    if (path != "/") pass(*place.known);
    return place;
  }
  // Something to mount on: a directory or an empty file.
  void make_place(const Place& place, bool directory, uint32_t mode = 0755) {
    if (place.confined || place.path[1] == '\0') return;
    if (directory) return make_own_dir(place.path, mode, place.cover, *place.known);
    if (std::exchange(place.known->made, true)) return;
    Step& step = add(StepKind::write_file);
    step.a = place.relative();
    step.mode = 0644;
    step.flags = kExistsIsFine;
    count_inode(place.cover);
  }
  Place make_directory(std::string_view target) {
    const Place place = place_at(target);
    make_place(place, true);
    return place;
  }
  void cover(const Place& place, Cover by) {
    place.known->cover = by;
    place.known->cover_number = ++covers_;
  }

  // ---- operations ----------------------------------------------------------------------------------------------

  Status files() {
    out_->keep_slots.assign(options_.keep.size(), -1);
    begin_op("make the root");
    const size_t root = out_->steps_.size();
    add(StepKind::tmpfs).a = keep_string("/");
    for (size_t i = 0; i < spec_.fs.size(); ++i) {
      spec_index_ = i;
      SBX_TRY(std::visit([&](const auto& op) { return operation(op); }, spec_.fs[i]));
    }
    show_cgroup();
    if (options_.keep_root) {
      begin_op("keep the root");
      Step& step = add(StepKind::open_keep);
      step.a = keep_string(".");
      step.n = kRootSlot;
    }
    // What we put into the root ourselves, in pages, and the directories; nobody else writes there.
    out_->steps_[root].b = keep_string("mode=0755,size=" + std::to_string(root_bytes_ + (uint64_t{64} << 10)) +
                                       ",nr_inodes=" + std::to_string(root_inodes_ + 16));
    if (private_count_ != 0) {
      // What we put there ourselves are not the payload's inodes.
      out_->steps_[private_step_].b = keep_string("mode=0755,size=" + std::to_string(spec_.limits.disk.value) +
                                                  ",nr_inodes=" + std::to_string(spec_.limits.inodes + private_inodes_));
    }
    return {};
  }

  // JVM, Node and Go look for memory.max and cpu.max there. Nothing but the sandbox's own cgroup is seen, and a payload
  // that owns its files (a user's does) meets a read-only mount that it has no capability to change.
  void show_cgroup() {
    const std::string target = "/sys/fs/cgroup";
    const auto taken = [](const FsOp& op) {
      return std::visit([](const auto& any) { return path_is_under(any.target, "/sys"); }, op);
    };
    if (!options_.show_cgroup || std::any_of(spec_.fs.begin(), spec_.fs.end(), taken)) return;
    begin_op("mount cgroup on", target);
    const Place place = make_directory(target);
    Step& step = add(StepKind::cgroup);
    step.a = place.relative();
    step.flags = kMayFail;
  }

  // Root's clone is what is looked at, at the price of one walk along the path. Where there is none, look_at() says why.
  Result<Source> find(const BindOp& op) {
    if (!options_.detached_trees || op.no_links || options_.trees.contains(spec_index_)) return look_at(op);
    Result<UniqueFd> tree = clone_tree(op.source, UniqueFd());
    if (!tree.ok()) return look_at(op);
    Source source;
    source.tree = tree.take();
    if (!was_seen(op, source.info)) source.info = SBX_TRY(sys::fstat(source.tree.get()));
    return source;
  }

  Status operation(const BindOp& op) {
    Result<Source> looked = find(op);
    if (!looked.ok()) {
      const int errnum = looked.error().errnum();
      if (op.optional) return {};
      const ErrorKind kind = kind_of_bad_path(errnum);
      Error error = Error(kind, "cannot share " + quoted_path(op.source) + ": " + errno_text(errnum)).with_origin(op.origin);
      if (kind == ErrorKind::resource) return error;
      return std::move(error).with_hint(errnum == ELOOP ? "a link took its place while the sandbox was being set up; try again"
                                                        : "a mount of a policy that may be missing says: optional = true");
    }
    begin_op("bind", op.target, op.source, op.origin);
    Source source = looked.take();
    const Place place = place_at(op.target);
    make_place(place, S_ISDIR(source.info.st_mode));
    SBX_TRY(bring(op, source, place));
    cover(place, Cover::stranger);
    return {};
  }

  uint64_t attributes(const BindOp& op) const {
    uint64_t attributes = SBX_MOUNT_ATTR_NOSUID;
    if (op.read_only) attributes |= SBX_MOUNT_ATTR_RDONLY;
    if (!op.devices) attributes |= SBX_MOUNT_ATTR_NODEV;
    if (op.no_exec || (!op.read_only && spec_.hardening.writable_noexec)) attributes |= SBX_MOUNT_ATTR_NOEXEC;
    return attributes;
  }

  // The step that brings the tree inside, by either of the two ways.
  Status bring(const BindOp& op, Source& source, const Place& place) {
    const struct stat& info = source.info;
    if (!options_.detached_trees) {
      if (wants_map(op, info)) return refuse_map(op, info, EPERM);
      Step& step = add(StepKind::bind);
      step.a = keep_string(op.source);
      step.b = place.relative();
      step.n = info.st_dev;
      step.m = info.st_ino;
      step.attr = attributes(op);
      step.flags = place.flags() | (op.no_links ? kNoLinks : 0u);
      return {};
    }
    const auto replaced = options_.trees.find(spec_index_);
    const bool is_copy = replaced != options_.trees.end();
    UniqueFd tree = std::move(source.tree);
    if (!tree.valid()) tree = is_copy ? SBX_TRY(sys::dup(replaced->second)) : SBX_TRY(clone_tree(op.source, source.fd));
    const struct stat shown = is_copy ? SBX_TRY(sys::fstat(tree.get())) : info;
    SBX_TRY(restrict_tree(op, shown, tree.get()));
    Step& step = add(StepKind::attach);
    step.b = place.relative();
    step.fd = tree.get();
    step.flags = place.flags();
    out_->trees_.push_back(std::move(tree));
    return {};
  }

  // A tree that already belongs to the sandbox's host identity needs no map.
  bool wants_map(const BindOp& op, const struct stat& info) const {
    return options_.leased && op.idmap && options_.unmapped.count(spec_index_) == 0 &&
           (info.st_uid != options_.host_uid || info.st_gid != options_.host_gid);
  }

  Error refuse_map(const BindOp& op, const struct stat& info, int errnum) {
    if (options_.refusal != nullptr) *options_.refusal = IdMapRefusal{spec_index_, info.st_uid, info.st_gid, info.st_mode};
    if (!options_.detached_trees) {
      return Error(ErrorKind::unsupported, "root without CAP_SYS_ADMIN cannot show the files of " + quoted_path(op.source) + " as the payload's own")
          .with_origin(op.origin)
          .with_hint("start the container with --cap-add SYS_ADMIN, or run sbx as the owner of the files");
    }
    return Error(ErrorKind::unsupported, "the file system of " + quoted_path(op.source) +
                                             (errnum == EPERM ? " belongs to the container's host and" : "") + " cannot be idmapped, so its files cannot be shown as the payload's own")
        .with_origin(op.origin)
        .with_hint("share the directory with :overlay, or run sbx as the owner of its files");
  }

  Status restrict_tree(const BindOp& op, const struct stat& info, int tree) {
    if (wants_map(op, info)) {
      const int userns = SBX_TRY(map_namespace(info.st_uid, info.st_gid));
      const int refused = set_attributes(tree, attributes(op), userns);
      if (refused == 0) return {};
      if (refused != EINVAL && refused != EPERM && refused != EOPNOTSUPP) {
        return Error::from_errno(refused, "restrict the tree " + quoted_path(op.source)).with_origin(op.origin);
      }
      return refuse_map(op, info, refused);
    }
    const int refused = set_attributes(tree, attributes(op));
    if (refused != 0) {
      return Error::from_errno(refused, "restrict the tree " + quoted_path(op.source)).with_origin(op.origin);
    }
    return {};
  }

  Result<int> map_namespace(uint32_t owner_uid, uint32_t owner_gid) {
    const std::pair<uint32_t, uint32_t> key{owner_uid, owner_gid};
    auto known = map_namespaces_.find(key);
    if (known == map_namespaces_.end()) {
      UniqueFd made = SBX_TRY(make_map_namespace({owner_uid, options_.host_uid, owner_gid, options_.host_gid}));
      known = map_namespaces_.emplace(key, std::move(made)).first;
    }
    return known->second.get();
  }

  Status operation(const TmpfsOp& op) {
    begin_op("mount tmpfs on", op.target);
    const Place place = make_directory(op.target);
    char mode[16];
    std::snprintf(mode, sizeof mode, "%o", op.mode);
    Step& step = add(StepKind::tmpfs);
    step.a = place.relative();
    step.attr = writable_attributes();
    step.b = keep_string("mode=" + std::string(mode) + ",size=" + std::to_string(op.size.value) +
                         ",nr_inodes=" + std::to_string(op.inodes));
    cover(place, Cover::ours);
    return {};
  }

  uint64_t writable_attributes() const { return spec_.hardening.writable_noexec ? SBX_MOUNT_ATTR_NOEXEC : 0; }

  // A fresh directory on the one private tmpfs; its absolute path before the pivot.
  std::string private_directory(uint32_t mode) {
    if (private_count_ == 0) {
      Step& step = add(StepKind::tmpfs);
      step.a = keep_string(kStaging);
      private_step_ = out_->steps_.size() - 1;
      ++private_inodes_;  // its root
    }
    ++private_inodes_;
    const std::string path = std::string(kStaging) + "/" + std::to_string(private_count_++);
    Step& step = add(StepKind::make_dir);
    step.a = keep_string(path);
    step.mode = mode;
    return path;
  }

  Status operation(const PrivateDirOp& op) {
    begin_op("private directory", op.target);
    const Place place = make_directory(op.target);
    const std::string path = private_directory(op.mode);
    Step& step = add(StepKind::clone_bind);
    step.a = keep_string(path);
    step.b = place.relative();
    step.attr = writable_attributes();
    cover(place, Cover::on_private_tmpfs);
    return keep_directory(op.target, path);
  }

  Status keep_directory(const std::string& target, const std::string& path) {
    for (size_t i = 0; i < options_.keep.size(); ++i) {
      if (options_.keep[i] != target) continue;
      if (i + 1 >= static_cast<size_t>(kMaxKept)) return Error(ErrorKind::internal, "too many directories to keep");
      out_->keep_slots[i] = static_cast<int>(i) + 1;
      Step& step = add(StepKind::open_keep);
      step.a = keep_string(path);
      step.n = i + 1;
    }
    return {};
  }

  Status operation(const DirOp& op) {
    begin_op("directory", op.target);
    make_place(place_at(op.target), true, op.mode);
    return {};
  }

  Status operation(const SymlinkOp& op) {
    return make_link(op.target, op.text);
  }

  Status make_link(std::string_view target, std::string_view text) {
    begin_op("link", target);
    const Place place = place_at(target);
    SBX_TRY(must_be_ours(place));
    Step& step = add(StepKind::make_symlink);
    step.a = place.relative();
    step.b = keep_string(text);
    count_inode(place.cover);
    place.known->link = true;
    return {};
  }

  static Status must_be_ours(const Place& place) {
    if (!place.confined) return {};
    return Error(ErrorKind::usage, "cannot make " + quoted_path(place.path) + " inside the sandbox: it lies in a host directory that is shared there")
        .with_hint("nothing is ever created in a shared directory; choose another place");
  }

  Status operation(const FileOp& op) {
    Step& step = *SBX_TRY(new_file(StepKind::write_file, op.target, op.mode, op.content.size()));
    step.b = op.content.data();
    step.n = op.content.size();
    return {};
  }

  Status operation(const CopyFdOp& op) {
    const struct stat info = SBX_TRY(sys::fstat(op.source.value));
    Step& step = *SBX_TRY(new_file(StepKind::copy_fd, op.target, op.mode, static_cast<uint64_t>(info.st_size)));
    step.fd = op.source.value;
    return {};
  }

  // A step that fills a new file in the root; valid until the next one is added.
  Result<Step*> new_file(StepKind kind, const std::string& target, uint32_t mode, uint64_t size) {
    begin_op("file", target);
    const Place place = place_at(target);
    SBX_TRY(must_be_ours(place));
    Step& step = add(kind);
    step.a = place.relative();
    step.mode = mode;
    place.known->made = true;
    root_bytes_ += (size + 4095) / 4096 * 4096;
    count_inode(place.cover);
    return &step;
  }

  Status operation(const ProcOp& op) {
    begin_op("mount proc on", op.target);
    const Place place = make_directory(op.target);
    add(StepKind::proc).a = place.relative();
    cover(place, Cover::ours);
    Step& keep = add(StepKind::open_keep);
    keep.a = place.relative();
    keep.n = 0;
    if (!spec_.hardening.nested_userns) {
      begin_op("forbid further user namespaces");
      Step& step = add(StepKind::write_to);
      step.a = relative(op.target + "/sys/user/max_user_namespaces");
      step.b = keep_string("0");
      step.n = 1;
    }
    bound_watches(op.target);
    const bool read_only = spec_.hardening.writable_noexec;
    if (op.subset_pid || read_only) {
      // Over the whole one, which has served for the settings above; nobody inside can take a mount away.
      begin_op(op.subset_pid ? "proc of processes alone on" : "read-only proc on", op.target);
      Step& upper = add(StepKind::proc);
      upper.a = place.relative();
      if (op.subset_pid) upper.b = keep_string("subset=pid");
      // /proc/self/mem writes code that is mapped read-only, by the kernel's hand.
      if (read_only) upper.attr = SBX_MOUNT_ATTR_RDONLY;
    }
    if (!op.masked) return {};
    for (const char* name : {"sys", "bus", "irq", "fs", "acpi", "scsi"}) {
      Step& step = mask(op.target, name);
      step.a = out_->ops_.back().place + 1;
      step.attr = SBX_MOUNT_ATTR_RDONLY;
      step.flags = kOverSelf | kMayBeMissing;
    }
    for (const char* name : {"kcore", "keys", "kmsg", "timer_list", "sysrq-trigger", "cmdline", "locks", "interrupts"}) {
      Step& step = mask(op.target, name);
      // Where the sandbox has no devices (yet), the host's: the old root is still below us.
      step.a = devices_made_ ? "dev/null" : "/dev/null";
      step.b = out_->ops_.back().place + 1;
      step.flags = kMayBeMissing;
    }
    return {};
  }

  Step& mask(const std::string& proc, const char* name) {
    begin_op("mask", proc + "/" + name);
    return add(StepKind::clone_bind);
  }

  // inotify is counted for the user who made the namespace too: without a bound of its own a sandbox could use up all
  // that the caller has on the host, and nothing of the caller's would see files change any more.
  void bound_watches(const std::string& proc) {
    begin_op("bound the watches of files");
    const std::pair<const char*, const char*> bounds[] = {{"max_inotify_instances", "32"}, {"max_inotify_watches", "32768"}};
    for (const auto& [name, value] : bounds) {
      Step& step = add(StepKind::write_to);
      step.a = relative(proc + "/sys/user/" + name);
      step.b = keep_string(value);
      step.n = std::strlen(value);
      step.flags = kMayBeMissing;  // a kernel without inotify
    }
  }

  Status operation(const DevOp& op) {
    begin_op("devices on", op.target);
    make_directory(op.target);
    std::vector<std::string> names(std::begin(kDevices), std::end(kDevices));
    if (options_.terminal) names.push_back("tty");
    for (const std::string& name : names) {
      BindOp bind;
      bind.source = "/dev/" + name;
      bind.target = op.target + "/" + name;
      // Devices are written all the same; what cannot be changed is the host's node: its times, which others see.
      bind.read_only = true;
      bind.devices = true;
      bind.no_exec = true;
      begin_op("device", bind.target);
      Source source = SBX_TRY(find(bind));
      const Place place = place_at(bind.target);
      make_place(place, false);
      SBX_TRY(bring(bind, source, place));
      cover(place, Cover::stranger);
    }
    const std::string terminals = op.target + "/pts";
    begin_op("mount devpts on", terminals);
    const Place place = make_directory(terminals);
    add(StepKind::devpts).a = place.relative();
    devices_made_ = op.target == "/dev";
    const std::pair<const char*, const char*> links[] = {{"ptmx", "pts/ptmx"},
                                                         {"fd", "/proc/self/fd"},
                                                         {"stdin", "/proc/self/fd/0"},
                                                         {"stdout", "/proc/self/fd/1"},
                                                         {"stderr", "/proc/self/fd/2"}};
    for (const auto& [name, text] : links) SBX_TRY(make_link(op.target + "/" + name, text));
    return {};
  }

  Status operation(const OverlayOp& op) {
    BindOp lower;
    lower.source = op.lower;
    lower.target = op.target;
    lower.idmap = true;
    lower.no_links = true;
    lower.origin = op.origin;
    SBX_TRY(operation(lower));
    begin_op("mount overlay on", op.target, "", op.origin);
    const struct stat info = SBX_TRY(sys::stat(op.lower));
    // The upper directory's mode is what the payload sees of the top directory.
    const std::string upper = private_directory((info.st_mode & 0777u) | 0700u);
    const std::string work = private_directory(0700);
    private_inodes_ += 2;  // the kernel's own: a directory in there, and what it copies up at the moment
    Step& step = add(StepKind::overlay);
    step.a = relative(op.target);
    step.attr = writable_attributes();
    step.b = keep_string("lowerdir=" + escape_overlay(op.target.substr(1)) + ",upperdir=" + upper +
                         ",workdir=" + work + ",userxattr");
    return keep_directory(op.target, upper);
  }

  Status operation(const ReadOnlyOp& op) { return over_self(op.target, SBX_MOUNT_ATTR_RDONLY, "keep read-only"); }
  Status operation(const PinOp& op) { return over_self(op.target, 0, "pin"); }

  Status over_self(const std::string& target, uint64_t attributes, const char* verb) {
    begin_op(verb, target);
    Step& step = add(StepKind::clone_bind);
    step.a = relative(target);
    step.attr = attributes;
    step.flags = kOverSelf | kMayBeMissing | kResolveTarget;
    return {};
  }

  // ---- the rest ------------------------------------------------------------------------------------------------

  void limit(int resource, uint64_t value, const char* name) {
    struct rlimit now {};
    if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &now) == 0 && now.rlim_max != RLIM_INFINITY &&
        value > now.rlim_max) {
      // Raising a hard limit needs CAP_SYS_RESOURCE on the host; the tighter one holds.
      out_->notes.push_back(std::string(name) + " is held at the caller's own hard limit, " + std::to_string(now.rlim_max));
      value = now.rlim_max;
    }
    out_->rlimits_.push_back({resource, value});
  }

  Status rlimits() {
    const Limits& limits = spec_.limits;
    // One byte: no core file, and the kernel starts no core_pattern helper at exactly this value (fs/coredump.c).
    limit(RLIMIT_CORE, 1, "core");
    if (limits.file_size) limit(RLIMIT_FSIZE, limits.file_size->value, "file size");
    if (limits.open_files) limit(RLIMIT_NOFILE, *limits.open_files, "open files");
    // Counted for the caller's user as well, all of a sandbox's together: half is left for the caller's own timers,
    // queued signals, message queues and locked memory.
    for (const auto resource : {RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE, RLIMIT_MEMLOCK}) {
      struct rlimit now {};
      if (::getrlimit(resource, &now) != 0) return Error::from_errno(errno, "read a resource limit");
      if (now.rlim_cur == RLIM_INFINITY) continue;
      out_->rlimits_.push_back({resource, now.rlim_cur / 2});
    }
    if (limits.pids && !options_.pids_controller) limit(RLIMIT_NPROC, *limits.pids + 1, "pids");  // init counts
    if (options_.data_limit != 0) limit(RLIMIT_DATA, options_.data_limit, "data");
    // A second net for each process; the tree's sum is the supervisor's. Not where a process lives for many programs' time.
    if (limits.cpu_time && !options_.keep_root) {
      limit(RLIMIT_CPU, static_cast<uint64_t>(limits.cpu_time->value / 1000 + 2), "cpu time");
    }
    return {};
  }

  Status affinity() {
    if (!spec_.limits.cpus_milli) return {};
    const uint64_t milli = *spec_.limits.cpus_milli;
    const auto origin = spec_.origins.find("limits.cpus");
    if (milli % 1000 != 0 && !options_.cpu_controller) {
      return Error(ErrorKind::unsupported, "a fraction of a CPU needs a cgroup with the cpu controller, which is not to be had here")
          .with_origin(origin == spec_.origins.end() ? "" : origin->second)
          .with_hint("ask for a whole number of CPUs, which is held by CPU affinity: --cpus " + std::to_string(milli / 1000 + 1));
    }
    cpu_set_t mine;
    CPU_ZERO(&mine);
    if (::sched_getaffinity(0, sizeof mine, &mine) != 0) return Error::from_errno(errno, "read the CPU affinity");
    const int available = CPU_COUNT(&mine);
    // With a controller for the rest: a runtime that counts CPUs sees as many as the fraction touches.
    uint64_t wanted = std::min<uint64_t>((milli + 999) / 1000, static_cast<uint64_t>(available));
    // Start somewhere that differs from sandbox to sandbox, or all of them would share the first CPUs.
    int skip = available > 0 ? static_cast<int>(static_cast<unsigned>(::getpid()) % static_cast<unsigned>(available)) : 0;
    cpu_set_t chosen;
    CPU_ZERO(&chosen);
    for (int round = 0; round < 2; ++round) {
      for (int cpu = 0; cpu < CPU_SETSIZE && wanted > 0; ++cpu) {
        if (!CPU_ISSET(cpu, &mine) || CPU_ISSET(cpu, &chosen)) continue;
        if (skip > 0) {
          --skip;
          continue;
        }
        CPU_SET(cpu, &chosen);
        --wanted;
      }
      skip = 0;
    }
    out_->affinity_.resize(sizeof chosen / sizeof(unsigned long));
    std::memcpy(out_->affinity_.data(), &chosen, sizeof chosen);
    return {};
  }

  Status hardening() {
    ChildPlan& plan = out_->plan;
    plan.last_capability = last_capability();
    plan.keep_capabilities = SBX_TRY(capability_mask(spec_.hardening.keep_capabilities));
    if (spec_.hardening.landlock && facts_.landlock_abi > 0) {
      std::vector<std::string> with_sockets;
      for (const FsOp& op : spec_.fs) {
        if (const BindOp* bind = std::get_if<BindOp>(&op); bind != nullptr && bind->sockets) with_sockets.push_back(bind->target);
      }
      LandlockPlan landlock = SBX_TRY(plan_landlock(facts_.landlock_abi, spec_.writable_paths, with_sockets));
      for (LandlockPathRule& rule : landlock.rules) {
        out_->landlock_rules_.push_back({keep_string(std::move(rule.path)), rule.rights, rule.may_be_missing ? 1u : 0u});
      }
      out_->landlock_ruleset_ = std::move(landlock.ruleset);
      out_->landlock_abi = facts_.landlock_abi;
    }
    return {};
  }

  Status command() {
    if (spec_.argv.empty()) return Error(ErrorKind::internal, "no command");
    for (std::string& candidate : program_candidates(spec_.exec_path, spec_.environment)) {
      out_->candidates_.push_back(keep_string(std::move(candidate)));
    }
    for (const std::string& word : spec_.argv) out_->argv_.push_back(keep_string(word));
    for (const std::string& entry : spec_.environment) out_->envp_.push_back(keep_string(entry));
    out_->candidates_.push_back(nullptr);
    out_->argv_.push_back(nullptr);
    out_->envp_.push_back(nullptr);
    return {};
  }

  static const sock_fprog* program(std::span<const sock_filter> instructions, sock_fprog& into) {
    if (instructions.empty()) return nullptr;
    into.len = static_cast<unsigned short>(instructions.size());
    into.filter = const_cast<sock_filter*>(instructions.data());  // the kernel only reads it
    return &into;
  }

  void finish() {
    ChildPlan& plan = out_->plan;
    plan.uid = spec_.identity.uid;
    plan.gid = spec_.identity.gid;
    plan.drop_groups = options_.leased;
    plan.must_have_keyring = options_.must_have_keyring;
    plan.network_namespace = spec_.net == NetMode::none;
    plan.cgroup_namespace = spec_.namespaces.cgroup;
    plan.oom_score = !options_.leased;
    plan.steps = out_->steps_.data();
    plan.step_count = static_cast<uint32_t>(out_->steps_.size());
    if (spec_.namespaces.uts && !spec_.hostname.empty()) {
      plan.hostname = keep_string(spec_.hostname);
      plan.hostname_size = static_cast<uint32_t>(spec_.hostname.size());
    }
    plan.read_only_root = spec_.read_only_root;
    plan.new_session = spec_.new_session || options_.terminal;
    plan.open_terminal = options_.terminal;
    plan.terminal = options_.terminal_setup;
    plan.rlimits = out_->rlimits_.data();
    plan.rlimit_count = static_cast<uint32_t>(out_->rlimits_.size());
    if (!out_->affinity_.empty()) {
      plan.affinity = out_->affinity_.data();
      plan.affinity_bytes = static_cast<uint32_t>(out_->affinity_.size() * sizeof(unsigned long));
    }
    plan.landlock_ruleset = out_->landlock_ruleset_.valid() ? out_->landlock_ruleset_.get() : -1;
    plan.landlock_rules = out_->landlock_rules_.data();
    plan.landlock_rule_count = static_cast<uint32_t>(out_->landlock_rules_.size());
    plan.filter = program(options_.filter, out_->filter_);
    plan.reporting_filter = program(options_.reporting_filter, out_->reporting_filter_);
    if (options_.start_key[0] != 0) {
      plan.start_path = options_.start_key[0];
      plan.start_argv = options_.start_key[1];
      plan.start_envp = options_.start_key[2];
      plan.argv_bytes = out_->argv_.size() * sizeof(char*);
      plan.envp_bytes = out_->envp_.size() * sizeof(char*);
      for (const char* candidate : out_->candidates_)
        if (candidate != nullptr) plan.start_path_bytes = std::max(plan.start_path_bytes, uint64_t{std::strlen(candidate)} + 1);
    }
    plan.working_directory = keep_string(spec_.working_directory);
    plan.candidates = out_->candidates_.data();
    plan.argv = out_->argv_.data();
    plan.envp = out_->envp_.data();
  }

  const SandboxSpec& spec_;
  const HostFacts& facts_;
  const PlanOptions& options_;
  std::unique_ptr<PlannedChild> out_;
  std::unordered_map<std::string_view, Known> known_;  // the keys are kept texts
  uint32_t covers_ = 0;
  std::map<std::pair<uint32_t, uint32_t>, UniqueFd> map_namespaces_;
  size_t spec_index_ = 0;
  uint64_t root_bytes_ = 0, root_inodes_ = 0, private_inodes_ = 0;
  bool devices_made_ = false;
  size_t private_step_ = 0;
  unsigned private_count_ = 0;
};

std::vector<std::string> program_candidates(const std::string& exec_path, const std::vector<std::string>& environment) {
  if (exec_path.find('/') != std::string::npos) return {exec_path};
  std::vector<std::string> candidates;
  for (const std::string& entry : environment) {
    if (!starts_with(entry, "PATH=")) continue;
    for (const std::string& directory : split(std::string_view(entry).substr(5), ':')) {
      // An empty or relative entry means the working directory, which a stranger fills: never.
      if (!directory.empty() && directory[0] == '/') candidates.push_back(join_path(directory, exec_path));
    }
  }
  return candidates;
}

const char* KeptText::keep(std::string_view text) {
  if (text.empty()) return "";
  if (text.size() >= left_) {
    const size_t size = std::max<size_t>(text.size() + 1, 8000);
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(size));
    next_ = blocks_.back().get();
    left_ = size;
  }
  char* const kept = next_;
  std::memcpy(kept, text.data(), text.size());
  kept[text.size()] = '\0';
  next_ += text.size() + 1;
  left_ -= text.size() + 1;
  return kept;
}

std::string PlannedChild::step_text(uint32_t step) const {
  if (step >= steps_.size()) return "make mounts private";
  const Op& op = ops_[steps_[step].op];
  std::string text = op.verb;
  if (op.source[0] != '\0') text += " " + quoted_path(op.source) + " on";
  if (op.place[0] != '\0') text += " " + quoted_path(op.place);
  return text;
}

std::string PlannedChild::step_origin(uint32_t step) const {
  return step < steps_.size() ? ops_[steps_[step].op].origin : "";
}

std::string PlannedChild::text() const {
  static constexpr const char* kNames[] = {"tmpfs", "make_dir",   "make_symlink", "write_file", "write_to",
                                           "copy_fd", "bind",     "clone_bind",   "attach",     "proc",
                                           "devpts",  "overlay",  "cgroup",       "open_keep"};
  std::string text;
  for (const Step& step : steps_) {
    text += kNames[static_cast<size_t>(step.kind)];
    if (step.a != nullptr) text += " " + shell_quote(step.a);
    if (step.kind != StepKind::write_file && step.kind != StepKind::write_to && step.b != nullptr) {
      text += " " + shell_quote(step.b);
    }
    if ((step.attr & SBX_MOUNT_ATTR_RDONLY) != 0) text += " ro";
    if ((step.flags & kResolveTarget) != 0) text += " confined";
    text += "\n";
  }
  return text;
}

Result<std::unique_ptr<PlannedChild>> build_plan(const SandboxSpec& spec, const HostFacts& facts,
                                                 const PlanOptions& options) {
  return PlanBuilder(spec, facts, options).build();
}

}  // namespace sbx::ns
