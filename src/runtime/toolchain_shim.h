// Commands that stand in for the real interpreter: script shims (pyenv, rbenv, asdf …) and binaries that answer to
// many names (rustup, volta, mise). Internal to find_toolchain.
//
// Theory of operation: which interpreter a shim starts depends on its manager's files, on files in the working
// directory and above it, and on variables. All of that is collected first, without running anything; it is the cache
// key. Only on a miss does the shim run, in the probe's sandbox, which sees the manager's files and the steering files
// and nothing else of the caller's. Its answer is text from a program that an untrusted checkout may have steered:
// only paths below the manager's directory or in the system directories are believed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/toolchain.h"
#include "runtime/toolchain_paths.h"

namespace sbx::runtime {

// The binary `real` answers to the name of the link it is called by and passes on to another program.
bool is_multiplexer_name(std::string_view real_name);

// A file that steers the choice of a version, as found from the working directory upwards.
struct SteeringFile {
  std::string path;
  std::string digest;  // sha256 of its content
};
struct Steering {
  std::vector<SteeringFile> files;    // nearest first
  std::vector<std::string> ignored;   // "'PATH' (a link)": present but not shown to the probe
};
// Regular files of at most 4 KiB, links not followed, in `directory` and at most 63 directories above it.
Steering find_steering_files(const std::string& directory, const std::vector<std::string>& names);

// Absolute, normalized, printable paths, one a line, 1 to 16 of them. Errors: not_found.
Result<std::vector<std::string>> parse_probe_output(std::string_view output);

// The answer of the shim `found`. `real` is the end of its links. Errors: not_found (the shim found no version, or
// answered something that is not believed), and those of the probe.
Result<Toolchain> resolve_shim(const ToolchainRequest& request, const HostFacts& facts, const ProbeRunner& probe,
                               const FoundCommand& found, const std::string& real, bool multiplexer);

// "{tool}" in every word replaced.
std::vector<std::string> expand_tool(const std::vector<std::string>& words, std::string_view tool);

// The environment of a probe: PATH (its absolute entries), a private HOME, LANG, then `more`.
std::vector<std::string> probe_environment(const ToolchainRequest& request, const std::vector<std::string>& more);

// The value of a caller's variable that is fit to be passed on: without control characters, at most 4096 bytes; "".
std::string plain_variable(const ToolchainRequest& request, const std::string& name);

}  // namespace sbx::runtime
