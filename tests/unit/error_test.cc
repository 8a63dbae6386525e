#include "base/error.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <memory>
#include <string>

#include "base/result.h"

using namespace sbx;

namespace {

Result<int> half(int number) {
  if (number % 2 != 0) return Error(ErrorKind::usage, "'" + std::to_string(number) + "' is odd");
  return number / 2;
}

Result<int> quarter(int number) {
  const int once = SBX_TRY_CTX(half(number), "first half");
  return SBX_TRY_CTX(half(once), "second half");
}

Status must_be_even(int number) {
  SBX_TRY(half(number));
  return {};
}

}  // namespace

TEST_SUITE_BEGIN("error");

TEST_CASE("an error reads from the outside in: origin, context, cause") {
  const Error error = Error(ErrorKind::policy, "unknown key 'memmory'")
                          .with_context("section 'limits'")
                          .with_context("policy 'strict'")
                          .with_origin("strict.toml:3:7")
                          .with_hint("did you mean 'memory'?");
  CHECK(error.text() == "strict.toml:3:7: policy 'strict': section 'limits': unknown key 'memmory'");
  CHECK(error.hint() == "did you mean 'memory'?");
  CHECK(error.origin() == "strict.toml:3:7");
  CHECK(error.kind() == ErrorKind::policy);
  CHECK(error.errnum() == 0);
}

TEST_CASE("the errno decides who has to act") {
  CHECK(Error::from_errno(EACCES, "x").kind() == ErrorKind::permission);
  CHECK(Error::from_errno(EPERM, "x").kind() == ErrorKind::permission);
  CHECK(Error::from_errno(EMFILE, "x").kind() == ErrorKind::resource);
  CHECK(Error::from_errno(ENOSPC, "x").kind() == ErrorKind::resource);
  CHECK(Error::from_errno(ENOSYS, "x").kind() == ErrorKind::unsupported);
  CHECK(Error::from_errno(ENOENT, "x").kind() == ErrorKind::system);
}

TEST_CASE("a failed system call says what was tried and the errno in words") {
  const Error error = Error::from_errno(ENOENT, "open '/nowhere'");
  CHECK(error.text() == "cannot open '/nowhere': No such file or directory (ENOENT)");
  CHECK(error.errnum() == ENOENT);
  CHECK(errno_text(99999) == "unknown error (99999)");
}

TEST_CASE("every kind has a name of its own") {
  std::string all;
  for (const ErrorKind kind : {ErrorKind::usage, ErrorKind::policy, ErrorKind::not_found, ErrorKind::not_executable,
                               ErrorKind::unsupported, ErrorKind::permission, ErrorKind::resource, ErrorKind::system,
                               ErrorKind::internal}) {
    const std::string name = std::string(" ") + error_kind_name(kind) + " ";
    CHECK(all.find(name) == std::string::npos);
    all += name;
  }
}

TEST_SUITE_BEGIN("result");

TEST_CASE("TRY hands on the value, or returns the error with the frame of the place that failed") {
  CHECK(quarter(8).value() == 2);
  CHECK(quarter(7).error().text() == "first half: '7' is odd");
  CHECK(quarter(6).error().text() == "second half: '3' is odd");
  CHECK(must_be_even(2).ok());
  CHECK(must_be_even(3).error().kind() == ErrorKind::usage);
}

TEST_CASE("a result moves what it holds out, also what cannot be copied") {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  REQUIRE(result.ok());
  const std::unique_ptr<int> taken = result.take();
  CHECK(*taken == 7);
}

TEST_CASE("a result is true exactly when it holds a value") {
  CHECK(static_cast<bool>(half(2)));
  CHECK_FALSE(static_cast<bool>(half(1)));
  CHECK(static_cast<bool>(Status{}));
}

TEST_CASE("an error may be assigned to itself with more said") {
  sbx::Error error(sbx::ErrorKind::usage, "no such file: 'x'");
  error = std::move(error).with_hint("look elsewhere");
  error = std::move(error).with_context("outer").with_origin("flag --x");
  CHECK(error.text() == "flag --x: outer: no such file: 'x'");
  CHECK(error.hint() == "look elsewhere");
}

TEST_SUITE_END();
