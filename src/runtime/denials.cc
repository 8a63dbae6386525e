#include "runtime/denials.h"

#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/sys.h"
#include "base/text.h"
#include "seccomp/syscall_numbers.h"

namespace sbx::runtime {
namespace {

constexpr int kMaxAtOnce = 32;
constexpr uint64_t kFreeAnswers = 10000;

// Name and inside pid of a process, from its status file.
void describe(std::string_view status, Denial& denial) {
  for (const std::string& line : split(status, '\n')) {
    if (starts_with(line, "Name:\t")) denial.process = line.substr(6);
    if (starts_with(line, "NSpid:")) {
      const size_t last = line.find_last_of("\t ");
      if (last != std::string::npos) denial.pid = static_cast<int>(std::strtol(line.c_str() + last + 1, nullptr, 10));
    }
  }
}

}  // namespace

void DenialLog::note(const seccomp_data& call, const std::function<std::string()>& status) {
  std::string name(seccomp::syscall_name(static_cast<unsigned>(call.nr), seccomp::native_arch()));
  if (name.empty()) name = "call " + std::to_string(call.nr);
  const auto known = std::find_if(denials_.begin(), denials_.end(), [&](const Denial& denial) { return denial.call == name; });
  if (known != denials_.end()) {
    ++known->count;
  } else if (denials_.size() < kMaxDistinct) {
    Denial denial;
    denial.call = name;
    std::copy(std::begin(call.args), std::end(call.args), std::begin(denial.arguments));
    denial.count = 1;
    describe(status(), denial);
    denials_.push_back(std::move(denial));
  } else {
    overflowed_ = true;
  }
}

bool DenialLog::answer_one() {
  seccomp_notif notification{};
  if (::ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_RECV, &notification) != 0) return false;
  note(notification.data, [&] {
    Result<std::string> status = read_file("/proc/" + std::to_string(notification.pid) + "/status", 8192);
    return status.ok() ? status.take() : std::string();
  });
  seccomp_notif_resp response{};
  response.id = notification.id;
  response.error = -EPERM;
  for (;;) {
    if (::ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_SEND, &response) == 0) return true;
    // ENOENT: a signal ended the call meanwhile; nothing is left to answer.
    if (errno != EINTR) return errno == ENOENT;
  }
}

DenialLog::Next DenialLog::on_ready() {
  for (int i = 0; i < kMaxAtOnce; ++i) {
    pollfd ready{listener_.get(), POLLIN, 0};
    if (::poll(&ready, 1, 0) <= 0) return Next::ready;
    if ((ready.revents & POLLIN) == 0) return Next::gone;
    if (!answer_one() && errno != EINTR && errno != ENOENT) return Next::gone;
    // Counted over the calls of this function: a single thread that floods has one call waiting each time.
    if (++answered_ > kFreeAnswers && answered_ % kMaxAtOnce == 0) return Next::tired;
  }
  return Next::ready;
}

}  // namespace sbx::runtime
