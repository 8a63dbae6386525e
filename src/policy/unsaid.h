// What one dialect says and another cannot: how writers of policies tell what is missing from their text.
#pragma once

#include <string>
#include <vector>

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

}  // namespace sbx
