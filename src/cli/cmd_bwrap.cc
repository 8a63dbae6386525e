// sbx bwrap: the words go to bwrap/run.h as they are; the page is written from the table of the parser.
#include "bwrap/run.h"
#include "cli/command.h"
#include "policy/bwrap/parse.h"

namespace sbx::cli {

int bwrap_command(const Invocation& invocation) { return bwrap::run("sbx bwrap", invocation.arguments()); }

Result<Page> bwrap_page() {
  Page page;
  page.usage = "usage: sbx bwrap [OPTIONS] [--] COMMAND [ARGS…]";
  page.about =
      "Bubblewrap's command line, as of 0.12.0: a sandbox that holds what the options say, in their order, and\n"
      "nothing else. A link named bwrap that leads to sbx is the same. None of sbx's own limits and filters.";
  for (const bwrap::OptionRow& row : bwrap::option_table()) {
    if (row.hidden) continue;
    std::string doc = row.doc;
    for (char& c : doc) c = c == '\n' ? ' ' : c;
    page.options.push_back({.group = "Options", .name = row.name + 2, .metavar = row.arguments, .doc = doc, .standard = "", .take = {}});
  }
  page.examples = {{"Options", "sbx bwrap --ro-bind / / --unshare-all --proc /proc --dev /dev id"}};
  page.arguments = ValueKind::command;
  return page;
}

}  // namespace sbx::cli
