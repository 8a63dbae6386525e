// The report that comes out of a sandbox is hostile text; what the answers mean is a pure function.
#include <doctest/doctest.h>

#include <cerrno>
#include <csignal>
#include <set>
#include <string>

#include "selftest/answer.h"
#include "selftest/bait.h"
#include "selftest/probe.h"
#include "selftest/selftest.h"

using namespace sbx;
using namespace sbx::selftest;
using Kind = Answer::Kind;

namespace {

const Probe& probe_named(const char* name) {
  const Probe* probe = find_probe(name);
  REQUIRE(probe != nullptr);
  return *probe;
}

Seen seen_in_ours(std::vector<Answer> answers, std::set<std::string> denied = {}) {
  Seen seen;
  seen.ours = true;
  seen.answers = std::move(answers);
  seen.denied = std::move(denied);
  return seen;
}

ControlSeen control_of(ControlState state, std::vector<Answer> answers = {}) { return {state, "without it", std::move(answers)}; }

}  // namespace

TEST_CASE("a report is read back as it was written") {
  const std::vector<Answer> answers = {{Kind::worked, 0}, {Kind::refused, EPERM}, {Kind::hidden, 0}, {Kind::signaled, SIGSYS}, {Kind::untried, 0}};
  std::string text = report_head();
  for (size_t i = 0; i < answers.size(); ++i) text += report_line(i, answers[i]);
  text += report_end();
  CHECK(read_report(text, answers.size()).value() == answers);
}

TEST_CASE("a report that breaks off has silent tries, one that never came has only those") {
  CHECK(read_report("", 2).value() == std::vector<Answer>(2));
  const std::vector<Answer> begun = read_report(report_head() + report_line(0, {Kind::refused, EACCES}), 2).value();
  CHECK(begun[0] == Answer{Kind::refused, EACCES});
  CHECK(begun[1].kind == Kind::silent);
}

TEST_CASE("anything but a report is refused") {
  const std::string head = report_head();
  for (const std::string& text : {
           std::string("hello\n"), head + "0 worked", head + "0 worked\n0 worked\nend\n", head + "1 worked\n", head + "0 refused 1\nend\nmore\n",
           head + "0 refused 0\n", head + "0 refused 4096\n", head + "0 refused -1\n", head + "0 refused 01\n", head + "0 refused\n",
           head + "0 worked 1\n", head + " 0 worked\n", head + "0 worked \n", head + "0  worked\n", head + "0 WORKED\n", head + "0 signal 65\n",
           head + "0 silent\n", head + "end\n", head + "0 worked\nend\nend\n", head + "0 worked\n1 worked\nend\n", head + std::string("0 worked\0\n", 10),
           head + "0 refused 99999999999999999999\n", "\n" + head, head + "\n", head + std::string(kReportLimit, 'x') + "\n"}) {
    CAPTURE(text);
    CHECK_FALSE(read_report(text, 1).ok());
  }
}

TEST_CASE("what a try returns: worked, an errno, or one of the two words of its own") {
  CHECK(answer_of(0) == Answer{Kind::worked, 0});
  CHECK(answer_of(7) == Answer{Kind::worked, 0});
  CHECK(answer_of(-EPERM) == Answer{Kind::refused, EPERM});
  CHECK(answer_of(kHidden) == Answer{Kind::hidden, 0});
  CHECK(answer_of(kUntried) == Answer{Kind::untried, 0});
  CHECK(answer_of(-5000).kind == Kind::untried);
}

TEST_CASE("the bait's word is read back, and other words are refused") {
  Bait bait;
  bait.token = "0123456789ab";
  bait.directory = "/tmp/a b";
  bait.home = "/home/x";
  bait.home_identity = "1:2";
  bait.port = 80;
  bait.key = 5;
  bait.pid = 77;
  bait.init = 0;
  bait.proc = "/hostproc";
  CHECK(bait_word(read_bait(bait_word(bait)).value()) == bait_word(bait));
  for (const char* word : {"", "x", "a\tb\tc\td\te\tf\tg\th\ti", "a\t-1\t0\t0\t0\tf\tg\th\ti", "a\t0\t0\t0\t0\tf\tg\th", "a\t99999999999\t0\t0\t0\tf\tg\th\ti"}) {
    CHECK_FALSE(read_bait(word).ok());
  }
}

TEST_CASE("every probe says what it is, why it is harmless, and how it could be shown to work") {
  std::set<std::string> names;
  for (const Probe& probe : probes()) {
    CAPTURE(std::string(probe.name));
    CHECK(names.insert(probe.name).second);
    CHECK_FALSE(probe.tries.empty());
    CHECK_FALSE(std::string(probe.attack).empty());
    CHECK_FALSE(std::string(probe.blocked_by).empty());
    CHECK_FALSE(std::string(probe.harmless).empty());
    CHECK(probe.controls.empty() == !std::string(probe.no_control).empty());
    for (const Control& control : probe.controls) CHECK((control.ask != nullptr || control.weaken != nullptr));
    // What is set up to be low is for our own sandbox.
    if (probe.setup != nullptr) CHECK(probe.safety == Safety::sandbox_only);
  }
}

TEST_CASE("one try that works makes the whole attack open, a refusal beside it does not help") {
  const Probe& probe = probe_named("keyrings");
  const Judgement judgement = judge(probe, seen_in_ours({{Kind::refused, EPERM}, {Kind::worked, 0}, {Kind::refused, EPERM}}, {"keyctl"}), control_of(ControlState::opens));
  CHECK(judgement.verdict == ProbeVerdict::open);
  CHECK(judgement.by == "add_key");
}

TEST_CASE("an errno that only a kernel that was reached gives is open") {
  const Judgement judgement = judge(probe_named("keyrings"), seen_in_ours({{Kind::refused, EPERM}, {Kind::refused, EPERM}, {Kind::refused, ENOKEY}}), control_of(ControlState::opens));
  CHECK(judgement.verdict == ProbeVerdict::open);
  CHECK(judgement.by == "request_key");
}

TEST_CASE("what blocked it is what the filter reported, what a mount answers, what is not there") {
  const Probe& calls = probe_named("keyrings");
  CHECK(judge(calls, seen_in_ours(std::vector<Answer>(3, {Kind::refused, EPERM}), {"keyctl", "add_key", "request_key"}), control_of(ControlState::opens)).by == "filter, EPERM");
  // Refused, and the filter knows nothing of it: something else did it.
  CHECK(judge(calls, seen_in_ours(std::vector<Answer>(3, {Kind::refused, EPERM})), control_of(ControlState::opens)).by == "capability, EPERM");
  const Probe& files = probe_named("host-files");
  CHECK(judge(files, seen_in_ours({{Kind::hidden, 0}, {Kind::refused, EROFS}, {Kind::refused, EROFS}}), control_of(ControlState::opens)).by == "view of files; read-only mount");
}

TEST_CASE("a control that is refused as well takes the proof away, unless the filter spoke") {
  const Probe& probe = probe_named("io-uring");
  const Judgement judgement = judge(probe, seen_in_ours({{Kind::refused, ENOSYS}}), control_of(ControlState::refused, {{Kind::refused, ENOSYS}}));
  CHECK(judgement.verdict == ProbeVerdict::not_applicable);
  CHECK(judgement.why.find("ENOSYS") != std::string::npos);
  const Probe& killed = probe_named("x32");
  CHECK(judge(killed, seen_in_ours({{Kind::signaled, SIGSYS}}), control_of(ControlState::refused, {{Kind::refused, ENOSYS}})).verdict == ProbeVerdict::blocked);
}

TEST_CASE("nothing heard, nothing understood: failed, which is not blocked") {
  Seen seen;
  seen.problem = "the report of the probe is not understood";
  CHECK(judge(probe_named("keyrings"), seen, control_of(ControlState::opens)).verdict == ProbeVerdict::failed);
  // Silence has to have a cause that the kernel told us.
  const Probe& memory = probe_named("memory");
  Seen silent = seen_in_ours({{Kind::silent, 0}});
  CHECK(judge(memory, silent, control_of(ControlState::not_run)).verdict == ProbeVerdict::failed);
  silent.verdict = runtime::Verdict::out_of_memory;
  CHECK(judge(memory, silent, control_of(ControlState::not_run)).by == "limit of memory");
}

TEST_CASE("a control opens when one try works or reaches the kernel") {
  const Probe& probe = probe_named("keyrings");
  CHECK(judge_control(probe, seen_in_ours(std::vector<Answer>(3, {Kind::refused, EPERM}))) == ControlState::refused);
  CHECK(judge_control(probe, seen_in_ours({{Kind::refused, EPERM}, {Kind::refused, EPERM}, {Kind::refused, ENOKEY}})) == ControlState::opens);
  Seen failed;
  failed.problem = "it could not be set up";
  CHECK(judge_control(probe, failed) == ControlState::failed);
}
