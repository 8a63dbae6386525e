#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/raw_sys.h"
#include "base/text.h"
#include "selftest/answer.h"
#include "selftest/tries.h"

namespace sbx::selftest::tries {
namespace {

constexpr int kManyFds = 1024;

bool is_there(long answer) { return answer != -ENOENT && answer != -ENOTDIR; }

long open_path(const std::string& path, int flags) {
  return raw::call(SYS_openat, AT_FDCWD, path.c_str(), flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
}

// Opened for writing and nothing written: that it can be is what counts.
long writable(const std::string& path) {
  const long fd = open_path(path, O_WRONLY);
  if (!is_there(fd)) return kHidden;
  return fd;
}

// The head of a file; an empty one is one without anything in it, as a mask of /dev/null is.
long head_of(const std::string& path, std::string& text) {
  const long fd = open_path(path, O_RDONLY);
  if (!is_there(fd)) return kHidden;
  if (fd < 0) return fd;
  char buffer[4096];
  const long got = raw::call(SYS_read, fd, buffer, sizeof buffer);
  raw::call(SYS_close, fd);
  if (got == 0) return kHidden;
  if (got < 0) return got;
  text.assign(buffer, static_cast<size_t>(got));
  return 0;
}

long readable(const std::string& path) {
  std::string text;
  return head_of(path, text);
}

// Whether it is the bait, and not something of the sandbox's own in its place.
long reads_token(const std::string& path, const Bait& bait) {
  std::string text;
  const long answer = head_of(path, text);
  if (answer < 0) return answer;
  return text == bait.token ? 0 : kHidden;
}

// Init is somebody else, unless a control says that it is oneself.
std::string init_entry(const Bait& bait, const char* name) {
  return "/proc/" + (bait.init == 0 ? std::string("self") : std::to_string(bait.init)) + "/" + name;
}
bool has_init(const Bait& bait) { return bait.init == 0 || ::getppid() != bait.init; }

template <typename Each>
long each_entry(const std::string& path, const Each& each) {
  DIR* directory = ::opendir(path.c_str());
  if (directory == nullptr) return errno == ENOENT ? kHidden : -errno;
  const std::unique_ptr<DIR, int (*)(DIR*)> closing(directory, ::closedir);
  while (const dirent* entry = ::readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && each(std::string(name))) return 0;
  }
  return kHidden;
}

long create_in(const std::string& directory, const char* name) {
  const std::string path = directory + "/" + name;
  const long fd = raw::call(SYS_openat, AT_FDCWD, path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (!is_there(fd)) return kHidden;
  if (fd >= 0) raw::call(SYS_unlinkat, AT_FDCWD, path.c_str(), 0);
  return fd;
}

long connect_unix(const std::string& name, bool abstract) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string whole = abstract ? std::string(1, '\0') + name : name;
  if (whole.size() >= sizeof address.sun_path) return kUntried;
  std::memcpy(address.sun_path, whole.data(), whole.size());
  const long fd = raw::call(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return fd;
  const long answer = raw::call(SYS_connect, fd, &address, offsetof(sockaddr_un, sun_path) + whole.size() + (abstract ? 0 : 1));
  return answer;
}

long connect_inet(uint32_t host, int port, int type) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(host);
  const long fd = raw::call(SYS_socket, AF_INET, type | SOCK_CLOEXEC, 0);
  if (fd < 0) return fd;
  return raw::call(SYS_connect, fd, &address, sizeof address);
}

}  // namespace

long init_memory(const Bait& bait) { return has_init(bait) ? writable(init_entry(bait, "mem")) : kUntried; }
long init_environment(const Bait& bait) { return has_init(bait) ? readable(init_entry(bait, "environ")) : kUntried; }
long init_root(const Bait& bait) {
  if (!has_init(bait)) return kUntried;
  const long fd = open_path(init_entry(bait, "root") + "/", O_RDONLY | O_DIRECTORY);
  return fd;
}
long init_attach(const Bait& bait) {
  if (bait.init == 0 || !has_init(bait)) return kUntried;
  // Seized and not attached: that would stop it.
  return raw::call(SYS_ptrace, 0x4206, bait.init, 0, 0);
}
long init_read(const Bait& bait) {
  if (!has_init(bait)) return kUntried;
  char target[8];
  iovec local{target, sizeof target};
  // Rights are looked at before the address: EFAULT means that they were there.
  iovec remote{reinterpret_cast<void*>(0x400000), sizeof target};
  return raw::call(SYS_process_vm_readv, bait.init == 0 ? ::getpid() : bait.init, &local, 1, &remote, 1, 0);
}

long settings_core(const Bait&) { return writable("/proc/sys/kernel/core_pattern"); }
long settings_modprobe(const Bait&) { return writable("/proc/sys/kernel/modprobe"); }
long settings_sysrq(const Bait&) {
  struct stat info {};
  // A mask of /dev/null can be written, and does nothing.
  if (::stat("/proc/sysrq-trigger", &info) == 0 && S_ISCHR(info.st_mode)) return kHidden;
  return writable("/proc/sysrq-trigger");
}
long settings_uevent(const Bait&) { return writable("/sys/kernel/uevent_helper"); }
long settings_binfmt(const Bait&) { return writable("/proc/sys/fs/binfmt_misc/register"); }

long window_kcore(const Bait&) { return readable("/proc/kcore"); }
// Opened and not read: reading takes lines out of the log for good.
long window_kmsg(const Bait&) {
  struct stat info {};
  if (::stat("/proc/kmsg", &info) == 0 && S_ISCHR(info.st_mode)) return kHidden;
  const long fd = open_path("/proc/kmsg", O_RDONLY);
  return is_there(fd) ? fd : kHidden;
}
long window_dev_kmsg(const Bait&) { return readable("/dev/kmsg"); }
long window_mem(const Bait&) {
  const long fd = open_path("/dev/mem", O_RDONLY);
  return is_there(fd) ? fd : kHidden;
}
long window_keys(const Bait&) { return readable("/proc/keys"); }
long window_kallsyms(const Bait&) {
  std::string text;
  const long answer = head_of("/proc/kallsyms", text);
  if (answer < 0) return answer;
  // Zeros stand for addresses that are kept back.
  return text.substr(0, 16) == "0000000000000000" ? kHidden : 0;
}

long fact_cmdline(const Bait&) { return readable("/proc/cmdline"); }
long fact_interrupts(const Bait&) { return readable("/proc/interrupts"); }
long fact_machine_id(const Bait&) { return readable("/etc/machine-id"); }
long fact_dmi(const Bait&) { return readable("/sys/class/dmi/id/product_name"); }

long devices(const Bait&) {
  constexpr std::string_view kHarmless[] = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"};
  // Looked at and never opened: some devices do something when they are.
  return each_entry("/dev", [&](const std::string& name) {
    struct stat info {};
    if (::lstat(("/dev/" + name).c_str(), &info) != 0) return false;
    if (S_ISBLK(info.st_mode)) return true;
    if (!S_ISCHR(info.st_mode)) return false;
    for (const std::string_view harmless : kHarmless) {
      if (name == harmless) return false;
    }
    return true;
  });
}

long see_process(const Bait& bait) {
  return each_entry(bait.proc, [&](const std::string& name) {
    if (name.find_first_not_of("0123456789") != std::string::npos) return false;
    std::string text;
    return head_of(bait.proc + "/" + name + "/comm", text) == 0 && text == process_name(bait) + "\n";
  });
}

long signal_process(const Bait& bait) {
  // The number may be somebody's in here as well; then it proves nothing, and is left alone.
  std::string text;
  if (head_of("/proc/" + std::to_string(bait.pid) + "/comm", text) == 0 && text != process_name(bait) + "\n") return -ESRCH;
  return raw::call(SYS_kill, bait.pid, 0);
}

long descriptors(const Bait&) {
  for (int fd = 3; fd < kManyFds; ++fd) {
    // What this try itself has open is close-on-exec; what came in is not.
    const long flags = raw::call(SYS_fcntl, fd, F_GETFD, 0);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) return 0;
  }
  return kHidden;
}

long environment(const Bait& bait) {
  const char* value = std::getenv(kTokenVariable);
  return value != nullptr && bait.token == value ? 0 : kHidden;
}
long environment_of_init(const Bait& bait) {
  if (!has_init(bait)) return kUntried;
  const long fd = open_path(init_entry(bait, "environ"), O_RDONLY);
  if (!is_there(fd)) return kHidden;
  if (fd < 0) return fd;
  std::string whole;
  char buffer[4096];
  for (long got = 0; whole.size() < (size_t{1} << 20) && (got = raw::call(SYS_read, fd, buffer, sizeof buffer)) > 0;) {
    whole.append(buffer, static_cast<size_t>(got));
  }
  return whole.find(bait.token) != std::string::npos ? 0 : kHidden;
}

long cgroup_files(const Bait&) {
  for (const char* path : {"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/unified/cgroup.procs",
                           "/sys/fs/cgroup/pids/release_agent"}) {
    const long answer = writable(path);
    if (answer != kHidden) return answer;
  }
  return kHidden;
}

long home(const Bait& bait) {
  if (bait.home_identity.empty() || bait.home == "/") return kUntried;
  if (identity_of(bait.home) != bait.home_identity) return kHidden;
  return each_entry(bait.home, [](const std::string&) { return true; });
}
long shadow(const Bait&) { return readable("/etc/shadow"); }
long temporary_file(const Bait& bait) { return reads_token(bait.directory + "/secret", bait); }
long shared_memory(const Bait& bait) { return reads_token(shared_memory_file(bait), bait); }

long write_bait(const Bait& bait) { return create_in(bait.directory + "/open", "written"); }
long write_usr(const Bait&) { return create_in("/usr", "sbx-selftest-written"); }
long write_etc(const Bait&) { return create_in("/etc", "sbx-selftest-written"); }

long abstract_socket(const Bait& bait) { return connect_unix(abstract_name(bait), true); }
long path_socket(const Bait& bait) {
  const long answer = connect_unix(bait.directory + "/socket", false);
  return answer == -ENOENT ? kHidden : answer;
}
long loopback(const Bait& bait) { return bait.port == 0 ? kUntried : connect_inet(INADDR_LOOPBACK, bait.port, SOCK_STREAM); }
// Datagram sockets send nothing when they are connected: the route is all that is asked for.
long route(const Bait&) { return connect_inet(0xC0000201, 53, SOCK_DGRAM); }     // 192.0.2.1, for documents only
long metadata(const Bait&) { return connect_inet(0xA9FEA9FE, 80, SOCK_DGRAM); }  // 169.254.169.254

long segment(const Bait& bait) { return bait.key == 0 ? kUntried : raw::call(SYS_shmget, bait.key, 0, 0); }

}  // namespace sbx::selftest::tries
