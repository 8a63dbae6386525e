// Where sessions are: a directory of the user's own (mode 0700), in which each has a socket, a record and a lock that its
// supervisor holds for as long as it lives. There is no daemon: a lock that nobody holds tells that the supervisor is
// dead, and whoever notices takes the remains away.
//
// $XDG_RUNTIME_DIR/sbx/sessions, else /run/user/UID, root: /run/sbx, else a directory in /tmp whose owner and mode are
// checked. Paths are opened once; everything below goes through the descriptor.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "session/json.h"

namespace sbx::session {

inline constexpr size_t kIdDigits = 16;

struct SessionRecord {
  std::string id;        // 16 hexadecimal digits
  std::string name;      // "": none
  std::string language;
  pid_t pid = 0;         // of the supervisor
  int64_t created = 0;   // seconds since 1970
  std::string warm;      // what it was started ahead for, a digest; "": it is in use
};

class SessionPlace {
 public:
  // Makes it if missing. Errors: permission when it is somebody else's or others may enter.
  static Result<SessionPlace> open();

  // What lives, oldest first. Takes away what is left of the dead; `reaped` counts them.
  Result<std::vector<SessionRecord>> list(size_t* reaped = nullptr) const;
  // What a session that is started behind its user's back holds from before that until it has its entry; forks share it.
  Result<UniqueFd> announce() const;
  // Waits until no such session is on its way: list() knows them all then.
  Status await_announced() const;
  // By id, name, or the first four or more digits of an id: no name is such digits. Errors: usage, with what there is.
  Result<SessionRecord> find(const std::string& word) const;
  // Errors: usage when the session is gone by now.
  Result<UniqueFd> connect(const SessionRecord& session) const;
  // A name of at most 64 letters, digits, '.', '_' and '-', beginning with a letter; not one that could be (the beginning of) an id.
  static Status check_name(const std::string& name);

  // For a supervisor: its entry, taken away with the object.
  class Entry {
   public:
    Entry(Entry&& other) noexcept;
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    Entry& operator=(Entry&&) = delete;
    ~Entry();
    const SessionRecord& record() const { return record_; }
    int listener() const { return listener_.get(); }
    // A session that was started ahead is taken into use under this name. Errors: usage when it is taken.
    Status adopt(const SessionPlace& place, const std::string& name);

   private:
    Status write() const;
    friend class SessionPlace;
    Entry() = default;
    SessionRecord record_;
    UniqueFd directory_, lock_, listener_;
  };
  // Errors: usage when the name is taken.
  Result<Entry> add(const std::string& name, const std::string& language, const std::string& warm = "") const;

  const std::string& path() const { return path_; }

 private:
  Status check_free(const std::string& name) const;  // REQUIRES hold()
  Result<UniqueFd> open_lock() const;
  Result<UniqueFd> hold() const;  // against others who add or take away
  bool is_alive(const std::string& id) const;
  void remove(const std::string& id) const;
  std::vector<std::string> ids() const;
  Result<SessionRecord> read(const std::string& id) const;

  UniqueFd directory_;
  std::string path_;
};

// Whether the other end is one of ours: the same user, and not a process of a sandbox that reached the socket through a
// shared directory (it lives in another user namespace). Errors: it cannot be known.
Result<bool> is_trusted_peer(int socket);

}  // namespace sbx::session
