#include "runtime/hints.h"

#include <doctest/doctest.h>

using namespace sbx;
using namespace sbx::runtime;

namespace {

struct Case {
  RunRequest request;
  Report report;
  RunnerSpec runner;
  std::vector<std::string> siblings;
  NetMode net = NetMode::none;

  Case() {
    request.program = {ProgramSource::Kind::file, "main.py"};
    request.invocation = {"sbx", "run", "main.py"};
    request.invocation_insert = 2;
    report.exit_status = 1;
    report.outcome.verdict = Verdict::exited;
    report.outcome.exit_code = 1;
    report.limits.memory = Bytes{uint64_t{1} << 30};
    report.limits.disk = Bytes{uint64_t{384} << 20};
    report.limits.wall = Millis{60000};
    runner.hints = {{"MemoryError", "it ran out"}};
  }
  std::vector<std::string> hints() const {
    HintContext context;
    context.request = &request;
    context.report = &report;
    context.runner = &runner;
    context.net = net;
    context.source_directory = "/home/someone/x";
    context.source_directory_shown = ".";
    context.siblings = siblings;
    return make_hints(context);
  }
};

}  // namespace

TEST_CASE("a run that went well gets no hint, whatever its output says") {
  Case good;
  good.report.exit_status = 0;
  good.report.outcome.stderr_tail = "MemoryError";
  good.report.outcome.limits_hit = {{"pids", "256", "default policy", "rlimit", 3}};
  CHECK(good.hints().empty());
}

TEST_CASE("a limit that fired is named with its value, its origin and a command that raises it") {
  Case slow;
  slow.report.exit_status = 124;
  slow.report.outcome.verdict = Verdict::timed_out;
  slow.report.outcome.limits_hit = {{"wall", "60s", "default policy", "timer", 1}};
  CHECK(slow.hints() == std::vector<std::string>{
                            "the program took longer than the wall time limit 60s (default policy); raise it: "
                            "sbx run --time " +
                            std::string("2m main.py")});
}

TEST_CASE("a raised flag takes the place of the one that stands in the command") {
  Case small;
  small.request.invocation = {"sbx", "run", "--memory", "64M", "-q", "-w", "x", "main.py", "--memory", "a b"};
  small.request.invocation_insert = 7;
  const std::vector<std::string> memory = {"--memory", "128M"};
  CHECK(command_with(small.request, memory) == "sbx run -q -w x --memory 128M main.py --memory 'a b'");
  const std::vector<std::string> workspace = {"--workspace", "x:rw"};
  CHECK(command_with(small.request, workspace) == "sbx run --memory 64M -q --workspace x:rw main.py --memory 'a b'");
  small.request.invocation[2] = "--memory=64M";
  small.request.invocation.erase(small.request.invocation.begin() + 3);
  small.request.invocation_insert = 6;
  CHECK(command_with(small.request, memory) == "sbx run -q -w x --memory 128M main.py --memory 'a b'");
}

TEST_CASE("a limit that shows only as an errno is judged by the message") {
  Case large;
  large.report.limits.file_size = Bytes{uint64_t{256} << 20};
  large.report.outcome.stderr_tail = "OSError: [Errno 27] File too large";
  REQUIRE(large.hints().size() == 1);
  CHECK(large.hints()[0].ends_with("raise it: sbx run --file-size 512M main.py"));
  large.report.limits.file_size = Bytes{10};
  CHECK(large.hints()[0].ends_with("raise it: sbx run --file-size 20 main.py"));  // not '20 bytes', which no flag reads
}

TEST_CASE("a command that cannot be pasted is not shown, the flags are") {
  Case piped;
  piped.request.program = {ProgramSource::Kind::standard_input, ""};
  piped.report.outcome.verdict = Verdict::out_of_memory;
  piped.report.outcome.limits_hit = {{"memory", "1G", "default policy", "sampling", 1}};
  CHECK(piped.hints() ==
        std::vector<std::string>{
            "the program ran out of memory: the limit is 1G (default policy); raise it: add --memory 2G"});
  Case lines;
  lines.request.program = {ProgramSource::Kind::text, "a\nb"};
  lines.request.invocation = {"sbx", "run", "-c", "a\nb"};
  lines.request.invocation_insert = 4;
  CHECK(command_with(lines.request, {}) == "");
}

TEST_CASE("a raised disk limit stays below memory") {
  Case full;
  full.report.limits.memory = Bytes{uint64_t{512} << 20};
  full.report.outcome.limits_hit = {{"disk", "384M", "default policy", "tmpfs", 1}};
  REQUIRE(full.hints().size() == 1);
  CHECK(full.hints()[0].ends_with("raise it: sbx run --disk 768M --memory 1536M main.py"));
}

TEST_CASE("a sibling that was not shared is found in complaints of several languages") {
  const std::vector<std::string> siblings = {"data.csv", "file.txt", "helper.py", "lib.sh", "util"};
  CHECK(missing_sibling("ModuleNotFoundError: No module named 'helper'", siblings) == "helper.py");
  CHECK(missing_sibling("ModuleNotFoundError: No module named 'util.text'", siblings) == "util");
  CHECK(missing_sibling("Error: Cannot find module './helper'", siblings) == "helper.py");
  CHECK(missing_sibling("/box/x.sh: line 1: ./lib.sh: No such file or directory", siblings) == "lib.sh");
  CHECK(missing_sibling("[Errno 2] No such file or directory: 'data.csv'", siblings) == "data.csv");
  CHECK(missing_sibling("cannot open /box/data.csv: ENOENT", siblings) == "data.csv");
}

TEST_CASE("no sibling is guessed from the words of a message") {
  const std::vector<std::string> siblings = {"data.csv", "directory", "file.txt", "helper.py"};
  CHECK(missing_sibling("x: No such file or directory", siblings) == "");
  CHECK(missing_sibling("helper.py is fine", siblings) == "");
  CHECK(missing_sibling("ModuleNotFoundError: No module named 'numpy'", siblings) == "");
  CHECK(missing_sibling("", siblings) == "");
  CHECK(missing_sibling("No module named 'helper'", {}) == "");
}

TEST_CASE("hints from the payload's text say so, and sibling, network and runner come in this order") {
  Case text;
  text.siblings = {"helper.py"};
  text.report.outcome.stderr_tail = "No module named 'helper'\nMemoryError\n";
  CHECK(text.hints() == std::vector<std::string>{"'helper.py' stands beside the program but was not shared; share the "
                                                 "directory: sbx run --workspace . main.py"});
  text.report.outcome.stderr_tail = "Temporary failure in name resolution";
  REQUIRE(text.hints().size() == 1);
  CHECK(text.hints()[0].starts_with("judging by the program's own message, "));
  CHECK(text.hints()[0].ends_with("sbx run --net host main.py"));
  text.net = NetMode::host;
  CHECK(text.hints().empty());
  text.report.outcome.stderr_tail = "MemoryError";
  CHECK(text.hints() == std::vector<std::string>{"judging by the program's own message, it ran out"});
}

TEST_CASE("a failed compile step is judged by its own limits and output") {
  Case compile;
  compile.report.outcome.verdict = Verdict::compile_failed;
  compile.report.outcome.stderr_tail = "MemoryError";
  compile.report.compile = CompileReport{};
  compile.report.compile->limits.memory = Bytes{uint64_t{2} << 30};
  compile.report.compile->outcome.limits_hit = {{"memory", "2G", "default policy", "sampling", 1}};
  CHECK(compile.hints() == std::vector<std::string>{"the compiler ran out of memory: the limit is 2G (default policy); "
                                                    "raise it: sbx run --compile-memory 4G main.py"});
}

TEST_CASE("a set-up failure gets no hint of a run that never was") {
  Case failed;
  failed.report.outcome.verdict = Verdict::setup_failed;
  failed.report.outcome.limits_hit = {{"memory", "1G", "", "", 1}};
  CHECK(failed.hints().empty());
}

TEST_CASE("refused system calls of a failed run are named, one line each, the most tried first") {
  Case denied;
  for (int number = 1; number <= 8; ++number) {
    Denial denial;
    denial.call = "call" + std::to_string(number);
    denial.text = denial.call + "()";
    denial.process = number == 7 ? "" : "a\x1b[1m";
    denial.pid = number == 7 ? 0 : 2;
    denial.count = number == 8 ? 3 : 1;
    denial.rule = "rule \"debug\" of policy default";
    denial.remedy = "allow it with --allow-syscall " + denial.call;
    denied.report.outcome.denials.push_back(denial);
  }
  const std::vector<std::string> hints = denied.hints();
  REQUIRE(hints.size() == 7);
  CHECK(hints[0] == "denied: call8() by a\\x1b[1m (pid 2), 3 times, rule \"debug\" of policy default; allow it with --allow-syscall call8");
  CHECK(hints[1] == "denied: call1() by a\\x1b[1m (pid 2), rule \"debug\" of policy default; allow it with --allow-syscall call1");
  CHECK(hints[6] == "denied: 2 more different calls, which --result FILE lists");
  denied.report.outcome.denials.erase(denied.report.outcome.denials.begin(), denied.report.outcome.denials.begin() + 6);
  CHECK(denied.hints()[1].find("denied: call7() by a process that is gone, rule") == 0);
  denied.report.exit_status = 0;
  CHECK(denied.hints().empty());
}
