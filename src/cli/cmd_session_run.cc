// sbx session run, exec, attach: cells and programs in a session that is there.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include "base/sys.h"
#include "base/text.h"
#include "cli/cmd_session.h"
#include "cli/output.h"
#include "cli/result_file.h"
#include "cli/session_client.h"
#include "runtime/request.h"

namespace sbx::cli {
namespace {

using session::Json;

constexpr char kProgram[] = "Program";
constexpr char kOutput[] = "Output";
constexpr size_t kMaxCode = size_t{16} << 20;

struct CellOptions {
  bool help = false, quiet = false, json = false, wait = true;
  std::optional<std::string> code;
  std::string stdin_file, result_file;
  std::optional<Millis> timeout;
};

std::vector<Option> options(bool exec, CellOptions& cell) {
  std::vector<Option> all;
  const auto add = [&](const char* group, char letter, const char* name, const char* metavar, const char* doc, const char* standard,
                       std::function<Status(const std::string&)> take, ValueKind kind = ValueKind::text) {
    all.push_back(Option{group, letter, name, metavar, doc, standard, std::move(take), kind});
  };
  if (!exec) {
    add(kProgram, 'c', "", "CODE", "the cell's text, instead of FILE", "", [&](const std::string& value) -> Status {
      cell.code = value;
      return {};
    });
    add(kProgram, 0, "stdin", "FILE", "what the cell reads on stdin, as it comes; - for your own", "nothing", [&](const std::string& value) -> Status {
      cell.stdin_file = value;
      return {};
    }, ValueKind::file);
    all.push_back(flag_option(kProgram, 0, "wait", "wait while another cell runs (the default)", cell.wait));
    add(kProgram, 0, "no-wait", "", "fail while another cell runs", "", [&](const std::string&) -> Status {
      cell.wait = false;
      return {};
    });
  }
  add(kProgram, 0, "timeout", "TIME", exec ? "its time, instead of the session's --time" : "the cell's time, instead of the session's --time", "",
      [&](const std::string& value) -> Status {
        Result<Millis> time = parse_duration(value);
        if (!time.ok()) return time.take_error().with_origin("flag --timeout").with_hint("for instance 10s or 2m");
        cell.timeout = time.value();
        return {};
      });
  add(kOutput, 0, "result", "FILE", "write what happened to FILE, as JSON", "", [&](const std::string& value) -> Status {
    cell.result_file = value;
    return {};
  }, ValueKind::file);
  all.push_back(flag_option(kOutput, 0, "json", "print what happened as JSON on stdout, with output and values in it", cell.json));
  all.push_back(flag_option(kOutput, 'q', "quiet", "no hints", cell.quiet));
  all.push_back(flag_option(kOutput, 'h', "help", "this page", cell.help));
  return all;
}

constexpr char kRunUsage[] =
    "usage: sbx session run [OPTIONS] ID [FILE] [-- ARGS...]\n"
    "       sbx session run [OPTIONS] ID -c CODE\n"
    "       ... | sbx session run [OPTIONS] ID [-]";
constexpr char kRunAbout[] =
    "Runs a cell in a session. What it prints is passed on as it comes, the value of its last expression follows. A cell whose time is\n"
    "over is interrupted, and what was there before stays; one that does not obey is killed, and sbx says that the state was lost.\n"
    "ARGS are for languages without state. Status: as of sbx run; 1 for an exception, 130 interrupted.";
constexpr char kExecUsage[] = "usage: sbx session exec [OPTIONS] ID [--] CMD [ARGS...]";
constexpr char kExecAbout[] =
    "Runs a further program in the sandbox of a session, with the same files, filter and limits, beside its cells.\n"
    "Options may follow ID as well; they end with -- or CMD, and what stands behind that is the program's.\n"
    "Your stdin is its stdin. Status: as of sbx exec.";
constexpr char kAttachUsage[] = "usage: sbx session attach [OPTIONS] ID";
constexpr char kAttachAbout[] =
    "Reads cells from you and shows what they give, until the end of input (Ctrl-D). The session goes on afterwards.\n"
    "A line is a cell. One that ends with ':' or a backslash, or begins with '@' or '%%', goes on until a blank line.\n"
    "At a terminal, what you type while a cell runs is its stdin; Ctrl-C interrupts the cell, and at the prompt forgets the line.\n"
    "SIGTERM and SIGHUP, and Ctrl-C where cells come from a pipe or a file, interrupt the cell and end attach with status 128+N.\n"
    "Else the status is the last cell's.";

Result<UniqueFd> open_input(const std::string& path, const char* flag) {
  Result<UniqueFd> file = sys::open(path, O_RDONLY | O_NOCTTY);
  if (file.ok()) {
    struct stat info {};
    if (::fstat(file.value().get(), &info) == 0 && S_ISDIR(info.st_mode)) return Error(ErrorKind::usage, quoted_path(path) + " is a directory").with_origin(flag);
    return file;
  }
  const int errnum = file.error().errnum();
  return Error(ErrorKind::usage, errnum == ENOENT ? "no such file: " + quoted_path(path) : "cannot open " + quoted_path(path) + ": " + errno_text(errnum)).with_origin(flag);
}

// A cell in a file of the caller's.
Result<std::string> read_code(const std::string& path) {
  const UniqueFd file = SBX_TRY(open_input(path, ""));
  Result<std::string> text = sys::read_all(file.get(), kMaxCode);
  if (!text.ok() && text.error().kind() == ErrorKind::resource) {
    return Error(ErrorKind::usage, quoted_path(path) + " is more than 16M").with_hint("copy it in: sbx cp " + shell_quote(path) + " ID:" + base_name(path));
  }
  if (!text.ok()) return Error(ErrorKind::usage, text.error().text());
  return text;
}

int fail(const char* command, const Error& error, const CellOptions& cell, std::optional<ResultFile>& file) {
  int status = error.kind() == ErrorKind::usage ? fail_usage(command, error) : exit_code_for(error.kind());
  if (error.kind() != ErrorKind::usage) say_error(error);
  const std::string json = cell.json || file ? runtime::error_json(error, status) : "";
  if (cell.json) (void)print(json);
  if (file) (void)file->write(json);
  return status;
}

// Hints, result and status of a reply.
int deliver(const SessionReply& answer, const CellOptions& cell, std::optional<ResultFile>& file) {
  const Json& reply = answer.reply;
  int status = static_cast<int>(reply.at("exit_status").integer(125));
  if (!cell.quiet) {
    for (const Json& hint : reply.at("hints").items()) say(hint.text());
  }
  const std::string& result = answer.result;
  if (cell.json && !print(result) && status == 0) status = 1;
  if (file) {
    if (Status written = file->write(result); !written.ok()) {
      say_error(written.error());
      if (status == 0) status = 1;
    }
  }
  return status;
}

Json request_of(const char* op, const CellOptions& cell) {
  Json request = Json::object();
  request.set("op", op).set("wait", cell.wait).set("result", cell.json || !cell.result_file.empty()).set("streams", cell.json);
  if (cell.timeout) request.set("timeout_ms", cell.timeout->value);
  return request;
}

Result<std::string> code_of(CellOptions& cell, std::vector<std::string>& words, bool marked) {
  if (cell.code) {
    if (!words.empty() && !marked) return Error(ErrorKind::usage, "two programs given: -c CODE and '" + printable(words[0]) + "'").with_hint("give one of them");
    return *cell.code;
  }
  if (!words.empty() && !marked) {
    const std::string name = words[0];
    words.erase(words.begin());
    if (name != "-") return read_code(name);
  } else if (::isatty(STDIN_FILENO) == 1) {
    return Error(ErrorKind::usage, "no program given").with_hint("name a FILE, give -c CODE, or pipe code on stdin; sbx session attach is for typing");
  }
  Result<std::string> text = sys::read_all(STDIN_FILENO, kMaxCode);
  if (!text.ok()) return Error(ErrorKind::usage, text.error().text());
  return text;
}

// Options may stand before and behind the ID.
Result<Parsed> parse(const std::vector<Option>& table, std::vector<std::string> words, bool exec, std::string& id) {
  Parsed first = SBX_TRY(parse_options(table, words));
  if (first.rest.empty()) return first;
  id = first.rest[0];
  first.rest.erase(first.rest.begin());
  Parsed second = SBX_TRY(parse_options(table, first.rest));
  // FILE may stand before further options: `run ID FILE --json`. A command's own words begin with its name.
  if (exec || second.rest.empty() || second.marked) return second;
  const std::string file = second.rest[0];
  second.rest.erase(second.rest.begin());
  Parsed third = SBX_TRY(parse_options(table, second.rest));
  if (!third.rest.empty() && !third.marked) {
    return Error(ErrorKind::usage, "a cell takes no argument '" + printable(third.rest[0]) + "'").with_hint("arguments of a program follow --");
  }
  third.marked = false;
  third.rest.insert(third.rest.begin(), file);
  return third;
}

int run_or_exec(bool exec, const Invocation& invocation) {
  const char* const name = exec ? "session exec" : "session run";
  CellOptions cell;
  const std::vector<Option> table = options(exec, cell);
  std::string id;
  std::optional<ResultFile> file;
  Result<Parsed> parsed = parse(table, invocation.arguments(3), exec, id);
  if (cell.help) return show_help(exec ? session_exec_page : session_run_page);
  if (!parsed.ok()) return fail(name, parsed.error(), cell, file);
  if (id.empty()) return fail(name, Error(ErrorKind::usage, "which session?").with_hint(std::string("sbx ") + name + " ID …; sbx session ls lists them"), cell, file);
  if (!cell.result_file.empty()) {
    Result<ResultFile> prepared = ResultFile::prepare(cell.result_file);
    if (!prepared.ok()) return fail(name, prepared.error(), cell, file);
    file = prepared.take();
  }
  std::vector<std::string>& rest = parsed.value().rest;
  Json request = request_of(exec ? "exec" : "run", cell);
  std::optional<std::string> code;
  int input = STDIN_FILENO;
  UniqueFd input_file;
  if (exec) {
    if (rest.empty()) return fail(name, Error(ErrorKind::usage, "no command given").with_hint("for instance: sbx session exec " + shell_quote(id) + " -- ls -l"), cell, file);
    Json argv = Json::array();
    for (const std::string& word : rest) argv.add(word);
    request.set("argv", std::move(argv)).set("stdin", true);
  } else {
    const bool from_stdin = !cell.code && (rest.empty() || parsed.value().marked || rest[0] == "-");
    Result<std::string> text = code_of(cell, rest, parsed.value().marked);
    if (!text.ok()) return fail(name, text.error(), cell, file);
    code = text.take();
    Json arguments = Json::array();
    for (const std::string& word : rest) arguments.add(word);
    request.set("arguments", std::move(arguments));
    if (!cell.stdin_file.empty()) {
      if (cell.stdin_file == "-" && from_stdin) return fail(name, Error(ErrorKind::usage, "stdin cannot be the cell and its input").with_origin("flag --stdin").with_hint("give the cell with -c or as a FILE"), cell, file);
      if (cell.stdin_file != "-") {
        Result<UniqueFd> opened = open_input(cell.stdin_file, "flag --stdin");
        if (!opened.ok()) return fail(name, opened.error(), cell, file);
        input_file = opened.take();
      }
      input = input_file.valid() ? input_file.get() : STDIN_FILENO;
      request.set("stdin", true);
    }
  }
  Result<SessionLink> link = open_session(id);
  if (!link.ok()) return fail(name, link.error(), cell, file);
  CaughtSignals signals;
  const Result<SessionReply> reply = run_at_session(link.value().connection, request, code, input, cell.quiet, signals);
  if (!reply.ok()) return fail(name, reply.error(), cell, file);
  return deliver(reply.value(), cell, file);
}

// What is typed to attach, or piped into it.
class Typing {
 public:
  enum class Got { text, end, nothing };  // nothing: Ctrl-C took it back

  Typing(const std::string& prompt, bool terminal, CaughtSignals& signals) : prompt_(prompt), terminal_(terminal), signals_(signals) {}

  // A cell as a person types it: a line, and, where that asks for more, what follows until a blank one.
  Got cell(std::string& text) {
    text.clear();
    std::string line;
    if (const Got got = next_line(prompt_ + "> ", line); got != Got::text) return got;
    text = line + "\n";
    const bool several = trim(line).ends_with(':') || trim(line).ends_with('\\') || starts_with(line, "@") || starts_with(line, "%%");
    while (several) {
      const Got got = next_line(std::string(prompt_.size(), '.') + "  ", line);
      if (got == Got::nothing || ending() != 0) return got;
      if (got == Got::end || trim(line).empty()) break;
      text += line + "\n";
    }
    return Got::text;
  }

  // A cell was given it and has not read it.
  void put_back(std::string_view unread) { ahead_ += unread; }

  // The signal that is to end us; 0: none. At a terminal Ctrl-C concerns a cell, or the line.
  int ending() const {
    for (const int signal : {SIGTERM, SIGHUP, SIGQUIT}) {
      if (signals_.came(signal)) return signal;
    }
    return !terminal_ && signals_.came(SIGINT) ? SIGINT : 0;
  }

 private:
  Got next_line(const std::string& prompt, std::string& line) {
    if (terminal_) (void)print(prompt);
    while (ending() == 0) {
      if (const size_t end = ahead_.find('\n', searched_); end != std::string::npos || ahead_.size() > kMaxCode) {
        line = ahead_.substr(0, end);
        ahead_.erase(0, line.size() + 1);
        searched_ = 0;
        return Got::text;
      }
      searched_ = ahead_.size();
      std::array<pollfd, 2> polls{pollfd{STDIN_FILENO, POLLIN, 0}, pollfd{signals_.fd(), POLLIN, 0}};
      if (::poll(polls.data(), polls.size(), -1) < 0) continue;
      if (polls[1].revents != 0) {
        const int signal = signals_.take();
        if (signal == SIGTSTP) CaughtSignals::let_act(signal);
        if (signal == SIGCONT && terminal_) (void)print(prompt);  // the terminal has forgotten the line
        if (signal != SIGINT || !terminal_) continue;
        forget();
        (void)print("\n");
        return Got::nothing;
      }
      // No more than the line: what follows in a pipe is another's, should we end.
      std::array<char, 4096> bytes{};
      const ssize_t got = ::read(STDIN_FILENO, bytes.data(), terminal_ ? bytes.size() : 1);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got > 0) {
        ahead_.append(bytes.data(), static_cast<size_t>(got));
        continue;
      }
      line = std::exchange(ahead_, "");
      searched_ = 0;
      return line.empty() ? Got::end : Got::text;
    }
    return Got::end;
  }
  void forget() {
    ahead_.clear();
    searched_ = 0;
  }

  std::string prompt_;
  bool terminal_;
  CaughtSignals& signals_;
  std::string ahead_;  // what was read and is no line yet, or was typed while a cell ran
  size_t searched_ = 0;
};

std::vector<Option> attach_options(CellOptions& cell) {
  std::vector<Option> all = options(false, cell);
  std::erase_if(all, [](const Option& option) { return option.name != "timeout" && option.name != "quiet" && option.name != "help"; });
  return all;
}

}  // namespace

Result<Page> session_run_page() {
  CellOptions unused;
  return Page{kRunUsage, kRunAbout, options(false, unused),
              {{kProgram, "sbx session run work -c 'x = 6 * 7; x'"}, {kOutput, "sbx session run work --json analysis.py"}}, ValueKind::session};
}
Result<Page> session_exec_page() {
  CellOptions unused;
  return Page{kExecUsage, kExecAbout, options(true, unused), {{kProgram, "sbx session exec work -- ls -l"}, {kOutput, "sbx session exec --json work -- id"}}, ValueKind::session};
}
Result<Page> session_attach_page() {
  CellOptions unused;
  return Page{kAttachUsage, kAttachAbout, attach_options(unused), {{kProgram, "sbx session attach --timeout 10m work"}, {kOutput, "sbx session attach work"}}, ValueKind::session};
}

int session_run_command(const Invocation& invocation) { return run_or_exec(false, invocation); }
int session_exec_command(const Invocation& invocation) { return run_or_exec(true, invocation); }

int session_attach_command(const Invocation& invocation) {
  CellOptions cell;
  const Result<std::vector<std::string>> words = parse_options_anywhere(attach_options(cell), invocation.arguments(3));
  if (!words.ok()) return fail_usage("session attach", words.error());
  if (cell.help) return show_help(session_attach_page);
  if (words.value().size() != 1) return fail_usage("session attach", Error(ErrorKind::usage, "which session?").with_hint("sbx session attach ID; sbx session ls lists them"));
  std::string id, prompt;
  {
    const Result<SessionLink> link = open_session(words.value()[0]);
    if (!link.ok()) return fail_usage("session attach", link.error());
    id = link.value().record.id;
    prompt = link.value().record.name.empty() ? id.substr(0, 8) : link.value().record.name;
  }
  const bool terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
  CaughtSignals signals;
  Typing typing(prompt, terminal, signals);
  std::optional<ResultFile> none;
  int status = 0;
  std::string text;
  for (Typing::Got got; (got = typing.cell(text)) != Typing::Got::end;) {
    if (got == Typing::Got::nothing || trim(text).empty()) continue;
    Result<SessionLink> link = open_session(id);
    if (!link.ok()) return fail_usage("session attach", link.error());
    // A person answers what the cell asks. From a pipe come cells, and none is lost to one that reads its stdin.
    const Result<SessionReply> reply = run_at_session(link.value().connection, request_of("run", cell).set("stdin", terminal), text, STDIN_FILENO, cell.quiet, signals);
    if (reply.ok()) typing.put_back(reply.value().unread);
    status = reply.ok() ? deliver(reply.value(), cell, none) : fail("session attach", reply.error(), cell, none);
  }
  if (terminal) (void)print("\n");
  return typing.ending() != 0 ? 128 + typing.ending() : status;
}

}  // namespace sbx::cli
