#include "selftest/inside.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/sys.h"
#include "selftest/answer.h"
#include "selftest/probe.h"

namespace sbx::selftest {
namespace {

constexpr unsigned kSeconds = 8;  // one try; far more than any needs

// In a process of its own: a try may be killed by a filter, and changes what it works on.
Answer in_child(const Try& attempt, const Bait& bait) {
  Result<sys::Pipe> pipe = sys::pipe();
  if (!pipe.ok()) return {Answer::Kind::untried, 0};
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(kSeconds);
    const long returned = attempt.make(bait);
    (void)sys::write(pipe.value().write.get(), &returned, sizeof returned);
    ::_exit(0);
  }
  // A policy under which nothing can be started: the try is made here, and its death is the whole report's end.
  if (pid < 0) return errno == EPERM || errno == ENOSYS ? answer_of(attempt.make(bait)) : Answer{Answer::Kind::untried, 0};
  pipe.value().write.reset();
  long returned = kUntried;
  const Result<size_t> got = sys::read(pipe.value().read.get(), &returned, sizeof returned);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) return {Answer::Kind::untried, 0};
  if (WIFSIGNALED(status)) return {Answer::Kind::signaled, WTERMSIG(status)};
  return got.ok() && got.value() == sizeof returned ? answer_of(returned) : Answer{Answer::Kind::untried, 0};
}

}  // namespace

Status run_inside(std::span<const std::string> words, int report_fd) {
  const Probe* probe = words.size() == 2 ? find_probe(words[0]) : nullptr;
  if (probe == nullptr) return Error(ErrorKind::usage, "this word is for sbx selftest alone");
  const Bait bait = SBX_TRY(read_bait(words[1]));
  // Inside, nobody is root: whoever is may be the host's.
  if (::geteuid() == 0) {
    return Error(ErrorKind::permission, "an attack is not tried as root").with_hint("sbx selftest tries them all, in sandboxes");
  }
  SBX_TRY(sys::write_all(report_fd, report_head()));
  for (size_t i = 0; i < probe->tries.size(); ++i) {
    SBX_TRY(sys::write_all(report_fd, report_line(i, in_child(probe->tries[i], bait))));
  }
  return sys::write_all(report_fd, report_end());
}

}  // namespace sbx::selftest
