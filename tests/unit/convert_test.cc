#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "policy/account.h"
#include "policy/bwrap/policy_file.h"
#include "policy/bwrap/write.h"
#include "policy/kafel/kafel.h"
#include "policy/loader.h"
#include "policy/native/write.h"
#include "policy/nsjail/lower.h"
#include "policy/nsjail/read.h"
#include "policy/nsjail/write.h"
#include "policy/resolve.h"

using namespace sbx;

namespace {

constexpr const char* kRich =
    "[sandbox]\nhostname = \"box\"\nuid = 1234\ngid = 99\nnew_session = false\nipc_namespace = false\n"
    "[fs]\nread_only_root = false\n"
    "[env.set]\nTZ = \"UTC\"\nQUOTES = \"it's \\\"so\\\" \\\\ $HOME\"\nLANG = \"C\"\n"
    "[limits]\ntime = \"90s\"\ncpu_time = \"30s\"\nmemory = \"512M\"\npids = 17\ncpus = 1.5\ndisk = \"64M\"\ninodes = 4096\n"
    "file_size = \"none\"\nopen_files = 99\noutput = \"1M\"\n"
    "[net]\nmode = \"host\"\n"
    "[hardening]\nnested_userns = true\nproc = \"processes\"\ncapabilities = [\"cap_net_bind_service\"]\n"
    "[[fs.mount]]\nsource = \"/srv/data\"\ntarget = \"/data\"\n"
    "[[fs.mount]]\nsource = \"/srv/out\"\nmode = \"rw\"\noptional = true\nno_exec = true\n"
    "[[fs.mount]]\ntype = \"private\"\ntarget = \"/scratch\"\n"
    "[[fs.mount]]\ntype = \"overlay\"\nsource = \"/srv/tree\"\ntarget = \"/tree\"\n";

PolicyLayer parsed(const std::string& text) {
  Result<PolicyLayer> layer = parse_native_toml(text, "p.toml");
  REQUIRE_MESSAGE(layer.ok(), layer.error().text() << "\n" << text);
  return layer.take();
}

SandboxSpec resolved(std::vector<PolicyLayer> layers) {
  PolicyLayer base = load_policy("default", {}).take();
  for (const PolicyLayer& layer : layers)
    if (layer.whole_view) bwrap::make_base(base, {.uid = 1000, .gid = 1000});
  layers.insert(layers.begin(), std::move(base));
  ResolveInput input;
  input.argv = {"true"};
  input.exec_path = "true";
  input.allow_sensitive_mount = true;
  Result<SandboxSpec> spec = resolve(layers, HostFacts{}, input);
  REQUIRE_MESSAGE(spec.ok(), spec.error().text());
  return spec.take();
}

// What two specs say, whoever said it.
SandboxSpec bare(SandboxSpec spec) {
  spec.origins.clear();
  for (FsOp& op : spec.fs) {
    if (auto* bind = std::get_if<BindOp>(&op)) bind->origin.clear();
    if (auto* overlay = std::get_if<OverlayOp>(&op)) overlay->origin.clear();
  }
  for (SyscallRule& rule : spec.seccomp.rules.rules) rule.origin.clear();
  return spec;
}

bool says(const WrittenPolicy& written, const std::string& what) {
  return std::any_of(written.unsaid.begin(), written.unsaid.end(), [&](const Unsaid& unsaid) { return unsaid.what.find(what) != std::string::npos; });
}

}  // namespace

TEST_CASE("a native policy written as a native policy resolves to the same") {
  const SandboxSpec base = resolved({});
  CHECK(native::write(base, {.base = base}).text == "# Written by sbx policy convert.\n");
  for (const std::string& text : {
           std::string(kRich),
           std::string("[seccomp]\npolicy = \"strict\"\n"),
           std::string("[seccomp]\ndeny = [\"getpid\"]\n[[seccomp.rule]]\ncalls = [\"socket\", \"bind\"]\n"
                       "when = [{ arg = 0, bits = 32, one_of = [16, 17] }, { arg = 1, mask = 15, not_equals = 3 }, { arg = 2, above = 4 }]\nanswer = \"EACCES\"\n"),
       }) {
    CAPTURE(text);
    const SandboxSpec spec = resolved({parsed(text)});
    const WrittenPolicy written = native::write(spec, {.base = base});
    CAPTURE(written.text);
    CHECK(written.unsaid.empty());
    SandboxSpec again = bare(resolved({parsed(written.text)}));
    SandboxSpec before = bare(spec);
    // deny lists have a group to name, rules have none.
    for (SandboxSpec* each : {&again, &before})
      for (SyscallRule& rule : each->seccomp.rules.rules) rule.group.clear();
    CHECK(again == before);
  }
}

TEST_CASE("Kafel in a native policy stays Kafel") {
  const SandboxSpec base = resolved({});
  const SandboxSpec spec = resolved({parsed("[seccomp]\nkafel = 'TRAP(3) { read { fd == 1 || fd == count } } DEFAULT ALLOW'\n[limits]\npids = 3\n")});
  const WrittenPolicy written = native::write(spec, {.base = base});
  CHECK(written.unsaid.empty());
  CHECK(written.text.find("TRAP(3) {\n  read { fd == 1 }, read { fd == count }\n}\nDEFAULT ALLOW\n'''") != std::string::npos);
  CHECK(bare(resolved({parsed(written.text)})) == bare(spec));
}

TEST_CASE("a native policy written for bwrap and read again has the same view, identity and environment") {
  const SandboxSpec base = resolved({});
  const SandboxSpec spec = resolved({parsed(kRich)});
  const WrittenPolicy written = bwrap::write(spec, {.base = base});
  CAPTURE(written.text);
  ParsedPolicy read = bwrap::read_policy(written.text, "p.bwrap", {.uid = 1000, .gid = 1000});
  REQUIRE_MESSAGE(read.mistakes.empty(), read.mistakes.front().text());
  const SandboxSpec again = resolved({std::move(read.layer)});
  CHECK(again.identity == spec.identity);
  CHECK(again.environment == spec.environment);
  CHECK(again.net == spec.net);
  CHECK(again.namespaces.ipc == spec.namespaces.ipc);
  CHECK(again.namespaces.cgroup == spec.namespaces.cgroup);
  CHECK(again.hostname == spec.hostname);
  CHECK(again.new_session == spec.new_session);
  CHECK(again.read_only_root == spec.read_only_root);
  CHECK(again.hardening.keep_capabilities == spec.hardening.keep_capabilities);
  // Each operation that bwrap has, in order; contents are from descriptors there, and no_exec is not.
  std::vector<std::string> wanted;
  for (const FsOp& op : spec.fs) {
    if (std::holds_alternative<FileOp>(op) || is_of_sbx(op)) continue;
    wanted.push_back(std::visit([](const auto& each) { return each.target; }, op));
  }
  std::vector<std::string> got;
  for (const FsOp& op : again.fs) got.push_back(std::visit([](const auto& each) { return each.target; }, op));
  for (const std::string& target : wanted) CHECK(std::count(got.begin(), got.end(), target) >= 1);
  CHECK(says(written, "limits.memory 512M: bwrap limits nothing"));
  CHECK(says(written, "no_exec of '/srv/out'"));
  CHECK(says(written, "/etc/passwd"));
  const auto memory = std::find_if(written.unsaid.begin(), written.unsaid.end(), [](const Unsaid& each) { return each.what.find("limits.memory") == 0; });
  REQUIRE(memory != written.unsaid.end());
  CHECK(memory->origin == "p.toml:16:1");
}

TEST_CASE("a bwrap file written as a native policy says what of the view is different") {
  const SandboxSpec base = resolved({});
  ParsedPolicy read = bwrap::read_policy("--ro-bind /srv/tools /srv/tools --bind /srv/out /out --unshare-net --clearenv --setenv A b --dir /empty", "p.bwrap", {.uid = 1000, .gid = 1000});
  REQUIRE(read.mistakes.empty());
  const WrittenPolicy written = native::write(resolved({std::move(read.layer)}), {.base = base});
  CAPTURE(written.text);
  CHECK(written.text.find("source = \"/srv/tools\"\n") != std::string::npos);
  CHECK(written.text.find("source = \"/srv/out\"\ntarget = \"/out\"\nmode = \"rw\"\n") != std::string::npos);
  CHECK(written.text.find("\"A\" = \"b\"") != std::string::npos);
  CHECK(says(written, "'/empty': a directory"));
  CHECK(says(written, "a native policy always shows sbx's own places"));
  CHECK(says(written, "without the variable HOME"));
  (void)resolved({parsed(written.text)});
}

TEST_CASE("a native policy written for nsjail: fields, whole units, a filter in Kafel") {
  const SandboxSpec base = resolved({});
  SandboxSpec spec = resolved({parsed(std::string(kRich) + "[seccomp]\npolicy = \"judge\"\n")});
  spec.fs.push_back(FileOp{"/etc/x", std::string("a\"\n\0\xff", 5), 0644});
  const WrittenPolicy written = nsjail::write(spec, {.base = base, .passed = {"TZ"}});
  CAPTURE(written.text);
  for (const char* line : {"hostname: \"box\"\n", "clone_newnet: false\n", "clone_newipc: false\n", "uidmap { inside_id: \"1234\" }\n", "gidmap { inside_id: \"99\" }\n",
                           "skip_setsid: true\n", "cap: \"CAP_NET_BIND_SERVICE\"\n", "envar: \"TZ\"\n", "envar: \"QUOTES=it's \\\"so\\\" \\\\ $HOME\"\n",
                           "time_limit: 90\n", "rlimit_cpu: 30\n", "rlimit_fsize_type: INF\n", "rlimit_nofile: 99\n", "cgroup_mem_max: 536870912\n",
                           "cgroup_pids_max: 17\n", "cgroup_cpu_ms_per_sec: 1500\n",
                           "mount { src: \"/srv/data\" dst: \"/data\" is_bind: true nosuid: true nodev: true }\n",
                           "mount { src: \"/srv/out\" dst: \"/srv/out\" is_bind: true rw: true mandatory: false nosuid: true nodev: true noexec: true }\n",
                           "mount { dst: \"/etc/x\" src_content: \"a\\\"\\n\\000\\377\" }\n"}) {
    CAPTURE(line);
    CHECK(written.text.find(line) != std::string::npos);
  }
  CHECK(says(written, "'/tree' as an overlay: nsjail has none"));
  CHECK(says(written, "limits.output 1M"));
  // The lines of the filter are Kafel, and decide as the policy.
  std::string kafel;
  size_t at = 0;
  while ((at = written.text.find("seccomp_string: \"", at)) != std::string::npos) {
    at += 17;
    kafel += written.text.substr(at, written.text.find("\"\n", at) - at) + "\n";
  }
  const Result<SyscallRules> rules = kafel::compile(kafel);
  REQUIRE_MESSAGE(rules.ok(), rules.error().text());
  const SyscallRules shipped = rules_of(spec.seccomp).take();
  for (const char* call : {"read", "flock", "ptrace", "openat", "socket"}) {
    const uint64_t none[6] = {};
    CHECK(decide_call(rules.value(), call, none).action == (decide_call(shipped, call, none).action == SyscallAction::notify ? SyscallAction::errno_value : decide_call(shipped, call, none).action));
  }
}

TEST_CASE("a native policy written for nsjail and read again resolves to the same, but for what was said to be lost") {
  const SandboxSpec base = resolved({});
  for (const std::string& text : {std::string(kRich), std::string(kRich) + "[seccomp]\npolicy = \"judge\"\n", std::string("[seccomp]\nkafel = 'ERRNO(7) { getpid } DEFAULT ALLOW'\n"),
                                  std::string("[sandbox]\ncgroup_namespace = false\n[limits]\ntime = \"none\"\nopen_files = \"none\"\n")}) {
    CAPTURE(text);
    const SandboxSpec spec = resolved({parsed(text)});
    const WrittenPolicy written = nsjail::write(spec, {.base = base});
    CAPTURE(written.text);
    Result<nsjail::Config> config = nsjail::parse_config(written.text, "p.cfg");
    REQUIRE_MESSAGE(config.ok(), config.error().text());
    nsjail::LowerInput input;
    input.name = "p.cfg";
    input.directory = "/";
    nsjail::Lowered lowered = nsjail::to_policy(config.value(), input);
    for (const Error& mistake : lowered.mistakes) FAIL_CHECK(mistake.text());
    for (const Error& mistake : lowered.wrong) FAIL_CHECK(mistake.text());
    const SandboxSpec again = resolved({std::move(lowered.layer)});
    CHECK(again.identity == spec.identity);
    CHECK(again.environment == spec.environment);
    CHECK(again.net == spec.net);
    CHECK(again.namespaces.ipc == spec.namespaces.ipc);
    CHECK(again.namespaces.uts == spec.namespaces.uts);
    CHECK(again.namespaces.cgroup == spec.namespaces.cgroup);
    CHECK(again.hostname == spec.hostname);
    CHECK(again.new_session == spec.new_session);
    CHECK(again.working_directory == spec.working_directory);
    CHECK(again.hardening.keep_capabilities == spec.hardening.keep_capabilities);
    CHECK(again.limits.wall == spec.limits.wall);
    CHECK(again.limits.cpu_time == spec.limits.cpu_time);
    CHECK(again.limits.memory == spec.limits.memory);
    CHECK(again.limits.pids == spec.limits.pids);
    CHECK(again.limits.cpus_milli == spec.limits.cpus_milli);
    CHECK(again.limits.file_size == spec.limits.file_size);
    CHECK(again.limits.open_files == spec.limits.open_files);
    // Each place, with the way it is shown; those of sbx itself come from sbx.
    const auto lines = [](const SandboxSpec& of) {
      std::vector<std::string> shown;
      for (const FsOp& op : of.fs) {
        if (const auto* bind = std::get_if<BindOp>(&op)) shown.push_back(bind->source + " at " + bind->target + (bind->read_only ? " ro" : " rw") + (bind->no_exec ? " no_exec" : "") + (bind->optional ? " optional" : ""));
        if (const auto* link = std::get_if<SymlinkOp>(&op)) shown.push_back(link->target + " -> " + link->text);
        if (const auto* file = std::get_if<FileOp>(&op)) shown.push_back(file->target + " = " + file->content);
      }
      std::sort(shown.begin(), shown.end());
      return shown;
    };
    CHECK(lines(again) == lines(spec));
    // The filter decides as before; what is reported there is refused here.
    const SyscallRules before = rules_of(spec.seccomp).take(), after = rules_of(again.seccomp).take();
    const uint64_t none[6] = {};
    const uint64_t some[6] = {2, 1, 0x5412, 0, 0, 0};
    for (const SyscallRule& rule : before.rules) {
      for (const uint64_t(*arguments)[6] : {&none, &some}) {
        const auto was = decide_call(before, rule.name, *arguments), is = decide_call(after, rule.name, *arguments);
        CAPTURE(rule.name);
        CHECK(is.action == (was.action == SyscallAction::notify ? SyscallAction::errno_value : was.action));
      }
    }
    for (const Unsaid& unsaid : written.unsaid) CHECK(unsaid.what.find("hostname") == std::string::npos);
  }
}
