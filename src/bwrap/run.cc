// Theory of operation.
//
//   monitor (the caller's child)     reaper (process 1 inside)      COMMAND (process 2)
//   clone, with all namespaces ────▶ waits, if there is anything
//   writes the documents              to wait for
//   go ────────────────────────────▶ loopback, id maps, mounts,
//                                     pivot, second user namespace,
//                                     capabilities, block-fd
//                                     fork ────────────────────────▶ death signal, ambient
//                                                                    capabilities, filters, exec
//   knows its status, reports it ◀── writes it when COMMAND ends
//   and exits                         waits for all others, exits
//
// There is a reaper where a pid namespace, a lock or --sync-fd needs one; else COMMAND is the clone itself. Nobody
// forwards signals, and nobody kills what COMMAND leaves behind: so upstream, and what its clients count on.
#include "bwrap/run.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/raw_sys.h"
#include "base/sys.h"
#include "base/text.h"
#include "bwrap/life.h"
#include "bwrap/privileges.h"
#include "bwrap/view.h"
#include "bwrap/voice.h"
#include "ns/child.h"
#include "policy/bwrap/parse.h"
#include "runtime/mending.h"

namespace sbx::bwrap {
namespace {

constexpr size_t kMaxFdBytes = size_t{256} << 20;

// Bytes behind a descriptor that the caller gave for it, which is closed then.
Result<std::string> read_and_close(int fd) {
  const UniqueFd owned(fd);
  Result<std::string> bytes = sys::read_all(fd, kMaxFdBytes);
  // Endless: every failure here is an errno's words to the user.
  if (!bytes.ok() && bytes.error().errnum() == 0) return Error::from_errno(EFBIG, "read");
  return bytes;
}

// A number that names nothing now would name what is opened next: a pipe of our own, /proc of the host. In the words of
// what would fail otherwise.
void check_descriptors(const Options& options, const Voice& voice) {
  const auto check = [&](int fd, const std::string& text, int errnum = EBADF) {
    if (fd >= 0 && ::fcntl(fd, F_GETFD) < 0) voice.die(text, errnum);
  };
  check(options.userns_fd, "Joining specified user namespace failed");
  check(options.userns2_fd, "Setting userns2 failed");
  check(options.pidns_fd, "Setting pidns failed");
  for (const int fd : {options.sync_fd, options.block_fd, options.userns_block_fd}) check(fd, "Invalid fd: " + std::to_string(fd));
  for (const int fd : {options.info_fd, options.json_status_fd}) check(fd, "Write to info_fd");
  check(options.filter_fd, "Can't read seccomp data");
  for (const Operation& op : options.operations) {
    const bool bind = op.kind == OperationKind::bind;
    check(op.fd, bind ? "Can't find source path " + op.source : "Can't write data to file " + op.dest, bind ? ENOENT : EBADF);
  }
}

bool exists(const char* path) { return sys::stat(path).ok(); }

bool user_namespaces_possible() {
  if (const Result<struct stat> link = sys::stat("/proc/self/ns/user"); !link.ok() && link.error().errnum() == ENOENT) return false;
  // A module parameter of Red Hat's kernels of version 7.
  const Result<std::string> enabled = read_file("/sys/module/user_namespace/parameters/enable");
  if (enabled.ok() && starts_with(enabled.value(), "N")) return false;
  const Result<std::string> most = read_file("/proc/sys/user/max_user_namespaces");
  return !most.ok() || most.value() != "0\n";
}

void change_environment(const Options& options, const Voice& voice) {
  for (const EnvironmentChange& change : options.environment) {
    switch (change.kind) {
      case EnvironmentChange::Kind::clear: ::clearenv(); break;
      case EnvironmentChange::Kind::set:
        if (::setenv(change.name.c_str(), change.value.c_str(), 1) != 0) voice.die("setenv failed");
        break;
      case EnvironmentChange::Kind::unset:
        if (::unsetenv(change.name.c_str()) != 0) voice.die("unsetenv failed");
        break;
    }
  }
}

struct Namespaces {
  bool user = false;
  bool cgroup = false;
  unsigned long flags = SIGCHLD | CLONE_NEWNS;
};

Namespaces choose_namespaces(const Options& options, const Privileges& privileges, const Voice& voice) {
  Namespaces made;
  made.user = options.unshare_user || (privileges.uid != 0 && options.userns_fd < 0);
  if (!made.user && options.unshare_user_try) made.user = user_namespaces_possible();
  // Root without the capability to make any namespace, as in a plain container: the way of ordinary users is open.
  constexpr unsigned kSysAdmin = 21;
  if (privileges.uid == 0 && options.userns_fd < 0 && (privileges.requested >> kSysAdmin & 1) == 0) made.user = true;
  made.cgroup = options.unshare_cgroup;
  if (options.unshare_cgroup && !exists("/proc/self/ns/cgroup")) {
    voice.die("Cannot create new cgroup namespace because the kernel does not support it");
  }
  if (options.unshare_cgroup_try) made.cgroup = made.cgroup || exists("/proc/self/ns/cgroup");
  if (made.user) made.flags |= CLONE_NEWUSER;
  if (options.unshare_pid && options.pidns_fd < 0) made.flags |= CLONE_NEWPID;
  if (options.unshare_net) made.flags |= CLONE_NEWNET;
  if (options.unshare_ipc) made.flags |= CLONE_NEWIPC;
  if (options.unshare_uts) made.flags |= CLONE_NEWUTS;
  if (made.cgroup) made.flags |= CLONE_NEWCGROUP;
  return made;
}

[[noreturn]] void die_of_clone(bool user, int errnum, const Voice& voice) {
  std::string text = "Creating new namespace failed: " + plain_errno_text(errnum);
  if (user && errnum == EINVAL) text = "Creating new namespace failed, likely because the kernel does not support user namespaces.";
  if (user && errnum == EPERM) {
    text = "No permissions to create a new namespace, likely because the kernel does not allow non-privileged user namespaces.";
  }
  if (errnum == ENOSPC) text = "Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)";
  // The line first: clients read it. Then why, as far as it can be told.
  voice.warn_as_error(text);
  voice.hint(runtime::NamespaceStep::make, errnum);
  ::_exit(1);
}

// ---- the pid of a process that was forked behind our back (--pidns) -------------------------------------------------

void send_pid(int socket, const Voice& voice) {
  char byte = 0;
  iovec text{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))] = {};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_CREDENTIALS;
  header->cmsg_len = CMSG_LEN(sizeof(ucred));
  const ucred own{::getpid(), ::geteuid(), ::getegid()};
  std::memcpy(CMSG_DATA(header), &own, sizeof own);
  if (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) voice.die("Can't send pid", errno);
}

pid_t receive_pid(int socket, const Voice& voice) {
  char byte = 0;
  iovec text{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))] = {};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got;
  do {
    got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) voice.die("Can't read pid from socket", errno);
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS) continue;
    if (header->cmsg_len != CMSG_LEN(sizeof(ucred))) continue;
    ucred sender{};
    std::memcpy(&sender, CMSG_DATA(header), sizeof sender);
    return sender.pid;
  }
  // The child said why.
  ::_exit(1);
}

// Goes on in a child, in the namespace that setns or unshare has set for children.
void go_on_in_child(const Voice& voice) {
  const pid_t pid = ::fork();
  if (pid < 0) voice.die("Can't fork for --pidns", errno);
  if (pid != 0) ::_exit(0);
}

// ---- the documents ---------------------------------------------------------------------------------------------------

// ", "name-namespace": N" for each that was made; those that cannot be read are left out.
std::string namespace_ids(int proc, pid_t child, const Options& options, const Namespaces& made, const char* separator) {
  const struct {
    const char* name;
    bool wanted;
  } kinds[] = {{"cgroup", made.cgroup}, {"ipc", options.unshare_ipc}, {"mnt", true},
               {"net", options.unshare_net}, {"pid", options.unshare_pid}, {"uts", options.unshare_uts}};
  std::string text;
  for (const auto& kind : kinds) {
    if (!kind.wanted) continue;
    const Result<struct stat> seen = sys::fstatat(proc, std::to_string(child) + "/ns/" + kind.name, 0);
    if (seen.ok()) text += std::string(",") + separator + "\"" + kind.name + "-namespace\": " + std::to_string(seen.value().st_ino);
  }
  return text;
}

void write_documents(int proc, pid_t child, const Options& options, const Namespaces& made, const Voice& voice) {
  const auto put = [&](int fd, const std::string& text) {
    const Status written = sys::write_all(fd, text);
    if (!written.ok()) voice.die("Write to info_fd", written.error().errnum());
  };
  const std::string pid = "\"child-pid\": " + std::to_string(child);
  if (options.info_fd >= 0) {
    put(options.info_fd, "{\n    " + pid + namespace_ids(proc, child, options, made, "\n    ") + "\n}\n");
    ::close(options.info_fd);
  }
  if (options.json_status_fd >= 0) put(options.json_status_fd, "{ " + pid + namespace_ids(proc, child, options, made, " ") + " }\n");
}

// ---- inside ----------------------------------------------------------------------------------------------------------

// All that a child needs of what was made before it.
struct Inside {
  const Options& options;
  const Privileges& privileges;
  const Namespaces& made;
  const std::string& terminal;
  const Voice& voice;
  int proc = -1;
  UniqueFd go;        // read end: a byte, then the end when the monitor is dead; may be none
  bool wait = false;  // for the byte
  UniqueFd set_up;    // write end; may be none
  UniqueFd ended;     // eventfd; may be none
  UniqueFd pid_socket;

  [[noreturn]] void run();

 private:
  uid_t uid() const { return options.uid.value_or(privileges.uid); }
  gid_t gid() const { return options.gid.value_or(privileges.gid); }
  void enter_pid_namespace();
  void wait_for_monitor();
  void die_with_monitor() const;
  void become_target_of_userns() const;
  void loopback() const;
  void second_user_namespace(uid_t ns_uid, gid_t ns_gid) const;
  void assert_no_user_namespaces() const;
  void change_directory(const char* before) const;
  [[noreturn]] void exec_command(const std::vector<std::string>& filters);
};

void Inside::enter_pid_namespace() {
  if (::setns(options.pidns_fd, CLONE_NEWPID) != 0) voice.die("Setting pidns failed", errno);
  go_on_in_child(voice);
  if (options.unshare_pid) {
    if (::unshare(CLONE_NEWPID) != 0) voice.die("unshare pid ns", errno);
    go_on_in_child(voice);
  }
  send_pid(pid_socket.get(), voice);
  pid_socket.reset();
}

void Inside::wait_for_monitor() {
  char byte = 0;
  const Result<size_t> got = sys::read(go.get(), &byte, 1);
  if (!got.ok() || got.value() != 1) ::_exit(1);  // it is dead, or has said what went wrong
}

void Inside::become_target_of_userns() const {
  if (uid() != privileges.uid && ::setuid(uid()) != 0) voice.die("unable to switch to uid " + std::to_string(uid()), errno);
  if (gid() != privileges.gid && ::setgid(gid()) != 0) voice.die("unable to switch to gid " + std::to_string(gid()), errno);
}

void Inside::loopback() const {
  const long up = ns::bring_loopback_up();
  if (up >= 0) return;
  // Upstream asks for an address first, which fails where this does; clients know that line.
  voice.die("loopback: Failed RTM_NEWADDR", static_cast<int>(-up), runtime::NamespaceStep::use);
}

void Inside::second_user_namespace(uid_t ns_uid, gid_t ns_gid) const {
  if (options.disable_userns) {
    Result<UniqueFd> most = sys::openat(proc, "sys/user/max_user_namespaces", O_WRONLY);
    if (!most.ok()) voice.die("cannot open /proc/sys/user/max_user_namespaces", most.error().errnum());
    const Status written = sys::write_all(most.value().get(), "1");
    if (!written.ok()) voice.die("sysctl user.max_user_namespaces = 1", written.error().errnum());
  }
  if (::unshare(CLONE_NEWUSER) != 0) voice.die("unshare user ns", errno);
  privileges.bound(voice);
  write_own_maps(proc, uid(), ns_uid, gid(), ns_gid, false, voice);
}

void Inside::assert_no_user_namespaces() const {
  if (::unshare(CLONE_NEWUSER) == 0) voice.die("creation of new user namespaces was not disabled as requested");
}

void Inside::change_directory(const char* before) const {
  const char* now = "/";
  const char* home = std::getenv("HOME");
  if (options.chdir.has_value()) {
    if (::chdir(options.chdir->c_str()) != 0) voice.die("Can't chdir to " + *options.chdir, errno);
    now = options.chdir->c_str();
  } else if (before != nullptr && ::chdir(before) == 0) {
    now = before;
  } else if (home != nullptr && ::chdir(home) == 0) {
    now = home;
  }
  if (::setenv("PWD", now, 1) != 0) voice.die("setenv failed");
}

void Inside::exec_command(const std::vector<std::string>& filters) {
  let_child_signal_through(voice);
  die_with_monitor();
  privileges.raise_ambient(voice);
  std::vector<char*> argv;
  for (const std::string& word : options.command) argv.push_back(const_cast<char*>(word.c_str()));
  if (options.argv0.has_value()) argv[0] = const_cast<char*>(options.argv0->c_str());
  argv.push_back(nullptr);
  load_filters(filters, voice);
  const char byte = 0;
  if (set_up.valid()) (void)!::write(set_up.get(), &byte, 1);
  ::execvp(options.command[0].c_str(), argv.data());
  const int errnum = errno;
  if (set_up.valid()) (void)!::write(set_up.get(), &byte, 1);
  voice.die("execvp " + options.command[0], errnum);
}

void Inside::die_with_monitor() const {
  if (!options.die_with_parent) return;
  die_with_parent(voice);
  if (is_orphan(go.get())) ::_exit(1);
}

void Inside::run() {
  die_with_monitor();
  if (options.pidns_fd >= 0) enter_pid_namespace();
  if (options.info_fd >= 0) ::close(options.info_fd);
  if (options.json_status_fd >= 0) ::close(options.json_status_fd);
  if (wait) wait_for_monitor();

  // In a new user namespace everything can be had again.
  if (made.user || options.userns_fd >= 0) privileges.bound(voice);
  if (options.userns_fd >= 0) become_target_of_userns();
  if (options.unshare_net) loopback();

  // devpts wants uid 0 to exist in its user namespace: then the caller is that first, and itself again in a second one.
  bool needs_root = false;
  for (const Operation& op : options.operations) needs_root |= op.kind == OperationKind::dev;
  const bool own_maps = made.user && options.userns_block_fd < 0;
  const uid_t ns_uid = own_maps && needs_root ? 0 : uid();
  const gid_t ns_gid = own_maps && needs_root ? 0 : gid();
  if (own_maps) write_own_maps(proc, ns_uid, privileges.uid, ns_gid, privileges.gid, true, voice);

  const mode_t mask = ::umask(0);
  char* const before = ::get_current_dir_name();
  make_view(options, {.own_proc = options.unshare_pid || options.pidns_fd >= 0,
                      .seal_kernel_settings = privileges.uid == 0,
                      .terminal = terminal,
                      .voice = voice});

  if (options.userns2_fd >= 0 && ::setns(options.userns2_fd, CLONE_NEWUSER) != 0) voice.die("Setting userns2 failed", errno);
  if (own_maps && (ns_uid != uid() || ns_gid != gid() || options.disable_userns)) second_user_namespace(ns_uid, ns_gid);
  if (options.disable_userns || options.assert_userns_disabled) assert_no_user_namespaces();
  privileges.become_command(voice);
  // Before anything that may take long, and before COMMAND is there: stopped by somebody, the reaper could not say it later.
  die_with_monitor();

  if (options.block_fd >= 0) {
    char byte;
    (void)sys::read(options.block_fd, &byte, 1).ok();  // the end of it counts as well
    ::close(options.block_fd);
  }
  std::vector<std::string> filters = options.filters;
  if (options.filter_fd >= 0) {
    Result<std::string> program = read_and_close(options.filter_fd);
    if (!program.ok()) voice.die("Can't read seccomp data", program.error().errnum());
    if (program.value().size() % 8 != 0) voice.die("Invalid seccomp data, must be multiple of 8");
    filters.push_back(program.take());
  }
  ::umask(mask);
  change_directory(before);
  std::free(before);
  if (options.new_session && ::setsid() < 0) voice.die("setsid", errno);

  std::vector<UniqueFd> locks;
  if (!options.as_pid_1 && (options.unshare_pid || !options.lock_files.empty() || options.sync_fd >= 0)) {
    locks = lock_files(options, voice);
    // COMMAND needs no copy of our memory: it leaves it by exec, before which we stand still. So nothing that is ours may
    // be destroyed on its way there.
    const pid_t command = ::vfork();
    if (command < 0) voice.die("Can't fork for pid 1", errno);
    if (command > 0) reap(command, ended.get(), locks, options, privileges, filters, voice);
    if (options.sync_fd >= 0) ::close(options.sync_fd);
  }
  exec_command(filters);
}

// ---- outside ---------------------------------------------------------------------------------------------------------

void print(int fd, const std::string& text) { (void)sys::write_all(fd, text).ok(); }

// Says what the parser had to say.
void say(const std::vector<Message>& messages) {
  for (const Message& message : messages) {
    const Voice voice{.level_prefix = message.prefixed};
    if (message.error) voice.warn_as_error(message.text);
    else voice.warn(message.text);
  }
}

std::string terminal_of_stdout() {
  const char* name = ::isatty(STDOUT_FILENO) != 0 ? ::ttyname(STDOUT_FILENO) : nullptr;
  return name == nullptr ? "" : name;
}

UniqueFd event_fd(int flags, const Voice& voice) {
  UniqueFd fd(::eventfd(0, flags | EFD_CLOEXEC));
  if (!fd.valid()) voice.die("eventfd()", errno);
  return fd;
}

sys::Pipe pipe_or_die(const Voice& voice) {
  Result<sys::Pipe> made = sys::pipe();
  if (!made.ok()) voice.die("pipe2()", made.error().errnum());
  return made.take();
}

[[noreturn]] void carry_out(const Options& options, Privileges privileges, const Namespaces& made, const std::string& terminal,
              pid_t parent, const Voice& voice) {
  Result<UniqueFd> proc = sys::open("/proc", O_PATH);
  if (!proc.ok()) voice.die("Can't open /proc", proc.error().errnum());

  Watch watch;
  watch.json_fd = options.json_status_fd;
  Inside inside{.options = options, .privileges = privileges, .made = made, .terminal = terminal, .voice = voice};
  inside.proc = proc.value().get();
  if (options.unshare_pid && !options.as_pid_1) {
    watch.ended = event_fd(EFD_NONBLOCK, voice);
    inside.ended = UniqueFd(watch.ended.get());  // the same number in the child; one of the two lets it go
  }
  hold_back_child_signal(voice);
  sys::Pipe go, set_up;
  const bool documents = options.info_fd >= 0 || options.json_status_fd >= 0;
  inside.wait = documents || options.userns_block_fd >= 0 || options.pidns_fd >= 0;
  if (inside.wait || options.die_with_parent) go = pipe_or_die(voice);
  if (options.json_status_fd >= 0) set_up = pipe_or_die(voice);

  if (options.userns_fd >= 0 && ::setns(options.userns_fd, CLONE_NEWUSER) != 0) {
    if (errno == EINVAL) {
      voice.die("Joining the specified user namespace failed, it might not be a descendant of the current user namespace.");
    }
    voice.die("Joining specified user namespace failed", errno);
  }
  UniqueFd pid_socket;
  if (options.pidns_fd >= 0) {
    // The child that counts is a grandchild; its parents leave at once.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    Result<std::array<UniqueFd, 2>> pair = sys::socketpair(SOCK_SEQPACKET);
    if (!pair.ok()) voice.die("Can't create intermediate pids socket", pair.error().errnum());
    std::array<UniqueFd, 2> ends = pair.take();
    const int on = 1;
    if (::setsockopt(ends[0].get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) voice.die("Can't set SO_PASSCRED", errno);
    pid_socket = std::move(ends[0]);
    inside.pid_socket = std::move(ends[1]);
  }

  const long child = raw::call(SYS_clone, made.flags, 0, 0, 0, 0);
  if (child < 0) die_of_clone(made.user, static_cast<int>(-child), voice);
  if (child == 0) {
    (void)watch.ended.release();
    go.write.reset();
    set_up.read.reset();
    pid_socket.reset();
    inside.go = std::move(go.read);
    inside.set_up = std::move(set_up.write);
    inside.run();
  }
  (void)inside.ended.release();
  go.read.reset();
  set_up.write.reset();
  inside.pid_socket.reset();
  watch.set_up = std::move(set_up.read);
  watch.hold = std::move(go.write);
  watch.child = static_cast<pid_t>(child);
  if (pid_socket.valid()) watch.child = receive_pid(pid_socket.get(), voice);

  // Readers of the documents may go: that is an error with its line, or none at all once COMMAND runs, whose status counts.
  if (documents) ::signal(SIGPIPE, SIG_IGN);
  // What has to be looked up with the privileges over the namespaces comes before they are given up.
  if (options.userns2_fd >= 0 && ::setns(options.userns2_fd, CLONE_NEWUSER) != 0) voice.die("Setting userns2 failed", errno);
  if (documents) write_documents(proc.value().get(), watch.child, options, made, voice);
  privileges.drop_all(voice);
  if (::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) voice.die("can't set dumpable", errno);
  if (options.die_with_parent) {
    die_with_parent(voice);
    if (::getppid() != parent) ::_exit(1);
  }
  if (options.userns_block_fd >= 0) {
    char byte;
    (void)sys::read(options.userns_block_fd, &byte, 1).ok();
    ::close(options.userns_block_fd);
  }
  if (inside.wait) {
    const char byte = 1;
    (void)!::write(watch.hold.get(), &byte, 1);  // the child may have died
  }
  monitor(std::move(watch), voice);
}

}  // namespace

int run(const std::string& called, const std::vector<std::string>& words) {
  if (words.size() == 1 && words[0] == "--version") {
    print(STDOUT_FILENO, std::string(kVersionText) + "\n");
    return 0;
  }
  const pid_t parent = ::getppid();
  // A caller that ignores it would have its children vanish without a word.
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &standard, nullptr);

  Voice voice;
  Privileges privileges = Privileges::of_caller(voice);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) voice.die("prctl(PR_SET_NO_NEW_PRIVS) failed", errno);
  const std::string terminal = terminal_of_stdout();

  const auto usage = [&] {
    print(STDERR_FILENO, help_text(called));
    return 1;
  };
  if (words.empty()) return usage();
  Parsed parsed = parse(words, {.read_fd = read_and_close});
  say(parsed.messages);
  switch (parsed.what) {
    case Parsed::What::help: print(STDOUT_FILENO, help_text(called)); return 0;
    case Parsed::What::version: print(STDOUT_FILENO, std::string(kVersionText) + "\n"); return 0;
    case Parsed::What::failed: return 1;
    case Parsed::What::run: break;
  }
  const Options& options = parsed.options;
  voice.level_prefix = options.level_prefix;
  const std::string clash = check_combinations(options);
  if (!clash.empty()) voice.die(clash);
  check_descriptors(options, voice);
  const Namespaces made = choose_namespaces(options, privileges, voice);
  if (options.command.empty()) return usage();
  const std::string wrong = check_identity(options, made.user, privileges.uid, privileges.gid);
  if (!wrong.empty()) voice.die(wrong);
  privileges.choose(options);
  change_environment(options, voice);
  carry_out(options, privileges, made, terminal, parent, voice);
}

}  // namespace sbx::bwrap
