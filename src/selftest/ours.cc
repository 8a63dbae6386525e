#include "base/sys.h"
#include "base/text.h"
#include "runtime/sandbox.h"
#include "selftest/inside.h"
#include "selftest/way.h"

namespace sbx::selftest {
namespace {

// Where our own program is shown, read-only.
constexpr char kProgram[] = "/opt/sbx-selftest";

}  // namespace

Seen run_in_ours(const OurSandbox& ours, const Probe& probe, Bait bait, const Control* control) {
  Seen seen;
  seen.ours = true;
  runtime::RunRequest request;
  request.exec = true;
  request.tty = runtime::TtyMode::never;
  request.capture_streams = true;
  request.policies = ours.policies;
  Result<std::string> self = sys::realpath("/proc/self/exe");
  if (!self.ok()) {
    seen.problem = self.error().text();
    return seen;
  }
  request.mounts.push_back({self.take(), kProgram, true});
  if (probe.setup != nullptr) probe.setup(request);
  if (control != nullptr && control->ask != nullptr) control->ask(request, bait);
  request.command = {kProgram, kInsideWord, probe.name, bait_word(bait)};

  const runtime::Engine engine = [&](const SandboxSpec& spec, const HostFacts& facts, const runtime::RunOptions& options) {
    if (control == nullptr || control->weaken == nullptr) return runtime::run_sandbox(spec, facts, options);
    SandboxSpec weaker = spec;
    control->weaken(weaker);
    return runtime::run_sandbox(weaker, facts, options);
  };
  const Result<runtime::Report> done = runtime::execute(request, ours.facts, runtime::Observer{}, engine);
  if (!done.ok()) {
    seen.refused = done.error();
    seen.problem = done.error().text();
    return seen;
  }
  const runtime::Outcome& outcome = done.value().outcome;
  seen.verdict = outcome.verdict;
  if (outcome.verdict == runtime::Verdict::killed) seen.interrupted = outcome.signal;
  seen.isolation = outcome.isolation;
  for (const runtime::Denial& denial : outcome.denials) seen.denied.insert(denial.call);
  if (outcome.setup_error.has_value()) {
    seen.refused = outcome.setup_error;
    seen.problem = outcome.setup_error->text();
    return seen;
  }
  Result<std::vector<Answer>> answers = read_report(outcome.out.kept, probe.tries.size());
  if (!answers.ok()) {
    seen.problem = answers.error().text();
  } else if (outcome.verdict == runtime::Verdict::exited && (outcome.exit_code != 0 || outcome.out.kept.empty())) {
    seen.problem = "the program inside failed: " + printable(trim(outcome.stderr_tail));
  } else {
    seen.answers = answers.take();
  }
  return seen;
}

}  // namespace sbx::selftest
