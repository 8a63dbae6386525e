#include "base/sys.h"

#include <linux/openat2.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace sbx::sys {
namespace {

template <typename Call>
auto retry(Call call) {
  for (;;) {
    auto result = call();
    if (result != -1 || errno != EINTR) return result;
  }
}

std::string quoted(const char* verb, const std::string& path) { return std::string(verb) + " '" + path + "'"; }

}  // namespace

Result<UniqueFd> openat(int dirfd, const std::string& path, int flags, mode_t mode) {
  const int fd = retry([&] { return ::openat(dirfd, path.c_str(), flags | O_CLOEXEC, mode); });
  if (fd < 0) return Error::from_errno(errno, quoted("open", path));
  return UniqueFd(fd);
}

Result<UniqueFd> open(const std::string& path, int flags, mode_t mode) { return openat(AT_FDCWD, path, flags, mode); }

Result<UniqueFd> openat2(int dirfd, const std::string& path, int flags, mode_t mode, unsigned long long resolve) {
  struct open_how how {};
  how.flags = static_cast<unsigned>(flags | O_CLOEXEC);
  how.mode = mode;
  how.resolve = resolve;
  const long fd = retry([&] { return ::syscall(SYS_openat2, dirfd, path.c_str(), &how, sizeof how); });
  if (fd < 0) return Error::from_errno(errno, quoted("open", path));
  return UniqueFd(static_cast<int>(fd));
}

Result<UniqueFd> dup(int fd) {
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (copy < 0) return Error::from_errno(errno, "duplicate descriptor " + std::to_string(fd));
  return UniqueFd(copy);
}

Result<Pipe> pipe(int flags) {
  int fds[2];
  if (::pipe2(fds, flags | O_CLOEXEC) != 0) return Error::from_errno(errno, "create a pipe");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

Result<std::array<UniqueFd, 2>> socketpair(int type) {
  int fds[2];
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) != 0) return Error::from_errno(errno, "create a socket pair");
  return std::array<UniqueFd, 2>{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

Result<UniqueFd> memfd_create(const char* name, unsigned flags) {
  const int fd = ::memfd_create(name, flags | MFD_CLOEXEC);
  if (fd < 0) return Error::from_errno(errno, "create a memory file");
  return UniqueFd(fd);
}

Result<Directory> list(int dirfd) {
  UniqueFd own = SBX_TRY(openat(dirfd, ".", O_RDONLY | O_DIRECTORY));
  Directory stream(::fdopendir(own.get()));
  if (stream == nullptr) return Error::from_errno(errno, "read a directory");
  (void)own.release();  // closedir closes it
  return stream;
}

Result<size_t> send_with_fds(int socket, std::string_view bytes, std::span<const int> fds, int flags) {
  if (fds.size() > kMostSentFds) return Error::from_errno(EINVAL, "send so many descriptors");
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostSentFds)] = {};
  iovec text{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | flags);
  if (sent < 0) return Error::from_errno(errno, "send a message");
  return static_cast<size_t>(sent);
}

Result<size_t> receive_with_fds(int socket, std::span<char> bytes, std::vector<UniqueFd>& fds, int flags) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostSentFds)];
  iovec text{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  ssize_t got;
  do {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return Error::from_errno(errno, "receive a message");
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = CMSG_LEN(0); at + sizeof(int) <= header->cmsg_len; at += sizeof(int)) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + (at - CMSG_LEN(0)), sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return static_cast<size_t>(got);
}

Result<std::string> random_hex(size_t bytes) {
  unsigned char random[256];
  if (bytes > sizeof random) return Error::from_errno(EINVAL, "get so many random bytes");
  if (::getrandom(random, bytes, 0) != static_cast<ssize_t>(bytes)) return Error::from_errno(errno, "get random bytes");
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < bytes; ++i) {
    text += kDigits[random[i] >> 4];
    text += kDigits[random[i] & 15];
  }
  return text;
}

Result<struct stat> fstat(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return Error::from_errno(errno, "stat descriptor " + std::to_string(fd));
  return info;
}

Result<struct stat> stat(const std::string& path) { return fstatat(AT_FDCWD, path, 0); }
Result<struct stat> lstat(const std::string& path) { return fstatat(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW); }

Result<struct stat> fstatat(int dirfd, const std::string& path, int flags) {
  struct stat info {};
  if (::fstatat(dirfd, path.c_str(), &info, flags) != 0) return Error::from_errno(errno, quoted("stat", path));
  return info;
}

Result<std::string> readlink(const std::string& path) { return readlinkat(AT_FDCWD, path); }

Result<std::string> readlinkat(int dirfd, const std::string& path) {
  char buffer[PATH_MAX];
  const ssize_t size = ::readlinkat(dirfd, path.c_str(), buffer, sizeof buffer);
  if (size < 0) return Error::from_errno(errno, quoted("read link", path));
  if (static_cast<size_t>(size) == sizeof buffer) return Error::from_errno(ENAMETOOLONG, quoted("read link", path));
  return std::string(buffer, static_cast<size_t>(size));
}

Result<std::string> realpath(const std::string& path) {
  char buffer[PATH_MAX];
  if (::realpath(path.c_str(), buffer) == nullptr) return Error::from_errno(errno, quoted("resolve", path));
  return std::string(buffer);
}

Result<std::string> getcwd() {
  char buffer[PATH_MAX];
  if (::getcwd(buffer, sizeof buffer) == nullptr) return Error::from_errno(errno, "find the working directory");
  return std::string(buffer);
}

Result<size_t> read(int fd, void* buffer, size_t size) {
  const ssize_t got = retry([&] { return ::read(fd, buffer, size); });
  if (got < 0) return Error::from_errno(errno, "read");
  return static_cast<size_t>(got);
}

Result<size_t> write(int fd, const void* buffer, size_t size) {
  const ssize_t put = retry([&] { return ::write(fd, buffer, size); });
  if (put < 0) return Error::from_errno(errno, "write");
  return static_cast<size_t>(put);
}

Status write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t put = SBX_TRY(write(fd, bytes.data(), bytes.size()));
    bytes.remove_prefix(put);
  }
  return {};
}

Result<std::string> read_some(int fd, size_t limit) {
  // Most files are small: only what fills the first buffer is worth a large one, whose pages have to be had first.
  std::string content;
  char small[4096];
  constexpr size_t kLarge = 65536;
  std::unique_ptr<char[]> large;
  while (content.size() < limit) {
    const bool begins = content.size() < sizeof small;
    if (!begins && !large) large = std::make_unique_for_overwrite<char[]>(kLarge);
    char* const buffer = begins ? small : large.get();
    const size_t got = SBX_TRY(read(fd, buffer, std::min(begins ? sizeof small : kLarge, limit - content.size())));
    if (got == 0) break;
    content.append(buffer, got);
  }
  return content;
}

Result<std::string> read_all(int fd, size_t limit) {
  std::string content = SBX_TRY(read_some(fd, limit));
  char more;
  if (content.size() == limit && SBX_TRY(read(fd, &more, 1)) != 0) {
    return Error(ErrorKind::resource, "more than " + std::to_string(limit) + " bytes");
  }
  return content;
}

Status mkdirat(int dirfd, const std::string& path, mode_t mode) {
  if (::mkdirat(dirfd, path.c_str(), mode) != 0) return Error::from_errno(errno, quoted("create directory", path));
  return {};
}

Status unlinkat(int dirfd, const std::string& path, int flags) {
  if (::unlinkat(dirfd, path.c_str(), flags) != 0) return Error::from_errno(errno, quoted("remove", path));
  return {};
}

Status renameat2(int from_dir, const std::string& from, int to_dir, const std::string& to, unsigned flags) {
  if (::renameat2(from_dir, from.c_str(), to_dir, to.c_str(), flags) != 0) {
    return Error::from_errno(errno, "rename '" + from + "' to '" + to + "'");
  }
  return {};
}

Status set_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) return Error::from_errno(errno, "set O_NONBLOCK");
  return {};
}

void signal_child(int pidfd, pid_t pid, int signal) {
  if (pidfd < 0 || ::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0) == 0 || errno == ESRCH) return;
  (void)::kill(pid, signal);
}

uint64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace sbx::sys

namespace sbx {

Result<std::string> read_file(const std::string& path, size_t limit) {
  const UniqueFd fd = SBX_TRY(sys::open(path, O_RDONLY | O_NOCTTY));
  return SBX_TRY_CTX(sys::read_all(fd.get(), limit), "'" + path + "'");
}

Status write_file_atomically(const std::string& path, std::string_view content, mode_t mode) {
  const std::string temporary = path + "." + std::to_string(::getpid()) + ".tmp";
  {
    const UniqueFd fd = SBX_TRY(sys::open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode));
    Status written = sys::write_all(fd.get(), content);
    if (!written.ok()) {
      ::unlink(temporary.c_str());
      return written.take_error().with_context("'" + temporary + "'");
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int saved = errno;
    ::unlink(temporary.c_str());
    return Error::from_errno(saved, "rename '" + temporary + "' to '" + path + "'");
  }
  return {};
}

Status make_directories(const std::string& path, mode_t mode) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), mode) != 0 && errno != EEXIST) {
      return Error::from_errno(errno, "create directory '" + part + "'");
    }
    if (end == std::string::npos) return {};
  }
}

}  // namespace sbx
