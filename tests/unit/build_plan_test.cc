#include <doctest/doctest.h>

#include <unistd.h>

#include "ns/build_plan.h"
#include "ns/landlock.h"

using namespace sbx;

namespace {

SandboxSpec small_spec() {
  SandboxSpec spec;
  spec.argv = {"true"};
  spec.exec_path = "true";
  spec.environment = {"PATH=/usr/bin::relative:/bin", "A=B"};
  spec.limits.disk = Bytes{1 << 20};
  spec.limits.inodes = 100;
  return spec;
}

BindOp bind(const std::string& source, const std::string& target) {
  BindOp op;
  op.source = source;
  op.target = target;
  return op;
}

Result<std::unique_ptr<ns::PlannedChild>> plan(const SandboxSpec& spec, ns::PlanOptions options = {}) {
  HostFacts facts;
  return ns::build_plan(spec, facts, options);
}

}  // namespace

TEST_CASE("a plan lists its steps in the order of the operations") {
  SandboxSpec spec = small_spec();
  spec.fs = {bind("/usr", "/usr"), SymlinkOp{"/bin", "usr/bin"}, FileOp{"/etc/hostname", "sandbox\n"},
             PrivateDirOp{"/box", 0755}, PrivateDirOp{"/tmp", 01777}};
  auto planned = plan(spec);
  REQUIRE(planned.ok());
  CHECK(planned.value()->text() ==
        "tmpfs / mode=0755,size=69632,nr_inodes=22\n"
        "make_dir usr\n"
        "bind /usr usr ro\n"
        "make_symlink bin usr/bin\n"
        "make_dir etc\n"
        "write_file etc/hostname\n"
        "make_dir box\n"
        "tmpfs /proc mode=0755,size=1048576,nr_inodes=103\n"
        "make_dir /proc/0\n"
        "clone_bind /proc/0 box\n"
        "make_dir tmp\n"
        "make_dir /proc/1\n"
        "clone_bind /proc/1 tmp\n");
}

TEST_CASE("nothing is created below a shared directory, and targets there are looked up confined") {
  SandboxSpec spec = small_spec();
  spec.fs = {bind("/usr", "/box"), bind("/bin", "/box/deep/inside")};
  auto planned = plan(spec);
  REQUIRE(planned.ok());
  CHECK(planned.value()->text().find("make_dir box/deep") == std::string::npos);
  CHECK(planned.value()->text().find("bind /bin box/deep/inside ro confined\n") != std::string::npos);
}

TEST_CASE("a file of ours is refused below a shared directory") {
  SandboxSpec spec = small_spec();
  spec.fs = {bind("/usr", "/box"), FileOp{"/box/x", "y"}};
  auto planned = plan(spec);
  REQUIRE_FALSE(planned.ok());
  CHECK(planned.error().text().find("'/box/x'") != std::string::npos);
}

TEST_CASE("a target behind one of our own links is looked up confined") {
  SandboxSpec spec = small_spec();
  spec.fs = {SymlinkOp{"/lib", "usr/lib"}, bind("/usr", "/lib/x")};
  auto planned = plan(spec);
  REQUIRE(planned.ok());
  CHECK(planned.value()->text().find("bind /usr lib/x ro confined\n") != std::string::npos);
}

TEST_CASE("a missing source is an error that names it and its origin, unless it is optional") {
  SandboxSpec spec = small_spec();
  BindOp missing = bind("/no/such/place", "/data");
  missing.origin = "flag --mount";
  spec.fs = {missing};
  auto planned = plan(spec);
  REQUIRE_FALSE(planned.ok());
  CHECK(planned.error().kind() == ErrorKind::usage);
  CHECK(planned.error().text() ==
        "flag --mount: cannot share '/no/such/place': No such file or directory (ENOENT)");
  missing.optional = true;
  spec.fs = {missing};
  CHECK(plan(spec).ok());
}

TEST_CASE("relative and empty PATH entries are never searched") {
  auto planned = plan(small_spec());
  REQUIRE(planned.ok());
  const ns::ChildPlan& child = planned.value()->plan;
  CHECK(std::string(child.candidates[0]) == "/usr/bin/true");
  CHECK(std::string(child.candidates[1]) == "/bin/true");
  CHECK(child.candidates[2] == nullptr);
}

TEST_CASE("core dumps are off even for a piped core pattern, and init is not counted among the payload's pids") {
  SandboxSpec spec = small_spec();
  spec.limits.pids = 10;
  auto planned = plan(spec);
  REQUIRE(planned.ok());
  const ns::ChildPlan& child = planned.value()->plan;
  bool core = false, pids = false;
  for (uint32_t i = 0; i < child.rlimit_count; ++i) {
    core |= child.rlimits[i].resource == 4 && child.rlimits[i].value == 1;   // RLIMIT_CORE
    pids |= child.rlimits[i].resource == 6 && child.rlimits[i].value == 11;  // RLIMIT_NPROC
  }
  CHECK(core);
  CHECK(pids);
}

TEST_CASE("a fraction of a CPU is refused with the way out") {
  SandboxSpec spec = small_spec();
  spec.limits.cpus_milli = 1500;
  spec.origins["limits.cpus"] = "flag --cpus";
  auto planned = plan(spec);
  REQUIRE_FALSE(planned.ok());
  CHECK(planned.error().kind() == ErrorKind::unsupported);
  CHECK(planned.error().hint().find("--cpus 2") != std::string::npos);
}

TEST_CASE("an unknown capability is named") {
  SandboxSpec spec = small_spec();
  spec.hardening.keep_capabilities = {"cap_fly"};
  auto planned = plan(spec);
  REQUIRE_FALSE(planned.ok());
  CHECK(planned.error().text().find("cap_fly") != std::string::npos);
}

TEST_CASE("proc forbids user namespaces before its sysctls become read-only") {
  SandboxSpec spec = small_spec();
  spec.fs = {DevOp{}, ProcOp{}};
  auto planned = plan(spec);
  REQUIRE(planned.ok());
  const std::string text = planned.value()->text();
  const size_t write = text.find("write_to proc/sys/user/max_user_namespaces");
  const size_t mask = text.find("clone_bind proc/sys ro");
  REQUIRE(write != std::string::npos);
  REQUIRE(mask != std::string::npos);
  CHECK(write < mask);
  spec.hardening.nested_userns = true;
  CHECK(plan(spec).value()->text().find("max_user_namespaces") == std::string::npos);
}

TEST_CASE("an overlay's changes lie on the private file system and its special characters are escaped") {
  SandboxSpec spec = small_spec();
  OverlayOp overlay;
  overlay.lower = "/usr";
  overlay.target = "/a:b,c";
  spec.fs = {overlay};
  ns::PlanOptions options;
  options.keep = {"/a:b,c"};
  auto planned = plan(spec, options);
  REQUIRE(planned.ok());
  CHECK(planned.value()->text().find("lowerdir=a\\:b\\,c,upperdir=/proc/0,workdir=/proc/1,userxattr") != std::string::npos);
  REQUIRE(planned.value()->keep_slots.size() == 1);
  CHECK(planned.value()->keep_slots[0] == 1);
}

TEST_CASE("Landlock decides about what its ABI knows and nothing else: an unknown right would be refused by the kernel") {
  CHECK(ns::landlock_handled_rights(1) == 0x1fff);
  CHECK(ns::landlock_handled_rights(2) == 0x3fff);
  CHECK(ns::landlock_handled_rights(4) == 0x7fff);
  CHECK(ns::landlock_handled_rights(7) == 0xffff);
  CHECK(ns::landlock_handled_rights(9) == 0x1ffff);  // sockets by path
}
