// One wrapper per system call, named after it: Result, EINTR handled, close-on-exec from birth, the path in the
// error. For the supervisor only; the child between clone and exec uses base/raw_sys.h.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace sbx::sys {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

// O_CLOEXEC is always added. dirfd may be AT_FDCWD.
Result<UniqueFd> openat(int dirfd, const std::string& path, int flags, mode_t mode = 0);
Result<UniqueFd> open(const std::string& path, int flags, mode_t mode = 0);
// openat2(2) (5.6) with the given RESOLVE_* bits.
Result<UniqueFd> openat2(int dirfd, const std::string& path, int flags, mode_t mode, unsigned long long resolve);
Result<UniqueFd> dup(int fd);  // F_DUPFD_CLOEXEC
Result<Pipe> pipe(int flags = 0);
// AF_UNIX pair of the given type (SOCK_SEQPACKET, SOCK_STREAM …).
Result<std::array<UniqueFd, 2>> socketpair(int type);
Result<UniqueFd> memfd_create(const char* name, unsigned flags = 0);

struct DirectoryCloser {
  void operator()(DIR* directory) const { ::closedir(directory); }
};
using Directory = std::unique_ptr<DIR, DirectoryCloser>;
// readdir(3) over what dirfd is open on, by a description of its own: neither end of it moves the caller's offset.
Result<Directory> list(int dirfd);

Result<struct stat> fstat(int fd);
Result<struct stat> stat(const std::string& path);    // follows links
Result<struct stat> lstat(const std::string& path);
Result<struct stat> fstatat(int dirfd, const std::string& path, int flags);
Result<std::string> readlink(const std::string& path);
Result<std::string> readlinkat(int dirfd, const std::string& path);
// Canonical absolute path (realpath(3)).
Result<std::string> realpath(const std::string& path);
Result<std::string> getcwd();

// sendmsg(2) with SCM_RIGHTS, at most kMostSentFds; SIGPIPE is never raised. Returns the bytes that were taken.
inline constexpr size_t kMostSentFds = 16;
Result<size_t> send_with_fds(int socket, std::string_view bytes, std::span<const int> fds, int flags = 0);
// recvmsg(2): what came with the bytes is added to `fds`; more than kMostSentFds of one message are closed. 0: the end.
Result<size_t> receive_with_fds(int socket, std::span<char> bytes, std::vector<UniqueFd>& fds, int flags = 0);
// So many bytes of getrandom(2), at most 256, as lower-case hexadecimal digits.
Result<std::string> random_hex(size_t bytes);

Result<size_t> read(int fd, void* buffer, size_t size);  // 0 at end of file
Result<size_t> write(int fd, const void* buffer, size_t size);
// Writes everything or fails.
Status write_all(int fd, std::string_view bytes);
// Reads to the end or to `limit` bytes, whichever comes first.
Result<std::string> read_some(int fd, size_t limit);
// Reads to the end, refusing more than `limit` bytes (ErrorKind::resource).
Result<std::string> read_all(int fd, size_t limit);

Status mkdirat(int dirfd, const std::string& path, mode_t mode);  // EEXIST is an error
Status unlinkat(int dirfd, const std::string& path, int flags = 0);
Status renameat2(int from_dir, const std::string& from, int to_dir, const std::string& to, unsigned flags);
Status set_nonblocking(int fd);
// To a child of ours that has not been waited for. By its pidfd; where a filter around us knows no such call, by its number, which is its
// own until then: what we wait for must not live on. One that is gone is as wished.
void signal_child(int pidfd, pid_t pid, int signal);

// CLOCK_MONOTONIC, nanoseconds.
uint64_t monotonic_ns();

}  // namespace sbx::sys

namespace sbx {

// A whole small text file, bounded.
Result<std::string> read_file(const std::string& path, size_t limit = size_t{1} << 20);
// Creates or replaces atomically (temporary name beside it, then rename), mode as given.
Status write_file_atomically(const std::string& path, std::string_view content, mode_t mode);
// mkdir -p; directories made get `mode`.
Status make_directories(const std::string& path, mode_t mode);

}  // namespace sbx
