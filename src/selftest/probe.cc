#include "selftest/probe.h"

#include <algorithm>
#include <cerrno>

#include "selftest/tries.h"

namespace sbx::selftest {
namespace {

constexpr char kCalls[] = "System calls";
constexpr char kPrivileges[] = "Namespaces, mounts, privileges";
constexpr char kProcesses[] = "Init, /proc, /dev, other processes";
constexpr char kOutside[] = "What lies outside";
constexpr char kLimits[] = "Limits";

// ---- what a control takes away

void set(PolicyLayer& layer, const char* key, KeyValue value) { layer.values[key] = LayerValue{std::move(value), "sbx selftest"}; }

template <const char* Name>
void allow(runtime::RunRequest& request, Bait&) {
  set(request.flags, "seccomp.allow", std::vector<std::string>{Name});
}
constexpr char kKeyring[] = "@keyring";
constexpr char kIoUring[] = "io_uring_setup";
constexpr char kUserfaultfd[] = "userfaultfd";
constexpr char kDebug[] = "@debug";
constexpr char kModifyLdt[] = "modify_ldt";
constexpr char kIoSetup[] = "io_setup";

void no_filter(SandboxSpec& spec) { spec.seccomp.enabled = false; }

// Whatever holds mounts and namespaces: the filter, the empty capability sets, Landlock.
void no_walls(SandboxSpec& spec) {
  no_filter(spec);
  spec.hardening.landlock = false;
  spec.hardening.keep_capabilities = {"cap_sys_admin", "cap_sys_chroot", "cap_net_raw", "cap_sys_boot", "cap_mknod"};
}
void nested_without_filter(SandboxSpec& spec) {
  no_filter(spec);
  spec.hardening.nested_userns = true;
}
void nested(runtime::RunRequest& request, Bait&) { set(request.flags, "hardening.nested_userns", true); }
void host_network(runtime::RunRequest& request, Bait&) { set(request.flags, "net.mode", std::string("host")); }
void without_landlock(runtime::RunRequest& request, Bait& bait) {
  host_network(request, bait);
  set(request.flags, "hardening.landlock", false);
}
void host_ipc(runtime::RunRequest& request, Bait&) { set(request.flags, "sandbox.ipc_namespace", false); }
void one_capability(runtime::RunRequest& request, Bait&) {
  set(request.flags, "hardening.capabilities", std::vector<std::string>{"cap_net_raw"});
}
void unmasked(runtime::RunRequest& request, Bait&) { set(request.flags, "hardening.proc", std::string("unmasked")); }
void host_proc(runtime::RunRequest& request, Bait& bait) {
  request.allow_sensitive_mount = true;
  request.mounts.push_back({"/proc", "/hostproc", true});
  bait.proc = "/hostproc";
}
void pass_variable(runtime::RunRequest& request, Bait&) { request.environment.emplace_back(kTokenVariable); }
void own_process(runtime::RunRequest&, Bait& bait) { bait.init = 0; }
void share_bait(runtime::RunRequest& request, Bait& bait) {
  request.mounts.push_back({bait.directory, bait.directory, true});
}
void share_bait_sockets(runtime::RunRequest& request, Bait& bait) {
  request.allow_sensitive_mount = true;  // with sockets in it, where the kernel can tell them
  share_bait(request, bait);
}
void share_bait_writable(runtime::RunRequest& request, Bait& bait) {
  request.mounts.push_back({bait.directory + "/open", bait.directory + "/open", false});
}

// ---- limits that are low enough to be reached at once

void little_memory(runtime::RunRequest& request) {
  set(request.flags, "limits.memory", Bytes{size_t{96} << 20});
  set(request.flags, "limits.disk", Bytes{size_t{16} << 20});
}
void more_memory(runtime::RunRequest& request, Bait&) { set(request.flags, "limits.memory", Bytes{size_t{1} << 30}); }
void little_disk(runtime::RunRequest& request) { set(request.flags, "limits.disk", Bytes{size_t{8} << 20}); }
void more_disk(runtime::RunRequest& request, Bait&) { set(request.flags, "limits.disk", Bytes{size_t{64} << 20}); }
void little_time(runtime::RunRequest& request) { set(request.flags, "limits.time", Millis{300}); }
void more_time(runtime::RunRequest& request, Bait&) { set(request.flags, "limits.time", Millis{20000}); }
void more_processes(runtime::RunRequest& request, Bait&) { set(request.flags, "limits.pids", uint64_t{1000}); }

// ---- the table

std::vector<Probe> make_table() {
  using namespace tries;
  const Control kWithoutFilter{"without the filter", nullptr, no_filter};
  const Control kWithoutWalls{"without filter, Landlock, and the empty capability sets", nullptr, no_walls};
  const char* const kOwn = "makes nothing that outlives its own process";
  const char* const kWrong = "the arguments are wrong on purpose: a kernel that would do it says so and does nothing";
  const char* const kLook = "opens or looks, and neither reads away nor writes";
  const auto anywhere = Safety::anywhere;

  // clang-format off
  std::vector<Probe> table = {
      // ---- system calls
      {"keyrings", kCalls, "store and read keys in key rings, which all programs of a user share", "filter", "uses the ring of its own process, which dies with it", anywhere,
       {{"keyctl", "keyctl", keyctl}, {"add_key", "add_key", add_key}, {"request_key", "request_key", request_key, {ENOKEY}}},
       "", {}, {{"with --allow-syscall @keyring", allow<kKeyring>}}},
      {"io-uring", kCalls, "make system calls through io_uring, past the filter", "filter", kOwn, anywhere,
       {{"io_uring_setup", "io_uring_setup", io_uring_setup}}, "", {}, {{"with --allow-syscall io_uring_setup", allow<kIoUring>}}},
      {"x32", kCalls, "make a system call by the x32 table, whose numbers no rule names", "filter", "asks for the process's number", anywhere,
       {{"getpid of x32", "", x32}}, "", {}, {kWithoutFilter}},
      {"int80", kCalls, "make a 32-bit system call by int 0x80", "filter", "asks for the process's number", anywhere,
       {{"getpid of i386", "", int80}}, "", {}, {kWithoutFilter}},
      {"userfaultfd", kCalls, "hold the kernel in the middle of a copy by userfaultfd", "filter", kOwn, anywhere,
       {{"userfaultfd", "userfaultfd", userfaultfd}}, "", {}, {{"with --allow-syscall userfaultfd", allow<kUserfaultfd>}}},
      {"debugging", kCalls, "look into processes by a debugger's calls", "filter", "looks into its own process", anywhere,
       {{"ptrace", "ptrace", ptrace_traceme}, {"process_vm_readv", "process_vm_readv", process_vm_readv}, {"kcmp", "kcmp", kcmp},
        {"pidfd_getfd", "pidfd_getfd", pidfd_getfd}, {"perf_event_open", "perf_event_open", perf_event_open}},
       "", {}, {{"with --allow-syscall @debug", allow<kDebug>}}},
      {"administration", kCalls, "administer the machine: bpf, modules, kexec, swap, reboot, kernel log, fanotify", "filter", kWrong, anywhere,
       {{"bpf", "bpf", bpf, {EINVAL}}, {"init_module", "init_module", init_module, {ENOEXEC, EFAULT}}, {"finit_module", "finit_module", finit_module, {EBADF}},
        {"kexec_load", "kexec_load", kexec_load, {EINVAL}}, {"swapon", "swapon", swapon, {ENOENT}},
        {"reboot", "reboot", reboot, {EINVAL}}, {"syslog", "syslog", syslog}, {"fanotify_init", "fanotify_init", fanotify_init}},
       "", {}, {{"without the filter, and with CAP_SYS_BOOT over the own pid namespace", nullptr, no_walls}}},
      {"ports", kCalls, "reach hardware ports and descriptor tables", "filter", kOwn, anywhere,
       {{"iopl", "iopl", iopl}, {"modify_ldt", "modify_ldt", modify_ldt}}, "", {}, {{"with --allow-syscall modify_ldt", allow<kModifyLdt>}}},
      {"personality", kCalls, "switch address randomisation off before executing something", "filter", kOwn, anywhere,
       {{"ADDR_NO_RANDOMIZE", "personality", personality}}, "", {}, {kWithoutFilter}},
      {"clocks", kCalls, "set the host's clocks", "filter; no capability of the host", "sets an estimate to the value that it has", anywhere,
       {{"adjtimex", "adjtimex", adjtimex}, {"clock_adjtime", "clock_adjtime", clock_adjtime}}, "", {}, {}, "only root of the host is let through"},
      {"process-options", kCalls, "change what /proc shows of a process, or which processes share a core", "filter", kOwn, anywhere,
       {{"PR_SET_MM", "prctl", prctl_mm}, {"PR_SCHED_CORE", "prctl", prctl_core, {ENODEV}}}, "", {}, {kWithoutFilter}},
      {"terminal", kCalls, "load a line discipline, type or paste into a terminal", "filter", "uses a terminal of its own", anywhere,
       {{"TIOCSTI", "ioctl", tiocsti}, {"TIOCSTI in 64 bits", "ioctl", tiocsti_high}, {"TIOCLINUX", "ioctl", tioclinux, {EINVAL}}, {"TIOCSETD", "ioctl", tiocsetd}},
       "", {}, {kWithoutFilter}},
      {"socket-families", kCalls, "open sockets of rare families, the usual roads to bugs of the kernel", "filter", "makes sockets and uses none; the kernel may load a module for it, as for any user", anywhere,
       {{"vsock", "socket", socket_vsock}, {"alg", "socket", socket_alg}, {"packet", "socket", socket_packet}, {"raw", "socket", socket_raw},
        {"netfilter", "socket", socket_netfilter}, {"xfrm", "socket", socket_xfrm}},
       "", {{EAFNOSUPPORT, "filter, EAFNOSUPPORT"}, {EPROTONOSUPPORT, "filter, EPROTONOSUPPORT"}}, {kWithoutFilter}},
      {"kernel-tls", kCalls, "put kernel TLS on a TCP socket, a frequent road to bugs of the kernel", "filter", "asks for it on a socket that is not connected", anywhere,
       {{"TCP_ULP", "setsockopt", kernel_tls, {ENOTCONN}}}, "", {{ENOENT, "filter, ENOENT"}}, {kWithoutFilter}},
      {"host-counters", kCalls, "use up what the kernel counts for the whole host or in no count at all", "filter", kOwn, anywhere,
       {{"io_setup", "io_setup", io_setup}, {"memfd_secret", "memfd_secret", memfd_secret}}, "", {}, {{"with --allow-syscall io_setup", allow<kIoSetup>}}},
      {"leases", kCalls, "take a lease, which makes whoever opens the file for writing wait", "filter", "leases a file of its own", anywhere,
       {{"F_SETLEASE", "fcntl", lease}}, "", {}, {kWithoutFilter}},

      // ---- namespaces, mounts, privileges
      {"user-namespaces", kPrivileges, "make a user namespace, which opens the rest of the kernel", "filter; their count is zero", kOwn, anywhere,
       {{"unshare", "unshare", unshare_user}, {"clone", "clone", clone_user}, {"clone3", "clone3", clone3_user}},
       "", {{ENOSPC, "namespace count, ENOSPC"}, {EUSERS, "namespace count, EUSERS"}}, {{"with [hardening] nested_userns = true", nested}}},
      {"other-namespaces", kPrivileges, "make a namespace of another kind", "filter; no capability", kOwn, anywhere,
       {{"mount", "unshare", unshare_mount}, {"pid", "unshare", unshare_pid}, {"network", "unshare", unshare_net}, {"ipc", "unshare", unshare_ipc},
        {"uts", "unshare", unshare_uts}, {"cgroup", "unshare", unshare_cgroup}}, "", {}, {kWithoutWalls}},
      {"netfilter", kPrivileges, "reach nf_tables in a network namespace of one's own", "filter; no user namespace", kOwn, anywhere,
       {{"unshare and socket", "unshare", netfilter}}, "", {{ENOSPC, "namespace count, ENOSPC"}, {EUSERS, "namespace count, EUSERS"}},
       {{"without the filter, and with [hardening] nested_userns = true", nested, nested_without_filter}}},
      {"mounts", kPrivileges, "mount, by the old calls and the new", "filter; no capability; Landlock", "in the sandbox's own mount namespace", anywhere,
       {{"mount", "mount", mount_tmpfs}, {"remount", "mount", remount, {EINVAL}}, {"fsopen", "fsopen", fsopen}, {"open_tree", "open_tree", open_tree}}, "", {}, {kWithoutWalls}},
      {"roots", kPrivileges, "change the root, or enter a namespace", "filter; no capability", kOwn, anywhere,
       {{"chroot", "chroot", chroot}, {"pivot_root", "pivot_root", pivot_root, {EINVAL, EBUSY}}, {"setns", "setns", setns}}, "", {}, {kWithoutWalls}},
      {"host-name", kPrivileges, "rename the host", "filter; no capability", "gives the name that it has", anywhere,
       {{"sethostname", "sethostname", sethostname}}, "", {}, {kWithoutWalls}},
      {"file-handles", kPrivileges, "open a file by its number in the file system, around the view", "filter; no capability of the host", "names no file", anywhere,
       {{"open_by_handle_at", "open_by_handle_at", open_by_handle, {ESTALE, EINVAL, EBADF}}}, "", {}, {}, "only root of the host is let through"},
      {"device-nodes", kPrivileges, "make a device node", "filter; the kernel, outside of its first user namespace", "a node that is made is removed unopened", anywhere,
       {{"mknod", "mknodat", mknod_device}}, "", {}, {}, "only root of the host can make one"},
      {"privileges", kPrivileges, "gain rights by set-uid programs or capabilities", "no_new_privs; empty capability sets", "asks what the process has", anywhere,
       {{"no_new_privs is off", "", new_privileges}, {"a permitted capability", "", permitted_capability}, {"a bounding capability", "", bounding_capability}},
       "", {{EPERM, "no_new_privs and empty capability sets"}}, {{"with [hardening] capabilities = [\"cap_net_raw\"]", one_capability}}},
      {"identities", kPrivileges, "become root or another user", "one mapped id; no capability", kOwn, anywhere,
       {{"root", "", setuid_root}, {"any of 1100 ids", "", second_id}}, "", {{EPERM, "capability, EPERM"}, {EINVAL, "one mapped id, EINVAL"}}, {}, "no setting maps a second id"},
      {"file-capabilities", kPrivileges, "give a program capabilities by an attribute", "the kernel, outside of its first user namespace", "the file is removed", anywhere,
       {{"security.capability", "", file_capability}}, "", {{EPERM, "capability, EPERM"}, {EINVAL, "user namespace, EINVAL"}}, {}, "only root of the host can"},

      // ---- init, /proc, /dev, other processes
      {"init", kProcesses, "look into init, which knows more than the payload", "init is not dumpable", kLook, anywhere,
       {{"memory", "", init_memory}, {"environment", "", init_environment}, {"root", "", init_root},
        {"ptrace", "ptrace", init_attach}, {"process_vm_readv", "process_vm_readv", init_read, {EFAULT}}},
       "process of its own", {{EACCES, "not dumpable, EACCES"}}, {{"with the payload's own process in init's place", own_process}}},
      {"kernel-settings", kProcesses, "write the kernel's settings: core_pattern, modprobe, sysrq, hot plug, binary formats", "read-only /proc/sys; no /sys; files of the host's root", "opens and writes nothing", anywhere,
       {{"core_pattern", "", settings_core}, {"modprobe", "", settings_modprobe}, {"sysrq-trigger", "", settings_sysrq}, {"uevent_helper", "", settings_uevent}, {"binfmt_misc", "", settings_binfmt}},
       "view of files", {{EACCES, "the host's root owns them, EACCES"}}, {}, "only root of the host may write them"},
      {"kernel-windows", kProcesses, "read the kernel's memory, log, keys and addresses", "masks over /proc; minimal /dev", kLook, anywhere,
       {{"/proc/kcore", "", window_kcore}, {"/proc/kmsg", "", window_kmsg}, {"/dev/kmsg", "", window_dev_kmsg}, {"/dev/mem", "", window_mem},
        {"/proc/keys", "", window_keys}, {"/proc/kallsyms", "", window_kallsyms}},
       "mask, or not in the view", {{EACCES, "the host's root owns them, EACCES"}, {EPERM, "capability, EPERM"}}, {}, "unmasked, only root of the host may read most of them"},
      {"host-facts", kProcesses, "tell this host from others: kernel command line, interrupts, machine id, hardware names", "masks over /proc; view of files", kLook, anywhere,
       {{"/proc/cmdline", "", fact_cmdline}, {"/proc/interrupts", "", fact_interrupts}, {"/etc/machine-id", "", fact_machine_id}, {"hardware names", "", fact_dmi}},
       "mask, or not in the view", {}, {{"with [hardening] proc = \"unmasked\"", unmasked}}},
      {"devices", kProcesses, "see devices of the host", "minimal /dev", "looks and opens none", anywhere,
       {{"/dev", "", devices}}, "minimal /dev", {}, {}, "no setting shows all of /dev"},
      {"host-processes", kProcesses, "see or signal a process of the host", "pid namespace", "signal 0, to a process made for it", anywhere,
       {{"see", "", see_process}, {"signal", "", signal_process}}, "pid namespace", {{ESRCH, "pid namespace"}},
       {{"with --allow-sensitive-mount --mount /proc", host_proc}}},
      {"descriptors", kProcesses, "use a descriptor that the caller left open", "all but 0, 1, 2 are closed", "looks whether it is there", anywhere,
       {{"beyond 2", "", descriptors}}, "closed before the start", {}, {}, "no setting passes one on"},
      {"environment", kProcesses, "read a secret in the caller's environment", "clean environment; init's memory", "reads a variable made for it", anywhere,
       {{"own", "", environment}, {"init's", "", environment_of_init}}, "clean environment", {{EACCES, "not dumpable, EACCES"}}, {{"with --env SBX_SELFTEST_TOKEN", pass_variable}}},
      {"cgroups", kProcesses, "write into the host's cgroup files, to leave one's own or start a helper", "no writable cgroup file system", "opens and writes nothing", anywhere,
       {{"cgroup files", "", cgroup_files}}, "view of files", {}, {}, "no setting shows them writable"},

      // ---- what lies outside
      {"home", kOutside, "read the caller's home and the host's passwords", "view of files", kLook, anywhere,
       {{"home", "", home}, {"/etc/shadow", "", shadow}}, "view of files", {}, {}, "covered by shared-places: a mount shows what it names"},
      {"shared-places", kOutside, "read what the host keeps in /tmp and /dev/shm", "directories of its own", "reads files made for it", anywhere,
       {{"/tmp", "", temporary_file}, {"/dev/shm", "", shared_memory}}, "directories of its own", {}, {{"with --mount of the directory in /tmp", share_bait}}},
      {"host-files", kOutside, "write a file on the host", "read-only mounts; view of files", "a file that is made is empty, and removed", anywhere,
       {{"/tmp", "", write_bait}, {"/usr", "", write_usr}, {"/etc", "", write_etc}}, "view of files", {}, {{"with --mount of the directory in /tmp, :rw", share_bait_writable}}},
      {"abstract-socket", kOutside, "connect to an abstract socket of the host", "network namespace", "a socket made for it, which never answers", anywhere,
       {{"connect", "", abstract_socket}}, "network namespace", {{EPERM, "Landlock, EPERM"}}, {{"with --net host, [hardening] landlock = false", without_landlock}}},
      {"path-socket", kOutside, "connect to a socket of the host by its path", "view of files", "a socket made for it, which never answers", anywhere,
       {{"connect", "", path_socket}}, "view of files", {}, {{"with --mount of its directory", share_bait_sockets}}},
      {"loopback", kOutside, "reach a service on the host's loopback", "network namespace", "a listener made for it, which never answers", anywhere,
       {{"127.0.0.1", "", loopback}}, "network namespace", {}, {{"with --net host", host_network}}},
      {"network", kOutside, "reach the network, or a cloud's metadata address", "network namespace", "asks for a route and sends nothing", anywhere,
       {{"192.0.2.1", "", route}, {"169.254.169.254", "", metadata}}, "network namespace", {}, {{"with --net host", host_network}}},
      {"ipc", kOutside, "attach a System V segment of the host", "IPC namespace", "a segment made for it", anywhere,
       {{"shmget", "shmget", segment}}, "IPC namespace", {{ENOENT, "IPC namespace"}},
       {{"with [sandbox] ipc_namespace = false", host_ipc}, {"with [sandbox] ipc_namespace = false, without the filter, which counts segments where no cgroup does", host_ipc, no_filter}}},

      // ---- limits
      {"processes", kLimits, "fork without end", "limit of processes", "400 processes at most", Safety::sandbox_only,
       {{"400 processes", "", many_processes}}, "", {{EAGAIN, "limit of processes"}}, {{"with --pids 1000", more_processes}}},
      {"memory", kLimits, "use more memory than allowed", "limit of memory", "192 MiB where 96 are allowed", Safety::sandbox_only,
       {{"192 MiB", "", much_memory}}, "", {{ENOMEM, "limit of memory"}}, {{"with --memory 1G", more_memory, nullptr, true}}, "", little_memory},
      {"disk", kLimits, "fill the private places", "limit of disk", "24 MiB where 8 are allowed", Safety::sandbox_only,
       {{"24 MiB", "", much_disk}}, "", {{ENOSPC, "limit of disk"}}, {{"with --disk 64M", more_disk}}, "", little_disk},
      {"time", kLimits, "run longer than allowed", "limit of time", "a second where 300 ms are allowed", Safety::sandbox_only,
       {{"1 s", "", much_time}}, "", {}, {{"with --time 20s", more_time, nullptr, true}}, "", little_time},
      {"raise-limits", kLimits, "raise one's priority and limits, leave a core file", "no capability of the host; limits soft and hard", kOwn, anywhere,
       {{"nice -20", "", raise_priority}, {"real time", "", real_time}, {"open files", "", raise_files}, {"core file", "", core_file}},
       "", {{EPERM, "capability and hard limits, EPERM"}, {EACCES, "capability, EACCES"}}, {}, "only root of the host may"},
  };
  // clang-format on
  return table;
}

}  // namespace

const std::vector<Probe>& probes() {
  static const std::vector<Probe> table = make_table();
  return table;
}

const Probe* find_probe(std::string_view name) {
  const std::vector<Probe>& table = probes();
  const auto found = std::find_if(table.begin(), table.end(), [&](const Probe& probe) { return name == probe.name; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace sbx::selftest
