// Where a toolchain's files lie and which of them may be shown to a sandbox. Internal to find_toolchain.
//
// Two questions are answered here: which file does a command name stand for (PATH, links, file kind), and how little
// of the host has to be mounted so that this file works (its prefix, never a home directory or another place that
// holds more than a toolchain).
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/host_facts.h"
#include "policy/spec.h"

namespace sbx::runtime {

// What tells that a file is still the one looked at earlier.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  bool operator==(const FileIdentity&) const = default;
};
FileIdentity identity_of(const struct stat& info);
std::string identity_text(const FileIdentity& identity);  // "dev:inode:size:mtime", decimal

// True for paths in the directories that every rootfs shows: /usr, /bin, /sbin, /lib, /lib32, /lib64, /libx32.
bool is_system_path(std::string_view path);

// No control characters: fit for a line of text.
bool is_plain_text(std::string_view text);

enum class FileKind { elf, script, other };
// By the first bytes; follows links. Errors: permission when the file may not be read, system.
Result<FileKind> file_kind(const std::string& path);

// The directories of a PATH value: absolute ones only (a relative or empty entry would let the working directory,
// which may be an untrusted checkout, choose what runs), normalized, without repetitions.
std::vector<std::string> path_directories(std::string_view path);

struct FoundCommand {
  std::string command;  // the name that was looked for
  std::string path;     // as found, links not resolved
  struct stat info {};  // of the file at the end of the links
};
struct CommandSearch {
  std::optional<FoundCommand> found;
  // Where the caller may not look (directories) or may not execute what is there (files); without repetitions.
  std::vector<std::string> unreadable;
};
// The first command of `commands` that is an executable regular file in one of the directories; the order of
// `commands` counts before that of `directories`. One stat a candidate.
CommandSearch search_command(const std::vector<std::string>& commands, const std::vector<std::string>& directories);

// Why the host directory `source` (links resolved) holds more than a toolchain and is not mounted as one; "" when it
// may be. `info` is its status.
std::string refused_prefix(const std::string& source, const struct stat& info, const HostFacts& facts);

// The read-only mounts that make `binary` (absolute; as it shall appear inside) work there: the parent of its bin
// directory, or as much less as the rules above leave; nothing for system paths. Directory links in the path of
// `binary` are resolved for the source and kept in the target. Errors: not_found when not even the file may be shown.
Result<std::vector<BindOp>> prefix_mounts(const std::string& binary, const HostFacts& facts,
                                          const std::string& origin);

// Appends a mount unless an earlier one shows the same files at the same place.
void add_mount(std::vector<BindOp>& mounts, BindOp mount);
void add_mounts(std::vector<BindOp>& mounts, std::vector<BindOp> more);

// The paths that the last component of `path` goes through: `path` itself, what its link says, …, a file that is no
// link; directory links are kept. At most 16 hops; errors: system (ELOOP, ENOENT).
Result<std::vector<std::string>> link_chain(const std::string& path);

}  // namespace sbx::runtime
