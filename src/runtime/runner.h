// From a runner's data (RunnerSpec) and a program to the steps that a run takes: which language, which words.
//
// Nothing here touches a disk or a process: detection reads the name and the first bytes that the caller passes, and
// placeholders are expanded from values. Adding a language is adding a data file, never code here.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/runner_spec.h"

namespace sbx::runtime {

// Where the compiled program is built, and where sources lie that are not part of the working directory.
inline constexpr char kBuildDirectory[] = "/run/sbx/build";
inline constexpr char kPreparedDirectory[] = "/run/sbx/prepared";
inline constexpr char kFilesDirectory[] = "/run/sbx/files";
inline constexpr char kSourceDirectory[] = "/run/sbx/src";
inline constexpr char kBoxDirectory[] = "/box";
inline constexpr char kCellInputDirectory[] = "/run/sbx/input";  // what a session's cells read on stdin

struct LanguageChoice {
  const RunnerSpec* runner = nullptr;  // borrowed from the list given
  std::string why;                     // "--lang", "the extension .py", "the #! line"
};

// `language` (a name or an alias) if given; else the extension of `file_name`; else the interpreter named in the #!
// line at the start of `head`. Extensions are compared as written first, then without case. Errors: usage, with a
// did-you-mean for an unknown language, else with the list of those that are known.
Result<LanguageChoice> choose_language(std::span<const RunnerSpec> runners, const std::string& language,
                                       const std::string& file_name, std::string_view head);

// The interpreter's name in a "#!" line: "/usr/bin/env -S FOO=1 python3.11 -u" → "python3.11"; "" if there is none.
std::string shebang_interpreter(std::string_view head);

// ".py" of "main.py"; "" when there is none (a leading dot makes a hidden file).
std::string extension_of(const std::string& file_name);
// Whether the name has one of the runner's extensions.
bool is_source_of(const RunnerSpec& runner, const std::string& file_name);

// The runner for which `command` is one of the names that it is found under ("python3"); nullptr: none.
const RunnerSpec* runner_of_command(std::span<const RunnerSpec> runners, const std::string& command);

// What the placeholders of a runner's argv stand for (policy/runner_spec.h lists them).
struct StepValues {
  std::string tool;
  std::string tool_directory;
  std::map<std::string, std::string> tools;  // {tool:LANGUAGE}
  std::string source;                  // {src}; {src_dir} is its directory, {stem} its name without the extension
  std::vector<std::string> sources;
  std::string output;                  // {out}
  std::string main_class;              // {main}
  std::vector<std::string> arguments;  // {args}
  std::vector<std::string> flags;      // {flags}
  std::optional<Bytes> memory;         // {memory_mb}
  std::optional<uint64_t> cpus_milli;  // {cpus}
};

// Words that name a limit which is not set are left out. Errors: policy (the runner's file is wrong): an unknown
// placeholder, one for many words inside of a word, nothing left.
Result<std::vector<std::string>> expand_words(const std::vector<std::string>& words, const StepValues& values,
                                              const std::string& origin);
// The same for environment values; variables that name a limit which is not set are left out.
Result<std::vector<std::pair<std::string, std::string>>> expand_environment(
    const std::map<std::string, std::string>& environment, const StepValues& values, const std::string& origin);

// The name of the program that a compile step builds: the source's stem ("main" of "main.cpp"), so that a process
// list and argv[0] read right.
std::string output_name(const std::string& source_name);

// "python, javascript, cpp and 4 more, which sbx langs lists", for messages.
std::string language_list(std::span<const RunnerSpec> runners);

}  // namespace sbx::runtime
