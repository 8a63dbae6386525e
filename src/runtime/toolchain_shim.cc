#include "runtime/toolchain_shim.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/sys.h"
#include "base/text.h"
#include "runtime/digest.h"
#include "runtime/toolchain_cache.h"
#include "runtime/toolchain_venv.h"

namespace sbx::runtime {
namespace {

constexpr size_t kMaxSteeringFile = 4096;
constexpr size_t kMaxGlobalFile = 16384;
constexpr size_t kMaxVariable = 4096;
constexpr size_t kMaxProbeLines = 16;
constexpr size_t kMaxProbeText = 65536;
constexpr int kMaxLevels = 64;
constexpr const char* kOutside = "which lies outside of what was shown to it";
constexpr const char* kNoProgram = "which is not a program";

// Version managers by the variable that names their root. `global` is the file with the version that counts where
// nothing else does, `installed` the directory whose listing changes with every version installed or removed. `reads`
// is the one steering file that the manager looks at, "" for several or when plugins add some: what is not read is
// neither looked for nor shown.
struct Manager {
  std::string_view name;
  std::string_view root_variable;
  std::string_view default_root;  // below the home directory
  std::string_view global;
  std::string_view installed;
  std::string_view reads;
};
constexpr std::array<Manager, 10> kManagers = {{
    {"pyenv", "PYENV_ROOT", ".pyenv", "version", "versions", ".python-version"},
    {"rbenv", "RBENV_ROOT", ".rbenv", "version", "versions", ".ruby-version"},
    {"nodenv", "NODENV_ROOT", ".nodenv", "version", "versions", ""},
    {"goenv", "GOENV_ROOT", ".goenv", "version", "versions", ""},
    {"jenv", "JENV_ROOT", ".jenv", "version", "versions", ".java-version"},
    {"phpenv", "PHPENV_ROOT", ".phpenv", "version", "versions", ".php-version"},
    {"asdf", "ASDF_DATA_DIR", ".asdf", "", "installs", ""},
    {"rustup", "RUSTUP_HOME", ".rustup", "settings.toml", "toolchains", ""},
    {"volta", "VOLTA_HOME", ".volta", "tools/user/platform.json", "tools/image", ""},
    {"mise", "MISE_DATA_DIR", ".local/share/mise", "", "installs", ""},
}};

// Everything about one shim that is known without running it.
struct ShimPlan {
  std::string label;        // "pyenv shim"
  std::string tool;         // what {tool} stands for
  std::string root;         // the manager's directory; "" when there is none that may be shown
  std::string file;         // a path at which `real` has to appear; ""
  std::string global;       // path below root; ""
  std::string installed;    // path below root; ""
  std::vector<std::string> environment;
  std::vector<std::string> steering_files;
  bool depends_on_directory = false;  // the manager looks the working directory up in its own settings
};

const Manager* manager_by_name(std::string_view name) {
  for (const Manager& manager : kManagers) {
    if (manager.name == name) return &manager;
  }
  return nullptr;
}

std::string manager_root(const Manager& manager, const ToolchainRequest& request, const HostFacts& facts) {
  const std::string given = plain_variable(request, std::string(manager.root_variable));
  if (!given.empty() && given.front() == '/') return normalize_path(given);
  return facts.home.empty() ? "" : join_path(facts.home, manager.default_root);
}

void use_manager(ShimPlan& plan, const Manager& manager) {
  plan.label = std::string(manager.name) + " shim";
  if (!manager.reads.empty()) {
    std::erase_if(plan.steering_files, [&](const std::string& name) { return name != manager.reads; });
  }
  if (!manager.global.empty()) plan.global = join_path(plan.root, manager.global);
  if (!manager.installed.empty()) plan.installed = join_path(plan.root, manager.installed);
  plan.environment.push_back(std::string(manager.root_variable) + "=" + plan.root);
}

ShimPlan plan_multiplexer(const ToolchainRequest& request, const HostFacts& facts, const FoundCommand& found,
                          const std::string& real) {
  ShimPlan plan;
  plan.steering_files = request.runner->steering_files;
  plan.tool = found.path;
  plan.depends_on_directory = true;
  // The proxy alone, under the name it is called by: its directory's parent (~/.cargo) holds credentials.
  if (!is_system_path(found.path)) plan.file = found.path;
  std::string name = base_name(real);
  name = name.substr(0, name.find('-'));  // volta-shim, rustup-init
  // A hard link bears the command's name; only rustup makes those.
  const Manager* manager = manager_by_name(name);
  if (manager == nullptr) manager = manager_by_name("rustup");
  plan.root = manager_root(*manager, request, facts);
  use_manager(plan, *manager);
  plan.label = std::string(manager->name) + " proxy";
  // No downloads on the way: the probe has no network, and would wait for it.
  if (manager->name == "rustup") plan.environment.emplace_back("RUSTUP_AUTO_INSTALL=0");
  return plan;
}

ShimPlan plan_script(const ToolchainRequest& request, const HostFacts& facts, const FoundCommand& found,
                     const std::string& real) {
  ShimPlan plan;
  plan.steering_files = request.runner->steering_files;
  plan.tool = real;
  plan.label = "script";
  for (const Manager& manager : kManagers) {
    const std::string root = manager_root(manager, request, facts);
    if (root.empty() || !path_is_under(real, root)) continue;
    plan.root = root;
    use_manager(plan, manager);
    return plan;
  }
  const std::string directory = dir_name(real);
  const std::string kind = base_name(directory);
  if (kind == "shims" || kind == "bin") {
    plan.root = dir_name(directory);
    std::string name = base_name(plan.root);
    if (!name.empty() && name.front() == '.') name.erase(0, 1);
    if (const Manager* manager = manager_by_name(name); manager != nullptr) {
      use_manager(plan, *manager);
    } else if (kind == "shims") {
      plan.label = name + " shim";
    }
  }
  // A script that is called by another name than its own cares for the name.
  if (base_name(real) != found.command) {
    plan.tool = found.path;
    if (!is_system_path(found.path)) plan.file = found.path;
  }
  return plan;
}

std::string file_digest(const std::string& path) {
  const auto fd = sys::open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!fd.ok()) return "absent";
  std::string content(kMaxGlobalFile, '\0');
  const auto got = sys::read(fd.value().get(), content.data(), content.size());
  if (!got.ok()) return "unreadable";
  if (got.value() == content.size()) {  // settings that have grown: what the kernel says of the file has to do
    const auto info = sys::fstat(fd.value().get());
    return info.ok() ? identity_text(identity_of(info.value())) : "unreadable";
  }
  content.resize(got.value());
  return sha256_hex(content);
}

std::string cache_digest(const ToolchainRequest& request, const FoundCommand& found, const ShimPlan& plan,
                         const Steering& steering) {
  CacheKey key("shim");
  const RunnerSpec& runner = *request.runner;
  key.add("runner", runner.name);
  key.add("command", found.command);
  for (const std::string& word : runner.probe_argv) key.add("probe", word);
  key.add("path", found.path);
  key.add("identity", identity_text(identity_of(found.info)));
  key.add("tool", plan.tool);
  key.add("root", plan.root);
  // "system" as a version sends the shim on to what else is on PATH.
  const auto search = request.environment.find("PATH");
  key.add("PATH", search == request.environment.end() ? "" : search->second);
  if (!plan.global.empty()) key.add("global", file_digest(plan.global));
  if (!plan.installed.empty()) {
    // A version "3.11" means the newest 3.11.x that is installed.
    struct stat info {};
    key.add("installed", ::stat(plan.installed.c_str(), &info) == 0 ? identity_text(identity_of(info)) : "absent");
  }
  for (const SteeringFile& file : steering.files) {
    key.add("file", file.path);
    key.add("content", file.digest);
  }
  for (const std::string& name : runner.steering_environment) {
    if (request.environment.contains(name)) key.add("env " + name, plain_variable(request, name));
  }
  for (const std::string& entry : plan.environment) key.add("env", entry);
  if (plan.depends_on_directory) key.add("directory", request.working_directory);
  return key.digest();
}

// The mounts of a probe; `believed` gets the directories below which an answer is credible.
Result<std::vector<BindOp>> probe_mounts(const HostFacts& facts, const FoundCommand& found, const std::string& real,
                                         const ShimPlan& plan, const Steering& steering,
                                         std::vector<std::string>& believed) {
  std::vector<BindOp> mounts;
  const std::string origin = plan.label;
  const auto root = plan.root.empty() ? Result<std::string>(std::string()) : sys::realpath(plan.root);
  if (root.ok() && !root.value().empty() && !is_system_path(root.value())) {
    const struct stat info = SBX_TRY(sys::stat(root.value()));
    if (S_ISDIR(info.st_mode) && refused_prefix(root.value(), info, facts).empty()) {
      BindOp mount;
      mount.source = root.value();
      mount.target = plan.root;
      mount.idmap = facts.root_identity && (info.st_mode & 05) != 05;
      mount.origin = origin;
      believed.push_back(mount.source);
      add_mount(mounts, std::move(mount));
      if (plan.root != root.value()) {
        BindOp same = mounts.back();
        same.target = root.value();
        add_mount(mounts, std::move(same));
      }
    }
  }
  bool shown = is_system_path(plan.tool);
  for (const BindOp& mount : mounts) shown = shown || path_is_under(plan.tool, mount.target);
  if (!shown && plan.file.empty()) {
    // Not in a manager's directory that may be shown: the script's own prefix, or the script alone.
    for (BindOp& mount : SBX_TRY(prefix_mounts(plan.tool, facts, origin))) {
      believed.push_back(mount.source);
      add_mount(mounts, std::move(mount));
    }
  }
  if (!plan.file.empty() && !shown) {
    BindOp proxy;
    proxy.source = real;
    proxy.target = found.path;
    proxy.origin = origin;
    add_mount(mounts, std::move(proxy));
  }
  for (const SteeringFile& file : steering.files) {
    const auto resolved = sys::realpath(file.path);
    if (!resolved.ok()) continue;  // gone in between: as if it had never been there
    bool inside = is_system_path(file.path);
    for (const BindOp& mount : mounts) inside = inside || path_is_under(file.path, mount.target);
    if (inside) continue;
    BindOp mount;
    mount.source = resolved.value();
    mount.target = file.path;
    const auto info = sys::stat(mount.source);
    mount.idmap = facts.root_identity && info.ok() && (info.value().st_mode & 04) == 0;
    mount.origin = origin;
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

bool is_believed(const std::string& path, const std::vector<std::string>& believed) {
  if (is_system_path(path)) return true;
  return std::any_of(believed.begin(), believed.end(),
                     [&](const std::string& root) { return path_is_under(path, root); });
}

Error not_believed(const FoundCommand& found, const std::string& answer, const std::string& why) {
  return Error(ErrorKind::not_found,
               "'" + found.path + "' stands for '" + printable(answer) + "', " + why)
      .with_hint("name the real interpreter: --toolchain PATH");
}

// From the answer's lines to a toolchain and the files that it rests on.
Result<CacheEntry> judge_answer(const std::vector<std::string>& lines, const HostFacts& facts,
                                const FoundCommand& found, const ShimPlan& plan,
                                const std::vector<std::string>& believed) {
  std::string answer = lines.front();
  const auto first = sys::stat(answer);
  if (first.ok() && S_ISDIR(first.value().st_mode)) answer = join_path(join_path(answer, "bin"), found.command);

  const auto real = sys::realpath(answer);
  if (!real.ok()) return not_believed(found, answer, "which is not there");
  if (!is_believed(real.value(), believed)) return not_believed(found, answer, kOutside);
  const struct stat info = SBX_TRY(sys::stat(real.value()));
  if (!S_ISREG(info.st_mode) || (info.st_mode & 0111) == 0) return not_believed(found, answer, kNoProgram);
  if (identity_of(info) == identity_of(found.info)) return not_believed(found, answer, "which is itself");
  if (SBX_TRY(file_kind(real.value())) == FileKind::other) return not_believed(found, answer, kNoProgram);

  CacheEntry entry;
  const std::string venv = dir_name(dir_name(answer));
  if (is_python_name(base_name(answer)) && is_venv(venv)) {
    const std::string place = SBX_TRY(sys::realpath(venv));
    if (!is_believed(place, believed)) return not_believed(found, answer, kOutside);
    entry.toolchain = SBX_TRY(venv_toolchain(venv, base_name(answer), facts, plan.label));
    const std::string config = join_path(place, "pyvenv.cfg");
    entry.witnesses.push_back({config, identity_of(SBX_TRY(sys::stat(config)))});
  } else {
    entry.toolchain.executable = real.value();
    add_mounts(entry.toolchain.mounts, SBX_TRY(prefix_mounts(real.value(), facts, plan.label)));
  }
  entry.toolchain.origin = plan.label;
  // By the name that the shim said: it also changes when a link on the way is turned to another version.
  entry.witnesses.push_back({answer, identity_of(info)});

  for (size_t i = 1; i < lines.size(); ++i) {
    const auto prefix = sys::realpath(lines[i]);
    if (!prefix.ok()) return not_believed(found, lines[i], "which is not there");
    if (!is_believed(prefix.value(), believed)) return not_believed(found, lines[i], kOutside);
    if (is_system_path(prefix.value())) continue;
    const struct stat prefix_info = SBX_TRY(sys::stat(prefix.value()));
    const std::string refusal = refused_prefix(prefix.value(), prefix_info, facts);
    if (!S_ISDIR(prefix_info.st_mode)) return not_believed(found, lines[i], "which is not a directory");
    if (!refusal.empty()) return not_believed(found, lines[i], "which may not be shown: " + refusal);
    BindOp mount;
    mount.source = prefix.value();
    mount.target = prefix.value();
    mount.idmap = facts.root_identity && (prefix_info.st_mode & 05) != 05;
    mount.origin = plan.label;
    add_mount(entry.toolchain.mounts, std::move(mount));
  }
  return entry;
}

Error probe_failure(Error error, const FoundCommand& found, const ShimPlan& plan, const Steering& steering,
                    const RunnerSpec& runner) {
  switch (error.kind()) {
    case ErrorKind::unsupported:
    case ErrorKind::permission:
    case ErrorKind::resource:
    case ErrorKind::internal:  // the sandbox of the probe could not be set up: not the shim's fault
      return std::move(error).with_context("asking the " + plan.label + " '" + found.path + "'");
    default: break;
  }
  std::string hint = "install the version that it asks for, or choose another: --toolchain VERSION or PATH";
  if (!steering.files.empty()) hint += "; the choice is made by '" + printable(steering.files.front().path) + "'";
  const std::string who = "the " + plan.label + " '" + found.path + "'";
  return Error(ErrorKind::not_found, who + " finds no " + runner.name + ": " + std::string(trim(error.text())))
      .with_hint(std::move(hint));
}

}  // namespace

bool is_multiplexer_name(std::string_view real_name) {
  constexpr std::array<std::string_view, 6> kNames = {"rustup", "rustup-init", "volta", "volta-shim", "mise", "asdf"};
  return std::find(kNames.begin(), kNames.end(), real_name) != kNames.end();
}

std::string plain_variable(const ToolchainRequest& request, const std::string& name) {
  const auto found = request.environment.find(name);
  if (found == request.environment.end() || found->second.size() > kMaxVariable) return "";
  return is_plain_text(found->second) ? found->second : "";
}

std::vector<std::string> expand_tool(const std::vector<std::string>& words, std::string_view tool) {
  constexpr std::string_view kPlaceholder = "{tool}";
  std::vector<std::string> expanded;
  for (std::string word : words) {
    for (size_t at = word.find(kPlaceholder); at != std::string::npos; at = word.find(kPlaceholder, at + tool.size())) {
      word.replace(at, kPlaceholder.size(), tool);
    }
    expanded.push_back(std::move(word));
  }
  return expanded;
}

std::vector<std::string> probe_environment(const ToolchainRequest& request, const std::vector<std::string>& more) {
  const auto path = request.environment.find("PATH");
  std::vector<std::string> directories;
  if (path != request.environment.end()) directories = path_directories(path->second);
  std::vector<std::string> environment = {"PATH=" + (directories.empty() ? "/usr/bin:/bin" : join(directories, ":")),
                                          "HOME=/home/sandbox", "LANG=C.UTF-8"};
  environment.insert(environment.end(), more.begin(), more.end());
  return environment;
}

Steering find_steering_files(const std::string& directory, const std::vector<std::string>& names) {
  Steering steering;
  if (names.empty() || directory.empty() || directory.front() != '/') return steering;
  std::string place = normalize_path(directory);
  for (int level = 0; level < kMaxLevels; ++level) {
    for (const std::string& name : names) {
      std::string path = join_path(place, name);
      const auto fd = sys::open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
      if (!fd.ok()) {
        if (fd.error().errnum() == ELOOP) steering.ignored.push_back("'" + printable(path) + "' (a link)");
        continue;
      }
      const auto info = sys::fstat(fd.value().get());
      if (!info.ok() || !S_ISREG(info.value().st_mode)) continue;  // a directory of that name steers nothing
      std::string content(kMaxSteeringFile + 1, '\0');
      const auto got = sys::read(fd.value().get(), content.data(), content.size());
      if (!got.ok() || got.value() > kMaxSteeringFile) {
        steering.ignored.push_back("'" + printable(path) + "' (more than 4 KiB)");
        continue;
      }
      content.resize(got.value());
      steering.files.push_back({std::move(path), sha256_hex(content)});
    }
    if (place == "/") break;
    place = dir_name(place);
  }
  return steering;
}

Result<std::vector<std::string>> parse_probe_output(std::string_view output) {
  const auto bad = [](const std::string& why) {
    return Error(ErrorKind::not_found, "the answer of the probe " + why)
        .with_hint("name the real interpreter: --toolchain PATH");
  };
  if (output.size() > kMaxProbeText) return bad("is longer than 64 KiB");
  if (!output.empty() && output.back() == '\n') output.remove_suffix(1);
  if (output.empty()) return bad("is empty");
  if (!is_valid_utf8(output)) return bad("is not UTF-8");
  std::vector<std::string> lines = split(output, '\n');
  if (lines.size() > kMaxProbeLines) return bad("has more than 16 lines");
  for (std::string& line : lines) {
    if (line.empty() || line.front() != '/' || line.size() >= 4096 || !is_plain_text(line)) {
      return bad("has a line that is no absolute path: '" + printable(line) + "'");
    }
    line = normalize_path(line);
  }
  return lines;
}

Result<Toolchain> resolve_shim(const ToolchainRequest& request, const HostFacts& facts, const ProbeRunner& probe,
                               const FoundCommand& found, const std::string& real, bool multiplexer) {
  const RunnerSpec& runner = *request.runner;
  ShimPlan plan =
      multiplexer ? plan_multiplexer(request, facts, found, real) : plan_script(request, facts, found, real);
  for (const std::string& name : runner.steering_environment) {
    const std::string value = plain_variable(request, name);
    const bool given = std::any_of(plan.environment.begin(), plan.environment.end(),
                                   [&](const std::string& entry) { return starts_with(entry, name + "="); });
    if (!value.empty() && !given) plan.environment.push_back(name + "=" + value);
  }
  const Steering steering = find_steering_files(request.working_directory, plan.steering_files);
  const std::string digest = request.cache_directory.empty() ? "" : cache_digest(request, found, plan, steering);
  std::string notes;
  for (const std::string& ignored : steering.ignored) notes += ", ignored " + ignored;

  if (!digest.empty()) {
    std::optional<Toolchain> cached = load_cached_toolchain(request.cache_directory, digest, facts);
    if (cached.has_value()) {
      cached->origin += ", cached" + notes;
      return std::move(*cached);
    }
  }
  if (!probe) return Error(ErrorKind::internal, "no probe to ask '" + found.path + "' with");

  ProbeSpec spec;
  spec.argv = expand_tool(runner.probe_argv, plan.tool);
  std::vector<std::string> believed;
  spec.mounts = SBX_TRY(probe_mounts(facts, found, real, plan, steering, believed));
  spec.environment = probe_environment(request, plan.environment);
  // A shim looks from its directory upwards, so the nearest one with a steering file is as good as the caller's own,
  // and exists inside.
  spec.working_directory = steering.files.empty() ? "/" : dir_name(steering.files.front().path);
  if (plan.depends_on_directory) spec.working_directory = request.working_directory;

  Result<std::string> output = probe(spec);
  if (!output.ok()) return probe_failure(output.take_error(), found, plan, steering, runner);
  const std::vector<std::string> lines =
      SBX_TRY_CTX(parse_probe_output(output.value()), "the " + plan.label + " '" + found.path + "'");
  CacheEntry entry = SBX_TRY(judge_answer(lines, facts, found, plan, believed));
  if (!digest.empty()) store_cached_toolchain(request.cache_directory, digest, entry);
  entry.toolchain.origin += notes;
  return std::move(entry.toolchain);
}

}  // namespace sbx::runtime
