// policies/lang/NAME.toml to RunnerSpec.
#include <algorithm>

#include "base/text.h"
#include "policy/loader.h"
#include "policy/toml_document.h"

namespace sbx {
namespace {

using Kind = TomlValue::Kind;

// The document and its name; every reader below reports the place of what it read.
struct Reader {
  const std::string& name;

  Error error(const TomlValue& value, std::string message) const { return toml_error(name, value, std::move(message)); }

  Status only_keys(const TomlValue& table, const std::vector<std::string>& keys) const {
    for (const TomlValue& item : table.items) {
      if (std::find(keys.begin(), keys.end(), item.key) != keys.end()) continue;
      const std::string guess = did_you_mean(item.key, keys);
      return Error(ErrorKind::policy, "unknown key " + quoted(item.key))
          .with_origin(toml_key_place(name, item))
          .with_hint(guess.empty() ? "the keys are " + join(keys, ", ") : "did you mean \"" + guess + "\"?");
    }
    return {};
  }

  Result<std::string> text(const TomlValue& value) const {
    if (!value.is(Kind::string)) return error(value, value.key + " is a text").with_hint("put it in quotes");
    if (value.string.find('\0') != std::string::npos) return error(value, value.key + " holds a zero byte");
    return value.string;
  }

  Result<std::string> text(const TomlValue& table, const char* key, std::string otherwise) const {
    const TomlValue* value = table.find(key);
    if (value == nullptr) return otherwise;
    return text(*value);
  }

  Result<std::vector<std::string>> texts(const TomlValue& table, const char* key) const {
    std::vector<std::string> list;
    const TomlValue* value = table.find(key);
    if (value == nullptr) return list;
    if (!value->is(Kind::array))
      return error(*value, std::string(key) + " is a list of texts").with_hint(std::string("write ") + key + " = [\"…\"]");
    for (const TomlValue& item : value->items) {
      if (!item.is(Kind::string) || item.string.find('\0') != std::string::npos)
        return error(item, std::string(key) + " is a list of texts").with_hint("put each element in quotes");
      list.push_back(item.string);
    }
    return list;
  }

  Result<std::map<std::string, std::string>> text_map(const TomlValue& table, const char* key) const {
    std::map<std::string, std::string> map;
    const TomlValue* value = table.find(key);
    if (value == nullptr) return map;
    if (!value->is(Kind::table)) return error(*value, std::string(key) + " is a table of texts");
    for (const TomlValue& item : value->items) map[item.key] = SBX_TRY(text(item));
    return map;
  }

  // An argv with known placeholders only; {args} and {flags} stand alone, as they expand to several words.
  Result<std::vector<std::string>> command(const TomlValue& table, const char* key,
                                           const std::vector<std::string>& placeholders) const {
    const std::vector<std::string> words = SBX_TRY(texts(table, key));
    const TomlValue* value = table.find(key);
    for (size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i];
      const TomlValue& place = value->items[i];
      for (size_t open = word.find('{'); open != std::string::npos; open = word.find('{', open + 1)) {
        const size_t close = word.find('}', open);
        const std::string inner = close == std::string::npos ? "" : word.substr(open + 1, close - open - 1);
        // Only what looks like a placeholder is one: "{ print }" of an awk program stays text.
        const bool looks = !inner.empty() && std::all_of(inner.begin(), inner.end(), [](char c) {
          return (c >= 'a' && c <= 'z') || c == '_';
        });
        if (!looks) continue;
        if (std::find(placeholders.begin(), placeholders.end(), inner) == placeholders.end()) {
          std::vector<std::string> known;
          known.reserve(placeholders.size());
          for (const std::string& placeholder : placeholders) known.push_back("{" + placeholder + "}");
          return error(place, "unknown placeholder " + quoted("{" + inner + "}") + " in " + key)
              .with_hint("known here: " + join(known, ", "));
        }
        if ((inner == "args" || inner == "flags") && word != "{" + inner + "}")
          return error(place, quoted("{" + inner + "}") + " must be a word of its own in " + key);
      }
    }
    return words;
  }
};

bool is_language_name(std::string_view text) {
  if (text.empty() || text.size() > 32) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '#' || c == '_' || c == '.';
  });
}

}  // namespace

Result<RunnerSpec> parse_runner_toml(std::string_view text, const std::string& name) {
  const TomlValue document = SBX_TRY(parse_toml(text, name));
  const Reader reader{name};
  SBX_TRY(reader.only_keys(document, {"name", "title", "aliases", "extensions", "interpreters", "source_name",
                                      "commands", "version_argv", "probe_argv", "steering_environment",
                                      "steering_files", "compile", "run_argv", "environment", "plots", "hints", "packages"}));
  for (const char* key : {"name", "source_name", "commands", "version_argv", "run_argv"}) {
    if (document.find(key) == nullptr)
      return Error(ErrorKind::policy, std::string("the key \"") + key + "\" is missing")
          .with_origin(name)
          .with_hint(std::string("add it, as policies/lang/python.toml of sbx has it"));
  }

  RunnerSpec spec;
  spec.origin = name;
  spec.name = SBX_TRY(reader.text(document, "name", ""));
  if (!is_language_name(spec.name))
    return reader.error(*document.find("name"), quoted(spec.name) + " is no name of a language")
        .with_hint("use lower case letters, digits, '+', '-', '#', '_' and '.'");
  spec.title = SBX_TRY(reader.text(document, "title", spec.name));
  spec.aliases = SBX_TRY(reader.texts(document, "aliases"));
  for (const std::string& alias : spec.aliases)
    if (!is_language_name(alias))
      return reader.error(*document.find("aliases"), quoted(alias) + " is no name of a language");
  spec.extensions = SBX_TRY(reader.texts(document, "extensions"));
  for (const std::string& extension : spec.extensions)
    if (extension.size() < 2 || extension.front() != '.' || extension.find('/') != std::string::npos)
      return reader.error(*document.find("extensions"), quoted(extension) + " is no file extension")
          .with_hint("write it with its dot, such as \".py\"");
  spec.interpreters = SBX_TRY(reader.texts(document, "interpreters"));
  spec.source_name = SBX_TRY(reader.text(document, "source_name", ""));
  if (spec.source_name.empty() || spec.source_name.front() == '.' || spec.source_name.find('/') != std::string::npos)
    return reader.error(*document.find("source_name"), quoted(spec.source_name) + " is no file name")
        .with_hint("write the name alone, such as \"main.py\"");
  spec.commands = SBX_TRY(reader.texts(document, "commands"));
  if (spec.commands.empty()) return reader.error(*document.find("commands"), "commands is empty");
  for (const std::string& command : spec.commands)
    if (command.empty() || command.find('/') != std::string::npos)
      return reader.error(*document.find("commands"), quoted(command) + " is no command name")
          .with_hint("commands are looked up on the PATH; --toolchain PATH chooses one by its path");

  spec.version_argv = SBX_TRY(reader.command(document, "version_argv", {"tool"}));
  spec.probe_argv = SBX_TRY(reader.command(document, "probe_argv", {"tool"}));
  spec.steering_environment = SBX_TRY(reader.texts(document, "steering_environment"));
  spec.steering_files = SBX_TRY(reader.texts(document, "steering_files"));
  for (const std::string& file : spec.steering_files)
    if (file.empty() || file == "." || file == ".." || file.find('/') != std::string::npos)
      return reader.error(*document.find("steering_files"), quoted(file) + " is no file name");

  if (const TomlValue* compile = document.find("compile")) {
    if (!compile->is(Kind::table)) return reader.error(*compile, "compile is a section").with_hint("write [compile]");
    SBX_TRY(reader.only_keys(*compile, {"argv", "environment"}));
    RunnerCompile step;
    step.argv = SBX_TRY(reader.command(*compile, "argv", {"tool", "src", "src_dir", "out", "flags"}));
    if (step.argv.empty()) return reader.error(*compile, "compile without argv");
    step.environment = SBX_TRY(reader.text_map(*compile, "environment"));
    spec.compile = std::move(step);
  }
  std::vector<std::string> run_placeholders = {"tool", "src", "src_dir", "args"};
  if (spec.compile) run_placeholders.emplace_back("out");
  spec.run_argv = SBX_TRY(reader.command(document, "run_argv", run_placeholders));
  if (spec.run_argv.empty()) return reader.error(*document.find("run_argv"), "run_argv is empty");
  if (spec.version_argv.empty()) return reader.error(*document.find("version_argv"), "version_argv is empty");
  spec.environment = SBX_TRY(reader.text_map(document, "environment"));
  spec.packages = SBX_TRY(reader.text_map(document, "packages"));

  if (const TomlValue* table = document.find("plots")) {
    if (!table->is(Kind::table)) return reader.error(*table, "plots is a section").with_hint("write [plots]");
    SBX_TRY(reader.only_keys(*table, {"files", "environment", "search_paths"}));
    RunnerPlots plots;
    plots.files = SBX_TRY(reader.texts(*table, "files"));
    for (const std::string& file : plots.files)
      if (embedded_file("policies/lang/hooks/" + file) == nullptr)
        return reader.error(*table->find("files"), quoted(file) + " is none of the hooks that sbx brings");
    plots.environment = SBX_TRY(reader.text_map(*table, "environment"));
    plots.search_paths = SBX_TRY(reader.text_map(*table, "search_paths"));
    spec.plots = std::move(plots);
  }

  if (const TomlValue* hints = document.find("hints")) {
    if (!hints->is(Kind::array)) return reader.error(*hints, "hints is a list of tables").with_hint("write [[hints]]");
    for (const TomlValue& entry : hints->items) {
      if (!entry.is(Kind::table)) return reader.error(entry, "hints is a list of tables").with_hint("write [[hints]]");
      SBX_TRY(reader.only_keys(entry, {"pattern", "hint"}));
      HintPattern hint{SBX_TRY(reader.text(entry, "pattern", "")), SBX_TRY(reader.text(entry, "hint", ""))};
      if (hint.pattern.empty() || hint.hint.empty())
        return reader.error(entry, "an entry of hints needs pattern and hint");
      if (hint.hint.find('\n') != std::string::npos) return reader.error(entry, "a hint is one line");
      spec.hints.push_back(std::move(hint));
    }
  }
  return spec;
}

}  // namespace sbx
