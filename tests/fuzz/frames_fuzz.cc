// Frames that a session's driver sends, and the JSON in them. The first byte says where the stream is split.
#include <string>

#include "fuzz.h"
#include "session/driver.h"
#include "session/json.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  if (text.empty()) return 0;
  const size_t step = static_cast<size_t>(static_cast<unsigned char>(text[0])) + 1;
  sbx::session::FrameReader reader;
  bool ready = false;
  for (size_t at = 1; at < text.size(); at += step) {
    reader.append(text.substr(at, step));
    for (;;) {
      const sbx::Result<std::optional<sbx::session::DriverFrame>> frame = reader.next();
      if (!frame.ok()) return 0;
      if (!frame.value()) break;
      HOLDS(ready == (frame.value()->type != sbx::session::DriverFrame::Type::ready));
      if (!ready) reader.begin_cell(1, "00000000000000000000000000000000");
      ready = true;
      const sbx::Result<sbx::session::Json> again = sbx::session::parse_json(frame.value()->body.dump());
      HOLDS(again.ok());
    }
  }
  return 0;
}
