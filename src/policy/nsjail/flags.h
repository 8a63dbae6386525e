// nsjail's command line as one table, over the fields of the schema. Words are read in order: -C puts a file's
// configuration in the place of everything that earlier flags had set, later flags change it. Kept beside a file are, as
// upstream has it: the root directory and how it and /proc are mounted, where the log goes, id maps and descriptors.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "policy/nsjail/config.h"

namespace sbx::nsjail {

enum class FlagKind {
  set_text,     // the field becomes the value
  set_number,
  set_true,
  set_false,
  add_text,     // the value is appended
  add_number,
  rlimit,       // number, soft, hard, inf …
  id_map,       // in[:out[:count]]
  special,
};

struct Flag {
  const char* name;     // without the dashes
  char letter;          // '\0': none
  FlagKind kind;
  const char* value;    // "n", "file" …; nullptr: takes none
  const char* field;    // what it sets; "" : nothing that a file could
  const char* doc;      // nullptr: the field's own
};
std::span<const Flag> flags();

struct CommandLine {
  Config config;
  std::vector<std::string> argv;  // the words after the options
  std::string chroot;             // "" : none
  bool root_rw = false;
  bool proc_rw = false;
  std::string proc_path = "/proc";
  bool help = false;
};

// `words` without the program's name. `read` reads the file of -C. Errors: usage with the flag as origin, and those of
// `read`.
Result<CommandLine> parse_command_line(const std::vector<std::string>& words,
                                       const std::function<Result<Config>(const std::string& path)>& read);

// What --help prints.
std::string usage_text(const std::string& program);

}  // namespace sbx::nsjail
