#include <doctest/doctest.h>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/sys.h"
#include "runtime/artifacts.h"
#include "runtime/tree_walk.h"
#include "temp_dir.h"

namespace {

using namespace sbx;
using namespace sbx::runtime;
using Type = Artifact::Type;

std::string slurp(const std::string& path) { return read_file(path).take(); }

ArtifactList list(const TempDir& dir, const Baseline& before = {}, const std::vector<std::string>& exclude = {},
                  const ArtifactBounds& bounds = {}, bool overlay = false) {
  return list_artifacts(dir.fd(), before, exclude, overlay, bounds).take();
}

const Artifact* find(const ArtifactList& artifacts, const std::string& path) {
  for (const Artifact& artifact : artifacts.artifacts) {
    if (artifact.path == path) return &artifact;
  }
  return nullptr;
}

// In a child: a mount namespace of its own, as root or in a user namespace that maps the caller (without a map for both
// ids nothing can be created on a tmpfs: EOVERFLOW).
bool enter_mount_namespace() {
  const std::string uid_map = "0 " + std::to_string(::getuid()) + " 1\n";
  const std::string gid_map = "0 " + std::to_string(::getgid()) + " 1\n";
  auto put = [](const char* path, const std::string& text) {
    const UniqueFd file(::open(path, O_WRONLY | O_CLOEXEC));
    return ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  };
  if (::unshare(CLONE_NEWNS) != 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    if (!put("/proc/self/uid_map", uid_map) || !put("/proc/self/setgroups", "deny") ||
        !put("/proc/self/gid_map", gid_map)) {
      return false;
    }
  }
  return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

constexpr const char* kEmptySha = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr const char* kAbcSha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

sbx::Status copy_artifacts(int dirfd, ArtifactList& list, const std::string& destination, const ArtifactBounds& bounds) {
  const UniqueFd fd = SBX_TRY(open_artifacts_destination(destination));
  return sbx::runtime::copy_artifacts(dirfd, list, fd.get(), bounds);
}

}  // namespace

TEST_CASE("files are listed by path with size, type and digest") {
  TempDir dir;
  dir.write("abc", "abc");
  dir.write("empty.csv", "");
  dir.mkdir("sub");
  dir.write("sub/x.csv", "a,b\n1,2\n");
  dir.mkdir("void");
  const ArtifactList artifacts = list(dir);
  REQUIRE(artifacts.artifacts.size() == 4);
  CHECK(artifacts.artifacts[0].path == "abc");
  CHECK(artifacts.artifacts[0].sha256 == kAbcSha);
  CHECK(artifacts.artifacts[0].size == 3);
  CHECK(artifacts.artifacts[0].mime == "text/plain");
  CHECK(artifacts.artifacts[1].sha256 == kEmptySha);
  CHECK(artifacts.artifacts[2].path == "sub/x.csv");
  CHECK(artifacts.artifacts[2].mime == "text/csv");
  CHECK(artifacts.artifacts[3].path == "void");
  CHECK(artifacts.artifacts[3].type == Type::directory);
  CHECK(artifacts.dropped.empty());
}

TEST_CASE("excluded paths are left out with all that is below them") {
  TempDir dir;
  dir.write("main.py", "x");
  dir.mkdir("cache");
  dir.write("cache/a", "x");
  dir.write("cachet", "x");
  const ArtifactList artifacts = list(dir, {}, {"main.py", "cache"});
  REQUIRE(artifacts.artifacts.size() == 1);
  CHECK(artifacts.artifacts[0].path == "cachet");
}

TEST_CASE("with a baseline only what was made, changed or removed is listed") {
  TempDir dir;
  dir.write("same", "1");
  dir.write("edited", "1");
  dir.write("gone", "1");
  dir.mkdir("old");
  dir.mkdir("lost");
  dir.write("lost/inner", "1");
  const Baseline before = take_baseline(dir.fd(), {}).take();
  CHECK(before.size() == 6);
  dir.write("edited", "22");
  dir.write("made", "3");
  REQUIRE(::unlinkat(dir.fd(), "gone", 0) == 0);
  std::filesystem::remove_all(dir.at("lost"));
  const ArtifactList artifacts = list(dir, before);
  REQUIRE(artifacts.artifacts.size() == 4);
  CHECK(find(artifacts, "edited")->type == Type::file);
  CHECK(find(artifacts, "made")->type == Type::file);
  CHECK(find(artifacts, "gone")->type == Type::deleted);
  CHECK(find(artifacts, "lost")->type == Type::deleted);  // one entry, not one for each file in it
}

TEST_CASE("a link is listed and never followed, neither when listing nor when copying") {
  TempDir dir;
  TempDir secret;
  secret.write("shadow", "secret");
  dir.link("result", secret.at("shadow"));
  dir.link("etc", "/etc");
  dir.link("up", "..");
  dir.link("self", "self");
  ArtifactList artifacts = list(dir);
  REQUIRE(artifacts.artifacts.size() == 4);
  for (const Artifact& artifact : artifacts.artifacts) {
    CHECK(artifact.type == Type::symlink);
    CHECK(artifact.sha256.empty());
    CHECK_FALSE(artifact.note.empty());
  }
  TempDir out;
  REQUIRE(copy_artifacts(dir.fd(), artifacts, out.at("to"), {}).ok());
  CHECK(std::filesystem::is_empty(out.at("to")));
  // Control: the same name as a regular file is copied.
  REQUIRE(::unlinkat(dir.fd(), "result", 0) == 0);
  dir.write("result", "fine");
  artifacts = list(dir);
  REQUIRE(copy_artifacts(dir.fd(), artifacts, out.at("to"), {}).ok());
  CHECK(slurp(out.at("to/result")) == "fine");
}

TEST_CASE("a named pipe without a writer, a socket and a device are listed and not opened") {
  TempDir dir;
  REQUIRE(::mkfifoat(dir.fd(), "fifo", 0666) == 0);
  const UniqueFd listening(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  struct sockaddr_un address {};
  address.sun_family = AF_UNIX;
  const std::string socket_path = dir.at("socket");
  REQUIRE(socket_path.size() < sizeof address.sun_path);
  socket_path.copy(address.sun_path, socket_path.size());
  REQUIRE(::bind(listening.get(), reinterpret_cast<struct sockaddr*>(&address), sizeof address) == 0);
  const bool device = ::mknodat(dir.fd(), "zero", S_IFCHR | 0666, makedev(1, 5)) == 0;
  if (!device) MESSAGE("no device node: not root");
  ArtifactList artifacts = list(dir);
  REQUIRE(find(artifacts, "fifo") != nullptr);
  CHECK(find(artifacts, "fifo")->type == Type::fifo);
  CHECK(find(artifacts, "socket")->type == Type::socket);
  if (device) CHECK(find(artifacts, "zero")->type == Type::device);
  TempDir out;
  REQUIRE(copy_artifacts(dir.fd(), artifacts, out.path(), {}).ok());
  CHECK(std::filesystem::is_empty(out.path()));
}

TEST_CASE("a huge sparse file is over the byte limit: listed without digest, not copied") {
  TempDir dir;
  dir.write("huge", "PNG?");
  REQUIRE(::truncate(dir.at("huge").c_str(), off_t{1} << 40) == 0);
  dir.write("small", "abc");
  ArtifactList artifacts = list(dir);
  const Artifact* huge = find(artifacts, "huge");
  REQUIRE(huge != nullptr);
  CHECK(huge->size == uint64_t{1} << 40);
  CHECK(huge->sha256.empty());
  CHECK(huge->note == "over the byte limit");
  CHECK(find(artifacts, "small")->sha256 == kAbcSha);
  CHECK(artifacts.dropped.size() == 1);
  TempDir out;
  REQUIRE(copy_artifacts(dir.fd(), artifacts, out.path(), {}).ok());
  CHECK_FALSE(std::filesystem::exists(out.at("huge")));
  CHECK(std::filesystem::exists(out.at("small")));
}

TEST_CASE("the byte limit is for all files together") {
  TempDir dir;
  for (const char* name : {"a", "b", "c"}) dir.write(name, std::string(100, 'x'));
  ArtifactBounds bounds;
  bounds.max_bytes = 250;
  const ArtifactList artifacts = list(dir, {}, {}, bounds);
  CHECK_FALSE(find(artifacts, "b")->sha256.empty());
  CHECK(find(artifacts, "c")->sha256.empty());
}

TEST_CASE("more entries than the bounds are counted, not listed") {
  TempDir dir;
  for (int number = 0; number < 50; ++number) dir.write("f" + std::to_string(number), "x");
  ArtifactBounds bounds;
  bounds.max_entries = 10;
  ArtifactList artifacts = list(dir, {}, {}, bounds);
  CHECK(artifacts.artifacts.size() == 10);
  REQUIRE(artifacts.dropped.size() == 1);
  CHECK(artifacts.dropped[0].find("40 more than the 10") != std::string::npos);
  bounds.max_scan = 20;
  artifacts = list(dir, {}, {}, bounds);
  CHECK(artifacts.artifacts.size() == 10);
  CHECK(artifacts.dropped.size() == 2);
  const Result<Baseline> baseline = take_baseline(dir.fd(), bounds);
  REQUIRE_FALSE(baseline.ok());
  CHECK(baseline.error().kind() == ErrorKind::resource);
}

TEST_CASE("a tree deeper than a path can say is not looked into beyond the bounds, and can be walked to its end with few descriptors") {
  TempDir dir;
  UniqueFd at(::dup(dir.fd()));
  for (int level = 0; level < 2100; ++level) {
    REQUIRE(::mkdirat(at.get(), "d", 0755) == 0);
    at = UniqueFd(::openat(at.get(), "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(at.valid());
  }
  REQUIRE(UniqueFd(::openat(at.get(), "bottom", O_WRONLY | O_CREAT | O_CLOEXEC, 0644)).valid());
  const UniqueFd last(::openat(dir.fd(), "z", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  const ArtifactList artifacts = list(dir);
  CHECK(artifacts.artifacts.size() == 1);  // z
  REQUIRE(artifacts.dropped.size() == 1);
  CHECK(artifacts.dropped[0].find("more than 32 levels") != std::string::npos);

  bool bottom = false;
  bool after = false;
  int highest = 0;
  WalkVisitor visitor;
  visitor.entry = [&](const WalkEntry& entry) {
    if (entry.name == "bottom") bottom = entry.depth == 2101 && entry.path().size() == 2 * 2100 + 6;
    if (entry.name == "z") after = entry.path() == "z";
    highest = std::max(highest, entry.parent_fd);
    return true;
  };
  const WalkReport report = walk_tree(dir.fd(), {100000, 100000}, visitor).take();
  CHECK(report.complete());
  CHECK(bottom);
  CHECK(after);
  CHECK(highest < 200);
  // std::filesystem cannot remove what is deeper than a path can say.
  REQUIRE(std::system(("rm -rf '" + dir.at("d") + "'").c_str()) == 0);
}

TEST_CASE("names with newlines, escapes and invalid UTF-8 are kept byte for byte and copied") {
  TempDir dir;
  const std::string names[] = {"a\nb", "\x1b[31mred", "\xff\xfe", "-rf", " ", "\"quote'", std::string(255, 'n')};
  for (const std::string& name : names) dir.write(name, name);
  ArtifactList artifacts = list(dir);
  CHECK(artifacts.artifacts.size() == std::size(names));
  TempDir out;
  REQUIRE(copy_artifacts(dir.fd(), artifacts, out.path(), {}).ok());
  for (const std::string& name : names) {
    REQUIRE(find(artifacts, name) != nullptr);
    CHECK(slurp(out.at(name)) == name);
  }
}

TEST_CASE("copies carry no set-id bits, and are executable only where the owner may execute") {
  TempDir dir;
  dir.write("tool", "#!/bin/sh\n", 06755);
  dir.write("data", "x", 02644);
  dir.write("loose", "x", 0666);
  dir.mkdir("sub");
  dir.write("sub/deep", "x", 04711);
  ArtifactList artifacts = list(dir);
  TempDir out;
  const mode_t mask = ::umask(022);
  REQUIRE(copy_artifacts(dir.fd(), artifacts, out.at("new/dir"), {}).ok());
  ::umask(mask);
  auto mode = [&](const char* name) { return sys::lstat(out.at(std::string("new/dir/") + name)).take().st_mode & 07777; };
  CHECK(mode("tool") == 0755);
  CHECK(mode("data") == 0644);
  CHECK(mode("loose") == 0644);
  CHECK(mode("sub") == 0755);
  CHECK(mode("sub/deep") == 0755);
}

TEST_CASE("a directory swapped for a link between list and copy is not followed") {
  TempDir dir;
  TempDir outside;
  outside.write("x", "abc");
  dir.mkdir("sub");
  dir.write("sub/x", "abc");
  ArtifactList artifacts = list(dir);
  REQUIRE(::renameat(dir.fd(), "sub", dir.fd(), "away") == 0);
  dir.link("sub", outside.path());
  TempDir out;
  REQUIRE(copy_artifacts(dir.fd(), artifacts, out.path(), {}).ok());
  CHECK_FALSE(std::filesystem::exists(out.at("sub/x")));
  CHECK(find(artifacts, "sub/x")->note.find("not copied") != std::string::npos);
  CHECK(artifacts.dropped.size() == 1);
}

TEST_CASE("a file that changed between list and copy is refused and noted") {
  TempDir dir;
  dir.write("longer", "abc");
  dir.write("other", "abc");
  dir.write("fifo", "abc");
  dir.write("fine", "abc");
  ArtifactList artifacts = list(dir);
  dir.write("longer", "abcd");
  dir.write("other", "abd");
  REQUIRE(::unlinkat(dir.fd(), "fifo", 0) == 0);
  REQUIRE(::mkfifoat(dir.fd(), "fifo", 0666) == 0);  // must not block
  TempDir out;
  REQUIRE(copy_artifacts(dir.fd(), artifacts, out.path(), {}).ok());
  CHECK(find(artifacts, "longer")->note == "not copied: its size has changed");
  CHECK(find(artifacts, "other")->note == "not copied: its content has changed");
  CHECK(find(artifacts, "fifo")->note.find("not copied") == 0);
  CHECK(find(artifacts, "fine")->note.empty());
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(out.path())) ++files;
  CHECK(files == 1);  // no temporary file is left
}

TEST_CASE("what stands in the destination is replaced, never written through") {
  TempDir dir;
  dir.write("a", "new");
  dir.write("b", "new");
  dir.write("c", "new");
  dir.mkdir("d");
  dir.write("d/x", "new");
  dir.write("e", "new");
  ArtifactList artifacts = list(dir);
  TempDir out;
  TempDir victim;
  victim.write("file", "precious");
  victim.write("hard", "precious");
  out.write("a", "old");
  out.link("b", victim.at("file"));
  out.mkdir("c");
  out.link("d", victim.path());
  REQUIRE(::linkat(victim.fd(), "hard", ::open(out.path().c_str(), O_RDONLY | O_CLOEXEC), "e", 0) == 0);
  const Status copied = copy_artifacts(dir.fd(), artifacts, out.path(), {});
  REQUIRE_FALSE(copied.ok());  // c and d are in the way
  CHECK(slurp(out.at("a")) == "new");
  CHECK(slurp(out.at("b")) == "new");
  CHECK_FALSE(std::filesystem::is_symlink(out.at("b")));
  CHECK(std::filesystem::is_directory(out.at("c")));
  CHECK_FALSE(std::filesystem::exists(victim.at("x")));
  CHECK(slurp(out.at("e")) == "new");
  CHECK(slurp(victim.at("file")) == "precious");
  CHECK(slurp(victim.at("hard")) == "precious");
  CHECK(artifacts.dropped.size() == 2);
}

TEST_CASE("a destination opened before the run is not redirected by a link made later") {
  TempDir dir;
  TempDir victim;
  dir.mkdir("out");
  const UniqueFd destination = open_artifacts_destination(dir.at("out")).take();
  dir.write("made", "abc");
  REQUIRE(::renameat(dir.fd(), "out", dir.fd(), "moved") == 0);
  dir.link("out", victim.path());
  ArtifactList artifacts = list(dir, {}, {"out", "moved"});
  REQUIRE(copy_artifacts(dir.fd(), artifacts, destination.get(), {}).ok());
  CHECK(std::filesystem::is_empty(victim.path()));
  CHECK(slurp(dir.at("moved/made")) == "abc");
}

TEST_CASE("paths that lead out are refused") {
  TempDir dir;
  dir.write("x", "abc");
  dir.mkdir("d");
  for (const char* path : {"../x", "/etc/passwd", "d/../x", "", "d//x", "./x"}) {
    CHECK_FALSE(open_beneath(dir.fd(), path, O_RDONLY).ok());
  }
  CHECK(open_beneath(dir.fd(), "x", O_RDONLY).ok());
}

TEST_CASE("in an overlay's upper directory a device 0:0 is a deletion") {
  TempDir dir;
  if (::mknodat(dir.fd(), "gone", S_IFCHR, makedev(0, 0)) != 0) {
    MESSAGE("cannot make a whiteout here: skipped");
    return;
  }
  const ArtifactList overlay = list(dir, {}, {}, {}, true);
  REQUIRE(overlay.artifacts.size() == 1);
  CHECK(overlay.artifacts[0].type == Type::deleted);
  const ArtifactList plain = list(dir);
  REQUIRE(plain.artifacts.size() == 1);
  CHECK(plain.artifacts[0].type == Type::device);
}

TEST_CASE("a tmpfs of a mount namespace that is dead can be read by its descriptor, and other mounts on it are left out") {
  TempDir dir;
  dir.mkdir("m");
  const std::string mount_point = dir.at("m");
  int sockets[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
  const UniqueFd mine(sockets[0]);
  UniqueFd theirs(sockets[1]);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // Status: 0 fine, 1 not permitted here, 2 broken.
    if (!enter_mount_namespace()) ::_exit(1);
    if (::mount("tmpfs", mount_point.c_str(), "tmpfs", 0, "size=1M") != 0) ::_exit(1);
    if (::chdir(mount_point.c_str()) != 0) ::_exit(2);
    if (::mkdir("sub", 0755) != 0 || ::mkdir("other", 0755) != 0) ::_exit(2);
    const int file = ::open("sub/abc", O_WRONLY | O_CREAT, 0644);
    if (file < 0 || ::write(file, "abc", 3) != 3) ::_exit(2);
    if (::mount("tmpfs", "other", "tmpfs", 0, "size=1M") != 0) ::_exit(2);
    if (::close(::open("other/hidden", O_WRONLY | O_CREAT, 0644)) != 0) ::_exit(2);
    const int root = ::open(".", O_PATH | O_DIRECTORY);
    struct msghdr message {};
    char byte = 0;
    struct iovec part {&byte, 1};
    alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    struct cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    *reinterpret_cast<int*>(CMSG_DATA(header)) = root;
    ::_exit(::sendmsg(theirs.get(), &message, 0) == 1 ? 0 : 2);
  }
  theirs.reset();
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 1) {
    MESSAGE("no mount namespace here: skipped");
    return;
  }
  REQUIRE(WEXITSTATUS(status) == 0);
  struct msghdr message {};
  char byte = 0;
  struct iovec part {&byte, 1};
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  REQUIRE(::recvmsg(mine.get(), &message, MSG_CMSG_CLOEXEC) == 1);
  REQUIRE(CMSG_FIRSTHDR(&message) != nullptr);
  const UniqueFd root(*reinterpret_cast<int*>(CMSG_DATA(CMSG_FIRSTHDR(&message))));

  ArtifactList artifacts = list_artifacts(root.get(), {}, {}, false, {}).take();
  REQUIRE(find(artifacts, "sub/abc") != nullptr);
  CHECK(find(artifacts, "sub/abc")->sha256 == kAbcSha);
  // When the namespace died its mounts were taken apart, so "other" is a plain empty directory by now.
  CHECK(find(artifacts, "other/hidden") == nullptr);
  TempDir out;
  REQUIRE(copy_artifacts(root.get(), artifacts, out.path(), {}).ok());
  CHECK(slurp(out.at("sub/abc")) == "abc");
}

TEST_CASE("a directory with another file system mounted on it is left out and named") {
  TempDir dir;
  dir.mkdir("m");
  dir.write("abc", "abc");
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (!enter_mount_namespace()) ::_exit(1);
    if (::mount("tmpfs", dir.at("m").c_str(), "tmpfs", 0, "size=1M") != 0) ::_exit(1);
    if (::close(::open(dir.at("m/hidden").c_str(), O_WRONLY | O_CREAT, 0644)) != 0) ::_exit(2);
    const int root = ::open(dir.path().c_str(), O_PATH | O_DIRECTORY);
    const Result<ArtifactList> artifacts = list_artifacts(root, {}, {}, false, {});
    if (!artifacts.ok() || find(artifacts.value(), "abc") == nullptr) ::_exit(3);
    if (artifacts.value().artifacts.size() != 1 || artifacts.value().dropped.size() != 1) ::_exit(4);
    ::_exit(artifacts.value().dropped[0].find("another file system") != std::string::npos ? 0 : 5);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 1) {
    MESSAGE("no mount namespace here: skipped");
    return;
  }
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("MIME types come from content; names only choose among text formats") {
  using namespace std::string_view_literals;
  struct Case {
    std::string_view head;
    const char* name;
    const char* mime;
  };
  const Case cases[] = {
      {"\x89PNG\r\n\x1a\n\0\0"sv, "x.txt", "image/png"},
      {"\xff\xd8\xff\xe0"sv, "x", "image/jpeg"},
      {"GIF89a\1\0"sv, "x", "image/gif"},
      {"RIFF\1\2\3\4WEBPVP8 "sv, "x", "image/webp"},
      {"RIFF\1\2\3\4WAVEfmt "sv, "x", "audio/wav"},
      {"RUFF\1\2\3\4WAVEfmt "sv, "x", "application/octet-stream"},
      {"BM\x46\0\0\0\0\0\0\0\x36\0\0\0"sv, "x", "image/bmp"},
      {"BMW is a car maker"sv, "x", "text/plain"},
      {"%PDF-1.7\n"sv, "x.py", "application/pdf"},
      {"PK\3\4\x14\0"sv, "x.zip", "application/zip"},
      {"\x1f\x8b\x08"sv, "x", "application/gzip"},
      {"\xfd" "7zXZ\0\0"sv, "x", "application/x-xz"},
      {"\x28\xb5\x2f\xfd\0"sv, "x", "application/zstd"},
      {"\x7f" "ELF\2\1\1"sv, "x.txt", "application/x-elf"},
      {"SQLite format 3\0\x10"sv, "x", "application/vnd.sqlite3"},
      {"PAR1\x15"sv, "x", "application/vnd.apache.parquet"},
      {"\x93NUMPY\1\0v"sv, "x", "application/x-npy"},
      {"ID3\3\0"sv, "x", "audio/mpeg"},
      {"\0\0\0\x20" "ftypisom"sv, "x", "video/mp4"},
      {"<!DOCTYPE html><p>"sv, "x", "text/html"},
      {"  <svg xmlns=\"\">"sv, "x", "image/svg+xml"},
      {"<?xml version=\"1.0\"?>\n<svg>"sv, "x", "image/svg+xml"},
      {"<?xml version=\"1.0\"?>\n<a/>"sv, "x", "application/xml"},
      {"{\"a\": 1}"sv, "x.json", "application/json"},
      {"a,b\n"sv, "X.CSV", "text/csv"},
      {"# title\n"sv, "README.md", "text/markdown"},
      {"print(1)\n"sv, "x.py", "text/x-python"},
      {"print(1)\n"sv, "x.png", "text/plain"},
      {"gr\xc3\xbc\xc3\x9f"sv, "x", "text/plain"},
      {"cut \xc3"sv, "x", "text/plain"},
      {"bad \xff here"sv, "x.txt", "application/octet-stream"},
      {"nul\0"sv, "x.txt", "application/octet-stream"},
      {""sv, "x.txt", "application/x-empty"},
  };
  for (const Case& one : cases) {
    INFO(one.name, " ", one.mime);
    CHECK(mime_type(one.head, one.name) == one.mime);
  }
}
