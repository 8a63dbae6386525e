// Class files, which a compiler made of hostile source or a hostile source made itself, and the text of Java programs.
#include <string>

#include "fuzz.h"
#include "runtime/jvm.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sbx;
  const std::string text(fuzz::text_of(data, size));
  const Result<runtime::ClassFile> file = runtime::parse_class_file(text);
  if (file.ok()) {
    HOLDS(!file.value().name.empty() && file.value().name.size() <= text.size());
    HOLDS(file.value().source.size() <= text.size());
    // What stands behind it makes it no other file; less of it may make it none.
    HOLDS(runtime::parse_class_file(text + "\n").ok());
  } else {
    HOLDS(file.error().kind() == ErrorKind::policy);
  }
  const std::string name = runtime::java_source_name(text, "given.java");
  HOLDS(name.size() <= 205 && name.ends_with(".java"));
  HOLDS(name.find('/') == std::string::npos && name.find('\0') == std::string::npos && name[0] != '.' && name[0] != '-');
  return 0;
}
