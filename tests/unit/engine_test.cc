// Parts of the engine that need no sandbox: leases, statuses, the sampler on this very process.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "runtime/outcome.h"
#include "runtime/sampler.h"
#include "runtime/uid_lease.h"

using namespace sbx;
using namespace sbx::runtime;

namespace {
// A directory that stands for the /proc of a sandbox: links to what the real one has of this test's processes, so that the
// machine's others do not count.
class OwnProc {
 public:
  OwnProc() {
    REQUIRE(::mkdtemp(path_) != nullptr);
    fd = ::open(path_, O_RDONLY | O_DIRECTORY);
    add(::getpid());
  }
  ~OwnProc() {
    for (const std::string& name : names_) ::unlinkat(fd, name.c_str(), 0);
    ::close(fd);
    ::rmdir(path_);
  }
  void add(pid_t pid) {
    names_.push_back(std::to_string(pid));
    REQUIRE(::symlinkat(("/proc/" + names_.back()).c_str(), fd, names_.back().c_str()) == 0);
  }
  int fd = -1;

 private:
  char path_[21] = "/tmp/sbx-proc-XXXXXX";
  std::vector<std::string> names_;
};

// In one call: a folder of ours is not in the order that the next one would go on by.
uint64_t exact_total(TreeSampler& sampler) {
  const auto exact = sampler.exact(std::numeric_limits<uint64_t>::max() / 2);
  REQUIRE(exact.has_value());
  return exact->private_bytes + exact->shared_bytes;
}
}  // namespace

TEST_CASE("uids are leased far above what anybody assigns, or from a 16-bit map's free middle, or not at all") {
  CHECK(choose_uid_range("         0          0 4294967295\n").first == 1900000000u);
  CHECK(choose_uid_range("         0     100000      65536\n").first == 50000u);
  CHECK(choose_uid_range("         0       1000          1\n").count == 0);
  CHECK(choose_uid_range("         0       1000          1\n         1     100000      65536\n").first == 50000u);
  CHECK(choose_uid_range("").count == 0);
  CHECK(choose_uid_range("garbage\n").count == 0);
}

TEST_CASE("two leases differ, and a lease ends with its descriptor") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: leases are root's");
    return;
  }
  char directory[] = "/tmp/sbx-lease-XXXXXX";
  REQUIRE(::mkdtemp(directory) != nullptr);
  const UidRange two{1000000, 2};
  {
    Result<UidLease> first = lease_uid(two, directory);
    Result<UidLease> second = lease_uid(two, directory);
    REQUIRE(first.ok());
    REQUIRE(second.ok());
    CHECK(first.value().uid != second.value().uid);
    Result<UidLease> third = lease_uid(two, directory);
    REQUIRE_FALSE(third.ok());
    CHECK(third.error().kind() == ErrorKind::resource);
  }
  CHECK(lease_uid(two, directory).ok());
  ::unlink((std::string(directory) + "/uids").c_str());
  ::rmdir(directory);
}

TEST_CASE("exit statuses follow the table") {
  Outcome outcome;
  outcome.verdict = Verdict::exited;
  outcome.exit_code = 42;
  CHECK(exit_status(outcome) == 42);
  outcome.verdict = Verdict::signaled;
  outcome.signal = SIGSEGV;
  CHECK(exit_status(outcome) == 139);
  outcome.verdict = Verdict::timed_out;
  CHECK(exit_status(outcome) == 124);
  outcome.verdict = Verdict::cpu_time;
  CHECK(exit_status(outcome) == 124);
  outcome.verdict = Verdict::out_of_memory;
  CHECK(exit_status(outcome) == 137);
  outcome.verdict = Verdict::output_limit;
  CHECK(exit_status(outcome) == 137);
  outcome.verdict = Verdict::denied;
  CHECK(exit_status(outcome) == 159);
  outcome.verdict = Verdict::killed;
  outcome.signal = SIGTERM;
  CHECK(exit_status(outcome) == 143);
  outcome.verdict = Verdict::setup_failed;
  CHECK(exit_status(outcome) == 125);
  outcome.setup_error = Error(ErrorKind::policy, "x");
  CHECK(exit_status(outcome) == 2);
  outcome.setup_error = Error(ErrorKind::not_found, "x");
  CHECK(exit_status(outcome) == 127);
  outcome.setup_error = Error(ErrorKind::not_executable, "x");
  CHECK(exit_status(outcome) == 126);
}

TEST_CASE("the sampler sees memory, threads and CPU time of every process, and exact shares count shared pages once") {
  int ready[2], hold[2];
  REQUIRE(::pipe(ready) == 0);
  REQUIRE(::pipe(hold) == 0);
  constexpr size_t kSize = 32 << 20;
  void* shared = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(shared != MAP_FAILED);
  std::memset(shared, 1, kSize);
  OwnProc own_proc;
  const int proc = own_proc.fd;
  TreeSampler before(proc, true);
  const TreeLook look_before = before.look();
  const uint64_t exact_before = exact_total(before);
  pid_t children[4];
  for (pid_t& child : children) {
    child = ::fork();
    if (child == 0) {
      ::close(hold[1]);
      volatile char sum = 0;
      for (size_t i = 0; i < kSize; i += 4096) sum = static_cast<char>(sum + static_cast<char*>(shared)[i]);
      (void)!::write(ready[1], "r", 1);
      char byte;
      (void)!::read(hold[0], &byte, 1);
      ::_exit(0);
    }
    own_proc.add(child);
  }
  char byte;
  for (size_t i = 0; i < 4; ++i) REQUIRE(::read(ready[0], &byte, 1) == 1);
  const TreeLook look = before.look();
  {
    // What this process takes for itself shows.
    TreeSampler grown(proc, true);
    grown.look();
    void* own = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(own != MAP_FAILED);
    std::memset(own, 1, kSize);
    CHECK(grown.grown_bytes() >= kSize);
    ::munmap(own, kSize);
    TreeSampler forgetful(proc);
    forgetful.look();
    CHECK(forgetful.grown_bytes() == 0);
  }
  const uint64_t exact = exact_total(before);
  CHECK(before.shared_bytes() >= kSize);
  const uint64_t threads_before = before.look().threads;
  pid_t idle[64];
  for (pid_t& child : idle) {
    child = ::fork();
    if (child == 0) {
      ::close(hold[1]);
      (void)!::read(hold[0], &byte, 1);
      ::_exit(0);
    }
    own_proc.add(child);
  }
  CHECK(threads_before == 5);
  CHECK(before.look().threads == threads_before + 64);
  CHECK(look.resident_bytes > look_before.resident_bytes + 2 * kSize);
  CHECK(exact < exact_before + 2 * kSize);
  CHECK(look.cpu_us >= look_before.cpu_us);
  ::close(hold[1]);
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  for (const pid_t child : idle) ::waitpid(child, nullptr, 0);
  ::close(hold[0]);
  ::close(ready[0]);
  ::close(ready[1]);
  ::munmap(shared, kSize);
}
