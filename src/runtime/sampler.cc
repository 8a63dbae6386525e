#include "runtime/sampler.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "base/sys.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace sbx::runtime {
namespace {

struct LinuxDirent64 {
  uint64_t ino;
  int64_t off;
  unsigned short length;
  unsigned char type;
  char name[1];
};

constexpr uint64_t kSmallTables = uint64_t{256} << 10;

const long kTicks = ::sysconf(_SC_CLK_TCK);
const uint64_t kPage = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));

size_t read_at(int directory, const char* name, char* buffer, size_t size) {
  const int fd = ::openat(directory, name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t got = ::read(fd, buffer, size - 1);
  ::close(fd);
  if (got <= 0) return 0;
  buffer[got] = '\0';
  return static_cast<size_t>(got);
}

// The value of a "Key:   123 kB" line, in bytes.
uint64_t kilobytes(const char* text, const char* key) {
  const char* line = std::strstr(text, key);
  return line != nullptr ? std::strtoull(line + std::strlen(key), nullptr, 10) * 1024 : 0;
}

// Page tables are memory in nobody's resident pages: a look at one page in every two megabytes of an empty mapping
// costs a page of them, and the mapping itself nothing.
uint64_t page_table_bytes(int proc, const char* name) {
  char path[32];
  std::snprintf(path, sizeof path, "%s/status", name);
  char text[4096];
  return read_at(proc, path, text, sizeof text) != 0 ? kilobytes(text, "\nVmPTE:") : 0;
}

// Calls visit(name, pid) for each process, in ascending order of pids, until it answers false.
template <typename Visit>
void each_process(int proc, Visit visit) {
  alignas(LinuxDirent64) char buffer[16384];
  if (::lseek(proc, 0, SEEK_SET) < 0) return;
  for (;;) {
    const long got = ::syscall(SYS_getdents64, proc, buffer, sizeof buffer);
    if (got <= 0) return;
    for (long at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const LinuxDirent64*>(buffer + at);
      at += entry->length;
      if (entry->name[0] >= '1' && entry->name[0] <= '9') {
        if (!visit(entry->name, static_cast<int>(std::strtol(entry->name, nullptr, 10)))) return;
      }
    }
  }
}

// Resident pages that are neither a file's nor shared memory, in bytes.
std::optional<uint64_t> anonymous_bytes(int proc, const char* name) {
  char path[32];
  std::snprintf(path, sizeof path, "%s/statm", name);
  char text[256];
  unsigned long long size = 0, resident = 0, shared = 0;
  if (read_at(proc, path, text, sizeof text) == 0 || std::sscanf(text, "%llu %llu %llu", &size, &resident, &shared) != 3) return std::nullopt;
  return (resident - std::min(resident, shared)) * kPage;
}

}  // namespace

void TreeSampler::see(const char* name, int pid, unsigned long long started) {
  Seen& seen = seen_[pid];
  if (seen.look == 0 || seen.started != started) {
    const std::optional<uint64_t> anonymous = anonymous_bytes(proc_, name);
    if (!anonymous) {
      seen_.erase(pid);
      return;
    }
    seen.started = started;
    seen.anonymous = *anonymous;
  }
  seen.look = looks_;
}

uint64_t TreeSampler::grown_bytes() {
  uint64_t sum = 0;
  for (auto& [pid, seen] : seen_) {
    const std::optional<uint64_t> now = anonymous_bytes(proc_, std::to_string(pid).c_str());
    if (!now) continue;
    seen.anonymous = std::min(seen.anonymous, *now);
    sum += *now - seen.anonymous;
  }
  return sum;
}

TreeLook TreeSampler::look() {
  TreeLook sum;
  int64_t own_us = 0, reaped_us = 0;
  ++looks_;
  each_process(proc_, [&](const char* name, int pid) {
    char path[32];
    std::snprintf(path, sizeof path, "%s/stat", name);
    char text[1024];
    if (read_at(proc_, path, text, sizeof text) == 0) return true;
    // The name in parentheses is the payload's to choose: fields are counted from the last one (proc(5)).
    const char* fields = std::strrchr(text, ')');
    if (fields == nullptr) return true;
    unsigned long long utime = 0, stime = 0, cutime = 0, cstime = 0, threads = 0, started = 0, size = 0, rss = 0;
    if (std::sscanf(fields + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu %*d %*d %llu %*d %llu %llu %llu",
                    &utime, &stime, &cutime, &cstime, &threads, &started, &size, &rss) != 8) {
      return true;
    }
    const int64_t tick_us = 1000000 / kTicks;
    own_us += static_cast<int64_t>(utime + stime) * tick_us;
    reaped_us += static_cast<int64_t>(cutime + cstime) * tick_us;
    if (pid == 1) return true;  // init is ours
    sum.resident_bytes += rss * kPage;
    sum.threads += threads;
    if (remember_) see(name, pid, started);
    // At most one table entry of eight bytes for each page: only where that could be much it is looked up.
    if (size / 512 > std::max<uint64_t>(kSmallTables, rss * kPage / 8)) sum.resident_bytes += page_table_bytes(proc_, name);
    return true;
  });
  if (remember_) std::erase_if(seen_, [&](const auto& entry) { return entry.second.look != looks_; });
  // A process that ends moves its time into its parent's children's times if the parent waits for it; else it is
  // gone. The tree's sum can only grow: what seems to shrink is kept.
  const int64_t visible = own_us + reaped_us;
  if (visible + lost_us_ < last_us_) lost_us_ = last_us_ - visible;
  last_us_ = visible + lost_us_;
  sum.cpu_us = last_us_;
  return sum;
}

std::optional<TreeSampler::Exact> TreeSampler::exact(uint64_t budget_ns) {
  const uint64_t end_ns = sys::monotonic_ns() + budget_ns;
  bool through = true;
  Exact& sum = partial_;
  each_process(proc_, [&](const char* name, int pid) {
    if (pid == 1 || pid < next_pid_) return true;
    if (pid != next_pid_ && sys::monotonic_ns() > end_ns) {
      next_pid_ = pid;
      through = false;
      return false;
    }
    sum.private_bytes += page_table_bytes(proc_, name);
    char path[32];
    std::snprintf(path, sizeof path, "%s/smaps_rollup", name);
    char text[2048];
    if (read_at(proc_, path, text, sizeof text) != 0) {
      sum.private_bytes += kilobytes(text, "\nPss_Anon:");
      sum.shared_bytes += kilobytes(text, "\nPss_Shmem:");
      return true;
    }
    // Not ours to read (not dumpable): what statm says must do.
    std::snprintf(path, sizeof path, "%s/statm", name);
    unsigned long long size = 0, rss = 0;
    if (read_at(proc_, path, text, sizeof text) != 0 && std::sscanf(text, "%llu %llu", &size, &rss) == 2) {
      sum.private_bytes += rss * kPage;
    }
    return true;
  });
  if (!through) return std::nullopt;
  next_pid_ = 0;
  return std::exchange(partial_, {});
}

namespace {

}  // namespace

uint64_t TreeSampler::shared_bytes() {
  std::map<uint64_t, uint64_t> sizes;  // inode → the largest extent seen
  each_process(proc_, [&](const char* name, int pid) {
    if (pid == 1) return true;
    char path[32];
    std::snprintf(path, sizeof path, "%s/maps", name);
    const UniqueFd fd(::openat(proc_, path, O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) return true;
    // A payload can have 65530 mappings; what lies beyond the first megabyte of text is not looked at.
    const Result<std::string> maps = sys::read_some(fd.get(), size_t{1} << 20);
    if (!maps.ok()) return true;
    for (const std::string& line : split(maps.value(), '\n')) {
      unsigned long long from = 0, to = 0, offset = 0, inode = 0;
      char permissions[8];
      if (std::sscanf(line.c_str(), "%llx-%llx %7s %llx %*s %llu", &from, &to, permissions, &offset, &inode) != 5) continue;
      // Files of the private tmpfs are counted there; these have no name that can be opened.
      if (permissions[3] != 's' || line.find("/dev/zero (deleted)") == std::string::npos) continue;
      uint64_t& size = sizes[inode];
      size = std::max<uint64_t>(size, offset + (to - from));
    }
    return true;
  });
  uint64_t sum = 0;
  for (const auto& [inode, size] : sizes) sum += size;
  return sum;
}

uint64_t host_shared_bytes() {
  char text[4096];
  return read_at(AT_FDCWD, "/proc/meminfo", text, sizeof text) != 0 ? kilobytes(text, "\nShmem:") : 0;
}

SpaceLook look_at_space(int fd) {
  struct statfs info {};
  if (::fstatfs(fd, &info) != 0) return {};
  SpaceLook look;
  look.used_bytes = static_cast<uint64_t>(info.f_blocks - info.f_bfree) * static_cast<uint64_t>(info.f_bsize);
  look.bytes_exhausted = info.f_blocks != 0 && info.f_bfree == 0;
  look.inodes_exhausted = info.f_files != 0 && info.f_ffree == 0;
  return look;
}

}  // namespace sbx::runtime
