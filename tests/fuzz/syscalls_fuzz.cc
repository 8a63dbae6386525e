// A system call policy to rules and to programs: a program that is made is one that the kernel would load, and one
// that never lets a foreign architecture pass.
#include <linux/audit.h>
#include <linux/seccomp.h>

#include "fuzz.h"
#include "policy/syscall_groups.h"
#include "seccomp/compile.h"
#include "seccomp/evaluate.h"

namespace {

constexpr const char* kGroups = R"(
[basic]
doc = "what every program needs"
calls = ["read", "write", "close", "execve", "exit_group", "mmap", "brk"]

[files]
doc = "files"
calls = ["openat", "fstat", "lseek"]

[control]
doc = "with tests"
calls = ["ioctl", "prctl"]
[[control.rule]]
calls = ["ioctl"]
when = [{ arg = 1, bits = 32, none_of = [21522, 21532] }]
answer = "allow"
[[control.rule]]
calls = ["ioctl"]
answer = "deny"
)";

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  (void)sbx::parse_syscall_groups(text, "groups.toml");
  const sbx::Result<sbx::SyscallRules> rules = sbx::parse_syscall_policy(text, "fuzz.toml", kGroups);
  if (!rules.ok()) {
    HOLDS(!rules.error().text().empty());
    return 0;
  }
  for (const sbx::seccomp::Arch arch : {sbx::seccomp::Arch::x86_64, sbx::seccomp::Arch::aarch64}) {
    sbx::seccomp::CompileOptions options;
    options.arch = arch;
    options.listener = (size & 1) != 0;
    options.guard_set_id = (size & 2) != 0;
    const sbx::Result<sbx::seccomp::BpfProgram> program = sbx::seccomp::compile(rules.value(), options);
    if (!program.ok()) continue;
    HOLDS(sbx::seccomp::check_program(program.value()).ok());
    seccomp_data call{};
    call.arch = AUDIT_ARCH_I386;
    for (int number = 0; number < 450; number += 7) {
      call.nr = number;
      const sbx::Result<uint32_t> answer = sbx::seccomp::evaluate(program.value(), call);
      HOLDS(answer.ok() && answer.value() == SECCOMP_RET_KILL_PROCESS);
    }
  }
  return 0;
}
