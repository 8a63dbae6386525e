#include "policy/bwrap/parse.h"

#include <strings.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "base/text.h"

namespace sbx::bwrap {
namespace {

// Half of what a size_t holds: the kernel's own limits lie somewhere below all of it.
constexpr uint64_t kMaxTmpfsBytes = UINT64_MAX >> 1;

// linux/capability.h, in its order: the number of a capability is its place here.
constexpr const char* kCapabilities[] = {
    "chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap",
    "linux_immutable", "net_bind_service", "net_broadcast", "net_admin", "net_raw", "ipc_lock", "ipc_owner",
    "sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct", "sys_admin", "sys_boot", "sys_nice",
    "sys_resource", "sys_time", "sys_tty_config", "mknod", "lease", "audit_write", "audit_control", "setfcap",
    "mac_override", "mac_admin", "syslog", "wake_alarm", "block_suspend", "audit_read", "perfmon", "bpf",
    "checkpoint_restore",
};

// A name with its "cap_", in any case, or a number: what libcap reads.
std::optional<uint64_t> capability(const std::string& word, uint32_t last) {
  if (::strcasecmp(word.c_str(), "all") == 0) return ~uint64_t{0};
  if (!word.empty() && std::isdigit(static_cast<unsigned char>(word[0])) != 0) {
    char* end = nullptr;
    errno = 0;
    const unsigned long number = std::strtoul(word.c_str(), &end, 0);
    if (*end != '\0' || errno != 0 || number > last || number > 63) return std::nullopt;
    return uint64_t{1} << number;
  }
  if (::strncasecmp(word.c_str(), "cap_", 4) != 0) return std::nullopt;
  for (size_t i = 0; i < std::size(kCapabilities); ++i) {
    if (::strcasecmp(word.c_str() + 4, kCapabilities[i]) == 0) return uint64_t{1} << i;
  }
  return std::nullopt;
}

// What strtol(3) takes as a whole: white space and a sign before it are fine. Negative and too large ones are not.
std::optional<int> whole_number(const std::string& word) {
  char* end = nullptr;
  errno = 0;
  const long number = std::strtol(word.c_str(), &end, 10);
  if (word.empty() || *end != '\0' || errno != 0 || number < 0 || number > INT_MAX) return std::nullopt;
  return static_cast<int>(number);
}

std::optional<int> octal(const std::string& word) {
  char* end = nullptr;
  errno = 0;
  const unsigned long number = std::strtoul(word.c_str(), &end, 8);
  if (word.empty() || *end != '\0' || errno != 0 || number > 07777) return std::nullopt;
  return static_cast<int>(number);
}


class Parser {
 public:
  explicit Parser(const ParseContext& context) : context_(context) {}

  Parsed run(std::span<const std::string> words) {
    total_ = words.size();
    if (read(words, false)) {
      if (!lower_.empty()) fail(kDanglingLayer);
    }
    return std::move(result_);
  }

  // ---- what the rows of the table call; false ends the parse

  bool help() { return end(Parsed::What::help); }
  bool version() { return end(Parsed::What::version); }
  bool level_prefix() {
    prefixed_ = true;
    o().level_prefix = true;
    return true;
  }

  bool args() {
    if (in_file_) return fail("--args not supported in arguments file");
    if (!has(1, "an argument")) return false;
    int fd = -1;
    if (!descriptor(fd)) return false;
    Result<std::string> data = context_.read_fd(fd);
    if (!data.ok()) return fail("Can't read --args data: " + plain_errno_text(data.error().errnum()));
    std::vector<std::string> words;
    const std::string& bytes = data.value();
    for (size_t at = 0; at < bytes.size();) {
      if (++total_ > kMaxWords) return too_many();
      size_t stop = bytes.find('\0', at);
      if (stop == std::string::npos) stop = bytes.size();
      words.push_back(bytes.substr(at, stop - at));
      at = stop + 1;
    }
    // The rest of a file behind its first word that is no option is dropped: COMMAND comes from the command line only.
    const std::span<const std::string> outer = words_;
    const size_t outer_at = at_;
    const std::string option = option_;
    in_file_ = true;
    const bool fine = read(words, true);
    in_file_ = false;
    words_ = outer;
    at_ = outer_at;
    option_ = option;
    return fine;
  }

  bool argv0() {
    if (!has(1, "one argument")) return false;
    if (o().argv0.has_value()) return fail("--argv0 used multiple times");
    o().argv0 = word(1);
    return true;
  }
  bool chdir() {
    if (!has(1, "one argument")) return false;
    return once(o().chdir, word(1));
  }
  bool unshare_all() {
    Options& options = o();
    options.unshare_user_try = options.unshare_ipc = options.unshare_pid = options.unshare_net = true;
    options.unshare_uts = options.unshare_cgroup_try = true;
    return true;
  }
  template <bool Options::*Field, bool kValue = true>
  bool flag() {
    o().*Field = kValue;
    return true;
  }
  template <int Options::*Field>
  bool fd_option() {
    if (!has(1, "an argument")) return false;
    if (o().*Field != -1) only_last();
    return descriptor(o().*Field);
  }
  bool filter_fd() {
    if (!has(1, "an argument")) return false;
    if (!o().filters.empty()) return fail("--seccomp cannot be combined with --add-seccomp-fd");
    if (o().filter_fd != -1) only_last();
    return descriptor(o().filter_fd);
  }
  bool add_filter() {
    if (!has(1, "an argument")) return false;
    if (o().filter_fd != -1) return fail("--add-seccomp-fd cannot be combined with --seccomp");
    int fd = -1;
    if (!descriptor(fd)) return false;
    Result<std::string> data = context_.read_fd(fd);
    if (!data.ok()) return fail("Can't read seccomp data: " + plain_errno_text(data.error().errnum()));
    if (data.value().size() % 8 != 0) return fail("Invalid seccomp data, must be multiple of 8");
    o().filters.push_back(data.take());
    return true;
  }
  bool label() {
    if (!has(1, "an argument")) return false;
    return fail("labeling not supported on this system");
  }
  template <std::optional<uint32_t> Options::*Field, bool kUser>
  bool id() {
    if (!has(1, "an argument")) return false;
    if ((o().*Field).has_value()) only_last();
    const std::optional<int> number = whole_number(word(1));
    if (!number.has_value()) return fail(std::string(kUser ? "Invalid uid: " : "Invalid gid: ") + word(1));
    o().*Field = static_cast<uint32_t>(*number);
    return true;
  }
  bool hostname() {
    if (!has(1, "an argument")) return false;
    operation(OperationKind::hostname).dest = word(1);
    return once(o().hostname, word(1));
  }

  bool clearenv() {
    o().environment.push_back({});
    return true;
  }
  bool setenv() {
    if (!has(2, "two arguments")) return false;
    if (word(1).empty() || word(1).find('=') != std::string::npos) return fail("setenv failed");
    o().environment.push_back({EnvironmentChange::Kind::set, word(1), word(2)});
    return true;
  }
  bool unsetenv() {
    if (!has(1, "an argument")) return false;
    if (word(1).empty() || word(1).find('=') != std::string::npos) return fail("unsetenv failed");
    o().environment.push_back({EnvironmentChange::Kind::unset, word(1), ""});
    return true;
  }
  template <bool kAdd>
  bool capability_option() {
    if (!has(1, "an argument")) return false;
    const std::optional<uint64_t> mask = capability(word(1), context_.last_capability);
    if (!mask.has_value()) return fail("unknown cap: " + word(1));
    o().capabilities.push_back({kAdd, *mask});
    return true;
  }
  bool lock_file() {
    if (!has(1, "an argument")) return false;
    o().lock_files.push_back(word(1));
    return true;
  }

  template <Access kAccess, bool kTry = false>
  bool bind() {
    if (!has(2, "two arguments")) return false;
    Operation& made = operation(OperationKind::bind);
    made.source = word(1);
    made.dest = word(2);
    made.access = kAccess;
    made.may_be_missing = kTry;
    return true;
  }
  template <Access kAccess>
  bool bind_fd() {
    // Both forms say the name of the first here.
    if (left() < 3) return fail("--bind-fd takes two arguments");
    int fd = -1;
    if (!descriptor(fd)) return false;
    Operation& made = operation(OperationKind::bind);
    made.source = "/proc/self/fd/" + std::to_string(fd);
    made.dest = word(2);
    made.access = kAccess;
    made.fd = fd;
    return true;
  }
  template <OperationKind kKind, int kPerms = -1>
  bool place() {
    if (!has(1, kKind == OperationKind::remount_ro ? "one argument" : "an argument")) return false;
    Operation& made = operation(kKind);
    made.dest = word(1);
    if constexpr (kPerms >= 0) made.perms = take_perms(kPerms);
    return true;
  }
  bool tmpfs() {
    if (!place<OperationKind::tmpfs, 0755>()) return false;
    o().operations.back().size = size_;
    size_ = 0;
    return true;
  }
  template <OperationKind kKind, Access kAccess, int kPerms>
  bool content() {
    if (!has(2, "two arguments")) return false;
    int fd = -1;
    if (!descriptor(fd)) return false;
    Operation& made = operation(kKind);
    made.fd = fd;
    made.dest = word(2);
    made.access = kAccess;
    made.perms = take_perms(kPerms);
    return true;
  }
  bool symlink() {
    if (!has(2, "two arguments")) return false;
    Operation& made = operation(OperationKind::symlink);
    made.source = word(1);
    made.dest = word(2);
    return true;
  }
  bool chmod() {
    if (!has(2, "two arguments")) return false;
    const std::optional<int> perms = octal(word(1));
    if (!perms.has_value()) return fail("--chmod takes an octal argument <= 07777");
    Operation& made = operation(OperationKind::chmod);
    made.perms = *perms;
    made.dest = word(2);
    return true;
  }

  bool overlay_src() {
    if (left() < 2) return fail(kDanglingLayer);
    lower_.push_back(word(1));
    return true;
  }
  bool overlay() {
    if (!has(3, "three arguments")) return false;
    if (lower_.empty()) return fail("--overlay requires at least one --overlay-src");
    Operation& made = operation(OperationKind::overlay);
    made.source = word(1);
    made.work = word(2);
    made.dest = word(3);
    made.lower = std::move(lower_);
    lower_.clear();
    return true;
  }
  template <OperationKind kKind>
  bool overlay_without_writes() {
    if (!has(1, "an argument")) return false;
    constexpr bool kTmp = kKind == OperationKind::tmp_overlay;
    if (lower_.size() < (kTmp ? 1 : 2)) {
      return fail(kTmp ? "--tmp-overlay requires at least one --overlay-src"
                       : "--ro-overlay requires at least two --overlay-src");
    }
    Operation& made = operation(kKind);
    made.dest = word(1);
    made.lower = std::move(lower_);
    lower_.clear();
    return true;
  }
  bool overlay_opt() {
    if (!has(1, "an argument")) return false;
    say("--overlay-opt is not in this version of bubblewrap and has no effect", false);
    return true;
  }

  bool perms() {
    if (!has(1, "an argument")) return false;
    if (perms_ != -1) return fail("--perms given twice for the same action");
    const std::optional<int> perms = octal(word(1));
    if (!perms.has_value()) return fail("--perms takes an octal argument <= 07777");
    perms_ = *perms;
    return true;
  }
  bool size() {
    if (!has(1, "an argument")) return false;
    if (size_ != 0) return fail("--size given twice for the same action");
    const std::string& text = word(1);
    char* end = nullptr;
    errno = 0;
    const unsigned long long bytes = std::strtoull(text.c_str(), &end, 0);
    // The first character decides against signs and white space, which strtoull would take.
    if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) == 0 || errno != 0 || *end != '\0' || bytes == 0) {
      return fail("--size takes a non-zero number of bytes");
    }
    if (bytes > kMaxTmpfsBytes) return fail("--size (for tmpfs) is limited to " + std::to_string(kMaxTmpfsBytes));
    size_ = bytes;
    return true;
  }

 private:
  static constexpr const char* kDanglingLayer =
      "--overlay-src must be followed by another --overlay-src or one of --overlay, --tmp-overlay, or --ro-overlay";

  bool read(std::span<const std::string> words, bool file);

  Options& o() { return result_.options; }
  size_t left() const { return words_.size() - at_; }
  // words_[at_] is the option itself.
  const std::string& word(size_t n) const { return words_[at_ + n]; }

  bool end(Parsed::What what) {
    result_.what = what;
    return false;
  }
  void say(const std::string& text, bool error) { result_.messages.push_back({text, error, prefixed_}); }
  bool fail(const std::string& text) {
    say(text, true);
    return end(Parsed::What::failed);
  }
  bool too_many() { return fail("Exceeded maximum number of arguments " + std::to_string(kMaxWords)); }
  bool has(size_t arguments, const char* how_many) {
    if (left() > arguments) return true;
    return fail(option_ + " takes " + how_many);
  }
  bool descriptor(int& fd) {
    const std::optional<int> number = whole_number(word(1));
    if (!number.has_value()) return fail("Invalid fd: " + word(1));
    fd = *number;
    return true;
  }
  void only_last() { say("Only the last " + option_ + " option will take effect", false); }
  bool once(std::optional<std::string>& field, const std::string& value) {
    if (field.has_value()) only_last();
    field = value;
    return true;
  }
  Operation& operation(OperationKind kind) {
    o().operations.emplace_back();
    Operation& made = o().operations.back();
    made.kind = kind;
    made.option = option_;
    return made;
  }
  int take_perms(int standard) {
    const int taken = perms_ >= 0 ? perms_ : standard;
    perms_ = -1;
    return taken;
  }

  const ParseContext& context_;
  Parsed result_;
  std::span<const std::string> words_;
  size_t at_ = 0;
  std::string option_;
  size_t total_ = 0;
  bool in_file_ = false;
  bool prefixed_ = false;

  // What the modifiers left for the next operation.
  int perms_ = -1;
  uint64_t size_ = 0;
  std::vector<std::string> lower_;
};

struct Row {
  OptionRow shown;
  bool (Parser::*take)();
  size_t arguments;  // words that it takes beside itself
};

using K = OperationKind;
using O = Options;
using P = Parser;

constexpr Row kRows[] = {
    {{"--help", "", "Show this text"}, &P::help, 0},
    {{"--version", "", "Show which version of bubblewrap this equals"}, &P::version, 0},
    {{"--args", "FD", "Read further options from FD, each ended by a NUL"}, &P::args, 1},
    {{"--argv0", "VALUE", "Start the program with VALUE as its argv[0]"}, &P::argv0, 1},
    {{"--level-prefix", "", "Begin messages with their level, as in <3>"}, &P::level_prefix, 0},
    {{"--unshare-all", "", "A new namespace of every kind (user and cgroup: where possible)"}, &P::unshare_all, 0},
    {{"--share-net", "", "Keep the caller's network (after --unshare-all)"}, &P::flag<&O::unshare_net, false>, 0},
    {{"--unshare-user", "", "New user namespace (made anyway when not root)"}, &P::flag<&O::unshare_user>, 0},
    {{"--unshare-user-try", "", "New user namespace where the kernel allows it"}, &P::flag<&O::unshare_user_try>, 0},
    {{"--unshare-ipc", "", "New ipc namespace"}, &P::flag<&O::unshare_ipc>, 0},
    {{"--unshare-pid", "", "New pid namespace"}, &P::flag<&O::unshare_pid>, 0},
    {{"--unshare-net", "", "New network namespace, with loopback only"}, &P::flag<&O::unshare_net>, 0},
    {{"--unshare-uts", "", "New uts namespace"}, &P::flag<&O::unshare_uts>, 0},
    {{"--unshare-cgroup", "", "New cgroup namespace"}, &P::flag<&O::unshare_cgroup>, 0},
    {{"--unshare-cgroup-try", "", "New cgroup namespace where the kernel has them"}, &P::flag<&O::unshare_cgroup_try>, 0},
    {{"--userns", "FD", "Enter this user namespace (excludes --unshare-user)"}, &P::fd_option<&O::userns_fd>, 1},
    {{"--userns2", "FD", "Enter this user namespace once the set-up is done (with --userns)"}, &P::fd_option<&O::userns2_fd>, 1},
    {{"--disable-userns", "", "Nobody inside can make user namespaces (needs --unshare-user)"}, &P::flag<&O::disable_userns>, 0},
    {{"--assert-userns-disabled", "", "Fail where user namespaces can be made inside"}, &P::flag<&O::assert_userns_disabled>, 0},
    {{"--pidns", "FD", "Enter this pid namespace (with --unshare-pid: make one below it)"}, &P::fd_option<&O::pidns_fd>, 1},
    {{"--uid", "UID", "The uid inside (needs --unshare-user or --userns)"}, &P::id<&O::uid, true>, 1},
    {{"--gid", "GID", "The gid inside (needs --unshare-user or --userns)"}, &P::id<&O::gid, false>, 1},
    {{"--hostname", "NAME", "The host name inside (needs --unshare-uts)"}, &P::hostname, 1},
    {{"--chdir", "DIR", "Working directory of the program"}, &P::chdir, 1},
    {{"--clearenv", "", "Empty the environment"}, &P::clearenv, 0},
    {{"--setenv", "VAR VALUE", "Set a variable"}, &P::setenv, 2},
    {{"--unsetenv", "VAR", "Remove a variable"}, &P::unsetenv, 1},
    {{"--lock-file", "DEST", "Hold a read lock on DEST until the last process inside has ended"}, &P::lock_file, 1},
    {{"--sync-fd", "FD", "Keep FD open until the last process inside has ended"}, &P::fd_option<&O::sync_fd>, 1},
    {{"--bind", "SRC DEST", "Show the caller's SRC at DEST"}, &P::bind<Access::read_write>, 2},
    {{"--bind-try", "SRC DEST", "The same, nothing where SRC does not exist"}, &P::bind<Access::read_write, true>, 2},
    {{"--dev-bind", "SRC DEST", "Show SRC at DEST, device nodes in it usable"}, &P::bind<Access::devices>, 2},
    {{"--dev-bind-try", "SRC DEST", "The same, nothing where SRC does not exist"}, &P::bind<Access::devices, true>, 2},
    {{"--ro-bind", "SRC DEST", "Show SRC at DEST, read-only"}, &P::bind<Access::read_only>, 2},
    {{"--ro-bind-try", "SRC DEST", "The same, nothing where SRC does not exist"}, &P::bind<Access::read_only, true>, 2},
    {{"--bind-fd", "FD DEST", "Show the directory or file that FD is open on at DEST"}, &P::bind_fd<Access::read_write>, 2},
    {{"--ro-bind-fd", "FD DEST", "The same, read-only"}, &P::bind_fd<Access::read_only>, 2},
    {{"--remount-ro", "DEST", "Make the mount at DEST read-only, but not those below it"}, &P::place<K::remount_ro>, 1},
    {{"--overlay-src", "SRC", "A lower layer of the overlay that follows (the first is the lowest)"}, &P::overlay_src, 1},
    {{"--overlay", "RWSRC WORKDIR DEST", "Overlay at DEST, writes go to RWSRC; WORKDIR is an empty directory\non the same file system"}, &P::overlay, 3},
    {{"--tmp-overlay", "DEST", "Overlay at DEST, writes go to memory and are forgotten"}, &P::overlay_without_writes<K::tmp_overlay>, 1},
    {{"--ro-overlay", "DEST", "Overlay at DEST, read-only"}, &P::overlay_without_writes<K::ro_overlay>, 1},
    {{"--exec-label", "LABEL", "Not supported here: an error"}, &P::label, 1},
    {{"--file-label", "LABEL", "Not supported here: an error"}, &P::label, 1},
    {{"--proc", "DEST", "A proc file system at DEST"}, &P::place<K::proc>, 1},
    {{"--dev", "DEST", "A minimal /dev at DEST"}, &P::place<K::dev>, 1},
    {{"--tmpfs", "DEST", "An empty tmpfs at DEST"}, &P::tmpfs, 1},
    {{"--mqueue", "DEST", "POSIX message queues at DEST"}, &P::place<K::mqueue>, 1},
    {{"--dir", "DEST", "Make a directory"}, &P::place<K::dir, 0755>, 1},
    {{"--file", "FD DEST", "Make a file with what can be read from FD"}, &P::content<K::file, Access::read_write, 0666>, 2},
    {{"--bind-data", "FD DEST", "The same as a file of its own, shown at DEST"}, &P::content<K::data, Access::read_write, 0600>, 2},
    {{"--ro-bind-data", "FD DEST", "The same, read-only"}, &P::content<K::data, Access::read_only, 0600>, 2},
    {{"--symlink", "SRC DEST", "Make DEST a symbolic link that says SRC"}, &P::symlink, 2},
    {{"--seccomp", "FD", "Load the seccomp program that FD holds"}, &P::filter_fd, 1},
    {{"--add-seccomp-fd", "FD", "The same, any number of times (excludes --seccomp)"}, &P::add_filter, 1},
    {{"--block-fd", "FD", "Wait until FD can be read before the program starts"}, &P::fd_option<&O::block_fd>, 1},
    {{"--userns-block-fd", "FD", "The caller writes the id maps, then writes to FD"}, &P::fd_option<&O::userns_block_fd>, 1},
    {{"--info-fd", "FD", "Write a JSON document about the sandbox to FD"}, &P::fd_option<&O::info_fd>, 1},
    {{"--json-status-fd", "FD", "Write what happens to FD, a JSON document a line"}, &P::fd_option<&O::json_status_fd>, 1},
    {{"--new-session", "", "The program leads a terminal session of its own"}, &P::flag<&O::new_session>, 0},
    {{"--die-with-parent", "", "Everything is killed when bwrap or its parent dies"}, &P::flag<&O::die_with_parent>, 0},
    {{"--as-pid-1", "", "The program itself is process 1 inside"}, &P::flag<&O::as_pid_1>, 0},
    {{"--cap-add", "CAP", "Give the program a capability (ALL: each)"}, &P::capability_option<true>, 1},
    {{"--cap-drop", "CAP", "Take a capability from it (ALL: each)"}, &P::capability_option<false>, 1},
    {{"--perms", "OCTAL", "Permissions of what the next option makes (--dir, --file, --tmpfs …)"}, &P::perms, 1},
    {{"--size", "BYTES", "Size of what the next option makes (--tmpfs only)"}, &P::size, 1},
    {{"--chmod", "OCTAL PATH", "Change the permissions of PATH, which exists"}, &P::chmod, 2},
    {{"--not-a-security-boundary", "", "Go on where parts of a bind cannot be made read-only or nosuid: nothing\nhostile will run inside"}, &P::flag<&O::not_a_security_boundary>, 0},
    {{"--overlay-opt", "OPTION", "A proposal to upstream: taken and ignored, with a warning", true}, &P::overlay_opt, 1},
};

const Row* find(std::string_view name) {
  for (const Row& row : kRows) {
    if (name == row.shown.name) return &row;
  }
  return nullptr;
}

bool Parser::read(std::span<const std::string> words, bool file) {
  if (total_ > kMaxWords) return too_many();
  words_ = words;
  for (at_ = 0; at_ < words_.size();) {
    option_ = words_[at_];
    if (option_ == "--") {
      ++at_;
      break;
    }
    size_t taken = 1;
    const Row* row = find(option_);
    if (row != nullptr) {
      if (!(this->*row->take)()) return false;
      taken += row->arguments;
    } else if (starts_with(option_, "--debug-opt=")) {
      // Switches for upstream's own tests; none has a meaning here.
    } else if (starts_with(option_, "-")) {
      return fail("Unknown option " + option_);
    } else {
      break;
    }
    const bool modifier = option_ == "--perms" || option_ == "--size";
    if (!modifier && perms_ >= 0) return fail("--perms must be followed by an option that creates a file");
    if (!modifier && size_ != 0) return fail("--size must be followed by --tmpfs");
    if (option_ != "--overlay-src" && option_ != "--overlay-opt" && !lower_.empty()) return fail(kDanglingLayer);
    at_ += taken;
  }
  if (!file) o().command.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
  return true;
}

}  // namespace

std::string plain_errno_text(int errnum) {
  const char* text = ::strerrordesc_np(errnum);
  return text != nullptr ? text : "Unknown error " + std::to_string(errnum);
}

Parsed parse(std::span<const std::string> words, const ParseContext& context) { return Parser(context).run(words); }

std::string check_combinations(const Options& o) {
  if (o.userns_block_fd != -1 && !o.unshare_user) return "--userns-block-fd requires --unshare-user";
  if (o.userns_block_fd != -1 && o.info_fd == -1) return "--userns-block-fd requires --info-fd";
  if (o.userns_fd != -1 && o.unshare_user) return "--userns is not compatible with --unshare-user";
  if (o.userns_fd != -1 && o.unshare_user_try) return "--userns is not compatible with --unshare-user-try";
  if (o.disable_userns && !o.unshare_user) return "--disable-userns requires --unshare-user";
  if (o.disable_userns && o.userns_block_fd != -1) return "--disable-userns is not compatible with --userns-block-fd";
  return "";
}

std::string check_identity(const Options& o, bool user_namespace, uint32_t uid, uint32_t gid) {
  const bool own_ids = !user_namespace && o.userns_fd == -1;
  if (own_ids && o.uid.value_or(uid) != uid) return "Specifying --uid requires --unshare-user or --userns";
  if (own_ids && o.gid.value_or(gid) != gid) return "Specifying --gid requires --unshare-user or --userns";
  if (!o.unshare_uts && o.hostname.has_value()) return "Specifying --hostname requires --unshare-uts";
  if (o.as_pid_1 && !o.unshare_pid) return "Specifying --as-pid-1 requires --unshare-pid";
  if (o.as_pid_1 && !o.lock_files.empty()) return "Specifying --as-pid-1 and --lock-file is not permitted";
  return "";
}

bool is_option(std::string_view word) {
  if (word == "--help" || word == "--version") return false;
  return find(word) != nullptr || starts_with(word, "--debug-opt=");
}

std::string help_text(std::string_view called) {
  constexpr size_t kColumn = 33;
  std::string text = "usage: " + std::string(called) + " [OPTIONS...] [--] COMMAND [ARGS...]\n\n";
  for (const Row& row : kRows) {
    if (row.shown.hidden) continue;
    std::string line = "    " + std::string(row.shown.name);
    if (row.shown.arguments[0] != '\0') line += " " + std::string(row.shown.arguments);
    line += line.size() + 1 < kColumn ? std::string(kColumn - line.size(), ' ') : " ";
    for (const char* at = row.shown.doc; *at != '\0'; ++at) {
      line += *at;
      if (*at == '\n') line += std::string(kColumn, ' ');
    }
    text += line + "\n";
  }
  return text;
}

std::span<const OptionRow> option_table() {
  static constexpr auto kTable = [] {
    std::array<OptionRow, std::size(kRows)> rows{};
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = kRows[i].shown;
    return rows;
  }();
  return kTable;
}

}  // namespace sbx::bwrap
