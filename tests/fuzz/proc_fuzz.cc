// A sandbox's /proc as a payload can shape it (names of processes and of mapped files, numbers of processes), /proc/self's
// cgroup and mountinfo, and the files of a cgroup. A name is never taken for a number.
#include <string>

#include "base/text.h"
#include "fuzz.h"
#include "runtime/cgroup.h"
#include "runtime/cgroup_v1.h"
#include "runtime/choose_cgroup.h"
#include "runtime/sampler.h"
#include "tree.h"

namespace {

using namespace sbx;
using namespace sbx::runtime;

void put(int directory, const char* name, const std::string& content) {
  const UniqueFd file(::openat(directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  HOLDS(::write(file.get(), content.data(), content.size()) == static_cast<ssize_t>(content.size()));
}

// What a process may call itself; /proc/PID/stat has it in parentheses, newlines and backslashes escaped.
std::string name_of(fuzz::Bytes& bytes) {
  std::string name;
  for (size_t left = bytes.byte() % 16; left > 0; --left) {
    const char letter = static_cast<char>(bytes.byte());
    name += letter == '\0' ? '_' : letter == '\n' || letter == '\\' ? '/' : letter;
  }
  return name;
}

void check_sampler(fuzz::Bytes& bytes) {
  const fuzz::Scratch scratch;
  const UniqueFd proc = scratch.directory("proc");
  uint64_t threads = 0, resident = 0, ticks = 0, shared = 0;
  bool all = true;
  for (int process = 0; process < 6 && bytes.left() > 0; ++process) {
    const int pid = process == 0 ? 1 : 2 + process * 7;
    const std::string number = std::to_string(pid);
    HOLDS(::mkdirat(proc.get(), number.c_str(), 0755) == 0);
    const UniqueFd own(::openat(proc.get(), number.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const std::string name = name_of(bytes);
    const uint64_t time = bytes.number<uint16_t>(), tasks = bytes.byte() + 1U, pages = bytes.number<uint16_t>();
    put(own.get(), "stat", number + " (" + name + ") S 1 1 1 0 -1 4194560 1 2 3 4 " + std::to_string(time) + " 0 0 0 20 0 " + std::to_string(tasks) +
                               " 0 100 " + std::to_string(pages * 4096) + " " + std::to_string(pages) + " 18446744073709551615 1\n");
    put(own.get(), "status", "Name:\t" + name + "\nVmPTE:\t      44 kB\n");
    put(own.get(), "smaps_rollup", "0-1 ---p 00000000 00:00 0 [rollup]\nRss: 1 kB\nPss_Anon:     8 kB\nPss_File: 3 kB\nPss_Shmem:    4 kB\n");
    const uint8_t mappings = bytes.byte() % 4;
    std::string maps;
    for (uint8_t mapping = 0; mapping < mappings; ++mapping) {
      // Newlines in names of files are written as \012.
      const std::string file = name_of(bytes);
      maps += "7f0000000000-7f0000001000 rw-p 00000000 00:1b " + std::to_string(mapping) + " /tmp/" + file + "\n";
      if (file.find("zero") != std::string::npos) all = false;
    }
    maps += "7f0000000000-7f0000002000 rw-s 00000000 00:01 " + std::to_string(pid * 1000) + " /dev/zero (deleted)\n";
    put(own.get(), "maps", maps);
    ticks += time;
    if (pid == 1) continue;
    shared += 0x2000;
    threads += tasks;
    resident += pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  }
  TreeSampler sampler(proc.get());
  const TreeLook look = sampler.look();
  HOLDS(look.threads == threads && look.resident_bytes == resident);
  HOLDS(look.cpu_us == static_cast<int64_t>(ticks) * (1000000 / ::sysconf(_SC_CLK_TCK)));
  HOLDS(sampler.look().cpu_us == look.cpu_us);
  const std::optional<TreeSampler::Exact> exact = sampler.exact(1000000000);
  HOLDS(exact.has_value());
  if (all) HOLDS(sampler.shared_bytes() == shared);
  // And whatever a kernel may write one day.
  const UniqueFd odd = scratch.directory("odd");
  HOLDS(::mkdirat(odd.get(), "9", 0755) == 0);
  const UniqueFd own(::openat(odd.get(), "9", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (const char* name : {"status", "smaps_rollup", "statm", "maps"}) put(own.get(), name, std::string(bytes.rest().substr(0, 6000)));
  TreeSampler other(odd.get());
  (void)other.exact(1000000000);
  (void)other.shared_bytes();
}

void check_cgroup(std::string_view text) {
  const size_t border = text.find('\0');
  const std::string_view first = text.substr(0, border), second = border == std::string_view::npos ? "" : text.substr(border + 1);
  const CgroupView view = parse_cgroup_view(first, second);
  HOLDS(view.v1.size() <= 3);
  for (const char* key : {"oom_kill", "populated", "user_usec"}) (void)cgroup_count(text, key);
  HOLDS(names_of(parse_controllers(text)).size() <= 17);
  (void)is_stale_leaf(std::string(first.substr(0, 64)));

  const fuzz::Scratch scratch;
  const UniqueFd leaf = scratch.directory("leaf");
  for (const char* name : {"memory.events", "memory.current", "pids.events", "cpu.stat", "memory.failcnt", "memory.oom_control", "pids.max", "cpuacct.usage_user"}) {
    put(leaf.get(), name, std::string(text.substr(0, 4096)));
  }
  put(leaf.get(), "memory.peak", std::string(second.substr(0, 4096)));
  CgroupCounts counts;
  read_cgroup_counts(leaf.get(), counts);
  for (const CgroupV1Tree::Kind kind : {CgroupV1Tree::Kind::memory, CgroupV1Tree::Kind::pids, CgroupV1Tree::Kind::cpu}) {
    CgroupCounts v1;
    read_cgroup_v1_counts(leaf.get(), kind, v1);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Bytes bytes(data, size);
  if ((bytes.byte() & 1) != 0) check_sampler(bytes);
  else check_cgroup(bytes.rest());
  return 0;
}
