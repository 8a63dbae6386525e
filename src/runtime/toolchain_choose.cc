#include "runtime/toolchain_choose.h"

#include <dirent.h>

#include <algorithm>
#include <array>

#include "base/sys.h"
#include "base/text.h"
#include "runtime/toolchain_shim.h"

namespace sbx::runtime {
namespace {

constexpr size_t kMaxListing = 256;

// Directories of installations: each entry is a version with a bin directory. `variable` moves the root.
struct VersionDirectory {
  std::string_view variable;
  std::string_view default_root;  // below the home directory, or absolute
  std::string_view below;         // below the root
  bool nested = false;            // one more level: installs/PLUGIN/VERSION
};
constexpr std::array<VersionDirectory, 12> kVersionDirectories = {{
    {"PYENV_ROOT", ".pyenv", "versions"},
    {"NVM_DIR", ".nvm", "versions/node"},
    {"RBENV_ROOT", ".rbenv", "versions"},
    {"NODENV_ROOT", ".nodenv", "versions"},
    {"GOENV_ROOT", ".goenv", "versions"},
    {"RUSTUP_HOME", ".rustup", "toolchains"},
    {"ASDF_DATA_DIR", ".asdf", "installs", true},
    {"MISE_DATA_DIR", ".local/share/mise", "installs", true},
    {"UV_PYTHON_INSTALL_DIR", ".local/share/uv/python", ""},
    {"SDKMAN_CANDIDATES_DIR", ".sdkman/candidates", "", true},
    {"", "sdk", ""},
    {"", "/usr/lib/jvm", ""},
}};

std::vector<std::string> list_directory(const std::string& path) {
  std::vector<std::string> names;
  auto fd = sys::open(path, O_RDONLY | O_DIRECTORY);
  if (!fd.ok()) return names;
  DIR* stream = ::fdopendir(fd.value().get());
  if (stream == nullptr) return names;
  (void)fd.value().release();  // closedir closes it
  while (const dirent* entry = ::readdir(stream)) {
    if (entry->d_name[0] != '.' && names.size() < kMaxListing) names.emplace_back(entry->d_name);
  }
  ::closedir(stream);
  std::sort(names.begin(), names.end());
  return names;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Digits from `at` on, which is moved behind them. Absurdly long ones wrap around: only an order is asked for.
uint64_t take_number(std::string_view text, size_t& at) {
  uint64_t number = 0;
  while (at < text.size() && is_digit(text[at])) number = number * 10 + static_cast<uint64_t>(text[at++] - '0');
  return number;
}

// The value of KEY=value or KEY="value".
std::string release_value(std::string_view text, std::string_view key) {
  for (const std::string& line : split(text, '\n')) {
    if (!starts_with(line, std::string(key) + "=")) continue;
    std::string value(trim(std::string_view(line).substr(key.size() + 1)));
    if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') && value.back() == value.front()) {
      value = value.substr(1, value.size() - 2);
    }
    return value;
  }
  return "";
}

// How a family of distributions installs a package. The first column is the key of RunnerSpec::packages.
struct Installer {
  std::string_view family;
  std::string_view command;  // the package's name follows
};
constexpr std::array<Installer, 12> kInstallers = {{
    {"debian", "apt-get install "}, {"ubuntu", "apt-get install "}, {"fedora", "dnf install "},
    {"rhel", "dnf install "},       {"centos", "dnf install "},     {"arch", "pacman -S "},
    {"alpine", "apk add "},         {"suse", "zypper install "},    {"opensuse", "zypper install "},
    {"void", "xbps-install "},      {"gentoo", "emerge "},          {"nixos", "nix-env -iA nixos."},
}};
// Where one family lacks an entry of its own, its relative's package names serve.
constexpr std::array<std::array<std::string_view, 2>, 4> kRelatives = {
    {{"ubuntu", "debian"}, {"rhel", "fedora"}, {"centos", "fedora"}, {"opensuse", "suse"}}};

}  // namespace

bool version_matches(std::string_view version, std::string_view wanted) {
  if (!starts_with(version, wanted)) return false;
  if (version.size() == wanted.size()) return true;
  const char next = version[wanted.size()];
  return next == '.' || next == '-' || next == '+' || next == '_';
}

bool version_less(std::string_view left, std::string_view right) {
  size_t l = 0;
  size_t r = 0;
  while (l < left.size() && r < right.size()) {
    if (is_digit(left[l]) && is_digit(right[r])) {
      const uint64_t left_number = take_number(left, l);
      const uint64_t right_number = take_number(right, r);
      if (left_number != right_number) return left_number < right_number;
      continue;
    }
    if (left[l] != right[r]) break;
    ++l;
    ++r;
  }
  // "3.13a1" and "3.13-dev" come before "3.13", which comes before "3.13.1".
  const auto rank = [](std::string_view text, size_t at) {
    if (at == text.size()) return 1;
    return text[at] == '.' || is_digit(text[at]) ? 2 : 0;
  };
  if (rank(left, l) != rank(right, r)) return rank(left, l) < rank(right, r);
  return left.substr(l) < right.substr(r);
}

std::string version_of_directory(std::string_view name) {
  size_t start = 0;
  while (start < name.size() && !is_digit(name[start])) ++start;
  // Rustup's "stable-x86_64-…" and "nightly-…" have digits, but only in the machine's name.
  const size_t dash = name.find('-');
  const bool channel = starts_with(name, "stable") || starts_with(name, "nightly") || starts_with(name, "beta");
  if (start == name.size() || channel) return std::string(channel ? name.substr(0, dash) : name);
  std::string_view rest = name.substr(start);
  const size_t end = rest.find('-');
  return std::string(rest.substr(0, end));
}

std::vector<InstalledVersion> installed_versions(const ToolchainRequest& request, const HostFacts& facts) {
  std::vector<InstalledVersion> installed;
  const auto look_in = [&](const std::string& directory) {
    for (const std::string& name : list_directory(directory)) {
      const std::string bin = join_path(join_path(directory, name), "bin");
      CommandSearch search = search_command(request.runner->commands, {bin});
      if (!search.found.has_value()) continue;
      installed.push_back({version_of_directory(name), std::move(*search.found)});
    }
  };
  for (const VersionDirectory& entry : kVersionDirectories) {
    std::string root = entry.variable.empty() ? "" : plain_variable(request, std::string(entry.variable));
    if (root.empty() || root.front() != '/') {
      const bool absolute = entry.default_root.front() == '/';
      if (!absolute && facts.home.empty()) continue;
      root = absolute ? std::string(entry.default_root) : join_path(facts.home, entry.default_root);
    }
    if (!entry.below.empty()) root = join_path(root, entry.below);
    if (!entry.nested) {
      look_in(root);
      continue;
    }
    for (const std::string& plugin : list_directory(root)) look_in(join_path(root, plugin));
  }
  std::stable_sort(installed.begin(), installed.end(), [](const InstalledVersion& left, const InstalledVersion& right) {
    return version_less(right.version, left.version);
  });
  return installed;
}

std::string install_hint(const std::map<std::string, std::string>& packages, std::string_view os_release) {
  std::vector<std::string> families = {release_value(os_release, "ID")};
  for (const std::string& like : split(release_value(os_release, "ID_LIKE"), ' ')) families.push_back(like);
  for (std::string family : families) {
    if (starts_with(family, "opensuse")) family = "opensuse";  // opensuse-leap, opensuse-tumbleweed
    const auto installer = std::find_if(kInstallers.begin(), kInstallers.end(),
                                        [&](const Installer& entry) { return entry.family == family; });
    if (installer == kInstallers.end()) continue;
    auto package = packages.find(family);
    for (const auto& [member, relative] : kRelatives) {
      if (package == packages.end() && member == family) package = packages.find(std::string(relative));
    }
    if (package == packages.end() || package->second.empty()) continue;
    return "install it with: " + std::string(installer->command) + package->second;
  }
  return "";
}

}  // namespace sbx::runtime
