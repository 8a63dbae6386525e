// nsjail's configurations, text format and JSON: errors name the text, what was read can be written and read again as the
// same.
#include <string>

#include "fuzz.h"
#include "policy/nsjail/read.h"
#include "policy/nsjail/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const sbx::Result<sbx::nsjail::Config> config = sbx::nsjail::parse_config(text, "fuzz.cfg");
  if (!config.ok()) {
    HOLDS(config.error().kind() == sbx::ErrorKind::policy);
    HOLDS(config.error().text().find("fuzz.cfg") == 0);
    return 0;
  }
  const std::string written = sbx::nsjail::write_textproto(config.value());
  const sbx::Result<sbx::nsjail::Config> again = sbx::nsjail::parse_textproto(written, "again");
  HOLDS(again.ok());
  HOLDS(again.value() == config.value());
  return 0;
}
