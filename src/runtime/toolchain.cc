#include "runtime/toolchain.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/sys.h"
#include "base/text.h"
#include "runtime/toolchain_cache.h"
#include "runtime/toolchain_choose.h"
#include "runtime/toolchain_paths.h"
#include "runtime/toolchain_shim.h"
#include "runtime/toolchain_venv.h"

namespace sbx::runtime {
namespace {

constexpr size_t kMaxVersionLine = 200;

std::string absolute_path(const ToolchainRequest& request, const std::string& path) {
  if (!path.empty() && path.front() == '/') return normalize_path(path);
  return normalize_path(join_path(request.working_directory, path));
}

std::vector<std::string> caller_path(const ToolchainRequest& request) {
  const auto path = request.environment.find("PATH");
  return path == request.environment.end() ? std::vector<std::string>{} : path_directories(path->second);
}

// Rustup of old made hard links instead of symbolic ones.
bool is_rustup_hard_link(const std::string& real, const struct stat& info) {
  if (info.st_nlink < 2) return false;
  struct stat rustup {};
  return ::stat(join_path(dir_name(real), "rustup").c_str(), &rustup) == 0 && rustup.st_dev == info.st_dev &&
         rustup.st_ino == info.st_ino;
}

bool is_no_link(const std::string& path) {
  char target[1];
  return ::readlink(path.c_str(), target, sizeof target) < 0;
}

// Another user's private home stops us here: for this caller there is no toolchain.
Error unreadable_or(Error error, const std::string& path) {
  if (error.errnum() != EACCES) return error;
  return Error(ErrorKind::not_found, "'" + path + "' is not readable by you")
      .with_hint("install one for yourself, or name another: --toolchain PATH");
}

// A file that a command name or --toolchain stands for, as a toolchain.
Result<Toolchain> toolchain_of(const ToolchainRequest& request, const HostFacts& facts, const ProbeRunner& probe,
                               const FoundCommand& found, const std::string& origin) {
  const std::string directory = dir_name(found.path);
  const std::string parent = dir_name(directory);
  if (is_python_name(base_name(found.path)) && parent != "/usr" && parent != "/" && is_venv(parent)) {
    return venv_toolchain(parent, base_name(found.path), facts, "virtual environment");
  }

  const bool has_probe = !request.runner->probe_argv.empty();
  const bool system = is_system_path(found.path);
  auto looked = system ? Result<FileKind>(FileKind::elf) : file_kind(found.path);
  if (!looked.ok()) return unreadable_or(looked.take_error(), found.path);
  const FileKind kind = looked.value();
  if (kind == FileKind::other) {
    return Error(ErrorKind::not_executable, "'" + found.path + "' is neither a binary nor a script");
  }
  // The common shim is a plain script where it was found: nothing has to be resolved before its cached answer is used.
  if (kind == FileKind::script && has_probe && is_no_link(found.path)) {
    return resolve_shim(request, facts, probe, found, found.path, false);
  }

  auto resolved = sys::realpath(found.path);
  if (!resolved.ok()) return unreadable_or(resolved.take_error(), found.path);
  const std::string real = resolved.take();
  const bool renamed = base_name(real) != found.command;
  const bool proxy = (renamed && is_multiplexer_name(base_name(real))) || is_rustup_hard_link(real, found.info);
  if (proxy && has_probe) return resolve_shim(request, facts, probe, found, real, true);

  Toolchain toolchain;
  toolchain.origin = origin;
  if (system && is_system_path(real)) {
    toolchain.executable = found.path;
    return toolchain;
  }
  if (system) {  // a link out of /usr: what stands at its end?
    auto end = file_kind(real);
    if (!end.ok()) return unreadable_or(end.take_error(), real);
    if (end.value() == FileKind::script && has_probe) return resolve_shim(request, facts, probe, found, real, false);
  } else if (kind == FileKind::script && has_probe) {
    return resolve_shim(request, facts, probe, found, real, false);
  }
  // Also a script of a language without a probe: it is the tool itself (kotlinc, scala).
  toolchain.executable = real;
  toolchain.mounts = SBX_TRY(prefix_mounts(real, facts, origin));
  return toolchain;
}

Error not_found(const ToolchainRequest& request, const std::vector<std::string>& unreadable) {
  const RunnerSpec& runner = *request.runner;
  std::string message = "no " + runner.name + " found: looked for " + join(runner.commands, ", ") + " on PATH";
  if (caller_path(request).empty()) message += ", which names no directory";
  if (!unreadable.empty()) {
    message += " ('" + printable(unreadable.front()) + "'";
    if (unreadable.size() > 1) message += " and " + std::to_string(unreadable.size() - 1) + " more";
    message += unreadable.size() > 1 ? " are not readable by you)" : " is not readable by you)";
  }
  const auto release = read_file("/etc/os-release", 16384);
  std::string hint = release.ok() ? install_hint(runner.packages, release.value()) : "";
  if (hint.empty()) hint = "install it, or name it: --toolchain PATH";
  return Error(ErrorKind::not_found, message).with_hint(std::move(hint));
}

Result<Toolchain> from_path_argument(const ToolchainRequest& request, const HostFacts& facts,
                                     const ProbeRunner& probe) {
  const std::string path = absolute_path(request, request.choose);
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    Error error(ErrorKind::usage, "--toolchain '" + printable(request.choose) + "': " +
                                      (errno == EACCES ? "it is not readable by you" : errno_text(errno)));
    return std::move(error).with_hint("name an interpreter or the directory it is installed in");
  }
  if (S_ISDIR(info.st_mode)) {
    // The directory of an installation, or its bin.
    CommandSearch search = search_command(request.runner->commands, {join_path(path, "bin"), path});
    if (!search.found.has_value()) {
      return Error(ErrorKind::usage, "--toolchain '" + printable(request.choose) + "': no " +
                                         join(request.runner->commands, ", ") + " in there");
    }
    return toolchain_of(request, facts, probe, *search.found, "--toolchain");
  }
  if (!S_ISREG(info.st_mode) || (info.st_mode & 0111) == 0) {
    return Error(ErrorKind::usage, "--toolchain '" + printable(request.choose) + "': not an executable file");
  }
  return toolchain_of(request, facts, probe, FoundCommand{base_name(path), path, info}, "--toolchain");
}

// Names that distributions give to one version of a command: python3.11, gcc-12, g++-12.
std::vector<std::string> versioned_names(const std::vector<std::string>& commands, const std::string& version) {
  std::vector<std::string> names;
  for (const std::string& command : commands) {
    std::string stem = command;
    while (!stem.empty() && stem.back() >= '0' && stem.back() <= '9') stem.pop_back();
    for (const std::string& name : {stem + version, command + "-" + version, command + version}) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

Result<Toolchain> from_version(const ToolchainRequest& request, const HostFacts& facts, const ProbeRunner& probe) {
  const std::string& wanted = request.choose;
  const bool plain = wanted.size() <= 64 && std::all_of(wanted.begin(), wanted.end(), [](char c) {
                       return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
                              c == '-' || c == '_' || c == '+';
                     });
  if (!plain) return Error(ErrorKind::usage, "--toolchain '" + printable(wanted) + "' is neither a path nor a version");

  const std::string origin = "--toolchain " + wanted;
  const std::string number = version_of_directory(wanted);  // "v20" is 20
  const std::vector<InstalledVersion> installed = installed_versions(request, facts);
  for (const InstalledVersion& candidate : installed) {  // newest first
    if (version_matches(candidate.version, number)) {
      return toolchain_of(request, facts, probe, candidate.command, origin);
    }
  }
  CommandSearch search = search_command(versioned_names(request.runner->commands, number), caller_path(request));
  if (search.found.has_value()) return toolchain_of(request, facts, probe, *search.found, origin);

  std::vector<std::string> versions;
  for (const InstalledVersion& candidate : installed) {
    if (std::find(versions.begin(), versions.end(), candidate.version) == versions.end()) {
      versions.push_back(printable(candidate.version, 40));
    }
    if (versions.size() == 20) break;
  }
  Error error(ErrorKind::usage, "no " + request.runner->name + " " + wanted + " found" +
                                    (versions.empty() ? "" : "; there are " + join(versions, ", ")));
  const std::string others = versions.empty() ? "" : "choose one of these, or ";
  return std::move(error).with_hint(others + "name the interpreter: --toolchain PATH");
}

Result<Toolchain> from_venv_argument(const ToolchainRequest& request, const HostFacts& facts) {
  const std::string directory = absolute_path(request, request.venv);
  const std::string quoted = "--venv '" + printable(request.venv) + "'";
  std::vector<std::string> commands = request.runner->commands;
  std::erase_if(commands, [](const std::string& command) { return !is_python_name(command); });
  if (commands.empty()) {
    return Error(ErrorKind::usage, quoted + ": " + request.runner->name + " has no virtual environments");
  }
  if (!is_venv(directory)) {
    return Error(ErrorKind::usage, quoted + " is not a virtual environment (it has no pyvenv.cfg)")
        .with_hint("make one with: python3 -m venv " + shell_quote(request.venv));
  }
  for (const std::string& command : commands) {
    // By the link itself: that it leads nowhere is said better further on.
    if (sys::lstat(join_path(directory, "bin/" + command)).ok()) {
      return venv_toolchain(directory, command, facts, "--venv");
    }
  }
  return Error(ErrorKind::usage, quoted + " has no " + join(commands, ", ") + " in its bin directory");
}

Result<Toolchain> from_path_variable(const ToolchainRequest& request, const HostFacts& facts,
                                     const ProbeRunner& probe) {
  const RunnerSpec& runner = *request.runner;
  const std::vector<std::string> directories = caller_path(request);
  // An active virtual environment counts with all names before anything else does with the first.
  const std::string venv = plain_variable(request, "VIRTUAL_ENV");
  if (!venv.empty() && venv.front() == '/' && !directories.empty()) {
    const std::string bin = join_path(normalize_path(venv), "bin");
    if (directories.front() == bin) {
      const CommandSearch search = search_command(runner.commands, {bin});
      if (search.found.has_value()) return toolchain_of(request, facts, probe, *search.found, "PATH");
    }
  }
  CommandSearch search = search_command(runner.commands, directories);
  if (!search.found.has_value()) return not_found(request, search.unreadable);
  Result<Toolchain> toolchain = toolchain_of(request, facts, probe, *search.found, "PATH");
  if (toolchain.ok() || toolchain.error().kind() != ErrorKind::not_found) return toolchain;

  // A version manager that has no python3 may have a python: the next names, but only from the same directory, so
  // that the version that was chosen is never silently replaced by the system's.
  const auto next = std::find(runner.commands.begin(), runner.commands.end(), search.found->command);
  if (next == runner.commands.end()) return toolchain;
  for (auto command = next + 1; command != runner.commands.end(); ++command) {
    const CommandSearch other = search_command({*command}, {dir_name(search.found->path)});
    if (!other.found.has_value()) continue;
    Result<Toolchain> second = toolchain_of(request, facts, probe, *other.found, "PATH");
    if (second.ok()) return second;
  }
  return toolchain;
}

}  // namespace

Result<Toolchain> find_toolchain(const ToolchainRequest& request, const HostFacts& facts, const ProbeRunner& probe) {
  if (request.runner == nullptr || request.runner->commands.empty()) {
    return Error(ErrorKind::internal, "a toolchain was asked for without a command to look for");
  }
  if (!request.venv.empty() && !request.choose.empty()) {
    return Error(ErrorKind::usage, "--venv and --toolchain both choose the interpreter").with_hint("give one of them");
  }
  if (!request.venv.empty()) return from_venv_argument(request, facts);
  if (request.choose.find('/') != std::string::npos) return from_path_argument(request, facts, probe);
  if (!request.choose.empty()) return from_version(request, facts, probe);
  return from_path_variable(request, facts, probe);
}

Result<std::string> toolchain_version(const ToolchainRequest& request, const Toolchain& toolchain,
                                      const ProbeRunner& probe) {
  const RunnerSpec& runner = *request.runner;
  if (!toolchain.version.empty()) return toolchain.version;
  if (runner.version_argv.empty()) {
    return Error(ErrorKind::not_found, "'" + runner.name + "' does not say how its version is asked for");
  }
  const struct stat info = SBX_TRY(sys::stat(toolchain.executable));
  CacheKey key("version");
  key.add("runner", runner.name);
  for (const std::string& word : runner.version_argv) key.add("argv", word);
  key.add("executable", toolchain.executable);
  key.add("identity", identity_text(identity_of(info)));
  const std::string digest = key.digest();
  const Error silent(ErrorKind::not_found, "'" + toolchain.executable + "' does not tell its version");
  if (std::optional<std::string> line = load_cached_line(request.cache_directory, digest); line.has_value()) {
    if (line->empty()) return silent;
    return std::move(*line);
  }
  if (!probe) return Error(ErrorKind::internal, "no probe to ask '" + toolchain.executable + "' with");

  ProbeSpec spec;
  spec.argv = expand_tool(runner.version_argv, toolchain.executable);
  spec.mounts = toolchain.mounts;
  std::vector<std::string> more;
  for (const auto& [name, value] : toolchain.environment) more.push_back(name + "=" + value);
  spec.environment = probe_environment(request, more);
  spec.working_directory = "/";
  const Result<std::string> output = probe(spec);
  if (!output.ok() && output.error().kind() != ErrorKind::not_found) {
    return Error(output.error()).with_context("asking '" + toolchain.executable + "' for its version");
  }
  std::string version;
  for (const std::string& line : split(output.ok() ? output.value() : "", '\n')) {
    version = printable(trim(line), kMaxVersionLine);
    if (!version.empty()) break;
  }
  // That it tells none is remembered too: some take seconds to do so.
  store_cached_line(request.cache_directory, digest, version);
  if (version.empty()) return output.ok() ? silent : output.error();
  return version;
}

}  // namespace sbx::runtime
