#include "runtime/workspace.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/sys.h"
#include "base/text.h"
#include "runtime/tree_walk.h"

namespace sbx::runtime {
namespace {

// The criterion: a program of the host reads it *without being asked to run the project* — on entering the directory,
// on opening it in an editor, on any git command, on starting an agent — and can be made to run commands by it.
constexpr SensitivePlace kPlaces[] = {
    // shells and environments
    {".envrc", "direnv runs it when a shell enters the directory"},
    {".direnv", "direnv sources its cached environments"},
    {".autoenv", "autoenv runs it when a shell enters the directory"},
    {".autoenv.zsh", "autoenv runs it when a shell enters the directory"},
    {".tool-versions", "asdf and mise choose the programs behind every command by it"},
    {".mise.toml", "mise runs its hooks and sets the environment by it"},
    {"mise.toml", "mise runs its hooks and sets the environment by it"},
    {".mise", "mise's configuration directory"},
    {".bashrc", "start-up file of a shell, should the directory be a home"},
    {".bash_profile", "start-up file of a shell, should the directory be a home"},
    {".bash_login", "start-up file of a shell, should the directory be a home"},
    {".bash_logout", "run when a shell ends, should the directory be a home"},
    {".profile", "start-up file of a shell, should the directory be a home"},
    {".zshrc", "start-up file of a shell, should the directory be a home"},
    {".zshenv", "start-up file of a shell, should the directory be a home"},
    {".zprofile", "start-up file of a shell, should the directory be a home"},
    {".zlogin", "start-up file of a shell, should the directory be a home"},
    {".zlogout", "run when a shell ends, should the directory be a home"},
    {".config/fish", "start-up files of a shell, should the directory be a home"},
    {".config/autostart", "programs started with the desktop, should the directory be a home"},
    {".config/systemd", "user services, should the directory be a home"},
    {".config/environment.d", "environment of user services, should the directory be a home"},
    {".ssh", "keys, and commands in its configuration, should the directory be a home"},
    // version control; .git is in the other table
    {".gitconfig", "Git runs commands named in it, in a home or included by a repository"},
    {".config/git", "Git runs commands named in it, should the directory be a home"},
    {".gitmodules", "Git takes addresses and paths of submodules from it before anybody has read the change"},
    {".githooks", "usual value of Git's core.hooksPath"},
    {".husky", "Git hooks of husky"},
    {".pre-commit-config.yaml", "pre-commit runs commands named in it at every commit"},
    {"lefthook.yml", "lefthook runs commands named in it at every commit"},
    {"lefthook.yaml", "lefthook runs commands named in it at every commit"},
    {".lefthook.yml", "lefthook runs commands named in it at every commit"},
    {".lefthook", "scripts of lefthook"},
    {".hg/hgrc", "Mercurial runs hooks named in it"},
    {".hg/sharedpath", "Mercurial takes its configuration from where this points"},
    {".jj/repo/config.toml", "Jujutsu runs programs named in it"},
    // editors and debuggers
    {".vscode", "tasks, programs and settings of an editor"},
    {".idea", "run configurations and tasks of an editor"},
    {".zed", "tasks and settings of an editor"},
    {".fleet", "run configurations of an editor"},
    {".nova", "tasks and settings of an editor"},
    {".theia", "tasks and settings of an editor"},
    {".helix", "settings of an editor, which name the programs that it starts"},
    {".lapce", "settings of an editor, which name the programs that it starts"},
    {".settings", "settings of an editor (Eclipse)"},
    {".project", "builders that an editor runs (Eclipse)"},
    {".ycm_extra_conf.py", "an editor's completion runs it"},
    {".neoconf.json", "settings of an editor, which name the programs that it starts"},
    {".devcontainer", "names commands that an editor runs on the host"},
    {".devcontainer.json", "names commands that an editor runs on the host"},
    {".dir-locals.el", "Emacs evaluates it"},
    {".dir-locals-2.el", "Emacs evaluates it"},
    {".exrc", "Vim runs it where exrc is set"},
    {".vimrc", "Vim runs it where exrc is set"},
    {".nvimrc", "Neovim runs it where exrc is set"},
    {".nvim.lua", "Neovim runs it where exrc is set"},
    {".gdbinit", "GDB runs it when it is started here"},
    {".lldbinit", "LLDB runs it when it is started here"},
    {".pdbrc", "Python's debugger runs it when it is started here"},
    {".Rprofile", "R runs it when it is started here"},
    {".Renviron", "R sets its environment by it when it is started here"},
    {".ghci", "GHCi runs it when it is started here"},
    {".ocamlinit", "OCaml runs it when it is started here"},
    {".irbrc", "irb runs it when it is started here"},
    {".pryrc", "pry runs it when it is started here"},
    {".psysh.php", "PsySH runs it when it is started here"},
    // coding agents
    {"AGENTS.md", "instructions that a coding agent follows unseen"},
    {"AGENTS.override.md", "instructions that a coding agent follows unseen"},
    {"AGENT.md", "instructions that a coding agent follows unseen"},
    {"CLAUDE.md", "instructions that a coding agent follows unseen"},
    {"CLAUDE.local.md", "instructions that a coding agent follows unseen"},
    {"GEMINI.md", "instructions that a coding agent follows unseen"},
    {"QWEN.md", "instructions that a coding agent follows unseen"},
    {"CRUSH.md", "instructions that a coding agent follows unseen"},
    {".github/copilot-instructions.md", "instructions that a coding agent follows unseen"},
    {".github/instructions", "instructions that a coding agent follows unseen"},
    {".agents", "settings and skills of a coding agent"},
    {".claude", "hooks, permissions and commands of a coding agent"},
    {".mcp.json", "names programs that coding agents start"},
    {".cursor", "rules, hooks and servers of a coding agent"},
    {".cursorrules", "instructions that a coding agent follows unseen"},
    {".windsurf", "rules and settings of a coding agent"},
    {".windsurfrules", "instructions that a coding agent follows unseen"},
    {".codex", "settings of a coding agent"},
    {".gemini", "settings of a coding agent"},
    {".continue", "settings of a coding agent"},
    {".roo", "settings of a coding agent"},
    {".roorules", "instructions that a coding agent follows unseen"},
    {".clinerules", "instructions that a coding agent follows unseen"},
    {".goosehints", "instructions that a coding agent follows unseen"},
    {".rules", "instructions that a coding agent follows unseen"},
    {".junie", "instructions and settings of a coding agent"},
    {".augment", "instructions and settings of a coding agent"},
    {".trae", "instructions and settings of a coding agent"},
    {".qwen", "settings of a coding agent"},
    {".crush.json", "settings of a coding agent"},
    {"crush.json", "settings of a coding agent"},
    {".kiro", "settings of a coding agent"},
    {".amazonq", "settings of a coding agent"},
    {".opencode", "settings of a coding agent"},
    {"opencode.json", "settings of a coding agent"},
    {"opencode.jsonc", "settings of a coding agent"},
    {".aider.conf.yml", "names commands that a coding agent runs"},
    // package managers: settings that redirect them, or that they run
    {".npmrc", "npm takes registries, tokens and the script shell from it"},
    {".pnpmfile.cjs", "pnpm runs it"},
    {".yarnrc", "Yarn runs the program named in it"},
    {".yarnrc.yml", "Yarn runs the program and plug-ins named in it"},
    {".yarn/releases", "Yarn runs the release that lies here in its own place"},
    {".yarn/plugins", "Yarn runs plug-ins that lie here"},
    {"bunfig.toml", "Bun loads files named in it"},
    {".cargo/config.toml", "Cargo runs wrappers and linkers named in it"},
    {".cargo/config", "Cargo runs wrappers and linkers named in it"},
    {".bundle/config", "Bundler takes sources and settings from it"},
    // ourselves
    {".sbx", "policies of sbx"},
    {"sbx.toml", "policy of sbx"},
};

constexpr SensitivePlace kGitPlaces[] = {
    {"config", "Git runs commands named in it"},
    {"config.worktree", "Git runs commands named in it"},
    {"hooks", "Git runs what lies here"},
    {"commondir", "Git takes configuration and hooks from where this points"},
    {"gitdir", "Git takes this for the place of a work tree"},
    {"worktrees", "steers where Git takes the configuration of other work trees from"},
    {"rebase-merge", "holds commands that the next 'git rebase --continue' runs"},
};

// Mounts a sandbox may get for protection; a directory with more repositories than this is no project.
constexpr size_t kMaxOps = 2000;
constexpr size_t kMaxGitDirectories = 10000;
constexpr size_t kSweepScan = 1000000;
constexpr size_t kSweepDepth = 1000000;
constexpr size_t kMaxListed = 100;
constexpr mode_t kSetId = S_ISUID | S_ISGID;
constexpr const char* kSuffix = ".sbx-untrusted";
constexpr long kFchmodat2 = 452;  // Linux 6.6, the same number on all architectures

std::string shown(const std::string& path) { return "'" + printable(path) + "'"; }

std::string below(const std::string& directory, const std::string& name) {
  return directory.empty() ? name : directory + "/" + name;
}

// File systems that ignore case reach .git by .GIT too.
bool is_git_name(const std::string& name) {
  return name.size() == 4 && name[0] == '.' && (name[1] | 0x20) == 'g' && (name[2] | 0x20) == 'i' &&
         (name[3] | 0x20) == 't';
}

// What Git takes for a repository whatever its name: gitrepository-layout(5). With a commondir, objects and refs are
// looked for there.
bool is_git_directory(std::span<const std::string> sorted_names) {
  auto has = [&](const char* name) {
    return std::binary_search(sorted_names.begin(), sorted_names.end(), std::string(name));
  };
  return has("HEAD") && ((has("objects") && has("refs")) || has("commondir"));
}

struct Found {
  enum class Kind { absent, present, link } kind = Kind::absent;
  std::string path;  // the whole path, or, for a link, the part of it up to the link
  struct stat info {};
};

// Looks for a relative path without following links; stops at the first link.
Found look(int dirfd, const std::string& path) {
  Found found;
  UniqueFd current;
  int at = dirfd;
  for (size_t begin = 0;;) {
    const size_t end = path.find('/', begin);
    const bool last = end == std::string::npos;
    const std::string name = path.substr(begin, last ? std::string::npos : end - begin);
    if (::fstatat(at, name.c_str(), &found.info, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) != 0) return found;
    if (S_ISLNK(found.info.st_mode)) {
      found.kind = Found::Kind::link;
      found.path = path.substr(0, end);
      return found;
    }
    if (last) {
      found.kind = Found::Kind::present;
      found.path = path;
      return found;
    }
    Result<UniqueFd> next = open_beneath(at, name, O_PATH | O_DIRECTORY);
    if (!next.ok()) return found;
    current = next.take();
    at = current.get();
    begin = end + 1;
  }
}

// Where `path` leads through links, as a path relative to dirfd; "" when it leads out or to nothing.
std::string resolve_inside(int dirfd, const std::string& path) {
  Result<UniqueFd> fd =
      sys::openat2(dirfd, path, O_PATH, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV);
  Result<UniqueFd> root = sys::openat(dirfd, ".", O_PATH | O_DIRECTORY);
  if (!fd.ok() || !root.ok()) return "";
  Result<std::string> full = sys::readlink("/proc/self/fd/" + std::to_string(fd.value().get()));
  Result<std::string> base = sys::readlink("/proc/self/fd/" + std::to_string(root.value().get()));
  if (!full.ok() || !base.ok()) return "";
  const std::string prefix = base.value() == "/" ? "/" : base.value() + "/";
  if (!starts_with(full.value(), prefix)) return "";
  const std::string relative = full.value().substr(prefix.size());
  // The name is only a hint of the kernel's ("… (deleted)"): it counts when it leads to the same thing without links.
  const Found found = look(dirfd, relative);
  struct stat info {};
  if (found.kind != Found::Kind::present || ::fstat(fd.value().get(), &info) != 0 ||
      info.st_ino != found.info.st_ino || info.st_dev != found.info.st_dev) {
    return "";
  }
  return relative;
}

std::vector<std::string> ancestors(const std::string& path) {
  std::vector<std::string> result;
  for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    result.push_back(path.substr(0, slash));
  }
  return result;
}

bool covered(const std::set<std::string>& paths, const std::string& path) {
  if (paths.count(path) != 0) return true;
  for (const std::string& ancestor : ancestors(path)) {
    if (paths.count(ancestor) != 0) return true;
  }
  return false;
}

// What a walk finds of Git: directories that act as one, and .git files and links.
struct GitFinds {
  std::set<std::string> directories;  // "" is the workspace itself
  std::set<std::string> pointers;     // .git that is not a directory
  bool too_many = false;

  void see(const WalkEntry& entry) {
    if (!is_git_name(entry.name)) return;
    add(S_ISDIR(entry.info.st_mode) ? directories : pointers, entry.path());
  }
  void see(const std::string& path, std::span<const std::string> names) {
    if (is_git_directory(names)) add(directories, path);
  }
  void add(std::set<std::string>& set, const std::string& path) {
    if (directories.size() + pointers.size() >= kMaxGitDirectories) {
      too_many = true;
    } else {
      set.insert(path);
    }
  }
};

class Guarding {
 public:
  Guarding(int dirfd, WorkspaceGuard& guard) : dirfd_(dirfd), guard_(guard) {}

  // Protects what is at `path` now, if anything.
  void protect(const std::string& path) {
    const Found found = look(dirfd_, path);
    switch (found.kind) {
      case Found::Kind::absent: return;
      case Found::Kind::present: guard_.protected_paths.insert(path); return;
      case Found::Kind::link: break;
    }
    // A bind mount would follow the link. What it leads to is protected instead; the link itself is compared after
    // the run.
    WorkspaceGuard::Link link{stamp_of(found.info), resolve_inside(dirfd_, path)};
    if (!link.resolved.empty()) {
      guard_.protected_paths.insert(link.resolved);
    } else {
      guard_.notes.push_back(shown(found.path) + " is a link that leads out of the workspace or to nothing: it is not "
                             "followed, and put aside after the run if the run replaces it");
    }
    guard_.links[path] = link;
    // The link's own place too: several sensitive paths may go through one link.
    guard_.links.try_emplace(found.path, WorkspaceGuard::Link{link.stamp, ""});
  }

 private:
  int dirfd_;
  WorkspaceGuard& guard_;
};

Status make_ops(const std::string& target, const std::set<std::string>& pinned, WorkspaceGuard& guard) {
  std::map<std::string, bool> places;  // path → read-only; a path sorts after its ancestors
  for (const std::string& path : guard.protected_paths) {
    places[path] = true;
    for (const std::string& ancestor : ancestors(path)) places.try_emplace(ancestor, false);
  }
  for (const std::string& path : pinned) {
    places.try_emplace(path, false);
    for (const std::string& ancestor : ancestors(path)) places.try_emplace(ancestor, false);
  }
  for (const auto& [path, read_only] : places) {
    bool inside_read_only = false;
    for (const std::string& ancestor : ancestors(path)) {
      inside_read_only = inside_read_only || guard.protected_paths.count(ancestor) != 0;
    }
    if (inside_read_only) continue;
    if (guard.ops.size() >= kMaxOps) {
      return Error(ErrorKind::resource, "the workspace holds more than " + std::to_string(kMaxOps) +
                                            " places that the host trusts (Git repositories mostly)")
          .with_hint("share a directory further down, use ':overlay', or give --allow-sensitive-write");
    }
    const std::string inside = join_path(target, path);
    if (read_only) {
      guard.ops.push_back(ReadOnlyOp{inside});
    } else {
      guard.ops.push_back(PinOp{inside});
    }
  }
  return {};
}

// ---- after the run -------------------------------------------------------------------------------------------

class Sweep {
 public:
  Sweep(int dirfd, const WorkspaceGuard& guard) : dirfd_(dirfd), guard_(guard) {}

  Result<SweepReport> run() {
    GitFinds git;
    WalkVisitor visitor;
    visitor.entry = [&](const WalkEntry& entry) {
      if ((entry.info.st_mode & kSetId) != 0) consider_strip(entry);
      if (guard_.sensitive) git.see(entry);
      return true;
    };
    if (guard_.sensitive) {
      visitor.entered = [&](int, const std::string& path, std::span<const std::string> names) { git.see(path, names); };
    }
    const WalkLimits limits{kSweepScan, kSweepDepth};
    const WalkReport walk = SBX_TRY(walk_tree(dirfd_, limits, visitor));
    if (report_.stripped_count > 0) {
      report_.notes.push_back("set-id bits taken from " + std::to_string(report_.stripped_count) +
                              " files or directories that the run made or changed, the first " +
                              shown(report_.stripped.front()));
    }
    if (!guard_.sensitive) return finish(walk, limits);

    // Longest paths first: what lies inside of something that is going to be renamed must be found before.
    std::set<std::string> candidates = git.pointers;
    for (const std::string& directory : git.directories) {
      for (const SensitivePlace& place : kGitPlaces) candidates.insert(below(directory, place.path));
    }
    for (const SensitivePlace& place : kPlaces) candidates.insert(place.path);
    for (const auto& [path, link] : guard_.links) candidates.insert(path);
    for (auto path = candidates.rbegin(); path != candidates.rend(); ++path) check(*path);
    if (git.too_many) fail("more than " + std::to_string(kMaxGitDirectories) + " Git directories: the rest was not looked at");
    return finish(walk, limits);
  }

 private:
  Result<SweepReport> finish(const WalkReport& walk, const WalkLimits& limits) {
    for (std::string& sentence : walk.sentences(limits)) fail("not checked after the run: " + sentence);
    return std::move(report_);
  }

  void fail(std::string sentence) {
    report_.complete = false;
    report_.notes.push_back(std::move(sentence));
  }

  // Did the run make or change this? By the stamp where there is one; elsewhere by the time of the last change, which
  // no program can set.
  bool changed(const std::string& path, size_t depth, const struct stat& info) const {
    const FileStamp stamp = stamp_of(info);
    if (!guard_.before_complete || depth > guard_.before_depth) return stamp.ctime_ns >= guard_.started_ns;
    const auto known = guard_.before.find(path);
    return known == guard_.before.end() || !(known->second == stamp);
  }

  void consider_strip(const WalkEntry& entry) {
    const bool directory = S_ISDIR(entry.info.st_mode);
    if (!directory && !S_ISREG(entry.info.st_mode)) return;
    const std::string path = entry.path();
    if (!changed(path, entry.depth, entry.info)) return;
    if (directory) {
      // A set-gid directory hands its group to new ones by itself: that is how people share projects, and gives no
      // rights to anybody. A directory that was there changes whenever a file is made in it.
      const auto known = guard_.before.find(path);
      const bool same = known != guard_.before.end() && known->second.inode == entry.info.st_ino;
      const bool inherited = (entry.info.st_mode & kSetId) == S_ISGID && (entry.parent.st_mode & S_ISGID) != 0;
      if (same || inherited || !guard_.before_complete) return;
    }
    if (!strip(entry)) {
      fail("the set-id bits of " + shown(path) + " could not be taken away: " + errno_text(errno));
      return;
    }
    if (report_.stripped_count++ < kMaxListed) report_.stripped.push_back(path);
  }

  // Through an O_PATH descriptor: needs no right to read the file, opens no device, and cannot hit another file.
  static bool strip(const WalkEntry& entry) {
    Result<UniqueFd> fd = open_beneath(entry.parent_fd, entry.name, O_PATH);
    struct stat info {};
    if (!fd.ok()) {
      errno = fd.error().errnum();
      return false;
    }
    if (::fstat(fd.value().get(), &info) != 0) return false;
    if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) return true;  // replaced meanwhile by something harmless
    const mode_t mode = info.st_mode & static_cast<mode_t>(07777) & ~kSetId;
    if (::syscall(kFchmodat2, fd.value().get(), "", mode, AT_EMPTY_PATH) == 0) return true;
    if (errno != ENOSYS) return false;
    return ::chmod(("/proc/self/fd/" + std::to_string(fd.value().get())).c_str(), mode) == 0;
  }

  static size_t depth_of(const std::string& path) {
    return 1 + static_cast<size_t>(std::count(path.begin(), path.end(), '/'));
  }

  // A directory is changed when anything in it is.
  bool changed_tree(const std::string& path, const struct stat& info) const {
    if (changed(path, depth_of(path), info)) return true;
    if (!S_ISDIR(info.st_mode)) return false;
    Result<UniqueFd> fd = open_beneath(dirfd_, path, O_PATH | O_DIRECTORY);
    if (!fd.ok()) return true;
    bool found = false;
    WalkVisitor visitor;
    visitor.entry = [&](const WalkEntry& entry) {
      found = found || changed(below(path, entry.path()), depth_of(path) + entry.depth, entry.info);
      return !found;
    };
    const Result<WalkReport> walk = walk_tree(fd.value().get(), WalkLimits{}, visitor);
    return found || !walk.ok() || !walk.value().complete();
  }

  void check(const std::string& path) {
    if (covered(guard_.protected_paths, path)) return;
    const Found found = look(dirfd_, path);
    switch (found.kind) {
      case Found::Kind::absent: return;
      case Found::Kind::present:
        if (changed_tree(path, found.info)) put_aside(path);
        return;
      case Found::Kind::link: break;
    }
    const auto known = guard_.links.find(found.path);
    const bool same_link = known != guard_.links.end() && known->second.stamp == stamp_of(found.info);
    if (!same_link) {
      if (changed(found.path, depth_of(found.path), found.info)) put_aside(found.path);
      return;
    }
    // A Git directory is told by what it holds, wherever it lies, and its places are candidates of their own.
    if (is_git_name(base_name(path))) return;
    // The user's own link. Does it lead to something that the run made?
    const std::string resolved = resolve_inside(dirfd_, path);
    if (resolved.empty() || covered(guard_.protected_paths, resolved)) return;
    const Found there = look(dirfd_, resolved);
    if (there.kind == Found::Kind::present && changed_tree(resolved, there.info)) put_aside(resolved);
  }

  void put_aside(const std::string& path) {
    const size_t slash = path.rfind('/');
    const std::string parent = slash == std::string::npos ? "" : path.substr(0, slash);
    const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
    Result<UniqueFd> directory = parent.empty() ? sys::openat(dirfd_, ".", O_PATH | O_DIRECTORY)
                                                : open_beneath(dirfd_, parent, O_PATH | O_DIRECTORY);
    int cause = directory.ok() ? EEXIST : directory.error().errnum();
    for (unsigned number = 0; cause == EEXIST && number < 10000; ++number) {
      const std::string other = name + kSuffix + (number == 0 ? "" : "-" + std::to_string(number));
      cause = rename_without_replacing(directory.value().get(), name, other);
      if (cause != 0) continue;
      report_.renamed.emplace_back(path, below(parent, other));
      if (report_.renamed.size() <= kMaxListed) {
        report_.notes.push_back("the run made or changed " + shown(path) + ", which the host trusts (" + reason(path) +
                                "): it is called " + shown(other) + " now");
      }
      return;
    }
    if (cause == ENOENT) return;
    fail("the run made or changed " + shown(path) + ", which the host trusts (" + reason(path) +
         "), and it could not be renamed: " + errno_text(cause) + "; remove it before you use the directory");
  }

  static int rename_without_replacing(int directory, const std::string& from, const std::string& to) {
    if (::renameat2(directory, from.c_str(), directory, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS) return errno;
    // Some file systems (NFS, older FUSE) know no flags.
    struct stat info {};
    if (::fstatat(directory, to.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0) return EEXIST;
    return ::renameat(directory, from.c_str(), directory, to.c_str()) == 0 ? 0 : errno;
  }

  static std::string reason(const std::string& path) {
    for (const SensitivePlace& place : kPlaces) {
      if (path == place.path) return place.reason;
    }
    const size_t slash = path.rfind('/');
    const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
    if (is_git_name(name)) return "Git takes configuration and hooks from where it points";
    for (const SensitivePlace& place : kGitPlaces) {
      if (name == place.path) return place.reason;
    }
    return "a link at such a place leads to it";
  }

  int dirfd_;
  const WorkspaceGuard& guard_;
  SweepReport report_;
};

}  // namespace

std::span<const SensitivePlace> sensitive_places() { return kPlaces; }
std::span<const SensitivePlace> sensitive_git_places() { return kGitPlaces; }

Result<WorkspaceGuard> guard_workspace(int dirfd, const std::string& target, bool sensitive,
                                       const ArtifactBounds& bounds) {
  WorkspaceGuard guard;
  guard.sensitive = sensitive;
  guard.before_depth = bounds.max_depth;
  struct timespec now {};
  if (::clock_gettime(CLOCK_REALTIME_COARSE, &now) != 0) return Error::from_errno(errno, "read the clock");
  guard.started_ns = int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;

  GitFinds git;
  WalkVisitor visitor;
  visitor.entry = [&](const WalkEntry& entry) {
    guard.before.emplace(entry.path(), stamp_of(entry.info));
    if (sensitive) git.see(entry);
    return true;
  };
  if (sensitive) {
    visitor.entered = [&](int, const std::string& path, std::span<const std::string> names) { git.see(path, names); };
  }
  const WalkLimits limits{bounds.max_scan, bounds.max_depth};
  const WalkReport walk = SBX_TRY(walk_tree(dirfd, limits, visitor));
  if (walk.scan_limit_hit) {
    guard.before.clear();
    guard.before_complete = false;
    guard.notes.push_back("the workspace holds more than " + std::to_string(bounds.max_scan) +
                          " entries: what the run changes is told by time stamps" +
                          (sensitive ? ", and Git repositories far inside are not protected during the run" : ""));
  }
  if (!sensitive) return guard;

  if (git.too_many) {
    return Error(ErrorKind::resource, "the workspace holds more than " + std::to_string(kMaxGitDirectories) +
                                          " Git directories")
        .with_hint("share a directory further down, use ':overlay', or give --allow-sensitive-write");
  }
  // The walk may have ended early: the repository of the workspace itself is always looked at.
  if (const Found own = look(dirfd, ".git"); own.kind == Found::Kind::present) {
    (S_ISDIR(own.info.st_mode) ? git.directories : git.pointers).insert(".git");
  }
  Guarding guarding(dirfd, guard);
  std::set<std::string> pinned;
  for (const std::string& path : git.pointers) {
    const Found found = look(dirfd, path);
    if (found.kind == Found::Kind::link) {
      // A .git that is a link into the workspace: what it leads to is the Git directory, and stays writable in the
      // same way.
      const std::string resolved = resolve_inside(dirfd, path);
      guard.links[path] = WorkspaceGuard::Link{stamp_of(found.info), resolved};
      if (!resolved.empty()) git.directories.insert(resolved);
    } else {
      guarding.protect(path);
    }
  }
  for (const std::string& directory : git.directories) {
    if (!directory.empty()) pinned.insert(directory);
    for (const SensitivePlace& place : kGitPlaces) guarding.protect(below(directory, place.path));
  }
  for (const SensitivePlace& place : kPlaces) guarding.protect(place.path);
  SBX_TRY(make_ops(target, pinned, guard));
  return guard;
}

Result<SweepReport> sweep_workspace(int dirfd, const WorkspaceGuard& guard) { return Sweep(dirfd, guard).run(); }

}  // namespace sbx::runtime
