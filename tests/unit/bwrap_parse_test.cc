// bubblewrap's command line: every option, every error, the order of things. tests/integration/bwrap_cases.py carries it out.
#include <doctest/doctest.h>

#include <cerrno>
#include <map>
#include <set>

#include "policy/bwrap/parse.h"

using namespace sbx;
using namespace sbx::bwrap;

namespace {

std::map<int, std::string> files;  // what lies behind descriptors; a test that uses them fills it first

Parsed parsed(const std::vector<std::string>& words) {
  return parse(words, {.read_fd = [](int fd) -> Result<std::string> {
    const auto found = files.find(fd);
    if (found == files.end()) return Error::from_errno(EBADF, "read");
    return found->second;
  }});
}

Options options_of(const std::vector<std::string>& words) {
  const Parsed done = parsed(words);
  CAPTURE(words);
  CHECK(done.messages.empty());
  CHECK(done.what == Parsed::What::run);
  return done.options;
}

std::string error_of(const std::vector<std::string>& words) {
  const Parsed done = parsed(words);
  if (done.what != Parsed::What::failed || done.messages.empty() || !done.messages.back().error) return "(no error)";
  return done.messages.back().text;
}

std::vector<std::string> warnings_of(const std::vector<std::string>& words) {
  std::vector<std::string> texts;
  for (const Message& message : parsed(words).messages) {
    CHECK_FALSE(message.error);
    texts.push_back(message.text);
  }
  return texts;
}

const Operation& only(const Options& options) {
  REQUIRE(options.operations.size() == 1);
  return options.operations[0];
}

std::string nul(const std::vector<std::string>& words) {
  std::string bytes;
  for (const std::string& word : words) bytes += word + '\0';
  return bytes;
}

}  // namespace

TEST_CASE("bwrap: COMMAND begins at the first word that is no option, or behind --") {
  CHECK(options_of({"ls", "--bind"}).command == std::vector<std::string>{"ls", "--bind"});
  CHECK(options_of({"--", "--dev-bind", "x"}).command == std::vector<std::string>{"--dev-bind", "x"});
  CHECK(options_of({"--new-session", "--", "--", "x"}).command == std::vector<std::string>{"--", "x"});
  CHECK(options_of({"", "x"}).command == std::vector<std::string>{"", "x"});
  CHECK(options_of({"--new-session"}).command.empty());
  CHECK(error_of({"-"}) == "Unknown option -");
  CHECK(error_of({"--unshare"}) == "Unknown option --unshare");
  CHECK(error_of({"--bind=/a", "/b"}) == "Unknown option --bind=/a");
}

TEST_CASE("bwrap: --help and --version end the parse where they stand") {
  CHECK(parsed({"--help", "--nonsense"}).what == Parsed::What::help);
  CHECK(parsed({"--bind", "/", "/", "--version"}).what == Parsed::What::version);
  CHECK(error_of({"--nonsense", "--help"}) == "Unknown option --nonsense");
  CHECK(parsed({"ls", "--help"}).what == Parsed::What::run);
}

TEST_CASE("bwrap: help names how it was called, and every option that is 0.12.0's") {
  const std::string text = help_text("/x/bwrap");
  CHECK(text.rfind("usage: /x/bwrap [OPTIONS...] [--] COMMAND [ARGS...]\n\n", 0) == 0);
  size_t shown = 0;
  for (const OptionRow& row : option_table()) {
    CAPTURE(row.name);
    CHECK((text.find(std::string("    ") + row.name + " ") != std::string::npos) == !row.hidden);
    shown += row.hidden ? 0 : 1;
  }
  CHECK(shown == 68);
  CHECK(text.find("--overlay-opt") == std::string::npos);
}

TEST_CASE("bwrap: each flag sets its field") {
  CHECK(options_of({"--unshare-user"}).unshare_user);
  CHECK(options_of({"--unshare-user-try"}).unshare_user_try);
  CHECK(options_of({"--unshare-ipc"}).unshare_ipc);
  CHECK(options_of({"--unshare-pid"}).unshare_pid);
  CHECK(options_of({"--unshare-net"}).unshare_net);
  CHECK(options_of({"--unshare-uts"}).unshare_uts);
  CHECK(options_of({"--unshare-cgroup"}).unshare_cgroup);
  CHECK(options_of({"--unshare-cgroup-try"}).unshare_cgroup_try);
  CHECK(options_of({"--disable-userns"}).disable_userns);
  CHECK(options_of({"--assert-userns-disabled"}).assert_userns_disabled);
  CHECK(options_of({"--new-session"}).new_session);
  CHECK(options_of({"--die-with-parent"}).die_with_parent);
  CHECK(options_of({"--as-pid-1"}).as_pid_1);
  CHECK(options_of({"--not-a-security-boundary"}).not_a_security_boundary);
  CHECK(options_of({"--level-prefix"}).level_prefix);
  const Options all = options_of({"--unshare-all"});
  CHECK((all.unshare_user_try && all.unshare_ipc && all.unshare_pid && all.unshare_net && all.unshare_uts && all.unshare_cgroup_try));
  CHECK_FALSE((all.unshare_user || all.unshare_cgroup));
}

TEST_CASE("bwrap: --share-net takes back what stands before it only") {
  CHECK_FALSE(options_of({"--unshare-all", "--share-net"}).unshare_net);
  CHECK(options_of({"--share-net", "--unshare-all"}).unshare_net);
}

TEST_CASE("bwrap: descriptors and ids are whole decimal numbers") {
  const std::map<std::string, int Options::*> fields = {
      {"--userns", &Options::userns_fd}, {"--userns2", &Options::userns2_fd}, {"--pidns", &Options::pidns_fd},
      {"--sync-fd", &Options::sync_fd}, {"--block-fd", &Options::block_fd}, {"--userns-block-fd", &Options::userns_block_fd},
      {"--info-fd", &Options::info_fd}, {"--json-status-fd", &Options::json_status_fd}, {"--seccomp", &Options::filter_fd}};
  for (const auto& [option, field] : fields) {
    CAPTURE(option);
    CHECK(options_of({option, "7"}).*field == 7);
    CHECK(options_of({option, "0"}).*field == 0);
    CHECK(error_of({option}) == option + " takes an argument");
    for (const char* bad : {"", "x", "7x", "-1", "0x7", "4294967303", "99999999999999999999"}) {
      CHECK(error_of({option, bad}) == std::string("Invalid fd: ") + bad);
    }
    const Parsed twice = parsed({option, "7", option, "8"});
    REQUIRE(twice.messages.size() == 1);
    CHECK(twice.messages[0].text == "Only the last " + option + " option will take effect");
    CHECK(twice.options.*field == 8);
  }
  CHECK(options_of({"--uid", "12"}).uid == 12u);
  CHECK(options_of({"--gid", "0"}).gid == 0u);
  CHECK(error_of({"--uid", "-3"}) == "Invalid uid: -3");
  CHECK(error_of({"--gid", "a"}) == "Invalid gid: a");
  CHECK(error_of({"--uid"}) == "--uid takes an argument");
}

TEST_CASE("bwrap: what was given twice takes effect once, with a warning; argv0 may not be given twice") {
  for (const std::string option : {"--chdir", "--hostname", "--uid", "--gid"}) {
    CHECK(warnings_of({option, "1", option, "2"}) == std::vector<std::string>{"Only the last " + option + " option will take effect"});
  }
  CHECK(parsed({"--chdir", "/a", "--chdir", "/b"}).options.chdir == "/b");
  CHECK(error_of({"--argv0", "a", "--argv0", "b"}) == "--argv0 used multiple times");
  CHECK(options_of({"--argv0", "a"}).argv0 == "a");
  CHECK(error_of({"--argv0"}) == "--argv0 takes one argument");
  CHECK(error_of({"--chdir"}) == "--chdir takes one argument");
}

TEST_CASE("bwrap: messages have their level from --level-prefix on") {
  const Parsed done = parsed({"--uid", "1", "--uid", "2", "--level-prefix", "--gid", "1", "--gid", "2", "--x"});
  REQUIRE(done.messages.size() == 3);
  CHECK_FALSE(done.messages[0].prefixed);
  CHECK((done.messages[1].prefixed && !done.messages[1].error));
  CHECK((done.messages[2].prefixed && done.messages[2].error));
}

TEST_CASE("bwrap: binds") {
  struct Row {
    const char* option;
    Access access;
    bool may_be_missing;
  };
  for (const Row& row : {Row{"--bind", Access::read_write, false}, Row{"--bind-try", Access::read_write, true},
                         Row{"--ro-bind", Access::read_only, false}, Row{"--ro-bind-try", Access::read_only, true},
                         Row{"--dev-bind", Access::devices, false}, Row{"--dev-bind-try", Access::devices, true}}) {
    CAPTURE(row.option);
    const Options options = options_of({row.option, "/a b", "c"});
    const Operation& op = only(options);
    CHECK(op.kind == OperationKind::bind);
    CHECK((op.source == "/a b" && op.dest == "c" && op.option == row.option));
    CHECK((op.access == row.access && op.may_be_missing == row.may_be_missing && op.fd == -1));
    CHECK(error_of({row.option, "/a"}) == std::string(row.option) + " takes two arguments");
  }
  const Options options = options_of({"--ro-bind-fd", "9", "/d"});
  CHECK((only(options).fd == 9 && only(options).source == "/proc/self/fd/9" && only(options).access == Access::read_only));
  CHECK(error_of({"--ro-bind-fd", "9"}) == "--bind-fd takes two arguments");
  CHECK(error_of({"--bind-fd", "x", "/d"}) == "Invalid fd: x");
}

TEST_CASE("bwrap: places and contents, with the permissions that they have by themselves") {
  struct Row {
    std::vector<std::string> words;
    OperationKind kind;
    int perms;
  };
  for (const Row& row : {Row{{"--proc", "/d"}, OperationKind::proc, -1}, Row{{"--dev", "/d"}, OperationKind::dev, -1},
                         Row{{"--tmpfs", "/d"}, OperationKind::tmpfs, 0755}, Row{{"--mqueue", "/d"}, OperationKind::mqueue, -1},
                         Row{{"--dir", "/d"}, OperationKind::dir, 0755}, Row{{"--file", "4", "/d"}, OperationKind::file, 0666},
                         Row{{"--bind-data", "4", "/d"}, OperationKind::data, 0600},
                         Row{{"--ro-bind-data", "4", "/d"}, OperationKind::data, 0600},
                         Row{{"--symlink", "t", "/d"}, OperationKind::symlink, -1},
                         Row{{"--remount-ro", "/d"}, OperationKind::remount_ro, -1},
                         Row{{"--chmod", "1777", "/d"}, OperationKind::chmod, 01777}}) {
    CAPTURE(row.words[0]);
    const Options options = options_of(row.words);
    CHECK((only(options).kind == row.kind && only(options).dest == "/d" && only(options).perms == row.perms));
    const std::vector<std::string> short_by_one(row.words.begin(), row.words.end() - 1);
    const std::string how_many = row.words.size() == 3 ? "two arguments" : row.words[0] == "--remount-ro" ? "one argument" : "an argument";
    CHECK(error_of(short_by_one) == row.words[0] + " takes " + how_many);
  }
  CHECK(only(options_of({"--ro-bind-data", "4", "/d"})).access == Access::read_only);
  CHECK(only(options_of({"--bind-data", "4", "/d"})).access == Access::read_write);
  CHECK(error_of({"--file", "-4", "/d"}) == "Invalid fd: -4");
  for (const char* bad : {"8", "10000", "", "x", "-1"}) CHECK(error_of({"--chmod", bad, "/d"}) == "--chmod takes an octal argument <= 07777");
}

TEST_CASE("bwrap: --perms and --size hold for the next option alone, in either order") {
  for (const char* option : {"--tmpfs", "--dir"}) CHECK(only(options_of({"--perms", "0700", option, "/d"})).perms == 0700);
  for (const char* option : {"--file", "--bind-data", "--ro-bind-data"}) {
    CHECK(only(options_of({"--perms", "04755", option, "3", "/d"})).perms == 04755);
  }
  for (const auto& words : {std::vector<std::string>{"--perms", "1", "--size", "0x10", "--tmpfs", "/d"},
                            std::vector<std::string>{"--size", "16", "--perms", "1", "--tmpfs", "/d"}}) {
    const Options options = options_of(words);
    CHECK((only(options).perms == 1 && only(options).size == 16));
  }
  const Options two = options_of({"--perms", "0700", "--dir", "/a", "--dir", "/b"});
  CHECK((two.operations[0].perms == 0700 && two.operations[1].perms == 0755));
  CHECK(error_of({"--perms", "1", "--perms", "2"}) == "--perms given twice for the same action");
  CHECK(error_of({"--size", "1", "--size", "2"}) == "--size given twice for the same action");
  CHECK(error_of({"--perms", "1", "--proc", "/p"}) == "--perms must be followed by an option that creates a file");
  CHECK(error_of({"--size", "1", "--dir", "/p"}) == "--size must be followed by --tmpfs");
  CHECK(error_of({"--perms", "9"}) == "--perms takes an octal argument <= 07777");
  CHECK(error_of({"--perms"}) == "--perms takes an argument");
  for (const char* bad : {"0", "", "-1", " 1", "+1", "1k", "18446744073709551616"}) {
    CAPTURE(bad);
    CHECK(error_of({"--size", bad, "--tmpfs", "/d"}) == "--size takes a non-zero number of bytes");
  }
  CHECK(error_of({"--size", "9223372036854775808"}) == "--size (for tmpfs) is limited to 9223372036854775807");
  CHECK(only(options_of({"--size", "9223372036854775807", "--tmpfs", "/d"})).size == 9223372036854775807u);
}

TEST_CASE("bwrap: overlays take the layers before them") {
  const Options options = options_of({"--overlay-src", "/1", "--overlay-src", "/2", "--overlay", "/rw", "/work", "/d"});
  const Operation& op = only(options);
  CHECK(op.lower == std::vector<std::string>{"/1", "/2"});
  CHECK((op.kind == OperationKind::overlay && op.source == "/rw" && op.work == "/work" && op.dest == "/d"));
  CHECK(only(options_of({"--overlay-src", "/1", "--tmp-overlay", "/d"})).kind == OperationKind::tmp_overlay);
  CHECK(only(options_of({"--overlay-src", "/1", "--overlay-src", "/1", "--ro-overlay", "/d"})).kind == OperationKind::ro_overlay);
  CHECK(error_of({"--overlay", "/a", "/b", "/c"}) == "--overlay requires at least one --overlay-src");
  CHECK(error_of({"--overlay", "/a", "/b"}) == "--overlay takes three arguments");
  CHECK(error_of({"--tmp-overlay", "/c"}) == "--tmp-overlay requires at least one --overlay-src");
  CHECK(error_of({"--overlay-src", "/1", "--ro-overlay", "/c"}) == "--ro-overlay requires at least two --overlay-src");
  const std::string dangling = "--overlay-src must be followed by another --overlay-src or one of --overlay, --tmp-overlay, or --ro-overlay";
  CHECK(error_of({"--overlay-src", "/1", "--bind", "/a", "/b"}) == dangling);
  CHECK(error_of({"--overlay-src", "/1"}) == dangling);
  CHECK(error_of({"--overlay-src"}) == dangling);
  CHECK(error_of({"--overlay-src", "/1", "cmd"}) == dangling);
  CHECK(warnings_of({"--overlay-src", "/1", "--overlay-opt", "metacopy=on", "--tmp-overlay", "/d"}).size() == 1);
}

TEST_CASE("bwrap: operations keep their order, and hostname is one") {
  const Options options = options_of({"--tmpfs", "/a", "--hostname", "h", "--bind", "/b", "/b", "--symlink", "x", "/c"});
  std::vector<OperationKind> kinds;
  for (const Operation& op : options.operations) kinds.push_back(op.kind);
  CHECK(kinds == std::vector<OperationKind>{OperationKind::tmpfs, OperationKind::hostname, OperationKind::bind, OperationKind::symlink});
  CHECK(options.hostname == "h");
}

TEST_CASE("bwrap: the environment changes in order; impossible names are refused") {
  const Options options = options_of({"--setenv", "A", "1", "--clearenv", "--unsetenv", "B", "--setenv", "C", "="});
  REQUIRE(options.environment.size() == 4);
  using Kind = EnvironmentChange::Kind;
  CHECK((options.environment[0].kind == Kind::set && options.environment[0].value == "1"));
  CHECK(options.environment[1].kind == Kind::clear);
  CHECK((options.environment[2].kind == Kind::unset && options.environment[2].name == "B"));
  CHECK((options.environment[3].name == "C" && options.environment[3].value == "="));
  CHECK(error_of({"--setenv", "A"}) == "--setenv takes two arguments");
  CHECK(error_of({"--setenv", "", "x"}) == "setenv failed");
  CHECK(error_of({"--setenv", "A=", "x"}) == "setenv failed");
  CHECK(error_of({"--unsetenv", "A=B"}) == "unsetenv failed");
}

TEST_CASE("bwrap: capabilities by libcap's names in any case, by number, or ALL; in order") {
  const Options options = options_of({"--cap-add", "ALL", "--cap-drop", "cap_sys_admin", "--cap-add", "CAP_Net_Raw", "--cap-add", "13"});
  REQUIRE(options.capabilities.size() == 4);
  CHECK((options.capabilities[0].add && options.capabilities[0].mask == ~uint64_t{0}));
  CHECK((!options.capabilities[1].add && options.capabilities[1].mask == uint64_t{1} << 21));
  CHECK(options.capabilities[2].mask == uint64_t{1} << 13);
  CHECK(options.capabilities[3].mask == uint64_t{1} << 13);
  CHECK(options_of({"--cap-add", "CAP_CHECKPOINT_RESTORE"}).capabilities[0].mask == uint64_t{1} << 40);
  for (const char* bad : {"NET_RAW", "cap_13", "", "41", "99999999999999999999", "13x", "cap_"}) {
    CHECK(error_of({"--cap-drop", bad}) == std::string("unknown cap: ") + bad);
  }
  CHECK(error_of({"--cap-add"}) == "--cap-add takes an argument");
}

TEST_CASE("bwrap: labels are not supported; debug switches are passed over") {
  CHECK(error_of({"--exec-label", "x"}) == "labeling not supported on this system");
  CHECK(error_of({"--file-label", "x"}) == "labeling not supported on this system");
  CHECK(error_of({"--exec-label"}) == "--exec-label takes an argument");
  CHECK(options_of({"--debug-opt=force-openat-fallback", "x"}).command.size() == 1);
}

TEST_CASE("bwrap: --args stands for what the descriptor holds") {
  files = {{5, nul({"--dir", "/a", "--symlink", "", "/b"})}, {6, std::string("--dir\0/c", 8)}, {7, nul({"--dir", "/d", "cmd", "--dir", "/e"})},
           {8, nul({"--args", "5"})}, {9, ""}, {10, nul({"--perms", "0700"})}, {11, nul({"--bogus"})}, {12, nul({"--", "--dir", "/x"})}};
  const Options options = options_of({"--dir", "/0", "--args", "5", "--args", "6", "--args", "9", "--dir", "/z", "cmd"});
  std::vector<std::string> dests;
  for (const Operation& op : options.operations) dests.push_back(op.dest);
  CHECK(dests == std::vector<std::string>{"/0", "/a", "/b", "/c", "/z"});
  CHECK(options.operations[2].source.empty());
  CHECK(options.command == std::vector<std::string>{"cmd"});
  // What follows the first word that is no option is dropped; COMMAND is never taken from there.
  CHECK(options_of({"--args", "7"}).operations.size() == 1);
  CHECK(options_of({"--args", "7"}).command.empty());
  CHECK(options_of({"--args", "12", "true"}).operations.empty());
  CHECK(error_of({"--args", "8"}) == "--args not supported in arguments file");
  CHECK(error_of({"--args", "99"}) == "Can't read --args data: Bad file descriptor");
  CHECK(error_of({"--args", "x"}) == "Invalid fd: x");
  CHECK(error_of({"--args"}) == "--args takes an argument");
  CHECK(error_of({"--args", "11"}) == "Unknown option --bogus");
  // A modifier does not reach out of its file, nor into one whose first option is no target of it.
  CHECK(error_of({"--args", "10", "--dir", "/d"}) == "--perms must be followed by an option that creates a file");
  CHECK(only(options_of({"--perms", "0711", "--args", "6"})).perms == 0711);
}

TEST_CASE("bwrap: 9000 words in all, COMMAND's and those of files among them") {
  const std::vector<std::string> most(kMaxWords, "x");
  CHECK(options_of(most).command.size() == kMaxWords);
  std::vector<std::string> more = most;
  more.emplace_back("x");
  CHECK(error_of(more) == "Exceeded maximum number of arguments 9000");
  files = {{5, nul(std::vector<std::string>(kMaxWords - 3, "--new-session"))}, {6, nul(std::vector<std::string>(kMaxWords - 2, "--new-session"))}};
  CHECK(options_of({"--args", "5", "x"}).new_session);
  CHECK(error_of({"--args", "6", "x"}) == "Exceeded maximum number of arguments 9000");
}

TEST_CASE("bwrap: seccomp programs are read whole, and the two options exclude each other") {
  files = {{5, std::string(16, 'a')}, {6, std::string(8, 'b')}, {7, "short"}};
  CHECK(options_of({"--add-seccomp-fd", "5", "--add-seccomp-fd", "6"}).filters == std::vector<std::string>{files[5], files[6]});
  CHECK(error_of({"--add-seccomp-fd", "7"}) == "Invalid seccomp data, must be multiple of 8");
  CHECK(error_of({"--add-seccomp-fd", "8"}) == "Can't read seccomp data: Bad file descriptor");
  CHECK(error_of({"--seccomp", "5", "--add-seccomp-fd", "6"}) == "--add-seccomp-fd cannot be combined with --seccomp");
  CHECK(error_of({"--add-seccomp-fd", "6", "--seccomp", "5"}) == "--seccomp cannot be combined with --add-seccomp-fd");
}

TEST_CASE("bwrap: what options need and exclude") {
  const auto clash = [](const std::vector<std::string>& words) { return check_combinations(options_of(words)); };
  CHECK(clash({"--userns-block-fd", "3"}) == "--userns-block-fd requires --unshare-user");
  CHECK(clash({"--userns-block-fd", "3", "--unshare-user"}) == "--userns-block-fd requires --info-fd");
  CHECK(clash({"--userns-block-fd", "3", "--unshare-user", "--info-fd", "4"}).empty());
  CHECK(clash({"--userns", "3", "--unshare-user"}) == "--userns is not compatible with --unshare-user");
  CHECK(clash({"--userns", "3", "--unshare-all"}) == "--userns is not compatible with --unshare-user-try");
  CHECK(clash({"--disable-userns", "--unshare-user-try"}) == "--disable-userns requires --unshare-user");
  CHECK(clash({"--disable-userns", "--unshare-user", "--userns-block-fd", "3", "--info-fd", "4"}) ==
        "--disable-userns is not compatible with --userns-block-fd");

  const auto wrong = [](const std::vector<std::string>& words, bool user) { return check_identity(options_of(words), user, 0, 0); };
  CHECK(wrong({"--uid", "5"}, false) == "Specifying --uid requires --unshare-user or --userns");
  CHECK(wrong({"--gid", "5"}, false) == "Specifying --gid requires --unshare-user or --userns");
  CHECK(wrong({"--uid", "0", "--gid", "0"}, false).empty());
  CHECK(wrong({"--uid", "5", "--gid", "5"}, true).empty());
  CHECK(wrong({"--uid", "5", "--userns", "3"}, false).empty());
  CHECK(wrong({"--hostname", "h"}, true) == "Specifying --hostname requires --unshare-uts");
  CHECK(wrong({"--as-pid-1"}, true) == "Specifying --as-pid-1 requires --unshare-pid");
  CHECK(wrong({"--as-pid-1", "--unshare-pid", "--lock-file", "/l"}, true) == "Specifying --as-pid-1 and --lock-file is not permitted");
  CHECK(wrong({"--as-pid-1", "--unshare-pid"}, true).empty());
}

TEST_CASE("bwrap: every row of the table is taken, and says what it needs") {
  std::set<std::string> names;
  for (const OptionRow& row : option_table()) {
    CAPTURE(row.name);
    CHECK(names.insert(row.name).second);
    const std::string name = row.name;
    CHECK(is_option(name) == (name != "--help" && name != "--version"));
    if (row.arguments[0] == '\0') continue;
    const std::string error = error_of({name});
    CHECK(error != "Unknown option " + name);
    CHECK(error != "(no error)");
  }
  CHECK_FALSE(is_option("--lang"));
  CHECK(is_option("--debug-opt=x"));
}
