// Looks at the sandbox's whole process tree through its own /proc: the honest fallback where no cgroup controller
// counts. Each look costs about 12 us a process, measured on Linux 6.18.
//
// What it cannot see: memory that belongs to no process (pipes, sockets, unmapped segments: the filter closes memfd
// and SysV segments while sampling holds the limit), and the CPU time of processes that lived and died between two
// looks and whose parent does not wait for them.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace sbx::runtime {

struct TreeLook {
  uint64_t resident_bytes = 0;  // an upper bound: pages shared by processes count once for each; with page tables
  uint64_t threads = 0;         // of the payload: without init
  int64_t cpu_us = 0;           // user + system, the dead ones included as far as known
};

class TreeSampler {
 public:
  // `proc`: the sandbox's /proc directory. `remember`: grown_bytes() will be asked.
  explicit TreeSampler(int proc, bool remember = false) : proc_(proc), remember_(remember) {}

  TreeLook look();
  // What the processes of the last look have taken of anonymous memory since each was first seen: a lower bound of what is in
  // use, since a page that a process takes is its own until it forks, and a child is seen with what it has by then. A few
  // microseconds a process, where exact() takes a hundred times that, and the more the busier the tree is.
  uint64_t grown_bytes();
  // Bytes of shared anonymous memory that the tree could hold without having it mapped in: pages that a process
  // touched and left behind in a mapping that others still have, though none of them ever looked. An upper bound: the
  // sum of such mappings' sizes.
  uint64_t shared_bytes();
  // Proportional shares instead of resident pages: pages shared inside the sandbox count once, those shared with the
  // host's page cache hardly. Dear (up to a millisecond for each process); for when look() passes the limit.
  struct Exact {
    uint64_t private_bytes = 0;
    uint64_t shared_bytes = 0;
  };
  // Works for about `budget_ns` and takes the rest up at the next call; nullopt: not through yet. A payload can make
  // itself slow to measure (tens of thousands of mappings in each process), and time limits wait meanwhile.
  std::optional<Exact> exact(uint64_t budget_ns);
  void abandon_exact() {
    partial_ = {};
    next_pid_ = 0;
  }

 private:
  struct Seen {
    unsigned long long started = 0;  // tells a process from a later one of the same number
    uint64_t anonymous = 0;          // at first sight, or what it has shrunk to since
    uint64_t look = 0;               // the last that saw it
  };
  void see(const char* name, int pid, unsigned long long started);

  int proc_;  // borrowed
  bool remember_;
  std::unordered_map<int, Seen> seen_;
  uint64_t looks_ = 0;
  Exact partial_;      // of the round that exact() is at
  int next_pid_ = 0;   // where that round goes on
  int64_t lost_us_ = 0;  // of processes that vanished without showing up in anybody's children
  int64_t last_us_ = 0;
};

// Shared memory of the whole host (Shmem of /proc/meminfo), in bytes; 0 when it cannot be read.
uint64_t host_shared_bytes();

// Bytes and inodes in use on the file system of `fd`, and whether either is exhausted.
struct SpaceLook {
  uint64_t used_bytes = 0;
  bool bytes_exhausted = false;
  bool inodes_exhausted = false;
};
SpaceLook look_at_space(int fd);

}  // namespace sbx::runtime
