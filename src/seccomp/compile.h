// Rules to BPF. Our own code generator, because shape decides what a filter costs
// (docs/seccomp.md has the figures):
//   architecture, else kill -> x32 numbers: kill -> a search tree over runs of numbers with one answer -> answers
//   shared by all -> one block of argument tests per distinct list of rules.
// Runs are few (about 100 for an allow-list of 290 calls) and the tree costs one instruction for each. A call that is
// plainly allowed meets nothing but loads of the architecture and the number, comparisons with constants and a return:
// the instructions that the kernel's own emulation understands (seccomp_is_const_allow, 5.11), so it answers such
// calls from a bitmap and never runs the filter again. A table of bit masks shifted by the number would be as short,
// but the emulation stops at TAX, and every call would pay for the filter.
// libseccomp serves for names alone.
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
  // mkdir, mkdirat, mknod, mknodat: a writable host directory is in the sandbox.
  // openat2 answers ENOSYS then: its mode is in memory.
  bool guard_set_id = false;
  // No cgroup counts memory: shmget answers EPERM and memfd_create, memfd_secret ENOSYS, because their unmapped pages
  // belong to no process that sampling could see.
  bool guard_unseen_memory = false;
  bool startable = true;  // refuse what check_startable() refuses
};

// Foreign architectures are always killed, and so is x32, but for a number of it that a rule names. Errors: policy (unknown name, with did-you-mean and the rule's
// origin; an argument test out of range); policy too when check_startable() says so, or when the program would be
// longer than the kernel takes.
Result<BpfProgram> compile(const SyscallRules& rules, const CompileOptions& options);

// A shipped policy's precompiled program for this build's architecture: a static array, no copy. Empty: no such
// policy or combination.
std::span<const sock_filter> builtin_program(std::string_view policy, const CompileOptions& options);
std::vector<std::string> builtin_policies();

// Refuses a filter under which nothing can run: the child that loads it must still be able to call execve, and
// exit_group when that fails. Decided by evaluating the program. Errors: policy.
Status check_startable(std::span<const sock_filter> program, Arch arch);

// What the kernel checks when it loads a filter: opcodes that seccomp takes, loads inside seccomp_data, jumps inside,
// scratch memory written before it is read, a return at the end, at most BPF_MAXINSNS. Errors: internal.
Status check_program(std::span<const sock_filter> program);
// sha256 over the instructions, hex.
std::string program_digest(std::span<const sock_filter> program);

}  // namespace sbx::seccomp
