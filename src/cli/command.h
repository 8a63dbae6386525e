// A command of sbx: its name, its summary, and what runs it. The list stands in command.cc, explicitly.
//
// Only the command that was asked for builds its options; the first word decides before any parser is set up.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace sbx::cli {

// The words of the command line: words[0] is how sbx was called, words[1] the command.
struct Invocation {
  std::vector<std::string> words;
  std::vector<std::string> arguments() const { return {words.begin() + 2, words.end()}; }
};

struct Command {
  const char* name;
  const char* summary;
  int (*run)(const Invocation&);  // the exit status
};
std::span<const Command> commands();

int run_command(const Invocation& invocation);     // sbx run
int exec_command(const Invocation& invocation);    // sbx exec
int langs_command(const Invocation& invocation);   // sbx langs
int doctor_command(const Invocation& invocation);  // sbx doctor
int policy_command(const Invocation& invocation);  // sbx policy

// Runs the command that the words name. The exit status of the program.
int dispatch(const std::vector<std::string>& words);

// Exit status for an Error: the one place (base/error.h lists the kinds).
int exit_code_for(ErrorKind kind);

}  // namespace sbx::cli
