// Rules to BPF. Our own code generator: install cost follows the number of instructions (a linear 700-instruction
// filter installs in 750 us, a bit-mask table of 60 with the same decisions in 90), so plainly decided calls go into
// a table of 32-bit words chosen by number>>5 and tested by a shift of number&31, and only calls with argument tests
// get code of their own. libseccomp serves for names alone.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/syscall_rules.h"
#include "seccomp/bpf_program.h"

namespace sbx::seccomp {

struct CompileOptions {
  Arch arch = Arch::x86_64;
  bool listener = false;        // false: SyscallAction::notify is compiled as errno EPERM
  // Refuse mode bits 06000 in chmod, fchmod, fchmodat, fchmodat2, open/openat (with O_CREAT or O_TMPFILE), creat,
  // mkdir, mkdirat, mknod, mknodat: a writable host directory is in the sandbox (kernel-facts section 0, row 1).
  // openat2 answers ENOSYS then: its mode is in memory.
  bool guard_set_id = false;
  // No cgroup counts memory: shmget answers EPERM and memfd_create, memfd_secret ENOSYS, because their unmapped pages
  // belong to no process that sampling could see.
  bool guard_unseen_memory = false;
};

// Foreign architectures and x32 are always killed. Errors: policy (unknown name, with did-you-mean and the rule's
// origin; an argument test out of range); policy too when the filter would deny execve, execveat-free exec, exit_group
// or what the child needs to start (it is checked by evaluating it).
Result<BpfProgram> compile(const SyscallRules& rules, const CompileOptions& options);

// A shipped policy's precompiled program for this build's architecture: a static array, no copy. Empty: no such
// policy or combination.
std::span<const sock_filter> builtin_program(std::string_view policy, const CompileOptions& options);
std::vector<std::string> builtin_policies();

// Sanity before loading: known opcodes, jumps inside, ends in RET, at most BPF_MAXINSNS.
Status check_program(std::span<const sock_filter> program);
// sha256 over the instructions, hex.
std::string program_digest(std::span<const sock_filter> program);

}  // namespace sbx::seccomp
