// Cgroups against made-up trees and a made-up systemd: which parent is chosen and why, what is written where, what is
// read back. The real kernel's part is tests/integration/cgroup_cases.py.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/sys.h"
#include "base/text.h"
#include "runtime/cgroup.h"
#include "runtime/cgroup_v1.h"
#include "runtime/choose_cgroup.h"
#include "runtime/user_scope.h"

using namespace sbx;
using namespace sbx::runtime;

namespace {

// A directory whose files stand for a cgroup's. What the kernel would react to, nothing reacts to here.
class Tree {
 public:
  Tree() {
    char name[] = "/tmp/sbx-cgroup-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    path = name;
  }
  ~Tree() { std::filesystem::remove_all(path); }
  void put(const std::string& name, const std::string& content = "") {
    std::filesystem::create_directories(std::filesystem::path(path + "/" + name).parent_path());
    std::ofstream(path + "/" + name) << content;
  }
  std::string get(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(path + "/" + name).rdbuf();
    return text.str();
  }
  UniqueFd open(const std::string& name = ".") const {
    return UniqueFd(::open((path + "/" + name).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  std::string path;
};

// The files that make a directory look like a cgroup with processes `procs`.
void put_cgroup(Tree& tree, const std::string& name, const std::string& controllers, const std::string& procs, bool root = false) {
  tree.put(name + "/cgroup.controllers", controllers);
  tree.put(name + "/cgroup.subtree_control", "");
  tree.put(name + "/cgroup.procs", procs);
  if (!root) tree.put(name + "/cgroup.type", "domain\n");
}

const std::string kSelf = std::to_string(::getpid()) + "\n";

}  // namespace

TEST_CASE("the cgroup view follows /proc/self/cgroup and mountinfo on v2, hybrid and v1 hosts") {
  CgroupView view = parse_cgroup_view("0::/user.slice/user-1000.slice/session-1.scope\n",
                                      "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  CHECK(view.v2_root == "/sys/fs/cgroup");
  CHECK(view.v2_own == "/sys/fs/cgroup/user.slice/user-1000.slice/session-1.scope");
  CHECK(view.v1.empty());

  view = parse_cgroup_view("9:name=systemd:/\n4:memory:/a/b\n8:pids:/\n1:cpu,cpuacct:/\n0::/\n",
                           "40 39 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                           "41 39 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                           "42 39 0:32 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
                           "43 39 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  CHECK(view.v2_root == "/sys/fs/cgroup/unified");
  CHECK(view.v2_own == "/sys/fs/cgroup/unified");
  REQUIRE(view.v1.size() == 3);
  CHECK(view.v1[0].own == "/sys/fs/cgroup/cpu");
  CHECK(view.v1[1].own == "/sys/fs/cgroup/memory/a/b");
  CHECK(view.v1[2].own == "/sys/fs/cgroup/pids");
}

TEST_CASE("a mount of a part of the tree, an escaped path and a cgroup outside of the mount") {
  CgroupView view = parse_cgroup_view("0::/docker/abc/x\n", "30 23 0:26 /docker/abc /my\\040cg rw - cgroup2 cgroup rw\n");
  CHECK(view.v2_own == "/my cg/x");
  view = parse_cgroup_view("0::/../other\n", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
  CHECK(view.v2_own == "");
  view = parse_cgroup_view("0::/docker/abcd\n", "30 23 0:26 /docker/abc /c rw - cgroup2 cgroup rw\n");
  CHECK(view.v2_own == "");
  CHECK(parse_cgroup_view("", "").v2_root == "");
  CHECK(parse_cgroup_view("garbage\n::\n", "a b c - d\n - \n").v2_root == "");
}

TEST_CASE("controllers and counters are whole words") {
  CHECK(parse_controllers("cpuset cpu io memory hugetlb pids rdma\n") == Controllers{true, true, true});
  CHECK(parse_controllers("cpuset io") == Controllers{});
  CHECK(names_of({true, false, true}) == "memory, cpu");
  CHECK(without({true, true, true}, {true, false, false}) == Controllers{false, true, true});
  CHECK(cgroup_count("oom 1\noom_kill 3\noom_group_kill 2\n", "oom") == uint64_t{1});
  CHECK(cgroup_count("oom 1\noom_kill 3\n", "oom_kill") == uint64_t{3});
  CHECK_FALSE(cgroup_count("oom_kill x\n", "oom_kill").has_value());
  CHECK_FALSE(cgroup_count("", "oom").has_value());
}

TEST_CASE("a v2 leaf gets its limits, and files that this kernel lacks are no error") {
  Tree tree;
  for (const char* file : {"memory.max", "pids.max", "cpu.max"}) tree.put(file);
  const UniqueFd leaf = tree.open();
  const CgroupLimits limits{uint64_t{64} << 20, 21, 500, {}, ""};
  REQUIRE(set_cgroup_limits(leaf.get(), limits, {true, true, true}).ok());
  CHECK(tree.get("memory.max") == "67108864");
  CHECK(tree.get("pids.max") == "21");
  CHECK(tree.get("cpu.max") == "50000 100000");
  tree.put("memory.swap.max");
  tree.put("memory.oom.group");
  REQUIRE(set_cgroup_limits(leaf.get(), limits, {true, true, true}).ok());
  CHECK(tree.get("memory.swap.max") == "0");
  CHECK(tree.get("memory.oom.group") == "1");
}

TEST_CASE("a limit that cannot be written is an error, one without its controller is left alone") {
  Tree tree;
  const UniqueFd leaf = tree.open();
  const CgroupLimits limits{uint64_t{64} << 20, 21, 500, {}, ""};
  CHECK(set_cgroup_limits(leaf.get(), limits, {}).ok());
  Status status = set_cgroup_limits(leaf.get(), limits, {true, false, false});
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().text().find("memory.max") != std::string::npos);
  CHECK_FALSE(set_cgroup_limits(leaf.get(), limits, {false, true, false}).ok());
  CHECK_FALSE(set_cgroup_limits(leaf.get(), limits, {false, false, true}).ok());
}

TEST_CASE("a limit of bytes a second names the disk, and needs the controller") {
  Tree tree;
  const UniqueFd leaf = tree.open();
  const CgroupLimits limits{{}, {}, {}, uint64_t{1} << 20, "8:16"};
  CHECK_FALSE(set_cgroup_limits(leaf.get(), limits, {true, true, true}).ok());
  tree.put("io.max");
  REQUIRE(set_cgroup_limits(leaf.get(), limits, {}).ok());
  CHECK(tree.get("io.max") == "8:16 rbps=1048576 wbps=1048576");
}

TEST_CASE("the smallest fraction of a CPU is what the kernel takes") {
  Tree tree;
  tree.put("cpu.max");
  const UniqueFd leaf = tree.open();
  REQUIRE(set_cgroup_limits(leaf.get(), {.memory_bytes = {}, .pids = {}, .cpus_milli = 10, .io_bytes = {}, .io_device = ""}, {false, false, true}).ok());
  CHECK(tree.get("cpu.max") == "1000 100000");
}

TEST_CASE("v2 counters: peaks where the kernel keeps them, the current use where it does not") {
  Tree tree;
  tree.put("memory.events", "low 0\nhigh 0\nmax 17\noom 1\noom_kill 3\noom_group_kill 1\n");
  tree.put("memory.current", "1000\n");
  tree.put("pids.events", "max 42\n");
  tree.put("cpu.stat", "usage_usec 30\nuser_usec 10\nsystem_usec 20\n");
  const UniqueFd leaf = tree.open();
  CgroupCounts counts;
  read_cgroup_counts(leaf.get(), counts);
  CHECK(counts.oom_kills == 3);
  CHECK(counts.memory_refused == 1);
  CHECK(counts.memory_current == uint64_t{1000});
  CHECK_FALSE(counts.memory_peak.has_value());
  CHECK(counts.pids_refused == 42);
  CHECK_FALSE(counts.pids_peak.has_value());
  CHECK(counts.cpu_us() == int64_t{30});
  tree.put("memory.peak", "2000\n");
  tree.put("pids.peak", "7\n");
  read_cgroup_counts(leaf.get(), counts);
  CHECK(counts.memory_peak == uint64_t{2000});
  CHECK(counts.pids_peak == uint64_t{7});
}

TEST_CASE("a v2 leaf without controllers still counts CPU time, and nothing else") {
  Tree tree;
  tree.put("cpu.stat", "usage_usec 30\nuser_usec 10\nsystem_usec 20\n");
  CgroupCounts counts;
  read_cgroup_counts(tree.open().get(), counts);
  CHECK(counts.cpu_us() == int64_t{30});
  CHECK_FALSE(counts.memory_peak.has_value());
  CHECK(counts.oom_kills == 0);
}

TEST_CASE("v1 limits: memory first, then memory and swap together") {
  Tree tree;
  tree.put("memory.limit_in_bytes");
  tree.put("memory.memsw.limit_in_bytes");
  tree.put("pids.max");
  tree.put("cpu.cfs_period_us");
  tree.put("cpu.cfs_quota_us");
  const UniqueFd leaf = tree.open();
  const CgroupLimits limits{uint64_t{64} << 20, 21, 1500};
  for (const auto kind : {CgroupV1Tree::Kind::memory, CgroupV1Tree::Kind::pids, CgroupV1Tree::Kind::cpu}) {
    REQUIRE(set_cgroup_v1_limits(leaf.get(), kind, limits).ok());
  }
  CHECK(tree.get("memory.limit_in_bytes") == "67108864");
  CHECK(tree.get("memory.memsw.limit_in_bytes") == "67108864");
  CHECK(tree.get("pids.max") == "21");
  CHECK(tree.get("cpu.cfs_period_us") == "100000");
  CHECK(tree.get("cpu.cfs_quota_us") == "150000");
}

TEST_CASE("a v1 kill is our limit's only when the peak reached it") {
  Tree tree;
  tree.put("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  tree.put("memory.max_usage_in_bytes", "268435456\n");
  tree.put("memory.limit_in_bytes", "268435456\n");
  CgroupCounts counts;
  read_cgroup_v1_counts(tree.open().get(), CgroupV1Tree::Kind::memory, counts);
  CHECK(counts.oom_kills == 1);
  CHECK(counts.memory_refused == 1);
  tree.put("memory.max_usage_in_bytes", "68435456\n");
  counts = {};
  read_cgroup_v1_counts(tree.open().get(), CgroupV1Tree::Kind::memory, counts);
  CHECK(counts.oom_kills == 1);
  CHECK(counts.memory_refused == 0);
}

TEST_CASE("controllers are switched on singly, only those that are offered") {
  Tree tree;
  put_cgroup(tree, "c", "cpuset cpu memory", "");
  const Controllers on = enable_controllers(tree.open("c").get(), {true, true, true});
  CHECK(on == Controllers{true, false, true});
  CHECK(tree.get("c/cgroup.subtree_control") == "+cpuory");  // a plain file: the last write, over the first
}

TEST_CASE("who cannot look because it is out of descriptors takes no leaf for stale") {
  const std::vector<std::string> parts = split(leaf_name(0).take(), '-');
  const std::string dead = "sbx-" + parts[1] + "-4194305-" + parts[3] + "-0";
  rlimit saved{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &saved) == 0);
  const rlimit none{0, saved.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const bool stale = is_stale_leaf(dead);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &saved) == 0);
  CHECK_FALSE(stale);
  CHECK(is_stale_leaf(dead));
}

TEST_CASE("a leaf of a living supervisor is not stale, one of a dead or another one is, a foreign one is not") {
  const std::string own = leaf_name(3).take();
  CHECK_FALSE(is_stale_leaf(own));
  std::vector<std::string> parts = split(own, '-');
  REQUIRE(parts.size() == 5);
  CHECK(parts[4] == "3");
  CHECK(is_stale_leaf("sbx-" + parts[1] + "-" + parts[2] + "-1-0"));         // the pid came round again
  CHECK(is_stale_leaf("sbx-" + parts[1] + "-4194305-" + parts[3] + "-0"));   // above any pid_max
  CHECK_FALSE(is_stale_leaf("sbx-1-4194305-" + parts[3] + "-0"));            // another pid namespace: who knows
  CHECK_FALSE(is_stale_leaf("sbx-sup"));
  CHECK_FALSE(is_stale_leaf("sbx-" + parts[1] + "-../x-1-0"));
  CHECK_FALSE(is_stale_leaf("system.slice"));
  Tree tree;
  const std::string stale = "sbx-" + parts[1] + "-4194305-1-0";
  for (const std::string& name : {own, stale, std::string("other")}) std::filesystem::create_directory(tree.path + "/" + name);
  CHECK(stale_leaves(tree.open().get(), 0) == std::vector<std::string>{stale});
}

TEST_CASE("a leaf is removed with its object, its inner level too") {
  Tree tree;
  const UniqueFd parent = tree.open();
  {
    Result<CgroupLeaf> leaf = CgroupLeaf::create(parent.get(), "sbx-a", true);
    REQUIRE(leaf.ok());
    CHECK(std::filesystem::exists(tree.path + "/sbx-a/box"));
    CgroupLeaf moved = leaf.take();
    CHECK(moved.fd() >= 0);
    CHECK_FALSE(CgroupLeaf::create(parent.get(), "sbx-a", false).ok());
  }
  CHECK(std::filesystem::is_empty(tree.path));
}

// ---- the choice ------------------------------------------------------------------------------------------------------

TEST_CASE("a container's own subtree: its processes move aside, sbx among them") {
  Tree tree;
  put_cgroup(tree, ".", "cpu memory pids", kSelf);
  CgroupView view;
  view.v2_root = view.v2_own = tree.path;
  // The first look finds us in it; the kernel would take us out when we are written to the leaf's cgroup.procs, which a
  // plain file does not: the choice gives up after some rounds, and says so.
  std::filesystem::create_directory(tree.path + "/sbx-sup");
  tree.put("sbx-sup/cgroup.procs");
  Result<CgroupParent> parent = CgroupChoice::begin({.parent = "", .runtime_directory = "", .uid = 0}, view).finish();
  REQUIRE(parent.ok());
  CHECK(tree.get("sbx-sup/cgroup.procs") == std::to_string(::getpid()));
  CHECK(parent.value().reason().find("cannot be moved aside") != std::string::npos);

  SUBCASE("a shell that started sbx is moved too") {
    tree.put("cgroup.procs", "1\n");
    tree.put("sbx-sup/cgroup.procs");
    REQUIRE(CgroupChoice::begin({.parent = "", .runtime_directory = "", .uid = 0}, view).finish().ok());
    CHECK(tree.get("sbx-sup/cgroup.procs") == "1");
  }
}

TEST_CASE("a delegated cgroup is not divided while others live in it; the reason and the way out are told") {
  Tree tree;
  put_cgroup(tree, ".", "cpu memory pids", "");
  put_cgroup(tree, "unit", "cpu memory pids", kSelf + "1\n");
  CgroupView view;
  view.v2_root = tree.path;
  view.v2_own = tree.path + "/unit";
  if (::setxattr(view.v2_own.c_str(), "user.delegate", "1", 1, 0) != 0) return;  // a file system without such attributes
  Result<CgroupParent> parent = CgroupChoice::begin({.parent = "", .runtime_directory = "", .uid = 0}, view).finish();
  REQUIRE(parent.ok());
  CHECK_FALSE(parent.value().controllers().any());
  CHECK(parent.value().reason().find("holds other processes too") != std::string::npos);
  CHECK(parent.value().remedy().find("--cgroup-parent " + view.v2_own) != std::string::npos);
  CHECK(tree.get("unit/cgroup.subtree_control") == "");
  CHECK_FALSE(std::filesystem::exists(view.v2_own + "/sbx-sup"));
}

TEST_CASE("root on a host divides a directory of its own, and nothing else") {
  Tree tree;
  put_cgroup(tree, ".", "cpu memory pids", "1\n" + kSelf, true);
  put_cgroup(tree, "sbx", "cpu memory pids", "");
  put_cgroup(tree, "system.slice", "cpu memory pids", "1\n");
  CgroupView view;
  view.v2_root = tree.path;
  view.v2_own = tree.path + "/system.slice";
  Result<CgroupParent> parent = CgroupChoice::begin({.parent = "", .runtime_directory = "", .uid = 0}, view).finish();
  REQUIRE(parent.ok());
  CHECK(parent.value().path() == tree.path + "/sbx");
  CHECK(parent.value().controllers().all());
  CHECK(parent.value().reason() == "");
  CHECK(tree.get("system.slice/cgroup.subtree_control") == "");
  CHECK(tree.get("sbx/cgroup.subtree_control") != "");
}

TEST_CASE("inside a cgroup that a runtime of ours has divided, leaves are made beside us") {
  Tree tree;
  put_cgroup(tree, ".", "cpu memory pids", "", true);
  put_cgroup(tree, "scope", "cpu memory pids", "");
  tree.put("scope/cgroup.subtree_control", "cpu memory pids\n");
  put_cgroup(tree, "scope/sbx-sup", "", kSelf);
  CgroupView view;
  view.v2_root = tree.path;
  view.v2_own = tree.path + "/scope/sbx-sup";
  Result<CgroupParent> parent = CgroupChoice::begin({.parent = "", .runtime_directory = "", .uid = 1000}, view).finish();
  REQUIRE(parent.ok());
  CHECK(parent.value().path() == tree.path + "/scope");
  CHECK(parent.value().controllers().all());
}

TEST_CASE("root takes from v1 what the v2 tree has not") {
  Tree tree;
  put_cgroup(tree, "unified", "", "1\n", true);
  put_cgroup(tree, "unified/sbx", "", "");
  std::filesystem::create_directories(tree.path + "/memory/a");
  std::filesystem::create_directories(tree.path + "/pids");
  CgroupView view;
  view.v2_root = view.v2_own = tree.path + "/unified";
  view.v1 = {{CgroupV1Tree::Kind::memory, tree.path + "/memory/a"}, {CgroupV1Tree::Kind::pids, tree.path + "/pids"}};
  Result<CgroupParent> parent = CgroupChoice::begin({.parent = "", .runtime_directory = "", .uid = 0}, view).finish();
  REQUIRE(parent.ok());
  CHECK(parent.value().usable());
  CHECK(parent.value().controllers() == Controllers{true, true, false});
  CHECK(parent.value().reason().find("cpu") != std::string::npos);
}

TEST_CASE("a user without a manager is told what root can do about it") {
  Tree tree;
  put_cgroup(tree, ".", "cpu memory pids", "1\n", true);
  put_cgroup(tree, "user.slice", "memory pids", kSelf);
  CgroupView view;
  view.v2_root = tree.path;
  view.v2_own = tree.path + "/user.slice";
  const CgroupWish wish{.parent = "", .runtime_directory = tree.path + "/missing", .uid = 4242};
  Result<CgroupParent> parent = CgroupChoice::begin(wish, view).finish();
  REQUIRE(parent.ok());
  CHECK_FALSE(parent.value().usable());
  CHECK(parent.value().reason().find("no systemd user manager") != std::string::npos);
  CHECK(parent.value().remedy().find("loginctl enable-linger 4242") != std::string::npos);
}

TEST_CASE("--cgroup-parent none uses none; a place outside of the tree is wrong usage") {
  CgroupView view;
  view.v2_root = view.v2_own = "/sys/fs/cgroup";
  Result<CgroupParent> none = CgroupChoice::begin({.parent = "none", .runtime_directory = "", .uid = 0}, view).finish();
  REQUIRE(none.ok());
  CHECK_FALSE(none.value().usable());
  for (const char* path : {"/tmp", "/no/such/place"}) {
    Result<CgroupParent> parent = CgroupChoice::begin({.parent = path, .runtime_directory = "", .uid = 0}, view).finish();
    REQUIRE_FALSE(parent.ok());
    CHECK(parent.error().kind() == ErrorKind::usage);
    CHECK(parent.error().origin() == "flag --cgroup-parent");
    CHECK(parent.error().hint() != "");
  }
}

// ---- the user manager ------------------------------------------------------------------------------------------------

namespace {

const UserScopeRequest kRequest{"/nowhere", 1000, 4711, "sbx-test.scope"};

// A manager of few words: authenticates, answers the calls as told. Runs as a child process.
template <typename Talk>
Status talk_to(bool bus, Talk talk) {
  Result<std::array<UniqueFd, 2>> pair = sys::socketpair(SOCK_STREAM);
  REQUIRE(pair.ok());
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    pair.value()[0].reset();
    ::alarm(10);
    talk(pair.value()[1].get());
    ::_exit(0);
  }
  pair.value()[1].reset();
  Status status;
  Result<UserScope> scope = UserScope::request_on(std::move(pair.value()[0]), bus, kRequest);
  status = scope.ok() ? scope.value().finish() : Status(scope.take_error());
  int ended = 0;
  ::waitpid(child, &ended, 0);
  return status;
}

std::string read_until(int socket, std::string& pending, const std::string& end) {
  size_t at;
  char buffer[512];
  while ((at = pending.find(end)) == std::string::npos) {
    const ssize_t got = ::read(socket, buffer, sizeof buffer);
    if (got <= 0) ::_exit(1);
    pending.append(buffer, static_cast<size_t>(got));
  }
  const std::string line = pending.substr(0, at);
  pending.erase(0, at + end.size());
  return line;
}

void authenticate_client(int socket, std::string& pending) {
  if (read_until(socket, pending, "\r\n") != std::string(1, '\0') + "AUTH EXTERNAL 31303030") ::_exit(1);
  (void)!::write(socket, "OK 0123456789abcdef\r\n", 21);
  if (read_until(socket, pending, "\r\n") != "BEGIN") ::_exit(1);
}

DbusMessage next_message(int socket, std::string& pending) {
  DbusMessage message;
  char buffer[512];
  for (;;) {
    Result<bool> whole = unmarshal(pending, message);
    if (!whole.ok()) ::_exit(1);
    if (whole.value()) return message;
    const ssize_t got = ::read(socket, buffer, sizeof buffer);
    if (got <= 0) ::_exit(1);
    pending.append(buffer, static_cast<size_t>(got));
  }
}

std::string dbus_text(const std::string& text) {
  std::string bytes;
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(text.size() >> shift);
  bytes += text + '\0';
  while (bytes.size() % 4 != 0) bytes += '\0';
  return bytes;
}

void send_message(int socket, DbusMessage message) {
  const std::string bytes = marshal(message);
  // In two pieces: whole messages do not come in one read.
  (void)!::write(socket, bytes.data(), 10);
  (void)!::write(socket, bytes.data() + 10, bytes.size() - 10);
}

void job_reply(int socket, uint32_t to, const std::string& path) {
  DbusMessage reply;
  reply.type = DbusMessage::Type::reply;
  reply.serial = 100;
  reply.reply_serial = to;
  reply.signature = "o";
  reply.body = dbus_text(path);
  send_message(socket, reply);
}

void job_removed(int socket, const std::string& path, const std::string& result) {
  DbusMessage signal;
  signal.type = DbusMessage::Type::signal;
  signal.serial = 101;
  signal.path = "/org/freedesktop/systemd1";
  signal.interface = "org.freedesktop.systemd1.Manager";
  signal.member = "JobRemoved";
  signal.signature = "uoss";
  signal.body = std::string("\7\0\0\0", 4) + dbus_text(path) + dbus_text("sbx-test.scope") + dbus_text(result);
  send_message(socket, signal);
}

}  // namespace

TEST_CASE("a D-Bus message survives being written and read, byte by byte") {
  DbusMessage message;
  message.serial = 7;
  message.path = "/org/freedesktop/systemd1";
  message.interface = "org.freedesktop.systemd1.Manager";
  message.member = "StartTransientUnit";
  message.destination = "org.freedesktop.systemd1";
  message.signature = "ssa(sv)a(sa(sv))";
  message.body = scope_body(kRequest);
  const std::string bytes = marshal(message);
  CHECK(bytes.size() % 8 == message.body.size() % 8);
  std::string coming;
  DbusMessage read;
  for (size_t i = 0; i < bytes.size(); ++i) {
    coming += bytes[i];
    Result<bool> whole = unmarshal(coming, read);
    REQUIRE(whole.ok());
    CHECK(whole.value() == (i + 1 == bytes.size()));
  }
  CHECK(coming.empty());
  CHECK(read.serial == 7);
  CHECK(read.member == message.member);
  CHECK(read.signature == message.signature);
  CHECK(read.body == message.body);
  CHECK(body_words(read) == std::vector<std::string>{"sbx-test.scope", "fail"});
}

TEST_CASE("the body of StartTransientUnit is what the specification's alignment makes of it") {
  // Written by hand from the D-Bus specification; gdbus and busctl produce the same for this call.
  std::string want;
  const auto number = [&](uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) want += static_cast<char>(value >> shift);
  };
  const auto text = [&](const std::string& value) {
    number(static_cast<uint32_t>(value.size()));
    want += value + '\0';
  };
  const auto pad = [&](size_t to) {
    while (want.size() % to != 0) want += '\0';
  };
  text("a.scope"); pad(4);                       // 0..12
  text("fail"); pad(4);                          // ..24
  const size_t length_at = want.size();
  number(0); pad(8);
  const size_t start = want.size();
  text("Description"); want += std::string("\1s\0", 3); pad(4); text("sandboxes of sbx"); pad(8);
  text("PIDs"); want += std::string("\2au\0", 4); pad(4); number(4); number(9); pad(8);
  text("Delegate"); want += std::string("\1b\0", 3); pad(4); number(1); pad(8);
  text("CollectMode"); want += std::string("\1s\0", 3); pad(4); text("inactive-or-failed");
  const uint32_t length = static_cast<uint32_t>(want.size() - start);
  for (size_t i = 0; i < 4; ++i) want[length_at + i] = static_cast<char>(length >> (8 * i));
  pad(4);
  number(0); pad(8);
  CHECK(scope_body({"", 0, 9, "a.scope"}) == want);
}

TEST_CASE("hostile bytes are no D-Bus message, and never read out of bounds") {
  DbusMessage message;
  std::string bytes(16, 'x');
  CHECK_FALSE(unmarshal(bytes, message).ok());
  bytes = std::string("l\2\0\1\xff\xff\xff\xff\1\0\0\0\0\0\0\0", 16);  // a body of 4 GiB
  CHECK_FALSE(unmarshal(bytes, message).ok());
  DbusMessage good;
  good.type = DbusMessage::Type::error;
  good.serial = 1;
  good.reply_serial = 2;
  good.error_name = "org.x.Y";
  good.signature = "s";
  good.body = dbus_text("no");
  const std::string whole = marshal(good);
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char value : {'\0', '\x01', '\x7f', '\xff'}) {
      std::string broken = whole;
      broken[at] = value;
      Result<bool> result = unmarshal(broken, message);
      if (result.ok() && result.value()) (void)body_words(message);
    }
  }
}

TEST_CASE("a scope is ready when its job is done, whichever comes first, reply or signal") {
  for (const bool early : {false, true}) {
    const Status status = talk_to(false, [&](int socket) {
      std::string pending;
      authenticate_client(socket, pending);
      const DbusMessage call = next_message(socket, pending);
      if (call.member != "StartTransientUnit" || !call.destination.empty() || call.body != scope_body(kRequest)) ::_exit(1);
      job_removed(socket, "/job/6", "canceled");  // somebody else's
      if (early) job_removed(socket, "/job/7", "done");
      job_reply(socket, call.serial, "/job/7");
      if (!early) job_removed(socket, "/job/7", "done");
    });
    CHECK_MESSAGE(status.ok(), (status.ok() ? "" : status.error().text()));
  }
}

TEST_CASE("over a bus, Hello goes first and the manager is named") {
  const Status status = talk_to(true, [](int socket) {
    std::string pending;
    authenticate_client(socket, pending);
    const DbusMessage hello = next_message(socket, pending);
    const DbusMessage call = next_message(socket, pending);
    if (hello.member != "Hello" || call.destination != "org.freedesktop.systemd1") ::_exit(1);
    job_reply(socket, hello.serial, "/x");  // the name that we got
    job_reply(socket, call.serial, "/job/1");
    job_removed(socket, "/job/1", "done");
  });
  CHECK_MESSAGE(status.ok(), (status.ok() ? "" : status.error().text()));
}

TEST_CASE("the manager's refusal, a failed job, silence and nonsense are errors in its own words") {
  Status status = talk_to(false, [](int socket) {
    std::string pending;
    authenticate_client(socket, pending);
    DbusMessage error;
    error.type = DbusMessage::Type::error;
    error.serial = 9;
    error.reply_serial = next_message(socket, pending).serial;
    error.error_name = "org.freedesktop.DBus.Error.AccessDenied";
    error.signature = "s";
    error.body = dbus_text("Permission\x1b denied");
    send_message(socket, error);
  });
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().text().find("Permission\\x1b denied") != std::string::npos);

  status = talk_to(false, [](int socket) {
    std::string pending;
    authenticate_client(socket, pending);
    job_reply(socket, next_message(socket, pending).serial, "/job/2");
    job_removed(socket, "/job/2", "failed");
  });
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().text().find("failed") != std::string::npos);

  status = talk_to(false, [](int socket) {
    std::string pending;
    (void)read_until(socket, pending, "\r\n");
    (void)!::write(socket, "REJECTED EXTERNAL\r\n", 19);
  });
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().text().find("REJECTED") != std::string::npos);

  status = talk_to(false, [](int socket) {
    std::string pending;
    authenticate_client(socket, pending);
    (void)next_message(socket, pending);
  });
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().text().find("closed the connection") != std::string::npos);
}

TEST_CASE("what is found in the usual places is what mountinfo says") {
  const Result<std::string> cgroup = read_file("/proc/self/cgroup", 65536);
  const Result<std::string> mountinfo = read_file("/proc/self/mountinfo", size_t{8} << 20);
  REQUIRE(cgroup.ok());
  REQUIRE(mountinfo.ok());
  const CgroupView told = parse_cgroup_view(cgroup.value(), mountinfo.value());
  const CgroupView found = look_around();
  CHECK(found.v2_root == told.v2_root);
  CHECK(found.v2_own == told.v2_own);
  REQUIRE(found.v1.size() == told.v1.size());
  for (const CgroupView::V1& tree : told.v1) {
    CHECK(std::any_of(found.v1.begin(), found.v1.end(),
                      [&](const CgroupView::V1& each) { return each.kind == tree.kind && each.own == tree.own; }));
  }
}
