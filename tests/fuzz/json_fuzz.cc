// JSON of clients, drivers and records of sessions: what is accepted keeps the bounds, is written as ASCII, and is the
// same when it is read again.
#include <cmath>
#include <string>

#include "fuzz.h"
#include "session/json.h"

namespace {

using sbx::session::Json;

size_t count_values(const Json& json, size_t depth, size_t most) {
  HOLDS(depth <= most);
  size_t sum = 1;
  for (const Json& item : json.items()) sum += count_values(item, depth + 1, most);
  for (const auto& [key, value] : json.members()) {
    HOLDS(json.has(key) && &json.at(key) == &value);  // none twice
    sum += count_values(value, depth + 1, most);
  }
  HOLDS(!json.is(Json::Kind::real) || std::isfinite(json.real()));
  return sum;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  constexpr size_t kDepth = 16, kValues = 200;
  const sbx::Result<Json> parsed = sbx::session::parse_json(text, kDepth, kValues);
  if (!parsed.ok()) {
    HOLDS(parsed.error().kind() == sbx::ErrorKind::usage);
    return 0;
  }
  HOLDS(count_values(parsed.value(), 0, kDepth) <= kValues);
  for (const int indent : {-1, 2}) {
    const std::string written = parsed.value().dump(indent);
    for (const char c : written) HOLDS((c >= 0x20 && c < 0x7f) || (indent > 0 && c == '\n'));
    const sbx::Result<Json> again = sbx::session::parse_json(written, kDepth, kValues);
    HOLDS(again.ok() && again.value() == parsed.value());
  }
  return 0;
}
