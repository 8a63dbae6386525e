// sbx session start: the command line to a supervisor of its own process, which outlives us.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/sys.h"
#include "base/text.h"
#include "cli/cmd_session.h"
#include "cli/output.h"
#include "cli/run_options.h"
#include "runtime/request.h"
#include "runtime/session_ground.h"
#include "session/driver.h"
#include "session/host.h"
#include "session/place.h"

namespace sbx::cli {
namespace {

constexpr char kUsage[] = "usage: sbx session start [OPTIONS]";
constexpr char kAbout[] =
    "Starts a sandbox that stays, and prints its id. Python and bash keep variables, imports, functions and the\n"
    "working directory from cell to cell; of other languages files are kept, and each cell is a program of its own.\n"
    "It survives this shell. It ends when it is stopped, when its time to live or its time without use is over, and\n"
    "with its supervisor, a process of your own: there is no daemon. --time is the time of one cell.";
constexpr char kSession[] = "Session";
constexpr Millis kTtl{int64_t{12} * 3600 * 1000};
constexpr Millis kIdle{int64_t{3600} * 1000};

struct StartOptions {
  session::HostOptions host{.name = "", .ttl = kTtl, .idle = kIdle, .now_ms = {}};
  std::string ttl, idle;
  bool json = false;
};

Status take_time(const char* flag, const std::string& value, std::optional<Millis>& into) {
  if (value == "none") {
    into.reset();
    return {};
  }
  Result<Millis> time = parse_duration(value);
  if (!time.ok()) return time.take_error().with_origin(flag).with_hint("for instance 30m, 2h or none");
  into = time.value();
  return {};
}

Result<std::vector<Option>> options(bool with_defaults, runtime::RunRequest& request, FrontOptions& front, StartOptions& start) {
  std::vector<Option> all = SBX_TRY(run_options(false, with_defaults, request, front));
  // What belongs to one program, or to its streams.
  std::erase_if(all, [](const Option& option) {
    for (const char* name : {"", "stdin", "artifacts", "no-plots", "no-build-cache", "result", "json", "tty"}) {
      if (option.name == name) return true;
    }
    return false;
  });
  for (Option& option : all) {
    if (option.name == "lang") {
      option.doc = "language of its cells; a name that sbx langs lists";
      option.standard = "python";
    } else if (option.name == "file") {
      option.doc = "copy a file into the working directory; repeatable";
    }
  }
  std::vector<Option> own;
  const auto add = [&](char letter, const char* name, const char* metavar, const char* doc, const char* standard, std::function<Status(const std::string&)> take) {
    own.push_back(Option{kSession, letter, name, metavar, doc, standard, std::move(take)});
  };
  add('n', "name", "NAME", "a name to use instead of the id", "", [&](const std::string& value) -> Status {
    SBX_TRY(session::SessionPlace::check_name(value));
    start.host.name = value;
    return {};
  });
  add(0, "ttl", "TIME", "its time to live; none: no end", "12h", [&](const std::string& value) { return take_time("flag --ttl", value, start.host.ttl); });
  add(0, "idle", "TIME", "end after that time without use; none: never", "1h", [&](const std::string& value) { return take_time("flag --idle", value, start.host.idle); });
  own.push_back(flag_option(kSession, 0, "json", "print id, name and language as JSON", start.json));
  own.insert(own.end(), std::make_move_iterator(all.begin()), std::make_move_iterator(all.end()));
  return own;
}

// ---- the supervisor's process -----------------------------------------------------------------------------------------

// What it tells the command that started it: a status, and the text for stdout.
void tell(int fd, int status, const std::string& text) {
  (void)sys::write_all(fd, std::string(1, static_cast<char>(status)) + text);
  ::close(fd);
}

// Nothing of the caller's but what the command line names: no descriptor, no terminal, no session.
Result<int> detach(int report) {
  constexpr int kReport = 3;
  const UniqueFd null = SBX_TRY(sys::open("/dev/null", O_RDWR));
  if (::dup2(null.get(), STDIN_FILENO) < 0 || ::dup2(null.get(), STDOUT_FILENO) < 0) return Error::from_errno(errno, "leave the terminal");
  if (report != kReport && ::dup3(report, kReport, O_CLOEXEC) < 0) return Error::from_errno(errno, "leave the terminal");
  if (::syscall(SYS_close_range, kReport + 1, ~0U, 0) != 0) return Error::from_errno(errno, "close what was inherited");
  (void)::prctl(PR_SET_NAME, "sbx-session", 0, 0, 0);
  return kReport;
}

Status supervise(runtime::RunRequest& request, const StartOptions& start, const FrontOptions& front, int report) {
  const HostFacts facts = runtime::probe_host();
  runtime::Observer observer;
  if (request.verbosity > 0) observer.note = say;
  if (!front.quiet && request.verbosity == 0 && can_show_progress()) observer.progress = show_progress;
  session::HostOptions host = start.host;
  host.changes = !request.workspace.has_value() || request.workspace->mode != runtime::WorkspaceMode::read_only;
  const session::SessionPlace place = SBX_TRY(session::SessionPlace::open());
  const std::unique_ptr<runtime::SessionGround> ground = SBX_TRY(runtime::prepare_session(std::move(request), facts, observer, session::driver_of));
  for (const std::string& note : ground->notes()) say(note);
  if (!ground->has_driver() && !front.quiet) {
    say(ground->language() + " keeps files only: each cell is a program of its own (" + join(session::languages_with_driver(), " and ") + " keep their state)");
  }
  return session::host_session(*ground, facts, place, host, [&](const session::SessionRecord& record) {
    // From here on nobody listens; and no directory of the host is held.
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (null.valid()) ::dup2(null.get(), STDERR_FILENO);
    if (::chdir("/") != 0) {
      // It stays where it was, which only keeps a file system busy.
    }
    std::string text = record.id + "\n";
    if (start.json) {
      text = session::Json::object().set("id", record.id).set("name", record.name.empty() ? session::Json() : session::Json(record.name))
                 .set("language", record.language).set("keeps_state", ground->has_driver()).set("supervisor_pid", static_cast<int64_t>(record.pid)).dump(2) + "\n";
    }
    tell(report, 0, text);
  });
}

[[noreturn]] void be_supervisor(runtime::RunRequest& request, const StartOptions& start, const FrontOptions& front, int pipe) {
  const Result<int> report = detach(pipe);
  int status = exit_code_for(ErrorKind::system);
  if (!report.ok()) {
    say_error(report.error());
  } else {
    const Status ended = supervise(request, start, front, report.value());
    if (!ended.ok()) {
      say_error(ended.error());
      status = exit_code_for(ended.error().kind());
      tell(report.value(), status, "");
    }
  }
  ::_exit(0);
}

}  // namespace

Result<Page> session_start_page() {
  runtime::RunRequest unused;
  FrontOptions ignored;
  StartOptions start;
  return Page{kUsage, kAbout, SBX_TRY(options(true, unused, ignored, start)),
              {{kSession, "sbx session start --lang python --name work --ttl 2h"},
               {"Program", "sbx session start --venv .venv"},
               {"Files", "sbx session start --workspace .:overlay"},
               {"Limits", "sbx session start --memory 4G --time 5m --idle none"},
               {"Environment and network", "sbx session start --net host --env LANG"},
               {"Policy", "sbx session start --policy strict"},
               {"Output and terminal", "sbx session start -v"}}};
}

int session_start_command(const Invocation& invocation) {
  runtime::RunRequest request;
  FrontOptions front;
  StartOptions start;
  Result<std::vector<Option>> table = options(false, request, front, start);
  if (!table.ok()) return fail_usage("session start", table.error());
  Result<std::vector<std::string>> rest = parse_options_anywhere(table.value(), invocation.arguments(3));
  if (!rest.ok()) return fail_usage("session start", rest.error());
  if (front.help) return show_help(session_start_page);
  if (!rest.value().empty()) {
    return fail_usage("session start", Error(ErrorKind::usage, "sbx session start takes no argument '" + printable(rest.value()[0]) + "'")
                                           .with_hint("programs follow: sbx session run ID " + shell_quote(rest.value()[0])));
  }
  if (request.language.empty()) request.language = "python";
  request.tty = runtime::TtyMode::never;

  Result<sys::Pipe> pipe = sys::pipe();
  if (!pipe.ok()) return fail_usage("session start", pipe.error());
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    const pid_t supervisor = ::fork();  // no session leader: it never gets a terminal again
    if (supervisor == 0) be_supervisor(request, start, front, pipe.value().write.get());
    ::_exit(supervisor < 0 ? 1 : 0);
  }
  pipe.value().write.reset();
  int ended = 0;
  if (child < 0 || ::waitpid(child, &ended, 0) < 0 || ended != 0) {
    return fail_usage("session start", Error(ErrorKind::resource, "no process could be made for the session"));
  }
  const Result<std::string> answer = sys::read_all(pipe.value().read.get(), 65536);
  if (!answer.ok() || answer.value().empty()) {
    say("the session's supervisor died while it started");
    return exit_code_for(ErrorKind::system);
  }
  if (answer.value()[0] != 0) return static_cast<unsigned char>(answer.value()[0]);
  return print_or_fail(answer.value().substr(1));
}

}  // namespace sbx::cli
