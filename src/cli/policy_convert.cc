// sbx policy convert: one policy, resolved, in the words of another dialect; what that has no words for is told.
#include <fcntl.h>

#include <functional>

#include "base/sys.h"
#include "base/text.h"
#include "cli/cmd_policy.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/parser.h"
#include "policy/bwrap/write.h"
#include "policy/native/write.h"
#include "policy/nsjail/write.h"
#include "policy/resolve.h"
#include "runtime/request.h"

namespace sbx::cli {
namespace {

struct ConvertOptions {
  bool help = false, strict = false, allow_sensitive_mount = false;
  std::string to, dialect;
};

std::vector<Option> convert_options(ConvertOptions& out) {
  const auto text = [](std::string& field) {
    return [&field](const std::string& value) -> Status {
      field = value;
      return {};
    };
  };
  return {
      {"Options", 0, "to", "DIALECT", "native, bwrap or nsjail", "", text(out.to), ValueKind::choice, {"native", "bwrap", "nsjail"}},
      flag_option("Options", 0, "strict", "print nothing and fail where the other dialect has no words for something", out.strict),
      {"Options", 0, "dialect", "NAME", "what FILE is written in; otherwise by its extension", "", text(out.dialect), ValueKind::choice, {"native", "bwrap", "nsjail"}},
      flag_option("Options", 0, "allow-sensitive-mount", "convert mounts too that a run refuses without this flag", out.allow_sensitive_mount),
      flag_option("Options", 'h', "help", "this page", out.help),
  };
}

using Write = std::function<WrittenPolicy(const SandboxSpec&, const WriteInput&)>;

Result<Write> writer_of(const std::string& dialect) {
  if (dialect == "native") return Write(native::write);
  if (dialect == "bwrap") return Write(bwrap::write);
  if (dialect == "nsjail") return Write(nsjail::write);
  const std::vector<std::string> known = {"native", "bwrap", "nsjail"};
  if (dialect.empty()) return Error(ErrorKind::usage, "into what: --to native, --to bwrap or --to nsjail?");
  const std::string near = did_you_mean(dialect, known);
  return Error(ErrorKind::usage, "unknown dialect " + quoted(dialect) + (near.empty() ? "" : ": did you mean '" + near + "'?"))
      .with_origin("flag --to")
      .with_hint("possible: " + join(known, ", "));
}

// Files that the manifest copies are the host's own; what is made for a sandbox is nowhere.
bool is_on_host(const FileOp& op) {
  const Result<UniqueFd> file = sys::open(op.target, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!file.ok()) return false;
  const Result<std::string> content = sys::read_all(file.value().get(), op.content.size() + 1);
  return content.ok() && content.value() == op.content;
}

Result<WrittenPolicy> converted(const std::string& name, const ConvertOptions& wanted, const Write& write) {
  const HostFacts facts = runtime::probe_host();
  runtime::RunRequest request;
  request.exec = true;
  const runtime::Inspection base = SBX_TRY(runtime::inspect(request, facts));
  if (name != "default") request.policies = {name};
  request.dialect = wanted.dialect;
  request.allow_sensitive_mount = wanted.allow_sensitive_mount;
  const runtime::Inspection inspection = SBX_TRY(runtime::inspect(request, facts));
  WriteInput input{.base = base.spec, .passed = {}, .is_on_host = is_on_host};
  const std::map<std::string, LayerValue> values = SBX_TRY(merge_layers(inspection.layers));
  const auto& passed = std::get<std::vector<std::string>>(values.at("env.pass").value);
  const auto& set = std::get<std::map<std::string, std::string>>(values.at("env.set").value);
  for (const std::string& variable : passed)
    if (!set.contains(variable)) input.passed.insert(variable);
  return write(inspection.spec, input);
}

}  // namespace

Result<Page> policy_convert_page() {
  ConvertOptions unused;
  return Page{"usage: sbx policy convert --to DIALECT [OPTIONS] NAME|FILE",
              "Prints the policy, resolved, as a native policy, as a file of bwrap's options or as a configuration of\n"
              "nsjail. What the other dialect has no words for stands on stderr, each with its place and the\n"
              "reason; docs/convert.md tells what becomes of what.\n"
              "Status: 0; 2 with --strict where something cannot be said, a mistake, or wrong usage.",
              convert_options(unused),
              {{"Options", "sbx policy convert --to nsjail strict > strict.cfg"}},
              ValueKind::policy};
}

int policy_convert_command(const Invocation& invocation) {
  ConvertOptions wanted;
  Result<std::vector<std::string>> names = parse_options_anywhere(convert_options(wanted), invocation.arguments(3));
  if (!names.ok()) return fail_usage("policy convert", names.error());
  if (wanted.help) return show_help(policy_convert_page);
  const Result<Write> write = writer_of(wanted.to);
  if (!write.ok()) return fail_usage("policy convert", write.error());
  if (names.value().size() != 1)
    return fail_usage("policy convert", Error(ErrorKind::usage, names.value().empty() ? "no policy given" : "one policy at a time").with_hint("for instance: sbx policy convert --to " + wanted.to + " strict"));
  const Result<WrittenPolicy> written = converted(names.value()[0], wanted, write.value());
  if (!written.ok()) {
    say_error(written.error());
    return exit_code_for(written.error().kind());
  }
  for (const Unsaid& unsaid : written.value().unsaid) say((unsaid.origin.empty() ? "" : unsaid.origin + ": ") + "not said: " + unsaid.what);
  if (wanted.strict && !written.value().unsaid.empty()) return exit_code_for(ErrorKind::policy);
  return print_or_fail(written.value().text);
}

}  // namespace sbx::cli
