#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"
#include "runtime/prepared.h"

using namespace sbx;
using namespace sbx::runtime;

namespace {

struct Folder {
  Folder() {
    char name[] = "/tmp/sbx-prepared-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    path = name;
  }
  ~Folder() { (void)::system(("rm -rf " + path).c_str()); }
  std::string path;
};

void write(const std::string& path, const std::string& text, mode_t mode = 0600) {
  REQUIRE(write_file_atomically(path, text, mode).ok());
}

}  // namespace

TEST_CASE("what a toolchain needs is made once, and only plain files of it are kept") {
  const Folder cache;
  const Folder made;
  REQUIRE(make_directories(made.path + "/a/b", 0700).ok());
  write(made.path + "/a/b/library", "compiled");
  write(made.path + "/tool", "x", 0700);
  REQUIRE(::symlink("/etc/shadow", (made.path + "/link").c_str()) == 0);
  REQUIRE(::mkfifo((made.path + "/fifo").c_str(), 0600) == 0);

  RunnerSpec runner;
  runner.name = "x";
  runner.prepare = RunnerPrepare{{"{tool}", "{prepared}"}, {{"CACHE", "{prepared}"}}, false};
  Toolchain tool;
  tool.executable = "/bin/sh";
  PrepareRequest request;
  request.runner = &runner;
  request.tool = &tool;
  request.values.tool = tool.executable;
  request.cache_directory = cache.path + "/sbx";
  int runs = 0;
  bool works = true;
  ErrorKind failure = ErrorKind::not_found;
  std::string notes;
  const PrepareRunner run = [&](const std::vector<std::string>& argv,
                                const std::vector<std::pair<std::string, std::string>>& environment) -> Result<UniqueFd> {
    ++runs;
    CHECK(argv == std::vector<std::string>{"/bin/sh", "/run/sbx/prepared"});
    CHECK(environment == std::vector<std::pair<std::string, std::string>>{{"CACHE", "/run/sbx/prepared"}});
    if (!works) return Error(failure, "it did not work");
    return sys::open(made.path, O_RDONLY | O_DIRECTORY);
  };
  const auto note = [&](const std::string& line) { notes += line + "\n"; };

  const std::string folder = prepared_directory(request, run, note);
  CAPTURE(notes);
  REQUIRE_FALSE(folder.empty());
  CHECK(read_file(folder + "/a/b/library").value() == "compiled");
  CHECK((sys::stat(folder + "/a/b/library").value().st_mode & 07777) == 0644);
  CHECK((sys::stat(folder + "/tool").value().st_mode & 07777) == 0755);
  CHECK_FALSE(sys::lstat(folder + "/link").ok());
  CHECK_FALSE(sys::lstat(folder + "/fifo").ok());
  CHECK(prepared_directory(request, run, note) == folder);
  CHECK(runs == 1);

  // Another way of preparing is another thing; one that failed is not tried by every run.
  runner.prepare->writable = true;
  runner.name = "y";
  works = false;
  CHECK(prepared_directory(request, run, note).empty());
  CHECK(notes.find("it did not work") != std::string::npos);
  CHECK(prepared_directory(request, run, note).empty());
  CHECK(runs == 2);

  // What sbx was hindered at is: it says nothing of the tool.
  runner.name = "z";
  failure = ErrorKind::system;
  CHECK(prepared_directory(request, run, note).empty());
  CHECK(prepared_directory(request, run, note).empty());
  CHECK(runs == 4);

  // Of many, those that were not used for longest go.
  works = true;
  runner.name = "x";
  struct timespec long_ago[2] = {{1000, 0}, {1000, 0}};
  REQUIRE(::utimensat(AT_FDCWD, dir_name(folder).c_str(), long_ago, 0) == 0);
  CHECK(prepared_directory(request, run, note) == folder);  // used now
  std::vector<std::string> others;
  for (int i = 0; i < 26; ++i) {
    runner.name = "other" + std::to_string(i);
    others.push_back(prepared_directory(request, run, note));
    long_ago[0].tv_sec = long_ago[1].tv_sec = 2000 + i;
    REQUIRE(::utimensat(AT_FDCWD, dir_name(others.back()).c_str(), long_ago, 0) == 0);
  }
  CHECK(sys::stat(folder).ok());
  CHECK_FALSE(sys::stat(others[0]).ok());
  CHECK(sys::stat(others[25]).ok());
  const int before = runs;

  // A folder that others can write to is not trusted, and without one nothing is done.
  REQUIRE(::chmod((request.cache_directory + "/prepared").c_str(), 0777) == 0);
  runner.name = "x";
  CHECK(prepared_directory(request, run, note).empty());
  request.cache_directory = "";
  CHECK(prepared_directory(request, run, note).empty());
  CHECK(runs == before);
}
