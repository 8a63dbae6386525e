#include "runtime/digest.h"

#include <sha256.h>

#include <cstdint>

namespace sbx::runtime {

std::string sha256_hex(std::string_view bytes) {
  char hex[SHA256_DIGEST_STRING_LENGTH];
  SHA256Data(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), hex);
  return hex;
}

}  // namespace sbx::runtime
