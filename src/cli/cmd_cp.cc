// sbx cp: files into a session and back; and its archives, which go the same way.
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/sys.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/session_archive.h"
#include "cli/session_client.h"
#include "session/copy.h"

namespace sbx::cli {
namespace {

constexpr char kUsage[] =
    "usage: sbx cp FILE|DIR ID:[PATH]\n"
    "       sbx cp ID:PATH FILE|DIR";
constexpr char kAbout[] =
    "Copies a file or a tree into a session, or out of it. A PATH that does not begin with '/' is one of the working directory.\n"
    "Links of a session are never followed, and never made here; set-id bits do not pass.";

struct CopyOptions {
  bool help = false, quiet = false;
};

std::vector<Option> options(CopyOptions& seen) {
  return {flag_option("Options", 'q', "quiet", "do not say what was left out", seen.quiet), flag_option("Options", 'h', "help", "this page", seen.help)};
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

int told(const char* command, const Result<session::CopyReport>& report, bool quiet) {
  if (!report.ok()) {
    if (report.error().kind() == ErrorKind::usage) return fail_usage(command, report.error());
    say_error(report.error());
    return 1;
  }
  if (quiet) return 0;
  for (const std::string& line : report.value().skipped) say(line);
  if (report.value().skipped_count > report.value().skipped.size()) {
    say("and " + std::to_string(report.value().skipped_count - report.value().skipped.size()) + " more");
  }
  return 0;
}

}  // namespace

Result<Page> cp_page() {
  CopyOptions unused;
  return Page{kUsage, kAbout, options(unused), {{"Options", "sbx cp data.csv work: && sbx cp work:result.png ."}}, ValueKind::copied};
}

int cp_command(const Invocation& invocation) {
  CopyOptions seen;
  const Result<std::vector<std::string>> words = parse_options_anywhere(options(seen), invocation.arguments());
  if (!words.ok()) return fail_usage("cp", words.error());
  if (seen.help) return show_help(cp_page);
  if (words.value().size() != 2) return fail_usage("cp", Error(ErrorKind::usage, "from where to where?").with_hint("sbx cp data.csv ID:, or sbx cp ID:result.png ."));
  const std::string& from = words.value()[0];
  const std::string& to = words.value()[1];
  std::string from_id, from_path, to_id, to_path;
  const bool from_session = is_remote(from, from_id, from_path);
  const bool to_session = is_remote(to, to_id, to_path);
  if (from_session == to_session) {
    return fail_usage("cp", Error(ErrorKind::usage, from_session ? "both places are in sessions" : "neither place is in a session")
                                .with_hint(from_session ? "copy it here first: sbx cp " + shell_quote(from) + " ." : "name one as ID:PATH; sbx session ls lists them"));
  }
  Result<Opened> opened = open_root(from_session ? from_id : to_id);
  if (!opened.ok()) return fail_usage("cp", opened.error());
  const auto absolute = [&](const std::string& path) { return starts_with(path, "/") ? path : join_path(opened.value().directory, path); };
  const session::CopyBounds bounds;
  if (!from_session) return told("cp", session::copy_in(from, opened.value().inside, to_path.empty() ? opened.value().directory : absolute(to_path), bounds), seen.quiet);
  if (from_path.empty()) return fail_usage("cp", Error(ErrorKind::usage, "which file of the session?").with_hint("sbx cp " + shell_quote(from + "NAME") + " " + shell_quote(to)));
  return told("cp", session::copy_out(opened.value().inside, absolute(from_path), to, bounds), seen.quiet);
}

int save_session(const std::string& id, const std::string& file) {
  Result<Opened> opened = open_root(id);
  if (!opened.ok()) return fail_usage("session save", opened.error());
  const std::string temporary = file + ".part";
  const bool direct = sys::stat(file).ok() && !S_ISREG(sys::stat(file).value().st_mode);  // a device, /dev/stdout
  // A file of ours alone: in a directory like /tmp somebody else's may wait under that name.
  if (!direct) (void)sys::unlinkat(AT_FDCWD, temporary);
  Result<UniqueFd> target = sys::open(direct ? file : temporary, O_WRONLY | O_NOCTTY | (direct ? O_TRUNC : O_CREAT | O_EXCL | O_NOFOLLOW), 0644);
  if (!target.ok()) return fail_usage("session save", Error(ErrorKind::usage, "cannot write " + quoted_path(file) + ": " + errno_text(target.error().errnum())));
  const Result<session::CopyReport> report = session::write_archive(opened.value().inside, "/box", target.value().get(), {});
  if (!direct) {
    if (report.ok()) {
      if (Status renamed = sys::renameat2(AT_FDCWD, temporary, AT_FDCWD, file, 0); !renamed.ok()) return fail_usage("session save", renamed.error());
    } else {
      (void)sys::unlinkat(AT_FDCWD, temporary);
    }
  }
  const int status = told("session save", report, false);
  if (status == 0) say(std::to_string(report.value().files) + " files saved; variables are not among them");
  return status;
}

int restore_session(const std::string& id, const std::string& file) {
  Result<UniqueFd> source = sys::open(file, O_RDONLY | O_NOCTTY);
  if (!source.ok()) return fail_usage("session restore", Error(ErrorKind::usage, "cannot open " + quoted_path(file) + ": " + errno_text(source.error().errnum())));
  Result<Opened> opened = open_root(id);
  if (!opened.ok()) return fail_usage("session restore", opened.error());
  const Result<session::CopyReport> report = session::read_archive(source.value().get(), opened.value().inside, "/box", {});
  const int status = told("session restore", report, false);
  if (status == 0) say(std::to_string(report.value().files) + " files restored; variables are not: run the cells that made them again");
  return status;
}

}  // namespace sbx::cli
