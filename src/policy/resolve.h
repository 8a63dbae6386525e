// Layers and host facts to one SandboxSpec. Pure: the disk is not looked at, except through what the caller passes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "policy/host_facts.h"
#include "policy/layer.h"
#include "policy/spec.h"

namespace sbx {

struct ResolveInput {
  // The operations of the rootfs manifest (expand_manifest), put first.
  std::vector<FsOp> rootfs;
  // Put last, in order: workspace, toolchain mounts, sources. Already checked by the caller.
  std::vector<FsOp> extra;
  std::vector<std::string> argv;
  std::string exec_path;
  std::string working_directory = "/box";
  // Lowest priority first: variables that a runner or the terminal brings; policy [env] and --env win over them.
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> path_prepend;  // before the policy's PATH
  bool allow_sensitive_mount = false;
  bool private_box = true;                // /box is a private directory (false: a workspace comes in `extra`)
};

// Every key of the table must have a value in some layer (the default policy has all of them). Errors: policy or
// usage, with the origin of the offending value: disk at or above memory, a mount of a sensitive place, a fraction of
// a CPU, a layer that may only tighten and loosens …
Result<SandboxSpec> resolve(std::span<const PolicyLayer> layers, const HostFacts& facts, const ResolveInput& input);

// Refuses host paths that nobody should share (design section 4): exactly "/", "/etc", "/root", "/home", any home
// directory itself, credential directories and files and everything in them, sockets and devices (by `mode` of the
// path, 0 when unknown). `path` is absolute and normalized with links resolved.
Status check_mount_source(std::string_view path, uint32_t mode, const HostFacts& facts, const std::string& origin);

}  // namespace sbx
