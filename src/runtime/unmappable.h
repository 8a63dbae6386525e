// Host directories on file systems that cannot be idmapped (overlay, tmpfs before 6.3, NFS …), for a root caller.
// Design section 6: read-only ones are copied in, within the limits; read-write ones are a matter of identity (the
// payload runs as the tree's owner), not of this file.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"

namespace sbx::runtime {

struct CopyOwner {
  uint32_t uid = 0;  // host ids that every copied file gets
  uint32_t gid = 0;
};

// A copy of the directory `source` on a detached tmpfs of its own (mount it with move_mount), at most `size` bytes and
// `inodes` files. Directories, regular files and links (as links, never followed) with their permission bits without
// set-id and sticky bits; anything else is left out. Errors: resource when it does not fit, with a hint that names
// --disk and --inodes; unsupported when `source` is no directory; permission, system.
Result<UniqueFd> copy_to_tmpfs(const std::string& source, Bytes size, uint64_t inodes, const CopyOwner& owner);

}  // namespace sbx::runtime
