#include "ns/plan_text.h"

#include <sys/resource.h>

#include "base/raw_sys.h"
#include "base/text.h"

namespace sbx::ns {
namespace {

std::string word(const char* text) { return text == nullptr ? "NULL" : "\"" + printable(text, 200) + "\""; }

std::string octal(uint32_t mode) {
  std::string digits;
  for (; mode != 0; mode /= 8) digits.insert(digits.begin(), static_cast<char>('0' + mode % 8));
  return "0" + digits;
}

std::string attributes(uint64_t attr) {
  std::string text;
  const auto add = [&](uint64_t bit, const char* name) {
    if ((attr & bit) != 0) text += (text.empty() ? "" : "|") + std::string(name);
  };
  add(SBX_MOUNT_ATTR_RDONLY, "RDONLY");
  add(SBX_MOUNT_ATTR_NOSUID, "NOSUID");
  add(SBX_MOUNT_ATTR_NODEV, "NODEV");
  add(SBX_MOUNT_ATTR_NOEXEC, "NOEXEC");
  return text.empty() ? "0" : text;
}

const char* rlimit_name(int resource) {
  switch (resource) {
    case RLIMIT_CPU: return "RLIMIT_CPU";
    case RLIMIT_FSIZE: return "RLIMIT_FSIZE";
    case RLIMIT_DATA: return "RLIMIT_DATA";
    case RLIMIT_CORE: return "RLIMIT_CORE";
    case RLIMIT_NPROC: return "RLIMIT_NPROC";
    case RLIMIT_NOFILE: return "RLIMIT_NOFILE";
    case RLIMIT_MEMLOCK: return "RLIMIT_MEMLOCK";
    case RLIMIT_MSGQUEUE: return "RLIMIT_MSGQUEUE";
    case RLIMIT_RTPRIO: return "RLIMIT_RTPRIO";
    case RLIMIT_NICE: return "RLIMIT_NICE";
    case RLIMIT_SIGPENDING: return "RLIMIT_SIGPENDING";
    case RLIMIT_STACK: return "RLIMIT_STACK";
    default: return "RLIMIT";
  }
}

// The order is that of child.cc; what stands there in a function of its own does so here.
class Lister {
 public:
  explicit Lister(const ChildPlan& plan) : plan_(plan) {}

  std::vector<std::string> all() {
    init();
    payload();
    end_run();
    return std::move(lines_);
  }

 private:
  void call(const std::string& text) {
    if (text == last_) {
      ++times_;
      return;
    }
    end_run();
    last_ = text;
    times_ = 1;
  }
  void calls(const std::string& text, uint64_t times) {
    if (times == 0) return;
    end_run();
    last_ = text;
    times_ = times;
  }
  void end_run() {
    if (times_ != 0) lines_.push_back(who_ + last_ + (times_ > 1 ? " [" + std::to_string(times_) + " times]" : ""));
    times_ = 0;
    last_.clear();
  }

  // ---- mounts
  void move_to(const Step& step, const char* target) {
    const bool confined = (step.flags & kResolveTarget) != 0;
    if (confined) call("openat2(" + word(target) + ", O_PATH, RESOLVE_IN_ROOT|RESOLVE_NO_MAGICLINKS)");
    call("move_mount(tree, " + (confined ? std::string("the place opened") : word(target)) + ")");
    if (confined) call("close(place)");
  }
  void bind(const Step& step) {
    const bool no_links = (step.flags & kNoLinks) != 0;
    if (no_links) call("openat2(" + word(step.a) + ", O_PATH, RESOLVE_NO_SYMLINKS)");
    call("open_tree(" + word(step.a) + ", CLONE|RECURSIVE)");
    if (step.n != 0 || step.m != 0) call("newfstatat(tree): device and inode as they were");
    call("mount_setattr(tree, RECURSIVE, " + attributes(step.attr) + ")");
    move_to(step, step.b);
    call("close(tree)");
    if (no_links) call("close(source)");
  }
  void clone_bind(const Step& step) {
    const bool confined = (step.flags & kResolveTarget) != 0;
    if (confined) call("openat2(" + word(step.a) + ", O_PATH, RESOLVE_IN_ROOT|RESOLVE_NO_MAGICLINKS)");
    const bool over_self = (step.flags & kOverSelf) != 0, may_be_missing = (step.flags & kMayBeMissing) != 0;
    if (may_be_missing && !over_self) call("faccessat(" + word(step.b) + ", F_OK), and where it is there:");
    call("open_tree(" + word(step.a) + ", CLONE|RECURSIVE)" + (may_be_missing && over_self ? ", and where it is there:" : ""));
    if (step.attr != 0) call("mount_setattr(tree, RECURSIVE, " + attributes(step.attr) + ")");
    if (over_self && confined) call("move_mount(tree, the place opened)");
    else move_to(step, over_self ? step.a : step.b);
    call("close(tree)");
    if (confined) call("close(source)");
  }
  void write_content(const Step& step) {
    if (step.n != 0) call("write(file, " + std::to_string(step.n) + " bytes)");
    call("close(file)");
  }

  void perform(const Step& step) {
    switch (step.kind) {
      case StepKind::tmpfs:
        call("mount(\"sbx\", " + word(step.a) + ", \"tmpfs\", MS_NOSUID|MS_NODEV, " + word(step.b) + ")");
        if (std::string_view(step.a) == "/") call("chdir(\"/..\")");
        return;
      case StepKind::make_dir: return call("mkdirat(" + word(step.a) + ", " + octal(step.mode) + ")");
      case StepKind::make_symlink: return call("symlinkat(" + word(step.b) + ", " + word(step.a) + ")");
      case StepKind::write_file:
        if (step.n == 0) return call("mknodat(" + word(step.a) + ", S_IFREG|" + octal(step.mode) + ")");
        call("openat(" + word(step.a) + ", O_WRONLY|O_CREAT|O_EXCL|O_NOFOLLOW, " + octal(step.mode) + ")");
        return write_content(step);
      case StepKind::write_to:
        call("openat(" + word(step.a) + ", O_WRONLY)");
        return write_content(step);
      case StepKind::copy_fd:
        call("openat(" + word(step.a) + ", O_WRONLY|O_CREAT|O_EXCL|O_NOFOLLOW, " + octal(step.mode) + ")");
        call("sendfile(file, the supervisor's descriptor): to its end");
        return call("close(file)");
      case StepKind::bind: return bind(step);
      case StepKind::clone_bind: return clone_bind(step);
      case StepKind::attach: return move_to(step, step.b);
      case StepKind::proc:
        return call("mount(\"proc\", " + word(step.a) + ", \"proc\", " + ((step.attr & SBX_MOUNT_ATTR_RDONLY) != 0 ? "MS_RDONLY|" : "") +
                    "MS_NOSUID|MS_NODEV|MS_NOEXEC, " + word(step.b) + ")");
      case StepKind::devpts:
        return call("mount(\"devpts\", " + word(step.a) + ", \"devpts\", MS_NOSUID|MS_NOEXEC, \"newinstance,ptmxmode=0666,mode=620,max=64\")");
      case StepKind::overlay: return call("mount(\"overlay\", " + word(step.a) + ", \"overlay\", MS_NOSUID|MS_NODEV, " + word(step.b) + ")");
      case StepKind::cgroup: return call("mount(\"cgroup2\", " + word(step.a) + ", \"cgroup2\", MS_RDONLY|MS_NOSUID|MS_NODEV|MS_NOEXEC, NULL)");
      case StepKind::open_keep:
        if ((step.flags & kResolveTarget) != 0) return call("openat2(" + word(step.a) + ", O_RDONLY|O_DIRECTORY, RESOLVE_IN_ROOT|RESOLVE_NO_MAGICLINKS)");
        return call("openat(" + word(step.a) + ", O_RDONLY|O_DIRECTORY)");
      // nsjail's, which no plan of `run` and `exec` has.
      case StepKind::file_system:
      case StepKind::content_bind:
      case StepKind::keep_tree:
      case StepKind::restrict_top: return call("a step of nsjail's at " + word(step.b));
      // bwrap's, which no plan of `run` and `exec` has.
      case StepKind::mount_at:
      case StepKind::data:
      case StepKind::restrict:
      case StepKind::chmod:
      case StepKind::host_name: return call("a step of bwrap's at " + word(step.a));
    }
  }

  // ---- processes
  void init() {
    who_ = "init: ";
    call("rt_sigprocmask(SIG_SETMASK, all)");
    call("rt_sigaction(SIGCHLD, SIG_DFL)");
    call("close(the supervisor's end)");
    call("umask(0)");
    if (plan_.network_namespace && !plan_.network_beside) call("unshare(CLONE_NEWNET)");
    if (plan_.network_namespace && plan_.network_beside) {
      call("clone3(CLONE_VM|CLONE_FILES, set_tid=300): a helper");
      end_run();
      who_ = "init's helper: ";
      call("unshare(CLONE_NEWNET)");
      call("socket(AF_INET, SOCK_DGRAM)");
      call("ioctl(socket, SIOCSIFFLAGS, lo: IFF_UP|IFF_RUNNING)");
      call("ioctl(socket, SIOCGSKNS)");
      call("close(socket)");
      end_run();
      who_ = "init: ";
    }
    call("read(hold pipe): waits for the id maps");
    calls("write(a cgroup's tasks, \"0\")", plan_.cgroup_tasks_count);
    if (plan_.cgroup_namespace) call("unshare(CLONE_NEWCGROUP)");
    if (plan_.drop_groups) call("setgroups(0, NULL)");
    const std::string gid = std::to_string(plan_.gid), uid = std::to_string(plan_.uid);
    call("setresgid(" + gid + ", " + gid + ", " + gid + ")");
    call("setresuid(" + uid + ", " + uid + ", " + uid + ")");
    if (plan_.oom_score) {
      call("openat(\"/proc/self/oom_score_adj\", O_WRONLY)");
      call("write(oom_score_adj, \"1000\")");
      call("close(oom_score_adj)");
    }
    call("prctl(PR_SET_PDEATHSIG, SIGKILL)");
    call("prctl(PR_SET_DUMPABLE, 0)");
    call("ppoll(hold pipe): the supervisor lives");
    call("mount(NULL, \"/\", NULL, MS_REC|MS_PRIVATE, NULL)");
    for (uint32_t i = 0; i < plan_.step_count; ++i) perform(plan_.steps[i]);
    call("pivot_root(\".\", \".\")");
    call("umount2(\".\", MNT_DETACH)");
    call("chdir(\"/\")");
    if (plan_.read_only_root) call("mount_setattr(\"/\", RDONLY)");
    if (plan_.network_namespace && plan_.network_beside) {
      call("wait4(helper)");
      call("setns(the network's namespace, CLONE_NEWNET)");
      call("close(the network's namespace)");
    } else if (plan_.network_namespace) {
      call("socket(AF_INET, SOCK_DGRAM)");
      call("ioctl(socket, SIOCSIFFLAGS, lo: IFF_UP|IFF_RUNNING)");
      call("close(socket)");
    }
    if (plan_.hostname != nullptr) call("sethostname(" + word(plan_.hostname) + ")");
    if (plan_.open_terminal) {
      call("openat(\"/dev/ptmx\", O_RDWR|O_NOCTTY)");
      call("ioctl(master, TIOCSPTLCK, 0)");
      call("ioctl(master, TIOCGPTPEER, O_RDWR|O_NOCTTY)");
      call("ioctl(terminal, TCSETS)");
      call("ioctl(master, TIOCSWINSZ)");
    }
    call("sendmsg(supervisor, /proc and directories of the payload)");
    bound(plan_.keep_capabilities);
    if (plan_.new_session) {
      call("setsid()");
      if (plan_.open_terminal) call("ioctl(terminal, TIOCSCTTY)");
    }
    if (plan_.keep_capabilities == 0) keep_capabilities();
    call("clone(" + std::string(plan_.start_path == 0 ? "CLONE_VM|CLONE_VFORK|" : "") + "SIGCHLD): the payload");
    end_run();
  }

  void keep_capabilities() {
    uint64_t kept = 0;
    for (uint32_t capability = 0; capability <= plan_.last_capability; ++capability) kept += plan_.keep_capabilities >> capability & 1;
    call("capset(" + std::to_string(kept) + " capabilities)");
    if (kept == 0) call("prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)");
    else calls("prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, each that is kept)", kept);
  }

  void bound(uint64_t keep) {
    uint64_t dropped = 0;
    for (uint32_t capability = 0; capability <= plan_.last_capability; ++capability) dropped += (keep >> capability & 1) == 0 ? 1 : 0;
    calls("prctl(PR_CAPBSET_DROP, each capability that is not kept)", dropped);
    if (keep == 0) call("prctl(PR_SET_SECUREBITS, all but KEEP_CAPS, locked)");
  }

  void payload() {
    who_ = "payload: ";
    if (plan_.new_session) {
      if (!plan_.open_terminal) {
        call("setsid()");
      } else {
        call("setpgid(0, 0)");
        call("ioctl(terminal, TIOCSPGRP)");
      }
    }
    for (int stream = 0; stream < 3; ++stream) {
      if (!plan_.tty[stream] && plan_.stdio[stream] < 0) call("openat(\"/dev/null\")");
      call("dup3(" + std::string(plan_.tty[stream] ? "terminal" : "pipe") + ", " + std::to_string(stream) + ")");
    }
    if (plan_.affinity != nullptr) call("sched_setaffinity(0, " + std::to_string(plan_.affinity_bytes) + " bytes)");
    call("umask(022)");
    call("chdir(" + word(plan_.working_directory) + ")");
    calls("rt_sigaction(each signal, SIG_DFL; SIGXFSZ: SIG_IGN)", 62);
    call("rt_sigprocmask(SIG_SETMASK, none)");
    if (plan_.keep_capabilities != 0) keep_capabilities();
    call("prctl(PR_SET_NO_NEW_PRIVS, 1)");
    if (plan_.landlock_ruleset >= 0) {
      for (uint32_t i = 0; i < plan_.landlock_rule_count; ++i) {
        call("openat(" + word(plan_.landlock_rules[i].path) + ", O_PATH)");
        call("landlock_add_rule(ruleset, " + word(plan_.landlock_rules[i].path) + ")");
        call("close(path)");
      }
      call("landlock_restrict_self(ruleset)");
    }
    call("close_range(3, below what is still needed)");
    call("close_range(3, all, CLOEXEC)");
    for (uint32_t i = 0; i < plan_.rlimit_count; ++i) {
      call("prlimit64(" + std::string(rlimit_name(plan_.rlimits[i].resource)) + ", " +
           (plan_.rlimits[i].value == RLIM_INFINITY ? "infinity" : std::to_string(plan_.rlimits[i].value)) + ")");
    }
    if (plan_.reporting_filter != nullptr) {
      call("seccomp(SET_MODE_FILTER, NEW_LISTENER, " + std::to_string(plan_.reporting_filter->len) + " instructions)");
      call("sendmsg(supervisor, the filter's listener)");
    } else if (plan_.filter != nullptr) {
      call("seccomp(SET_MODE_FILTER, " + std::to_string(plan_.filter->len) + " instructions)");
    }
    for (size_t i = 0; plan_.candidates[i] != nullptr; ++i) {
      call("execve(" + word(plan_.candidates[i]) + ")" + (plan_.candidates[i + 1] != nullptr ? ", and if it is not there:" : ""));
    }
  }

  const ChildPlan& plan_;
  std::vector<std::string> lines_;
  std::string who_;
  std::string last_;
  uint64_t times_ = 0;
};

}  // namespace

std::vector<std::string> system_calls_of(const ChildPlan& plan) { return Lister(plan).all(); }

}  // namespace sbx::ns
