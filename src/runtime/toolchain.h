// Finding an interpreter or compiler where its user has it: /usr, pyenv, nvm, rustup, a virtualenv, /opt …
//
// Finding may run host code that an untrusted checkout steers (a shim reads ./.python-version): that code runs in a
// sandbox, through the ProbeRunner given, and what it prints is checked: only paths inside the roots that were
// mounted for it are believed.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "policy/host_facts.h"
#include "policy/runner_spec.h"
#include "policy/spec.h"

namespace sbx::runtime {

struct ToolchainRequest {
  const RunnerSpec* runner = nullptr;  // borrowed
  std::string choose;                  // --toolchain: a path (anything with a "/"), or a version ("3.11")
  std::string venv;                    // --venv DIR
  std::string working_directory;       // the caller's
  std::map<std::string, std::string> environment;  // the caller's
  std::string cache_directory;         // "" : no cache
};

struct Toolchain {
  std::string executable;       // absolute path, the same inside; argv[0] for {tool}
  std::string version;          // "3.11.7", or "" when it has not been asked for
  std::vector<BindOp> mounts;   // read-only, at the same path; nothing for what lies in /usr
  std::vector<std::string> path_prepend;              // directories to put before PATH inside
  std::map<std::string, std::string> environment;     // VIRTUAL_ENV …
  std::string origin;           // for -v: "PATH", "--toolchain", "pyenv shim, cached"
};

// What a probe runs: argv in a sandbox that sees `mounts` besides the default rootfs; at most 10 s and 64 KiB out.
struct ProbeSpec {
  std::vector<std::string> argv;
  std::vector<BindOp> mounts;             // read-only; later ones may lie inside earlier ones
  std::vector<std::string> environment;   // complete: "K=V", PATH and HOME among them
  std::string working_directory;          // absolute; made, empty, where neither rootfs nor mounts have it
};
// stdout of the probe when it exited 0; else an Error that carries the end of its stderr.
using ProbeRunner = std::function<Result<std::string>(const ProbeSpec&)>;

// Looks, in this order: --venv; --toolchain; an active virtual environment (VIRTUAL_ENV first on PATH); each of the
// runner's commands in the absolute directories of PATH. docs/toolchains.md says what is mounted for what is found.
//
// The probe runs for script shims and for proxies (rustup, volta …) of a runner with probe_argv, and only when no
// cached answer holds. The first line of its answer is the interpreter, or a directory DIR that stands for
// DIR/bin/COMMAND (`rustc --print sysroot`, `go env GOROOT`); each further line is a prefix.
//
// Errors: not_found with a hint naming the package that brings the toolchain, or with the shim's own words; usage for
// a --toolchain or --venv that does not exist; not_executable; unsupported, permission, resource and internal of the
// probe itself.
Result<Toolchain> find_toolchain(const ToolchainRequest& request, const HostFacts& facts, const ProbeRunner& probe);

// The version line of a found toolchain (runs it through the probe; cached beside the path).
Result<std::string> toolchain_version(const ToolchainRequest& request, const Toolchain& toolchain,
                                      const ProbeRunner& probe);

}  // namespace sbx::runtime
