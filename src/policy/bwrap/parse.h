// Words of a bwrap command line to Options. Pure: whatever lies behind a descriptor comes from a callback, so that the
// parser can be fuzzed and used on stored files.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/bwrap/options.h"

namespace sbx::bwrap {

inline constexpr char kVersionText[] = "bubblewrap 0.12.0";
// Words of the command line and of all files behind --args, COMMAND's included. Clients count on this number.
inline constexpr size_t kMaxWords = 9000;

// A line on stderr. `prefixed`: --level-prefix stood before what caused it.
struct Message {
  std::string text;  // without "bwrap: "
  bool error = false;
  bool prefixed = false;
};

struct ParseContext {
  // All bytes behind the descriptor, which is the parser's to give away: it is closed afterwards. Errors: with errnum().
  std::function<Result<std::string>(int fd)> read_fd;
  uint32_t last_capability = 40;
};

struct Parsed {
  enum class What {
    run,      // options are complete as far as their words go
    help,     // on stdout, status 0
    version,  // on stdout, status 0
    failed,   // the last message says why: status 1
  };
  What what = What::run;
  Options options;
  std::vector<Message> messages;  // in order
};

// `words` without the program's name.
Parsed parse(std::span<const std::string> words, const ParseContext& context);

// Which options exclude or need each other; "" when all is well. In upstream's order: before COMMAND is looked for …
std::string check_combinations(const Options& options);
// … and after. `user_namespace`: one is made (asked for, tried, or because the caller is not root).
std::string check_identity(const Options& options, bool user_namespace, uint32_t uid, uint32_t gid);

// Whether a word is a long option of bwrap (--help and --version are everybody's, and do not count).
bool is_option(std::string_view word);

// "No such file or directory": without the name that messages of sbx's own add, because clients match these lines.
std::string plain_errno_text(int errnum);

// What --help prints; `called` is how the program was called.
std::string help_text(std::string_view called);

// The option table, for pages, completion and tests.
struct OptionRow {
  const char* name;       // "--ro-bind"
  const char* arguments;  // "SRC DEST"; "" for none
  const char* doc;        // may hold a line break
  bool hidden = false;    // no part of 0.12.0's own surface: not in --help
};
std::span<const OptionRow> option_table();

}  // namespace sbx::bwrap
