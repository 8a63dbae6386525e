// sbx help: the overview, a command's help; with --format, for the build and the shells, everything that is written
// from the tables: man pages, the reference, the policy schema, the hints, completion scripts.
#include <algorithm>

#include "base/text.h"
#include "cli/command.h"
#include "cli/complete.h"
#include "cli/output.h"
#include "policy/nsjail/reference.h"
#include "policy/reference.h"
#include "runtime/hint_reference.h"

namespace sbx::cli {
namespace {

const std::vector<std::string> kFormats = {"bash", "zsh", "fish", "man", "markdown", "keys", "schema", "hints", "nsjail"};

// "sbx.1", "sbx-run.1" … "sbx-policy.5".
std::vector<std::string> man_names() {
  std::vector<std::string> names = {"sbx.1"};
  for (const Command& command : commands()) names.push_back("sbx-" + std::string(command.name) + ".1");
  names.emplace_back("sbx-policy.5");
  return names;
}

Result<std::string> man_page(const std::string& name) {
  if (name == "sbx.1") return man_overview(commands());
  if (name == "sbx-policy.5") return man_policy_format();
  for (const Command& command : commands()) {
    if (name != "sbx-" + std::string(command.name) + ".1") continue;
    return man_text(command, SBX_TRY(command.page()), command.verbs != nullptr ? command.verbs() : std::span<const Command>());
  }
  return Error(ErrorKind::usage, "there is no page '" + printable(name) + "'").with_hint("pages: " + join(man_names(), ", "));
}

Result<std::string> formatted(const std::string& format, const std::string& topic) {
  if (format == "man") {
    if (topic.empty()) return join(man_names(), "\n") + "\n";
    return man_page(topic);
  }
  if (format == "markdown") return reference_markdown(all_commands());
  if (format == "keys") return key_reference_markdown();
  if (format == "schema") return policy_schema_json();
  if (format == "nsjail") return nsjail::field_reference_markdown();
  if (format == "hints") return runtime::hint_reference_markdown();
  if (const char* script = completion_script(format); script != nullptr) return std::string(script);
  const std::string near = did_you_mean(format, kFormats);
  return Error(ErrorKind::usage, "unknown format '" + printable(format) + "'" + (near.empty() ? "" : ": did you mean '" + near + "'?"))
      .with_hint("formats: " + join(kFormats, ", "));
}

}  // namespace

int help_format(const std::vector<std::string>& words) {
  const std::string format = words.empty() ? "" : words[0];
  Result<std::string> text = formatted(format, words.size() > 1 ? words[1] : "");
  if (text.ok()) return print_or_fail(text.value());
  say_error(text.error());
  return exit_code_for(text.error().kind());
}

int complete_words(const std::vector<std::string>& words) {
  const Completion completion = complete(words);
  std::string text;
  for (const Completion::Item& item : completion.items) {
    if (printable(item.text, item.text.size()) != item.text) continue;  // a line break would make two of it
    text += item.text + (item.doc.empty() ? "" : "\t" + item.doc) + "\n";
  }
  if (completion.commands) text += ":commands\n";
  if (completion.files) text += ":files\n";
  if (completion.directories) text += ":directories\n";
  return print_or_fail(text);
}

}  // namespace sbx::cli
