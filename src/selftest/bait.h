// What the probes try to reach: things of the host's that are there for this one reason, so that "refused" and "was
// never there" can be told apart. Laid out on the host, described to the program inside by one word.
//
// A process of its own owns them and takes them away when its parent is gone, killed or not.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace sbx::selftest {

// As the program inside knows it; in a control some fields differ.
struct Bait {
  std::string token;      // 12 hex digits: content of every file, and the variable's value
  std::string directory;  // holds "secret" (readable), "open" (a directory that everybody may write), "socket"
  std::string home;       // the caller's
  std::string home_identity;  // device and inode of it, since another directory may stand there inside; "": it is gone
  int port = 0;           // a listener on 127.0.0.1
  int key = 0;            // of a System V segment
  int pid = 0;            // of the process that owns all this
  std::string proc = "/proc";  // where processes are looked for
  int init = 1;           // the process that is looked into; 0: oneself
};
// The variable that holds the token in our own environment.
inline constexpr char kTokenVariable[] = "SBX_SELFTEST_TOKEN";

std::string identity_of(const std::string& path);
std::string bait_word(const Bait& bait);
// Errors: usage.
Result<Bait> read_bait(std::string_view word);

std::string abstract_name(const Bait& bait);  // without the leading NUL
std::string process_name(const Bait& bait);   // of the owner, as /proc/PID/comm has it
std::string shared_memory_file(const Bait& bait);

class BaitOwner {
 public:
  // Lays everything out. Process-wide: sets kTokenVariable, and leaves one descriptor open across exec, as a careless
  // caller would. Errors: system; what this host has not (System V segments, /dev/shm) is left out silently, and the
  // tries at it say so.
  static Result<BaitOwner> lay(const std::string& home);
  BaitOwner(BaitOwner&& other) noexcept;
  BaitOwner& operator=(BaitOwner&&) = delete;
  ~BaitOwner();  // waits until all is gone

  const Bait& bait() const { return bait_; }
  // A copy of our own program that every user may execute, in a directory of its own.
  Result<std::string> public_program() const;

 private:
  BaitOwner() = default;
  Bait bait_;
  std::string program_directory_;
  pid_t owner_ = -1;
  UniqueFd alive_;     // the owner sees its end
  UniqueFd inherited_;
};

}  // namespace sbx::selftest
