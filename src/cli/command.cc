// Which command it is; what sbx says when it is none.
#include "cli/command.h"

#include <algorithm>

#include "base/sys.h"
#include "base/text.h"
#include "bwrap/run.h"
#include "cli/cmd_policy.h"
#include "cli/output.h"
#include "nsjail/nsjail.h"
#include "policy/bwrap/parse.h"
#include "runtime/program.h"
#include "selftest/inside.h"
#include "version.h"

namespace sbx::cli {
namespace {

constexpr Command kCommands[] = {
    {"run", "run source code with a language runner", run_command, run_page},
    {"exec", "run any command in the same sandbox", exec_command, exec_page},
    {"langs", "languages: known, found here, and what brings the rest", langs_command, langs_page},
    {"doctor", "what this host allows, and what mends the rest", doctor_command, doctor_page},
    {"selftest", "attacks on this host's sandbox: what blocks each", selftest_command, selftest_page},
    {"policy", "policies: list, show, check, explain, convert, start a new one", policy_command, policy_page, policy_verbs},
    {"session", "sandboxes that keep files and interpreter state", session_command, session_page, session_verbs},
    {"cp", "copy files into a session and back", cp_command, cp_page},
    {"bwrap", "bubblewrap's command line, carried out by sbx", bwrap_command, bwrap_page},
    {"nsjail", "nsjail's command line and configurations, likewise", nsjail_command, nsjail_page},
};

// At most 24 lines: it shall be read at a glance.
std::string overview() {
  std::string text =
      "sbx " SBX_VERSION ": runs programs that nobody should trust, in a sandbox, at once.\n"
      "\n"
      "  sbx run main.py                                  run a file; its language is found\n"
      "  sbx run --workspace . --memory 2G tests/run.py   with this directory, read-only\n"
      "  echo 'print(6*7)' | sbx run --lang python        code on stdin\n"
      "\n"
      "commands:\n";
  for (const Command& command : commands()) {
    std::string name = command.name;
    name.append(name.size() < 10 ? 10 - name.size() : 1, ' ');
    text += "  " + name + command.summary + "\n";
  }
  return text +
         "\n"
         "Without options: no network, nothing of your home, 60 s, 1 GiB of memory.\n"
         "sbx COMMAND --help tells the rest; sbx --version the version.\n";
}

// Whether a word looks like a program rather than a command that was mistyped.
bool looks_like_file(const std::string& word) {
  return word.find('/') != std::string::npos || word.find('.') != std::string::npos || sys::stat(word).ok();
}

// "sbx python main.py": whether a word names a language.
bool is_language(const std::string& word) {
  const Result<std::vector<RunnerSpec>> runners = load_runners(policy_search(), word);
  if (!runners.ok()) return false;
  return std::any_of(runners.value().begin(), runners.value().end(), [&](const RunnerSpec& runner) {
    return runner.name == word || std::find(runner.aliases.begin(), runner.aliases.end(), word) != runner.aliases.end();
  });
}

std::string quoted_line(std::span<const std::string> words) {
  std::string line;
  for (const std::string& word : words) line += " " + shell_quote(word);
  return line;
}

// words[0] stands where a command should; what follows it may tell what was meant.
int wrong_command(std::span<const std::string> words) {
  const std::string& word = words[0];
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  names.emplace_back("--help");
  names.emplace_back("--version");
  const std::string near = did_you_mean(word, names);
  const bool option = word[0] == '-';
  std::string hint = "sbx --help lists the commands";
  if (option) {
    hint = "options follow the command, as in: sbx run" + (words.size() > 1 ? quoted_line(words) : " " + shell_quote(word) + " FILE");
    for (size_t i = 1; i < words.size(); ++i) {
      if (words[i] != "run" && words[i] != "exec") continue;
      hint = "options follow the command: sbx " + words[i] + quoted_line(words.first(i)) + quoted_line(words.subspan(i + 1));
      break;
    }
  } else if (starts_with(word, "completion")) {
    hint = "sbx help --format bash prints it; or zsh, or fish";
  } else if (looks_like_file(word)) {
    hint = "to run a file: sbx run" + quoted_line(words);
  } else if (near.empty() && is_language(word)) {
    hint = runtime::language_first_hint(word, words.subspan(1));
  }
  say_error(Error(ErrorKind::usage, std::string(option ? "unknown option '" : "unknown command '") + printable(word) +
                                        "'" + (near.empty() ? "" : ": did you mean '" + near + "'?"))
                .with_hint(hint));
  return exit_code_for(ErrorKind::usage);
}

}  // namespace

int dispatch(const std::vector<std::string>& words) {
  const std::string called = words.empty() ? "sbx" : base_name(words[0]);
  // As /proc/self/exe, which is how a program inside a sandbox starts the same bwrap again, the link's name is lost.
  const bool renamed = called != "sbx" && called != "nsjail" && words.size() > 1 && bwrap::is_option(words[1]);
  if (called == "bwrap" || renamed) return bwrap::run(words[0], {words.begin() + 1, words.end()});
  if (called == "nsjail") return nsjail::run({words.begin() + 1, words.end()}, words[0]);
  if (words.size() < 2) return print_or_fail(overview());
  const std::string& word = words[1];
  if (word == "--version" || word == "-V" || word == "version") return print_or_fail("sbx " SBX_VERSION "\n");
  if (word == "--help" || word == "-h" || word == "help") {
    if (words.size() == 2) return print_or_fail(overview());
    if (words[2] == "--format") return help_format({words.begin() + 3, words.end()});
    const std::string name = words[2] + (words.size() > 3 ? " " + words[3] : "");
    for (const Command* command : all_commands()) {
      if (name == command->name) return show_help(command->page);
    }
    return wrong_command(std::span(words).subspan(2));
  }
  for (const Command& command : commands()) {
    if (word == command.name) return command.run({words});
  }
  if (word == selftest::kInsideWord) return probe_words({words.begin() + 2, words.end()});
  if (word == "__complete") return complete_words({words.begin() + 2, words.end()});
  if (word.empty()) {
    say_error(Error(ErrorKind::usage, "the command is an empty word").with_hint("a variable that is not set?"));
    return exit_code_for(ErrorKind::usage);
  }
  return wrong_command(std::span(words).subspan(1));
}

std::span<const Command> commands() { return kCommands; }

std::vector<const Command*> all_commands() {
  std::vector<const Command*> all;
  for (const Command& command : kCommands) {
    all.push_back(&command);
    if (command.verbs == nullptr) continue;
    for (const Command& verb : command.verbs()) all.push_back(&verb);
  }
  return all;
}

int fail_usage(const char* command, const Error& error) {
  const std::string hint = std::string("sbx ") + command + " --help lists the options";
  say_error(error.hint().empty() ? Error(error).with_hint(hint) : error);
  return exit_code_for(error.kind());
}

int show_help(Result<Page> (*make)()) {
  const Result<Page> page = make();
  if (page.ok()) return print_or_fail(help_text(page.value()));
  say_error(page.error());
  return exit_code_for(page.error().kind());
}

int exit_code_for(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
    case ErrorKind::policy: return 2;
    case ErrorKind::not_found: return 127;
    case ErrorKind::not_executable: return 126;
    case ErrorKind::unsupported:
    case ErrorKind::permission:
    case ErrorKind::resource:
    case ErrorKind::system:
    case ErrorKind::internal: return 125;
  }
  return 125;
}

}  // namespace sbx::cli
