// Bounds of a copy that an input can reach.
#pragma once

#include "fuzz.h"
#include "session/copy.h"

namespace fuzz {

inline sbx::session::CopyBounds small_bounds(Bytes& bytes) {
  sbx::session::CopyBounds bounds;
  bounds.max_bytes = bytes.byte() * uint64_t{64};
  bounds.max_entries = bytes.byte() % 40 + 1;
  bounds.max_depth = bytes.byte() % 40 + 1;
  return bounds;
}

}  // namespace fuzz
