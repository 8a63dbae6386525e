// A configuration of nsjail as a layer of sbx's policies: for `run` and `exec --policy FILE.cfg`. Its base is nsjail's own
// documented defaults, and sbx's places, limits and filter lie on top. What it says and no sandbox of sbx can have is a
// mistake; what is the business of another command (the mode, the program) or makes no difference to what is allowed is a
// note.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "policy/layer.h"
#include "policy/nsjail/config.h"

namespace sbx::nsjail {

struct LowerInput {
  std::string name;       // of the file, for messages
  std::string directory;  // the caller's, for relative paths
  std::function<std::optional<std::string>(const std::string& name)> variable;       // the caller's environment
  std::function<Result<std::string>(const std::string& path)> read;                  // seccomp_policy_file
};

struct Lowered {
  PolicyLayer layer;
  std::vector<Error> wrong;     // whatever is made of the text: a filter that does not compile
  std::vector<Error> mistakes;  // no sandbox of sbx can have it
  std::vector<std::string> notes;  // "jail.cfg:3:1: note: …"
};

// Pure, but for `input`.
Lowered to_policy(const Config& config, const LowerInput& input);

}  // namespace sbx::nsjail
