// A Kafel text to rules, to programs and to Kafel again: mistakes lie inside the text; a program decides as its rules say
// and never lets a foreign architecture pass; what is written from rules has the same meaning.
#include <linux/audit.h>
#include <linux/seccomp.h>

#include <algorithm>
#include <string>

#include "base/text.h"
#include "fuzz.h"
#include "policy/kafel/kafel.h"
#include "policy/kafel/write.h"
#include "policy/syscall_decide.h"
#include "seccomp/compile.h"
#include "seccomp/evaluate.h"

namespace {

using sbx::kafel::Machine;

void check_place(const std::string& origin, std::string_view text) {
  const std::vector<std::string> parts = sbx::split(origin, ':');
  HOLDS(parts.size() == 3 && parts[0] == "t");
  const uint64_t line = sbx::parse_integer(parts[1]).take();
  const uint64_t column = sbx::parse_integer(parts[2]).take();
  HOLDS(line >= 1 && line <= static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n')) + 1);
  HOLDS(column >= 1 && column <= text.size() + 1);
}

bool lets_pass(const sbx::SyscallVerdict& verdict) { return verdict.action == sbx::SyscallAction::allow || verdict.action == sbx::SyscallAction::log; }

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  for (const Machine machine : {Machine::x86_64, Machine::aarch64}) {
    const sbx::Result<sbx::SyscallRules> rules = sbx::kafel::compile(text, {.name = "t", .machine = machine});
    if (!rules.ok()) {
      HOLDS(rules.error().kind() == sbx::ErrorKind::policy);
      check_place(rules.error().origin(), text);
      continue;
    }
    const sbx::WrittenPolicy written = sbx::kafel::write(rules.value(), machine);
    HOLDS(written.unsaid.empty());
    const sbx::Result<sbx::SyscallRules> again = sbx::kafel::compile(written.text, {.machine = machine});
    // Written out it may be longer than a text can be.
    if (!again.ok() && written.text.size() < sbx::kafel::kMaxBytes) HOLDS(again.error().text().find("more than") != std::string::npos);

    sbx::seccomp::CompileOptions options;
    options.arch = machine == Machine::x86_64 ? sbx::seccomp::Arch::x86_64 : sbx::seccomp::Arch::aarch64;
    const sbx::Result<sbx::seccomp::BpfProgram> program = sbx::seccomp::compile(rules.value(), options);
    if (!program.ok()) continue;
    HOLDS(sbx::seccomp::check_program(program.value()).ok());
    for (const sbx::SyscallRule& rule : rules.value().rules) {
      check_place(rule.origin, text);
      seccomp_data call{};
      call.nr = static_cast<int>(rule.number.value());
      for (uint64_t salt : {uint64_t{0}, ~uint64_t{0}, uint64_t{3}}) {
        for (size_t i = 0; i < 6; ++i) call.args[i] = salt ^ (rule.tests.empty() ? i : rule.tests[0].value);
        call.arch = AUDIT_ARCH_I386;
        HOLDS(sbx::seccomp::evaluate(program.value(), call).take() == SECCOMP_RET_KILL_PROCESS);
        call.arch = machine == Machine::x86_64 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64;
        const uint32_t answer = sbx::seccomp::evaluate(program.value(), call).take();
        const uint64_t arguments[6] = {call.args[0], call.args[1], call.args[2], call.args[3], call.args[4], call.args[5]};
        const sbx::SyscallRule* decides = sbx::deciding_rule(rules.value().rules, rule.name, arguments);
        const bool passes = answer == SECCOMP_RET_ALLOW || answer == SECCOMP_RET_LOG;
        HOLDS(passes == lets_pass(decides == nullptr ? rules.value().otherwise : decides->verdict));
        if (!again.ok()) continue;
        const sbx::SyscallRule* same = sbx::deciding_rule(again.value().rules, rule.name, arguments);
        HOLDS((decides == nullptr ? rules.value().otherwise : decides->verdict) == (same == nullptr ? again.value().otherwise : same->verdict));
      }
    }
  }
  return 0;
}
