#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "policy/loader.h"

using namespace sbx;

namespace {

// A made-up host below a temporary directory.
struct FakeHost {
  std::string root;

  FakeHost() {
    std::string name = "/tmp/sbx-manifest-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    root = std::filesystem::canonical(name).string();
  }
  ~FakeHost() { std::filesystem::remove_all(root); }
  FakeHost(const FakeHost&) = delete;
  FakeHost& operator=(const FakeHost&) = delete;

  void directory(const std::string& path, mode_t mode = 0755) const {
    std::filesystem::create_directories(root + path);
    REQUIRE(chmod((root + path).c_str(), mode) == 0);
  }
  void file(const std::string& path, const std::string& content, mode_t mode = 0644) const {
    std::ofstream(root + path) << content;
    REQUIRE(chmod((root + path).c_str(), mode) == 0);
  }
  void link(const std::string& path, const std::string& text) const {
    REQUIRE(symlink(text.c_str(), (root + path).c_str()) == 0);
  }
  struct stat seen(const std::string& path) const {
    struct stat status;
    REQUIRE(stat((root + path).c_str(), &status) == 0);
    return status;
  }
  std::vector<FsOp> expand(const std::string& text) const {
    Result<std::vector<FsOp>> ops = expand_manifest_text(text, "m.toml", root);
    REQUIRE_MESSAGE(ops.ok(), ops.error().text());
    return ops.take();
  }
  BindOp bind(const std::string& path, const std::string& origin) const {
    const struct stat status = seen(path);
    return BindOp{.source = root + path, .target = path, .optional = true, .source_mode = status.st_mode, .source_device = status.st_dev,
                  .source_inode = status.st_ino, .origin = origin};
  }
};

}  // namespace

TEST_CASE("a merged /usr is shown with its links, a split one with its directories") {
  const FakeHost host;
  host.directory("/usr/bin");
  host.link("/bin", "usr/bin");
  host.directory("/lib");
  const std::vector<FsOp> want = {host.bind("/usr", "m.toml:1"), SymlinkOp{"/bin", "usr/bin"},
                                  host.bind("/lib", "m.toml:1")};
  CHECK(host.expand("bind = [\"/usr\", \"/bin\", \"/lib\", \"/lib64\"]") == want);
}

TEST_CASE("small files are copied, larger ones mounted") {
  const FakeHost host;
  host.directory("/etc");
  host.file("/etc/small", "text\n");
  host.file("/etc/large", std::string(kManifestCopyLimit + 1, 'x'));
  const std::vector<FsOp> want = {FileOp{"/etc/small", "text\n", 0644}, host.bind("/etc/large", "m.toml:2")};
  CHECK(host.expand("copy = [\"/etc/small\",\n\"/etc/large\", \"/etc/absent\"]") == want);
}

TEST_CASE("what not everybody may read is left out") {
  const FakeHost host;
  host.directory("/etc");
  host.file("/etc/secret", "x", 0640);
  host.directory("/etc/private", 0750);
  host.directory("/etc/listless", 0711);
  REQUIRE(mkfifo((host.root + "/etc/fifo").c_str(), 0666) == 0);
  CHECK(host.expand("bind = [\"/etc/secret\", \"/etc/private\", \"/etc/listless\", \"/etc/fifo\"]").empty());
  CHECK(host.expand("copy = [\"/etc/secret\"]").empty());
}

TEST_CASE("a link to something that is not shown becomes what it leads to") {
  const FakeHost host;
  host.directory("/etc");
  host.directory("/usr/share");
  host.directory("/store/certs");
  host.file("/usr/share/utc", "TZ");
  host.link("/etc/certs", "../store/certs");
  host.link("/etc/localtime", "../usr/share/utc");
  host.link("/etc/dangling", "../usr/share/none");
  BindOp certs = host.bind("/store/certs", "m.toml:1");
  certs.target = "/etc/certs";
  const std::vector<FsOp> want = {host.bind("/usr", "m.toml:1"), certs, SymlinkOp{"/etc/localtime", "../usr/share/utc"}};
  CHECK(host.expand("bind = [\"/usr\", \"/etc/certs\", \"/etc/localtime\", \"/etc/dangling\"]") == want);
}

TEST_CASE("a star stands for any names, in order") {
  const FakeHost host;
  host.directory("/etc/java-17");
  host.directory("/etc/java-11");
  host.directory("/etc/javascript");
  CHECK(host.expand("bind = [\"/etc/java-*\"]") ==
        std::vector<FsOp>{host.bind("/etc/java-11", "m.toml:1"), host.bind("/etc/java-17", "m.toml:1")});
}

TEST_CASE("a manifest that is wrong is refused with its place") {
  const struct {
    const char* text;
    const char* origin;
    const char* message;
  } cases[] = {
      {"bnid = []", "m.toml:1:1", "unknown key \"bnid\""},
      {"bind = 1", "m.toml:1:8", "is a list of paths"},
      {"bind = [\"usr\"]", "m.toml:1:9", "absolute path"},
      {"bind = [\"/usr/../etc\"]", "m.toml:1:9", "absolute path"},
      {"bind = [\"/\"]", "m.toml:1:9", "absolute path"},
      {"bind = [\"/*/x\"]", "m.toml:1:9", "last part"},
  };
  for (const auto& bad : cases) {
    CAPTURE(bad.text);
    const Result<std::vector<FsOp>> ops = expand_manifest_text(bad.text, "m.toml", "");
    REQUIRE_FALSE(ops.ok());
    CHECK(ops.error().origin() == bad.origin);
    CHECK(ops.error().text().find(bad.message) != std::string::npos);
  }
}

TEST_CASE("the shipped manifest shows the toolchains and none of the secrets") {
  const Result<std::vector<FsOp>> ops = expand_manifest("host");
  REQUIRE_MESSAGE(ops.ok(), ops.error().text());
  bool usr = false;
  for (const FsOp& op : ops.value()) {
    const auto* bind = std::get_if<BindOp>(&op);
    if (bind != nullptr) {
      CHECK(bind->read_only);
      CHECK(bind->optional);
      usr = usr || bind->target == "/usr";
    }
    const std::string target = std::visit([](const auto& each) { return each.target; }, op);
    for (const char* secret : {"/etc", "/etc/shadow", "/etc/machine-id", "/etc/ssh", "/etc/sudoers", "/etc/ssl",
                               "/etc/ssl/private", "/root", "/home", "/etc/passwd", "/etc/pip.conf"})
      CHECK(target != secret);
  }
  CHECK(usr);
}

TEST_CASE("an unknown manifest gets a suggestion") {
  const Result<std::vector<FsOp>> ops = expand_manifest("hots");
  REQUIRE_FALSE(ops.ok());
  CHECK(ops.error().kind() == ErrorKind::policy);
  CHECK(ops.error().hint() == "did you mean \"host\"?");
}

TEST_CASE("the table that was made of the manifest while building says what its text says") {
  const std::string_view* text = embedded_file("rootfs/host.toml");
  REQUIRE(text != nullptr);
  const Result<std::vector<FsOp>> by_text = expand_manifest_text(*text, "rootfs/host.toml", "");
  const Result<std::vector<FsOp>> by_table = expand_manifest("host");
  REQUIRE(by_text.ok());
  REQUIRE(by_table.ok());
  CHECK_FALSE(by_table.value().empty());
  CHECK(by_table.value() == by_text.value());
  CHECK_FALSE(embedded_manifest("rootfs/nothing.toml").has_value());
}
