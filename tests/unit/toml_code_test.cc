#include <doctest/doctest.h>

#include <string>

#include "policy/loader.h"
#include "policy/toml_code.h"

namespace {

using namespace sbx;

TEST_CASE("what was parsed while building is what parsing gives, for every shipped text") {
  size_t count = 0;
  for (const char* folder : {"policies", "policies/lang", "policies/seccomp", "rootfs"}) {
    for (const std::string& path : embedded_files(folder)) {
      const std::string_view text = *embedded_file(path);
      const std::string copy(text);  // a text that is not known by its place
      CHECK(embedded_code(copy).empty());
      const auto parsed = parse_toml(copy, path);
      REQUIRE(parsed.ok());
      CHECK_MESSAGE(encode_toml(parsed.value()) == embedded_code(text), path);
      CHECK_MESSAGE(encode_toml(decode_toml(embedded_code(text))) == embedded_code(text), path);
      ++count;
    }
  }
  CHECK(count > 10);
}

TEST_CASE("every kind of value survives, with its place") {
  const auto parsed = parse_toml("a = -1\nb = 1.5\nc = true\n[d.e]\nf = [\"\", \"\\u00e9\", [9223372036854775807]]\n", "t");
  REQUIRE(parsed.ok());
  const TomlValue value = decode_toml(encode_toml(parsed.value()));
  CHECK(value.find("a")->integer == -1);
  CHECK(value.find("b")->decimal == 1.5);
  CHECK(value.find("c")->boolean);
  const TomlValue* list = value.find("d")->find("e")->find("f");
  REQUIRE(list->items.size() == 3);
  CHECK(list->items[1].string == "\u00e9");
  CHECK(list->items[2].items[0].integer == INT64_MAX);
  CHECK(toml_place("t", *list) == toml_place("t", *parsed.value().find("d")->find("e")->find("f")));
  CHECK(list->key_line == 5);
}

TEST_CASE("a code that was cut or changed gives an empty table, never more") {
  const auto parsed = parse_toml("a = [1, 2, [3]]\nb = \"text\"\n", "t");
  REQUIRE(parsed.ok());
  const std::string code = encode_toml(parsed.value());
  for (size_t size = 0; size < code.size(); ++size) CHECK(decode_toml(std::string_view(code).substr(0, size)).items.empty());
  CHECK(decode_toml(code + "x").items.empty());
  for (size_t at = 0; at < code.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = code;
      changed[at] = static_cast<char>(byte);
      (void)decode_toml(changed);  // the sanitizers watch
    }
  }
}

}  // namespace
