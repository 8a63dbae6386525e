// What there is to say about a command: the one source of --help, the man pages, the reference and completion.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/parser.h"

namespace sbx::cli {

struct Command;

struct Example {
  std::string group;  // shown under the heading of that group
  std::string line;
};

struct Page {
  std::string usage;  // lines, the first begins "usage: "
  std::string about;  // lines of at most 100 characters
  std::vector<Option> options;  // to be read: what their closures would fill may be gone
  std::vector<Example> examples;
  ValueKind arguments = ValueKind::text;  // what stands where no option stands
};

// --help: usage, about, options by group with their defaults, one example a group.
std::string help_text(const Page& page);

// In man(7): sbx-NAME(1) with what the verbs say; sbx(1), which names the other pages; sbx-policy(5), from the key table.
std::string man_text(const Command& command, const Page& page, std::span<const Command> verbs);
std::string man_overview(std::span<const Command> commands);
std::string man_policy_format();

// docs/commands.md: every command and option. Errors: those of the pages.
Result<std::string> reference_markdown(std::span<const Command* const> commands);

}  // namespace sbx::cli
