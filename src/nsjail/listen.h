// The TCP side of LISTEN: the socket, and one connection's bytes on their way to and from a program's pipes. The program
// never holds the socket: who has one of the host's network could connect it elsewhere.
#pragma once

#include <poll.h>

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace sbx::nsjail {

struct Listener {
  UniqueFd socket;
  std::string address;  // "[::]:31337", with the port that the kernel chose
};
// Errors: usage for an address that is none, system.
Result<Listener> listen_on(const std::string& host, uint32_t port);

struct Peer {
  UniqueFd socket;
  std::string ip;    // "::ffff:127.0.0.1"
  std::string text;  // "[::ffff:127.0.0.1]:40312"
};
// No socket: nobody is there any more.
Result<Peer> accept_from(const Listener& listener);

// One direction, without blocking: bytes that are there go where there is room.
class Flow {
 public:
  Flow() = default;
  Flow(int from, int to) : from_(from), to_(to), open_(true) {}
  bool open() const { return open_; }
  void close() { open_ = false; }
  // What to wait for.
  pollfd wanted() const { return {waits_for_room_ ? to_ : from_, static_cast<short>(waits_for_room_ ? POLLOUT : POLLIN), 0}; }
  // Moves what can be moved. False: it is over, by end of file (`broken` stays false) or because the other side is gone.
  bool move(bool& broken);
  bool waits_for_room() const { return waits_for_room_; }

 private:
  int from_ = -1, to_ = -1;  // borrowed
  bool open_ = false, waits_for_room_ = false;
};

}  // namespace sbx::nsjail
