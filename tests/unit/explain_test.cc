#include "runtime/explain.h"

#include <doctest/doctest.h>

#include "policy/syscall_groups.h"
#include "seccomp/describe_call.h"

using namespace sbx;
using namespace sbx::runtime;

namespace {

std::string said(const char* call, std::array<uint64_t, 6> arguments) { return seccomp::describe_call(call, arguments); }

std::string line(SandboxSpec spec, const char* call, std::array<uint64_t, 6> arguments) {
  Denial denial;
  denial.call = call;
  std::copy(arguments.begin(), arguments.end(), denial.arguments);
  denial.process = "python3";
  denial.pid = 3;
  denial.count = 1;
  std::vector<Denial> denials = {denial};
  explain_denials(spec, denials);
  return denial_line(denials[0]);
}

SandboxSpec shipped(const char* policy) {
  SandboxSpec spec;
  spec.seccomp.builtin = spec.seccomp.policy = policy;
  return spec;
}

// The shipped default with one more rule before it.
SandboxSpec with_rule(SyscallRule rule) {
  SandboxSpec spec = shipped("default");
  spec.seccomp.rules = builtin_syscall_rules("default").value();
  spec.seccomp.rules.rules.insert(spec.seccomp.rules.rules.begin(), std::move(rule));
  spec.seccomp.builtin.clear();
  return spec;
}

}  // namespace

TEST_CASE("calls are said with the names of their arguments") {
  CHECK(said("ptrace", {0}) == "ptrace(PTRACE_TRACEME)");
  CHECK(said("ptrace", {0x7777}) == "ptrace(0x7777)");
  CHECK(said("clone", {0x10000000 | 17}) == "clone(CLONE_NEWUSER|SIGCHLD)");
  CHECK(said("clone", {0x50000000}) == "clone(CLONE_NEWUSER|CLONE_NEWNET)");
  CHECK(said("clone", {9}) == "clone(9)");
  CHECK(said("unshare", {uint64_t{1} << 40}) == "unshare(0x10000000000)");
  CHECK(said("unshare", {0}) == "unshare(0)");
  CHECK(said("socket", {2, 02000003, 1}) == "socket(AF_INET, SOCK_RAW, 1)");
  CHECK(said("socket", {99, 77, 0}) == "socket(0x63, 0x4d, 0)");
  CHECK(said("ioctl", {0, 0x5412}) == "ioctl(TIOCSTI)");
  CHECK(said("ioctl", {0, 0x5412 | (uint64_t{1} << 32)}) == "ioctl(TIOCSTI)");
  CHECK(said("prctl", {35}) == "prctl(PR_SET_MM)");
  CHECK(said("personality", {0x0440000}) == "personality(ADDR_NO_RANDOMIZE|READ_IMPLIES_EXEC)");
  CHECK(said("bpf", {5}) == "bpf(BPF_PROG_LOAD)");
  CHECK(said("keyctl", {1}) == "keyctl(KEYCTL_JOIN_SESSION_KEYRING)");
  CHECK(said("mount", {0, 0, 0, 4096 | 16384}) == "mount(MS_BIND|MS_REC)");
  CHECK(said("mknod", {0, 0020666}) == "mknod(S_IFCHR|0666)");
  CHECK(said("chmod", {0, 04755}) == "chmod(04755)");
  CHECK(said("mprotect", {0, 4096, 5}) == "mprotect(PROT_READ|PROT_EXEC)");
  CHECK(said("process_vm_readv", {uint64_t(-1)}) == "process_vm_readv(-1)");
  CHECK(said("add_key", {}) == "add_key()");
}

TEST_CASE("a denial says what, who, by which rule, and the flag that allows it") {
  CHECK(line(shipped("default"), "ptrace", {0}) ==
        "denied: ptrace(PTRACE_TRACEME) by python3 (pid 3), rule \"debug\" of policy default; allow it with --allow-syscall ptrace");
  CHECK(line(shipped("strict"), "execve", {1, 2, 3}) ==
        "denied: execve() by python3 (pid 3), rule \"process\" of policy strict; allow it with --allow-syscall execve");
  CHECK(line(shipped("default"), "mount", {}) ==
        "denied: mount(0) by python3 (pid 3), rule \"mount\" of policy default; allow it with --allow-syscall mount, though the kernel "
        "wants a capability as well");
}

TEST_CASE("where --allow-syscall would not help, something else is said") {
  CHECK(line(shipped("default"), "unshare", {0x10000000}).ends_with("; a policy with hardening.nested_userns = true allows it"));
  CHECK(line(shipped("default"), "ioctl", {0, 0x5412})
            .ends_with("; --allow-syscall keeps the tests of its arguments; a policy's [[seccomp.rule]] can lift them"));
  CHECK(line(shipped("default"), "chmod", {0, 04755}) ==
        "denied: chmod(04755) by python3 (pid 3), because set-id bits would stay in a writable directory of the host; it is allowed where "
        "none is shared writable (:ro, :overlay)");
  CHECK(line(shipped("default"), "shmget", {}).find("where a cgroup holds the memory limit") != std::string::npos);
}

TEST_CASE("a rule of the user's own is named with its place") {
  CHECK(line(with_rule({"getpid", {}, {SyscallAction::notify, 0}, "process", "flag --deny-syscall"}), "getpid", {}) ==
        "denied: getpid() by python3 (pid 3), flag --deny-syscall; it is allowed without --deny-syscall getpid");
  CHECK(line(with_rule({"getpid", {}, {SyscallAction::notify, 0}, "process", "/x/y.toml:3:1"}), "getpid", {}) ==
        "denied: getpid() by python3 (pid 3), rule at /x/y.toml:3:1; allow it with --allow-syscall getpid");
  // A rule for other arguments does not decide.
  const SandboxSpec other = with_rule({"ptrace", {{.index = 0, .value = 9}}, {SyscallAction::allow, 0}, "", "flag"});
  CHECK(line(other, "ptrace", {0}).find("rule \"debug\" of policy default") != std::string::npos);
}
