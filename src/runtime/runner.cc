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

// Replaces every placeholder of one word; nothing when one names a limit that is not set.
Result<std::optional<std::string>> expand_word(const std::string& word, const StepValues& values,
                                               const std::string& origin) {
  std::string result;
  for (size_t at = 0; at < word.size();) {
    const size_t open = word.find('{', at);
    result.append(word, at, open == std::string::npos ? std::string::npos : open - at);
    if (open == std::string::npos) break;
    const size_t close = word.find('}', open);
    const std::string inner = close == std::string::npos ? "" : word.substr(open + 1, close - open - 1);
    const std::optional<PlaceholderUse> use = parse_placeholder(inner);
    if (!use) {
      // The parser refused what only looks like one; what is left is text ("{ print }" of an awk program).
      result += '{';
      at = open + 1;
      continue;
    }
    switch (use->which) {
      case Placeholder::tool: {
        if (use->parameter.empty()) {
          result += values.tool;
          break;
        }
        const auto other = values.tools.find(use->parameter);
        if (other == values.tools.end()) {
          return Error(ErrorKind::internal, "no tool of " + use->parameter).with_origin(origin);
        }
        result += other->second;
        break;
      }
      case Placeholder::tool_dir: result += values.tool_directory; break;
      case Placeholder::src: result += values.source; break;
      case Placeholder::src_dir: result += dir_name(values.source); break;
      case Placeholder::stem: result += output_name(base_name(values.source)); break;
      case Placeholder::out: result += values.output; break;
      case Placeholder::out_dir: result += kBuildDirectory; break;
      case Placeholder::main: result += values.main_class; break;
      case Placeholder::prepared: result += kPreparedDirectory; break;
      case Placeholder::files: result += kFilesDirectory; break;
      case Placeholder::memory_mb: {
        if (!values.memory) return std::optional<std::string>();
        const uint64_t percent = use->parameter.empty() ? 100 : SBX_TRY(parse_integer(use->parameter));
        result += std::to_string(std::max<uint64_t>(1, (values.memory->value >> 20) * percent / 100));
        break;
      }
      case Placeholder::cpus:
        if (!values.cpus_milli) return std::optional<std::string>();
        result += std::to_string((*values.cpus_milli + 999) / 1000);
        break;
      case Placeholder::args:
      case Placeholder::flags:
      case Placeholder::sources:
        return Error(ErrorKind::policy, "'{" + inner + "}' stands for whole words and cannot be part of one").with_origin(origin);
    }
    at = close + 1;
  }
  return std::optional<std::string>(std::move(result));
}

}  // namespace

std::string extension_of(const std::string& file_name) {
  const size_t dot = file_name.rfind('.');
  return dot == std::string::npos || dot == 0 ? std::string() : file_name.substr(dot);
}

bool is_source_of(const RunnerSpec& runner, const std::string& file_name) {
  return contains(runner.extensions, extension_of(base_name(file_name)));
}

std::string language_list(std::span<const RunnerSpec> runners) {
  // What most people look for; all of them would fill the screen.
  constexpr std::array<std::string_view, 15> kCommon = {"python", "javascript", "typescript", "bash", "sh",
                                                        "c",      "cpp",        "java",       "go",   "rust",
                                                        "ruby",   "perl",       "php",        "lua",  "r"};
  std::vector<std::string> names;
  for (const std::string_view common : kCommon) {
    if (std::any_of(runners.begin(), runners.end(), [&](const RunnerSpec& runner) { return runner.name == common; })) {
      names.emplace_back(common);
    }
  }
  const size_t more = runners.size() - names.size();
  return join(names, ", ") + (more == 0 ? "" : " and " + std::to_string(more) + " more, which sbx langs lists");
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
    } else if (word == "{sources}") {
      result.insert(result.end(), values.sources.begin(), values.sources.end());
    } else if (std::optional<std::string> text = SBX_TRY(expand_word(word, values, origin)); text.has_value()) {
      result.push_back(std::move(*text));
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
    if (std::optional<std::string> text = SBX_TRY(expand_word(value, values, origin)); text.has_value()) {
      result.emplace_back(name, std::move(*text));
    }
  }
  return result;
}

std::string output_name(const std::string& source_name) {
  const size_t dot = source_name.rfind('.');
  std::string stem = dot == std::string::npos || dot == 0 ? source_name : source_name.substr(0, dot);
  return stem.empty() || stem == "." || stem == ".." ? "program" : stem;
}

}  // namespace sbx::runtime
