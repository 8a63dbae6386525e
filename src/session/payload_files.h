// Files of a living sandbox, from outside: by the descriptor of its root, never by a path of the host. What lies there was
// made by a payload, which may change it meanwhile: no link is followed, nothing but regular files is read or written.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace sbx::session {

// For its lifetime file system calls of this thread are made as that user, where this process is root: what is made
// belongs to the payload, and what it may not touch we do not touch for it either.
class ActAs {
 public:
  ActAs(uint32_t uid, uint32_t gid);
  ActAs(const ActAs&) = delete;
  ActAs& operator=(const ActAs&) = delete;
  ~ActAs();

 private:
  bool acting_;
};

// `path` is relative to the root. Links are refused wherever they stand (ELOOP); mounts are crossed.
Result<UniqueFd> open_inside(int root, const std::string& path, int flags, mode_t mode = 0);

// A named pipe in place of what is there, as O_PATH: whatever becomes of its name, this is the pipe.
Result<UniqueFd> make_fifo_inside(int root, const std::string& path);
// Whether that name is still the file of the descriptor.
bool is_at(int root, const std::string& path, int fd);
// Nothing that is no directory is there afterwards; errors are of no interest.
void remove_inside(int root, const std::string& path);

// A new file of that content in place of what is there; a directory there is an error.
Status put_inside(int root, const std::string& path, std::string_view content, mode_t mode = 0644);

}  // namespace sbx::session
