// policies/lang/NAME.toml to RunnerSpec.
#include <algorithm>

#include "base/text.h"
#include "policy/loader.h"
#include "policy/toml_document.h"

namespace sbx {
namespace {

using Kind = TomlValue::Kind;

constexpr size_t kMostAlternatives = 16;

const std::vector<std::string> kKeys = {
    "name",          "title",         "aliases",    "extensions",         "interpreters",         "source_name",
    "text_prefix",   "text_prefix_unless", "commands", "version_argv",    "probe_argv",           "steering_environment",
    "steering_files", "uses",         "hooks",      "prepare",            "compile",              "run_argv",
    "environment",   "plots",         "limits",     "hints",              "packages",             "alternative"};
// What another toolchain for the same language can have of its own.
const std::vector<std::string> kAlternativeKeys = {"commands", "version_argv", "probe_argv", "steering_environment",
                                                   "steering_files", "uses", "hooks", "prepare", "compile",
                                                   "run_argv", "environment", "plots", "limits", "packages"};

// The placeholders that may stand in a place, and the languages that {tool:…} may name.
struct Allowed {
  std::vector<Placeholder> which;
  std::vector<std::string> uses;
};

// Only what looks like a placeholder is one: "{ print }" of an awk program stays text.
bool looks_like_placeholder(const std::string& inner) {
  return !inner.empty() && inner.front() >= 'a' && inner.front() <= 'z' &&
         std::all_of(inner.begin(), inner.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == ':';
         });
}

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

  Result<bool> boolean(const TomlValue& table, const char* key) const {
    const TomlValue* value = table.find(key);
    if (value == nullptr) return false;
    if (!value->is(Kind::boolean)) return error(*value, std::string(key) + " is true or false");
    return value->boolean;
  }

  Result<std::map<std::string, std::string>> text_map(const TomlValue& table, const char* key) const {
    std::map<std::string, std::string> map;
    const TomlValue* value = table.find(key);
    if (value == nullptr) return map;
    if (!value->is(Kind::table)) return error(*value, std::string(key) + " is a table of texts");
    for (const TomlValue& item : value->items) map[item.key] = SBX_TRY(text(item));
    return map;
  }

  // What stands in the braces of `word`: a placeholder that may stand in `key`, or nothing that looks like one.
  Status placeholders(const TomlValue& place, const std::string& word, const char* key, const Allowed& allowed,
                      bool environment) const {
    for (size_t open = word.find('{'); open != std::string::npos; open = word.find('{', open + 1)) {
      const size_t close = word.find('}', open);
      const std::string inner = close == std::string::npos ? "" : word.substr(open + 1, close - open - 1);
      if (!looks_like_placeholder(inner)) continue;
      const std::optional<PlaceholderUse> use = parse_placeholder(inner);
      const bool known = use && std::find(allowed.which.begin(), allowed.which.end(), use->which) != allowed.which.end() &&
                         !(environment && is_whole_word(use->which));
      if (!known) {
        std::vector<std::string> texts;
        for (const Placeholder which : allowed.which) {
          if (!environment || !is_whole_word(which)) texts.push_back(placeholder_text(which));
        }
        const std::string guess = did_you_mean("{" + inner + "}", texts);
        return error(place, "unknown placeholder " + quoted("{" + inner + "}") + " in " + key)
            .with_hint(guess.empty() ? "known here: " + join(texts, ", ") : "did you mean \"" + guess + "\"?");
      }
      if (is_whole_word(use->which) && word != "{" + inner + "}")
        return error(place, quoted("{" + inner + "}") + " must be a word of its own in " + key);
      if (use->which == Placeholder::tool && !use->parameter.empty() &&
          std::find(allowed.uses.begin(), allowed.uses.end(), use->parameter) == allowed.uses.end())
        return error(place, quoted("{" + inner + "}") + " names a language that is not used")
            .with_hint("add uses = [" + quoted(use->parameter) + "]");
    }
    return {};
  }

  // An argv with known placeholders only.
  Result<std::vector<std::string>> command(const TomlValue& table, const char* key, const Allowed& allowed) const {
    const std::vector<std::string> words = SBX_TRY(texts(table, key));
    const TomlValue* value = table.find(key);
    for (size_t i = 0; i < words.size(); ++i) SBX_TRY(placeholders(value->items[i], words[i], key, allowed, false));
    return words;
  }

  Result<std::map<std::string, std::string>> environment(const TomlValue& table, const Allowed& allowed) const {
    std::map<std::string, std::string> map = SBX_TRY(text_map(table, "environment"));
    const TomlValue* value = table.find("environment");
    if (value == nullptr) return map;
    for (const TomlValue& item : value->items) {
      if (item.key.empty() || item.key.find('=') != std::string::npos || item.key.find('\0') != std::string::npos)
        return error(item, quoted(item.key) + " is no name of a variable");
      SBX_TRY(placeholders(item, item.string, "environment", allowed, true));
    }
    return map;
  }
};

struct HookName {
  const char* name;
  RunnerHook hook;
};
constexpr HookName kHooks[] = {
    {"java-source-name", RunnerHook::java_source_name},
    {"jvm-main-class", RunnerHook::jvm_main_class},
};

bool is_language_name(std::string_view text) {
  if (text.empty() || text.size() > 32) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '#' || c == '_' || c == '.';
  });
}

// The document of an alternative: the language's own with the keys of `entry` in place of its.
TomlValue alternative_document(const TomlValue& document, const TomlValue& entry) {
  TomlValue merged = document;
  std::erase_if(merged.items, [&](const TomlValue& item) {
    return item.key == "alternative" || entry.find(item.key) != nullptr;
  });
  merged.items.insert(merged.items.end(), entry.items.begin(), entry.items.end());
  return merged;
}

Result<RunnerSpec> read_runner(const Reader& reader, const TomlValue& document) {
  RunnerSpec spec;
  spec.origin = reader.name;
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
  spec.text_prefix = SBX_TRY(reader.text(document, "text_prefix", ""));
  spec.text_prefix_unless = SBX_TRY(reader.text(document, "text_prefix_unless", ""));
  if (spec.text_prefix.find('\n') != std::string::npos)
    return reader.error(*document.find("text_prefix"), "text_prefix is a part of a line, or every line number would be wrong");
  spec.commands = SBX_TRY(reader.texts(document, "commands"));
  if (spec.commands.empty()) return reader.error(*document.find("commands"), "commands is empty");
  for (const std::string& command : spec.commands)
    if (command.empty() || command.find('/') != std::string::npos)
      return reader.error(*document.find("commands"), quoted(command) + " is no command name")
          .with_hint("commands are looked up on the PATH; --toolchain PATH chooses one by its path");

  using enum Placeholder;
  spec.version_argv = SBX_TRY(reader.command(document, "version_argv", {{tool}, {}}));
  spec.probe_argv = SBX_TRY(reader.command(document, "probe_argv", {{tool}, {}}));
  spec.steering_environment = SBX_TRY(reader.texts(document, "steering_environment"));
  spec.steering_files = SBX_TRY(reader.texts(document, "steering_files"));
  for (const std::string& file : spec.steering_files)
    if (file.empty() || file == "." || file == ".." || file.find('/') != std::string::npos)
      return reader.error(*document.find("steering_files"), quoted(file) + " is no file name");
  spec.uses = SBX_TRY(reader.texts(document, "uses"));
  for (const std::string& other : spec.uses)
    if (!is_language_name(other) || other == spec.name)
      return reader.error(*document.find("uses"), quoted(other) + " is no other language");
  const std::vector<std::string> hooks = SBX_TRY(reader.texts(document, "hooks"));
  for (size_t i = 0; i < hooks.size(); ++i) {
    const auto* found = std::find_if(std::begin(kHooks), std::end(kHooks),
                                     [&](const HookName& entry) { return entry.name == hooks[i]; });
    if (found == std::end(kHooks)) {
      std::vector<std::string> names;
      for (const HookName& entry : kHooks) names.emplace_back(entry.name);
      const std::string guess = did_you_mean(hooks[i], names);
      return reader.error(document.find("hooks")->items[i], "no hook is called " + quoted(hooks[i]))
          .with_hint(guess.empty() ? "the hooks are " + join(names, ", ") : "did you mean \"" + guess + "\"?");
    }
    spec.hooks.push_back(found->hook);
  }

  std::vector<Placeholder> common = {tool, tool_dir, memory_mb, cpus};
  if (const TomlValue* prepare = document.find("prepare")) {
    if (!prepare->is(Kind::table)) return reader.error(*prepare, "prepare is a section").with_hint("write [prepare]");
    SBX_TRY(reader.only_keys(*prepare, {"argv", "environment", "writable"}));
    common.push_back(prepared);
    RunnerPrepare step;
    step.argv = SBX_TRY(reader.command(*prepare, "argv", {common, spec.uses}));
    if (step.argv.empty()) return reader.error(*prepare, "prepare without argv");
    step.environment = SBX_TRY(reader.environment(*prepare, {common, spec.uses}));
    step.writable = SBX_TRY(reader.boolean(*prepare, "writable"));
    spec.prepare = std::move(step);
  }
  common.insert(common.end(), {src, src_dir, stem, sources});
  // `compile = false` of an alternative: this toolchain has no such step.
  const TomlValue* compile = document.find("compile");
  if (compile != nullptr && !(compile->is(Kind::boolean) && !compile->boolean)) {
    if (!compile->is(Kind::table)) return reader.error(*compile, "compile is a section").with_hint("write [compile]");
    SBX_TRY(reader.only_keys(*compile, {"argv", "environment", "watch", "uncached_words"}));
    common.insert(common.end(), {out, out_dir});
    Allowed allowed{common, spec.uses};
    allowed.which.push_back(flags);
    RunnerCompile step;
    step.argv = SBX_TRY(reader.command(*compile, "argv", allowed));
    if (step.argv.empty()) return reader.error(*compile, "compile without argv");
    step.environment = SBX_TRY(reader.environment(*compile, allowed));
    step.watch = SBX_TRY(reader.texts(*compile, "watch"));
    for (const std::string& pattern : step.watch)
      if (pattern.empty() || pattern.front() != '/')
        return reader.error(*compile->find("watch"), quoted(pattern) + " is no absolute path")
            .with_hint("write paths of the host, such as \"/usr/include\"; * and ? match within a name");
    step.uncached_words = SBX_TRY(reader.texts(*compile, "uncached_words"));
    spec.compile = std::move(step);
  }
  Allowed run{common, spec.uses};
  run.which.push_back(args);
  if (spec.has_hook(RunnerHook::jvm_main_class)) {
    if (!spec.compile) return reader.error(*document.find("hooks"), "the hook jvm-main-class needs a compile step");
    run.which.push_back(Placeholder::main);
  }
  spec.run_argv = SBX_TRY(reader.command(document, "run_argv", run));
  if (spec.run_argv.empty()) return reader.error(*document.find("run_argv"), "run_argv is empty");
  if (spec.version_argv.empty()) return reader.error(*document.find("version_argv"), "version_argv is empty");
  spec.environment = SBX_TRY(reader.environment(document, run));
  spec.packages = SBX_TRY(reader.text_map(document, "packages"));
  if (const TomlValue* limits = document.find("limits")) {
    if (!limits->is(Kind::table)) return reader.error(*limits, "limits is a section").with_hint("write [limits]");
    spec.limits = SBX_TRY(parse_native_section(*limits, "limits", reader.name));
  }

  if (const TomlValue* table = document.find("plots")) {
    if (!table->is(Kind::table)) return reader.error(*table, "plots is a section").with_hint("write [plots]");
    SBX_TRY(reader.only_keys(*table, {"files", "prepare", "thorough_for", "environment", "search_paths"}));
    RunnerPlots plots;
    plots.files = SBX_TRY(reader.texts(*table, "files"));
    for (const std::string& file : plots.files)
      if (embedded_file("policies/lang/hooks/" + file) == nullptr)
        return reader.error(*table->find("files"), quoted(file) + " is none of the hooks that sbx brings");
    plots.prepare = SBX_TRY(reader.command(*table, "prepare", {{tool, tool_dir, prepared}, spec.uses}));
    plots.thorough_for = SBX_TRY(reader.texts(*table, "thorough_for"));
    plots.environment = SBX_TRY(reader.text_map(*table, "environment"));
    plots.search_paths = SBX_TRY(reader.text_map(*table, "search_paths"));
    spec.plots = std::move(plots);
  }

  if (const TomlValue* hints = document.find("hints")) {
    if (!hints->is(Kind::array)) return reader.error(*hints, "hints is a list of tables").with_hint("write [[hints]]");
    for (const TomlValue& entry : hints->items) {
      if (!entry.is(Kind::table)) return reader.error(entry, "hints is a list of tables").with_hint("write [[hints]]");
      SBX_TRY(reader.only_keys(entry, {"pattern", "hint", "raise"}));
      HintPattern hint{SBX_TRY(reader.text(entry, "pattern", "")), SBX_TRY(reader.text(entry, "hint", "")),
                       SBX_TRY(reader.text(entry, "raise", ""))};
      if (hint.pattern.empty() || hint.hint.empty())
        return reader.error(entry, "an entry of hints needs pattern and hint");
      if (hint.hint.find('\n') != std::string::npos) return reader.error(entry, "a hint is one line");
      const KeyRow* row = hint.raise.empty() ? nullptr : find_key("limits." + hint.raise);
      if (!hint.raise.empty() && (row == nullptr || row->flag == nullptr))
        return reader.error(*entry.find("raise"), quoted(hint.raise) + " is no limit that can be raised")
            .with_hint("write the name of a limit, such as \"memory\"");
      spec.hints.push_back(std::move(hint));
    }
  }
  return spec;
}

}  // namespace

Result<RunnerSpec> parse_runner_toml(std::string_view text, const std::string& name) {
  const TomlValue document = SBX_TRY(parse_toml(text, name));
  const Reader reader{name};
  SBX_TRY(reader.only_keys(document, kKeys));
  for (const char* key : {"name", "source_name", "commands", "version_argv", "run_argv"}) {
    if (document.find(key) == nullptr)
      return Error(ErrorKind::policy, std::string("the key \"") + key + "\" is missing")
          .with_origin(name)
          .with_hint(std::string("add it, as policies/lang/python.toml of sbx has it"));
  }
  RunnerSpec spec = SBX_TRY(read_runner(reader, document));
  const TomlValue* alternatives = document.find("alternative");
  if (alternatives == nullptr) return spec;
  if (!alternatives->is(Kind::array) || alternatives->items.size() > kMostAlternatives)
    return reader.error(*alternatives, "alternative is a list of at most 16 tables").with_hint("write [[alternative]]");
  for (const TomlValue& entry : alternatives->items) {
    if (!entry.is(Kind::table))
      return reader.error(entry, "alternative is a list of tables").with_hint("write [[alternative]]");
    SBX_TRY(reader.only_keys(entry, kAlternativeKeys));
    if (entry.find("commands") == nullptr) return reader.error(entry, "an alternative names its commands");
    spec.alternatives.push_back(SBX_TRY(read_runner(reader, alternative_document(document, entry))));
  }
  return spec;
}

}  // namespace sbx
