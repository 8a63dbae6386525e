// sbx policy: its verbs; of them list (the policies there are), show (one merged over the default with the origin of
// each value) and new (a policy to start from). check and explain have files of their own.
#include "cli/cmd_policy.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/sys.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/parser.h"
#include "policy/loader.h"
#include "policy/reference.h"
#include "policy/resolve.h"
#include "policy/syscall_groups.h"
#include "runtime/request.h"
#include "runtime/spec_text.h"
#include "seccomp/compile.h"
#include "seccomp/start_key.h"

namespace sbx::cli {
namespace {

int list() {
  const PolicySearch search = policy_search();
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
  const PolicySearch search = policy_search();
  std::vector<PolicyLayer> layers;
  Result<PolicyLayer> base = load_policy("default", PolicySearch{});
  if (!base.ok()) {
    return fail_usage("policy show", base.error());
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
  layers[0] = base_layer(std::move(layers[0]), std::span(layers).subspan(1));
  if (!filter_file.empty()) {
    const Status written = write_filter(layers, filter_file);
    if (!written.ok()) {
      say_error(written.error());
      return exit_code_for(written.error().kind());
    }
    return 0;
  }
  Result<std::string> text = values_text(layers);
  if (!text.ok()) return fail_usage("policy show", text.error());
  return print_or_fail(text.value());
}

// ---- new ----------------------------------------------------------------------------------------------------------

// A file of that name must not be there yet: nothing of the user's is ever replaced.
Status write_new_file(const std::string& path, const std::string& content) {
  Result<UniqueFd> file = sys::open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
  if (!file.ok()) {
    const int errnum = file.error().errnum();
    if (errnum == EEXIST) {
      return Error(ErrorKind::usage, quoted_path(path) + " exists already").with_hint("name another file; nothing was written");
    }
    return Error(ErrorKind::usage, "cannot write " + quoted_path(path) + ": " + errno_text(errnum))
        .with_hint(errnum == ENOENT ? "make the directory first: mkdir -p " + shell_quote(dir_name(path)) : "name another place");
  }
  return sys::write_all(file.value().get(), content);
}

// Where `new NAME` puts its file, and makes the folders for it: other users must not be able to write there.
Result<std::string> own_policy_path(const std::string& name) {
  const std::string folder = policy_search().config_directory;
  if (folder.empty()) return Error(ErrorKind::usage, "there is no home directory for policies").with_hint("name a file: sbx policy new ./" + shell_quote(name) + ".toml");
  for (size_t slash = folder.find('/', 1); slash != std::string::npos; slash = folder.find('/', slash + 1)) {
    (void)::mkdir(folder.substr(0, slash).c_str(), 0755);  // what does not come of it shows below
  }
  (void)::mkdir(folder.c_str(), 0755);
  return join_path(folder, name + ".toml");
}

int create(const std::vector<std::string>& names) {
  const Result<PolicyLayer> defaults = load_policy("default", PolicySearch{});
  if (!defaults.ok()) return fail_usage("policy new", defaults.error());
  if (names.empty()) return print_or_fail(start_policy("FILE", defaults.value().values));
  const std::string& wanted = names[0];
  const bool is_file = wanted.find('/') != std::string::npos || wanted.ends_with(".toml");
  if (!is_file) {
    const auto plain = [](char c) { return c == '-' || c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    if (wanted.empty() || !std::all_of(wanted.begin(), wanted.end(), plain)) {
      return fail_usage("policy new", Error(ErrorKind::usage, quoted(wanted) + " is no name of a policy").with_hint("letters, digits, - and _, or a file: sbx policy new ./small.toml"));
    }
    if (embedded_file("policies/" + wanted + ".toml") != nullptr) {
      return fail_usage("policy new", Error(ErrorKind::usage, "a policy " + quoted(wanted) + " is shipped with sbx").with_hint("choose another name; sbx policy list names what there is"));
    }
  }
  const Result<std::string> path = is_file ? Result<std::string>(wanted) : own_policy_path(wanted);
  if (!path.ok()) return fail_usage("policy new", path.error());
  const std::string shown = is_file && wanted.find('/') == std::string::npos ? "./" + wanted : wanted;
  if (Status written = write_new_file(path.value(), start_policy(shown, defaults.value().values)); !written.ok()) {
    return fail_usage("policy new", written.error());
  }
  return print_or_fail("wrote " + printable(path.value(), 400) + "; use it with: --policy " + shell_quote(shown) + "\n");
}

// ---- the verbs ----------------------------------------------------------------------------------------------------

struct VerbOptions {
  bool help = false;
  std::string filter_file;
};

std::vector<Option> plain_options(VerbOptions& out) { return {flag_option("Options", 'h', "help", "this page", out.help)}; }
std::vector<Option> show_options(VerbOptions& out) {
  std::vector<Option> options = plain_options(out);
  options.insert(options.begin(), {"Options", 0, "bpf", "FILE", "write the compiled filter there instead (an array of struct sock_filter)", "",
                                   [&out](const std::string& value) -> Status {
                                     out.filter_file = value;
                                     return {};
                                   },
                                   ValueKind::file});
  return options;
}

Result<Page> list_page() {
  VerbOptions unused;
  return Page{"usage: sbx policy list", "Lists the policies that --policy takes: those shipped, and your own.", plain_options(unused),
              {{"Options", "sbx policy list"}}};
}
Result<Page> show_page() {
  VerbOptions unused;
  return Page{"usage: sbx policy show [--bpf FILE] [NAME|FILE...]",
              "Prints what results from the default policy and those named, each value with its origin.", show_options(unused),
              {{"Options", "sbx policy show strict"}}, ValueKind::policy};
}
Result<Page> new_page() {
  VerbOptions unused;
  return Page{"usage: sbx policy new [NAME|FILE]",
              "Writes a policy to start from: every key with its meaning and its default, commented out. A NAME\n"
              "goes to your own policies ($XDG_CONFIG_HOME/sbx/policies), a FILE has a / or ends in .toml; without\n"
              "either the text is printed. What exists is never replaced.",
              plain_options(unused), {{"Options", "sbx policy new ./small.toml"}}, ValueKind::file};
}

// Parses a verb's words; `most` arguments. Empty: it is done, with `status`.
std::optional<std::vector<std::string>> arguments_of(const char* name, const std::vector<Option>& options, const VerbOptions& seen,
                                                     const Invocation& invocation, size_t most, Result<Page> (*page)(), int& status) {
  Result<std::vector<std::string>> rest = parse_options_anywhere(options, invocation.arguments(3));
  if (rest.ok() && !seen.help && rest.value().size() > most) {
    rest = Error(ErrorKind::usage, std::string("sbx ") + name + " takes no argument '" + printable(rest.value()[most]) + "'");
  }
  if (rest.ok() && !seen.help) return rest.take();
  status = rest.ok() ? show_help(page) : fail_usage(name, rest.error());
  return std::nullopt;
}

int list_command(const Invocation& invocation) {
  VerbOptions seen;
  int status = 0;
  const auto rest = arguments_of("policy list", plain_options(seen), seen, invocation, 0, list_page, status);
  return rest ? list() : status;
}
int show_command(const Invocation& invocation) {
  VerbOptions seen;
  int status = 0;
  const auto rest = arguments_of("policy show", show_options(seen), seen, invocation, SIZE_MAX, show_page, status);
  return rest ? show(*rest, seen.filter_file) : status;
}
int new_command(const Invocation& invocation) {
  VerbOptions seen;
  int status = 0;
  const auto rest = arguments_of("policy new", plain_options(seen), seen, invocation, 1, new_page, status);
  return rest ? create(*rest) : status;
}

constexpr Command kVerbs[] = {
    {"policy list", "the policies there are", list_command, list_page},
    {"policy show", "what results from some of them, each value with its origin", show_command, show_page},
    {"policy explain", "what a payload may do under them, and what is risky about it", policy_explain_command, policy_explain_page},
    {"policy check", "mistakes and risks in policy files, for editors and CI", policy_check_command, policy_check_page},
    {"policy convert", "the same policy in the words of bwrap, nsjail or sbx", policy_convert_command, policy_convert_page},
    {"policy new", "a commented file to start from", new_command, new_page},
};
constexpr size_t kVerbAt = std::string_view("policy ").size();

}  // namespace

std::span<const Command> policy_verbs() { return kVerbs; }

PolicySearch policy_search() {
  const char* configured = std::getenv("XDG_CONFIG_HOME");
  PolicySearch search;
  search.config_directory = user_policy_directory(configured != nullptr ? configured : "", runtime::probe_host().home);
  return search;
}

Result<std::string> values_text(std::span<const PolicyLayer> layers) {
  std::map<std::string, LayerValue> merged = SBX_TRY(merge_layers(layers));
  lower_disk(merged);
  std::string text;
  std::string section;
  for (const KeyRow& row : key_table()) {
    const auto found = merged.find(row.path);
    if (found == merged.end()) continue;
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
    if (layer.kafel) {
      text += "\n# " + std::to_string(layer.kafel->rules.size()) + " system call rules in Kafel from " + printable(layer.name, 400) +
              ", otherwise " + format_syscall_answer(layer.kafel->otherwise) + "\n";
    }
    if (!layer.syscall_rules.empty()) {
      text += "\n# " + std::to_string(layer.syscall_rules.size()) + " system call rules from " +
              printable(layer.name, 400) + "\n";
    }
  }
  return text;
}

Result<Page> policy_page() {
  VerbOptions unused;
  std::string usage = "usage:";
  std::string about = "A policy says what a payload may do. docs/policy.md tells how they add up, sbx-policy(5) every key.\n";
  for (const Command& verb : kVerbs) {
    const Page page = SBX_TRY(verb.page());
    usage += (usage.size() > 6 ? "\n      " : "") + page.usage.substr(6);
    std::string name = verb.name + kVerbAt;
    name.append(name.size() < 9 ? 9 - name.size() : 1, ' ');
    about += "\n  " + name + verb.summary;
  }
  return Page{usage, about + "\n\nsbx policy VERB --help tells more of one.", plain_options(unused), {{"Options", "sbx policy explain strict"}}};
}

int policy_command(const Invocation& invocation) {
  const std::vector<std::string> words = invocation.arguments();
  const std::string word = words.empty() ? "" : words[0];
  if (word == "-h" || word == "--help") return show_help(policy_page);
  std::vector<std::string> names;
  for (const Command& verb : kVerbs) {
    if (word == verb.name + kVerbAt) return verb.run(invocation);
    names.emplace_back(verb.name + kVerbAt);
  }
  Error error(ErrorKind::usage, "which one: sbx policy " + join(names, ", ") + "?");
  if (!word.empty() && word[0] == '-') {
    error = Error(ErrorKind::usage, "unknown option '" + printable(word) + "'").with_hint("options follow the verb, as in: sbx policy show --help");
  } else if (!word.empty()) {
    const std::string near = did_you_mean(word, names);
    error = Error(ErrorKind::usage, "unknown command 'policy " + printable(word) + "'" +
                                        (near.empty() ? "" : ": did you mean 'policy " + near + "'?"));
    if (word.find('/') != std::string::npos || word.ends_with(".toml")) error = std::move(error).with_hint("for a file: sbx policy explain " + shell_quote(word));
  }
  if (error.hint().empty()) error = std::move(error).with_hint("for instance: sbx policy explain default");
  return fail_usage("policy", error);
}

}  // namespace sbx::cli
