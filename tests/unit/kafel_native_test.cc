#include <doctest/doctest.h>

#include <string>

#include "policy/account.h"
#include "policy/loader.h"
#include "policy/resolve.h"
#include "temp_dir.h"

using namespace sbx;

namespace {

PolicyLayer default_layer() { return load_policy("default", {}).take(); }

PolicyLayer parsed(const std::string& text, const std::string& name = "p.toml") {
  Result<PolicyLayer> layer = parse_native_toml(text, name);
  REQUIRE_MESSAGE(layer.ok(), layer.error().text());
  return layer.take();
}
std::string error_of(const std::string& text) {
  Result<PolicyLayer> layer = parse_native_toml(text, "p.toml");
  REQUIRE_FALSE(layer.ok());
  return layer.error().text();
}

Result<SandboxSpec> resolved(std::vector<PolicyLayer> layers, bool compile_step = false) {
  layers.insert(layers.begin(), default_layer());
  ResolveInput input;
  input.argv = {"true"};
  input.exec_path = "true";
  input.compile_step = compile_step;
  return resolve(layers, HostFacts{}, input);
}
SeccompSpec seccomp_of(std::vector<PolicyLayer> layers, bool compile_step = false) {
  Result<SandboxSpec> spec = resolved(std::move(layers), compile_step);
  REQUIRE_MESSAGE(spec.ok(), spec.error().text());
  return spec.value().seccomp;
}
PolicyLayer flag(const char* path, const char* text) {
  PolicyLayer layer;
  layer.name = "command line";
  REQUIRE(set_from_text(layer, path, text, "flag --x").ok());
  return layer;
}
SyscallAction decides(const SeccompSpec& seccomp, const std::string& call, uint64_t first = 0) {
  return decide_call(seccomp.rules, call, {first, 0, 0, 0, 0, 0}).action;
}

constexpr const char* kKafel = "[seccomp]\nkafel = 'KILL { ptrace } ERRNO(7) { read { fd == 5 } } DEFAULT ALLOW'\n";

}  // namespace

TEST_CASE("seccomp.kafel is the policy: what it says nothing of is its DEFAULT's") {
  const SeccompSpec seccomp = seccomp_of({parsed(kKafel)});
  CHECK(seccomp.builtin.empty());
  CHECK(seccomp.policy == "kafel");
  CHECK(decides(seccomp, "ptrace") == SyscallAction::kill_thread);
  CHECK(decides(seccomp, "read", 5) == SyscallAction::errno_value);
  CHECK(decides(seccomp, "read", 4) == SyscallAction::allow);
  CHECK(decides(seccomp, "add_key") == SyscallAction::allow);
  CHECK(!seccomp.rules.unknown);
  CHECK(seccomp.rules.rules[0].origin == "p.toml:2:17");
}

TEST_CASE("what earlier layers say of system calls is replaced by Kafel, what later ones say stands before it") {
  const PolicyLayer deny = parsed("[seccomp]\ndeny = [\"getpid\"]\n[[seccomp.rule]]\ncalls = [\"gettid\"]\nanswer = \"EACCES\"\n");
  const SeccompSpec after = seccomp_of({deny, parsed(kKafel)});
  CHECK(decides(after, "getpid") == SyscallAction::allow);
  CHECK(decides(after, "gettid") == SyscallAction::allow);
  const SeccompSpec before = seccomp_of({parsed(kKafel), deny});
  CHECK(decides(before, "getpid") == SyscallAction::notify);
  CHECK(decides(before, "gettid") == SyscallAction::errno_value);
  CHECK(decides(before, "ptrace") == SyscallAction::kill_thread);
  const SeccompSpec same = seccomp_of({parsed(std::string(kKafel) + "allow = [\"ptrace\"]\n")});
  CHECK(decides(same, "ptrace") == SyscallAction::allow);
  // Namespaces are Kafel's to allow, whatever nested_userns says.
  const SeccompSpec nested = seccomp_of({parsed("[seccomp]\nkafel = 'KILL { clone } DEFAULT ALLOW'\n[hardening]\nnested_userns = true\n")});
  CHECK(decides(nested, "clone") == SyscallAction::kill_thread);
}

TEST_CASE("the last of seccomp.policy and seccomp.kafel counts") {
  CHECK(seccomp_of({parsed(kKafel), flag("seccomp.policy", "strict")}).builtin == "strict");
  CHECK(seccomp_of({parsed("[seccomp]\npolicy = \"strict\"\n"), parsed(kKafel)}).policy == "kafel");
  CHECK(seccomp_of({parsed(kKafel), parsed("[seccomp]\nkafel = \"none\"\n")}).builtin == "default");
  // Two in one text are a mistake.
  CHECK(error_of(std::string(kKafel) + "policy = \"strict\"\n") == "p.toml:3:1: seccomp.policy and seccomp.kafel exclude each other");
  CHECK(error_of(std::string(kKafel) + "kafel_file = \"x\"\n") == "p.toml:3:1: seccomp.kafel and seccomp.kafel_file exclude each other");
  // The compile step has the policy that compilers need.
  CHECK(seccomp_of({parsed(kKafel)}, true).builtin == "build");
  // What is shown says which one is in force.
  const auto merged = merge_layers(std::vector<PolicyLayer>{default_layer(), parsed(kKafel), flag("seccomp.policy", "strict")}).take();
  CHECK(merged.at("seccomp.kafel") == LayerValue{KeyValue(Unlimited{}), "flag --x"});
}

TEST_CASE("mistakes in seccomp.kafel are named where they are in the document") {
  CHECK(error_of("[seccomp]\nkafel = 'KILL { ptrce } DEFAULT ALLOW'\n") == "p.toml:2:17: there is no system call \"ptrce\"");
  CHECK(error_of("[seccomp]\n  kafel = '''KILL { x }'''\n") == "p.toml:2:21: there is no system call \"x\"");
  CHECK(error_of("[seccomp]\nkafel = '''\n// all\n  KILL { x }\n'''\n") == "p.toml:4:10: there is no system call \"x\"");
  CHECK(error_of("[seccomp]\nkafel = \"\"\"\\\n  KILL { x }\"\"\"\n") == "p.toml:2:9: Kafel 1:8: there is no system call \"x\"");
  CHECK(error_of("[seccomp]\nkafel = \"KILL\\t{ x }\"\n") == "p.toml:2:9: Kafel 1:8: there is no system call \"x\"");
  CHECK(error_of("seccomp = { kafel = 'KILL { x }' }\n") == "p.toml:1:29: there is no system call \"x\"");
  CHECK(error_of("[seccomp]\nkafel = ''\n") == "p.toml:2:9: seccomp.kafel is empty");
  CHECK(error_of("[seccomp]\nkafel = 3\n").find("seccomp.kafel takes a text") != std::string::npos);
}

TEST_CASE("seccomp.kafel_file is read from beside the policy, with its own lines in messages") {
  const TempDir dir;
  dir.write("p.toml", "[seccomp]\nkafel_file = \"rules.kafel\"\n");
  const auto load = [&](const PolicySearch& search = {}) { return load_policy(dir.at("p.toml"), search); };
  CHECK(load().error().text().find("rules.kafel") != std::string::npos);
  dir.write("rules.kafel", "ERRNO(1) { getpid }\nDEFAULT ALLOW\n");
  CHECK(decides(seccomp_of({load().take()}), "getpid") == SyscallAction::errno_value);
  dir.write("rules.kafel", "ERRNO(1) { getpid }\n DEFAULT ALOW\n");
  CHECK(load().error().text() == dir.at("rules.kafel") + ":2:10: expected an action such as ALLOW, found \"ALOW\"");
  dir.write("rules.kafel", std::string((1 << 20) + 1, ' '));
  CHECK_FALSE(load().ok());
  // A text without a place of its own has nothing to be beside.
  const Result<SandboxSpec> loose = resolved({parsed("[seccomp]\nkafel_file = \"rules.kafel\"\n")});
  REQUIRE_FALSE(loose.ok());
  CHECK(loose.error().text() == "p.toml:2:1: seccomp.kafel_file stands in a policy that is no file of its own");
}

TEST_CASE("a shared workspace brings no Kafel and replaces none") {
  const TempDir dir;
  const PolicySearch inside{.config_directory = "", .workspace = dir.path()};
  dir.write("p.toml", kKafel);
  const Result<SandboxSpec> own = resolved({load_policy(dir.at("p.toml"), inside).take()});
  REQUIRE_FALSE(own.ok());
  CHECK(own.error().text().find("seccomp.kafel replaces the policy of system calls") != std::string::npos);
  // The payload could have written the file.
  const TempDir outside;
  dir.write("rules.kafel", "DEFAULT ALLOW");
  outside.write("p.toml", "[seccomp]\nkafel_file = \"" + dir.at("rules.kafel") + "\"\n");
  CHECK(load_policy(outside.at("p.toml"), {}).ok());
  CHECK(load_policy(outside.at("p.toml"), inside).error().text().find("lies in the shared workspace") != std::string::npos);
  // A shipped policy may be looser than the Kafel that it would replace.
  dir.write("p.toml", "[seccomp]\npolicy = \"strict\"\n");
  const PolicyLayer strict = load_policy(dir.at("p.toml"), inside).take();
  CHECK(resolved({strict}).ok());
  CHECK_FALSE(resolved({parsed(kKafel), strict}).ok());
}
