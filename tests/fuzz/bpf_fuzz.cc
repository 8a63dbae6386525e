// Programs of strangers: what the check accepts is evaluated to its end without touching foreign memory, what it
// refuses is not evaluated.
#include <linux/seccomp.h>

#include <vector>

#include "fuzz.h"
#include "seccomp/compile.h"
#include "seccomp/evaluate.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Bytes bytes(data, size);
  seccomp_data call{};
  call.nr = bytes.number<uint8_t>();
  call.arch = bytes.number<uint32_t>();
  call.args[0] = bytes.number<uint64_t>();
  call.args[5] = bytes.number<uint32_t>();
  std::vector<sock_filter> program;
  while (bytes.left() >= 8) {
    sock_filter instruction{};
    instruction.code = bytes.number<uint16_t>();
    instruction.jt = bytes.byte();
    instruction.jf = bytes.byte();
    instruction.k = bytes.number<uint32_t>();
    program.push_back(instruction);
  }
  const bool accepted = sbx::seccomp::check_program(program).ok();
  const sbx::Result<uint32_t> answer = sbx::seccomp::evaluate(program, call);
  HOLDS(answer.ok() == accepted);
  (void)sbx::seccomp::check_startable(program, sbx::seccomp::Arch::x86_64);
  HOLDS(sbx::seccomp::program_digest(program).size() == 64);
  return 0;
}
