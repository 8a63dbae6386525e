#include <doctest/doctest.h>

#include "policy/loader.h"

using namespace sbx;

namespace {

struct BadCase {
  const char* text;
  const char* origin;
  const char* message;  // a part of it
  const char* hint;     // a part of it
};

const BadCase kBad[] = {
    // unknown keys
    {"[limits]\nmemroy = \"1G\"\n", "p.toml:2:1", "unknown key \"limits.memroy\"", "did you mean \"limits.memory\"?"},
    {"memory = \"1G\"\n", "p.toml:1:1", "unknown key \"memory\"", "did you mean \"limits.memory\"?"},
    {"[limit]\nmemory = \"1G\"\n", "p.toml:1:2", "unknown key \"limit\"", "did you mean \"limits\"?"},
    {"[sandbox]\nzzzzzzzz = 1\n", "p.toml:2:1", "unknown key \"sandbox.zzzzzzzz\"", "sbx policy show default"},
    {"[[fs.mount]]\nsource = \"/a\"\ntraget = \"/b\"\n", "p.toml:3:1", "unknown key \"traget\"", "did you mean \"target\"?"},
    {"[[seccomp.rule]]\ncall = [\"a\"]\n", "p.toml:2:1", "unknown key \"call\"", "did you mean \"calls\"?"},
    // wrong types
    {"[limits]\nmemory = true\n", "p.toml:2:10", "limits.memory takes a size, such as \"1G\", or \"none\"; this is a boolean",
     "write memory = \"1G\""},
    {"[limits]\npids = \"many\"\n", "p.toml:2:8", "limits.pids takes a whole number", "write pids = 256"},
    {"[limits]\ntime = [1]\n", "p.toml:2:8", "this is an array", "write time = \"60s\""},
    {"[limits]\nmemory = \"5X\"\n", "p.toml:2:10", "5X", "write memory = \"1G\""},
    {"[limits]\nmemory = \"1M\"\n", "p.toml:2:10", "at least 16M", "write 16M or more, or none"},
    {"[limits]\nmemory = 1024\n", "p.toml:2:10", "at least 16M", "write 16M or more, or none"},
    {"[limits]\nmemory = 1.5\n", "p.toml:2:10", "this is a decimal number", "write memory"},
    {"[limits]\npids = -1\n", "p.toml:2:8", "cannot be negative", ""},
    {"[limits]\ntime = -1\n", "p.toml:2:8", "no duration", ""},
    {"[limits]\ntime = nan\n", "p.toml:2:8", "no duration", ""},
    {"[limits]\ndisk = \"none\"\n", "p.toml:2:8", "none", ""},
    {"[net]\nmode = \"hots\"\n", "p.toml:2:8", "is no value of net.mode", "did you mean \"host\"?"},
    {"[env]\nset = { A = 1 }\n", "p.toml:2:13", "the value of \"A\" is no text", "quotes"},
    {"[env]\npass = [1]\n", "p.toml:2:9", "list of texts", ""},
    {"limits = 3\n", "p.toml:1:10", "\"limits\" is a section", "write [limits]"},
    {"[hardening]\nno_new_privs = false\n", "p.toml:2:16", "cannot be switched off", ""},
    {"[sandbox]\nhostname = \"a\\nb\"\n", "p.toml:2:12", "is no host name", "letters"},
    {"[env.set]\n\"A=B\" = \"x\"\n", "p.toml:1:1", "no name of an environment variable", ""},
    // mounts
    {"[[fs.mount]]\ntarget = \"/b\"\n", "p.toml:1:1", "without a source", "write source"},
    {"[[fs.mount]]\nsource = \"data\"\n", "p.toml:2:10", "is not absolute", "whole path"},
    {"[[fs.mount]]\nsource = \"/a\"\nmode = \"wr\"\n", "p.toml:3:8", "no mode of a mount", "\"rw\""},
    {"[[fs.mount]]\nsource = \"/a\"\ntype = \"tmpfs\"\n", "p.toml:3:8", "no type of a mount", "\"private\""},
    {"[[fs.mount]]\ntype = \"private\"\nsource = \"/a\"\ntarget = \"/b\"\n", "p.toml:3:1", "private mount has no source", ""},
    {"[[fs.mount]]\ntype = \"overlay\"\nsource = \"/a\"\nmode = \"rw\"\n", "p.toml:4:1", "overlay mount has no mode", ""},
    {"[fs]\nmount = 1\n", "p.toml:2:9", "fs.mount is a list of tables", "[[fs.mount]]"},
    // rules
    {"[[seccomp.rule]]\ncalls = [\"a\"]\n", "p.toml:1:1", "needs calls and action", "action"},
    {"[[seccomp.rule]]\ncalls = [\"a\"]\naction = \"alow\"\n", "p.toml:3:10", "is no action", "\"allow\""},
    {"[[seccomp.rule]]\ncalls = [\"a\"]\naction = \"errno\"\n", "p.toml:3:10", "needs an errno", "ENOSYS"},
    {"[[seccomp.rule]]\ncalls = [\"a\"]\naction = \"errno\"\nerrno = \"EWHAT\"\n", "p.toml:4:9", "errno", "EPERM"},
    {"[[seccomp.rule]]\ncalls = [\"a\"]\naction = \"allow\"\nargs = [{ index = 6, value = 1 }]\n", "p.toml:4:19",
     "arguments 0 to 5", ""},
    {"[[seccomp.rule]]\ncalls = [\"a b\"]\naction = \"allow\"\n", "p.toml:2:9", "no name of a system call", ""},
    // no TOML at all
    {"[limits\n", "p.toml:1:8", "", ""},
};

}  // namespace

TEST_CASE("a policy text becomes a layer with typed values and their places") {
  const Result<PolicyLayer> layer = parse_native_toml(
      "[limits]\n"
      "time = 1.5\n"
      "memory = \"512M\"\n"
      "disk = 67108864\n"
      "cpus = 1.5\n"
      "output = \"none\"\n"
      "[env.set]\n"
      "A = \"1\"\n"
      "[net]\n"
      "mode = \"host\"\n",
      "dir/p.toml");
  REQUIRE_MESSAGE(layer.ok(), layer.error().text());
  const auto& values = layer.value().values;
  CHECK(values.at("limits.time") == LayerValue{Millis{1500}, "dir/p.toml:2:1"});
  CHECK(values.at("limits.memory") == LayerValue{Bytes{512ull << 20}, "dir/p.toml:3:1"});
  CHECK(values.at("limits.disk").value == KeyValue(Bytes{64ull << 20}));
  CHECK(values.at("limits.cpus").value == KeyValue(uint64_t{1500}));
  CHECK(values.at("limits.output").value == KeyValue(Unlimited{}));
  CHECK(values.at("env.set").value == KeyValue(std::map<std::string, std::string>{{"A", "1"}}));
  CHECK(values.at("net.mode").origin == "dir/p.toml:10:1");
  CHECK(values.size() == 7);
  CHECK_FALSE(layer.value().may_only_tighten);
}

TEST_CASE("values of a text that is no file carry its name as their origin") {
  const Result<PolicyLayer> layer = parse_native_toml("[net]\nmode = \"none\"\n", "default policy");
  REQUIRE(layer.ok());
  CHECK(layer.value().values.at("net.mode").origin == "default policy");
}

TEST_CASE("mounts keep their order and say what is shared how") {
  const Result<PolicyLayer> layer = parse_native_toml(
      "[[fs.mount]]\nsource = \"/srv/data/\"\ntarget = \"/data\"\n"
      "[[fs.mount]]\nsource = \"/srv/out\"\nmode = \"rw\"\nno_exec = true\noptional = true\n"
      "[[fs.mount]]\ntype = \"overlay\"\nsource = \"/srv/tree\"\n"
      "[[fs.mount]]\ntype = \"private\"\ntarget = \"/scratch\"\n",
      "p.toml");
  REQUIRE_MESSAGE(layer.ok(), layer.error().text());
  const std::vector<FsOp> want = {
      BindOp{.source = "/srv/data", .target = "/data", .idmap = true, .origin = "p.toml:1:1"},
      BindOp{.source = "/srv/out",
             .target = "/srv/out",
             .read_only = false,
             .no_exec = true,
             .idmap = true,
             .optional = true,
             .origin = "p.toml:4:1"},
      OverlayOp{.lower = "/srv/tree", .target = "/srv/tree", .origin = "p.toml:9:1"},
      PrivateDirOp{.target = "/scratch"},
  };
  CHECK(layer.value().mounts == want);
}

TEST_CASE("a system call rule has calls, an action and argument tests") {
  const Result<PolicyLayer> layer = parse_native_toml(
      "[[seccomp.rule]]\n"
      "calls = [\"socket\", \"@network-io\"]\n"
      "action = \"errno\"\n"
      "errno = \"EACCES\"\n"
      "args = [{ index = 0, value = 16, low32 = true }, { index = 1, op = \"any\", mask = 0xff }]\n",
      "p.toml");
  REQUIRE_MESSAGE(layer.ok(), layer.error().text());
  SyscallRule rule;
  rule.name = "socket";
  rule.verdict = {SyscallAction::errno_value, 13};
  rule.tests = {ArgumentTest{.index = 0, .op = ArgumentTest::Op::equal, .value = 16, .low32 = true},
                ArgumentTest{.index = 1, .op = ArgumentTest::Op::any_bit, .mask = 0xff}};
  rule.origin = "p.toml:1:1";
  SyscallRule second = rule;
  second.name = "@network-io";
  CHECK(layer.value().syscall_rules == std::vector<SyscallRule>{rule, second});
}

TEST_CASE("a policy text that is wrong is refused with its place, the reason and a way out") {
  for (const BadCase& bad : kBad) {
    CAPTURE(bad.text);
    const Result<PolicyLayer> layer = parse_native_toml(bad.text, "p.toml");
    REQUIRE_FALSE(layer.ok());
    CAPTURE(layer.error().text());
    CAPTURE(layer.error().hint());
    CHECK(layer.error().kind() == ErrorKind::policy);
    CHECK(layer.error().origin() == bad.origin);
    CHECK(layer.error().text().find(bad.message) != std::string::npos);
    CHECK(layer.error().hint().find(bad.hint) != std::string::npos);
  }
}
