// bubblewrap's command line: words separated by NUL, with one file of arguments behind every descriptor.
#include <cerrno>
#include <string>
#include <vector>

#include "fuzz.h"
#include "policy/bwrap/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sbx;
  using namespace sbx::bwrap;
  // Up to the first empty word: the command line; behind it: what descriptors hold.
  const std::string text(fuzz::text_of(data, size));
  const size_t border = text.find(std::string(2, '\0'));
  const std::string file = border == std::string::npos ? "" : text.substr(border + 2);
  std::vector<std::string> words;
  const std::string line = text.substr(0, border);
  for (size_t at = 0; at < line.size();) {
    size_t stop = line.find('\0', at);
    if (stop == std::string::npos) stop = line.size();
    words.push_back(line.substr(at, stop - at));
    at = stop + 1;
  }
  size_t reads = 0;
  const ParseContext context{.read_fd = [&](int fd) -> Result<std::string> {
    HOLDS(fd >= 0);
    ++reads;
    if (fd % 2 == 1) return Error::from_errno(EBADF, "read");
    return file;
  }};
  const Parsed parsed = parse(words, context);
  HOLDS(reads <= words.size());
  HOLDS((parsed.what == Parsed::What::failed) == (!parsed.messages.empty() && parsed.messages.back().error));
  for (size_t i = 0; i + 1 < parsed.messages.size(); ++i) HOLDS(!parsed.messages[i].error);
  if (parsed.what != Parsed::What::run) return 0;

  const Options& options = parsed.options;
  HOLDS(words.size() <= kMaxWords);
  HOLDS(options.command.size() <= words.size());
  // COMMAND is the end of the command line.
  for (size_t i = 0; i < options.command.size(); ++i) HOLDS(options.command[i] == words[words.size() - options.command.size() + i]);
  HOLDS(options.filter_fd == -1 || options.filters.empty());
  for (const std::string& filter : options.filters) HOLDS(filter.size() % 8 == 0);
  for (const Operation& op : options.operations) {
    HOLDS(is_option(op.option));
    HOLDS(op.perms >= -1 && op.perms <= 07777);
    const bool overlay = op.kind == OperationKind::overlay || op.kind == OperationKind::tmp_overlay || op.kind == OperationKind::ro_overlay;
    HOLDS(overlay == !op.lower.empty());
    const bool content = op.kind == OperationKind::file || op.kind == OperationKind::data;
    HOLDS(!content || (op.fd >= 0 && op.perms >= 0));
    HOLDS(op.size == 0 || op.kind == OperationKind::tmpfs);
  }
  for (const EnvironmentChange& change : options.environment) HOLDS(change.name.find('=') == std::string::npos);
  (void)check_combinations(options);
  (void)check_identity(options, true, 0, 0);
  // The same words again are the same answer; and a further option before COMMAND is one operation more.
  std::vector<std::string> longer{"--dir", "/fuzz"};
  longer.insert(longer.end(), words.begin(), words.end());
  const Parsed more = parse(longer, context);
  if (more.what == Parsed::What::run) HOLDS(more.options.operations.size() == options.operations.size() + 1);
  return 0;
}
