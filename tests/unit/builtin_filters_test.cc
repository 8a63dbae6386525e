// The shipped policies, as filters: against an evaluator of the rules written for this test, against libseccomp, and
// in the kernel.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/sys.h"
#include "policy/syscall_groups.h"
#include "seccomp/compile.h"
#include "seccomp/evaluate.h"
#include "seccomp/start_key.h"
#include "seccomp/syscall_numbers.h"
#include "argument_test.h"

using namespace sbx;
using namespace sbx::seccomp;
using Op = ArgumentTest::Op;
using Arguments = std::array<uint64_t, 6>;

namespace {

constexpr unsigned kNumbers = 601;  // 0 … 600, above every table
constexpr Arch kArches[] = {Arch::x86_64, Arch::aarch64};

uint32_t audit_arch(Arch arch) { return arch == Arch::x86_64 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64; }

SyscallRules rules_of(const std::string& policy) {
  Result<SyscallRules> rules = builtin_syscall_rules(policy);
  REQUIRE_MESSAGE(rules.ok(), rules.error().text());
  return rules.take();
}
BpfProgram compiled(const SyscallRules& rules, const CompileOptions& options) {
  Result<BpfProgram> program = compile(rules, options);
  REQUIRE_MESSAGE(program.ok(), program.error().text());
  return program.take();
}
uint32_t decide(std::span<const sock_filter> program, Arch arch, unsigned number, const Arguments& arguments) {
  seccomp_data data{};
  data.nr = static_cast<int>(number);
  data.arch = audit_arch(arch);
  std::copy(arguments.begin(), arguments.end(), data.args);
  return evaluate(program, data).value();
}

// --- the rules, evaluated without any compiler -----------------------------------------------------------------------

uint32_t answer_of(const SyscallVerdict& verdict, bool listener) {
  switch (verdict.action) {
    case SyscallAction::allow: return SECCOMP_RET_ALLOW;
    case SyscallAction::errno_value: return SECCOMP_RET_ERRNO + verdict.errnum;
    case SyscallAction::notify: return listener ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ERRNO + EPERM;
    case SyscallAction::kill: return SECCOMP_RET_KILL_PROCESS;
    case SyscallAction::log: return SECCOMP_RET_LOG;
    case SyscallAction::kill_thread:
    case SyscallAction::trap:
    case SyscallAction::trace: break;  // no shipped policy has them
  }
  return 0;
}

// Calls that set a mode, and the argument with it.
const std::map<std::string, unsigned> kMode = {{"chmod", 1},   {"fchmod", 1}, {"fchmodat", 2}, {"fchmodat2", 2}, {"creat", 1}, {"mkdir", 1},
                                               {"mkdirat", 2}, {"mknod", 1},  {"mknodat", 2},  {"open", 2},      {"openat", 3}};

// The decision for a named call; the guards as compile.h describes them.
uint32_t oracle(const SyscallRules& rules, const CompileOptions& options, const std::string& name, const Arguments& arguments) {
  if (name.empty()) return answer_of(rules.unknown.value_or(rules.otherwise), options.listener);
  uint32_t answer = answer_of(rules.otherwise, options.listener);
  bool plain = true;  // no rule with tests comes before the answer
  for (const SyscallRule& rule : rules.rules) {
    if (rule.name != name) continue;
    if (!rule.tests.empty()) plain = false;
    const bool all = std::all_of(rule.tests.begin(), rule.tests.end(), [&](const ArgumentTest& test) { return holds(test, arguments[test.index]); });
    if (!all) continue;
    answer = answer_of(rule.verdict, options.listener);
    break;
  }
  if (plain && answer != SECCOMP_RET_ALLOW && answer != SECCOMP_RET_LOG) return answer;
  const uint32_t deny = options.listener ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ERRNO + EPERM;
  if (options.guard_set_id) {
    if (name == "openat2") return SECCOMP_RET_ERRNO + ENOSYS;
    const auto mode = kMode.find(name);
    bool sets = mode != kMode.end() && (arguments[mode->second] & 06000) != 0;
    if (name == "open") sets = sets && (arguments[1] & (O_CREAT | 020000000)) != 0;
    if (name == "openat") sets = sets && (arguments[2] & (O_CREAT | 020000000)) != 0;
    if (sets) return deny;
  }
  if (options.guard_unseen_memory) {
    if (name == "shmget") return deny;
    if (name == "memfd_create" || name == "memfd_secret") return SECCOMP_RET_ERRNO + ENOSYS;
  }
  return answer;
}

// Arguments around everything that the rules of a call compare with.
std::vector<Arguments> samples(const SyscallRules& rules, const std::string& name, bool guards) {
  std::vector<uint64_t> values = {0, 1, 0xffffffff, 0x100000000, ~uint64_t{0}};
  bool tested = guards;
  if (guards) values.insert(values.end(), {04755, 0100, 0755, 020200000, 0100 | (uint64_t{1} << 40)});
  for (const SyscallRule& rule : rules.rules) {
    if (rule.name != name) continue;
    for (const ArgumentTest& test : rule.tests) {
      tested = true;
      for (const uint64_t value : {test.value, test.mask, ~test.mask, test.value | (test.mask & (~test.mask + 1)), test.value | 02004000})
        values.insert(values.end(), {value, value + 1, value - 1, value | 0x100000000, value << 32, value ^ 0x80000000});
    }
  }
  std::mt19937_64 random(20240611);
  std::vector<Arguments> all = {{0, 0, 0, 0, 0, 0}, {~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull}};
  for (int i = 0; tested && i < 400; ++i) {
    Arguments arguments{};
    for (uint64_t& argument : arguments) argument = i % 8 == 7 ? random() : values[random() % values.size()];
    all.push_back(arguments);
  }
  return all;
}

// The kernel's seccomp_is_const_allow (5.11): would its bitmap serve this call without running the filter?
bool kernel_caches(std::span<const sock_filter> program, Arch arch, unsigned number) {
  uint32_t a = 0;
  for (size_t i = 0; i < program.size(); ++i) {
    const sock_filter& op = program[i];
    bool taken = false;
    switch (op.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        if (op.k == offsetof(seccomp_data, nr)) {
          a = number;
        } else if (op.k == offsetof(seccomp_data, arch)) {
          a = audit_arch(arch);
        } else {
          return false;
        }
        continue;
      case BPF_RET | BPF_K: return op.k == SECCOMP_RET_ALLOW;
      case BPF_JMP | BPF_JA: i += op.k; continue;
      case BPF_JMP | BPF_JEQ | BPF_K: taken = a == op.k; break;
      case BPF_JMP | BPF_JGE | BPF_K: taken = a >= op.k; break;
      case BPF_JMP | BPF_JGT | BPF_K: taken = a > op.k; break;
      case BPF_JMP | BPF_JSET | BPF_K: taken = (a & op.k) != 0; break;
      case BPF_ALU | BPF_AND | BPF_K: a &= op.k; continue;
      default: return false;
    }
    i += taken ? op.jt : op.jf;
  }
  return false;
}

std::vector<CompileOptions> combinations(Arch arch) {
  std::vector<CompileOptions> all;
  for (unsigned bits = 0; bits < 8; ++bits)
    all.push_back({.arch = arch, .listener = (bits & 4) != 0, .guard_set_id = (bits & 1) != 0, .guard_unseen_memory = (bits & 2) != 0});
  return all;
}

struct Count {
  int plain = 0;   // allowed whatever the arguments are
  int tested = 0;  // allowed for some arguments
};
Count count_allowed(const std::string& policy, Arch arch) {
  const SyscallRules rules = rules_of(policy);
  Count count;
  for (const std::string& name : syscall_names()) {
    if (!syscall_number(name, arch)) continue;
    bool some = false;
    bool all = true;
    for (const Arguments& arguments : samples(rules, name, false)) {
      const bool allowed = oracle(rules, {.arch = arch}, name, arguments) == SECCOMP_RET_ALLOW;
      some = some || allowed;
      all = all && allowed;
    }
    count.plain += all ? 1 : 0;
    count.tested += some && !all ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("the default, strict and judge filters decide as their rules do, call by call, on both architectures") {
  for (const char* policy : {"default", "strict", "judge"}) {
    const SyscallRules rules = rules_of(policy);
    for (const Arch arch : kArches) {
      for (const CompileOptions& options : combinations(arch)) {
        // All eight for the policy that everybody uses; with and without both guards for the others.
        if (policy != std::string("default") && (options.listener || options.guard_set_id != options.guard_unseen_memory)) continue;
        const BpfProgram program = compiled(rules, options);
        int wrong = 0;
        for (unsigned number = 0; number < kNumbers && wrong < 5; ++number) {
          const std::string name(syscall_name(number, arch));
          for (const Arguments& sample : samples(rules, name, options.guard_set_id && kMode.count(name) != 0)) {
            if (decide(program, arch, number, sample) == oracle(rules, options, name, sample)) continue;
            ++wrong;
            FAIL_CHECK(policy << " " << name << " (" << number << ") with " << sample[0] << ", " << sample[1] << ", " << sample[2]);
            break;
          }
        }
      }
    }
  }
}

TEST_CASE("the default filter agrees with libseccomp's filter for the same rules") {
  const SyscallRules rules = rules_of("default");
  // Rules that libseccomp has no words for: an order of answers that overlap. They are left to the test above.
  const std::set<std::string> left_out = {"fcntl", "ioctl", "prctl", "setsockopt", "socket", "socketpair"};
  for (const Arch arch : kArches) {
    const uint32_t token = arch == Arch::x86_64 ? SCMP_ARCH_X86_64 : SCMP_ARCH_AARCH64;
    scmp_filter_ctx context = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    REQUIRE(context != nullptr);
    if (seccomp_arch_native() != token) {
      REQUIRE(seccomp_arch_add(context, token) == 0);
      REQUIRE(seccomp_arch_remove(context, seccomp_arch_native()) == 0);
    }
    std::set<std::string> decided;  // by a rule without tests
    std::vector<std::string> compared;
    for (const SyscallRule& rule : rules.rules) {
      const int native = seccomp_syscall_resolve_name(rule.name.c_str());
      if (native == __NR_SCMP_ERROR || left_out.count(rule.name) != 0 || decided.count(rule.name) != 0) continue;
      if (seccomp_syscall_resolve_name_arch(token, rule.name.c_str()) < 0) continue;
      compared.push_back(rule.name);
      uint32_t action = SCMP_ACT_ERRNO(EPERM);
      if (rule.verdict.action == SyscallAction::allow) action = SCMP_ACT_ALLOW;
      if (rule.verdict.action == SyscallAction::errno_value) action = SCMP_ACT_ERRNO(rule.verdict.errnum);
      if (rule.tests.empty()) decided.insert(rule.name);
      if (rule.name == "clone") {  // "deny if a flag is set, else allow" in libseccomp's words
        if (!rule.tests.empty()) continue;
        const scmp_arg_cmp no_namespaces = SCMP_A0(SCMP_CMP_MASKED_EQ, 0x7e020080, 0);
        REQUIRE(seccomp_rule_add_array(context, action, native, 1, &no_namespaces) == 0);
        continue;
      }
      std::vector<scmp_arg_cmp> tests;
      for (const ArgumentTest& test : rule.tests) {
        REQUIRE((test.op == Op::equal || test.op == Op::masked_equal));
        const uint64_t width = test.low32 ? 0xffffffff : ~uint64_t{0};
        const uint64_t mask = (test.op == Op::masked_equal ? test.mask : ~uint64_t{0}) & width;
        tests.push_back(SCMP_CMP64(test.index, SCMP_CMP_MASKED_EQ, mask, test.value));
      }
      if (action == SCMP_ACT_ERRNO(EPERM)) continue;  // libseccomp refuses a rule with the default's action
      REQUIRE(seccomp_rule_add_array(context, action, native, static_cast<unsigned>(tests.size()), tests.data()) == 0);
    }
    const int memory = memfd_create("filter", MFD_CLOEXEC);
    REQUIRE(memory >= 0);
    REQUIRE(seccomp_export_bpf(context, memory) == 0);
    const off_t size = lseek(memory, 0, SEEK_END);
    BpfProgram theirs(static_cast<size_t>(size) / sizeof(sock_filter));
    REQUIRE(pread(memory, theirs.data(), static_cast<size_t>(size), 0) == size);
    close(memory);
    seccomp_release(context);

    const BpfProgram ours = compiled(rules, {.arch = arch});
    CHECK(compared.size() > 300);
    for (const std::string& name : compared) {
      const unsigned number = syscall_number(name, arch).value();
      for (const Arguments& arguments : samples(rules, name, false)) {
        if (decide(ours, arch, number, arguments) == decide(theirs, arch, number, arguments)) continue;
        FAIL_CHECK(name << " with " << arguments[0] << ", " << arguments[1]);
        break;
      }
    }
  }
}

TEST_CASE("every shipped policy compiles for both architectures to fewer than 260 instructions and kills other ABIs") {
  REQUIRE(builtin_policies().size() >= 2);
  for (const std::string& policy : builtin_policies()) {
    const SyscallRules rules = rules_of(policy);
    for (const Arch arch : kArches) {
      for (const CompileOptions& options : combinations(arch)) {
        const BpfProgram program = compiled(rules, options);
        CHECK_MESSAGE(program.size() < 260, policy);
        CHECK(check_program(program).ok());
        CHECK(check_startable(program, arch).ok());
        for (const uint32_t foreign : {uint32_t{AUDIT_ARCH_I386}, uint32_t{AUDIT_ARCH_ARM},
                                       audit_arch(arch == Arch::x86_64 ? Arch::aarch64 : Arch::x86_64)}) {
          for (unsigned number = 0; number < kNumbers; number += 20) {
            seccomp_data data{};
            data.nr = static_cast<int>(number);
            data.arch = foreign;
            CHECK(evaluate(program, data).value() == SECCOMP_RET_KILL_PROCESS);
          }
        }
        if (arch == Arch::x86_64)
          for (unsigned number = 0; number < kNumbers; number += 20)
            CHECK(decide(program, arch, 0x40000000 + number, {}) == SECCOMP_RET_KILL_PROCESS);
      }
    }
  }
}

TEST_CASE("what is plainly allowed is served by the kernel's bitmap") {
  for (const Arch arch : kArches) {
    const SyscallRules rules = rules_of("default");
    const BpfProgram program = compiled(rules, {.arch = arch});
    std::set<std::string> tested;
    for (const SyscallRule& rule : rules.rules)
      if (!rule.tests.empty()) tested.insert(rule.name);
    int cached = 0;
    for (unsigned number = 0; number < kNumbers; ++number) {
      const std::string name(syscall_name(number, arch));
      const bool plainly = oracle(rules, {.arch = arch}, name, {}) == SECCOMP_RET_ALLOW && tested.count(name) == 0;
      CHECK_MESSAGE(kernel_caches(program, arch, number) == plainly, name);
      cached += plainly ? 1 : 0;
    }
    CHECK(cached > 200);
  }
}

TEST_CASE("the default policy allows fewer calls than Docker's default profile") {
  // Counted in its profile of 2026-06-30, for a container without added capabilities; docs/seccomp.md has the table.
  const Count x86_64 = count_allowed("default", Arch::x86_64);
  CHECK(x86_64.plain + x86_64.tested < 308);
  const Count aarch64 = count_allowed("default", Arch::aarch64);
  CHECK(aarch64.plain + aarch64.tested < 266);
}

TEST_CASE("the table of allowed calls in docs/seccomp.md is the one that the policies make") {
  const Result<std::string> page = read_file(std::string(SBX_SOURCE_DIR) + "/docs/seccomp.md");
  REQUIRE(page.ok());
  for (const char* policy : {"default", "judge", "strict"}) {
    const Count x86_64 = count_allowed(policy, Arch::x86_64);
    const Count aarch64 = count_allowed(policy, Arch::aarch64);
    const std::string row = "| sbx " + std::string(policy) + " | " + std::to_string(x86_64.plain) + " | " + std::to_string(x86_64.tested) +
                            " | " + std::to_string(aarch64.plain) + " | " + std::to_string(aarch64.tested) + " |\n";
    CHECK_MESSAGE(page.value().find(row) != std::string::npos, "the page lacks " << row);
  }
}

TEST_CASE("the programs built in are the ones that their policies compile to") {
  std::vector<std::string> policies = builtin_policies();
  for (const char* name : {"default", "strict"}) CHECK(std::find(policies.begin(), policies.end(), name) != policies.end());
  for (const std::string& policy : policies) {
    for (const CompileOptions& options : combinations(native_arch())) {
      const BpfProgram program = compiled(rules_of(policy), options);
      const std::span<const sock_filter> builtin = builtin_program(policy, options);
      REQUIRE(builtin.size() == program.size());
      CHECK(std::memcmp(builtin.data(), program.data(), builtin.size_bytes()) == 0);
    }
  }
  CHECK(builtin_program("no-such-policy", {.arch = native_arch()}).empty());
  CHECK(builtin_program("default", {.arch = native_arch() == Arch::x86_64 ? Arch::aarch64 : Arch::x86_64}).empty());
}

TEST_CASE("strict refuses memory that is written and executed, and every execve but the start") {
  for (const Arch arch : kArches) {
    BpfProgram strict = compiled(rules_of("strict"), {.arch = arch});
    const uint32_t perm = SECCOMP_RET_ERRNO + EPERM;
    const auto says = [&](const char* call, const Arguments& arguments) { return decide(strict, arch, syscall_number(call, arch).value(), arguments); };
    CHECK(says("mmap", {0, 4096, 3}) == SECCOMP_RET_ALLOW);
    CHECK(says("mmap", {0, 4096, 5}) == SECCOMP_RET_ALLOW);
    CHECK(says("mmap", {0, 4096, 6}) == perm);
    CHECK(says("mmap", {0, 4096, 7 | (uint64_t{1} << 40)}) == perm);
    CHECK(says("mprotect", {0, 4096, 3}) == SECCOMP_RET_ALLOW);
    CHECK(says("mprotect", {0, 4096, 5}) == perm);
    CHECK(says("pkey_mprotect", {0, 4096, 4, 1}) == perm);
    CHECK(says("memfd_create", {}) == SECCOMP_RET_ERRNO + ENOSYS);
    CHECK(says("execveat", {}) == perm);
    CHECK(says("execve", {}) == perm);
    CHECK(says("execve", {~0ull, ~0ull, ~0ull}) == perm);
    const StartKey key = make_start_key().value();
    CHECK(says("execve", {key.words[0], key.words[1], key.words[2]}) == perm);
    set_start_key(strict, key);
    CHECK(says("execve", {key.words[0], key.words[1], key.words[2]}) == SECCOMP_RET_ALLOW);
    CHECK(says("execve", {key.words[0], key.words[1], key.words[2] + 8}) == perm);
  }
}

TEST_CASE("strict allows threads and refuses processes; judge refuses file locks") {
  const unsigned threads = 0x3d0f00;  // what pthread_create passes
  for (const Arch arch : kArches) {
    const BpfProgram strict = compiled(rules_of("strict"), {.arch = arch});
    const unsigned clone = syscall_number("clone", arch).value();
    CHECK(decide(strict, arch, clone, {threads}) == SECCOMP_RET_ALLOW);
    CHECK(decide(strict, arch, clone, {17}) == SECCOMP_RET_ERRNO + EPERM);
    CHECK(decide(strict, arch, clone, {threads | 0x10000000}) == SECCOMP_RET_ERRNO + EPERM);
    CHECK(decide(strict, arch, syscall_number("socket", arch).value(), {1, 1}) == SECCOMP_RET_ERRNO + EPERM);
    const BpfProgram judge = compiled(rules_of("judge"), {.arch = arch});
    CHECK(decide(judge, arch, syscall_number("flock", arch).value(), {}) == SECCOMP_RET_ERRNO + EPERM);
    CHECK(decide(judge, arch, syscall_number("fcntl", arch).value(), {3, 6}) == SECCOMP_RET_ERRNO + EPERM);
    CHECK(decide(judge, arch, syscall_number("fcntl", arch).value(), {3, 1}) == SECCOMP_RET_ALLOW);
    CHECK(decide(judge, arch, syscall_number("inotify_init1", arch).value(), {}) == SECCOMP_RET_ERRNO + ENOSYS);
  }
}

TEST_CASE("the default filter holds in the kernel") {
  // Each probe as the errno that the call gave, 0 for success; written by a child that loaded the filter.
  struct Probe {
    const char* title;
    long number;
    std::array<unsigned long, 3> arguments;
    int expected;  // -1: anything but EPERM and ENOSYS
  };
  const Probe probes[] = {
      {"ptrace", SYS_ptrace, {0, 0, 0}, EPERM},
      {"io_uring_setup", 425, {1, 0, 0}, ENOSYS},
      {"clone3", 435, {0, 0, 0}, ENOSYS},
      {"a number without a name", 600, {0, 0, 0}, ENOSYS},
      {"minus one", -1, {0, 0, 0}, ENOSYS},
      {"unshare of a user namespace", SYS_unshare, {0x10000000, 0, 0}, EPERM},
      {"unshare of open files", SYS_unshare, {0x400, 0, 0}, 0},
      {"clone with a namespace", SYS_clone, {0x20000000 | 17, 0, 0}, EPERM},
      {"TIOCSTI", SYS_ioctl, {0, 0x5412, 0}, EPERM},
      {"TIOCSTI with high bits", SYS_ioctl, {0, 0x5412 | (1ul << 32), 0}, EPERM},
      {"an ordinary ioctl", SYS_ioctl, {9999, 0x5413, 0}, EBADF},
      {"a lease", SYS_fcntl, {9999, 1024, 0}, EPERM},
      {"a lease with high bits", SYS_fcntl, {9999, 1024 | (1ul << 32), 0}, EPERM},
      {"a record lock", SYS_fcntl, {9999, 6, 0}, EBADF},
      {"AF_ALG", SYS_socket, {38, 5, 0}, EAFNOSUPPORT},
      {"AF_VSOCK", SYS_socket, {40, 1, 0}, EAFNOSUPPORT},
      {"raw IP", SYS_socket, {2, 3, 1}, EPERM},
      {"MPTCP", SYS_socket, {2, 1, 262}, EPROTONOSUPPORT},
      {"netfilter's netlink", SYS_socket, {16, 3, 12}, EPROTONOSUPPORT},
      {"route netlink", SYS_socket, {16, 3, 0}, 0},
      {"UNIX socket, close-on-exec", SYS_socket, {1, 02000001, 0}, 0},
      {"TCP", SYS_socket, {2, 02004001, 6}, 0},
      {"UDP over IPv6", SYS_socket, {10, 2, 0}, -1},
      {"add_key", SYS_add_key, {0, 0, 0}, EPERM},
      {"mount", SYS_mount, {0, 0, 0}, EPERM},
      {"personality asks", SYS_personality, {0xffffffff, 0, 0}, 0},
      {"personality without randomisation", SYS_personality, {0x0040000, 0, 0}, EPERM},
      {"PR_SET_MM", SYS_prctl, {35, 1, 0}, EPERM},
      {"an unknown prctl", SYS_prctl, {9999, 0, 0}, EINVAL},
      {"PR_GET_NO_NEW_PRIVS", SYS_prctl, {39, 0, 0}, -1},
      {"getpid", SYS_getpid, {0, 0, 0}, 0},
      {"rseq", 334, {0, 0, 0}, -1},
  };
  constexpr size_t kCount = std::size(probes);
  int* results = static_cast<int*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  REQUIRE(results != MAP_FAILED);
  const BpfProgram program = compiled(rules_of("default"), {.arch = native_arch()});
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    sock_fprog filter{static_cast<unsigned short>(program.size()), const_cast<sock_filter*>(program.data())};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(2);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0) _exit(3);
    for (size_t i = 0; i < kCount; ++i) {
      const Probe& probe = probes[i];
      const long result = syscall(probe.number, probe.arguments[0], probe.arguments[1], probe.arguments[2]);
      results[i] = result < 0 ? errno : 0;
    }
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);
  for (size_t i = 0; i < kCount; ++i) {
    INFO(probes[i].title);
    if (probes[i].expected >= 0) {
      CHECK(results[i] == probes[i].expected);
    } else {
      CHECK(results[i] != EPERM);
      CHECK(results[i] != ENOSYS);
    }
  }
  munmap(results, 4096);
}

#if defined(__x86_64__)
TEST_CASE("an x32 call under the default filter ends the process with SIGSYS") {
  const BpfProgram program = compiled(rules_of("default"), {.arch = native_arch()});
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    sock_fprog filter{static_cast<unsigned short>(program.size()), const_cast<sock_filter*>(program.data())};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0) _exit(3);
    syscall(0x40000000 + SYS_getpid);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGSYS);
}
#endif
