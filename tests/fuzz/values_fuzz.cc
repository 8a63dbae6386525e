// Numbers, sizes, durations and the values of keys as a command line has them; printing of hostile bytes.
#include <string>

#include "base/text.h"
#include "fuzz.h"
#include "policy/layer.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sbx;
  const std::string_view text = fuzz::text_of(data, size);
  const auto integer = parse_integer(text);
  if (integer.ok()) HOLDS(parse_integer(std::to_string(integer.value())).value() == integer.value());
  const auto bytes = parse_size(text);
  if (bytes.ok()) {
    const std::string shown = format_size(bytes.value());
    const bool plain = shown.find(' ') == std::string::npos;  // "100 bytes" is for people
    if (plain) HOLDS(parse_size(shown).ok() && parse_size(shown).value() == bytes.value());
  }
  const auto millis = parse_duration(text);
  if (millis.ok()) {
    HOLDS(millis.value().value >= 1);
    const auto again = parse_duration(format_duration(millis.value()));
    HOLDS(again.ok() && again.value() == millis.value());
  }

  const std::string shown = printable(text);
  HOLDS(is_valid_utf8(shown));
  for (const char c : shown) HOLDS(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  HOLDS(!shell_quote(text).empty());
  HOLDS(base64_encode(text).size() == (size + 2) / 3 * 4);
  if (!text.empty() && text.front() == '/') {
    const std::string path = normalize_path(text);
    HOLDS(normalize_path(path) == path && path.front() == '/');
    HOLDS(path_is_under(path, "/"));
  }

  for (const KeyRow& row : key_table()) {
    PolicyLayer layer;
    if (!set_from_text(layer, row.path, text, "flag --fuzz").ok()) continue;
    HOLDS(layer.values.size() == 1);
    const KeyValue& value = layer.values.begin()->second.value;
    HOLDS(check_value(row, value).ok());
    (void)format_value(row, value);
  }
  return 0;
}
