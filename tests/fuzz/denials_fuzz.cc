// Calls that the filter reports: any number, architecture and arguments, and the status text of a process that has named
// itself. What is remembered is bounded, counts add up, and the lines made of it are safe to print.
#include <linux/seccomp.h>

#include <string>

#include "base/text.h"
#include "fuzz.h"
#include "policy/spec.h"
#include "runtime/denials.h"
#include "runtime/explain.h"

namespace {

// As the kernel writes a name there: seq_put_escape_str() of at most 15 bytes.
std::string escaped_name(fuzz::Bytes& bytes) {
  std::string name;
  for (size_t left = bytes.byte() % 16; left > 0; --left) {
    const char letter = static_cast<char>(bytes.byte());
    if (letter == '\0') break;
    if (letter == '\n') name += "\\n";
    else if (letter == '\\') name += "\\\\";
    else name += letter;
  }
  return name;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sbx;
  using namespace sbx::runtime;
  static const char* const policies[] = {"default", "strict", "judge", "build", "network"};
  fuzz::Bytes bytes(data, size);
  SandboxSpec spec;
  const uint8_t choice = bytes.byte();
  spec.seccomp.policy = spec.seccomp.builtin = policies[choice % std::size(policies)];
  DenialLog log{UniqueFd()};
  uint64_t noted = 0;
  std::string first_name;
  int first_pid = 0;
  for (; bytes.left() > 0 && noted < 200; ++noted) {
    seccomp_data call{};
    const uint8_t form = bytes.byte();
    call.nr = (form & 1) != 0 ? static_cast<int>(bytes.number<uint32_t>()) : bytes.number<uint16_t>() % 470;
    call.arch = bytes.number<uint16_t>();
    for (auto& argument : call.args) {
      const uint8_t width = bytes.byte();
      argument = width < 0x80 ? width : width < 0xc0 ? uint64_t{1} << (width & 63) : bytes.number<uint64_t>();
    }
    std::string status;
    if ((form & 2) != 0) {
      const std::string name = escaped_name(bytes);
      const int pid = bytes.number<uint16_t>() + 1;
      status = "Name:\t" + name + "\nUmask:\t0022\nNSpid:\t4194000\t" + std::to_string(pid) + "\nNSpgid:\t1\n";
      if (noted == 0) first_name = name, first_pid = pid;
    } else if ((form & 4) != 0) {
      status = std::string(bytes.rest());  // none of the kernel's
    }
    log.note(call, [&] { return status; });
    if (noted == 0 && (form & 4) != 0 && (form & 2) == 0) first_pid = -1;
  }
  std::vector<Denial> denials = log.take();
  HOLDS(denials.size() <= DenialLog::kMaxDistinct);
  uint64_t counted = 0;
  for (const Denial& denial : denials) counted += denial.count;
  HOLDS(log.overflowed() ? counted < noted && denials.size() == DenialLog::kMaxDistinct : counted == noted);
  if (noted > 0 && first_pid >= 0) HOLDS(denials[0].process == first_name && denials[0].pid == first_pid);
  if (denials.size() > 8) denials.resize(8);
  if (choice >= 0xf0) explain_denials(spec, denials);  // reads the shipped texts: a hundred times as long as all the rest
  for (const Denial& denial : denials) {
    const std::string line = denial_line(denial);
    HOLDS(is_valid_utf8(line) && line.size() < 2000);
    for (const char c : line) HOLDS(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  }
  return 0;
}
