#include "selftest/selftest.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>

#include "base/sys.h"
#include "base/text.h"
#include "selftest/bait.h"

namespace sbx::selftest {
namespace {

bool is_open(const Try& attempt, const Answer& answer) {
  return answer.kind == Answer::Kind::worked ||
         (answer.kind == Answer::Kind::refused && std::find(attempt.reached.begin(), attempt.reached.end(), answer.number) != attempt.reached.end());
}

// How an errno is usually come by; a probe says where it is another way.
std::string usual_cause(int errnum, bool ours) {
  switch (errnum) {
    case EROFS: return "read-only mount";
    case ENOENT:
    case ENOTDIR: return "view of files";
    case ECONNREFUSED:
    case ENETUNREACH: return "network namespace";
    case ESRCH: return "pid namespace";
    case EACCES: return "permission, EACCES";
    case EPERM: return ours ? "capability, EPERM" : "EPERM";
    case ENOSYS: return ours ? "filter, ENOSYS" : "ENOSYS";
    default: return errno_name(errnum);
  }
}

std::string cause_of(const Probe& probe, const Try& attempt, const Answer& answer, const Seen& seen) {
  switch (answer.kind) {
    case Answer::Kind::hidden: return *probe.hidden_by != '\0' ? probe.hidden_by : "not there";
    case Answer::Kind::signaled: return answer.number == SIGSYS ? "filter, killed" : answer_text(answer);
    case Answer::Kind::silent:
      if (seen.verdict == runtime::Verdict::denied) return "filter, killed";
      if (seen.verdict == runtime::Verdict::out_of_memory) return "limit of memory";
      return seen.verdict == runtime::Verdict::timed_out ? "limit of time" : "";
    case Answer::Kind::refused: break;
    case Answer::Kind::worked:
    case Answer::Kind::untried: return "";
  }
  // Our filter says so itself, for what it does not refuse silently.
  if (answer.number == EPERM && seen.denied.count(attempt.call) != 0) return "filter, EPERM";
  if (seen.ours) {
    for (const auto& [errnum, text] : probe.by) {
      if (errnum == answer.number) return text;
    }
  }
  return usual_cause(answer.number, seen.ours);
}

void add_once(std::vector<std::string>& list, const std::string& text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
}

std::vector<std::string> reduced_protections(const runtime::Isolation& isolation) {
  std::vector<std::string> sentences;
  if (isolation.landlock_abi == 0) {
    sentences.push_back("Landlock, the second wall around files and mounts, is not in force" +
                        (isolation.landlock_note.empty() ? "" : ": " + isolation.landlock_note));
  }
  for (const std::string& sentence : isolation.not_held) sentences.push_back(sentence);
  for (const auto& [limit, holder] : isolation.limits_held_by) {
    if (holder.find("sampling") != std::string::npos) sentences.push_back("no cgroup: the limit of " + limit + " is held by " + holder);
  }
  return sentences;
}

// By /etc/passwd: a static program cannot load name services.
Result<ToolUser> tool_user(const std::string& name) {
  ToolUser user;
  user.switch_to = ::geteuid() == 0;
  if (!user.switch_to && !name.empty()) {
    return Error(ErrorKind::usage, "only root can become another user").with_origin("flag --as").with_hint("leave --as out: other tools run as you");
  }
  const std::string wanted = name.empty() ? "nobody" : name;
  const std::string own = std::to_string(::getuid());
  user.uid = ::getuid();
  user.gid = ::getgid();
  user.home = "/";
  bool found = !user.switch_to;
  const Result<std::string> passwd = read_file("/etc/passwd", size_t{8} << 20);
  for (const std::string& line : split(passwd.ok() ? passwd.value() : "", '\n')) {
    const std::vector<std::string> fields = split(line, ':');
    if (fields.size() < 6 || (user.switch_to ? fields[0] != wanted : fields[2] != own)) continue;
    const Result<uint64_t> uid = parse_integer(fields[2]);
    const Result<uint64_t> gid = parse_integer(fields[3]);
    if (!uid.ok() || !gid.ok() || uid.value() > UINT32_MAX || gid.value() > UINT32_MAX) continue;
    user = {static_cast<unsigned>(uid.value()), static_cast<unsigned>(gid.value()), fields[0], fields[5], user.switch_to};
    found = true;
    break;
  }
  if (!found) {
    return Error(ErrorKind::usage, "there is no user '" + printable(wanted) + "'").with_origin("flag --as").with_hint("--as takes the name of an ordinary user");
  }
  if (user.uid == 0 || user.gid == 0) {
    return Error(ErrorKind::usage, "other tools are never tried as root").with_origin("flag --as").with_hint("--as takes the name of an ordinary user");
  }
  return user;
}

ControlSeen run_control(const OurSandbox& ours, const Probe& probe, const Bait& bait, Controls wanted) {
  ControlSeen seen;
  for (const Control& control : probe.controls) {
    if (wanted == Controls::none || (control.costly && wanted != Controls::all)) {
      seen.state = ControlState::not_run;
      seen.change = control.change;
      continue;
    }
    Seen weaker = run_in_ours(ours, probe, bait, &control);
    seen.state = judge_control(probe, weaker);
    seen.change = control.change;
    seen.answers = std::move(weaker.answers);
    seen.interrupted = weaker.interrupted;
    if (seen.interrupted != 0 || seen.state == ControlState::opens) break;
  }
  return seen;
}

}  // namespace

const char* verdict_name(ProbeVerdict verdict) {
  switch (verdict) {
    case ProbeVerdict::blocked: return "blocked";
    case ProbeVerdict::open: return "open";
    case ProbeVerdict::not_applicable: return "not applicable";
    case ProbeVerdict::not_tried: return "not tried";
    case ProbeVerdict::failed: return "failed";
  }
  return "";
}

const char* control_state_name(ControlState state) {
  switch (state) {
    case ControlState::none: return "none";
    case ControlState::not_run: return "not run";
    case ControlState::opens: return "opens";
    case ControlState::refused: return "refused";
    case ControlState::failed: return "failed";
  }
  return "";
}

ControlState judge_control(const Probe& probe, const Seen& seen) {
  if (!seen.problem.empty()) return ControlState::failed;
  for (size_t i = 0; i < seen.answers.size(); ++i) {
    if (is_open(probe.tries[i], seen.answers[i])) return ControlState::opens;
  }
  return ControlState::refused;
}

Judgement judge(const Probe& probe, const Seen& seen, const ControlSeen& control) {
  if (!seen.problem.empty()) return {ProbeVerdict::failed, "", seen.problem};
  std::vector<std::string> open;
  std::vector<std::string> causes;
  std::string unheard;
  bool by_filter = false;  // a filter has said so, which needs no control
  for (size_t i = 0; i < seen.answers.size(); ++i) {
    const Try& attempt = probe.tries[i];
    const Answer& answer = seen.answers[i];
    if (is_open(attempt, answer)) {
      open.emplace_back(attempt.name);
    } else if (const std::string cause = cause_of(probe, attempt, answer, seen); !cause.empty()) {
      add_once(causes, cause);
      by_filter = by_filter || seen.denied.count(attempt.call) != 0 || (answer.kind == Answer::Kind::signaled && answer.number == SIGSYS);
    } else if (answer.kind == Answer::Kind::silent) {
      unheard = attempt.name;
    }
  }
  if (!open.empty()) return {ProbeVerdict::open, join(open, ", "), ""};
  if (!unheard.empty()) return {ProbeVerdict::failed, "", "nothing was heard of the try " + unheard + ", and nothing is known to have ended it"};
  if (causes.empty()) return {ProbeVerdict::not_applicable, "", "it could not be tried here"};
  if (control.state == ControlState::refused && !by_filter) {
    std::vector<std::string> answers;
    for (const Answer& answer : control.answers) add_once(answers, answer_text(answer));
    return {ProbeVerdict::not_applicable, "", "this host refuses it without the protection too (" + join(answers, ", ") + ")"};
  }
  return {ProbeVerdict::blocked, join(causes, "; "), ""};
}

Result<Selftest> run_selftest(const SelftestRequest& request) {
  Selftest all;
  const OurSandbox ours{runtime::probe_host(), request.policies};
  ToolUser user;
  if (!request.compare.empty()) user = SBX_TRY(tool_user(request.user));
  const BaitOwner owner = SBX_TRY(BaitOwner::lay(ours.facts.home));
  std::string program;
  if (!request.compare.empty()) {
    program = SBX_TRY(owner.public_program());
    all.tool_user = user.switch_to ? user.name : "";
    for (const std::string& name : request.compare) all.tools.push_back(find_tool(name, program, user));
  }
  size_t count = 0;
  for (const Probe* probe : request.probes) {
    if (request.progress) {
      request.progress("attack " + std::to_string(++count) + " of " + std::to_string(request.probes.size()) + ": " + probe->name);
    }
    ProbeResult result;
    result.probe = probe;
    result.seen = run_in_ours(ours, *probe, owner.bait(), nullptr);
    // Nothing was tried yet, and nothing can be: one error instead of fifty.
    if (all.results.empty() && !result.seen.problem.empty() && result.seen.interrupted == 0) {
      if (request.progress) request.progress("");
      if (result.seen.refused.has_value()) return std::move(*result.seen.refused);
      return Error(ErrorKind::unsupported, "no sandbox can be had: " + result.seen.problem).with_hint("sbx doctor says what is in the way");
    }
    result.control = run_control(ours, *probe, owner.bait(), request.controls);
    all.interrupted = result.seen.interrupted != 0 ? result.seen.interrupted : result.control.interrupted;
    if (all.interrupted != 0) break;
    result.judgement = judge(*probe, result.seen, result.control);
    for (Tool& tool : all.tools) {
      Seen seen;
      Judgement judgement;
      if (!tool.absent.empty()) {
        judgement = {ProbeVerdict::not_tried, "", tool.absent};
      } else if (probe->safety == Safety::sandbox_only) {
        judgement = {ProbeVerdict::not_tried, "", "only sbx is known to hold it"};
      } else {
        Bait bait = owner.bait();
        bait.home = user.home;
        bait.home_identity = identity_of(user.home);
        seen = run_in_tool(tool, program, user, *probe, bait);
        judgement = judge(*probe, seen, result.control);
        // A tool that cannot even begin is said once, not fifty times.
        if (!seen.problem.empty() && !tool.has_run) tool.absent = seen.problem;
        tool.has_run = true;
      }
      result.others.emplace_back(std::move(judgement), std::move(seen));
    }
    switch (result.judgement.verdict) {
      case ProbeVerdict::blocked: ++all.blocked; break;
      case ProbeVerdict::not_applicable: ++all.not_applicable; break;
      default: ++all.open;
    }
    all.results.push_back(std::move(result));
  }
  if (request.progress) request.progress("");
  if (!all.results.empty()) all.reduced = reduced_protections(all.results[0].seen.isolation);
  return all;
}

}  // namespace sbx::selftest
