// sbx langs: which languages there are, what this host has for them, and what brings the rest.
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
  if (parsed.ok() && !parsed.value().rest.empty()) {
    parsed = Error(ErrorKind::usage, "sbx langs takes no argument '" + printable(parsed.value().rest[0]) + "'");
  }
  if (!parsed.ok()) {
    say_error(parsed.take_error().with_hint("sbx langs --help lists the options"));
    return exit_code_for(ErrorKind::usage);
  }
  if (help) {
    const std::vector<Example> examples = {{"Options", "sbx langs --json"}};
    return print_or_fail(help_page("usage: sbx langs [--json]",
                                   "Lists the languages that `sbx run` knows, and what of them this host has.", options,
                                   examples));
  }
  runtime::Observer observer;
  if (verbose) observer.note = say;
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
