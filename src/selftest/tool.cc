#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "base/sys.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "selftest/inside.h"
#include "selftest/way.h"

namespace sbx::selftest {
namespace {

constexpr int kMilliseconds = 20000;  // of one tool and one probe
constexpr char kSafePath[] = "/usr/local/bin:/usr/bin:/bin";
constexpr char kInsideProgram[] = "/tmp/sbx-selftest";

struct Finished {
  std::string out, err;
  int status = -1;
  bool late = false;
};

// Where packages put programs, then the caller's own PATH: what is found runs as an ordinary user, never as root.
std::string find_in_path(const std::string& name) {
  const char* const own = std::getenv("PATH");
  for (const std::string& directory : split(std::string(kSafePath) + ":" + (own != nullptr ? own : ""), ':')) {
    if (!starts_with(directory, "/")) continue;
    const std::string path = directory + "/" + name;
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

[[noreturn]] void become_and_exec(const std::vector<std::string>& words, const ToolUser& user, int out, int err) {
  // A session of its own: nothing reaches our terminal, and one signal ends what it starts.
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int null = ::open("/dev/null", O_RDONLY);
  if (null < 0 || ::dup2(null, 0) < 0 || ::dup2(out, 1) < 0 || ::dup2(err, 2) < 0 || ::chdir("/") != 0) ::_exit(125);
  if (user.switch_to && (::setgroups(0, nullptr) != 0 || ::setresgid(user.gid, user.gid, user.gid) != 0 ||
                         ::setresuid(user.uid, user.uid, user.uid) != 0)) {
    (void)sys::write_all(2, "cannot become the user " + user.name + ": " + errno_text(errno) + "\n");
    ::_exit(125);
  }
  // Nothing may run as root here, whatever went wrong before.
  if (::geteuid() == 0 || ::getuid() == 0) ::_exit(125);
  ::setenv("HOME", user.home.c_str(), 1);
  ::setenv("USER", user.name.c_str(), 1);
  ::setenv("LOGNAME", user.name.c_str(), 1);
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

// Both streams to their end, bounded; what is too much is read and forgotten.
void read_both(UniqueFd& out, UniqueFd& err, Finished& finished) {
  const uint64_t end = sys::monotonic_ns() + uint64_t{kMilliseconds} * 1000000;
  UniqueFd* const streams[] = {&out, &err};
  std::string* const texts[] = {&finished.out, &finished.err};
  while (out.valid() || err.valid()) {
    const uint64_t now = sys::monotonic_ns();
    if (now >= end) {
      finished.late = true;
      return;
    }
    pollfd polled[2] = {{out.get(), POLLIN, 0}, {err.get(), POLLIN, 0}};
    const int ready = ::poll(polled, 2, static_cast<int>((end - now) / 1000000) + 1);
    if (ready < 0 && errno != EINTR) return;
    if (ready <= 0) continue;
    for (size_t i = 0; i < 2; ++i) {
      if (polled[i].revents == 0) continue;
      char buffer[4096];
      const Result<size_t> got = sys::read(streams[i]->get(), buffer, sizeof buffer);
      if (!got.ok() || got.value() == 0) {
        streams[i]->reset();
      } else if (texts[i]->size() <= kReportLimit) {
        texts[i]->append(buffer, got.value());
      }
    }
  }
}

Result<Finished> run_words(const std::vector<std::string>& words, const ToolUser& user) {
  sys::Pipe out = SBX_TRY(sys::pipe());
  sys::Pipe err = SBX_TRY(sys::pipe());
  const pid_t pid = ::fork();
  if (pid < 0) return Error::from_errno(errno, "start '" + words[0] + "'");
  if (pid == 0) become_and_exec(words, user, out.write.get(), err.write.get());
  out.write.reset();
  err.write.reset();
  Finished finished;
  read_both(out.read, err.read, finished);
  // What it has left behind in its session goes with it.
  ::kill(-pid, SIGKILL);
  if (finished.late) ::kill(pid, SIGKILL);
  while (::waitpid(pid, &finished.status, 0) < 0 && errno == EINTR) {
  }
  return finished;
}

std::vector<std::string> strict_words(const std::string& name, const std::string& path, const std::string& program, const ToolUser& user) {
  const std::string uid = std::to_string(user.uid);
  const std::string gid = std::to_string(user.gid);
  if (name == "bwrap") {
    return {path, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin",
            "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
            "--ro-bind", "/etc", "/etc", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind", program, kInsideProgram, "--"};
  }
  if (name == "nsjail") {
    return {path, "-Mo", "-Q", "--user", uid, "--group", gid, "--time_limit", "15", "-R", "/usr", "-R", "/etc", "-T", "/tmp",
            "-R", program + ":" + kInsideProgram, "--"};
  }
  if (name == "firejail") {
    return {path, "--quiet", "--net=none", "--private", "--private-dev", "--whitelist=" + dir_name(program), "--ipc-namespace", "--caps.drop=all",
            "--nonewprivs", "--noroot", "--seccomp", "--restrict-namespaces", "--nodbus", "--"};
  }
  return {};
}

}  // namespace

std::vector<std::string> tool_names() { return {"bwrap", "nsjail", "firejail", "none"}; }

Tool find_tool(const std::string& name, const std::string& program, const ToolUser& user) {
  Tool tool;
  tool.name = name;
  if (name == "none") return tool;
  tool.path = find_in_path(name);
  if (tool.path.empty()) {
    tool.absent = name + " is not installed";
    return tool;
  }
  // sbx answers to these names as well, where it was linked so.
  const Result<struct stat> ours = sys::stat("/proc/self/exe");
  const Result<struct stat> theirs = sys::stat(tool.path);
  if (ours.ok() && theirs.ok() && ours.value().st_dev == theirs.value().st_dev && ours.value().st_ino == theirs.value().st_ino) {
    tool.absent = tool.path + " is sbx itself";
    return tool;
  }
  tool.words = strict_words(name, tool.path, program, user);
  if (name == "nsjail") return tool;  // it has no way to tell its version
  if (Result<Finished> told = run_words({tool.path, "--version"}, user); told.ok()) {
    tool.version = printable(split(told.value().out.empty() ? told.value().err : told.value().out, '\n')[0], 60);
  }
  return tool;
}

Seen run_in_tool(const Tool& tool, const std::string& program, const ToolUser& user, const Probe& probe, const Bait& bait) {
  Seen seen;
  std::vector<std::string> words = tool.words;
  // These two show it at another place than its own.
  words.push_back(tool.name == "bwrap" || tool.name == "nsjail" ? kInsideProgram : program);
  words.insert(words.end(), {kInsideWord, probe.name, bait_word(bait)});
  Result<Finished> done = run_words(words, user);
  if (!done.ok()) {
    seen.problem = done.error().text();
    return seen;
  }
  const Finished& finished = done.value();
  Result<std::vector<Answer>> answers = read_report(finished.out, probe.tries.size());
  if (finished.late) {
    seen.problem = "it did not end within " + std::to_string(kMilliseconds / 1000) + " seconds";
  } else if (!answers.ok()) {
    seen.problem = answers.error().text();
  } else if (finished.out.empty()) {
    seen.problem = "it runs nothing here: " + printable(trim(finished.err.substr(0, 200)));
  } else {
    seen.answers = answers.take();
  }
  return seen;
}

}  // namespace sbx::selftest
