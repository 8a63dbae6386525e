#include "cli/parser.h"

// CLI11 includes <iostream> for what is not used here. Its static object sets up eight streams and a locale whenever
// sbx starts: twenty page faults, and 2 % of the time of a whole sandbox. So only the names are declared.
#define _GLIBCXX_IOSTREAM 1  // NOLINT(bugprone-reserved-identifier)
#include <istream>
#include <ostream>
namespace std {  // NOLINT(cert-dcl58-cpp)
extern istream cin;
extern ostream cout, cerr;
}  // namespace std
#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "base/text.h"

namespace sbx::cli {
namespace {

std::string written(const Option& option) {
  return option.name.empty() ? std::string("-") + option.letter : "--" + option.name;
}

Error unknown_option(std::span<const Option> options, const std::string& word) {
  const std::string bare = word.substr(0, word.find('='));
  std::vector<std::string> names;
  for (const Option& option : options) {
    if (!option.name.empty()) names.push_back("--" + option.name);
  }
  // One letter is like any other; only long options are guessed at.
  const bool is_long = starts_with(bare, "--") && bare.size() > 4;
  std::string near = starts_with(bare, "--") ? did_you_mean(bare, names) : "";
  if (near.empty() && is_long) {
    // Cut short, or said at length: "--mem", "--network".
    const auto alike = [&](const std::string& name) { return starts_with(name, bare) || starts_with(bare, name); };
    if (std::count_if(names.begin(), names.end(), alike) == 1) near = *std::find_if(names.begin(), names.end(), alike);
  }
  return Error(ErrorKind::usage,
               "unknown option '" + printable(bare) + "'" + (near.empty() ? "" : ": did you mean '" + near + "'?"));
}

// Whether one of the words can mean this option. CLI11 compares each option that it is told of with all others: those of
// `run` and `exec` alone were a quarter of a start's instructions, and most command lines mention two or three.
bool is_mentioned(const Option& option, const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    if (!starts_with(word, "-")) return false;
    if (!starts_with(word, "--")) return option.letter != 0 && word.find(option.letter) != std::string::npos;
    return !option.name.empty() && std::string_view(word).substr(2, word.find('=') - 2) == option.name;
  });
}

}  // namespace

Result<Parsed> parse_options(std::span<const Option> options, const std::vector<std::string>& words) {
  CLI::App app;
  app.set_help_flag("");
  app.prefix_command();
  std::map<const CLI::Option*, const Option*> rows;
  for (const Option& option : options) {
    if (!is_mentioned(option, words)) continue;
    std::string names;
    if (option.letter != 0) names = std::string("-") + option.letter;
    if (!option.name.empty()) names += (names.empty() ? "--" : ",--") + option.name;
    CLI::Option* made = nullptr;
    if (option.metavar.empty()) {
      made = app.add_flag(names);
    } else {
      made = app.add_option(names);
      made->expected(1)->allow_extra_args(false);
    }
    made->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    rows.emplace(made, &option);
  }
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ArgumentMismatch& mismatch) {
    // "--memory: 1 required TEXT missing": the option's name is all that we take from CLI11's text.
    const std::string text = mismatch.what();
    const std::string name = text.substr(0, text.find(':'));
    for (const Option& option : options) {
      if (written(option) != name && std::string("-") + option.letter != name) continue;
      if (option.metavar.empty()) return Error(ErrorKind::usage, "option '" + written(option) + "' takes no value");
      return Error(ErrorKind::usage, "option '" + written(option) + "' needs a value: " + option.metavar)
          .with_hint(option.doc);
    }
    return Error(ErrorKind::usage, printable(text));
  } catch (const CLI::ParseError& error) {
    return Error(ErrorKind::usage, printable(error.what()));
  }

  std::vector<std::string> rest = app.remaining();
  Parsed parsed;
  parsed.options_end = words.size() - rest.size();
  if (!rest.empty() && rest[0] == "--") {
    parsed.marked = true;
    rest.erase(rest.begin());
  } else if (!rest.empty() && rest[0].size() > 1 && rest[0][0] == '-') {
    return unknown_option(options, rest[0]);
  }
  parsed.rest = std::move(rest);

  std::map<const CLI::Option*, size_t> seen;
  for (const CLI::Option* made : app.parse_order()) {
    const auto row = rows.find(made);
    if (row == rows.end()) continue;
    const Option& option = *row->second;
    const std::vector<std::string> values = made->results();
    const size_t index = seen[made]++;
    std::string value = index < values.size() ? values[index] : "";
    if (option.metavar.empty()) {
      if (value != "true") return Error(ErrorKind::usage, "option '" + written(option) + "' takes no value");
      value.clear();
    }
    SBX_TRY(option.take(value));
  }
  return parsed;
}

Result<std::vector<std::string>> parse_options_anywhere(std::span<const Option> options, std::vector<std::string> words) {
  std::vector<std::string> arguments;
  for (;;) {
    Parsed parsed = SBX_TRY(parse_options(options, words));
    if (parsed.marked || parsed.rest.empty()) {
      arguments.insert(arguments.end(), parsed.rest.begin(), parsed.rest.end());
      return arguments;
    }
    arguments.push_back(parsed.rest.front());
    words.assign(parsed.rest.begin() + 1, parsed.rest.end());
  }
}

Option flag_option(const char* group, char letter, const char* name, const char* doc, bool& field) {
  return {group, letter, name, "", doc, "", [&field](const std::string&) -> Status {
            field = true;
            return {};
          }};
}

}  // namespace sbx::cli
