#include "policy/resolve.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "base/text.h"
#include "policy/loader.h"
#include "policy/syscall_groups.h"

namespace sbx {
namespace {

using TextMap = std::map<std::string, std::string>;
using TextList = std::vector<std::string>;
using Values = std::map<std::string, LayerValue>;

constexpr std::string_view kHome = "/home/sandbox";
constexpr uint32_t kNobody = 65534;

// A flag that is wrong is wrong usage, a file that is wrong is a wrong policy.
Error refuse(const std::string& origin, std::string message) {
  const ErrorKind kind = starts_with(origin, "flag ") ? ErrorKind::usage : ErrorKind::policy;
  return Error(kind, std::move(message)).with_origin(origin);
}

bool adds_up(std::string_view path) { return path == "env.pass" || path == "seccomp.allow" || path == "seccomp.deny"; }

// ---- layers that may only tighten -----------------------------------------------------------------------------

// A number as something to compare: "none" is above every limit.
uint64_t magnitude(const KeyValue& value) {
  if (const auto* number = std::get_if<uint64_t>(&value)) return *number;
  if (const auto* bytes = std::get_if<Bytes>(&value)) return bytes->value;
  if (const auto* millis = std::get_if<Millis>(&value)) return static_cast<uint64_t>(millis->value);
  return UINT64_MAX;
}

// True when `next` allows nothing that `before` does not.
bool is_as_tight(std::string_view path, const KeyValue& before, const KeyValue& next) {
  if (before == next) return true;
  if (starts_with(path, "limits.")) return magnitude(next) <= magnitude(before);
  // Inside its own world the payload may be told any name, and set any variable for itself anyway.
  if (path == "sandbox.hostname" || path == "env.set" || path == "seccomp.deny") return true;
  if (path == "env.pass" || path == "seccomp.allow") return std::get<TextList>(next).empty();
  if (path == "sandbox.uid" || path == "sandbox.gid") return std::get<uint64_t>(next) != 0;
  if (path == "sandbox.new_session" || path == "sandbox.ipc_namespace" || path == "sandbox.uts_namespace" ||
      path == "sandbox.cgroup_namespace" || path == "fs.read_only_root" || path == "hardening.landlock" ||
      path == "hardening.no_new_privs" || path == "hardening.writable_noexec")
    return std::get<bool>(next);
  if (path == "hardening.nested_userns") return !std::get<bool>(next);
  if (path == "hardening.capabilities") {
    const TextList& had = std::get<TextList>(before);
    const TextList& wants = std::get<TextList>(next);
    return std::all_of(wants.begin(), wants.end(),
                       [&](const std::string& name) { return std::find(had.begin(), had.end(), name) != had.end(); });
  }
  if (path == "hardening.proc") {
    const auto* had = std::get_if<std::string>(&before);
    return std::get<std::string>(next) == "processes" || (had != nullptr && *had == "unmasked");
  }
  if (path == "net.mode") return std::get<std::string>(next) == "none";
  if (path == "seccomp.policy") {
    // strict and judge both refuse more than the rest; neither refuses all that the other does.
    const auto* had = std::get_if<std::string>(&before);
    const std::string& wants = std::get<std::string>(next);
    return had != nullptr && *had != "strict" && *had != "judge" && (wants == "strict" || wants == "judge");
  }
  return false;  // fs.root, and every key that nobody has thought about here
}

Error loosens(const PolicyLayer& layer, const std::string& origin, const std::string& what) {
  return refuse(origin, what)
      .with_hint("a policy inside the shared workspace may only tighten; copy " + shell_quote(layer.name) +
                 " to ~/.config/sbx/policies/ to use it as your own");
}

Status check_tightens(const Values& before, const PolicyLayer& layer) {
  for (const auto& [path, next] : layer.values) {
    const auto earlier = before.find(path);
    bool tight = earlier != before.end() ? is_as_tight(path, earlier->second.value, next.value)
                                         : is_as_tight(path, KeyValue(Unlimited{}), next.value);
    // Nobody can tell whether a shipped policy is tighter than the Kafel that it would replace.
    for (const char* kafel : {"seccomp.kafel", "seccomp.kafel_file"})
      if (path == "seccomp.policy" && before.contains(kafel)) tight = tight && std::holds_alternative<Unlimited>(before.at(kafel).value);
    if (tight) continue;
    const KeyRow* row = find_key(path);
    if (starts_with(path, "seccomp.kafel")) return loosens(layer, next.origin, path + " replaces the policy of system calls");
    std::string message = path + " = " + format_value(*row, next.value) + " loosens the policy";
    if (earlier != before.end())
      message += ", which has " + format_value(*row, earlier->second.value) + " (" + earlier->second.origin + ")";
    return loosens(layer, next.origin, message);
  }
  if (!layer.mounts.empty()) {
    std::string origin = layer.name;
    if (const auto* bind = std::get_if<BindOp>(&layer.mounts.front())) origin = bind->origin;
    return loosens(layer, origin, "fs.mount adds to what the payload sees");
  }
  for (const SyscallRule& rule : layer.syscall_rules)
    if (rule.verdict.action == SyscallAction::allow || rule.verdict.action == SyscallAction::log)
      return loosens(layer, rule.origin, "a rule that allows the system call " + quoted(rule.name));
  return {};
}

// ---- reading merged values ------------------------------------------------------------------------------------

// The merged values with typed access. A missing key is our bug or a broken default policy: an error, not a guess.
struct Merged {
  const Values& values;

  Result<const LayerValue*> at(const char* path) const {
    const auto place = values.find(path);
    if (place == values.end())
      return Error(ErrorKind::policy, std::string("no policy has a value for ") + path)
          .with_hint("policies/default.toml holds every key");
    return &place->second;
  }
  template <typename T>
  Result<T> get(const char* path) const {
    const LayerValue* value = SBX_TRY(at(path));
    const T* typed = std::get_if<T>(&value->value);
    if (typed == nullptr) return Error(ErrorKind::internal, std::string(path) + " has a value of another type");
    return *typed;
  }
  template <typename T>
  Result<std::optional<T>> limit(const char* path) const {
    const LayerValue* value = SBX_TRY(at(path));
    if (std::holds_alternative<Unlimited>(value->value)) return std::optional<T>();
    const T* typed = std::get_if<T>(&value->value);
    if (typed == nullptr) return Error(ErrorKind::internal, std::string(path) + " has a value of another type");
    return std::optional<T>(*typed);
  }
  std::string origin(const char* path) const {
    const auto place = values.find(path);
    return place != values.end() ? place->second.origin : std::string();
  }
};

// ---- limits ---------------------------------------------------------------------------------------------------

// A shipped policy's disk gives way to a memory limit that somebody chose. Two limits that the user wrote are the user's
// to reconcile.
bool is_shipped_origin(std::string_view origin) {
  return origin.find(':') == std::string_view::npos && origin != " policy" && origin.ends_with(" policy");
}

Bytes disk_within(Bytes memory) {
  constexpr uint64_t kPage = 4096;
  return Bytes{memory.value / 8 * 3 / kPage * kPage};
}

std::string lowered_origin(const std::string& disk_origin, const std::string& memory_key, const std::string& memory_origin) {
  return disk_origin + ", lowered to 3/8 of " + memory_key + " (" + memory_origin + ")";
}

// The private places are memory and are charged as such: with disk at or above memory, a full disk would be reported
// as out of memory, and end the program instead of giving it ENOSPC.
Status fit_disk_into_memory(const Merged& merged, bool compile_step, SandboxSpec& spec) {
  const char* memory_key = compile_step ? "limits.compile_memory" : "limits.memory";
  Limits& limits = spec.limits;
  if (!limits.memory || limits.disk < *limits.memory) return {};

  const std::string memory_origin = merged.origin(memory_key);
  const std::string disk_origin = merged.origin("limits.disk");
  // In the compile step any gives way: its memory limit is its own, and nobody chose that pair.
  if (is_shipped_origin(disk_origin) || compile_step) {
    limits.disk = disk_within(*limits.memory);
    spec.origins["limits.disk"] = lowered_origin(disk_origin, memory_key, memory_origin);
    return {};
  }

  const std::string more = format_size(Bytes{limits.disk.value * 2});
  const std::string less = format_size(Bytes{limits.memory->value / 2});
  return refuse(disk_origin, "limits.disk " + format_size(limits.disk) + " is not below limits.memory " +
                                 format_size(*limits.memory) + " (" + memory_origin +
                                 "): private files are kept in memory and count against it")
      .with_hint("add --memory " + more + ", or --disk " + less);
}

Status fill_limits(const Merged& merged, const ResolveInput& input, SandboxSpec& spec) {
  Limits& limits = spec.limits;
  const char* time_key = input.compile_step ? "limits.compile_time" : "limits.time";
  const char* memory_key = input.compile_step ? "limits.compile_memory" : "limits.memory";
  limits.wall = SBX_TRY(merged.limit<Millis>(time_key));
  limits.cpu_time = SBX_TRY(merged.limit<Millis>("limits.cpu_time"));
  limits.memory = SBX_TRY(merged.limit<Bytes>(memory_key));
  limits.pids = SBX_TRY(merged.limit<uint64_t>("limits.pids"));
  limits.cpus_milli = SBX_TRY(merged.limit<uint64_t>("limits.cpus"));
  limits.io = SBX_TRY(merged.limit<Bytes>("limits.io"));
  limits.disk = SBX_TRY(merged.get<Bytes>("limits.disk"));
  limits.inodes = SBX_TRY(merged.get<uint64_t>("limits.inodes"));
  limits.file_size = SBX_TRY(merged.limit<Bytes>("limits.file_size"));
  limits.open_files = SBX_TRY(merged.limit<uint64_t>("limits.open_files"));
  limits.output = SBX_TRY(merged.limit<Bytes>("limits.output"));
  if (input.compile_step) {
    // CPU time is the run's: a compiler that needs long is held by compile_time.
    limits.cpu_time.reset();
    spec.origins["limits.time"] = merged.origin(time_key);
    spec.origins["limits.memory"] = merged.origin(memory_key);
  }
  return fit_disk_into_memory(merged, input.compile_step, spec);
}

// ---- system calls ---------------------------------------------------------------------------------------------

// The shipped groups, read when a policy changes something.
class Groups {
 public:
  static Result<Groups> read() {
    const std::string_view* text = embedded_file("policies/seccomp/groups.toml");
    if (text == nullptr) return Error(ErrorKind::internal, "the groups of system calls are not embedded");
    Groups groups;
    groups.groups_ = SBX_TRY(parse_syscall_groups(*text, "groups.toml"));
    return groups;
  }

  // Rules for one element of seccomp.allow or seccomp.deny, a call or an @group. A call that is allowed keeps the
  // argument tests of its group, as in a shipped policy; only a [[seccomp.rule]] lifts them.
  Status append(const std::string& element, bool allow, const std::string& origin,
                std::vector<SyscallRule>& rules) const {
    const bool is_group = element.front() == '@';
    bool found = false;
    for (const SyscallGroup& group : groups_) {
      if (is_group && element.substr(1) != group.name) continue;
      for (const std::string& call : group.calls) {
        if (!is_group && call != element) continue;
        found = true;
        if (!allow) {
          rules.push_back(plain(call, SyscallAction::notify, group.name, origin));
          continue;
        }
        for (SyscallRule rule : group.rules) {
          if (rule.name != call) continue;
          rule.origin = origin;
          rules.push_back(std::move(rule));
        }
      }
    }
    if (found) return {};
    if (is_group) {
      const Result<std::vector<std::string>> unknown = syscall_group(element.substr(1));
      if (unknown.ok()) return {};  // a group without calls
      return refuse(origin, unknown.error().text()).with_hint(unknown.error().hint());
    }
    // In no group: a name that only the compiler of filters can judge.
    rules.push_back(plain(element, allow ? SyscallAction::allow : SyscallAction::notify, "", origin));
    return {};
  }

  static SyscallRule plain(const std::string& call, SyscallAction action, const std::string& group,
                           const std::string& origin) {
    SyscallRule rule;
    rule.name = call;
    rule.verdict.action = action;
    rule.group = group;
    rule.origin = origin;
    return rule;
  }

 private:
  std::vector<SyscallGroup> groups_;
};

// The layer whose Kafel is the policy, and nothing where that is a shipped one: the last of them that is named counts.
Result<const PolicyLayer*> kafel_layer(std::span<const PolicyLayer> layers) {
  const PolicyLayer* found = nullptr;
  for (const PolicyLayer& layer : layers) {
    for (const char* key : {"seccomp.policy", "seccomp.kafel", "seccomp.kafel_file"})
      if (layer.values.contains(key)) found = nullptr;
    if (layer.kafel) {
      found = &layer;
      continue;
    }
    const auto file = layer.values.find("seccomp.kafel_file");
    if (file == layer.values.end() || !std::holds_alternative<std::string>(file->second.value)) continue;
    return refuse(file->second.origin, "seccomp.kafel_file stands in a policy that is no file of its own").with_hint("write the text itself: seccomp.kafel");
  }
  return found;
}

Status fill_seccomp(std::span<const PolicyLayer> layers, const Merged& merged, bool compile_step, SandboxSpec& spec) {
  std::string policy = SBX_TRY(merged.get<std::string>("seccomp.policy"));
  if (compile_step) {
    // A compiler starts other programs and locks files, which a policy for the compiled program may well refuse.
    policy = "build";
    spec.origins["seccomp.policy"] = "compile step";
  }
  const PolicyLayer* kafel = compile_step ? nullptr : SBX_TRY(kafel_layer(layers));
  if (kafel != nullptr) {
    // It decides about every call: of what earlier layers say nothing is left, and later ones come before it.
    layers = layers.subspan(static_cast<size_t>(kafel - layers.data()));
    policy = "kafel";
    for (const char* key : {"seccomp.kafel", "seccomp.kafel_file"})
      if (kafel->values.contains(key)) spec.origins["seccomp.policy"] = kafel->values.at(key).origin;
  }
  const bool exists = embedded_file("policies/seccomp/" + policy + ".toml") != nullptr && policy != "groups";
  bool changed = !SBX_TRY(merged.get<TextList>("seccomp.allow")).empty() ||
                 !SBX_TRY(merged.get<TextList>("seccomp.deny")).empty();
  for (const PolicyLayer& layer : layers) changed = changed || !layer.syscall_rules.empty();
  changed = changed || spec.hardening.nested_userns || kafel != nullptr;
  spec.seccomp = SeccompSpec{.enabled = true, .builtin = policy, .rules = {}, .policy = policy};
  if (exists && !changed) return {};

  Result<SyscallRules> base = kafel != nullptr ? Result<SyscallRules>(*kafel->kafel) : builtin_syscall_rules(policy);
  if (!base.ok()) {
    const Error problem = base.take_error();
    return refuse(merged.origin("seccomp.policy"), problem.text()).with_hint(problem.hint());
  }
  // The first rule of a name that holds decides. The latest layer stands first; in each its rules, then what it denies,
  // then what it allows; the shipped policy is last.
  const Groups groups = SBX_TRY(Groups::read());
  std::vector<SyscallRule> rules;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    rules.insert(rules.end(), layer->syscall_rules.begin(), layer->syscall_rules.end());
    for (const char* key : {"seccomp.deny", "seccomp.allow"}) {
      const auto place = layer->values.find(key);
      if (place == layer->values.end()) continue;
      for (const std::string& element : std::get<TextList>(place->second.value))
        SBX_TRY(groups.append(element, key == std::string_view("seccomp.allow"), place->second.origin, rules));
    }
  }
  if (spec.hardening.nested_userns && kafel == nullptr) {
    // The shipped policies refuse the flags that make namespaces, and clone3, whose flags a filter cannot see. Where all
    // flags are allowed there is nothing left to be told apart.
    for (const char* call : {"clone", "clone3", "unshare", "setns"})
      rules.push_back(Groups::plain(call, SyscallAction::allow, "", merged.origin("hardening.nested_userns")));
  }
  spec.seccomp.builtin.clear();
  spec.seccomp.rules = base.take();
  spec.seccomp.rules.rules.insert(spec.seccomp.rules.rules.begin(), std::make_move_iterator(rules.begin()),
                                  std::make_move_iterator(rules.end()));
  return {};
}

// ---- environment ----------------------------------------------------------------------------------------------

Status fill_environment(std::span<const PolicyLayer> layers, const ResolveInput& input, SandboxSpec& spec) {
  struct Variable {
    std::string value;
    std::string origin;
  };
  std::map<std::string, Variable> variables;
  // A variable that the built-in default sets stands below what a runner or the terminal brings; every other policy
  // above. (The default policy has LANG, a runner may need another one.)
  const auto apply = [&](const PolicyLayer& layer) {
    if (const auto place = layer.values.find("env.pass"); place != layer.values.end()) {
      for (const std::string& name : std::get<TextList>(place->second.value)) {
        const auto caller = input.caller_environment.find(name);
        if (caller != input.caller_environment.end()) variables[name] = {caller->second, place->second.origin};
      }
    }
    if (const auto place = layer.values.find("env.set"); place != layer.values.end())
      for (const auto& [name, value] : std::get<TextMap>(place->second.value))
        variables[name] = {value, place->second.origin};
  };
  if (!layers.empty()) apply(layers.front());
  for (const auto& [name, value] : input.environment) variables[name] = {value, ""};
  for (const PolicyLayer& layer : layers.subspan(layers.empty() ? 0 : 1)) apply(layer);

  // Inside, uid 0 is called root: programs that compare the name with the id shall not stumble.
  if (spec.identity.uid == 0 && !layers.empty()) {
    const auto first = layers.front().values.find("env.set");
    for (const char* name : {"USER", "LOGNAME"}) {
      const auto place = variables.find(name);
      if (place != variables.end() && first != layers.front().values.end() &&
          place->second.origin == first->second.origin)
        place->second.value = "root";
    }
  }

  // Directories of the toolchain come first, unless somebody wrote the whole PATH on the command line.
  Variable& path = variables["PATH"];
  if (!starts_with(path.origin, "flag ")) {
    std::vector<std::string> parts;
    const auto add = [&](const std::string& part) {
      if (!part.empty() && std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(part);
    };
    for (const std::string& part : input.path_prepend) add(part);
    for (const std::string& part : split(path.value, ':')) add(part);
    path.value = join(parts, ":");
  }

  const KeyRow* row = find_key("env.set");
  for (const auto& [name, variable] : variables) {
    if (const Status status = check_value(*row, TextMap{{name, variable.value}}); !status.ok())
      return refuse(variable.origin, status.error().text()).with_hint(status.error().hint());
    spec.environment.push_back(name + "=" + variable.value);
  }
  return {};
}

// ---- files ----------------------------------------------------------------------------------------------------

std::string passwd_text(const Identity& identity) {
  const std::string id = std::to_string(identity.uid) + ":" + std::to_string(identity.gid);
  const std::string home(kHome);
  if (identity.uid == 0)
    return "root:x:" + id + ":root:" + home + ":/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
  std::string text = "root:x:0:0:root:/root:/usr/sbin/nologin\nsandbox:x:" + id + ":sandbox:" + home + ":/bin/sh\n";
  if (identity.uid != kNobody) text += "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
  return text;
}

std::string group_text(const Identity& identity) {
  if (identity.gid == 0) return "root:x:0:\nnogroup:x:65534:\n";
  std::string text = "root:x:0:\nsandbox:x:" + std::to_string(identity.gid) + ":\n";
  if (identity.gid != kNobody) text += "nogroup:x:65534:\n";
  return text;
}

void add_synthetic_etc(const ResolveInput& input, SandboxSpec& spec) {
  const auto file = [&](const char* target, std::string content) {
    spec.fs.push_back(FileOp{target, std::move(content), 0644});
  };
  file("/etc/passwd", passwd_text(spec.identity));
  file("/etc/group", group_text(spec.identity));
  file("/etc/hosts", "127.0.0.1 localhost " + spec.hostname + "\n::1 localhost ip6-localhost ip6-loopback\n");
  file("/etc/hostname", spec.hostname + "\n");
  file("/etc/nsswitch.conf",
       "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\n"
       "services: files\n");
  if (spec.net == NetMode::host && !input.resolv_conf.empty()) {
    spec.fs.push_back(BindOp{.source = input.resolv_conf,
                             .target = "/etc/resolv.conf",
                             .optional = true,
                             .origin = spec.origins["net.mode"]});
  } else {
    file("/etc/resolv.conf", "");
  }
}

// Where an operation acts, inside.
const std::string& target_of(const FsOp& op) {
  return std::visit([](const auto& each) -> const std::string& { return each.target; }, op);
}

std::string& target_of(FsOp& op) {
  return std::visit([](auto& each) -> std::string& { return each.target; }, op);
}

std::string origin_of(const FsOp& op, const std::string& otherwise) {
  if (const auto* bind = std::get_if<BindOp>(&op)) return bind->origin;
  if (const auto* overlay = std::get_if<OverlayOp>(&op)) return overlay->origin;
  return otherwise;
}

Status check_target(const std::string& target, const std::string& origin) {
  if (target.empty() || target.front() != '/' || target.find('\0') != std::string::npos)
    return refuse(origin, "the place inside " + quoted(target) + " is not an absolute path")
        .with_hint("write the place inside from / on, for example /data");
  if (normalize_path(target) != target)
    return refuse(origin, "the place inside " + quoted(target) + " is not in its plain form")
        .with_hint("write " + normalize_path(target));
  if (target == "/")
    return refuse(origin, "nothing can be mounted over the root of the sandbox")
        .with_hint("write the place inside, for example /data");
  return {};
}

Status check_source(const FsOp& op, const HostFacts& facts) {
  if (const auto* bind = std::get_if<BindOp>(&op)) return check_mount_source(bind->source, bind->source_mode, facts, bind->origin);
  if (const auto* overlay = std::get_if<OverlayOp>(&op)) return check_mount_source(overlay->lower, 0, facts, overlay->origin);
  return {};
}

// The places that sbx itself makes are not for others.
Status check_place(const FsOp& op, const std::string& origin) {
  const std::string& target = target_of(op);
  for (const char* place : {"/proc", "/sys", "/dev", "/run/sbx"})
    if (path_is_under(target, place))
      return refuse(origin, "nothing can be mounted at " + quoted(target) + ": " + place + " belongs to the sandbox")
          .with_hint("choose another place inside, for example /data");
  return {};
}

// A mount that a policy asks for.
Status check_user_mount(const FsOp& op, const std::string& layer_name, const HostFacts& facts,
                        const ResolveInput& input) {
  const std::string origin = origin_of(op, layer_name);
  SBX_TRY(check_target(target_of(op), origin));
  SBX_TRY(check_place(op, origin));
  return input.allow_sensitive_mount ? Status{} : check_source(op, facts);
}

// A place below a link of the view is the place that the link leads to, since nothing is created through links. True: it is such.
bool follow_links(FsOp& op, std::span<const FsOp> view) {
  std::string& target = target_of(op);
  bool followed = false;
  for (const FsOp& made : view) {
    const auto* link = std::get_if<SymlinkOp>(&made);
    if (link == nullptr || target == link->target || !path_is_under(target, link->target)) continue;
    const std::string leads_to = link->text.starts_with('/') ? link->text : join_path(dir_name(link->target), link->text);
    target = normalize_path(leads_to + target.substr(link->target.size()));
    followed = true;
  }
  return followed;
}

// The view that sbx makes: the manifest, what it writes itself, and what the layers add.
Status fill_own_view(std::span<const PolicyLayer> layers, const HostFacts& facts, ResolveInput& input, const std::string& proc, SandboxSpec& spec) {
  spec.fs = std::move(input.rootfs);
  add_synthetic_etc(input, spec);
  spec.fs.push_back(DevOp{});
  spec.fs.push_back(ProcOp{.subset_pid = proc == "processes", .masked = proc != "unmasked"});

  spec.fs.push_back(PrivateDirOp{"/tmp", 01777});
  spec.fs.push_back(PrivateDirOp{"/dev/shm", 01777});
  spec.fs.push_back(PrivateDirOp{std::string(kHome), 0755});
  if (input.private_box) spec.fs.push_back(PrivateDirOp{"/box", 0755});
  spec.fs.push_back(DirOp{"/run/sbx", 0755});
  spec.fs.push_back(SymlinkOp{"/var/tmp", "/tmp"});
  spec.fs.push_back(SymlinkOp{"/var/run", "/run"});

  for (const PolicyLayer& layer : layers) {
    for (FsOp op : layer.mounts) {
      follow_links(op, spec.fs);
      SBX_TRY(check_user_mount(op, layer.name, facts, input));
      // A file of ours (/etc/passwd …) gives way to the policy's.
      const auto ours = std::find_if(spec.fs.begin(), spec.fs.end(), [&](const FsOp& other) {
        return std::holds_alternative<FileOp>(op) && std::holds_alternative<FileOp>(other) && target_of(other) == target_of(op);
      });
      if (ours != spec.fs.end()) *ours = std::move(op);
      else spec.fs.push_back(std::move(op));
    }
  }
  return {};
}

// The view of a layer that says all of it, and what native layers add.
Status fill_whole_view(std::span<const PolicyLayer> layers, const HostFacts& facts, const ResolveInput& input, SandboxSpec& spec) {
  for (const PolicyLayer& layer : layers) {
    if (!layer.whole_host.empty() && !input.allow_sensitive_mount) SBX_TRY(check_mount_source("/", 0, facts, layer.whole_host));
    for (const FsOp& op : layer.mounts) {
      if (!layer.whole_view) {
        SBX_TRY(check_user_mount(op, layer.name, facts, input));
      } else {
        SBX_TRY(check_target(target_of(op), origin_of(op, layer.name)));
        if (!input.allow_sensitive_mount) SBX_TRY(check_source(op, facts));
      }
      // The same link again is fine, as it is for bwrap: two files may both begin with the system's.
      const auto* link = std::get_if<SymlinkOp>(&op);
      if (link != nullptr && std::any_of(spec.fs.begin(), spec.fs.end(), [&](const FsOp& other) {
            const auto* earlier = std::get_if<SymlinkOp>(&other);
            return earlier != nullptr && *earlier == *link;
          })) {
        continue;
      }
      spec.fs.push_back(op);
    }
  }
  if (input.private_box && input.box_in_whole_view) spec.fs.push_back(PrivateDirOp{"/box", 0755});
  return {};
}

Status fill_files(std::span<const PolicyLayer> layers, const HostFacts& facts, ResolveInput& input,
                  const std::string& proc, SandboxSpec& spec) {
  // Another sandbox's words say all that is seen.
  const bool whole_view = std::any_of(layers.begin(), layers.end(), [](const PolicyLayer& layer) { return layer.whole_view; });
  if (whole_view) {
    SBX_TRY(fill_whole_view(layers, facts, input, spec));
  } else {
    SBX_TRY(fill_own_view(layers, facts, input, proc, spec));
  }
  for (FsOp& op : input.extra) {
    SBX_TRY(check_target(target_of(op), origin_of(op, "")));
    if (!whole_view && follow_links(op, spec.fs)) SBX_TRY(check_place(op, origin_of(op, "")));
    spec.fs.push_back(std::move(op));
  }

  // /dev: null, full and the terminals; /proc: a thread's own name and settings. Their own permissions do the rest.
  std::set<std::string> writable = {"/dev", "/proc"};
  for (const FsOp& op : spec.fs) {
    const auto* bind = std::get_if<BindOp>(&op);
    if (std::holds_alternative<PrivateDirOp>(op) || std::holds_alternative<TmpfsOp>(op) ||
        std::holds_alternative<OverlayOp>(op) || (bind != nullptr && !bind->read_only))
      writable.insert(target_of(op));
  }
  if (!spec.read_only_root) writable.insert("/");
  spec.writable_paths.assign(writable.begin(), writable.end());
  return {};
}

}  // namespace

void lower_disk(std::map<std::string, LayerValue>& merged) {
  const auto disk = merged.find("limits.disk");
  const auto memory = merged.find("limits.memory");
  if (disk == merged.end() || memory == merged.end() || !is_shipped_origin(disk->second.origin)) return;
  const auto* wanted = std::get_if<Bytes>(&disk->second.value);
  const auto* held = std::get_if<Bytes>(&memory->second.value);
  if (wanted == nullptr || held == nullptr || *wanted < *held) return;
  disk->second = {disk_within(*held), lowered_origin(disk->second.origin, "limits.memory", memory->second.origin)};
}

namespace {

// Of the keys that say what the policy of system calls is, the last one set counts; the others then are none.
void keep_one_policy(const PolicyLayer& layer, Values& merged) {
  constexpr std::array kKeys = {"seccomp.policy", "seccomp.kafel", "seccomp.kafel_file"};
  const char* set = nullptr;
  for (const char* key : kKeys)
    if (const auto value = layer.values.find(key); value != layer.values.end() && std::holds_alternative<std::string>(value->second.value)) set = key;
  if (set == nullptr) return;
  for (const char* key : kKeys) {
    const auto other = merged.find(key);
    if (key == set || key == kKeys[0] || other == merged.end() || !std::holds_alternative<std::string>(other->second.value)) continue;
    other->second = LayerValue{KeyValue(Unlimited{}), layer.values.at(set).origin};
  }
}

}  // namespace

Result<std::map<std::string, LayerValue>> merge_layers(std::span<const PolicyLayer> layers) {
  Values merged;
  for (const PolicyLayer& layer : layers) {
    if (layer.may_only_tighten) SBX_TRY(check_tightens(merged, layer));
    for (const auto& [path, value] : layer.values) {
      const auto [place, inserted] = merged.try_emplace(path, value);
      if (inserted) continue;
      if (path == "env.set") {
        TextMap& map = std::get<TextMap>(place->second.value);
        for (const auto& [name, text] : std::get<TextMap>(value.value)) map[name] = text;
        place->second.origin = value.origin;
      } else if (adds_up(path)) {
        const TextList& more = std::get<TextList>(value.value);
        TextList& list = std::get<TextList>(place->second.value);
        list.insert(list.end(), more.begin(), more.end());
        // An empty list adds nothing and so has no say.
        if (!more.empty()) place->second.origin = value.origin;
      } else {
        place->second = value;
      }
    }
    keep_one_policy(layer, merged);
  }
  return merged;
}

Result<SandboxSpec> resolve(std::span<const PolicyLayer> layers, const HostFacts& facts, ResolveInput input) {
  Values own_values;
  if (input.merged == nullptr) own_values = SBX_TRY(merge_layers(layers));
  const Values& values = input.merged != nullptr ? *input.merged : own_values;
  const Merged merged{values};
  for (const KeyRow& row : key_table()) SBX_TRY(merged.at(row.path));

  SandboxSpec spec;
  for (const auto& [path, value] : values) spec.origins[path] = value.origin;
  spec.argv = input.argv;
  spec.exec_path = input.exec_path;
  spec.working_directory = input.working_directory;
  if (spec.working_directory.empty() || spec.working_directory.front() != '/')
    return Error(ErrorKind::usage, "the working directory " + quoted(spec.working_directory) + " is not absolute")
        .with_hint("write it from / on, for example /box");
  for (const std::string& word : spec.argv)
    if (word.find('\0') != std::string::npos) return Error(ErrorKind::usage, "an argument holds a zero byte");

  spec.identity.uid = static_cast<uint32_t>(SBX_TRY(merged.get<uint64_t>("sandbox.uid")));
  spec.identity.gid = static_cast<uint32_t>(SBX_TRY(merged.get<uint64_t>("sandbox.gid")));
  spec.namespaces.ipc = SBX_TRY(merged.get<bool>("sandbox.ipc_namespace"));
  spec.namespaces.uts = SBX_TRY(merged.get<bool>("sandbox.uts_namespace"));
  spec.namespaces.cgroup = SBX_TRY(merged.get<bool>("sandbox.cgroup_namespace"));
  spec.new_session = SBX_TRY(merged.get<bool>("sandbox.new_session"));
  spec.hostname = SBX_TRY(merged.get<std::string>("sandbox.hostname"));
  spec.net = SBX_TRY(merged.get<std::string>("net.mode")) == "host" ? NetMode::host : NetMode::none;
  spec.read_only_root = SBX_TRY(merged.get<bool>("fs.read_only_root"));
  spec.hardening.landlock = SBX_TRY(merged.get<bool>("hardening.landlock"));
  spec.hardening.nested_userns = SBX_TRY(merged.get<bool>("hardening.nested_userns"));
  // A build runs what it has just made.
  spec.hardening.writable_noexec = !input.compile_step && SBX_TRY(merged.get<bool>("hardening.writable_noexec"));
  spec.hardening.keep_capabilities = SBX_TRY(merged.get<TextList>("hardening.capabilities"));

  SBX_TRY(fill_limits(merged, input, spec));
  SBX_TRY(fill_seccomp(layers, merged, input.compile_step, spec));
  SBX_TRY(fill_environment(layers, input, spec));
  const std::string proc = SBX_TRY(merged.get<std::string>("hardening.proc"));
  SBX_TRY(fill_files(layers, facts, input, proc, spec));
  return spec;
}

}  // namespace sbx
