// sbx selftest: attacks made in sandboxes on this very host, and what stopped each.
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/parser.h"
#include "runtime/host_report.h"
#include "selftest/inside.h"
#include "selftest/selftest.h"
#include "version.h"

namespace sbx::cli {
namespace {

using selftest::Answer;
using selftest::Controls;
using selftest::ControlState;
using selftest::Judgement;
using selftest::Probe;
using selftest::ProbeResult;
using selftest::ProbeVerdict;
using selftest::Safety;
using selftest::Selftest;

constexpr int kSomethingOpen = 1;

struct SelftestOptions {
  bool json = false, list = false, all_controls = false, no_controls = false, verbose = false, help = false;
  std::vector<std::string> compare, patterns, policies;
  std::string as;
};

std::vector<Option> selftest_options(SelftestOptions& out) {
  const auto collect = [](const char* flag, std::vector<std::string>& field) {
    return [flag, &field](const std::string& value) -> Status {
      if (value.empty()) return Error(ErrorKind::usage, "is empty").with_origin(std::string("flag ") + flag);
      field.push_back(value);
      return {};
    };
  };
  const std::vector<std::string> tools = selftest::tool_names();
  return {
      {"Attacks", 'k', "only", "PATTERN", "only attacks whose name or category has PATTERN in it; repeatable", "", collect("--only", out.patterns)},
      flag_option("Attacks", 0, "list", "the attacks, and why none of them does harm; tries nothing", out.list),
      flag_option("Attacks", 0, "controls", "run every control, those too that take a second or much memory", out.all_controls),
      flag_option("Attacks", 0, "no-controls", "run no control: a refusal then proves less", out.no_controls),
      {"Attacks", 'p', "policy", "NAME|FILE", "attack a sandbox under this policy, on top of the default; repeatable", "",
       collect("--policy", out.policies), ValueKind::policy},
      {"Other tools", 0, "compare", "NAME,...", "the same attacks under these, side by side: bwrap, nsjail, firejail; none: without a sandbox", "",
       [&out, tools](const std::string& value) -> Status {
         for (const std::string& name : split(value, ',')) {
           if (std::find(tools.begin(), tools.end(), name) == tools.end()) {
             const std::string near = did_you_mean(name, tools);
             return Error(ErrorKind::usage, "no tool '" + printable(name) + "' is known" + (near.empty() ? "" : ": did you mean '" + near + "'?"))
                 .with_origin("flag --compare")
                 .with_hint("known: " + join(tools, ", "));
           }
           if (std::find(out.compare.begin(), out.compare.end(), name) == out.compare.end()) out.compare.push_back(name);
         }
         return {};
       },
       ValueKind::choice, tools},
      {"Other tools", 0, "as", "USER", "as root: the ordinary user that other tools run as", "nobody",
       [&out](const std::string& value) -> Status {
         if (value.empty()) return Error(ErrorKind::usage, "names no user").with_origin("flag --as");
         out.as = value;
         return {};
       }},
      flag_option("Output", 0, "json", "print JSON (docs/schema/selftest-v1.json)", out.json),
      flag_option("Output", 'v', "verbose", "every try with its answer, and each control", out.verbose),
      flag_option("Output", 'h', "help", "this page", out.help),
  };
}

std::vector<const Probe*> chosen(const std::vector<std::string>& patterns) {
  std::vector<const Probe*> found;
  for (const Probe& probe : selftest::probes()) {
    const bool wanted = patterns.empty() || std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
                          return std::string_view(probe.name).find(pattern) != std::string_view::npos ||
                                 std::string_view(probe.category).find(pattern) != std::string_view::npos;
                        });
    if (wanted) found.push_back(&probe);
  }
  return found;
}

std::string list_text(const std::vector<const Probe*>& all) {
  std::string text;
  std::string category;
  for (const Probe* probe : all) {
    if (category != probe->category) text += (text.empty() ? "" : "\n") + std::string(category = probe->category) + "\n";
    text += "  " + std::string(probe->name) + ": " + probe->attack + "\n      should be blocked by: " + probe->blocked_by +
            "\n      harmless: " + probe->harmless + (probe->safety == Safety::sandbox_only ? "; in a sandbox of sbx only" : "") + "\n";
    for (const selftest::Control& control : probe->controls) {
      text += std::string("      control: ") + control.change + (control.costly ? " (with --controls)" : "") + "\n";
    }
    if (probe->controls.empty()) text += std::string("      control: none, ") + probe->no_control + "\n";
  }
  return text;
}

// ---- the table -------------------------------------------------------------------------------------------------

const char* color_of(ProbeVerdict verdict) {
  switch (verdict) {
    case ProbeVerdict::blocked: return "\033[32m";
    case ProbeVerdict::open:
    case ProbeVerdict::failed: return "\033[31m";
    case ProbeVerdict::not_applicable:
    case ProbeVerdict::not_tried: return "\033[33m";
  }
  return "";
}

std::string padded(std::string text, size_t width) {
  text.append(text.size() < width ? width - text.size() : 1, ' ');
  return text;
}

std::string painted(const std::string& text, ProbeVerdict verdict, bool colors) {
  return colors ? color_of(verdict) + text + "\033[0m" : text;
}

std::string tries_text(const Probe& probe, const std::vector<Answer>& answers) {
  std::string text;
  for (size_t i = 0; i < answers.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::string(probe.tries[i].name) + ": " + selftest::answer_text(answers[i]);
  }
  return text;
}

std::string details(const ProbeResult& result, const Selftest& all) {
  const Probe& probe = *result.probe;
  std::string text = std::string("    ") + probe.attack + "\n    seen:    " + tries_text(probe, result.seen.answers) + "\n    control: ";
  switch (result.control.state) {
    case ControlState::none: text += std::string("none, ") + probe.no_control; break;
    case ControlState::not_run: text += "not run, " + result.control.change; break;
    default:
      text += std::string(selftest::control_state_name(result.control.state)) + " " + result.control.change;
      if (!result.control.answers.empty()) text += ": " + tries_text(probe, result.control.answers);
  }
  for (size_t i = 0; i < result.others.size(); ++i) {
    text += "\n    " + all.tools[i].name + ": " + tries_text(probe, result.others[i].second.answers);
  }
  return text + "\n";
}

std::string explained(const Judgement& judgement) {
  if (judgement.verdict == ProbeVerdict::blocked) return "by " + judgement.by;
  return judgement.verdict == ProbeVerdict::open ? judgement.by : judgement.why;
}

std::string as_text(const Selftest& all, bool verbose, bool colors) {
  constexpr size_t kNameWidth = 18;
  constexpr size_t kVerdictWidth = 16;
  std::string text;
  std::string category;
  const bool compared = !all.tools.empty();
  if (compared) {
    text = padded("", 2 + kNameWidth) + padded("sbx", kVerdictWidth);
    for (const selftest::Tool& tool : all.tools) text += padded(tool.name, kVerdictWidth);
    while (text.back() == ' ') text.pop_back();
    text += "\n";
  }
  for (const ProbeResult& result : all.results) {
    if (category != result.probe->category) {
      text += text.empty() || category.empty() ? "" : "\n";
      text += (category = result.probe->category) + "\n";
    }
    std::string line = "  " + padded(result.probe->name, kNameWidth);
    line += painted(padded(selftest::verdict_name(result.judgement.verdict), kVerdictWidth), result.judgement.verdict, colors);
    if (!compared) {
      line += printable(explained(result.judgement), 300);
    } else {
      for (const auto& [judgement, seen] : result.others) {
        line += painted(padded(selftest::verdict_name(judgement.verdict), kVerdictWidth), judgement.verdict, colors);
      }
    }
    while (line.back() == ' ') line.pop_back();
    text += line + "\n";
    if (verbose) text += details(result, all);
  }
  text += "\n";
  for (const selftest::Tool& tool : all.tools) {
    if (!tool.absent.empty()) {
      text += tool.name + ": not tried, " + tool.absent + "\n";
    } else if (tool.words.empty()) {
      text += "none: no sandbox, the attacks alone\n";
    } else {
      text += tool.name + ": " + tool.version + "; as:";
      for (const std::string& word : tool.words) text += " " + shell_quote(word);
      text += "\n";
    }
  }
  if (!all.tool_user.empty()) text += "Other tools ran as the user " + printable(all.tool_user) + ".\n";
  for (const std::string& sentence : all.reduced) text += "reduced here: " + printable(sentence, 500) + "\n";
  text += std::to_string(all.blocked) + " blocked, " + std::to_string(all.open) + " open, " + std::to_string(all.not_applicable) + " not applicable here\n";
  return text;
}

// ---- JSON ------------------------------------------------------------------------------------------------------

std::string answers_json(const Probe& probe, const std::vector<Answer>& answers) {
  std::string text = "[";
  for (size_t i = 0; i < answers.size(); ++i) {
    text += std::string(i > 0 ? ", " : "") + "{\"name\": " + json_text(probe.tries[i].name) + ", \"answer\": " + json_text(selftest::answer_text(answers[i])) + "}";
  }
  return text + "]";
}

std::string judgement_json(const Probe& probe, const Judgement& judgement, const std::vector<Answer>& answers) {
  return "\"verdict\": " + json_text(selftest::verdict_name(judgement.verdict)) + ", \"by\": " + json_text(judgement.by) +
         ", \"why\": " + json_text(judgement.why) + ", \"tries\": " + answers_json(probe, answers);
}

std::string as_json(const Selftest& all) {
  std::vector<std::string> tools;
  for (const selftest::Tool& tool : all.tools) {
    tools.push_back("{\"name\": " + json_text(tool.name) + ", \"version\": " + json_text(tool.version) + ", \"command\": " + json_list(tool.words) +
                    ", \"absent\": " + (tool.absent.empty() ? "null" : json_text(tool.absent)) + "}");
  }
  std::vector<std::string> results;
  for (const ProbeResult& result : all.results) {
    const Probe& probe = *result.probe;
    std::vector<std::string> others;
    for (size_t i = 0; i < result.others.size(); ++i) {
      others.push_back("{\"tool\": " + json_text(all.tools[i].name) + ", " +
                       judgement_json(probe, result.others[i].first, result.others[i].second.answers) + "}");
    }
    results.push_back("    {\"name\": " + json_text(probe.name) + ", \"category\": " + json_text(probe.category) + ",\n     \"attack\": " + json_text(probe.attack) +
                      ", \"should_be_blocked_by\": " + json_text(probe.blocked_by) + ",\n     \"harmless\": " + json_text(probe.harmless) +
                      ", \"sandbox_only\": " + (probe.safety == Safety::sandbox_only ? "true" : "false") + ",\n     " +
                      judgement_json(probe, result.judgement, result.seen.answers) + ",\n     \"control\": {\"state\": " +
                      json_text(selftest::control_state_name(result.control.state)) + ", \"change\": " +
                      (result.control.change.empty() ? "null" : json_text(result.control.change)) + ", \"tries\": " +
                      answers_json(probe, result.control.answers) + "},\n     \"others\": [" + join(others, ", ") + "]}");
  }
  struct utsname names {};
  (void)::uname(&names);
  return "{\n  \"schema\": \"sbx-selftest\",\n  \"version\": 1,\n  \"sbx_version\": " + json_text(SBX_VERSION) +
         ",\n  \"host\": {\"kernel\": " + json_text(names.release) + ", \"arch\": " + json_text(names.machine) +
         ", \"uid\": " + std::to_string(::geteuid()) + "}" +
         ",\n  \"open\": " + std::to_string(all.open) + ", \"blocked\": " + std::to_string(all.blocked) +
         ", \"not_applicable\": " + std::to_string(all.not_applicable) + ",\n  \"reduced\": " + json_list(all.reduced) + ",\n  \"tools\": [" +
         join(tools, ", ") + "],\n  \"tool_user\": " + (all.tool_user.empty() ? "null" : json_text(all.tool_user)) + ",\n  \"attacks\": [\n" +
         join(results, ",\n") + "\n  ]\n}\n";
}

bool may_color() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == '\0') && terminal != nullptr && std::string_view(terminal) != "dumb";
}

}  // namespace

Result<Page> selftest_page() {
  SelftestOptions unused;
  return Page{"usage: sbx selftest [-k PATTERN] [--json] [--compare NAME,...]",
              "Makes attacks in sandboxes of the default policy on this very host, each in a form that harms\n"
              "nobody, and says what blocked it. Each is made once more with only that protection taken away,\n"
              "so that a refusal means something.\n"
              "Status: 0 all blocked, or not applicable here; 1 something is open; 2 wrong usage; 125 no\n"
              "sandbox can be had.",
              selftest_options(unused),
              {{"Attacks", "sbx selftest -k namespaces -v"},
               {"Other tools", "sbx selftest --compare bwrap,firejail"},
               {"Output", "sbx selftest --json > selftest.json"}}};
}

int selftest_command(const Invocation& invocation) {
  SelftestOptions wanted;
  Result<Parsed> parsed = parse_options(selftest_options(wanted), invocation.arguments());
  if (parsed.ok() && !wanted.help) {
    if (!parsed.value().rest.empty()) {
      parsed = Error(ErrorKind::usage, "sbx selftest takes no argument '" + printable(parsed.value().rest[0]) + "'")
                   .with_hint("to choose attacks: sbx selftest -k " + shell_quote(parsed.value().rest[0]));
    } else if (wanted.all_controls && wanted.no_controls) {
      parsed = Error(ErrorKind::usage, "--controls and --no-controls exclude each other");
    } else if (wanted.list && (wanted.json || !wanted.compare.empty())) {
      parsed = Error(ErrorKind::usage, "--list tries nothing, so there is nothing to print as JSON or to compare");
    } else if (!wanted.as.empty() && wanted.compare.empty()) {
      parsed = Error(ErrorKind::usage, "--as is for other tools: add --compare");
    }
  }
  if (!parsed.ok()) return fail_usage("selftest", parsed.error());
  if (wanted.help) return show_help(selftest_page);
  const std::vector<const Probe*> probes = chosen(wanted.patterns);
  if (probes.empty()) {
    return fail_usage("selftest", Error(ErrorKind::usage, "no attack is named '" + printable(join(wanted.patterns, "', '")) + "'")
                                      .with_hint("sbx selftest --list names them"));
  }
  if (wanted.list) return print_or_fail(list_text(probes));
  if (runtime::is_inside_sbx()) {
    say("this is the inside of an sbx sandbox, where no second one can be made: run sbx selftest outside");
    return exit_code_for(ErrorKind::unsupported);
  }
  selftest::SelftestRequest request;
  request.probes = probes;
  request.policies = wanted.policies;
  request.controls = wanted.all_controls ? Controls::all : wanted.no_controls ? Controls::none : Controls::cheap;
  request.compare = wanted.compare;
  request.user = wanted.as;
  if (can_show_progress()) request.progress = show_progress;
  const Result<Selftest> done = selftest::run_selftest(request);
  if (!done.ok()) {
    say_error(done.error());
    return exit_code_for(done.error().kind());
  }
  if (done.value().interrupted != 0) {
    say("interrupted");
    return 128 + done.value().interrupted;
  }
  const int printed = print_or_fail(wanted.json ? as_json(done.value()) : as_text(done.value(), wanted.verbose, may_color()));
  return done.value().open > 0 ? kSomethingOpen : printed;
}

int probe_words(const std::vector<std::string>& words) {
  const Status done = selftest::run_inside(words, STDOUT_FILENO);
  if (done.ok()) return 0;
  say_error(done.error());
  return exit_code_for(done.error().kind());
}

}  // namespace sbx::cli
