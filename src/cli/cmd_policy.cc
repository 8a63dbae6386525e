// sbx policy list, sbx policy show: the policies there are, and one merged over the default with the origin of each
// value. check, explain and convert come with the dialects.
#include <cstdlib>
#include <span>

#include "base/sys.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/parser.h"
#include "policy/loader.h"
#include "policy/resolve.h"
#include "runtime/request.h"
#include "runtime/spec_text.h"
#include "seccomp/compile.h"
#include "seccomp/start_key.h"

namespace sbx::cli {
namespace {

constexpr char kUsage[] =
    "usage: sbx policy list\n"
    "       sbx policy show [--bpf FILE] [NAME|FILE...]";

std::string config_directory() {
  const char* configured = std::getenv("XDG_CONFIG_HOME");
  return user_policy_directory(configured != nullptr ? configured : "", runtime::probe_host().home);
}

int list() {
  PolicySearch search;
  search.config_directory = config_directory();
  std::vector<std::vector<std::string>> rows = {{"POLICY", "FROM"}};
  for (const std::string& name : policy_names(search)) {
    const std::string own = join_path(search.config_directory, name + ".toml");
    const bool is_own = !search.config_directory.empty() && sys::stat(own).ok();
    const bool is_shipped = embedded_file("policies/" + name + ".toml") != nullptr;
    rows.push_back({printable(name), !is_own       ? "built in"
                                     : is_shipped ? printable(own, 400) + " (hides the one built in)"
                                                  : printable(own, 400)});
  }
  return print_or_fail(table(rows));
}

std::string toml_text(const std::string& text) {
  // JSON's escapes are TOML's, too.
  return json_text(text);
}

std::string toml_value(const KeyRow& row, const KeyValue& value) {
  if (const auto* list = std::get_if<std::vector<std::string>>(&value); list != nullptr) {
    std::string text = "[";
    for (const std::string& element : *list) text += (text.size() > 1 ? ", " : "") + toml_text(element);
    return text + "]";
  }
  if (const auto* map = std::get_if<std::map<std::string, std::string>>(&value); map != nullptr) {
    std::string text = "{";
    for (const auto& [name, content] : *map) {
      text += (text.size() > 1 ? ", " : " ") + toml_text(name) + " = " + toml_text(content);
    }
    return text + (text.size() > 1 ? " }" : "}");
  }
  const std::string text = format_value(row, value);
  const bool bare = std::holds_alternative<bool>(value) ||
                    (std::holds_alternative<uint64_t>(value) && row.type == KeyType::integer);
  return bare ? text : toml_text(text);
}

// The filter that a run under these layers loads on this host, as an array of struct sock_filter: what bwrap's
// --seccomp and seccomp(2) take. Without the listener's reports: EPERM where a run reports as well.
Status write_filter(std::span<const PolicyLayer> layers, const std::string& file) {
  ResolveInput input;
  input.argv = {"true"};
  input.exec_path = "true";
  const SandboxSpec spec = SBX_TRY(resolve(layers, runtime::probe_host(), input));
  seccomp::CompileOptions options;
  options.arch = seccomp::native_arch();
  options.guard_set_id = has_writable_host_directory(spec);
  options.guard_unseen_memory = spec.limits.memory.has_value();
  seccomp::BpfProgram own;
  std::span<const sock_filter> program = seccomp::builtin_program(spec.seccomp.builtin, options);
  if (spec.seccomp.builtin.empty()) program = own = SBX_TRY(seccomp::compile(spec.seccomp.rules, options));
  if (program.empty()) return Error(ErrorKind::usage, "the policy loads no filter");
  if (seccomp::start_key_of(program)) {
    return Error(ErrorKind::usage, "this filter is made anew for each run: it allows execve for the start alone")
        .with_hint("a policy with seccomp.allow = [\"execve\"] on top has a filter that can be written");
  }
  return write_file_atomically(file, {reinterpret_cast<const char*>(program.data()), program.size_bytes()}, 0644);
}

int show(const std::vector<std::string>& names, const std::string& filter_file) {
  PolicySearch search;
  search.config_directory = config_directory();
  std::vector<PolicyLayer> layers;
  Result<PolicyLayer> base = load_policy("default", PolicySearch{});
  if (!base.ok()) {
    say_error(base.error());
    return exit_code_for(base.error().kind());
  }
  layers.push_back(base.take());
  for (const std::string& name : names) {
    if (name == "default") continue;  // it is below everything already
    Result<PolicyLayer> layer = load_policy(name, search);
    if (!layer.ok()) {
      say_error(layer.error());
      return exit_code_for(layer.error().kind());
    }
    layers.push_back(layer.take());
  }
  if (!filter_file.empty()) {
    const Status written = write_filter(layers, filter_file);
    if (!written.ok()) {
      say_error(written.error());
      return exit_code_for(written.error().kind());
    }
    return 0;
  }
  const Result<std::map<std::string, LayerValue>> merged = merge_layers(layers);
  if (!merged.ok()) {
    say_error(merged.error());
    return exit_code_for(merged.error().kind());
  }
  std::string text;
  std::string section;
  for (const KeyRow& row : key_table()) {
    const auto found = merged.value().find(row.path);
    if (found == merged.value().end()) continue;
    const std::string path = row.path;
    const size_t dot = path.find('.');
    if (path.substr(0, dot) != section) {
      section = path.substr(0, dot);
      text += (text.empty() ? "[" : "\n[") + section + "]\n";
    }
    std::string line = path.substr(dot + 1) + " = " + toml_value(row, found->second.value);
    if (line.size() < 40) line.append(40 - line.size(), ' ');
    text += line + "  # " + printable(found->second.origin, 400) + "\n";
  }
  for (const PolicyLayer& layer : layers) {
    for (const FsOp& op : layer.mounts) {
      text += "\n# mount from " + printable(layer.name, 400) + ": " + printable(runtime::fs_op_text(op), 1000);
    }
    if (!layer.mounts.empty()) text += "\n";
    if (!layer.syscall_rules.empty()) {
      text += "\n# " + std::to_string(layer.syscall_rules.size()) + " system call rules from " +
              printable(layer.name, 400) + "\n";
    }
  }
  return print_or_fail(text);
}

}  // namespace

int policy_command(const Invocation& invocation) {
  bool help = false;
  std::string filter_file;
  const std::vector<Option> options = {
      {"Options", 0, "bpf", "FILE", "show: write the compiled filter there instead (an array of struct sock_filter)", "",
       [&](const std::string& value) -> Status {
         filter_file = value;
         return {};
       }},
      {"Options", 'h', "help", "", "this page", "", [&](const std::string&) -> Status {
         help = true;
         return {};
       }}};
  // Nothing here is a payload's: options may stand anywhere.
  std::vector<std::string> rest;
  for (std::vector<std::string> words = invocation.arguments(); !words.empty();) {
    const Result<Parsed> parsed = parse_options(options, words);
    if (!parsed.ok()) {
      say_error(Error(parsed.error()).with_hint("sbx policy --help tells the ways to call it"));
      return exit_code_for(parsed.error().kind());
    }
    words = parsed.value().rest;
    if (words.empty()) break;
    rest.push_back(words.front());
    words.erase(words.begin());
  }
  if (help) {
    const std::vector<Example> examples = {{"Options", "sbx policy show strict"}};
    return print_or_fail(help_page(kUsage,
                                   "list: the policies that --policy takes. show: what results from the default policy\n"
                                   "and those named, each value with its origin.",
                                   options, examples));
  }
  const std::string verb = rest.empty() ? "" : rest[0];
  if (!rest.empty()) rest.erase(rest.begin());
  if (verb == "list" && rest.empty()) return list();
  if (verb == "show") return show(rest, filter_file);
  const std::vector<std::string> verbs = {"list", "show"};
  Error error(ErrorKind::usage, "which one: sbx policy list, or sbx policy show NAME?");
  if (verb == "list") {
    error = Error(ErrorKind::usage, "sbx policy list takes no argument '" + printable(rest[0]) + "'");
  } else if (!verb.empty()) {
    const std::string near = did_you_mean(verb, verbs);
    error = Error(ErrorKind::usage, "unknown command 'policy " + printable(verb) + "'" +
                                        (near.empty() ? "" : ": did you mean 'policy " + near + "'?"));
  }
  say_error(std::move(error).with_hint("for instance: sbx policy show default"));
  return exit_code_for(ErrorKind::usage);
}

}  // namespace sbx::cli
