// The one table of policy keys. Every row is enforced by the engine through a field of SandboxSpec (resolve.cc); a key
// that nothing would enforce has no place here.
#include <cstdint>

#include "policy/layer.h"

namespace sbx {
namespace {

constexpr uint64_t kMega = uint64_t{1} << 20;
constexpr uint64_t kMostBytes = uint64_t{1} << 50;               // 1024T: far above any machine, far below overflow
constexpr uint64_t kMostMillis = uint64_t{366} * 24 * 3600 * 1000;  // a year
// The kernel's highest pid_max on 64 bits.
constexpr uint64_t kMostPids = uint64_t{1} << 22;
// The kernel's default fs.nr_open.
constexpr uint64_t kMostFiles = uint64_t{1} << 20;
// (uid_t)-1 means "no change" to the kernel.
constexpr uint64_t kMostId = 0xFFFFFFFE;

const std::vector<KeyRow>& rows() {
  // clang-format off
  static const std::vector<KeyRow> table = {
      {"sandbox.hostname", KeyType::text, false, "--hostname", "NAME",
       "host name inside", {}, "\"sandbox\"", 0, 0},
      {"sandbox.uid", KeyType::integer, false, "--uid", "UID",
       "user id of the payload, as it sees it", {}, "1000", 0, kMostId},
      {"sandbox.gid", KeyType::integer, false, "--gid", "GID",
       "group id of the payload, as it sees it", {}, "1000", 0, kMostId},
      {"sandbox.new_session", KeyType::boolean, false, nullptr, nullptr,
       "the payload leads a session of its own", {}, "true", 0, 0},
      {"sandbox.ipc_namespace", KeyType::boolean, false, nullptr, nullptr,
       "System V IPC and message queues of its own", {}, "true", 0, 0},
      {"sandbox.uts_namespace", KeyType::boolean, false, nullptr, nullptr,
       "a host name of its own; without it sandbox.hostname is not set", {}, "true", 0, 0},
      {"sandbox.cgroup_namespace", KeyType::boolean, false, nullptr, nullptr,
       "a view of cgroups of its own", {}, "true", 0, 0},

      {"fs.root", KeyType::text, false, nullptr, nullptr,
       "manifest of what the payload sees of the host (rootfs/NAME.toml)", {}, "\"host\"", 0, 0},
      {"fs.read_only_root", KeyType::boolean, false, nullptr, nullptr,
       "nothing outside the writable places can be created or changed", {}, "true", 0, 0},

      {"env.set", KeyType::text_map, false, nullptr, nullptr,
       "variables of the payload; each later policy adds to those before it", {}, "{ TZ = \"UTC\" }", 0, 0},
      {"env.pass", KeyType::text_list, false, nullptr, nullptr,
       "variables that are taken over from the caller where they are set; adds to earlier policies", {},
       "[\"TERM\"]", 0, 0},

      {"limits.time", KeyType::duration, true, "--time", "TIME",
       "wall time of the run", {}, "\"60s\"", 1, kMostMillis},
      {"limits.cpu_time", KeyType::duration, true, "--cpu-time", "TIME",
       "CPU time of all processes together, user and system", {}, "\"10s\"", 1, kMostMillis},
      {"limits.memory", KeyType::size, true, "--memory", "SIZE",
       "memory of all processes and private files together, without swap", {}, "\"1G\"", 16 * kMega, kMostBytes},
      {"limits.pids", KeyType::integer, true, "--pids", "N",
       "processes and threads at the same time", {}, "256", 1, kMostPids},
      {"limits.cpus", KeyType::decimal_cpus, true, "--cpus", "N",
       "processors that may be used at the same time; fractions need a cgroup", {}, "1.5", 10, 65536 * 1000},
      {"limits.io", KeyType::size, true, "--io", "SIZE",
       "bytes a second read from the disk of the workspace, and as many written to it; needs cgroup v2's io controller", {}, "\"10M\"",
       4096, kMostBytes},
      {"limits.disk", KeyType::size, false, "--disk", "SIZE",
       "all private writable places together; they are memory, so it must be below limits.memory", {}, "\"384M\"",
       kMega, kMostBytes},
      {"limits.inodes", KeyType::integer, false, "--inodes", "N",
       "files and directories in the private writable places", {}, "100000", 64, uint64_t{1} << 31},
      {"limits.file_size", KeyType::size, true, "--file-size", "SIZE",
       "largest file that the payload may write", {}, "\"256M\"", 1, kMostBytes},
      {"limits.open_files", KeyType::integer, true, "--open-files", "N",
       "descriptors of one process", {}, "1024", 8, kMostFiles},
      {"limits.output", KeyType::size, true, "--output", "SIZE",
       "bytes of stdout and of stderr, each; more ends the run", {}, "\"64M\"", 1, kMostBytes},
      {"limits.compile_time", KeyType::duration, true, "--compile-time", "TIME",
       "wall time of the compile step", {}, "\"60s\"", 1, kMostMillis},
      {"limits.compile_memory", KeyType::size, true, "--compile-memory", "SIZE",
       "memory of the compile step", {}, "\"2G\"", 16 * kMega, kMostBytes},

      {"seccomp.policy", KeyType::text, false, "--seccomp", "NAME",
       "system call policy that is shipped with sbx", {}, "\"default\"", 0, 0},
      {"seccomp.allow", KeyType::text_list, false, "--allow-syscall", "NAME",
       "system calls or @groups allowed on top of the policy; adds to earlier policies", {}, "[\"io_uring_setup\"]",
       0, 0},
      {"seccomp.deny", KeyType::text_list, false, "--deny-syscall", "NAME",
       "system calls or @groups denied although allowed here or by an earlier policy; adds to earlier policies", {},
       "[\"@network-io\"]", 0, 0},
      {"seccomp.kafel", KeyType::text, true, nullptr, nullptr,
       "rules in Kafel, nsjail's language, in place of seccomp.policy and of what earlier policies say of system calls (docs/kafel.md)", {},
       "\"KILL { ptrace } DEFAULT ALLOW\"", 0, 0},
      {"seccomp.kafel_file", KeyType::text, true, nullptr, nullptr,
       "the same from a file; a relative path begins at the policy's own directory", {}, "\"judge.kafel\"", 0, 0},

      {"net.mode", KeyType::choice, false, "--net", "MODE",
       "none: a network of its own with loopback only; host: the host's network", {"none", "host"}, "\"none\"", 0, 0},

      {"hardening.landlock", KeyType::boolean, false, nullptr, nullptr,
       "Landlock on top of the namespaces, where the kernel has it", {}, "true", 0, 0},
      {"hardening.nested_userns", KeyType::boolean, false, nullptr, nullptr,
       "the payload may make user namespaces of its own", {}, "false", 0, 0},
      {"hardening.writable_noexec", KeyType::boolean, false, nullptr, nullptr,
       "nothing in the writable places can be executed or mapped as code, and /proc is read-only, since /proc/self/mem writes code; the compile step is exempt", {}, "false", 0, 0},
      {"hardening.proc", KeyType::choice, false, nullptr, nullptr,
       "processes: /proc shows these alone, without cpuinfo, meminfo, stat and the like; unmasked: all, as sandboxes inside need it",
       {"full", "processes", "unmasked"}, "\"full\"", 0, 0},
      {"hardening.capabilities", KeyType::text_list, false, nullptr, nullptr,
       "capabilities that the payload keeps, inside its own user namespace; replaces the list of earlier policies", {},
       "[\"cap_net_bind_service\"]", 0, 0},
      {"hardening.no_new_privs", KeyType::boolean, false, nullptr, nullptr,
       "set-uid programs give no rights; cannot be switched off", {}, "true", 0, 0},
  };
  // clang-format on
  return table;
}

}  // namespace

std::span<const KeyRow> key_table() { return rows(); }

const KeyRow* find_key(std::string_view path) {
  for (const KeyRow& row : rows())
    if (path == row.path) return &row;
  return nullptr;
}

}  // namespace sbx
