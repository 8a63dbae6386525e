#include "nsjail/start.h"

#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/raw_sys.h"
#include "base/sys.h"
#include "base/text.h"
#include "ns/child.h"
#include "runtime/launch.h"
#include "runtime/mending.h"

extern char** environ;

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL  // 5.7
#endif

namespace sbx::nsjail {
namespace {

std::string hint_for(runtime::NamespaceStep step, int errnum) {
  if (errnum == EMFILE || errnum == ENFILE || errnum == EAGAIN || errnum == ENOMEM) return "raise the caller's own limits: see ulimit -a";
  return runtime::mend_namespaces(runtime::read_namespace_knobs(), step, errnum).text();
}

// ---- id maps ------------------------------------------------------------------------------------------------------

// The set-uid programs of shadow, where a distribution keeps them: of root's, so that nobody else's writes our maps.
Result<std::string> find_helper(const std::string& name) {
  for (const char* folder : {"/usr/bin", "/bin", "/usr/local/bin", "/run/wrappers/bin"}) {
    std::string path = join_path(folder, name);
    const Result<struct stat> info = sys::stat(path);
    if (info.ok() && info.value().st_uid == 0 && S_ISREG(info.value().st_mode)) return path;
  }
  return Error(ErrorKind::not_found, "'" + name + "' is not installed, which use_newidmap needs").with_hint("install the package uidmap");
}

Status run_helper(const std::string& name, pid_t pid, const std::vector<IdRange>& ranges) {
  std::vector<std::string> words{SBX_TRY(find_helper(name)), std::to_string(pid)};
  for (const IdRange& range : ranges) {
    words.push_back(std::to_string(range.inside));
    words.push_back(std::to_string(range.outside));
    words.push_back(std::to_string(range.count));
  }
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t helper = ::fork();
  if (helper < 0) return Error::from_errno(errno, "start " + name);
  if (helper == 0) {
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execve(argv[0], argv.data(), environ);
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(helper, &status, 0) < 0 && errno == EINTR) {}
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return Error(ErrorKind::permission, "'" + name + "' refused the map").with_hint("the ids must be the caller's own, or stand in /etc/subuid and /etc/subgid");
}

Status write_map(int proc, const char* file, const std::vector<IdRange>& ranges) {
  std::string text;
  for (const IdRange& range : ranges) {
    text += std::to_string(range.inside) + " " + std::to_string(range.outside) + " " + std::to_string(range.count) + "\n";
  }
  const UniqueFd fd = SBX_TRY(sys::openat(proc, file, O_WRONLY));
  SBX_TRY_CTX(sys::write_all(fd.get(), text), std::string("writing ") + file);
  return {};
}

// `deny`: setgroups is closed before a gid_map of our own is written, as the kernel wants it from who is not root.
Status write_maps(const Jail& jail, pid_t pid, bool deny) {
  if ((jail.clone_flags & CLONE_NEWUSER) == 0) return {};
  const UniqueFd proc = SBX_TRY(sys::open("/proc/" + std::to_string(pid), O_PATH | O_DIRECTORY));
  if (jail.gids[0].helper) {
    SBX_TRY(run_helper("newgidmap", pid, jail.gids));
  } else {
    if (deny) {
      const UniqueFd groups = SBX_TRY(sys::openat(proc.get(), "setgroups", O_WRONLY));
      SBX_TRY_CTX(sys::write_all(groups.get(), "deny"), std::string("writing setgroups"));
    }
    SBX_TRY(write_map(proc.get(), "gid_map", jail.gids));
  }
  if (jail.uids[0].helper) return run_helper("newuidmap", pid, jail.uids);
  return write_map(proc.get(), "uid_map", jail.uids);
}

Error map_error(Error error) {
  if (!error.hint().empty()) return error;
  std::string hint = hint_for(runtime::NamespaceStep::map, error.errnum());
  if (error.errnum() == EPERM || error.errnum() == EINVAL) {
    hint = "who is not root maps one id, its own, in one entry (a flag --user adds to the entries of a file); more need use_newidmap";
  }
  return std::move(error).with_hint(hint);
}

// ---- what went wrong in the child ---------------------------------------------------------------------------------

// `own_processes`: it is in a pid namespace of its own.
Error child_error(const Jail& jail, const ns::StatusPage& page, bool own_processes) {
  const auto stage = static_cast<ns::Stage>(std::min(page.error_stage, ns::kStageCount - 1));
  const int errnum = page.error_errno;
  std::string what = ns::stage_name(stage), from, hint;
  switch (stage) {
    case ns::Stage::mounts:
      what = jail.step_text(page.error_step);
      from = jail.step_origin(page.error_step);
      if (errnum == EPERM && what.find("mount proc") == 0 && !own_processes) hint = "the kernel shows the caller's own processes to no jail by a mount of its own: --disable_proc or mount_proc: false, or bind the outer /proc";
      else if (errnum == EPERM && what.find("mount proc") == 0) hint = "the /proc here is partly covered, as in a container: --disable_proc or mount_proc: false, or bind the outer /proc";
      else if (errnum == EPERM) hint = hint_for(runtime::NamespaceStep::mount, errnum);
      else if (errnum == ENOENT) hint = "a place to mount on is made on a tmpfs only, never on the host and never through a link";
      else if (errnum == ENODEV) hint = "this kernel has no such type of file system";
      else if (errnum == EEXIST) hint = "mandatory: false accepts what is there";
      break;
    case ns::Stage::identity:
      what = page.error_detail == 3 ? "take the supplementary groups of gidmap" : page.error_detail == 2 ? "become the first group of gidmap" : "become the first user of uidmap";
      if (errnum == EINVAL) hint = "the first inside_id must lie in the map";
      break;
    case ns::Stage::pivot: what = jail.direct.pivot ? "change the root" : "chroot"; break;
    case ns::Stage::working_directory:
      what = "change to the working directory " + quoted_path(jail.plan.working_directory);
      hint = "cwd is a path inside the jail";
      break;
    case ns::Stage::affinity: {
      static constexpr std::array<const char*, 5> kNames = {"set the cpu affinity", "set max_cpus", "do use_core_scheduling", "do disable_tsc", "set the personality"};
      what = kNames[std::min<size_t>(page.error_detail, kNames.size() - 1)];
      break;
    }
    case ns::Stage::rlimits:
      what = "set " + jail.rlimit_name(page.error_step);
      from = jail.rlimit_origin(page.error_step);
      break;
    case ns::Stage::seccomp: what = "load the seccomp policy"; break;
    case ns::Stage::session: what = "make a session of its own"; break;
    case ns::Stage::exec:
      what = "execute " + quoted_path(jail.exec_path);
      if (errnum == 0) hint = "the seccomp policy answers 0 instead of executing: ERRNO(0) or TRACE";
      if (errnum == ENOENT) {
        hint = jail.exec_path.find('/') == std::string::npos ? "no PATH is searched: give the absolute path inside"
                                                             : "the program, its interpreter or its loader is not in the jail: they come by --chroot or mounts";
      }
      break;
    default: break;
  }
  return Error::from_errno(errnum, what).with_origin(from).with_hint(hint).with_stage(ns::stage_name(stage));
}

void raise_limits(const Jail& jail) {
  for (const auto& [resource, value] : jail.raised_limits) {
    struct rlimit limit {};
    const auto which = static_cast<__rlimit_resource_t>(resource);
    if (::getrlimit(which, &limit) != 0 || limit.rlim_max >= value) continue;
    limit.rlim_max = value;
    (void)::setrlimit(which, &limit);  // refused: the child says which limit it was
  }
}

// Above 2, so that putting one in its place never covers another.
Status fill_streams(const Jail& jail, const Streams& streams, std::array<UniqueFd, 3>& copies, ns::ChildPlan& plan) {
  for (size_t i = 0; i < 3; ++i) {
    if (jail.silent_streams[i]) {
      const UniqueFd null = SBX_TRY(sys::open("/dev/null", O_RDWR));
      copies[i].reset(::fcntl(null.get(), F_DUPFD_CLOEXEC, 3));
    } else {
      copies[i].reset(::fcntl(streams.fds[i], F_DUPFD_CLOEXEC, 3));
    }
    if (!copies[i].valid()) return Error::from_errno(errno, "copy descriptor " + std::to_string(streams.fds[i]));
    plan.stdio[i] = copies[i].get();
  }
  return {};
}

}  // namespace

Running::~Running() {
  if (!pidfd_.valid()) return;
  send_signal(SIGKILL);
  (void)wait();
}

void Running::send_signal(int signal) const { sys::signal_child(pidfd_.get(), pid_, signal); }

Ending Running::wait() {
  siginfo_t info{};
  long result;
  do {
    result = raw::call(SYS_waitid, P_PIDFD, pidfd_.get(), &info, WEXITED | __WALL, nullptr);
  } while (result == -EINTR);
  pidfd_.reset();
  cgroup_.reset();
  Ending ending;
  if (info.si_code == CLD_EXITED) {
    ending.status = info.si_status;
  } else {
    ending.signal = info.si_status;
    ending.status = 128 + info.si_status;
  }
  return ending;
}

Result<std::optional<runtime::CgroupParent>> find_cgroup(const Jail& jail, const Caller& caller) {
  if (!jail.cgroup) return std::optional<runtime::CgroupParent>();
  runtime::CgroupWish wish;
  wish.parent = jail.cgroup_parent;
  wish.uid = caller.euid;
  const char* runtime_directory = ::getenv("XDG_RUNTIME_DIR");
  wish.runtime_directory = runtime_directory != nullptr ? runtime_directory : "/run/user/" + std::to_string(caller.euid);
  Result<runtime::CgroupParent> found = runtime::CgroupChoice::begin(wish).finish();
  if (!found.ok()) return found.take_error().with_origin(jail.cgroup_origin);
  const runtime::CgroupParent& parent = found.value();
  const runtime::Controllers have = parent.controllers();
  const bool lacks = (jail.cgroup->memory_bytes && !have.memory) || (jail.cgroup->pids && !have.pids) || (jail.cgroup->cpus_milli && !have.cpu);
  if (lacks) {
    return Error(ErrorKind::unsupported, "no cgroup can hold this limit" + (parent.reason().empty() ? "" : ": " + parent.reason()))
        .with_origin(jail.cgroup_origin)
        .with_hint(parent.remedy());
  }
  return std::optional<runtime::CgroupParent>(found.take());
}

Result<Running> start(Jail& jail, const Streams& streams, runtime::CgroupParent* cgroups) {
  Running running;
  if (cgroups != nullptr && jail.cgroup) running.cgroup_.emplace(SBX_TRY(cgroups->make(*jail.cgroup, false)));
  const runtime::SharedPage page = SBX_TRY(runtime::SharedPage::create());
  sys::Pipe hold = SBX_TRY(sys::pipe());
  sys::Pipe exec = SBX_TRY(sys::pipe());
  ns::ChildPlan plan = jail.plan;
  std::array<UniqueFd, 3> copies;
  SBX_TRY(fill_streams(jail, streams, copies, plan));
  plan.page = page.get();
  plan.hold_read = hold.read.get();
  plan.hold_write = hold.write.get();
  plan.exec_pipe = exec.write.get();
  std::vector<int> tasks;
  if (running.cgroup_) tasks = running.cgroup_->tasks();
  plan.cgroup_tasks = tasks.data();
  plan.cgroup_tasks_count = static_cast<uint32_t>(tasks.size());
  raise_limits(jail);

  int pidfd = -1;
  clone_args args{};
  args.flags = jail.clone_flags | CLONE_PIDFD;
  args.pidfd = reinterpret_cast<uint64_t>(&pidfd);
  // No exit signal: the end is read from the descriptor, where it cannot be lost.
  const int birth = running.cgroup_ ? running.cgroup_->birth_fd() : -1;
  long pid = -1;
  if (birth >= 0) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<uint64_t>(birth);
    pid = raw::call(SYS_clone3, &args, sizeof args);
    if (pid == 0) ns::run_direct(plan);
    args.flags &= ~CLONE_INTO_CGROUP;
    args.cgroup = 0;
  }
  const bool born_inside = pid > 0;
  if (pid < 0) {
    pid = raw::call(SYS_clone3, &args, sizeof args);
    if (pid == 0) ns::run_direct(plan);
  }
  if (pid < 0) {
    const int errnum = static_cast<int>(-pid);
    return Error::from_errno(errnum, "create the jail's namespaces").with_hint(hint_for(runtime::NamespaceStep::make, errnum)).with_stage("clone");
  }
  running.pid_ = static_cast<pid_t>(pid);
  running.pidfd_.reset(pidfd);
  running.hold_write_ = std::move(hold.write);
  hold.read.reset();
  exec.write.reset();

  Status mapped = write_maps(jail, running.pid_, ::geteuid() != 0);
  if (!mapped.ok()) return map_error(mapped.take_error());
  if (running.cgroup_ && !born_inside) SBX_TRY(running.cgroup_->admit(running.pid_));
  Status told = sys::write_all(running.hold_write_.get(), "g");
  if (!told.ok() && page.get()->error_stage == 0) return told.take_error();
  // End of file: executed, or dead.
  char byte;
  (void)sys::read(exec.read.get(), &byte, 1);
  if (page.get()->error_stage == 0) return running;
  Error error = child_error(jail, *page.get(), (jail.clone_flags & CLONE_NEWPID) != 0);
  (void)running.wait();
  return error;
}

Error become(Jail& jail, const Streams& streams, const Log& log) {
  Result<runtime::SharedPage> shared = runtime::SharedPage::create();
  if (!shared.ok()) return shared.take_error();
  const runtime::SharedPage page = shared.take();
  Result<sys::Pipe> hold = sys::pipe(), exec = sys::pipe(), ask = sys::pipe();
  if (!hold.ok() || !exec.ok() || !ask.ok()) return Error::from_errno(errno, "make a pipe");
  ns::ChildPlan plan = jail.plan;
  std::array<UniqueFd, 3> copies;
  Status filled = fill_streams(jail, streams, copies, plan);
  if (!filled.ok()) return filled.take_error();
  plan.page = page.get();
  plan.hold_read = hold.value().read.get();
  plan.exec_pipe = exec.value().write.get();
  raise_limits(jail);
  if (plan.new_session && (::getsid(0) == ::getpid() || ::getpgrp() == ::getpid())) {
    // The kernel refuses a leader another session; who leads one already has it.
    if (::getsid(0) != ::getpid()) log.warning("EXECVE by the leader of a process group keeps the caller's session: what types into its terminal could be the program");
    plan.new_session = false;
  }

  // The maps are written, and a failure is told, by a process outside of the new namespaces. It does not stay our
  // child: the program shall find none that it does not know.
  const pid_t self = ::getpid();
  const pid_t helper = ::fork();
  if (helper < 0) return Error::from_errno(errno, "fork");
  if (helper == 0) {
    ask.value().write.reset();
    exec.value().write.reset();
    hold.value().read.reset();
    if (::fork() != 0) ::_exit(0);
    char byte = 0;
    const Result<size_t> asked = sys::read(ask.value().read.get(), &byte, 1);
    if (!asked.ok() || asked.value() != 1) ::_exit(0);  // it could not even unshare
    // Always "deny": gid_map belongs to the very process that the kernel distrusts.
    Status mapped = write_maps(jail, self, true);
    if (!mapped.ok()) {
      log.error(map_error(mapped.take_error()), LogLevel::fatal);
      ::_exit(0);  // the hold pipe's end of file stops the other
    }
    (void)sys::write_all(hold.value().write.get(), "g");
    (void)sys::read(exec.value().read.get(), &byte, 1);
    if (page.get()->error_stage != 0) log.error(child_error(jail, *page.get(), false), LogLevel::fatal);
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(helper, &status, 0) < 0 && errno == EINTR) {}
  hold.value().write.reset();
  if (::unshare(static_cast<int>(jail.clone_flags)) != 0) {
    const int errnum = errno;
    return Error::from_errno(errnum, "create the jail's namespaces").with_hint(hint_for(runtime::NamespaceStep::make, errnum));
  }
  if ((jail.clone_flags & CLONE_NEWPID) != 0) {
    // The first child is pid 1 of the new namespace, and its end would be the end of all later ones.
    Result<sys::Pipe> bound = sys::pipe();
    if (!bound.ok()) return bound.take_error();
    const pid_t first = ::fork();
    if (first < 0) return Error::from_errno(errno, "fork");
    if (first == 0) {
      ::prctl(PR_SET_NAME, "init", 0, 0, 0);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
      raw::call(SYS_close_range, 0, ~0u, 0);
      for (;;) ::pause();
    }
    // Until its end is bound to ours: if we had died before, nobody would tell it.
    bound.value().write.reset();
    char none = 0;
    (void)sys::read(bound.value().read.get(), &none, 1);
  }
  (void)sys::write_all(ask.value().write.get(), "m");
  jail.direct.death_signal = false;
  jail.direct.fail_status = 255;
  ns::run_direct(plan);
}

}  // namespace sbx::nsjail
