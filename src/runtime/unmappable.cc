#include "runtime/unmappable.h"

#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/raw_sys.h"
#include "base/sys.h"
#include "base/text.h"
#include "runtime/tree_walk.h"

namespace sbx::runtime {
namespace {

constexpr unsigned kFsconfigSetString = 1, kFsconfigCreate = 6;  // fsconfig(2), 5.2

// A tmpfs that is nowhere mounted yet.
Result<UniqueFd> make_tmpfs(Bytes size, uint64_t inodes) {
  const UniqueFd context(static_cast<int>(::syscall(SYS_fsopen, "tmpfs", 1 /* FSOPEN_CLOEXEC */)));
  if (!context.valid()) return Error::from_errno(errno, "make a tmpfs for a copy");
  auto set = [&](const char* key, const std::string& value) {
    return ::syscall(SYS_fsconfig, context.get(), kFsconfigSetString, key, value.c_str(), 0) == 0;
  };
  if (!set("size", std::to_string(size.value)) || !set("nr_inodes", std::to_string(inodes)) || !set("mode", "0755") ||
      ::syscall(SYS_fsconfig, context.get(), kFsconfigCreate, nullptr, nullptr, 0) != 0) {
    return Error::from_errno(errno, "make a tmpfs for a copy");
  }
  UniqueFd mount(static_cast<int>(
      ::syscall(SYS_fsmount, context.get(), 1 /* FSMOUNT_CLOEXEC */, SBX_MOUNT_ATTR_NOSUID | SBX_MOUNT_ATTR_NODEV)));
  if (!mount.valid()) return Error::from_errno(errno, "make a tmpfs for a copy");
  return mount;
}

class Copier {
 public:
  Copier(int destination, const CopyOwner& owner) : destination_(destination), owner_(owner) {}

  bool copy(const WalkEntry& entry) {
    if (!failed_.ok()) return false;
    failed_ = copy_one(entry);
    return failed_.ok();
  }
  Status take_status() { return std::move(failed_); }

  Status own(int fd, mode_t mode) const {
    if (::fchown(fd, owner_.uid, owner_.gid) != 0 || ::fchmod(fd, mode & 0777) != 0) {
      return Error::from_errno(errno, "give a copied file to the payload");
    }
    return {};
  }

 private:
  Status copy_one(const WalkEntry& entry) {
    // Only our own directories lie there: the walk made them.
    const UniqueFd parent = entry.parent_path.empty() ? SBX_TRY(sys::dup(destination_))
                                                      : SBX_TRY(open_beneath(destination_, entry.parent_path, O_RDONLY | O_DIRECTORY));
    if (S_ISDIR(entry.info.st_mode)) {
      SBX_TRY(sys::mkdirat(parent.get(), entry.name, 0700));
      const UniqueFd made = SBX_TRY(open_beneath(parent.get(), entry.name, O_RDONLY | O_DIRECTORY));
      return own(made.get(), entry.info.st_mode);
    }
    if (S_ISLNK(entry.info.st_mode)) {
      const std::string text = SBX_TRY(sys::readlinkat(entry.parent_fd, entry.name));
      if (::symlinkat(text.c_str(), parent.get(), entry.name.c_str()) != 0 ||
          ::fchownat(parent.get(), entry.name.c_str(), owner_.uid, owner_.gid, AT_SYMLINK_NOFOLLOW) != 0) {
        return Error::from_errno(errno, "copy a link");
      }
      return {};
    }
    return S_ISREG(entry.info.st_mode) ? copy_file(entry, parent.get()) : Status();
  }

  Status copy_file(const WalkEntry& entry, int parent) const {
    const UniqueFd from = SBX_TRY(open_beneath(entry.parent_fd, entry.name, O_RDONLY | O_NONBLOCK | O_NOCTTY));
    const struct stat now = SBX_TRY(sys::fstat(from.get()));
    if (!S_ISREG(now.st_mode)) return {};  // it changed under us
    const UniqueFd to = SBX_TRY(sys::openat(parent, entry.name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
    for (;;) {
      const ssize_t sent = ::sendfile(to.get(), from.get(), nullptr, size_t{1} << 30);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) return Error::from_errno(errno, "copy '" + printable(entry.path()) + "'");
      if (sent == 0) break;
    }
    return own(to.get(), now.st_mode);
  }

  int destination_;  // borrowed
  CopyOwner owner_;
  Status failed_;
};

}  // namespace

Result<UniqueFd> copy_to_tmpfs(const std::string& source, Bytes size, uint64_t inodes, const CopyOwner& owner) {
  const UniqueFd from = SBX_TRY(sys::open(source, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  const struct stat info = SBX_TRY(sys::fstat(from.get()));
  if (!S_ISDIR(info.st_mode)) {
    return Error(ErrorKind::unsupported, "the file system of '" + printable(source) + "' cannot be idmapped")
        .with_hint("copy the file in with --file, or make it readable for everybody");
  }
  UniqueFd to = SBX_TRY(make_tmpfs(size, inodes + 1));
  Copier copier(to.get(), owner);
  WalkLimits limits;
  limits.max_scan = static_cast<size_t>(inodes) + 1;
  limits.max_depth = 256;
  WalkVisitor visitor;
  visitor.entry = [&](const WalkEntry& entry) { return copier.copy(entry); };
  const WalkReport report = SBX_TRY(walk_tree(from.get(), limits, visitor));
  Status status = copier.take_status();
  if (!status.ok() && status.error().errnum() != ENOSPC) return status.take_error();
  if (!status.ok() || !report.complete()) {
    return Error(ErrorKind::resource, "'" + printable(source) + "' does not fit: its file system cannot be idmapped, and a copy may have " +
                                          format_size(size) + " and " + std::to_string(inodes) + " files")
        .with_hint("raise --disk (with --memory) and --inodes, make the directory readable for everybody, or run sbx as its owner");
  }
  // fsmount's descriptor is an O_PATH one.
  const UniqueFd top = SBX_TRY(sys::openat(to.get(), ".", O_RDONLY | O_DIRECTORY));
  SBX_TRY(copier.own(top.get(), info.st_mode));
  return to;
}

}  // namespace sbx::runtime
