#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/sys.h"
#include "runtime/build_cache.h"
#include "temp_dir.h"

namespace {

using namespace sbx;
using namespace sbx::runtime;

Product product(const std::string& name, const std::string& content, bool executable = false) {
  Product made{name, sys::memfd_create("product").take(), executable};
  REQUIRE(sys::write_all(made.content.get(), content).ok());
  return made;
}

std::string key_of(int number) {
  std::string digits = std::to_string(number);
  return std::string(64 - digits.size(), '0') + digits;
}

std::string content_of(const Product& product) {
  char buffer[256];
  const ssize_t got = ::pread(product.content.get(), buffer, sizeof buffer, 0);
  return got < 0 ? "?" : std::string(buffer, static_cast<size_t>(got));
}

std::optional<WatchState> look(const std::string& pattern, size_t most = 1000) {
  const std::string patterns[] = {pattern};
  return look_at(patterns, most);
}

TEST_CASE("what was stored comes back, names with spaces and folders too") {
  const TempDir cache;
  std::vector<Product> products;
  products.push_back(product("main", "program", true));
  products.push_back(product("classes/a b.class", "bytes"));
  products.push_back(product("empty", ""));
  REQUIRE(store_build(cache.path(), key_of(1), products, "said", "warned\n"));
  const std::optional<CachedBuild> build = load_build(cache.path(), key_of(1));
  REQUIRE(build.has_value());
  CHECK(build->out == "said");
  CHECK(build->err == "warned\n");
  REQUIRE(build->products.size() == 3);
  for (size_t i = 0; i < products.size(); ++i) {
    CHECK(build->products[i].name == products[i].name);
    CHECK(build->products[i].executable == products[i].executable);
    CHECK(content_of(build->products[i]) == content_of(products[i]));
  }
  CHECK_FALSE(load_build(cache.path(), key_of(2)).has_value());
  CHECK_FALSE(load_build("", key_of(1)).has_value());
}

TEST_CASE("names that would leave the build directory or break the index are neither stored nor believed") {
  const TempDir cache;
  for (const char* name : {"../main", "/main", "a//b", "a/./b", "two\nlines", ""}) {
    std::vector<Product> products;
    products.push_back(product(name, "x"));
    CHECK_FALSE(store_build(cache.path(), key_of(1), products, "", ""));
  }
  std::vector<Product> products;
  products.push_back(product("main", "x", true));
  REQUIRE(store_build(cache.path(), key_of(1), products, "", ""));
  const std::string index = "builds/" + key_of(1) + "/index";
  for (const char* text : {"sbx-build 1\nx 1 ../main\n", "sbx-build 1\nx 2 main\n", "sbx-build 1\ny 1 main\n", "sbx-build 2\nx 1 main\n",
                           "sbx-build 1\nx 1 main", "sbx-build 1\nx -1 main\n", "sbx-build 1\nx 1\n", "\n", ""}) {
    cache.write(index, text);
    CHECK_FALSE_MESSAGE(load_build(cache.path(), key_of(1)).has_value(), text);
  }
  cache.write(index, "sbx-build 1\nx 1 main\n");
  CHECK(load_build(cache.path(), key_of(1)).has_value());
}

TEST_CASE("the cache is bounded, and the least recently used entry goes first") {
  const TempDir cache;
  std::vector<Product> products;
  products.push_back(product("main", "x"));
  const auto set_used = [&](int number, time_t when) {
    const struct timespec times[2] = {{when, 0}, {when, 0}};
    REQUIRE(::utimensat(AT_FDCWD, cache.at("builds/" + key_of(number)).c_str(), times, 0) == 0);
  };
  for (int number = 0; number < 1000; ++number) {
    REQUIRE(store_build(cache.path(), key_of(number), products, "", ""));
    set_used(number, 1000 + number);
  }
  set_used(0, 5000);
  REQUIRE(store_build(cache.path(), key_of(1000), products, "", ""));
  const std::filesystem::directory_iterator entries(cache.at("builds"));
  CHECK(std::distance(std::filesystem::begin(entries), std::filesystem::end(entries)) == 1000);
  CHECK(load_build(cache.path(), key_of(0)).has_value());
  CHECK_FALSE(load_build(cache.path(), key_of(1)).has_value());
  CHECK(load_build(cache.path(), key_of(2)).has_value());
}

TEST_CASE("a build of more than 64 MiB is not stored") {
  const TempDir cache;
  std::vector<Product> products;
  products.push_back(product("main", ""));
  REQUIRE(::ftruncate(products[0].content.get(), (off_t{64} << 20) + 1) == 0);
  CHECK_FALSE(store_build(cache.path(), key_of(1), products, "", ""));
  CHECK_FALSE(load_build(cache.path(), key_of(1)).has_value());
}

TEST_CASE("the state of watched files: what counts and what does not") {
  const TempDir tree;
  std::filesystem::create_directories(tree.at("include/deep"));
  tree.write("include/deep/a.h", "one");
  tree.write("outside", "x");
  std::filesystem::create_symlink("../outside", tree.at("include/link"));
  const std::optional<WatchState> before = look(tree.at("include"));
  REQUIRE(before.has_value());
  CHECK(look(tree.at("include")) == before);
  CHECK(look(tree.at("inc*")) != std::nullopt);
  CHECK_FALSE(look(tree.at("include"), 3).has_value());
  CHECK(look(tree.at("include"), 4) == before);

  tree.write("outside", "another text");  // behind a link
  const std::optional<WatchState> after = look(tree.at("include"));
  CHECK(after != before);
  CHECK(after->newest_nanos >= before->newest_nanos);

  // A missing file is a state; so is its coming.
  const std::optional<WatchState> missing = look(tree.at("missing"));
  REQUIRE(missing.has_value());
  tree.write("missing", "x");
  CHECK(look(tree.at("missing")) != missing);

  // A link to a directory is followed when a pattern names it, and not below.
  std::filesystem::create_symlink("include", tree.at("alias"));
  const std::optional<WatchState> through = look(tree.at("alias"));
  tree.write("include/deep/b.h", "x");
  CHECK(look(tree.at("alias")) != through);
}

}  // namespace
