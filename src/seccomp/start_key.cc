#include "seccomp/start_key.h"

#include <linux/seccomp.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

namespace sbx::seccomp {
namespace {

constexpr unsigned kHalves = 6;  // 32-bit words of the key
// Three slices of this size from kLowest on: free in a process of ours, and within the 39 bits that some aarch64 kernels
// give. AddressSanitizer has its shadow there.
constexpr uint64_t kSlice = uint64_t{1} << 36;
#if defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kLowest = uint64_t{1} << 45;
#else
constexpr uint64_t kLowest = kSlice;
#endif

uint32_t half_of(const StartKey& key, unsigned half) {
  return static_cast<uint32_t>(key.words[half / 2] >> (half % 2 * 32));
}

// M[0] gathers the differences of all words; the last one stays in the accumulator.
std::array<sock_filter, kStartTestLength> block(const StartKey& key) {
  std::array<sock_filter, kStartTestLength> code{};
  size_t at = 0;
  const auto emit = [&](uint16_t op, uint32_t k) { code[at++] = {op, 0, 0, k}; };
  for (unsigned half = 0; half < kHalves; ++half) {
    emit(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offsetof(seccomp_data, args) + 4 * half));
    emit(BPF_ALU | BPF_XOR | BPF_K, half_of(key, half));
    if (half > 0) {
      emit(BPF_LDX | BPF_MEM, 0);
      emit(BPF_ALU | BPF_OR | BPF_X, 0);
    }
    if (half + 1 < kHalves) emit(BPF_ST, 0);
  }
  return code;
}

bool is_key(const sock_filter& instruction) { return instruction.code == (BPF_ALU | BPF_XOR | BPF_K); }

// Where a block begins at or behind `from`; the size of the program when there is none.
size_t find_block(std::span<const sock_filter> program, size_t from) {
  const std::array<sock_filter, kStartTestLength> wanted = block({});
  const auto alike = [](const sock_filter& a, const sock_filter& b) {
    return a.code == b.code && a.jt == b.jt && a.jf == b.jf && (is_key(a) || a.k == b.k);
  };
  const auto found = std::search(program.begin() + static_cast<std::ptrdiff_t>(std::min(from, program.size())), program.end(),
                                 wanted.begin(), wanted.end(), alike);
  return static_cast<size_t>(found - program.begin());
}

}  // namespace

Result<StartKey> make_start_key() {
  uint64_t random[3];
  for (size_t have = 0; have < sizeof random;) {
    const ssize_t got = ::getrandom(reinterpret_cast<char*>(random) + have, sizeof random - have, 0);
    if (got < 0 && errno != EINTR) return Error::from_errno(errno, "get random bytes");
    if (got > 0) have += static_cast<size_t>(got);
  }
  StartKey key;
  // In slices that cannot meet; the two arrays of pointers are aligned.
  for (size_t i = 0; i < key.words.size(); ++i) {
    key.words[i] = kLowest + i * kSlice + (random[i] & (kSlice - 1) & (i == 0 ? ~uint64_t{0} : ~uint64_t{7}));
  }
  return key;
}

void append_start_test(BpfProgram& program, const StartKey& key) {
  const auto code = block(key);
  program.insert(program.end(), code.begin(), code.end());
}

std::optional<StartKey> start_key_of(std::span<const sock_filter> program) {
  const size_t at = find_block(program, 0);
  if (at == program.size()) return std::nullopt;
  StartKey key;
  unsigned half = 0;
  for (size_t i = at; i < at + kStartTestLength; ++i) {
    if (!is_key(program[i])) continue;
    key.words[half / 2] |= uint64_t{program[i].k} << (half % 2 * 32);
    ++half;
  }
  return key;
}

void set_start_key(std::span<sock_filter> program, const StartKey& key) {
  for (size_t at = find_block(program, 0); at < program.size(); at = find_block(program, at + kStartTestLength)) {
    unsigned half = 0;
    for (size_t i = at; i < at + kStartTestLength; ++i)
      if (is_key(program[i])) program[i].k = half_of(key, half++);
  }
}

}  // namespace sbx::seccomp
