// What a toolchain's runner has done once ([prepare]: Go compiles its standard library), kept in the user's cache folder:
// CACHE/prepared/DIGEST, 0700 up to there, one directory for each toolchain and way of preparing it.
//
// The work is done in a sandbox that sees the toolchain and nothing of the caller's, so what comes out depends on the
// toolchain alone. It is copied out as plain files, bounded, links and the like left out, and moved into place whole.
// At most 24 are kept, and 3 GiB: those not used for longest go.
// Preparing may fail or be impossible (no cache folder): then there is nothing, and every run does the work itself.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "policy/runner_spec.h"
#include "runtime/runner.h"
#include "runtime/toolchain.h"

namespace sbx::runtime {

struct PrepareRequest {
  const RunnerSpec* runner = nullptr;  // with `prepare`; borrowed
  const Toolchain* tool = nullptr;     // borrowed
  StepValues values;
  std::string cache_directory;         // "" : there is no cache
};

// Runs argv with the environment in a sandbox with an empty writable kPreparedDirectory, and hands over that directory.
// Errors: not_found (the tool failed: not tried again for an hour); others are not remembered.
using PrepareRunner = std::function<Result<UniqueFd>(const std::vector<std::string>& argv,
                                                     const std::vector<std::pair<std::string, std::string>>& environment)>;

// The host directory that holds what was prepared, made now if it is not there yet; "" when there is none. `note` is
// told why. Others who want the same wait for the first.
std::string prepared_directory(const PrepareRequest& request, const PrepareRunner& run,
                               const std::function<void(const std::string&)>& note);

}  // namespace sbx::runtime
