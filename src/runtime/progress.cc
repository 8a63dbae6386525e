#include "runtime/progress.h"

#include <algorithm>

#include "base/sys.h"

namespace sbx::runtime {

void Progress::begin(std::string what) {
  if (!show_) return;
  if (what_.empty()) since_ns_ = sys::monotonic_ns();
  what_ = std::move(what);
  if (shown_) show_(what_);
}

void Progress::end() {
  if (shown_) show_("");
  shown_ = false;
  what_.clear();
}

void Progress::look() {
  if (what_.empty() || shown_ || due_ms() > 1) return;
  shown_ = true;
  show_(what_);
}

int64_t Progress::due_ms() const {
  if (!show_ || what_.empty() || shown_) return -1;
  const auto waited = static_cast<int64_t>((sys::monotonic_ns() - since_ns_) / 1000000);
  return std::max<int64_t>(kDelayMs - waited, 1);
}

}  // namespace sbx::runtime
