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
    // rules: the reader of system call policies has its own tests
    {"[[seccomp.rule]]\ncalls = [\"bpf\"]\n", "p.toml:1:1", "answer", ""},
    {"[[seccomp.rule]]\ncals = [\"bpf\"]\n", "p.toml:2:1", "cals", "did you mean \"calls\"?"},
    {"[seccomp]\nrule = 1\n", "p.toml:2:8", "seccomp.rule is a list of tables", "[[seccomp.rule]]"},
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

TEST_CASE("a system call rule has calls, tests and an answer") {
  const Result<PolicyLayer> layer = parse_native_toml(
      "[[seccomp.rule]]\n"
      "calls = [\"socket\"]\n"
      "when = [{ arg = 0, bits = 32, equals = 16 }]\n"
      "answer = \"EACCES\"\n",
      "p.toml");
  REQUIRE_MESSAGE(layer.ok(), layer.error().text());
  REQUIRE(layer.value().syscall_rules.size() == 1);
  const SyscallRule& rule = layer.value().syscall_rules.front();
  CHECK(rule.name == "socket");
  CHECK(rule.verdict == SyscallVerdict{SyscallAction::errno_value, 13});
  CHECK(rule.tests.size() == 1);
  CHECK(rule.origin == "p.toml:1:1");
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
