// sbx run, sbx exec: the command line to a RunRequest, its Report to a status, words and a result file.
#include <signal.h>
#include <unistd.h>

#include <optional>

#include "base/heap.h"
#include "base/sys.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/result_file.h"
#include "cli/run_options.h"
#include "runtime/request.h"
#include "session/driver.h"
#include "session/evaluation.h"

namespace sbx::cli {
namespace {

constexpr char kRunUsage[] =
    "usage: sbx run [OPTIONS] [FILE] [ARGS...]\n"
    "       sbx run [OPTIONS] -c CODE [-- ARGS...]\n"
    "       ... | sbx run --lang LANG [OPTIONS] [- | --] [ARGS...]";
constexpr char kRunAbout[] =
    "Runs a program that nobody should trust, in a sandbox of its own: no network, nothing of your\n"
    "home, limits on everything. Options end at FILE; what follows is the program's.\n"
    "Status: the program's own; 124 time, 137 memory or output, 159 forbidden system call,\n"
    "128+N signal N, 125 no sandbox, 126 and 127 not executable and not found, 2 wrong usage.";
constexpr char kExecUsage[] = "usage: sbx exec [OPTIONS] [--] CMD [ARGS...]";
constexpr char kExecAbout[] =
    "Runs any command in the sandbox that `sbx run` uses. Options end at CMD or at --.\n"
    "Status: the command's own; 124 time, 137 memory or output, 159 forbidden system call,\n"
    "128+N signal N, 125 no sandbox, 126 and 127 not executable and not found, 2 wrong usage.";

// The result goes out whatever happened; a result that cannot be written makes a good run a bad one.
int deliver(const std::string& json, const FrontOptions& front, std::optional<ResultFile>& file, int status) {
  if (front.json && !print(json)) {
    say("the result cannot be written to stdout");
    if (status == 0) status = 1;
  }
  if (file.has_value()) {
    if (Status written = file->write(json); !written.ok()) {
      say_error(written.error());
      if (status == 0) status = 1;
    }
  }
  return status;
}

int fail(const Error& error, const FrontOptions& front, std::optional<ResultFile>& file) {
  say_error(error);
  const int status = exit_code_for(error.kind());
  if (!front.json && !file.has_value()) return status;
  return deliver(runtime::error_json(error, status), front, file, status);
}

// A payload's last line without its end would swallow ours at a terminal.
void end_open_line(const runtime::Outcome& outcome) {
  const std::string& tail = outcome.stderr_tail;
  if (!tail.empty() && tail.back() != '\n' && ::isatty(STDERR_FILENO) == 1) {
    (void)sys::write_all(STDERR_FILENO, "\n");
  }
}

void tell(const runtime::Report& report, const runtime::RunRequest& request, const FrontOptions& front) {
  const runtime::Outcome& outcome = report.outcome;
  if (outcome.setup_error.has_value()) {
    say_error(*outcome.setup_error);
  } else if (outcome.verdict == runtime::Verdict::setup_failed) {
    say("the sandbox could not be set up");
  }
  for (const runtime::StreamResult* stream : {&outcome.out, &outcome.err}) {
    if (stream->forward_error.has_value()) say_error(*stream->forward_error);
  }
  if (!front.quiet) {
    if (!report.hints.empty()) end_open_line(outcome);
    for (const std::string& hint : report.hints) say(hint);
  }
  // No hints: what became of the caller's files, or is missing from what was asked for.
  for (const std::string& line : report.artifact_notes) say(line);
  if (!request.artifacts_directory.empty()) {
    for (const std::string& line : report.artifacts.dropped) say(line);
    for (const std::string& line : report.plots.dropped) say(line);
  }
}

// The result, with the values that the program told of; "" where nobody wants it.
std::string deliver_values(runtime::Report& report, const std::string& token, const FrontOptions& front) {
  runtime::StreamResult& out = report.outcome.out;
  runtime::StreamResult& err = report.outcome.err;
  const size_t before[] = {out.kept.size(), err.kept.size()};
  const session::Evaluation evaluation = session::read_evaluation(report.said, token, front.json ? &out.kept : nullptr, front.json ? &err.kept : nullptr);
  out.total_bytes -= front.json ? before[0] - out.kept.size() : 0;
  err.total_bytes -= front.json ? before[1] - err.kept.size() : 0;
  if (!evaluation.problem.empty()) say("what the program said of its values is not believed: " + evaluation.problem);
  if (!front.json && front.result_file.empty()) return "";
  session::Json more = session::Json::object();
  more.set("outputs_dropped", evaluation.dropped);
  return session::with_outputs(runtime::result_json(report, front.json), more, evaluation.outputs);
}

Result<Page> page(bool exec) {
  runtime::RunRequest unused;
  FrontOptions ignored;
  return Page{exec ? kExecUsage : kRunUsage, exec ? kExecAbout : kRunAbout, SBX_TRY(run_options(exec, true, unused, ignored)),
              run_examples(exec), exec ? ValueKind::command : ValueKind::file};
}

int run_or_exec(bool exec, const Invocation& invocation) {
  runtime::RunRequest request;
  FrontOptions front;
  std::optional<ResultFile> file;
  // A limit of the caller's on file sizes is an error in words for the result too, not our death in the middle of it. The
  // payload's own disposition is set in the child.
  ::signal(SIGXFSZ, SIG_IGN);
  Status parsed = parse_run(exec, invocation.arguments(), request, front);
  if (front.help) return show_help(exec ? exec_page : run_page);
  if (!front.result_file.empty()) {
    Result<ResultFile> prepared = ResultFile::prepare(front.result_file);
    if (!prepared.ok()) return fail(parsed.ok() ? prepared.error() : parsed.error(), front, file);
    file = prepared.take();
    request.result_directory = file->directory();
  }
  if (!parsed.ok()) {
    if (!parsed.error().hint().empty()) return fail(parsed.error(), front, file);
    return fail(parsed.take_error().with_hint(exec ? "sbx exec --help lists the options"
                                                   : "sbx run --help lists the options"),
                front, file);
  }
  std::string token;
  if (front.eval) {
    Result<std::string> made = session::make_token();
    if (!made.ok()) return fail(made.error(), front, file);
    token = made.take();
    request.evaluator = [&](const std::string& language) { return session::evaluator_of(language, token, front.json ? "marks" : "text"); };
  }
  request.invocation = invocation.words;
  request.invocation_insert += 2;

  runtime::Observer observer;
  if (request.verbosity > 0) observer.note = say;
  if (request.verbosity > 1) observer.call = [](const std::string& call) { say("call: " + call); };
  if (!front.quiet && request.verbosity == 0 && can_show_progress()) observer.progress = show_progress;
  observer.ending = leave_heap_to_kernel;
  Result<runtime::Report> result = runtime::execute(request, runtime::probe_host(), observer);
  if (!result.ok()) return fail(result.error(), front, file);
  runtime::Report& report = result.value();
  const int status = report.exit_status;
  const std::string with_values = front.eval ? deliver_values(report, token, front) : "";
  tell(report, request, front);
  if (!front.json && !file.has_value()) return status;
  return deliver(front.eval ? with_values : runtime::result_json(report, front.json), front, file, status);
}

}  // namespace

Result<Page> run_page() { return page(false); }
Result<Page> exec_page() { return page(true); }
int run_command(const Invocation& invocation) { return run_or_exec(false, invocation); }
int exec_command(const Invocation& invocation) { return run_or_exec(true, invocation); }

}  // namespace sbx::cli
