// Theory of operation. Layers are mounted upon "/", which stays the caller's root for this process: sources are found by
// absolute paths, and the uppermost layer, which is to be the new root, is the working directory ("/.." leads there).
// Every destination is looked up in it with openat2(RESOLVE_IN_ROOT), so that no link in it, whoever made it, leads to
// the caller's files. At the end pivot_root(".", ".") puts the uppermost layer under all others, which are then taken
// off, the caller's root with everything below it last.
//
// A clone of the caller's root with all that is mounted in it would have the layers in it as well, so operations that
// want one get it before the first layer is there.
//
// The first layer is an empty tmpfs, or whatever the first operation mounts at "/": upstream's own tmpfs below that can
// never be seen.
#include "bwrap/view.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <vector>

#include "base/raw_sys.h"
#include "base/sys.h"
#include "base/text.h"
#include "ns/child.h"

namespace sbx::bwrap {
namespace {

using ns::Step;
using ns::StepKind;
using ns::StepPart;

constexpr uint64_t kPlain = MS_NOSUID | MS_NODEV;

// Nothing but slashes, "." and "..": the root, whatever links there are.
bool is_root(std::string_view path) {
  const std::vector<std::string> names = split(path, '/');
  return std::all_of(names.begin(), names.end(), [](const std::string& name) { return name.empty() || name == "." || name == ".."; });
}

// Whether the last component of a path may lead back to the root.
bool may_be_root(std::string_view path) {
  while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  const std::string_view last = path.substr(path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/') + 1);
  return last.empty() || last == "." || last == "..";
}

// Parents are as closed to groups and others as what is made in them; for what has no permissions of its own (binds,
// links …) they are the owner's alone.
uint32_t parent_mode(const Operation& op) {
  const int perms = op.perms < 0 ? 0 : op.perms;
  uint32_t mode = 0755;
  if ((perms & 0070) == 0) mode &= ~0050u;
  if ((perms & 0007) == 0) mode &= ~0005u;
  return mode;
}

std::string octal(int mode) {
  std::string digits;
  for (int left = mode; left != 0; left /= 8) digits.insert(digits.begin(), static_cast<char>('0' + left % 8));
  return "0" + digits;
}

uint64_t attributes(Access access) {
  return SBX_MOUNT_ATTR_NOSUID | (access == Access::devices ? 0 : SBX_MOUNT_ATTR_NODEV) |
         (access == Access::read_only ? SBX_MOUNT_ATTR_RDONLY : 0);
}

// A step with what its messages need.
struct Planned {
  Step step;
  const Operation* op = nullptr;  // nullptr: a layer of our own
  std::string what;               // of --dev and --proc: the entry; else ""
};

class Planner {
 public:
  Planner(const Options& options, const ViewContext& context) : options_(options), context_(context), voice_(context.voice) {}

  // All sources up front: they are the caller's paths, relative to its working directory.
  void find_sources() {
    for (const Operation& op : options_.operations) {
      Source source;
      if (op.kind == OperationKind::bind || op.kind == OperationKind::overlay) {
        source.path = real_path(op.source, op.may_be_missing, source.skip);
      }
      sources_.push_back(std::move(source));
      std::vector<int> lower;
      for (const std::string& layer : op.lower) lower.push_back(open_layer(layer));
      lower_.push_back(std::move(lower));
      work_.push_back(op.kind == OperationKind::overlay ? open_layer(op.work) : -1);
      upper_.push_back(op.kind == OperationKind::overlay ? open_layer(op.source) : -1);
    }
  }

  // With no layer there yet.
  void plan() {
    plan_layers();
    for (size_t i = 0; i < options_.operations.size(); ++i) plan_operation(options_.operations[i], sources_[i]);
  }

  // How many layers lie upon the old root.
  uint32_t perform() {
    ns::StepRun run;
    for (const Planned& planned : steps_) {
      const long result = ns::perform_step(planned.step, run);
      if (result < 0) fail(planned, run, static_cast<int>(-result));
      // Without a layer the working directory is the caller's own root, which nothing may be done to.
      if (run.layers == 0 && planned.step.kind != StepKind::host_name) voice_.die("the new root was not mounted");
    }
    return run.layers;
  }

 private:
  struct Source {
    std::string path;   // without links
    bool skip = false;
  };

  const char* keep(std::string text) {
    strings_.push_back(std::move(text));
    return strings_.back().c_str();
  }

  std::string real_path(const std::string& path, bool may_be_missing, bool& missing) const {
    char* found = ::realpath(path.c_str(), nullptr);
    if (found == nullptr) {
      missing = may_be_missing && errno == ENOENT;
      if (missing) return "";
      voice_.die("Can't find source path " + path, errno);
    }
    std::string text = found;
    std::free(found);
    return text;
  }

  int open_layer(const std::string& path) {
    bool missing = false;
    const std::string real = real_path(path, false, missing);
    Result<UniqueFd> fd = sys::open(real, O_PATH);
    if (!fd.ok()) voice_.die("Can't open source " + real, fd.error().errnum());
    kept_.push_back(fd.take());
    return kept_.back().get();
  }

  Planned& add(StepKind kind, const Operation* op, std::string what = "") {
    steps_.emplace_back();
    Planned& planned = steps_.back();
    planned.step.kind = kind;
    planned.step.flags = ns::kMakePlace;
    planned.op = op;
    planned.what = std::move(what);
    if (op != nullptr) {
      planned.step.parent_mode = parent_mode(*op);
      if (may_be_root(op->dest)) planned.step.flags |= ns::kMaybeRoot;
    }
    return planned;
  }

  Step& add_mount(const Operation* op, const char* type, const char* place, uint64_t flags, const char* options) {
    Step& step = add(StepKind::mount_at, op).step;
    step.a = type;
    step.b = place;
    step.c = options;
    step.attr = flags;
    return step;
  }

  void plan_layers() {
    bool data = false, first_is_root = false, first = true;
    for (size_t i = 0; i < options_.operations.size(); ++i) {
      const Operation& op = options_.operations[i];
      if (op.kind == OperationKind::tmp_overlay) ++tmp_overlays_;
      data |= op.kind == OperationKind::data;
      if (op.kind == OperationKind::hostname || sources_[i].skip) continue;
      const bool mounts = op.kind == OperationKind::bind || op.kind == OperationKind::tmpfs || op.kind == OperationKind::overlay;
      if (first) first_is_root = mounts && is_root(op.dest);
      first = false;
    }
    const bool extra = tmp_overlays_ > 0 || (data && first_is_root);
    if (extra || data) {
      // A number for the descriptor of the tmpfs, which paths in mount options can then name.
      Result<UniqueFd> number = sys::open("/", O_PATH);
      if (!number.ok()) voice_.die("can't open /", number.error().errnum());
      scratch_ = number.value().get();
      kept_.push_back(number.take());
    }
    if (extra) {
      layer(ns::kBecomesScratch);
      for (int i = 0; i < tmp_overlays_; ++i) {
        for (const char* part : {"upper", "work"}) {
          Step& step = add(StepKind::make_dir, nullptr).step;
          step.flags = 0;  // in the working directory, which nobody else has seen yet
          step.a = keep(part + std::to_string(i));
          step.mode = 0755;
        }
      }
    }
    if (!first_is_root) layer(data && !extra ? uint32_t{ns::kBecomesScratch} : 0u);
  }

  void layer(uint32_t flag) {
    Step& step = add_mount(nullptr, "tmpfs", ".", kPlain, "mode=0755");
    step.flags |= ns::kMaybeRoot | flag;
    step.n = static_cast<uint64_t>(scratch_);
  }

  void plan_operation(const Operation& op, const Source& source) {
    const char* const dest = op.dest.c_str();
    switch (op.kind) {
      case OperationKind::bind: {
        if (source.skip) return;
        Step& step = add_bind(&op, source.path, dest, op.access);
        if (op.fd >= 0) {
          Result<struct stat> seen = sys::fstat(op.fd);
          if (!seen.ok()) voice_.die("Can't stat fd " + std::to_string(op.fd), seen.error().errnum());
          step.n = seen.value().st_dev;
          step.m = seen.value().st_ino;
        }
        return;
      }
      case OperationKind::overlay:
      case OperationKind::tmp_overlay:
      case OperationKind::ro_overlay:
        add_mount(&op, "overlay", dest, kPlain, keep(overlay_options(op)));
        return;
      case OperationKind::proc: return plan_proc(op);
      case OperationKind::dev: return plan_dev(op);
      case OperationKind::tmpfs: {
        std::string options = "mode=" + octal(op.perms);
        if (op.size != 0) options += ",size=" + std::to_string(op.size);
        add_mount(&op, "tmpfs", dest, kPlain, keep(options));
        return;
      }
      case OperationKind::mqueue:
        add_mount(&op, "mqueue", dest, kPlain | MS_NOEXEC, nullptr);
        return;
      case OperationKind::dir: {
        Step& step = add(StepKind::make_dir, &op).step;
        step.a = dest;
        step.mode = static_cast<uint32_t>(op.perms);
        return;
      }
      case OperationKind::file: {
        Step& step = add(StepKind::copy_fd, &op).step;
        step.a = dest;
        step.fd = op.fd;
        step.mode = static_cast<uint32_t>(op.perms);
        return;
      }
      case OperationKind::data: {
        Step& step = add(StepKind::data, &op).step;
        step.b = dest;
        step.fd = op.fd;
        step.mode = static_cast<uint32_t>(op.perms);
        step.attr = attributes(op.access);
        return;
      }
      case OperationKind::symlink: {
        Step& step = add(StepKind::make_symlink, &op).step;
        step.a = dest;
        step.b = op.source.c_str();
        return;
      }
      case OperationKind::remount_ro: {
        Step& step = add(StepKind::restrict, &op).step;
        step.a = dest;
        step.attr = SBX_MOUNT_ATTR_RDONLY;
        return;
      }
      case OperationKind::hostname: {
        Step& step = add(StepKind::host_name, &op).step;
        step.a = dest;
        step.n = op.dest.size();
        return;
      }
      case OperationKind::chmod: {
        Step& step = add(StepKind::chmod, &op).step;
        step.a = dest;
        step.mode = static_cast<uint32_t>(op.perms);
        return;
      }
    }
  }

  Step& add_bind(const Operation* op, std::string source, const char* place, Access access, std::string what = "") {
    Step& step = add(StepKind::bind, op, std::move(what)).step;
    // Without links by now: one that has come since is somebody's trick. Below /proc links of the kernel's are wanted.
    if (!path_is_under(source, "/proc")) step.flags |= ns::kNoLinks;
    if (options_.not_a_security_boundary) step.flags |= ns::kMayBeLocked;
    if (source == "/") {
      const long tree = raw::call(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE | O_CLOEXEC | SBX_AT_RECURSIVE);
      if (tree < 0) voice_.die("Can't open source /", static_cast<int>(-tree));
      step.fd = static_cast<int>(tree);
    }
    step.a = keep(std::move(source));
    step.b = place;
    step.attr = attributes(access);
    return step;
  }

  // The order of the file system is the reverse of the command line's: the uppermost layer stands first.
  std::string overlay_options(const Operation& op) {
    const auto fd_path = [](int fd) { return "/proc/self/fd/" + std::to_string(fd); };
    const size_t at = static_cast<size_t>(&op - options_.operations.data());
    std::string text;
    if (op.kind == OperationKind::overlay) {
      text = "upperdir=" + fd_path(upper_[at]) + ",workdir=" + fd_path(work_[at]) + ",";
    } else if (op.kind == OperationKind::tmp_overlay) {
      const std::string number = std::to_string(next_tmp_overlay_++);
      text = "upperdir=" + fd_path(scratch_) + "/upper" + number + ",workdir=" + fd_path(scratch_) + "/work" + number + ",";
    }
    text += "lowerdir=";
    for (size_t i = lower_[at].size(); i-- > 0;) text += fd_path(lower_[at][i]) + (i > 0 ? ":" : "");
    return text + ",userxattr";
  }

  void plan_proc(const Operation& op) {
    if (context_.own_proc) {
      add_mount(&op, "proc", op.dest.c_str(), kPlain | MS_NOEXEC, nullptr);
    } else {
      Step& step = add_bind(&op, "/proc", op.dest.c_str(), Access::read_write);
      step.flags &= ~static_cast<uint32_t>(ns::kNoLinks);
    }
    if (!context_.seal_kernel_settings) return;
    for (const char* name : {"sys", "sysrq-trigger", "irq", "bus"}) {
      Step& step = add(StepKind::clone_bind, &op, name).step;
      step.flags = ns::kResolveTarget | ns::kOverSelf | ns::kMayBeMissing;
      step.a = keep(op.dest + "/" + name);
      step.attr = attributes(Access::read_only);
    }
  }

  void plan_dev(const Operation& op) {
    add_mount(&op, "tmpfs", op.dest.c_str(), kPlain, "mode=0755").flags |= ns::kBecomesBase;
    for (const char* node : {"null", "zero", "full", "random", "urandom", "tty"}) add_node(op, std::string("/dev/") + node, node);
    add_entry(op, StepKind::make_symlink, "stdin", "/proc/self/fd/0");
    add_entry(op, StepKind::make_symlink, "stdout", "/proc/self/fd/1");
    add_entry(op, StepKind::make_symlink, "stderr", "/proc/self/fd/2");
    add_entry(op, StepKind::make_symlink, "fd", "/proc/self/fd");
    add_entry(op, StepKind::make_symlink, "core", "/proc/kcore");
    add_entry(op, StepKind::make_dir, "shm", nullptr).mode = 0755;
    Step& pts = add(StepKind::mount_at, &op, "pts").step;
    pts.flags = ns::kMakePlace | ns::kBelowBase;
    pts.a = "devpts";
    pts.b = "pts";
    pts.c = "newinstance,ptmxmode=0666,mode=620";
    pts.attr = MS_NOSUID | MS_NOEXEC;
    add_entry(op, StepKind::make_symlink, "ptmx", "pts/ptmx");
    if (!context_.terminal.empty()) add_node(op, context_.terminal, "console");
  }

  void add_node(const Operation& op, std::string source, const char* name) {
    Step& step = add_bind(&op, std::move(source), name, Access::devices, name);
    step.flags = ns::kMakePlace | ns::kBelowBase;
  }

  Step& add_entry(const Operation& op, StepKind kind, const char* name, const char* says) {
    Step& step = add(kind, &op, name).step;
    step.flags = ns::kMakePlace | ns::kBelowBase;
    step.a = name;
    step.b = says;
    return step;
  }

  // ---- what went wrong

  [[noreturn]] void fail(const Planned& planned, const ns::StepRun& run, int errnum) const {
    if (planned.op == nullptr) voice_.die_mount("Failed to mount tmpfs", errnum);
    const Operation& op = *planned.op;
    const std::string dest = op.dest + (planned.what.empty() ? "" : "/" + planned.what);
    const std::string source = planned.step.kind == StepKind::bind ? planned.step.a : "tmpfile";
    const std::string bind = "Can't bind mount " + source + " on " + (planned.what.empty() ? dest : planned.what) + ": ";
    switch (run.part) {
      case StepPart::open_source: voice_.die("Can't open source " + source, errnum);
      case StepPart::stale_source: voice_.die("Race condition binding dirfd", errnum);
      case StepPart::parents: voice_.die("Can't mkdir parents for " + dest, errnum);
      case StepPart::place: voice_.die((op.kind == OperationKind::chmod ? "Can't open " : "Can't create file ") + dest, errnum);
      case StepPart::look: voice_.die("Can't get type of dest " + dest, errnum);
      case StepPart::symlink_place: voice_.die("Can't mount on symlink destination " + dest);
      case StepPart::not_a_directory: voice_.die("Destination is not a directory " + dest);
      case StepPart::not_a_file: voice_.die("Destination is not a file " + dest);
      case StepPart::attributes: voice_.die_mount(bind + "Unable to apply mount flags: remount \"" + in_new_root(dest) + "\"", errnum);
      case StepPart::make_data: voice_.die("Can't create tmpfile for " + dest, errnum);
      case StepPart::write: voice_.die("Can't write data to file " + dest, errnum);
      case StepPart::no_mount:
        voice_.die("Can't remount readonly on " + dest + ": Unable to find \"" + in_new_root(dest) + "\" in mount table");
      case StepPart::other_link: voice_.die("Can't make symlink at " + dest + ": existing destination is " + run.text);
      case StepPart::no_link: voice_.die("Can't make symlink at " + dest + ": destination exists and is not a symlink");
      case StepPart::act: break;
    }
    switch (planned.step.kind) {
      case StepKind::bind:
      case StepKind::data:
      case StepKind::clone_bind: voice_.die_mount(bind + "Unable to mount source on destination", errnum);
      case StepKind::make_symlink: voice_.die("Can't make symlink at " + dest, errnum);
      case StepKind::restrict:
        voice_.die_mount("Can't remount readonly on " + dest + ": Unable to remount destination \"" + in_new_root(dest) + "\" with correct flags", errnum);
      case StepKind::chmod: voice_.die("Can't chmod " + octal(op.perms) + " " + dest, errnum);
      case StepKind::host_name: voice_.die("Can't set hostname to " + op.dest, errnum);
      case StepKind::mount_at: break;
      default: voice_.die("Can't create " + dest, errnum);
    }
    const std::string type = planned.step.a;
    if (type == "overlay") {
      const std::string text = "Can't make overlay mount on " + dest + " with options " + planned.step.c;
      // The standard text of ELOOP speaks of symbolic links.
      if (errnum == ELOOP) voice_.die(text + ": Overlay directories may not overlap");
      voice_.die_mount(text, errnum);
    }
    if (type == "proc" && errnum == EPERM) {
      voice_.warn_as_error("Can't mount proc on " + dest + ": " + mount_errno_text(errnum));
      voice_.hint(runtime::mend_masked_proc(runtime::read_namespace_knobs()).text());
      ::_exit(1);
    }
    voice_.die_mount("Can't mount " + type + " on " + dest, errnum);
  }

  // Upstream's set-up has the new root at this path, which its messages show.
  static std::string in_new_root(const std::string& dest) { return "/newroot" + (starts_with(dest, "/") ? dest : "/" + dest); }

  const Options& options_;
  const ViewContext& context_;
  const Voice& voice_;
  std::vector<Source> sources_;
  std::vector<std::vector<int>> lower_;
  std::vector<int> upper_, work_;
  std::deque<std::string> strings_;
  std::vector<UniqueFd> kept_;
  std::vector<Planned> steps_;
  int scratch_ = -1;
  int tmp_overlays_ = 0;
  int next_tmp_overlay_ = 0;
};

}  // namespace

void make_view(const Options& options, const ViewContext& context) {
  const Voice& voice = context.voice;
  Planner planner(options, context);
  planner.find_sources();
  // What is mounted outside from now on still comes in; nothing goes out.
  if (::mount(nullptr, "/", nullptr, MS_SILENT | MS_SLAVE | MS_REC, nullptr) < 0) voice.die("Failed to make / slave", errno, runtime::NamespaceStep::mount);
  planner.plan();
  if (::chdir("/") != 0) voice.die("chdir /", errno);
  const uint32_t layers = planner.perform();
  if (const long moved = raw::call(SYS_pivot_root, ".", "."); moved < 0) voice.die("pivot_root", static_cast<int>(-moved));
  // The uppermost of what lies on the new root now: the layers below it, then the old root.
  for (uint32_t i = 0; i < layers; ++i) {
    if (::umount2(".", MNT_DETACH) != 0) voice.die("unmount old root", errno);
  }
  if (::chdir("/") != 0) voice.die("chdir /", errno);
  for (const Operation& op : options.operations) {
    if (op.fd >= 0) ::close(op.fd);
  }
}

}  // namespace sbx::bwrap
