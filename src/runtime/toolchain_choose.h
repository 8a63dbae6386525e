// --toolchain VERSION: the installed versions of a language, and the hint that names the package which brings one.
// Internal to find_toolchain.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "policy/host_facts.h"
#include "runtime/toolchain.h"
#include "runtime/toolchain_paths.h"

namespace sbx::runtime {

struct InstalledVersion {
  std::string version;  // "3.11.7", "20.11.0", "nightly"
  FoundCommand command;
};
// What the version managers (pyenv, nvm, rbenv, rustup, uv, asdf, …), /usr/lib/jvm and ~/sdk have of the runner's
// commands; newest first. The listing of each directory is bounded.
std::vector<InstalledVersion> installed_versions(const ToolchainRequest& request, const HostFacts& facts);

// "3.11" is matched by "3.11" and "3.11.7", not by "3.110"; "stable" by "stable-x86_64-unknown-linux-gnu".
bool version_matches(std::string_view version, std::string_view wanted);
// By numbers where both have numbers: "3.9" < "3.11".
bool version_less(std::string_view left, std::string_view right);
// The version in the name of an installation's directory: "v20.11.0", "go1.22.1", "cpython-3.12.1-linux" …; a name
// without digits stands for itself.
std::string version_of_directory(std::string_view name);

// "install it with: apt-get install python3" from the runner's packages and the text of /etc/os-release; "" when
// nothing is known for that distribution.
std::string install_hint(const std::map<std::string, std::string>& packages, std::string_view os_release);

}  // namespace sbx::runtime
