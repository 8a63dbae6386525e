// execute() with a stand-in for the engine: what would run, with which files, streams and limits.
#include "runtime/request.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/sys.h"
#include "base/text.h"
#include "runtime/spec_text.h"

using namespace sbx;
using namespace sbx::runtime;

namespace {

struct TemporaryDirectory {
  std::string path;
  TemporaryDirectory() {
    char name[] = "/tmp/sbx-request-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    path = sys::realpath(name).take();
  }
  ~TemporaryDirectory() { (void)::system(("rm -rf " + shell_quote(path)).c_str()); }
  std::string file(const std::string& name, const std::string& content, mode_t mode = 0644) const {
    const std::string full = path + "/" + name;
    REQUIRE(make_directories(dir_name(full), 0755).ok());
    REQUIRE(write_file_atomically(full, content, mode).ok());
    return full;
  }
};

// Keeps what it was asked to run, with the content of what would be copied in, and answers as told.
struct FakeEngine {
  struct Call {
    SandboxSpec spec;
    RunOptions options;
    std::map<std::string, std::string> copied;  // target → content
  };
  std::vector<Call> calls;
  std::vector<Outcome> answers;          // one a call; the last one repeats
  std::string build_directory;           // kept directory of /run/sbx/build
  std::string box_directory;

  Engine engine() {
    return [this](const SandboxSpec& spec, const HostFacts&, const RunOptions& options) {
      Call call{spec, options, {}};
      for (const FsOp& op : spec.fs) {
        const CopyFdOp* copy = std::get_if<CopyFdOp>(&op);
        if (copy == nullptr) continue;
        std::string content(1 << 20, '\0');
        const ssize_t got = ::pread(copy->source.value, content.data(), content.size(), 0);
        REQUIRE(got >= 0);
        content.resize(static_cast<size_t>(got));
        call.copied[copy->target] = content;
      }
      RunResult result;
      Outcome answer;
      answer.verdict = Verdict::exited;
      if (!answers.empty()) answer = answers[std::min(calls.size(), answers.size() - 1)];
      calls.push_back(std::move(call));
      for (const std::string& kept : options.keep_directories) {
        const std::string& real = kept == "/run/sbx/build" ? build_directory : box_directory;
        Result<UniqueFd> fd = sys::open(real, O_RDONLY | O_DIRECTORY);
        result.kept_directories.push_back(fd.ok() ? fd.take() : UniqueFd());
      }
      result.outcome = std::move(answer);
      return result;
    };
  }
};

HostFacts some_facts(const TemporaryDirectory& directory) {
  HostFacts facts;
  facts.uid = 1000;
  facts.gid = 1000;
  facts.home = directory.path + "/home";
  return facts;
}

// A tool that certainly exists, so that no language needs to be installed: bash runs as itself.
RunRequest bash_request(const std::string& file) {
  RunRequest request;
  request.cgroup_parent = "none";
  request.program = {ProgramSource::Kind::file, file};
  request.language = "bash";
  request.stdin_file = "/dev/null";
  request.tty = TtyMode::never;
  return request;
}

template <typename Op>
const Op* op_at(const SandboxSpec& spec, const std::string& target) {
  const Op* found = nullptr;
  for (const FsOp& op : spec.fs) {
    const Op* candidate = std::get_if<Op>(&op);
    if (candidate != nullptr && candidate->target == target) found = candidate;
  }
  return found;
}

Result<Report> run(const RunRequest& request, const TemporaryDirectory& directory, FakeEngine& fake) {
  return execute(request, some_facts(directory), Observer{}, fake.engine());
}

std::string why(const RunRequest& request, const TemporaryDirectory& directory) {
  FakeEngine fake;
  const Result<Report> report = run(request, directory, fake);
  CHECK(fake.calls.empty());
  if (report.ok()) return "fine";
  CHECK(!report.error().hint().empty());
  return std::string(error_kind_name(report.error().kind())) + ": " + report.error().text();
}

}  // namespace

TEST_CASE("a program lies in a private /box under its own name and keeps its execute bit") {
  const TemporaryDirectory directory;
  FakeEngine fake;
  RunRequest request = bash_request(directory.file("my prog.sh", "echo hi\n", 0755));
  request.arguments = {"a", "", "-b"};
  const Result<Report> report = run(request, directory, fake);
  REQUIRE_MESSAGE(report.ok(), (report.ok() ? "" : report.error().text()));
  REQUIRE(fake.calls.size() == 1);
  const FakeEngine::Call& call = fake.calls[0];
  CHECK(call.copied == std::map<std::string, std::string>{{"/box/my prog.sh", "echo hi\n"}});
  CHECK(op_at<CopyFdOp>(call.spec, "/box/my prog.sh")->mode == 0755);
  CHECK(op_at<PrivateDirOp>(call.spec, "/box") != nullptr);
  CHECK(call.spec.working_directory == "/box");
  REQUIRE(call.spec.argv.size() == 5);
  CHECK(std::vector<std::string>(call.spec.argv.begin() + 1, call.spec.argv.end()) ==
        std::vector<std::string>{"/box/my prog.sh", "a", "", "-b"});
  CHECK(call.options.keep_directories.empty());
  CHECK(report.value().language == "bash");
}

TEST_CASE("text has the runner's own file name") {
  const TemporaryDirectory directory;
  FakeEngine fake;
  RunRequest request = bash_request("");
  request.program = {ProgramSource::Kind::text, "exit 3"};
  REQUIRE(run(request, directory, fake).ok());
  REQUIRE(fake.calls.size() == 1);
  REQUIRE(fake.calls[0].copied.size() == 1);
  CHECK(fake.calls[0].copied.begin()->second == "exit 3");
  CHECK(fake.calls[0].copied.begin()->first.starts_with("/box/"));
}

TEST_CASE("a file inside the workspace runs where it stands, one outside lies in /run/sbx/src") {
  const TemporaryDirectory directory;
  FakeEngine fake;
  directory.file("home/project/x", "");
  RunRequest request = bash_request(directory.file("home/project/sub/in.sh", "echo"));
  request.workspace = WorkspaceArgument{directory.path + "/home/project", WorkspaceMode::read_only};
  REQUIRE(run(request, directory, fake).ok());
  CHECK(fake.calls[0].spec.argv.back() == "/box/sub/in.sh");
  CHECK(fake.calls[0].copied.empty());
  const BindOp* bind = op_at<BindOp>(fake.calls[0].spec, "/box");
  REQUIRE(bind != nullptr);
  CHECK(bind->read_only);
  CHECK(bind->idmap);
  CHECK(bind->source == directory.path + "/home/project");

  request.program.value = directory.file("out.sh", "echo out");
  REQUIRE(run(request, directory, fake).ok());
  CHECK(fake.calls[1].spec.argv.back() == "/run/sbx/src/out.sh");
  CHECK(fake.calls[1].copied.at("/run/sbx/src/out.sh") == "echo out");

  // A link in the workspace that leads out of it is no file of the workspace, and nobody's choice but its maker's.
  REQUIRE(::symlink((directory.path + "/out.sh").c_str(), (directory.path + "/home/project/link.sh").c_str()) == 0);
  request.program.value = directory.path + "/home/project/link.sh";
  CHECK_FALSE(run(request, directory, fake).ok());
  CHECK(fake.calls.size() == 2);
  request.allow_sensitive_mount = true;
  REQUIRE(run(request, directory, fake).ok());
  CHECK(fake.calls[2].spec.argv.back() == "/run/sbx/src/link.sh");
}

TEST_CASE("the directories above a result file in a writable share are pinned, those elsewhere are not") {
  const TemporaryDirectory directory;
  FakeEngine fake;
  RunRequest request = bash_request(directory.file("home/p/in.sh", "echo"));
  directory.file("home/p/a/b/x", "");
  directory.file("home/q/x", "");
  request.workspace = WorkspaceArgument{directory.path + "/home/p", WorkspaceMode::read_write};
  const auto pins = [&](const std::string& place) {
    request.result_directory = place;
    REQUIRE(run(request, directory, fake).ok());
    std::vector<std::string> targets;
    for (const FsOp& op : fake.calls.back().spec.fs) {
      if (const PinOp* pin = std::get_if<PinOp>(&op)) targets.push_back(pin->target);
    }
    return targets;
  };
  CHECK(pins(directory.path + "/home/p/a/b") == std::vector<std::string>{"/box/a", "/box/a/b"});
  CHECK(pins(directory.path + "/home/p").empty());
  CHECK(pins(directory.path + "/home/q").empty());
  CHECK(pins("").empty());
}

TEST_CASE("a workspace is writable, overlaid or read-only as asked") {
  const TemporaryDirectory directory;
  FakeEngine fake;
  RunRequest request = bash_request(directory.file("home/p/in.sh", "echo"));
  request.workspace = WorkspaceArgument{directory.path + "/home/p", WorkspaceMode::overlay};
  REQUIRE(run(request, directory, fake).ok());
  CHECK(op_at<OverlayOp>(fake.calls[0].spec, "/box") != nullptr);
  request.workspace->mode = WorkspaceMode::read_write;
  REQUIRE(run(request, directory, fake).ok());
  REQUIRE(op_at<BindOp>(fake.calls[1].spec, "/box") != nullptr);
  CHECK(!op_at<BindOp>(fake.calls[1].spec, "/box")->read_only);
}

TEST_CASE("set-id bits are taken from what a run made in any writable directory of the host, a policy's too") {
  const TemporaryDirectory directory;
  const std::string by_flag = dir_name(directory.file("flag/keep", ""));
  const std::string by_policy = dir_name(directory.file("policy/keep", ""));
  RunRequest request = bash_request(directory.file("a.sh", "echo"));
  request.mounts = {{by_flag, "/flag", false}};
  request.policies = {directory.file("p.toml", "[[fs.mount]]\nsource = \"" + by_policy +
                                                   "\"\ntarget = \"/policy\"\nmode = \"rw\"\n")};
  FakeEngine fake;
  const Engine engine = [&](const SandboxSpec& spec, const HostFacts& facts, const RunOptions& options) {
    for (const std::string& place : {by_flag, by_policy}) {
      REQUIRE(write_file_atomically(place + "/made", "x", 0644).ok());
      REQUIRE(::chmod((place + "/made").c_str(), 04755) == 0);
    }
    return fake.engine()(spec, facts, options);
  };
  const Result<Report> report = execute(request, some_facts(directory), Observer{}, engine);
  REQUIRE_MESSAGE(report.ok(), (report.ok() ? "" : report.error().text()));
  CHECK((sys::stat(by_flag + "/made").value().st_mode & 07777) == 0755);
  CHECK((sys::stat(by_policy + "/made").value().st_mode & 07777) == 0755);
  CHECK(report.value().artifact_notes.size() == 2);
}

TEST_CASE("extra files lie beside the program, in folders of their own") {
  const TemporaryDirectory directory;
  FakeEngine fake;
  RunRequest request = bash_request(directory.file("a.sh", "echo"));
  request.files = {{directory.file("d.csv", "1,2\n"), "data/d.csv"}, {directory.file("e", "E", 0755), "e"}};
  REQUIRE(run(request, directory, fake).ok());
  CHECK(fake.calls[0].copied.at("/box/data/d.csv") == "1,2\n");
  CHECK(op_at<DirOp>(fake.calls[0].spec, "/box/data") != nullptr);
  CHECK(op_at<CopyFdOp>(fake.calls[0].spec, "/box/e")->mode == 0755);
}

TEST_CASE("wrong files are told in one line with a way out, and nothing runs") {
  const TemporaryDirectory directory;
  const std::string program = directory.file("a.sh", "echo");
  const std::string place = directory.path;
  CHECK(why(bash_request(place + "/none.sh"), directory) == "usage: no such file: '" + place + "/none.sh'");
  CHECK(why(bash_request(place), directory) == "usage: '" + place + "' is a directory");
  CHECK(why(bash_request("/dev/null"), directory) == "usage: '/dev/null' is a device or socket, not a program");
  CHECK(why(bash_request(directory.file("elf", "\x7f" "ELF...")), directory) ==
        "usage: '" + place + "/elf' is a compiled program (ELF), not source code");
  RunRequest request = bash_request(program);
  request.files = {{program, "a.sh"}};
  CHECK(why(request, directory) ==
        "usage: flag --file: two files would be 'a.sh': that is the program's own name");
  request.files = {{program, "../x"}};
  CHECK(why(request, directory) == "usage: flag --file: the name '../x' has an empty part, '.' or '..'");
  request.files = {{program, "/x"}};
  CHECK(why(request, directory).starts_with("usage: flag --file: the name '/x' is absolute"));
  request.files = {{place, "x"}};
  CHECK(why(request, directory) == "usage: flag --file: '" + place + "' is a directory");
  request = bash_request(program);
  request.stdin_file = place + "/nothing";
  CHECK(why(request, directory) == "usage: flag --stdin: no such file: '" + place + "/nothing'");
  request = bash_request(program);
  request.workspace = WorkspaceArgument{place + "/none", WorkspaceMode::read_only};
  CHECK(why(request, directory) == "usage: flag --workspace: no such directory: '" + place + "/none'");
  request.workspace->directory = program;
  CHECK(why(request, directory) == "usage: flag --workspace: '" + program + "' is not a directory");
  request = bash_request(program);
  request.compile_flags = {"-O3"};
  CHECK(why(request, directory).find("has no compile step") != std::string::npos);
  request = bash_request(program);
  request.require = {"cgrop"};
  CHECK(why(request, directory) == "usage: flag --require: unknown requirement 'cgrop': did you mean 'cgroup'?");
}

TEST_CASE("places that nobody should share are refused unless it is asked for by name") {
  const TemporaryDirectory directory;
  RunRequest request = bash_request(directory.file("a.sh", "echo"));
  for (const char* place : {"/", "/etc"}) {
    request.workspace.reset();
    request.mounts = {{place, "/data", true}};
    CHECK(why(request, directory).starts_with("usage: flag --mount"));
    request.mounts.clear();
    request.workspace = WorkspaceArgument{place, WorkspaceMode::read_only};
    CHECK(why(request, directory).starts_with("usage: flag --workspace"));
  }
  FakeEngine fake;
  request.allow_sensitive_mount = true;
  request.workspace->directory = "/etc";
  CHECK(run(request, directory, fake).ok());
}

TEST_CASE("a mount cannot hide what belongs to the sandbox") {
  const TemporaryDirectory directory;
  RunRequest request = bash_request(directory.file("a.sh", "echo"));
  directory.file("shared/x", "");
  for (const char* target : {"/", "/proc", "/proc/sys", "/dev", "/run/sbx/src", "/x/../proc"}) {
    request.mounts = {{directory.path + "/shared", target, true}};
    CHECK(why(request, directory).starts_with("usage: flag --mount: nothing can be mounted at"));
  }
  request.mounts = {{directory.path + "/shared", "data", true}};
  CHECK(why(request, directory) == "usage: flag --mount: the target 'data' is not an absolute path");
}

TEST_CASE("variables come from --env, with a value or from the caller") {
  const TemporaryDirectory directory;
  FakeEngine fake;
  RunRequest request = bash_request(directory.file("a.sh", "echo"));
  ::setenv("SBX_TEST_GIVEN", "from here", 1);
  ::setenv("SBX_TEST_SECRET", "never", 1);
  request.environment = {"A=1=2", "SBX_TEST_GIVEN", "EMPTY="};
  REQUIRE(run(request, directory, fake).ok());
  const std::vector<std::string>& environment = fake.calls[0].spec.environment;
  const auto has = [&](const std::string& entry) {
    return std::find(environment.begin(), environment.end(), entry) != environment.end();
  };
  CHECK(has("A=1=2"));
  CHECK(has("SBX_TEST_GIVEN=from here"));
  CHECK(has("EMPTY="));
  CHECK(!has("SBX_TEST_SECRET=never"));
  CHECK(has("HOME=/home/sandbox"));
  request.environment = {"SBX_TEST_UNSET"};
  CHECK(why(request, directory) == "usage: flag --env: the variable 'SBX_TEST_UNSET' is not set here");
  request.environment = {"=x"};
  CHECK(why(request, directory) == "usage: flag --env: '=x' names no variable");
}

TEST_CASE("limits of flags win over policies, which win over the default, and tell their origin") {
  const TemporaryDirectory directory;
  FakeEngine fake;
  RunRequest request = bash_request(directory.file("a.sh", "echo"));
  request.policies = {directory.file("p.toml", "[limits]\ntime = \"7s\"\npids = 99\n")};
  REQUIRE(set_from_text(request.flags, "limits.pids", "33", "flag --pids").ok());
  request.want_result = true;
  const Result<Report> report = run(request, directory, fake);
  REQUIRE_MESSAGE(report.ok(), (report.ok() ? "" : report.error().text()));
  const SandboxSpec& spec = fake.calls.back().spec;
  CHECK(spec.limits.wall == Millis{7000});
  CHECK(spec.limits.pids == 33);
  CHECK(spec.origins.at("limits.pids") == "flag --pids");
  CHECK(spec.origins.at("limits.time").find("p.toml:2") != std::string::npos);
  CHECK(report.value().policy_digest == spec_digest(spec));
}

TEST_CASE("a wrong policy is an error of the policy, with its line") {
  const TemporaryDirectory directory;
  RunRequest request = bash_request(directory.file("a.sh", "echo"));
  request.policies = {directory.file("p.toml", "[limits]\nmemry = \"7s\"\n")};
  const std::string text = why(request, directory);
  CHECK(text.starts_with("policy: "));
  CHECK(text.find("p.toml:2") != std::string::npos);
}

TEST_CASE("streams: forwarded live, or captured for --json; stdin empty for a program from stdin") {
  const TemporaryDirectory directory;
  FakeEngine fake;
  RunRequest request = bash_request(directory.file("a.sh", "echo"));
  REQUIRE(run(request, directory, fake).ok());
  CHECK(fake.calls[0].options.stdio.out.forward_fd == STDOUT_FILENO);
  CHECK(!fake.calls[0].options.stdio.out.capture);
  CHECK(fake.calls[0].options.stdio.stdin_fd > 2);
  request.capture_streams = request.want_result = true;
  request.stdin_file.clear();
  REQUIRE(run(request, directory, fake).ok());
  const StdioPlan& plan = fake.calls.back().options.stdio;
  CHECK(plan.out.forward_fd == -1);
  CHECK(plan.err.capture);
  CHECK(plan.stdin_fd == STDIN_FILENO);
  CHECK(plan.terminal_fd == -1);
}

TEST_CASE("artifacts: what is new in /box, without the source and unchanged files, copied out") {
  const TemporaryDirectory directory;
  FakeEngine fake;
  fake.box_directory = directory.path + "/box";
  directory.file("box/a.sh", "echo");
  directory.file("box/new.txt", "made");
  directory.file("box/same", "same");
  directory.file("box/changed", "after");
  RunRequest request = bash_request(directory.file("a.sh", "echo"));
  request.files = {{directory.file("same", "same"), "same"}, {directory.file("changed", "before"), "changed"}};
  request.artifacts_directory = directory.path + "/out";
  const Result<Report> report = run(request, directory, fake);
  REQUIRE_MESSAGE(report.ok(), (report.ok() ? "" : report.error().text()));
  std::vector<std::string> names;
  for (const Artifact& artifact : report.value().artifacts.artifacts) names.push_back(artifact.path);
  CHECK(names == std::vector<std::string>{"changed", "new.txt"});
  CHECK(read_file(directory.path + "/out/new.txt").value() == "made");
  CHECK(fake.calls.back().options.keep_directories == std::vector<std::string>{"/box"});
}

TEST_CASE("exec: the command is taken as it stands, a relative one from the working directory") {
  const TemporaryDirectory directory;
  FakeEngine fake;
  RunRequest request;
  request.cgroup_parent = "none";
  request.exec = true;
  request.tty = TtyMode::never;
  request.command = {"/usr/bin/env", "-i"};
  REQUIRE(run(request, directory, fake).ok());
  CHECK(fake.calls[0].spec.exec_path == "/usr/bin/env");
  CHECK(fake.calls[0].spec.argv == request.command);
  request.command = {"./tool", "x"};
  request.files = {{directory.file("tool", "#!/bin/sh\n", 0755), "tool"}};
  REQUIRE(run(request, directory, fake).ok());
  CHECK(fake.calls[1].spec.exec_path == "/box/tool");
  CHECK(fake.calls[1].spec.argv[0] == "./tool");
  request.command = {"no-such-command-anywhere"};
  REQUIRE(run(request, directory, fake).ok());
  CHECK(fake.calls[2].spec.exec_path == "no-such-command-anywhere");
}

TEST_CASE("exec of a file that is here but not inside says how to share it") {
  const TemporaryDirectory directory;
  RunRequest request;
  request.cgroup_parent = "none";
  request.exec = true;
  request.command = {directory.file("bin/tool", "#!/bin/sh\n", 0755)};
  FakeEngine fake;
  const Result<Report> report = run(request, directory, fake);
  REQUIRE(!report.ok());
  CHECK(report.error().kind() == ErrorKind::not_found);
  CHECK(report.error().hint() == "share its directory: add --mount " + directory.path + "/bin");
  // A directory that would be refused is not what the hint names.
  request.command = {"/etc/shadow"};
  const Result<Report> refused = run(request, directory, fake);
  if (sys::stat("/etc/shadow").ok()) {
    REQUIRE(!refused.ok());
    CHECK(refused.error().hint() == "copy it in: sbx exec --file /etc/shadow -- ./shadow");
  }
}

TEST_CASE("the facts of this host are plausible") {
  const HostFacts facts = probe_host();
  CHECK(facts.uid == ::geteuid());
  CHECK((facts.home.empty() || facts.home[0] == '/'));
  if (facts.uid != 0) CHECK(!facts.root_identity);
}
