#include "cli/page.h"

#include <algorithm>

#include "base/text.h"

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

}  // namespace sbx::cli
