#include "session/payload_files.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/sys.h"
#include "base/text.h"

namespace sbx::session {

ActAs::ActAs(uint32_t uid, uint32_t gid) : acting_(::geteuid() == 0 && uid != 0) {
  if (!acting_) return;
  ::setfsgid(gid);
  ::setfsuid(uid);  // capabilities over files go with it
}

ActAs::~ActAs() {
  if (!acting_) return;
  ::setfsuid(0);
  ::setfsgid(0);
}

Result<UniqueFd> open_inside(int root, const std::string& path, int flags, mode_t mode) {
  return sys::openat2(root, path.empty() ? "." : path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, mode,
                      RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

Status put_inside(int root, const std::string& path, std::string_view content, mode_t mode) {
  const UniqueFd directory = SBX_TRY(open_inside(root, dir_name(path), O_RDONLY | O_DIRECTORY));
  const std::string name = base_name(path);
  (void)sys::unlinkat(directory.get(), name);
  const UniqueFd file = SBX_TRY(sys::openat(directory.get(), name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode));
  return sys::write_all(file.get(), content);
}

Result<UniqueFd> make_fifo_inside(int root, const std::string& path) {
  const UniqueFd directory = SBX_TRY(open_inside(root, dir_name(path), O_RDONLY | O_DIRECTORY));
  const std::string name = base_name(path);
  (void)sys::unlinkat(directory.get(), name);
  if (::mkfifoat(directory.get(), name.c_str(), 0644) != 0) return Error::from_errno(errno, "make the pipe of a cell's stdin");
  return sys::openat(directory.get(), name, O_PATH | O_NOFOLLOW);
}

bool is_at(int root, const std::string& path, int fd) {
  const Result<UniqueFd> directory = open_inside(root, dir_name(path), O_RDONLY | O_DIRECTORY);
  struct stat named {}, known {};
  return directory.ok() && ::fstatat(directory.value().get(), base_name(path).c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 && ::fstat(fd, &known) == 0 && named.st_dev == known.st_dev && named.st_ino == known.st_ino;
}

void remove_inside(int root, const std::string& path) {
  if (const Result<UniqueFd> directory = open_inside(root, dir_name(path), O_RDONLY | O_DIRECTORY); directory.ok()) {
    (void)sys::unlinkat(directory.value().get(), base_name(path));
  }
}

}  // namespace sbx::session
