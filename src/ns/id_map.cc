#include "ns/id_map.h"

#include <linux/sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/raw_sys.h"
#include "base/sys.h"

namespace sbx::ns {
namespace {

Status write_map(int proc_dir, const char* file, const std::string& text) {
  const UniqueFd fd = SBX_TRY(sys::openat(proc_dir, file, O_WRONLY));
  SBX_TRY_CTX(sys::write_all(fd.get(), text), std::string("writing ") + file);
  return {};
}

std::string line(uint32_t inside, uint32_t outside) {
  return std::to_string(inside) + " " + std::to_string(outside) + " 1\n";
}

}  // namespace

Status write_id_maps(pid_t pid, const IdPair& pair, bool unprivileged) {
  // In a pid namespace without a /proc of its own, our numbers are other people's there.
  Result<std::string> self = sys::readlink("/proc/self");
  if (!self.ok() && self.error().errnum() != ENOENT) return self.take_error();
  if (!self.ok() || self.value() != std::to_string(::getpid())) {
    return Error(ErrorKind::unsupported, self.ok() ? "the /proc mounted here belongs to another pid namespace"
                                                   : "no /proc is mounted here")
        .with_hint("mount one: mount -t proc proc /proc");
  }
  const UniqueFd proc = SBX_TRY(sys::open("/proc/" + std::to_string(pid), O_PATH | O_DIRECTORY));
  SBX_TRY(write_map(proc.get(), "uid_map", line(pair.inside_uid, pair.outside_uid)));
  // Since CVE-2014-8989 gid_map is EPERM for an unprivileged writer before setgroups is closed.
  if (unprivileged) SBX_TRY(write_map(proc.get(), "setgroups", "deny"));
  return write_map(proc.get(), "gid_map", line(pair.inside_gid, pair.outside_gid));
}

Result<UniqueFd> make_map_namespace(const IdPair& pair) {
  sys::Pipe hold = SBX_TRY(sys::pipe());
  clone_args args{};
  args.flags = CLONE_NEWUSER;
  args.exit_signal = SIGCHLD;
  const long pid = raw::call(SYS_clone3, &args, sizeof args);
  if (pid < 0) return Error::from_errno(static_cast<int>(-pid), "create a user namespace for an idmapped mount");
  if (pid == 0) {
    raw::call(SYS_close, hold.write.get());
    char byte;
    raw::call(SYS_read, hold.read.get(), &byte, 1);
    for (;;) raw::call(SYS_exit_group, 0);
  }
  Status mapped = write_id_maps(static_cast<pid_t>(pid), pair, false);
  Result<UniqueFd> fd = sys::open("/proc/" + std::to_string(pid) + "/ns/user", O_RDONLY);
  hold.write.reset();
  int status = 0;
  while (::waitpid(static_cast<pid_t>(pid), &status, 0) < 0 && errno == EINTR) {
  }
  if (!mapped.ok()) return mapped.take_error();
  return fd;
}

}  // namespace sbx::ns
