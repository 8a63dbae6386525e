#include <doctest/doctest.h>

#include <set>

#include "policy/layer.h"
#include "policy/reference.h"

#include "base/sys.h"

using namespace sbx;

namespace {

struct TextCase {
  const char* path;
  const char* text;
  KeyValue want;
};

const TextCase kGood[] = {
    {"limits.memory", "512M", Bytes{512ull << 20}},
    {"limits.memory", "none", Unlimited{}},
    {"limits.memory", "16777216", Bytes{16777216}},
    {"limits.time", "10", Millis{10000}},
    {"limits.time", "1.5s", Millis{1500}},
    {"limits.time", "none", Unlimited{}},
    {"limits.pids", "1", uint64_t{1}},
    {"limits.cpus", "1.5", uint64_t{1500}},
    {"limits.cpus", "2", uint64_t{2000}},
    {"limits.cpus", "0.25", uint64_t{250}},
    {"net.mode", "host", std::string("host")},
    {"sandbox.hostname", "a-b.c", std::string("a-b.c")},
    {"hardening.landlock", "false", false},
    {"seccomp.allow", "io_uring_setup", std::vector<std::string>{"io_uring_setup"}},
    {"env.set", "A=b=c", std::map<std::string, std::string>{{"A", "b=c"}}},
};

struct BadCase {
  const char* path;
  const char* text;
  const char* message;  // a part of it
  const char* hint;     // a part of it
};

const BadCase kBad[] = {
    {"limits.memory", "5X", "5X", "for example --memory 1G"},
    {"limits.memory", "", "", "for example --memory 1G"},
    {"limits.memory", "-1", "-1", "for example --memory 1G"},
    {"limits.memory", "1M", "1M is too small for limits.memory, at least 16M is needed", "write 16M or more, or none"},
    {"limits.memory", "1048577G", "too large for limits.memory", "or less"},
    {"limits.time", "0", "0", "for example --time 60s"},
    {"limits.time", "1000h1", "1000h1", "--time"},
    {"limits.time", "9000h", "too large for limits.time", "or none"},
    {"limits.pids", "0", "0 is too small for limits.pids, at least 1", "write 1 or more"},
    {"limits.pids", "many", "many", "for example --pids 256"},
    {"limits.cpus", "1.", "no number", "for example --cpus 1.5"},
    {"limits.cpus", "0", "0 is too small for limits.cpus, at least 0.01", "write 0.01 or more"},
    {"limits.disk", "none", "none", "for example --disk 384M"},
    {"limits.disk", "1K", "too small for limits.disk, at least 1M", "write 1M or more"},
    {"limits.inodes", "3", "too small for limits.inodes, at least 64", "64"},
    {"limits.open_files", "3", "too small for limits.open_files, at least 8", "8"},
    {"limits.open_files", "9999999", "too large for limits.open_files", "1048576"},
    {"limits.file_size", "0", "too small for limits.file_size", "or more"},
    {"limits.output", "0", "too small for limits.output", "or more"},
    {"limits.compile_time", "x", "x", "--compile-time 60s"},
    {"limits.compile_memory", "1", "too small for limits.compile_memory", "16M"},
    {"sandbox.uid", "4294967295", "too large for sandbox.uid", "4294967294"},
    {"sandbox.hostname", "two words", "is no host name", "letters"},
    {"sandbox.hostname", "line\nbreak", "is no host name", "letters"},
    {"sandbox.hostname", "", "is no host name", "letters"},
    {"net.mode", "hots", "is no value of net.mode", "did you mean \"host\"?"},
    {"net.mode", "zzzzzz", "is no value of net.mode", "\"none\" or \"host\""},
    {"hardening.landlock", "yes", "neither true nor false", "hardening.landlock true"},
    {"hardening.no_new_privs", "false", "cannot be switched off", "leave the key out"},
    {"hardening.capabilities", "cap_net_bind_servic", "is no capability", "did you mean \"cap_net_bind_service\"?"},
    {"seccomp.policy", "../x", "is no name", "letters"},
    {"seccomp.allow", "open at", "no name of a system call", "@network-io"},
    {"env.set", "novalue", "NAME=VALUE", ""},
    {"env.pass", "A=b", "no name of an environment variable", "'='"},
    {"limits.memroy", "1G", "unknown key \"limits.memroy\"", ""},
};

}  // namespace

TEST_CASE("every key stands once in the table, in a section, with a documented example") {
  std::set<std::string> paths;
  std::set<std::string> flags;
  for (const KeyRow& row : key_table()) {
    CAPTURE(row.path);
    CHECK(paths.insert(row.path).second);
    CHECK(std::string(row.path).find('.') != std::string::npos);
    CHECK(std::string(row.doc).size() > 10);
    CHECK(std::string(row.example).size() > 0);
    CHECK((row.flag == nullptr) == (row.metavar == nullptr));
    if (row.flag != nullptr) CHECK(flags.insert(row.flag).second);
    CHECK((row.type == KeyType::choice) == !row.choices.empty());
    CHECK(find_key(row.path) == &row);
  }
  CHECK(find_key("limits") == nullptr);
  CHECK(find_key("") == nullptr);
}

TEST_CASE("text of a command line sets a key with its type") {
  for (const TextCase& good : kGood) {
    CAPTURE(good.path);
    CAPTURE(good.text);
    PolicyLayer layer;
    const Status status = set_from_text(layer, good.path, good.text, "flag --x");
    REQUIRE_MESSAGE(status.ok(), status.error().text());
    CHECK(layer.values.at(good.path).value == good.want);
    CHECK(layer.values.at(good.path).origin == "flag --x");
  }
}

TEST_CASE("text that a key does not take is refused with the origin, the reason and a way out") {
  for (const BadCase& bad : kBad) {
    CAPTURE(bad.path);
    CAPTURE(bad.text);
    PolicyLayer layer;
    const Status status = set_from_text(layer, bad.path, bad.text, "flag --x");
    REQUIRE_FALSE(status.ok());
    CAPTURE(status.error().text());
    CAPTURE(status.error().hint());
    CHECK(status.error().kind() == ErrorKind::usage);
    CHECK(status.error().origin() == "flag --x");
    CHECK(status.error().text().find("flag --x: ") == 0);
    CHECK(status.error().text().find(bad.message) != std::string::npos);
    CHECK(status.error().hint().find(bad.hint) != std::string::npos);
    CHECK(layer.values.empty());
  }
}

TEST_CASE("a value that is no flag's is a policy error") {
  PolicyLayer layer;
  CHECK(set_from_text(layer, "limits.pids", "0", "x.toml:1:1").error().kind() == ErrorKind::policy);
}

TEST_CASE("a repeated flag adds to a list and a map, and replaces anything else") {
  PolicyLayer layer;
  REQUIRE(set_from_text(layer, "seccomp.allow", "bpf", "flag --allow-syscall").ok());
  REQUIRE(set_from_text(layer, "seccomp.allow", "@network-io", "flag --allow-syscall").ok());
  REQUIRE(set_from_text(layer, "env.set", "A=1", "flag --env").ok());
  REQUIRE(set_from_text(layer, "env.set", "B=2", "flag --env").ok());
  REQUIRE(set_from_text(layer, "limits.pids", "3", "flag --pids").ok());
  REQUIRE(set_from_text(layer, "limits.pids", "4", "flag --pids").ok());
  CHECK(layer.values.at("seccomp.allow").value == KeyValue(std::vector<std::string>{"bpf", "@network-io"}));
  CHECK(layer.values.at("env.set").value == KeyValue(std::map<std::string, std::string>{{"A", "1"}, {"B", "2"}}));
  CHECK(layer.values.at("limits.pids").value == KeyValue(uint64_t{4}));
}

TEST_CASE("values are written as people write them") {
  CHECK(format_value(*find_key("limits.memory"), Bytes{384ull << 20}) == "384M");
  CHECK(format_value(*find_key("limits.memory"), Unlimited{}) == "none");
  CHECK(format_value(*find_key("limits.cpus"), uint64_t{1500}) == "1.5");
  CHECK(format_value(*find_key("limits.cpus"), uint64_t{2050}) == "2.05");
  CHECK(format_value(*find_key("limits.time"), Millis{60000}) == "60s");
  CHECK(format_value(*find_key("env.set"), std::map<std::string, std::string>{{"A", "1"}, {"B", "2"}}) == "A=1, B=2");
}

TEST_CASE("the key reference in docs is the one that the table writes") {
  const Result<std::string> file = read_file(std::string(SBX_SOURCE_DIR) + "/docs/policy-keys.md");
  REQUIRE(file.ok());
  CHECK_MESSAGE(file.value() == key_reference_markdown(),
                "docs/policy-keys.md is stale: write key_reference_markdown() to it");
}
