#include "cli/complete.h"

#include <algorithm>

#include "base/text.h"
#include "cli/cmd_policy.h"
#include "cli/command.h"
#include "policy/syscall_groups.h"
#include "session/place.h"

extern char** environ;

namespace sbx::cli {
namespace {

class Completer {
 public:
  explicit Completer(std::string current) : current_(std::move(current)) {}

  void add(const std::string& text, const std::string& doc = "") {
    if (starts_with(text, current_)) found_.items.push_back({text, doc});
  }
  void add_commands() {
    for (const Command& command : commands()) add(command.name, command.summary);
  }

  // Values of a kind, each with `before` in front ("--lang=").
  void add_values(ValueKind kind, const std::vector<std::string>& choices, const std::string& before) {
    switch (kind) {
      case ValueKind::text: break;
      case ValueKind::choice:
        for (const std::string& choice : choices) add(before + choice);
        break;
      case ValueKind::file: found_.files = true; break;
      case ValueKind::directory: found_.directories = true; break;
      case ValueKind::command: found_.commands = found_.files = true; break;
      case ValueKind::language:
        if (const Result<std::vector<RunnerSpec>> runners = load_runners(policy_search()); runners.ok()) {
          for (const RunnerSpec& runner : runners.value()) {
            add(before + runner.name, runner.title);
            // An alias only for who began to type it.
            for (const std::string& alias : runner.aliases)
              if (current_.size() > before.size()) add(before + alias, runner.title);
          }
        }
        break;
      case ValueKind::policy: found_.files = true; [[fallthrough]];
      case ValueKind::policy_name:
        for (const std::string& name : policy_names(policy_search())) add(before + name);
        break;
      case ValueKind::seccomp_policy:
        for (const std::string& file : embedded_files("policies/seccomp")) {
          const std::string name = base_name(file);
          if (name != "groups.toml") add(before + name.substr(0, name.find('.')));
        }
        break;
      case ValueKind::syscall_group:
        if (const Result<std::vector<SyscallGroup>> groups = builtin_syscall_groups(); groups.ok()) {
          for (const SyscallGroup& group : groups.value()) {
            add(before + "@" + group.name, group.doc);
            for (const std::string& call : group.calls)
              if (current_.size() > before.size()) add(before + call, "@" + group.name);
          }
        }
        break;
      case ValueKind::session:
      case ValueKind::copied:
        found_.files = true;
        if (const Result<session::SessionPlace> place = session::SessionPlace::open(); place.ok()) {
          const Result<std::vector<session::SessionRecord>> records = place.value().list();
          if (!records.ok()) break;
          const char* const behind = kind == ValueKind::copied ? ":" : "";
          for (const session::SessionRecord& record : records.value()) {
            if (record.warm.empty()) add(before + (record.name.empty() ? record.id : record.name) + behind, record.language);
          }
        }
        break;
      case ValueKind::variable:
        for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
          const std::string variable = *entry;
          add(before + variable.substr(0, variable.find('=')));
        }
        break;
    }
  }

  void add_value_of(const Option& option, const std::string& before) {
    // "DIR:" is followed by a mode.
    const size_t colon = current_.rfind(':');
    const bool place = option.kind == ValueKind::directory || option.kind == ValueKind::file;
    if (place && !option.choices.empty() && colon != std::string::npos && colon > before.size()) {
      for (const std::string& mode : option.choices) add(current_.substr(0, colon + 1) + mode);
      return;
    }
    add_values(option.kind, option.choices, before);
  }

  void add_options(const Page& page) {
    for (const Option& option : page.options) {
      std::string doc = option.doc;
      if (!option.standard.empty()) doc += " (default " + option.standard + ")";
      if (!option.name.empty()) add("--" + option.name, doc);
      else add(std::string("-") + option.letter, doc);
    }
  }

  const std::string& current() const { return current_; }
  Completion take() { return std::move(found_); }

 private:
  std::string current_;
  Completion found_;
};

const Option* option_named(const Page& page, const std::string& word) {
  for (const Option& option : page.options) {
    if (!option.name.empty() && word == "--" + option.name) return &option;
    if (option.letter != 0 && word == std::string("-") + option.letter) return &option;
  }
  return nullptr;
}

// After a command: `words` are its own, the last one being typed. `payload`: what follows the first argument is the
// payload's.
void complete_command(const Page& page, std::span<const std::string> words, bool payload, Completer& completer) {
  const Option* waiting = nullptr;  // an option whose value comes next
  bool program_given = false;
  for (const std::string& word : words.first(words.size() - 1)) {
    if (waiting != nullptr) {
      program_given = program_given || waiting->letter == 'c';
      waiting = nullptr;
      continue;
    }
    if (word == "--" || (payload && (word.empty() || word[0] != '-' || word == "-"))) {
      // exec's command follows its mark; what comes later is the payload's.
      const bool command_follows = word == "--" && page.arguments == ValueKind::command && &word == &words[words.size() - 2];
      completer.add_values(command_follows ? ValueKind::command : payload ? ValueKind::file : page.arguments, {}, "");
      return;
    }
    if (word[0] != '-' || word.find('=') != std::string::npos) continue;
    const Option* option = option_named(page, word);
    if (option != nullptr && !option->metavar.empty()) waiting = option;
  }
  const std::string& current = completer.current();
  if (waiting != nullptr) return completer.add_value_of(*waiting, "");
  if (const size_t equals = current.find('='); starts_with(current, "--") && equals != std::string::npos) {
    if (const Option* option = option_named(page, current.substr(0, equals)); option != nullptr) completer.add_value_of(*option, current.substr(0, equals + 1));
    return;
  }
  if (starts_with(current, "-")) return completer.add_options(page);
  if (!program_given) completer.add_values(page.arguments, {}, "");
}

}  // namespace

Completion complete(const std::vector<std::string>& words) {
  if (words.empty()) return {};
  Completer completer(words.back());
  if (words.size() == 1) {
    completer.add_commands();
    for (const char* option : {"--help", "--version"})
      if (starts_with(words[0], "-")) completer.add(option);
    return completer.take();
  }
  size_t own = 1;
  const Command* command = nullptr;
  for (const Command& each : commands())
    if (words[0] == each.name) command = &each;
  if (words[0] == "help" && words.size() == 2) completer.add_commands();
  if (command != nullptr && command->verbs != nullptr) {
    const std::span<const Command> verbs = command->verbs();
    const size_t prefix = std::string_view(command->name).size() + 1;
    command = nullptr;
    own = 2;
    for (const Command& verb : verbs) {
      if (words.size() == 2) completer.add(verb.name + prefix, verb.summary);
      else if (words[1] == verb.name + prefix) command = &verb;
    }
    if (words.size() == 2 && starts_with(words[1], "-")) completer.add("--help");
  }
  if (command == nullptr) return completer.take();
  const Result<Page> page = command->page();
  if (!page.ok()) return completer.take();
  const bool payload = command->run == run_command || command->run == exec_command;
  complete_command(page.value(), std::span(words).subspan(own), payload, completer);
  return completer.take();
}

}  // namespace sbx::cli
