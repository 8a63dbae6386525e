// A stored bwrap argument file as a policy layer for sbx's own engine. What bwrap leaves open to the payload (every
// namespace that is not unshared, the environment) is open here too, below sbx's limits and filter, which the file cannot
// lift; what an engine without bwrap's command line cannot do is an error that says where and what to do instead.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "policy/loader.h"

namespace sbx::bwrap {

// What bwrap takes from its caller.
struct Surroundings {
  uint32_t uid = 0, gid = 0;
  std::string directory;                           // absolute; "": unknown
  std::string home;
  std::map<std::string, std::string> environment;
  // Whether there is such a directory on the host.
  bool (*is_directory)(const std::string& path) = nullptr;
};

// `name` stands in origins. Binds of "/" are still that, see expand_root(). Mistakes in the order of the text.
ParsedPolicy read_policy(std::string_view text, const std::string& name, const Surroundings& surroundings);

// The built-in default as bwrap's: its limits and its filter, and otherwise what bwrap does when nothing is said.
void make_base(PolicyLayer& defaults, const Surroundings& surroundings);

// Findings in words of bwrap's options, where a bwrap file or bwrap's own defaults are behind them.
void in_words_of_bwrap(std::vector<Risk>& risks, const PolicyLayer& layer);

}  // namespace sbx::bwrap
