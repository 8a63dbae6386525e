// The result of a run whose streams, names, messages and status the payload chose: JSON whatever it wrote, its bytes come
// back exactly, and hints are single lines that can be printed.
#include <string>

#include "base/text.h"
#include "fuzz.h"
#include "runtime/hints.h"
#include "runtime/request.h"
#include "session/json.h"

namespace {

using namespace sbx;
using namespace sbx::runtime;
using session::Json;

std::string some(fuzz::Bytes& bytes) {
  std::string text;
  for (size_t left = bytes.byte() % 40; left > 0; --left) text += static_cast<char>(bytes.byte());
  return text;
}

void check_exact(const Json& json, const std::string& bytes) {
  if (is_valid_utf8(bytes)) HOLDS(json.text() == bytes && json.is(Json::Kind::text));
  else HOLDS(json.at("base64").text() == base64_encode(bytes));
}

void check_stream(const Json& json, const StreamResult& stream) {
  HOLDS(json.at("total_bytes").integer() == static_cast<int64_t>(stream.total_bytes));
  const std::string& data = json.at("data").text();
  if (json.at("encoding").text() == "base64") {
    HOLDS(data == base64_encode(stream.kept));
    return;
  }
  HOLDS(json.at("encoding").text() == "utf-8" && is_valid_utf8(data));
  // A cut may have gone through a character.
  HOLDS(stream.kept.compare(0, data.size(), data) == 0 && stream.kept.size() - data.size() <= (stream.truncated ? 3U : 0U));
  HOLDS(json.at("kept_bytes").integer() == static_cast<int64_t>(data.size()));
}

void check_line(const std::string& line) {
  HOLDS(!line.empty() && is_valid_utf8(line));
  for (const char c : line) HOLDS(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Bytes bytes(data, size);
  RunRequest request;
  request.program = {ProgramSource::Kind::file, "main.py"};
  request.invocation = {"sbx", "run", "main.py"};
  request.invocation_insert = 2;
  Report report;
  report.language = "python";
  report.argv = {"python3", some(bytes)};
  report.exit_status = bytes.byte();
  Outcome& outcome = report.outcome;
  outcome.verdict = static_cast<Verdict>(bytes.byte() % (static_cast<unsigned>(Verdict::setup_failed) + 1));
  outcome.signal = bytes.byte() % 70;
  outcome.exit_code = bytes.byte();
  const uint8_t flags = bytes.byte();
  outcome.out.kept = some(bytes);
  outcome.out.truncated = (flags & 1) != 0;
  outcome.err.kept = some(bytes);
  for (StreamResult* stream : {&outcome.out, &outcome.err}) {
    stream->captured = true;
    stream->total_bytes = stream->kept.size();
  }
  static const char* const limits[] = {"memory", "wall", "disk", "pids", "output", "inodes", "file_size", "open_files", "cpu_time"};
  if ((flags & 2) != 0) outcome.limits_hit.push_back({limits[bytes.byte() % std::size(limits)], "1M", "default policy", "tmpfs", 3});
  if ((flags & 4) != 0) outcome.denials.push_back({.call = "ptrace", .group = "", .text = "", .rule = "", .allow = "", .remedy = "", .process = some(bytes), .count = 1});
  for (int files = bytes.byte() % 4; files > 0; --files) report.artifacts.artifacts.push_back({some(bytes), Artifact::Type::file, 3, "text/plain", "", some(bytes)});
  report.artifacts.dropped = {some(bytes)};
  report.limits.memory = Bytes{uint64_t{1} << 20};
  report.limits.wall = Millis{1000};
  RunnerSpec runner;
  runner.name = "python";
  runner.hints = {{"MemoryError", "it ran out"}};
  outcome.stderr_tail = std::string(bytes.rest());
  HintContext context;
  context.request = &request;
  context.report = &report;
  context.runner = &runner;
  context.source_directory = "/home/someone/x";
  context.source_directory_shown = ".";
  context.siblings = {"helper.py", "data", "a b.txt", "--evil"};
  report.hints = make_hints(context);
  for (const std::string& hint : report.hints) check_line(hint);

  const Result<Json> read = session::parse_json(result_json(report, true));
  HOLDS(read.ok());
  const Json& json = read.value();
  check_stream(json.at("stdout"), outcome.out);
  check_stream(json.at("stderr"), outcome.err);
  check_exact(json.at("argv").items().at(1), report.argv[1]);
  HOLDS(json.at("artifacts").items().size() == report.artifacts.artifacts.size());
  for (size_t i = 0; i < report.artifacts.artifacts.size(); ++i) check_exact(json.at("artifacts").items()[i].at("path"), report.artifacts.artifacts[i].path);
  if (!outcome.denials.empty()) check_exact(json.at("denied").items().at(0).at("process"), outcome.denials[0].process);
  HOLDS(session::parse_json(error_json(Error(ErrorKind::usage, outcome.stderr_tail).with_hint(outcome.out.kept).with_origin(outcome.err.kept), 2)).ok());
  return 0;
}
