// Quantities carry their unit in the type.
#pragma once

#include <compare>
#include <cstdint>

namespace sbx {

struct Bytes {
  uint64_t value = 0;
  auto operator<=>(const Bytes&) const = default;
};

struct Millis {
  int64_t value = 0;
  auto operator<=>(const Millis&) const = default;
};

struct Micros {
  int64_t value = 0;
  auto operator<=>(const Micros&) const = default;
};

}  // namespace sbx
