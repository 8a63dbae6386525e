// sbx session: its verbs; of them those that look at sessions, and those that end them.
#include "cli/cmd_session.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "base/sys.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/session_client.h"

namespace sbx::cli {
namespace {

using session::Json;
using session::SessionPlace;
using session::SessionRecord;

struct VerbOptions {
  bool help = false, json = false, quiet = false, all = false;
};

std::vector<Option> verb_options(VerbOptions& seen, bool json, bool all) {
  std::vector<Option> options;
  if (json) options.push_back(flag_option("Options", 0, "json", "as JSON", seen.json));
  if (all) options.push_back(flag_option("Options", 'a', "all", "all sessions of yours", seen.all));
  options.push_back(flag_option("Options", 'h', "help", "this page", seen.help));
  return options;
}

std::string base64_decode(std::string_view text) {
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t value = alphabet.find(c);
    if (value == std::string_view::npos) continue;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 255);
  }
  return bytes;
}

// One question to one session, which may hang: two seconds.
Result<Json> ask(const SessionPlace& place, const SessionRecord& record, const Json& request, int seconds) {
  session::Connection connection(SBX_TRY(place.connect(record)));
  const timeval patience{seconds, 0};
  (void)::setsockopt(connection.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return ask_session(connection, request);
}

Json question(const char* op) { return Json::object().set("op", op); }

std::string duration(const Json& ms) {
  if (ms.is(Json::Kind::null)) return "-";
  const int64_t seconds = ms.integer() / 1000;
  if (seconds < 120) return std::to_string(seconds) + "s";
  if (seconds < 7200) return std::to_string(seconds / 60) + "m";
  return std::to_string(seconds / 3600) + "h";
}

int list(bool json) {
  const Result<SessionPlace> place = SessionPlace::open();
  if (!place.ok()) return fail_usage("session ls", place.error());
  const Result<std::vector<SessionRecord>> records = place.value().list();
  if (!records.ok()) return fail_usage("session ls", records.error());
  Json array = Json::array();
  std::vector<std::vector<std::string>> rows = {{"ID", "NAME", "LANGUAGE", "STATE", "CELLS", "AGE", "TTL", "IDLE", "MEMORY"}};
  for (const SessionRecord& record : records.value()) {
    const Result<Json> answer = ask(place.value(), record, question("show"), 2);
    if (!answer.ok()) {
      rows.push_back({record.id, record.name.empty() ? "-" : record.name, record.language, "no answer"});
      array.add(Json::object().set("id", record.id).set("name", record.name.empty() ? Json() : Json(record.name)).set("language", record.language).set("state", "no answer"));
      continue;
    }
    const Json& now = answer.value();
    array.add(now);
    const int64_t age = std::max<int64_t>(0, static_cast<int64_t>(::time(nullptr)) - record.created);  // the clock may have been set back
    const std::string kept = now.at("keeps_state").boolean() ? "" : " (files only)";
    rows.push_back({record.id, record.name.empty() ? "-" : record.name, record.language + kept, now.at("state").text(),
                    std::to_string(now.at("cells").integer()), duration(Json(age * 1000)), duration(now.at("ttl_left_ms")), duration(now.at("idle_left_ms")),
                    std::to_string(now.at("resident_bytes").integer() >> 20) + "M"});
  }
  if (json) return print_or_fail(array.dump(2) + "\n");
  return print_or_fail(rows.size() == 1 ? "no sessions; sbx session start makes one\n" : table(rows));
}

// The sessions that the words name, or all.
Result<std::vector<SessionRecord>> chosen(const SessionPlace& place, const std::vector<std::string>& words, bool all) {
  if (all) {
    SBX_TRY(place.await_announced());
    return place.list();
  }
  if (words.empty()) return Error(ErrorKind::usage, "which session?").with_hint("give an id or a name; sbx session ls lists them");
  std::vector<SessionRecord> records;
  records.reserve(words.size());
  for (const std::string& word : words) records.push_back(SBX_TRY(place.find(word)));
  return records;
}

// `op` at each of them; `show` is told of each answer.
int at_each(const char* name, const char* op, int seconds, const std::vector<std::string>& words, bool all,
            const std::function<int(const SessionRecord&, const Json&)>& show) {
  const Result<SessionPlace> place = SessionPlace::open();
  if (!place.ok()) return fail_usage(name, place.error());
  const Result<std::vector<SessionRecord>> records = chosen(place.value(), words, all);
  if (!records.ok()) return fail_usage(name, records.error());
  int status = 0;
  for (const SessionRecord& record : records.value()) {
    const Result<Json> answer = ask(place.value(), record, question(op), seconds);
    const int one = answer.ok() ? show(record, answer.value()) : fail_usage(name, answer.error());
    if (status == 0) status = one;
  }
  return status;
}

int say_notes(const SessionRecord&, const Json& answer) {
  for (const Json& note : answer.at("notes").items()) say(note.text());
  return 0;
}

// ---- verbs ---------------------------------------------------------------------------------------------------------

struct Verb {
  const char* name;
  const char* usage;
  const char* about;
  const char* example;
  bool json, all;
  size_t least, most;  // arguments
  int (*run)(const std::vector<std::string>& words, const VerbOptions& seen);
};

// What programs printed hours ago must not steer the terminal of whoever looks at it now.
std::string for_terminal(const std::string& log) {
  std::string text;
  for (size_t begin = 0; begin < log.size();) {
    const size_t end = std::min(log.find_first_of("\n\t", begin), log.size());
    text += printable(std::string_view(log).substr(begin, end - begin), log.size());
    if (end < log.size()) text += log[end];
    begin = end + 1;
  }
  return text;
}

int do_list(const std::vector<std::string>&, const VerbOptions& seen) { return list(seen.json); }
int do_show(const std::vector<std::string>& words, const VerbOptions&) {
  return at_each("session show", "show", 5, words, false, [](const SessionRecord&, const Json& answer) { return print_or_fail(answer.dump(2) + "\n"); });
}
int do_logs(const std::vector<std::string>& words, const VerbOptions&) {
  return at_each("session logs", "logs", 5, words, false, [](const SessionRecord&, const Json& answer) {
    const std::string log = base64_decode(answer.at("log").text());
    return print_or_fail(::isatty(STDOUT_FILENO) == 1 ? for_terminal(log) : log);
  });
}
int do_interrupt(const std::vector<std::string>& words, const VerbOptions&) {
  return at_each("session interrupt", "interrupt", 5, words, false, [](const SessionRecord&, const Json& answer) {
    if (!answer.at("interrupted").boolean()) say("nothing runs there");
    return 0;
  });
}
int do_restart(const std::vector<std::string>& words, const VerbOptions&) {
  return at_each("session restart", "restart", 5, words, false, [](const SessionRecord&, const Json&) { return 0; });
}
int do_stop(const std::vector<std::string>& words, const VerbOptions& seen) { return at_each("session stop", "stop", 30, words, seen.all, say_notes); }
int do_gc(const std::vector<std::string>&, const VerbOptions&) {
  const Result<SessionPlace> place = SessionPlace::open();
  if (!place.ok()) return fail_usage("session gc", place.error());
  size_t reaped = 0;
  const Result<std::vector<SessionRecord>> left = place.value().list(&reaped);
  if (!left.ok()) return fail_usage("session gc", left.error());
  return print_or_fail(std::to_string(reaped) + " dead, " + std::to_string(left.value().size()) + " alive\n");
}

constexpr Verb kOwn[] = {
    {"session ls", "usage: sbx session ls [--json]", "The sessions of yours that live.", "sbx session ls", true, false, 0, 0, do_list},
    {"session show", "usage: sbx session show ID", "What there is to know of a session, as JSON: state, limits and what holds them, time left, memory.",
     "sbx session show work", false, false, 1, 1, do_show},
    {"session logs", "usage: sbx session logs ID", "The last 256 KiB of what its programs printed, stdout and stderr together, background processes included.",
     "sbx session logs work", false, false, 1, 1, do_logs},
    {"session interrupt", "usage: sbx session interrupt ID",
     "Interrupts the cell that runs, as Ctrl-C would. What does not obey in three seconds, or is interrupted twice, is killed\nand loses the session's state.",
     "sbx session interrupt work", false, false, 1, 1, do_interrupt},
    {"session restart", "usage: sbx session restart ID", "Ends every process of a session and starts its interpreter anew: files stay, variables go.",
     "sbx session restart work", false, false, 1, 1, do_restart},
    {"session stop", "usage: sbx session stop ID... | --all", "Ends sessions. Nothing of them is left: what shall stay is copied out first (sbx cp, sbx session save).",
     "sbx session stop work", false, true, 0, SIZE_MAX, do_stop},
    {"session rm", "usage: sbx session rm ID... | --all", "The same as stop: a session that has ended leaves nothing behind.", "sbx session rm --all", false, true, 0, SIZE_MAX, do_stop},
    {"session gc", "usage: sbx session gc", "Takes away what sessions left whose supervisor was killed. Every other session command does so as well.",
     "sbx session gc", false, false, 0, 0, do_gc},
};

template <size_t kIndex>
Result<Page> own_page() {
  const Verb& verb = kOwn[kIndex];
  VerbOptions unused;
  return Page{verb.usage, verb.about, verb_options(unused, verb.json, verb.all), {{"Options", verb.example}}, verb.most > 0 ? ValueKind::session : ValueKind::text};
}

template <size_t kIndex>
int own_command(const Invocation& invocation) {
  const Verb& verb = kOwn[kIndex];
  VerbOptions seen;
  const Result<std::vector<std::string>> words = parse_options_anywhere(verb_options(seen, verb.json, verb.all), invocation.arguments(3));
  if (!words.ok()) return fail_usage(verb.name, words.error());
  if (seen.help) return show_help(own_page<kIndex>);
  if (words.value().size() > verb.most) {
    return fail_usage(verb.name, Error(ErrorKind::usage, std::string("sbx ") + verb.name + " takes no argument '" + printable(words.value()[verb.most]) + "'"));
  }
  if (words.value().size() < verb.least) {
    return fail_usage(verb.name, Error(ErrorKind::usage, "which session?").with_hint("give an id or a name; sbx session ls lists them"));
  }
  return verb.run(words.value(), seen);
}

constexpr Command kVerbs[] = {
    {"session start", "start one, and print its id", session_start_command, session_start_page},
    {"session warm", "start some ahead, for the next start", session_warm_command, session_warm_page},
    {"session run", "run a cell in it", session_run_command, session_run_page},
    {"session exec", "run a further program in its sandbox", session_exec_command, session_exec_page},
    {"session attach", "type cells", session_attach_command, session_attach_page},
    {"session ls", "the sessions that live", own_command<0>, own_page<0>},
    {"session show", "one of them, in full", own_command<1>, own_page<1>},
    {"session logs", "what its programs printed", own_command<2>, own_page<2>},
    {"session interrupt", "Ctrl-C for the cell that runs", own_command<3>, own_page<3>},
    {"session restart", "files stay, variables go", own_command<4>, own_page<4>},
    {"session stop", "end it", own_command<5>, own_page<5>},
    {"session rm", "the same", own_command<6>, own_page<6>},
    {"session gc", "take away what dead ones left", own_command<7>, own_page<7>},
    {"session save", "its files to an archive", session_save_command, session_save_page},
    {"session restore", "the files of an archive into it", session_restore_command, session_restore_page},
};
constexpr size_t kVerbAt = std::string_view("session ").size();

}  // namespace

std::span<const Command> session_verbs() { return kVerbs; }

Result<Page> session_page() {
  VerbOptions unused;
  std::string about = "A session is a sandbox that stays: cell after cell runs in it, and finds what the last one left. docs/sessions.md tells more.\n";
  for (const Command& verb : kVerbs) {
    std::string name = verb.name + kVerbAt;
    name.append(name.size() < 10 ? 10 - name.size() : 1, ' ');
    about += "\n  " + name + verb.summary;
  }
  return Page{"usage: sbx session VERB ...", about + "\n\nsbx session VERB --help tells more of one.", verb_options(unused, false, false),
              {{"Options", "sbx session start --name work && sbx session run work -c 'x = 42' && sbx session run work -c x"}}};
}

int session_command(const Invocation& invocation) {
  const std::vector<std::string> words = invocation.arguments();
  const std::string word = words.empty() ? "" : words[0];
  if (word == "-h" || word == "--help") return show_help(session_page);
  std::vector<std::string> names;
  for (const Command& verb : kVerbs) {
    if (word == verb.name + kVerbAt) return verb.run(invocation);
    names.emplace_back(verb.name + kVerbAt);
  }
  Error error(ErrorKind::usage, "which one: sbx session " + join(names, ", ") + "?");
  if (!word.empty() && word[0] == '-') {
    error = Error(ErrorKind::usage, "unknown option '" + printable(word) + "'").with_hint("options follow the verb, as in: sbx session start --help");
  } else if (!word.empty()) {
    const std::string near = did_you_mean(word, names);
    error = Error(ErrorKind::usage, "unknown command 'session " + printable(word) + "'" + (near.empty() ? "" : ": did you mean 'session " + near + "'?"));
  }
  if (error.hint().empty()) error = std::move(error).with_hint("for instance: sbx session start");
  return fail_usage("session", error);
}

}  // namespace sbx::cli
