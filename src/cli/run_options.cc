#include "cli/run_options.h"

#include <unistd.h>

#include <algorithm>

#include "base/sys.h"
#include "base/text.h"
#include "cli/output.h"
#include "policy/loader.h"

namespace sbx::cli {
namespace {

using runtime::ProgramSource;
using runtime::RunRequest;
using runtime::TtyMode;
using runtime::WorkspaceMode;

constexpr char kProgram[] = "Program";
constexpr char kFiles[] = "Files";
constexpr char kLimitsGroup[] = "Limits";
constexpr char kWorld[] = "Environment and network";
constexpr char kPolicy[] = "Policy";
constexpr char kOutput[] = "Output and terminal";

Error bad_choice(const std::string& flag, const std::string& value, std::vector<std::string> choices) {
  const std::string near = did_you_mean(value, choices);
  return Error(ErrorKind::usage, "'" + printable(value) + "' is not possible" +
                                     (near.empty() ? "" : ": did you mean '" + near + "'?"))
      .with_origin("flag " + flag)
      .with_hint("possible: " + join(choices, ", "));
}

// The words of --policy, --lang and the like: a forgotten value shows as an empty one ("$UNSET").
Status not_empty(const std::string& flag, const std::string& value) {
  if (!value.empty()) return {};
  return Error(ErrorKind::usage, "the value is empty").with_origin("flag " + flag).with_hint("a variable that is not set?");
}

// Options come first. Where there is none, their table is not needed, which is a tenth of a start's instructions.
bool names_an_option(const std::vector<std::string>& words) {
  return !words.empty() && words[0].size() > 1 && words[0][0] == '-' && words[0] != "--";
}

const char* group_of(std::string_view path) {
  if (starts_with(path, "limits.")) return kLimitsGroup;
  if (starts_with(path, "seccomp.") || starts_with(path, "hardening.")) return kPolicy;
  return kWorld;
}

}  // namespace

Result<runtime::MountArgument> split_mount(const std::string& text) {
  runtime::MountArgument mount;
  std::string rest = text;
  if (rest.ends_with(":ro") || rest.ends_with(":rw")) {
    mount.read_only = rest.ends_with(":ro");
    rest.resize(rest.size() - 3);
  }
  const size_t colon = rest.rfind(':');
  if (colon == std::string::npos || sys::lstat(rest).ok()) {
    mount.source = rest;
  } else {
    mount.source = rest.substr(0, colon);
    mount.target = rest.substr(colon + 1);
    if (mount.target.empty()) mount.source.clear();
  }
  if (mount.source.empty()) {
    return Error(ErrorKind::usage, "'" + printable(text) + "' is not SRC[:DST][:ro|:rw]")
        .with_origin("flag --mount")
        .with_hint("for instance --mount data:/data, or --mount out:/out:rw");
  }
  return mount;
}

Result<runtime::WorkspaceArgument> split_workspace(const std::string& text) {
  runtime::WorkspaceArgument workspace;
  workspace.directory = text;
  const size_t colon = text.rfind(':');
  if (colon != std::string::npos && !sys::lstat(text).ok()) {
    const std::string mode = text.substr(colon + 1);
    if (mode == "ro") workspace.mode = WorkspaceMode::read_only;
    else if (mode == "rw") workspace.mode = WorkspaceMode::read_write;
    else if (mode == "overlay") workspace.mode = WorkspaceMode::overlay;
    else if (mode.find('/') == std::string::npos) return bad_choice("--workspace", mode, {"ro", "rw", "overlay"});
    if (mode.find('/') == std::string::npos) workspace.directory = text.substr(0, colon);
  }
  if (workspace.directory.empty()) {
    return Error(ErrorKind::usage, "'" + printable(text) + "' is not DIR[:ro|:rw|:overlay]")
        .with_origin("flag --workspace")
        .with_hint("for the directory you are in: --workspace .");
  }
  return workspace;
}

Result<runtime::FileArgument> split_file(const std::string& text) {
  runtime::FileArgument file;
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || sys::lstat(text).ok()) {
    file.source = text;
    file.name = base_name(text);
  } else {
    file.source = text.substr(0, colon);
    file.name = text.substr(colon + 1);
  }
  if (file.source.empty() || file.name.empty()) {
    return Error(ErrorKind::usage, "'" + printable(text) + "' is not SRC[:NAME]")
        .with_origin("flag --file")
        .with_hint("for instance --file data.csv, or --file /tmp/x1:data.csv");
  }
  return file;
}

Result<std::vector<Option>> run_options(bool exec, bool with_defaults, RunRequest& request, FrontOptions& front) {
  std::vector<Option> options;
  options.reserve(64);
  PolicyLayer defaults;
  if (with_defaults) defaults = SBX_TRY(load_policy("default", PolicySearch{}));

  const auto add = [&](const char* group, char letter, const char* name, const char* metavar, const char* doc,
                       const char* standard, std::function<Status(const std::string&)> take,
                       ValueKind kind = ValueKind::text) -> Option& {
    return options.emplace_back(Option{group, letter, name, metavar, doc, standard, std::move(take), kind});
  };
  const auto keep = [](std::string flag, std::string& field) {
    return [flag = std::move(flag), &field](const std::string& value) -> Status {
      SBX_TRY(not_empty(flag, value));
      field = value;
      return {};
    };
  };
  const auto collect = [](std::string flag, std::vector<std::string>& field) {
    return [flag = std::move(flag), &field](const std::string& value) -> Status {
      SBX_TRY(not_empty(flag, value));
      field.push_back(value);
      return {};
    };
  };
  const auto set = [](bool& field) {
    return [&field](const std::string&) -> Status {
      field = true;
      return {};
    };
  };

  if (!exec) {
    add(kProgram, 'l', "lang", "LANG", "language; otherwise by the extension or the #! line", "",
        keep("--lang", request.language), ValueKind::language);
    add(kProgram, 'c', "", "CODE", "the program's text, instead of FILE", "", [&](const std::string& value) -> Status {
      if (front.text_given) {
        return Error(ErrorKind::usage, "two programs given: -c stands twice").with_hint("give one -c CODE");
      }
      front.text_given = true;
      request.program = {ProgramSource::Kind::text, value};
      return {};
    });
    add(kProgram, 0, "eval", "", "tell the value of the last expression, behind the output and in the result; Python", "", set(front.eval));
    add(kProgram, 0, "toolchain", "PATH|VERSION", "which interpreter or compiler: a path, or a version such as 3.11", "",
        keep("--toolchain", request.toolchain), ValueKind::file);
    add(kProgram, 0, "venv", "DIR", "Python virtual environment to use", "the active one",
        keep("--venv", request.venv), ValueKind::directory);
    add(kProgram, 0, "compile-flag", "FLAG", "hand FLAG to the compiler; repeatable", "",
        [&](const std::string& value) -> Status {
          request.compile_flags.push_back(value);
          return {};
        });
    add(kProgram, 0, "no-build-cache", "", "compile, even when the same program was compiled before", "",
        [&](const std::string&) -> Status {
          request.build_cache = false;
          return {};
        });
  }
  add(kProgram, 0, "stdin", "FILE", "what the program reads on stdin", "your stdin", keep("--stdin", request.stdin_file),
      ValueKind::file);

  add(kFiles, 'w', "workspace", "DIR[:MODE]",
      "share DIR as the working directory /box; MODE is ro, rw or overlay (writes are kept apart)", "ro",
      [&](const std::string& value) -> Status {
        if (request.workspace.has_value()) {
          return Error(ErrorKind::usage, "given twice").with_origin("flag --workspace").with_hint(
              "share one directory as the workspace and others with --mount");
        }
        request.workspace = SBX_TRY(split_workspace(value));
        return {};
      },
      ValueKind::directory).choices = {"ro", "rw", "overlay"};
  add(kFiles, 'f', "file", "SRC[:NAME]", "copy a file into the working directory; repeatable", "",
      [&](const std::string& value) -> Status {
        request.files.push_back(SBX_TRY(split_file(value)));
        return {};
      },
      ValueKind::file);
  add(kFiles, 'm', "mount", "SRC[:DST][:MODE]", "show a file or directory at DST; MODE is ro or rw; repeatable", "ro",
      [&](const std::string& value) -> Status {
        request.mounts.push_back(SBX_TRY(split_mount(value)));
        return {};
      },
      ValueKind::file).choices = {"ro", "rw"};
  add(kFiles, 0, "artifacts", "DIR", "copy what the program created or changed to DIR", "",
      keep("--artifacts", request.artifacts_directory), ValueKind::directory);
  if (!exec) {
    add(kFiles, 0, "no-plots", "", "do not collect what the program shows; a run without a result or --artifacts never does", "",
        [&](const std::string&) -> Status {
          request.plots = false;
          return {};
        });
  }
  add(kFiles, 0, "allow-sensitive-mount", "", "share even homes, credentials, /etc, sockets and devices", "",
      set(request.allow_sensitive_mount));
  add(kFiles, 0, "allow-sensitive-write", "",
      "with :rw, leave .git/hooks, .envrc, editor settings and the like writable", "", set(request.allow_sensitive_write));

  // The policy flags: one row of the key table each.
  for (const KeyRow& row : key_table()) {
    if (row.flag == nullptr) continue;
    const std::string path = row.path;
    if (exec && starts_with(path, "limits.compile_")) continue;
    Option option;
    option.group = group_of(path);
    option.name = std::string(row.flag).substr(2);
    option.metavar = row.metavar != nullptr ? row.metavar : "VALUE";
    option.doc = row.doc;
    if (row.type == KeyType::text_list) option.doc += "; repeatable";
    if (const auto value = defaults.values.find(path); value != defaults.values.end()) {
      option.standard = format_value(row, value->second.value);
    }
    option.choices = row.choices;
    if (!row.choices.empty()) option.kind = ValueKind::choice;
    if (path == "seccomp.policy") option.kind = ValueKind::seccomp_policy;
    if (path == "seccomp.allow" || path == "seccomp.deny") option.kind = ValueKind::syscall_group;
    option.take = [&request, path, flag = std::string(row.flag)](const std::string& value) -> Status {
      return set_from_text(request.flags, path, value, "flag " + flag);
    };
    options.push_back(std::move(option));
  }

  add(kWorld, 'e', "env", "NAME[=VALUE]", "set a variable, or take over yours; repeatable", "",
      collect("--env", request.environment), ValueKind::variable);
  add(kPolicy, 'p', "policy", "NAME|FILE", "a further policy; later ones win, flags win over all; repeatable", "",
      collect("--policy", request.policies), ValueKind::policy);
  add(kPolicy, 0, "dialect", "NAME", "in which language policy files are: native, bwrap, nsjail", "by the file's extension",
      keep("--dialect", request.dialect), ValueKind::choice).choices = {"native", "bwrap", "nsjail"};
  add(kPolicy, 0, "cgroup-parent", "DIR", "make the sandbox's cgroup in DIR, whose processes are moved aside; none: no cgroup",
      "chosen", keep("--cgroup-parent", request.cgroup_parent), ValueKind::directory);
  add(kPolicy, 0, "require", "NAME", "fail unless this is in force: landlock, seccomp, cgroup; repeatable", "",
      collect("--require", request.require), ValueKind::choice).choices = {"cgroup", "landlock", "seccomp"};

  add(kOutput, 0, "result", "FILE", "write what happened to FILE, as JSON", "", keep("--result", front.result_file),
      ValueKind::file);
  add(kOutput, 0, "json", "", "print what happened as JSON on stdout, with the program's output in it", "",
      set(front.json));
  add(kOutput, 't', "tty", "WHEN", "a terminal of its own for the program: auto, always, never", "auto",
      [&](const std::string& value) -> Status {
        if (value == "auto") request.tty = TtyMode::automatic;
        else if (value == "always") request.tty = TtyMode::always;
        else if (value == "never") request.tty = TtyMode::never;
        else return bad_choice("--tty", value, {"auto", "always", "never"});
        return {};
      },
      ValueKind::choice).choices = {"auto", "always", "never"};
  add(kOutput, 'q', "quiet", "", "no hints", "", set(front.quiet));
  add(kOutput, 'v', "verbose", "", "say what is done: plan, origins, times, protections; -vv: the set-up's system calls too", "", [&](const std::string&) -> Status {
    ++request.verbosity;
    return {};
  });
  add(kOutput, 'h', "help", "", "this page", "", set(front.help));
  if (!with_defaults) return options;
  // Rows of one heading stand together although tables come in between.
  std::stable_sort(options.begin(), options.end(), [](const Option& left, const Option& right) {
    constexpr std::string_view kOrder[] = {kProgram, kFiles, kLimitsGroup, kWorld, kPolicy, kOutput};
    const auto rank = [&](const std::string& group) { return std::find(std::begin(kOrder), std::end(kOrder), group); };
    return rank(left.group) < rank(right.group);
  });
  return options;
}

std::vector<Example> run_examples(bool exec) {
  if (exec) {
    return {{kProgram, "sbx exec --stdin numbers.txt -- sort -n"},
            {kFiles, "sbx exec --workspace .:overlay --artifacts out -- make"},
            {kLimitsGroup, "sbx exec --time 10m --memory 4G -w . -- ./configure"},
            {kWorld, "sbx exec --net host --env LANG -- curl -sI https://example.org"},
            {kPolicy, "sbx exec --policy strict -- id"},
            {kOutput, "sbx exec --json -- uname -a"}};
  }
  return {{kProgram, "echo 'print(6*7)' | sbx run --lang python"},
          {kFiles, "sbx run --workspace . --artifacts out tests/run.py"},
          {kLimitsGroup, "sbx run --time 5s --memory 256M main.cpp < input.txt"},
          {kWorld, "sbx run --net host --env API_URL=http://localhost:8080 client.py"},
          {kPolicy, "sbx run --policy strict untrusted.py"},
          {kOutput, "sbx run --result out.json main.py"}};
}

Status parse_run(bool exec, const std::vector<std::string>& words, RunRequest& request, FrontOptions& front) {
  request.exec = exec;
  Parsed parsed;
  if (names_an_option(words)) {
    const std::vector<Option> options = SBX_TRY(run_options(exec, false, request, front));
    parsed = SBX_TRY(parse_options(options, words));
  } else {
    parsed.marked = !words.empty() && words[0] == "--";
    parsed.rest.assign(words.begin() + (parsed.marked ? 1 : 0), words.end());
  }
  if (front.help) return {};
  request.invocation_insert = parsed.options_end;  // the caller adds the words before `words`
  request.want_result = front.json || !front.result_file.empty();
  request.capture_streams = front.json;

  if (exec) {
    if (parsed.rest.empty()) {
      return Error(ErrorKind::usage, "no command given").with_hint("for instance: sbx exec -- ls -l /");
    }
    request.command = std::move(parsed.rest);
    return {};
  }
  std::vector<std::string>& rest = parsed.rest;
  if (front.text_given) {
    if (!parsed.marked && !rest.empty()) {
      return Error(ErrorKind::usage, "two programs given: -c CODE and '" + printable(rest[0]) + "'")
          .with_hint("give one of them; arguments for the program follow --, as in: sbx run -c CODE -- ARG");
    }
    request.arguments = std::move(rest);
    return {};
  }
  if (!parsed.marked && !rest.empty() && rest[0] != "-") {
    request.program = {ProgramSource::Kind::file, rest[0]};
    request.arguments.assign(rest.begin() + 1, rest.end());
    return {};
  }
  // stdin: named as "-", or FILE is absent. The arguments follow "--".
  request.program = {ProgramSource::Kind::standard_input, ""};
  if (!parsed.marked && !rest.empty()) {
    rest.erase(rest.begin());
    if (!rest.empty() && rest[0] == "--") rest.erase(rest.begin());
    request.arguments = std::move(rest);
    return {};
  }
  if (::isatty(STDIN_FILENO) == 1) {
    // `sbx run -- main.py`: the mark ends sbx's options, and what follows it belongs to a program from stdin.
    const bool meant_file = parsed.marked && !rest.empty() && sys::stat(rest[0]).ok();
    return Error(ErrorKind::usage, "no program given")
        .with_hint(meant_file ? "without the --: sbx run " + shell_quote(rest[0])
                              : "name a FILE, give -c CODE, or pipe code on stdin; sbx run --help has examples");
  }
  request.arguments = std::move(rest);
  return {};
}

}  // namespace sbx::cli
