// Options of one command as a table, and the parser behind it (CLI11, in parser.cc only). The same table makes --help,
// and later man pages and completions.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace sbx::cli {

struct Option {
  std::string group;    // heading in --help
  char letter = 0;      // 'q' of -q; 0: none
  std::string name;     // "memory" of --memory; "" when there is only a letter
  std::string metavar;  // "SIZE"; "" for a flag without a value
  std::string doc;      // one line
  std::string standard; // the default, as a person writes it; "" : none is shown
  // Called in the order of the command line, once per occurrence; the value is "" for a flag.
  std::function<Status(const std::string& value)> take;
};

struct Parsed {
  // Everything from the first word that is no option on. With `marked` it stood after "--", which is not in it.
  std::vector<std::string> rest;
  bool marked = false;
  size_t options_end = 0;  // index in `words` where `rest` (or the "--" before it) begins
};

// Options end at the first word that is none; what follows is not looked at. Errors: usage, with a did-you-mean for
// an unknown option.
Result<Parsed> parse_options(std::span<const Option> options, const std::vector<std::string>& words);

struct Example {
  std::string group;  // shown under the heading of that group
  std::string line;
};

// The help page: usage lines, options by group with their defaults, one example a group.
std::string help_page(const std::string& usage, const std::string& about, std::span<const Option> options,
                      std::span<const Example> examples);

}  // namespace sbx::cli
