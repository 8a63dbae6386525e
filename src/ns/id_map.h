// User namespace id maps: writing them for a new child, and the throw-away namespaces that idmapped mounts need.
// user_namespaces(7), mount_setattr(2).
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/result.h"
#include "base/unique_fd.h"

namespace sbx::ns {

// One line each: `inside` shows as `outside` of the parent namespace.
struct IdPair {
  uint32_t inside_uid = 0, outside_uid = 0;
  uint32_t inside_gid = 0, outside_gid = 0;
};

// Writes uid_map, setgroups "deny" where the writer is unprivileged, and gid_map of the process.
Status write_id_maps(pid_t pid, const IdPair& pair, bool unprivileged);

// A user namespace that exists only as a descriptor, with the given map: for mount_setattr(MOUNT_ATTR_IDMAP), where
// `inside` is the id on disk and `outside` the id that it shall show as. Needs CAP_SETUID, CAP_SETGID.
Result<UniqueFd> make_map_namespace(const IdPair& pair);

}  // namespace sbx::ns
