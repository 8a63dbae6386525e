// Finds, validates and rewrites with std::regex; lines come from stdin.
#include <iostream>
#include <map>
#include <regex>
#include <string>

int main() {
  const std::regex assignment(R"(^\s*([A-Za-z_]\w*)\s*=\s*(.*?)\s*$)");
  const std::regex reference(R"(\$\{(\w+)\})");
  const std::regex date(R"((\d{4})-(\d{2})-(\d{2}))");
  std::map<std::string, std::string> values;
  int number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    ++number;
    if (line.empty() || line.front() == '#') continue;
    std::smatch match;
    if (!std::regex_match(line, match, assignment)) {
      std::cout << "line " << number << " is no assignment: " << line << '\n';
      continue;
    }
    std::string value = match[2];
    for (std::smatch found; std::regex_search(value, found, reference);) {
      const auto known = values.find(found[1]);
      value = found.prefix().str() + (known == values.end() ? "?" : known->second) + found.suffix().str();
    }
    values[match[1]] = std::regex_replace(value, date, "$3.$2.$1");
  }
  for (const auto& [name, value] : values) std::cout << name << " -> " << value << '\n';
  const std::string text = "10 apples, 20 pears and 12 plums";
  const std::regex count(R"((\d+)\s+(\w+))");
  int sum = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), count), end; it != end; ++it) sum += std::stoi((*it)[1]);
  std::cout << sum << " fruits\n";
}
