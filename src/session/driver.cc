#include "session/driver.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/sys.h"
#include "base/text.h"
#include "policy/loader.h"

namespace sbx::session {
namespace {

constexpr size_t kDigits = 8;
constexpr char kHex[] = "0123456789abcdef";
constexpr char kDrivers[] = "policies/lang/drivers";
constexpr size_t kMaxTypes = 64;  // forms of one thing

struct Known {
  const char* language;
  const char* prefix;                  // of its files in the folder
  std::vector<const char*> hooks;      // of policies/lang/hooks, beside them
  std::vector<std::string> argv;
  std::vector<std::string> prepare;
  std::vector<std::string> once;       // behind argv: one program, and its last expression; empty: it cannot tell
};

const std::vector<Known>& known_drivers() {
  static const std::vector<Known> known = {
      {"python", "python_", {"sitecustomize.py", "python_display.py"},
       {"{tool}", join_path(kDriverDirectory, "python_driver.py"), "--fd", "3"},
       {"{tool}", "-I", join_path(kDriverDirectory, "python_driver.py"), "--prepare", "{prepared}"},
       {"--once", "{src}", "{args}"}},
      {"bash", "bash_", {}, {"{tool}", join_path(kDriverDirectory, "bash_driver.sh"), "3"}, {}, {}},
  };
  return known;
}

Error broken(const std::string& why) { return Error(ErrorKind::system, "the driver broke its protocol: " + why); }

// MIME type → content, and nothing deeper than JSON types allow.
Status check_bundle(const Json& data) {
  if (!data.is(Json::Kind::object)) return broken("data is no object");
  if (data.members().size() > kMaxTypes) return broken("too many forms of one output");
  for (const auto& [type, content] : data.members()) {
    if (type.empty() || type.size() > 128 || type.find('/') == std::string::npos) return broken("a form that is no MIME type");
    const bool json = type == "application/json" || type.ends_with("+json");
    if (!json && !content.is(Json::Kind::text)) return broken("a form that is no text");
  }
  return {};
}

}  // namespace

std::optional<runtime::SessionDriver> driver_of(const std::string& language, const std::string& preload, const std::string& ipython) {
  for (const Known& known : known_drivers()) {
    if (language != known.language) continue;
    runtime::SessionDriver driver;
    driver.directory = kDriverDirectory;
    driver.argv = known.argv;
    driver.prepare = known.prepare;
    if (!preload.empty()) driver.argv.insert(driver.argv.end(), {"--preload", preload});
    if (ipython == "yes" || ipython == "no") driver.argv.insert(driver.argv.end(), {"--ipython", ipython == "yes" ? "always" : "never"});
    for (const std::string& path : embedded_files(kDrivers)) {
      const std::string name = base_name(path);
      if (starts_with(name, known.prefix)) driver.files.emplace_back(name, std::string(*embedded_file(path)));
    }
    if (driver.files.empty()) return std::nullopt;
    for (const char* hook : known.hooks) {
      if (const std::string_view* content = embedded_file("policies/lang/hooks/" + std::string(hook))) driver.files.emplace_back(hook, std::string(*content));
    }
    return driver;
  }
  return std::nullopt;
}

std::vector<std::string> languages_with_driver() {
  std::vector<std::string> names;
  for (const Known& known : known_drivers()) {
    if (driver_of(known.language)) names.emplace_back(known.language);
  }
  return names;
}

Result<runtime::SessionDriver> evaluator_of(const std::string& language, const std::string& token, const std::string& show) {
  std::vector<std::string> possible;
  for (const Known& known : known_drivers()) {
    if (known.once.empty()) continue;
    possible.emplace_back(known.language);
    if (language != known.language) continue;
    std::optional<runtime::SessionDriver> driver = driver_of(language);
    if (!driver) break;
    driver->argv.insert(driver->argv.end(), known.once.begin(), known.once.end());
    driver->environment.emplace_back("SBX_TOKEN", token);
    driver->environment.emplace_back("SBX_SHOW", show);
    return std::move(*driver);
  }
  return Error(ErrorKind::usage, "programs in " + quoted(language) + " have no last expression that sbx could tell the value of")
      .with_origin("flag --eval")
      .with_hint("languages that have one: " + join(possible, ", ") + "; leave --eval out for the others");
}

Result<std::string> make_token() { return sys::random_hex(16); }

std::string frame(std::string_view body) {
  std::string text(kDigits, '0');
  size_t size = body.size();
  for (size_t at = kDigits; at-- > 0; size >>= 4) text[at] = kHex[size & 15];
  return text.append(body);
}

void FrameReader::begin_cell(int64_t cell, std::string token) {
  expected_ = {cell, std::move(token), 0};
  running_ = true;
  bytes_ = frames_ = 0;
}

Result<std::optional<DriverFrame>> FrameReader::next() {
  const std::string_view rest = std::string_view(buffer_).substr(begin_);
  if (rest.size() < kDigits) {
    buffer_.erase(0, std::exchange(begin_, 0));
    return std::optional<DriverFrame>();
  }
  size_t size = 0;
  for (size_t at = 0; at < kDigits; ++at) {
    const std::string_view digits(kHex, 16);
    const size_t digit = digits.find(rest[at]);
    if (digit == std::string_view::npos) return broken("a frame without a length");
    size = size << 4 | digit;
  }
  if (size > kMaxFrame) return broken("a frame of " + std::to_string(size) + " bytes");
  if (rest.size() < kDigits + size) {
    buffer_.erase(0, std::exchange(begin_, 0));
    return std::optional<DriverFrame>();
  }
  bytes_ += size;
  if (bytes_ > kMaxCellBytes || ++frames_ > kMaxCellFrames) return broken("more frames than a cell may have");
  Result<Json> parsed = parse_json(rest.substr(kDigits, size));
  if (!parsed.ok()) return broken(parsed.error().text());
  begin_ += kDigits + size;
  return std::optional<DriverFrame>(SBX_TRY(check(parsed.take())));
}

Result<DriverFrame> FrameReader::check(Json body) {
  const std::string& type = body.at("type").text();
  DriverFrame frame;
  if (!ready_) {
    if (type != "ready" || body.at("protocol").integer() != 1) return broken("it did not begin with ready");
    ready_ = true;
    frame.body = std::move(body);
    return frame;
  }
  if (!running_) return broken("a frame while no cell runs");
  if (body.at("cell").integer() != expected_.cell || body.at("token").text() != expected_.token) return broken("a frame that belongs to another cell");
  if (body.at("seq").integer() != expected_.seq + 1) return broken("a frame out of its order");
  ++expected_.seq;
  if (type == "display" || type == "update" || type == "result") {
    frame.type = type == "display" ? DriverFrame::Type::display : type == "update" ? DriverFrame::Type::update : DriverFrame::Type::result;
    SBX_TRY(check_bundle(body.at("data")));
    if (body.has("metadata") && !body.at("metadata").is(Json::Kind::object)) return broken("metadata is no object");
    if (body.has("display_id") && !body.at("display_id").is(Json::Kind::text) && !body.at("display_id").is(Json::Kind::null)) return broken("display_id is no text");
  } else if (type == "clear") {
    frame.type = DriverFrame::Type::clear;
  } else if (type == "echo") {
    frame.type = DriverFrame::Type::echo;
    if (!body.at("on").is(Json::Kind::boolean)) return broken("echo is neither on nor off");
  } else if (type == "done") {
    frame.type = DriverFrame::Type::done;
    running_ = false;
    const std::string& status = body.at("status").text();
    if (status != "ok" && status != "error" && status != "interrupted" && status != "exit") return broken("an unknown status");
    if (const int64_t code = body.at("exit_code").integer(-1); code < 0 || code > 255) return broken("an exit code that is none");
    if (const int64_t heir = body.at("pid").integer(); heir < 0 || heir > INT32_MAX) return broken("a pid that is none");
    if (const Json& error = body.at("error"); !error.is(Json::Kind::null)) {
      for (const char* key : {"name", "value", "traceback"}) {
        if (!error.at(key).is(Json::Kind::text)) return broken("an error without " + std::string(key));
      }
    }
  } else {
    return broken("a frame of an unknown kind");
  }
  frame.body = std::move(body);
  return frame;
}

std::string output_json(const DriverFrame& frame) {
  const bool result = frame.type == DriverFrame::Type::result;
  Json output = Json::object();
  output.set("type", frame.type == DriverFrame::Type::display ? "display_data" : result ? "execute_result" : "update_display_data");
  output.set("data", frame.body.at("data")).set("metadata", frame.body.has("metadata") ? frame.body.at("metadata") : Json::object());
  if (frame.body.at("display_id").is(Json::Kind::text)) output.set("display_id", frame.body.at("display_id"));
  if (result) output.set("execution_count", frame.body.at("execution_count").integer());
  return output.dump();
}

std::string error_output(const DriverFrame& done) {
  const Json& error = done.body.at("error");
  if (!error.is(Json::Kind::object)) return {};
  return Json::object().set("type", "error").set("name", error.at("name")).set("value", error.at("value")).set("traceback", error.at("traceback")).dump();
}

std::string stream_output(const char* name, std::string_view bytes, size_t& left) {
  const std::string_view wanted = bytes.substr(0, left);
  left -= wanted.size();
  Json output = Json::object().set("type", "stream").set("name", name);
  if (wanted.size() < bytes.size()) output.set("truncated", true);
  if (is_valid_utf8(wanted)) output.set("text", std::string(wanted));
  else output.set("base64", base64_encode(wanted));
  return output.dump();
}

std::string with_outputs(std::string object, const Json& more, const std::vector<std::string>& outputs) {
  object.resize(object.rfind('}'));
  while (!object.empty() && (object.back() == '\n' || object.back() == ' ')) object.pop_back();
  std::string members = more.dump(2);
  members.resize(members.size() - 2);  // "\n}"
  object.append(",").append(members, 1).append(",\n  \"outputs\": [");
  for (size_t i = 0; i < outputs.size(); ++i) object.append(i == 0 ? "\n    " : ",\n    ").append(outputs[i]);
  return object.append(outputs.empty() ? "]\n}\n" : "\n  ]\n}\n");
}

}  // namespace sbx::session
