// The result of a run as JSON: docs/schema/result-v1.json is the contract, docs/result.md explains it.
//
// Nothing in here interprets what the payload wrote. Bytes that are not UTF-8 are never lost: streams, paths and
// arguments turn to base64; only sentences of ours (messages, notes, hints) get U+FFFD for stray bytes.

#include <charconv>
#include <csignal>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "runtime/request.h"
#if __has_include("version.h")
#include "version.h"
#endif
#ifndef SBX_VERSION
#define SBX_VERSION "0.0.0-unknown"
#endif

namespace sbx::runtime {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;

double milliseconds(Micros time) { return static_cast<double>(time.value) / 1000.0; }

template <typename T, typename Convert>
Json or_null(const std::optional<T>& value, Convert convert) {
  return value.has_value() ? Json(convert(*value)) : Json(nullptr);
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// A string, or {"base64": …} where a string could not hold the bytes.
Json exact(const std::string& bytes) {
  if (is_valid_utf8(bytes)) return bytes;
  return Json{{"base64", base64_encode(bytes)}};
}

Json exact_list(const std::vector<std::string>& list) {
  Json array = Json::array();
  for (const std::string& item : list) array.push_back(exact(item));
  return array;
}

Json text_list(const std::vector<std::string>& list) {
  Json array = Json::array();
  for (const std::string& item : list) array.push_back(item);
  return array;
}

std::string hexadecimal(uint64_t number) {
  char digits[16];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), number, 16).ptr;
  return "0x" + std::string(std::begin(digits), end);
}

std::string signal_name(int number) {
  const char* abbreviation = sigabbrev_np(number);
  if (abbreviation != nullptr) return std::string("SIG") + abbreviation;
  if (number >= SIGRTMIN && number <= SIGRTMAX) return "SIGRTMIN+" + std::to_string(number - SIGRTMIN);
  return "signal " + std::to_string(number);
}

Json signal_json(const Outcome& outcome) {
  if (outcome.signal == 0) return nullptr;
  return Json{{"number", outcome.signal}, {"name", signal_name(outcome.signal)}};
}

// The payload's own status; null unless it ended by exit.
Json exit_code_json(const Outcome& outcome) {
  const bool exited = outcome.verdict == Verdict::exited ||
                      (outcome.verdict == Verdict::compile_failed && outcome.signal == 0);
  return exited ? Json(outcome.exit_code) : Json(nullptr);
}

// Length of the incomplete UTF-8 character at the end, 0 to 3: a stream that was cut may end inside one.
size_t incomplete_tail(std::string_view bytes) {
  for (size_t back = 1; back <= 3 && back <= bytes.size(); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if (byte < 0x80) return 0;
    if (byte < 0xC0) continue;  // a continuation: look for its first byte
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return length > back ? back : 0;
  }
  return 0;
}

Json stream_json(const StreamResult& stream, bool inside) {
  Json json;
  std::string_view kept = stream.kept;
  const char* encoding = nullptr;
  if (stream.captured && inside) {
    if (is_valid_utf8(kept)) {
      encoding = "utf-8";
    } else {
      const std::string_view whole = kept.substr(0, kept.size() - incomplete_tail(kept));
      if (stream.truncated && is_valid_utf8(whole)) {
        kept = whole;
        encoding = "utf-8";
      } else {
        encoding = "base64";
      }
    }
  }
  if (encoding == nullptr) {
    json["encoding"] = nullptr;
    json["data"] = nullptr;
    std::string note = stream.captured ? "not asked for" : "forwarded, not captured";
    if (stream.joined) note = "the same pipe or file as stdout: passed on in the order of writing, and counted there";
    if (stream.forward_error.has_value()) note += "; " + stream.forward_error->text();
    json["data_note"] = note;
    json["kept_bytes"] = 0;
  } else {
    json["encoding"] = encoding;
    json["data"] = std::string_view(encoding) == "utf-8" ? std::string(kept) : base64_encode(kept);
    json["data_note"] = nullptr;
    json["kept_bytes"] = kept.size();
  }
  json["total_bytes"] = stream.total_bytes;
  json["truncated"] = stream.truncated;
  return json;
}

Json usage_json(const Usage& usage) {
  Json json;
  json["wall_ms"] = milliseconds(usage.wall);
  json["user_ms"] = or_null(usage.user, milliseconds);
  json["system_ms"] = or_null(usage.system, milliseconds);
  json["cpu_note"] = usage.user.has_value() && usage.system.has_value() ? Json(nullptr) : Json("the kernel gave no CPU times");
  json["peak_memory_bytes"] = or_null(usage.peak_memory, [](Bytes bytes) { return bytes.value; });
  json["peak_memory_note"] = usage.peak_memory_note.empty() && !usage.peak_memory.has_value()
                                 ? Json("not measured")
                                 : text_or_null(usage.peak_memory_note);
  json["peak_pids"] = or_null(usage.peak_pids, [](uint64_t count) { return count; });
  json["peak_pids_note"] = usage.peak_pids_note.empty() && !usage.peak_pids.has_value()
                               ? Json("not measured")
                               : text_or_null(usage.peak_pids_note);
  return json;
}

Json limits_hit_json(const std::vector<LimitHit>& hits) {
  Json array = Json::array();
  for (const LimitHit& hit : hits) {
    array.push_back(Json{{"name", hit.name},
                         {"value", hit.value},
                         {"origin", hit.origin},
                         {"enforced_by", hit.enforced_by},
                         {"count", hit.count}});
  }
  return array;
}

// Null, with the note, where denied calls are not known at all.
void put_denied(Json& json, const Outcome& outcome) {
  if (outcome.denials.empty() && !outcome.denials_note.empty()) {
    json["denied"] = nullptr;
  } else {
    Json array = Json::array();
    for (const Denial& denial : outcome.denials) {
      Json arguments = Json::array();
      // As text: not every reader of JSON keeps 64 bits.
      for (const uint64_t argument : denial.arguments) arguments.push_back(hexadecimal(argument));
      array.push_back(Json{{"call", denial.call},
                           {"group", text_or_null(denial.group)},
                           {"count", denial.count},
                           {"arguments", std::move(arguments)},
                           {"process", exact(denial.process)},
                           {"pid", denial.pid}});
    }
    json["denied"] = std::move(array);
  }
  json["denied_note"] = text_or_null(outcome.denials_note);
}

Json setup_json(const std::vector<StageTime>& times) {
  Json stages = Json::array();
  Micros total;
  for (const StageTime& time : times) {
    stages.push_back(Json{{"stage", time.stage}, {"ms", milliseconds(time.duration)}});
    total.value += time.duration.value;
  }
  return Json{{"total_ms", milliseconds(total)}, {"stages", std::move(stages)}};
}

Json isolation_json(const Isolation& isolation) {
  Json json;
  json["namespaces"] = text_list(isolation.namespaces);
  json["identity"] = isolation.identity;
  json["network"] = isolation.network;
  json["seccomp"] = Json{{"policy", text_or_null(isolation.seccomp_policy)},
                         {"sha256", text_or_null(isolation.seccomp_digest)}};
  json["landlock"] = Json{{"abi", isolation.landlock_abi > 0 ? Json(isolation.landlock_abi) : Json(nullptr)},
                          {"note", isolation.landlock_note.empty() && isolation.landlock_abi == 0
                                       ? Json("not in force")
                                       : text_or_null(isolation.landlock_note)}};
  Json held = Json::object();
  for (const auto& [limit, by] : isolation.limits_held_by) held[limit] = by;
  json["limits_held_by"] = std::move(held);
  json["not_held"] = text_list(isolation.not_held);
  return json;
}

Json error_object(const Error& error) {
  Json json;
  json["kind"] = error_kind_name(error.kind());
  json["message"] = error.text();
  json["stage"] = text_or_null(error.stage());
  json["origin"] = text_or_null(error.origin());
  json["hint"] = text_or_null(error.hint());
  if (error.errnum() == 0) {
    json["errno"] = nullptr;
  } else {
    const char* name = strerrorname_np(error.errnum());
    json["errno"] = Json{{"number", error.errnum()}, {"name", name != nullptr ? Json(name) : Json(nullptr)}};
  }
  return json;
}

const char* artifact_type_name(Artifact::Type type) {
  switch (type) {
    case Artifact::Type::file: return "file";
    case Artifact::Type::directory: return "directory";
    case Artifact::Type::symlink: return "symlink";
    case Artifact::Type::device: return "device";
    case Artifact::Type::fifo: return "fifo";
    case Artifact::Type::socket: return "socket";
    case Artifact::Type::deleted: return "deleted";
  }
  return "file";
}

Json artifact_json(const Artifact& artifact) {
  const bool file = artifact.type == Artifact::Type::file;
  Json json;
  json["path"] = exact(artifact.path);
  json["type"] = artifact_type_name(artifact.type);
  json["size"] = file ? Json(artifact.size) : Json(nullptr);
  json["mime"] = text_or_null(artifact.mime);
  json["sha256"] = text_or_null(artifact.sha256);
  json["note"] = text_or_null(artifact.note);
  return json;
}

Json plot_json(const Plot& plot) {
  const auto number = [](uint32_t value) { return value; };
  Json json;
  json["index"] = plot.index;
  json["library"] = text_or_null(plot.library);
  json["title"] = text_or_null(plot.title);
  json["format"] = plot.format;
  json["mime"] = plot.mime;
  json["size"] = plot.size;
  json["width"] = or_null(plot.width, number);
  json["height"] = or_null(plot.height, number);
  json["sha256"] = plot.sha256;
  json["file"] = text_or_null(plot.file);
  json["data"] = plot.file.empty() ? Json(base64_encode(plot.content)) : Json(nullptr);
  return json;
}

Json compile_json(const CompileReport& compile) {
  const Outcome& outcome = compile.outcome;
  Json json;
  json["verdict"] = verdict_name(outcome.verdict);
  json["exit_code"] = exit_code_json(outcome);
  json["signal"] = signal_json(outcome);
  json["argv"] = exact_list(compile.argv);
  json["cached"] = compile.cached;
  json["limits_hit"] = limits_hit_json(outcome.limits_hit);
  // The compiler's own output always belongs to its step, captured or not at all.
  json["stdout"] = stream_json(outcome.out, true);
  json["stderr"] = stream_json(outcome.err, true);
  json["usage"] = usage_json(outcome.usage);
  json["setup"] = setup_json(outcome.setup_times);
  put_denied(json, outcome);
  json["error"] = outcome.setup_error.has_value() ? error_object(*outcome.setup_error) : Json(nullptr);
  return json;
}

// The writer escapes what JSON demands; DEL and the C1 controls (U+0080 to U+009F) are escaped on top, so that a result
// printed at a terminal cannot steer it. They stand inside of strings only, where an escape means the same.
std::string dump(const Json& json) {
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string safe;
  safe.reserve(text.size() + 1);
  for (size_t at = 0; at < text.size(); ++at) {
    auto byte = static_cast<unsigned char>(text[at]);
    const bool c1 = byte == 0xC2 && at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) < 0xA0;
    if (c1) byte = static_cast<unsigned char>(text[++at]);
    if (c1 || byte == 0x7F) {
      safe += "\\u00";
      safe += kDigits[byte >> 4];
      safe += kDigits[byte & 15];
    } else {
      safe += text[at];
    }
  }
  return safe + "\n";
}

Json header() {
  Json json;
  json["schema"] = "sbx-result";
  json["version"] = kSchemaVersion;
  json["sbx_version"] = SBX_VERSION;
  return json;
}

}  // namespace

std::string result_json(const Report& report, bool with_streams) {
  const Outcome& outcome = report.outcome;
  Json json = header();
  json["verdict"] = verdict_name(outcome.verdict);
  // A compiler that a limit ended has no status of its own, as compile.exit_code says, too.
  const bool not_compiled = outcome.verdict == Verdict::compile_failed && report.compile.has_value();
  json["exit_code"] = exit_code_json(not_compiled ? report.compile->outcome : outcome);
  json["signal"] = signal_json(outcome);
  json["exit_status"] = report.exit_status;
  json["error"] = outcome.setup_error.has_value() ? error_object(*outcome.setup_error) : Json(nullptr);
  json["limits_hit"] = limits_hit_json(outcome.limits_hit);
  json["hints"] = text_list(report.hints);
  json["language"] = text_or_null(report.language);
  json["tool"] = report.tool.empty() ? Json(nullptr)
                                     : Json{{"path", exact(report.tool)}, {"version", text_or_null(report.tool_version)}};
  json["argv"] = exact_list(report.argv);
  json["stdout"] = stream_json(outcome.out, with_streams);
  json["stderr"] = stream_json(outcome.err, with_streams);
  json["usage"] = usage_json(outcome.usage);
  json["setup"] = setup_json(outcome.setup_times);
  json["compile"] = report.compile.has_value() ? compile_json(*report.compile) : Json(nullptr);
  put_denied(json, outcome);
  Json artifacts = Json::array();
  for (const Artifact& artifact : report.artifacts.artifacts) artifacts.push_back(artifact_json(artifact));
  json["artifacts"] = std::move(artifacts);
  json["artifacts_dropped"] = text_list(report.artifacts.dropped);
  json["artifact_notes"] = text_list(report.artifact_notes);
  Json plots = Json::array();
  for (const Plot& plot : report.plots.plots) plots.push_back(plot_json(plot));
  json["plots"] = std::move(plots);
  json["plots_dropped"] = text_list(report.plots.dropped);
  json["isolation"] = isolation_json(outcome.isolation);
  Json origins = Json::object();
  for (const auto& [key, origin] : report.policy_origins) origins[key] = origin;
  json["policy"] = Json{{"digest", text_or_null(report.policy_digest)}, {"origins", std::move(origins)}};
  return dump(json);
}

std::string error_json(const Error& error, int exit_status) {
  Json json = header();
  json["verdict"] = verdict_name(Verdict::setup_failed);
  json["exit_code"] = nullptr;
  json["signal"] = nullptr;
  json["exit_status"] = exit_status;
  json["error"] = error_object(error);
  json["limits_hit"] = Json::array();
  json["hints"] = Json::array();
  json["language"] = nullptr;
  json["tool"] = nullptr;
  json["argv"] = Json::array();
  for (const char* key : {"stdout", "stderr", "usage", "setup", "compile", "denied"}) json[key] = nullptr;
  json["denied_note"] = "nothing ran";
  json["artifacts"] = Json::array();
  json["artifacts_dropped"] = Json::array();
  json["artifact_notes"] = Json::array();
  json["plots"] = Json::array();
  json["plots_dropped"] = Json::array();
  json["isolation"] = nullptr;
  json["policy"] = nullptr;
  return dump(json);
}

}  // namespace sbx::runtime
