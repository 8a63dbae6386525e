#include "runtime/launch.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/raw_sys.h"
#include "base/sys.h"
#include "base/text.h"
#include "ns/child.h"
#include "runtime/mending.h"

namespace sbx::runtime {
namespace {

// Too few descriptors or processes of the caller's own: the error says it, and no setting of the host mends it.
std::string hint_for(NamespaceStep step, int errnum) {
  if (errnum == EMFILE || errnum == ENFILE || errnum == EAGAIN || errnum == ENOMEM) return "raise the caller's own limits: see ulimit -a";
  return mend_namespaces(read_namespace_knobs(), step, errnum).text();
}

// Without that of the network, which the child makes itself (ns/plan.h).
uint64_t clone_flags(const SandboxSpec& spec) {
  uint64_t flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_PIDFD;
  if (spec.namespaces.ipc) flags |= CLONE_NEWIPC;
  if (spec.namespaces.uts) flags |= CLONE_NEWUTS;
  return flags;
}

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL  // 5.7
#endif

// Born inside its cgroup where clone3 can do that; the child of a kernel or a place that cannot is moved there while it
// waits. `born_inside` says which it was.
long clone_child(clone_args& args, int cgroup, bool& born_inside) {
  born_inside = cgroup >= 0;
  if (born_inside) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<uint64_t>(cgroup);
  }
  const long pid = raw::call(SYS_clone3, &args, sizeof args);
  if (pid >= 0 || !born_inside) return pid;
  born_inside = false;
  args.flags &= ~CLONE_INTO_CGROUP;
  args.cgroup = 0;
  return raw::call(SYS_clone3, &args, sizeof args);
}

// Command line and environment of this process lie together on the stack, from argv[0] to the file name that the
// kernel puts after them (getauxval(3), AT_EXECFN). The child wipes its copy.
void find_own_arguments(ns::ChildPlan& plan) {
  char* start = program_invocation_name;
  char* end = reinterpret_cast<char*>(::getauxval(AT_EXECFN));
  if (start == nullptr || end == nullptr || end <= start || end - start > (8 << 20)) return;
  plan.wipe = start;
  plan.wipe_size = static_cast<size_t>(end - start);
}

void set_oom_score(pid_t pid) {
  // In the root case the child is not dumpable after its change of identity and cannot do this itself. A courtesy to
  // the host; where /proc is not what it should be the run goes on.
  Result<UniqueFd> fd = sys::open("/proc/" + std::to_string(pid) + "/oom_score_adj", O_WRONLY);
  if (fd.ok()) (void)sys::write_all(fd.value().get(), "1000");
}

}  // namespace

bool a_cpu_is_free() {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (::sched_getaffinity(0, sizeof mine, &mine) != 0 || CPU_COUNT(&mine) < 2) return false;
  const Result<std::string> load = read_file("/proc/loadavg", 128);  // "0.31 0.22 0.18 2/345 6789": running / threads
  if (!load.ok()) return false;
  size_t at = 0;
  for (int field = 0; field < 3 && at != std::string::npos; ++field) at = load.value().find(' ', at + 1);
  const size_t slash = load.value().find('/');
  if (at == std::string::npos || slash == std::string::npos || slash < at) return false;
  const Result<uint64_t> running = parse_integer(std::string_view(load.value()).substr(at + 1, slash - at - 1));
  return running.ok() && running.value() < static_cast<uint64_t>(CPU_COUNT(&mine));
}

Error namespaces_error(int errnum, ns::Stage stage) {
  return Error::from_errno(errnum, "create the sandbox's namespaces")
      .with_stage(ns::stage_name(stage))
      .with_hint(hint_for(NamespaceStep::make, errnum));
}

Result<SharedPage> SharedPage::create() {
  void* memory = ::mmap(nullptr, sizeof(ns::StatusPage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Error::from_errno(errno, "map the status page");
  return SharedPage(static_cast<ns::StatusPage*>(memory));
}

SharedPage::~SharedPage() {
  if (page_ != nullptr) ::munmap(page_, sizeof(ns::StatusPage));
}

Launched::~Launched() {
  if (!pidfd_.valid() || ended_) return;
  send_signal(SIGKILL);
  struct rusage usage {};
  wait_for_end(usage);
}

std::vector<UniqueFd> Launched::receive() {
  std::vector<UniqueFd> slots = receive_slots(hand_over_.get());
  hand_over_.reset();
  return slots;
}

std::vector<UniqueFd> receive_slots(int hand_over) {
  std::vector<UniqueFd> slots(ns::kSlotCount);
  for (;;) {
    char names[ns::kSlotCount];
    std::vector<UniqueFd> fds;
    static_assert(ns::kSlotCount <= sys::kMostSentFds);
    const Result<size_t> got = sys::receive_with_fds(hand_over, names, fds, MSG_DONTWAIT);
    if (!got.ok()) break;
    for (size_t i = 0; i < std::min(fds.size(), got.value()); ++i) {
      if (names[i] >= 0 && names[i] < ns::kSlotCount) slots[static_cast<size_t>(names[i])] = std::move(fds[i]);
    }
    if (got.value() == 0) break;  // the end; or a message without names, whose descriptors are closed by now
  }
  return slots;
}

void Launched::send_signal(int signal) const {
  if (!ended_) sys::signal_child(pidfd_.get(), pid_, signal);
}

void Launched::wait_for_end(struct rusage& usage) {
  siginfo_t info{};
  long result;
  do {
    // The raw call, for its usage; __WALL because the child was made without an exit signal.
    result = raw::call(SYS_waitid, P_PIDFD, pidfd_.get(), &info, WEXITED | __WALL, &usage);
  } while (result == -EINTR);
  ended_ = true;
}

Result<Launched> launch(const LaunchInput& input) {
  Launched launched(SBX_TRY(SharedPage::create()));
  ns::ChildPlan& plan = input.child->plan;
  sys::Pipe hold = SBX_TRY(sys::pipe());
  sys::Pipe exec = SBX_TRY(sys::pipe());
  std::array<UniqueFd, 2> pair = SBX_TRY(sys::socketpair(SOCK_SEQPACKET));
  sys::Pipe events;
  if (plan.open_terminal) events = SBX_TRY(sys::pipe(O_NONBLOCK));

  plan.page = launched.page_.get();
  plan.hold_read = hold.read.get();
  plan.hold_write = hold.write.get();
  plan.exec_pipe = exec.write.get();
  plan.event_pipe = events.write.valid() ? events.write.get() : -1;
  plan.hand_over = pair[1].get();
  plan.session = input.session;
  UniqueFd extra;
  if (input.extra >= 0) {  // above those that the payload's way to exec closes or still needs
    extra.reset(::fcntl(input.extra, F_DUPFD_CLOEXEC, std::max(plan.exec_pipe, plan.hand_over) + 1));
    if (!extra.valid()) return Error::from_errno(errno, "duplicate a descriptor");
    plan.extra[0] = extra.get();
  }
  for (int i = 0; i < 3; ++i) {
    plan.stdio[i] = input.stdio[i];
    plan.tty[i] = input.tty[i];
  }
  std::vector<int> tasks;
  if (input.cgroup != nullptr) tasks = input.cgroup->tasks();
  plan.cgroup_tasks = tasks.data();
  plan.cgroup_tasks_count = static_cast<uint32_t>(tasks.size());
  find_own_arguments(plan);

  int pidfd = -1;
  clone_args args{};
  args.flags = clone_flags(*input.spec);
  args.pidfd = reinterpret_cast<uint64_t>(&pidfd);
  // No exit signal: a caller that ignores SIGCHLD would lose the status, one that handles it would be surprised.
  args.exit_signal = 0;
  plan.page->stage = static_cast<uint32_t>(ns::Stage::clone);
  bool born_inside = false;
  const long pid = clone_child(args, input.cgroup != nullptr ? input.cgroup->birth_fd() : -1, born_inside);
  if (pid == 0) ns::run_child(plan);
  if (pid < 0) return namespaces_error(static_cast<int>(-pid), ns::Stage::clone);
  launched.pidfd_.reset(pidfd);
  launched.pid_ = static_cast<pid_t>(pid);
  launched.ended_ = false;
  launched.hold_write_ = std::move(hold.write);
  launched.exec_pipe_ = std::move(exec.read);
  launched.event_pipe_ = std::move(events.read);
  launched.hand_over_ = std::move(pair[0]);

  Status mapped = ns::write_id_maps(static_cast<pid_t>(pid), input.ids, !input.root_identity);
  if (!mapped.ok()) {
    if (plan.page->error_stage != 0) return launched;  // the child has ended, and says there of what
    Error error = mapped.take_error().with_stage("id maps");
    if (!error.hint().empty()) return error;
    const std::string hint = hint_for(NamespaceStep::map, error.errnum());
    return std::move(error).with_hint(hint);
  }
  if (input.cgroup != nullptr && !born_inside) {
    Status admitted = input.cgroup->admit(static_cast<pid_t>(pid));
    if (!admitted.ok() && plan.page->error_stage != 0) return launched;
    if (!admitted.ok()) return admitted.take_error().with_context("cannot put the sandbox into its cgroup").with_stage("cgroup");
  }
  if (input.root_identity) set_oom_score(static_cast<pid_t>(pid));
  Status told = sys::write_all(launched.hold_write_.get(), "g");
  if (!told.ok() && plan.page->error_stage == 0) return told.take_error();
  return launched;
}

}  // namespace sbx::runtime
