// The sha256 of bytes, as text.
#pragma once

#include <string>
#include <string_view>

namespace sbx::runtime {

std::string sha256_hex(std::string_view bytes);  // 64 lower-case digits

}  // namespace sbx::runtime
