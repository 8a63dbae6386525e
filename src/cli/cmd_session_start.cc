// sbx session start and warm: the command line to a supervisor of its own process, which outlives us.
//
// Warm sessions are whole sandboxes started ahead. What one is good for is a digest over its resolved spec, interpreter and
// all: a start that comes to the same spec takes it, once, and puts another in its place. Nothing of the host is shared
// with one for writing, nor looked at before its time: a start with a workspace, mounts or files never takes one.
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
#include "cli/session_client.h"
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
constexpr char kWarmUsage[] = "usage: sbx session warm [OPTIONS]";
constexpr char kWarmAbout[] =
    "Starts sessions ahead. A later `sbx session start` with the same options takes one at once, and another is started in its\n"
    "place. Each is used once and by you only, and nothing of the host is shared with it: starts with a workspace, mounts or\n"
    "files do not take one. `sbx session ls` shows them; --count 0 ends those that wait for these options.";
constexpr char kSession[] = "Session";
constexpr Millis kTtl{int64_t{12} * 3600 * 1000};
constexpr Millis kIdle{int64_t{3600} * 1000};

constexpr size_t kMaxWarm = 16;

struct StartOptions {
  std::string preload, ipython;
  size_t count = 1;  // of warm ones
  session::HostOptions host{.name = "", .ttl = kTtl, .idle = kIdle, .now_ms = {}};
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

Result<std::vector<Option>> options(bool warm, bool with_defaults, runtime::RunRequest& request, FrontOptions& front, StartOptions& start) {
  std::vector<Option> all = SBX_TRY(run_options(false, with_defaults, request, front));
  // What belongs to one program, or to its streams.
  std::erase_if(all, [warm](const Option& option) {
    if (warm) {
      for (const char* name : {"workspace", "mount", "file", "allow-sensitive-mount", "allow-sensitive-write"}) {
        if (option.name == name) return true;
      }
    }
    for (const char* name : {"", "eval", "stdin", "artifacts", "no-plots", "no-build-cache", "result", "json", "tty"}) {
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
  if (!warm) {
    add('n', "name", "NAME", "a name to use instead of the id", "", [&](const std::string& value) -> Status {
      SBX_TRY(session::SessionPlace::check_name(value));
      start.host.name = value;
      return {};
    });
    add(0, "ttl", "TIME", "its time to live; none: no end", "12h", [&](const std::string& value) { return take_time("flag --ttl", value, start.host.ttl); });
    add(0, "idle", "TIME", "end after that time without use; none: never", "1h", [&](const std::string& value) { return take_time("flag --idle", value, start.host.idle); });
  } else {
    add(0, "count", "N", "how many wait at a time; 0: none any more", "1", [&](const std::string& value) -> Status {
      Result<uint64_t> count = parse_integer(value);
      if (!count.ok() || count.value() > kMaxWarm) return Error(ErrorKind::usage, quoted(value) + " is no number from 0 to " + std::to_string(kMaxWarm)).with_origin("flag --count");
      start.count = static_cast<size_t>(count.value());
      return {};
    });
    add(0, "ttl", "TIME", "how long one waits; none: no end", "12h", [&](const std::string& value) { return take_time("flag --ttl", value, start.host.ttl); });
  }
  add(0, "preload", "MODULES", "import these first, as in numpy,pandas; Python only", "", [&](const std::string& value) -> Status {
    const bool plain = std::all_of(value.begin(), value.end(), [](char c) { return c == ',' || c == '.' || c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
    if (value.empty() || !plain) return Error(ErrorKind::usage, quoted(value) + " is no list of modules").with_origin("flag --preload").with_hint("for instance --preload numpy,pandas");
    start.preload = value;
    return {};
  });
  add(0, "ipython", "WHEN", "use IPython's shell where it is installed: auto (when a cell asks for it), yes, no; Python only", "auto", [&](const std::string& value) -> Status {
    if (value != "auto" && value != "yes" && value != "no") {
      return Error(ErrorKind::usage, quoted(value) + " is not possible").with_origin("flag --ipython").with_hint("possible: auto, yes, no");
    }
    start.ipython = value;
    return {};
  });
  own.back().kind = ValueKind::choice;
  own.back().choices = {"auto", "yes", "no"};
  if (!warm) own.push_back(flag_option(kSession, 0, "json", "print id, name and language as JSON", start.json));
  own.insert(own.end(), std::make_move_iterator(all.begin()), std::make_move_iterator(all.end()));
  return own;
}

// ---- the supervisor's process -----------------------------------------------------------------------------------------

std::string described(const session::SessionRecord& record, const std::string& name, bool keeps_state) {
  return session::Json::object().set("id", record.id).set("name", name.empty() ? session::Json() : session::Json(name))
             .set("language", record.language).set("keeps_state", keeps_state).set("supervisor_pid", static_cast<int64_t>(record.pid)).dump(2) + "\n";
}

// What it tells the command that started it: a status, and where that is 0, the session's id and the text for stdout.
Status tell(int fd, int status, const std::string& words) {
  Status told = sys::write_all(fd, std::string(1, static_cast<char>(status)) + words);
  ::close(fd);
  return told;
}

// A session whose id nobody got to know would stay until its time is over: it ends.
int print_or_end(const std::string& text, const std::string& id) {
  const int status = print_or_fail(text);
  if (status != 0) {
    if (Result<SessionLink> link = open_session(id); link.ok()) (void)ask_session(link.value().connection, session::Json::object().set("op", "stop"));
  }
  return status;
}

constexpr int kReport = 3, kAnnounced = 4;

// Nothing of the caller's but what the command line names: no descriptor, no terminal, no session. What is left: `report` as
// kReport, and `announced` (-1: none) as kAnnounced.
Status detach(int report, int announced) {
  const UniqueFd null = SBX_TRY(sys::open("/dev/null", O_RDWR));
  if (::dup2(null.get(), STDIN_FILENO) < 0 || ::dup2(null.get(), STDOUT_FILENO) < 0) return Error::from_errno(errno, "leave the terminal");
  int last = kReport;
  const UniqueFd kept(announced < 0 ? -1 : ::fcntl(announced, F_DUPFD_CLOEXEC, kAnnounced + 1));
  if (report != kReport && ::dup3(report, kReport, O_CLOEXEC) < 0) return Error::from_errno(errno, "leave the terminal");
  if (announced >= 0 && (last = ::dup3(kept.get(), kAnnounced, O_CLOEXEC)) < 0) return Error::from_errno(errno, "leave the terminal");
  if (::syscall(SYS_close_range, last + 1, ~0U, 0) != 0) return Error::from_errno(errno, "close what was inherited");
  (void)::prctl(PR_SET_NAME, "sbx-session", 0, 0, 0);
  return {};
}

Result<std::unique_ptr<runtime::SessionGround>> prepare(runtime::RunRequest request, const HostFacts& facts, const runtime::Observer& observer, const StartOptions& start) {
  if (!start.preload.empty() && request.language != "python" && request.language != "py" && request.language != "python3") {
    return Error(ErrorKind::usage, "only Python's modules can be imported beforehand").with_origin("flag --preload").with_hint("leave it out");
  }
  if (!start.ipython.empty() && request.language != "python" && request.language != "py" && request.language != "python3") {
    return Error(ErrorKind::usage, "only Python has IPython").with_origin("flag --ipython").with_hint("leave it out");
  }
  return runtime::prepare_session(std::move(request), facts, observer, [&](const std::string& language) { return session::driver_of(language, start.preload, start.ipython); });
}

// What a warm session has to be like for this start; "": none will do.
std::string warm_key(const runtime::RunRequest& request, const runtime::SessionGround& ground) {
  if (request.workspace || !request.mounts.empty() || !request.files.empty() || !ground.has_driver()) return "";
  std::vector<std::string> required = request.require;
  std::sort(required.begin(), required.end());
  return ground.blank_report().policy_digest + " " + request.cgroup_parent + " " + join(required, ",");
}

Status supervise(runtime::RunRequest& request, const StartOptions& start, const FrontOptions& front, int report) {
  const HostFacts facts = runtime::probe_host();
  runtime::Observer observer;
  if (request.verbosity > 0) observer.note = say;
  if (!front.quiet && request.verbosity == 0 && can_show_progress()) observer.progress = show_progress;
  session::HostOptions host = start.host;
  host.changes = !request.workspace.has_value() || request.workspace->mode != runtime::WorkspaceMode::read_only;
  const session::SessionPlace place = SBX_TRY(session::SessionPlace::open());
  const runtime::RunRequest wanted = request;
  const std::unique_ptr<runtime::SessionGround> ground = SBX_TRY(prepare(std::move(request), facts, observer, start));
  if (!host.warm.empty() && host.warm != warm_key(wanted, *ground)) return Error(ErrorKind::system, "what was asked for has changed meanwhile");
  for (const std::string& note : ground->notes()) say(note);
  if (!ground->has_driver() && !front.quiet) {
    const std::string keepers = join(session::languages_with_driver(), " and ") + " keep their state";
    if (ground->cell_steps({}).ok()) say(ground->language() + " keeps files only: each cell is a program of its own (" + keepers + ")");
    else say(ground->language() + " keeps files only and has no cells: sbx session exec runs programs in it (" + keepers + ")");
  }
  return session::host_session(*ground, facts, place, host, [&](const session::SessionRecord& record) {
    // From here on nobody listens; and no directory of the host is held.
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (null.valid()) ::dup2(null.get(), STDERR_FILENO);
    if (::chdir("/") != 0) {
      // It stays where it was, which only keeps a file system busy.
    }
    std::string text = record.id + "\n";
    if (start.json) text = described(record, record.name, ground->has_driver());
    return tell(report, 0, record.id + text);
  });
}

[[noreturn]] void be_supervisor(runtime::RunRequest& request, const StartOptions& start, const FrontOptions& front, int pipe, int announced = -1) {
  if (const Status detached = detach(pipe, announced); !detached.ok()) {
    say_error(detached.error());
  } else if (const Status ended = supervise(request, start, front, kReport); !ended.ok()) {
    say_error(ended.error());
    (void)tell(kReport, exit_code_for(ended.error().kind()), "");
  }
  ::_exit(0);
}

// Starts a supervisor and waits until its session stands; `text` is what it has for stdout. The exit status.
int start_supervisor(runtime::RunRequest& request, const StartOptions& start, const FrontOptions& front, std::string& id, std::string& text) {
  Result<sys::Pipe> pipe = sys::pipe();
  if (!pipe.ok()) return fail_usage("session start", pipe.error());
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    const pid_t supervisor = ::fork();  // no session leader: it never gets a terminal again
    if (supervisor == 0) be_supervisor(request, start, front, pipe.value().write.get());
    ::_exit(supervisor < 0 ? errno : 0);
  }
  int errnum = errno;
  pipe.value().write.reset();
  int ended = 0;
  if (child > 0) errnum = ::waitpid(child, &ended, 0) < 0 ? errno : WIFEXITED(ended) ? WEXITSTATUS(ended) : EINTR;
  if (child < 0 || errnum != 0) return fail_usage("session start", Error::from_errno(errnum, "make a process for the session"));
  const Result<std::string> answer = sys::read_all(pipe.value().read.get(), 65536);
  if (!answer.ok()) return fail_usage("session start", answer.error());
  if (answer.value().empty()) {
    say("the session's supervisor died while it started");
    return exit_code_for(ErrorKind::system);
  }
  if (answer.value()[0] != 0) return static_cast<unsigned char>(answer.value()[0]);
  const size_t text_at = 1 + session::kIdDigits;
  if (answer.value().size() < text_at) return fail_usage("session start", Error(ErrorKind::internal, "the session's supervisor did not say its id"));
  id = answer.value().substr(1, session::kIdDigits);
  text = answer.value().substr(text_at);
  return 0;
}

// A replacement for a warm session that was taken, made behind our back: nobody waits for it, nothing is said.
// But whoever ends all sessions waits until it is among them.
void replace_warm(const session::SessionPlace& place, runtime::RunRequest& request, StartOptions& start, const FrontOptions& front) {
  const Result<UniqueFd> announced = place.announce();
  if (!announced.ok()) return;
  start.host.entered = [] { ::close(kAnnounced); };
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    if (::fork() == 0) {
      Result<UniqueFd> null = sys::open("/dev/null", O_RDWR);
      if (null.ok()) {
        ::dup2(null.value().get(), STDERR_FILENO);
        be_supervisor(request, start, front, null.value().get(), announced.value().get());
      }
    }
    ::_exit(0);
  }
  if (child > 0) ::waitpid(child, nullptr, 0);
}

// The words of the command line, read.
std::optional<int> read_words(bool warm, const char* name, const Invocation& invocation, Result<Page> (*page)(), runtime::RunRequest& request, FrontOptions& front, StartOptions& start) {
  Result<std::vector<Option>> table = options(warm, false, request, front, start);
  if (!table.ok()) return fail_usage(name, table.error());
  Result<std::vector<std::string>> rest = parse_options_anywhere(table.value(), invocation.arguments(3));
  if (!rest.ok()) return fail_usage(name, rest.error());
  if (front.help) return show_help(page);
  if (!rest.value().empty()) {
    return fail_usage(name, Error(ErrorKind::usage, std::string("sbx ") + name + " takes no argument '" + printable(rest.value()[0]) + "'")
                                .with_hint("programs follow: sbx session run ID " + shell_quote(rest.value()[0])));
  }
  if (request.language.empty()) request.language = "python";
  request.tty = runtime::TtyMode::never;
  return std::nullopt;
}

// Takes a warm session that fits, and starts another for the next time.
std::optional<int> take_warm(runtime::RunRequest& request, const StartOptions& start, const FrontOptions& front) {
  const Result<session::SessionPlace> place = session::SessionPlace::open();
  if (!place.ok()) return std::nullopt;
  const Result<std::vector<session::SessionRecord>> records = place.value().list();
  if (!records.ok() || std::none_of(records.value().begin(), records.value().end(), [](const session::SessionRecord& record) { return !record.warm.empty(); })) return std::nullopt;
  const Result<std::unique_ptr<runtime::SessionGround>> ground = prepare(request, runtime::probe_host(), {}, start);
  if (!ground.ok()) return std::nullopt;  // the slow way says what is wrong
  const std::string key = warm_key(request, *ground.value());
  if (key.empty()) return std::nullopt;
  session::Json ask = session::Json::object();
  ask.set("op", "adopt").set("warm", key).set("name", start.host.name);
  if (start.host.ttl) ask.set("ttl_ms", start.host.ttl->value);
  if (start.host.idle) ask.set("idle_ms", start.host.idle->value);
  for (const session::SessionRecord& record : records.value()) {
    if (record.warm != key) continue;
    Result<UniqueFd> socket = place.value().connect(record);
    if (!socket.ok()) continue;
    session::Connection connection(socket.take());
    const Result<session::Json> taken = ask_session(connection, ask);
    if (!taken.ok()) {
      if (taken.error().origin() == "flag --name") return fail_usage("session start", taken.error());
      continue;
    }
    StartOptions next = start;
    next.host.name.clear();
    next.host.warm = key;
    next.host.ttl = kTtl;
    next.host.idle.reset();
    std::string text = record.id + "\n";
    if (start.json) text = described(record, start.host.name, true);
    const int status = print_or_end(text, record.id);
    replace_warm(place.value(), request, next, front);
    return status;
  }
  return std::nullopt;
}

}  // namespace

Result<Page> session_start_page() {
  runtime::RunRequest unused;
  FrontOptions ignored;
  StartOptions start;
  return Page{kUsage, kAbout, SBX_TRY(options(false, true, unused, ignored, start)),
              {{kSession, "sbx session start --lang python --name work --ttl 2h"},
               {"Program", "sbx session start --venv .venv"},
               {"Files", "sbx session start --workspace .:overlay"},
               {"Limits", "sbx session start --memory 4G --time 5m --idle none"},
               {"Environment and network", "sbx session start --net host --env LANG"},
               {"Policy", "sbx session start --policy strict"},
               {"Output and terminal", "sbx session start -v"}}};
}

Result<Page> session_warm_page() {
  runtime::RunRequest unused;
  FrontOptions ignored;
  StartOptions start;
  return Page{kWarmUsage, kWarmAbout, SBX_TRY(options(true, true, unused, ignored, start)),
              {{kSession, "sbx session warm --count 2 --preload numpy,pandas"},
               {"Program", "sbx session warm --venv .venv"},
               {"Limits", "sbx session warm --memory 4G"},
               {"Environment and network", "sbx session warm --net host"},
               {"Policy", "sbx session warm --policy strict"},
               {"Output and terminal", "sbx session warm -v"}}};
}

int session_start_command(const Invocation& invocation) {
  runtime::RunRequest request;
  FrontOptions front;
  StartOptions start;
  if (const std::optional<int> status = read_words(false, "session start", invocation, session_start_page, request, front, start)) return *status;
  if (const std::optional<int> taken = take_warm(request, start, front)) return *taken;
  std::string id, text;
  const int status = start_supervisor(request, start, front, id, text);
  return status == 0 ? print_or_end(text, id) : status;
}

int session_warm_command(const Invocation& invocation) {
  runtime::RunRequest request;
  FrontOptions front;
  StartOptions start;
  if (const std::optional<int> status = read_words(true, "session warm", invocation, session_warm_page, request, front, start)) return *status;
  start.host.idle.reset();
  const Result<std::unique_ptr<runtime::SessionGround>> ground = prepare(request, runtime::probe_host(), {}, start);
  if (!ground.ok()) return fail_usage("session warm", ground.error());
  start.host.warm = warm_key(request, *ground.value());
  if (start.host.warm.empty()) {
    return fail_usage("session warm", Error(ErrorKind::usage, ground.value()->language() + " keeps files only: there is nothing to start ahead").with_hint("languages that keep their state: " + join(session::languages_with_driver(), ", ")));
  }
  const Result<session::SessionPlace> place = session::SessionPlace::open();
  if (!place.ok()) return fail_usage("session warm", place.error());
  if (const Status whole = place.value().await_announced(); !whole.ok()) return fail_usage("session warm", whole.error());
  const Result<std::vector<session::SessionRecord>> records = place.value().list();
  if (!records.ok()) return fail_usage("session warm", records.error());
  size_t there = 0, all = 0;
  for (const session::SessionRecord& record : records.value()) {
    if (record.warm.empty()) continue;
    ++all;
    if (record.warm != start.host.warm) continue;
    if (++there <= start.count) continue;
    --all;
    --there;
    Result<UniqueFd> socket = place.value().connect(record);
    if (!socket.ok()) continue;
    session::Connection connection(socket.take());
    (void)ask_session(connection, session::Json::object().set("op", "stop"));
  }
  for (; there < start.count; ++there, ++all) {
    if (all >= kMaxWarm) return fail_usage("session warm", Error(ErrorKind::resource, std::to_string(all) + " sessions wait already").with_hint("sbx session ls lists them; sbx session rm ends one"));
    std::string id, text;
    if (const int status = start_supervisor(request, start, front, id, text); status != 0) return status;
  }
  return 0;
}

}  // namespace sbx::cli
