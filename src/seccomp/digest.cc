#include <sha256.h>

#include "seccomp/compile.h"

namespace sbx::seccomp {

std::string program_digest(std::span<const sock_filter> program) {
  SHA2_CTX context;
  SHA256Init(&context);
  // Field by field, so that the digest does not depend on padding (there is none) or on the host.
  for (const sock_filter& instruction : program) {
    const uint8_t bytes[8] = {
        static_cast<uint8_t>(instruction.code),     static_cast<uint8_t>(instruction.code >> 8),
        instruction.jt,                             instruction.jf,
        static_cast<uint8_t>(instruction.k),        static_cast<uint8_t>(instruction.k >> 8),
        static_cast<uint8_t>(instruction.k >> 16),  static_cast<uint8_t>(instruction.k >> 24)};
    SHA256Update(&context, bytes, sizeof bytes);
  }
  char text[SHA256_DIGEST_STRING_LENGTH];
  SHA256End(&context, text);
  return text;
}

}  // namespace sbx::seccomp
