// sbx langs: which languages there are, what this host has for them, and what brings the rest. sbx langs check FILE: what is
// wrong with the file of a language.
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

Result<Page> langs_page() {
  LangsOptions unused;
  return Page{"usage: sbx langs [--json]\n       sbx langs check FILE",
              "Lists the languages that `sbx run` knows, and what of them this host has.\n"
              "`check` says what is wrong with the file of a language of your own, or that nothing is.",
              langs_options(unused), {{"Options", "sbx langs check ./mylang.toml"}}};
}

int langs_command(const Invocation& invocation) {
  LangsOptions wanted;
  Result<Parsed> parsed = parse_options(langs_options(wanted), invocation.arguments());
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
  if (!parsed.ok()) return fail_usage("langs", parsed.error());
  if (wanted.help) return show_help(langs_page);
  runtime::Observer observer;
  if (wanted.verbose) observer.note = say;
  else if (can_show_progress()) observer.progress = show_progress;
  if (checking) return check(rest[1], observer);
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
