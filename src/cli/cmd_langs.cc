// sbx langs: which languages there are, what this host has for them, and what brings the rest.
#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/parser.h"
#include "runtime/request.h"

namespace sbx::cli {
namespace {

struct LangsOptions {
  bool json = false, help = false, verbose = false;
};

std::vector<Option> langs_options(LangsOptions& out) {
  return {flag_option("Options", 0, "json", "print JSON (docs/schema/langs-v1.json)", out.json),
          flag_option("Options", 'v', "verbose", "say what is done to find them", out.verbose),
          flag_option("Options", 'h', "help", "this page", out.help)};
}

std::string as_json(const std::vector<runtime::LanguageStatus>& languages) {
  std::string text = "{\n  \"schema\": \"sbx-langs\",\n  \"version\": 1,\n  \"languages\": [";
  for (const runtime::LanguageStatus& language : languages) {
    text += text.back() == '[' ? "\n" : ",\n";
    text += "    {\"name\": " + json_text(language.name) + ", \"title\": " + json_text(language.title) +
            ", \"aliases\": " + json_list(language.aliases) + ", \"extensions\": " + json_list(language.extensions) +
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

Result<Page> langs_page() {
  LangsOptions unused;
  return Page{"usage: sbx langs [--json]", "Lists the languages that `sbx run` knows, and what of them this host has.",
              langs_options(unused), {{"Options", "sbx langs --json"}}};
}

int langs_command(const Invocation& invocation) {
  LangsOptions wanted;
  Result<Parsed> parsed = parse_options(langs_options(wanted), invocation.arguments());
  if (parsed.ok() && !parsed.value().rest.empty()) {
    parsed = Error(ErrorKind::usage, "sbx langs takes no argument '" + printable(parsed.value().rest[0]) + "'");
  }
  if (!parsed.ok()) return fail_usage("langs", parsed.error());
  if (wanted.help) return show_help(langs_page);
  runtime::Observer observer;
  if (wanted.verbose) observer.note = say;
  else if (can_show_progress()) observer.progress = show_progress;
  const Result<std::vector<runtime::LanguageStatus>> languages =
      runtime::list_languages(runtime::probe_host(), observer);
  if (!languages.ok()) {
    say_error(languages.error());
    return exit_code_for(languages.error().kind());
  }
  if (wanted.json) return print_or_fail(as_json(languages.value()));
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
