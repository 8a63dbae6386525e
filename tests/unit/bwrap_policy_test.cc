// A stored bwrap argument file as a policy layer: the words of both forms, what options become, mistakes with their place.
#include <doctest/doctest.h>

#include <algorithm>

#include "policy/bwrap/policy_file.h"
#include "policy/bwrap/words.h"

using namespace sbx;
using namespace sbx::bwrap;

namespace {

Surroundings around() {
  Surroundings made;
  made.uid = 1001, made.gid = 1002;
  made.directory = "/home/u/project";
  made.home = "/home/u";
  made.environment = {{"PATH", "/usr/bin"}, {"HOME", "/home/u"}, {"BASH_FUNC_x%%", "() { :; }"}, {"KEY", "secret"}};
  made.is_directory = [](const std::string& path) { return path == "/home/u/project" || path == "/usr/share"; };
  return made;
}

PolicyLayer layer_of(const std::string& text) {
  ParsedPolicy parsed = read_policy(text, "p.bwrap", around());
  CAPTURE(text);
  for (const Error& error : parsed.mistakes) FAIL_CHECK(error.text());
  return std::move(parsed.layer);
}

std::string mistake_of(const std::string& text) {
  const ParsedPolicy parsed = read_policy(text, "p.bwrap", around());
  if (parsed.mistakes.empty()) return "(none)";
  return parsed.mistakes.front().origin() + " | " + parsed.mistakes.front().text();
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> texts;
  const Result<std::vector<Word>> words = read_words(text, "x");
  if (!words.ok()) return {"error: " + words.error().text()};
  for (const Word& word : words.value()) texts.push_back(word.text);
  return texts;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("words of the text form are a shell's") {
  CHECK(words_of("a  b\tc\n d\r\n") == Words{"a", "b", "c", "d"});
  CHECK(words_of("'a b' \"c d\" e\\ f g'h'\"i\"") == Words{"a b", "c d", "e f", "ghi"});
  CHECK(words_of("'' \"\"") == Words{"", ""});
  CHECK(words_of("a # b 'c\nd#e") == Words{"a", "d#e"});
  CHECK(words_of("# only\n#\n") == Words{});
  CHECK(words_of("a \\\n b\\\nc") == Words{"a", "bc"});
  CHECK(words_of("\"a\\\"b\\\\c\\$d\\e\"") == Words{"a\"b\\c$d\\e"});
  CHECK(words_of("'a\nb'") == Words{"a\nb"});
  CHECK(words_of("a~b") == Words{"a~b"});
  CHECK(words_of("").empty());
}

TEST_CASE("what a shell would expand or obey is a mistake") {
  for (const char* text : {"$HOME", "a$b", "`id`", "~/x", "\"$A\"", "a;b", "a|b", "a>b", "a&", "(a)"}) {
    CAPTURE(text);
    CHECK_FALSE(read_words(text, "x").ok());
  }
  for (const char* text : {"'$HOME'", "\\$b", "'`id`'", "'~/x'", "\"\\$A\"", "'a;b'", "a\\|b"}) {
    CAPTURE(text);
    CHECK(read_words(text, "x").ok());
  }
  for (const char* text : {"'a", "\"a", "a\\"}) CHECK_FALSE(read_words(text, "x").ok());
}

TEST_CASE("a NUL anywhere makes it the form of --args") {
  using namespace std::string_view_literals;
  CHECK(words_of("a b\0# c\0\0'd'"sv) == Words{"a b", "# c", "", "'d'"});
  CHECK(words_of("a\0"sv) == Words{"a"});
  const Result<std::vector<Word>> words = read_words("a\0b\0"sv, "x");
  REQUIRE(words.ok());
  CHECK(place_of(words.value()[1], "x") == "x:1:2");
}

TEST_CASE("words know their place") {
  const Result<std::vector<Word>> words = read_words("a b\n  'c d' # e\nf", "x");
  REQUIRE(words.ok());
  REQUIRE(words.value().size() == 4);
  CHECK(place_of(words.value()[1], "x") == "x:1:3");
  CHECK(place_of(words.value()[2], "x") == "x:2:3");
  CHECK(place_of(words.value()[3], "x") == "x:3:1");
}

TEST_CASE("operations become the whole view, in their order") {
  const PolicyLayer layer = layer_of("--ro-bind /usr /usr --symlink usr/bin /bin --dev /dev --proc /proc\n--perms 0700 --tmpfs /tmp --size 4096 --tmpfs /s --dir a/b --bind . /w\n"
                                     "--overlay-src /srv --tmp-overlay /o --chmod 0711 /a/b");
  CHECK(layer.whole_view);
  REQUIRE(layer.mounts.size() == 10);
  const auto& usr = std::get<BindOp>(layer.mounts[0]);
  CHECK((usr.source == "/usr" && usr.target == "/usr" && usr.read_only && !usr.idmap && usr.origin == "p.bwrap:1:1"));
  CHECK(std::get<SymlinkOp>(layer.mounts[1]) == SymlinkOp{"/bin", "usr/bin"});
  CHECK(std::holds_alternative<DevOp>(layer.mounts[2]));
  CHECK(std::get<PrivateDirOp>(layer.mounts[3]).target == "/dev/shm");
  CHECK(std::holds_alternative<ProcOp>(layer.mounts[4]));
  CHECK(std::get<PrivateDirOp>(layer.mounts[5]) == PrivateDirOp{"/tmp", 0700});
  CHECK(std::get<TmpfsOp>(layer.mounts[6]).size == Bytes{4096});
  CHECK(std::get<DirOp>(layer.mounts[7]) == DirOp{"/a/b", 0711});
  const auto& work = std::get<BindOp>(layer.mounts[8]);
  CHECK((work.source == "/home/u/project" && work.target == "/w" && !work.read_only && work.idmap));
  CHECK(std::get<OverlayOp>(layer.mounts[9]).lower == "/srv");
}

TEST_CASE("without --proc there is one all the same: the engine looks through it") {
  const PolicyLayer layer = layer_of("--ro-bind /usr /usr");
  REQUIRE(layer.mounts.size() == 2);
  CHECK(std::holds_alternative<ProcOp>(layer.mounts[1]));
}

TEST_CASE("namespaces, ids and capabilities") {
  PolicyLayer layer = layer_of("--unshare-all --share-net --hostname box --uid 5 --new-session --cap-add CAP_KILL --cap-add cap_chown --cap-drop CAP_KILL");
  CHECK(std::get<std::string>(layer.values.at("net.mode").value) == "host");
  CHECK(layer.values.at("net.mode").origin == "p.bwrap:1:15");
  CHECK(std::get<bool>(layer.values.at("sandbox.ipc_namespace").value));
  CHECK(layer.values.at("sandbox.uts_namespace").origin == "p.bwrap:1:1");
  CHECK(std::get<uint64_t>(layer.values.at("sandbox.uid").value) == 5);
  CHECK(layer.values.count("sandbox.gid") == 0);
  CHECK(std::get<std::vector<std::string>>(layer.values.at("hardening.capabilities").value) == Words{"cap_chown"});
  layer = layer_of("--unshare-net");
  CHECK(std::get<std::string>(layer.values.at("net.mode").value) == "none");
  CHECK(layer.values.count("sandbox.ipc_namespace") == 0);
}

TEST_CASE("the environment is the caller's, changed in order") {
  using Map = std::map<std::string, std::string>;
  PolicyLayer layer = layer_of("--unsetenv KEY --setenv A 1");
  CHECK(std::get<Words>(layer.values.at("env.pass").value) == Words{"HOME", "PATH"});
  CHECK(std::get<Map>(layer.values.at("env.set").value) == Map{{"A", "1"}});
  layer = layer_of("--setenv A 1 --clearenv --setenv B 2");
  CHECK(std::get<Words>(layer.values.at("env.pass").value).empty());
  CHECK(std::get<Map>(layer.values.at("env.set").value) == Map{{"B", "2"}, {"PATH", "/bin:/usr/bin"}});
}

TEST_CASE("where a command begins") {
  CHECK(layer_of("--chdir /x").directory == "/x");
  CHECK(layer_of("--chdir x").directory == "/home/u/project/x");
  CHECK(layer_of("--bind /home /home").directory == "/home/u/project");
  CHECK(layer_of("--ro-bind / /").directory == "/home/u/project");
  CHECK(layer_of("--ro-bind / / --tmpfs /home").directory == "/");
  CHECK(layer_of("--tmpfs /home/u").directory == "/home/u");
  CHECK(layer_of("--ro-bind /usr /usr --setenv HOME /usr/share").directory == "/usr/share");
  CHECK(layer_of("--ro-bind /usr /usr --setenv HOME /usr/none").directory == "/");
}

TEST_CASE("bwrap's defaults take the place of sbx's, limits and filter stay") {
  PolicyLayer base;
  base.values["net.mode"] = {std::string("none"), "default policy"};
  base.values["limits.pids"] = {uint64_t{256}, "default policy"};
  base.values["env.set"] = {std::map<std::string, std::string>{{"USER", "sandbox"}}, "default policy"};
  make_base(base, around());
  CHECK(std::get<std::string>(base.values.at("net.mode").value) == "host");
  CHECK(std::get<uint64_t>(base.values.at("sandbox.uid").value) == 1001);
  CHECK(std::get<uint64_t>(base.values.at("sandbox.gid").value) == 1002);
  CHECK(std::get<uint64_t>(base.values.at("limits.pids").value) == 256);
  CHECK(std::get<std::map<std::string, std::string>>(base.values.at("env.set").value).empty());
  CHECK(base.values.count("seccomp.policy") == 0);
}

TEST_CASE("mistakes have a place; all refusals of a text are told") {
  CHECK(mistake_of("--ro-bind /usr") == "p.bwrap:1:1 | p.bwrap:1:1: --ro-bind takes SRC DEST");
  CHECK(mistake_of("--dir /a --perms 9 --dir /b").find("p.bwrap:1:10 ") == 0);
  CHECK(mistake_of("--overlay-src /a --overlay-src /b --dir /c").find("p.bwrap:1:35 ") == 0);
  CHECK(mistake_of("--overlay-src /a --overlay-src /b").find("p.bwrap:1:18 ") == 0);
  CHECK(mistake_of("--overlay-src /a --overlay-src /b --tmp-overlay /c").find("p.bwrap:1:35 ") == 0);
  CHECK(mistake_of("--proc /p").find("p.bwrap:1:1 ") == 0);
  CHECK(mistake_of("--chmod 0700 /nothing").find("p.bwrap:1:1 ") == 0);
  CHECK(read_policy("--info-fd 3 --dir /a --file 4 /x --as-pid-1", "p.bwrap", around()).mistakes.size() == 3);
  for (const char* option : {"--mqueue /x", "--lock-file /x", "--exec-label x", "--overlay-src /a --overlay /b /c /d", "--bind-fd 3 /x", "--level-prefix", "--version"}) {
    CAPTURE(option);
    CHECK(mistake_of(option) != "(none)");
  }
}

TEST_CASE("what stays open where bwrap runs the file is remarked, what is closed is not") {
  const auto remarked = [](const char* text) {
    Words names;
    for (const Risk& remark : layer_of(text).remarks) names.push_back(remark.name);
    return names;
  };
  // A file of options has no filter: bwrap takes it from a descriptor.
  CHECK(remarked("--unshare-all --unshare-user --disable-userns --new-session --die-with-parent --clearenv") == Words{"no-filter"});
  CHECK(remarked("--bind / /") == Words{"terminal-injection", "no-filter", "set-uid-programs", "host-processes", "nested-namespaces", "outlives", "whole-environment", "whole-host"});
}

TEST_CASE("findings are told in bwrap's words where a bwrap text is behind them") {
  PolicyLayer layer;
  layer.name = "p.bwrap";
  layer.remarks = {{"outlives", RiskSeverity::low, "what", "--die-with-parent", "p.bwrap"}};
  std::vector<Risk> risks = {{"host-ipc", RiskSeverity::medium, "what", "sandbox.ipc_namespace = true", "bwrap's default"},
                             {"host-ipc", RiskSeverity::medium, "what", "sandbox.ipc_namespace = true", "x.toml:1:1"}};
  in_words_of_bwrap(risks, layer);
  REQUIRE(risks.size() == 3);
  CHECK(risks[0].fix == "--unshare-ipc");
  CHECK(risks[1].fix == "sandbox.ipc_namespace = true");
  CHECK(risks[2].name == "outlives");
}

// A link there, found by fuzzing, counted as the sandbox's /proc: the program started, and was ended because nobody could
// watch it.
TEST_CASE("/proc is the sandbox's own, whatever else would stand there") {
  for (const char* text : {"--symlink usr /proc", "--tmpfs /proc", "--dir /proc/x", "--ro-bind /usr /proc", "--size 4096 --tmpfs /proc/", "--symlink usr //proc/../proc"}) {
    CAPTURE(text);
    CHECK(mistake_of(text).find("/proc is the sandbox's own") != std::string::npos);
  }
  for (const char* text : {"", "--dir /proc", "--proc /proc", "--dir /proc --proc /proc", "--proc /proc --remount-ro /proc", "--tmpfs /process"}) {
    const PolicyLayer layer = layer_of(text);
    CAPTURE(text);
    CHECK(std::any_of(layer.mounts.begin(), layer.mounts.end(), [](const FsOp& op) { return std::holds_alternative<ProcOp>(op); }));
  }
}
