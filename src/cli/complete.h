// What may follow on a command line, for the shells' completion (completion_scripts.cc).
#pragma once

#include <string>
#include <vector>

namespace sbx::cli {

struct Completion {
  struct Item {
    std::string text;  // the whole word
    std::string doc;   // "" : none
  };
  std::vector<Item> items;
  // What the shell lists itself.
  bool files = false, directories = false, commands = false;
};

// `words`: what stands after `sbx` up to the cursor, the last one, which may be empty, is being typed. Reads the
// caller's policies and languages; runs nothing. Items begin with the last word.
Completion complete(const std::vector<std::string>& words);

// The shell's script; nullptr for an unknown shell.
const char* completion_script(const std::string& shell);

}  // namespace sbx::cli
