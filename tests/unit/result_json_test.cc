#include <doctest/doctest.h>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "base/sys.h"
#include "runtime/request.h"

extern char** environ;

namespace {

using namespace sbx;
using namespace sbx::runtime;

std::string source_dir() {
#ifdef SBX_SOURCE_DIR
  return SBX_SOURCE_DIR;
#else
  return ".";
#endif
}

// Exit status of tests/schema_check.py for the document; its complaints go to our stdout.
int schema_check(const std::string& document) {
  const char* base = std::getenv("TMPDIR");
  std::string path = std::string(base != nullptr ? base : "/tmp") + "/sbx-result-test-XXXXXX";
  const UniqueFd fd(::mkstemp(path.data()));
  REQUIRE(fd.valid());
  REQUIRE(sys::write_all(fd.get(), document).ok());
  std::string words[] = {"python3", source_dir() + "/tests/schema_check.py", source_dir() + "/docs/schema/result-v1.json",
                         path};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
  pid_t child = 0;
  REQUIRE_MESSAGE(::posix_spawnp(&child, "python3", nullptr, nullptr, argv, environ) == 0, "python3 is needed");
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  ::unlink(path.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Every field filled, hostile bytes wherever a payload can put them.
Report full_report() {
  Report report;
  report.language = "cpp";
  report.tool = "/usr/bin/g++";
  report.tool_version = "g++ 12.2.0";
  report.argv = {"/run/sbx/build/main", "plain", "\xff\xfe", ""};
  report.exit_status = 137;
  report.hints = {"memory limit of 1G reached: --memory raises it", "bad \xff byte"};
  report.artifact_notes = {"the run made '.envrc'"};
  report.policy_digest = std::string(64, 'a');
  report.policy_origins = {{"limits.memory", "default policy"}, {"limits.wall", "flag --time"}};

  CompileReport compile;
  compile.argv = {"g++", "-o", "main"};
  compile.outcome.verdict = Verdict::exited;
  compile.outcome.err.captured = true;
  compile.outcome.err.kept = "warning: \xe2\x80\x98x\xe2\x80\x99 unused\n";
  compile.outcome.err.total_bytes = compile.outcome.err.kept.size();
  compile.outcome.usage.wall = Micros{812345};
  compile.outcome.usage.user = Micros{700000};
  compile.outcome.usage.system = Micros{90000};
  report.compile = compile;

  Outcome& outcome = report.outcome;
  outcome.verdict = Verdict::out_of_memory;
  outcome.signal = 9;
  outcome.limits_hit = {{"memory", "1G", "default policy", "sampling every 20 ms", 1}, {"disk", "384M", "default policy", "tmpfs", 3}};
  Denial denial;
  denial.call = "ptrace";
  denial.text = "ptrace(PTRACE_ATTACH)";
  denial.rule = "rule \"debug\" of policy default";
  denial.allow = "--allow-syscall ptrace";
  denial.group = "debug";
  denial.arguments[0] = 16;
  denial.arguments[3] = ~uint64_t{0};
  denial.process = "py\xff";
  denial.pid = 2;
  denial.count = 3;
  outcome.denials = {denial};
  outcome.denials_note = "more than 64 different calls: the rest was not recorded";
  outcome.out.captured = true;
  outcome.out.kept = std::string("line\n\0\x1b[31m\"\\\x7f", 14) + "\xc3\xbc";
  outcome.out.total_bytes = outcome.out.kept.size();
  outcome.err.captured = true;
  outcome.err.kept = std::string("\xff\0\x80", 3);
  outcome.err.total_bytes = 100000;
  outcome.err.truncated = true;
  outcome.usage.wall = Micros{1234567};
  outcome.usage.user = Micros{1000};
  outcome.usage.system = Micros{1};
  outcome.usage.peak_memory = Bytes{1073741824};
  outcome.usage.peak_memory_note = "sampled: a short peak may be missed";
  outcome.usage.peak_pids_note = "no cgroup: the kernel counts no peak";
  outcome.setup_times = {{"clone", Micros{400}}, {"mounts", Micros{1250}}};
  outcome.isolation.namespaces = {"user", "mount", "pid", "net", "ipc", "uts", "cgroup"};
  outcome.isolation.identity = "own host uid";
  outcome.isolation.network = "none";
  outcome.isolation.seccomp_policy = "default";
  outcome.isolation.seccomp_digest = std::string(64, 'b');
  outcome.isolation.landlock_abi = 6;
  outcome.isolation.limits_held_by = {{"memory", "sampling every 20 ms"}, {"pids", "rlimit"}};
  outcome.isolation.not_held = {"a fraction of a CPU"};

  Artifact file;
  file.path = "out/a\nb.csv";
  file.size = 8;
  file.mime = "text/csv";
  file.sha256 = std::string(64, 'c');
  Artifact named;
  named.path = "\xff\xfe";
  named.size = uint64_t{1} << 40;
  named.mime = "application/octet-stream";
  named.note = "over the byte limit";
  Artifact link;
  link.path = "result";
  link.type = Artifact::Type::symlink;
  link.note = "link, not followed";
  report.artifacts.artifacts = {file, link, named};
  report.artifacts.dropped = {"1 listed without digest"};

  Plot inside;
  inside.index = 1;
  inside.library = "matplotlib";
  inside.title = "two\nlines";
  inside.format = "png";
  inside.mime = "image/png";
  inside.sha256 = std::string(64, 'd');
  inside.size = 3;
  inside.width = 640;
  inside.height = 480;
  inside.content = "\x89PN";
  Plot copied = inside;
  copied.index = 2;
  copied.library.clear();
  copied.title.clear();
  copied.width.reset();
  copied.height.reset();
  copied.content.clear();
  copied.file = "sbx-plots/002.png";
  report.plots.plots = {inside, copied};
  report.plots.dropped = {"plots beyond the first 100: 1"};
  return report;
}

Report small_report() {
  Report report;
  report.outcome.verdict = Verdict::exited;
  report.exit_status = 0;
  return report;
}

// The one line that changes with every release.
std::string without_version(std::string json) {
  const std::string key = "\"sbx_version\": \"";
  const size_t begin = json.find(key);
  REQUIRE(begin != std::string::npos);
  const size_t end = json.find('"', begin + key.size());
  return json.replace(begin + key.size(), end - begin - key.size(), "VERSION");
}

}  // namespace

TEST_CASE("a full result is exactly the golden file, key order included") {
  const std::string golden = source_dir() + "/tests/golden/result_full.json";
  const std::string json = without_version(result_json(full_report(), true));
  // SBX_UPDATE_GOLDEN=1 writes it anew: look at the difference before you commit it.
  if (std::getenv("SBX_UPDATE_GOLDEN") != nullptr) REQUIRE(write_file_atomically(golden, json, 0644).ok());
  CHECK(json == read_file(golden).take());
}

TEST_CASE("results of every kind follow the published schema") {
  CHECK(schema_check(result_json(full_report(), true)) == 0);
  CHECK(schema_check(result_json(full_report(), false)) == 0);
  CHECK(schema_check(result_json(small_report(), false)) == 0);
  Report failed = small_report();
  failed.outcome.verdict = Verdict::setup_failed;
  failed.outcome.setup_error = Error::from_errno(ENOSPC, "mount '/box'").with_stage("mounts").with_hint("free some");
  failed.exit_status = 125;
  CHECK(schema_check(result_json(failed, true)) == 0);
  CHECK(schema_check(error_json(Error(ErrorKind::usage, "bad \xff '\x1b' argument").with_origin("flag --mount"), 2)) == 0);
}

TEST_CASE("the schema check refuses what the schema does not allow") {
  std::string json = result_json(small_report(), false);
  auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = json;
    const size_t at = changed.find(from);
    REQUIRE(at != std::string::npos);
    return changed.replace(at, from.size(), to);
  };
  CHECK(schema_check(json) == 0);
  CHECK(schema_check(with("\"verdict\": \"exited\"", "\"verdict\": \"finished\"")) == 1);
  CHECK(schema_check(with("\"version\": 1", "\"version\": true")) == 1);
  CHECK(schema_check(with("\"exit_status\": 0", "\"exit_status\": 0, \"extra\": 1")) == 1);
  CHECK(schema_check(with("\"exit_status\": 0,", "")) == 1);
  CHECK(schema_check(with("\"exit_status\": 0", "\"exit_status\": 0, \"exit_status\": 1")) == 1);
  CHECK(schema_check(with("\"wall_ms\": 0.0", "\"wall_ms\": \"0\"")) == 1);
  CHECK(schema_check(json + "{}") == 1);
}

TEST_CASE("streams are byte-exact: text where it is UTF-8, else base64") {
  Report report = small_report();
  report.outcome.out.captured = true;
  auto out = [&](const std::string& bytes, bool truncated = false) {
    report.outcome.out.kept = bytes;
    report.outcome.out.truncated = truncated;
    return result_json(report, true);
  };
  CHECK(contains(out("gr\xc3\xbc\xc3\x9f"), "\"data\": \"gr\xc3\xbc\xc3\x9f\""));
  CHECK(contains(out(std::string("a\0b", 3)), "\"data\": \"a\\u0000b\""));
  // Nothing that steers a terminal stands raw in the result.
  CHECK(contains(out("\\\x7f\xc2\x9b" "0m\xc2\xa0"), "\"data\": \"\\\\\\u007f\\u009b0m\xc2\xa0\""));
  const std::string base64 = out("\xff\xfe\xfd");
  CHECK(contains(base64, "\"encoding\": \"base64\""));
  CHECK(contains(base64, "\"data\": \"//79\""));
  // Surrogates and overlong forms are no UTF-8: they must not be replaced silently.
  CHECK(contains(out("\xed\xa0\x80"), "\"encoding\": \"base64\""));
  CHECK(contains(out("\xc0\x80"), "\"encoding\": \"base64\""));
  CHECK(contains(out("\xf5\x80\x80\x80"), "\"encoding\": \"base64\""));
  // A character cut by the limit is left off from text, and counted out; without a cut the bytes stay.
  const std::string cut = out("abc\xe2\x82", true);
  CHECK(contains(cut, "\"data\": \"abc\""));
  CHECK(contains(cut, "\"kept_bytes\": 3"));
  CHECK(contains(out("abc\xe2\x82", false), "\"encoding\": \"base64\""));
  CHECK(contains(out("\xff" "abc\xe2\x82", true), "\"kept_bytes\": 6"));
}

TEST_CASE("a stream that was not captured or not asked for is null with a reason") {
  Report report = small_report();
  CHECK(contains(result_json(report, true), "\"data_note\": \"forwarded, not captured\""));
  report.outcome.out.captured = true;
  report.outcome.out.kept = "secret";
  const std::string json = result_json(report, false);
  CHECK(contains(json, "\"data_note\": \"not asked for\""));
  CHECK_FALSE(contains(json, "secret"));
}

TEST_CASE("the exit code is null unless the payload exited") {
  Report report = small_report();
  report.outcome.exit_code = 3;
  CHECK(contains(result_json(report, false), "\"exit_code\": 3"));
  for (const Verdict verdict : {Verdict::signaled, Verdict::timed_out, Verdict::cpu_time, Verdict::out_of_memory,
                                Verdict::output_limit, Verdict::denied, Verdict::killed, Verdict::setup_failed}) {
    report.outcome.verdict = verdict;
    CHECK(contains(result_json(report, false), "\"exit_code\": null"));
  }
  report.outcome.verdict = Verdict::compile_failed;
  CHECK(contains(result_json(report, false), "\"exit_code\": 3"));
  report.outcome.signal = 11;  // the compiler crashed
  const std::string json = result_json(report, false);
  CHECK(contains(json, "\"exit_code\": null"));
  CHECK(contains(json, "\"name\": \"SIGSEGV\""));
}

TEST_CASE("a payload cannot forge keys: its text stays inside of strings") {
  Report report = small_report();
  report.outcome.out.captured = true;
  report.outcome.out.kept = "\", \"verdict\": \"forged\", \"x\": \"";
  Artifact artifact;
  artifact.path = "\", \"verdict\": \"forged";
  report.artifacts.artifacts = {artifact};
  const std::string json = result_json(report, true);
  CHECK_FALSE(contains(json, "\"verdict\": \"forged\""));
  CHECK(schema_check(json) == 0);
}

TEST_CASE("denied calls are an empty list when there were none, and null when nobody knows") {
  Report report = small_report();
  CHECK(contains(result_json(report, false), "\"denied\": []"));
  report.outcome.denials_note = "no listener";
  const std::string json = result_json(report, false);
  CHECK(contains(json, "\"denied\": null"));
  CHECK(contains(json, "\"denied_note\": \"no listener\""));
}

TEST_CASE("an error before anything ran has the same keys") {
  const std::string json = error_json(
      Error::from_errno(EACCES, "open '/x'").with_hint("look at its mode").with_origin("flag --mount").with_stage("mounts"), 125);
  CHECK(contains(json, "\"verdict\": \"setup_failed\""));
  CHECK(contains(json, "\"exit_status\": 125"));
  CHECK(contains(json, "\"kind\": \"permission\""));
  CHECK(contains(json, "\"name\": \"EACCES\""));
  CHECK(contains(json, "\"origin\": \"flag --mount\""));
  CHECK(contains(json, "\"stage\": \"mounts\""));
  CHECK(json.back() == '\n');
}
