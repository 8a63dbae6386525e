// "execve once": how a filter allows the call that starts the payload, and none after it.
//
// A filter sees the pointers of execve and not what they point to. So the child puts path, argv and envp of that one
// call at three addresses that nobody can guess (102 random bits together), and the filter allows execve with exactly
// these three. The call itself replaces the address space; what runs afterwards knows neither the addresses nor a way to
// ask for them, for a filter cannot be read back without privilege over the machine. Nobody outside takes part: it holds
// without a listener, in a sandbox in a sandbox, and when the supervisor is dead.
//
// The words are compared all together, without a branch in between, so that the time of a refused call tells nothing
// about which part of a guess was right. The block is the only use of XOR that compile() makes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "seccomp/bpf_program.h"

namespace sbx::seccomp {

struct StartKey {
  std::array<uint64_t, 3> words{};  // path, argv, envp: addresses in the child
  bool operator==(const StartKey&) const = default;
};

// What compile() puts in: no address of user space, so a program that is loaded as it is never allows execve.
inline constexpr StartKey kNoStartKey = {{~uint64_t{0}, ~uint64_t{0} - 1, ~uint64_t{0} - 2}};

// Random places in the middle of the smallest address space that either architecture may have (39 bits), away from all
// that the kernel chooses. Errors: system (no randomness).
Result<StartKey> make_start_key();

void append_start_test(BpfProgram& program, const StartKey& key);  // leaves 0 in the accumulator when all words are right
inline constexpr size_t kStartTestLength = 3 + 4 * 5 + 4;

// The key in the program, nothing where it has no such test.
std::optional<StartKey> start_key_of(std::span<const sock_filter> program);
// Puts `key` into every such test.
void set_start_key(std::span<sock_filter> program, const StartKey& key);

}  // namespace sbx::seccomp
