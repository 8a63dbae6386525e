#include "base/text.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace sbx;
using namespace std::string_literals;

TEST_SUITE_BEGIN("text");

TEST_CASE("a whole number is decimal digits that fit 64 bits, and nothing else") {
  CHECK(parse_integer("0").value() == 0);
  CHECK(parse_integer("007").value() == 7);
  CHECK(parse_integer("18446744073709551615").value() == UINT64_MAX);
  for (const char* text : {"", "-1", "+1", " 1", "1 ", "0x10", "1e3", "1.0", "18446744073709551616",
                           "99999999999999999999999999"}) {
    CAPTURE(text);
    REQUIRE_FALSE(parse_integer(text).ok());
    CHECK(parse_integer(text).error().kind() == ErrorKind::usage);
  }
  CHECK_FALSE(parse_integer("1\0"s).ok());
}

TEST_CASE("sizes are bytes or multiples of powers of 1024, rounded down") {
  CHECK(parse_size("0").value().value == 0);
  CHECK(parse_size("4096").value().value == 4096);
  CHECK(parse_size("100B").value().value == 100);
  CHECK(parse_size("64K").value().value == 64u << 10);
  CHECK(parse_size("64k").value().value == 64u << 10);
  CHECK(parse_size("64M").value().value == 64u << 20);
  CHECK(parse_size("64MB").value().value == 64u << 20);
  CHECK(parse_size("64MiB").value().value == 64u << 20);
  CHECK(parse_size("1.5G").value().value == 1610612736u);
  CHECK(parse_size("1T").value().value == uint64_t{1} << 40);
  CHECK(parse_size("0.0009K").value().value == 0);
  CHECK(parse_size("0.001K").value().value == 1);
  CHECK(parse_size("16777215T").value().value == uint64_t{16777215} << 40);
}

TEST_CASE("a size that is no number, has no unit for its fraction or does not fit is refused with a hint") {
  for (const char* text : {"", "M", "-1M", "1.5", "1.5B", "1.M", ".5M", "1 M", "1X", "1MM", "1KiBB", "1iB", "0x1M", "1e3",
                           "1,5M", "16777216T", "18446744073709551616", "1.1234567890K", "inf", "none"}) {
    CAPTURE(text);
    const auto size = parse_size(text);
    REQUIRE_FALSE(size.ok());
    CHECK_FALSE(size.error().hint().empty());
    CHECK(size.error().text().find("'"s + text + "'") == 0);
  }
}

TEST_CASE("durations are seconds unless a unit follows") {
  CHECK(parse_duration("10").value().value == 10000);
  CHECK(parse_duration("1.5").value().value == 1500);
  CHECK(parse_duration("250ms").value().value == 250);
  CHECK(parse_duration("1.5s").value().value == 1500);
  CHECK(parse_duration("2m").value().value == 120000);
  CHECK(parse_duration("0.5h").value().value == 1800000);
  CHECK(parse_duration("1ms").value().value == 1);
  CHECK(parse_duration("0.0019s").value().value == 1);
}

TEST_CASE("a duration below 1 ms, beyond 64 bits of nanoseconds or without a number is refused") {
  for (const char* text : {"", "0", "0s", "0.5ms", "0.0001", "-1", "s", "1d", "1 s", "1sec", "1M", "9223372036855ms",
                           "99999999999999999999h", "1.5.5s"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_duration(text).ok());
  }
  CHECK(parse_duration("9223372036854ms").ok());
}

TEST_CASE("a formatted size reads back as the same size") {
  CHECK(format_size({0}) == "0 bytes");
  CHECK(format_size({1}) == "1 byte");
  CHECK(format_size({100}) == "100 bytes");
  CHECK(format_size({1536 << 10}) == "1536K");
  CHECK(format_size({384 << 20}) == "384M");
  CHECK(format_size({1 << 30}) == "1G");
  CHECK(format_size({uint64_t{3} << 40}) == "3T");
  for (const uint64_t value : {uint64_t{1024}, uint64_t{1536} << 20, uint64_t{5} << 40, uint64_t{1047552}}) {
    CHECK(parse_size(format_size({value})).value().value == value);
  }
}

TEST_CASE("a formatted duration reads back as the same duration") {
  const std::vector<std::pair<int64_t, std::string>> cases = {
      {0, "0ms"},       {1, "1ms"},       {250, "250ms"},   {1000, "1s"},     {1500, "1.5s"},  {1050, "1.05s"},
      {60000, "60s"},   {61500, "61.5s"}, {90000, "90s"},   {120000, "2m"},   {600000, "10m"}, {3600000, "1h"},
      {5400000, "90m"}, {7200000, "2h"},  {-1500, "-1.5s"}, {3600001, "3600.001s"}};
  for (const auto& [value, text] : cases) {
    CHECK(format_duration({value}) == text);
    if (value > 0) CHECK(parse_duration(text).value().value == value);
  }
  CHECK(format_duration({INT64_MIN}) == "-9223372036854775.808s");
}

TEST_CASE("printable text holds nothing that a terminal obeys") {
  CHECK(printable("plain é 漢 🙂") == "plain é 漢 🙂");
  CHECK(printable("\x1b[31m") == "\\x1b[31m");
  CHECK(printable("a\nb\tc\rd\x7f") == "a\\x0ab\\x09c\\x0dd\\x7f");
  CHECK(printable("\0"s) == "\\x00");
  CHECK(printable("\xff\xfe") == "\\xff\\xfe");
  // C1 as UTF-8: U+009B is CSI to some terminals.
  CHECK(printable("\xc2\x9b" "31m") == "\\xc2\\x9b31m");
  // U+202E turns the rest of the line around, U+2028 starts a new one, U+200B hides.
  CHECK(printable("a\xe2\x80\xae" "b") == "a\\xe2\\x80\\xaeb");
  CHECK(printable("\xe2\x80\xa8") == "\\xe2\\x80\\xa8");
  CHECK(printable("\xe2\x80\x8b") == "\\xe2\\x80\\x8b");
}

TEST_CASE("printable text is cut at the limit, never inside a character") {
  CHECK(printable("abcdef", 6) == "abcdef");
  CHECK(printable("abcdef", 3) == "abc…");
  CHECK(printable("aé", 2) == "a…");
  CHECK(printable("aé", 3) == "aé");
  CHECK(printable("a", 0) == "…");
  CHECK(printable("", 0) == "");
}

TEST_CASE("a quoted word is the same word to a shell") {
  CHECK(shell_quote("plain-word_1.txt") == "plain-word_1.txt");
  CHECK(shell_quote("K=V/x,y:z@w+%") == "K=V/x,y:z@w+%");
  CHECK(shell_quote("") == "''");
  CHECK(shell_quote("two words") == "'two words'");
  CHECK(shell_quote("it's") == "'it'\\''s'");
  CHECK(shell_quote("$HOME") == "'$HOME'");
  CHECK(shell_quote("~") == "'~'");
  CHECK(shell_quote("é") == "'é'");
  CHECK(shell_quote("a\nb") == "$'a\\012b'");
  CHECK(shell_quote("\x1b'\\1") == "$'\\033\\'\\\\1'");
}

TEST_CASE("UTF-8 without overlong forms, surrogates and numbers beyond U+10FFFF is valid") {
  CHECK(is_valid_utf8(""));
  CHECK(is_valid_utf8("a\0é漢🙂"s));
  CHECK(is_valid_utf8("\xf4\x8f\xbf\xbf"));
  for (const auto& bytes : {"\x80"s, "\xc0\x80"s, "\xc1\xbf"s, "\xe0\x80\xaf"s, "\xed\xa0\x80"s, "\xf0\x80\x80\xaf"s,
                            "\xf4\x90\x80\x80"s, "\xf5\x80\x80\x80"s, "\xe2\x82"s, "\xc3"s, "\xc3("s, "\xff"s}) {
    CHECK_FALSE(is_valid_utf8(bytes));
  }
}

TEST_CASE("base64 follows the vectors of RFC 4648") {
  CHECK(base64_encode("") == "");
  CHECK(base64_encode("f") == "Zg==");
  CHECK(base64_encode("fo") == "Zm8=");
  CHECK(base64_encode("foo") == "Zm9v");
  CHECK(base64_encode("foob") == "Zm9vYg==");
  CHECK(base64_encode("fooba") == "Zm9vYmE=");
  CHECK(base64_encode("foobar") == "Zm9vYmFy");
  CHECK(base64_encode("\xff\xfe\x00\xfb"s) == "//4A+w==");
}

TEST_CASE("split and join are each other's inverse") {
  using Words = std::vector<std::string>;
  CHECK(split("a:b:c", ':') == Words{"a", "b", "c"});
  CHECK(split("", ':') == Words{""});
  CHECK(split(":a::", ':') == Words{"", "a", "", ""});
  CHECK(join(Words{"a", "b"}, ", ") == "a, b");
  CHECK(join(Words{}, ", ") == "");
  CHECK(join(split(":a::b", ':'), ":") == ":a::b");
}

TEST_CASE("trim takes white space off both ends") {
  CHECK(trim("  a b\t\n") == "a b");
  CHECK(trim(" \r\n\v\f ") == "");
  CHECK(trim("") == "");
}

TEST_CASE("a slip of the pen finds the word that was meant") {
  const std::vector<std::string> words = {"python", "javascript", "typescript", "go", "rust", "--memory", "c"};
  CHECK(did_you_mean("pyhton", words) == "python");
  CHECK(did_you_mean("Python", words) == "python");
  CHECK(did_you_mean("javascrpit", words) == "javascript");
  CHECK(did_you_mean("--memroy", words) == "--memory");
  CHECK(did_you_mean("rusty", words) == "rust");
  CHECK(did_you_mean("gp", words) == "go");
}

TEST_CASE("a word that resembles nothing gets no suggestion") {
  const std::vector<std::string> words = {"python", "go", "c", ""};
  CHECK(did_you_mean("haskell", words) == "");
  CHECK(did_you_mean("x", words) == "");
  CHECK(did_you_mean("", words) == "");
  CHECK(did_you_mean(std::string(100000, 'p'), words) == "");
  CHECK(did_you_mean("python", std::vector<std::string>{}) == "");
}

TEST_CASE("a normalized path has no dots and never leaves the root") {
  CHECK(normalize_path("/") == "/");
  CHECK(normalize_path("//a///b/") == "/a/b");
  CHECK(normalize_path("/a/./b/.") == "/a/b");
  CHECK(normalize_path("/a/../b") == "/b");
  CHECK(normalize_path("/a/b/..") == "/a");
  CHECK(normalize_path("/../../etc") == "/etc");
  CHECK(normalize_path("/a/../../..") == "/");
  CHECK(normalize_path("/..a/.b/...") == "/..a/.b/...");
  CHECK(normalize_path("") == "/");
}

TEST_CASE("base_name and dir_name take a path apart") {
  CHECK(base_name("/a/b.py") == "b.py");
  CHECK(base_name("b.py") == "b.py");
  CHECK(base_name("/a/b/") == "b");
  CHECK(base_name("/") == "/");
  CHECK(dir_name("/x") == "/");
  CHECK(dir_name("x") == ".");
  CHECK(dir_name("/a/b/") == "/a");
  CHECK(dir_name("/a//b") == "/a");
  CHECK(dir_name("/") == "/");
  CHECK(dir_name("//x") == "/");
}

TEST_CASE("a joined path lies below the directory, even for an absolute name") {
  CHECK(join_path("/box", "a/b") == "/box/a/b");
  CHECK(join_path("/", "a") == "/a");
  CHECK(join_path("/box/", "a") == "/box/a");
  CHECK(join_path("", "a") == "a");
  CHECK(join_path("/box", "") == "/box");
  CHECK(join_path("/box", "/etc/passwd") == "/box/etc/passwd");
}

TEST_CASE("a path is under a directory by components, not by characters") {
  CHECK(path_is_under("/home/a", "/home/a"));
  CHECK(path_is_under("/home/a/b", "/home/a"));
  CHECK_FALSE(path_is_under("/home/ab", "/home/a"));
  CHECK_FALSE(path_is_under("/home", "/home/a"));
  CHECK(path_is_under("/home", "/"));
  CHECK(path_is_under("/", "/"));
}

TEST_SUITE_END();
