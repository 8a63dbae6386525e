// The descriptors that init hands over, on a socket as the supervisor has it: slots in any order, too many of them, twice
// the same, messages without any: each descriptor is in its slot or closed.
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "base/sys.h"
#include "base/unique_fd.h"
#include "fuzz.h"
#include "ns/plan.h"
#include "runtime/launch.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sbx;
  fuzz::Bytes bytes(data, size);
  const size_t before = fuzz::open_descriptors();
  {
    int ends[2];
    HOLDS(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    const UniqueFd ours(ends[0]), init(ends[1]);
    std::vector<bool> named(ns::kSlotCount);
    bool stopped = false;  // an empty message looks like the end
    for (int messages = 0; messages < 8 && bytes.left() > 0; ++messages) {
      const size_t names = bytes.byte() % 16, descriptors = bytes.byte() % 17;
      char slots[16];
      for (size_t i = 0; i < names; ++i) slots[i] = static_cast<char>(bytes.byte());
      const std::vector<int> sent(descriptors, STDERR_FILENO);
      if (!sys::send_with_fds(init.get(), {slots, names}, sent, MSG_DONTWAIT).ok()) break;
      stopped = stopped || names == 0;
      if (stopped) continue;
      for (size_t i = 0; i < std::min<size_t>(names, std::min<size_t>(descriptors, ns::kSlotCount)); ++i) {
        if (slots[i] >= 0 && slots[i] < ns::kSlotCount) named[static_cast<size_t>(slots[i])] = true;
      }
    }
    const std::vector<UniqueFd> slots = runtime::receive_slots(ours.get());
    HOLDS(slots.size() == static_cast<size_t>(ns::kSlotCount));
    for (size_t i = 0; i < slots.size(); ++i) HOLDS(slots[i].valid() == named[i]);
  }
  HOLDS(fuzz::open_descriptors() == before);
  return 0;
}
