#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "base/sys.h"
#include "runtime/workspace.h"
#include "temp_dir.h"

namespace {

using namespace sbx;
using namespace sbx::runtime;

class Workspace : public TempDir {
 public:
  void write(const std::string& name, const std::string& content = "x", mode_t mode = 0644) const {
    const size_t slash = name.rfind('/');
    if (slash != std::string::npos) dir(name.substr(0, slash));
    REQUIRE(write_file_atomically(at(name), content, 0600).ok());
    REQUIRE(::chmod(at(name).c_str(), mode) == 0);
  }
  void dir(const std::string& name) const { REQUIRE(make_directories(at(name), 0755).ok()); }
  void repository(const std::string& name) const {
    for (const char* part : {"objects", "refs"}) dir(name + "/" + part);
    write(name + "/HEAD", "ref: refs/heads/main\n");
    write(name + "/config", "[core]\n");
    write(name + "/hooks/pre-commit.sample", "#!/bin/sh\n");
  }
  bool has(const std::string& name) const {
    struct stat info {};
    return ::lstat(at(name).c_str(), &info) == 0;
  }
  mode_t mode(const std::string& name) const { return sys::lstat(at(name)).take().st_mode & 07777; }

  WorkspaceGuard guard(bool sensitive = true, const ArtifactBounds& bounds = {}) const {
    return guard_workspace(fd(), "/box", sensitive, bounds).take();
  }
};

// "ro /box/x", "pin /box/y", in order.
std::vector<std::string> text(const std::vector<FsOp>& ops) {
  std::vector<std::string> lines;
  for (const FsOp& op : ops) {
    if (const ReadOnlyOp* read_only = std::get_if<ReadOnlyOp>(&op)) lines.push_back("ro " + read_only->target);
    if (const PinOp* pin = std::get_if<PinOp>(&op)) lines.push_back("pin " + pin->target);
  }
  return lines;
}

using Lines = std::vector<std::string>;
using Renamed = std::vector<std::pair<std::string, std::string>>;

SweepReport sweep(const Workspace& workspace, const WorkspaceGuard& guard) {
  SweepReport report = sweep_workspace(workspace.fd(), guard).take();
  std::sort(report.renamed.begin(), report.renamed.end());
  return report;
}

}  // namespace

TEST_CASE("what exists at a sensitive place is made read-only, and the directories above are pinned before") {
  Workspace workspace;
  workspace.repository(".git");
  workspace.write(".envrc");
  workspace.write(".vscode/settings.json");
  workspace.write(".cargo/config.toml");
  workspace.write("src/main.py");
  CHECK(text(workspace.guard().ops) == Lines{"pin /box/.cargo", "ro /box/.cargo/config.toml", "ro /box/.envrc",
                                             "pin /box/.git", "ro /box/.git/config", "ro /box/.git/hooks",
                                             "ro /box/.vscode"});
}

TEST_CASE("a workspace without sensitive places, or with leave to write them, gets no operations") {
  Workspace workspace;
  workspace.write("Makefile");
  workspace.write(".github/workflows/ci.yml");
  CHECK(workspace.guard().ops.empty());
  workspace.repository(".git");
  const WorkspaceGuard guard = workspace.guard(false);
  CHECK(guard.ops.empty());
  CHECK(guard.before.count(".git/config") == 1);
  workspace.write(".envrc");
  CHECK(sweep(workspace, guard).renamed.empty());
}

TEST_CASE("repositories further down are protected: nested, submodules, work trees, bare ones") {
  Workspace workspace;
  workspace.repository("lib/a/.git");
  workspace.repository(".git/modules/b");
  workspace.write("b/.git", "gitdir: ../.git/modules/b\n");
  workspace.repository("mirror.git");
  workspace.dir("not-a-repository/refs");
  workspace.write("not-a-repository/config");
  CHECK(text(workspace.guard().ops) ==
        Lines{"pin /box/.git", "pin /box/.git/modules", "pin /box/.git/modules/b", "ro /box/.git/modules/b/config",
              "ro /box/.git/modules/b/hooks", "pin /box/b", "ro /box/b/.git", "pin /box/lib", "pin /box/lib/a",
              "pin /box/lib/a/.git", "ro /box/lib/a/.git/config", "ro /box/lib/a/.git/hooks", "pin /box/mirror.git",
              "ro /box/mirror.git/config", "ro /box/mirror.git/hooks"});
}

TEST_CASE("a link at a sensitive place is not followed out; what it leads to inside is protected") {
  Workspace workspace;
  Workspace outside;
  outside.write("rc");
  workspace.link(".envrc", outside.at("rc"));
  workspace.write("tools/hooks/pre-commit");
  workspace.link(".husky", "tools/hooks");
  workspace.link(".vscode", "missing");
  const WorkspaceGuard guard = workspace.guard();
  CHECK(text(guard.ops) == Lines{"pin /box/tools", "ro /box/tools/hooks"});
  CHECK(guard.notes.size() == 2);
  // Nothing happened: nothing is renamed.
  CHECK(sweep(workspace, guard).renamed.empty());
  // The run replaces one link and makes what another one leads to.
  REQUIRE(::unlink(workspace.at(".envrc").c_str()) == 0);
  workspace.write(".envrc", "evil");
  workspace.write("missing/tasks.json");
  const SweepReport report = sweep(workspace, guard);
  CHECK(report.renamed == Renamed{{".envrc", ".envrc.sbx-untrusted"}, {"missing", "missing.sbx-untrusted"}});
  CHECK(outside.has("rc"));
}

TEST_CASE("a .git that is a link keeps working, and its target is protected as a Git directory") {
  Workspace workspace;
  workspace.repository("real");
  workspace.link(".git", "real");
  const WorkspaceGuard guard = workspace.guard();
  CHECK(text(guard.ops) == Lines{"pin /box/real", "ro /box/real/config", "ro /box/real/hooks"});
  workspace.write("real/index");
  workspace.write("real/commondir", "../evil");
  CHECK(sweep(workspace, guard).renamed == Renamed{{"real/commondir", "real/commondir.sbx-untrusted"}});
}

TEST_CASE("what appears at a sensitive place during the run is renamed, and never over something") {
  Workspace workspace;
  workspace.repository(".git");
  workspace.write(".envrc.sbx-untrusted", "first");
  const WorkspaceGuard guard = workspace.guard();
  workspace.write(".envrc", "evil");
  workspace.write(".git/config.worktree", "evil");
  workspace.write(".git/commondir", "../evil");
  workspace.write(".config/git/config", "evil");
  workspace.link(".vscode", "elsewhere");
  workspace.write("sub/.git", "gitdir: ../evil");
  workspace.write("result.txt", "fine");
  const SweepReport report = sweep(workspace, guard);
  CHECK(report.renamed == Renamed{{".config/git", ".config/git.sbx-untrusted"},
                                  {".envrc", ".envrc.sbx-untrusted-1"},
                                  {".git/commondir", ".git/commondir.sbx-untrusted"},
                                  {".git/config.worktree", ".git/config.worktree.sbx-untrusted"},
                                  {".vscode", ".vscode.sbx-untrusted"},
                                  {"sub/.git", "sub/.git.sbx-untrusted"}});
  CHECK(report.complete);
  CHECK(report.notes.size() == 6);
  CHECK(read_file(workspace.at(".envrc.sbx-untrusted")).take() == "first");
  CHECK(read_file(workspace.at(".envrc.sbx-untrusted-1")).take() == "evil");
  CHECK(workspace.has("result.txt"));
  // Again, with nothing new: nothing to do.
  CHECK(sweep(workspace, workspace.guard()).renamed.empty());
}

TEST_CASE("a repository that the run made keeps its objects and loses configuration and hooks") {
  Workspace workspace;
  const WorkspaceGuard guard = workspace.guard();
  workspace.repository(".git");
  workspace.repository("deep/bare");
  const SweepReport report = sweep(workspace, guard);
  CHECK(report.renamed == Renamed{{".git/config", ".git/config.sbx-untrusted"},
                                  {".git/hooks", ".git/hooks.sbx-untrusted"},
                                  {"deep/bare/config", "deep/bare/config.sbx-untrusted"},
                                  {"deep/bare/hooks", "deep/bare/hooks.sbx-untrusted"}});
  CHECK(workspace.has(".git/HEAD"));
}

TEST_CASE("a repository inside of something that is put aside is disarmed as well") {
  Workspace workspace;
  const WorkspaceGuard guard = workspace.guard();
  workspace.repository(".vscode/x/.git");
  const SweepReport report = sweep(workspace, guard);
  CHECK(report.renamed.size() == 3);
  CHECK(workspace.has(".vscode.sbx-untrusted/x/.git/hooks.sbx-untrusted"));
}

TEST_CASE("what the user changes at a protected place during the run is left alone") {
  Workspace workspace;
  workspace.repository(".git");
  workspace.write(".envrc", "old");
  const WorkspaceGuard guard = workspace.guard();
  workspace.write(".envrc", "new");  // the host's own doing: the sandbox cannot
  workspace.write(".git/config", "new");
  CHECK(sweep(workspace, guard).renamed.empty());
}

TEST_CASE("set-id bits are taken from what the run made or changed, and only from that") {
  Workspace workspace;
  workspace.write("kept", "x", 04755);
  workspace.write("edited", "x", 04755);
  workspace.dir("shared");
  REQUIRE(::chmod(workspace.at("shared").c_str(), 02775) == 0);
  workspace.dir("plain");
  for (const bool sensitive : {false, true}) {
    const WorkspaceGuard guard = workspace.guard(sensitive);
    workspace.write("made", "x", 06755);
    workspace.write("unreadable", "x", 04111);
    workspace.write("edited", "xyz", 06755);
    workspace.write("shared/inner", "x", 02755);
    workspace.dir("shared/inherits");
    workspace.dir("plain/forced");
    REQUIRE(::chmod(workspace.at("plain/forced").c_str(), 02777) == 0);
    workspace.link("link", workspace.at("kept"));
    const SweepReport report = sweep(workspace, guard);
    CHECK(report.stripped_count == 5);
    CHECK(workspace.mode("made") == 0755);
    CHECK(workspace.mode("unreadable") == 0111);
    CHECK(workspace.mode("edited") == 0755);
    CHECK(workspace.mode("shared/inner") == 0755);
    CHECK((workspace.mode("shared/inherits") & 07000) == 02000);  // by the user's own directory
    CHECK(workspace.mode("plain/forced") == 0777);
    CHECK(workspace.mode("kept") == 04755);
    CHECK(workspace.mode("shared") == 02775);
    for (const char* name : {"made", "unreadable", "shared/inner", "link"}) {
      REQUIRE(::unlink(workspace.at(name).c_str()) == 0);
    }
    std::filesystem::remove(workspace.at("shared/inherits"));
    std::filesystem::remove(workspace.at("plain/forced"));
  }
}

TEST_CASE("a set-id file far below the depth of artifacts is found") {
  Workspace workspace;
  std::string path;
  for (int level = 0; level < 100; ++level) path += "d/";
  workspace.write(path + "old", "x", 04755);
  ArtifactBounds bounds;
  // The clock of time stamps is coarse: what was made in the tick in which the guard starts counts as changed.
  WorkspaceGuard guard = workspace.guard(true, bounds);
  guard.started_ns = stamp_of(sys::lstat(workspace.at(path + "old")).take()).ctime_ns + 1;
  while (!workspace.has("tick") || stamp_of(sys::lstat(workspace.at("tick")).take()).ctime_ns < guard.started_ns) {
    workspace.write("tick");
  }
  workspace.write(path + "new", "x", 04755);
  const SweepReport report = sweep(workspace, guard);
  CHECK(report.stripped == Lines{path + "new"});
  CHECK(workspace.mode(path + "old") == 04755);
}

TEST_CASE("a workspace larger than the bounds is guarded by time stamps, and says so") {
  Workspace workspace;
  workspace.repository(".git");
  workspace.write("old", "x", 04755);
  for (int number = 0; number < 30; ++number) workspace.write("f" + std::to_string(number));
  ArtifactBounds bounds;
  bounds.max_scan = 3;
  WorkspaceGuard guard = workspace.guard(true, bounds);
  CHECK_FALSE(guard.before_complete);
  CHECK(guard.before.empty());
  CHECK(guard.notes.size() == 1);
  CHECK(text(guard.ops) == Lines{"pin /box/.git", "ro /box/.git/config", "ro /box/.git/hooks"});
  guard.started_ns = stamp_of(sys::lstat(workspace.at("f29")).take()).ctime_ns + 1;
  while (!workspace.has("tick") || stamp_of(sys::lstat(workspace.at("tick")).take()).ctime_ns < guard.started_ns) {
    workspace.write("tick");
  }
  workspace.write(".envrc", "evil");
  workspace.write("made", "x", 04755);
  const SweepReport report = sweep(workspace, guard);
  CHECK(report.renamed == Renamed{{".envrc", ".envrc.sbx-untrusted"}});
  CHECK(workspace.mode("made") == 0755);
  CHECK(workspace.mode("old") == 04755);
}

TEST_CASE("more places than a sandbox can protect are an error that names the way out") {
  Workspace workspace;
  for (int number = 0; number < 510; ++number) {
    const std::string name = "r" + std::to_string(number);
    for (const char* part : {"", "/.git", "/.git/hooks", "/.git/config"}) {
      REQUIRE(::mkdirat(workspace.fd(), (name + part).c_str(), 0755) == 0);
    }
  }
  const Result<WorkspaceGuard> guard = guard_workspace(workspace.fd(), "/box", true, {});
  REQUIRE_FALSE(guard.ok());
  CHECK(guard.error().kind() == ErrorKind::resource);
  CHECK(guard.error().hint().find(":overlay") != std::string::npos);
  CHECK(guard_workspace(workspace.fd(), "/box", false, {}).ok());
}

TEST_CASE("hostile names and nodes at sensitive places do not stop the sweep") {
  Workspace workspace;
  const WorkspaceGuard guard = workspace.guard();
  REQUIRE(::mkfifo(workspace.at(".envrc").c_str(), 0666) == 0);
  workspace.link(".git", ".git");
  workspace.write("x\n\x1b[31m/.git/hooks/pre-commit");
  const SweepReport report = sweep(workspace, guard);
  CHECK(report.renamed.size() == 3);
  for (const std::string& note : report.notes) {
    CHECK(note.find('\x1b') == std::string::npos);
    CHECK(note.find('\n') == std::string::npos);
  }
}

TEST_CASE("every sensitive place stands in docs/workspaces.md") {
#ifdef SBX_SOURCE_DIR
  const std::string document = read_file(std::string(SBX_SOURCE_DIR) + "/docs/workspaces.md").take();
  for (const auto& places : {sensitive_places(), sensitive_git_places()}) {
    for (const SensitivePlace& place : places) {
      INFO(place.path);
      CHECK(document.find("| `" + std::string(place.path) + "` | " + place.reason + " |") != std::string::npos);
    }
  }
#endif
}
