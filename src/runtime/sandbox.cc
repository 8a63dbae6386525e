#include "runtime/sandbox.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/sys.h"
#include "base/text.h"
#include "ns/build_plan.h"
#include "ns/plan_text.h"
#include "runtime/choose_cgroup.h"
#include "runtime/launch.h"
#include "runtime/live_sandbox.h"
#include "runtime/mending.h"
#include "runtime/stdio.h"
#include "runtime/signal_guard.h"
#include "runtime/supervise.h"
#include "runtime/uid_lease.h"
#include "runtime/unmappable.h"
#include "seccomp/compile.h"
#include "seccomp/evaluate.h"
#include "seccomp/start_key.h"

namespace sbx::runtime {
namespace {

// What the payload is mapped to on the host.
struct HostIdentity {
  UidLease lease;  // root case only
  uint32_t uid = 0, gid = 0;
  bool owner = false;  // the owner of a writable directory that cannot be idmapped
};

Result<HostIdentity> choose_identity(const HostFacts& facts) {
  HostIdentity identity;
  identity.uid = facts.uid;
  identity.gid = facts.gid;
  if (facts.root_identity) {
    if (const std::string lacks = lacking_capabilities(true, facts.capabilities); !lacks.empty()) {
      return Error(ErrorKind::permission, "root here lacks " + lacks).with_hint(mend_capabilities(read_namespace_knobs()).remedy);
    }
    const std::string map = SBX_TRY(read_file("/proc/self/uid_map", 4096));
    identity.lease = SBX_TRY(lease_uid(choose_uid_range(map)));
    identity.uid = identity.gid = identity.lease.uid;
  }
  return identity;
}

// The filter in force; owns the program unless it is a shipped one.
struct Filter {
  seccomp::BpfProgram own, own_reporting;
  std::span<const sock_filter> program;
  std::span<const sock_filter> reporting;  // the same with a listener; empty where it could not be handed over
  std::string policy;
  std::array<uint64_t, 3> start_key{};  // zeros: execve is a call like others
};

// With arguments of zero: enough for calls that the policies decide by number.
bool allows(std::span<const sock_filter> program, int number) {
  if (program.empty()) return false;
  seccomp_data data{};
  data.nr = number;
#if defined(__x86_64__)
  data.arch = AUDIT_ARCH_X86_64;
#else
  data.arch = AUDIT_ARCH_AARCH64;
#endif
  Result<uint32_t> answer = seccomp::evaluate(program, data);
  return answer.ok() && answer.value() == SECCOMP_RET_ALLOW;
}

// What the sandbox's cgroup holds, nothing without one.
Controllers held_by(const std::optional<SandboxCgroup>& cgroup) { return cgroup ? cgroup->controllers() : Controllers{}; }

// The disk that limits.io is about, "8:0": the workspace's, else that of /usr. io.max takes whole disks only.
Result<std::string> disk_of(const SandboxSpec& spec) {
  static constexpr std::string_view kWorkspace = "/box";
  std::string place = "/usr";
  for (const FsOp& op : spec.fs) {
    if (const auto* bind = std::get_if<BindOp>(&op); bind != nullptr && bind->target == kWorkspace) place = bind->source;
    if (const auto* overlay = std::get_if<OverlayOp>(&op); overlay != nullptr && overlay->target == kWorkspace) place = overlay->lower;
  }
  const struct stat info = SBX_TRY(sys::stat(place));
  const std::string device = std::to_string(major(info.st_dev)) + ":" + std::to_string(minor(info.st_dev));
  if (major(info.st_dev) == 0) {
    return Error(ErrorKind::unsupported, "'" + place + "' lies on no disk that can be told (an overlay, btrfs, tmpfs or network file system)")
        .with_hint("leave --io out, or share a workspace that lies on a disk's own file system");
  }
  const std::string entry = "/sys/dev/block/" + device;
  if (!sys::stat(entry + "/partition").ok()) return device;
  return std::string(trim(SBX_TRY(read_file(entry + "/../dev", 64))));
}

// No leaf where it would hold and count nothing.
Result<std::optional<SandboxCgroup>> make_cgroup(const SandboxSpec& spec, CgroupParent* parent, bool all_die) {
  CgroupLimits limits;
  limits.all_die = all_die;
  if (spec.limits.io) {
    const auto found = spec.origins.find("limits.io");
    const std::string origin = found == spec.origins.end() ? "" : found->second;
    const auto refused = [&](Error error) { return std::move(error).with_context("limits.io cannot be held here").with_origin(origin); };
    if (parent == nullptr || !parent->usable()) {
      return refused(Error(ErrorKind::unsupported, parent == nullptr ? "no cgroup is used" : parent->reason()));
    }
    Result<std::string> disk = disk_of(spec);
    if (!disk.ok()) return refused(disk.take_error());
    limits.io_bytes = spec.limits.io->value;
    limits.io_device = disk.take();
  }
  if (parent == nullptr || !parent->usable()) return std::optional<SandboxCgroup>();
  if (spec.limits.memory) limits.memory_bytes = spec.limits.memory->value;
  if (spec.limits.pids) limits.pids = *spec.limits.pids + 1;  // init counts
  limits.cpus_milli = spec.limits.cpus_milli;
  return std::optional<SandboxCgroup>(SBX_TRY(parent->make(limits, spec.hardening.nested_userns)));
}

// The program with this run's key, in memory of its own.
std::span<const sock_filter> give_key(std::span<const sock_filter> program, seccomp::BpfProgram& own, const seccomp::StartKey& key) {
  if (program.empty()) return {};
  if (program.data() != own.data()) own.assign(program.begin(), program.end());
  seccomp::set_start_key(own, key);
  return own;
}

Result<Filter> choose_filter(const SandboxSpec& spec, bool sample_memory) {
  Filter filter;
  if (!spec.seccomp.enabled) return filter;
  seccomp::CompileOptions options;
  options.arch = seccomp::native_arch();
  options.guard_set_id = has_writable_host_directory(spec);
  options.guard_unseen_memory = sample_memory;
  if (!spec.seccomp.builtin.empty()) {
    filter.policy = spec.seccomp.builtin;
    filter.program = seccomp::builtin_program(spec.seccomp.builtin, options);
    if (filter.program.empty()) {
      return Error(ErrorKind::internal, "no shipped filter for policy '" + spec.seccomp.builtin + "'");
    }
    options.listener = true;
    filter.reporting = seccomp::builtin_program(spec.seccomp.builtin, options);
  } else {
    filter.policy = "custom";
    filter.own = SBX_TRY(seccomp::compile(spec.seccomp.rules, options));
    filter.program = filter.own;
    options.listener = true;
    filter.own_reporting = SBX_TRY(seccomp::compile(spec.seccomp.rules, options));
    filter.reporting = filter.own_reporting;
  }
  // The listener leaves the payload's process by sendmsg, after the filter has been loaded.
  if (!allows(filter.reporting, SYS_sendmsg)) filter.reporting = {};
  if (seccomp::start_key_of(filter.program)) {
    const seccomp::StartKey key = SBX_TRY(seccomp::make_start_key());
    filter.start_key = key.words;
    filter.program = give_key(filter.program, filter.own, key);
    filter.reporting = give_key(filter.reporting, filter.own_reporting, key);
  }
  return filter;
}

// The backstop of sampling: a process that grows faster than anybody looks. Well above the limit, since every thread
// stack counts as 8 MiB and a JVM reserves half a gigabyte.
uint64_t data_limit(const Limits& limits) {
  const uint64_t memory = limits.memory->value;
  const uint64_t stacks = limits.pids ? *limits.pids * (uint64_t{8} << 20) : 3 * memory;
  return std::max(uint64_t{1} << 30, std::min(4 * memory, memory + stacks));
}

Error setup_error(const ns::PlannedChild& child, const ns::StatusPage& page, const SandboxSpec& spec, const HostFacts& facts) {
  const auto stage = static_cast<ns::Stage>(std::min(page.error_stage, ns::kStageCount - 1));
  const int errnum = page.error_errno;
  if (stage == ns::Stage::exec) {
    const std::string command = "'" + printable(spec.exec_path) + "'";
    if (errnum == ENOENT || errnum == ENOTDIR) {
      Error error(ErrorKind::not_found, "command not found inside the sandbox: " + command);
      return std::move(error).with_stage("exec").with_hint(
          std::string(spec.exec_path.find('/') != std::string::npos ? "it, or the interpreter that its #! line names, is not there; " : "") +
          "the sandbox sees /usr, /bin and what is shared with --mount or --workspace; `sbx exec -- ls -l DIR` shows the view");
    }
    if (errnum == EACCES || errnum == ENOEXEC) {
      Error error(ErrorKind::not_executable, "cannot execute " + command + ": " +
                                                 (errnum == ENOEXEC ? "neither a program for this machine nor a script with a #! line"
                                                                    : errno_text(errnum)));
      return std::move(error).with_stage("exec").with_hint(
          "a program needs the execute permission (chmod +x); source code runs with: sbx run FILE");
    }
    return Error::from_errno(errnum, "execute " + command).with_stage("exec");
  }
  if (stage == ns::Stage::network) return namespaces_error(errnum, stage);
  std::string what = std::string("set up the sandbox (") + ns::stage_name(stage) + ")";
  if (stage == ns::Stage::mounts) what = child.step_text(page.error_step);
  Error error = Error::from_errno(errnum, what).with_stage(ns::stage_name(stage));
  if (stage == ns::Stage::mounts) {
    std::string origin = child.step_origin(page.error_step);
    if (!origin.empty()) error = std::move(error).with_origin(std::move(origin));
    if (what.find("mount proc on") == 0 && errnum == EPERM) {
      return std::move(error).with_hint(mend_masked_proc(read_namespace_knobs()).text());
    }
    if (what.find("bind ") == 0 && errnum == EACCES && facts.root_identity && !facts.may_clone_trees) {
      return std::move(error).with_hint(
          "root without CAP_SYS_ADMIN can share only what everybody may reach; start the container with --cap-add SYS_ADMIN");
    }
    if (page.error_step == 0 && (errnum == EPERM || errnum == EACCES)) {
      // The namespaces were made and are worth nothing: the first mount in them is refused.
      const NamespaceKnobs knobs = read_namespace_knobs();
      return std::move(error).with_hint(mend_namespaces(knobs, NamespaceStep::mount, errnum).text());
    }
    if (errnum == ESTALE || (errnum == ELOOP && what.find("bind ") == 0)) return std::move(error).with_hint("the path changed while the sandbox was being set up; try again");
    if (errnum == ENOENT) {
      return std::move(error).with_hint(
          "the target does not exist inside the shared directory, and nothing is ever created there: create it first or choose another target");
    }
  }
  if ((stage == ns::Stage::identity || stage == ns::Stage::host_name || stage == ns::Stage::loopback) &&
      (errnum == EPERM || errnum == EACCES)) {
    return std::move(error).with_hint(mend_namespaces(read_namespace_knobs(), NamespaceStep::use, errnum).text());
  }
  return error;
}

void fill_setup_times(Outcome& outcome, const ns::StatusPage& page, int64_t cgroup_us, uint64_t start_ns, uint64_t clone_ns,
                      uint64_t exec_ns) {
  if (cgroup_us > 0) outcome.setup_times.push_back({"cgroup", Micros{cgroup_us}});
  outcome.setup_times.push_back({"prepare", Micros{static_cast<int64_t>((clone_ns - start_ns) / 1000)}});
  uint64_t previous = clone_ns;
  const char* name = ns::stage_name(ns::Stage::clone);
  for (uint32_t stage = 0; stage < ns::kStageCount; ++stage) {
    const uint64_t began = page.stage_ns[stage];
    if (began == 0) continue;
    outcome.setup_times.push_back({name, Micros{static_cast<int64_t>((began - previous) / 1000)}});
    previous = began;
    name = ns::stage_name(static_cast<ns::Stage>(stage));
  }
  if (exec_ns > previous) outcome.setup_times.push_back({"filter and exec", Micros{static_cast<int64_t>((exec_ns - previous) / 1000)}});
}

void fill_verdict(Outcome& outcome, const SuperviseResult& run) {
  if (run.forced) {
    outcome.verdict = *run.forced;
    if (outcome.verdict == Verdict::killed) outcome.signal = run.caught_signal;
    return;
  }
  if (!run.payload_ended) {  // somebody outside ended init: the host's own memory killer, an operator
    outcome.verdict = Verdict::signaled;
    outcome.signal = SIGKILL;
    return;
  }
  if (WIFEXITED(run.wait_status)) {
    outcome.verdict = Verdict::exited;
    outcome.exit_code = WEXITSTATUS(run.wait_status);
    return;
  }
  outcome.signal = WTERMSIG(run.wait_status);
  outcome.verdict = Verdict::signaled;
  if (outcome.signal == SIGSYS) outcome.verdict = Verdict::denied;
  if (run.caught_signal == outcome.signal) outcome.verdict = Verdict::killed;
}

Micros micros(const timeval& time) { return Micros{time.tv_sec * int64_t{1000000} + time.tv_usec}; }

// What the kernel counted is exact and takes the place of what was sampled.
void fill_counted_usage(Usage& usage, const CgroupCounts& counts, const Controllers& held) {
  if (counts.user_us && counts.system_us) {
    usage.user = Micros{*counts.user_us};
    usage.system = Micros{*counts.system_us};
  }
  if (counts.memory_peak) {
    usage.peak_memory = Bytes{*counts.memory_peak};
    usage.peak_memory_note = "counted by the cgroup: every process, private files, page cache and the kernel's own on their behalf";
  } else if (counts.memory_current) {
    usage.peak_memory = Bytes{*counts.memory_current};
    usage.peak_memory_note = "the cgroup's count, read every 20 ms: this kernel keeps no peak";
  }
  if (!held.pids) return;
  usage.peak_pids.reset();
  if (counts.pids_peak) {
    usage.peak_pids = *counts.pids_peak > 0 ? *counts.pids_peak - 1 : 0;  // without init
    usage.peak_pids_note = "counted by the cgroup";
  } else {
    usage.peak_pids_note = "this kernel's pids controller keeps no peak";
  }
}

void fill_usage(Outcome& outcome, const SuperviseResult& run, const std::optional<SandboxCgroup>& cgroup) {
  outcome.usage.wall = run.wall;
  outcome.usage.user = micros(run.usage.ru_utime);
  outcome.usage.system = micros(run.usage.ru_stime);
  outcome.usage.peak_memory = Bytes{run.peak_bytes};
  outcome.usage.peak_memory_note =
      run.sampled ? "sampled every 20 ms: resident pages of all processes and the private file system; a shorter peak is missed"
                  : "of the largest process; the run was too short to be sampled";
  if (run.sampled) {
    // A look can come before the payload's first or after its last instant; the payload itself was there.
    outcome.usage.peak_pids = std::max<uint64_t>(run.peak_threads, 1);
    outcome.usage.peak_pids_note = "sampled every 20 ms";
  } else {
    outcome.usage.peak_pids_note = "the run was too short to be sampled";
  }
  if (cgroup) fill_counted_usage(outcome.usage, run.counts, cgroup->controllers());
}

void fill_isolation(Outcome& outcome, const SandboxSpec& spec, const HostFacts& facts, const ns::PlannedChild& child,
                    const Filter& filter, const std::optional<SandboxCgroup>& cgroup, const CgroupParent* parent) {
  Isolation& isolation = outcome.isolation;
  isolation.namespaces = {"user", "mount", "pid"};
  if (spec.namespaces.ipc) isolation.namespaces.push_back("ipc");
  if (spec.namespaces.uts) isolation.namespaces.push_back("uts");
  if (spec.namespaces.cgroup) isolation.namespaces.push_back("cgroup");
  if (spec.net == NetMode::none) isolation.namespaces.push_back("network");
  isolation.identity = facts.root_identity ? "a host uid of its own" : "the caller's uid in a user namespace";
  isolation.network = spec.net == NetMode::none ? "none" : "host";
  isolation.seccomp_policy = filter.policy.empty() ? "none" : filter.policy;
  isolation.landlock_abi = child.landlock_abi;
  if (child.landlock_abi == 0) {
    isolation.landlock_note = spec.hardening.landlock ? "this kernel has no Landlock" : "switched off by the policy";
  }
  auto& held = isolation.limits_held_by;
  const Limits& limits = spec.limits;
  if (limits.wall) held.emplace_back("wall", "timer");
  const Controllers controllers = held_by(cgroup);
  if (limits.cpu_time) {
    held.emplace_back("cpu_time", cgroup && cgroup->counts_cpu_time()
                                      ? "cgroup v2 cpu.stat of the whole tree, read every 20 ms, and RLIMIT_CPU for each process"
                                      : "sampling every 20 ms, and RLIMIT_CPU for each process");
  }
  if (limits.memory) {
    held.emplace_back("memory", controllers.memory ? cgroup->memory_holder() : "sampling every 20 ms, and RLIMIT_DATA for each process");
  }
  if (limits.pids) {
    held.emplace_back("pids", controllers.pids ? cgroup->pids_holder() : "RLIMIT_NPROC in a user namespace of its own");
  }
  if (limits.cpus_milli) {
    held.emplace_back("cpus", controllers.cpu ? cgroup->cpus_holder() + ", and CPU affinity" : "CPU affinity");
  }
  if (limits.io) held.emplace_back("io", "cgroup v2 io.max of the workspace's disk");
  held.emplace_back("disk", "size of a private tmpfs");
  held.emplace_back("inodes", "size of a private tmpfs");
  if (limits.file_size) held.emplace_back("file_size", "RLIMIT_FSIZE");
  if (limits.open_files) held.emplace_back("open_files", "RLIMIT_NOFILE");
  if (limits.output) held.emplace_back("output", "the supervisor's pumps");
  isolation.not_held = child.notes;
  if (limits.memory && !controllers.memory) {
    isolation.not_held.push_back("memory of the kernel on the payload's behalf (pipes, sockets) is not counted without a cgroup");
  }
  if (parent != nullptr && !parent->reason().empty() && ((limits.memory && !controllers.memory) || (limits.pids && !controllers.pids))) {
    isolation.not_held.push_back("no cgroup holds memory and processes: " + parent->reason());
  }
  if (limits.cpu_time && !(cgroup && cgroup->counts_cpu_time())) {
    isolation.not_held.push_back("CPU time of processes that live between two looks and whose parent does not wait for them is not counted without a cgroup");
  }
  if (!facts.root_identity && ::getgroups(0, nullptr) > 1) {
    isolation.not_held.push_back("the caller's supplementary groups stay with the payload: files shared with it that they may read can be read");
  }
}

// What a sandbox stands on before it is cloned. Outlives it.
struct Ground {
  std::optional<SandboxCgroup> cgroup;  // removed when the sandbox is dead, whatever goes wrong
  bool sample_memory = false;
  HostIdentity identity;
  Filter filter;
  std::unique_ptr<ns::PlannedChild> child;
  size_t space_index = 0;        // of the kept directory that lies on the private tmpfs
  std::vector<std::string> notes;
  std::vector<UniqueFd> trees;   // copies of what could not be idmapped
  int64_t cgroup_us = 0;
  uint64_t start_ns = 0;

  int space_slot() const { return space_index < child->keep_slots.size() ? child->keep_slots[space_index] : -1; }
};

// One descriptor on the private tmpfs, whose use counts as memory and as disk.
size_t add_space_directory(const SandboxSpec& spec, std::vector<std::string>& keep) {
  for (size_t i = 0; i < keep.size(); ++i) {
    for (const FsOp& op : spec.fs) {
      const PrivateDirOp* directory = std::get_if<PrivateDirOp>(&op);
      if (directory != nullptr && directory->target == keep[i]) return i;
    }
  }
  for (const FsOp& op : spec.fs) {
    if (const PrivateDirOp* directory = std::get_if<PrivateDirOp>(&op)) {
      keep.push_back(directory->target);
      return keep.size() - 1;
    }
  }
  return keep.size();
}

// The plan, by other means where a file system refuses idmapping (design section 6): a read-only tree is shown as it
// is if everybody may read it, else copied in; for a writable one the payload runs as the tree's owner.
Result<std::unique_ptr<ns::PlannedChild>> make_plan(const SandboxSpec& spec, const HostFacts& facts, ns::PlanOptions& options,
                                                    Ground& ground) {
  HostIdentity& identity = ground.identity;
  for (;;) {
    std::optional<ns::IdMapRefusal> refusal;
    options.refusal = &refusal;
    Result<std::unique_ptr<ns::PlannedChild>> planned = ns::build_plan(spec, facts, options);
    if (planned.ok() || !refusal) return planned;
    const BindOp* bind = std::get_if<BindOp>(&spec.fs[refusal->op]);
    const bool may_copy = facts.may_clone_trees;
    if (bind != nullptr ? !bind->read_only : !may_copy) {
      if (refusal->owner_uid == 0 || !identity.lease.lock.valid()) return planned;
      identity.lease = {};
      identity.owner = true;
      options.host_uid = identity.uid = refusal->owner_uid;
      options.host_gid = identity.gid = refusal->owner_gid != 0 ? refusal->owner_gid : refusal->owner_uid;
      continue;
    }
    const uint32_t for_all = S_ISDIR(refusal->mode) ? 05 : 04;
    if (bind != nullptr && (refusal->mode & for_all) == for_all) {
      options.unmapped.insert(refusal->op);
      ground.notes.push_back("'" + bind->source + "' cannot be idmapped: only what everybody may read can be read");
      continue;
    }
    if (!may_copy) return planned;
    const std::string source = bind != nullptr ? bind->source : std::get<OverlayOp>(spec.fs[refusal->op]).lower;
    ground.trees.push_back(SBX_TRY(copy_to_tmpfs(source, spec.limits.disk, spec.limits.inodes, {identity.uid, identity.gid})));
    options.trees[refusal->op] = ground.trees.back().get();
  }
}

// What the front end wants of the plan stands in `options`; the rest is filled in here.
Status prepare_ground(const SandboxSpec& spec, const HostFacts& facts, CgroupParent* cgroups, ns::PlanOptions options,
                      Ground& ground) {
  ground.start_ns = sys::monotonic_ns();
  if (std::optional<SandboxCgroup> made = SBX_TRY(make_cgroup(spec, cgroups, !options.keep_root))) ground.cgroup.emplace(std::move(*made));
  const uint64_t cgroup_ns = sys::monotonic_ns();
  ground.cgroup_us = static_cast<int64_t>((cgroup_ns - ground.start_ns) / 1000);
  if (cgroups != nullptr) ground.cgroup_us += cgroups->take_spent_us();
  ground.start_ns = cgroup_ns;
  const Controllers held = held_by(ground.cgroup);
  ground.sample_memory = spec.limits.memory.has_value() && !held.memory;
  ground.identity = SBX_TRY(choose_identity(facts));
  ground.filter = SBX_TRY(choose_filter(spec, ground.sample_memory));
  const Filter& filter = ground.filter;

  options.leased = facts.root_identity;
  options.detached_trees = facts.may_clone_trees;
  options.host_uid = ground.identity.uid;
  options.host_gid = ground.identity.gid;
  options.filter = filter.program;
  options.reporting_filter = filter.reporting;
  options.must_have_keyring = filter.program.empty() || allows(filter.program, SYS_keyctl);
  options.start_key = filter.start_key;
  ground.space_index = add_space_directory(spec, options.keep);
  options.pids_controller = held.pids;
  options.cpu_controller = held.cpu;
  options.show_cgroup = ground.cgroup && ground.cgroup->in_v2() && spec.namespaces.cgroup && !spec.hardening.nested_userns;
  options.data_limit = ground.sample_memory ? data_limit(spec.limits) : 0;
  ground.child = SBX_TRY(make_plan(spec, facts, options, ground));
  return {};
}

void describe_isolation(Outcome& outcome, const SandboxSpec& spec, const HostFacts& facts, const Ground& ground, const CgroupParent* cgroups) {
  fill_isolation(outcome, spec, facts, *ground.child, ground.filter, ground.cgroup, cgroups);
  if (ground.identity.owner) outcome.isolation.identity = "the uid of the owner of a shared directory";
  std::vector<std::string>& not_held = outcome.isolation.not_held;
  not_held.insert(not_held.end(), ground.notes.begin(), ground.notes.end());
}

LaunchInput launch_input(const SandboxSpec& spec, const HostFacts& facts, const Ground& ground) {
  LaunchInput input;
  input.spec = &spec;
  input.child = ground.child.get();
  input.ids = {spec.identity.uid, ground.identity.uid, spec.identity.gid, ground.identity.gid};
  input.root_identity = facts.root_identity;
  input.cgroup = ground.cgroup ? &*ground.cgroup : nullptr;
  ns::ChildPlan& plan = ground.child->plan;
  plan.network_beside = plan.network_namespace && a_cpu_is_free();
  return input;
}

// What became of the start, where it came to nothing. `ran`: it did not.
std::optional<Error> start_error(const Ground& ground, const ns::StatusPage& page, const SandboxSpec& spec, const HostFacts& facts, bool ran) {
  if (page.error_stage != 0) return setup_error(*ground.child, page, spec, facts);
  if (ran) return std::nullopt;
  return Error(ErrorKind::system, std::string("the sandbox died while it was being set up (") +
                                      ns::stage_name(static_cast<ns::Stage>(std::min(page.stage, ns::kStageCount - 1))) + ")");
}

Error with_open_files_hint(Error error) {
  if (error.errnum() != EMFILE || !error.hint().empty()) return error;
  return std::move(error).with_hint("the caller's own limit of open files is too small; raise it: ulimit -n 1024");
}

class Run {
 public:
  Run(const SandboxSpec& spec, const HostFacts& facts, const RunOptions& options)
      : spec_(spec), facts_(facts), options_(options) {}

  RunResult operator()() {
    Status status = all();
    if (!status.ok()) {
      result_.outcome.verdict = Verdict::setup_failed;
      result_.outcome.setup_error = with_open_files_hint(status.take_error());
    }
    return std::move(result_);
  }

 private:
  Status all() {
    result_.kept_directories.resize(options_.keep_directories.size());
    std::unique_ptr<Stdio> stdio = SBX_TRY(Stdio::prepare(options_.stdio, spec_.limits.output ? spec_.limits.output->value : 0));
    ns::PlanOptions plan_options;
    plan_options.keep = options_.keep_directories;
    plan_options.terminal = stdio->needs_pty();
    plan_options.terminal_setup = stdio->pty_setup();
    Ground ground;
    SBX_TRY(prepare_ground(spec_, facts_, options_.cgroups, std::move(plan_options), ground));
    describe_isolation(result_.outcome, spec_, facts_, ground, options_.cgroups);
    const Filter& filter = ground.filter;

    LaunchInput input = launch_input(spec_, facts_, ground);
    SBX_TRY(connect(*stdio, ground.identity, input));
    std::array<UniqueFd, 2> side;
    if (options_.side_limit > 0) side = SBX_TRY(sys::socketpair(SOCK_STREAM));
    input.extra = side[1].get();
    if (options_.show_call) show_calls(input);
    SignalGuard signals(options_.forward_signals);
    SBX_TRY(signals.ready());
    const uint64_t clone_ns = sys::monotonic_ns();
    Launched launched = SBX_TRY(launch(input));
    stdio->close_child_ends();
    side[1].reset();
    // What need not be done before, while the child is at its mounts.
    ground.child->close_trees();
    if (options_.cgroups != nullptr) options_.cgroups->reap_stale();

    SuperviseInput supervise_input;
    supervise_input.spec = &spec_;
    supervise_input.launched = &launched;
    supervise_input.stdio = stdio.get();
    supervise_input.cgroup = input.cgroup;
    supervise_input.sample_memory = ground.sample_memory;
    supervise_input.space_slot = ground.space_slot();
    supervise_input.signals = &signals;
    supervise_input.progress = options_.progress;
    supervise_input.side = side[0].get();
    supervise_input.side_limit = options_.side_limit;
    SuperviseResult run = supervise(supervise_input);
    if (options_.ended) options_.ended();
    result_.side = std::move(run.side);

    Outcome& outcome = result_.outcome;
    fill_setup_times(outcome, launched.page(), ground.cgroup_us, ground.start_ns, clone_ns, run.exec_ns);
    outcome.out = stdio->result(1);
    outcome.err = stdio->result(2);
    // What the payload wrote beyond the limit was never read: nobody knows how much it was.
    if (stdio->over_limit() == 1) outcome.out.truncated = true;
    if (stdio->over_limit() == 2) outcome.err.truncated = true;
    outcome.stderr_tail = stdio->stderr_tail();
    if (run.error) return std::move(*run.error).with_context("supervising the sandbox");
    if (std::optional<Error> error = start_error(ground, launched.page(), spec_, facts_, run.ran || run.forced || run.caught_signal != 0)) return std::move(*error);
    fill_usage(outcome, run, ground.cgroup);
    fill_verdict(outcome, run);
    outcome.limits_hit = std::move(run.limits_hit);
    outcome.denials = std::move(run.denials);
    const std::span<const sock_filter> loaded = run.listening ? filter.reporting : filter.program;
    if (!loaded.empty()) outcome.isolation.seccomp_digest = seccomp::program_digest(loaded);
    if (!run.listening) {
      outcome.denials_note = filter.program.empty() ? "no filter is loaded" : "the filter answers by itself here: no listener could be had";
    } else if (run.denials_overflowed) {
      outcome.denials_note = "only the first 64 different calls are counted";
    }
    for (size_t i = 0; i < options_.keep_directories.size(); ++i) {
      const int slot = i < ground.child->keep_slots.size() ? ground.child->keep_slots[i] : -1;
      if (slot >= 0 && static_cast<size_t>(slot) < run.handed_over.size()) {
        result_.kept_directories[i] = std::move(run.handed_over[static_cast<size_t>(slot)]);
      }
    }
    return {};
  }

  void show_calls(const LaunchInput& input) const {
    std::string flags = "CLONE_NEWUSER|CLONE_NEWNS|CLONE_NEWPID";
    if (spec_.namespaces.ipc) flags += "|CLONE_NEWIPC";
    if (spec_.namespaces.uts) flags += "|CLONE_NEWUTS";
    if (input.cgroup != nullptr && input.cgroup->birth_fd() >= 0) flags += "|CLONE_INTO_CGROUP";
    options_.show_call("supervisor: clone3(" + flags + "): init");
    options_.show_call("supervisor: write(/proc/PID/uid_map, \"" + std::to_string(input.ids.inside_uid) + " " + std::to_string(input.ids.outside_uid) + " 1\")");
    options_.show_call("supervisor: write(/proc/PID/gid_map, \"" + std::to_string(input.ids.inside_gid) + " " + std::to_string(input.ids.outside_gid) + " 1\")");
    // What the child is told of the caller's streams is known to launch() only; the plan has it by now otherwise.
    ns::ChildPlan plan = input.child->plan;
    for (int i = 0; i < 3; ++i) {
      plan.stdio[i] = input.stdio[i];
      plan.tty[i] = input.tty[i];
    }
    std::vector<int> tasks;
    if (input.cgroup != nullptr) tasks = input.cgroup->tasks();
    plan.cgroup_tasks_count = static_cast<uint32_t>(tasks.size());
    for (const std::string& line : ns::system_calls_of(plan)) options_.show_call(line);
  }

  Status connect(Stdio& stdio, const HostIdentity& identity, LaunchInput& input) const {
    const bool tty[3] = {options_.stdio.stdin_tty, options_.stdio.out.tty, options_.stdio.err.tty};
    for (int i = 0; i < 3; ++i) {
      input.stdio[i] = stdio.child_fd(i);
      input.tty[i] = tty[i];
      if (input.stdio[i] >= 0 && input.stdio[i] < 3) return Error(ErrorKind::internal, "descriptors 0 to 2 must be open");
    }
    if (!facts_.root_identity) return {};
    for (const int fd : stdio.pipe_fds()) {
      // So that /dev/stdout can be reopened inside: a pipe belongs to the user who made it.
      if (::fchown(fd, identity.uid, identity.gid) != 0) return Error::from_errno(errno, "give a pipe to the payload");
    }
    return {};
  }

  const SandboxSpec& spec_;
  const HostFacts& facts_;
  const RunOptions& options_;
  RunResult result_;
};

// ---- a sandbox that outlives its programs --------------------------------------------------------------------------

constexpr int kStartMs = 30000;  // a set-up that takes longer hangs

// Memory that supervisor and init share.
class SharedArea {
 public:
  static Result<SharedArea> create() {
    void* memory = ::mmap(nullptr, sizeof(ns::SpawnArea), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return Error::from_errno(errno, "map memory shared with the sandbox's init");
    return SharedArea(static_cast<ns::SpawnArea*>(memory));  // zeros are what every member begins with
  }
  SharedArea(SharedArea&& other) noexcept : area_(std::exchange(other.area_, nullptr)) {}
  SharedArea(const SharedArea&) = delete;
  SharedArea& operator=(const SharedArea&) = delete;
  SharedArea& operator=(SharedArea&&) = delete;
  ~SharedArea() {
    if (area_ != nullptr) ::munmap(area_, sizeof(ns::SpawnArea));
  }
  ns::SpawnArea* get() const { return area_; }

 private:
  explicit SharedArea(ns::SpawnArea* area) : area_(area) {}
  ns::SpawnArea* area_;
};

// Texts and lists of texts, one after the other in the shared memory.
class AreaWriter {
 public:
  explicit AreaWriter(ns::SpawnArea& area) : area_(area) {}
  const char* text(const std::string& text) {
    char* place = take(text.size() + 1);
    if (place != nullptr) std::memcpy(place, text.c_str(), text.size() + 1);
    return place;
  }
  const char* const* list(const std::vector<std::string>& texts) {
    used_ = (used_ + alignof(char*) - 1) & ~(alignof(char*) - 1);
    auto** const pointers = reinterpret_cast<const char**>(take((texts.size() + 1) * sizeof(char*)));
    if (pointers == nullptr) return nullptr;
    for (size_t i = 0; i < texts.size(); ++i) pointers[i] = text(texts[i]);
    pointers[texts.size()] = nullptr;
    return pointers;
  }
  bool full() const { return full_; }

 private:
  char* take(size_t size) {
    if (full_ || size > ns::kSpawnText - used_) {
      full_ = true;
      return nullptr;
    }
    char* const place = area_.text + used_;
    used_ += size;
    return place;
  }
  ns::SpawnArea& area_;
  size_t used_ = 0;
  bool full_ = false;
};

Result<bool> wait_readable(int fd, int timeout_ms) {
  pollfd wait{fd, POLLIN, 0};
  int ready;
  do {
    ready = ::poll(&wait, 1, timeout_ms);
  } while (ready < 0 && errno == EINTR);
  if (ready < 0) return Error::from_errno(errno, "wait for the sandbox");
  return ready > 0;
}

class Live final : public LiveSandbox {
 public:
  Live(const SandboxSpec& spec, const HostFacts& facts, SharedArea area) : spec_(spec), facts_(facts), area_(std::move(area)) {}

  Status begin(CgroupParent* cgroups) {
    ns::PlanOptions options;
    options.keep_root = true;
    SBX_TRY(prepare_ground(spec_, facts_, cgroups, std::move(options), ground_));
    Outcome described;
    describe_isolation(described, spec_, facts_, ground_, cgroups);
    isolation_ = std::move(described.isolation);
    const std::span<const sock_filter> loaded = ground_.filter.reporting.empty() ? ground_.filter.program : ground_.filter.reporting;
    if (!loaded.empty()) isolation_.seccomp_digest = seccomp::program_digest(loaded);
    std::array<UniqueFd, 2> pair = SBX_TRY(sys::socketpair(SOCK_SEQPACKET));
    ground_.child->plan.spawn = area_.get();
    LaunchInput input = launch_input(spec_, facts_, ground_);
    input.session = pair[1].get();
    launched_.emplace(SBX_TRY(launch(input)));
    pair[1].reset();
    socket_ = std::move(pair[0]);
    const bool answered = SBX_TRY(wait_readable(launched_->exec_pipe(), kStartMs));
    const ns::StatusPage& page = launched_->page();
    const bool stands = answered && page.stage == static_cast<uint32_t>(ns::Stage::running);
    if (std::optional<Error> error = start_error(ground_, page, spec_, facts_, stands)) return std::move(*error);
    slots_ = launched_->receive();
    if (!slots_[0].valid() || !slots_[ns::kRootSlot].valid()) return Error(ErrorKind::resource, "the sandbox's /proc was not handed over");
    return {};
  }

  Result<StartedProgram> start_program(const ProgramStart& program) override {
    SBX_TRY(describe(program));
    sys::Pipe exec = SBX_TRY(sys::pipe());
    std::array<UniqueFd, 2> pair = SBX_TRY(sys::socketpair(SOCK_SEQPACKET));
    UniqueFd null;
    std::vector<int> fds = {exec.write.get(), pair[1].get()};
    for (const int stream : program.stdio) {
      if (stream < 0 && !null.valid()) null = SBX_TRY(sys::open("/dev/null", O_RDWR));
      fds.push_back(stream < 0 ? null.get() : stream);
      // So that /dev/stdout can be reopened inside: a pipe belongs to the user who made it.
      const bool pipe = stream >= 0 && S_ISFIFO(SBX_TRY(sys::fstat(stream)).st_mode);
      if (pipe && facts_.root_identity && ::fchown(stream, host_uid(), host_gid()) != 0) return Error::from_errno(errno, "give a pipe to the program");
    }
    fds.insert(fds.end(), program.extra.begin(), program.extra.end());
    SBX_TRY(send({ns::SpawnVerb::start, 0, 0, 0, static_cast<uint32_t>(fds.size())}, fds));
    exec.write.reset();
    pair[1].reset();
    const pid_t pid = SBX_TRY(await_start());
    if (!SBX_TRY(wait_readable(exec.read.get(), kStartMs))) return Error(ErrorKind::system, "a program in the sandbox does not start");
    const ns::StatusPage& page = area_.get()->page;
    SandboxSpec named;  // for the message alone
    named.exec_path = program.exec_path;
    if (page.error_stage != 0) return setup_error(*ground_.child, page, named, facts_);
    StartedProgram started;
    started.pid = pid;
    started.listener = std::move(receive_slots(pair[0].get())[ns::kListenerSlot]);
    return started;
  }

  void signal(pid_t pid, int signal) override {
    if (send({ns::SpawnVerb::signal, pid, signal, 0, 0}, {}).ok()) ++unsettled_;
  }
  void let_succeed(pid_t pid, pid_t heir) override {
    if (send({ns::SpawnVerb::succeed, pid, 0, heir, 0}, {}).ok()) ++unsettled_;
  }
  bool is_settling() const override { return unsettled_ > 0; }
  void kill_all() override { (void)send({ns::SpawnVerb::kill_all, 0, 0, 0, 0}, {}); }

  int news_fd() const override { return socket_.get(); }
  std::optional<ns::SpawnEvent> next_news() override {
    if (!early_.empty()) {
      const ns::SpawnEvent event = early_.front();
      early_.pop_front();
      return event;
    }
    const Result<std::optional<ns::SpawnEvent>> event = receive_event();
    return event.ok() ? event.value() : std::nullopt;
  }
  int pidfd() const override { return launched_->pidfd(); }
  std::string last_words() const override {
    const ns::StatusPage& page = launched_->page();
    return page.error_stage != 0 ? setup_error(*ground_.child, page, spec_, facts_).text() : "";
  }
  const SandboxCgroup* cgroup() const override { return ground_.cgroup ? &*ground_.cgroup : nullptr; }
  bool samples_memory() const override { return ground_.sample_memory; }
  int proc_fd() const override { return slots_[0].get(); }
  int root_fd() const override { return slots_[ns::kRootSlot].get(); }
  int space_fd() const override { return ground_.space_slot() < 0 ? -1 : slots_[static_cast<size_t>(ground_.space_slot())].get(); }
  uint32_t host_uid() const override { return ground_.identity.uid; }
  uint32_t host_gid() const override { return ground_.identity.gid; }
  const Isolation& isolation() const override { return isolation_; }
  std::string denials_note() const override {
    return ground_.filter.program.empty() ? "no filter is loaded" : "the filter answers by itself here: no listener could be had";
  }

 private:
  // Into the shared memory, which init reads when it is told to.
  Status describe(const ProgramStart& program) {
    ns::SpawnArea& area = *area_.get();
    area.page = ns::StatusPage{};
    AreaWriter writer(area);
    const std::vector<std::string> candidates = ns::program_candidates(program.exec_path, program.environment);
    area.working_directory = writer.text(program.working_directory);
    area.candidates = writer.list(candidates);
    area.argv = writer.list(program.argv);
    area.envp = writer.list(program.environment);
    area.argv_bytes = (program.argv.size() + 1) * sizeof(char*);
    area.envp_bytes = (program.environment.size() + 1) * sizeof(char*);
    area.start_path_bytes = 1;
    for (const std::string& candidate : candidates) area.start_path_bytes = std::max<uint64_t>(area.start_path_bytes, candidate.size() + 1);
    if (!writer.full()) return {};
    return Error(ErrorKind::usage, "the command's words are more than " + format_size(Bytes{ns::kSpawnText}))
        .with_hint("put the text into a file, as with sbx cp");
  }

  Status send(const ns::SpawnCommand& command, const std::vector<int>& fds) const {
    static_assert(ns::kSpawnFds + ns::kMaxExtra <= sys::kMostSentFds);
    const std::string_view bytes(reinterpret_cast<const char*>(&command), sizeof command);
    if (Result<size_t> sent = sys::send_with_fds(socket_.get(), bytes, fds); !sent.ok()) return gone(Error::from_errno(sent.error().errnum(), "ask the sandbox's init"));
    return {};
  }

  // Init says what it died of, where it could.
  Error gone(Error otherwise) const {
    const ns::StatusPage& page = launched_->page();
    return page.error_stage != 0 ? setup_error(*ground_.child, page, spec_, facts_) : std::move(otherwise);
  }

  Result<std::optional<ns::SpawnEvent>> receive_event() {
    ns::SpawnEvent event;
    const ssize_t got = ::recv(socket_.get(), &event, sizeof event, MSG_DONTWAIT);
    if (got == static_cast<ssize_t>(sizeof event)) {
      if (event.news == ns::SpawnNews::signalled || event.news == ns::SpawnNews::succeeded) --unsettled_;
      return std::optional(event);
    }
    if (got < 0 && errno != EAGAIN) return Error::from_errno(errno, "hear from the sandbox's init");
    return std::optional<ns::SpawnEvent>();
  }

  // Ends of other programs that come before the answer are news for later.
  Result<pid_t> await_start() {
    while (SBX_TRY(wait_readable(socket_.get(), kStartMs))) {
      Result<std::optional<ns::SpawnEvent>> heard = receive_event();
      if (!heard.ok()) return gone(heard.take_error());
      const std::optional<ns::SpawnEvent> event = heard.value();
      if (!event) break;
      if (event->news != ns::SpawnNews::started) {
        early_.push_back(*event);
        continue;
      }
      if (event->pid > 0) return pid_t{event->pid};
      return Error::from_errno(-event->status, "start a program in the sandbox").with_hint(event->status == -EAGAIN ? "its limit of processes is reached; end some, or start the session with a higher --pids" : "");
    }
    return gone(Error(ErrorKind::system, "the sandbox is gone"));
  }

  const SandboxSpec& spec_;
  const HostFacts facts_;
  SharedArea area_;
  Ground ground_;
  UniqueFd socket_;
  std::optional<Launched> launched_;  // before all that it stands on goes
  std::vector<UniqueFd> slots_;
  std::deque<ns::SpawnEvent> early_;
  int unsettled_ = 0;  // asked for and not answered yet
  Isolation isolation_;
};

}  // namespace

Result<std::unique_ptr<LiveSandbox>> LiveSandbox::start(const SandboxSpec& spec, const HostFacts& facts, CgroupParent* cgroups) {
  auto live = std::make_unique<Live>(spec, facts, SBX_TRY(SharedArea::create()));
  Status begun = live->begin(cgroups);
  if (!begun.ok()) return with_open_files_hint(begun.take_error());
  return std::unique_ptr<LiveSandbox>(std::move(live));
}

RunResult run_sandbox(const SandboxSpec& spec, const HostFacts& facts, const RunOptions& options) {
  return Run(spec, facts, options)();
}

}  // namespace sbx::runtime
