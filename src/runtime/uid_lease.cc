#include "runtime/uid_lease.h"

#include <fcntl.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/sys.h"
#include "base/text.h"
#include "runtime/mending.h"

namespace sbx::runtime {
namespace {

constexpr uint32_t kPreferredFirst = 1900000000;
constexpr uint32_t kPreferredCount = 65536;
// In a container with a 16-bit map: above the usual users, below systemd's dynamic ones (61184).
constexpr uint32_t kSmallFirst = 50000;
constexpr uint32_t kSmallCount = 8192;

uint32_t random_start(uint32_t count) {
  uint32_t value = 0;
  if (::getrandom(&value, sizeof value, GRND_NONBLOCK) != sizeof value) value = static_cast<uint32_t>(::getpid());
  return value % count;
}

}  // namespace

UidRange choose_uid_range(const std::string& uid_map) {
  const UidRange wishes[] = {{kPreferredFirst, kPreferredCount}, {kSmallFirst, kSmallCount}};
  for (const UidRange& wish : wishes) {
    for (const std::string& line : split(uid_map, '\n')) {
      unsigned inside = 0, outside = 0, count = 0;
      if (std::sscanf(line.c_str(), "%u %u %u", &inside, &outside, &count) != 3) continue;
      const uint64_t end = uint64_t{inside} + count;
      if (wish.first >= inside && uint64_t{wish.first} + wish.count <= end) return wish;
    }
  }
  return {};
}

Result<UidLease> lease_uid(const UidRange& range, const std::string& lock_directory) {
  if (range.count == 0) return Error(ErrorKind::unsupported, "no host uid can be leased in this uid map");
  const std::string path = lock_directory + "/uids";
  Result<UniqueFd> opened = sys::open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  if (!opened.ok() && opened.error().errnum() == ENOENT) {
    Status made = make_directories(dir_name(lock_directory), 0755);  // a missing /run is for everybody
    if (made.ok()) made = make_directories(lock_directory, 0700);
    if (!made.ok()) {
      const int errnum = made.error().errnum();
      return made.take_error().with_hint(mend_uid_lease(errnum, lock_directory));
    }
    opened = sys::open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  }
  if (!opened.ok()) {
    const int errnum = opened.error().errnum();
    return opened.take_error().with_hint(mend_uid_lease(errnum, lock_directory));
  }
  UniqueFd lock = opened.take();
  const struct stat info = SBX_TRY(sys::fstat(lock.get()));
  if (info.st_uid != 0 || (info.st_mode & 022) != 0) {
    return Error(ErrorKind::permission, "'" + path + "' is not root's own").with_hint("remove it");
  }
  const uint32_t start = random_start(range.count);
  for (uint32_t i = 0; i < range.count; ++i) {
    const uint32_t offset = (start + i) % range.count;
    struct flock byte {};
    byte.l_type = F_WRLCK;
    byte.l_whence = SEEK_SET;
    byte.l_start = offset;
    byte.l_len = 1;
    if (::fcntl(lock.get(), F_OFD_SETLK, &byte) == 0) return UidLease{range.first + offset, std::move(lock)};
    if (errno != EAGAIN && errno != EACCES) return Error::from_errno(errno, "lock '" + path + "'");
  }
  return Error(ErrorKind::resource, "all " + std::to_string(range.count) + " host uids for sandboxes are in use");
}

}  // namespace sbx::runtime
