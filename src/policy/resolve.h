// Layers and host facts to one SandboxSpec. Pure: the disk is not looked at, except through what the caller passes.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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
  // Lowest priority first: variables that a runner or the terminal brings. They win over the built-in default (the
  // first layer); every other policy's [env] and --env win over them.
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> path_prepend;  // before the policy's PATH
  bool allow_sensitive_mount = false;
  // Where a layer is all that is seen: whether /box is there all the same, for a program that is put there.
  bool box_in_whole_view = false;
  bool private_box = true;                // /box is a private directory (false: a workspace comes in `extra`)
  // The caller's own environment: where the variables named in [env] pass come from. One that is not set is left out.
  std::map<std::string, std::string> caller_environment;
  // The host's resolver settings with links resolved (host_resolver_config()), shown when the network is the host's;
  // "": none.
  std::string resolv_conf;
  // What merge_layers() made of the same layers, where the caller has it; borrowed.
  const std::map<std::string, LayerValue>* merged = nullptr;
  // The compile step: limits.compile_time and limits.compile_memory take the place of time and memory, the
  // system call policy is "build" (changed as the layers say), and CPU time is not limited.
  bool compile_step = false;
};

// Every key of the table must have a value in some layer (the default policy has all of them). Later layers win; of
// [env] set each variable by itself, and the lists env.pass, seccomp.allow and seccomp.deny add to those before.
//
// Errors: policy, or usage where a flag is at fault, with the origin of the offending value: disk at or above memory,
// a mount of a sensitive place, a layer that may only tighten and loosens …
//
// One value is adapted instead of refused: where limits.disk comes from a shipped policy (its origin is "NAME policy")
// and the memory limit cannot hold it, disk becomes 3/8 of memory, and its origin says so.
Result<SandboxSpec> resolve(std::span<const PolicyLayer> layers, const HostFacts& facts, ResolveInput input);

// The layers as one map, key by key, after the check of those that may only tighten. What `policy explain` prints and
// where a front end reads "fs.root" before it has the manifest. env.set and the lists hold what all layers added; the
// origin is that of the last layer that had a say.
Result<std::map<std::string, LayerValue>> merge_layers(std::span<const PolicyLayer> layers);

// Of merged values: limits.disk as a run has it, lowered where resolve() lowers it.
void lower_disk(std::map<std::string, LayerValue>& merged);

// Refuses host paths that nobody should share (design section 4): exactly "/", "/etc", "/root", "/home", any home
// directory itself, credential directories and files and everything in them, sockets and devices (by `mode` of the
// path, 0 when unknown). `path` is absolute and normalized with links resolved.
Status check_mount_source(std::string_view path, uint32_t mode, const HostFacts& facts, const std::string& origin);

}  // namespace sbx
