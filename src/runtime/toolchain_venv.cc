#include "runtime/toolchain_venv.h"

#include "base/sys.h"
#include "base/text.h"

namespace sbx::runtime {
namespace {

constexpr size_t kMaxConfig = 16384;
constexpr const char* kRecreate = "make it again: python3 -m venv DIR";

// The real file behind `path` when it is a Python: an executable ELF file by name and content.
Result<std::string> real_python(const std::string& path) {
  const auto real = sys::realpath(path);
  if (!real.ok()) {
    return Error(ErrorKind::not_found, "'" + path + "' leads nowhere: " + errno_text(real.error().errnum()))
        .with_hint(kRecreate);
  }
  const struct stat info = SBX_TRY(sys::stat(real.value()));
  const std::string name = base_name(real.value());
  const bool named = is_python_name(name);
  if (!S_ISREG(info.st_mode) || (info.st_mode & 0111) == 0 || !named ||
      SBX_TRY(file_kind(real.value())) != FileKind::elf) {
    return Error(ErrorKind::not_found,
                 "'" + path + "' leads to '" + printable(real.value()) + "', which is no Python interpreter")
        .with_hint(kRecreate);
  }
  return real.value();
}

// What has to be mounted so that `path` can be followed to the real Python inside, beyond `inside` (already shown).
Status add_base(std::vector<BindOp>& mounts, const std::string& path, const HostFacts& facts,
                const std::string& origin) {
  std::vector<std::string> stations = SBX_TRY(link_chain(path));
  stations.push_back(SBX_TRY(sys::realpath(path)));
  for (const std::string& station : stations) {
    bool shown = is_system_path(station);
    for (const BindOp& mount : mounts) shown = shown || path_is_under(station, mount.target);
    if (shown) continue;
    std::vector<BindOp> prefix = SBX_TRY(prefix_mounts(station, facts, origin));
    // A link on the way may lie in any directory that the environment cares to name: unless the interpreter itself is
    // in there too, only the interpreter is shown in the link's place.
    if (prefix.size() != 1 || !path_is_under(stations.back(), prefix.front().source)) {
      BindOp file;
      file.source = stations.back();
      file.target = station;
      file.origin = origin;
      prefix.clear();
      prefix.push_back(std::move(file));
    }
    add_mounts(mounts, std::move(prefix));
  }
  return {};
}

}  // namespace

bool is_python_name(std::string_view name) { return starts_with(name, "python") || starts_with(name, "pypy"); }

bool is_venv(const std::string& directory) {
  const auto info = sys::lstat(join_path(directory, "pyvenv.cfg"));
  return info.ok() && S_ISREG(info.value().st_mode);
}

std::string venv_home(std::string_view text) {
  if (text.size() > kMaxConfig || !is_valid_utf8(text)) return "";
  for (const std::string& line : split(text, '\n')) {
    const size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    if (trim(std::string_view(line).substr(0, equals)) != "home") continue;
    const std::string value(trim(std::string_view(line).substr(equals + 1)));
    if (value.empty() || value.front() != '/' || value.size() > 4096 || !is_plain_text(value)) return "";
    return normalize_path(value);
  }
  return "";
}

Result<Toolchain> venv_toolchain(const std::string& directory, const std::string& command, const HostFacts& facts,
                                 const std::string& origin) {
  const std::string venv = SBX_TRY(sys::realpath(directory));
  const std::string link = join_path(join_path(venv, "bin"), command);
  const std::string real = SBX_TRY_CTX(real_python(link), "virtual environment '" + venv + "'");

  Toolchain toolchain;
  toolchain.executable = link;
  toolchain.origin = origin;
  toolchain.environment["VIRTUAL_ENV"] = venv;
  toolchain.path_prepend.push_back(join_path(venv, "bin"));

  if (!is_system_path(venv)) {
    const struct stat info = SBX_TRY(sys::stat(venv));
    const std::string refusal = refused_prefix(venv, info, facts);
    if (!refusal.empty()) {
      return Error(ErrorKind::not_found, "virtual environment '" + venv + "' cannot be shown: " + refusal)
          .with_hint("keep it in a directory of its own, such as '.venv' in the project");
    }
    BindOp mount;
    mount.source = venv;
    mount.target = venv;
    mount.no_links = true;
    mount.idmap = facts.root_identity && (info.st_mode & 05) != 05;
    mount.origin = origin;
    toolchain.mounts.push_back(std::move(mount));
  }
  SBX_TRY_CTX(add_base(toolchain.mounts, link, facts, origin), "virtual environment '" + venv + "'");

  // Python reads its library's place from `home`, which the links need not go through.
  const auto config = sys::open(join_path(venv, "pyvenv.cfg"), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  std::string home;
  if (config.ok()) {
    const auto text = sys::read_all(config.value().get(), kMaxConfig);
    if (text.ok()) home = venv_home(text.value());
  }
  bool based = !path_is_under(real, venv);
  if (!home.empty()) {
    for (const std::string& name : {command, base_name(real), std::string("python3"), std::string("python")}) {
      const std::string base = join_path(home, name);
      if (!is_python_name(name) || !real_python(base).ok()) continue;
      const Status added = add_base(toolchain.mounts, base, facts, origin);
      if (!added.ok()) continue;  // a claim that is not believed adds nothing; the links alone may do
      based = true;
      break;
    }
  }
  if (!based) {
    return Error(ErrorKind::not_found, "virtual environment '" + venv +
                                           "' is a copy and the Python it was made from ('" + printable(home) +
                                           "') is not there")
        .with_hint(kRecreate);
  }
  return toolchain;
}

}  // namespace sbx::runtime
