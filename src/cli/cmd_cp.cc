// sbx cp, sbx session save and restore: files into a session and back.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "base/sys.h"
#include "base/text.h"
#include "cli/cmd_session.h"
#include "cli/output.h"
#include "cli/session_client.h"
#include "session/copy.h"

namespace sbx::cli {
namespace {

using session::CopyBounds;
using session::CopyReport;

constexpr char kUsage[] =
    "usage: sbx cp [OPTIONS] FILE|DIR ID:[PATH]\n"
    "       sbx cp [OPTIONS] ID:PATH FILE|DIR";
constexpr char kAbout[] =
    "Copies a file or a tree into a session, or out of it. A PATH that does not begin with '/' is one of the working directory.\n"
    "Links of a session are never followed, and never made here; set-id bits do not pass; holes of files stay holes.\n"
    "Status: 0 all was copied, 1 something in a tree was left out or the copy broke off, 2 the words make no copy.";
constexpr char kSaveUsage[] = "usage: sbx session save [OPTIONS] ID FILE";
constexpr char kSaveAbout[] =
    "Writes the files of the session's working directory to FILE, a tar archive in GNU tar's format; - is stdout. Variables are\n"
    "not in it, nor are links, FIFOs, sockets, and files that the session's user may not read: these are named, and the status is 1.";
constexpr char kRestoreUsage[] = "usage: sbx session restore [OPTIONS] ID FILE";
constexpr char kRestoreAbout[] =
    "Puts the files of an archive that save made, or GNU tar, into the working directory of a session; - is stdin. What stands there\n"
    "under the same names is replaced, once the whole archive has been read: an archive that is damaged or does not fit changes nothing.\n"
    "Variables are not restored. What is neither a file nor a directory in it is left out and named, and the status is 1.";

struct CopyOptions {
  bool help = false, quiet = false;
  CopyBounds bounds;
};

std::vector<Option> options(CopyOptions& seen) {
  std::vector<Option> all;
  all.push_back(Option{"Options", 0, "max-size", "SIZE", "give up when more than that would have to be copied", format_size(Bytes{seen.bounds.max_bytes}), [&](const std::string& value) -> Status {
    Result<Bytes> size = parse_size(value);
    if (!size.ok()) return size.take_error().with_origin("flag --max-size").with_hint("for instance 500M or 16G");
    seen.bounds.max_bytes = size.value().value;
    return {};
  }});
  all.push_back(flag_option("Options", 'q', "quiet", "say nothing of what was copied and left out", seen.quiet));
  all.push_back(flag_option("Options", 'h', "help", "this page", seen.help));
  return all;
}

// A session's root, held open.
struct Opened {
  SessionLink link;
  UniqueFd root;
  session::Inside inside;
  std::string directory;
};

Result<Opened> open_root(const std::string& id) {
  Opened opened{SBX_TRY(open_session(id)), UniqueFd(), {}, ""};
  const session::Json reply = SBX_TRY(ask_session(opened.link.connection, session::Json::object().set("op", "root")));
  opened.root = opened.link.connection.take_descriptor();
  if (!opened.root.valid()) return session_has_ended();
  opened.inside = {opened.root.get(), static_cast<uint32_t>(reply.at("uid").integer()), static_cast<uint32_t>(reply.at("gid").integer())};
  opened.directory = reply.at("directory").text();
  return opened;
}

// "ID:PATH", where no such file lies here.
bool is_remote(const std::string& word, std::string& id, std::string& path) {
  const size_t colon = word.find(':');
  if (colon == std::string::npos || colon == 0 || word.find('/') < colon || sys::lstat(word).ok()) return false;
  id = word.substr(0, colon);
  path = word.substr(colon + 1);
  return true;
}

// A signal that comes meanwhile ends us when nothing half-done is left.
Result<CopyReport> tidily(CopyBounds bounds, const std::function<Result<CopyReport>(const CopyBounds&)>& copy) {
  const CaughtSignals signals({SIGINT, SIGTERM, SIGHUP});
  bounds.stop_fd = signals.fd();
  return copy(bounds);
}

// `done`: what was done with how many files; "": nothing is said of that.
int told(const char* command, const Result<CopyReport>& result, const CopyOptions& seen, const std::string& done = "", const std::string& more = "") {
  if (!result.ok()) {
    if (result.error().kind() == ErrorKind::usage) return fail_usage(command, result.error());
    say_error(result.error());
    return 1;
  }
  const CopyReport& report = result.value();
  if (!seen.quiet) {
    for (const std::string& line : report.skipped) say(line);
    if (report.skipped_count > report.skipped.size()) say("and " + std::to_string(report.skipped_count - report.skipped.size()) + " more");
    const std::string left_out = report.skipped_count > 0 ? ", " + std::to_string(report.skipped_count) + " left out" : "";
    if (!done.empty()) say(std::to_string(report.files) + (report.files == 1 ? " file " : " files ") + done + left_out + "; " + more);
  }
  return report.skipped_count > 0 ? 1 : 0;
}

// The two words of a command line; nullopt: `status` is what it comes to.
std::optional<std::vector<std::string>> two_words(const char* command, const std::vector<std::string>& arguments, CopyOptions& seen, Result<Page> (*page)(), const Error& missing, int& status) {
  Result<std::vector<std::string>> words = parse_options_anywhere(options(seen), arguments);
  status = 0;
  if (!words.ok()) status = fail_usage(command, words.error());
  else if (seen.help) status = show_help(page);
  else if (words.value().size() != 2) status = fail_usage(command, missing);
  else return words.take();
  return std::nullopt;
}

Page page_of(const char* usage, const char* about, const char* example, ValueKind kind) {
  CopyOptions unused;
  return Page{usage, about, options(unused), {{"Options", example}}, kind};
}

Result<CopyReport> save(const session::Inside& inside, const std::string& file, const CopyBounds& bounds) {
  const auto cannot = [&](const Error& error) { return Error(ErrorKind::usage, "cannot write " + quoted_path(file) + ": " + errno_text(error.errnum())); };
  if (file == "-") return session::write_archive(inside, "/box", STDOUT_FILENO, bounds);
  if (const Result<struct stat> there = sys::stat(file); there.ok() && !S_ISREG(there.value().st_mode)) {  // a device, a FIFO
    const Result<UniqueFd> target = sys::open(file, O_WRONLY | O_NOCTTY | O_TRUNC);
    return target.ok() ? session::write_archive(inside, "/box", target.value().get(), bounds) : cannot(target.error());
  }
  return tidily(bounds, [&](const CopyBounds& stoppable) -> Result<CopyReport> {
    const std::string temporary = file + ".part";
    // A file of ours alone: in a directory like /tmp somebody else's may wait under that name.
    (void)sys::unlinkat(AT_FDCWD, temporary);
    const Result<UniqueFd> target = sys::open(temporary, O_WRONLY | O_NOCTTY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
    if (!target.ok()) return cannot(target.error());
    Result<CopyReport> report = session::write_archive(inside, "/box", target.value().get(), stoppable);
    if (report.ok()) {
      Status renamed = sys::renameat2(AT_FDCWD, temporary, AT_FDCWD, file, 0);
      if (renamed.ok()) return report;
      report = renamed.take_error();
    }
    (void)sys::unlinkat(AT_FDCWD, temporary);
    return report;
  });
}

}  // namespace

Result<Page> cp_page() { return page_of(kUsage, kAbout, "sbx cp data.csv work: && sbx cp work:result.png .", ValueKind::copied); }
Result<Page> session_save_page() { return page_of(kSaveUsage, kSaveAbout, "sbx session save work work.tar", ValueKind::session); }
Result<Page> session_restore_page() { return page_of(kRestoreUsage, kRestoreAbout, "sbx session restore work work.tar", ValueKind::session); }

int cp_command(const Invocation& invocation) {
  CopyOptions seen;
  int status = 0;
  const auto words = two_words("cp", invocation.arguments(), seen, cp_page,
                               Error(ErrorKind::usage, "from where to where?").with_hint("sbx cp data.csv ID:, or sbx cp ID:result.png ."), status);
  if (!words) return status;
  const std::string& from = (*words)[0];
  const std::string& to = (*words)[1];
  std::string from_id, from_path, to_id, to_path;
  const bool from_session = is_remote(from, from_id, from_path);
  const bool to_session = is_remote(to, to_id, to_path);
  if (from_session == to_session) {
    return fail_usage("cp", Error(ErrorKind::usage, from_session ? "both places are in sessions" : "neither place is in a session")
                                .with_hint(from_session ? "copy it here first: sbx cp " + shell_quote(from) + " ." : "name one as ID:PATH; sbx session ls lists them"));
  }
  Result<Opened> opened = open_root(from_session ? from_id : to_id);
  if (!opened.ok()) return fail_usage("cp", opened.error());
  const session::Inside& inside = opened.value().inside;
  const std::string& directory = opened.value().directory;
  const auto absolute = [&](const std::string& path) { return starts_with(path, "/") ? path : join_path(directory, path); };
  if (from_session && from_path.empty()) {
    return fail_usage("cp", Error(ErrorKind::usage, "which file of the session?").with_hint("all of its working directory: sbx cp " + shell_quote(from + directory) + " " + shell_quote(to)));
  }
  return told("cp", tidily(seen.bounds, [&](const CopyBounds& bounds) {
    if (from_session) return session::copy_out(inside, absolute(from_path), to, bounds);
    return session::copy_in(from, inside, to_path.empty() ? directory : absolute(to_path), bounds);
  }), seen);
}

int session_save_command(const Invocation& invocation) {
  CopyOptions seen;
  int status = 0;
  const auto words = two_words("session save", invocation.arguments(3), seen, session_save_page,
                               Error(ErrorKind::usage, "which session, and to which file?").with_hint("for instance: sbx session save work work.tar"), status);
  if (!words) return status;
  if ((*words)[1] == "-" && ::isatty(STDOUT_FILENO) == 1) {
    return fail_usage("session save", Error(ErrorKind::usage, "an archive is not for a terminal").with_hint("name a file, or redirect stdout"));
  }
  const Result<Opened> opened = open_root((*words)[0]);
  if (!opened.ok()) return fail_usage("session save", opened.error());
  return told("session save", save(opened.value().inside, (*words)[1], seen.bounds), seen, "saved", "variables are not among them");
}

int session_restore_command(const Invocation& invocation) {
  CopyOptions seen;
  int status = 0;
  const auto words = two_words("session restore", invocation.arguments(3), seen, session_restore_page,
                               Error(ErrorKind::usage, "which session, and from which file?").with_hint("for instance: sbx session restore work work.tar"), status);
  if (!words) return status;
  const std::string& file = (*words)[1];
  UniqueFd source;
  if (file != "-") {
    Result<UniqueFd> open = sys::open(file, O_RDONLY | O_NOCTTY);
    if (!open.ok()) return fail_usage("session restore", Error(ErrorKind::usage, "cannot open " + quoted_path(file) + ": " + errno_text(open.error().errnum())));
    source = open.take();
  } else if (::isatty(STDIN_FILENO) == 1) {
    return fail_usage("session restore", Error(ErrorKind::usage, "an archive is not typed").with_hint("name a file, or redirect stdin"));
  }
  const Result<Opened> opened = open_root((*words)[0]);
  if (!opened.ok()) return fail_usage("session restore", opened.error());
  return told("session restore", tidily(seen.bounds, [&](const CopyBounds& bounds) {
    return session::read_archive(source.valid() ? source.get() : STDIN_FILENO, opened.value().inside, "/box", bounds);
  }), seen, "restored", "variables are not: run the cells that made them again");
}

}  // namespace sbx::cli
