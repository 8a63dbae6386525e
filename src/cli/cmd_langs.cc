// sbx langs: which languages there are, what this host has for them, and what brings the rest. sbx langs check FILE: what is
// wrong with the file of a language.
#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/parser.h"
#include "runtime/request.h"

namespace sbx::cli {
namespace {

std::string as_json(const std::vector<runtime::LanguageStatus>& languages) {
  const auto list = [](const std::vector<std::string>& words) {
    std::string text = "[";
    for (const std::string& word : words) text += (text.size() > 1 ? ", " : "") + json_text(word);
    return text + "]";
  };
  std::string text = "{\n  \"schema\": \"sbx-langs\",\n  \"version\": 1,\n  \"languages\": [";
  for (const runtime::LanguageStatus& language : languages) {
    text += text.back() == '[' ? "\n" : ",\n";
    text += "    {\"name\": " + json_text(language.name) + ", \"title\": " + json_text(language.title) +
            ", \"aliases\": " + list(language.aliases) + ", \"extensions\": " + list(language.extensions) +
            ",\n     \"found\": " + (language.found ? "true" : "false") +
            ", \"path\": " + (language.found ? json_text(language.tool) : "null") +
            ", \"version\": " + (language.version.empty() ? "null" : json_text(language.version)) +
            ", \"origin\": " + (language.found ? json_text(language.origin) : "null") +
            ",\n     \"package\": " + (language.package.empty() ? "null" : json_text(language.package)) +
            ", \"problem\": " + (language.found ? "null" : json_text(language.problem)) + "}";
  }
  return text + "\n  ]\n}\n";
}

int check(const std::string& file, const runtime::Observer& observer) {
  const Result<runtime::LanguageCheck> checked = runtime::check_language(file, runtime::probe_host(), observer);
  if (!checked.ok()) {
    say_error(checked.error());
    return exit_code_for(checked.error().kind());
  }
  const runtime::LanguageCheck& result = checked.value();
  const runtime::LanguageStatus& status = result.status;
  std::string text = printable(file) + ": the language \"" + status.name + "\" (" + printable(status.title) + ") is described well\n";
  for (const std::string& line : result.notes) text += "  " + line + "\n";
  if (status.found) {
    text += "  its tool is " + printable(status.tool) + (status.version.empty() ? "" : ", " + printable(status.version, 80)) + "\n";
  } else {
    text += "  this host cannot run it: " + printable(status.problem) + (status.package.empty() ? "" : "; package " + printable(status.package)) + "\n";
  }
  if (!result.place.empty()) {
    text += "  to use it: install -D -m 644 " + shell_quote(file) + " " + shell_quote(result.place) + "\n";
  }
  return print_or_fail(text);
}

}  // namespace

int langs_command(const Invocation& invocation) {
  bool json = false;
  bool help = false;
  bool verbose = false;
  const auto set = [](bool& field) {
    return [&field](const std::string&) -> Status {
      field = true;
      return {};
    };
  };
  const std::vector<Option> options = {
      {"Options", 0, "json", "", "print JSON", "", set(json)},
      {"Options", 'v', "verbose", "", "say what is done to find them", "", set(verbose)},
      {"Options", 'h', "help", "", "this page", "", set(help)},
  };
  Result<Parsed> parsed = parse_options(options, invocation.arguments());
  const std::vector<std::string> rest = parsed.ok() ? parsed.value().rest : std::vector<std::string>{};
  const bool checking = !rest.empty() && rest[0] == "check";
  if (checking && rest.size() != 2) {
    parsed = Error(ErrorKind::usage, "sbx langs check takes one file");
  } else if (!checking && !rest.empty()) {
    const std::vector<std::string> known = {"check"};
    const std::string guess = did_you_mean(rest[0], known);
    parsed = Error(ErrorKind::usage, "sbx langs takes no argument '" + printable(rest[0]) + "'" +
                                         (guess.empty() ? "" : ": did you mean '" + guess + "'?"));
  }
  if (!parsed.ok()) {
    say_error(parsed.take_error().with_hint("sbx langs --help lists the options"));
    return exit_code_for(ErrorKind::usage);
  }
  if (help) {
    const std::vector<Example> examples = {{"Options", "sbx langs --json"}, {"Options", "sbx langs check ./mylang.toml"}};
    return print_or_fail(help_page("usage: sbx langs [--json]\n       sbx langs check FILE",
                                   "Lists the languages that `sbx run` knows, and what of them this host has.\n"
                                   "`check` says what is wrong with the file of a language of your own, or that nothing is.",
                                   options, examples));
  }
  runtime::Observer observer;
  if (verbose) observer.note = say;
  else observer.progress = show_progress;
  if (checking) return check(rest[1], observer);
  const Result<std::vector<runtime::LanguageStatus>> languages =
      runtime::list_languages(runtime::probe_host(), observer);
  if (!languages.ok()) {
    say_error(languages.error());
    return exit_code_for(languages.error().kind());
  }
  if (json) return print_or_fail(as_json(languages.value()));
  std::vector<std::vector<std::string>> rows = {{"LANGUAGE", "EXTENSIONS", "VERSION", "PROGRAM"}};
  for (const runtime::LanguageStatus& language : languages.value()) {
    const std::string missing = language.package.empty() ? "not found" : "not found; package " + language.package;
    rows.push_back({language.name, join(language.extensions, " "),
                    language.version.empty() ? "-" : printable(language.version, 40),
                    language.found ? printable(language.tool, 400) : missing});
  }
  return print_or_fail(table(rows));
}

}  // namespace sbx::cli
