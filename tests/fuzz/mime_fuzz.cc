// The type of a file by its first bytes. The first line of the input is the file's name.
#include <string>

#include "fuzz.h"
#include "runtime/artifacts.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const size_t end = text.find('\n');
  const std::string_view name = text.substr(0, end);
  const std::string_view head = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  // A copy of its own: a read behind the end is one that the sanitizer sees.
  const std::string copy(head);
  const std::string type = sbx::runtime::mime_type(copy, name);
  HOLDS(type.find('/') != std::string::npos);
  HOLDS((type == "application/x-empty") == head.empty());
  return 0;
}
