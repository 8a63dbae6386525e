#include <doctest/doctest.h>

#include <set>

#include "policy/loader.h"

using namespace sbx;

namespace {

constexpr const char* kMinimal =
    "name = \"awk\"\n"
    "source_name = \"main.awk\"\n"
    "commands = [\"awk\"]\n"
    "version_argv = [\"{tool}\", \"-W\", \"version\"]\n"
    "run_argv = [\"{tool}\", \"-f\", \"{src}\", \"{args}\"]\n";

// The minimal text with one line in place of the one that begins with `key`.
std::string with(const std::string& key, const std::string& line) {
  std::string text = kMinimal;
  const size_t begin = text.find(key + " =");
  if (begin == std::string::npos) return line + "\n" + text;
  return text.substr(0, begin) + line + text.substr(text.find('\n', begin));
}

struct BadCase {
  std::string text;
  const char* origin;
  const char* message;
  const char* hint;
};

}  // namespace

TEST_CASE("a language text becomes a runner with defaults for what it leaves out") {
  const Result<RunnerSpec> runner = parse_runner_toml(kMinimal, "awk.toml");
  REQUIRE_MESSAGE(runner.ok(), runner.error().text());
  CHECK(runner.value().name == "awk");
  CHECK(runner.value().title == "awk");
  CHECK(runner.value().origin == "awk.toml");
  CHECK_FALSE(runner.value().compile.has_value());
  CHECK(runner.value().run_argv == std::vector<std::string>{"{tool}", "-f", "{src}", "{args}"});
}

TEST_CASE("braces that hold no placeholder stay text") {
  CHECK(parse_runner_toml(with("run_argv", "run_argv = [\"{tool}\", \"{ print }\", \"{}\"]"), "x.toml").ok());
}

TEST_CASE("a language text that is wrong is refused with its place") {
  const BadCase cases[] = {
      {with("nmae", "nmae = \"x\""), "x.toml:1:1", "unknown key \"nmae\"", "did you mean \"name\"?"},
      {with("run_argv", ""), "x.toml", "the key \"run_argv\" is missing", "add it"},
      {with("name", "name = \"Two Words\""), "x.toml:1:8", "no name of a language", "lower case"},
      {with("name", "name = 3"), "x.toml:1:8", "name is a text", "quotes"},
      {with("source_name", "source_name = \"../x\""), "x.toml:2:15", "no file name", "main.py"},
      {with("commands", "commands = []"), "x.toml:3:12", "commands is empty", ""},
      {with("commands", "commands = [\"/usr/bin/awk\"]"), "x.toml:3:12", "no command name", "--toolchain"},
      {with("commands", "commands = \"awk\""), "x.toml:3:12", "list of texts", "[\"…\"]"},
      {with("run_argv", "run_argv = [\"{tol}\"]"), "x.toml:5:13", "unknown placeholder \"{tol}\"", "{tool}"},
      {with("run_argv", "run_argv = [\"{out}\"]"), "x.toml:5:13", "unknown placeholder \"{out}\"", "{src}"},
      {with("run_argv", "run_argv = [\"x{args}\"]"), "x.toml:5:13", "must be a word of its own", ""},
      {with("run_argv", "run_argv = []"), "x.toml:5:12", "run_argv is empty", ""},
      {with("extensions", "extensions = [\"py\"]"), "x.toml:1:14", "no file extension", "with its dot"},
      {with("steering_files", "steering_files = [\"../x\"]"), "x.toml:1:18", "no file name", ""},
      {std::string(kMinimal) + "[compile]\nargv = []\n", "x.toml:6:1", "compile without argv", ""},
      {std::string(kMinimal) + "[compile]\nargv = [\"{args}\"]\n", "x.toml:7:9", "unknown placeholder", "{flags}"},
      {std::string(kMinimal) + "[plots]\nfiles = [\"other.py\"]\n", "x.toml:7:9", "none of the hooks", ""},
      {std::string(kMinimal) + "[plots]\nhook = 1\n", "x.toml:7:1", "unknown key", "files"},
      {std::string(kMinimal) + "[[hints]]\npattern = \"x\"\n", "x.toml:6:1", "needs pattern and hint", ""},
      {with("uses", "uses = [\"awk\"]"), "x.toml:1:8", "no other language", ""},
      {with("hooks", "hooks = [\"jvm-main-clas\"]"), "x.toml:1:10", "no hook", "did you mean \"jvm-main-class\"?"},
      {with("hooks", "hooks = [\"jvm-main-class\"]"), "x.toml:1:9", "needs a compile step", ""},
      {with("run_argv", "run_argv = [\"{tool:lua}\"]"), "x.toml:5:13", "not used", "add uses = [\"lua\"]"},
      {with("run_argv", "run_argv = [\"{memory_mb:0}\"]"), "x.toml:5:13", "unknown placeholder", "{memory_mb}"},
      {with("run_argv", "run_argv = [\"{tool}\", \"{prepared}\"]"), "x.toml:5:23", "unknown placeholder", ""},
      {with("run_argv", "run_argv = [\"{tool}\", \"{srcs}\"]"), "x.toml:5:23", "unknown placeholder", "did you mean \"{src}\"?"},
      {std::string(kMinimal) + "[environment]\nA = \"{args}\"\n", "x.toml:7:5", "unknown placeholder", "{src}"},
      {std::string(kMinimal) + "[prepare]\nargv = []\n", "x.toml:6:1", "prepare without argv", ""},
      {std::string(kMinimal) + "[limits]\nmemroy = 1\n", "x.toml:7:1", "unknown key \"limits.memroy\"", "limits.memory"},
      {std::string(kMinimal) + "[[alternative]]\nrun_argv = [\"x\"]\n", "x.toml:6:1", "names its commands", ""},
      {std::string(kMinimal) + "[[alternative]]\ncommands = [\"x\"]\nname = \"y\"\n", "x.toml:8:1", "unknown key \"name\"", ""},
      {std::string(kMinimal) + "[[hints]]\npattern = \"x\"\nhint = \"y\"\nraise = \"memry\"\n", "x.toml:9:9", "no limit", ""},
      {std::string(kMinimal) + "[environment]\nA = 1\n", "x.toml:7:5", "A is a text", ""},
  };
  for (const BadCase& bad : cases) {
    CAPTURE(bad.text);
    const Result<RunnerSpec> runner = parse_runner_toml(bad.text, "x.toml");
    REQUIRE_FALSE(runner.ok());
    CAPTURE(runner.error().text());
    CAPTURE(runner.error().hint());
    CHECK(runner.error().kind() == ErrorKind::policy);
    CHECK(runner.error().origin() == bad.origin);
    CHECK(runner.error().text().find(bad.message) != std::string::npos);
    CHECK(runner.error().hint().find(bad.hint) != std::string::npos);
  }
}

TEST_CASE("an alternative is the language with other tools") {
  const Result<RunnerSpec> runner = parse_runner_toml(
      std::string(kMinimal) + "[compile]\nargv = [\"{tool}\", \"-o\", \"{out}\", \"{sources}\", \"{flags}\"]\n"
      "[limits]\nmemory = \"2G\"\n[[alternative]]\ncommands = [\"mawk\"]\ncompile = false\n", "x.toml");
  REQUIRE_MESSAGE(runner.ok(), runner.error().text());
  CHECK(runner.value().compile.has_value());
  CHECK(runner.value().limits.values.at("limits.memory").origin == "x.toml:9:1");
  REQUIRE(runner.value().alternatives.size() == 1);
  const RunnerSpec& other = runner.value().alternatives[0];
  CHECK(other.name == "awk");
  CHECK(other.commands == std::vector<std::string>{"mawk"});
  CHECK(other.run_argv == runner.value().run_argv);
  CHECK_FALSE(other.compile.has_value());
  CHECK(other.alternatives.empty());
}

TEST_CASE("the shipped languages are complete and do not claim each other's names") {
  const Result<std::vector<RunnerSpec>> runners = load_runners({});
  REQUIRE_MESSAGE(runners.ok(), runners.error().text());
  std::set<std::string> names;
  std::set<std::string> extensions;
  std::set<std::string> interpreters;
  for (const RunnerSpec& runner : runners.value()) {
    CAPTURE(runner.name);
    CHECK(names.insert(runner.name).second);
    for (const std::string& alias : runner.aliases) CHECK(names.insert(alias).second);
    for (const std::string& extension : runner.extensions) CHECK(extensions.insert(extension).second);
    for (const std::string& interpreter : runner.interpreters) CHECK(interpreters.insert(interpreter).second);
    for (const auto& [distribution, package] : runner.packages) CHECK_FALSE(package.empty());
    CHECK(runner.source_name.find('.') != std::string::npos);
  }
  // The rest may be without: some have no package there, and some share another's extension (Deno, Jython).
  const std::set<std::string> fifteen = {"python", "javascript", "typescript", "bash", "sh", "c", "cpp", "java", "go", "rust",
                                         "ruby", "perl", "php", "lua", "r"};
  size_t complete = 0;
  for (const RunnerSpec& runner : runners.value()) {
    if (fifteen.count(runner.name) == 0) continue;
    CAPTURE(runner.name);
    CHECK_FALSE(runner.extensions.empty());
    for (const char* distribution : {"debian", "fedora"}) CHECK(runner.packages.count(distribution) == 1);
    ++complete;
  }
  CHECK(complete == fifteen.size());
  for (const char* name : {"py", "js", "c++"}) CHECK(names.count(name) == 1);
  CHECK(extensions.count(".py") == 1);
  CHECK(extensions.count(".cpp") == 1);
}
