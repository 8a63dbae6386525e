// sbx policy explain: policies, with the flags of run where they are given, in words.
#include <algorithm>
#include <set>

#include "base/text.h"
#include "cli/cmd_policy.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/run_options.h"
#include "policy/account.h"
#include "policy/bwrap/policy_file.h"
#include "policy/dialect.h"
#include "policy/reference.h"
#include "policy/resolve.h"
#include "policy/review.h"
#include "runtime/request.h"
#include "version.h"

namespace sbx::cli {
namespace {

struct ExplainOptions {
  bool json = false, help = false;
  runtime::RunRequest request;
  FrontOptions ignored;  // what the taken over options of run never fill
};

// The options of `run` that say what the payload may do, as they are; those about its program and output have no part
// in it.
Result<std::vector<Option>> explain_options(bool with_defaults, ExplainOptions& out) {
  std::vector<Option> options = {
      flag_option("Options", 0, "json", "print JSON (docs/schema/policy-explain-v1.json)", out.json),
      flag_option("Options", 'h', "help", "this page", out.help),
  };
  for (Option& option : SBX_TRY(run_options(false, with_defaults, out.request, out.ignored))) {
    static const std::set<std::string> kElsewhere = {"file", "artifacts", "cgroup-parent", "require"};
    const bool of_the_world = option.group != "Program" && option.group != "Output and terminal";
    if (of_the_world && !kElsewhere.contains(option.name)) options.push_back(std::move(option));
  }
  return options;
}

// ---- words --------------------------------------------------------------------------------------------------------

template <typename T, typename Format>
std::string or_none(const std::optional<T>& value, const char* without, Format format) {
  return value ? format(*value) : std::string(without);
}
std::string count_of(uint64_t number) { return std::to_string(number); }

// What a line says under its heading; broken at spaces, the next lines indented below the first.
std::string entry(const std::string& heading, const std::string& text) {
  constexpr size_t kIndent = 16;
  constexpr size_t kWidth = 110;
  std::string line = "  " + heading;
  line.append(line.size() < kIndent ? kIndent - line.size() : 1, ' ');
  std::string result;
  size_t column = line.size();
  result = line;
  bool first = true;
  for (const std::string& word : split(text, ' ')) {
    if (!first && column + 1 + word.size() > kWidth) {
      result += "\n" + std::string(kIndent, ' ');
      column = kIndent;
    } else if (!first) {
      result += " ";
      ++column;
    }
    result += word;
    column += word.size();
    first = false;
  }
  return result + "\n";
}

const char* how_name(SharedPlace::How how) {
  switch (how) {
    case SharedPlace::How::read_only: return "read-only";
    case SharedPlace::How::writable: return "writable";
    case SharedPlace::How::overlay: return "overlay";
  }
  return "";
}

std::string groups_text(const std::vector<std::string>& groups) {
  std::string text;
  for (const std::string& group : groups) text += (text.empty() ? "@" : ", @") + group;
  return text;
}

std::string payload_text(const SandboxSpec& spec, const Account& account, bool whole_view) {
  std::vector<std::string> places;
  size_t of_etc = 0;
  for (const std::string& place : account.system) {
    if (path_is_under(place, "/etc")) ++of_etc;
    else if (place != "/var/tmp" && place != "/var/run") places.push_back(printable(place));
  }
  std::string text = "What the payload can\n\n";
  if (whole_view) text += entry("see", "only what stands here:");
  else text += entry("see", join(places, ", ") + " and " + std::to_string(of_etc) + " places in /etc, read-only; an /etc/passwd and the like made for it; a minimal /dev; its own processes");
  for (const SharedPlace& place : account.shared) {
    const char* how = place.how == SharedPlace::How::read_only  ? ", read-only"
                      : place.how == SharedPlace::How::writable ? ", and change it on the host"
                                                                : ", and change it for itself: the host's stays as it was";
    text += entry("", printable(place.source, 400) + (place.source == place.target ? "" : " at " + printable(place.target, 400)) + how + "  (" + printable(place.origin, 400) + ")");
  }
  text += entry("", "the variables " + printable(join(account.variables, ", "), 2000));
  text += entry("write", join(account.private_places, ", ") + ": private, empty, gone afterwards; " + format_size(spec.limits.disk) + " and " +
                             std::to_string(spec.limits.inodes) + " files in all");
  for (const SharedPlace& place : account.shared) {
    if (place.how == SharedPlace::How::writable) text += entry("", printable(place.target, 400) + ": the host's own " + printable(place.source, 400));
    if (place.how == SharedPlace::How::overlay) text += entry("", printable(place.target, 400) + ": counted with the private places");
  }
  if (!spec.read_only_root) text += entry("", "the root of the sandbox, beside the system's files");
  text += entry("reach", spec.net == NetMode::none ? "nothing: its network is a loopback of its own" : "the host's network, services on localhost among it");
  if (!spec.namespaces.ipc) text += entry("", "shared memory and message queues of the host's programs");
  text += entry("call", std::to_string(account.calls_allowed) + " of " + std::to_string(account.calls_known) + " known system calls (" +
                            (!spec.seccomp.enabled ? "no filter" : spec.seccomp.policy == "kafel" ? "the rules of seccomp.kafel" : spec.seccomp.builtin.empty() ? "a filter of this policy's own" : "filter " + spec.seccomp.builtin) + ")");
  if (!account.groups_partly.empty()) text += entry("", "in part: " + groups_text(account.groups_partly));
  if (!account.groups_refused.empty()) text += entry("", "refused: " + groups_text(account.groups_refused));
  text += entry("be", "uid " + std::to_string(spec.identity.uid) + ", gid " + std::to_string(spec.identity.gid) + " on '" + printable(spec.hostname) + "', " +
                          (spec.hardening.keep_capabilities.empty() ? "without capabilities" : "with " + join(spec.hardening.keep_capabilities, ", ")) +
                          (spec.hardening.nested_userns ? ", and every capability in user namespaces of its own" : ""));
  const Limits& limits = spec.limits;
  text += entry("for how long", or_none(limits.wall, "as long as it likes", format_duration) + (limits.cpu_time ? "; " + format_duration(*limits.cpu_time) + " of CPU time" : ""));
  text += entry("how much", or_none(limits.memory, "any amount", format_size) + " of memory, " + or_none(limits.pids, "any number of", count_of) +
                                " processes, " +
                                (limits.cpus_milli ? format_value(*find_key("limits.cpus"), *limits.cpus_milli) + " of the CPUs" : std::string("all CPUs")) +
                                ", files up to " + or_none(limits.file_size, "any size", format_size) + ", " +
                                or_none(limits.open_files, "any number of", count_of) + " descriptors a process, " +
                                or_none(limits.output, "any amount", format_size) + " of stdout and of stderr");
  return text;
}

std::string risks_text(const std::vector<Risk>& risks, const std::string& heading = "What is risky") {
  if (risks.empty()) return heading + "\n\n  nothing that sbx knows of\n";
  std::string text = heading + "\n\n";
  for (const Risk& risk : risks) {
    text += entry(risk_severity_name(risk.severity), risk.name + ": " + printable(risk.what, 2000) + (risk.origin.empty() ? "" : "  (" + printable(risk.origin, 400) + ")"));
    text += entry("", "fix: " + printable(risk.fix, 400));
  }
  return text;
}

// ---- JSON ---------------------------------------------------------------------------------------------------------

std::string as_json(const std::vector<std::string>& names, const runtime::Inspection& inspection, const std::map<std::string, LayerValue>& values,
                    const Account& account, const std::vector<Risk>& risks) {
  const SandboxSpec& spec = inspection.spec;
  const auto number = [](const std::optional<uint64_t>& value) { return value ? std::to_string(*value) : std::string("null"); };
  const auto bytes = [](const std::optional<Bytes>& value) { return value ? std::to_string(value->value) : std::string("null"); };
  const auto millis = [](const std::optional<Millis>& value) { return value ? std::to_string(value->value) : std::string("null"); };
  std::string text = "{\n  \"schema\": \"sbx-policy-explain\",\n  \"version\": 1,\n  \"sbx_version\": " + json_text(SBX_VERSION) +
                     ",\n  \"policies\": " + json_list(names) + ",\n  \"values\": [";
  for (const KeyRow& row : key_table()) {
    const auto found = values.find(row.path);
    if (found == values.end()) continue;
    text += text.back() == '[' ? "\n" : ",\n";
    text += "    {\"key\": " + json_text(row.path) + ", \"value\": " + json_text(format_value(row, found->second.value)) +
            ", \"origin\": " + json_text(found->second.origin) + "}";
  }
  text += "\n  ],\n  \"payload\": {\n    \"sees\": " + json_list(account.system) + ",\n    \"shared\": [";
  for (const SharedPlace& place : account.shared) {
    text += text.back() == '[' ? "\n" : ",\n";
    text += "      {\"source\": " + json_text(place.source) + ", \"target\": " + json_text(place.target) + ", \"how\": " + json_text(how_name(place.how)) +
            ", \"origin\": " + json_text(place.origin) + "}";
  }
  const Limits& limits = spec.limits;
  return text + (account.shared.empty() ? "]" : "\n    ]") + ",\n    \"private\": " + json_list(account.private_places) +
         ",\n    \"variables\": " + json_list(account.variables) + ",\n    \"network\": " + json_text(spec.net == NetMode::none ? "none" : "host") +
         ",\n    \"uid\": " + std::to_string(spec.identity.uid) + ", \"gid\": " + std::to_string(spec.identity.gid) +
         ", \"capabilities\": " + json_list(spec.hardening.keep_capabilities) + ",\n    \"system_calls\": {\"filter\": " +
         json_text(!spec.seccomp.enabled ? "none" : spec.seccomp.builtin.empty() ? "custom" : spec.seccomp.builtin) +
         ", \"allowed\": " + std::to_string(account.calls_allowed) + ", \"known\": " + std::to_string(account.calls_known) +
         ",\n      \"groups_allowed\": " + json_list(account.groups_allowed) + ",\n      \"groups_partly\": " + json_list(account.groups_partly) +
         ",\n      \"groups_refused\": " + json_list(account.groups_refused) + "},\n    \"limits\": {\"time_ms\": " + millis(limits.wall) +
         ", \"cpu_time_ms\": " + millis(limits.cpu_time) + ", \"memory_bytes\": " + bytes(limits.memory) + ", \"pids\": " + number(limits.pids) +
         ", \"cpus_milli\": " + number(limits.cpus_milli) + ",\n      \"disk_bytes\": " + std::to_string(limits.disk.value) +
         ", \"inodes\": " + std::to_string(limits.inodes) + ", \"file_size_bytes\": " + bytes(limits.file_size) +
         ", \"open_files\": " + number(limits.open_files) + ", \"output_bytes\": " + bytes(limits.output) + "}\n  },\n  \"risks\": " + risks_json(risks) +
         "\n}\n";
}

// What nsjail's configurations among the policies open where `sbx nsjail -C` runs them, in their own words; and, in
// `refused`, why one of them is no policy of run and exec, which leaves nothing else to tell.
Result<std::string> as_nsjail(const std::vector<std::string>& names, const std::string& dialect, std::vector<Risk>& risks, std::string& refused) {
  std::string text;
  PolicySearch search = policy_search();
  search.dialect = dialect;
  for (const std::string& name : names) {
    if (SBX_TRY(choose_dialect(name, dialect)) != Dialect::nsjail) continue;
    ParsedPolicy parsed = SBX_TRY(load_whole_policy(name, search));
    if (!parsed.mistakes.empty()) return std::move(parsed.mistakes.front());
    for (const Error& error : parsed.elsewhere) refused += entry("no", printable(error.text(), 400));
    text += "\n" + risks_text(parsed.risks, "What is risky where sbx nsjail -C runs " + printable(name, 400));
    risks.insert(risks.end(), parsed.risks.begin(), parsed.risks.end());
  }
  return text;
}

Result<std::string> explanation(const ExplainOptions& wanted, const std::vector<std::string>& names) {
  std::vector<Risk> elsewhere;
  std::string refused;
  const std::string of_nsjail = SBX_TRY(as_nsjail(names, wanted.request.dialect, elsewhere, refused));
  if (!refused.empty() && !wanted.json) return "As a policy of run and exec it is refused\n\n" + refused + of_nsjail;
  const HostFacts facts = runtime::probe_host();
  const runtime::Inspection inspection = SBX_TRY(runtime::inspect(wanted.request, facts));
  const Account account = SBX_TRY(account_of(inspection.spec));
  ReviewInput input;
  input.guarded = inspection.guarded;
  std::vector<Risk> risks = SBX_TRY(review(inspection.spec, facts, input));
  bool whole_view = false;
  for (const PolicyLayer& layer : inspection.layers) {
    if (!layer.whole_view) continue;
    whole_view = true;
    bwrap::in_words_of_bwrap(risks, layer);
  }
  if (wanted.json) {
    risks.insert(risks.end(), elsewhere.begin(), elsewhere.end());
    return as_json(names, inspection, SBX_TRY(merge_layers(inspection.layers)), account, risks);
  }
  return SBX_TRY(values_text(inspection.layers)) + "\n" + payload_text(inspection.spec, account, whole_view) + "\n" + risks_text(risks) + of_nsjail;
}

}  // namespace

Result<Page> policy_explain_page() {
  ExplainOptions unused;
  return Page{"usage: sbx policy explain [OPTIONS] [NAME|FILE...]",
              "Tells what a payload may do under the policies named and the flags given, which are those of sbx\n"
              "run: every value with its origin; what it can see, write, reach and call, for how long and how\n"
              "much; and what is risky about that. Nothing is run.",
              SBX_TRY(explain_options(true, unused)),
              {{"Options", "sbx policy explain strict"},
               {"Files", "sbx policy explain --workspace .:rw"},
               {"Limits", "sbx policy explain build --memory 8G"},
               {"Environment and network", "sbx policy explain --net host --env CI"},
               {"Policy", "sbx policy explain --seccomp strict --json"}},
              ValueKind::policy};
}

int policy_explain_command(const Invocation& invocation) {
  ExplainOptions wanted;
  const Result<std::vector<Option>> options = explain_options(false, wanted);
  if (!options.ok()) return fail_usage("policy explain", options.error());
  Result<std::vector<std::string>> names = parse_options_anywhere(options.value(), invocation.arguments(3));
  if (!names.ok()) return fail_usage("policy explain", names.error());
  if (wanted.help) return show_help(policy_explain_page);
  wanted.request.exec = true;
  std::vector<std::string>& policies = wanted.request.policies;
  policies.insert(policies.begin(), names.value().begin(), names.value().end());
  std::erase(policies, "default");  // it is below everything already
  for (const std::string& name : policies) {
    if (const Result<Dialect> dialect = choose_dialect(name, wanted.request.dialect); !dialect.ok()) return fail_usage("policy explain", dialect.error());
  }
  const Result<std::string> text = explanation(wanted, policies);
  if (!text.ok()) return fail_usage("policy explain", text.error());
  return print_or_fail(text.value());
}

}  // namespace sbx::cli
