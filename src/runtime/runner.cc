#include "runtime/runner.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace sbx::runtime {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& letter : result) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return result;
}

bool contains(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::string extension_of(const std::string& file_name) {
  const size_t dot = file_name.rfind('.');
  // A leading dot makes a hidden file, not an extension.
  return dot == std::string::npos || dot == 0 ? std::string() : file_name.substr(dot);
}

// "python3.11" → "python3.11", "python3", "python": what a runner lists may be any of them.
const RunnerSpec* runner_of_interpreter(std::span<const RunnerSpec> runners, std::string name) {
  while (!name.empty()) {
    for (const RunnerSpec& runner : runners) {
      if (contains(runner.interpreters, name)) return &runner;
    }
    const char last = name.back();
    if (last != '.' && last != '-' && std::isdigit(static_cast<unsigned char>(last)) == 0) return nullptr;
    name.pop_back();
  }
  return nullptr;
}

// Replaces every {name} of one word.
Result<std::string> expand_word(const std::string& word, const StepValues& values, const std::string& origin) {
  std::string result;
  for (size_t at = 0; at < word.size();) {
    const size_t open = word.find('{', at);
    result.append(word, at, open == std::string::npos ? std::string::npos : open - at);
    if (open == std::string::npos) break;
    const size_t close = word.find('}', open);
    const std::string name = close == std::string::npos ? word.substr(open) : word.substr(open, close - open + 1);
    if (name == "{tool}") {
      result += values.tool;
    } else if (name == "{src}") {
      result += values.source;
    } else if (name == "{src_dir}") {
      result += dir_name(values.source);
    } else if (name == "{out}") {
      result += values.output;
    } else {
      const char* why = name == "{args}" || name == "{flags}" ? "' stands for whole words and cannot be part of one"
                                                             : "' is not a placeholder";
      return Error(ErrorKind::policy, "'" + printable(name) + why)
          .with_origin(origin)
          .with_hint("placeholders are {tool}, {src}, {src_dir}, {out}, {args} and {flags}");
    }
    at = close + 1;
  }
  return result;
}

}  // namespace

std::string language_list(std::span<const RunnerSpec> runners) {
  std::string list;
  for (size_t index = 0; index < runners.size(); ++index) {
    if (index > 0) list += index + 1 == runners.size() ? " and " : ", ";
    list += runners[index].name;
  }
  return list;
}

std::string shebang_interpreter(std::string_view head) {
  if (!starts_with(head, "#!")) return "";
  const size_t end = std::min(head.find('\n'), head.size());
  std::vector<std::string> words;
  for (const std::string& word : split(head.substr(2, end - 2), ' ')) {
    if (const std::string_view trimmed = trim(word); !trimmed.empty()) words.emplace_back(trimmed);
  }
  if (words.empty()) return "";
  if (base_name(words[0]) != "env") return base_name(words[0]);
  for (size_t index = 1; index < words.size(); ++index) {
    // env's own flags (-S, -i) and assignments come before the command.
    if (words[index][0] == '-' || words[index].find('=') != std::string::npos) continue;
    return base_name(words[index]);
  }
  return "";
}

const RunnerSpec* runner_of_command(std::span<const RunnerSpec> runners, const std::string& command) {
  for (const RunnerSpec& runner : runners) {
    if (contains(runner.commands, command)) return &runner;
  }
  return nullptr;
}

Result<LanguageChoice> choose_language(std::span<const RunnerSpec> runners, const std::string& language,
                                       const std::string& file_name, std::string_view head) {
  const std::string known = "languages: " + language_list(runners);
  if (!language.empty()) {
    const std::string wanted = lower(language);
    for (const RunnerSpec& runner : runners) {
      if (runner.name == wanted || contains(runner.aliases, wanted)) return LanguageChoice{&runner, "--lang"};
    }
    std::vector<std::string> names;
    for (const RunnerSpec& runner : runners) {
      names.push_back(runner.name);
      names.insert(names.end(), runner.aliases.begin(), runner.aliases.end());
    }
    const std::string near = did_you_mean(wanted, names);
    return Error(ErrorKind::usage, "unknown language '" + printable(language) + "'" +
                                       (near.empty() ? "" : ": did you mean '" + near + "'?"))
        .with_hint(known);
  }
  const std::string extension = extension_of(file_name);
  if (!extension.empty()) {
    for (const RunnerSpec& runner : runners) {
      if (contains(runner.extensions, extension)) return LanguageChoice{&runner, "the extension " + extension};
    }
    const std::string folded = lower(extension);
    for (const RunnerSpec& runner : runners) {
      if (contains(runner.extensions, folded)) return LanguageChoice{&runner, "the extension " + extension};
    }
  }
  const std::string interpreter = shebang_interpreter(head);
  if (!interpreter.empty()) {
    if (const RunnerSpec* runner = runner_of_interpreter(runners, interpreter); runner != nullptr) {
      return LanguageChoice{runner, "the #! line"};
    }
    return Error(ErrorKind::usage, "the #! line names '" + printable(interpreter) + "', which no language here claims")
        .with_hint("say which with --lang; " + known);
  }
  if (file_name.empty()) {
    return Error(ErrorKind::usage, "which language is it? The program has neither a file name nor a #! line")
        .with_hint("say which with --lang; " + known);
  }
  const std::string what = extension.empty() ? "has no extension" : "has the unknown extension '" + printable(extension) + "'";
  return Error(ErrorKind::usage, "which language is '" + printable(file_name) + "'? It " + what + " and no #! line")
      .with_hint("say which with --lang; " + known);
}

Result<std::vector<std::string>> expand_words(const std::vector<std::string>& words, const StepValues& values,
                                              const std::string& origin) {
  std::vector<std::string> result;
  for (const std::string& word : words) {
    if (word == "{args}") {
      result.insert(result.end(), values.arguments.begin(), values.arguments.end());
    } else if (word == "{flags}") {
      result.insert(result.end(), values.flags.begin(), values.flags.end());
    } else {
      result.push_back(SBX_TRY(expand_word(word, values, origin)));
    }
  }
  if (result.empty() || result[0].empty()) {
    return Error(ErrorKind::policy, "the command of a step is empty").with_origin(origin);
  }
  return result;
}

Result<std::vector<std::pair<std::string, std::string>>> expand_environment(
    const std::map<std::string, std::string>& environment, const StepValues& values, const std::string& origin) {
  std::vector<std::pair<std::string, std::string>> result;
  result.reserve(environment.size());
  for (const auto& [name, value] : environment) {
    result.emplace_back(name, SBX_TRY(expand_word(value, values, origin)));
  }
  return result;
}

std::string output_name(const std::string& source_name) {
  const size_t dot = source_name.rfind('.');
  std::string stem = dot == std::string::npos || dot == 0 ? source_name : source_name.substr(0, dot);
  return stem.empty() || stem == "." || stem == ".." ? "program" : stem;
}

}  // namespace sbx::runtime
