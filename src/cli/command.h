// A command of sbx: its name, its summary, what runs it, and its page. The list stands in command.cc, explicitly; the
// verbs of `sbx policy` are commands likewise (cmd_policy.cc).
//
// Only the command that was asked for builds its options; the first word decides before any parser is set up.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/result.h"
#include "cli/page.h"

namespace sbx::cli {

// The words of the command line: words[0] is how sbx was called, words[1] the command.
struct Invocation {
  std::vector<std::string> words;
  std::vector<std::string> arguments(size_t from = 2) const {
    return {words.begin() + static_cast<std::ptrdiff_t>(from), words.end()};
  }
};

struct Command {
  const char* name;  // "run", "policy check"
  const char* summary;
  int (*run)(const Invocation&);  // the exit status
  Result<Page> (*page)();         // with the defaults filled in
  std::span<const Command> (*verbs)() = nullptr;  // of `sbx NAME VERB`; nullptr: it has none
};
std::span<const Command> commands();
// All commands, verbs after the one that has them.
std::vector<const Command*> all_commands();

int run_command(const Invocation& invocation);     // sbx run
int exec_command(const Invocation& invocation);    // sbx exec
int langs_command(const Invocation& invocation);   // sbx langs
int doctor_command(const Invocation& invocation);  // sbx doctor
int selftest_command(const Invocation& invocation);  // sbx selftest
int policy_command(const Invocation& invocation);  // sbx policy
int bwrap_command(const Invocation& invocation);   // sbx bwrap
int nsjail_command(const Invocation& invocation);  // sbx nsjail
int session_command(const Invocation& invocation); // sbx session
int cp_command(const Invocation& invocation);      // sbx cp
int policy_check_command(const Invocation& invocation);
int policy_convert_command(const Invocation& invocation);
int policy_explain_command(const Invocation& invocation);
Result<Page> run_page();
Result<Page> exec_page();
Result<Page> langs_page();
Result<Page> doctor_page();
Result<Page> selftest_page();
Result<Page> policy_page();
Result<Page> bwrap_page();
Result<Page> nsjail_page();
Result<Page> session_page();
Result<Page> cp_page();
Result<Page> policy_check_page();
Result<Page> policy_convert_page();
Result<Page> policy_explain_page();
std::span<const Command> policy_verbs();
std::span<const Command> session_verbs();

// sbx help --format FORMAT [PAGE]; sbx __complete WORDS: for the build and the shells, in no overview.
int help_format(const std::vector<std::string>& words);
int complete_words(const std::vector<std::string>& words);

// sbx __probe NAME BAIT: what sbx selftest runs inside of a sandbox; in no overview either.
int probe_words(const std::vector<std::string>& words);

// Runs the command that the words name. The exit status of the program.
int dispatch(const std::vector<std::string>& words);

// Exit status for an Error: the one place (base/error.h lists the kinds).
int exit_code_for(ErrorKind kind);
// Says the error, with the --help of `command` as the way out where it names none; the exit status.
int fail_usage(const char* command, const Error& error);
// A command's --help on stdout.
int show_help(Result<Page> (*page)());

}  // namespace sbx::cli
