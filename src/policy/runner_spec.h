// RunnerSpec: how one language is found, compiled and run. Data only; policies/lang/NAME.toml holds one each, and
// docs/adding-a-language.md explains every key.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/layer.h"

namespace sbx {

// Text looked for, literally, in the last 4 KiB of stderr; a match gives a hint, never a verdict.
struct HintPattern {
  std::string pattern;
  std::string hint;
  std::string raise;  // a limit ("memory"): the hint ends with the command line that doubles it; "": it stands alone
  bool operator==(const HintPattern&) const = default;
};

// What stands in braces in an argv or in an environment value:
//
//   {tool}, {tool_dir}        the interpreter or compiler that was found; its directory
//   {tool:LANGUAGE}           that of another language, which `uses` names
//   {src}, {src_dir}, {stem}  the program's path inside, its directory, its name without the extension
//   {sources}                 whole word: the program and the --file arguments with an extension of this language
//   {out}, {out_dir}          the program to build and its directory, /run/sbx/build; {out} is {out_dir}/{stem}
//   {main}                    the class that holds the entry point (hook "jvm-main-class")
//   {prepared}                the directory that [prepare] filled
//   {args}, {flags}           whole words: the payload's arguments; the --compile-flag values
//   {memory_mb}, {memory_mb:70}   the step's memory limit, or 70 percent of it, in MiB
//   {cpus}                    the step's limit of CPUs, rounded up
//
// A word or a variable that names a limit which is not set is left out.
enum class Placeholder { tool, tool_dir, src, src_dir, stem, sources, out, out_dir, main, prepared, args, flags, memory_mb, cpus };
struct PlaceholderUse {
  Placeholder which = Placeholder::tool;
  std::string parameter;  // what follows the colon; "" : nothing
};
// The placeholder that "tool:javascript", the text between two braces, is; nullopt: none.
std::optional<PlaceholderUse> parse_placeholder(std::string_view inner);
// "{tool}", "{tool_dir}" …
std::string placeholder_text(Placeholder which);
// {args}, {flags} and {sources} expand to any number of words, so they stand alone.
bool is_whole_word(Placeholder which);

struct RunnerCompile {
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;
  // glob(7) patterns of all host files that the result depends on beside source and compiler: headers, libraries, the
  // compiler's parts. While their state and all else is the same, the step is not run again. Empty: always run.
  std::vector<std::string> watch;
  std::vector<std::string> uncached_words;  // a source that holds one of them is always compiled: "__TIME__"
  bool operator==(const RunnerCompile&) const = default;
};

// What makes programs of the language leave what they show in the folder of plots, where that is asked for.
struct RunnerPlots {
  std::vector<std::string> files;    // of policies/lang/hooks, shown in /run/sbx/hooks
  // Run once for each toolchain, as [prepare] is: what it leaves in {prepared} is shown in /run/sbx/hooks instead.
  std::vector<std::string> prepare;
  // Texts: where the program has one of them, `prepare` is run with SBX_THOROUGH=1, for what takes longer.
  std::vector<std::string> thorough_for;
  std::map<std::string, std::string> environment;
  std::map<std::string, std::string> search_paths;  // put before what a policy or the caller gives, with a ':'
  bool operator==(const RunnerPlots&) const = default;
};

// Work that is the same for every program of a toolchain (Go's standard library), done once in a sandbox: what `argv`
// leaves in {prepared} is kept in the user's cache folder and shown there to every later step.
struct RunnerPrepare {
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;
  bool writable = false;  // each run may write there, for itself alone
  bool operator==(const RunnerPrepare&) const = default;
};

// Code for what data cannot say.
enum class RunnerHook {
  java_source_name,  // a program is called like the public class in it, where it is not shared from the host
  jvm_main_class,    // {main}: the class with main(String[]) among the class files that the compile step made
};

struct RunnerSpec {
  std::string name;                       // "python"
  std::string title;                      // "Python"
  std::vector<std::string> aliases;       // "py", "python3"
  std::vector<std::string> extensions;    // ".py"
  std::vector<std::string> interpreters;  // names in a #! line: "python", "python3"
  std::string source_name;                // for -c and stdin: "main.py"
  // Put before a program from -c or stdin that does not have `text_prefix_unless` in it: "<?php ", "<?".
  std::string text_prefix;
  std::string text_prefix_unless;
  std::vector<std::string> commands;      // tried in order on the caller's PATH: "python3", "python"
  std::vector<std::string> version_argv;  // {tool} …: prints the version in its first line
  // Run in a sandbox when the command found is a script that stands in for the real binary (pyenv, asdf …): prints
  // the absolute path of the real interpreter on its first line and the prefix to mount on each further line.
  std::vector<std::string> probe_argv;
  std::vector<std::string> steering_environment;  // variables that choose a version: "PYENV_VERSION"
  std::vector<std::string> steering_files;        // files looked for from the working directory up: ".python-version"
  std::vector<std::string> uses;                  // languages whose tools this one needs as well
  std::vector<RunnerHook> hooks;
  std::optional<RunnerPrepare> prepare;
  std::optional<RunnerCompile> compile;
  std::vector<std::string> run_argv;
  std::map<std::string, std::string> environment;
  std::optional<RunnerPlots> plots;
  PolicyLayer limits;                             // [limits]: defaults of this language, above those of the default policy
  std::vector<HintPattern> hints;
  std::map<std::string, std::string> packages;  // "debian" → "python3", "fedora" → …
  // Other toolchains for the language, tried in order where this one is not found; complete runners themselves.
  std::vector<RunnerSpec> alternatives;
  std::string origin;                            // "python.toml", or the user's file
  bool operator==(const RunnerSpec&) const = default;

  bool has_hook(RunnerHook hook) const;
};

}  // namespace sbx
