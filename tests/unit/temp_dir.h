// A directory of a test's own, gone with everything in it at the end.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/unique_fd.h"

class TempDir {
 public:
  TempDir() {
    const char* base = std::getenv("TMPDIR");
    path_ = std::string(base != nullptr ? base : "/tmp") + "/sbx-unit-test-XXXXXX";
    REQUIRE(::mkdtemp(path_.data()) != nullptr);
    fd_ = sbx::UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(fd_.valid());
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }
  std::string at(const std::string& name) const { return path_ + "/" + name; }

  void write(const std::string& name, const std::string& content, mode_t mode = 0644) const {
    const sbx::UniqueFd file(::openat(fd(), name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    REQUIRE(file.valid());
    REQUIRE(::write(file.get(), content.data(), content.size()) == static_cast<ssize_t>(content.size()));
    REQUIRE(::fchmod(file.get(), mode) == 0);
  }
  void mkdir(const std::string& name) const { REQUIRE(::mkdirat(fd(), name.c_str(), 0755) == 0); }
  void link(const std::string& name, const std::string& text) const {
    REQUIRE(::symlinkat(text.c_str(), fd(), name.c_str()) == 0);
  }

 private:
  std::string path_;
  sbx::UniqueFd fd_;
};
