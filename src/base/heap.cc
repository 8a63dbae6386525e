#include "base/heap.h"

#include <cstddef>
#include <cstdlib>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SBX_OWN_DELETE 0
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SBX_OWN_DELETE 0
#endif
#ifndef SBX_OWN_DELETE
#define SBX_OWN_DELETE 1
#endif

namespace {
bool left_to_kernel = false;
}

void sbx::leave_heap_to_kernel() { left_to_kernel = true; }

#if SBX_OWN_DELETE  // sanitizers have a `delete` of their own, which looks for mistakes
// The library's other forms end in the first one; its `new` is malloc.
void operator delete(void* memory) noexcept {
  if (!left_to_kernel) std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  if (!left_to_kernel) std::free(memory);
}
#endif
