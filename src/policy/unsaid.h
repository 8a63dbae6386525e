// A resolved policy written in one dialect or another, and what that dialect has no words for.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "policy/spec.h"

namespace sbx {

struct Unsaid {
  std::string origin;  // "x.toml:3:1", "default policy"; "" where nobody in particular asked for it
  std::string what;    // "limits.output 64M: nsjail does not count output"
  bool operator==(const Unsaid&) const = default;
};

struct WrittenPolicy {
  std::string text;
  std::vector<Unsaid> unsaid;  // empty: the text says all that was asked for
};

// What a writer may ask beside the spec: writers are pure, and look at no disk.
struct WriteInput {
  // What a sandbox is when a native policy says nothing.
  const SandboxSpec& base;
  // Names of variables that are the caller's: their values are no part of any text.
  std::set<std::string> passed = {};
  // Whether the host has this very file at the same path, so that sharing it is the same as making it.
  std::function<bool(const FileOp&)> is_on_host = [](const FileOp&) { return false; };
};

// A place that only sbx itself has a use for.
inline bool is_of_sbx(const FsOp& op) {
  const auto* directory = std::get_if<DirOp>(&op);
  return directory != nullptr && directory->target == "/run/sbx";
}

}  // namespace sbx
