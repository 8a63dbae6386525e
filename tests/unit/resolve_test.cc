#include <doctest/doctest.h>

#include <sys/stat.h>

#include <algorithm>

#include "policy/loader.h"
#include "policy/resolve.h"
#include "policy/syscall_groups.h"

using namespace sbx;

namespace {

HostFacts user_facts() {
  HostFacts facts;
  facts.uid = 1001;
  facts.gid = 1001;
  facts.landlock_abi = 6;
  facts.home = "/home/user";
  facts.other_homes = {"/home/user", "/home/other", "/srv/people/third", "/var/lib/service", "/usr/sbin", "/"};
  return facts;
}

PolicyLayer default_layer() {
  Result<PolicyLayer> layer = load_policy("default", {});
  REQUIRE_MESSAGE(layer.ok(), layer.error().text());
  return layer.take();
}

PolicyLayer parsed(const std::string& text, const std::string& name = "p.toml") {
  Result<PolicyLayer> layer = parse_native_toml(text, name);
  REQUIRE_MESSAGE(layer.ok(), layer.error().text());
  return layer.take();
}

PolicyLayer flags(std::initializer_list<std::pair<const char*, const char*>> settings) {
  PolicyLayer layer;
  layer.name = "command line";
  for (const auto& [path, text] : settings) {
    const KeyRow* row = find_key(path);
    REQUIRE(row != nullptr);
    const Status status =
        set_from_text(layer, path, text, std::string("flag ") + (row->flag != nullptr ? row->flag : "--env"));
    REQUIRE_MESSAGE(status.ok(), status.error().text());
  }
  return layer;
}

Result<SandboxSpec> resolve_with(std::vector<PolicyLayer> more, const ResolveInput& input = {}) {
  std::vector<PolicyLayer> layers = {default_layer()};
  for (PolicyLayer& layer : more) layers.push_back(std::move(layer));
  return resolve(layers, user_facts(), input);
}

SandboxSpec spec_with(std::vector<PolicyLayer> more, const ResolveInput& input = {}) {
  Result<SandboxSpec> spec = resolve_with(std::move(more), input);
  REQUIRE_MESSAGE(spec.ok(), spec.error().text());
  return spec.take();
}

bool has_variable(const SandboxSpec& spec, const std::string& variable) {
  return std::find(spec.environment.begin(), spec.environment.end(), variable) != spec.environment.end();
}

std::string content_of(const SandboxSpec& spec, const std::string& target) {
  for (const FsOp& op : spec.fs)
    if (const auto* file = std::get_if<FileOp>(&op); file != nullptr && file->target == target) return file->content;
  return "(none)";
}

PolicyLayer tightening(const std::string& text) {
  PolicyLayer layer = parsed(text, "/ws/p.toml");
  layer.may_only_tighten = true;
  return layer;
}

}  // namespace

TEST_CASE("the default policy resolves to the documented limits, identity and isolation") {
  const SandboxSpec spec = spec_with({});
  Limits limits;
  limits.wall = Millis{60000};
  limits.memory = Bytes{1ull << 30};
  limits.pids = 256;
  limits.disk = Bytes{384ull << 20};
  limits.inodes = 100000;
  limits.file_size = Bytes{256ull << 20};
  limits.open_files = 1024;
  limits.output = Bytes{64ull << 20};
  CHECK(spec.limits == limits);
  CHECK(spec.identity == Identity{1000, 1000});
  CHECK(spec.namespaces == Namespaces{});
  CHECK(spec.net == NetMode::none);
  CHECK(spec.hostname == "sandbox");
  CHECK(spec.read_only_root);
  CHECK(spec.new_session);
  CHECK(spec.hardening == Hardening{});
  CHECK(spec.seccomp == SeccompSpec{});
  CHECK(spec.working_directory == "/box");
  CHECK(spec.environment == std::vector<std::string>{
                                "HOME=/home/sandbox", "LANG=C.UTF-8", "LOGNAME=sandbox",
                                "PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin", "USER=sandbox"});
  CHECK(spec.writable_paths == std::vector<std::string>{"/box", "/dev", "/dev/shm", "/home/sandbox", "/proc", "/tmp"});
  CHECK(spec.origins.at("limits.memory") == "default policy");
  CHECK_FALSE(has_writable_host_directory(spec));
}

TEST_CASE("files are put up in order: manifest, made files, devices, private places, mounts, the caller's own") {
  ResolveInput input;
  input.rootfs = {BindOp{.source = "/usr", .target = "/usr"}};
  input.extra = {BindOp{.source = "/ws", .target = "/box", .origin = "flag --workspace"}};
  input.private_box = false;
  const SandboxSpec spec = spec_with({parsed("[[fs.mount]]\nsource = \"/srv/a\"\n")}, input);
  std::vector<std::string> targets;
  for (const FsOp& op : spec.fs) targets.push_back(std::visit([](const auto& each) { return each.target; }, op));
  CHECK(targets == std::vector<std::string>{"/usr", "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/hostname",
                                            "/etc/nsswitch.conf", "/etc/resolv.conf", "/dev", "/proc", "/tmp",
                                            "/dev/shm", "/home/sandbox", "/run/sbx", "/var/tmp", "/var/run", "/srv/a",
                                            "/box"});
}

TEST_CASE("later layers win, and each value says where it came from") {
  const SandboxSpec spec = spec_with({parsed("[limits]\nmemory = \"2G\"\npids = 7\n"),
                                      flags({{"limits.pids", "9"}, {"limits.time", "none"}})});
  CHECK(spec.limits.memory == Bytes{2ull << 30});
  CHECK(spec.limits.pids == 9);
  CHECK_FALSE(spec.limits.wall.has_value());
  CHECK(spec.origins.at("limits.memory") == "p.toml:2:1");
  CHECK(spec.origins.at("limits.pids") == "flag --pids");
  CHECK(spec.origins.at("limits.disk") == "default policy");
}

TEST_CASE("a key that no layer sets is an error") {
  const PolicyLayer layer = parsed("[net]\nmode = \"none\"\n");
  const Result<SandboxSpec> spec = resolve(std::vector<PolicyLayer>{layer}, user_facts(), {});
  REQUIRE_FALSE(spec.ok());
  CHECK(spec.error().text().find("no policy has a value for") != std::string::npos);
}

TEST_CASE("disk at or above memory is refused with the reason and two ways out") {
  const Result<SandboxSpec> flag = resolve_with({flags({{"limits.disk", "1G"}})});
  REQUIRE_FALSE(flag.ok());
  CHECK(flag.error().kind() == ErrorKind::usage);
  CHECK(flag.error().text() ==
        "flag --disk: limits.disk 1G is not below limits.memory 1G (default policy): private files are kept in memory "
        "and count against it");
  CHECK(flag.error().hint() == "add --memory 2G, or --disk 512M");
  const Result<SandboxSpec> file = resolve_with({parsed("[limits]\ndisk = \"2G\"\n")});
  REQUIRE_FALSE(file.ok());
  CHECK(file.error().kind() == ErrorKind::policy);
  CHECK(file.error().origin() == "p.toml:2:1");
  CHECK(resolve_with({flags({{"limits.disk", "2G"}, {"limits.memory", "none"}})}).ok());
}

TEST_CASE("the shipped disk limit gives way to a smaller memory limit, and says so") {
  const SandboxSpec spec = spec_with({flags({{"limits.memory", "64M"}})});
  CHECK(spec.limits.disk == Bytes{24ull << 20});
  CHECK(spec.origins.at("limits.disk") == "default policy, lowered to 3/8 of limits.memory (flag --memory)");

  // What is shown of the layers says the same.
  std::map<std::string, LayerValue> merged = {{"limits.memory", {KeyValue(Bytes{64ull << 20}), "flag --memory"}},
                                              {"limits.disk", {KeyValue(Bytes{384ull << 20}), "default policy"}}};
  lower_disk(merged);
  CHECK(std::get<Bytes>(merged["limits.disk"].value) == spec.limits.disk);
  CHECK(merged["limits.disk"].origin == spec.origins.at("limits.disk"));
  merged["limits.disk"] = {KeyValue(Bytes{384ull << 20}), "flag --disk"};
  lower_disk(merged);
  CHECK(std::get<Bytes>(merged["limits.disk"].value) == Bytes{384ull << 20});
}

TEST_CASE("the compile step has its own time and memory, and no limit of CPU time") {
  ResolveInput input;
  input.compile_step = true;
  const SandboxSpec spec =
      spec_with({flags({{"limits.cpu_time", "1s"}, {"limits.compile_memory", "512M"}, {"limits.disk", "600M"},
                        {"limits.compile_time", "5s"}})},
                input);
  CHECK(spec.limits.wall == Millis{5000});
  CHECK(spec.limits.memory == Bytes{512ull << 20});
  CHECK(spec.limits.disk == Bytes{192ull << 20});
  CHECK_FALSE(spec.limits.cpu_time.has_value());
  CHECK(spec.origins.at("limits.time") == "flag --compile-time");
  CHECK(spec.origins.at("limits.memory") == "flag --compile-memory");
}

TEST_CASE("the compile step keeps the calls that compilers need, whatever the program may call") {
  ResolveInput input;
  input.compile_step = true;
  CHECK(spec_with({load_policy("strict", {}).take()}, input).seccomp.builtin == "build");
  CHECK(spec_with({load_policy("strict", {}).take()}).seccomp.builtin == "strict");
}

TEST_CASE("every shipped policy resolves on top of the default") {
  for (const std::string& name : policy_names({})) {
    CAPTURE(name);
    const SandboxSpec spec = spec_with({load_policy(name, {}).take()});
    CHECK(spec.limits.disk < *spec.limits.memory);
    CHECK(spec.seccomp.builtin == name);
  }
}

TEST_CASE("environment: the default below the runner, every other policy above, the toolchain first on PATH") {
  ResolveInput input;
  input.environment = {{"LANG", "de_DE.UTF-8"}, {"RUNNER", "1"}, {"A", "runner"}};
  input.path_prepend = {"/opt/tool/bin", "/usr/bin"};
  input.caller_environment = {{"TERM", "xterm"}, {"SECRET", "x"}};
  const SandboxSpec spec =
      spec_with({parsed("[env]\npass = [\"TERM\", \"ABSENT\"]\n[env.set]\nA = \"policy\"\nB = \"1\"\n"),
                 flags({{"env.set", "B=2"}})},
                input);
  CHECK(spec.environment == std::vector<std::string>{
                                "A=policy", "B=2", "HOME=/home/sandbox", "LANG=de_DE.UTF-8", "LOGNAME=sandbox",
                                "PATH=/opt/tool/bin:/usr/bin:/usr/local/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
                                "RUNNER=1", "TERM=xterm", "USER=sandbox"});
}

TEST_CASE("a PATH of the command line is taken as it is") {
  ResolveInput input;
  input.path_prepend = {"/opt/tool/bin"};
  CHECK(has_variable(spec_with({flags({{"env.set", "PATH=/x"}})}, input), "PATH=/x"));
}

TEST_CASE("the made files follow identity, host name and network") {
  const SandboxSpec plain = spec_with({flags({{"sandbox.hostname", "box1"}, {"sandbox.uid", "5"}, {"sandbox.gid", "6"}})});
  CHECK(content_of(plain, "/etc/passwd").find("sandbox:x:5:6:sandbox:/home/sandbox:/bin/sh\n") != std::string::npos);
  CHECK(content_of(plain, "/etc/group").find("sandbox:x:6:\n") != std::string::npos);
  CHECK(content_of(plain, "/etc/hosts").find("127.0.0.1 localhost box1\n") == 0);
  CHECK(content_of(plain, "/etc/hostname") == "box1\n");
  CHECK(content_of(plain, "/etc/resolv.conf").empty());

  const SandboxSpec root = spec_with({flags({{"sandbox.uid", "0"}, {"sandbox.gid", "0"}})});
  CHECK(content_of(root, "/etc/passwd").find("root:x:0:0:root:/home/sandbox:/bin/sh\n") == 0);
  CHECK(has_variable(root, "USER=root"));

  ResolveInput input;
  input.resolv_conf = "/run/resolver/stub.conf";
  const SandboxSpec net = spec_with({flags({{"net.mode", "host"}})}, input);
  CHECK(net.net == NetMode::host);
  CHECK(content_of(net, "/etc/resolv.conf") == "(none)");
  const FsOp want = BindOp{.source = "/run/resolver/stub.conf",
                           .target = "/etc/resolv.conf",
                           .optional = true,
                           .origin = "flag --net"};
  CHECK(std::find(net.fs.begin(), net.fs.end(), want) != net.fs.end());
}

TEST_CASE("writable mounts and overlays are writable places") {
  ResolveInput input;
  input.private_box = false;
  input.extra = {OverlayOp{.lower = "/ws", .target = "/box", .origin = ""}};
  const SandboxSpec spec = spec_with(
      {parsed("[[fs.mount]]\nsource = \"/srv/a\"\nmode = \"rw\"\n[[fs.mount]]\ntype = \"private\"\ntarget = \"/scratch\"\n")},
      input);
  for (const char* path : {"/srv/a", "/scratch", "/box"})
    CHECK(std::count(spec.writable_paths.begin(), spec.writable_paths.end(), path) == 1);
  CHECK(has_writable_host_directory(spec));
}

TEST_CASE("system calls: a shipped policy stays a name, changes come in front of its rules, the latest first") {
  CHECK(spec_with({}).seccomp.builtin == "default");
  CHECK(spec_with({}).seccomp.rules.rules.empty());
  const SandboxSpec spec = spec_with({parsed("[seccomp]\ndeny = [\"ptrace\"]\nallow = [\"ptrace\", \"bpf\"]\n"),
                                      flags({{"seccomp.allow", "ptrace"}})});
  CHECK(spec.seccomp.builtin.empty());
  REQUIRE(spec.seccomp.rules.rules.size() > 4);
  const auto& rules = spec.seccomp.rules.rules;
  CHECK(rules[0].name == "ptrace");
  CHECK(rules[0].verdict.action == SyscallAction::allow);
  CHECK(rules[0].origin == "flag --allow-syscall");
  CHECK(rules[1].name == "ptrace");
  CHECK(rules[1].verdict.action == SyscallAction::notify);
  CHECK(rules[1].origin == "p.toml:2:1");
  CHECK(rules[2].name == "ptrace");
  CHECK(rules[3].name == "bpf");
  CHECK(rules[3].origin == "p.toml:3:1");
  const SyscallRules shipped = builtin_syscall_rules("default").take();
  REQUIRE(rules.size() == shipped.rules.size() + 4);
  CHECK(std::vector<SyscallRule>(rules.begin() + 4, rules.end()) == shipped.rules);
  CHECK(spec.seccomp.rules.otherwise == shipped.otherwise);
  CHECK(spec.seccomp.rules.unknown == shipped.unknown);

  const SandboxSpec group = spec_with({flags({{"seccomp.deny", "@network-io"}})});
  CHECK(group.seccomp.rules.rules[0].group == "network-io");
  CHECK(group.seccomp.rules.rules[0].verdict.action == SyscallAction::notify);

  const Result<SandboxSpec> unknown = resolve_with({flags({{"seccomp.deny", "@netwrok-io"}})});
  REQUIRE_FALSE(unknown.ok());
  CHECK(unknown.error().kind() == ErrorKind::usage);
  CHECK(unknown.error().origin() == "flag --deny-syscall");
  const Result<SandboxSpec> no_policy = resolve_with({flags({{"seccomp.policy", "defualt"}})});
  REQUIRE_FALSE(no_policy.ok());
  CHECK(no_policy.error().origin() == "flag --seccomp");
  CHECK_FALSE(resolve_with({flags({{"seccomp.policy", "groups"}})}).ok());
}

TEST_CASE("a call allowed by name keeps the argument tests of its group, a rule lifts them") {
  const SandboxSpec tested = spec_with({flags({{"seccomp.allow", "clone"}})});
  CHECK(tested.seccomp.rules.rules[0].name == "clone");
  CHECK_FALSE(tested.seccomp.rules.rules[0].tests.empty());
  const SandboxSpec lifted = spec_with({parsed("[[seccomp.rule]]\ncalls = [\"clone\"]\nanswer = \"allow\"\n")});
  CHECK(lifted.seccomp.rules.rules[0].name == "clone");
  CHECK(lifted.seccomp.rules.rules[0].tests.empty());
}

TEST_CASE("nested user namespaces open the calls that make them, below what policies say") {
  const SandboxSpec spec =
      spec_with({parsed("[hardening]\nnested_userns = true\n[seccomp]\ndeny = [\"setns\"]\n")});
  CHECK(spec.hardening.nested_userns);
  CHECK(spec.seccomp.builtin.empty());
  REQUIRE(spec.seccomp.rules.rules.size() > 3);
  CHECK(spec.seccomp.rules.rules[0].name == "setns");
  CHECK(spec.seccomp.rules.rules[0].verdict.action == SyscallAction::notify);
  CHECK(spec.seccomp.rules.rules[1].name == "clone");
  CHECK(spec.seccomp.rules.rules[1].verdict.action == SyscallAction::allow);
}

TEST_CASE("a policy that may only tighten is refused where it loosens") {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"[limits]\nmemory = \"2G\"\n", "limits.memory = 2G loosens the policy, which has 1G (default policy)"},
      {"[limits]\ntime = \"none\"\n", "limits.time = none loosens the policy, which has 60s"},
      {"[limits]\npids = 257\n", "limits.pids"},
      {"[limits]\nopen_files = 2048\n", "limits.open_files"},
      {"[limits]\ncompile_time = \"2m\"\n", "limits.compile_time"},
      {"[net]\nmode = \"host\"\n", "net.mode = host"},
      {"[env]\npass = [\"AWS_SECRET_ACCESS_KEY\"]\n", "env.pass"},
      {"[seccomp]\nallow = [\"bpf\"]\n", "seccomp.allow"},
      {"[seccomp]\npolicy = \"other\"\n", "seccomp.policy"},
      {"[hardening]\nlandlock = false\n", "hardening.landlock"},
      {"[hardening]\nnested_userns = true\n", "hardening.nested_userns"},
      {"[hardening]\ncapabilities = [\"cap_net_raw\"]\n", "hardening.capabilities"},
      {"[fs]\nread_only_root = false\n", "fs.read_only_root"},
      {"[fs]\nroot = \"other\"\n", "fs.root"},
      {"[sandbox]\nuid = 0\n", "sandbox.uid"},
      {"[sandbox]\nipc_namespace = false\n", "sandbox.ipc_namespace"},
      {"[[fs.mount]]\nsource = \"/srv/a\"\n", "fs.mount"},
      {"[[seccomp.rule]]\ncalls = [\"bpf\"]\nanswer = \"allow\"\n", "allows the system call \"bpf\""},
  };
  for (const auto& bad : cases) {
    CAPTURE(bad.text);
    const Result<SandboxSpec> spec = resolve_with({tightening(bad.text)});
    REQUIRE_FALSE(spec.ok());
    CAPTURE(spec.error().text());
    CHECK(spec.error().kind() == ErrorKind::policy);
    CHECK(spec.error().origin().find("/ws/p.toml") == 0);
    CHECK(spec.error().text().find(bad.message) != std::string::npos);
    CHECK(spec.error().hint().find("may only tighten") != std::string::npos);
    // The control: the same text from elsewhere is not refused for this.
    const Result<SandboxSpec> control = resolve_with({parsed(bad.text)});
    if (!control.ok()) CHECK(control.error().hint().find("may only tighten") == std::string::npos);
  }
}

TEST_CASE("a policy that may only tighten can do that, and the command line can loosen again") {
  const SandboxSpec spec = spec_with({tightening("[limits]\nmemory = \"512M\"\ncpu_time = \"5s\"\npids = 256\n"
                                                 "[seccomp]\ndeny = [\"ptrace\"]\n[net]\nmode = \"none\"\n"
                                                 "[env.set]\nA = \"1\"\n[hardening]\nlandlock = true\n"),
                                      flags({{"limits.memory", "2G"}})});
  CHECK(spec.limits.memory == Bytes{2ull << 30});
  CHECK(spec.limits.cpu_time == Millis{5000});
  CHECK(resolve_with({tightening("[seccomp]\npolicy = \"judge\"\n")}).ok());
  CHECK_FALSE(resolve_with({load_policy("strict", {}).take(), tightening("[seccomp]\npolicy = \"judge\"\n")}).ok());
  CHECK(has_variable(spec, "A=1"));
  // It measures against what stands before it, not against the default.
  CHECK(resolve_with({flags({{"limits.memory", "2G"}}), tightening("[limits]\nmemory = \"2G\"\n")}).ok());
  CHECK_FALSE(resolve_with({flags({{"limits.memory", "512M"}}), tightening("[limits]\nmemory = \"1G\"\n")}).ok());
}

TEST_CASE("places inside that a mount cannot have are refused") {
  const struct {
    const char* target;
    const char* message;
  } cases[] = {
      {"/", "over the root"},      {"relative", "not an absolute path"}, {"/a/../b", "not in its plain form"},
      {"/proc/x", "belongs to the sandbox"}, {"/dev", "belongs to the sandbox"}, {"/run/sbx/src", "belongs to the sandbox"},
  };
  for (const auto& bad : cases) {
    CAPTURE(bad.target);
    PolicyLayer layer = flags({});
    layer.mounts = {BindOp{.source = "/srv/a", .target = bad.target, .origin = "flag --mount"}};
    const Result<SandboxSpec> spec = resolve_with({layer});
    REQUIRE_FALSE(spec.ok());
    CHECK(spec.error().kind() == ErrorKind::usage);
    CHECK(spec.error().origin() == "flag --mount");
    CHECK(spec.error().text().find(bad.message) != std::string::npos);
  }
}

TEST_CASE("a sensitive mount is refused unless the caller insists") {
  PolicyLayer layer = flags({});
  layer.mounts = {BindOp{.source = "/home/user/.ssh", .target = "/keys", .origin = "flag --mount"}};
  const Result<SandboxSpec> refused = resolve_with({layer});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().text() == "flag --mount: \"/home/user/.ssh\" is not shared: it holds credentials (.ssh)");
  CHECK(refused.error().hint() == "--allow-sensitive-mount lets it through");
  ResolveInput input;
  input.allow_sensitive_mount = true;
  CHECK(resolve_with({layer}, input).ok());
}

TEST_CASE("host paths that nobody should share are refused, projects below them are not") {
  const char* refused[] = {"/",
                           "/etc",
                           "/root",
                           "/home",
                           "/home/user",
                           "/home/other",
                           "/home/unknown",
                           "/srv/people",
                           "/srv/people/third",
                           "/home/user/.ssh",
                           "/home/user/.ssh/id_ed25519",
                           "/home/other/.gnupg",
                           "/home/unknown/.aws/credentials",
                           "/root/.kube",
                           "/root/.docker/config.json",
                           "/srv/people/third/.netrc",
                           "/home/user/.config/gcloud",
                           "/home/user/.config",
                           "/home/user/.local/share",
                           "/home/user/.mozilla/firefox",
                           "/home/user/.config/google-chrome/Default",
                           "/home/user/.git-credentials",
                           "/home/user/.password-store",
                           "/proc",
                           "/proc/1",
                           "/sys/fs/cgroup",
                           "/dev",
                           "/dev/sda",
                           "/etc/shadow",
                           "/etc/ssh/ssh_host_rsa_key",
                           "/run",
                           "/run/user",
                           "/run/user/1001",
                           "/run/docker.sock",
                           "/tmp",
                           "/var/tmp",
                           "/var",
                           "/var/lib"};
  for (const char* path : refused) {
    CAPTURE(path);
    const Status status = check_mount_source(path, 0, user_facts(), "flag --mount");
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().kind() == ErrorKind::usage);
    CHECK(status.error().text().find("is not shared: ") != std::string::npos);
    CHECK(status.error().hint().find("--allow-sensitive-mount") != std::string::npos);
  }
  const char* fine[] = {"/home/user/project",  "/root/project",      "/home/user/.sshfs",  "/srv/people/third/work",
                        "/srv/data",           "/etc/foo",           "/home/user/a/.ssh2", "/var/lib/service/data",
                        "/var/tmp/x",          "/tmp/x",             "/usr",               "/home/user/.config/myapp",
                        "/home/user/.cache",   "/home/user/project/.git", "/process",      "/devel"};
  for (const char* path : fine) {
    CAPTURE(path);
    const Status status = check_mount_source(path, S_IFDIR | 0755, user_facts(), "flag --mount");
    CHECK_MESSAGE(status.ok(), status.error().text());
  }
}

TEST_CASE("sockets, devices and pipes are refused by what they are") {
  for (const mode_t mode : {S_IFSOCK, S_IFCHR, S_IFBLK, S_IFIFO})
    CHECK_FALSE(check_mount_source("/srv/thing", mode | 0666, user_facts(), "p.toml:1:1").ok());
  CHECK(check_mount_source("/srv/thing", S_IFREG | 0644, user_facts(), "p.toml:1:1").ok());
  CHECK(check_mount_source("/srv/thing", S_IFSOCK, user_facts(), "p.toml:1:1").error().kind() == ErrorKind::policy);
}

TEST_CASE("an environment variable with a zero byte is refused") {
  ResolveInput input;
  input.environment = {{"A", std::string("x\0y", 3)}};
  CHECK_FALSE(resolve_with({}, input).ok());
  input.environment = {{"A=B", "x"}};
  CHECK_FALSE(resolve_with({}, input).ok());
  input.environment = {{"A", std::string(200000, 'x')}};
  CHECK_FALSE(resolve_with({}, input).ok());
}
