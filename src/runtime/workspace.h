// A writable host directory is a trap: what a payload leaves there is later trusted by programs of the host. Git runs
// hooks, direnv sources .envrc when the shell enters, editors run tasks, and a set-uid file is executed by the kernel
// itself. This module keeps a shared :rw directory from becoming a way out.
//
// Theory of operation. Before the run guard_workspace() looks at the host's directory. What exists at a sensitive place
// is made read-only inside the sandbox (ReadOnlyOp), and the directories above it are pinned (PinOp): renaming a mount
// point fails with EBUSY, but renaming an ancestor of one is allowed, and would let the payload put its own directory
// in the old place. What does not exist cannot be mounted over, so after the run, with every process of the sandbox
// dead, sweep_workspace() renames what has appeared at such places to NAME.sbx-untrusted, and strips set-id bits from
// what was made or changed.
//
// What this does not promise: between a payload's creation of such a file and the sweep the file is live, and a host
// program that acts on it meanwhile is not protected; files that the user is about to run by hand (Makefile,
// package.json, sources) stay writable, that is what :rw is for. docs/workspaces.md tells the user.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "policy/spec.h"
#include "runtime/artifacts.h"

namespace sbx::runtime {

struct SensitivePlace {
  const char* path;    // relative, no trailing slash
  const char* reason;  // who trusts it
};
// Relative to the workspace itself.
std::span<const SensitivePlace> sensitive_places();
// Relative to every Git directory in the workspace: .git, those of submodules and nested repositories, bare ones (any
// directory that holds HEAD with objects and refs, or with commondir). A .git that is a file is a sensitive place itself.
std::span<const SensitivePlace> sensitive_git_places();

// State of a writable host directory before a run.
struct WorkspaceGuard {
  struct Link {
    FileStamp stamp;
    std::string resolved;  // where it leads, relative, when that lies inside and exists
  };
  bool sensitive = true;      // false: only set-id bits are looked after
  std::vector<FsOp> ops;      // to be put after the BindOp of the workspace, in this order
  std::vector<std::string> notes;
  Baseline before;            // for list_artifacts(); empty when !before_complete
  bool before_complete = true;  // false: more entries than bounds.max_scan
  size_t before_depth = 0;    // `before` goes as deep as this
  int64_t started_ns = 0;     // CLOCK_REALTIME_COARSE, the clock of file systems' time stamps
  std::set<std::string> protected_paths;     // relative; what the ReadOnlyOps cover
  std::map<std::string, Link> links;         // links at sensitive places
};

// dirfd: the host's directory; target: where it shall stand inside ("/box"). `sensitive` false is
// --allow-sensitive-write. Errors: the directory cannot be read; resource when more places would
// have to be protected than is sane (the hint names :overlay).
Result<WorkspaceGuard> guard_workspace(int dirfd, const std::string& target, bool sensitive, const ArtifactBounds& bounds);

struct SweepReport {
  // Relative paths: what was made at a sensitive place, and what it is called now.
  std::vector<std::pair<std::string, std::string>> renamed;
  std::vector<std::string> stripped;  // relative paths that lost set-id bits; the first 100
  uint64_t stripped_count = 0;
  // Sentences for people, safe to print: all of the above, and everything that could not be done or looked at.
  std::vector<std::string> notes;
  bool complete = true;  // false: some place was not looked at or could not be mended; a note says which
};

// To be called when no process of the sandbox is left, before list_artifacts(). Looks at up to a million entries at any
// depth. Fails only when dirfd itself cannot be read.
Result<SweepReport> sweep_workspace(int dirfd, const WorkspaceGuard& guard);

}  // namespace sbx::runtime
