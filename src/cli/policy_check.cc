// sbx policy check: mistakes and risks in policy files, one line each, for editors and CI.
#include <algorithm>
#include <optional>

#include "base/text.h"
#include "cli/cmd_policy.h"
#include "cli/command.h"
#include "cli/output.h"
#include "policy/bwrap/policy_file.h"
#include "policy/dialect.h"
#include "policy/review.h"
#include "runtime/request.h"
#include "seccomp/compile.h"
#include "version.h"

namespace sbx::cli {
namespace {

constexpr int kRisky = 1;

struct CheckOptions {
  bool json = false, help = false, quiet = false, allow_sensitive_mount = false;
  std::string dialect;
  // Risks of this severity and above give kRisky; nothing: none does.
  std::optional<RiskSeverity> fail_on = RiskSeverity::high;
  std::vector<std::string> accepted;
};

Status read_severity(const std::string& value, std::optional<RiskSeverity>& severity) {
  const std::vector<std::string> choices = {"low", "medium", "high", "never"};
  for (const RiskSeverity each : {RiskSeverity::low, RiskSeverity::medium, RiskSeverity::high}) {
    if (value != risk_severity_name(each)) continue;
    severity = each;
    return {};
  }
  if (value == "never") {
    severity.reset();
    return {};
  }
  const std::string near = did_you_mean(value, choices);
  return Error(ErrorKind::usage, "'" + printable(value) + "' is no severity" + (near.empty() ? "" : ": did you mean '" + near + "'?"))
      .with_origin("flag --fail-on")
      .with_hint("possible: " + join(choices, ", "));
}

std::vector<Option> check_options(CheckOptions& out) {
  std::vector<Option> options = {
      flag_option("Options", 0, "json", "print JSON (docs/schema/policy-check-v1.json)", out.json),
      flag_option("Options", 'q', "quiet", "print nothing: the status says it", out.quiet),
      flag_option("Options", 'h', "help", "this page", out.help),
      {"Reading", 0, "dialect", "NAME", "native, bwrap, nsjail; otherwise by the file's extension", "",
       [&out](const std::string& value) -> Status {
         out.dialect = value;
         return {};
       },
       ValueKind::choice, {"native", "bwrap", "nsjail"}},
      flag_option("Reading", 0, "allow-sensitive-mount", "mounts that a run refuses without this flag are risks instead of mistakes",
                  out.allow_sensitive_mount),
      {"Risks", 0, "fail-on", "SEVERITY", "the least severity that makes the status 1: low, medium, high, never", "high",
       [&out](const std::string& value) { return read_severity(value, out.fail_on); }, ValueKind::choice, {"low", "medium", "high", "never"}},
      {"Risks", 0, "accept", "NAME", "this risk is meant: it is printed, and does not count; repeatable", "",
       [&out](const std::string& value) -> Status {
         const std::vector<std::string> names = risk_names();
         if (std::find(names.begin(), names.end(), value) == names.end()) {
           const std::string near = did_you_mean(value, names);
           return Error(ErrorKind::usage, "'" + printable(value) + "' is no risk" + (near.empty() ? "" : ": did you mean '" + near + "'?"))
               .with_origin("flag --accept")
               .with_hint("known: " + join(names, ", "));
         }
         out.accepted.push_back(value);
         return {};
       },
       ValueKind::choice, risk_names()},
  };
  return options;
}

struct Checked {
  std::string name;
  Dialect dialect = Dialect::native;
  std::vector<Error> mistakes;
  std::vector<std::string> warnings;  // about this host: what a run here would meet
  std::vector<Risk> risks;
};

Checked check_one(const std::string& name, const CheckOptions& wanted, const HostFacts& facts) {
  Checked checked;
  checked.name = name;
  const auto mistake = [&](Error error) {
    checked.mistakes.push_back(std::move(error));
    return std::move(checked);
  };
  const Result<Dialect> dialect = choose_dialect(name, wanted.dialect);
  if (!dialect.ok()) return mistake(dialect.error());
  checked.dialect = dialect.value();
  PolicySearch search = policy_search();
  search.dialect = wanted.dialect;
  Result<ParsedPolicy> parsed = load_whole_policy(name, search);
  if (!parsed.ok()) return mistake(parsed.take_error());
  checked.mistakes = std::move(parsed.value().mistakes);
  checked.warnings = std::move(parsed.value().notes);
  if (!checked.mistakes.empty()) return checked;
  // A configuration of nsjail's is whole if nsjail can run it, and was reviewed in its own words.
  const bool of_nsjail = checked.dialect == Dialect::nsjail;
  const auto no_policy = [&](const Error& error) {
    const std::string& origin = error.origin();
    std::string message = error.text();
    if (!origin.empty() && starts_with(message, origin + ": ")) message.erase(0, origin.size() + 2);
    checked.warnings.push_back((origin.empty() ? name : origin) + ": warning: as a policy of run and exec it is refused: " + message);
  };
  checked.risks = std::move(parsed.value().risks);
  for (const Error& error : parsed.value().elsewhere) no_policy(error);
  if (!parsed.value().elsewhere.empty()) return checked;

  // What only shows when it is put on top of the default: limits that contradict each other, mounts, system calls.
  runtime::RunRequest request;
  request.exec = true;
  if (name != "default") request.policies = {name};
  request.dialect = wanted.dialect;
  request.allow_sensitive_mount = wanted.allow_sensitive_mount;
  Result<runtime::Inspection> inspected = runtime::inspect(request, facts);
  if (!inspected.ok() && of_nsjail) {
    no_policy(inspected.error());
    return checked;
  }
  if (!inspected.ok()) return mistake(inspected.take_error());
  const SandboxSpec& spec = inspected.value().spec;
  if (spec.seccomp.enabled && spec.seccomp.builtin.empty()) {
    seccomp::CompileOptions options;
    options.arch = seccomp::native_arch();
    if (Result<seccomp::BpfProgram> program = seccomp::compile(spec.seccomp.rules, options); !program.ok()) return mistake(program.take_error());
  }
  for (const FsOp& op : parsed.value().layer.mounts) {
    const BindOp* bind = std::get_if<BindOp>(&op);
    if (bind == nullptr || bind->optional || bind->source_mode != 0) continue;
    checked.warnings.push_back(bind->origin + ": warning: there is no " + quoted_path(bind->source) + " on this host, and a run would fail; or optional = true");
  }
  if (of_nsjail) return checked;
  ReviewInput input;
  input.guarded = inspected.value().guarded;
  Result<std::vector<Risk>> risks = review(spec, facts, input);
  if (!risks.ok()) return mistake(risks.take_error());
  checked.risks = risks.take();
  for (const PolicyLayer& layer : inspected.value().layers)
    if (layer.whole_view) bwrap::in_words_of_bwrap(checked.risks, layer);
  return checked;
}

bool counts(const Risk& risk, const CheckOptions& wanted) {
  return wanted.fail_on && risk.severity >= *wanted.fail_on &&
         std::find(wanted.accepted.begin(), wanted.accepted.end(), risk.name) == wanted.accepted.end();
}

// "FILE:LINE:COLUMN: error: …", as compilers write it and editors read it.
std::string as_text(const Checked& checked, const CheckOptions& wanted) {
  std::string text;
  for (const Error& error : checked.mistakes) {
    std::string message = error.text();
    const std::string& origin = error.origin();
    const bool placed = !origin.empty() && starts_with(message, origin + ": ");
    if (placed) message.erase(0, origin.size() + 2);
    text += printable(placed ? origin : checked.name, 400) + ": error: " + printable(message, 2000) +
            (error.hint().empty() ? "" : "; " + printable(error.hint(), 2000)) + "\n";
  }
  for (const std::string& warning : checked.warnings) text += printable(warning, 2000) + "\n";
  size_t counted = 0;
  for (const Risk& risk : checked.risks) {
    const bool accepted = std::find(wanted.accepted.begin(), wanted.accepted.end(), risk.name) != wanted.accepted.end();
    counted += counts(risk, wanted) ? 1 : 0;
    text += printable(risk.origin.empty() ? checked.name : risk.origin, 400) + ": " + (accepted ? "accepted" : risk_severity_name(risk.severity)) +
            ": " + risk.name + ": " + printable(risk.what, 2000) + "; fix: " + printable(risk.fix, 400) + "\n";
  }
  if (checked.mistakes.empty() && counted == 0) text += printable(checked.name, 400) + ": ok\n";
  return text;
}

std::string as_json(const std::vector<Checked>& all, int status) {
  std::string text = "{\n  \"schema\": \"sbx-policy-check\",\n  \"version\": 1,\n  \"sbx_version\": " + json_text(SBX_VERSION) +
                     ",\n  \"status\": " + std::to_string(status) + ",\n  \"files\": [";
  for (const Checked& checked : all) {
    text += text.back() == '[' ? "\n" : ",\n";
    text += "    {\"name\": " + json_text(checked.name) + ", \"dialect\": " + json_text(dialect_name(checked.dialect)) + ",\n     \"mistakes\": [";
    for (const Error& error : checked.mistakes) {
      text += text.back() == '[' ? "" : ",\n       ";
      text += "{\"message\": " + json_text(error.text()) + ", \"origin\": " + (error.origin().empty() ? "null" : json_text(error.origin())) +
              ", \"hint\": " + (error.hint().empty() ? "null" : json_text(error.hint())) + "}";
    }
    text += "],\n     \"warnings\": " + json_list(checked.warnings) + ",\n     \"risks\": " + risks_json(checked.risks) + "}";
  }
  return text + "\n  ]\n}\n";
}

}  // namespace

std::string risks_json(const std::vector<Risk>& risks) {
  std::string text = "[";
  for (const Risk& risk : risks) {
    text += text.back() == '[' ? "\n" : ",\n";
    text += "      {\"name\": " + json_text(risk.name) + ", \"severity\": " + json_text(risk_severity_name(risk.severity)) +
            ",\n       \"what\": " + json_text(risk.what) + ",\n       \"fix\": " + json_text(risk.fix) +
            ", \"origin\": " + (risk.origin.empty() ? "null" : json_text(risk.origin)) + "}";
  }
  return text + (risks.empty() ? "]" : "\n    ]");
}

Result<Page> policy_check_page() {
  CheckOptions unused;
  return Page{"usage: sbx policy check [OPTIONS] FILE...",
              "Reads policies to their end and names every mistake with line and column, and what is risky about\n"
              "them; nothing is run. A risk is what somebody should have meant: docs/policy.md lists them.\n"
              "Status: 0 all is well; 1 a risk that counts; 2 a mistake, or wrong usage.",
              check_options(unused),
              {{"Options", "sbx policy check policies/*.toml"},
               {"Reading", "sbx policy check --dialect native policy.conf"},
               {"Risks", "sbx policy check --fail-on medium --accept host-network ci.toml"}},
              ValueKind::policy};
}

int policy_check_command(const Invocation& invocation) {
  CheckOptions wanted;
  Result<std::vector<std::string>> names = parse_options_anywhere(check_options(wanted), invocation.arguments(3));
  if (!names.ok()) return fail_usage("policy check", names.error());
  if (wanted.help) return show_help(policy_check_page);
  if (names.value().empty()) {
    return fail_usage("policy check", Error(ErrorKind::usage, "no policy given").with_hint("for instance: sbx policy check ./small.toml"));
  }
  if (!wanted.dialect.empty()) {
    if (const Result<Dialect> known = choose_dialect("", wanted.dialect); !known.ok()) return fail_usage("policy check", known.error());
  }
  const HostFacts facts = runtime::probe_host();
  std::vector<Checked> all;
  int status = 0;
  for (const std::string& name : names.value()) {
    all.push_back(check_one(name, wanted, facts));
    const Checked& checked = all.back();
    const bool risky = std::any_of(checked.risks.begin(), checked.risks.end(), [&](const Risk& risk) { return counts(risk, wanted); });
    if (!checked.mistakes.empty()) status = exit_code_for(ErrorKind::policy);
    else if (risky) status = std::max(status, kRisky);
  }
  if (wanted.quiet) return status;
  std::string text;
  if (wanted.json) text = as_json(all, status);
  else
    for (const Checked& checked : all) text += as_text(checked, wanted);
  const int printed = print_or_fail(text);
  return status != 0 ? status : printed;
}

}  // namespace sbx::cli
