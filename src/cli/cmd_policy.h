// What the verbs of `sbx policy` share.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "policy/layer.h"
#include "policy/loader.h"
#include "policy/review.h"

namespace sbx::cli {

// Where the caller's own policies lie.
PolicySearch policy_search();

// Every key with its value in TOML and, as a comment, where it came from. Errors: those of merge_layers().
Result<std::string> values_text(std::span<const PolicyLayer> layers);

// A JSON array; what `check --json` and `explain --json` have in common.
std::string risks_json(const std::vector<Risk>& risks);

}  // namespace sbx::cli
