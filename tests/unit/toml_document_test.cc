#include <doctest/doctest.h>

#include <string>

#include "policy/toml_document.h"

using namespace sbx;
using Kind = TomlValue::Kind;

namespace {

TomlValue parsed(const std::string& text) {
  Result<TomlValue> document = parse_toml(text, "t.toml");
  REQUIRE_MESSAGE(document.ok(), document.error().text());
  return document.take();
}
std::string failure(const std::string& text) {
  Result<TomlValue> document = parse_toml(text, "t.toml");
  REQUIRE_FALSE(document.ok());
  CHECK(document.error().kind() == ErrorKind::policy);
  return document.error().text();
}
std::string repeated(const std::string& piece, size_t times) {
  std::string text;
  for (size_t i = 0; i < times; ++i) text += piece;
  return text;
}

}  // namespace

TEST_CASE("values come with their type, and keys in the order of the text with their place") {
  const TomlValue document = parsed("zeta = 0x10\nalpha = \"a\\tb\"\n[t.u]\nyes = true\n\nlist = [1.5, [2], {k = 'v'}]\n[[r]]\nn = 1\n[[r]]\nn = 2\n");
  REQUIRE(document.items.size() == 4);
  CHECK(document.items[0].key == "zeta");
  CHECK(document.items[0].is(Kind::integer));
  CHECK(document.items[0].integer == 16);
  CHECK(document.items[1].string == "a\tb");
  const TomlValue* inner = document.find("t")->find("u");
  REQUIRE(inner != nullptr);
  CHECK(inner->find("yes")->boolean);
  const TomlValue& list = *inner->find("list");
  CHECK(toml_key_place("t.toml", list) == "t.toml:6:1");
  CHECK(toml_place("t.toml", list) == "t.toml:6:8");
  REQUIRE(list.items.size() == 3);
  CHECK(list.items[0].is(Kind::decimal));
  CHECK(list.items[0].decimal == 1.5);
  CHECK(list.items[1].items[0].integer == 2);
  CHECK(list.items[2].find("k")->string == "v");
  REQUIRE(document.find("r")->items.size() == 2);
  CHECK(document.find("r")->items[1].find("n")->integer == 2);
  CHECK(document.find("none") == nullptr);
  CHECK(list.find("k") == nullptr);
}

TEST_CASE("errors of the text name line and column") {
  CHECK(failure("a = 1\nb = = 2\n").rfind("t.toml:2:5: ", 0) == 0);
  CHECK(failure("a = 1\na = 2\n").rfind("t.toml:2:", 0) == 0);
  CHECK(failure("x = 'a\n").rfind("t.toml:1:", 0) == 0);
  CHECK(failure("a = \"\xff\"").rfind("t.toml:1:", 0) == 0);
  CHECK(failure("a = 1\n  d = 2020-01-01\n") == "t.toml:2:7: dates and times have no use here");
  CHECK(failure("a = 07:32:00") == "t.toml:1:5: dates and times have no use here");
  CHECK(toml_error("t.toml", parsed("a = 1").items[0], "is wrong").text() == "t.toml:1:5: is wrong");
}

TEST_CASE("size and depth are bounded, in every notation that nests") {
  CHECK(failure(std::string(kMaxTomlBytes + 1, '\n')).find("larger than") != std::string::npos);
  CHECK(parsed(std::string(kMaxTomlBytes, '\n')).items.empty());
  CHECK(failure("a = " + repeated("[", 100000)).find("depth") != std::string::npos);
  CHECK(failure("a = " + repeated("{a=", 100000)).find("depth") != std::string::npos);
  CHECK(failure("a" + repeated(".a", 200000) + " = 1").find("32 parts") != std::string::npos);
  CHECK(failure("[a" + repeated(".a", 200000) + "]").find("32 parts") != std::string::npos);
  CHECK(failure("[[a" + repeated(" . \"a\"", 100000) + "]]").find("32 parts") != std::string::npos);
  CHECK(failure("x = 1\nb = { a" + repeated(".a", 40) + " = 1 }").rfind("t.toml:2:", 0) == 0);
  parsed("a" + repeated(".a", 31) + " = 1");
  parsed("a = " + repeated("[", 30) + repeated("]", 30));
}

TEST_CASE("dots in strings, comments and numbers are no parts of a key") {
  const std::string dots(100, '.');
  CHECK(parsed("a = \"" + dots + "\"").items[0].string == dots);
  CHECK(parsed("a = '" + dots + "'").items[0].string == dots);
  CHECK(parsed("a = \"\\\"" + dots + "\"").items[0].string == "\"" + dots);
  CHECK(parsed("a = \"\"\"\n" + dots + "\"\"\"").items[0].string == dots);
  CHECK(parsed("a = '''" + dots + "\n'''").items[0].string == dots + "\n");
  CHECK(parsed("a = 1 # \"" + dots + "\nb = 2").items.size() == 2);
  CHECK(parsed("a = [" + repeated("1.5, ", 100) + "]").items[0].items.size() == 100);
}

TEST_CASE("what violates an assertion of the library is an error with its line, not the end of the process") {
  CHECK(failure("a = 1\n\n[<x]\nb = 2\n") == "t.toml:3:1: this line is not TOML");
  CHECK(failure("[<") == "t.toml:1:1: this line is not TOML");
  CHECK(failure("[[\n]]\n").find("t.toml:") == 0);
}

TEST_CASE("letters beyond ASCII are no white space: errors outside of strings, content inside") {
  for (const std::string letter : {"\u0111", "\u0499", "\u2ff9", "\u9fff", "\uffee"}) {
    CHECK(failure("[a" + letter + "]\n").find("t.toml:1:") == 0);
    CHECK(failure("a" + letter + " = 1\n").find("t.toml:1:") == 0);
    CHECK(parsed("a = '" + letter + "'\n").items[0].string == letter);
    CHECK(parsed("a = 1 # " + letter + "\n").items[0].integer == 1);
  }
}
