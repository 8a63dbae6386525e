#include "cli/page.h"

#include <algorithm>

#include "base/text.h"
#include "cli/command.h"

namespace sbx::cli {
namespace {

std::vector<std::string> groups_of(const Page& page) {
  std::vector<std::string> groups;
  for (const Option& option : page.options) {
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) groups.push_back(option.group);
  }
  return groups;
}

// Words from `column` on, broken so that lines end before kWidth, the next ones beginning at kColumn.
constexpr size_t kColumn = 30;
constexpr size_t kWidth = 100;
std::string wrapped(const std::string& text) {
  std::string lines;
  size_t column = kColumn;
  for (const std::string& word : split(text, ' ')) {
    if (column > kColumn && column + 1 + word.size() > kWidth) {
      lines += "\n" + std::string(kColumn, ' ');
      column = kColumn;
    } else if (column > kColumn) {
      lines += " ";
      ++column;
    }
    lines += word;
    column += word.size();
  }
  return lines;
}

}  // namespace

std::string help_text(const Page& page) {
  std::string text = page.usage + "\n\n" + page.about + "\n";
  for (const std::string& group : groups_of(page)) {
    text += "\n" + group + ":\n";
    for (const Option& option : page.options) {
      if (option.group != group) continue;
      std::string left = "  ";
      if (option.letter != 0) left += std::string("-") + option.letter + (option.name.empty() ? "" : ", ");
      else left += "    ";
      if (!option.name.empty()) left += "--" + option.name;
      if (!option.metavar.empty()) left += " " + option.metavar;
      text += left;
      if (left.size() + 2 > kColumn) text += "\n" + std::string(kColumn, ' ');
      else text.append(kColumn - left.size(), ' ');
      text += wrapped(option.doc + (option.standard.empty() ? "" : " (default " + option.standard + ")")) + "\n";
    }
    for (const Example& example : page.examples) {
      if (example.group == group) text += "    e.g.  " + example.line + "\n";
    }
  }
  return text;
}

Result<std::string> reference_markdown(std::span<const Command* const> commands) {
  std::string text =
      "# Commands and options\n\n"
      "Written from the tables that the parser reads; do not edit (`make reference` writes it anew). [cli.md](cli.md) tells how the\n"
      "pieces fit together.\n";
  // A | would end the cell.
  const auto cell = [](const std::string& content) {
    std::string safe;
    for (const char c : content) safe += c == '|' ? "\\|" : std::string(1, c);
    return safe;
  };
  for (const Command* command : commands) {
    const Page page = SBX_TRY(command->page());
    text += "\n## sbx " + std::string(command->name) + "\n\n```\n" + page.usage.substr(std::string_view("usage: ").size()) + "\n```\n\n";
    std::string about = page.about;
    // What is set off by spaces there is a list, and one here.
    for (size_t at = about.find("\n  "); at != std::string::npos; at = about.find("\n  ", at + 2)) about.replace(at, 3, "\n- ");
    text += about + "\n";
    for (const std::string& group : groups_of(page)) {
      text += "\n| " + group + " | |\n|---|---|\n";
      for (const Option& option : page.options) {
        if (option.group != group) continue;
        const std::string value = option.metavar.empty() ? "" : " " + option.metavar;
        std::string names = option.letter != 0 ? std::string("`-") + option.letter + (option.name.empty() ? value : "") + "`" : "";
        if (!option.name.empty()) names += (names.empty() ? "`--" : ", `--") + option.name + value + "`";
        text += "| " + cell(names) + " | " + cell(option.doc) + (option.standard.empty() ? "" : " (default " + cell(option.standard) + ")") + " |\n";
      }
    }
    text += "\nFor example:\n\n```\n";
    for (const Example& example : page.examples) text += example.line + "\n";
    text += "```\n";
  }
  return text;
}

}  // namespace sbx::cli
