#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/complete.h"
#include "cli/output.h"
#include "cli/result_file.h"
#include "cli/run_options.h"
#include "policy/loader.h"
#include "policy/reference.h"
#include "runtime/hint_reference.h"

using namespace sbx;
using namespace sbx::cli;
using namespace sbx::runtime;

namespace {

struct Line {
  RunRequest request;
  FrontOptions front;
  Status status;

  explicit Line(std::vector<std::string> words, bool exec = false) { status = parse_run(exec, words, request, front); }
};

std::string why(const Line& line) { return line.status.ok() ? "fine" : line.status.error().text(); }

struct TemporaryDirectory {
  std::string path;
  TemporaryDirectory() {
    char name[] = "/tmp/sbx-cli-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    path = name;
  }
  ~TemporaryDirectory() { (void)::system(("rm -rf " + shell_quote(path)).c_str()); }
};

}  // namespace

TEST_CASE("options end at FILE, everything after it is the payload's") {
  const Line line({"--memory", "2G", "-q", "main.py", "--memory", "1", "--", "-c"});
  REQUIRE(why(line) == "fine");
  CHECK(line.front.quiet);
  CHECK(line.request.program.kind == ProgramSource::Kind::file);
  CHECK(line.request.program.value == "main.py");
  CHECK(line.request.arguments == std::vector<std::string>{"--memory", "1", "--", "-c"});
  CHECK(line.request.invocation_insert == 3);
  CHECK(line.request.flags.values.at("limits.memory").origin == "flag --memory");
}

TEST_CASE("with -c the payload's arguments follow --") {
  const Line line({"-c", "-print(1)", "--lang=python", "--", "a", "--lang"});
  REQUIRE(why(line) == "fine");
  CHECK(line.request.program.kind == ProgramSource::Kind::text);
  CHECK(line.request.program.value == "-print(1)");
  CHECK(line.request.arguments == std::vector<std::string>{"a", "--lang"});
  CHECK(line.request.language == "python");
  const Line brackets({"-c", "[1,2]", "-l", "python"});
  CHECK(brackets.request.program.value == "[1,2]");
  const Line empty({"-c", "", "-l", "python"});
  CHECK(why(empty) == "fine");
  CHECK(empty.request.program.kind == ProgramSource::Kind::text);
}

TEST_CASE("two programs are an error that names both") {
  CHECK(why(Line({"-c", "1", "main.py"})) == "two programs given: -c CODE and 'main.py'");
  CHECK(why(Line({"-c", "1", "-c", "2"})) == "two programs given: -c stands twice");
}

TEST_CASE("the program comes from stdin when FILE is -") {
  const Line dash({"--lang", "python", "-", "a"});
  REQUIRE(why(dash) == "fine");
  CHECK(dash.request.program.kind == ProgramSource::Kind::standard_input);
  CHECK(dash.request.arguments == std::vector<std::string>{"a"});
  const Line marked({"--lang", "python", "-", "--", "a"});
  CHECK(marked.request.arguments == std::vector<std::string>{"a"});
}

TEST_CASE("exec takes a command with or without --") {
  const Line marked({"--time", "1s", "--", "ls", "-l"}, true);
  REQUIRE(why(marked) == "fine");
  CHECK(marked.request.command == std::vector<std::string>{"ls", "-l"});
  CHECK(marked.request.invocation_insert == 2);
  const Line plain({"ls", "--time"}, true);
  CHECK(plain.request.command == std::vector<std::string>{"ls", "--time"});
  CHECK(why(Line({"--"}, true)) == "no command given");
  CHECK(why(Line({"--lang", "python", "x"}, true)).starts_with("unknown option '--lang'"));
}

TEST_CASE("a mistyped option gets a suggestion, a missing or unwanted value is named") {
  CHECK(why(Line({"--memry", "2G", "main.py"})) == "unknown option '--memry': did you mean '--memory'?");
  CHECK(why(Line({"--memry=2G", "main.py"})) == "unknown option '--memry': did you mean '--memory'?");
  CHECK(why(Line({"--mem", "2G", "main.py"})) == "unknown option '--mem': did you mean '--memory'?");
  CHECK(why(Line({"--network", "main.py"})) == "unknown option '--network': did you mean '--net'?");
  CHECK(why(Line({"--allow", "main.py"})) == "unknown option '--allow'");  // several begin so
  CHECK(why(Line({"-Z", "main.py"})) == "unknown option '-Z'");
  CHECK(why(Line({"--memory"})) == "option '--memory' needs a value: SIZE");
  CHECK(why(Line({"-c"})) == "option '-c' needs a value: CODE");
  CHECK(why(Line({"--json=yes", "main.py"})) == "option '--json' takes no value");
  const Line net({"--net", "hots", "main.py"});
  REQUIRE(!net.status.ok());
  CHECK((net.status.error().text() + net.status.error().hint()).find("host") != std::string::npos);
  CHECK(why(Line({"--tty", "alwais", "main.py"})) ==
        "flag --tty: 'alwais' is not possible: did you mean 'always'?");
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"--memry", "x"}, {"--memory", "2X", "x"}, {"--time", "-1", "x"}, {"--workspace", ".:rx", "x"}}) {
    const Line line(words);
    REQUIRE(!line.status.ok());
    CHECK(exit_code_for(line.status.error().kind()) == 2);
  }
}

TEST_CASE("of a limit given twice the last one counts") {
  const Line line({"--memory", "1G", "--memory", "2G", "x.py"});
  REQUIRE(why(line) == "fine");
  CHECK(std::get<Bytes>(line.request.flags.values.at("limits.memory").value) == Bytes{uint64_t{2} << 30});
}

TEST_CASE("mounts, workspaces and files split at the right colon") {
  CHECK(split_mount("a:/b:rw").value().target == "/b");
  CHECK(!split_mount("a:/b:rw").value().read_only);
  CHECK(split_mount("a").value().source == "a");
  CHECK(split_mount("a:rw").value().target == "");
  CHECK(!split_mount("").ok());
  CHECK(!split_mount("a:").ok());
  CHECK(split_workspace("d:overlay").value().mode == WorkspaceMode::overlay);
  CHECK(split_workspace("d:overlay").value().directory == "d");
  CHECK(split_workspace("d").value().mode == WorkspaceMode::read_only);
  CHECK(split_workspace("d:write").error().text() == "flag --workspace: 'write' is not possible");
  CHECK(split_workspace("a:b/c").value().directory == "a:b/c");
  CHECK(split_file("x/y.txt").value().name == "y.txt");
  CHECK(split_file("x/y.txt:data/z").value().name == "data/z");
  CHECK(!split_file("x:").ok());
}

TEST_CASE("a name with a colon that exists is taken as it stands") {
  const TemporaryDirectory directory;
  const std::string name = directory.path + "/a:ro.txt:rw";
  REQUIRE(write_file_atomically(name, "x", 0644).ok());
  CHECK(split_file(name).value().source == name);
  CHECK(split_workspace(name).value().directory == name);
}

TEST_CASE("the result replaces a file and never follows a link that was put there meanwhile") {
  const TemporaryDirectory directory;
  const std::string victim = directory.path + "/victim";
  const std::string path = directory.path + "/out.json";
  REQUIRE(write_file_atomically(victim, "precious", 0644).ok());
  Result<ResultFile> file = ResultFile::prepare(path);
  REQUIRE(file.ok());
  REQUIRE(::symlink("victim", path.c_str()) == 0);
  REQUIRE(file.value().write("{}\n").ok());
  CHECK(read_file(victim).value() == "precious");
  CHECK(read_file(path).value() == "{}\n");
  CHECK(S_ISREG(sys::lstat(path).value().st_mode));
}

TEST_CASE("a link that stands there before is the caller's own and is followed") {
  const TemporaryDirectory directory;
  REQUIRE(write_file_atomically(directory.path + "/real", "old", 0644).ok());
  REQUIRE(::symlink("real", (directory.path + "/link").c_str()) == 0);
  Result<ResultFile> file = ResultFile::prepare(directory.path + "/link");
  REQUIRE(file.ok());
  REQUIRE(file.value().write("new").ok());
  CHECK(read_file(directory.path + "/real").value() == "new");
  CHECK(S_ISLNK(sys::lstat(directory.path + "/link").value().st_mode));
}

TEST_CASE("a result that cannot be written is refused before anything runs") {
  const TemporaryDirectory directory;
  CHECK(ResultFile::prepare(directory.path).error().kind() == ErrorKind::usage);
  CHECK(ResultFile::prepare(directory.path + "/none/x.json").error().text().find("there is no directory") !=
        std::string::npos);
  CHECK(!ResultFile::prepare(directory.path + "/").ok());
  CHECK(ResultFile::prepare("/dev/null").ok());
}

TEST_CASE("every row of the help page has its text, and each group an example") {
  RunRequest request;
  FrontOptions front;
  for (const bool exec : {false, true}) {
    const Result<std::vector<Option>> options = run_options(exec, true, request, front);
    REQUIRE(options.ok());
    const std::vector<Example> examples = run_examples(exec);
    const std::string page = help_text({"usage: x", "about", options.value(), examples});
    for (const Option& option : options.value()) {
      CHECK(!option.doc.empty());
      CHECK(option.take);
      CHECK(std::count_if(examples.begin(), examples.end(),
                          [&](const Example& example) { return example.group == option.group; }) == 1);
      if (!option.name.empty()) CHECK(page.find("--" + option.name) != std::string::npos);
    }
    CHECK(page.find("(default 60s)") != std::string::npos);
  }
}

TEST_CASE("every example of the help pages is a command line that parses") {
  for (const bool exec : {false, true}) {
    for (const Example& example : run_examples(exec)) {
      std::vector<std::string> words;
      std::string line = example.line.substr(example.line.find("sbx "));
      line = line.substr(0, line.find(" < "));
      for (const std::string& word : split(line, ' ')) words.push_back(word);
      words.erase(words.begin(), words.begin() + 2);
      // Without a FILE the program comes from stdin, which may be a terminal where the tests run.
      if (!exec && example.line.starts_with("echo")) words.emplace_back("-");
      CHECK_MESSAGE(why(Line(words, exec)) == "fine", example.line);
    }
  }
}

TEST_CASE("tables line up by characters and JSON texts are escaped") {
  CHECK(table({{"A", "B"}, {"x…", "1"}, {"long", ""}}) == "A     B\nx…    1\nlong\n");
  CHECK(json_text("a\"\\\n\x01") == "\"a\\\"\\\\\\u000a\\u0001\"");
  CHECK(json_text("ü") == "\"ü\"");
}

TEST_CASE("each kind of error has its exit status") {
  CHECK(exit_code_for(ErrorKind::usage) == 2);
  CHECK(exit_code_for(ErrorKind::policy) == 2);
  CHECK(exit_code_for(ErrorKind::not_found) == 127);
  CHECK(exit_code_for(ErrorKind::not_executable) == 126);
  CHECK(exit_code_for(ErrorKind::unsupported) == 125);
  CHECK(exit_code_for(ErrorKind::internal) == 125);
}

TEST_CASE("every command has a page whose groups have one example each") {
  for (const Command* command : all_commands()) {
    const Result<Page> page = command->page();
    REQUIRE_MESSAGE(page.ok(), command->name);
    CHECK_MESSAGE(page.value().usage.starts_with("usage: sbx " + std::string(command->name == std::string("policy") ? "policy list" : command->name)), command->name);
    for (const Option& option : page.value().options) {
      CHECK(!option.doc.empty());
      CHECK_MESSAGE(std::count_if(page.value().examples.begin(), page.value().examples.end(),
                                  [&](const Example& example) { return example.group == option.group; }) == 1,
                    (std::string(command->name) + ": " + option.group));
      CHECK_MESSAGE((option.kind != ValueKind::choice || !option.choices.empty()), option.name);
    }
  }
}

TEST_CASE("what is written from the tables is what is committed") {
  const auto committed = [](const std::string& name) { return read_file(std::string(SBX_SOURCE_DIR) + "/docs/" + name).value(); };
  const Result<std::string> commands = reference_markdown(all_commands());
  REQUIRE(commands.ok());
  CHECK_MESSAGE(committed("commands.md") == commands.value(), "docs/commands.md is stale: make reference");
  CHECK_MESSAGE(committed("schema/policy-v1.json") == policy_schema_json(), "docs/schema/policy-v1.json is stale: make reference");
  CHECK_MESSAGE(committed("policy-keys.md") == key_reference_markdown(), "docs/policy-keys.md is stale: make reference");
  const Result<std::string> hints = runtime::hint_reference_markdown();
  REQUIRE(hints.ok());
  CHECK_MESSAGE(committed("guide/09-troubleshooting.md") == hints.value(), "docs/guide/09-troubleshooting.md is stale: make reference");
}

TEST_CASE("a start policy names every key, and is a policy as it stands") {
  const PolicyLayer defaults = load_policy("default", {}).take();
  const std::string text = start_policy("x.toml", defaults.values);
  for (const KeyRow& row : key_table()) {
    const std::string_view path = row.path;
    CHECK_MESSAGE(text.find("\n#" + std::string(path.substr(path.find('.') + 1)) + " = ") != std::string::npos, path);
  }
  const ParsedPolicy parsed = parse_whole_native_toml(text, "x.toml");
  CHECK(parsed.mistakes.empty());
  CHECK(parsed.layer.values.empty());
}

TEST_CASE("values as TOML are read back as they were") {
  const KeyRow& row = *find_key("env.set");
  const std::map<std::string, std::string> odd = {{"A B", "x\"\\\n\x01\x7f"}, {"u", "ü"}};
  const Result<PolicyLayer> layer = parse_native_toml("[env]\nset = " + toml_value(row, odd) + "\n", "x.toml");
  REQUIRE_MESSAGE(layer.ok(), layer.error().text());
  CHECK(layer.value().values.at("env.set").value == KeyValue(odd));
}

TEST_CASE("completion knows where the program's own words begin") {
  const auto offered = [](const std::vector<std::string>& words) {
    const Completion found = complete(words);
    std::string text;
    for (const Completion::Item& item : found.items) text += (text.empty() ? "" : " ") + item.text;
    for (const auto& [set, name] : {std::pair(found.commands, " :c"), {found.files, " :f"}, {found.directories, " :d"}}) text += set ? name : "";
    return text;
  };
  CHECK(offered({"do"}) == "doctor");
  CHECK(offered({"run", "--ma"}) == "");
  CHECK(offered({"run", "--mou"}) == "--mount");
  CHECK(offered({"run", "--net", ""}) == "none host");
  CHECK(offered({"run", "--net=h"}) == "--net=host");
  CHECK(offered({"run", "-w", "x:r"}) == "x:ro x:rw");
  CHECK(offered({"run", "-w", "x"}) == " :d");
  CHECK(offered({"run", ""}) == " :f");
  CHECK(offered({"run", "-c", "1", ""}) == "");
  CHECK(offered({"run", "x.py", "--net", ""}) == " :f");
  CHECK(offered({"run", "--", ""}) == " :f");
  CHECK(offered({"exec", "--", ""}) == " :c :f");
  CHECK(offered({"exec", "--", "ls", ""}) == " :f");
  CHECK(offered({"exec", "--memory", "1G", "l"}) == " :c :f");
  CHECK(offered({"policy", "check", "strict", "--fail-on", "h"}) == "high");
  CHECK(offered({"policy", "show", "jud"}) == "judge :f");
  CHECK(offered({"run", "--allow-syscall", "@deb"}) == "@debug");
  CHECK(offered({"run", "--allow-syscall", "ptra"}) == "ptrace");
  CHECK(offered({"nosuch", ""}) == "");
  CHECK(offered({""}).find("run exec") == 0);
  for (const char* shell : {"bash", "zsh", "fish"}) CHECK(completion_script(shell) != nullptr);
  CHECK(completion_script("csh") == nullptr);
}
