// The review of risks and the account of what a payload may do, over specs that no disk and no kernel took part in.
#include <doctest/doctest.h>

#include <sys/stat.h>

#include <algorithm>

#include "base/sys.h"
#include "policy/account.h"
#include "policy/dialect.h"
#include "policy/loader.h"
#include "policy/resolve.h"
#include "policy/review.h"
#include "../user_facts.h"

using namespace sbx;

namespace {

SandboxSpec spec_of(const std::string& toml, bool sensitive = true) {
  std::vector<PolicyLayer> layers = {load_policy("default", {}).take()};
  Result<PolicyLayer> layer = parse_native_toml(toml, "p.toml");
  REQUIRE_MESSAGE(layer.ok(), layer.error().text());
  layers.push_back(layer.take());
  ResolveInput input;
  input.allow_sensitive_mount = sensitive;
  Result<SandboxSpec> spec = resolve(layers, facts_of_a_user(), input);
  REQUIRE_MESSAGE(spec.ok(), spec.error().text());
  return spec.take();
}

std::vector<Risk> risks_of(const SandboxSpec& spec, const ReviewInput& input = {}) {
  Result<std::vector<Risk>> risks = review(spec, facts_of_a_user(), input);
  REQUIRE_MESSAGE(risks.ok(), risks.error().text());
  return risks.take();
}

// "high host-network, low inside-root": what a policy opens beyond the default.
std::string found(const SandboxSpec& spec, const ReviewInput& input = {}) {
  std::string text;
  for (const Risk& risk : risks_of(spec, input)) text += (text.empty() ? "" : ", ") + (std::string(risk_severity_name(risk.severity)) + " " + risk.name);
  return text;
}
std::string found(const std::string& toml) { return found(spec_of(toml)); }

std::string mount(const std::string& source, const std::string& more = "") {
  return "[[fs.mount]]\nsource = \"" + source + "\"\ntarget = \"/m\"\n" + more;
}

}  // namespace

TEST_CASE("the shipped policies have no risk but the one that a name announces") {
  for (const std::string name : {"default", "strict", "judge", "build", "network"}) {
    std::vector<PolicyLayer> layers = {load_policy("default", {}).take(), load_policy(name, {}).take()};
    const Result<SandboxSpec> spec = resolve(layers, facts_of_a_user(), {});
    REQUIRE(spec.ok());
    CHECK_MESSAGE(found(spec.value()) == (name == "network" ? "high host-network" : ""), name);
  }
}

TEST_CASE("each opening has its risk, with the place that opened it") {
  CHECK(found("net.mode = \"host\"") == "high host-network");
  CHECK(found("hardening.nested_userns = true") == "high nested-namespaces");
  CHECK(found("hardening.capabilities = [\"cap_net_bind_service\", \"cap_sys_admin\"]") == "high capabilities, low capabilities");
  CHECK(found("sandbox.ipc_namespace = false") == "medium host-ipc");
  CHECK(found("sandbox.uts_namespace = false\nsandbox.cgroup_namespace = false") == "low host-name, low host-cgroups");
  CHECK(found("hardening.landlock = false") == "low no-landlock");
  CHECK(found("fs.read_only_root = false") == "low writable-root");
  CHECK(found("sandbox.uid = 0") == "low inside-root");
  CHECK(found("limits.memory = \"none\"") == "medium no-memory-limit");
  CHECK(found("limits.pids = \"none\"") == "medium no-process-limit");
  CHECK(found("limits.time = \"none\"") == "medium no-time-limit");
  CHECK(found("limits.time = \"none\"\nlimits.cpu_time = 5") == "low no-time-limit");
  CHECK(found("limits.output = \"none\"") == "medium no-output-limit");
  CHECK(found("env.set = { GITHUB_TOKEN = \"x\" }") == "medium secret-variable");
  CHECK(found("env.set = { TZ = \"UTC\", TOKENIZERS_PARALLELISM = \"x\" }") == "");
  CHECK(found("env.set = { PGPASSWORD = \"x\" }") == "medium secret-variable");
  const std::vector<Risk> risks = risks_of(spec_of("\nlimits.pids = \"none\""));
  REQUIRE(risks.size() == 1);
  CHECK(risks[0].origin == "p.toml:2:8");
  CHECK(risks[0].fix == "limits.pids = 256");
}

TEST_CASE("mounts are judged by what they are and by who may write") {
  CHECK(found(mount("/srv/data")) == "");
  CHECK(found(mount("/srv/data", "mode = \"rw\"")) == "medium writable-share, low no-disk-limit");
  CHECK(found(mount("/srv/data", "type = \"overlay\"")) == "");
  CHECK(found(mount("/")) == "high whole-host");
  CHECK(found(mount("/home/user")) == "high home");
  CHECK(found(mount("/home")) == "high home");
  CHECK(found(mount("/home/user/.ssh")) == "high credentials");
  CHECK(found(mount("/etc/shadow")) == "high credentials");
  CHECK(found(mount("/etc")) == "high system-settings");
  CHECK(found(mount("/run/docker.sock")) == "high control-socket");
  CHECK(found(mount("/dev/sda")) == "high device");
  CHECK(found(mount("/tmp")) == "high control-socket");
  CHECK(found(mount("/usr/local", "mode = \"rw\"")) == "high writable-system");
  CHECK(found(mount("/usr/share/x")) == "");
  CHECK(found(mount("/home/user/.local/bin", "mode = \"rw\"")) == "high trusted-places");
  CHECK(found(mount("/home/user/.local", "mode = \"rw\"")).find("high") == 0);
  CHECK(found(mount("/home/user/project", "mode = \"rw\"")) == "medium writable-share, low no-disk-limit");
}

TEST_CASE("a socket and a device are known by their mode, whatever their name") {
  SandboxSpec spec = spec_of("");
  spec.fs.push_back(BindOp{.source = "/srv/agent", .target = "/agent", .source_mode = S_IFSOCK | 0666, .origin = "flag --mount"});
  CHECK(found(spec) == "high control-socket");
  std::get<BindOp>(spec.fs.back()).source_mode = S_IFBLK | 0660;
  CHECK(found(spec) == "high device");
}

TEST_CASE("a writable workspace whose trusted places are guarded is another matter than one without") {
  SandboxSpec spec = spec_of("");
  spec.fs.push_back(BindOp{.source = "/srv/w", .target = "/box", .read_only = false, .origin = "flag --workspace"});
  ReviewInput guarded;
  guarded.guarded = {"/box"};
  CHECK(found(spec, guarded) == "low no-disk-limit");
  CHECK(found(spec) == "high sensitive-writes, low no-disk-limit");
}

TEST_CASE("calls that a filter should not let through are found by their arguments") {
  CHECK(found("seccomp.allow = [\"io_uring_setup\"]") == "high io-uring");
  CHECK(found("seccomp.allow = [\"@kernel-code\"]") == "high kernel-code, high kernel-code, high kernel-code, high kernel-code");
  CHECK(found("seccomp.allow = [\"ptrace\"]") == "low debugging");
  CHECK(found("seccomp.allow = [\"socket\"]") == "");  // keeps the tests of its group
  CHECK(found("[[seccomp.rule]]\ncalls = [\"socket\"]\nanswer = \"allow\"").find("medium socket-families") == 0);
  CHECK(found("[[seccomp.rule]]\ncalls = [\"socket\"]\nwhen = [{ arg = 0, bits = 32, equals = 40 }]\nanswer = \"allow\"") ==
        "medium socket-families");
  CHECK(found("seccomp.allow = [\"ptrace\"]\nseccomp.deny = [\"ptrace\"]") == "");
}

TEST_CASE("the terminal is open when nothing stands between: neither session nor filter") {
  CHECK(found("sandbox.new_session = false") == "");
  CHECK(found("sandbox.new_session = false\n[[seccomp.rule]]\ncalls = [\"ioctl\"]\nanswer = \"allow\"") == "high terminal-injection");
  CHECK(found("[[seccomp.rule]]\ncalls = [\"ioctl\"]\nanswer = \"allow\"") == "");
  SandboxSpec spec = spec_of("sandbox.new_session = false");
  spec.seccomp.enabled = false;
  CHECK(found(spec) == "high terminal-injection, high no-filter");
}

TEST_CASE("the worst stands first, and every name is known to scripts") {
  const std::vector<Risk> risks = risks_of(spec_of("sandbox.uid = 0\nlimits.pids = \"none\"\nnet.mode = \"host\"\nseccomp.allow = [\"keyctl\"]"));
  REQUIRE(risks.size() == 4);
  CHECK(std::is_sorted(risks.begin(), risks.end(), [](const Risk& a, const Risk& b) { return a.severity > b.severity; }));
  const std::vector<std::string> names = risk_names();
  for (const Risk& risk : risks) CHECK(std::find(names.begin(), names.end(), risk.name) != names.end());
  for (const Risk& risk : risks) CHECK(!risk.fix.empty());
}

TEST_CASE("the account tells apart what is private, shared and refused") {
  const SandboxSpec spec = spec_of(mount("/srv/data") + "[[fs.mount]]\nsource = \"/srv/tree\"\ntype = \"overlay\"\n[seccomp]\ndeny = [\"@network-io\"]");
  const Result<Account> account = account_of(spec);
  REQUIRE(account.ok());
  const Account& a = account.value();
  REQUIRE(a.shared.size() == 2);
  CHECK(a.shared[0].source == "/srv/data");
  CHECK(a.shared[0].how == SharedPlace::How::read_only);
  CHECK(a.shared[1].how == SharedPlace::How::overlay);
  CHECK(a.private_places == std::vector<std::string>{"/tmp", "/dev/shm", "/home/sandbox", "/box"});
  CHECK(std::find(a.groups_refused.begin(), a.groups_refused.end(), "network-io") != a.groups_refused.end());
  CHECK(std::find(a.groups_allowed.begin(), a.groups_allowed.end(), "basic-io") != a.groups_allowed.end());
  CHECK(a.calls_allowed > 100);
  CHECK(a.calls_allowed < a.calls_known);
}

TEST_CASE("a call is decided by the first rule that holds, as the filter does") {
  const Result<SyscallRules> rules = rules_of(SeccompSpec{});
  REQUIRE(rules.ok());
  const uint64_t push[6] = {0, 0x5412, 0, 0, 0, 0};
  const uint64_t high_half[6] = {0, 0x100005412, 0, 0, 0, 0};
  const uint64_t size[6] = {0, 0x5413, 0, 0, 0, 0};
  CHECK(decide_call(rules.value(), "ioctl", push).action != SyscallAction::allow);
  CHECK(decide_call(rules.value(), "ioctl", high_half).action != SyscallAction::allow);
  CHECK(decide_call(rules.value(), "ioctl", size).action == SyscallAction::allow);
  CHECK(may_be_called(rules.value(), "clone"));
  CHECK(!may_be_called(rules.value(), "ptrace"));
}

TEST_CASE("the dialect comes from --dialect, else from the extension") {
  CHECK(choose_dialect("strict", "").value() == Dialect::native);
  CHECK(choose_dialect("./x.toml", "").value() == Dialect::native);
  CHECK(choose_dialect("./x.cfg", "").value() == Dialect::nsjail);
  CHECK(choose_dialect("x.json", "").value() == Dialect::nsjail);
  CHECK(choose_dialect("./x.bwrap", "").value() == Dialect::bwrap);
  CHECK(choose_dialect("x.args", "").value() == Dialect::bwrap);
  CHECK(choose_dialect("./x.toml", "bwrap").value() == Dialect::bwrap);
  CHECK(choose_dialect("./x.cfg", "native").value() == Dialect::native);
  CHECK(choose_dialect("x", "nativ").error().text().find("did you mean 'native'") != std::string::npos);
}

TEST_CASE("a policy is read to its end: every mistake is named") {
  const ParsedPolicy parsed = parse_whole_native_toml("[limits]\nmemroy = 1\ntime = \"5 parsecs\"\npids = 7\n[nett]\nmode = 1\n", "p.toml");
  REQUIRE(parsed.mistakes.size() == 3);
  CHECK(parsed.mistakes[0].text() == "p.toml:2:1: unknown key \"limits.memroy\"");
  CHECK(parsed.mistakes[1].text().find("p.toml:3:8") == 0);
  CHECK(parsed.mistakes[2].hint() == "did you mean \"net\"?");
  CHECK(parsed.layer.values.contains("limits.pids"));
}

TEST_CASE("docs/policy.md lists every risk") {
  const std::string page = read_file(std::string(SBX_SOURCE_DIR) + "/docs/policy.md").value();
  for (const std::string& name : risk_names()) CHECK_MESSAGE(page.find("`" + name + "`") != std::string::npos, name);
}
