// RunnerSpec: how one language is found, compiled and run. Data only; policies/lang/NAME.toml holds one each.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace sbx {

// Text looked for, literally, in the last 4 KiB of stderr; a match gives a hint, never a verdict.
struct HintPattern {
  std::string pattern;
  std::string hint;
  bool operator==(const HintPattern&) const = default;
};

// Placeholders in argv (a whole word or a part of one): {tool} the found interpreter or compiler, {src} the source's
// path inside, {src_dir}, {out} the program to build (under /run/sbx/build), {args} the payload's arguments and
// {flags} the --compile-flag values (both only as a whole word; they expand to zero or more words).
struct RunnerCompile {
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;
  bool operator==(const RunnerCompile&) const = default;
};

// What makes programs of the language leave what they show in the folder of plots, where that is asked for.
struct RunnerPlots {
  std::vector<std::string> files;                   // of policies/lang/hooks, shown in /run/sbx/hooks
  std::map<std::string, std::string> environment;
  std::map<std::string, std::string> search_paths;  // put before what a policy or the caller gives, with a ':'
  bool operator==(const RunnerPlots&) const = default;
};

struct RunnerSpec {
  std::string name;                       // "python"
  std::string title;                      // "Python"
  std::vector<std::string> aliases;       // "py", "python3"
  std::vector<std::string> extensions;    // ".py"
  std::vector<std::string> interpreters;  // names in a #! line: "python", "python3"
  std::string source_name;                // for -c and stdin: "main.py"
  std::vector<std::string> commands;      // tried in order on the caller's PATH: "python3", "python"
  std::vector<std::string> version_argv;  // {tool} …: prints the version in its first line
  // Run in a sandbox when the command found is a script that stands in for the real binary (pyenv, asdf …): prints
  // the absolute path of the real interpreter on its first line and the prefix to mount on each further line.
  std::vector<std::string> probe_argv;
  std::vector<std::string> steering_environment;  // variables that choose a version: "PYENV_VERSION"
  std::vector<std::string> steering_files;        // files looked for from the working directory up: ".python-version"
  std::optional<RunnerCompile> compile;
  std::vector<std::string> run_argv;
  std::map<std::string, std::string> environment;
  std::optional<RunnerPlots> plots;
  std::vector<HintPattern> hints;
  std::map<std::string, std::string> packages;  // "debian" → "python3", "fedora" → …
  std::string origin;                            // "python.toml", or the user's file
  bool operator==(const RunnerSpec&) const = default;
};

}  // namespace sbx
