// Options of one command as a table, and the parser behind it (CLI11, in parser.cc only). The same table makes --help,
// man pages, the reference and completion (page.h).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace sbx::cli {

// What a value is, for completion.
enum class ValueKind {
  text,            // nothing that could be listed
  choice,          // one of Option::choices
  file,
  directory,
  language,        // names and aliases that --lang takes
  policy,          // a policy's name, or a file
  policy_name,     // a policy's name
  seccomp_policy,  // a shipped system call policy
  syscall_group,   // @GROUP of system calls
  variable,        // the name of a variable of the caller's environment
  command,         // a program, or a file
  session,         // a session that lives, or a file
  copied,          // a file, or a place in a session
};

struct Option {
  std::string group;    // heading in --help
  char letter = 0;      // 'q' of -q; 0: none
  std::string name;     // "memory" of --memory; "" when there is only a letter
  std::string metavar;  // "SIZE"; "" for a flag without a value
  std::string doc;      // one line
  std::string standard; // the default, as a person writes it; "" : none is shown
  // Called in the order of the command line, once per occurrence; the value is "" for a flag.
  std::function<Status(const std::string& value)> take;
  ValueKind kind = ValueKind::text;
  std::vector<std::string> choices = {};
};

// -h, --help and other flags without a value that set a field.
Option flag_option(const char* group, char letter, const char* name, const char* doc, bool& field);

struct Parsed {
  // Everything from the first word that is no option on. With `marked` it stood after "--", which is not in it.
  std::vector<std::string> rest;
  bool marked = false;
  size_t options_end = 0;  // index in `words` where `rest` (or the "--" before it) begins
};

// Options end at the first word that is none; what follows is not looked at. Errors: usage, with a did-you-mean for
// an unknown option.
Result<Parsed> parse_options(std::span<const Option> options, const std::vector<std::string>& words);

// For commands without a payload: options may stand anywhere between the arguments, which come back in order; what
// follows "--" is none.
Result<std::vector<std::string>> parse_options_anywhere(std::span<const Option> options, std::vector<std::string> words);

}  // namespace sbx::cli
