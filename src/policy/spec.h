// SandboxSpec: everything about one sandbox, fully resolved. Nothing in it means "default" or "ask the host".
//
// Plain values: copyable, comparable, without owned descriptors or pointers. Descriptors of the caller appear only as
// FdNumber. Every front end lowers to this; runtime compiles it to a ChildPlan.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/units.h"
#include "policy/syscall_rules.h"

namespace sbx {

// A descriptor that the caller of the engine keeps open until the sandbox has been launched. Borrowed.
struct FdNumber {
  int value = -1;
  bool operator==(const FdNumber&) const = default;
};

// ---- the view of files: an ordered list, later operations see earlier ones ------------------------------------

// A host path shown at `target`, recursively. Always nosuid; nodev unless `devices`.
struct BindOp {
  std::string source;  // absolute host path, links resolved when the spec was made
  std::string target;  // absolute path inside
  bool read_only = true;
  bool no_exec = false;
  bool devices = false;
  bool sockets = false;  // services that listen there may be talked to: --allow-sensitive-mount (Landlock ABI 9)
  // The workspace and --mount of a root caller: the tree is idmapped, so that the files of its owner show up and
  // come back as the caller's own. Ignored for an ordinary user, whose own uid is mapped anyway.
  bool idmap = false;
  // Missing source: skipped (the manifests' entries) instead of an error.
  bool optional = false;
  // st_mode of the source when the spec was made, 0 when nobody looked: sockets and devices are refused by it.
  uint32_t source_mode = 0;
  // The same of its device and inode, of a manifest's entries: need not be looked at again. Inode 0: nobody looked.
  uint64_t source_device = 0, source_inode = 0;
  // `source` is a real path and was judged as such: should a link take the place of any part of it afterwards, the
  // mount is refused instead of following it.
  bool no_links = false;
  std::string origin;  // for messages: "flag --mount", "rootfs/host.toml:12"
  bool operator==(const BindOp&) const = default;
};
// Own tmpfs with limits of its own.
struct TmpfsOp {
  std::string target;
  Bytes size;
  uint64_t inodes = 0;
  uint32_t mode = 0755;
  bool operator==(const TmpfsOp&) const = default;
};
// A writable directory on the sandbox's one private tmpfs: all of them share limits.disk and limits.inodes.
struct PrivateDirOp {
  std::string target;
  uint32_t mode = 0755;
  bool operator==(const PrivateDirOp&) const = default;
};
// A directory of the rootfs itself.
struct DirOp {
  std::string target;
  uint32_t mode = 0755;
  bool operator==(const DirOp&) const = default;
};
struct SymlinkOp {
  std::string target;  // where the link stands
  std::string text;    // what it says
  bool operator==(const SymlinkOp&) const = default;
};
// A small file with this content.
struct FileOp {
  std::string target;
  std::string content;
  uint32_t mode = 0644;
  bool operator==(const FileOp&) const = default;
};
// A file filled from a descriptor (read from offset 0 to its end without moving the shared offset).
struct CopyFdOp {
  std::string target;
  FdNumber source;
  uint32_t mode = 0644;
  bool operator==(const CopyFdOp&) const = default;
};
// proc of the sandbox's own pid namespace, dangerous entries masked.
struct ProcOp {
  std::string target = "/proc";
  bool subset_pid = false;  // only /proc/PID (hides cpuinfo, meminfo: breaks many runtimes)
  // False: nothing is masked, so that the kernel lets a sandbox inside mount one of its own.
  bool masked = true;
  bool operator==(const ProcOp&) const = default;
};
// Minimal /dev: null zero full random urandom, fd stdin stdout stderr links, pts, ptmx, shm is a PrivateDirOp.
struct DevOp {
  std::string target = "/dev";
  bool operator==(const DevOp&) const = default;
};
// The host directory `lower` seen at target, writable without touching it; changes lie in the private tmpfs.
struct OverlayOp {
  std::string lower;
  std::string target;
  std::string origin;
  bool operator==(const OverlayOp&) const = default;
};
// Makes what is already at target read-only (a self-bind); a path that does not exist is skipped.
struct ReadOnlyOp {
  std::string target;
  bool operator==(const ReadOnlyOp&) const = default;
};
// Pins a directory against being renamed or removed (a writable self-bind: renaming a mount point is EBUSY).
struct PinOp {
  std::string target;
  bool operator==(const PinOp&) const = default;
};

using FsOp = std::variant<BindOp, TmpfsOp, PrivateDirOp, DirOp, SymlinkOp, FileOp, CopyFdOp, ProcOp, DevOp, OverlayOp,
                          ReadOnlyOp, PinOp>;

// ---- limits --------------------------------------------------------------------------------------------------

// nullopt: no limit asked for.
struct Limits {
  std::optional<Millis> wall;
  std::optional<Millis> cpu_time;  // user + system, the whole tree
  std::optional<Bytes> memory;     // the whole tree, tmpfs included, no swap
  std::optional<uint64_t> pids;    // processes and threads of the payload
  std::optional<uint64_t> cpus_milli;  // 1000 = one CPU
  std::optional<Bytes> io;         // a second, read and written each, on the disk of the workspace
  Bytes disk;                      // all private writable places together
  uint64_t inodes = 0;
  std::optional<Bytes> file_size;
  std::optional<uint64_t> open_files;
  std::optional<Bytes> output;     // per stream
  bool operator==(const Limits&) const = default;
};

enum class NetMode { none, host };

// One namespace kind: its own, or shared with the caller.
struct Namespaces {
  bool ipc = true;
  bool uts = true;
  bool cgroup = true;
  bool operator==(const Namespaces&) const = default;
};

struct Identity {
  uint32_t uid = 1000;  // as seen inside
  uint32_t gid = 1000;
  bool operator==(const Identity&) const = default;
};

struct Hardening {
  bool landlock = true;            // where the kernel has it; the result says whether it was in force
  bool nested_userns = false;      // may the payload make user namespaces of its own?
  bool writable_noexec = false;    // nothing in the writable places can be executed or mapped as code; /proc is read-only
  std::vector<std::string> keep_capabilities;  // "cap_net_bind_service"; inside the sandbox's user namespace only
  bool operator==(const Hardening&) const = default;
};

struct SeccompSpec {
  bool enabled = true;
  // Name of a shipped, precompiled policy ("default", "strict", …) when the rules are exactly that; else empty.
  std::string builtin = "default";
  SyscallRules rules;  // used when builtin is empty
  std::string policy = "default";  // the shipped policy that the rules begin with; for messages
  bool operator==(const SeccompSpec&) const = default;
};

struct SandboxSpec {
  // command. argv[0] is what the payload sees; exec_path is what is executed: an absolute path inside, or a bare
  // name that is looked up in the PATH of `environment` inside the sandbox.
  std::vector<std::string> argv;
  std::string exec_path;
  std::vector<std::string> environment;  // "K=V", complete
  std::string working_directory = "/";

  Identity identity;
  Namespaces namespaces;
  NetMode net = NetMode::none;
  std::string hostname = "sandbox";
  bool new_session = true;  // setsid; a terminal of our own becomes the controlling one

  std::vector<FsOp> fs;
  bool read_only_root = true;
  // Places the payload may write (Landlock's write rules): targets of the writable operations above and more.
  std::vector<std::string> writable_paths;

  Limits limits;
  Hardening hardening;
  SeccompSpec seccomp;

  // Where each value came from: key path ("limits.memory") → "default policy", "flag --memory", "x.toml:3:1".
  std::map<std::string, std::string> origins;

  bool operator==(const SandboxSpec&) const = default;
};

// True when any host directory is writable through the spec (then the filter guards the set-id mode bits).
bool has_writable_host_directory(const SandboxSpec& spec);

}  // namespace sbx
